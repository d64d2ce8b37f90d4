"""Every recipe that ships can be loaded, says what it is, and is named after its file."""

from __future__ import annotations

import pytest

from trieline.config import Recipe, load_recipe, recipe_names


def test_recipes_ship() -> None:
    assert recipe_names()


@pytest.mark.parametrize("name", recipe_names() or ["none"])
def test_a_recipe_loads(name: str) -> None:
    recipe = load_recipe(name)
    assert isinstance(recipe, Recipe)
    assert recipe.name == name
    assert recipe.about.endswith("."), "about = says in a sentence what the recipe is for"
