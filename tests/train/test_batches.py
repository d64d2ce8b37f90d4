"""Batches: the same whenever they are asked for, mixed as GENIUS mixes."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
import pytest
import torch

from trieline.errors import DataError, DimensionError, IndexMismatch
from trieline.model.questions import VectorQuestions
from trieline.train.batches import Batch, Batches, interpolate
from trieline.train.pairs import Pairs
from trieline.types import Codes

SIZES = (4, 4, 6)


def batches_of(world, mixed: bool = True, **changes) -> Batches:
    settings = msgspec.structs.replace(world.settings, **changes)
    items = world.items if mixed else None
    return Batches(world.questions, world.pairs, world.codes, SIZES, settings, items)


def glued(batches: list[Batch]) -> tuple[torch.Tensor, torch.Tensor]:
    vectors = [batch.asked.vector for batch in batches]
    return torch.cat(vectors), torch.cat([batch.targets for batch in batches])  # type: ignore[arg-type]


def test_an_epoch_asks_everything_once(world) -> None:
    batches = batches_of(world, mixed=False)
    assert batches.steps_per_epoch == 5  # 36 pairs in eights
    steps = [list(batches.step(number)) for number in range(5)]
    assert [batches.size_of(number) for number in range(6)] == [8, 8, 8, 8, 4, 8]
    vectors, targets = glued([batch for step in steps for batch in step])
    expected = Counter(map(bytes, world.questions.vectors))
    assert Counter(map(bytes, vectors.numpy())) == expected
    place = {bytes(vector): row for row, vector in enumerate(world.questions.vectors)}
    items = world.pairs.item[[place[bytes(vector)] for vector in vectors.numpy()]]
    assert (targets.numpy() == world.codes.codes[items]).all()


def test_a_step_does_not_depend_on_the_steps_before(world) -> None:
    straight = batches_of(world)
    for number in range(12):
        last = glued(list(straight.step(number)))
    jumped = glued(list(batches_of(world).step(11)))
    assert all(torch.equal(a, b) for a, b in zip(last, jumped, strict=True))
    other = glued(list(batches_of(world, seed=1).step(11)))
    assert not torch.equal(last[0], other[0])


def test_every_step_is_mixed_anew(world) -> None:
    """Two steps of one question: what is drawn for them differs."""
    alone = world._replace(pairs=pairs_of([0], [0]))
    batches = batches_of(alone, interpolate_share=1.0)
    first, second = (glued(list(batches.step(number)))[0] for number in (0, 1))
    assert not torch.equal(first, second)


def test_a_step_does_not_depend_on_how_it_is_cut(world) -> None:
    whole = list(batches_of(world, batch=12, accumulate=1).step(1))
    parts = list(batches_of(world, batch=4, accumulate=3).step(1))
    assert len(whole) == 1
    assert len(parts) == 3
    assert all(torch.equal(a, b) for a, b in zip(glued(whole), glued(parts), strict=True))
    assert sum(batch.share for batch in parts) == pytest.approx(1.0)


def test_processes_share_a_step(world) -> None:
    batches = batches_of(world, batch=7)
    for number in (0, 5):  # 36 = 5 x 7 + 1: the last step has one question for three processes
        whole = glued(list(batches.step(number)))
        parts = [list(batches.step(number, rank, 3)) for rank in range(3)]
        assert sum(batch.share for part in parts for batch in part) == pytest.approx(1.0)
        said = [glued([b for b in part if b.share]) for part in parts if any(b.share for b in part)]
        rows = sorted(bytes(row) for vectors, _ in said for row in vectors.numpy())
        assert rows == sorted(bytes(row) for row in whole[0].numpy())


def test_an_item_with_several_docids_is_spelled_in_all_of_them(world) -> None:
    codes = np.concatenate([world.codes.codes, (world.codes.codes + 1) % 4])
    owner = np.concatenate([world.codes.owner, world.codes.owner])
    order = np.random.default_rng(0).permutation(len(owner))
    two = world._replace(codes=Codes(codes[order], owner[order]))
    batches = batches_of(two, mixed=False, batch=36)
    spelled = {tuple(d) for n in range(20) for d in glued(list(batches.step(n)))[1].tolist()}
    assert spelled == {tuple(docid) for docid in codes.tolist()}


def test_the_formula_of_the_mixture() -> None:
    rng = np.random.default_rng(0)
    q, p, s = rng.standard_normal((2, 4)), rng.standard_normal((2, 4)), rng.random((2, 4))
    q[0] /= np.linalg.norm(q[0])  # as encoders give them; the second is of another length
    p[0] /= np.linalg.norm(p[0])
    mixed = interpolate(q.astype(np.float32), p.astype(np.float32), s.astype(np.float32))
    for row in range(2):
        length = np.linalg.norm(q[row])
        unit_q, unit_p = q[row] / length, p[row] / np.linalg.norm(p[row])
        expected = [
            s[row][d] ** 0.5 * unit_q[d] + (1 - s[row][d]) ** 0.5 * unit_p[d] for d in range(4)
        ]
        expected = np.array(expected) / np.linalg.norm(expected) * length
        assert mixed[row] == pytest.approx(expected, abs=1e-6)


def test_nothing_mixed_with_something() -> None:
    zero, one = np.zeros((1, 4), np.float32), np.ones((1, 4), np.float32)
    half = np.full((1, 4), 0.5, np.float32)
    assert np.isfinite(interpolate(zero, one, half)).all()
    assert np.isfinite(interpolate(one, zero, half)).all()


def test_a_share_of_the_questions_is_mixed(world) -> None:
    plain = batches_of(world, mixed=False, batch=36)
    mixed = batches_of(world, batch=36, interpolate_share=0.25)
    apart = []
    for number in range(40):
        before, after = glued(list(plain.step(number)))[0], glued(list(mixed.step(number)))[0]
        apart.append((before != after).any(1).double().mean())
        nearer = (before != after).any(1)
        targets = glued(list(plain.step(number)))[1].numpy()
        items = [world.codes.codes.tolist().index(t) for t in targets.tolist()]
        own = torch.from_numpy(world.items[items])
        assert ((after * own).sum(1) >= (before * own).sum(1) - 0.2)[nearer].all()
    assert float(np.mean(apart)) == pytest.approx(0.25, abs=0.05)
    assert torch.equal(
        *(glued(list(b.step(0)))[0] for b in (plain, batches_of(world, interpolate=0.0, batch=36)))
    )


def pairs_of(query: list[int], item: list[int]) -> Pairs:
    return Pairs(np.array(query, np.int64), np.array(item, np.int64), np.zeros(len(item), np.bool_))


def test_what_does_not_fit_together(world) -> None:
    with pytest.raises(DataError, match="nothing to train on"):
        batches_of(world._replace(pairs=pairs_of([], [])))
    with pytest.raises(DataError, match="questions 0 to 36, but there are 36"):
        batches_of(world._replace(pairs=pairs_of([0, 36], [0, 0])))
    with pytest.raises(DataError, match="item number 99"):
        batches_of(world._replace(pairs=pairs_of([0], [99])))
    with pytest.raises(IndexMismatch, match="the model spells sizes"):
        wide = Codes(world.codes.codes + 3, world.codes.owner)
        batches_of(world._replace(codes=wide))
    with pytest.raises(DimensionError, match="11 item vectors"):
        batches_of(world._replace(items=world.items[:11]))
    questions = VectorQuestions(world.questions.vectors[:0])
    with pytest.raises(DataError, match="there are 0 questions"):
        batches_of(world._replace(questions=questions))
