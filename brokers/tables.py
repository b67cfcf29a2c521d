"""Tables: what brokers know about interests. Logically each broker's own, physically shared if asked.

`InterestTable` is the facility for protocols in the author's view: entries (interest id, tag) and the question
which of them a message answers. With `tables: own` every broker has an index of its own. With
`tables: shared` the shard keeps each interest once, matches a message once for all its brokers, and each
broker looks up which of the hits it holds. What is learned after a message was matched extends the cached
answer. Own or shared changes memory and speed, never an answer.

`InterestStore` is the shared half: interests once per shard, and for each body under way the list of
interests it answers. The vectorised protocols use it directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.columns import BadState
from brokers.compiled import deliver, work
from brokers.contract import Floats, Ints, Ints32, ShardEnv
from brokers.indexes.contract import RowIndex
from brokers.indexes.ids import IdMap, find_one
from brokers.thresholds import usually
from brokers.views import FLAGS, INTS, NARROW

# What a compiled handler finds of a store in its record: `InterestStore.columns()`.
STORE = {
    "ids": INTS, "slots": NARROW,  # the table behind `slot_of`
    "client": INTS, "home": NARROW,  # by slot
    "hits": INTS, "hit_start": INTS, "hit_count": INTS,  # by body: hits[hit_start[b]:][:hit_count[b]]
    "hit_version": INTS, "hit_generation": NARROW, "version": INTS,  # what `is_known` asks
}  # fmt: skip
# Of a protocol whose brokers know what their own clients ask for and nothing else, so that each has one home.
AT_HOME = {**STORE, "present": FLAGS, "entries": INTS}  # by slot, and by broker
_MANY = 64  # times as many answers as a broker knows interests, from which it looks for its own one by one
_RECLAIM_FROM = 1024  # slots given up before it is worth looking which can be used again


class InterestStore:
    """The interests a shard knows, each once, and what each body under way answers.

    A slot that is given up is used again only when no cached answer is left from before: an answer may hold slots
    that are gone, but never another's.
    """

    def __init__(self, env: ShardEnv, order: Callable[[Ints, NDArray[np.int32]], Ints] | None = None) -> None:
        """`order(slots, bodies)` gives the key by which each answer is sorted; by default the slot."""
        self.env = env
        self.index = env.kind.row_index(env.new_index())
        self.count = 0
        self.slot_of = IdMap()
        room = usually(256)
        self.id = np.empty(room, np.int64)
        self.client = np.empty(room, np.int64)
        self.home = np.empty(room, np.int32)
        self.rows = np.full((room, 3), np.nan)
        self._order = order
        self._log = np.empty(room, np.int64)
        self._logged = 0
        self._log_start = 0  # version of the first entry still in the log
        self.hit_start = np.zeros(1024, np.int64)
        self.hit_count = np.zeros(1024, np.int64)
        self._version = np.full(1024, -1, np.int64)
        self._generation = np.full(1024, -1, np.int32)
        self._now = np.zeros(1, np.int64)  # the version
        self._all_known = 0  # the version up to which `learn_all` was done
        self.hits = np.empty(usually(4096), np.int64)
        self._hits_used = 0
        self._born = np.zeros(1024, np.int64)  # per body: removals before it was first matched
        self._removals = 0
        self._given_up: list[tuple[int, Ints]] = []  # (removals before, slots)
        self._waiting = 0  # slots in it
        self._free = np.empty(0, np.int64)
        self.late = 0  # counter: answers extended after the fact

    @property
    def version(self) -> int:
        return self._log_start + self._logged

    def columns(self) -> dict[str, NDArray[Any]]:
        """What a record with the fields `STORE` shows of it; for `ShardProtocol.columns`."""
        return {
            "ids": self.slot_of.keys, "slots": self.slot_of.slots, "client": self.client, "home": self.home,
            "hits": self.hits, "hit_start": self.hit_start, "hit_count": self.hit_count,
            "hit_version": self._version, "hit_generation": self._generation, "version": self._now,
        }  # fmt: skip

    def learn_all(self, type: int) -> None:
        """Make the answers of all messages of a type current that are under way; O(1) if nothing was added since."""
        if self._all_known == self.version:
            return
        self._all_known = self.version
        table = self.env.bodies
        under_way = table.alive & (table.refs > 0) & (table.type == type) & (table.service == self.env.service)
        self.learn(np.flatnonzero(under_way).astype(np.int32))

    def slots(self, ids: Ints) -> Ints:
        """Slots of known ids; -1 for unknown ones."""
        return self.slot_of.find(ids)

    def add(self, ids: Ints, clients: Ints, rows: Floats) -> Ints:
        """New interests; returns their slots."""
        n = ids.size
        if self._waiting > max(usually(_RECLAIM_FROM), self.count // 4):
            self._reclaim()
        again = self._free[:n]
        self._free = self._free[again.size :]
        total = self.count + n - again.size
        if total > self.id.size:
            size = max(total, 2 * self.id.size)
            for name in ("id", "client", "home"):
                grown = np.empty(size, getattr(self, name).dtype)
                grown[: self.count] = getattr(self, name)[: self.count]
                setattr(self, name, grown)
        if total > len(self.rows) or rows.shape[1] > self.rows.shape[1]:
            fresh = np.full((self.id.size, max(rows.shape[1], self.rows.shape[1])), np.nan)
            fresh[: self.count, : self.rows.shape[1]] = self.rows[: self.count]
            self.rows = fresh
        slots = np.concatenate((again, np.arange(self.count, total)))
        self.id[slots] = ids
        self.client[slots] = clients
        self.home[slots] = self.env.client_broker[clients]
        self.rows[again] = np.nan
        self.rows[slots, : rows.shape[1]] = rows
        self.slot_of.add(ids, slots)
        self.index.insert(slots, rows)
        self.count = total
        if self._logged + n > self._log.size:
            grown = np.empty(max(2 * self._log.size, self._logged + n), np.int64)
            grown[: self._logged] = self._log[: self._logged]
            self._log = grown
        self._log[self._logged : self._logged + n] = slots
        self._logged += n
        self._now[0] = self.version
        return slots

    def remove(self, slots: Ints) -> None:
        """Forget interests for messages not matched yet."""
        if slots.size:
            self.index.delete(slots)
            self.slot_of.remove(self.id[slots])
            self._given_up.append((self._removals, np.array(slots, np.int64)))
            self._waiting += slots.size
            self._removals += 1

    def _living(self) -> NDArray[np.int64]:
        """Bodies whose answer is cached and may still be asked for."""
        table = self.env.bodies
        size = min(self._generation.size, table.capacity)
        return np.flatnonzero((self._generation[:size] == table.generation[:size]) & table.alive[:size])

    def _reclaim(self) -> None:
        """Free the slots that no cached answer can hold, and forget what every answer has seen of the log."""
        live = self._living()
        oldest = int(self._born[live].min()) if live.size else self._removals
        done = [slots for removed, slots in self._given_up if removed < oldest]
        self._given_up = [(removed, slots) for removed, slots in self._given_up if removed >= oldest]
        self._waiting = sum(slots.size for _, slots in self._given_up)
        self._free = np.concatenate((self._free, *done))
        self._trim_log(live)

    def _trim_log(self, live: NDArray[np.int64]) -> None:
        seen = int(self._version[live].min()) if live.size else self.version
        drop = seen - self._log_start
        if drop > 0:
            self._log[: self._logged - drop] = self._log[drop : self._logged].copy()
            self._log_start += drop
            self._logged -= drop

    def learn(self, bodies: NDArray[np.int32]) -> None:
        """Make the answers of these bodies known and current: hits[hit_start[b]:][:hit_count[b]]."""
        table = self.env.bodies
        if bodies.size == 0:
            return
        if self.hit_start.size < table.capacity:
            columns = (
                ("hit_start", 0),
                ("hit_count", 0),
                ("_version", -1),
                ("_generation", -1),
                ("_born", 0),
            )
            for name, fill in columns:
                old = getattr(self, name)
                grown = np.full(table.capacity, fill, old.dtype)
                grown[: old.size] = old
                setattr(self, name, grown)
        known = self._generation[bodies] == table.generation[bodies]
        if known.all():
            if (self._version[bodies] == self.version).all():
                return
            self._extend(np.unique(bodies[self._version[bodies] != self.version]))
            return
        fresh = np.unique(bodies[~known])
        if known.any():
            stale = bodies[known]
            self._extend(np.unique(stale[self._version[stale] != self.version]))
        values = table.values(fresh)
        for at in range(0, fresh.size, 512):
            part = fresh[at : at + 512]
            start, slots = self.index.match_many(values[at : at + 512])
            self._store(part, np.diff(start), slots)
            # at once: a compaction before the next part keeps only what is marked as known
            self._generation[part] = table.generation[part]
            self._born[part] = self._removals
            self._version[part] = self.version

    def _store(self, bodies: NDArray[np.int32], counts: Ints, slots: Ints) -> None:
        if self._hits_used + slots.size > self.hits.size:
            self._compact(slots.size)
        if self._order is not None and slots.size:
            owner = np.repeat(np.arange(bodies.size), counts)
            slots = slots[np.lexsort((slots, self._order(slots, np.repeat(bodies, counts)), owner))]
        self.hits[self._hits_used : self._hits_used + slots.size] = slots
        start = self._hits_used + np.cumsum(counts) - counts
        self.hit_start[bodies] = start
        self.hit_count[bodies] = counts
        self._hits_used += slots.size

    def _compact(self, room: int) -> None:
        """Drop the answers of bodies that are gone, and make room."""
        live = self._living()
        counts = self.hit_count[live]
        total = int(counts.sum())
        fresh = np.empty(
            max(self.hits.size if total * 2 < self.hits.size else 2 * self.hits.size, 2 * (total + room)),
            np.int64,
        )
        starts = np.cumsum(counts) - counts
        take = np.repeat(self.hit_start[live] - starts, counts) + np.arange(total)
        fresh[:total] = self.hits[take]
        self.hit_start[live] = starts
        self.hits, self._hits_used = fresh, total
        dead = np.ones(self._generation.size, np.bool_)
        dead[live] = False
        self._generation[dead] = -1
        self._trim_log(live)

    def _extend(self, bodies: NDArray[np.int32]) -> None:
        if bodies.size == 0:
            return
        values = self.env.bodies.values(bodies)
        since = self._version[bodies] - self._log_start
        event, slot = self.index.late_matches(values, since, self._log[: self._logged], self.rows)
        self.late += event.size
        self._version[bodies] = self.version
        if event.size == 0:
            return
        for i in np.unique(event).tolist():
            body = int(bodies[i])
            start, count = int(self.hit_start[body]), int(self.hit_count[body])
            merged = np.concatenate((self.hits[start : start + count], slot[event == i]))
            merged = np.unique(merged)  # a slot used again is in the log more than once
            self._store(np.array([body], np.int32), np.array([merged.size]), merged)

    def memory_bytes(self) -> int:
        arrays = (
            self.id,
            self.client,
            self.home,
            self.rows,
            self._log,
            self.hits,
            self.hit_start,
            self.hit_count,
        )
        return sum(a.nbytes for a in arrays) + self.index.memory_bytes() + self.slot_of.memory_bytes()


def unknown(store: InterestStore, ids: Ints, bodies: Ints32) -> tuple[Ints, Ints32]:
    """The interests among these that the store does not know, each once, and a body of each."""
    if not ids.size:
        return ids, bodies
    new = np.flatnonzero(store.slots(ids) < 0)
    fresh, first = np.unique(ids[new], return_index=True)
    return fresh, bodies[new[first]]


def check_ids(env: ShardEnv, ids: Ints) -> None:
    """Refuse ids of interests out of a checkpoint that are none of a client's, or stand there twice."""
    client = (ids >> 32) - env.entity_base
    if ((client < 0) | (client >= env.client_broker.size)).any():
        raise BadState("an interest is of a client that is not there")
    if len(np.unique(ids)) < ids.size:
        raise BadState("an interest is there twice")


def interests_of(states: Sequence[Mapping[str, Any]]) -> tuple[Ints, Floats]:
    """The interests in the states of several shards, each once, by id: ids and rows (padded with NaN)."""
    width = max((s["rows"].shape[1] for s in states), default=3)
    rows = [
        np.pad(s["rows"], ((0, 0), (0, width - s["rows"].shape[1])), constant_values=np.nan) for s in states
    ]
    ids, first = np.unique(np.concatenate([s["id"] for s in states]), return_index=True)
    return ids, np.concatenate(rows)[first]


def merge_bits(
    ids: Ints, states: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> dict[str, NDArray[Any]]:
    """The bitwise or, per id and over all states, of arrays with one row per interest."""
    merged: dict[str, NDArray[Any]] = {}
    for name in names:
        first = states[0][name]
        merged[name] = np.zeros((ids.size, *first.shape[1:]), first.dtype)
        for state in states:
            merged[name][np.searchsorted(ids, state["id"])] |= state[name]  # a state has each id once
    return merged


@njit(inline="always")
def slot_of(state, id_):
    """For compiled handlers, whose record has the fields `STORE`: the slot of an interest; -1 if it is unknown."""
    return find_one(state.ids, state.slots, id_)


@njit(inline="always")
def is_known(desk, state, body):
    """For compiled handlers: whether the answer of a body is known, and current."""
    known = state.hit_generation
    return (
        body < known.size
        and known[body] == desk.generation[body]
        and state.hit_version[body] == state.version[0]
    )


@njit(inline="always")
def change_at_home(desk, state, i, adds):
    """For those whose record has the fields `AT_HOME`: take in a client's change; False where Python has to."""
    s = slot_of(state, desk.word[i])
    if s < 0:
        return not adds
    if state.present[s] != adds:
        state.present[s] = adds
        state.entries[desk.broker[i]] += 1 if adds else -1
    return True


@njit(inline="always")
def hits_at_home(state, b, body):
    """Where the hits of a broker's own clients lie; hits are ordered by home broker, and within one by client."""
    hits, home = state.hits, state.home
    low = state.hit_start[body]
    end = low + state.hit_count[body]
    high = end
    while low < high:
        middle = (low + high) // 2
        if home[hits[middle]] < b:
            low = middle + 1
        else:
            high = middle
    while high < end and home[hits[high]] == b:
        high += 1
    return low, high


@njit(inline="always")
def deliver_at_home(desk, state, i, low, high):
    """Hand a publication to the clients behind these hits, to each once."""
    before, found = np.int64(-1), 0
    for j in range(low, high):
        s = state.hits[j]
        if state.present[s]:
            found += 1
            if state.client[s] != before:
                before = state.client[s]
                deliver(desk, i, before)
    work(desk, i, state.entries[desk.broker[i]], found)


class TableHome:
    """Gives each broker of a shard its table, own or shared.

    What is shared has a number of its own for each row that an interest has had: while a change travels, some brokers
    know an interest by its old row and some by its new one.
    """

    def __init__(self, env: ShardEnv) -> None:
        self.env = env
        self._number: dict[tuple[int, bytes], int] = {}  # (interest, its row) -> number in the store
        self._stands_for: dict[int, tuple[int, bytes]] = {}  # the other way round
        self._holders: dict[int, int] = {}  # number -> brokers that know it
        self._next = 0

    @cached_property
    def store(self) -> InterestStore:
        """What the brokers know together; made for whoever needs it first."""
        return InterestStore(self.env)

    def table(self) -> InterestTable:
        return SharedTable(self) if self.env.tables == "shared" else OwnTable(self.env)

    def hold(self, id: int, client: int, row: Floats) -> int:
        """The number of an interest with this row, which one broker more knows."""
        key = id, _unpadded(row).tobytes()
        number = self._number.get(key)
        if number is None:
            number, self._next = self._next, self._next + 1
            self.store.add(np.array([number]), np.array([client]), row[None, :])
            self._number[key], self._stands_for[number], self._holders[number] = number, key, 0
        self._holders[number] += 1
        return number

    def give_up(self, number: int) -> None:
        """One broker less knows it."""
        self._holders[number] -= 1
        if self._holders[number] == 0:
            del self._number[self._stands_for.pop(number)], self._holders[number]
            self.store.remove(self.store.slots(np.array([number])))


def _unpadded(row: Floats) -> Floats:
    """A row without the NaN behind it, of which there may be more or less."""
    there = np.flatnonzero(row == row)
    return row[: there[-1] + 1] if there.size else row[:0]


class InterestTable:
    """Entries of one broker: interest id -> tag (what the protocol wants to know about it)."""

    def __init__(self) -> None:
        self.tags: dict[int, Any] = {}

    def __len__(self) -> int:
        return len(self.tags)

    def __contains__(self, id: int) -> bool:
        return id in self.tags

    def add(self, id: int, client: int, row: Floats, tag: Any) -> None:
        """Know an interest; an id known already only gets the new tag."""
        raise NotImplementedError

    def remove(self, id: int) -> Any:
        """Forget an interest; returns its tag, or None if it was not known."""
        raise NotImplementedError

    def match(self, body: int) -> list[int]:
        """Ids of the entries that a numeric body answers, each taken by itself (`Kind.row_index`), ascending."""
        raise NotImplementedError

    def interest(self, id: int) -> tuple[int, Floats]:
        """The client number and the row of an entry."""
        raise NotImplementedError

    def clear(self) -> None:
        """Forget all of them."""
        for id_ in list(self.tags):
            self.remove(id_)

    def dump(self) -> list[tuple[int, int, Floats, Any]]:
        """All entries, as `add` takes them."""
        return [(id_, *self.interest(id_), tag) for id_, tag in self.tags.items()]


class OwnTable(InterestTable):
    """An index of this broker's own."""

    def __init__(self, env: ShardEnv) -> None:
        super().__init__()
        self._env = env
        self._slot: dict[int, int] = {}
        self._id: dict[int, int] = {}
        self._known: dict[int, tuple[int, Floats]] = {}
        self._next = 0

    @cached_property
    def _index(self) -> RowIndex:
        return self._env.kind.row_index(self._env.new_index())

    def add(self, id: int, client: int, row: Floats, tag: Any) -> None:
        if id not in self.tags:
            slot, self._next = self._next, self._next + 1
            self._slot[id], self._id[slot] = slot, id
            self._known[id] = client, np.array(row, np.float64)
            self._index.insert(np.array([slot]), np.asarray(row, np.float64)[None, :])
        self.tags[id] = tag

    def remove(self, id: int) -> Any:
        if id not in self.tags:
            return None
        slot = self._slot.pop(id)
        del self._known[id]
        del self._id[slot]
        self._index.delete(np.array([slot]))
        return self.tags.pop(id)

    def match(self, body: int) -> list[int]:
        if not self.tags:
            return []
        _, slots = self._index.match_many(self._env.bodies.values(np.array([body], np.int32)))
        return sorted(self._id[slot] for slot in slots.tolist())

    def interest(self, id: int) -> tuple[int, Floats]:
        return self._known[id]


class SharedTable(InterestTable):
    """A view of what the brokers of the shard know together."""

    def __init__(self, home: TableHome) -> None:
        super().__init__()
        self._home = home
        self._number: dict[int, int] = {}  # interest -> its number there
        self._id: dict[int, int] = {}

    def add(self, id: int, client: int, row: Floats, tag: Any) -> None:
        if id not in self.tags:
            number = self._home.hold(id, client, np.asarray(row, np.float64))
            self._number[id], self._id[number] = number, id
        self.tags[id] = tag

    def remove(self, id: int) -> Any:
        if id not in self.tags:
            return None
        number = self._number.pop(id)
        del self._id[number]
        self._home.give_up(number)
        return self.tags.pop(id)

    def match(self, body: int) -> list[int]:
        if not self.tags:
            return []
        store, known = self._home.store, self._id
        store.learn(np.array([body], np.int32))
        start = int(store.hit_start[body])
        hits = store.hits[start : start + int(store.hit_count[body])]
        if hits.size > _MANY * len(known):
            slots = store.slots(np.fromiter(known, np.int64, len(known))).tolist()
            return sorted(id_ for id_, slot in zip(known.values(), slots) if (hits == slot).any())
        return sorted(known[number] for number in store.id[hits].tolist() if number in known)

    def interest(self, id: int) -> tuple[int, Floats]:
        store = self._home.store
        slot = int(store.slots(np.array([self._number[id]]))[0])
        return int(store.client[slot]), store.rows[slot].copy()
