"""What brokers are told of faults, as events in their order: of links that go down and up, and that they are up again.

A broker hears of a link some time after it went down, if it is down still, and some time after it is up again, if it
is up still. A link is down for both ends while it is cut in either direction, and while the broker behind it is down.
Nobody hears anything while down: what has changed until then, a broker hears once it is up. One that does not know then
what it knew hears of every link that is down.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from brokers.arising import ToldDown
from brokers.contract import NEVER, Ints, LinkTable
from brokers.engine import layout as L
from brokers.engine.outages import Outages, Stretches
from brokers.faults import CLOSED, KEPT, LINK_DOWN, LINK_UP, OPENED, RESTART, Schedule, noticed

_TIME, _BROKER, _TYPE, _WORD, _SERVICE = range(5)  # the word: which link, or what is left of what a broker knew
_Spans = list[tuple[int, int]]


class Notices:
    """What the brokers of a shard are told, in order of time."""

    def __init__(
        self, outages: Outages, schedule: Schedule, links: LinkTable, local: NDArray[np.bool_], hearing: list[int],
        opening: Sequence[bool], latent: NDArray[np.bool_] | None,
    ) -> None:
        """`hearing`: those of the services that hear of faults; the others, of what their brokers lost.

        Of links that are `latent` hear those of the services that are `opening` some.
        """
        detect_ns = schedule.detect_ns
        told = _restarts(outages, local)
        if hearing and detect_ns < NEVER:
            told += _of_links(outages, detect_ns, links, local)
        told += _of_openings(schedule, links, local)
        told.sort(key=lambda each: (each[_TIME], each[_BROKER]))
        every, opens = range(len(opening)), [number for number, one in enumerate(opening) if one]

        def who(each: tuple[int, int, int, int]) -> Sequence[int]:
            if _forgot(each):
                return every
            if each[_TYPE] == RESTART or latent is None or not latent[each[_WORD] >> 1]:
                return hearing
            return opens if each[_TYPE] in (OPENED, CLOSED) else [one for one in hearing if opening[one]]

        rows = [(*each, service) for each in told for service in who(each)]
        self._told = np.array(rows, np.int64).reshape(-1, 5)
        self._number = np.zeros(len(rows), np.int64)  # of each among those of its broker
        counted: dict[int, int] = {}
        for row, broker in enumerate(self._told[:, _BROKER].tolist()):
            self._number[row] = counted[broker] = counted.get(broker, -1) + 1
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
        told = self._told[first : self._at]
        columns = np.empty((L.INPUT, len(told)), np.int64)
        columns[L.M_TIME], columns[L.M_WORD] = told[:, _TIME], told[:, _WORD]
        columns[L.M_SEQUENCE] = self._number[first : self._at]
        columns[L.M_PACKED] = (np.int64(-1) << 24) | (told[:, _TYPE] << 8) | told[:, _SERVICE]
        columns[L.M_CAUSE], columns[L.I_SOURCE] = -1, L.FAULT_SOURCE
        return told[:, _BROKER], columns


def of_peers(outages: Outages, detect_ns: int) -> ToldDown | None:
    """When a broker counts as down for who has a described link to it, by number; None where nobody is told.

    No links are listed of which brokers could be told beforehand: who opens one looks here.
    """
    if not outages.any or detect_ns >= NEVER:
        return None

    @cache
    def told(broker: int) -> list[tuple[int, int]]:
        return noticed(_spans(outages.downs, broker), detect_ns)

    return ToldDown(told, detect_ns)


def _forgot(told: tuple[int, int, int, int]) -> bool:
    """Whether a broker is told that it does not know what it knew."""
    return told[_TYPE] == RESTART and told[_WORD] != KEPT


def _restarts(outages: Outages, local: NDArray[np.bool_]) -> list[tuple[int, int, int, int]]:
    """(time, broker, type, what is left) of local brokers that come up again."""
    found = []
    for b in np.flatnonzero(local).tolist():
        left = {end: state for _, end, state in _rows(outages.forgets, b)}
        found += [(end, b, RESTART, left.get(end, KEPT)) for _, end in _spans(outages.downs, b) if end < NEVER]
    return found


def _of_openings(
    schedule: Schedule, links: LinkTable, local: NDArray[np.bool_]
) -> list[tuple[int, int, int, int]]:
    """(time, broker, type, link) of what local brokers are told of latent links that the schedule opens."""
    ends = [(each, link) for each in schedule.opens for link in (2 * each.link, 2 * each.link + 1)]
    mine = [(each, link, int(links.source[link])) for each, link in ends if local[links.source[link]]]
    found = [(each.begin, broker, OPENED, link) for each, link, broker in mine]
    return found + [(each.end, broker, CLOSED, link) for each, link, broker in mine if each.end < NEVER]


def _of_links(
    outages: Outages, detect_ns: int, links: LinkTable, local: NDArray[np.bool_]
) -> list[tuple[int, int, int, int]]:
    """(time, broker, type, link) of what local brokers are told of their links."""
    downs, cuts, forgets = outages.downs, outages.cuts, outages.forgets
    told = []
    for link in _touched(downs, cuts, links):
        broker = int(links.source[link])
        if local[broker]:
            broken = [*_spans(cuts, link), *_spans(cuts, link ^ 1), *_spans(downs, int(links.target[link]))]
            deaf, anew = _spans(downs, broker), {end for _, end, _ in _rows(forgets, broker)}
            told += [
                (time, broker, type_, link) for time, type_ in _heard(noticed(broken, detect_ns), deaf, anew)
            ]
    return told


def _touched(downs: Stretches, cuts: Stretches, links: LinkTable) -> list[int]:
    """The links of which anything is ever told, by number."""
    cut = np.flatnonzero(np.diff(cuts.first))
    reach = np.flatnonzero(np.diff(downs.first)[links.target])
    return np.unique(np.concatenate([cut, cut ^ 1, reach])).tolist()


def _spans(stretches: Stretches, target: int) -> _Spans:
    return [(begin, end) for begin, end, *_ in _rows(stretches, target)]


def _rows(stretches: Stretches, target: int) -> list[list[int]]:
    """The stretches of a target, a list of what is said of each."""
    rows: list[list[int]] = stretches.table[:, stretches.first[target] : stretches.first[target + 1]].T.tolist()
    return rows


def _heard(counted: _Spans, deaf: _Spans, anew: set[int]) -> list[tuple[int, int]]:
    """(time, type) of what is told of a link that counts as down so, to a broker that is `deaf` at times.

    When it begins `anew` it hears again that the link is down, if it is.
    """
    changes = [(time, type_) for begin, end in counted for time, type_ in ((begin, LINK_DOWN), (end, LINK_UP))]
    again = {time for time in anew if any(begin < time < end for begin, end in counted)}
    told: list[tuple[int, int]] = []
    known = LINK_UP
    for time, type_ in sorted([*changes, *((time, LINK_DOWN) for time in again)]):
        if time in again and known == LINK_DOWN and (time, LINK_DOWN) not in told:
            told.append((time, LINK_DOWN))
            continue
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
