"""The object that users hold: a corpus that can be asked.

    retriever = Retriever.build("my-corpus/", "genius", path="my.tl")
    retriever = Retriever.load("my.tl")
    retriever.search("how do I parse dates", k=5)

Changes (``add``, ``remove``) go to the catalog, which is durable; the next search, by whomever, has
them in its trie (see ``living``). A search that runs meanwhile sees the state from before or after,
never a mixture; what was removed while it ran is not among its hits.

Threads may share a retriever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from trieline import certain, judging, retaining
from trieline.answering import still_there
from trieline.asking import Asker, Batch, as_queries
from trieline.build import build_index, write_index
from trieline.catalog import Catalog
from trieline.config import DecodeSettings, Recipe, from_mapping
from trieline.data import Dataset
from trieline.decode import Expansion, Found, Guide, GuidesOf, beam_search, one_thread_each
from trieline.diagnose import Explanation, Survival, SurvivalCounter, survival
from trieline.encode import Encoder, open_encoder
from trieline.errors import IndexMismatch
from trieline.explaining import explain_answer
from trieline.ids import Docids, Stats, load_docids, resolve, stats
from trieline.index import Trie
from trieline.living import Compacted, Filter, Living, taken_by
from trieline.model import Speller, load_speller
from trieline.model.bridge import Bridge
from trieline.model.linear import Precision, check_precision
from trieline.model.packed import quickest
from trieline.store import IndexFolder, open_folder
from trieline.types import Codes, Hit, Item, Qrel, Query
from trieline.watch import Watch, silent

__all__ = ["Retriever"]

Questions = str | Query | Sequence[str | Query]
Observer = Callable[[Expansion], None]


class Retriever:
    """An index, opened."""

    def __init__(
        self,
        folder: IndexFolder,
        recipe: Recipe,
        catalog: Catalog,
        docids: Docids,
        speller: Speller,
        encoder: Encoder,
        precision: Precision,
        bridge: Bridge | None = None,
    ) -> None:
        """Not for callers: see ``build`` and ``load``."""
        self.folder, self.recipe, self.catalog = folder, recipe, catalog
        self.docids, self.speller, self.encoder = docids, speller, encoder
        self._living = Living(folder, catalog)
        self._bridge, self._guides = bridge, GuidesOf(docids)
        place = None if bridge is None else partial(bridge.vectors, speller)
        self._asker = Asker(recipe, catalog, encoder, docids, place)
        self._spells = quickest(speller, precision)

    # --- making and opening -------------------------------------------------------------------

    @classmethod
    def build(
        cls,
        corpus: str | Path | Dataset | Iterable[Item],
        recipe: str | Path | Recipe = "genius",
        *,
        path: str | Path,
        settings: Sequence[str] = (),
        cache: str | Path | None = None,
        device: str = "cpu",
        watch: Watch = silent,
    ) -> Retriever:
        """Encode a corpus, give it docids, train a model to spell them, save it all at ``path``.

        ``settings`` are changes to the recipe ("decode.beam=100"). A build that was interrupted
        goes on where it stopped when it is started again with the same ``cache``.
        """
        build_index(
            corpus,
            recipe,
            Path(path),
            settings=settings,
            cache=None if cache is None else Path(cache),
            device=device,
            watch=watch,
        )
        return cls.load(path, cache=cache, device=device)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        cache: str | Path | None = None,
        device: str = "cpu",
        precision: Precision = "fp32",
    ) -> Retriever:
        """Open a saved index. Parts that do not belong together are refused.

        ``precision``: of the model's products while it spells. fp32 gives the model's own scores;
        bf16 and int8 are faster where the machine computes them, and rank near ties anew.
        """
        check_precision(precision)
        folder = open_folder(path)
        recipe = from_mapping(folder.manifest.recipe, str(path))
        catalog = Catalog.open(folder.file("catalog.sqlite"))
        docids = load_docids(recipe.ids, folder.arrays("docids.safetensors"))
        encoder = open_encoder(
            recipe.encode,
            None if cache is None else Path(cache),
            device=device,
            dim=folder.manifest.notes.get("dim"),  # vectors that users bring do not tell it
        )
        speller = load_speller(
            recipe.model,
            catalog.sizes,
            folder.arrays("model.safetensors"),
            encoder.dim,
        )
        found = {"encoder": encoder.fingerprint, "docids": docids.fingerprint}
        bridge = None
        if recipe.model.bridge:
            width = docids.codebooks[0].shape[1]
            bridge = Bridge.from_arrays(
                folder.arrays("bridge.safetensors"), speller.alphabet.width, width
            )
            found["bridge"] = bridge.fingerprint
        for name, fingerprint in found.items():
            _must_match(folder, name, folder.manifest.fingerprints.get(name), fingerprint)
            _must_match(folder, name, catalog.fingerprints.get(name), fingerprint)
        model = folder.manifest.fingerprints.get("model")  # its file was checked when it was opened
        _must_match(folder, "model", catalog.fingerprints.get("model"), str(model))
        parts = folder, recipe, catalog, docids, speller.to(device), encoder, precision
        return cls(*parts, bridge)

    def save(self, path: str | Path) -> None:
        """Write the index, as it is now, to another place."""
        with self.catalog.snapshot() as (codes, items):
            _, position = np.unique(codes.owner, return_inverse=True)
            write_index(
                Path(path),
                recipe=self.recipe,
                docids=self.docids,
                encoder=self.encoder,
                speller=self.speller,
                bridge=self._bridge,
                items=items,
                codes=Codes(codes.codes, position.astype(np.uint32)),
                notes=dict(self.folder.manifest.notes),
            )

    def close(self) -> None:
        """Let go of the catalog."""
        self.catalog.close()

    def __enter__(self) -> Retriever:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.catalog)

    @property
    def trie(self) -> Trie:
        """What may be spelled at this moment; the trie itself is never changed."""
        return self._living.view().trie

    # --- asking -------------------------------------------------------------------------------

    def search(
        self,
        queries: Questions,
        k: int = 10,
        *,
        beam: int | None = None,
        filter: Filter | None = None,
        trace: bool = False,
        exact: bool = False,
        watch: Watch = silent,
    ) -> list[list[Hit]]:
        """The best ``k`` items of every query, best first; one list of hits a query.

        ``filter`` leaves only some items findable: their ids, a boolean array over item numbers,
        or a mapping of what their metadata must be, such as {"section": "net", "year": {">=":
        2010}} (see ``catalog.Where``). ``exact``: no beam, see ``search_exact``. Text that is
        longer than the encoder reads is cut.
        """
        if exact:
            certified = self.search_exact(queries, k, filter=filter, watch=watch)
            return [answer.hits for answer in certified]
        asked = as_queries(queries)
        trie = self._living.findable(self._living.view(), filter)
        ready = self._asker.ready(asked, watch, guided=self.recipe.decode.guided)
        answers: list[list[Hit]] = []
        with watch("searching", len(asked)) as task, one_thread_each() as workers:

            def answer(batch: Batch) -> list[list[Hit]]:
                def spell(trie: Trie) -> list[Found]:
                    return self._spell(batch, trie, k, beam, trace=trace)

                return [hits for _, hits in still_there(self.catalog, spell, trie)]

            for hits in workers.map(answer, ready):
                answers += hits
                task.advance(len(hits))
        return answers

    search_exact = certain.search_exact
    search_error = certain.search_error
    diagnose_survival = retaining.diagnose_survival
    judge_codes = judging.judge_codes

    def run(
        self,
        queries: Iterable[Query],
        k: int = 100,
        *,
        beam: int | None = None,
        watch: Watch = silent,
    ) -> dict[str, list[Hit]]:
        """Query id -> hits, as evaluation and run files want them."""
        asked = list(queries)
        answers = self.search(asked, k, beam=beam, watch=watch)
        return {query.id: hits for query, hits in zip(asked, answers, strict=True)}

    def explain(
        self,
        query: str | Query,
        item_id: str,
        k: int | None = None,
        *,
        beam: int | None = None,
        filter: Filter | None = None,
        searches: int = 32,
    ) -> Explanation:
        """Why an item is or is not among the first ``k`` answers, and what would bring it there.

        At most ``searches`` searches are run; with 2 nothing is tried.
        """
        allowed = self._living.allowed(filter)
        parts = self.recipe, self._asker, self.docids, self.trie, allowed, self._spell
        return explain_answer(query, item_id, *parts, k=k, beam=beam, searches=searches)

    def survival(
        self,
        queries: Sequence[Query],
        qrels: Iterable[Qrel],
        *,
        beam: int | None = None,
        watch: Watch = silent,
    ) -> Survival:
        """The share of queries whose answer's prefix is still in the beam after each level."""
        width = self.recipe.decode.beam if beam is None else beam
        wanted: dict[str, list[NDArray[np.uint16]]] = {query.id: [] for query in queries}
        trie = self.trie
        for qrel in qrels:
            number = self.catalog.find(qrel.item_id) if qrel.query_id in wanted else None
            if number is not None and qrel.relevance > 0:
                wanted[qrel.query_id].append(self.catalog.docids(number))
        asked = [query for query in queries if wanted[query.id]]
        targets = iter([np.concatenate(wanted[query.id]) for query in asked])
        ready = self._asker.ready(asked, watch, guided=self.recipe.decode.guided)
        parts = [list(islice(targets, batch.asked.queries)) for batch in ready]
        counters: list[SurvivalCounter] = []
        with watch("following prefixes", len(asked)) as task, one_thread_each() as workers:

            def follow(batch: Batch, part: list[NDArray[np.uint16]]) -> SurvivalCounter:
                counter = SurvivalCounter(trie, part)
                self._spell(batch, trie, 1, width, observe=counter.observe)
                return counter

            for counter, part in zip(workers.map(follow, ready, parts), parts, strict=True):
                counters.append(counter)
                task.advance(len(part))
        return survival(counters)

    # --- changing -----------------------------------------------------------------------------

    def add(self, items: Iterable[Item], *, replace: bool = False, watch: Watch = silent) -> int:
        """Make new items findable at once, without training. Gives back how many.

        A model favours what it was taught: see ``decode.omega``, and train again after adding many.

        ``replace``: an item whose id is there already takes its place, in the same change.
        """
        new = list(items)
        if not new:
            return 0
        vectors = self._asker.encode(new, watch)
        labels = [item.modality for item in new] if self.recipe.ids.modality else None
        assigned = self.docids.assign(vectors, labels=labels)
        with self._living.changing():
            leaving = self.catalog.known(item.id for item in new) if replace else ()
            codes = resolve(
                assigned,
                self.recipe.ids,
                vectors=vectors,
                docids=self.docids,
                taken=taken_by(self.recipe.ids, assigned, self._living.view, leaving),
            )
            self.catalog.add(new, codes, replace=replace)
        return len(new)

    def remove(self, ids: Iterable[str]) -> int:
        """Make items unfindable at once. Gives back how many."""
        with self._living.changing():
            return len(self.catalog.remove(ids))

    def compact(self) -> Compacted:
        """Fold all changes into the files and give back the room of what was removed.

        Worth its time after thousands of changes: opening the index replays them.
        """
        return self._living.compact()

    # --- looking inside -----------------------------------------------------------------------

    def stats(self) -> Stats:
        """How the docids are spread: use, entropy, collisions."""
        return stats(self.catalog.codes(), self.catalog.sizes)

    def bytes_per_item(self) -> dict[str, float]:
        """Bytes an item takes: docids alone, the trie in memory, the catalog with its texts."""
        count = max(len(self), 1)
        sizes = self.folder.sizes()
        catalog = sum(size for name, size in sizes.items() if name.startswith("catalog.sqlite"))
        return {
            "docids": self.trie.codes.nbytes / count,
            "trie": self.trie.nbytes / count,
            "catalog": catalog / count,
        }

    # --- how ----------------------------------------------------------------------------------

    def _spell(
        self,
        batch: Batch,
        trie: Trie,
        k: int,
        beam: int | None,
        *,
        trace: bool = False,
        observe: Observer | None = None,
        decode: DecodeSettings | None = None,
        guides: Sequence[Guide] = (),
    ) -> list[Found]:
        decode, (asked, vectors) = decode or self.recipe.decode, batch
        return beam_search(
            self._spells,
            asked.to(self.speller.device),
            trie,
            beam=decode.beam if beam is None else beam,
            k=k,
            normalise=decode.normalise,
            guides=[*self._guides(decode), *guides],
            vectors=vectors,
            trace=trace,
            observe=observe,
        )


def _must_match(folder: IndexFolder, name: str, saved: str | None, found: str) -> None:
    if saved != found:
        raise IndexMismatch(
            f"{folder.path}: the index was built with {name} {saved}, but {found} was found. "
            f"Rebuild with 'trieline build', or bring back the {name} it was built with."
        )
