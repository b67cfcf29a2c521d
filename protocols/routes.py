"""Trees over the overlay, along which publications flow.

A publication that enters at broker p flows down a tree rooted at p. On an overlay that is a tree there is one
choice. On a cyclic one either every publisher broker has a shortest-path tree of its own, or all use one
shared tree, re-rooted. Interests travel the opposite way.

Each rooted tree carries an interval numbering: broker b's subtree is the brokers x with
enter[b] <= enter[x] < leave[b]. So "which child leads to home h" and "does anything that matched lie behind
this link" are searches in sorted numbers, not walks.

All of it follows from the overlay alone, which every broker is taken to know.
"""

from __future__ import annotations

import heapq
from functools import cached_property
from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.contract import Ints, LinkTable
from brokers.errors import EndlessWalk

Ints32 = NDArray[np.int32]


@njit(cache=True)
def _shortest_paths(root, out_start, out_link, target, delay, up):
    """Shortest-path tree by delay; ties go to the lower distance, then the lower parent number."""
    brokers = out_start.size - 1
    distance = np.full(brokers, np.int64(1 << 62))
    distance[root] = 0
    up[root] = -1
    queue = [(np.int64(0), np.int64(root))]
    while len(queue) > 0:
        d, b = heapq.heappop(queue)
        if d > distance[b]:
            continue
        for i in range(out_start[b], out_start[b + 1]):
            link = out_link[i]
            x = target[link]
            reached = d + delay[link]
            if reached < distance[x] or (reached == distance[x] and x != root and b < target[up[x]]):
                if reached < distance[x]:
                    distance[x] = reached
                    heapq.heappush(queue, (reached, np.int64(x)))
                up[x] = link ^ 1


@njit(cache=True)
def _hang(root, out_start, out_link, target, in_tree, up):
    """Root the tree of the marked links."""
    stack = [root]
    up[root] = -1
    while len(stack) > 0:
        b = stack.pop()
        for i in range(out_start[b], out_start[b + 1]):
            link = out_link[i]
            if in_tree[link] and link != up[b]:
                up[target[link]] = link ^ 1
                stack.append(target[link])


@njit(cache=True)
def _number(root, up, target, enter, leave, child_start, child):
    """Interval numbering and children, by broker number."""
    brokers = up.size
    for b in range(brokers + 1):
        child_start[b] = 0
    for b in range(brokers):
        if up[b] >= 0:
            child_start[target[up[b]] + 1] += 1
    for b in range(brokers):
        child_start[b + 1] += child_start[b]
    fill = child_start[:-1].copy()
    for b in range(brokers):
        if up[b] >= 0:
            p = target[up[b]]
            child[fill[p]] = b
            fill[p] += 1
    at = child_start[:-1].copy()
    number = 0
    stack = [root]
    enter[root] = 0
    number = 1
    while len(stack) > 0:
        b = stack[-1]
        if at[b] < child_start[b + 1]:
            c = child[at[b]]
            at[b] += 1
            enter[c] = number
            number += 1
            stack.append(c)
        else:
            leave[b] = number
            stack.pop()


@njit(cache=True)
def _away_masks(enter, leave, up, target, in_tree_up, mask):
    """For each home, the links of the one tree that lead away from it."""
    brokers = up.size
    for h in range(brokers):
        for x in range(brokers):
            if up[x] < 0:
                continue
            inside = enter[x] <= enter[h] < leave[x]
            link = up[x] if inside else up[x] ^ 1
            mask[h, link >> 6] |= np.uint64(1) << np.uint64(link & 63)


@njit(cache=True)
def _path_masks(up, target, mask):
    """For each home, the links from it up to the root."""
    for h in range(up.size):
        b = h
        for _ in range(up.size):
            if up[b] < 0:
                break
            link = up[b]
            mask[h, link >> 6] |= np.uint64(1) << np.uint64(link & 63)
            b = target[link]
        else:
            raise EndlessWalk("a tree of routes has a ring")


class Routes:
    """Rooted trees for a set of publisher brokers.

    Arrays are indexed [tree, broker]: `up` is the link towards the root (-1 there), `enter` and `leave` number
    the subtree; the children of b are child[tree, child_start[tree, b]:child_start[tree, b + 1]], ascending.
    """

    def __init__(self, links: LinkTable, is_tree: bool, roots: Ints32, per_publisher: bool) -> None:
        brokers = links.out_start.size - 1
        self.links = links
        self.brokers = brokers
        self.roots = np.unique(roots).astype(np.int32)
        self.flood = is_tree or not per_publisher  # interests go everywhere on one tree
        count = max(self.roots.size, 1)
        self.tree_of = np.full(brokers, -1, np.int32)
        self.tree_of[self.roots] = np.arange(self.roots.size)
        self.up = np.full((count, brokers), -1, np.int32)
        self.enter = np.zeros((count, brokers), np.int32)
        self.leave = np.zeros((count, brokers), np.int32)
        self.child_start = np.zeros((count, brokers + 1), np.int32)
        self.child = np.zeros((count, max(brokers - 1, 0)), np.int32)
        self.in_tree = np.ones(links.source.size, np.bool_)
        facts = links.out_start, links.out_link, links.target
        if not is_tree and not per_publisher:
            centre = int(np.argmax(np.diff(links.out_start)))
            _shortest_paths(centre, *facts, links.delay_ns, self.up[0])
            self.in_tree[:] = False
            used = self.up[0][self.up[0] >= 0]
            self.in_tree[used] = True
            self.in_tree[used ^ 1] = True
        for t, root in enumerate(self.roots.tolist() or [0]):
            if self.flood:
                _hang(root, *facts, self.in_tree, self.up[t])
            else:
                _shortest_paths(root, *facts, links.delay_ns, self.up[t])
            _number(
                root,
                self.up[t],
                links.target,
                self.enter[t],
                self.leave[t],
                self.child_start[t],
                self.child[t],
            )
        self._forwards: dict[tuple[int, int, int], tuple[int, ...]] = {}
        self._over: dict[tuple[int, int], frozenset[int]] = {}

    @cached_property
    def words(self) -> int:
        """64-bit words that hold one bit per link."""
        return (self.links.source.size + 63) // 64

    def masks(self) -> NDArray[np.uint64]:
        """For each home broker, one bit per link over which an interest from there travels."""
        mask = np.zeros((self.brokers, self.words), np.uint64)
        if self.flood:
            _away_masks(self.enter[0], self.leave[0], self.up[0], self.links.target, self.in_tree, mask)
        else:
            for t in range(self.roots.size):
                _path_masks(self.up[t], self.links.target, mask)
        return mask

    def forwards(self, broker: int, came_by: int, home: int) -> tuple[int, ...]:
        """The links over which `broker` passes on an interest from `home`.

        It came by the broker's own link `came_by`; -1 means from a client.
        """
        key = (broker, came_by, home)
        found = self._forwards.get(key)
        if found is None:
            found = self._forwards[key] = tuple(self._find_forwards(broker, came_by, home))
        return found

    def _find_forwards(self, broker: int, came_by: int, home: int) -> list[int]:
        links = self.links
        if self.flood:
            mine = links.out_link[links.out_start[broker] : links.out_start[broker + 1]]
            return [o for o in mine.tolist() if self.in_tree[o] and o != came_by]
        found: list[int] = []
        for t in range(self.roots.size):
            if self.on_path(t, broker, came_by, home):
                out = int(self.up[t, broker])
                if out >= 0 and out not in found:
                    found.append(out)
        return found

    def on_path(self, tree: int, broker: int, came_by: int, home: int) -> bool:
        """Whether an interest from `home` on its way to the root passes `broker`, coming by that link."""
        if came_by < 0:
            return broker == home
        below = int(self.links.target[came_by])
        return self.up[tree, below] == came_by ^ 1 and self.is_below(tree, below, home)

    def serves(self, link: int, home: int, cover_home: int) -> bool:
        """Whether an interest from `cover_home` that went over `link` draws there all that one from `home` would.

        On one tree always. With trees per publisher only if each tree that brings publications for `home` over
        the link brings them for `cover_home` too.
        """
        return self.flood or self._trees_over(link, home) <= self._trees_over(link, cover_home)

    def _trees_over(self, link: int, home: int) -> frozenset[int]:
        key = (link, home)
        found = self._over.get(key)
        if found is None:
            broker = int(self.links.source[link])
            found = self._over[key] = frozenset(
                t
                for t in range(self.roots.size)
                if self.up[t, broker] == link and self.is_below(t, broker, home)
            )
        return found

    def is_below(self, tree: int, broker: int, other: int) -> bool:
        """Whether `other` is in the subtree of `broker`, or is it."""
        return bool(self.enter[tree, broker] <= self.enter[tree, other] < self.leave[tree, broker])

    def towards(self, broker: int, other: int) -> int:
        """The link of a broker that leads to another one, on one tree for all."""
        for child in self.children(0, broker).tolist():
            if self.is_below(0, child, other):
                return int(self.up[0, child]) ^ 1
        return int(self.up[0, broker])

    def children(self, tree: int, broker: int) -> Ints32:
        start = self.child_start[tree]
        return self.child[tree, start[broker] : start[broker + 1]]


def order_key(routes: Routes, tree: NDArray[np.int64], home: Ints32, client: Ints) -> Ints:
    """Sorts what a publication answers along its tree, and at one broker by client."""
    return (routes.enter[np.maximum(tree, 0), home].astype(np.int64) << 32) | client


def shared_tree(node: Any, root: int | None = None) -> Routes:
    """One tree of the overlay for all of a service, made by the first of a shard's brokers; from `root`, if given."""
    if "routes" not in node.shared:
        env = node.env
        publishers = env.publisher_brokers if root is None else np.array([root], np.int32)
        node.shared["routes"] = Routes(env.links, env.overlay.is_tree, publishers, root is not None)
    return cast(Routes, node.shared["routes"])
