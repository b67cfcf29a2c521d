"""What an audit says of every pair of publication and client, where each version is judged by its values alone.

    publications × versions ─► matcher ─► pairs that may count ─► by client: forced, free ─► beside what was delivered

The conditions are those of `standing.Standing`, which says them in Spark's words; here, in NumPy, they are asked of
pairs that the matcher of the kind (`brokers.auditing.Matcher`) found. Publications are taken some at a time, in the
order in which they were sent, beside the versions that can have been there then. A kind whose decisions need more than
that makes them itself (`brokers.auditing.Judge`), and asks `Stood`.

Numbers only, and NumPy: this module goes to the tasks by value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.padded import changed, elements

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
        place, at = elements(self.starts, rows)
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
    forgotten: Array  # while it was under way a broker may have known nothing
    mended: Array  # what changes lost has been mended before
    values: Array  # as the matcher wants them
    unheard: Lists  # low, high, inside


@dataclass(frozen=True)
class Versions:
    """One row each."""

    change: Array
    interest: Array
    operation: Array
    broker: Array
    client: Array
    home: Array
    issued_ns: Array
    settled_ns: Array
    revoked_ns: Array
    gone_ns: Array
    values: Array
    unsettled: Lists  # begin, end
    unheard: Lists


@dataclass(frozen=True)
class Stood:
    """How versions stood towards publications: conditions on pairs, given as rows of both."""

    publications: Publications
    versions: Versions
    run: Any  # what is known of it: `comparing.Comparing`
    judged: Any  # and of its service: `comparing.Judged`

    def possible(self, p: Array, v: Array) -> Array:
        """Whether the version may count at all."""
        publications, versions = self.publications, self.versions
        gone = (versions.gone_ns[v] < publications.time_ns[p]) & ~publications.forgotten[p]
        return (versions.issued_ns[v] <= publications.end_ns[p]) & ~gone

    def ended_in_time(self, p: Array, v: Array) -> Array:
        """Whether it had settled before, and was not ended until the last decision."""
        publications, versions = self.publications, self.versions
        sent, end = publications.time_ns[p], publications.end_ns[p]
        return (versions.settled_ns[v] < sent) & (versions.revoked_ns[v] > end) & ~publications.cut[p]

    def in_time(self, p: Array, v: Array) -> Array:
        """The same, and nothing that it leans on was being withdrawn."""
        found = self.ended_in_time(p, v)
        if not self.versions.unsettled.empty:
            sent = self.publications.time_ns[p]
            place, windows = self.versions.unsettled.elements(v)
            found[place[(windows["begin"] <= sent[place]) & (windows["end"] >= sent[place])]] = False
        return found

    def unspoilt(self, p: Array, v: Array) -> Array:
        """Whether no lost message of either excuses that the two did not meet."""
        publications, versions = self.publications, self.versions
        found = ~self.is_behind(versions.home[v], publications.unheard, p) & ~publications.forgotten[p]
        return found & ~(self.is_behind(publications.place[p], versions.unheard, v) & ~publications.mended[p])

    @staticmethod
    def is_behind(asked: Array, unheard: Lists, rows: Array) -> Array:
        """Whether places of brokers lie behind one of the links in the lists of these rows."""
        found = np.zeros(rows.size, np.bool_)
        if not unheard.empty:
            place, behind = unheard.elements(rows)
            at = asked[place]
            found[place[((at >= behind["low"]) & (at < behind["high"])) == behind["inside"]]] = True
        return found

    def heard(self) -> Array:
        """Of which versions no link lost anything."""
        return np.diff(self.versions.unheard.starts) == 0

    def by_client(self, p: Array, v: Array, in_time: Array, forced: Array) -> Columns:
        """publication (its row), client, forced, excused, since_ns, of pairs that are allowed."""
        order = np.lexsort((self.versions.client[v], p))
        p, client, issued = p[order], self.versions.client[v[order]], self.versions.issued_ns[v[order]]
        begin = np.flatnonzero(changed(p, client))
        in_time, forced = (np.logical_or.reduceat(each[order], begin) for each in (in_time, forced))
        return {
            "publication": p[begin], "client": client[begin], "forced": forced, "excused": in_time & ~forced,
            "since_ns": np.minimum.reduceat(issued, begin),
        }  # fmt: skip


def decisions(matcher: Any, stood: Stood) -> Iterator[Columns]:
    """As `Stood.by_client` has them: pairs that are allowed, some publications at a time."""
    count = stood.publications.publication.size
    for start in range(0, count, AT_ONCE):
        rows = np.arange(start, min(start + AT_ONCE, count))
        found = [_met(matcher, stood, rows, some) for some in _there(stood, rows)]
        if found:
            p, v = (np.concatenate(each) for each in zip(*found))
            in_time = stood.in_time(p, v)
            forced = in_time.copy()
            forced[in_time] = stood.unspoilt(p[in_time], v[in_time])
            yield stood.by_client(p, v, in_time, forced)


def _there(stood: Stood, rows: Array) -> Iterator[Array]:
    """The versions that can have been there, some at a time."""
    publications, versions = stood.publications, stood.versions
    begin, end = publications.time_ns[rows].min(), publications.end_ns[rows].max()
    there = versions.issued_ns <= end
    if not publications.forgotten[rows].any():
        there &= versions.gone_ns >= begin
    there = np.flatnonzero(there)
    step = max(1, CELLS_MAX // rows.size)
    for start in range(0, there.size, step):
        yield there[start : start + step]


def _met(matcher: Any, stood: Stood, rows: Array, some: Array) -> tuple[Array, Array]:
    """Pairs whose values meet, of which the version may count."""
    p, v = matcher.pairs(stood.publications.values[rows], stood.versions.values[some])
    p, v = rows[p], some[v]
    possible = stood.possible(p, v)
    return p[possible], v[possible]


def delivered(publication: Array, client: Array, time_ns: Array) -> Columns:
    """By publication and client how often and when first it was delivered, in that order."""
    order = np.lexsort((time_ns, client, publication))
    publication, client, time_ns = publication[order], client[order], time_ns[order]
    new = changed(publication, client)
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
    new = changed(publication, client)
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
