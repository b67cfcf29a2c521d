"""Whether every client got the answers to its queries in every round: `ChannelsRule` in NumPy.

    versions of queries ─► rounds in which one may be due ─► which versions may answer ─► beside what was received
    objects ─► what answers each version

A round of a query stands where a publication stands for other kinds, so that what a version is towards it, certain,
free or out, is asked as there. All of a service is in one task.

Numbers only, and NumPy: this module goes to the tasks by value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.padded import Padded, Wanted, elements, starts_of

Array = NDArray[Any]
Columns = dict[str, Array]

_BEHIND = ("low", "high", "inside")
_CELLS_MAX = 4_000_000  # objects beside queries that are tried at once


class Rounds(NamedTuple):
    """Of each answered (period, round) when it ended, and what lies behind the links that lost one of its answers."""

    period_ns: Array
    round: Array
    end_ns: Array  # -1: nobody says
    starts: Array
    behind: Columns


@dataclass(frozen=True)
class Answered(Padded):
    """See the module. What a judge is asked is said in `brokers.auditing`."""

    operations: frozenset[int]
    dimensions: int
    tell: tuple[int, int]  # the types of the messages that tell who listens to which channel, and of the plan before
    never_ns: int

    together = True

    @property
    def tables(self) -> dict[str, Wanted]:
        return {
            "received": Wanted(("query", "period_ns", "round", "client", "time_ns", "objects", "marks")),
            "answers": Wanted(("publication", "period_ns", "round", "time_ns")),
            "objects": Wanted(("point", "mark", "broker")),
            "hops": Wanted(("type", "broker", "source", "cause", "link", "time_ns"), only=("type", self.tell)),
            "losses": Wanted(("link", "time_ns"), only=("type", self.tell[:1])),
            "doubled": Wanted(("body",)),
        }

    def judged(self, stood: Any, more: dict[str, Columns], delivered: Columns) -> Iterator[Columns]:
        versions = stood.versions
        asking = np.flatnonzero((~np.isnan(versions.values)).sum(axis=1) > 2 * self.dimensions)
        period = versions.values[asking, 0].astype(np.int64) if asking.size else asking
        rounds = self._rounds(stood, more)
        interest, period_of, round_ = due = self._due(stood, asking, period, rounds)
        stood = replace(stood, publications=self._publications(stood, more, due, rounds))
        p, v = self._met(stood, interest, period_of, asking, period)
        certain = stood.in_time(p, v)
        excused = ~stood.unspoilt(p, v) | self._untold(stood, more, p, v)
        objects, marks = self._answers(versions.values[asking], more["objects"])
        at = np.searchsorted(asking, v)
        may = (interest[p], period_of[p], round_[p], versions.client[v])
        received = more["received"]
        got = tuple(received[name] for name in ("query", "period_ns", "round", "client"))
        keys = np.array([np.r_[a, b] for a, b in zip(may, got)], np.int64)
        pairs, number = np.unique(keys, axis=1, return_inverse=True)
        mine, theirs = np.split(number.reshape(-1), [p.size])
        twice = self._twice(pairs, more)
        yield self._beside(pairs, (mine, certain, excused, objects[at], marks[at]), (theirs, received), twice)

    # ---- what is right

    def _met(
        self, stood: Any, interest: Array, period_of: Array, asking: Array, period: Array
    ) -> tuple[Array, Array]:
        """Rounds and the versions of their query that may count."""
        versions = stood.versions
        keys = np.array([np.r_[interest, versions.interest[asking]], np.r_[period_of, period]], np.int64)
        number = np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
        rounds, theirs = np.split(number, [interest.size])
        order = np.argsort(theirs, kind="stable")
        p, at = elements(starts_of(theirs[order], int(number.max(initial=-1)) + 1), rounds)
        v = asking[order[at]]
        possible = stood.possible(p, v)
        return p[possible], v[possible]

    def _answers(self, queries: Array, objects: Columns) -> tuple[Array, Array]:
        """Of each query how many objects lie in its box, and the sum of their marks."""
        point, mark = objects["point"], objects["mark"].astype(np.int64)
        order = np.argsort(point[:, 0], kind="stable") if mark.size else np.empty(0, np.int64)
        point, mark = point[order], mark[order]
        count, total = np.zeros(queries.shape[0], np.int64), np.zeros(queries.shape[0], np.int64)
        if not mark.size or not count.size:
            return count, total
        first = np.searchsorted(point[:, 0], queries[:, 1])
        last = np.maximum(np.searchsorted(point[:, 0], queries[:, 2], "right"), first)
        blocks = np.flatnonzero(np.diff(np.cumsum(last - first) // _CELLS_MAX)) + 1
        for some in np.split(np.arange(count.size), blocks):
            sizes = last[some] - first[some]
            place = np.repeat(some, sizes)
            at = np.arange(place.size) + np.repeat(first[some] - (np.cumsum(sizes) - sizes), sizes)
            inside = np.ones(place.size, np.bool_)
            for k in range(1, self.dimensions):
                value = point[at, k]
                inside &= (value >= queries[place, 1 + 2 * k]) & (value <= queries[place, 2 + 2 * k])
            np.add.at(count, place[inside], 1)
            np.add.at(total, place[inside], mark[at[inside]])
        return count, total

    # ---- rounds

    def _rounds(self, stood: Any, more: dict[str, Columns]) -> Rounds:
        answers, run = more["answers"], stood.run
        keys = np.array([answers["period_ns"], answers["round"]], np.int64)
        known, number = np.unique(keys, axis=1, return_inverse=True)
        number = number.reshape(-1)
        end = np.full(known.shape[1], -1, np.int64)
        ids = np.argsort(answers["publication"], kind="stable")
        if run.deep:
            which, at = _looked_up(answers["publication"][ids], more["handled"]["body"])
            np.maximum.at(end, number[ids[at]], more["handled"]["time_ns"][which])
        else:
            np.maximum.at(end, number, answers["time_ns"] + run.travel_ns_max)
        lost = more["lost"]
        there = lost["link"] >= 0
        which, at = _looked_up(answers["publication"][ids], lost["body"][there])
        pairs = np.unique(np.array([number[ids[at]], lost["link"][there][which]], np.int64), axis=1)
        behind = {name: run.behind[name][pairs[1]] for name in _BEHIND}
        return Rounds(known[0], known[1], end, starts_of(pairs[0], known.shape[1]), behind)

    def _due(self, stood: Any, asking: Array, period: Array, rounds: Rounds) -> tuple[Array, Array, Array]:
        """interest, period, round: when one of its versions may be due."""
        versions = stood.versions
        took = rounds.end_ns - rounds.round * rounds.period_ns
        took = took[rounds.end_ns >= 0]
        longest = int(took.max()) if took.size else 0
        # A round may be under way when the query comes, and end long after its time.
        first = np.maximum(1, np.floor((versions.issued_ns[asking] - longest) / period)).astype(np.int64)
        last = np.floor(np.minimum(versions.gone_ns[asking], stood.run.duration_ns - 1) / period).astype(np.int64)
        sizes = np.maximum(last - first + 1, 0)
        place = np.repeat(np.arange(asking.size), sizes)
        each = np.arange(place.size) + np.repeat(first - (np.cumsum(sizes) - sizes), sizes)
        due = np.unique(np.array([versions.interest[asking][place], period[place], each], np.int64), axis=1)
        return due[0], due[1], due[2]

    def _publications(
        self, stood: Any, more: dict[str, Columns], due: tuple[Array, Array, Array], rounds: Rounds
    ) -> Any:
        """Rounds as what versions stand towards."""
        interest, period, round_ = due
        run, publications = stood.run, stood.publications
        time_ns = round_ * period
        keys = np.array([np.r_[rounds.period_ns, period], np.r_[rounds.round, round_]], np.int64)
        number = np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
        known, mine = np.split(number, [rounds.round.size])
        of = np.full(int(number.max(initial=-1)) + 1, -1)
        of[known] = np.arange(known.size)
        of = of[mine]
        end = np.maximum(time_ns, np.where(of >= 0, np.r_[rounds.end_ns, -1][of], -1))
        cut = np.zeros(time_ns.size, np.bool_) if run.cut_from_ns is None else time_ns >= run.cut_from_ns
        broker = int(more["objects"]["broker"][0]) if more["objects"]["broker"].size else 0
        starts = np.r_[rounds.starts, rounds.starts[-1]]
        place, at = elements(starts, np.where(of >= 0, of, rounds.round.size))
        unheard = type(publications.unheard)(
            starts_of(place, time_ns.size), {name: column[at] for name, column in rounds.behind.items()}
        )
        return type(publications)(
            publication=interest, time_ns=time_ns, end_ns=end, place=np.full(time_ns.size, run.place[broker]), cut=cut,
            forgotten=stood.judged.forgotten(time_ns, end), mended=stood.judged.mended(time_ns),
            values=np.empty((time_ns.size, 0)), unheard=unheard,
        )  # fmt: skip

    def _untold(self, stood: Any, more: dict[str, Columns], p: Array, v: Array) -> Array:
        """Whether a lost word on who listens to which channel excuses, until one said later came over the link."""
        lost, told = more["losses"], self._told(more["hops"])
        found = np.zeros(p.size, np.bool_)
        sent, came, home = stood.publications.time_ns[p], stood.publications.end_ns[p], stood.versions.home[v]
        pairs = np.unique(np.array([lost["link"], lost["time_ns"]], np.int64), axis=1).T
        for link, begin in pairs.tolist():
            again = told["time_ns"][(told["link"] == link) & (told["said_ns"] > begin)]
            end = again.min() if again.size else self.never_ns
            low, high, inside = (stood.run.behind[name][link] for name in _BEHIND)
            found |= (begin <= came) & (sent <= end) & (((home >= low) & (home < high)) == inside)
        return found

    def _told(self, hops: Columns) -> Columns:
        """Each word on who listens to which channel; it was said where one of its cause was first known."""
        heard = np.flatnonzero(hops["type"] == self.tell[0])
        places = np.array([np.r_[hops["broker"], hops["source"][heard]], np.r_[hops["cause"], hops["cause"][heard]]])
        known, number = np.unique(places, axis=1, return_inverse=True)
        at, where = np.split(number.reshape(-1), [hops["cause"].size])
        first = np.full(known.shape[1], self.never_ns)
        np.minimum.at(first, at, hops["time_ns"])
        return {"said_ns": first[where], **{name: hops[name][heard] for name in ("link", "time_ns")}}

    # ---- what was received

    def _twice(self, pairs: Array, more: dict[str, Columns]) -> Array:
        """Of each, whether a link doubled some answer of its round: then one and the same may come more than once."""
        answers = more["answers"]
        doubled = np.isin(answers["publication"], more["doubled"]["body"])
        rounds = np.array([answers["period_ns"][doubled], answers["round"][doubled]], np.int64)
        keys = np.concatenate((rounds, pairs[1:3]), axis=1)
        number = np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1)
        return np.isin(number[rounds.shape[1] :], number[: rounds.shape[1]])

    def _beside(self, pairs: Array, may: tuple[Array, ...], got: tuple[Array, Columns], twice: Array) -> Columns:
        """What is found of each query, client and round in which it may be due, or was answered."""
        number, certain, excused, objects, marks = may
        theirs, received = got
        count = pairs.shape[1]
        sure, excuse, allowed = (np.zeros(count, np.bool_) for _ in range(3))
        sure[number[certain]] = True
        excuse[number[certain & excused]] = True
        allowed[number] = True
        times = np.bincount(theirs, minlength=count)
        first = np.full(count, self.never_ns)
        np.minimum.at(first, theirs, received["time_ns"])
        # Every answer that came has to be that of a version that may count.
        rows = np.array(
            [np.r_[number, theirs], np.r_[objects, received["objects"]], np.r_[marks, received["marks"]]], np.int64
        )
        answer = np.unique(rows, axis=1, return_inverse=True)[1].reshape(-1)
        right, said = np.split(answer, [number.size])
        wrong = ~allowed
        wrong[theirs[~np.isin(said, right)]] = True
        forced, there = sure & ~excuse, times > 0
        distinct = np.bincount(np.unique(np.array([theirs, said], np.int64), axis=1)[0], minlength=count)
        again = np.where(twice, distinct, times) > 1
        return {
            "publication": pairs[0], "client": pairs[3], "times": times, "first_ns": np.where(there, first, 0),
            "allowed": np.ones(count, np.bool_), "forced": forced, "excused": excuse,
            "missed": forced & ~there, "unwanted": there & (wrong | again),
        }  # fmt: skip


def _looked_up(ids: Array, wanted: Array) -> tuple[Array, Array]:
    """Which of the wanted are among ids that are in order, and where; each id once."""
    at = np.minimum(np.searchsorted(ids, wanted), max(ids.size - 1, 0))
    known = np.flatnonzero(ids[at] == wanted) if ids.size else np.empty(0, np.int64)
    return known, at[known]
