"""What is retained, in NumPy: what `TopicsRule` says of it, for tasks of Spark.

Of the retained publications of a name the last is the one sent last, at one time that with the greatest id. A
subscription gets one of those that may have been the last when it was issued: the last of those that all brokers had
handled before, or a later one that had been sent. It gets nothing where none of them has to be there, or one of them is
empty, or left out by no-local. What it got is told in the table `retained`, and is a delivery that stands for none.

Numbers only, and NumPy: this module goes to the tasks by value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from brokers.padded import Wanted, changed
from protocols.topics.matching import (
    ABSENT,
    AT_ONCE,
    FLAGS_AT,
    GROUP_AT,
    NO_LOCAL,
    Array,
    Columns,
    Groups,
    coded,
    flagged,
    nothing_said,
    places_of,
    rows_of,
)

_AS_PUBLISHED, _IF_NEW, _NEVER_KEPT = 2, 4, 8
_RETAIN, _EMPTY = 1, 2
_CUT_OFF, _CRASHED, _AWAY = 1, 2, 5  # reasons of losses
_NO, _OPEN, _YES = -1, 0, 1


@dataclass(frozen=True)
class Retained(Groups):
    """See the module. All of a service goes to one task: an answer depends on all publications of a name."""

    together = True

    @property
    def tables(self) -> Mapping[str, Wanted]:
        return {
            "chosen": Wanted(("publication", "interest", "client")),
            "retained": Wanted(("publication", "interest", "client", "live", "time_ns")),
            "losses": Wanted(("body", "link", "reason", "client"), always=True),
        }

    def judged(self, stood: Any, more: Mapping[str, Columns], delivered: Columns) -> Iterator[Columns]:
        loose = delivered["publication"] < 0
        yield from super().judged(stood, more, {name: column[~loose] for name, column in delivered.items()})
        table = more["retained"]
        answers = {name: column[table["live"] == 0] for name, column in table.items()}
        came = {name: column[loose] for name, column in delivered.items()}
        if stood.judged.steps is None:  # of a sample nobody knows what was kept
            yield _answered(self, stood, answers, _times(answers, came), more["losses"])
            yield _counted(answers, came, more["losses"])

    def _heed(
        self, stood: Any, pairs: tuple[Array, Array], forced: Array, chosen: Array, more: Mapping[str, Columns],
        rows: Array, found: Columns,
    ) -> None:  # fmt: skip
        """Who is told that a live copy is retained: for subscriptions that say so, and for no others."""
        publications, versions, table = stood.publications, stood.versions, more["retained"]
        if not versions.values.size:
            return
        p, v = pairs
        said = flagged(versions.values[v, FLAGS_AT], _AS_PUBLISHED)
        said &= flagged(_flags(publications.values)[p], _RETAIN)
        p, v, forced, chosen = (each[said] for each in (p, v, forced, chosen))
        mine = (table["live"] != 0) & np.isin(table["publication"], publications.publication[rows])
        row = rows_of(publications.publication, table["publication"][mine])
        told = coded(row, table["interest"][mine])
        wrong = places_of(coded(p, versions.interest[v]), told) < 0
        must = chosen | forced
        lacks = must & (places_of(told, coded(p, versions.interest[v])) < 0)
        if not self.each:  # one is enough of those that a client asks by itself
            tells = places_of(coded(row, table["client"][mine]), coded(p, versions.client[v])) >= 0
            lacks &= chosen | ~tells
        every = coded(rows_of(publications.publication, found["publication"]), found["client"])
        at = places_of(every, coded(p, versions.client[v])[lacks])
        found["missed"][at[at >= 0]] |= found["times"][at[at >= 0]] > 0
        at = places_of(every, coded(row, table["client"][mine])[wrong])
        found["unwanted"][at[at >= 0]] = True


def _flags(publications: Array) -> Array:
    """What stands behind the levels of names."""
    if not publications.shape[1]:
        return np.zeros(len(publications))
    found: Array = -np.minimum(np.nan_to_num(publications), 0).min(axis=1)
    return found


def _times(answers: Columns, came: Columns) -> Array:
    """Of each answer whether it was delivered: of those to one client the first, as many as there are deliveries."""
    order = np.argsort(answers["client"], kind="stable")
    client = answers["client"][order]
    rank = np.empty(order.size, np.int64)
    rank[order] = np.arange(order.size) - np.searchsorted(client, client)
    every, at = np.unique(np.r_[came["client"], answers["client"]], return_inverse=True)
    count = np.bincount(at[: came["client"].size], came["times"], every.size)
    found: Array = (rank < count[at[came["client"].size :]]).astype(np.int64)
    return found


def _answered(matcher: Retained, stood: Any, answers: Columns, times: Array, losses: Columns) -> Columns:
    """A row for every answer, and for every name of which a subscription had to get something, or could."""
    publications, versions = stood.publications, stood.versions
    flags, asks = _flags(publications.values), _asks(stood)
    p, v = _met(matcher, stood, np.flatnonzero(flagged(flags, _RETAIN)))
    if not p.size:
        return _told(answers, times, np.zeros(times.size, np.bool_))
    name = _numbered(np.where(publications.values < 0, np.nan, publications.values))
    order = np.lexsort((publications.publication[p], publications.time_ns[p], name[p], v))
    p, v = p[order], v[order]
    begin = np.flatnonzero(changed(v, name[p]))
    of = np.cumsum(changed(v, name[p])) - 1  # which question each is an answer to
    place = np.arange(p.size)
    last = np.maximum.reduceat(np.where(_certain(stood, p, v, losses), place, -1), begin)
    possible = place >= last[of]
    own = versions.client[v] == publications.publication[p] >> 32
    empty = flagged(flags[p], _EMPTY) | (own & flagged(versions.values[v, FLAGS_AT], NO_LOCAL))
    may = possible & ~empty & (asks[v] >= _OPEN)
    none = (last < 0) | (asks[v[begin]] < _YES) | _spoilt(stood)[v[begin]]
    np.logical_or.at(none, of, possible & empty)

    row = _found_in(publications.publication, answers["publication"])
    version = _found_in(versions.interest, answers["interest"])
    at = places_of(coded(p, v), coded(row, version))
    right = (at >= 0) & may[at]
    taken = np.bincount(of[at[at >= 0]], minlength=begin.size)
    told = _told(answers, times, right)
    told["forced"][right] = ~none[of[at[right]]]
    if stood.judged.forgot_ns >= stood.run.never_ns:
        first = np.zeros(at.size, np.bool_)
        first[np.unique(np.where(at >= 0, of[at], -1), return_index=True)[1]] = True
        told["more"] = ((at >= 0) & ~first).astype(np.int64)
    end = np.r_[begin[1:], p.size][taken == 0] - 1  # the last of those to which nothing was answered
    can = np.zeros(begin.size, np.bool_)
    np.logical_or.at(can, of, may)
    open_ = can[taken == 0]
    end, missed = end[open_], ~none[taken == 0][open_]
    rest = nothing_said(end.size) | {"publication": publications.publication[p[end]], "client": versions.client[v[end]]}
    rest |= {"allowed": np.ones(end.size, np.bool_), "forced": missed, "missed": missed}
    rest["later"] = rest["allowed"]
    return {name: np.concatenate((told[name], rest[name])) for name in told}


def _told(answers: Columns, times: Array, right: Array) -> Columns:
    """A row for every answer, of which it is known whether it may be."""
    found = nothing_said(right.size) | {"publication": answers["publication"], "client": answers["client"]}
    found |= {"times": times, "first_ns": answers["time_ns"], "allowed": right, "unwanted": ~right}
    return found | {"later": np.ones(right.size, np.bool_)}


def _numbered(rows: Array) -> Array:
    """A number for each row, the same for those that are equal."""
    _, found = np.unique(np.nan_to_num(rows, nan=ABSENT), axis=0, return_inverse=True)
    return found.reshape(-1)


def _met(matcher: Retained, stood: Any, kept: Array) -> tuple[Array, Array]:
    """Retained publications beside the subscriptions that have their names, and were issued after them."""
    publications, versions = stood.publications, stood.versions
    alone = np.flatnonzero(versions.values[:, GROUP_AT] == 0) if versions.values.size else np.empty(0, np.int64)
    found = [(kept[:0], alone[:0])]
    for start in range(0, kept.size, AT_ONCE):
        rows = kept[start : start + AT_ONCE]
        p, v = matcher.pairs(publications.values[rows], versions.values[alone])
        p, v = rows[p], alone[v]
        there = publications.time_ns[p] <= versions.issued_ns[v]
        found.append((p[there], v[there]))
    p, v = (np.concatenate(each) for each in zip(*found))
    return p, v


def _certain(stood: Any, p: Array, v: Array, losses: Columns) -> Array:
    """Whether every broker had kept a publication, or a later one, when a subscription was issued."""
    publications, judged, at = stood.publications, stood.judged, stood.versions.issued_ns[v]
    found = (publications.end_ns[p] < at) & ~publications.cut[p]
    found &= ~((judged.forgot_ns <= at) & (publications.time_ns[p] < judged.again_ns))
    if not judged.heeds_losses:
        return found
    heeded = (losses["reason"] < _AWAY) & (losses["link"] < judged.heeds_losses.before)
    told = np.isin(losses["reason"], (_CUT_OFF, _CRASHED))
    lost = np.isin(publications.publication[p], losses["body"][heeded])
    for_good = np.isin(publications.publication[p], losses["body"][heeded & ~told])
    return found & ~(lost & (for_good | (at < judged.again_ns)))


def _spoilt(stood: Any) -> Array:
    """By version, whether a broker may not have known what it was asked."""
    judged, at = stood.judged, stood.versions.issued_ns
    found: Array = (at < judged.again_ns) & ((at >= judged.forgot_ns) | ~stood.heard())
    return found


def _asks(stood: Any) -> Array:
    """By version, whether it asks for what is retained."""
    versions = stood.versions
    if not versions.values.size:
        return np.zeros(0, np.int64)
    flags = versions.values[:, FLAGS_AT]
    nothing = (versions.issued_ns < 0) | (versions.values[:, GROUP_AT] != 0) | flagged(flags, _NEVER_KEPT)
    asks = np.where(nothing, _NO, _YES)
    same, spoilt = _numbered(np.c_[versions.client, versions.values[:, GROUP_AT:]]), _spoilt(stood)
    for one in np.flatnonzero(flagged(flags, _IF_NEW) & (asks == _YES)).tolist():
        others = np.flatnonzero(same == same[one])
        others = others[versions.interest[others] != versions.interest[one]]
        at, begun, ended = versions.issued_ns[one], versions.issued_ns[others], versions.revoked_ns[others]
        if ((begun < at) & (at < ended) & ~spoilt[others]).any():
            asks[one] = _NO
        elif ((begun <= at) & (at <= ended)).any():
            asks[one] = _OPEN
    return asks


def _counted(answers: Columns, loose: Columns, losses: Columns) -> Columns:
    """Deliveries that stand for no publication beside the answers that are told, by client."""
    fallen = (losses["body"] < 0) & (losses["client"] >= 0)
    every = np.unique(np.r_[answers["client"], loose["client"], losses["client"][fallen]])
    said, came, fell = (
        np.bincount(np.searchsorted(every, client), weights, every.size).astype(np.int64)
        for client, weights in (
            (answers["client"], None), (loose["client"], loose["times"]), (losses["client"][fallen], None),
        )
    )  # fmt: skip
    wrong = np.flatnonzero((came > said) | (came + fell < said))
    more, lacks = np.maximum(came - said, 0)[wrong], (came + fell < said)[wrong]
    found = nothing_said(wrong.size) | {"publication": np.full(wrong.size, -1), "client": every[wrong], "times": more}
    later = np.ones(wrong.size, np.bool_)
    return found | {"unwanted": more > 0, "allowed": lacks, "forced": lacks, "missed": lacks, "later": later}


def _found_in(known: Array, wanted: Array) -> Array:
    """Where each stands, -1 where it does not."""
    if not known.size:
        return np.full(wanted.size, -1, np.int64)
    by = np.argsort(known, kind="stable")
    at = by[np.minimum(np.searchsorted(known, wanted, sorter=by), known.size - 1)]
    return np.where(known[at] == wanted, at, -1)
