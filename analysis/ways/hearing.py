"""What a broker had handled of interests that want a publication: what it can have known, as far as a trace tells.

Messages that clients send name what they are about by their word. A protocol's own are known by their cause: one that
a subscription caused is taken to tell of it, one that a withdrawal caused to withdraw something.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from analysis.ways.told import Fault, Hop, Row, Told
from brokers.contract import MESSAGE
from brokers.faults import KEPT

TOLD, WITHDRAWN = "told", "withdrawn"


class Heard(NamedTuple):
    """An event by which a broker heard of an interest that wants the publication."""

    hop: Hop | None  # None: it stood from the beginning
    says: str
    sure: bool  # whether the trace says so, or only what caused it
    about: Row  # the change that began the interest

    @property
    def place(self) -> tuple[int, ...]:
        return self.hop.place if self.hop is not None else (-1,)

    @property
    def link(self) -> int | None:
        """Over which link; -1 from a client, None if it stood from the beginning."""
        return self.hop.link if self.hop is not None else None


class Hearing:
    """Of one publication: which brokers heard of what wants it, in the order of each; of None, of any interest."""

    def __init__(self, told: Told, publication: Row | None) -> None:
        self.told, self.publication = told, publication
        self._wanted: dict[int, bool] = {}
        self._begun: dict[int, Row | None] = {}
        self._at: dict[int, list[Heard]] = {}
        self._changed: dict[int, list[Hop]] = {}  # what changes sent to it

    def wants(self, begin: Row) -> bool:
        """Whether what a change began wants the publication."""
        key = begin["change"]
        if key not in self._wanted:
            self._wanted[key] = self.publication is None or self.told.wants(self.publication, begin)
        return self._wanted[key]

    def at(self, broker: int, standing: Iterable[Row] = ()) -> list[Heard]:
        """All that a broker handled of it, with interests that stood from the beginning."""
        if broker not in self._at:
            hops = [hop for hop in self.told.hops(broker=broker, kind=MESSAGE) if hop.cause >= 0]
            self._changed[broker] = hops
            self._at[broker] = self.of(hops)
        stood = [Heard(None, TOLD, True, each) for each in standing if each["issued_ns"] < 0]
        return stood + self._at[broker]

    def of(self, hops: Iterable[Hop]) -> list[Heard]:
        """Those of the events that tell of interests that want it, in the order of time."""
        hops = sorted(hop for hop in hops if hop.cause >= 0)
        self.told.learn({hop.cause for hop in hops})
        self._learn({hop.word for hop in hops if hop.type in self._changing} | self._interests(hops))
        found = [heard for hop in hops if (heard := self._heard(hop)) is not None]
        return found if self.told.explaining is None else list(_fresh(found))

    def last_change(self, broker: int, before: Hop) -> Hop | None:
        """The last message of any change that a broker handled before an event of its own."""
        self.at(broker)
        return max((hop for hop in self._changed[broker] if hop.place < before.place), default=None)

    @property
    def _changing(self) -> frozenset[int]:
        return self.told.kind.interests | self.told.kind.revocations

    def _interests(self, hops: list[Hop]) -> set[int]:
        causes = (self.told.change(hop.cause) for hop in hops)
        return {row["interest"] for row in causes if row is not None}

    def _learn(self, interests: set[int]) -> None:
        new = interests - set(self._begun)
        if new:
            self._begun.update(dict.fromkeys(new))
            rows = self.told.rows("changes", interest=new, service=self.told.service)
            for row in sorted(rows, key=lambda row: -row["issued_ns"]):
                if row["operation"] in self.told.kind.interests and self._counts(row, self._begun[row["interest"]]):
                    self._begun[row["interest"]] = row

    def _counts(self, row: Row, later: Row | None) -> bool:
        """Whether a change that came before another of the same interest stands for it: not if that alone wants it."""
        return later is None or self.told.decides or self.wants(row) or not self.wants(later)

    def _heard(self, hop: Hop) -> Heard | None:
        kind, cause = self.told.kind, self.told.change(hop.cause)
        named = self._begun.get(hop.word) if hop.type in self._changing else None
        about = named
        if about is None and cause is not None:
            about = self._begun.get(cause["interest"])
        if about is None or about["service"] != self.told.service or not self.wants(about):
            return None
        if hop.type in kind.interests:
            return Heard(hop, TOLD, named is not None, about)
        if hop.type in kind.revocations:
            return Heard(hop, WITHDRAWN, named is not None, about)
        if cause is None or cause["operation"] not in self._changing:
            return None
        return Heard(hop, TOLD if cause["operation"] in kind.interests else WITHDRAWN, False, about)


def _fresh(heard: Iterable[Heard]) -> Iterator[Heard]:
    """Without messages of a protocol's own by which a broker is not told of an interest, since it was already."""
    told: set[tuple[int, int]] = set()
    for each in heard:
        assert each.hop is not None
        about = each.hop.broker, each.about["interest"]
        if each.sure:
            (told.add if each.says == TOLD else told.discard)(about)
        if each.sure or each.says != TOLD or about not in told:
            yield each


def forgot(told: Told, broker: int, since: tuple[int, ...], until_ns: int) -> Fault | None:
    """The last fault after which a broker came back without all that it knew."""
    found = [
        each for each in told.faults
        if each.broker == broker and each.what == 0 and each.state != KEPT and 0 <= each.end_ns <= until_ns
        and each.end_ns > since[0]
    ]  # fmt: skip
    return max(found, key=lambda each: each.end_ns, default=None)
