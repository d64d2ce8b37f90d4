"""A build that is cut off goes on where it was, and leaves nothing half written."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from workshop import Interrupted, dataset, small_recipe, stop_in, tree_of

from trieline.retriever import Retriever
from trieline.types import Hit

EVERY_STEP = "train.checkpoint_every=0"


def answers(retriever: Retriever) -> list[list[Hit]]:
    return retriever.search([query.text for query in dataset().queries("test")], 20)


@pytest.mark.parametrize("step", [1, 23, 60])
def test_cut_off_in_training_it_goes_on(words: Path, tmp_path: Path, step: int) -> None:
    recipe, cache = small_recipe(words, EVERY_STEP), tmp_path / "cache"
    with Retriever.build(dataset(), recipe, path=tmp_path / "whole.tl") as whole:
        expected = answers(whole)
        weights = whole.folder.arrays("model.safetensors")
    path = tmp_path / "cut.tl"
    with pytest.raises(Interrupted):
        Retriever.build(dataset(), recipe, path=path, cache=cache, watch=stop_in("training", step))
    assert not path.exists()
    steps: list[int] = []

    def watch(what: str, total: int | None):
        from contextlib import contextmanager

        class Task:
            def advance(self, n: int = 1, note: str = "") -> None:
                if what == "training":
                    steps.append(n)

        @contextmanager
        def opened():
            yield Task()

        return opened()

    with Retriever.build(dataset(), recipe, path=path, cache=cache, watch=watch) as cut:
        assert answers(cut) == expected
        again = cut.folder.arrays("model.safetensors")
    assert weights.keys() == again.keys()
    for name, array in weights.items():
        np.testing.assert_array_equal(again[name], array)
    if step > 1:  # one checkpoint was written before each step but the first
        assert steps[0] == step - 1, "the steps that were done are not done again"
    assert not list((cache / "trainings").iterdir()), "the index has the weights now"


def test_another_recipe_does_not_go_on_with_that_training(words: Path, tmp_path: Path) -> None:
    cache, path = tmp_path / "cache", tmp_path / "a.tl"
    with pytest.raises(Interrupted):
        recipe = small_recipe(words, EVERY_STEP, "train.seed=3")
        Retriever.build(dataset(), recipe, path=path, cache=cache, watch=stop_in("training", 40))
    with (
        Retriever.build(dataset(), small_recipe(words), path=path, cache=cache) as one,
        Retriever.build(dataset(), small_recipe(words), path=tmp_path / "b.tl") as other,
    ):
        assert answers(one) == answers(other)


@pytest.mark.parametrize("what", ["encoding texts", "training", "saving items"])
def test_cut_off_anywhere_nothing_is_half_written(
    built: Path, words: Path, tmp_path: Path, what: str
) -> None:
    fresh, old = tmp_path / "fresh.tl", tmp_path / "old.tl"
    shutil.copytree(built, old)
    before = tree_of(old)
    for path in (fresh, old):
        with pytest.raises(Interrupted):
            Retriever.build(dataset(), small_recipe(words), path=path, watch=stop_in(what, 2))
    assert not fresh.exists()
    assert {name for name in tree_of(old) if name != "lock"} == {n for n in before if n != "lock"}
    with Retriever.load(old) as retriever, Retriever.load(built) as original:
        assert answers(retriever) == answers(original)


def test_embeddings_are_kept_when_a_build_is_cut_off(words: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with pytest.raises(Interrupted):
        Retriever.build(
            dataset(),
            small_recipe(words),
            path=tmp_path / "a.tl",
            cache=cache,
            watch=stop_in("training", 1),
        )
    notes: list[str] = []

    def watch(what: str, total: int | None):
        from contextlib import contextmanager

        class Task:
            def advance(self, n: int = 1, note: str = "") -> None:
                if note == "from the cache":
                    notes.append(f"{what} {n} of {total}")

        @contextmanager
        def opened():
            yield Task()

        return opened()

    Retriever.build(
        dataset(), small_recipe(words), path=tmp_path / "a.tl", cache=cache, watch=watch
    ).close()
    assert notes[0] == "encoding texts 42 of 42"
