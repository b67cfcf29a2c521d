"""What publications cost: over which links each went, how often, and whether anybody behind them might have got it.

A publication goes over a directed link once at most, even if it is flooded; of a protocol that is `frugal`, on a tree,
only where somebody behind the link may get it. What links doubled, or brokers forgot that they had seen, is excused.

Numbers only, and NumPy: this module goes to the tasks by value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.padded import changed

Array = NDArray[Any]
Columns = dict[str, Array]

MESSAGE = 1  # `kind` in the table of hops
AT_ONCE = 256  # publications
LATE_NS = 9_000_000_000  # after the last that clients or faults did


def carrying(rows: Columns, service: int, types: tuple[int, ...], timed: bool) -> Columns:
    """The hops that brought a publication of a service over a link; with their times where those matter."""
    mine = np.logical_or.reduce([rows["type"] == type_ for type_ in types])
    mine &= (rows["service"] == service) & (rows["kind"] == MESSAGE) & (rows["link"] >= 0) & (rows["body"] >= 0)
    columns = {"publication": "body", "link": "link", **({"time_ns": "time_ns"} if timed else {})}
    return {name: rows[column][mine] for name, column in columns.items()}


def ended(rows: Columns, acted_ns: Mapping[int, int]) -> Columns:
    """Of each service when its last message or timer was handled, and how many were long after anybody did anything."""
    services = np.unique(rows["service"][rows["kind"] >= MESSAGE])
    last, late = np.zeros(services.size, np.int64), np.zeros(services.size, np.int64)
    for i, service in enumerate(services.tolist()):
        time = rows["time_ns"][(rows["service"] == service) & (rows["kind"] >= MESSAGE)]
        last[i], late[i] = time.max(), (time > acted_ns.get(service, 0) + LATE_NS).sum()
    return {"service": services.astype(np.int64), "last_ns": last, "late": late}


def by_link(rows: Columns) -> Columns:
    """Each publication and link once, in their order, with how often it went there more than once."""
    publication, link = _in_order(rows["publication"], rows["link"].astype(np.int64))
    begin = np.flatnonzero(changed(publication, link))
    more = np.diff(np.r_[begin, publication.size]) - 1
    return {"publication": publication[begin], "link": link[begin], "more": more}


def _in_order(publication: Array, link: Array) -> tuple[Array, Array]:
    """Both, by publication and link. As one number, where that has room, they are sorted many times as fast."""
    least, bits = int(publication.min(initial=0)), int(link.max(initial=0)).bit_length()
    if bits + int(publication.max(initial=0) - least).bit_length() > 62:
        order = np.lexsort((link, publication))
        return publication[order], link[order]
    both = np.sort((publication - least) << bits | link)
    return (both >> bits) + least, both & (1 << bits) - 1


def forgotten(rows: Columns, again_ns: int, forgot_ns: int) -> Array:
    """The publications that were under way when brokers forgot what they had seen, or before that was mended."""
    publication, at = np.unique(rows["publication"], return_inverse=True)
    first, last = np.full(publication.size, 1 << 62), np.full(publication.size, -1)
    np.minimum.at(first, at, rows["time_ns"])
    np.maximum.at(last, at, rows["time_ns"])
    return publication[(last >= forgot_ns) & (first < again_ns)]


class Wasting:
    """Which publications went over links behind which nobody may get them, told some decisions at a time."""

    def __init__(self, crossed: Columns, client: Array, home: Array, behind: Columns) -> None:
        self._publication, self._link = crossed["publication"], crossed["link"]
        self._client, first = np.unique(client, return_index=True)
        self._home, self._behind = home[first], behind
        self._places = int(max(behind["high"].max(initial=0), home.max(initial=-1) + 1))
        self._decided = np.zeros(self._link.size, np.bool_)
        self.wasted = np.zeros(self._link.size, np.bool_)

    def heed(self, publication: Array, client: Array) -> None:
        """All who may get some publications, by publication."""
        begin = np.flatnonzero(changed(publication))
        starts = np.r_[begin, publication.size]
        for first in range(0, begin.size, AT_ONCE):
            last = min(first + AT_ONCE, begin.size)
            some = slice(starts[first], starts[last])
            row = np.repeat(np.arange(last - first), np.diff(starts[first : last + 1]))
            self._decide(publication[begin[first:last]], row, self._home[np.searchsorted(self._client, client[some])])

    def _decide(self, ids: Array, row: Array, place: Array) -> None:
        """Of these publications, who is at which place."""
        there = np.zeros((ids.size, self._places + 1), np.int32)
        there[row, place + 1] = 1
        before = there.cumsum(axis=1, dtype=np.int32)  # how many are at lower places
        first, last = (np.searchsorted(self._publication, ids, side=side) for side in ("left", "right"))
        at = np.concatenate([np.arange(a, b) for a, b in zip(first.tolist(), last.tolist())])
        of, link = np.repeat(np.arange(ids.size), last - first), self._link[at]
        within = before[of, self._behind["high"][link]] - before[of, self._behind["low"][link]]
        beyond = before[of, -1] - within
        self.wasted[at] = np.where(self._behind["inside"][link], within, beyond) == 0
        self._decided[at] = True

    def told(self, judged: Array) -> Columns:
        """Publication and link of what was wasted; whom nobody decided about, nobody may get, if they are judged."""
        nobody = ~self._decided & np.isin(self._publication, judged)
        wasted = self.wasted | nobody
        return {"publication": self._publication[wasted], "link": self._link[wasted]}


def first_few(what: str, rows: Mapping[str, Array], most: int) -> Iterator[tuple[str, Columns]]:
    """The first, by publication and link."""
    if rows["publication"].size:
        order = np.lexsort((rows["link"], rows["publication"]))[:most]
        yield what, {name: rows[name][order] for name in ("publication", "link")}
