"""Codebooks refined by gradient descent on what the whole docid leaves over.

loss = |x - sum_l c_{l, z_l}|^2 / D, with the codes assigned by the words of the moment (hard, so
the gradient reaches the chosen words of all levels together), plus ``prefix`` times the same for
every shorter prefix: the commitment that keeps early levels meaning what they meant.
The trap: items are fixed here, so straight-through estimation has nothing upstream to pass a
gradient to, and plain descent on few items per code fits noise: new items do not get better.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trieline.ids.assign import Metric, assign, squared_error
from trieline.types import Floats
from trieline.watch import Watch, silent

__all__ = ["refine_gradient"]


def refine_gradient(
    items: Floats,
    books: Sequence[Floats],
    *,
    metric: Metric = "l2",
    beam: int = 1,
    epochs: int = 10,
    seed: int = 0,
    lr: float = 0.02,
    prefix: float = 0.05,
    batch: int = 1024,
    watch: Watch = silent,
) -> list[Floats]:
    """The best books after any epoch, the given ones included, by squared error of ``items``.

    ``lr`` is in units of a level's root mean square, and falls to zero along a cosine.
    """
    import torch

    words = [torch.nn.Parameter(torch.from_numpy(book.copy())) for book in books]
    rates = [lr * float(np.sqrt(np.mean(book**2)) or 1.0) for book in books]
    adam = torch.optim.Adam(
        [{"params": [word], "lr": rate} for word, rate in zip(words, rates, strict=True)]
    )
    steps = max(1, epochs * -(-len(items) // batch))
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(adam, steps)
    live = [word.detach().numpy() for word in words]  # shares memory: always the present words
    best = list(books)
    error = squared_error(items, assign(items, best, metric=metric, beam=beam), best)
    rng = np.random.default_rng(seed)
    with watch("refining codebooks", epochs) as task:
        for _ in range(epochs):
            order = rng.permutation(len(items))
            for start in range(0, len(items), batch):
                rows = items[order[start : start + batch]]
                codes = assign(rows, live, metric=metric, beam=beam)
                left = torch.from_numpy(rows)
                loss = torch.zeros(())
                for level, word in enumerate(words):
                    left = left - word[torch.from_numpy(codes[:, level].astype(np.int64))]
                    weight = 1.0 if level == len(words) - 1 else prefix / len(words)
                    loss = loss + weight * left.square().mean()
                adam.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                adam.step()
                fall.step()
            now = squared_error(items, assign(items, live, metric=metric, beam=beam), live)
            if now < error:
                best, error = [word.copy() for word in live], now
            task.advance(note=f"error {now:.4f}")
    return best
