"""context-escalated: AGILE between brokers. A neighbour holds a widened range, and hears only of what leaves it.

Towards the homes of the profiles that name it, a value travels as it is. To every other neighbour a broker has told a
range K that holds what it knows itself; at first K is everything, and nothing has to be told.

- Escalation: news that leave K widen it on the side where they stick out, by a step that doubles each time, and only
  then is the neighbour told. News within K cost nothing, and lean on the change that last widened K: the neighbour
  may not have heard of that yet.
- De-escalation: a publication that comes over a link and that nobody here or beyond wants is a false positive.
  Where a profile might hold under what that neighbour was told, and fails by a value of which more is known here,
  the policy says whether K shrinks to that: `always`, every so many (`fixed`), or `auto`, as AGILE has them.

What a neighbour knows, it tells on in the same way, so ranges widen with the distance, and shrink where traffic is.
A range that is too wide costs messages, never answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, Field

from brokers.columns import BadState, Column, check_columns
from brokers.contract import Floats, Ints, Message, ShardEnv
from brokers.indexes.context.policies import ALWAYS, Auto, Counter, Fixed, Policy
from protocols.context.common import NOBODY, OWN, Answer, ContextBroker, Options
from protocols.context.escalating import in_vain, told_of
from protocols.context.kind import CONTEXTS_MAX, PUBLISH, UPDATE, value_of
from protocols.context.known import ESCALATED
from protocols.context.sieve import everything
from protocols.context.view import ContextView

_TOLD = {"told": Column("f8", ("places", "room", 2)), "level": Column("i8", ("places", "room"), low=0)}


class EscalatedOptions(Options):
    """Options of `context-escalated`."""

    policy: Annotated[
        Literal["always", "fixed", "auto"], Field(description="which false positives shrink a range")
    ] = "fixed"
    false_positives: Annotated[int, Field(ge=1, description="fixed: so many until one shrinks a range")] = 3
    constant: Annotated[
        float, Field(gt=0, allow_inf_nan=False, description="auto: this times updates over false positives, instead")
    ] = 3.0
    step: Annotated[
        float, Field(gt=0, le=1, description="share of the domain by which a range is widened first; then twice that")
    ] = 0.03125


class PlainEscalated(ContextBroker):
    """See the module; one broker at a time."""

    Options: ClassVar[type[BaseModel] | None] = EscalatedOptions
    remade: ClassVar[tuple[str, ...]] = ("width", "step", "counter")

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        options = node.env.options
        low, high = self.service.params["domain"]
        self.width = float(high - low)
        self.step = options.step * self.width
        self.counter = Counter(policy_of(options))
        self.told: Floats = self._untold(len(self.newest))  # by place and value: K
        self.level = np.zeros(self.told.shape[:2], np.int64)  # how often it was widened since it was exact
        self.told_by: dict[tuple[int, int], int] = {}  # (place, value) -> the change that last widened K
        self.escalations = self.shrunk = 0

    def state(self) -> dict[str, Any]:
        return {**super().state(), "counts": self.counter.state()}

    def load(self, state: dict[str, Any]) -> None:
        self.counter.load(state.pop("counts"))
        super().load(state)
        sizes = {"places": self.here, "room": len(self.newest)}
        check_columns({"told": self.told, "level": self.level}, _TOLD, sizes)

    def _untold(self, count: int) -> Floats:
        return np.broadcast_to(everything(count), (self.here, count, 2)).copy()

    def stood_known(self, key: int) -> None:
        for place in self.onward(key):
            if self.leads(key, place):
                self.told[place, key] = self.newest[key]

    # ---- news of a value -------------------------------------------------------------------------------

    def spread(self, message: Message, key: int, to: Answer = NOBODY) -> None:
        self.counter.updates += 1
        known = self.newest[key]
        for place in self.onward(key):
            told = self.told[place, key]
            if self.leads_to(place, to):
                self._tell_all(message, place, key, to)
            elif self.leads(key, place):
                if np.array_equal(told, known):
                    self.lean(message, self.told_by.get((place, key), -1))
                else:
                    self._tell_all(message, place, key)
            elif covers(told, known):
                self.lean(message, self.told_by.get((place, key), -1))
            else:
                self._escalate(message, place, key)

    def answer(self, message: Message, key: int, home: int) -> None:
        self._tell_all(message, int(self.way[home]), key, (home, self.named[key][home][1]))

    def _tell_all(self, message: Message, place: int, key: int, to: Answer = NOBODY) -> None:
        """Send news as they are."""
        self._note_told(message, place, key, self.newest[key])
        self.level[place, key] = 0
        if message.type == UPDATE and to == NOBODY:
            self.node.forward(message, self.links[place])
        else:
            self.tell(message, place, key, to)

    def _escalate(self, message: Message, place: int, key: int) -> None:
        """Widen K until it holds what is known, and say so."""
        low, high = self.newest[key].tolist()
        had_low, had_high = self.told[place, key].tolist()
        level = min(int(self.level[place, key]), 60)
        more = self.step * float(1 << level)
        if more >= self.width:
            wide = -np.inf, np.inf
        else:
            wide = (had_low if had_low <= low else low - more), (had_high if had_high >= high else high + more)
        self._note_told(message, place, key, wide)
        self.level[place, key] = level + 1
        self.escalations += 1
        self.tell(message, place, key, known=wide)

    def _note_told(self, message: Message, place: int, key: int, known: Any) -> None:
        self.told[place, key] = known
        if message.cause >= 0:
            self.told_by[place, key] = message.cause

    def reset(self, message: Message, key: int) -> None:
        for place in self.onward(key):
            if (self.told[place, key] != everything(1)[0]).any():
                self._note_told(message, place, key, (-np.inf, np.inf))
                self.tell(message, place, key, known=(-np.inf, np.inf))

    # ---- false positives -------------------------------------------------------------------------------

    def wasted(self, message: Message, values: Floats, place: int) -> None:
        super().wasted(message, values, place)
        count = len(self.words)
        told = self.told[place].copy()
        # What comes from there, that neighbour knows better than this broker.
        theirs = [key for key in range(count) if self.source[key] != OWN and self.place_of(key) in (place, -1)]
        told[theirs] = self.ranges[theirs]
        key = self.sieve.culprit(values, told, self.ranges, place)
        if key < 0 or not self.counter.due(1).size:
            return
        known = self.newest[key]
        if covers(self.told[place, key], known) and not np.array_equal(self.told[place, key], known):
            self.told[place, key] = known
            self.level[place, key] = 0
            self.shrunk += 1
            self.tell(message, place, key, known=known, cause=-1)

    def place_of(self, key: int) -> int:
        """The place from which a value comes; -1 if it is not known, or none."""
        return self.place(self.source[key])

    def _grow(self) -> None:
        count = len(self.newest)
        super()._grow()
        self.told = np.concatenate([self.told, self._untold(count)], axis=1)
        self.level = np.concatenate([self.level, np.zeros((self.here, count), np.int64)], axis=1)

    def describe(self) -> dict[str, Any]:
        return {**super().describe(), "escalations": self.escalations, "shrunk": self.shrunk}


def policy_of(options: Any) -> Policy:
    """Which false positives shrink a range."""
    policies: dict[str, Policy] = {
        "always": ALWAYS, "fixed": Fixed(options.false_positives), "auto": Auto(options.constant),
    }  # fmt: skip
    return policies[options.policy]


def covers(wide: Floats, known: Floats) -> bool:
    """Whether a range holds another; one that is empty is in every range."""
    return bool(known[0] > known[1] or (wide[0] <= known[0] and known[1] <= wide[1]))


_RANGES = {
    "told_link": Column("i8", ("told",), low=0, high="links"),
    "told_value": Column("i8", ("told",), low=1 << 62),
    "told_low": Column("f8", ("told",)),
    "told_high": Column("f8", ("told",)),
    "told_level": Column("i8", ("told",), low=0),
    "told_by": Column("i8", ("told",), low=-1),
    "spreads": Column("i8", ("brokers",), low=0),
    "counts": Column("i8", ("brokers", 2), low=0),  # false positives, and how many of them were ignored of late
    "escalations": Column("i8", ("brokers",), low=0),
    "shrunk": Column("i8", ("brokers",), low=0),
}


class Escalated(ContextView):
    """See the module; all brokers of a shard at once."""

    Options: ClassVar[type[BaseModel] | None] = EscalatedOptions
    plain = PlainEscalated
    rule = ESCALATED

    def __init__(self, env: ShardEnv) -> None:
        super().__init__(env)
        low, high = self.shared.kind.params["domain"]
        width = float(high - low)
        self.shared.widening[:] = env.options.step * width, width
        self._policy = policy_of(env.options)
        self._counters: dict[int, Counter] = {}  # of brokers that a publication reached in vain

    def _stands(self, values: Ints, links: Ints, known: Floats) -> None:
        shared, tellers = self.shared, links ^ 1
        here = (links >= 0) & self.env.local[self.env.links.source[tellers]]
        rows = self._told(values[here], tellers[here])
        unknown, known = np.isnan(known[here]), known[here]
        shared.ranges.of["low"][rows] = np.where(unknown, np.inf, known)
        shared.ranges.of["high"][rows] = np.where(unknown, -np.inf, known)

    def _told(self, values: Ints, links: Ints) -> Ints:
        """Where it stands what was told of these values over these links."""
        self.shared.reserve_told(values.size)
        found: Ints = told_of(self.shared.address(), values, links)
        return found

    def _aside(self, row: int) -> int:
        batch, shared = self._batch, self.shared
        body, broker = int(batch.body[row]), int(batch.broker[row])
        if batch.type[row] == PUBLISH and batch.link[row] >= 0 and shared.is_matched(body):
            self._in_vain(row, broker)
            return row + 1
        links = self.env.links.out_start
        shared.reserve_told(int(links[broker + 1] - links[broker] + 1) * (1 + max(0, self._names_in(row))))
        return super()._aside(row)

    def _in_vain(self, row: int, broker: int) -> None:
        """A publication came over a link in vain."""
        shared = self.shared
        value = int(in_vain(self._desk.address, shared.address(), row))
        if value < 0:
            return
        counter = self._counters.setdefault(broker, Counter(self._policy))
        counter.updates = int(shared.spreads[broker])
        if counter.due(1).size:
            shared.reserve_told(1)
            self._asides.shrink(self._desk.address, shared.address(), row, value)

    def describe(self, broker: int) -> dict[str, Any]:
        shared = self.shared
        said = super().describe(broker)
        return {**said, "escalations": int(shared.escalations[broker]), "shrunk": int(shared.shrunk[broker])}

    # ---- checkpoints ---------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        said = super().state()
        shared, links = self.shared, self.env.links.source.size
        keys, rows = shared.ranges.taken()
        counts = np.zeros((self.env.brokers, 2), np.int64)
        for broker, counter in self._counters.items():
            counts[broker] = counter.state()[1:]
        return {
            **said, "told_link": keys % links, "told_value": shared.words[keys // links],
            **{f"told_{name}": column[rows] for name, column in shared.ranges.of.items()},
            "spreads": shared.spreads, "counts": counts, "escalations": shared.escalations, "shrunk": shared.shrunk,
        }  # fmt: skip

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        more = [{name: state.pop(name, None) for name in _RANGES} for state in states]
        sizes = {"brokers": self.env.brokers, "links": self.env.links.source.size}
        for said in more:
            check_columns(said, _RANGES, dict(sizes))
        super().load(states, handle_of)
        for said in more:
            self._load_ranges(said)

    def _load_ranges(self, said: dict[str, Any]) -> None:
        env, shared = self.env, self.shared
        context, attribute = value_of(said["told_value"])
        if ((context >= CONTEXTS_MAX) | (attribute >= shared.kind.attributes)).any():
            raise BadState("a value has a name that none has")
        here = env.local[env.links.source[said["told_link"]]]
        rows = self._told(shared.numbers(said["told_value"][here]), said["told_link"][here])
        for name, column in shared.ranges.of.items():
            column[rows] = said[f"told_{name}"][here]
        for name in ("spreads", "escalations", "shrunk"):
            getattr(shared, name)[env.local] += said[name][env.local]
        for broker in np.flatnonzero(said["counts"].any(axis=1) & env.local).tolist():
            counter = self._counters.setdefault(broker, Counter(self._policy))
            counter.load([int(said["spreads"][broker]), *said["counts"][broker].tolist()])
