"""What may be spelled: the docids of a corpus, level by level, and the items behind them."""

from __future__ import annotations

from trieline.index.trie import Children, Found, Trie

__all__ = ["Children", "Found", "Trie"]
