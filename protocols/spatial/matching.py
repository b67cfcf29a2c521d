"""Which objects are relevant to whom, between two bounds: `SpatialRule` in NumPy.

    publications × subscriptions by keyword ─► pairs ─► nearer objects of each, at most and at least ─► forced, allowed

Publications are taken some at a time, in the order in which they were sent, so many that most objects that can have
been there then are there for all of them. Of each subscription these objects are put in the order of their distance;
those nearer than a publication are the first ones, which are looked at some at a time until there are k.

Numbers only, and NumPy: this module goes to the tasks by value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.padded import Padded, elements, starts_of

Array = NDArray[Any]

AT_ONCE = 256  # publications, at least
NEAR_MAX = 4_000_000  # objects beside subscriptions that are looked at together
LOOKED_AT = 32  # of the objects nearer than a publication, at first


@dataclass(frozen=True)
class Things:
    """Objects or subscriptions: rows among the versions, places, keywords, and when objects end."""

    rows: Array
    at: Array
    starts: Array
    words: Array
    revoked_ns: Array
    gone_ns: Array


@dataclass(frozen=True)
class Near:
    """Objects beside subscriptions that share a keyword with them, by subscription and distance."""

    starts: Array
    object: Array
    far: Array


@dataclass(frozen=True)
class Nearest(Padded):
    """See the module. What a judge is asked is said in `brokers.auditing`."""

    publish: int  # the types of changes
    subscribe: int
    object_words: int  # where keywords begin in a row
    subscription_words: int
    sphere: bool
    delta: float
    slack: float
    last: int | None
    lifetime_ns: int | None
    never_ns: int

    @property
    def operations(self) -> frozenset[int]:
        return frozenset({self.publish, self.subscribe})

    def decisions(self, stood: Any) -> Iterator[dict[str, Array]]:
        publications, versions = stood.publications, stood.versions
        objects = self._windowed(versions, self._things(versions, self.publish, self.object_words), stood.heard())
        subscriptions = self._things(versions, self.subscribe, self.subscription_words)
        count = publications.publication.size
        # Which object each publication is; one that is none is relevant to nobody.
        by_change = np.argsort(versions.change[objects.rows], kind="stable")
        change = versions.change[objects.rows][by_change]
        at = np.minimum(np.searchsorted(change, publications.publication), max(change.size - 1, 0))
        known = change[at] == publications.publication if change.size else np.zeros(count, np.bool_)
        offered = np.where(known, by_change[at] if change.size else 0, -1)
        start = 0
        while start < count:
            begin = publications.time_ns[start]
            there = (versions.issued_ns[objects.rows] <= begin) & (objects.gone_ns >= begin)
            rows = np.arange(start, min(start + max(AT_ONCE, int(there.sum()) // 2), count))
            start += rows.size
            rows = rows[known[rows]]
            if rows.size:
                yield from self._decided(stood, objects, subscriptions, rows, offered)

    # ---- what there is

    def _things(self, versions: Any, operation: int, start: int) -> Things:
        rows = np.flatnonzero(versions.operation == operation)
        values = versions.values[rows]
        words = values[:, start:]
        owner, k = np.nonzero(~np.isnan(words))
        found = np.unique(np.array([owner, words[owner, k].astype(np.int64)], np.int64), axis=1)
        at = values[:, :2] if values.shape[1] >= 2 else np.full((rows.size, 2), np.nan)
        if self.sphere:
            latitude, longitude = np.radians(at).T
            across = np.cos(latitude)
            at = np.stack((across * np.cos(longitude), across * np.sin(longitude), np.sin(latitude)), axis=1)
        starts = starts_of(found[0], rows.size)
        return Things(rows, at, starts, found[1], versions.revoked_ns[rows], versions.gone_ns[rows])

    def _windowed(self, versions: Any, objects: Things, heard: Array) -> Things:
        """With the ends that come of windows over the objects of a broker."""
        rows = objects.rows
        issued, broker = versions.issued_ns[rows], versions.broker[rows]
        left = np.where(heard[rows], versions.settled_ns[rows], self.never_ns)
        order = np.lexsort((versions.change[rows], issued, broker))
        revoked, gone = objects.revoked_ns, objects.gone_ns
        for shift in self._shifts(issued[order], broker[order]):
            by = np.full(rows.size, -1)  # of each object the one that ends it
            there = shift < rows.size
            there[there] &= broker[order][shift[there]] == broker[order][there]
            by[order[there]] = order[shift[there]]
            out = np.where(by >= 0, issued[by], self.never_ns)
            ended = np.where(by >= 0, left[by], self.never_ns)
            both = np.maximum(gone, ended)
            gone = np.where(revoked < out, gone, np.where(revoked > out, ended, both))
            revoked = np.minimum(revoked, out)
        return Things(rows, objects.at, objects.starts, objects.words, revoked, gone)

    def _shifts(self, issued: Array, broker: Array) -> Iterator[Array]:
        """By object, in the order of broker and issue, the place of the one that ends it."""
        if self.last is not None:
            yield np.arange(issued.size) + self.last
        if self.lifetime_ns is not None:
            times, place = np.unique(issued, return_inverse=True)
            after = np.searchsorted(times, issued + self.lifetime_ns)
            codes = broker * (times.size + 1) + place
            yield np.searchsorted(codes, broker * (times.size + 1) + after)

    # ---- decisions

    def _decided(
        self, stood: Any, objects: Things, subscriptions: Things, rows: Array, offered: Array
    ) -> Iterator[dict[str, Array]]:
        """Decisions about some publications, those of some subscriptions at a time."""
        publications, versions = stood.publications, stood.versions
        begin, end = publications.time_ns[rows].min(), publications.end_ns[rows].max()
        of = subscriptions.rows
        wanted = np.flatnonzero((versions.issued_ns[of] <= end) & (versions.gone_ns[of] >= begin))
        alive = np.flatnonzero((versions.issued_ns[objects.rows] <= end) & (objects.gone_ns >= begin))
        found = []
        step = max(1, NEAR_MAX // max(alive.size + rows.size, 1))
        for first in range(0, wanted.size, step):
            some = wanted[first : first + step]
            asked = self._near(objects, offered[rows], subscriptions, some)
            s = np.repeat(np.arange(some.size), np.diff(asked.starts))
            p, v, far = rows[asked.object], of[some[s]], asked.far
            possible = stood.possible(p, v)
            p, v, s, far = (each[possible] for each in (p, v, s, far))
            near = self._near(objects, alive, subscriptions, some)
            most, least = self._counted(stood, objects, alive, near, (p, s, far), offered)
            k = publications.values[p, 2]
            k = np.where(np.isnan(k), np.inf, k)
            upper = least < k
            p, v, lower = p[upper], v[upper], (most < k)[upper]
            in_time = lower & stood.ended_in_time(p, v)
            behind = stood.is_behind(versions.home[v], publications.unheard, p)
            found.append((p, v, in_time, in_time & stood.heard()[v] & ~behind))
        if found:
            yield stood.by_client(*(np.concatenate(each) for each in zip(*found)))

    def _near(self, objects: Things, which: Array, subscriptions: Things, some: Array) -> Near:
        """Which of these objects share a keyword with some subscriptions; `object` counts among them."""
        owner, at = elements(subscriptions.starts, some)
        by_word = np.argsort(subscriptions.words[at], kind="stable")
        owner, word = owner[by_word], subscriptions.words[at][by_word]
        mine, at = elements(objects.starts, which)
        count = int(max(word.max(initial=-1), objects.words[at].max(initial=-1))) + 1
        place, at = elements(starts_of(word, count), objects.words[at])
        subscription, each = owner[at], mine[place]
        code = np.unique(subscription * max(which.size, 1) + each)
        subscription, each = np.divmod(code, max(which.size, 1))
        far = self._squared(subscriptions.at[some[subscription]], objects.at[which[each]])
        order = np.lexsort((far, subscription))
        return Near(starts_of(subscription, some.size), each[order], far[order])

    def _counted(
        self, stood: Any, objects: Things, alive: Array, near: Near, pairs: tuple[Array, Array, Array], offered: Array
    ) -> tuple[Array, Array]:
        """By pair how many objects are nearer, at most; and delta times nearer, at least. Counted until there are k."""
        p, s, far = pairs
        publications, versions = stood.publications, stood.versions
        sent, end = publications.time_ns[p], publications.end_ns[p]
        reach = self._reach(far)
        owner = np.repeat(np.arange(near.starts.size - 1), np.diff(near.starts))
        stop = _first_not_below(owner, near.far * (1 - self.slack), s, far, near.starts)
        born, known = versions.issued_ns[objects.rows[alive]], versions.settled_ns[objects.rows[alive]]
        known = np.where(stood.heard()[objects.rows[alive]], known, self.never_ns)
        dead, ending = objects.gone_ns[alive], objects.revoked_ns[alive]
        most, least = np.zeros(p.size, np.int64), np.zeros(p.size, np.int64)
        at, left, step = near.starts[s], np.arange(p.size), LOOKED_AT
        wanted = publications.values[p, 2]
        while left.size:
            sizes = np.minimum(stop[left] - at[left], step)
            place = np.repeat(left, sizes)
            row = np.arange(place.size) + np.repeat(at[left] - (np.cumsum(sizes) - sizes), sizes)
            thing = near.object[row]
            counts = (born[thing] <= end[place]) & (dead[thing] >= sent[place])
            counts &= alive[thing] != offered[p[place]]
            place, thing, row = place[counts], thing[counts], row[counts]
            most += np.bincount(place, minlength=p.size)
            sure = (known[thing] < sent[place]) & (ending[thing] > end[place])
            sure &= near.far[row] * (1 + self.slack) < reach[place]
            least += np.bincount(place[sure], minlength=p.size)
            at[left] += sizes
            left = left[(at[left] < stop[left]) & ~(least[left] >= wanted[left])]
            step = min(2 * step, max(LOOKED_AT, NEAR_MAX // max(left.size, 1)))
        return most, least

    def _squared(self, one: Array, other: Array) -> Array:
        """Of pairs of points, along the axes in order, as the indexes have it."""
        found = np.zeros(one.shape[0])
        for axis in range(one.shape[1]):
            gap = one[:, axis] - other[:, axis]
            found = found + gap * gap
        return found

    def _reach(self, squared: Array) -> Array:
        """The squared distance below which an object is delta times nearer."""
        if self.delta == 1:
            return squared
        if not self.sphere:
            return squared / (self.delta * self.delta)
        sine = np.sin(np.arcsin(np.minimum(np.sqrt(squared) / 2, 1.0)) / self.delta)
        return 4 * sine * sine


def _first_not_below(owner: Array, value: Array, wanted: Array, limit: Array, starts: Array) -> Array:
    """The first row of each wanted owner whose value is not below a limit; values rise within their owner."""
    values, place = np.unique(value, return_inverse=True)
    codes = owner * (values.size + 1) + place
    found = np.searchsorted(codes, wanted * (values.size + 1) + np.searchsorted(values, limit))
    return np.minimum(found, starts[wanted + 1])
