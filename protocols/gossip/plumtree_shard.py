"""All brokers of `plumtree` in a shard at once, for the compiled rounds: the same as `Plumtree`, to the byte.

What happens is decided in `plumtree_kernels`, whose arrays are kept and grow here. Before a window publications get
their slots, and are matched (`prepare`).

It is written for neighbours that stay. Over HyParView, where links are latent, where something fails and where some
attack, `Plumtree` runs in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel

from brokers.columns import BadState, Column, check_columns
from brokers.compiled import Desk, Handler
from brokers.contract import Batch, BrokerProtocol, Demand, Guarantees, Ints, Ints32, ShardEnv
from brokers.errors import ProtocolFault
from brokers.out import Out
from brokers.promises import Faced, Recovery
from protocols.content.at_home import INTERESTS, ShardAtHome
from protocols.content.kind import PUBLISH
from protocols.gossip import plumtree_kernels as K
from protocols.gossip.plumtree import IHAVE, Options, Plumtree
from protocols.gossip.slots import Slots

_LINK, _BROKER = Column("i8", ("n",), 0, "links"), Column("i8", ("n",), 0, "brokers")
_PUBLICATION, _TIME = Column("i8", ("n",), 0, "publications"), Column("i8", ("n",), 0)
_ROUND, _FLAG = Column("i8", ("n",), 0, 2**31 - 1), Column("i8", ("n",), 0, 1)
# What a checkpoint keeps, beside subscriptions. Publications are listed once, and named by their place there.
_TABLES = {
    "links": {"link": _LINK, "eager": _FLAG},
    "publications": {"id": _TIME, "sent": _TIME, "until": _TIME, "cached": _FLAG, "body": Column("i8", ("n",))},
    "came": {"broker": _BROKER, "publication": _PUBLICATION, "time": _TIME, "round": _ROUND},
    "asking": {"broker": _BROKER, "publication": _PUBLICATION},
    "notes": {"link": _LINK, "publication": _PUBLICATION, "round": _ROUND},
}


class PlumtreeShard(ShardAtHome):
    """See the module."""

    plain: ClassVar[type[BrokerProtocol] | None] = Plumtree
    Options: ClassVar[type[BaseModel] | None] = Options
    resends: ClassVar[bool] = Plumtree.resends
    announces: ClassVar[frozenset[int]] = Plumtree.announces
    opens: ClassVar[bool] = True  # the author's form does, which runs where there are latent links
    compiled: ClassVar[Handler | None] = K.decide

    @classmethod
    def guarantees_with(cls, options: Any, overlay: Any) -> Guarantees:
        return Plumtree.guarantees_with(options, overlay)

    @classmethod
    def recovery(cls, options: Any, overlay: Any, faced: Faced) -> Recovery | None:
        return Plumtree.recovery(options, overlay, faced)

    @classmethod
    def remarks(cls, options: Any, overlay: Any) -> list[str]:
        return Plumtree.remarks(options, overlay)

    @classmethod
    def expected_events(cls, demand: Demand) -> float:
        return Plumtree.expected_events(demand)

    @classmethod
    def unsuited(cls, options: Any, overlay: Any) -> str:
        if options.membership != "fixed":
            return f"`membership: {options.membership}` asks for it"
        return "there are latent links" if overlay.has_latent else ""

    def __init__(self, env: ShardEnv) -> None:
        super().__init__(env)
        self.said: Options = env.options
        self.locals = np.flatnonzero(env.local[: env.overlay.brokers])
        self._local = np.full(env.brokers, -1, np.int32)
        self._local[self.locals] = np.arange(self.locals.size)
        self._most = int(np.diff(env.links.out_start).max(initial=0))
        self.eager = np.ones(env.links.source.size, np.bool_)
        self._asked_ns = self.said.ids + self.said.cache  # after what was sent nobody asks for it, or gives it out
        self._options = np.array([getattr(self.said, name) for name in K.SAID], np.int64)
        self._many = np.array([self.locals.size])
        self._counts = np.zeros(K.COUNTS, np.int64)
        self.slots = Slots(self._widen)
        self._body = np.zeros(0, np.int32)  # by slot: of what is cached
        self._uses, self._cached = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.came, self.row = np.zeros(0, np.int64), np.zeros((0, K.ROW), np.int32)
        self._widen(self.slots.room)
        self.notes = np.zeros((0, K.NOTE), np.int32)
        self._more_notes()
        self._desk = Desk(env, self)

    @property
    def timer_min_ns(self) -> int:
        return min(self.said.t2, self.said.dispatch)

    # ---- rounds ------------------------------------------------------------------------------------------

    def columns(self) -> Mapping[str, NDArray[Any]]:
        return {
            **super().columns(), "said": self._options, "counts": self._counts, "eager": self.eager,
            "local": self._local, "locals": self._many, "id_keys": self.slots.map.keys,
            "id_slots": self.slots.map.slots, "slot_body": self._body, "slot_uses": self._uses,
            "slot_cached": self._cached, "came": self.came, "row": self.row, "note": self.notes,
        }  # fmt: skip

    def handle(self, batch: Batch, out: Out) -> None:
        self._make_ready(batch.type, batch.word, batch.body)
        self._desk.decide(batch, out, 0, batch.size, lambda at: self._aside(batch, at))
        self.tidy()

    def prepare(self, type: Ints32, word: Ints, body: Ints32, now: int) -> None:
        self._make_ready(type, word, body)
        self.store.learn_all(PUBLISH)

    def _make_ready(self, type: Ints32, word: Ints, body: Ints32) -> None:
        """Have what these messages need."""
        self.enter_changes(type, word, body)
        published = type == PUBLISH
        if self.store.count:
            self.store.learn(body[published])
        bodies = self.env.bodies
        told = np.unique(body[published | (type == IHAVE)])
        told = told[self.slots.map.find(bodies.key[told]) < 0]
        for id_, sent in zip(bodies.key[told].tolist(), bodies.time[told].tolist()):
            self.slots.number(id_, sent + self._asked_ns)

    def _aside(self, batch: Batch, at: int) -> int:
        """What the handler may lack for a row, where all else is ready: notes."""
        if self._counts[K.NOTES] + self._most <= len(self.notes):
            type_, broker = batch.type[at], batch.broker[at]
            raise ProtocolFault(f"PlumtreeShard has no answer to a message of type {type_} at broker {broker}")
        self._more_notes()
        return at

    def held(self) -> Ints:
        """Asked between windows, when all is handled up to the latest there was."""
        self._forget()
        return self._body[self._is_cached()].astype(np.int64)

    def _is_cached(self) -> NDArray[np.bool_]:
        """By slot, whether some broker here may still give it out."""
        cached: NDArray[np.bool_] = (self._cached > self._counts[K.NOW]) & (self._body >= 0)
        return cached

    def _forget(self) -> None:
        """Publications that nobody here will ask for any more."""
        gone = self.slots.forget(int(self._counts[K.NOW]), self._uses)
        if gone.size:
            self._body[gone], self._cached[gone] = -1, 0
            self.came.reshape(self.slots.room, self.locals.size)[gone] = -1

    # ---- room --------------------------------------------------------------------------------------------

    def _widen(self, slots: int) -> None:
        """So many publications; the rows of each lie together."""
        more = slots - self._body.size
        self._body = np.concatenate((self._body, np.full(more, -1, np.int32)))
        self._uses = np.concatenate((self._uses, np.zeros(more, np.int64)))
        self._cached = np.concatenate((self._cached, np.zeros(more, np.int64)))
        rows = np.zeros((more * self.locals.size, K.ROW), np.int32)
        rows[:, [K.FIRST, K.LAST]] = -1
        self.came = np.concatenate((self.came, np.full(len(rows), -1)))
        self.row = np.concatenate((self.row, rows))

    def _more_notes(self) -> None:
        """Twice as many, and as many as one broker has neighbours; those are free."""
        size = len(self.notes)
        grown = np.zeros((2 * size + self._most + 1, K.NOTE), np.int32)
        grown[:size] = self.notes
        grown[size:, K.FOLLOWS] = np.arange(size + 1, len(grown) + 1)
        grown[-1, K.FOLLOWS] = self._counts[K.FREE] if self._counts[K.NOTES] < size else -1
        self._counts[K.FREE] = size
        self.notes = grown

    # ---- checkpoints -------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        env, uid = self.env, self.env.bodies.uid
        links = env.links
        mine = links.out_link[np.flatnonzero(env.local[links.source[links.out_link]])].astype(np.int64)
        slots = self.slots.taken()
        cached = self._is_cached()[slots]
        rows = (slots[:, None] * self.locals.size + np.arange(self.locals.size)).reshape(-1)
        publication = np.repeat(np.arange(slots.size), self.locals.size)
        broker = np.tile(self.locals, slots.size)
        came, asking = self.came[rows] >= 0, self.row[rows, K.ASKING] > 0
        at, link, round_ = K.notes_of(K.MINE.of(self.columns()).address, rows)
        return {
            **super().state(),
            "links": {"link": mine, "eager": self.eager[mine].astype(np.int64)},
            "publications": {
                "id": self.slots.id[slots], "sent": self.slots.until[slots] - self._asked_ns,
                "until": self._cached[slots], "cached": cached.astype(np.int64),
                "body": uid[np.where(cached, self._body[slots], 0)],
            },
            "came": {
                "broker": broker[came], "publication": publication[came], "time": self.came[rows][came],
                "round": self.row[rows, K.ROUND][came].astype(np.int64),
            },
            "asking": {"broker": broker[asking], "publication": publication[asking]},
            "notes": {"link": link.copy(), "publication": publication[at], "round": round_.copy()},
        }  # fmt: skip

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        env = self.env
        for state in states:
            check_columns(state, INTERESTS, others=frozenset(_TABLES))
            for name, columns in _TABLES.items():
                counted = {"brokers": env.overlay.brokers, "links": env.links.source.size}
                check_columns(state[name], columns, {**counted, "publications": state["publications"]["id"].size})
        super().load(states, handle_of)
        for state in states:
            self._load(state, handle_of)

    def _load(self, state: dict[str, Any], handle_of: Mapping[int, int]) -> None:
        """What belongs here of one state."""
        links, kept = self.env.links, state["links"]
        self.eager[kept["link"]] = kept["eager"] > 0
        slot_of = self._load_publications(state["publications"], handle_of)
        came, asking, notes = state["came"], state["asking"], state["notes"]
        mine, at = self._rows(came["broker"], slot_of[came["publication"]])
        self.came[at], self.row[at, K.ROUND] = came["time"][mine], came["round"][mine]
        _, asked = self._rows(asking["broker"], slot_of[asking["publication"]])
        self.row[asked, K.ASKING] = 1
        if np.unique(at).size < at.size or np.unique(asked).size < asked.size:
            raise BadState("a publication came twice, or is asked for twice")
        np.add.at(self._uses, asked // self._many[0], 1)
        mine, at = self._rows(links.source[notes["link"]], slot_of[notes["publication"]])
        while len(self.notes) < self._counts[K.NOTES] + at.size:
            self._more_notes()
        K.note_all(K.MINE.of(self.columns()).address, at, notes["link"][mine], notes["round"][mine])
        waiting = np.unique(at[self.came[at] >= 0])
        np.add.at(self._uses, waiting // self._many[0], 1)

    def _load_publications(self, kept: dict[str, Any], handle_of: Mapping[int, int]) -> Ints:
        """The slots of the publications of a state."""
        found = []
        for id_, sent, until, cached, uid in zip(*(kept[name].tolist() for name in _TABLES["publications"])):
            slot = self.slots.number(id_, sent + self._asked_ns)
            found.append(slot)
            self._cached[slot] = max(int(self._cached[slot]), until)
            if cached:
                if uid not in handle_of:
                    raise BadState(f"publication {id_} is body {uid}, which the checkpoint does not have")
                self._body[slot] = handle_of[uid]
        return np.array(found, np.int64)

    def _rows(self, broker: Ints, slot: Ints) -> tuple[NDArray[np.bool_], Ints]:
        """Which of these pairs are of brokers here, and their rows."""
        mine = self.env.local[broker]
        return mine, slot[mine] * self._many[0] + self._local[broker[mine]]

    # ---- what is told of it ------------------------------------------------------------------------------

    def describe(self, broker: int) -> dict[str, Any]:
        links = self.env.links
        first, last = links.out_start[broker : broker + 2]
        mine = links.out_link[first:last]
        names, known = [self.env.overlay.names[b] for b in links.target[mine].tolist()], self.eager[mine].tolist()
        eager = {name: "eager" for name, each in zip(names, known) if each}
        lazy = {name: "lazy" for name, each in zip(names, known) if not each}
        slots = self.slots.taken()
        at = slots * self.locals.size + self._local[broker]
        at, ids = (each[(self.row[at, K.ASKING] > 0) & (self.came[at] < 0)] for each in (at, self.slots.id[slots]))
        announced = np.bincount(K.notes_of(K.MINE.of(self.columns()).address, at)[0], minlength=at.size)
        missing = {str(id_): count for id_, count in sorted(zip(ids.tolist(), announced.tolist()))}
        return {**super().describe(broker), "neighbours": {**eager, **lazy}, "missing": missing}
