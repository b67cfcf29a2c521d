"""What the brokers of a shard know of profiles, values and publications, each kept once for all of them.

`known.py` says what the arrays are, and `deciding.py` decides on them. What is here enters and leaves them: profiles
with their atoms and the values they name, cells, and what bodies under way say.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from brokers.contract import NEVER, Floats, Ints, Ints32, ShardEnv
from brokers.errors import InvalidInput
from brokers.indexes.context.contract import checked_profile
from brokers.indexes.ids import IdMap
from brokers.indexes.space import array
from brokers.records import Held
from brokers.thresholds import usual_room
from protocols.context.asides import cells_of, enter_cells, match
from protocols.context.bunches import Bunches
from protocols.context.kind import CONTEXTS_MAX, PUBLISH, SUBSCRIBE, UPDATE, Context, value_word
from protocols.context.known import COLUMNS, RANGE, RECORD, REPLICATED
from protocols.context.ranges import Ranges
from protocols.context.rows import count_atoms, fill, fill_names, look_over
from protocols.routes import Routes

_BY_SLOT = {
    "id": np.int64, "change": np.int64, "home": np.int32, "client": np.int64, "older": np.int64, "start": np.int64,
    "atom_count": np.int32, "name_count": np.int32, "told": np.bool_, "uses": np.int64, "gone": np.int64,
    "heard": np.int32, "heard_generation": np.int32,
}  # fmt: skip
_BY_ATOM = ("atoms", "atom_cell", "name_value", "name_first")
BY_CELL = {
    "source": np.int32, "left_out": np.bool_, "low": np.float64, "high": np.float64, "stamp": np.int64,
    "revived": np.int64, "first_by": np.int64, "awaited": np.int64, "known": np.float64,
}  # fmt: skip
_BY_BODY = {
    "said_generation": np.int32, "said_value": np.int64, "said_low": np.float64, "said_high": np.float64,
    "said_issued": np.int64, "said_target": np.int32, "published_generation": np.int32, "published_row": np.int64,
}  # fmt: skip


class Shared:
    """See the module."""

    id: Ints
    change: Ints
    home: Ints32
    client: Ints
    older: Ints
    start: Ints
    atom_count: Ints32
    name_count: Ints32
    told: NDArray[np.bool_]
    uses: Ints
    gone: Ints
    heard: Ints32
    heard_generation: Ints32
    source: Ints32
    left_out: NDArray[np.bool_]
    low: Floats
    high: Floats
    stamp: Ints
    revived: Ints
    first_by: Ints
    awaited: Ints
    known: Floats
    said_generation: Ints32
    said_value: Ints
    said_low: Floats
    said_high: Floats
    said_issued: Ints
    said_target: Ints32
    published_generation: Ints32
    published_row: Ints

    def __init__(self, env: ShardEnv, routes: Routes, rule: int) -> None:
        """`rule`: whose, as `known.py` has them."""
        self.env, self.routes = env, routes
        self.kind = cast(Context, env.kind)
        brokers = env.brokers
        reached = routes.leave[0] > 0  # no server of another service, to which a handler is shown a link all the same
        self.at_enter = np.zeros(brokers, np.int32)
        self.at_enter[routes.enter[0, reached]] = np.flatnonzero(reached)
        self.local = env.local & reached
        self.in_tree = routes.in_tree & reached[env.links.source] & reached[env.links.target]
        self.rule = np.array([rule])
        self.publishes = self._lead_to_publishers() if rule == REPLICATED else np.zeros_like(self.in_tree)
        self._words = (brokers + 63) // 64
        self.used = 0  # slots that are or were taken
        self._free: list[int] = []
        for name, dtype in _BY_SLOT.items():
            setattr(self, name, np.zeros(64, dtype))
        self.home = np.full(64, -1, np.int32)
        self.noted = np.zeros((64, self._words), np.uint64)
        self.gone_count = np.zeros(1, np.int64)
        self.slot_of, self.slot_by = IdMap(), IdMap()  # the newest of an id; by change
        self._atoms_used = 0
        self._free_atoms: dict[int, list[int]] = {}
        self.atoms = np.empty((64, COLUMNS))
        self.atom_cell, self.name_value, self.name_first = (np.full(64, -1, np.int64) for _ in range(3))
        self.at_home, self.naming = Bunches(brokers), Bunches(64)
        self.number_of = IdMap()  # of a value, by its name
        self.words = np.empty(64, np.int64)  # by number: its name
        room = usual_room(64)
        self.cell_keys, self.cell_slots = array((room,), np.int64, -1), array((room,), np.int32)
        self.cell_count = np.zeros(1, np.int64)
        for name, dtype in BY_CELL.items():
            setattr(self, name, np.zeros(room, dtype))
        for name, dtype in _BY_BODY.items():
            setattr(self, name, np.full(64, -1, dtype))
        self.values = np.empty((0, self.kind.attributes))
        self.where = np.zeros((0, self._words), np.uint64)
        self.witness = np.zeros((0, brokers), np.int32)
        self._row_body = np.zeros((0, 2), np.int32)  # of each row: body, generation
        self._free_rows = np.empty(0, np.int64)
        self.entries, self.decided, self.useless = (np.zeros(brokers, np.int64) for _ in range(3))
        self.ranges, self.widening = Ranges(), np.zeros(2)
        self.spreads, self.escalations, self.shrunk = (np.zeros(brokers, np.int64) for _ in range(3))
        self.late = 0  # counter: profiles that came when publications were matched already
        self._held: Held | None = None
        self._followed: dict[str, NDArray[Any]] | None = None  # the columns that it names
        self._columns: dict[str, NDArray[Any]] | None = None  # None where an array may have been replaced

    def __setattr__(self, name: str, value: Any) -> None:
        """An array that takes the place of another is shown to compiled code."""
        super().__setattr__(name, value)
        if name in RECORD.fields:
            super().__setattr__("_columns", None)

    def _lead_to_publishers(self) -> NDArray[np.bool_]:
        """Of each link of the tree whether a publisher's broker lies behind it."""
        routes, links = self.routes, self.env.links
        enter, leave = routes.enter[0], routes.leave[0]
        before = np.zeros(self.env.brokers + 1, np.int64)
        np.cumsum(np.bincount(enter[self.env.publisher_brokers], minlength=self.env.brokers), out=before[1:])
        upwards = routes.up[0, links.source] == np.arange(links.source.size)
        below = np.where(upwards, links.source, links.target)
        within = before[leave[below]] - before[enter[below]]
        return cast(NDArray[np.bool_], self.in_tree & (np.where(upwards, before[-1] - within, within) > 0))

    def columns(self) -> dict[str, NDArray[Any]]:
        """What the record of `deciding` names."""
        if self._columns is None:
            self._columns = self._now()
        return self._columns

    def _now(self) -> dict[str, NDArray[Any]]:
        routes, bunches = self.routes, (("home", self.at_home), ("naming", self.naming))
        named = {
            "up": routes.up, "enter": routes.enter, "leave": routes.leave,
            "ids": self.slot_of.keys, "slots": self.slot_of.slots,
            "changes": self.slot_by.keys, "change_slots": self.slot_by.slots,
            **{f"{name}_{part}": getattr(bunch, part) for name, bunch in bunches for part in _PARTS},
            **self.ranges.columns(),
        }  # fmt: skip
        return {name: named[name] if name in named else getattr(self, name) for name in RECORD.fields}

    def address(self) -> int:
        """The record as compiled code takes it, of the arrays as they are."""
        columns = self.columns()
        if self._held is None:
            self._held = RECORD.of(columns)
        elif self._followed is not columns:
            self._held.follow(columns)
        self._followed = columns
        return self._held.address

    def memory_bytes(self) -> int:
        """Bytes of all arrays."""
        own = sum(each.nbytes for each in vars(self).values() if isinstance(each, np.ndarray))
        others = (self.at_home, self.naming, self.slot_of, self.slot_by, self.number_of, self.ranges)
        return own + sum(each.memory_bytes() for each in others)

    # ---- what is on its way --------------------------------------------------------------------------

    def make_ready(self, type: Ints32, word: Ints, body: Ints32) -> None:
        """Have what these messages need. What a client may not say is left out."""
        self._follow_bodies()
        kinds = set(np.unique(type).tolist()) if type.size else set()
        if SUBSCRIBE in kinds:
            chosen = type == SUBSCRIBE
            self._subscribed(word[chosen], body[chosen])
        for said in (UPDATE, RANGE):
            if said in kinds:
                self._said(said, body[type == said])
        if PUBLISH in kinds:
            self._published(body[type == PUBLISH])

    def _follow_bodies(self) -> None:
        size, capacity = self.said_value.size, self.env.bodies.capacity
        if size < capacity:
            for name in _BY_BODY:
                old = getattr(self, name)
                setattr(self, name, np.concatenate((old, np.full(capacity - size, -1, old.dtype))))

    def _fresh(self, body: Ints32, generation: Ints32) -> Ints32:
        """Those bodies, each once, of which nothing is known yet."""
        body = body[body >= 0]
        return np.unique(body[generation[body] != self.env.bodies.generation[body]])

    def _said(self, type: int, body: Ints32) -> None:
        fresh = self._fresh(body, self.said_generation)
        if not fresh.size:
            return
        rows = self.env.bodies.values(fresh)
        context, attribute, low = rows[:, 0], rows[:, 1], rows[:, 2]
        good = (context >= 0) & (context < CONTEXTS_MAX) & (context == np.floor(context))
        good &= (attribute >= 0) & (attribute < self.kind.attributes) & (attribute == np.floor(attribute))
        if type == UPDATE:
            good &= ~np.isinf(low)
        else:  # of another broker's, which may have come out of a file
            issued, target = rows[:, 4], rows[:, 5]
            good &= (issued >= -1) & (issued < NEVER) & ~np.isnan(rows[:, 2:4]).any(axis=1)
            good &= (target >= -1) & (target < self.env.brokers) & (target == np.floor(target))
        fresh, rows = fresh[good], rows[good]
        names = value_word(rows[:, 0].astype(np.int64), rows[:, 1].astype(np.int64))
        self.said_value[fresh] = self.numbers(names)
        if type == UPDATE:
            unknown = np.isnan(rows[:, 2])
            self.said_low[fresh] = np.where(unknown, np.inf, rows[:, 2])
            self.said_high[fresh] = np.where(unknown, -np.inf, rows[:, 2])
            self.said_issued[fresh], self.said_target[fresh] = -1, -1
        else:
            self.said_low[fresh], self.said_high[fresh] = rows[:, 2], rows[:, 3]
            self.said_issued[fresh], self.said_target[fresh] = rows[:, 4], rows[:, 5]
        self.said_generation[fresh] = self.env.bodies.generation[fresh]

    # ---- publications --------------------------------------------------------------------------------

    def _published(self, body: Ints32) -> None:
        fresh = self._fresh(body, self.published_generation)
        if not fresh.size:
            return
        said = self.env.bodies.values(fresh)[:, : self.kind.attributes]
        good = ~np.isinf(said).any(axis=1)
        fresh, said = fresh[good], said[good]
        rows = self._take_rows(fresh.size)
        self.values[rows] = np.nan
        self.values[rows, : said.shape[1]] = said
        self.where[rows] = 0
        generation = self.env.bodies.generation[fresh]
        self._row_body[rows, 0], self._row_body[rows, 1] = fresh, generation
        self.published_row[fresh], self.published_generation[fresh] = rows, generation
        match(self.address(), rows, np.arange(self.used))

    def is_matched(self, body: int) -> bool:
        """Whether a publication was taken in, as one that is right is."""
        return bool(self.published_generation[body] == self.env.bodies.generation[body])

    def _living_rows(self) -> NDArray[np.bool_]:
        """Of each row whether its publication is still under way."""
        bodies, (body, generation) = self.env.bodies, self._row_body.T
        return (generation >= 0) & bodies.alive[body] & (bodies.generation[body] == generation)

    def _take_rows(self, wanted: int) -> Ints:
        if wanted > self._free_rows.size:
            self._free_rows = np.flatnonzero(~self._living_rows())
            self._row_body[self._free_rows, 1] = -1
        if wanted > self._free_rows.size:
            size = len(self.values)
            more = max(64, size, wanted)
            for name in ("values", "where", "witness", "_row_body"):
                old = getattr(self, name)
                setattr(self, name, np.concatenate((old, np.zeros((more, *old.shape[1:]), old.dtype))))
            self._row_body[size:, 1] = -1
            self._free_rows = np.concatenate((self._free_rows, np.arange(size, size + more)))
        rows, self._free_rows = self._free_rows[:wanted], self._free_rows[wanted:]
        return rows

    # ---- values --------------------------------------------------------------------------------------

    def numbers(self, names: Ints) -> Ints:
        """The numbers of values by their names, given where they have none yet."""
        found = self.number_of.find(names)
        if (found < 0).any():
            fresh = np.unique(names[found < 0])
            first = len(self.number_of)
            self.number_of.add(fresh, np.arange(first, first + fresh.size))
            while first + fresh.size > self.words.size:
                self.words = np.concatenate((self.words, np.empty_like(self.words)))
            self.words[first : first + fresh.size] = fresh
            self.naming.reserve(self.words.size)
            found = self.number_of.find(names)
        return found

    def reserve_cells(self, more: int) -> None:
        """Have room for so many more cells."""
        count = int(self.cell_count[0]) + more
        if count > self.low.size:
            size = max(count, 2 * self.low.size)
            for name in BY_CELL:
                old = getattr(self, name)
                setattr(self, name, np.concatenate((old, np.zeros(size - old.size, old.dtype))))
        if 5 * count > 3 * self.cell_keys.size:
            places = self.cell_keys.size
            while 5 * count > 3 * places:
                places *= 2
            taken = self.cell_keys >= 0
            held, cells = self.cell_keys[taken], self.cell_slots[taken]
            self.cell_keys, self.cell_slots = array((places,), np.int64, -1), array((places,), np.int32)
            enter_cells(self.cell_keys, self.cell_slots, held, cells)

    def cells(self, values: Ints, brokers: Any, make: bool = True) -> Ints:
        """The cells of these values at these brokers, made where there is none yet; or -1."""
        if make:
            self.reserve_cells(values.size)
        return cast(Ints, cells_of(self.address(), values, np.asarray(brokers, np.int64), make))

    def reserve_told(self, more: int) -> None:
        """Have room for what neighbours are told of so many more values."""
        if self.ranges.reserve(more):
            self._columns = None

    # ---- profiles ------------------------------------------------------------------------------------

    def _subscribed(self, ids: Ints, body: Ints32) -> None:
        """Learn the profiles that these bodies are of; what is none is left out."""
        changes, first = np.unique(self.env.bodies.keys(body.astype(np.int64)), return_index=True)
        fresh = self.slot_by.find(changes) < 0
        if not fresh.any():
            return
        changes, first = changes[fresh], first[fresh]
        body, ids = body[first], ids[first]
        rows = self.env.bodies.values(body)
        good = self.are_profiles(rows)
        if good.any():
            slots = self.learn(ids[good], changes[good], rows[good])
            self.heard[slots] = body[good]
            self.heard_generation[slots] = self.env.bodies.generation[body[good]]

    def are_profiles(self, rows: Floats) -> NDArray[np.bool_]:
        good = np.empty(len(rows), np.bool_)
        look_over(rows, self.kind.attributes, good)
        for i in np.flatnonzero(~good).tolist():  # what is unusual may still be one
            try:
                checked_profile(self.kind.profile(rows[i]), self.kind.schema)
                good[i] = True
            except (InvalidInput, ValueError):
                continue
        return good

    def learn(self, ids: Ints, changes: Ints, rows: Floats) -> Ints:
        """Take in profiles, of changes that are not known yet (or -1); returns their slots."""
        env, clients = self.env, (ids >> 32) - self.env.entity_base
        home = env.client_broker[clients]
        order = np.lexsort((ids, clients, self.routes.enter[0, home]))  # so neighbours on the tree lie together
        ids, changes, rows = ids[order], changes[order], rows[order]
        clients, home = clients[order], home[order]
        counts = np.empty(len(rows), np.int64)
        count_atoms(rows, counts)
        slots, starts = self._take_slots(ids.size), self._take_atoms(counts)
        self.id[slots], self.change[slots], self.client[slots], self.home[slots] = ids, changes, clients, home
        self.start[slots], self.atom_count[slots] = starts, counts
        self.told[slots], self.uses[slots], self.older[slots], self.heard_generation[slots] = False, 0, -1, -1
        self.noted[slots] = 0
        self._link(ids, slots)
        named = changes >= 0
        self.slot_by.add(changes[named], slots[named])
        owner, at = _spread(starts, counts)
        names = np.full(at.size, -1, np.int64)
        fill(rows, starts, self.atoms, names, np.cumsum(counts) - counts)
        numbers = np.full(at.size, -1, np.int64)
        bound = names >= 0
        numbers[bound] = self.numbers(names[bound])
        self.atoms[at, 3] = np.where(bound, numbers, np.nan)
        self.atom_cell[at] = -1
        fill_names(slots, counts, starts, names, numbers, self.name_value, self.name_first, self.name_count)
        here = bound & env.local[home[owner]]
        self.atom_cell[at[here]] = self.cells(numbers[here], home[owner[here]])
        self.at_home.add(home.astype(np.int64), (clients << 32) | slots)
        values, naming = self._naming(slots)
        self.naming.add(values, (self.routes.enter[0, self.home[naming]].astype(np.int64) << 32) | naming)
        self._columns = None
        living = np.flatnonzero(self._living_rows())
        if living.size:
            self.late += ids.size
            match(self.address(), living, slots)
        back = np.empty_like(slots)
        back[order] = slots
        return back

    def forget(self, slots: Ints) -> None:
        """Let go of profiles that no broker here knows."""
        values, naming = self._naming(slots)
        self.naming.remove(values, (self.routes.enter[0, self.home[naming]].astype(np.int64) << 32) | naming)
        self.at_home.remove(self.home[slots].astype(np.int64), (self.client[slots] << 32) | slots)
        changes = self.change[slots]
        self.slot_by.remove(changes[changes >= 0])
        for slot in slots.tolist():
            self._unlink(slot)
            self._free_atoms.setdefault(int(self.atom_count[slot]), []).append(int(self.start[slot]))
        self.home[slots] = -1
        self._free += slots.tolist()
        self._columns = None

    def names_in(self, type: int, body: int) -> int:
        """How many values a message may name; -1 where it was found to be none of the kind's."""
        if type == SUBSCRIBE:
            slot = int(self.slot_by.find(self.env.bodies.keys(np.array([body])))[0])
            return int(self.atom_count[slot]) if slot >= 0 else -1
        known = type in (UPDATE, RANGE) and body >= 0
        return 1 if known and self.said_generation[body] == self.env.bodies.generation[body] else -1

    def more_gone(self) -> None:
        """Have room for more slots that nobody knows any more."""
        self.gone = np.concatenate((self.gone, np.zeros_like(self.gone)))

    def tidy(self) -> None:
        """Forget what no broker here knows any more, nor is going to hear of."""
        count = int(self.gone_count[0])
        if not count:
            return
        bodies, slots = self.env.bodies, np.unique(self.gone[:count])
        slots = slots[(self.uses[slots] == 0) & (self.home[slots] >= 0)]
        body, generation = self.heard[slots], self.heard_generation[slots]
        coming = (generation >= 0) & (bodies.generation[body] == generation) & (bodies.refs[body] > 0)
        still = slots[coming]
        self.gone[: still.size], self.gone_count[0] = still, still.size
        if not coming.all():
            self.forget(slots[~coming])

    def _naming(self, slots: Ints) -> tuple[Ints, Ints]:
        """The values that profiles name, and the slot of each."""
        owner, at = _spread(self.start[slots], self.name_count[slots].astype(np.int64))
        return self.name_value[at], slots[owner]

    def _link(self, ids: Ints, slots: Ints) -> None:
        """Make each the newest of its id."""
        known = self.slot_of.find(ids)
        if (known < 0).all() and np.unique(ids).size == ids.size:
            self.slot_of.add(ids, slots)
            return
        for id_, slot in zip(ids, slots):
            one = np.array([id_])
            before = int(self.slot_of.find(one)[0])
            if before >= 0:
                self.slot_of.remove(one)
            self.older[slot] = before
            self.slot_of.add(one, np.array([slot]))

    def _unlink(self, slot: int) -> None:
        one = self.id[slot : slot + 1].copy()
        newer = int(self.slot_of.find(one)[0])
        if newer == slot:
            self.slot_of.remove(one)
            if self.older[slot] >= 0:
                self.slot_of.add(one, self.older[slot : slot + 1].copy())
            return
        while self.older[newer] != slot:
            newer = int(self.older[newer])
        self.older[newer] = self.older[slot]

    def _take_slots(self, wanted: int) -> Ints:
        again, self._free = self._free[:wanted], self._free[wanted:]
        fresh = wanted - len(again)
        slots = np.concatenate((np.array(again, np.int64), np.arange(self.used, self.used + fresh)))
        self.used += fresh
        if self.used > self.home.size:
            size = max(self.used, 2 * self.home.size)
            for name in (*_BY_SLOT, "noted"):
                old = getattr(self, name)
                more = np.full((size - len(old), *old.shape[1:]), -1 if name == "home" else 0, old.dtype)
                setattr(self, name, np.concatenate((old, more)))
        return slots

    def _take_atoms(self, sizes: Ints) -> Ints:
        starts = np.empty(sizes.size, np.int64)
        again = np.zeros(sizes.size, np.bool_)
        if any(self._free_atoms.values()):
            for i, size in enumerate(sizes.tolist()):
                if self._free_atoms.get(size):
                    starts[i], again[i] = self._free_atoms[size].pop(), True
        fresh = np.where(again, 0, sizes)
        starts[~again] = (self._atoms_used + np.cumsum(fresh) - fresh)[~again]
        self._atoms_used += int(fresh.sum())
        if self._atoms_used > len(self.atoms):
            size = max(self._atoms_used, 2 * len(self.atoms))
            for name in _BY_ATOM:
                old = getattr(self, name)
                setattr(self, name, np.concatenate((old, np.zeros((size - len(old), *old.shape[1:]), old.dtype))))
        return starts


_PARTS = ("start", "count", "items")


def _spread(starts: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Of everything in these stretches: the number of its stretch, and where it is."""
    owner = np.repeat(np.arange(counts.size), counts)
    return owner, np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))
