"""The context protocols on one shard: what its brokers know is kept once (`shared.py`), and decided in compiled code.

`deciding.py` is the handler of all three, and `asides.py` what it leaves aside. A protocol says whose rules hold. Its
author's view runs where something is held back, and where links lose messages: then brokers may have heard different
things of one home.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from brokers.columns import BadState, Column, check_columns
from brokers.compiled import Desk, Handler
from brokers.contract import (
    Batch,
    Demand,
    Floats,
    Interests,
    Ints,
    Ints32,
    ShardEnv,
    ShardProtocol,
)
from brokers.errors import InvalidInput, ProtocolFault
from brokers.indexes.context.contract import checked_message, checked_profile
from brokers.out import Out
from brokers.tables import check_ids
from protocols.context import asides, deciding
from protocols.context.asides import Asides
from protocols.context.common import ContextBroker
from protocols.context.kind import ATOM, CONTEXTS_MAX, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, UPDATE, value_of
from protocols.context.known import COLUMNS, OWN, RANGE, REPLICATED, UNKNOWN
from protocols.context.shared import BY_CELL, Shared
from protocols.routes import Routes

_KEPT = ("source", "left_out", "low", "high", "stamp", "revived", "first_by", "awaited")  # of a cell
_STATE = {
    "id": Column("i8", ("profiles",), low=0),
    "change": Column("i8", ("profiles",), low=-1),
    "count": Column("i8", ("profiles",), low=1),
    "atoms": Column("f8", ("atoms", ATOM)),
    "names": Column("i8", ("profiles",), low=0),
    "first": Column("i8", (None,), low=-1),
    "noted": Column("u8", ("profiles", "words")),
    "cell_broker": Column("i8", ("cells",), low=0, high="brokers"),
    "cell_value": Column("i8", ("cells",), low=1 << 62),
    **{name: Column(np.dtype(BY_CELL[name]).str[1:], ("cells",)) for name in _KEPT},
    "source": Column("i4", ("cells",), low=UNKNOWN, high="links"),
    "decided": Column("i8", ("brokers",), low=0),
    "useless": Column("i8", ("brokers",), low=0),
}


class ContextView(ShardProtocol):
    """See the module; all brokers of a shard at once."""

    kind: ClassVar[str] = "context"
    compiled: ClassVar[Handler | None] = deciding.context
    plain: ClassVar[type[ContextBroker]]
    rule: ClassVar[int]

    @classmethod
    def unsuited(cls, options: Any, overlay: Any) -> str:
        if options.hold_back is not None:
            return "`hold_back` asks for it"
        return "links may lose messages" if (overlay.loss > 0).any() else ""

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        return cls.plain.expected_events(demand)

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Any) -> list[tuple[str, str]]:
        return cls.plain.misfits(options, overlay, params)

    def __init__(self, env: ShardEnv) -> None:
        super().__init__(env)
        # One tree, as all brokers use it; the author's view has it from each publisher's broker too, and looks at none.
        root = np.unique(env.publisher_brokers)[:1]
        self.routes = Routes(env.links, env.overlay.is_tree, root, False)
        self.shared = Shared(env, self.routes, self.rule)
        self._stood: dict[int, tuple[float, int]] = {}  # values from the start, and the broker of their owner
        self._desk = Desk(env, self)
        self._asides = Asides(env)
        self._batch: Batch

    # ---- what stands from the start ------------------------------------------------------------------

    def stand(self, interests: Interests) -> None:
        ids, rows, shared, env = interests.id, interests.rows, self.shared, self.env
        assert rows is not None
        broker = env.client_broker[interests.client]
        value = ids >> 62 != 0
        for i in np.flatnonzero(value).tolist():
            _, _, known = shared.kind.update(rows[i])
            self._stood[int(ids[i])] = np.nan if known is None else known, int(broker[i])
        if value.all():
            return
        slots = shared.learn(ids[~value], np.full((~value).sum(), -1), self._checked(rows[~value]))
        here = np.zeros((1, shared.noted.shape[1] * 64), np.bool_)
        here[0, : env.brokers] = shared.local
        shared.noted[slots] = np.packbits(here, axis=1, bitorder="little").view(np.uint64)
        shared.uses[slots] = np.count_nonzero(shared.local)
        shared.entries += slots.size * shared.local

    def _checked(self, rows: Floats) -> Floats:
        for i in np.flatnonzero(~self.shared.are_profiles(rows)).tolist():
            checked_profile(self.shared.kind.profile(rows[i]), self.shared.kind.schema)
        return rows

    def _begin(self) -> None:
        """Let brokers know the values that stand from the start, as far as they would have been told."""
        if not self._stood:
            return
        stood, self._stood = self._stood, {}
        shared, env = self.shared, self.env
        values = shared.numbers(np.array(list(stood), np.int64))
        known, owner = np.array(list(stood.values())).T
        owner = owner.astype(np.int64)
        publishers = env.publisher_brokers if self.rule == REPLICATED else np.empty(0, np.int32)
        which, broker, source = asides.ways(shared.address(), values, owner, env.links.target, publishers)
        self._stands(values[which], source, known[which])
        which = np.concatenate((np.arange(values.size), which))
        broker = np.concatenate((owner, broker))
        source = np.concatenate((np.full(values.size, OWN), source))
        here = env.local[broker]
        which, source = which[here], source[here]
        cells = shared.cells(values[which], broker[here])
        unknown = np.isnan(known[which])
        shared.source[cells] = source
        shared.low[cells] = np.where(unknown, np.inf, known[which])
        shared.high[cells] = np.where(unknown, -np.inf, known[which])
        shared.left_out[cells] = (source == OWN) & (shared.naming.count[values[which]] == 0)
        asides.refresh_all(shared.address(), cells)

    def _stands(self, values: Ints, links: Ints, known: Floats) -> None:
        """Values that stand from the start came to those who know them by these links, each of its receiver."""

    # ---- messages ------------------------------------------------------------------------------------

    def handle(self, batch: Batch, out: Out) -> None:
        self._make_ready(batch.type, batch.word, batch.body)
        self._batch = batch
        self._desk.decide(batch, out, 0, batch.size, self._aside)
        self._asides.hand_on(batch, out)
        self.tidy()

    def prepare(self, type: Ints32, word: Ints, body: Ints32, now: int) -> None:
        self._make_ready(type, word, body)
        self.shared.reserve_cells(1024)

    def tidy(self) -> None:
        self.shared.tidy()

    def columns(self) -> Mapping[str, NDArray[Any]]:
        return self.shared.columns()

    def _make_ready(self, type: Ints32, word: Ints, body: Ints32) -> None:
        self._begin()
        self.shared.make_ready(type, word, body)
        self.shared.reserve_cells(int(np.count_nonzero((type == UPDATE) | (type == RANGE))))

    def _aside(self, row: int) -> int:
        """Decide on a row that was left aside; returns the one behind it."""
        batch, shared = self._batch, self.shared
        type_ = int(batch.type[row])
        if batch.link[row] < 0:
            self._refuse_bad(row)
        if type_ == UNSUBSCRIBE:
            shared.more_gone()
            return row
        names = self._names_in(row)
        if names < 0:
            raise ProtocolFault(f"a message of type {type_} is none of the kind {self.kind!r}")
        self._asides.decide(self._desk.address, shared.address(), row, int(batch.broker[row]), names)
        return row + 1

    def _names_in(self, row: int) -> int:
        """How many values a row may name; -1 where it was found to be none of the kind's."""
        return self.shared.names_in(int(self._batch.type[row]), int(self._batch.body[row]))

    def _refuse_bad(self, row: int) -> None:
        """What a client sends is checked where it enters, before anybody hears of it."""
        batch, kind = self._batch, self.shared.kind
        type_, body, word = int(batch.type[row]), batch.body[row : row + 1], int(batch.word[row])
        numbers = self.env.bodies.values(body)[0] if body[0] >= 0 else np.empty(0)
        try:
            if type_ == PUBLISH:
                checked_message(kind.message(numbers), kind.schema)
            elif type_ == UPDATE:
                kind.update(numbers)
            elif type_ == SUBSCRIBE:
                if asides.version_of(self.shared.address(), word, int(batch.broker[row])) >= 0:
                    raise InvalidInput(f"profile {word} is there already; end it before it begins again")
                checked_profile(kind.profile(numbers), kind.schema)
        except InvalidInput as error:
            client = int(batch.source[row]) - self.env.entity_base
            raise type(error)(f"client {client}, at {int(batch.time[row])} ns: {error}") from None

    def entries(self) -> Ints:
        return self.shared.entries

    def describe(self, broker: int) -> dict[str, Any]:
        self._begin()
        shared = self.shared
        own = shared.at_home.of(broker) & ((1 << 32) - 1)
        taken = shared.cell_keys >= 0
        mine = taken & (shared.cell_keys % self.env.brokers == broker)
        cells = shared.cell_slots[mine]
        known = (shared.low[cells] != -np.inf) | (shared.high[cells] != np.inf)
        return {
            "profiles": int(shared.entries[broker]),
            "own profiles": int(self._noted_at(own, broker).sum()) if self.env.local[broker] else 0,
            "values known": int(known.sum()), "decided": int(shared.decided[broker]),
            "came in vain": int(shared.useless[broker]), "held back": 0,
        }  # fmt: skip

    def _noted_at(self, slots: Ints, broker: int) -> NDArray[np.bool_]:
        bit = (self.shared.noted[slots, broker >> 6] >> np.uint64(broker & 63)) & np.uint64(1)
        return bit != 0

    # ---- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        self._begin()
        shared = self.shared
        live = np.flatnonzero((shared.home[: shared.used] >= 0) & (shared.uses[: shared.used] > 0))
        live = live[np.lexsort((shared.change[live], shared.id[live]))]
        counts, names = shared.atom_count[live].astype(np.int64), shared.name_count[live].astype(np.int64)
        lines = shared.atoms[_stretches(shared.start[live], counts)]
        bound = ~np.isnan(lines[:, 3])
        atoms = np.full((len(lines), ATOM), np.nan)
        atoms[:, :3], atoms[:, 5:] = lines[:, :3], lines[:, 4:COLUMNS]
        words = shared.words[lines[bound, 3].astype(np.int64)]
        atoms[bound, 3], atoms[bound, 4] = value_of(words)
        taken = shared.cell_keys >= 0
        keys, cells = shared.cell_keys[taken], shared.cell_slots[taken]
        return {
            "id": shared.id[live], "change": shared.change[live], "count": counts, "atoms": atoms, "names": names,
            "first": shared.name_first[_stretches(shared.start[live], names)], "noted": shared.noted[live],
            "cell_broker": keys % self.env.brokers, "cell_value": shared.words[keys // self.env.brokers],
            **{name: getattr(shared, name)[cells] for name in _KEPT},
            "decided": shared.decided, "useless": shared.useless,
        }  # fmt: skip

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        env, shared = self.env, self.shared
        sizes = {"words": shared.noted.shape[1], "brokers": env.brokers, "links": env.links.source.size}
        for state in states:
            check_columns(state, _STATE, dict(sizes))
            self._load_profiles(state)
        for state in states:
            self._load_cells(state)
            shared.decided += state["decided"] * env.local
            shared.useless += state["useless"] * env.local

    def _load_profiles(self, state: dict[str, Any]) -> None:
        """Take over those profiles that a broker here knows; another shard may have told of them too."""
        env, shared = self.env, self.shared
        ids, changes, counts, names = (state[name] for name in ("id", "change", "count", "names"))
        if counts.sum() != len(state["atoms"]) or names.sum() != state["first"].size:
            raise BadState("profiles have more or fewer atoms than are there")
        check_ids(env, np.unique(ids))
        rows = _rows_of(state["atoms"], counts)
        if not shared.are_profiles(rows).all():
            raise BadState("a profile has lines that are no atoms")
        bits = np.unpackbits(state["noted"].view(np.uint8), axis=1, bitorder="little")[:, : env.brokers] != 0
        bits &= shared.local
        slots = self._slots_of(ids, changes)
        fresh = bits.any(axis=1) & (slots < 0)
        if np.unique(np.column_stack((ids, changes)), axis=0).shape[0] < ids.size:
            raise BadState("a profile is there twice")
        slots[fresh] = shared.learn(ids[fresh], changes[fresh], rows[fresh])
        known = slots >= 0
        if (shared.name_count[slots[known]] != names[known]).any():
            raise BadState("a profile names other values than it is told of")
        starts = np.cumsum(names) - names
        for i in np.flatnonzero(fresh).tolist():
            start, count = int(shared.start[slots[i]]), int(names[i])
            shared.name_first[start : start + count] = state["first"][starts[i] : starts[i] + count]
        packed = np.zeros((ids.size, shared.noted.shape[1] * 64), np.bool_)
        packed[:, : env.brokers] = bits
        shared.noted[slots[known]] |= np.packbits(packed[known], axis=1, bitorder="little").view(np.uint64)
        shared.uses[slots[known]] = np.bitwise_count(shared.noted[slots[known]]).sum(axis=1)
        shared.entries += bits.sum(axis=0)

    def _slots_of(self, ids: Ints, changes: Ints) -> Ints:
        """The slots of profiles by id and change; -1 where there is none yet."""
        shared = self.shared
        slots = np.where(changes >= 0, shared.slot_by.find(changes), shared.slot_of.find(ids))
        for i in np.flatnonzero(slots >= 0).tolist():
            while slots[i] >= 0 and shared.change[slots[i]] != changes[i]:
                slots[i] = shared.older[slots[i]]
            if slots[i] >= 0 and shared.id[slots[i]] != ids[i]:
                raise BadState("two profiles came by one change")
        return slots

    def _load_cells(self, state: dict[str, Any]) -> None:
        env, shared = self.env, self.shared
        broker, words = state["cell_broker"], state["cell_value"]
        source, links = state["source"], env.links.source
        context, attribute = value_of(words)
        if ((context >= CONTEXTS_MAX) | (attribute >= shared.kind.attributes)).any():
            raise BadState("a value has a name that none has")
        if ((source >= 0) & (links[np.maximum(source, 0)] != broker)).any():
            raise BadState("a value comes by a link of another broker")
        here = env.local[broker]
        cells = shared.cells(shared.numbers(words[here]), broker[here])
        for name in _KEPT:
            getattr(shared, name)[cells] = state[name][here]
        asides.refresh_all(shared.address(), cells)


def _stretches(starts: Ints, counts: Ints) -> Ints:
    return np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(int(counts.sum()))


def _rows_of(atoms: Floats, counts: Ints) -> Floats:
    """Profiles as clients send them, padded to one length."""
    rows = np.full((counts.size, int(counts.max(initial=1)), ATOM), np.nan)
    owner = np.repeat(np.arange(counts.size), counts)
    rows[owner, np.arange(len(atoms)) - np.repeat(np.cumsum(counts) - counts, counts)] = atoms
    return rows.reshape(counts.size, rows.shape[1] * ATOM)
