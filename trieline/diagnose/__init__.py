"""Why a search went as it did: explanations of single answers, and measures over many.

Belongs here: what looks at a search or at docids and tells a person something. Does not: figures of
retrieval quality (evaluate), the search itself (decode).
"""

from trieline.diagnose.counterexample import Counterexample, counterexample
from trieline.diagnose.explain import Explanation, explain
from trieline.diagnose.judge import Judgement
from trieline.diagnose.pruning import Pruning
from trieline.diagnose.rescue import Attempt, Rescue, WhatIf, what_ifs
from trieline.diagnose.search import (
    BatchErrors,
    BeamError,
    SearchError,
    compare_searches,
    search_error,
)
from trieline.diagnose.story import DocidStory, LevelStory, Narrowing, Vote
from trieline.diagnose.survival import Survival, SurvivalCounter, survival

__all__ = [
    "Attempt",
    "BatchErrors",
    "BeamError",
    "Counterexample",
    "DocidStory",
    "Explanation",
    "Judgement",
    "LevelStory",
    "Narrowing",
    "Pruning",
    "Rescue",
    "SearchError",
    "Survival",
    "SurvivalCounter",
    "Vote",
    "WhatIf",
    "compare_searches",
    "counterexample",
    "explain",
    "search_error",
    "survival",
    "what_ifs",
]
