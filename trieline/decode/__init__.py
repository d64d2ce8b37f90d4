"""How docids are spelled: search over the trie, with a model's scores and guides' votes.

Belongs here: beam search, the guides that vote on prefixes, planners that look ahead, exact search.
Does not: what exists (index), what the model thinks (model), what happens with the items found
(rerank, retriever).
"""

from trieline.decode.beam import Expansion, Found, beam_search
from trieline.decode.exact import Exact, exact_search
from trieline.decode.geometry import GeometricLook, GeometricPlan, PrefixBounds
from trieline.decode.guides import Geometric, Guide, Score
from trieline.decode.lookahead import LookAhead
from trieline.decode.opening import GuidesOf, open_guides
from trieline.decode.planner import ItemRows, Plan, Planner
from trieline.decode.workers import one_thread_each

__all__ = [
    "Exact",
    "Expansion",
    "Found",
    "Geometric",
    "GeometricLook",
    "GeometricPlan",
    "Guide",
    "GuidesOf",
    "ItemRows",
    "LookAhead",
    "Plan",
    "Planner",
    "PrefixBounds",
    "Score",
    "beam_search",
    "exact_search",
    "one_thread_each",
    "open_guides",
]
