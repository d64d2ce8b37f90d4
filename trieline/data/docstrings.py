"""Plain sentences out of docstrings: what a thing does, and the rest.

Trap: docstrings of functions written in C often begin with the call instead of a sentence
("S.find(sub[, start[, end]]) -> int"), and sometimes the only words there are stand behind it
("D.keys() -> a set-like object providing a view on D's keys").
"""

from __future__ import annotations

import re

__all__ = ["first_sentence", "words"]

_CALL = re.compile(r"(?:\w+ = )?[\w.]+(?=[(\[])")
_COMMAND = re.compile(r"[a-z]{1,2}\([a-z]+\)(?: .*)?$")  # pdb: "j(ump) lineno"
_ARROW = re.compile(r"\s*(?:-+>|--|=>)\s*")
_GAP = re.compile(r"\n[ \t]*\n")
_RULE = re.compile(r"^[-=~^*+ ]{3,}$", re.MULTILINE)
_MARKUP = re.compile(r":[a-z:]+:(?=`)|`+_*|(?<![\w*])\*{1,2}(?=\w)|(?<=\w)\*{1,2}(?![\w*])")
_QUOTE = re.compile(r"``([^`']+)''|`([\w.]+)'")  # ``as in LaTeX''
# A sentence ends before a capital, a bracket, or a name: "... bytes. path_or_fd may be a string".
_END = re.compile(
    r"(?:(?<=[.!?])(?<!\b[A-Za-z]\.)(?<!\betc\.)(?<!\bvs\.)|(?<=:)(?=\s+[-@*]))"
    r"\s+(?=[^a-z\s]|\w*[_(=]|\w+ is )"
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


def first_sentence(doc: str) -> tuple[str, str]:
    """The first sentence in words, without its full stop, and all the words after it."""
    paragraphs = [_plain(part) for part in _GAP.split(_without_calls(doc)) if ">>>" not in part]
    paragraphs = [part for part in paragraphs if part and not part.startswith("@")]
    if not paragraphs:
        return "", ""
    first, *rest = _END.split(paragraphs[0], maxsplit=1)
    return first.strip(".:;,+- "), " ".join([*rest, *paragraphs[1:]])


def words(name: str) -> list[str]:
    """What a name is made of: ``HTTPServer.do_GET2`` is http server do get 2."""
    return [word.lower() for word in _WORD.findall(name)]


def _plain(paragraph: str) -> str:
    return " ".join(_MARKUP.sub("", _QUOTE.sub(r"\1\2", _RULE.sub("", paragraph))).split())


def _without_calls(doc: str) -> str:
    """The docstring after the calls that it begins with; what a call returns if that is all."""
    said = ""
    while doc:
        head, rest = _call(doc)
        if not head:
            break
        while rest.startswith((" ", "\t")):  # what is returned takes several lines
            line, _, rest = rest.partition("\n")
            head = f"{head} {line.strip()}"
        doc = rest.lstrip("\n")
        arrow = _ARROW.match(head)
        told = head[arrow.end() :] if arrow else ""
        if arrow and arrow.group().strip() == "--":  # "abs(x) -- the absolute value"
            return f"{told}\n{rest}"
        returned, _, sentence = told.partition(". ")
        if sentence.lstrip()[:1].isupper():  # "None.  Remove all items from D."
            return f"{sentence.strip()}\n{rest}"
        said = said or returned
    return doc if doc.strip() else said


def _call(doc: str) -> tuple[str, str]:
    """What follows the brackets of a call in its paragraph line, and the lines below it.

    The first is empty where the docstring does not begin with a call, and a blank where nothing
    follows.
    """
    first, _, below = doc.partition("\n")
    if _COMMAND.match(first):
        return " ", below
    found = _CALL.match(doc)
    end = _closed(doc, found.end()) if found else 0
    line, _, rest = doc[end:].partition("\n")
    if end and (not line.strip() or _ARROW.match(line)):
        return line or " ", rest
    return "", doc


def _closed(text: str, start: int) -> int:
    """The place after the brackets that open at ``start``; 0 where they never close."""
    depth = 0
    for place in range(start, min(len(text), start + 400)):
        depth += (text[place] in "([") - (text[place] in ")]")
        if depth == 0:
            return place + 1
    return 0
