"""What may be spelled: the docids of a corpus, level by level, and the items behind them."""

from __future__ import annotations

from trieline.index.trie import Best, Children, Found, Trie

__all__ = ["Best", "Children", "Found", "Trie"]
