"""The two ways a trie takes its steps, and runs long and short: every test can ask for each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from hypothesis import strategies as st

from trieline.index import layout
from trieline.index import trie as module

__all__ = ["WAYS", "Way", "going", "some_way"]


class Way(NamedTuple):
    """``listed`` docids below a prefix list its children; steps are compiled or NumPy's."""

    compiled: bool
    listed: int


WAYS = [Way(False, 64), Way(False, 2), Way(True, 64), Way(True, 2), Way(True, 3)]
some_way = st.sampled_from(WAYS)


@contextmanager
def going(way: Way) -> Iterator[None]:
    """Every trie that is made here is made and asked that way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "COMPILED", 0 if way.compiled else 2**40)
        patch.setattr(layout, "LISTED", way.listed)
        yield
