from __future__ import annotations

import torch

from trieline.config import ModelSettings
from trieline.model import Asked, build_speller
from trieline.model.t5 import Cache

SIZES = (6, 5, 7)


def test_one_soft_token_is_added_as_it_is() -> None:
    """The short way for a memory of one token equals attention over two equal ones."""
    settings = ModelSettings(
        width=16, heads=2, head_width=8, feed_forward=24, decoder_layers=2, soft_tokens=1
    )
    speller = build_speller(settings, SIZES, dim=9)
    asked = Asked(vector=torch.randn(4, 9))
    codes = torch.stack([torch.randint(0, size, (4,)) for size in SIZES], 1)
    with torch.no_grad():
        memory = speller.read(asked)
        assert memory.states.shape == (4, 1, 16)
        twice = memory._replace(
            states=memory.states.expand(-1, 2, -1), mask=memory.mask.expand(-1, 2)
        )
        embedded = speller.alphabet.embed_all(codes)
        once = speller.decoder.decode(embedded, memory)
        torch.testing.assert_close(once, speller.decoder.decode(embedded, twice))


def test_spelling_level_by_level_equals_all_at_once() -> None:
    settings = ModelSettings(width=16, heads=2, head_width=8, feed_forward=24, decoder_layers=2)
    speller = build_speller(settings, SIZES, dim=9)
    asked = Asked(vector=torch.randn(4, 9))
    codes = torch.stack([torch.randint(0, size, (4,)) for size in SIZES], 1)
    with torch.no_grad():
        together = speller.hidden(asked, codes)
        spelling = speller.begin(asked)
        assert isinstance(spelling.cache, Cache)
        for level in range(len(SIZES)):
            before = None if level == 0 else codes[:, level - 1 : level]
            step = speller.step(spelling, before, level)
            torch.testing.assert_close(step[:, 0], together[:, level], atol=1e-5, rtol=1e-5)


def test_the_same_seed_gives_the_same_weights() -> None:
    settings = ModelSettings(width=16, heads=2, head_width=8, feed_forward=24, decoder_layers=1)
    one, two, other = (build_speller(settings, SIZES, dim=9, seed=s) for s in (1, 1, 2))
    assert one.fingerprint() == two.fingerprint() != other.fingerprint()
