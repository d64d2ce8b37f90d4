"""Searches side by side: one thread each, as many as torch was given.

Threads inside one small search mostly wait for each other: on a busy machine it took 40 times as
long with two as with one. So a search has one thread, and batches are spread over workers.

The trap: how many threads a product takes is OpenMP's own number in each thread, and a new thread
begins with the machine's. torch corrects it at its first parallel loop, oneDNN does not ask: sums
came out another way in some threads than in others, and with them scores in their last digit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch

__all__ = ["one_thread_each"]


@contextmanager
def one_thread_each() -> Iterator[ThreadPoolExecutor]:
    """As many workers as torch had threads, each with one; so has the caller meanwhile."""
    threads = _SINGLE.enter()
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool
    finally:
        _SINGLE.leave()


class _SingleThreaded:
    """torch's number of threads belongs to the process: the first search to begin sets it to one,
    the last to end sets it back, however they overlap.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._threads = threading.Lock(), 0, 1

    def enter(self) -> int:
        """How many threads torch had before."""
        with self._lock:
            if not self._inside:
                self._threads = torch.get_num_threads()
            self._inside += 1
            torch.set_num_threads(1)
            return self._threads

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                torch.set_num_threads(self._threads)


_SINGLE = _SingleThreaded()
