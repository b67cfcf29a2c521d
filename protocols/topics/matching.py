"""Which filters have which names, in NumPy: what `TopicsRule` says of values, for tasks of Spark.

The first level of every filter is tried with every name, the others only where it agrees. NaN stands behind the last
level of both.

Numbers only, and NumPy: this module goes to the tasks by value, so that the machines of a cluster need not have
brokerlab; what a wildcard is as a number stands here once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.padded import Padded, Wanted
from protocols.content.matching import ByOffers

Array = NDArray[Any]
Columns = dict[str, Array]

_PLUS, _HASH, _DOLLAR = -1, -2, 1 << 30
_NAME_AT, FLAGS_AT, GROUP_AT, _FILTER_AT = 0, 0, 1, 2
NO_LOCAL = 1
ABSENT = -4  # in the place of NaN, for what compares
AT_ONCE = 256  # publications
_CELLS_MAX = 2_000_000  # publications times versions that are tried at once
_VERDICTS = ("allowed", "forced", "excused", "missed", "unwanted")
_COUNTS = ("times", "first_ns", "more")


@dataclass(frozen=True)
class Filters(Padded):
    """See the module. How a matcher is asked is said in `brokers.auditing`."""

    operations: frozenset[int]
    mqtt: bool  # whether the wildcard for the rest stands for nothing too, and the `$` rule holds

    def pairs(self, publications: Array, interests: Array) -> tuple[Array, Array]:
        """Every pair of which the filter has the name, as rows of both."""
        width = max(publications.shape[1] - _NAME_AT, interests.shape[1] - _FILTER_AT)
        if width < 1 or not publications.size or not interests.size:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        names, filters = _levels(publications, _NAME_AT, width), _levels(interests, _FILTER_AT, width)
        names[names < 0] = np.nan  # flags
        name, asked = names[:, :1], filters[None, :, 0]
        begins = self._agrees(name, asked, np.zeros((1, 1), np.bool_))
        if self.mqtt:
            begins &= ~((asked < 0) & (name >= _DOLLAR))
        row, interest = np.nonzero(begins)
        passed = filters[interest, 0] == _HASH  # whether the wildcard for the rest is behind us
        for level in range(1, width):
            name, asked = names[row, level], filters[interest, level]
            agrees = self._agrees(name, asked, passed)
            passed |= asked == _HASH
            row, interest, passed = row[agrees], interest[agrees], passed[agrees]
        return row, interest

    def _agrees(self, name: Array, asked: Array, passed: Array) -> Array:
        """Whether a level of names is as filters ask; NaN where there is none."""
        there = ~np.isnan(name)
        rest = (asked == _HASH) & (there | self.mqtt)
        both_end = np.isnan(asked) & ~there
        found: Array = passed | rest | both_end | (name == asked) | ((asked == _PLUS) & there)
        return found


def _levels(rows: Array, at: int, width: int) -> Array:
    """The levels of rows, all as many."""
    found = np.full((len(rows), width), np.nan)
    found[:, : max(rows.shape[1] - at, 0)] = rows[:, at:]
    return found


@dataclass(frozen=True)
class Advertised(ByOffers, Filters):
    """The same where publishers advertise."""

    offers: frozenset[int]


@dataclass(frozen=True)
class Groups(Filters):
    """The same of a service with groups, no-local or several copies: pair by pair, and group by group, beside who was
    chosen.

    Neither what no-local leaves out is asked for, nor anything by a member of a group by itself. Of a group whose
    filter has the name of a publication at most one member is chosen, one who may be a member then, and gets it; and
    one is chosen if all who may be members are so for certain. Nobody chosen is told of the member with the lowest
    number, one too many of those that are. A client gets a copy for what it asks by itself, or for `each` of its
    subscriptions that ask, and one for each group that it is chosen of.
    """

    each: bool = False
    counts_copies: bool = False  # whether clients may get several; else whoever looks for duplicates finds them

    @property
    def tables(self) -> Mapping[str, Wanted]:
        return {"chosen": Wanted(("publication", "interest", "client"), key="publication")}

    def judged(
        self, stood: Any, more: Mapping[str, Columns], delivered: Columns
    ) -> Iterator[Columns]:
        ids, group = stood.publications.publication, _groups(stood.versions)
        taken, there = (_by_row(each, ids) for each in (more["chosen"], delivered))
        yield _nobodys(there)
        for start in range(0, ids.size, AT_ONCE):
            rows = np.arange(start, min(start + AT_ONCE, ids.size))
            p, v = self._possible(stood, rows)
            in_time = stood.in_time(p, v)
            forced = in_time & stood.unspoilt(p, v)
            chosen = _Choice.of(stood, (p, v), forced, group, _some(taken, rows))
            which = (group[v] < 0) | chosen.right
            decided = stood.by_client(p[which], v[which], in_time[which], forced[which])
            found = _beside(ids, decided, chosen, _some(there, rows))
            if self.counts_copies:
                client, part = stood.versions.client[v], np.where(self.each | chosen.right, v + 1, 0)
                places = places_of(coded(rows_of(ids, found["publication"]), found["client"]), coded(p, client))
                _count(found, places[which], part[which], forced[which])
            self._heed(stood, (p[which], v[which]), forced[which], chosen.right[which], more, rows, found)
            yield found

    def _heed(
        self, stood: Any, pairs: tuple[Array, Array], forced: Array, chosen: Array, more: Mapping[str, Columns],
        rows: Array, found: Columns,
    ) -> None:  # fmt: skip
        """What else is asked of these publications, beside pairs that may count; told in `found`."""

    def _possible(self, stood: Any, rows: Array) -> tuple[Array, Array]:
        """Pairs of these publications and versions that have their names and may count."""
        publications, versions = stood.publications, stood.versions
        begin, end = publications.time_ns[rows].min(), publications.end_ns[rows].max()
        there = np.flatnonzero((versions.issued_ns <= end) & (versions.gone_ns >= begin))
        step = max(1, _CELLS_MAX // rows.size)
        found = [(rows[:0], there[:0])]
        for some in (there[at : at + step] for at in range(0, there.size, step)):
            p, v = self.pairs(publications.values[rows], versions.values[some])
            p, v = rows[p], some[v]
            own = versions.client[v] == publications.publication[p] >> 32
            left_out = own & (flagged(versions.values[v, FLAGS_AT], NO_LOCAL))
            which = ~left_out
            which[which] = stood.possible(p[which], v[which])
            found.append((p[which], v[which]))
        p, v = (np.concatenate(each) for each in zip(*found))
        return p, v


@dataclass(frozen=True)
class _Choice:
    """What was chosen of groups, beside what they may choose of."""

    right: Array  # by pair of a publication and a version: whether it was chosen, and by itself
    nobody: tuple[Array, Array]  # publications, and a client each, of groups of which nobody was chosen
    wrong: tuple[Array, Array]  # who was chosen and is no member, or one too many

    @classmethod
    def of(cls, stood: Any, pairs: tuple[Array, Array], forced: Array, group: Array, taken: Columns) -> _Choice:
        (p, v), versions = pairs, stood.versions
        member = np.flatnonzero(group[v] >= 0)
        of_member = coded(p[member], versions.interest[v[member]])
        of_taken, first = np.unique(coded(taken["row"], taken["interest"]), axis=0, return_index=True)
        place = places_of(of_member, of_taken)
        mine = member[place[place >= 0]]
        choice, count = np.unique(coded(p[mine], group[v[mine]]), axis=0, return_counts=True)
        right = np.zeros(p.size, np.bool_)
        right[mine] = True
        stranger = first[place < 0]
        several = places_of(choice[count > 1], coded(p[mine], group[v[mine]])) >= 0
        wrong = (
            np.r_[taken["row"][stranger], p[mine[several]]],
            np.r_[taken["client"][stranger], versions.client[v[mine[several]]]],
        )
        every, begin, inverse = np.unique(
            coded(p[member], group[v[member]]), axis=0, return_index=True, return_inverse=True
        )
        settled = np.ones(len(every), np.bool_)
        np.logical_and.at(settled, inverse.reshape(-1), forced[member])
        missed = member[begin[settled & (places_of(choice, every) < 0)]]
        return cls(right, (p[missed], versions.client[v[missed]]), wrong)


def flagged(flags: Array, flag: int) -> Array:
    """Whether flags, which are numbers, have one among them."""
    found: Array = np.nan_to_num(flags).astype(np.int64) & flag != 0
    return found


def _count(found: Columns, places: Array, part: Array, forced: Array) -> None:
    """How many copies are owed and allowed: one for each part of what was asked, of which the pairs are given."""
    size = found["publication"].size
    least, most = (
        np.bincount(np.unique(coded(places[some], part[some]), axis=0)[:, 0], minlength=size)
        for some in (forced, np.ones(forced.size, np.bool_))
    )
    came = found["times"]
    found["missed"] |= found["forced"] & (came < least)
    found["more"] = np.where(most > 0, np.maximum(came - most, 0), 0)


def rows_of(ids: Array, publications: Array) -> Array:
    """The rows of publications, all of which there are."""
    by_id = np.argsort(ids, kind="stable")
    found: Array = by_id[np.searchsorted(ids, publications, sorter=by_id)]
    return found


def _groups(versions: Any) -> Array:
    """The group of every version by a number, -1 where it is in none."""
    values = versions.values
    if not values.size:
        return np.full(len(values), -1, np.int64)
    _, number = np.unique(np.nan_to_num(values[:, GROUP_AT:], nan=ABSENT), axis=0, return_inverse=True)
    return np.where(values[:, GROUP_AT] == 0, -1, number.reshape(-1))


def coded(one: Array, other: Array) -> Array:
    """Pairs of numbers, one behind the other."""
    return np.stack([one, other], axis=1).astype(np.int64).reshape(-1, 2)


def places_of(known: Array, wanted: Array) -> Array:
    """Where each of the wanted pairs stands among the known ones, -1 where it does not."""
    if not len(known) or not len(wanted):
        return np.full(len(wanted), -1, np.int64)
    _, number = np.unique(np.concatenate((known, wanted)), axis=0, return_inverse=True)
    number = number.reshape(-1)
    place = np.full(number.max() + 1, -1, np.int64)
    place[number[: len(known)]] = np.arange(len(known))
    return place[number[len(known) :]]


def _by_row(rows: Columns, ids: Array) -> Columns:
    """The rows of a table with that of their publication, in its order; -1 where it is none of these."""
    by_id = np.argsort(ids, kind="stable")
    at = np.minimum(np.searchsorted(ids, rows["publication"], sorter=by_id), max(ids.size - 1, 0))
    row = by_id[at] if ids.size else np.full(rows["publication"].size, -1, np.int64)
    known = ids[row] == rows["publication"] if ids.size else np.zeros(row.size, np.bool_)
    row = np.where(known, row, -1)
    order = np.argsort(row, kind="stable")
    return {"row": row[order], **{name: column[order] for name, column in rows.items()}}


def _some(rows: Columns, wanted: Array) -> Columns:
    """Of these publications, which follow one another."""
    first, last = np.searchsorted(rows["row"], (wanted[0], wanted[-1] + 1))
    return {name: column[first:last] for name, column in rows.items()}


def _nobodys(there: Columns) -> Columns:
    """What was delivered that nobody published."""
    count = int(np.searchsorted(there["row"], 0))
    rows = {name: there[name][:count] for name in ("publication", "client", "times", "first_ns")}
    return nothing_said(count) | rows | {"unwanted": np.ones(count, np.bool_)}


def nothing_said(count: int) -> Columns:
    """So many rows in which nothing is said yet."""
    found: Columns = {name: np.zeros(count, np.int64) for name in ("publication", "client", *_COUNTS)}
    return found | {name: np.zeros(count, np.bool_) for name in _VERDICTS}


def _beside(ids: Array, decided: Columns, chosen: _Choice, there: Columns) -> Columns:
    """Decisions beside deliveries: a row for every pair of a publication and a client that is in either."""
    sets = [
        (decided["publication"], decided["client"]), (there["row"], there["client"]), chosen.nobody, chosen.wrong,
    ]  # fmt: skip
    every, at = np.unique(np.concatenate([coded(*each) for each in sets]), axis=0, return_inverse=True)
    decision, came, nobody, wrong = np.split(at.reshape(-1), np.cumsum([each[0].size for each in sets])[:-1])
    found = nothing_said(len(every)) | {"publication": ids[every[:, 0]], "client": every[:, 1]}
    for name in ("times", "first_ns"):
        found[name][came] = there[name]
    found["allowed"][decision] = True
    for name in ("forced", "excused"):
        found[name][decision] = decided[name]
    since = np.zeros(len(every), np.int64)
    since[decision] = decided["since_ns"]
    delivered = found["times"] > 0
    found["missed"] = found["forced"] & ~delivered
    found["unwanted"] = delivered & (~found["allowed"] | (since > found["first_ns"]))
    found["unwanted"][wrong] = True
    for name in ("allowed", "forced", "missed"):
        found[name][nobody] = True
    return found
