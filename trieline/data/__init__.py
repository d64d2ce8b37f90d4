"""Corpora, queries and judgements come in here; runs and judgements go out.

What belongs in this room: a reader for each format, one a file, that streams, checks and says file
and line when something is wrong; TREC files in both directions; precomputed embeddings; cutting of
splits. What does not: anything that computes a vector, a docid or a score.

    beir        a BEIR folder                       files       one table: JSON Lines, TSV, Parquet
    sequences   interaction sequences               irds        collections of ir_datasets
    embeddings  vectors by item id                  trec        runs and judgements
    splits      a dev split cut from train          dataset     what all readers give
    captions    captioned pictures and clips        mbeir       M-BEIR: texts, images, both together

``open_dataset`` finds the reader for a folder, a file or a name.
"""

from __future__ import annotations

from pathlib import Path

from trieline.data.captions import is_captions, open_captions
from trieline.data.dataset import Dataset, pool_of
from trieline.data.embeddings import open_embeddings, with_embeddings
from trieline.data.memory import MemoryDataset
from trieline.data.splits import hold_out
from trieline.data.trec import read_qrels, read_run, write_qrels, write_run
from trieline.errors import DataError

__all__ = [
    "Dataset",
    "MemoryDataset",
    "hold_out",
    "open_captions",
    "open_dataset",
    "open_embeddings",
    "pool_of",
    "read_qrels",
    "read_run",
    "with_embeddings",
    "write_qrels",
    "write_run",
]

_ACCEPTED = (
    "Accepted are: a BEIR folder (corpus.jsonl, queries.jsonl, qrels/*.tsv); a folder of sequences "
    "(items.jsonl, sequences.txt); a .jsonl, .tsv (also .gz) or .parquet file of items; captioned "
    "pictures or clips (Flickr, COCO, Karpathy, MSR-VTT, MSVD; see trieline.data.captions); a pool "
    "of M-BEIR (mbeir_*_cand_pool.jsonl); 'irds:NAME' for a dataset of ir_datasets; 'python-docs'."
)


def open_dataset(source: str | Path, *, keep_empty: bool = False) -> Dataset:
    """The dataset at a path or of a name. ``keep_empty``: let items without any content pass.

    A folder that has the name of a dataset is meant when it is written ``./python-docs``.
    Recognised by names, the first that fits: ``mbeir_*_cand_pool.jsonl`` (M-BEIR: queries and
    judgements are found around it), a table of items, a folder with ``sequences.txt``, with
    ``corpus.jsonl`` (BEIR), with captions (``captions.txt``, ``captions.jsonl``, ``*.token``,
    ``annotations/captions_*.json``, ``dataset_*.json``, ``*videodatainfo*.json``, MSVD's), and
    each of the latter by itself unless it is a table, too. Captions ask for pictures or clips;
    ``open_captions`` has the other direction, and features.
    """
    # The readers are imported when they are needed, so that this room opens at once.
    if source == "python-docs":
        from trieline.data.pydocs import PythonDocs

        return PythonDocs()
    if str(source).startswith("irds:"):
        from trieline.data.irds import IrDataset

        return IrDataset(str(source), keep_empty=keep_empty)
    return _open_path(source, keep_empty)


def _open_path(source: str | Path, keep_empty: bool) -> Dataset:
    from trieline.data.beir import BeirFolder, is_beir
    from trieline.data.files import TableFiles, is_table
    from trieline.data.mbeir import MbeirPool, is_mbeir
    from trieline.data.sequences import SequenceFolder, is_sequences

    path = Path(source).expanduser()
    if path.is_file() and is_mbeir(path):
        return MbeirPool(path, keep_empty=keep_empty)
    if path.is_file() and is_table(path):
        return TableFiles(path, keep_empty=keep_empty)
    if path.is_dir() and is_sequences(path):
        return SequenceFolder(path)
    if path.is_dir() and is_beir(path):
        return BeirFolder(path, keep_empty=keep_empty)
    if is_captions(path):
        return open_captions(path, keep_empty=keep_empty)
    raise DataError(f"cannot open {str(source)!r}: {_found(path)}. {_ACCEPTED}")


def _found(path: Path) -> str:
    if path.is_file():
        return f"a file with the ending {path.suffix!r} is not known"
    if not path.is_dir():
        return f"there is no such file or folder (seen from {Path.cwd()})"
    names = sorted(entry.name for entry in path.iterdir())
    if not names:
        return "the folder is empty"
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"the folder holds {', '.join(names[:8])}{more}"
