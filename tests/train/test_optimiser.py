"""What decays, and how fast learning goes."""

from __future__ import annotations

import msgspec
import pytest
import torch
from transformers import BertConfig, BertModel

from trieline.config import TrainSettings
from trieline.model import Alphabet, Speller
from trieline.model.readers import TokenReader
from trieline.model.t5 import Shape, Stack
from trieline.train.optimiser import make_optimiser, rate_at, set_rate
from trieline.train.precision import choose_precision

SETTINGS = TrainSettings(lr=1.0, warmup=0.1)


def rates(total: int, settings: TrainSettings = SETTINGS) -> list[float]:
    return [rate_at(step, total, settings) for step in range(total)]


def test_up_in_a_line_then_down_as_the_schedule_says() -> None:
    cosine = rates(100)
    assert cosine[:3] == pytest.approx([0.1, 0.2, 0.3])
    assert cosine[9:11] == pytest.approx([1.0, 1.0])
    assert cosine[55] == pytest.approx(0.5)
    assert 0 < cosine[-1] < 0.01
    linear = rates(100, msgspec.structs.replace(SETTINGS, schedule="linear"))
    assert linear[55] == pytest.approx(0.5)
    assert linear[10:] == sorted(linear[10:], reverse=True)
    constant = rates(100, msgspec.structs.replace(SETTINGS, schedule="constant"))
    assert constant[9:] == [1.0] * 91


@pytest.mark.parametrize("warmup", [0.0, 0.05, 1.0])
def test_one_step_learns_something(warmup: float) -> None:
    assert rates(1, msgspec.structs.replace(SETTINGS, warmup=warmup))[0] > 0


def test_only_matrices_between_layers_decay(world) -> None:
    speller = world.new_speller()
    optimiser = make_optimiser(speller, world.settings)
    name_of = {parameter: name for name, parameter in speller.named_parameters()}
    decayed, free = set(), set()
    for group in optimiser.param_groups:
        kind = decayed if group["weight_decay"] else free
        kind.update(name_of[parameter] for parameter in group["params"])
    assert decayed | free == set(name_of.values())
    assert {"alphabet.embedding", "alphabet.output", "alphabet.start"} <= free
    assert "reader.project.weight" in decayed
    assert "reader.project.bias" in free
    assert {name for name in free if "attention" in name or "feed_forward" in name} == set()
    assert {name for name in decayed if "norm" in name or "bias" in name} == set()


def text_speller(train_model: bool) -> Speller:
    shape = Shape(width=16, heads=2, head_width=8, feed_forward=16, layers=1)
    bert = BertModel(
        BertConfig(
            vocab_size=12,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=8,
        )
    )
    reader = TokenReader(bert, 16, train_model)
    return Speller(Alphabet((4, 4), 16), reader, Stack(shape, cross=True))


def test_a_pretrained_text_model_learns_slowly() -> None:
    speller = text_speller(train_model=True)
    optimiser = make_optimiser(speller, SETTINGS)
    set_rate(optimiser, 1e-3)
    text = set(speller.reader.model.parameters())
    for group in optimiser.param_groups:
        slow = [parameter in text for parameter in group["params"]]
        assert len(set(slow)) == 1
        assert group["lr"] == pytest.approx(2e-5 if slow[0] else 1e-3)


def test_a_frozen_text_model_does_not_learn() -> None:
    speller = text_speller(train_model=False)
    trained = {p for g in make_optimiser(speller, SETTINGS).param_groups for p in g["params"]}
    assert trained == set(speller.parameters())
    assert trained.isdisjoint(speller.reader.model.parameters())


def test_the_wanted_precision_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = torch.device("cpu")
    assert choose_precision("fp32", cpu) == "fp32"
    assert choose_precision("bf16", cpu) == "bf16"
    for flags, chosen in (
        (["avx2", "avx512_bf16"], "bf16"),
        (["avx2", "avx512f"], "fp32"),
        ([], "fp32"),
    ):
        monkeypatch.setattr(
            "trieline.train.precision._cpu_flags", lambda flags=flags: frozenset(flags)
        )
        assert choose_precision("auto", cpu) == chosen
    assert choose_precision("auto", torch.device("meta")) == "fp32"
