"""The filters of a shard, each at its client's broker: arrays that `asking_kernels` ranks, broker by broker.

A broker's filters are a stretch of `mine`, in the order in which they came. A broker with more than `SCANNED_MOST` of
them is not scanned: the index of the service is asked, filled when that happens first and brought up to date before
each question, as in the author's view.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.columns import BadState, Column, check_columns
from brokers.contract import Batch, Floats, Ints, Ints32, ShardEnv
from brokers.indexes.ids import IdMap
from brokers.indexes.space import grown
from brokers.indexes.topk.contract import Query, RankedIndex, RankedMessage, Ranking
from brokers.indexes.topk.rows import Filters, checked_filters, rows_of
from brokers.tables import check_ids
from protocols.topk.kind import REWEIGHT, SUBSCRIBE, UNSUBSCRIBE
from protocols.topk.rooms import Room

SCANNED_MOST = 1024  # to scan as many takes as long as a call from Python to an index
_SHORT = 8  # numbers, from which on NumPy adds up in another order than one after the other
_STATE = {
    "id": Column("i8", ("filters",), low=0),
    "rows": Column("f8", ("filters", None)),
    "total": Column("f8", ("filters",), low=0),
}


class HomeFilters(Room):
    """See the module."""

    def __init__(self, env: ShardEnv) -> None:
        self._env = env
        self._attributes: int = env.kind.attributes  # type: ignore[attr-defined]
        self.slot_of = IdMap()
        self._used = 0
        self._free: list[int] = []
        self.id = np.zeros(64, np.int64)
        self.here = np.zeros(64, np.bool_)
        self.total = np.zeros(64)  # the positive weights, added up
        self.attribute = np.full((64, 1), -1, np.int16)
        self.ends = np.full((64, 2), np.nan)
        self.weight = np.zeros((64, 1))
        self.mine = np.zeros(64, np.int32)
        self._mine_used = 0
        self.first = np.zeros(env.brokers, np.int64)
        self.count = np.zeros(env.brokers, np.int64)
        self._room = np.zeros(env.brokers, np.int64)
        self.large = np.zeros(env.brokers, np.bool_)  # brokers with an index
        self.touched = np.zeros(64, np.int64)  # filters that changed there
        self._indexes: dict[int, tuple[RankedIndex, set[int]]] = {}
        self._changed: dict[int, dict[int, None]] = {}  # what they do not know yet, by broker
        self._fresh = _Fresh(checked_filters(np.empty(0, np.int64), np.empty((0, 4)), None, 1), np.empty(0))
        self._ending = np.empty(0, np.int64)

    def columns(self) -> dict[str, NDArray[Any]]:
        fresh = self._fresh
        return {
            "id": self.id, "here": self.here, "total": self.total, "attribute": self.attribute, "ends": self.ends,
            "weight": self.weight, "mine": self.mine, "first": self.first, "count": self.count, "large": self.large,
            "touched": self.touched, "fresh_attribute": fresh.attribute, "fresh_ends": fresh.ends,
            "fresh_weight": fresh.weight, "fresh_total": fresh.total,
        }  # fmt: skip

    # ---- changes -------------------------------------------------------------------------------------

    def expect(self, batch: Batch, changing: Ints, touched: int, slot: Ints32, fresh: Ints32) -> None:
        """Have room for the changes in these rows; fill in the slot of each, and where its new row stands."""
        type_ = batch.type[changing]
        begins = changing[type_ != UNSUBSCRIBE]
        if begins.size:
            self._fresh = self._read(batch, begins)
            fresh[begins] = np.arange(begins.size)
            ids = batch.word[begins]
            self._slots_for(np.unique(ids[self.slot_of.find(ids) < 0]))
            self._widen(self._fresh.attribute.shape[1])
            self._reserve(batch.broker[begins])
        slot[changing] = self.slot_of.find(batch.word[changing])
        ends = slot[changing[type_ == UNSUBSCRIBE]]
        self._ending = ends[ends >= 0].astype(np.int64)
        if touched + changing.size > self.touched.size:
            self.touched = grown(self.touched, (2 * (touched + changing.size),), 0)

    def tidy(self) -> None:
        """Free the slots of filters that went."""
        if self._ending.size:
            gone = np.unique(self._ending)
            self._release(gone[~self.here[gone]])
            self._ending = self._ending[:0]

    def _read(self, batch: Batch, begins: Ints) -> _Fresh:
        """The rows that filters get."""
        bodies, parts = self._env.bodies, []
        for type_ in (SUBSCRIBE, REWEIGHT):
            rows = begins[batch.type[begins] == type_]
            if rows.size:
                parts.append((np.searchsorted(begins, rows), bodies.values(batch.body[rows])))
        width = max(values.shape[1] for _, values in parts)
        values = np.full((begins.size, width), np.nan)
        for at, part in parts:
            values[at, : part.shape[1]] = part
        return self._checked(values)

    def _checked(self, values: Floats) -> _Fresh:
        return _Fresh(checked_filters(np.arange(len(values)), values, None, self._attributes), _totals(values))

    def _slots_for(self, fresh: Ints) -> None:
        """Slots for ids that have none."""
        if not fresh.size:
            return
        again = [self._free.pop() for _ in range(min(fresh.size, len(self._free)))]
        more = fresh.size - len(again)
        slots = np.array([*again, *range(self._used, self._used + more)], np.int64)
        self._used += more
        if self._used > self.id.size:
            size, width = max(self._used, 2 * self.id.size), self.attribute.shape[1]
            self.id, self.here = grown(self.id, (size,), 0), grown(self.here, (size,), False)
            self.total, self.weight = grown(self.total, (size,), 0.0), grown(self.weight, (size, width), 0.0)
            self.attribute = grown(self.attribute, (size, width), -1)
            self.ends = grown(self.ends, (size, 2 * width), np.nan)
        self.id[slots] = fresh
        self.slot_of.add(fresh, slots)

    def _release(self, slots: Ints) -> None:
        if slots.size:
            self.slot_of.remove(self.id[slots])
            self._free += slots.tolist()

    def _widen(self, width: int) -> None:
        size, old = self.attribute.shape
        if width > old:
            self.attribute = grown(self.attribute, (size, width), -1)
            self.ends = grown(self.ends, (size, 2 * width), np.nan)
            self.weight = grown(self.weight, (size, width), 0.0)

    def _reserve(self, brokers: Any) -> None:
        """Room for one filter more at each of these brokers, as often as it is named."""
        named, more = np.unique(brokers, return_counts=True)
        short = self.count[named] + more > self._room[named]
        for b, added in zip(named[short].tolist(), more[short].tolist()):
            count = int(self.count[b])
            room = max(8, 2 * count, count + added)
            end = self._mine_used + room
            if end > self.mine.size:
                self.mine = grown(self.mine, (max(end, 2 * self.mine.size),), 0)
            first = int(self.first[b])
            self.mine[self._mine_used : self._mine_used + count] = self.mine[first : first + count]
            self.first[b], self._room[b], self._mine_used = self._mine_used, room, end

    # ---- what stands -----------------------------------------------------------------------------------

    def put(self, ids: Ints, rows: Floats, totals: Floats | None = None) -> Ints:
        """Enter filters that are new, whoever they belong to; returns their slots."""
        fresh = self._checked(np.ascontiguousarray(rows, np.float64))
        by_home = np.argsort(self._env.client_broker[(ids >> 32) - self._env.entity_base], kind="stable")
        self._slots_for(ids[by_home])  # those of one broker beside each other
        slots = self.slot_of.find(ids)
        width = fresh.attribute.shape[1]
        self._widen(width)
        self.attribute[slots], self.weight[slots], self.ends[slots] = -1, 0.0, np.nan
        self.attribute[slots, :width], self.weight[slots, :width] = fresh.attribute, fresh.weight
        self.ends[slots, : 2 * width] = fresh.ends
        self.total[slots] = fresh.total if totals is None else totals
        return slots

    def settle(self, slots: Ints) -> None:
        """Of these, leave those to be ranked that live here, and forget the others."""
        env = self._env
        home = env.client_broker[(self.id[slots] >> 32) - env.entity_base].astype(np.int64)
        mine = env.local[home]
        self._release(slots[~mine])
        slots, home = slots[mine], home[mine]
        self._reserve(home)
        order = np.argsort(home, kind="stable")
        slots, home = slots[order], home[order]
        place = np.arange(home.size) - np.searchsorted(home, home)
        self.mine[self.first[home] + self.count[home] + place] = slots
        self.here[slots] = True
        self.count += np.bincount(home, minlength=self.count.size)

    # ---- brokers with very many ------------------------------------------------------------------------

    def note_touched(self, count: int) -> None:
        """So many filters that changed at large brokers are listed."""
        env = self._env
        ids = self.touched[:count]
        homes = env.client_broker[(ids >> 32) - env.entity_base]
        for id_, home in zip(ids.tolist(), homes.tolist()):
            self._changed.setdefault(home, {})[id_] = None

    def best(self, broker: int, asked: RankedMessage, query: Query) -> Ranking:
        """The best of a broker's filters, as its index says."""
        if broker not in self._indexes:
            self._indexes[broker] = self._env.new_index(), set()
            self.large[broker] = True
            self._changed[broker] = dict.fromkeys(self.id[self.of(broker)].tolist())
        index, inside = self._indexes[broker]
        changed = self._changed.pop(broker, {})
        gone = [id_ for id_ in changed if id_ in inside]
        if gone:
            index.delete(gone)
            inside.difference_update(gone)
        ids = np.array(list(changed), np.int64)
        slots = self.slot_of.find(ids)
        there = slots >= 0
        there[there] = self.here[slots[there]]
        if there.any():
            index.insert(ids[there], self.rows(slots[there]), ids[there] >> 32)
            inside.update(ids[there].tolist())
        return index.best(asked, query)

    def of(self, broker: int) -> Ints:
        """The slots of a broker's filters, in the order in which they came."""
        return self.mine[self.first[broker] : self.first[broker] + self.count[broker]].astype(np.int64)

    def rows(self, slots: Ints) -> Floats:
        """Filters as `put` takes them."""
        return rows_of(self.attribute[slots], self.ends[slots, 0::2], self.ends[slots, 1::2], self.weight[slots])

    # ---- checkpoints -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        slots = np.concatenate([np.empty(0, np.int64), *(self.of(b) for b in np.flatnonzero(self.count).tolist())])
        return {"id": self.id[slots], "rows": self.rows(slots), "total": self.total[slots]}

    def load(self, states: Sequence[Any]) -> None:
        env = self._env
        for state in states:
            check_columns(state, _STATE)
            check_ids(env, state["id"])
            if not np.isfinite(state["total"]).all():
                raise BadState("the weights of a filter add up to no number")
            mine = env.local[env.client_broker[(state["id"] >> 32) - env.entity_base]]
            ids = state["id"][mine]
            if (self.slot_of.find(ids) >= 0).any():
                raise BadState("a filter is there twice")
            self.settle(self.put(ids, state["rows"][mine], state["total"][mine]))

    def memory_bytes(self) -> int:
        """Bytes of the arrays and indexes."""
        indexes = sum(index.memory_bytes() for index, _ in self._indexes.values())
        return super().memory_bytes() + self.slot_of.memory_bytes() + indexes


class _Fresh:
    """Filters as they are entered, and what their positive weights add up to."""

    def __init__(self, filters: Filters, total: Floats) -> None:
        self.attribute = filters.attribute
        self.ends = np.stack([filters.low, filters.high], axis=2).reshape(len(filters.low), 2 * filters.width)
        self.weight, self.total = filters.weight, total


def _totals(rows: Floats) -> Floats:
    """The positive weights of each filter, added up as `Bounds` does: in the order of its row."""
    weights = rows[:, 3::4]
    there = ~np.isnan(rows[:, 0::4])
    positive = np.where(there, np.maximum(weights, 0.0), 0.0)
    total = np.zeros(len(rows))
    for column in positive.T:
        total += column
    for i in np.flatnonzero(there.sum(axis=1) >= _SHORT).tolist():
        total[i] = positive[i, there[i]].sum()
    return total
