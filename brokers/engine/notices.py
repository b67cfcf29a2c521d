"""What brokers are told of faults, as events in their order: of links that go down and up, and that they are up again.

A broker hears of a link some time after it went down, if it is down still, and some time after it is up again, if it
is up still. A link is down for both ends while it is cut in either direction, and while the broker behind it is down.
Nobody hears anything while down: what has changed until then, a broker hears once it is up.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.contract import NEVER, Ints, LinkTable
from brokers.engine import layout as L
from brokers.engine.outages import Stretches
from brokers.faults import LINK_DOWN, LINK_UP, RESTART

_TIME, _BROKER, _TYPE, _LINK = range(4)
_Spans = list[tuple[int, int]]


class Notices:
    """What the brokers of a shard are told, in order of time."""

    def __init__(
        self, downs: Stretches, cuts: Stretches, detect_ns: int, links: LinkTable, local: NDArray[np.bool_],
        services: list[int],
    ) -> None:
        """`services`: those that hear of faults."""
        told = _told(downs, cuts, detect_ns, links, local) if services else []
        told.sort(key=lambda each: (each[_TIME], each[_BROKER]))
        self._told = np.array(told, np.int64).reshape(-1, 4)
        self._number = np.zeros(len(told), np.int64)  # of each among those of its broker
        counted: dict[int, int] = {}
        for row, broker in enumerate(self._told[:, _BROKER].tolist()):
            self._number[row] = counted[broker] = counted.get(broker, -1) + 1
        self._services = np.array(services, np.int64)
        self._at = 0

    @property
    def first(self) -> int:
        """When the next is told."""
        return int(self._told[self._at, _TIME]) if self._at < len(self._told) else NEVER

    def skip(self, until: int) -> None:
        """Those before are told already."""
        self._at = int(np.searchsorted(self._told[:, _TIME], until))

    def take_before(self, end: int) -> tuple[Ints, Ints]:
        """Those before a time, which are told now: the broker of each, and the columns of input rows."""
        first = self._at
        self.skip(end)
        told, services = self._told[first : self._at], self._services.size
        every: Any = np.repeat(np.arange(len(told)), services)
        service = np.tile(self._services, len(told))
        columns = np.empty((L.INPUT, every.size), np.int64)
        columns[L.M_TIME], columns[L.M_WORD] = told[every, _TIME], told[every, _LINK]
        columns[L.M_SEQUENCE] = self._number[first : self._at][every] * services + np.arange(every.size) % services
        columns[L.M_PACKED] = (np.int64(-1) << 24) | (told[every, _TYPE] << 8) | service
        columns[L.M_CAUSE], columns[L.I_SOURCE] = -1, L.FAULT_SOURCE
        return told[every, _BROKER], columns


def _told(
    downs: Stretches, cuts: Stretches, detect_ns: int, links: LinkTable, local: NDArray[np.bool_]
) -> list[tuple[int, int, int, int]]:
    """(time, broker, type, link) of everything that local brokers are told; of one time in this order."""
    told = [(end, b, RESTART, -1) for b in np.flatnonzero(local).tolist() for _, end in _spans(downs, b) if end < NEVER]
    if detect_ns >= NEVER:
        return told
    for link in _touched(downs, cuts, links):
        broker = int(links.source[link])
        if local[broker]:
            broken = [*_spans(cuts, link), *_spans(cuts, link ^ 1), *_spans(downs, int(links.target[link]))]
            told += [
                (time, broker, type_, link)
                for time, type_ in _heard(_noticed(broken, detect_ns), _spans(downs, broker))
            ]
    return told


def _touched(downs: Stretches, cuts: Stretches, links: LinkTable) -> list[int]:
    """The links of which anything is ever told, by number."""
    cut = np.flatnonzero(np.diff(cuts.first))
    reach = np.flatnonzero(np.diff(downs.first)[links.target])
    return np.unique(np.concatenate([cut, cut ^ 1, reach])).tolist()


def _spans(stretches: Stretches, target: int) -> _Spans:
    first, last = stretches.first[target], stretches.first[target + 1]
    return list(zip(*stretches.table[: L.Z_END + 1, first:last].tolist()))


def _noticed(broken: _Spans, detect_ns: int) -> _Spans:
    """From when until when a link counts as down that is broken then: later by the time it takes to notice."""
    joined: list[list[int]] = []
    for begin, end in sorted(broken):
        if joined and begin <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([begin, end])
    found: list[list[int]] = []
    for begin, end in joined:
        if found and begin <= found[-1][1] + detect_ns:
            found[-1][1] = end  # nobody noticed that it was up in between
        elif end > begin + detect_ns:
            found.append([begin, end])
    return [(begin + detect_ns, min(end + detect_ns, NEVER)) for begin, end in found]


def _heard(counted: _Spans, deaf: _Spans) -> list[tuple[int, int]]:
    """(time, type) of what is told of a link that counts as down so, to a broker that hears nothing in between."""
    changes = [(time, type_) for begin, end in counted for time, type_ in ((begin, LINK_DOWN), (end, LINK_UP))]
    told: list[tuple[int, int]] = []
    known = LINK_UP
    for time, type_ in changes:
        later = next((end for begin, end in deaf if begin <= time < end), time)
        if later >= NEVER:
            break
        if told and told[-1][0] == later and later != time:  # it heard neither of the two
            told.pop()
            known = told[-1][1] if told else LINK_UP
        if type_ != known:
            told.append((later, type_))
            known = type_
    return told
