"""Filters that every broker is told of, over all brokers of a shard: what `topk-ingress` knows.

A filter that all brokers here know alike is *settled*: it stands once, in the index of the service. One whose change
is on its way is *loose*: a row of `held` says, for each broker, which of its *versions* it knows. Publications ask the
index, and score beside it the versions that their broker knows of loose filters. So a filter is taken out of the index
when the first broker hears of a change, and put back when the last one has.

A version is what one change brings. A body names its version by a number that is never used again (`stamp`), so that
one that outlives it is seen to.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.columns import BadState, Column, check_columns
from brokers.contract import Floats, Ints, ShardEnv
from brokers.indexes.ids import IdMap
from brokers.indexes.space import grown
from brokers.indexes.topk.contract import Query, RankedIndex, RankedMessage, Ranking, merged, ranked
from brokers.indexes.topk.kernels import score_of
from brokers.indexes.topk.rows import checked_filters, rows_of
from brokers.indexes.topk.store import sent_weights
from brokers.tables import check_ids
from protocols.topk.rooms import Room

_SETTLED = {"id": Column("i8", ("settled",), low=0), "rows": Column("f8", ("settled", None))}
_LOOSE = {
    "id": Column("i8", ("loose",), low=0),
    "held": Column("i8", ("loose", "here"), low=-1, high="versions"),
    "rows": Column("f8", ("versions", None)),
}
_HERE = {"broker": Column("i8", ("here",), low=0, high="brokers")}


class SpreadFilters(Room):
    """See the module."""

    def __init__(self, env: ShardEnv) -> None:
        self._env = env
        self._attributes: int = env.kind.attributes  # type: ignore[attr-defined]
        self._local = np.flatnonzero(env.local)
        self._index: RankedIndex = env.new_index()
        self._inside: set[int] = set()  # the settled
        self.count = np.zeros(env.brokers, np.int64)  # filters known at each broker
        self.row_of = IdMap()  # the loose
        self._free_rows = list(range(7, -1, -1))
        self._id = np.full(8, -1, np.int64)  # by row
        self._versions: dict[int, list[int]] = {}  # by row
        self.held = np.full((8, env.brokers), -1, np.int32)
        self.moved = np.zeros(8, np.bool_)  # whether a broker has heard of the change
        self.lacking = np.zeros(8, np.int64)  # brokers here that do not know it
        self._free_versions = list(range(15, -1, -1))
        self.holders = np.zeros(16, np.int64)  # brokers here that know a version
        self.stamp = np.full(16, -1, np.int64)
        self._stamps = 0
        self._attribute = np.full((16, 1), -1, np.int16)
        self._ends = np.full((16, 2), np.nan)
        self._weight = np.zeros((16, 1))
        self.noted = np.full(0, -1, np.int32)  # by body: the generation in which it was noted
        self.version_of, self.stamp_of = np.zeros(0, np.int32), np.zeros(0, np.int64)

    def columns(self) -> dict[str, NDArray[Any]]:
        return {
            "known": self.count, "loose_keys": self.row_of.keys, "loose_slots": self.row_of.slots, "held": self.held,
            "moved": self.moved, "lacking": self.lacking, "holders": self.holders, "stamp": self.stamp,
            "change_noted": self.noted, "version_of": self.version_of, "stamp_of": self.stamp_of,
        }  # fmt: skip

    # ---- changes -------------------------------------------------------------------------------------

    def expect(self, id: int, body: int) -> None:
        """A change of a filter is on its way; `body` brings a version, or is -1."""
        found = int(self.row_of.find(np.array([id]))[0])
        row = found if found >= 0 else self._loosen(id)
        if body >= 0:
            bodies = self._env.bodies
            version = self._version(row, bodies.values(np.array([body], np.int32)))
            self._have_bodies()
            self.noted[body], self.version_of[body] = bodies.generation[body], version
            self.stamp_of[body] = self.stamp[version]

    def _have_bodies(self) -> None:
        capacity = self._env.bodies.capacity
        if self.noted.size < capacity:
            self.noted = grown(self.noted, (capacity,), -1)
            self.version_of = grown(self.version_of, (capacity,), 0)
            self.stamp_of = grown(self.stamp_of, (capacity,), 0)

    def _loosen(self, id: int) -> int:
        """Have brokers know a filter each for itself; the row."""
        if not self._free_rows:
            old = self._id.size
            self._id, self.moved = grown(self._id, (2 * old,), -1), grown(self.moved, (2 * old,), False)
            self.held = grown(self.held, (2 * old, self.held.shape[1]), -1)
            self.lacking = grown(self.lacking, (2 * old,), 0)
            self._free_rows = list(range(2 * old - 1, old - 1, -1))
        row = self._free_rows.pop()
        self._id[row], self._versions[row], self.moved[row] = id, [], False
        self.lacking[row] = self._local.size
        self.row_of.add(np.array([id]), np.array([row]))
        self.renewed = True  # `row_of` may have other arrays
        if id in self._inside:
            version = self._version(row, self._index.rows(np.array([id])))
            self._index.delete([id])
            self._inside.discard(id)
            self._hold(row, self._local, version)
        return row

    def _hold(self, row: int, brokers: Ints, version: int) -> None:
        self.held[row, brokers] = version
        self.holders[version] += brokers.size
        self.lacking[row] -= brokers.size

    def _version(self, row: int, values: Floats) -> int:
        """The version of a loose filter that these numbers are, a new one if none is."""
        filters = checked_filters(np.zeros(1, np.int64), values, None, self._attributes)
        width = filters.width
        if width > self._attribute.shape[1]:
            size = self.stamp.size
            self._attribute = grown(self._attribute, (size, width), -1)
            self._ends = grown(self._ends, (size, 2 * width), np.nan)
            self._weight = grown(self._weight, (size, width), 0.0)
        wanted = self._row(filters.attribute, filters.low, filters.high, filters.weight)
        for version in self._versions[row]:
            if np.array_equal(self.rows(np.array([version]))[0], wanted, equal_nan=True):
                return version
        if not self._free_versions:
            self._more_versions()
        version = self._free_versions.pop()
        self._attribute[version, :width], self._weight[version, :width] = filters.attribute[0], filters.weight[0]
        self._ends[version, 0 : 2 * width : 2], self._ends[version, 1 : 2 * width : 2] = filters.low, filters.high
        self._attribute[version, width:] = -1
        self.holders[version], self.stamp[version] = 0, self._stamps
        self._stamps += 1
        self._versions[row].append(version)
        return version

    def _row(self, attribute: Any, low: Any, high: Any, weight: Any) -> Floats:
        """A filter as `rows` gives it."""
        row = np.full(4 * self._attribute.shape[1], np.nan)
        given = rows_of(attribute, low, high, weight)[0]
        row[: given.size] = given
        return row

    def _more_versions(self) -> None:
        old, width = self._attribute.shape
        size = 2 * old
        self.holders, self.stamp = grown(self.holders, (size,), 0), grown(self.stamp, (size,), -1)
        self._attribute = grown(self._attribute, (size, width), -1)
        self._ends = grown(self._ends, (size, 2 * width), np.nan)
        self._weight = grown(self._weight, (size, width), 0.0)
        self._free_versions = list(range(size - 1, old - 1, -1))

    def settle(self) -> None:
        """Put back what all brokers here know alike, once one of them has heard of its change."""
        rows = np.flatnonzero(self.moved)
        if not rows.size or not self._local.size:
            return
        version = self.held[rows, self._local[0]]
        known = version >= 0
        alike = np.where(known, self.holders[version] == self._local.size, self.lacking[rows] == self._local.size)
        rows, version, known = rows[alike], version[alike], known[alike]
        if known.any():
            self._stand(self._id[rows[known]], self.rows(version[known].astype(np.int64)))
        for row in rows.tolist():
            self._free_versions += self._versions.pop(row)
        self._free_rows += rows.tolist()
        if rows.size:
            self.stamp[np.array(self._free_versions, np.int64)] = -1
            self.held[rows] = -1
            self.moved[rows] = False
            self.row_of.remove(self._id[rows])
            self._id[rows] = -1

    # ---- what stands, and what is asked ----------------------------------------------------------------

    def stand(self, ids: Ints, rows: Floats) -> None:
        """Enter filters that all brokers know."""
        self._stand(ids, rows)
        self.count[self._local] += ids.size

    def _stand(self, ids: Ints, rows: Floats) -> None:
        self._index.insert(ids, rows, ids >> 32)
        self._inside.update(ids.tolist())

    def rows(self, versions: Ints) -> Floats:
        """Versions as an index takes them."""
        ends = self._ends[versions]
        return rows_of(self._attribute[versions], ends[:, 0::2], ends[:, 1::2], self._weight[versions])

    def best(self, broker: int, asked: RankedMessage, query: Query) -> Ranking:
        """The best of the filters that a broker knows."""
        found = self._index.best(asked, query)
        if not self._versions:
            return found
        loose = np.fromiter(self._versions, np.int64, len(self._versions))
        version = self.held[loose, broker].astype(np.int64)
        there = version >= 0
        if not there.any():
            return found
        ids = self._id[loose[there]]
        sent = sent_weights(asked)
        scores = _scores(
            self._attribute, self._ends, self._weight, version[there], asked.low, asked.high, sent, query.prorate
        )
        return merged([found, ranked(ids, scores, ids >> 32, query)], query)

    def memory_bytes(self) -> int:
        """Bytes of the arrays and the index."""
        return super().memory_bytes() + self.row_of.memory_bytes() + self._index.memory_bytes()

    # ---- checkpoints -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        settled = np.array(sorted(self._inside), np.int64)
        loose = np.array(sorted(self._versions), np.int64)
        held = self.held[loose][:, self._local].astype(np.int64)
        versions, named = np.unique(held[held >= 0], return_inverse=True)
        held[held >= 0] = named
        return {
            "broker": self._local,
            "settled": {"id": settled, "rows": self._index.rows(settled)},
            "loose": {"id": self._id[loose], "held": held, "rows": self.rows(versions)},
        }

    def load(self, states: Sequence[Any]) -> None:
        """Take over what brokers here know: what all of them know alike is settled, whoever knew it before."""
        known: dict[int, list[tuple[Ints, Floats]]] = {}
        seen = np.zeros(self._env.brokers, np.int64)
        for state in states:
            self._check(state)
            np.add.at(seen, state["broker"], 1)
            mine = self._env.local[state["broker"]]
            broker, loose = state["broker"][mine], state["loose"]
            if not broker.size:
                continue
            for id_, row in zip(state["settled"]["id"].tolist(), state["settled"]["rows"]):
                known.setdefault(id_, []).append((broker, row))
            for id_, held in zip(loose["id"].tolist(), loose["held"][:, mine]):
                for version in np.unique(held[held >= 0]).tolist():
                    known.setdefault(id_, []).append((broker[held == version], loose["rows"][version]))
        if (seen[self._local] != 1).any():
            raise BadState("what a broker knows is missing, or there twice")
        for id_, parts in known.items():
            row = self._loosen(id_)
            for broker, values in parts:
                self._hold(row, broker, self._version(row, values[None, :]))
                self.count[broker] += 1
            self.moved[row] = True
        self.settle()

    def _check(self, state: Any) -> None:
        known = {"brokers": self._env.brokers}
        check_columns(state, _HERE, known, frozenset({"settled", "loose"}))
        check_columns(state["settled"], _SETTLED)
        here = {"here": state["broker"].size, "versions": len(_rows_in(state["loose"]))}
        check_columns(state["loose"], _LOOSE, here)
        check_ids(self._env, np.concatenate((state["settled"]["id"], state["loose"]["id"])))


def _rows_in(part: Any) -> Any:
    """The rows of a part of a state, before that is checked."""
    rows = part.get("rows") if type(part) is dict else None
    if type(rows) is not np.ndarray or rows.ndim != 2:
        raise BadState("versions of filters are no table of numbers")
    return rows


@njit(cache=True)
def _scores(attribute, ends, weight, versions, low, high, sent, prorate):
    out = np.empty(versions.size)
    for i in range(out.size):
        out[i] = score_of(attribute, ends, weight, versions[i], low, high, sent, prorate)
    return out
