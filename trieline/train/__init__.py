"""How a speller learns: pairs and pseudo queries in, better weights out.

Belongs here: what is trained on and in which order, losses, the loop, its checkpoints and log. Does
not: layers (model), what a dataset is (data), when and with what to train (retriever).
"""

from trieline.train.loop import Report, Validate, train
from trieline.train.pairs import Matched, Pairs, join, match
from trieline.train.pseudo import pseudo_queries, source_of
from trieline.train.validate import Validation

__all__ = [
    "Matched",
    "Pairs",
    "Report",
    "Validate",
    "Validation",
    "join",
    "match",
    "pseudo_queries",
    "source_of",
    "train",
]
