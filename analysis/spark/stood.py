"""What stood when, in NumPy: what `standing` says in Spark's words, for a run whose changes are few.

Spark would plan for seconds what takes milliseconds here. The rules are those of `standing`, step by step: when each
change had settled with all it leans on, when something it leans on was being withdrawn, which links lost something of
it, and which change ended it. Ids of changes are replaced by their places among those of the service; what leans on
what, and who ended whom, are pairs of them.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from analysis.spark import passes
from analysis.spark.comparing import VERSIONS
from analysis.spark.graph import Network
from analysis.spark.heeded import Heeded
from brokers.contract import NEVER
from brokers.padded import changed, elements, starts_of

if TYPE_CHECKING:
    from analysis.spark.passes import Array, Columns
    from analysis.spark.trace import Service
    from brokers.engine.runfolder import RunFolder

ROWS_MAX = 200_000  # of changes, of what they lean on and of losses; above, Spark
_COLUMNS = {
    "changes": (
        "service", "change", "operation", "interest", "broker", "client", "issued_ns", "settled_ns", "revoked_ns",
        "values",
    ),
    "dependencies": ("change", "depends_on"),
    "losses": ("cause", "link"),
}  # fmt: skip


def few(run: RunFolder) -> bool:
    """Whether a run has so few changes that this is the place for them."""
    return sum(run.rows(name) for name in _COLUMNS) <= ROWS_MAX


class Pairs(NamedTuple):
    """Two numbers a row, in their order, each pair once."""

    one: Array
    other: Array

    @classmethod
    def of(cls, one: Array, other: Array) -> Pairs:
        order = np.lexsort((other, one))
        one, other = one[order], other[order]
        new = changed(one, other)
        return cls(one[new], other[new])

    def then(self, others: Pairs) -> Pairs:
        """All that is two steps away, the second one of others."""
        count = int(max(self.other.max(initial=-1), others.one.max(initial=-1))) + 1
        place, at = elements(starts_of(others.one, count), self.other)
        return Pairs.of(self.one[place], others.other[at])

    def and_also(self, *more: Pairs) -> Pairs:
        return Pairs.of(*(np.concatenate(each) for each in zip(self, *more)))


class Changes:
    """The changes of a run, for all its services: each table is read once."""

    def __init__(self, run: RunFolder, network: Network) -> None:
        self._run, self._network = run, network

    def versions(self, service: Service, heeds_losses: Heeded, operations: Any) -> pa.Table | None:
        """As `Standing.versions` has them, those that begin with one of the operations; None if there are none."""
        table = self._changes
        if table is None:
            return None
        rows = np.flatnonzero(table["service"].to_numpy() == service.number)
        mine = table.take(pa.array(rows))
        heeded = self._lost["link"] < heeds_losses.before if heeds_losses else None
        lost = None if heeded is None else {name: column[heeded] for name, column in self._lost.items()}
        found = _Settling(mine, service, self._leans, lost, self._network)
        return found.versions(operations)

    @cached_property
    def _changes(self) -> pa.Table | None:
        return self._read("changes")

    @cached_property
    def _leans(self) -> Columns:
        """change, on: everything that a change leans on, directly or through others. Doubles its reach each round."""
        table = self._read("dependencies")
        if table is None:
            return {"change": np.empty(0, np.int64), "on": np.empty(0, np.int64)}
        both = np.concatenate((table["change"].to_numpy(), table["depends_on"].to_numpy()))
        ids, place = np.unique(both, return_inverse=True)
        pairs = Pairs.of(*np.split(place, 2))
        while True:
            grown = pairs.and_also(pairs.then(pairs))
            to_others = grown.one != grown.other
            grown = Pairs(grown.one[to_others], grown.other[to_others])
            if grown.one.size == pairs.one.size:
                return {"change": ids[grown.one], "on": ids[grown.other]}
            pairs = grown

    @cached_property
    def _lost(self) -> Columns:
        table = self._read("losses")
        names = _COLUMNS["losses"]
        return {each: np.empty(0, np.int64) if table is None else table[each].to_numpy() for each in names}

    def _read(self, name: str) -> pa.Table | None:
        parts = map(str, self._run.parts(name))
        found = [piece.rows() for piece in passes.pieces_of(name, parts, _COLUMNS[name])]
        return pa.concat_tables(found).combine_chunks() if found else None


class _Settling:
    """The changes of a service; arrays by change unless they say otherwise."""

    def __init__(
        self, table: pa.Table, service: Service, leans: Columns, lost: Columns | None, network: Network
    ) -> None:
        self.table, self.kind, self.network = table, service.kind, network
        names = ("change", "operation", "interest", "broker", "client", "issued_ns", "settled_ns", "revoked_ns")
        self.row = row = {name: table[name].to_numpy() for name in names}  # by row
        self.ids, self.number = np.unique(row["change"], return_inverse=True)
        row["revoked_ns"] = np.where(row["revoked_ns"] < 0, NEVER, row["revoked_ns"])
        alone = np.where(row["settled_ns"] < 0, NEVER, row["settled_ns"])
        alone[row["issued_ns"] < 0] = -1  # what stands from the start settled before everything
        self.alone = np.full(self.ids.size, -1, np.int64)
        np.maximum.at(self.alone, self.number, alone)
        self.leans = Pairs.of(*self._known(leans["change"], leans["on"]))
        self.settled = self.alone.copy()
        np.maximum.at(self.settled, self.leans.one, self.alone[self.leans.other])
        self.ends = self._ends()
        self.unsettled = self._unsettled()
        self.behind = Pairs.of(np.empty(0, np.int64), np.empty(0, np.int64))  # by change: links that lost something
        if lost is not None:
            self.behind = self._unheard(Pairs.of(*self._known(lost["cause"], lost["link"], only_first=True)))

    def _known(self, one: Array, other: Array, only_first: bool = False) -> tuple[Array, Array]:
        """Ids of changes as their numbers, of pairs of which both are known."""
        known = np.isin(one, self.ids)
        if only_first:
            return np.searchsorted(self.ids, one[known]), other[known].astype(np.int64)
        known &= np.isin(other, self.ids)
        return np.searchsorted(self.ids, one[known]), np.searchsorted(self.ids, other[known])

    def _of(self, operations: Any) -> Array:
        return np.flatnonzero(np.isin(self.row["operation"], sorted(operations)))

    def _ends(self) -> Pairs:
        """Who ended whom: of a value the next of its word, else what revoked the word."""
        word, kind = self.row["interest"], self.kind
        begun, revoked = self._of(kind.interests | kind.replacements), self._of(kind.revocations)
        words, place = np.unique(word, return_inverse=True)
        by_word = revoked[np.argsort(place[revoked], kind="stable")]
        owner, at = elements(starts_of(place[by_word], words.size), place[begun])
        found = Pairs.of(self.number[begun[owner]], self.number[by_word[at]])
        values = self._of(kind.replacements)
        order = np.lexsort((self.row["change"][values], self.row["issued_ns"][values], place[values]))
        values = values[order]
        follows = ~changed(place[values])[1:]
        replaced = Pairs.of(self.number[values[:-1][follows]], self.number[values[1:][follows]])
        rest = ~np.isin(found.one, replaced.one)
        return replaced.and_also(Pairs(found.one[rest], found.other[rest]))

    def _unsettled(self) -> tuple[Array, Columns]:
        """By change where its times start in which something it leans on was being withdrawn; and these."""
        revoked = np.full(self.ids.size, NEVER, np.int64)
        np.minimum.at(revoked, self.number, self.row["revoked_ns"])
        place, at = elements(starts_of(self.ends.one, self.ids.size), self.leans.other)
        change, of = self.leans.one[place], self.ends.one[at]
        begin, end = revoked[of], self.settled[self.ends.other[at]]
        order = np.lexsort((end, begin, change))
        change, begin, end = change[order], begin[order], end[order]
        new = changed(change, begin, end)
        return starts_of(change[new], self.ids.size), {"begin": begin[new], "end": end[new]}

    def _unheard(self, lost: Pairs) -> Pairs:
        """Which links lost something of a change, of what it leans on, or of the ends of that."""
        every = np.arange(self.ids.size)
        heeds = Pairs(every, every).and_also(self.leans, self.leans.then(self.ends))
        return heeds.then(lost)

    def versions(self, operations: Any) -> pa.Table | None:
        """See `Changes.versions`."""
        begun = self._of((self.kind.interests | self.kind.replacements) & set(operations))
        broker = self.row["broker"][begun]
        begun = begun[(broker >= 0) & (broker < self.network.brokers)]  # others are nowhere
        if not begun.size:
            return None
        gone = np.full(self.ids.size, NEVER, np.int64)
        heard = np.diff(starts_of(self.behind.one, self.ids.size)) == 0
        of_end = np.where(heard, self.settled, NEVER)
        first = changed(self.ends.one)
        gone[self.ends.one[first]] = of_end[self.ends.other[first]]
        number, row = self.number[begun], {name: column[begun] for name, column in self.row.items()}
        row |= {
            "home": self.network.place[row["broker"]], "settled_ns": self.settled[number], "gone_ns": gone[number],
        }  # fmt: skip
        columns = {name: pa.array(row[name].astype(np.int64)) for name in VERSIONS[:-3]}
        columns["values"] = self.table["values"].combine_chunks().take(pa.array(begun))
        starts, windows = self.unsettled
        columns["unsettled"] = _listed(starts, windows, number)
        links, at = np.unique(self.behind.other, return_inverse=True)
        behind = np.array([self.network.behind(link) for link in links.tolist()], np.int64).reshape(-1, 3)[at]
        places = {"low": behind[:, 0], "high": behind[:, 1], "inside": behind[:, 2] != 0}
        columns["unheard"] = _listed(starts_of(self.behind.one, self.ids.size), places, number)
        return pa.table(columns)


def _listed(starts: Array, columns: Columns, rows: Array) -> pa.Array:
    """Of lists of structs those of some rows."""
    sizes = starts[rows + 1] - starts[rows]
    _, at = elements(starts, rows)
    fields = [pa.array(column[at]) for column in columns.values()]
    structs = pa.StructArray.from_arrays(fields, list(columns))
    return pa.ListArray.from_arrays(np.r_[0, np.cumsum(sizes)].astype(np.int32), structs)
