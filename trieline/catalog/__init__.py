"""The items of an index, durable: what each one is, and the docids it owns.

SQLite with a write-ahead log: readers in other threads and processes go on during a write and see
the state before it; a change is durable once its call returns, and a crash undoes it whole.

Trap: while a catalog is open, its last changes may be in ``catalog.sqlite-wal``: copy it with
``copy_to``, or close it first, which folds them in. Write-ahead logs need a local disk. Where
nothing can be written, a catalog that was closed properly opens read-only, and is taken not to
change: nobody else may write to it meanwhile.

Tables (``application_id`` 0x74726C6E, "trln"; ``user_version`` 2):

    meta     key, value     sizes (JSON), fingerprints (JSON), revision, next (number), count, base
    items    number, id, title, image, modality, metadata (JSON), text; NULL for an Item's default
    docids   number, codes  the item's rows one after another, [rows, L] little-endian uint16
    changes  revision, first, removed  what led to each revision after ``base``: the number of its
             first new item (``next`` before it), the numbers it removed (little-endian uint32)

Docids have a table of their own so that reading all of them does not read the texts. Numbers start
at 0, fit uint32 and are never used again. Embeddings are not stored. Version 1 had no changes; such
a file is brought up to date when it is opened for writing.
"""

from trieline.catalog.catalog import Catalog
from trieline.catalog.changes import Changes
from trieline.catalog.rows import State
from trieline.catalog.where import Condition, Where

__all__ = ["Catalog", "Changes", "Condition", "State", "Where"]
