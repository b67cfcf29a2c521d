"""A tree together with what the paths in it are made of; an H-Tree has one, and two while its content moves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.indexes.content import htree_probe as probe
from brokers.indexes.content.cells_plan import crowding
from brokers.indexes.content.contract import Floats
from brokers.indexes.content.htree_domain import Domain
from brokers.indexes.content.htree_kernels import BUCKETS_USED
from brokers.indexes.content.htree_plan import TreeShape
from brokers.indexes.content.htree_store import SingleStore
from brokers.indexes.content.htree_tree import Codes, Paths, Places, Slots, Tree

UNCOUNTED = np.zeros((0, 256), np.int32)

Described = tuple[Paths, Codes, Slots | slice, int, int]


class Side:
    """Positions, shape and tree. `index` is 0 or 1; `usual` says how crowded the cells of a sample are."""

    def __init__(self, domain: Domain, plan: TreeShape, places: Places, index: int = 0,
                 like: Side | None = None) -> None:
        self.domain, self.plan, self.index = domain, plan, index
        self.tree: Tree = Tree(plan.array(), places, index, None if like is None else like.tree)
        self.level_of = np.full(len(domain.first) - 1, -1, np.int64)
        self.level_of[list(plan.attributes)] = np.arange(len(plan.attributes))
        self.usual: Floats = np.zeros(2 * len(plan.attributes))
        self.left = 0  # buckets that may hold something, while the content moves away

    @property
    def asked(self) -> tuple[Any, ...]:
        """What the kernel that matches reads."""
        tree, domain = self.tree, self.domain
        return tree.nodes, tree.buckets, tree.quick, tree.owner, tree.state, tree.plan, domain.knots, domain.first

    def described(
        self, store: SingleStore, slots: Slots, seen: NDArray[np.uint8], tally: NDArray[np.int32] = UNCOUNTED
    ) -> Described:
        """(path, code and place in `slots` of each entry, ranges on indexed attributes, too wide ones)."""
        count = len(slots)
        paths = np.empty((count, len(self.plan.attributes)), np.uint8)
        spans, codes = np.empty_like(paths), np.empty(count, np.uint64)
        ranges, wide = probe.describe(
            store.attribute, store.ends, slots, self.tree.plan, self.level_of,
            self.domain.knots, self.domain.first, seen, paths, spans, codes, tally,
        )
        if self.plan.overlapping:
            return paths, codes, slice(None), ranges, wide
        paths, which = _copies(paths, spans)
        return paths, codes[which], which, ranges, wide

    def learn_usual(self, store: SingleStore, slots: Slots, seen: NDArray[np.uint8]) -> None:
        """How crowded cells are with these subscriptions, a sample."""
        tally = np.zeros((2 * len(self.plan.attributes), 256), np.int32)
        self.described(store, slots, seen, tally)
        self.usual = crowding(tally)

    def leave(self) -> None:
        """From here on the content moves away."""
        self.left = int(self.tree.state[BUCKETS_USED])

    def memory_bytes(self) -> int:
        return self.tree.memory_bytes() + self.domain.memory_bytes() + self.level_of.nbytes


def _copies(paths: Paths, spans: Paths) -> tuple[Paths, Slots]:
    """One path per combination of the cells that a subscription touches, and whose it is."""
    which = np.arange(len(paths))
    for level in range(paths.shape[1]):
        again = np.flatnonzero(spans[which, level] > 1)
        further = paths[again]
        further[:, level] += 1
        paths, which = np.concatenate([paths, further]), np.concatenate([which, which[again]])
    return paths, which
