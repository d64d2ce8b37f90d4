"""The trie of an index that changes: what is stored, brought up to date with the catalog.

The catalog is the truth and logs its changes; the stored trie stays at the revision it was written
at. Opening takes the stored trie and replays the changes since, in memory; ``compact`` writes the
trie anew and drops the log that it covers. So a change costs what is changed, not what is there.

Whoever asks gets a ``View``: a trie that is never changed, and the revision that it tells. A search
keeps the view that it began with. One read of the revision tells whether somebody, in this process
or another, has changed the catalog since; if so, the next view has the changes in it.

Trap: bringing a view up to date copies the trie in memory. It happens once for all changes since
the last search, not once a change.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trieline.catalog import Catalog, Where
from trieline.config import IdSettings
from trieline.errors import IndexFolderError, SettingsError
from trieline.ids.collisions import numbers_items
from trieline.index import Trie
from trieline.store import IndexFolder, Writer, open_folder
from trieline.types import Codes

__all__ = [
    "Compacted",
    "Filter",
    "Living",
    "View",
    "compact_index",
    "open_view",
    "replayed",
    "store_view",
    "stored_view",
    "taken_by",
]

Filter = Collection[str] | NDArray[np.bool_] | Mapping[str, Any] | Where

_KEPT = 8  # restricted tries, each at most as large as the trie


class View(NamedTuple):
    """One state of an index."""

    revision: int
    trie: Trie


class Compacted(NamedTuple):
    """What compacting did."""

    changes: int  # that were replayed at every opening before
    before: int  # bytes of catalog and trie on disk
    after: int


class Living:
    """The views of one open index, for any number of threads."""

    def __init__(self, folder: IndexFolder, catalog: Catalog) -> None:
        self._folder, self._catalog = folder, catalog
        self._view = open_view(folder, catalog)
        self._catching_up = threading.Lock()
        self._changing = threading.Lock()
        self._restricted: OrderedDict[tuple[int, Where], Trie] = OrderedDict()
        self._keeping = threading.Lock()

    def view(self) -> View:
        """The present state. Costs a read of the revision where nothing has changed."""
        if self._view.revision != self._catalog.revision:
            with self._catching_up:  # those who come meanwhile wait for the one who does it
                if self._view.revision != self._catalog.revision:
                    self._view = _caught_up(self._view, self._folder, self._catalog)
        return self._view

    def findable(self, view: View, filter: Filter | None) -> Trie:
        """The trie of a view with only the items that a filter lets through."""
        if isinstance(filter, Mapping):
            filter = Where.of(filter)
        if isinstance(filter, Where):
            return self._matching(view, filter)
        allowed = self.allowed(filter)
        return view.trie if allowed is None else view.trie.restrict(allowed)

    def allowed(self, filter: Filter | None) -> NDArray[np.bool_] | None:
        """A filter as booleans by item number; None where there is none."""
        if filter is None:
            return None
        if isinstance(filter, Where | Mapping):
            return self._marked(self._catalog.matching(filter))
        if isinstance(filter, np.ndarray):
            if filter.dtype != np.bool_:
                raise SettingsError(
                    f"filter is an array of {filter.dtype}: expected booleans, one for each item "
                    "number, or a collection of item ids."
                )
            return filter
        if isinstance(filter, str):
            raise SettingsError(
                f"filter = {filter!r}: expected a collection of item ids, or a mapping of metadata."
            )
        return self._marked(self._catalog.numbers(list(filter)))

    @contextmanager
    def changing(self) -> Iterator[Writer]:
        """The right to change the catalog: threads wait for it, another process is refused."""
        with self._changing, self._folder.writing() as writer:
            yield writer

    def compact(self) -> Compacted:
        """Store the trie as it is now, drop the log of changes, give back the room of the gone."""
        with self.changing() as writer:
            return store_view(self.view(), self._folder, self._catalog, writer, shrink=True)

    def _matching(self, view: View, where: Where) -> Trie:
        """Kept for the last few predicates; never stale, because a change makes another view."""
        key = view.revision, where
        with self._keeping:
            found = self._restricted.get(key)
            if found is not None:
                self._restricted.move_to_end(key)
                return found
        made = view.trie.restrict(self._marked(self._catalog.matching(where)))
        with self._keeping:
            self._restricted[key] = made
            for old in [key for key in self._restricted if key[0] < view.revision]:
                del self._restricted[old]
            while len(self._restricted) > _KEPT:
                self._restricted.popitem(last=False)
        return made

    def _marked(self, numbers: NDArray[np.uint32]) -> NDArray[np.bool_]:
        marked = np.zeros(self._catalog.end, np.bool_)  # never shorter than any view's numbers
        marked[numbers] = True
        return marked


def open_view(folder: IndexFolder, catalog: Catalog) -> View:
    """The stored trie and the changes since; made from the catalog where that cannot be."""
    stored = stored_view(folder, catalog)
    if stored is not None:
        view = replayed(stored, catalog)
        if view is not None:
            return view
    revision, codes = catalog.state()
    return View(revision, Trie.build(codes, catalog.sizes))


def stored_view(folder: IndexFolder, catalog: Catalog) -> View | None:
    """The trie as it is stored, of whichever revision; None where it is absent or damaged."""
    found = folder.newest("trie")
    if found is None:
        return None
    try:
        return View(found.revision, Trie.from_arrays(found.arrays, catalog.sizes))
    except IndexFolderError:  # rebuildable: 'trieline verify' reports it
        return None


def store_view(
    view: View, folder: IndexFolder, catalog: Catalog, writer: Writer, *, shrink: bool
) -> Compacted:
    """Write the trie of a view, then drop the log that it covers, then shrink the catalog.

    In this order a crash between any two leaves an index that opens to the same state.
    """
    stored = folder.newest("trie")
    before = _bytes(folder)
    writer.replace_derived("trie", view.revision, view.trie.arrays())
    catalog.forget_changes(view.revision)
    if shrink:
        catalog.compact()
    changes = view.revision - (0 if stored is None else stored.revision)
    return Compacted(changes, before, _bytes(folder))


def compact_index(path: Path) -> Compacted:
    """Compact an index without loading its model."""
    folder = open_folder(path)
    with Catalog.open(folder.file("catalog.sqlite")) as catalog, folder.writing() as writer:
        return store_view(open_view(folder, catalog), folder, catalog, writer, shrink=True)


def _caught_up(view: View, folder: IndexFolder, catalog: Catalog) -> View:
    newer = replayed(view, catalog)
    return open_view(folder, catalog) if newer is None else newer


def taken_by(
    settings: IdSettings, new: Codes, view: Callable[[], View], leaving: ArrayLike
) -> Codes | None:
    """The rows of an index that decide which docids new items may have, without items that leave.

    None where items may share docids; where the last level numbers them, only the rows that are
    equal up to there: both cost no more than the change.
    """
    if not numbers_items(settings) and settings.collisions == "keep":
        return None
    trie = view().trie
    if numbers_items(settings):
        codes, owner = _near(trie, new)
    else:
        codes, owner = trie.codes, trie.owner
    kept = ~np.isin(owner, leaving)
    return Codes(codes[kept], owner[kept])


def _near(trie: Trie, new: Codes) -> Codes:
    """The rows of a trie that differ from a new one in the last level at most."""
    nodes, first = np.unique(trie.walk(new.codes[:, :-1])[:, -1], return_index=True)
    prefixes = new.codes[first[nodes >= 0], :-1]
    children = trie.expand(trie.depth - 1, nodes[nodes >= 0])
    found = trie.items(children.nodes)
    last = children.codes[found.leaves].astype(np.uint16)
    return Codes(np.column_stack([prefixes[children.parents[found.leaves]], last]), found.items)


def replayed(view: View, catalog: Catalog) -> View | None:
    """A view with the changes since; None where the log does not reach back to it."""
    changes = catalog.changes(view.revision)
    if changes is None:
        return None
    trie = view.trie
    if len(changes.removed):
        trie = trie.remove(changes.removed)
    if len(changes.added.owner):
        trie = trie.insert(changes.added)
    return View(changes.revision, trie)


def _bytes(folder: IndexFolder) -> int:
    parts = ("catalog.sqlite", "derived/trie")
    return sum(size for name, size in folder.sizes().items() if name.startswith(parts))
