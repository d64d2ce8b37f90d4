"""Packed spellers against the plain stepper."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from trieline.config import ModelSettings
from trieline.decode import beam_search
from trieline.errors import SettingsError
from trieline.index import Trie
from trieline.model import Asked, Speller, build_speller
from trieline.model.linear import Precision, Rows, make_linear, narrowed, works
from trieline.model.packed import pack
from trieline.model.stepper import Stepper
from trieline.types import Codes

SIZES = (5, 4, 6, 3, 7)
DIM = 16


def speller(soft_tokens: int = 1, sizes: tuple[int, ...] = SIZES) -> Speller:
    settings = ModelSettings(
        width=64, heads=4, head_width=16, feed_forward=96, decoder_layers=3, soft_tokens=soft_tokens
    )
    return build_speller(settings, sizes, dim=DIM, seed=1)


def asked(queries: int) -> Asked:
    return Asked(vector=torch.randn(queries, DIM, generator=torch.Generator().manual_seed(0)))


def drive(stepper: Stepper, questions: Asked) -> list[np.ndarray]:
    """A search's worth of calls: a level at a time, tails, levels mixed, enough to grow arenas."""
    told = []
    rng = np.random.default_rng(0)
    live = stepper.begin(questions)
    queries = np.arange(len(live.slots))
    told += [stepper.logits(live.states, 0), stepper.totals(live.states)]
    for level in range(2):
        parents = np.repeat(np.arange(len(queries)), 9)
        queries = queries[parents]
        codes = rng.integers(0, SIZES[level], len(parents))
        levels = np.full(len(parents), level)
        live = stepper.extend(live.slots[parents], codes, levels, queries)
        told += [stepper.logits(live.states, level + 1), stepper.totals(live.states)]
    # Forced tails of two codes, each a chain within the call.
    first = stepper.used
    parents = np.stack([live.slots, first + 2 * np.arange(len(queries))], 1).ravel()
    codes = rng.integers(0, 3, len(parents))
    levels = np.tile([2, 3], len(queries))
    live = stepper.extend(parents, codes, levels, np.repeat(queries, 2))
    told += [stepper.logits(live.states[0::2], 3), stepper.logits(live.states[1::2], 4)]
    return told


@pytest.mark.parametrize("soft_tokens", [1, 4])
def test_fp32_gives_the_spellers_own_scores(soft_tokens: int) -> None:
    model = speller(soft_tokens)
    wanted, found = drive(model.stepper(), asked(3)), drive(pack(model).stepper(), asked(3))
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
@pytest.mark.parametrize("soft_tokens", [1, 4])
def test_rounded_scores_are_near(precision: Precision, soft_tokens: int) -> None:
    model = speller(soft_tokens)
    wanted = drive(model.stepper(), asked(3))
    found = drive(pack(model, precision).stepper(), asked(3))
    for ours, theirs in zip(found, wanted, strict=True):
        assert np.abs(ours - theirs).mean() < 0.03 * theirs.std() + 0.01
        assert np.abs(ours - theirs).max() < 0.15 * theirs.std() + 0.05


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_a_row_does_not_depend_on_the_others(precision: Precision) -> None:
    model, questions = pack(speller(2), precision), asked(7)
    together = drive(model.stepper(), questions)
    alone = drive(model.stepper(), Asked(vector=questions.vector[:1]))
    np.testing.assert_allclose(alone[0], together[0][:1], atol=1e-5)


def test_gated_layers() -> None:
    from trieline.model.t5 import FeedForward

    model = speller()
    for block in model.decoder.layers():
        torch.manual_seed(2)
        gated = model.decoder.shape._replace(gated=True)
        block.feed_forward = FeedForward(gated).eval()
    wanted, found = drive(model.stepper(), asked(3)), drive(pack(model).stepper(), asked(3))
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=5e-5)


def test_memory_that_is_partly_hidden() -> None:
    """States behind a mask are not looked at, wherever they are."""
    model = speller(4)
    read = model.reader.forward

    def hide(questions: Asked):  # type: ignore[no-untyped-def]
        memory = read(questions)
        mask = memory.mask.clone()
        mask[0, 0] = mask[1, 2:] = False
        return memory._replace(mask=mask)

    model.reader.forward = hide  # type: ignore[method-assign]
    wanted, found = drive(model.stepper(), asked(3)), drive(pack(model).stepper(), asked(3))
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_products_are_near_the_plain_ones(precision: Precision) -> None:
    assert works(precision)
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(n, 96, generator=generator) for n in (11, 40))
    scales = np.linspace(0.5, 2, 11, dtype=np.float32)
    given = Rows(x.bfloat16() if precision != "fp32" else x, scales)
    y = make_linear(weight, precision)(narrowed(given) if precision == "int8" else given)
    got = y.values.float() * torch.from_numpy(y.scales)[:, None]
    wanted = (x * torch.from_numpy(scales)[:, None]) @ weight.T
    off = {"fp32": 1e-5, "bf16": 0.02, "int8": 0.03}[precision]
    assert (got - wanted).abs().max() < off * wanted.abs().max()


def test_a_row_of_nothing_stays_nothing() -> None:
    rows = narrowed(Rows(torch.zeros(2, 8), np.ones(2, np.float32)))
    assert rows.values.dtype == torch.uint8 and (rows.values == 128).all()
    assert np.isfinite(rows.scales).all()


def test_only_a_cpu_is_packed_for() -> None:
    model = speller()
    model.to("meta")
    with pytest.raises(SettingsError, match="packed weights are for a CPU"):
        pack(model)


@pytest.mark.parametrize("normalise", ["level", "legal", "vocab", "raw"])
def test_a_speller_in_bf16_reads_vectors_as_they_come(normalise: Any) -> None:
    """What other devices than a CPU search with; queries stay fp32."""
    model = speller()
    rounded = copy.deepcopy(model).to(torch.bfloat16).eval()
    rng = np.random.default_rng(3)
    table = np.stack([rng.integers(0, size, 50) for size in SIZES], 1).astype(np.uint16)
    trie = Trie.build(Codes(table, np.arange(50, dtype=np.uint32)), SIZES)
    plain = beam_search(model, asked(4), trie, beam=20, k=5, normalise=normalise)
    found = beam_search(rounded, asked(4), trie, beam=20, k=5, normalise=normalise)
    for ours, theirs in zip(found, plain, strict=True):
        np.testing.assert_allclose(np.sort(ours.scores), np.sort(theirs.scores), atol=0.2)
