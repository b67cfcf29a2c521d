"""Plumtree over fixed links once more, as plainly as its rules can be written: one event after the other, no engine.

An oracle for networks whose delays are drawn, so that hardly two things happen at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

from protocols.content.kind import PUBLISH
from protocols.gossip.plumtree import GRAFT, IHAVE, PRUNE


class Times(NamedTuple):
    """The options, in nanoseconds but for the last."""

    t1: int
    t2: int
    dispatch: int
    threshold: int


class Network:
    """Brokers by number, and the delay of the link between any two neighbours, named both ways."""

    def __init__(self, delays: Mapping[tuple[int, int], int], times: Times) -> None:
        self.delays, self.times = delays, times
        self.eager: dict[int, set[int]] = {}
        for a, b in delays:
            self.eager.setdefault(a, set()).add(b)
        self.lazy: dict[int, set[int]] = {broker: set() for broker in self.eager}
        self.depth: dict[tuple[int, int], int] = {}  # (broker, publication) -> the round in which it came
        self.word: dict[tuple[int, int], list[tuple[int, int]]] = {}  # who announced it, and its round there
        self.asking: set[tuple[int, int]] = set()
        self.sent: Counter[int] = Counter()
        self.changed = 0  # how often an announcement took the place of the way that a publication came
        self._events: list[Any] = []
        self._number = count()

    def run(self, publications: Iterable[tuple[int, int]]) -> None:
        """Publications as (time, broker)."""
        for id_, (time, broker) in enumerate(publications):
            self._later(time, self._came, broker, -1, id_, 0)
        while self._events:
            time, _, what, given = heappop(self._events)
            what(time, *given)

    def _later(self, time: int, what: Any, *given: int) -> None:
        heappush(self._events, (time, next(self._number), what, given))

    def _send(self, time: int, type_: int, a: int, b: int, *given: int) -> None:
        self.sent[type_] += 1
        handlers = {PUBLISH: self._came, IHAVE: self._heard, GRAFT: self._grafted, PRUNE: self._pruned}
        self._later(time + self.delays[a, b], handlers[type_], b, a, *given)

    def _came(self, time: int, at: int, by: int, id_: int, depth: int) -> None:
        if (at, id_) in self.depth:
            self._prune(time, at, by)
            return
        self.depth[at, id_] = depth
        for other in self.eager[at] - {by}:
            self._send(time, PUBLISH, at, other, id_, depth + 1)
        told = tuple(self.lazy[at] - {by})
        if told:
            self._later(time + self.times.dispatch, self._announce, at, id_, *told)
        said = self.word.pop((at, id_), [])
        if said and by >= 0:
            best, round_ = min(said, key=lambda each: each[1])
            if depth - round_ >= self.times.threshold and best != by:
                self.changed += 1
                if best not in self.eager[at]:
                    self._favour(at, best)
                    self._send(time, GRAFT, at, best, -1)
                self._prune(time, at, by)

    def _announce(self, time: int, at: int, id_: int, *told: int) -> None:
        for other in told:
            self._send(time, IHAVE, at, other, id_, self.depth[at, id_])

    def _heard(self, time: int, at: int, by: int, id_: int, round_: int) -> None:
        if (at, id_) in self.depth:
            return
        self.word.setdefault((at, id_), []).append((by, round_))
        if (at, id_) not in self.asking:
            self.asking.add((at, id_))
            self._later(time + self.times.t1, self._ask, at, id_)

    def _ask(self, time: int, at: int, id_: int) -> None:
        if not self.word.get((at, id_)):
            self.asking.discard((at, id_))
            return
        by, _ = self.word[at, id_].pop(0)
        self._favour(at, by)
        self._send(time, GRAFT, at, by, id_)
        self._later(time + self.times.t2, self._ask, at, id_)

    def _grafted(self, time: int, at: int, by: int, id_: int) -> None:
        self._favour(at, by)
        if (at, id_) in self.depth:
            self._send(time, PUBLISH, at, by, id_, self.depth[at, id_] + 1)

    def _pruned(self, time: int, at: int, by: int) -> None:
        self.eager[at].discard(by)
        self.lazy[at].add(by)

    def _prune(self, time: int, at: int, other: int) -> None:
        self._pruned(time, at, other)
        self._send(time, PRUNE, at, other)

    def _favour(self, at: int, other: int) -> None:
        self.eager[at].add(other)
        self.lazy[at].discard(other)
