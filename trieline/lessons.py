"""What a model is taught on a corpus: its questions, their answers, and an exam.

Real training queries where the dataset has any; titles and crops of the items as pseudo queries
beside them; vectors of the items too, where a model reads vectors (``train.borrow``). The exam is
the dev split, over its pool; a share of train where there is none; pseudo queries that are kept out
of training where there are no real ones at all. Test queries are never looked at.

Queries are gathered before there are docids, since docids may learn from them as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.config import Recipe
from trieline.data import Dataset, hold_out, pool_of
from trieline.decode import GuidesOf
from trieline.encode import Encoder
from trieline.errors import SettingsError
from trieline.ids import Docids, Judged
from trieline.index import Trie
from trieline.model.questions import HistoryQuestions, Questions, TextQuestions, VectorQuestions
from trieline.train import Pairs, Validation, join, match, pseudo_queries, source_of
from trieline.train.borrow import borrow
from trieline.train.pairs import Plan
from trieline.types import Codes, Floats, Qrel, Query
from trieline.watch import Watch

__all__ = ["Gathered", "Lessons", "gather", "judged_items", "prepare_lessons"]

_LEAST = 20  # real queries from which a share is worth holding out


class Lessons(NamedTuple):
    """Everything that training needs beside the model."""

    questions: Questions
    pairs: Pairs
    exam: Validation | None
    digest: str  # changes with any question


class _Asked(NamedTuple):
    """Queries of every kind, before they are turned into tensors."""

    real: list[Query]
    real_qrels: list[Qrel]
    pseudo: list[Query]
    exam: list[Query]
    exam_qrels: list[Qrel]
    exam_pool: frozenset[str] | None  # items that the exam is over; None: all

    @property
    def everything(self) -> list[Query]:
        return [*self.real, *self.pseudo, *self.exam]


class Gathered(NamedTuple):
    """The questions of a corpus and what answers them, before there are docids."""

    asked: _Asked
    pairs: Pairs  # of real and pseudo queries, in the order of ``everything``
    vectors: Floats | None  # [Q, D] of ``everything``, where anything reads vectors


def gather(
    dataset: Dataset,
    numbers: Mapping[str, int],
    items: Floats,
    recipe: Recipe,
    encoder: Encoder,
    watch: Watch,
) -> Gathered:
    """``numbers`` maps item ids to item numbers, which count the rows of ``items``."""
    _check_placed(recipe)
    asked = _answerable(_gather(dataset, recipe), numbers, recipe)
    rows = {query.id: row for row, query in enumerate(asked.real)}
    real = match(asked.real_qrels, rows, numbers).pairs
    reads = recipe.model.query == "embedding" or _compares(recipe) or _ranks(recipe)
    vectors = encoder.encode(asked.everything, watch) if reads else None
    if vectors is not None and (recipe.train.itself or recipe.train.borrowed):
        asked, vectors = _place(asked, vectors, real, items, list(numbers), recipe)
    pairs = join(real, _own(asked.pseudo, numbers), offset=len(asked.real))
    return Gathered(asked, pairs, vectors)


def judged_items(
    gathered: Gathered, items: Floats, numbers: Mapping[str, int], recipe: Recipe
) -> Judged | None:
    """What docids may learn from, beside the vectors of the items; None where nothing is asked.

    One epoch's pairs, as the model would see them: neither single queries nor pseudo queries
    prevail. A history is asked as the vector of its last item.
    """
    pairs, how = gathered.pairs, recipe.train
    if not len(pairs.query):
        return None
    plan = Plan(pairs, pseudo_share=how.pseudo_share, per_query=how.pairs_per_query, seed=how.seed)
    chosen = plan.epoch(0)
    query, item = pairs.query[chosen], pairs.item[chosen]
    if recipe.model.query != "history":
        taught = len(gathered.asked.real) + len(gathered.asked.pseudo)  # before the exam's
        return None if gathered.vectors is None else Judged(gathered.vectors[:taught], query, item)
    last = [
        numbers[next(past for past in reversed(asked.history) if past in numbers)]
        for asked in gathered.asked.real
    ]
    return Judged(items, np.array(last, np.int64)[query], item)


def prepare_lessons(
    gathered: Gathered,
    numbers: Mapping[str, int],
    codes: Codes,
    trie: Trie,
    recipe: Recipe,
    docids: Docids,
) -> Lessons:
    """``codes`` are the docids of the items."""
    asked = gathered.asked
    questions = _questions(gathered, numbers, codes, recipe)
    exam = None
    if asked.exam:
        offset = len(asked.real) + len(asked.pseudo)
        vectors = gathered.vectors if _compares(recipe) else None
        exam = Validation(
            questions,
            asked.exam_qrels,
            {query.id: offset + row for row, query in enumerate(asked.exam)},
            numbers,
            trie if asked.exam_pool is None else trie.restrict(_named(numbers, asked.exam_pool)),
            recipe.decode,
            measure=recipe.train.measure,
            most=recipe.train.validation_queries,
            seed=recipe.train.seed,
            guides=[] if vectors is None else GuidesOf(docids)(recipe.decode),
            vectors=None if vectors is None else docids.project(vectors),
        )
    return Lessons(questions, gathered.pairs, exam, _digest(asked.everything))


def _compares(recipe: Recipe) -> bool:
    """Whether guides compare queries with codebooks while the model learns.

    What a bridge says of histories is learnt after the model: its exam goes without.
    """
    return recipe.decode.guided and not (recipe.model.query == "history" and recipe.model.bridge)


def _ranks(recipe: Recipe) -> bool:
    """Whether docids learn from the vectors of queries; those of histories are items'."""
    return recipe.ids.scheme == "pro" and recipe.model.query != "history"


def _gather(dataset: Dataset, recipe: Recipe) -> _Asked:
    settings = recipe.train
    uncut = "train" in dataset.splits() and "dev" not in dataset.splits()
    if uncut and sum(1 for _ in dataset.queries("train")) >= _LEAST:
        dataset = hold_out(dataset, seed=settings.seed)
    pseudo: list[Query] = []
    by_vector = recipe.model.query == "embedding" or _compares(recipe) or _ranks(recipe)
    # Nobody brings crops' vectors, and features of pictures are not had of words.
    vectorless = recipe.encode.kind in ("precomputed", "image") and by_vector
    if recipe.model.query != "history" and not vectorless:
        made = pseudo_queries(
            dataset.items(), titles=settings.titles, crops=settings.crops, seed=settings.seed
        )
        pseudo = [query for query in made if query.text.strip()]
    real, real_qrels = _split(dataset, "train")
    exam, exam_qrels = _split(dataset, "dev")
    if not real and not exam:
        pseudo, exam = _cut_exam(pseudo, settings.validation_queries, settings.seed)
        exam_qrels = [Qrel(query.id, source_of(query.id), 1) for query in exam]
    return _Asked(real, real_qrels, pseudo, exam, exam_qrels, pool_of(dataset, "dev"))


def _named(numbers: Mapping[str, int], names: frozenset[str]) -> NDArray[np.bool_]:
    """Which item numbers have these ids."""
    named = np.zeros(len(numbers), np.bool_)
    named[[number for name, number in numbers.items() if name in names]] = True
    return named


def _check_placed(recipe: Recipe) -> None:
    made = recipe.train.itself or recipe.train.borrowed
    if made and recipe.model.query != "embedding":
        raise SettingsError(
            f"train.itself and train.borrowed make vectors into questions, and model.query = "
            f"'{recipe.model.query}' reads none. Set train.itself=false and train.borrowed=0."
        )


def _place(
    asked: _Asked,
    vectors: Floats,
    real: Pairs,
    items: Floats,
    ids: Sequence[str],
    recipe: Recipe,
) -> tuple[_Asked, Floats]:
    """With the pseudo queries that are made of vectors, after those that are made of texts."""
    settings, taught = recipe.train, len(asked.real) + len(asked.pseudo)
    lent = borrow(items, vectors, real, settings.borrowed, settings.seed)
    made = [
        Query(f"{ids[item]}#borrowed", embedding=lent.vectors[row])
        for row, item in enumerate(lent.items)
    ]
    if settings.itself:
        made += [
            Query(f"{name}#itself", embedding=own) for name, own in zip(ids, items, strict=True)
        ]
    own = items if settings.itself else items[:0]
    told = asked._replace(pseudo=[*asked.pseudo, *made])
    return told, np.concatenate([vectors[:taught], lent.vectors, own, vectors[taught:]])


def _answerable(asked: _Asked, numbers: Mapping[str, int], recipe: Recipe) -> _Asked:
    """Without the histories of which no item is in the corpus: nothing could be read of them."""
    if recipe.model.query != "history":
        return asked
    real, exam = (
        [query for query in queries if any(item in numbers for item in query.history)]
        for queries in (asked.real, asked.exam)
    )
    return asked._replace(real=real, exam=exam)


def _split(dataset: Dataset, split: str) -> tuple[list[Query], list[Qrel]]:
    if split not in dataset.splits():
        return [], []
    return list(dataset.queries(split)), list(dataset.qrels(split))


def _cut_exam(pseudo: list[Query], most: int, seed: int) -> tuple[list[Query], list[Query]]:
    """Some crops for the exam, at most a tenth of all pseudo queries; the rest for training."""
    crops = [row for row, query in enumerate(pseudo) if "#crop" in query.id]
    count = min(most, len(pseudo) // 10, len(crops))
    if count < 1:
        return pseudo, []
    chosen = set(np.random.default_rng(seed).choice(crops, count, replace=False).tolist())
    kept = [query for row, query in enumerate(pseudo) if row not in chosen]
    return kept, [pseudo[row] for row in sorted(chosen)]


def _own(pseudo: Sequence[Query], numbers: Mapping[str, int]) -> Pairs:
    """Pseudo queries are answered by the item that they were made from."""
    items = np.array([numbers[source_of(query.id)] for query in pseudo], np.int64)
    return Pairs(np.arange(len(pseudo)), items, np.ones(len(pseudo), np.bool_))


def _questions(
    gathered: Gathered, numbers: Mapping[str, int], codes: Codes, recipe: Recipe
) -> Questions:
    model, queries = recipe.model, gathered.asked.everything
    match model.query:
        case "embedding":
            assert gathered.vectors is not None
            return VectorQuestions(gathered.vectors)
        case "tokens":
            return TextQuestions.of(queries, model)
        case "history":
            histories = [
                np.array([numbers[i] for i in query.history if i in numbers], np.int64)
                for query in queries
            ]
            table = np.zeros((len(numbers), codes.codes.shape[1]), np.uint16)
            table[codes.owner[::-1]] = codes.codes[::-1]  # an item's first docid stands for it
            return HistoryQuestions(histories, table, model.max_history)


def _digest(queries: Sequence[Query]) -> str:
    digest = sha256()
    for query in queries:
        digest.update(repr((query.id, query.text, query.image, query.history)).encode())
        if query.embedding is not None:
            digest.update(np.ascontiguousarray(query.embedding).tobytes())
    return digest.hexdigest()
