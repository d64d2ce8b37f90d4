"""Why a search went as it did: explanations of single answers, and measures over many.

Belongs here: what looks at a search or at docids and tells a person something. Does not: figures of
retrieval quality (evaluate), the search itself (decode).
"""

from trieline.diagnose.explain import DocidStory, Explanation, LevelStory, explain
from trieline.diagnose.survival import Survival, SurvivalCounter, survival

__all__ = [
    "DocidStory",
    "Explanation",
    "LevelStory",
    "Survival",
    "SurvivalCounter",
    "explain",
    "survival",
]
