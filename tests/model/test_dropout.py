"""Our dropout against what dropout is."""

from __future__ import annotations

import pytest
import torch

from trieline.errors import SettingsError
from trieline.model.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_share_that_is_dropped(p: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    out = Dropout(p).train()(torch.ones(500, 403, dtype=dtype)).float()
    assert float((out == 0).float().mean()) == pytest.approx(p, abs=0.004)
    assert len(out.unique()) == 2
    assert float(out.mean()) == pytest.approx(1.0, rel=0.04)


def test_every_place_and_its_neighbours_on_their_own() -> None:
    torch.manual_seed(0)
    kept = (Dropout(0.5).train()(torch.ones(4000, 19)) != 0).double()
    assert kept.mean(0).tolist() == pytest.approx([0.5] * 19, abs=0.04)
    together = torch.corrcoef(kept.T) - torch.eye(19)
    assert float(together.abs().max()) < 0.08


def test_gradients_go_where_values_went() -> None:
    x = torch.randn(33, 7, requires_grad=True)
    out = Dropout(0.3).train()(x)
    out.sum().backward()
    assert x.grad is not None
    assert torch.allclose(out, x * x.grad)
    assert (x.grad == 0).any()


def test_the_generator_decides() -> None:
    drop, x = Dropout(0.5).train(), torch.ones(100)
    torch.manual_seed(3)
    first, second = drop(x), drop(x)
    torch.manual_seed(3)
    assert torch.equal(first, drop(x))
    assert not torch.equal(first, second)


def test_nothing_is_dropped_where_nothing_should_be() -> None:
    x = torch.ones(100)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0).train()(x) is x
    assert Dropout(0.5).train()(torch.ones(0, 3)).shape == (0, 3)


@pytest.mark.parametrize("p", [-0.1, 1.0, float("nan")])
def test_shares_that_cannot_be(p: float) -> None:
    with pytest.raises(SettingsError, match="at least 0 and below 1"):
        Dropout(p)
