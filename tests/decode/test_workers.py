"""Searches side by side: every thread has one thread, and torch gets its own back."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier

import pytest
import torch
from threadpoolctl import threadpool_info

from trieline.decode import one_thread_each


@pytest.fixture(autouse=True)
def two_threads() -> object:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def of_openmp() -> set[int]:
    """What torch's OpenMP would take in this thread, asked of itself: torch's number hides it.

    Other libraries bring an OpenMP of their own, which is none of torch's business.
    """
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "openmp"]
    own = [pool for pool in pools if "torch" in Path(pool["filepath"]).parts] or pools
    return {pool["num_threads"] for pool in own}


def test_a_new_worker_has_one_thread_before_torch_does_anything() -> None:
    both = Barrier(2, timeout=60)

    def meet() -> set[int]:
        both.wait()  # so that two workers are asked, not one twice
        return of_openmp()

    with one_thread_each() as workers:
        asked = [workers.submit(meet) for _ in range(2)]
        assert [answer.result() for answer in asked] == [{1}, {1}]


def test_torch_gets_its_threads_back_however_searches_overlap() -> None:
    outer = one_thread_each()
    outer.__enter__()
    with one_thread_each():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 1, "the first search goes on"
    outer.__exit__(None, None, None)
    assert torch.get_num_threads() == 2
