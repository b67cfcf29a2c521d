"""Materialised: every subscription keeps its nearest objects, so that a query is a stabbing question.

A subscription is in RT iff the query is no farther than its k-th nearest object. Its `2 (k_max + 1)` nearest
are listed in order; an arriving object is entered where it is near enough, an expiring one is struck out. A
list that has fallen to k_max entries is filled again from the keyword trees: the spare half pays for that,
and one more than k_max is for a queried object that is held itself and does not count. So a list of k_max
entries or fewer has all relevant objects.

Per group of subscriptions two bounds are kept: the farthest query that may matter, and the farthest object
that may enter or leave a list. They are computed when a group is opened, and are never too small between.

What it trades: a query costs little, but each arrival and expiry searches the groups as well, and k_max is
fixed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import EndlessWalk, InvalidInput
from brokers.indexes.contract import Ids, claim
from brokers.indexes.spatial import search
from brokers.indexes.spatial.contract import Queries
from brokers.indexes.spatial.geometry import Floats, squared_distances
from brokers.indexes.spatial.items import Slots
from brokers.indexes.spatial.part import FAN_OUT, GROUP_SIZE, Treed
from brokers.indexes.spatial.tree_kernels import COUNT, LEVEL, NONE, TOUCHED, Forest
from brokers.indexes.spatial.words import Vocabulary

K_MAX = 16
_K_LARGEST = 4096


class Lists(NamedTuple):
    """What is kept of the subscriptions."""

    forest: Forest  # the groups
    bound: Floats  # per node: of queries, of arrivals and expiries
    places: Floats
    words: NDArray[np.int32]
    squared: Floats  # per subscription the nearest objects' distances, ascending, then infinite
    nearest: NDArray[np.int32]  # their slots, then NONE
    held: NDArray[np.int64]  # how many


class Materialised(Treed):
    """Nearest objects kept per subscription. A query, an arrival and an expiry look at the groups of their
    keywords, O(groups + near subscriptions * k_max); an expiry also refills lists, O(log objects) each."""

    exact = True

    def __init__(
        self,
        geometry: str = "plane",
        vocabulary: Vocabulary | None = None,
        *,
        k_max: int = K_MAX,
        fan_out: int = FAN_OUT,
        group_size: int = GROUP_SIZE,
    ) -> None:
        super().__init__(geometry, vocabulary, fan_out=fan_out, group_size=group_size)
        self.k_max = _k_max(k_max)
        self._squared = np.full((0, 2 * (self.k_max + 1)), np.inf)
        self._nearest = np.full(self._squared.shape, NONE, np.int32)
        self._held = np.zeros(0, np.int64)
        self._bound = np.zeros((0, 2))  # per node of the groups: of queries, of arrivals and expiries

    def memory_bytes(self) -> int:
        arrays = self._squared, self._nearest, self._held, self._bound
        return super().memory_bytes() + sum(array.nbytes for array in arrays)

    def check(self) -> None:
        """Every invariant. O(subscriptions * objects)."""
        super().check()
        objects, k_max = self.objects.all_slots(), self.k_max
        for s in self.subscriptions.all_slots():
            wanted = self.subscriptions.words[s]
            shared = np.isin(self.objects.words[objects], wanted[wanted != NONE]).any(axis=1)
            relevant = objects[shared]
            squared = np.sort(squared_distances(self.objects.points[relevant], self.subscriptions.points[s]))
            held = int(self._held[s])
            claim(held > k_max or held == len(relevant), "a list has k_max + 1 entries, or all")
            claim(np.array_equal(self._squared[s, :held], squared[:held]), "a list has the nearest, in order")
            listed = self._nearest[s, :held]
            own = squared_distances(self.objects.points[listed], self.subscriptions.points[s])
            claim(np.array_equal(own, self._squared[s, :held]), "entries are at their distance")
            claim(np.isin(listed, relevant).all(), "entries are relevant")
            claim(len(np.unique(listed)) == held, "no object is listed twice")
        self._fit()
        _check_bounds(self.groups.forest, self._bound, self._squared, self._held, k_max)

    def _objects_came(self, slots: Slots) -> None:
        super()._objects_came(slots)
        self._fit()
        _arrive(self._lists(), self.objects.points, self.objects.words, slots, self.k_max)

    def _objects_go(self, slots: Slots) -> None:
        super()._objects_go(slots)
        leaf_of = self.groups.leaf_of
        short = _depart(self._lists(), self.objects.points, self.objects.words, slots, leaf_of, self.k_max)
        self._refill(short)

    def _subscriptions_came(self, slots: Slots) -> None:
        super()._subscriptions_came(slots)
        self._fit()
        self._refill(slots)

    def _reverse(self, queries: Queries) -> tuple[Ids, Slots]:
        asked = self._asked(queries)
        ptr, slots, opened, seen = _stab(self._lists(), asked, self.k_max)
        self.counters.groups += int(opened)
        self.counters.subscriptions += int(seen)
        return ptr, slots

    def _kth_squared(self, slots: Slots, k: int) -> Floats:
        return np.where(self._held[slots] >= k, self._squared[slots, k - 1], np.inf)

    def _lists(self) -> Lists:
        items = self.subscriptions
        return Lists(
            self.groups.forest, self._bound, items.points, items.words, self._squared, self._nearest,
            self._held,
        )  # fmt: skip

    def _refill(self, slots: Slots) -> None:
        """List the nearest objects of subscriptions anew."""
        capacity = self._squared.shape[1]
        work = self._scratch(capacity)
        self._squared[slots], self._nearest[slots] = search.nearest(self._world(), slots, capacity, work)
        self._count(work)
        self._held[slots] = (self._nearest[slots] != NONE).sum(axis=1)
        leaves = self.groups.leaf_of[slots]
        self.groups.forest.meta[leaves[leaves != NONE], TOUCHED] = 1

    def _fit(self) -> None:
        """Room for all subscriptions and groups."""
        slots, held = len(self.subscriptions.ids), len(self._held)
        if slots > held:
            for name, padding in (("_squared", np.inf), ("_nearest", NONE), ("_held", 0)):
                old = getattr(self, name)
                larger = np.full((slots, *old.shape[1:]), padding, old.dtype)
                larger[:held] = old
                setattr(self, name, larger)
        nodes = len(self.groups.forest.meta)
        if nodes > len(self._bound):
            bound = np.full((nodes, 2), np.inf)
            bound[: len(self._bound)] = self._bound
            self._bound = bound


def _check_bounds(
    forest: Any, bound: Floats, squared: Floats, held: NDArray[np.int64], k_max: int
) -> None:
    for leaf in np.flatnonzero((forest.meta[:, LEVEL] == 0) & (forest.meta[:, TOUCHED] == 0)):
        tight = np.array(_tight_bounds(forest, leaf, squared, held, k_max))
        claim((bound[leaf] >= tight).all(), "bounds of a group are not too small")


def _k_max(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 1 <= value <= _K_LARGEST:
        raise InvalidInput(f"k_max is {value!r}; pass an integer in 1..{_K_LARGEST}")
    return int(value)


# ---- kernels: one family, compiled together ----------------------------------------------------------


@njit(cache=True)
def _gap(mbr, point):
    """The least squared distance from a box to a point."""
    axes, total = point.size, 0.0
    for axis in range(axes):
        gap = max(0.0, max(mbr[axis] - point[axis], point[axis] - mbr[axes + axis]))
        total += gap * gap
    return total


@njit(cache=True)
def _distance(a, b):
    total = 0.0
    for axis in range(a.size):
        total += (a[axis] - b[axis]) * (a[axis] - b[axis])
    return total


@njit(cache=True)
def _first_shared(words, others, word):
    """Whether `word` is the first that both have: elsewhere the pair is left alone."""
    for column in range(words.size):
        if words[column] >= word or words[column] == NONE:
            return True
        for t in range(others.size):
            if others[t] == words[column]:
                return False
    return True


@njit(cache=True)
def _tight_bounds(forest, leaf, squared, held, k_max):
    """(farthest query that may matter, farthest object that may enter or leave a list) of a group."""
    asked, moved = 0.0, 0.0
    for j in range(forest.meta[leaf, COUNT]):
        s = forest.child[leaf, j]
        if held[s] <= k_max:  # all relevant objects are listed, and any more would be
            return np.inf, np.inf
        asked = max(asked, squared[s, k_max])
        moved = max(moved, squared[s, held[s] - 1])
    return asked, moved


@njit(cache=True)
def _open(lists, word, point, kind, k_max, stack, leaves):
    """The groups of a word that a point may concern, by one of the bounds, into `leaves`; how many."""
    forest, bound = lists.forest, lists.bound
    if word >= forest.root.size or forest.root[word] == NONE:
        return 0
    stack[0] = forest.root[word]
    size, found = 1, 0
    for _ in range(forest.meta.shape[0] + 1):
        if size == 0:
            break
        size -= 1
        g = stack[size]
        if forest.meta[g, LEVEL] > 0:
            for j in range(forest.meta[g, COUNT]):
                stack[size] = forest.child[g, j]
                size += 1
            continue
        if forest.meta[g, TOUCHED]:
            bound[g, 0], bound[g, 1] = _tight_bounds(forest, g, lists.squared, lists.held, k_max)
            forest.meta[g, TOUCHED] = 0
        if _gap(forest.mbr[g], point) <= bound[g, kind]:
            leaves[found] = g
            found += 1
    else:
        raise EndlessWalk("a tree has a ring")
    return found


@njit(cache=True)
def _arrive(lists, points, object_words, objects, k_max):
    """Enter objects in the lists that they are near enough for."""
    forest, bound, places, words, squared, nearest, held = lists
    capacity = squared.shape[1]
    stack, leaves = np.empty(len(bound), np.int32), np.empty(len(bound), np.int32)
    for o in objects:
        point, mine = points[o], object_words[o]
        for column in range(mine.size):
            if mine[column] == NONE:
                break
            found = _open(lists, mine[column], point, 1, k_max, stack, leaves)
            for t in range(found):
                g = leaves[t]
                for j in range(forest.meta[g, COUNT]):
                    s = forest.child[g, j]
                    distance = _distance(places[s], point)
                    last = held[s] - 1
                    # A list that may not be whole ends where it ends; one that is takes what comes.
                    if last >= k_max and distance >= squared[s, last]:
                        continue
                    if not _first_shared(words[s], mine, mine[column]):
                        continue
                    i = min(held[s], capacity - 1)
                    held[s] = i + 1
                    while i > 0 and squared[s, i - 1] > distance:
                        squared[s, i] = squared[s, i - 1]
                        nearest[s, i] = nearest[s, i - 1]
                        i -= 1
                    squared[s, i] = distance
                    nearest[s, i] = o
                bound[g, 0], bound[g, 1] = _tight_bounds(forest, g, squared, held, k_max)


@njit(cache=True)
def _depart(lists, points, object_words, objects, leaf_of, k_max):
    """Strike objects out of all lists. Returns the subscriptions whose lists have to be filled again."""
    forest, bound, places, words, squared, nearest, held = lists
    stack, leaves = np.empty(len(bound), np.int32), np.empty(len(bound), np.int32)
    short = np.empty(16, np.int64)
    shorts = 0
    for o in objects:
        point, mine = points[o], object_words[o]
        for column in range(mine.size):
            if mine[column] == NONE:
                break
            found = _open(lists, mine[column], point, 1, k_max, stack, leaves)
            for t in range(found):
                g = leaves[t]
                for j in range(forest.meta[g, COUNT]):
                    s = forest.child[g, j]
                    last = held[s] - 1
                    if last < 0 or _distance(places[s], point) > squared[s, last]:
                        continue
                    if not _first_shared(words[s], mine, mine[column]):
                        continue
                    i = 0
                    while i <= last and nearest[s, i] != o:
                        i += 1
                    if i > last:
                        continue
                    for later in range(i, last):
                        squared[s, later] = squared[s, later + 1]
                        nearest[s, later] = nearest[s, later + 1]
                    squared[s, last], nearest[s, last] = np.inf, NONE
                    held[s] = last
                    for other in range(leaf_of.shape[1]):  # what follows has moved up, so bounds may grow
                        if leaf_of[s, other] != NONE:
                            forest.meta[leaf_of[s, other], TOUCHED] = 1
                    if last == k_max:
                        if shorts == short.size:
                            longer = np.empty(2 * shorts, np.int64)
                            longer[:shorts] = short
                            short = longer
                        short[shorts] = s
                        shorts += 1
    return short[:shorts].copy()


@njit(cache=True)
def _stab(lists, asked, k_max):
    """(ptr, subscription slots, groups opened, subscriptions looked at) of queries."""
    forest, bound, places, words, squared, nearest, held = lists
    ks, own = asked.k, asked.own
    stack, leaves = np.empty(len(bound), np.int32), np.empty(len(bound), np.int32)
    out_ptr = np.zeros(ks.size + 1, np.int64)
    out = np.empty(256, np.int64)
    total, opened, seen = 0, 0, 0
    for i in range(ks.size):
        point, mine = asked.points[i], asked.words[asked.ptr[i] : asked.ptr[i + 1]]
        for column in range(mine.size):
            found = _open(lists, mine[column], point, 0, k_max, stack, leaves)
            opened += found
            for t in range(found):
                g = leaves[t]
                members = forest.meta[g, COUNT]
                seen += members
                if total + members > out.size:
                    larger = np.empty(2 * (total + members), np.int64)
                    larger[:total] = out[:total]
                    out = larger
                for j in range(members):
                    s = forest.child[g, j]
                    distance = _distance(places[s], point)
                    closer, at = 0, 0
                    while closer < ks[i] and at < held[s] and squared[s, at] < distance:
                        closer += nearest[s, at] != own[i]
                        at += 1
                    if closer < ks[i] and _first_shared(words[s], mine, mine[column]):
                        out[total] = s
                        total += 1
        out_ptr[i + 1] = total
    return out_ptr, out[:total].copy(), opened, seen
