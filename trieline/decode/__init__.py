"""How docids are spelled: search over the trie, with a model's scores and guides' votes.

Belongs here: beam search, the guides that vote on prefixes, exact search. Does not: what exists
(index), what the model thinks (model), what happens with the items found (rerank, retriever).
"""

from trieline.decode.beam import Expansion, Found, beam_search
from trieline.decode.guides import Geometric, Guide, Score

__all__ = ["Expansion", "Found", "Geometric", "Guide", "Score", "beam_search"]
