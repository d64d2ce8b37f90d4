"""Codebooks taught by queries: one step at a time, on pairs of a query and an item that answers it.

PRO, Eq. 6: L_cl + rq L_rq + mse L_mse + rank L_rank, for a query q and its item x brought to where
the codebooks are, q^ and x^ being what their codes stand for:
    L_cl    each of q and x finds the other in the batch (both directions, before quantising)
    L_rq    |what the first l levels leave of q and x|^2, summed over levels (Eq. 24)
    L_mse   |q^ - x^|^2
    L_rank  the prefixes of the batch rank as its items do (``distil``)
What codes stand for passes gradients on to the vector that they were chosen for, unchanged
(straight through). Codebooks follow by moving averages, or get gradients; then L_rq moves them too.

The trap: with moving averages and no projection nothing is left that the losses could change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trieline.config import IdSettings
from trieline.ids.assign import assign
from trieline.ids.distil import contrastive, prefix_groups, rank_loss
from trieline.ids.ema import Ema
from trieline.ids.revival import Revival
from trieline.types import Floats

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Lesson", "Teaching"]

_SHORTEST = 1e-12  # a vector of zeros stays one


class Lesson(NamedTuple):
    """One batch of n pairs, whose m different items are everybody's candidates."""

    queries: Floats  # [n, D]
    items: Floats  # [m, D]
    answers: NDArray[np.int64]  # [n] place of each query's item
    known: NDArray[np.bool_]  # [n, m] what else answers a query
    kinds: NDArray[np.uint16]  # [m, k] codes that come before the codebooks' (modality)


class _Seen(NamedTuple):
    """Vectors as the codebooks see them."""

    placed: Tensor  # [n, D]
    sums: list[Tensor]  # [n, D] a level: what the codes up to there stand for

    def through(self, level: int) -> Tensor:
        """A partial sum whose gradient goes to the vector as well."""
        return self.sums[level] + self.placed - self.placed.detach()


class Teaching:
    """Codebooks and a projection on their way; ``books`` and ``map`` are where they are."""

    def __init__(
        self, books: Sequence[Floats], settings: IdSettings, *, lr: float, seed: int = 0
    ) -> None:
        import torch

        how, width = settings.pro, books[0].shape[1]
        self.settings = settings
        self._map = torch.zeros(width, width, requires_grad=how.project)
        self._ema = Ema(books, metric=settings.metric, beam=settings.beam, seed=seed)
        self._revival = Revival([len(book) for book in books], seed=seed)
        by_gradient = how.codebooks == "gradient"
        self._words = [torch.from_numpy(book.copy()).requires_grad_(by_gradient) for book in books]
        groups: list[dict[str, Any]] = [{"params": [self._map], "lr": lr}] * how.project
        for word in self._words * by_gradient:
            # Deeper words are smaller: a step is a share of their size.
            size = float(word.detach().square().mean().sqrt()) * width**0.5
            groups.append({"params": [word], "lr": lr * (size or 1.0)})
        self._rates = [group["lr"] for group in groups]
        self._adam = torch.optim.Adam(groups)

    @property
    def books(self) -> list[Floats]:
        if self.settings.pro.codebooks == "ema":
            return self._ema.books
        return [word.detach().numpy() for word in self._words]  # shares memory

    @property
    def map(self) -> Floats:
        """float32[D, D]: what is added to a vector, before it is brought to length one."""
        found: Floats = self._map.detach().numpy()
        return found

    def step(self, lesson: Lesson, rank: float, *, rate: float = 1.0, parts: int = 1) -> float:
        """Learn from a batch, whose queries may be looked at in ``parts``: the result is the same.

        ``rank`` is the weight of L_rank at this step, ``rate`` a factor on all learning rates.
        Gives back the loss.
        """
        import torch

        self._read_books()
        everybody = torch.from_numpy(np.concatenate([lesson.queries, lesson.items]))
        with torch.no_grad():
            placed: Floats = self._placed(everybody).numpy()
        codes = assign(
            placed, self.books, metric=self.settings.metric, beam=self.settings.beam
        ).astype(np.int64)
        total = 0.0
        for part in np.array_split(np.arange(len(lesson.queries)), parts):
            loss = self._loss(lesson, everybody, codes, part, rank) / len(lesson.queries)
            if loss.requires_grad:
                loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        for group, lr in zip(self._adam.param_groups, self._rates, strict=True):
            group["lr"] = lr * rate
        self._adam.step()
        self._adam.zero_grad()
        self._follow(placed, codes.astype(np.uint16), parts)
        return total

    def _placed(self, vectors: Tensor) -> Tensor:
        import torch

        moved = vectors + vectors @ self._map.T if self.settings.pro.project else vectors
        return torch.nn.functional.normalize(moved, dim=1, eps=_SHORTEST)

    def _loss(
        self,
        lesson: Lesson,
        everybody: Tensor,
        codes: NDArray[np.int64],
        part: NDArray[np.intp],
        rank: float,
    ) -> Tensor:
        """The objective, summed over the queries of ``part``; candidates are the whole batch."""
        import torch

        how, n = self.settings.pro, len(lesson.queries)
        placed, rows = self._placed(everybody), torch.from_numpy(part)
        queries = self._seen(placed[:n], codes[:n])
        items = self._seen(placed[n:], codes[n:])
        own = torch.from_numpy(lesson.answers[part])
        loss = how.contrast * _found_again(
            lesson, queries.placed, items.placed, part, how.contrast_tau
        )
        left = _left_over(items)[own].sum()
        if how.quantised == "both":
            left = (left + _left_over(queries)[rows].sum()) / 2
        loss = loss + how.rq * left
        apart = queries.through(-1)[rows] - items.through(-1)[own]
        loss = loss + how.mse * apart.square().sum()
        if not rank:
            return loss
        asked, frozen = queries.placed[rows], everybody[rows] @ everybody[n:].T
        levels = range(lesson.kinds.shape[1], lesson.kinds.shape[1] + len(self._words))
        groups = prefix_groups(np.concatenate([lesson.kinds, codes[n:]], axis=1))[levels]
        apart = rank_loss(
            frozen,
            [self._student(asked, items.through(level)) for level in range(len(self._words))],
            torch.from_numpy(groups),
            tau=how.tau,
            candidates=how.candidates,
            over=how.distil,
        )
        return loss + rank * len(part) * apart

    def _student(self, asked: Tensor, sums: Tensor) -> Tensor:
        """[part, m]: how near partial sums [m, D] are to queries."""
        alike = asked @ sums.T
        # q.x - |x|^2 / 2 ranks as the distance does, and is q.x up to a constant for unit x.
        return alike if self.settings.pro.student == "product" else alike - sums.square().sum(1) / 2

    def _seen(self, placed: Tensor, codes: NDArray[np.int64]) -> _Seen:
        import torch

        sums: list[Tensor] = []
        for level, word in enumerate(self._words):
            chosen = word[torch.from_numpy(codes[:, level])]
            sums.append(sums[-1] + chosen if sums else chosen)
        return _Seen(placed, sums)

    def _read_books(self) -> None:
        import torch

        if self.settings.pro.codebooks == "ema":
            self._words = [torch.from_numpy(book) for book in self._ema.books]

    def _follow(self, placed: Floats, codes: NDArray[np.uint16], parts: int) -> None:
        """Move codebooks by averages where they have no gradient; bring dead words back."""
        if self.settings.pro.codebooks == "ema":
            self._ema.step(placed, parts)
            return
        self._revival.begin(len(placed))
        books = self.books
        before = [book.copy() for book in books]
        for level, book in enumerate(books):
            self._revival.count(
                level, np.bincount(codes[:, level], minlength=len(book)).astype(np.float64)
            )
            gone, fresh = self._revival.restarts(level, placed, codes, before)
            book[gone] = fresh
            for moment in self._adam.state.get(self._words[level], {}).values():
                if moment.ndim:
                    moment[gone] = 0


def _found_again(
    lesson: Lesson, queries: Tensor, items: Tensor, part: NDArray[np.intp], tau: float
) -> Tensor:
    """L_cl of some queries: to their items among all, and back from there."""
    import torch

    own = lesson.answers[part]
    there = contrastive(
        queries[part] @ items.T, torch.from_numpy(own), torch.from_numpy(lesson.known[part]), tau
    )
    # Queries that the item answers as well are no negatives on the way back.
    known = torch.from_numpy(lesson.known[:, own].T)
    back = contrastive(items[own] @ queries.T, torch.from_numpy(part), known, tau)
    return (there + back) / 2


def _left_over(seen: _Seen) -> Tensor:
    """[n]: what the first 1, 2, ... levels leave of each vector, squared and summed (Eq. 24)."""
    import torch

    left = torch.stack([seen.placed - part for part in seen.sums])  # (L, n, D)
    return left.square().sum(dim=(0, 2))
