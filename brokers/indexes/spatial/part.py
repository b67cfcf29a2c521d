"""PART: search the keyword trees once per group of subscriptions, look at single ones where a group is left.

The algorithms 1 to 3 of the paper, with these readings:
- A pair of query and subscription that shares several keywords is decided in the group of the first one only.
  Any group's verdict is sound, so nothing is gained by asking again.
- O+ is a set over all keywords of a subscription from the start, so that it is full as early as possible.
- `check="strict"` counts objects that are closer than the query in the last step, `"delta"` those that are
  delta times closer. Both keep the promise; strict answers fewer beyond RT.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.contract import Ids
from brokers.indexes.spatial import search
from brokers.indexes.spatial.contract import Queries, ReverseTopK
from brokers.indexes.spatial.geometry import Floats
from brokers.indexes.spatial.items import Slots
from brokers.indexes.spatial.trees import KeywordTrees
from brokers.indexes.spatial.words import Vocabulary

FAN_OUT = 16
GROUP_SIZE = 32
LEAVES_MAX = 32  # that a group keeps; a subscription's own search visits fewer nodes than that
_CHECKS = ("strict", "delta")


class Treed(ReverseTopK):
    """Keyword trees over objects, and over subscriptions, whose leaves are the groups."""

    def __init__(
        self,
        geometry: str = "plane",
        vocabulary: Vocabulary | None = None,
        *,
        fan_out: int = FAN_OUT,
        group_size: int = GROUP_SIZE,
    ) -> None:
        super().__init__(geometry, vocabulary)
        self.trees = KeywordTrees(self.objects, _size(fan_out, "fan_out"))
        self.groups = KeywordTrees(self.subscriptions, _size(group_size, "group_size"))
        self._kept = _scratch(0, 0, 0, 0, 0)

    def memory_bytes(self) -> int:
        """Bytes of all arrays, scratch included."""
        scratch = sum(array.nbytes for array in self._kept)
        return super().memory_bytes() + self.trees.memory_bytes() + self.groups.memory_bytes() + scratch

    def check(self) -> None:
        """Every invariant. O(nodes * fan-out)."""
        super().check()
        self.trees.check()
        self.groups.check()

    def _objects_came(self, slots: Slots) -> None:
        self.trees.insert(slots)

    def _objects_go(self, slots: Slots) -> None:
        self.trees.delete(slots)

    def _subscriptions_came(self, slots: Slots) -> None:
        self.groups.insert(slots)

    def _subscriptions_go(self, slots: Slots) -> None:
        self.groups.delete(slots)

    def _kth_squared(self, slots: Slots, k: int) -> Floats:
        """O(log n) expected each, and more where few objects are near."""
        work = self._scratch(k)
        squared, _ = search.nearest(self._world(), slots, k, work)
        self._count(work)
        return squared[:, k - 1].copy()

    def _world(self) -> search.World:
        return search.World(
            self.trees.forest, self.groups.forest, self.subscriptions.points, self.subscriptions.words
        )

    def _asked(self, queries: Queries) -> search.Asked:
        ptr, words = queries.keywords
        own = self.objects.find(queries.ids)
        return search.Asked(queries.points, ptr, words, queries.k, queries.delta, own)

    def _scratch(self, k: int) -> search.Scratch:
        """Room for a call with at most this k."""
        old, fan_out = self._kept, max(self.trees.fan_out, self.groups.fan_out)
        slots, nodes = len(self.objects.ids), len(self.trees.forest.meta)
        groups = len(self.groups.forest.meta)
        needs = ((old.seen, slots), (old.key, nodes), (old.group_stack, groups), (old.found, k + 2))
        if any(len(array) < need for array, need in needs) or len(old.near) < fan_out:
            self._kept = _scratch(slots, nodes, groups, k + 2, fan_out)
        return self._kept

    def _count(self, work: search.Scratch) -> None:
        """Move the kernels' counters to the index."""
        self.counters.groups += int(work.state[search.GROUPS])
        self.counters.probed += int(work.state[search.NODES])
        self.counters.verified += int(work.state[search.OBJECTS])
        self.counters.subscriptions += int(work.state[search.SUBSCRIPTIONS])
        work.state[search.GROUPS :] = 0


class Part(Treed):
    """One query at a time. Changes O(log n) per keyword; a query O(groups of its keywords * log objects)."""

    def __init__(
        self,
        geometry: str = "plane",
        vocabulary: Vocabulary | None = None,
        *,
        fan_out: int = FAN_OUT,
        group_size: int = GROUP_SIZE,
        check: str = "strict",
    ) -> None:
        super().__init__(geometry, vocabulary, fan_out=fan_out, group_size=group_size)
        if check not in _CHECKS:
            raise InvalidInput(f"check is {check!r}; pass one of {', '.join(_CHECKS)}")
        self._strict = check == "strict"

    def _reverse(self, queries: Queries) -> tuple[Ids, Slots]:
        work = self._scratch(int(queries.k.max(initial=1)))
        ptr, slots = search.part(self._world(), self._asked(queries), self._strict, work)
        self._count(work)
        return ptr, slots


def _scratch(slots: int, nodes: int, groups: int, found: int, fan_out: int) -> search.Scratch:
    def integers(size: int) -> NDArray[np.int32]:
        return np.zeros(size, np.int32)

    return search.Scratch(
        np.zeros(search.STATE_LENGTH, np.int64), np.zeros(slots, np.int64), integers(found), np.zeros(nodes),
        integers(nodes), integers(nodes), integers(LEAVES_MAX), integers(nodes), np.zeros(fan_out),
        np.zeros(fan_out), integers(groups),
    )  # fmt: skip


def _size(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 2 <= value <= 1024:
        raise InvalidInput(f"{name} is {value!r}; pass an integer in 2..1024")
    return int(value)
