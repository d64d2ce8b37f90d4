from __future__ import annotations

import pytest
import torch
from torch import nn

from trieline.encode.onednn import OneDnnLinear, use_onednn


class Own(nn.Linear):
    pass


def network(bias: bool = True) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(48, 96, bias=bias), nn.GELU(), nn.Sequential(nn.Linear(96, 32, bias=bias))
    ).requires_grad_(False)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 48), (7, 48), (3, 5, 48), (2, 300, 48)])
def test_the_same_numbers(bias: bool, shape: tuple[int, ...]) -> None:
    model, x = network(bias), torch.randn(shape)
    expected = model(x)
    assert use_onednn(model)
    assert isinstance(model[0], OneDnnLinear)
    assert isinstance(model[2][0], OneDnnLinear)
    assert torch.allclose(model(x), expected, atol=1e-5)


def test_a_row_does_not_depend_on_the_other_rows() -> None:
    model, x = network(), torch.randn(65, 48)
    use_onednn(model)
    together = model(x)
    assert torch.allclose(together, torch.cat([model(row[None]) for row in x]), atol=1e-6)


def test_subclasses_are_let_be_and_weights_are_shared() -> None:
    model = nn.Sequential(Own(4, 4), nn.Linear(4, 4)).requires_grad_(False)
    weight = model[1].weight
    assert use_onednn(model)
    assert type(model[0]) is Own
    assert model[1].weight is weight
    assert set(model.state_dict()) == {"0.weight", "0.bias", "1.weight", "1.bias"}


def refuse(*given: object) -> None:
    raise RuntimeError("not in this build")


@pytest.mark.parametrize("lacking", ["is_available", "operator"])
def test_where_it_cannot_be_used_nothing_changes(
    monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    if lacking == "operator":
        monkeypatch.setattr(torch.ops.mkldnn, "_linear_pointwise", refuse)
    else:
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    model = network()
    assert not use_onednn(model)
    assert type(model[0]) is nn.Linear


def test_nothing_is_drawn_from_the_random_numbers() -> None:
    model = network()
    state = torch.random.get_rng_state()
    use_onednn(model)
    assert torch.equal(torch.random.get_rng_state(), state)
