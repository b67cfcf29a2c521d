"""What an audit says of every pair of publication and client, where each version is judged by its values alone.

    publications × versions ─► matcher ─► pairs that may count ─► by client: forced, free ─► beside what was delivered

The conditions are those of `standing.Standing`, which says them in Spark's words; here, in NumPy, they are asked of
pairs that the matcher of the kind (`brokers.auditing.Matcher`) found. Publications are taken some at a time, in the
order in which they were sent, beside the versions that can have been there then.

Numbers only, and NumPy: this module goes to the tasks by value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Columns = dict[str, Array]

AT_ONCE = 256  # publications
CELLS_MAX = 2_000_000  # publications times versions that are tried at once


@dataclass(frozen=True)
class Lists:
    """A list for every row, its elements one behind the other."""

    starts: Array
    of: Columns

    def elements(self, rows: Array) -> tuple[Array, Columns]:
        """Of these rows all elements, and each one's place among the rows."""
        first, sizes = self.starts[rows], self.starts[rows + 1] - self.starts[rows]
        place = np.repeat(np.arange(rows.size), sizes)
        at = np.arange(place.size) + np.repeat(first - (np.cumsum(sizes) - sizes), sizes)
        return place, {name: column[at] for name, column in self.of.items()}

    @property
    def empty(self) -> bool:
        return self.starts[-1] == self.starts[0]


@dataclass(frozen=True)
class Publications:
    """One row each, in the order in which they were sent."""

    publication: Array
    time_ns: Array
    end_ns: Array
    place: Array
    cut: Array
    values: Array  # as the matcher wants them
    unheard: Lists  # low, high, inside


@dataclass(frozen=True)
class Versions:
    """One row each."""

    client: Array
    home: Array
    issued_ns: Array
    settled_ns: Array
    revoked_ns: Array
    gone_ns: Array
    values: Array
    unsettled: Lists  # begin, end
    unheard: Lists


def decisions(matcher: Any, publications: Publications, versions: Versions) -> Iterator[Columns]:
    """publication (its row), client, forced, excused, since_ns: pairs that are allowed, some publications at a time."""
    for start in range(0, publications.publication.size, AT_ONCE):
        rows = np.arange(start, min(start + AT_ONCE, publications.publication.size))
        found = [_met(matcher, publications, versions, rows, some) for some in _there(publications, versions, rows)]
        if found:
            p, v = (np.concatenate(each) for each in zip(*found))
            yield _by_client(publications, versions, p, v)


def _there(publications: Publications, versions: Versions, rows: Array) -> Iterator[Array]:
    """The versions that can have been there, some at a time."""
    begin, end = publications.time_ns[rows].min(), publications.end_ns[rows].max()
    there = np.flatnonzero((versions.issued_ns <= end) & (versions.gone_ns >= begin))
    step = max(1, CELLS_MAX // rows.size)
    for start in range(0, there.size, step):
        yield there[start : start + step]


def _met(
    matcher: Any, publications: Publications, versions: Versions, rows: Array, some: Array
) -> tuple[Array, Array]:
    """Pairs whose values meet, of which the version may count."""
    p, v = matcher.pairs(publications.values[rows], versions.values[some])
    p, v = rows[p], some[v]
    possible = (versions.issued_ns[v] <= publications.end_ns[p]) & (versions.gone_ns[v] >= publications.time_ns[p])
    return p[possible], v[possible]


def _by_client(publications: Publications, versions: Versions, p: Array, v: Array) -> Columns:
    in_time = _in_time(publications, versions, p, v)
    forced = in_time.copy()
    forced[in_time] = _unspoilt(publications, versions, p[in_time], v[in_time])
    order = np.lexsort((versions.client[v], p))
    p, client, issued = p[order], versions.client[v[order]], versions.issued_ns[v[order]]
    new = np.ones(p.size, np.bool_)
    new[1:] = (p[1:] != p[:-1]) | (client[1:] != client[:-1])
    begin = np.flatnonzero(new)
    in_time, forced = (np.logical_or.reduceat(each[order], begin) for each in (in_time, forced))
    return {
        "publication": p[begin], "client": client[begin], "forced": forced, "excused": in_time & ~forced,
        "since_ns": np.minimum.reduceat(issued, begin),
    }  # fmt: skip


def _in_time(publications: Publications, versions: Versions, p: Array, v: Array) -> Array:
    """Whether the version had settled before, and was not ended until the last decision."""
    sent = publications.time_ns[p]
    found = (versions.settled_ns[v] < sent) & (versions.revoked_ns[v] > publications.end_ns[p]) & ~publications.cut[p]
    if not versions.unsettled.empty:
        place, windows = versions.unsettled.elements(v)
        found[place[(windows["begin"] <= sent[place]) & (windows["end"] >= sent[place])]] = False
    return found


def _unspoilt(publications: Publications, versions: Versions, p: Array, v: Array) -> Array:
    """Whether no lost message of either excuses that the two did not meet."""
    found = np.ones(p.size, np.bool_)
    both = ((versions.unheard, v, publications.place[p]), (publications.unheard, p, versions.home[v]))
    for lost, rows, asked in both:
        if not lost.empty:
            place, behind = lost.elements(rows)
            at = asked[place]
            found[place[((at >= behind["low"]) & (at < behind["high"])) == behind["inside"]]] = False
    return found


def delivered(publication: Array, client: Array, time_ns: Array) -> Columns:
    """By publication and client how often and when first it was delivered, in that order."""
    order = np.lexsort((time_ns, client, publication))
    publication, client, time_ns = publication[order], client[order], time_ns[order]
    new = np.ones(order.size, np.bool_)
    new[1:] = (publication[1:] != publication[:-1]) | (client[1:] != client[:-1])
    begin = np.flatnonzero(new)
    return {
        "publication": publication[begin], "client": client[begin], "first_ns": time_ns[begin],
        "times": np.diff(np.r_[begin, order.size]),
    }  # fmt: skip


def beside(decided: Columns, there: Columns) -> Columns:
    """Decisions beside deliveries, both by publication and client: a row for every pair that is in either.

    times is 0 where nothing was delivered; allowed says whether there was a decision.
    """
    both = [np.concatenate((decided[name], there[name])) for name in ("publication", "client")]
    order = np.lexsort((both[1], both[0]))
    publication, client = (each[order] for each in both)
    new = np.ones(order.size, np.bool_)
    new[1:] = (publication[1:] != publication[:-1]) | (client[1:] != client[:-1])
    at = np.empty(order.size, np.int64)
    at[order] = np.cumsum(new) - 1
    count = int(new.sum())
    mine, theirs = at[: decided["client"].size], at[decided["client"].size :]
    found: Columns = {"publication": publication[new], "client": client[new]}
    found |= {name: np.zeros(count, np.bool_) for name in ("allowed", "forced", "excused")}
    found |= {name: np.zeros(count, np.int64) for name in ("times", "first_ns", "since_ns")}
    for name in ("times", "first_ns"):
        found[name][theirs] = there[name]
    # A publication whose id is there twice decides twice.
    np.logical_or.at(found["allowed"], mine, True)
    found["since_ns"][mine] = decided["since_ns"]
    np.minimum.at(found["since_ns"], mine, decided["since_ns"])
    for name in ("forced", "excused"):
        np.logical_or.at(found[name], mine, decided[name])
    came = found["times"] > 0
    found["missed"] = found["forced"] & ~came
    found["unwanted"] = came & (~found["allowed"] | (found["since_ns"] > found["first_ns"]))
    return found
