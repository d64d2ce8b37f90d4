"""Explanations of an opened index: the same question asked again, with other settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from trieline.asking import Asker, as_queries
from trieline.config import Recipe, apply
from trieline.decode import Expansion, Found, Guide, one_thread_each
from trieline.diagnose import Explanation, explain, what_ifs
from trieline.ids import Docids, codebooks_of
from trieline.index import Trie
from trieline.types import Query
from trieline.watch import silent

__all__ = ["explain_answer"]


def explain_answer(
    query: str | Query,
    item_id: str,
    recipe: Recipe,
    asker: Asker,
    docids: Docids,
    trie: Trie,
    allowed: NDArray[np.bool_] | None,
    spell: Callable[..., list[Found]],
    *,
    k: int | None,
    beam: int | None,
    searches: int,
) -> Explanation:
    """Why an item is or is not among the answers; ``spell`` is the retriever's own search."""
    asked, catalog = as_queries(query), asker.catalog
    number = int(catalog.numbers([item_id])[0])
    excluded = allowed is not None and not allowed[number : number + 1].any()
    legal = trie if allowed is None or excluded else trie.restrict(allowed)

    def search(
        observe: Callable[[Expansion], None],
        *,
        beam: int,
        changes: Sequence[str] = (),
        guides: Sequence[Guide] = (),
    ) -> Found:
        decode = apply(recipe, changes).decode
        (batch,) = asker.ready(asked, silent, guided=decode.guided)
        if guides and batch.vectors is None:  # such guides as are given here read none
            batch = batch._replace(vectors=np.zeros((1, 0), np.float32))
        (found,) = spell(batch, legal, beam, beam, observe=observe, decode=decode, guides=guides)
        return found

    with one_thread_each():
        return explain(
            search,
            legal,
            catalog.docids(number),
            number,
            query=asked[0].text or asked[0].id,
            item=catalog.get([number])[0],
            beam=recipe.decode.beam if beam is None else beam,
            k=k,
            items=catalog.found,
            excluded=excluded,
            tried=what_ifs(recipe, codebooks_of(docids)),
            searches=searches,
        )
