"""M-BEIR: a pool of candidates, queries and judgements of texts, images and both together.

The layout of UniIR (Wei et al., 2024, arXiv:2311.17136):

    cand_pool/local/mbeir_SET_taskN_SPLIT_cand_pool.jsonl   did txt img_path modality src_content
    query/SPLIT/mbeir_SET_taskN_SPLIT.jsonl     qid query_txt query_img_path query_modality
                                                pos_cand_list neg_cand_list task_id
    qrels/SPLIT/mbeir_SET_taskN_SPLIT_qrels.txt             qid 0 did relevance task_id
    instructions/query_instructions.tsv   query modality, candidate modality, set, set id, prompts

The modality "image,text" is an image with its text, in queries and in candidates. The traps: its
qrels have five columns, where TREC's have four; image paths count from the benchmark's folder and
not from the file's; a pool whose name carries a split answers the queries of that split only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from trieline.data.checks import check_items, check_queries
from trieline.data.dataset import require_split
from trieline.data.jsonl import read_records
from trieline.data.lines import Source, find_file, read_lines, short, whole_number
from trieline.data.splits import in_order, split_name
from trieline.data.trec import read_fields
from trieline.errors import FormatError, SettingsError
from trieline.types import Item, Qrel, Query

__all__ = ["MbeirPool", "is_mbeir", "read_mbeir_judgements", "read_prompts"]

Modality = Literal["text", "image", "image,text"]
Prompts = Mapping[tuple[str, str, str], tuple[str, ...]]
"""(id of the set, modality of the query, modality of the candidates) -> prompts."""

_POOL = re.compile(
    r"mbeir_(?P<set>.+?)(_task(?P<task>\d+))?(_(?P<split>train|val|test))?_cand_pool\.jsonl(\.gz)?"
)
_SPLITS = ("train", "val", "test")
_TARGETS: dict[int, Modality] = {  # what each task asks for
    0: "image",
    1: "text",
    2: "image,text",
    3: "text",
    4: "image",
    6: "text",
    7: "image",
    8: "image,text",
}


class _Candidate(msgspec.Struct):
    did: str
    modality: Modality
    txt: str | None = None
    img_path: str | None = None
    src_content: Any = None


class _Question(msgspec.Struct):
    qid: str
    query_modality: Modality
    query_txt: str | None = None
    query_img_path: str | None = None
    query_src_content: Any = None
    pos_cand_list: list[str] = []
    neg_cand_list: list[str] = []
    task_id: int | None = None


class MbeirPool:
    """A pool of M-BEIR with the queries that are asked of it, read from the files at every call.

    An item keeps ``src_content`` in its metadata, a query ``task_id``, ``negatives`` and
    ``src_content``, where there are any.
    """

    def __init__(
        self,
        pool: str | Path,
        *,
        queries: Mapping[str, str | Path] | None = None,
        qrels: Mapping[str, str | Path] | None = None,
        root: str | Path | None = None,
        task: int | None = None,
        prompts: Prompts | None = None,
        prompt: int = 1,
        keep_empty: bool = False,
    ) -> None:
        """Files and task are found by the pool's name where they are not given.

        ``queries``, ``qrels``: split -> file; without qrels the queries' own positives judge.
        ``root``: the folder that image paths count from. ``task``: only queries of this task.
        ``prompts`` (see ``read_prompts``): the instruction number ``prompt`` goes before each
        query's text; UniIR draws one of several at random.
        """
        self._pool = Path(pool)
        named = _POOL.fullmatch(self._pool.name)
        self.name = self._pool.name.partition("_cand_pool")[0].partition(".")[0]
        self._root = Path(root) if root else _root_of(self._pool)
        self._task = (
            task if task is not None or named is None else whole_number(named["task"] or "")
        )
        if queries is None:
            queries, qrels = _find_queries(self._root, named) if named else ({}, {})
        self._queries = {split: Path(path) for split, path in queries.items()}
        self._qrels = {split: Path(path) for split, path in (qrels or {}).items()}
        if unasked := self._qrels.keys() - self._queries.keys():
            raise SettingsError(
                f"split {min(unasked)!r} has qrels but no queries: give both files."
            )
        if prompt < 1:
            raise SettingsError(f"prompt = {prompt}: prompts are counted from 1.")
        self._prompts, self._prompt = prompts, prompt
        self._keep_empty = keep_empty

    def items(self) -> Iterator[Item]:
        """Every candidate of the pool."""
        source = Source(self._pool)
        return check_items(lambda: self._read_items(source), source, self._keep_empty)

    def splits(self) -> tuple[str, ...]:
        """Those that have queries; the files' ``val`` is ``dev`` here."""
        return in_order(self._queries)

    def queries(self, split: str) -> Iterator[Query]:
        """The queries of ``split`` that have a judgement, in the order of their file."""
        judged = {qrel.query_id for qrel in self._judgements(split)}
        for query in self._all_queries(split):
            if query.id in judged:
                yield query

    def qrels(self, split: str) -> Iterator[Qrel]:
        """The judgements of ``split``; of candidates that are not in the pool, too."""
        require_split(self.name, split, self.splits())
        if split not in self._qrels:
            yield from self._judgements(split)
            return
        known = {query.id for query in self._all_queries(split)}
        source = Source(self._qrels[split])
        for number, qrel, _ in self._judged(split):
            if qrel.query_id not in known:
                wanted = f"a query of {self._queries[split]}"
                raise source.error(number, wanted, f"the unknown {qrel.query_id!r}")
            yield qrel

    def _judgements(self, split: str) -> Iterator[Qrel]:
        require_split(self.name, split, self.splits())
        if split in self._qrels:
            for _, qrel, _ in self._judged(split):
                yield qrel
            return
        for _, asked in self._asked(split):
            for positive in asked.pos_cand_list:
                yield Qrel(asked.qid, positive, 1)

    def _judged(self, split: str) -> Iterator[tuple[int, Qrel, int]]:
        for number, qrel, task in read_mbeir_judgements(self._qrels[split]):
            if self._task in (None, task):
                yield number, qrel, task

    def _asked(self, split: str) -> Iterator[tuple[int, _Question]]:
        for number, asked in read_records(self._queries[split], _Question):
            if self._task is None or asked.task_id in (None, self._task):
                yield number, asked

    def _all_queries(self, split: str) -> Iterator[Query]:
        source = Source(self._queries[split])
        return check_queries(partial(self._read_queries, split, source), source)

    def _read_items(self, source: Source) -> Iterator[tuple[int, Item]]:
        for number, found in read_records(source.path, _Candidate):
            if not self._keep_empty:
                _has_both(source, number, found.modality, found.txt, found.img_path)
            yield (
                number,
                Item(
                    found.did,
                    text=found.txt or "",
                    image=self._image(found.img_path),
                    modality=found.modality,
                    metadata=_metadata(src_content=found.src_content),
                ),
            )

    def _read_queries(self, split: str, source: Source) -> Iterator[tuple[int, Query]]:
        for number, asked in self._asked(split):
            _has_both(source, number, asked.query_modality, asked.query_txt, asked.query_img_path)
            text = (asked.query_txt or "").strip()
            if self._prompts is not None:
                text = f"{self._instruction(source, number, asked)} {text}".strip()
            yield (
                number,
                Query(
                    asked.qid,
                    text=text,
                    image=self._image(asked.query_img_path),
                    modality=asked.query_modality,
                    metadata=_metadata(
                        task_id=asked.task_id,
                        negatives=asked.neg_cand_list,
                        src_content=asked.query_src_content,
                    ),
                ),
            )

    def _instruction(self, source: Source, number: int, asked: _Question) -> str:
        assert self._prompts is not None
        target = _TARGETS.get(-1 if asked.task_id is None else asked.task_id)
        key = (asked.qid.partition(":")[0], asked.query_modality, str(target))
        known = self._prompts.get(key, ())
        if len(known) < self._prompt:
            raise source.error(
                number,
                f"a query with at least {self._prompt} instructions",
                f"{len(known)} for set {key[0]}, {key[1]} to {key[2]} (task {asked.task_id})",
                "Give its instructions, or read without prompts=.",
            )
        return known[self._prompt - 1]

    def _image(self, path: str | None) -> str | None:
        return str(self._root / path) if path else None


def is_mbeir(path: Path) -> bool:
    """Whether a file is named like a pool of M-BEIR."""
    return _POOL.fullmatch(path.name) is not None


def read_mbeir_judgements(path: Path) -> Iterator[tuple[int, Qrel, int]]:
    """(line number, judgement, task id) of qrels with five columns."""
    source = Source(path)
    for number, fields in read_fields(source, "qid 0 did relevance task_id"):
        relevance, task = whole_number(fields[3]), whole_number(fields[4])
        if relevance is None or task is None:
            wanted = "whole numbers as relevance and task_id (4th and 5th column)"
            raise source.error(number, wanted, repr(" ".join(fields[3:])))
        yield number, Qrel(fields[0], fields[2], relevance), task


def read_prompts(path: str | Path) -> Prompts:
    """The instructions of ``query_instructions.tsv``; its first line names the columns."""
    found: dict[tuple[str, str, str], tuple[str, ...]] = {}
    lines = read_lines(Path(path))
    next(lines, None)
    for number, text in lines:
        asked, target, _, set_id, *prompts = [*text.split("\t"), "", "", "", ""]
        known = tuple(prompt.strip() for prompt in prompts if prompt.strip())
        if not known:
            raise FormatError(
                Path(path),
                number,
                "query modality, candidate modality, set, set id and at least one prompt, with "
                "tabs between",
                short(text, 60),
            )
        found[set_id.strip(), asked.strip(), target.strip()] = known
    return found


def _find_queries(
    root: Path, named: re.Match[str]
) -> tuple[dict[str, str | Path], dict[str, str | Path]]:
    """Split -> file of queries and of judgements, for the set, task and split in a pool's name."""
    queries: dict[str, str | Path] = {}
    qrels: dict[str, str | Path] = {}
    stems = [f"mbeir_{named['set']}"]
    if named["task"]:
        stems.insert(0, f"{stems[0]}_task{named['task']}")
    for split in [named["split"]] if named["split"] else _SPLITS:
        for stem in stems:
            asked = find_file(root / "query" / split, f"{stem}_{split}.jsonl")
            if asked is not None:
                queries[split_name(split)] = asked
                judged = find_file(root / "qrels" / split, f"{stem}_{split}_qrels.txt")
                if judged is not None:
                    qrels[split_name(split)] = judged
                break
    return queries, qrels


def _root_of(pool: Path) -> Path:
    """The benchmark's folder: above ``cand_pool`` where the pool lies in one, else beside it."""
    above = [folder.parent for folder in pool.resolve().parents if folder.name == "cand_pool"]
    return above[-1] if above else pool.parent


def _has_both(
    source: Source, number: int, modality: str, text: str | None, image: str | None
) -> None:
    """Refuses a record that lacks what its modality says it has."""
    for part, content in (("text", (text or "").strip()), ("image", image)):
        if part in modality.split(",") and not content:
            raise source.error(number, f"{part} in a record of modality {modality!r}", "none")


def _metadata(**values: Any) -> dict[str, Any] | None:
    return {key: value for key, value in values.items() if value not in (None, [], "")} or None
