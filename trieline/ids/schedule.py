"""Vocabulary schedules: how a budget of bits is spread over the levels of a docid.

PRO, section 4: few codes at the first levels, where a beam prunes for good, many at the last. The
three of its table 1 cost the same bits: a quarter of the levels has half the codes, a quarter twice
as many.
The trap: more bits at the end bring nearer reconstructions only, never a prefix back; and which
schedule wins depends on the corpus, so measure.
"""

from __future__ import annotations

from typing import Literal

from trieline.errors import SettingsError

__all__ = ["schedule"]


def schedule(
    name: Literal["ascending", "uniform", "descending"], levels: int, bits: float
) -> tuple[int, ...]:
    """``ids.sizes`` of so many levels for so many bits an item.

    ``schedule("ascending", 16, 160)`` is PRO's 512 x 4, 1024 x 8, 2048 x 4.
    """
    size = round(2 ** (bits / levels)) if levels > 0 else 0
    turned = name != "uniform"
    least, most = (4, 32_768) if turned else (2, 65_536)
    if not least <= size <= most or (turned and levels < 2):
        raise SettingsError(
            f"{bits:g} bits on {levels} levels, {name}: expected "
            f"{'two or more' if turned else 'some'} levels and {least} to {most} codes each on "
            "average. Change the bits or the levels."
        )
    tier = max(1, round(levels / 4)) if turned else 0
    few, many = (size // 2,) * tier, (size * 2,) * tier
    first, last = (few, many) if name == "ascending" else (many, few)
    return (*first, *(size,) * (levels - 2 * tier), *last)
