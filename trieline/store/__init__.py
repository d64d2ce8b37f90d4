"""The index folder: everything that makes one index, saved so that it is whole or refused.

Trap: a catalog must be closed before its draft ends, or its last changes stay in a side file.

    name.tl/
      manifest.json           the pointer: names the generation that counts and what is in it
      lock                    held by the one process that writes
      g000001/                a generation; its files never change once the manifest names it
        model.safetensors ... recorded in the manifest: size and sha256
        catalog.sqlite        live: changes in place, so only its presence is recorded
        derived/              rebuildable from the rest, replaceable inside the generation
          trie.json           pointer: catalog revision, folder, size and sha256 of each array
          trie.000001/*.npy   the arrays, memory-mapped
      tmp-xxxxxxxx/           a generation being written

``manifest.json`` is a JSON object: ``kind`` ("trieline index"), ``format`` (1), ``trieline`` (the
version that wrote it), ``created`` (ISO 8601, UTC), ``generation`` (from 1; folder ``g%06d``),
``recipe``, ``fingerprints`` (name -> text), ``files`` (path in the generation, with "/" ->
``{"size", "sha256"}``), ``live`` (list of paths), ``notes`` (any JSON) and ``seal``: the sha256 of
the object without it, as compact JSON with sorted keys. Readers ignore unknown keys; a change that
old readers cannot ignore raises ``format``. A derived set's pointer is sealed the same way and
holds ``revision``, ``folder`` and ``files``.

Saving: write ``tmp-*``, fsync files and folders, rename to ``g%06d``, replace ``manifest.json``
(fsync), delete what no manifest names. The replacement is the only moment that counts: a crash
before it leaves the old index, after it the new one. Opening compares the sizes of all files and
the checksums of all but ``.npy`` (mapped, so unread until needed); ``verify`` reads everything.
"""

from trieline.store.derived import Derived
from trieline.store.disk import FileRecord, atomic_write
from trieline.store.draft import Draft, draft
from trieline.store.folder import IndexFolder, Writer, open_folder
from trieline.store.manifest import Manifest

__all__ = [
    "Derived",
    "Draft",
    "FileRecord",
    "IndexFolder",
    "Manifest",
    "Writer",
    "atomic_write",
    "draft",
    "open_folder",
]
