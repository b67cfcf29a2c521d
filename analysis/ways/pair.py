"""A publication and a client: what of both matters, and what was decided about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from analysis.ways.hearing import TOLD, Heard, Hearing
from analysis.ways.told import Fault, Row, Told
from analysis.ways.way import Way
from brokers.contract import MESSAGE
from protocols.explaining import Due
from topology.units import format_duration

EVENTS_FEW = 60  # of which all are told, wherever they were
_NAMES_MOST = 8  # brokers that a sentence names
_OTHERS_MOST = 8  # messages about others' interests that are told


@dataclass
class Decision:
    """What became of a pair, and what made it so."""

    verdict: str
    said: list[str] = field(default_factory=list)  # sentences, true by the trace
    broker: int | None = None  # where the way stops short, doubles, or ends wrongly
    towards: int | None = None  # the neighbour that it did not go to, or went to besides
    change: int | None = None  # that made it so
    fault: Fault | None = None
    by_ns: int | None = None  # how much too late
    sure: bool = True  # whether the trace says so; else it is what it looks like
    held: int | None = None  # where the way of the change stops
    last: int | None = None  # the change that the broker had handled last, where that may have to do with it
    due: str = ""  # what the definition says: owed, excused, free, not owed
    rule: list[str] = field(default_factory=list)  # and why, in sentences

    def but(self, *said: str) -> Decision:
        """The same with more to say."""
        self.said += [each for each in said if each]
        return self


class Pair:
    """See the module. The client goes by its entity id."""

    def __init__(self, told: Told, publication: Row, client: int, home: int | None = None) -> None:
        self.told, self.publication, self.client = told, publication, client
        self.way = Way(told, publication)
        types = None if told.explaining is None else told.explaining.carries
        self.carried = self.way if types is None else Way(told, publication, types)  # what brings it to who gets it
        self.hearing = Hearing(told, publication)
        rows = told.rows("changes", client=client, service=told.service)
        self.changes = sorted(rows, key=lambda row: (row["issued_ns"], row["change"]))
        self._home = home

    @property
    def sent_ns(self) -> int:
        return int(self.publication["time_ns"])

    @property
    def name(self) -> str:
        return self.told.message(self.publication["publication"])

    @cached_property
    def got(self) -> list[Row]:
        """What of it came to the client."""
        return [row for row in self.way.deliveries if row["client"] == self.client]

    @cached_property
    def dropped(self) -> bool:
        """Whether it was dropped where it entered, as nothing that its publisher advertised held it."""
        if not self.told.kind.advertised:
            return False
        return bool(self.told.rows("outside", publication=self.publication["publication"]))

    @cached_property
    def due(self) -> Due:
        """What the definition says, where values alone do not."""
        due: Due = self.told.explaining.due(self.told.asked(self.publication, self.client))
        return due

    @cached_property
    def end_ns(self) -> int:
        """When a broker last handled a copy."""
        return max([self.sent_ns, *(hop.time_ns for hop in self.way.hops)])

    @cached_property
    def begun(self) -> list[Row]:
        """The changes that began interests of the client."""
        return [row for row in self.changes if row["operation"] in self.told.kind.wants()]

    @cached_property
    def wanting(self) -> list[Row]:
        """Those of them that want it, whenever they stood."""
        return [row for row in self.begun if self.hearing.wants(row)]

    @cached_property
    def standing(self) -> list[Row]:
        """Those that may count: not over before it was sent, nor begun after it was last handled."""
        return [
            row for row in self.wanting
            if not 0 <= row["gone_ns"] < self.sent_ns and row["issued_ns"] <= self.end_ns
        ]  # fmt: skip

    @cached_property
    def home(self) -> int | None:
        """The client's broker, as far as the trace tells."""
        if self._home is not None:
            return self._home
        rows = self.got or self.standing or self.changes
        return int(rows[0]["broker"]) if rows else None

    @cached_property
    def mine(self) -> set[int]:
        """The changes that began what of the client wants it."""
        return {row["change"] for row in self.standing or self.wanting}

    def is_mine(self, heard: Heard) -> bool:
        return heard.about["interest"] in self._interests

    @cached_property
    def _interests(self) -> set[int]:
        return {row["interest"] for row in self.standing or self.wanting}

    def heard(self, broker: int) -> list[Heard]:
        """What a broker handled of interests that want it."""
        return self.hearing.at(broker, self.standing)

    @cached_property
    def of_mine(self) -> list[Heard]:
        """By what brokers heard of the client's interests that want it, wherever that was, in the order of time."""
        interests = {row["interest"] for row in self.standing or self.wanting}
        if not interests:
            return []
        causes = {row["change"] for row in self.changes if row["interest"] in interests}
        hops = {*self.told.hops(cause=causes, kind=MESSAGE), *self.told.hops(word=interests, kind=MESSAGE)}
        return [each for each in self.hearing.of(hops) if self.is_mine(each)]

    @cached_property
    def informed(self) -> dict[int, Heard]:
        """By broker: by what it first heard of an interest of the client that wants it, whenever that was."""
        found: dict[int, Heard] = {}
        for each in self.of_mine:
            if each.says == TOLD and each.hop is not None:
                found.setdefault(each.hop.broker, each)
        return found

    def near(self, decision: Decision | None) -> set[int]:
        """The brokers on the way to the client; where there are few events, all that handled any of it."""
        if len(self.way.hops) + len(self.of_mine) <= EVENTS_FEW:
            return {*self.way.at, *self.informed}
        ends = [hop for row in self.got if (hop := self.way.delivering(row)) is not None]
        found = {hop.broker for end in ends for hop in self.way.chain(end)}
        stop = None if decision is None else decision.broker
        if stop is not None and self.way.at.get(stop):
            found |= {hop.broker for hop in self.way.chain(self.way.at[stop][0])}
        if self.home is not None:
            _, following = self.told.nearer(self.home)
            at = stop if stop in following else self.home
            found |= {self.home} if at is None else {at, self.home}
            while at is not None and at != self.home:
                at = following[at]
                found.add(at)
        return found

    @property
    def want(self) -> str:
        """What an interest of which a broker heard does."""
        return "wants" if self.told.decides else "may want"

    def others(self, decision: Decision) -> list[Heard]:
        """What the broker that a decision is about had heard last of others' interests from the client's side."""
        if decision.towards is None or decision.broker is None or decision.verdict.startswith("delivered"):
            return []
        side = self.told.link(decision.towards, decision.broker)
        heard = [each for each in self.heard(decision.broker) if each.link == side and not self.is_mine(each)]
        here = self.carried.at.get(decision.broker)
        begun = here[0].place if here else (self.end_ns,)
        return [each for each in heard if each.place < begun][-_OTHERS_MOST:]

    # ---- in words ------------------------------------------------------------------------------------

    def at(self, broker: int) -> str:
        return self.told.names[broker]

    def several(self, brokers: Iterable[int]) -> str:
        names = [self.at(broker) for broker in brokers]
        return listed(names if len(names) <= _NAMES_MOST else [*names[: _NAMES_MOST - 1], _others(names)])

    def asked(self, begin: Row) -> str:
        """An interest, by the message that asked for it."""
        whose = "" if begin["client"] == self.client else f" of {self.told.client(begin['client'])}"
        return f"{self.told.message(begin['change'])}{whose}"

    def because(self, cause: int) -> str:
        """A change, and what it was."""
        row = self.told.change(cause)
        if row is None:
            return self.told.message(cause)
        what = self.told.type_name(row["operation"])
        return f"{self.told.message(cause)}, the {what} of {self.told.client(row['client'])}"


def _others(names: Sequence[str]) -> str:
    return f"{len(names) - _NAMES_MOST + 1} others"


def listed(names: Sequence[str], nobody: str = "nobody") -> str:
    """a, b and c."""
    if len(names) < 2:
        return names[0] if names else nobody
    return f"{', '.join(names[:-1])} and {names[-1]}"


def when(ns: int) -> str:
    """A time for people."""
    return format_duration(ns)


def lasts(fault: Fault) -> str:
    """When a fault is."""
    if fault.end_ns < 0:
        return f"from {when(fault.begin_ns)} on"
    return f"from {when(fault.begin_ns)} to {when(fault.end_ns)}"


def plain(decision: Decision, told: Told) -> dict[str, Any]:
    """A decision as plain data."""
    fault = decision.fault
    row = told.change(decision.change) if decision.change is not None else None
    return {
        "verdict": decision.verdict,
        "broker": None if decision.broker is None else told.names[decision.broker],
        "towards": None if decision.towards is None else told.names[decision.towards],
        "change": None if decision.change is None else told.message(decision.change),
        "held": None if decision.held is None else told.names[decision.held],
        "last": None if decision.last is None else told.message(decision.last),
        "operation": None if row is None else told.type_name(row["operation"]),
        "fault": None if fault is None else {
            "what": told.what(fault), "begin_ns": fault.begin_ns, "end_ns": fault.end_ns,
        },
        "by_ns": decision.by_ns,
        "due": decision.due,
        "rule": decision.rule,
        "sure": decision.sure,
        "said": decision.said,
    }  # fmt: skip
