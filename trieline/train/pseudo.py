"""Pseudo queries: an item's title and short crops of its sentences, as if somebody had asked them.

After the inverse cloze task (Lee et al. 2019), but with crops as short as queries are: whole
sentences where they are short, otherwise a run of 4 to 16 words.

The trap: a page is not all prose. Sentences made of commands, tables or numbers are no questions
and are cropped only where there is nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from random import Random

from trieline.types import Item, Query

__all__ = ["pseudo_queries", "source_of"]

_FEWEST, _MOST = 4, 16  # words of a crop
_WHOLE = 8  # words of a sentence that is not cut
_TRIES = 4  # draws per wanted crop: a short text has few different ones
_LETTERS_A_WORD = 2  # of a script without spaces, where a word is a few letters
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_BREAK = re.compile(
    r"(?<=[.!?])\s+(?![a-z])"  # not after "e.g."
    r"|(?<=[a-z][.!?])(?=[A-Z][a-z])"  # a space was lost
    r"|(?<=[。！？])|\s*\n+\s*"
)
_EDGES = " \t\"'`.,;:!?-–—()[]{}。！？、，"


def pseudo_queries(
    items: Iterable[Item], *, titles: bool, crops: int, seed: int
) -> Iterator[Query]:
    """Queries "ITEM#title", "ITEM#crop1", ...: the same for the same item, text and seed.

    No query of an item comes twice; a short text gives fewer crops than were asked for.
    """
    for item in items:
        title = item.title.strip()
        seen = {title.casefold(), ""}
        if titles and title:
            yield Query(f"{item.id}#title", title, modality=item.modality)
        random = Random(f"{seed} {item.id}")  # not of the order in which items come
        for number, text in enumerate(_crops(item.text, crops, seen, random), start=1):
            yield Query(f"{item.id}#crop{number}", text, modality=item.modality)


def source_of(query_id: str) -> str:
    """The id of the item that a pseudo query was made from."""
    return query_id.rpartition("#")[0]


def _crops(text: str, wanted: int, seen: set[str], random: Random) -> Iterator[str]:
    if wanted <= 0 or not text.strip():
        return
    sentences = _sentences(text)
    for _ in range(_TRIES * wanted):
        crop = _crop(random.choice(sentences), random)
        if crop.casefold() not in seen:
            seen.add(crop.casefold())
            yield crop
            wanted -= 1
            if not wanted:
                return


def _sentences(text: str) -> list[str]:
    """Sentences worth asking for; too short ones go together with the next."""
    joined: list[str] = []
    for sentence in filter(None, _BREAK.split(text.strip())):
        if joined and _is_short(joined[-1]):
            joined[-1] += _glue(sentence) + sentence
        else:
            joined.append(sentence)
    if len(joined) > 1 and _is_short(joined[-1]):
        joined[-2:] = [_glue(joined[-1]).join(joined[-2:])]
    prose = [sentence for sentence in joined if _is_prose(sentence)]
    return prose or joined


def _is_short(sentence: str) -> bool:
    return len(_words(sentence)) < _FEWEST


def _is_prose(sentence: str) -> bool:
    """Most words begin with a letter, or with a bracket or quotation mark and a letter."""
    words = sentence.split()
    return sum(word.lstrip("\"'“”‘’(«„")[:1].isalpha() for word in words) > 0.7 * len(words)


def _crop(sentence: str, random: Random) -> str:
    words = _words(sentence)
    most = random.randint(_FEWEST, _MOST)
    if len(words) > max(most, _WHOLE):
        start = random.randint(0, len(words) - most)
        words = words[start : start + most]
    return _glue(sentence).join(words).strip(_EDGES)


def _words(sentence: str) -> list[str]:
    if _glue(sentence):
        return sentence.split()
    step = _LETTERS_A_WORD
    return [sentence[at : at + step] for at in range(0, len(sentence), step)]


def _glue(sentence: str) -> str:
    """What stands between words: nothing, where most letters are of a script without spaces."""
    return "" if 2 * len(_UNSPACED.findall(sentence)) > len(sentence) else " "
