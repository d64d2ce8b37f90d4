"""The score algebra in plain loops: every docid scored on its own, and a beam of dictionaries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from trieline.model import Asked, Speller


def step_scores(
    speller: Speller, asked: Asked, docids: Sequence[tuple[int, ...]], normalise: str
) -> dict[tuple[int, ...], float]:
    """Every prefix of every docid -> the model's score of its last code, for one query."""
    scores: dict[tuple[int, ...], float] = {}
    children: dict[tuple[int, ...], set[int]] = {}
    for docid in docids:
        for level in range(len(docid)):
            children.setdefault(docid[:level], set()).add(docid[level])
    for docid in docids:
        codes = torch.tensor([docid])
        with torch.no_grad():
            hidden = speller.hidden(asked, codes)[0].double()
            heads = [
                speller.alphabet.output[low:high].double()
                for low, high in zip(
                    speller.alphabet.bounds, speller.alphabet.bounds[1:], strict=False
                )
            ]
            for level in range(len(docid)):
                raw = heads[level] @ hidden[level]
                if normalise == "level":
                    raw = raw - raw.logsumexp(0)
                elif normalise == "vocab":
                    raw = raw - (torch.cat(heads) @ hidden[level]).logsumexp(0)
                elif normalise == "legal":
                    legal = sorted(children[docid[:level]])
                    raw = raw - raw[legal].logsumexp(0)
                scores[docid[: level + 1]] = float(raw[docid[level]])
    return scores


def beam_of_dicts(
    steps: dict[tuple[int, ...], float],
    docids: Sequence[tuple[int, ...]],
    width: int,
    carry: dict[tuple[int, ...], float] | None = None,
    look: dict[tuple[int, ...], float] | None = None,
) -> dict[tuple[int, ...], float]:
    """Complete docids that a beam of this width finds, with their final scores."""
    carry, look = carry or {}, look or {}
    beams: dict[tuple[int, ...], float] = {(): 0.0}
    for level in range(len(docids[0])):
        carried: dict[tuple[int, ...], float] = {}
        for prefix in sorted({d[: level + 1] for d in docids if d[:level] in beams}):
            carried[prefix] = beams[prefix[:-1]] + steps[prefix] + carry.get(prefix, 0.0)
        select = {p: s + look.get(p, 0.0) for p, s in carried.items()}
        legal = [p for p in select if select[p] > -np.inf]
        best = sorted(legal, key=lambda p: -select[p])[:width]
        beams = {p: carried[p] for p in best}
        if level == len(docids[0]) - 1:
            return {p: select[p] for p in best}
    return beams


def geometric_votes(
    docids: Sequence[tuple[int, ...]],
    codebooks: Sequence[np.ndarray],
    query: np.ndarray,
    omega: float,
    standardise: bool = False,
) -> dict[tuple[int, ...], float]:
    """PRO Eq. 7 for every prefix; ``standardise`` as the released code has it."""
    votes: dict[tuple[int, ...], float] = {}
    for docid in docids:
        residual = query.astype(np.float64).copy()
        for level, code in enumerate(docid):
            words = codebooks[level].astype(np.float64)
            bias = np.array([2 * residual @ c - c @ c for c in words])
            if standardise:
                bias = (bias - bias.mean()) / max(bias.std(), 1e-6)
            votes[docid[: level + 1]] = omega * bias[code]
            residual = residual - words[code]
    return votes


def reconstruction_score(
    docid: tuple[int, ...], codebooks: Sequence[np.ndarray], query: np.ndarray
) -> float:
    """2 q.x - |x|^2 of a docid's full reconstruction x."""
    words = [book[code] for book, code in zip(codebooks, docid, strict=True)]
    x = np.sum(words, axis=0, dtype=np.float64)
    return float(2 * query.astype(np.float64) @ x - x @ x)


def planned_looks(
    rows: Sequence[tuple[tuple[int, ...], int]],
    planned: dict[int, float],
    reduce: str,
    nothing: float,
) -> dict[tuple[int, ...], float]:
    """PAG Eq. 4-5, ComGTIR Eq. 12 for every prefix: (docid, item) rows, planned item -> score."""
    looks: dict[tuple[int, ...], float] = {}
    for docid, _ in rows:
        for level in range(1, len(docid) + 1):
            prefix = docid[:level]
            below = {item for other, item in rows if other[:level] == prefix}
            scores = [planned[item] for item in sorted(below) if item in planned]
            how = {"max": max, "mean": np.mean, "min": min}[reduce]
            looks[prefix] = float(how(scores)) if scores else nothing
    return looks
