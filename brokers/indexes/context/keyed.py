"""AGILE on a binary search tree and on a hash table: the paper's plain examples, for one key per id.

Both keep K(i), the keys with which an id is associated: `probe(k)` is {i : k in K(i)}, and the id's key is always
in K(i). An update whose key is in K(i) changes nothing; another one escalates, K grows; a de-escalation
shrinks it. Plain Python: they show the idea and pin it to the paper's figures; the filter runs on skip lists.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from brokers.errors import InvalidInput
from brokers.indexes.contract import DuplicateId, UnknownId, claim

Region = tuple[float, float, bool]  # low, high, whether the ends belong to it
EVERYTHING: Region = (-math.inf, math.inf, True)


class KeyedIndex(ABC):
    """Ids, each with one key."""

    def __init__(self) -> None:
        self._keys: dict[int, float] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def insert(self, id_: int, key: float) -> None:
        """Add an id; K is its key."""
        if id_ in self._keys:
            raise DuplicateId(f"id {id_} is in the index already; delete it first")
        self._keys[id_] = _checked(key)
        self._place(id_)

    def delete(self, id_: int) -> None:
        """Remove an id."""
        self._known(id_)
        self._displace(id_)
        del self._keys[id_]

    def update(self, id_: int, key: float) -> bool:
        """Change the key; whether that escalated the id."""
        self._known(id_)
        outside = not contains(self.region(id_), _checked(key))
        self._keys[id_] = key
        if outside:
            self._escalate(id_)
        return outside

    def deescalate(self, id_: int) -> bool:
        """Shrink K by a step towards the key; whether there was anything to do."""
        self._known(id_)
        if self.region(id_)[0] == self.region(id_)[1]:
            return False
        self._deescalate(id_)
        return True

    def probe(self, key: float) -> set[int]:
        """The ids whose K contains the key."""
        return self._probe(_checked(key))

    @abstractmethod
    def region(self, id_: int) -> Region:
        """K of an id."""

    @abstractmethod
    def _probe(self, key: float) -> set[int]: ...

    @abstractmethod
    def _place(self, id_: int) -> None: ...

    @abstractmethod
    def _displace(self, id_: int) -> None: ...

    @abstractmethod
    def _escalate(self, id_: int) -> None: ...

    @abstractmethod
    def _deescalate(self, id_: int) -> None: ...

    def check(self) -> None:
        """The one invariant."""
        for id_, key in self._keys.items():
            claim(contains(self.region(id_), key), "the key of an id is in its region")

    def _known(self, id_: int) -> None:
        if id_ not in self._keys:
            raise UnknownId(f"id {id_} is not in the index")


class AgileHash(KeyedIndex):
    """Equality: K is the key or everything. Probe O(1 + answers), update and de-escalation O(1)."""

    def __init__(self) -> None:
        super().__init__()
        self._buckets: dict[float, set[int]] = {}
        self._home: dict[int, float] = {}  # id -> the key of its bucket
        self._escalated: set[int] = set()

    def region(self, id_: int) -> Region:
        self._known(id_)
        return EVERYTHING if id_ in self._escalated else (self._home[id_], self._home[id_], True)

    def _probe(self, key: float) -> set[int]:
        return self._buckets.get(key, set()) | self._escalated

    def _place(self, id_: int) -> None:
        self._home[id_] = self._keys[id_]
        self._buckets.setdefault(self._keys[id_], set()).add(id_)

    def _displace(self, id_: int) -> None:
        if id_ in self._escalated:
            self._escalated.discard(id_)
            return
        home = self._home.pop(id_)
        self._buckets[home].discard(id_)
        if not self._buckets[home]:
            del self._buckets[home]

    def _escalate(self, id_: int) -> None:
        self._displace(id_)
        self._escalated.add(id_)

    def _deescalate(self, id_: int) -> None:
        self._escalated.discard(id_)
        self._place(id_)

    def check(self) -> None:
        """Every invariant. O(ids)."""
        super().check()
        listed = [id_ for bucket in self._buckets.values() for id_ in bucket]
        claim(sorted([*listed, *self._escalated]) == sorted(self._keys), "an id is in one bucket, or escalated")


@dataclass(eq=False)
class _Node:
    """A key, and three sets of ids. `low` and `high` are the keys between which a descent comes here.

    The paper writes ]-inf, key[ for the left set; but only keys above `low` are ever sought here, so that K is
    ]low, key[, and an update below `low` has to escalate.
    """

    key: float
    low: float
    high: float
    parent: _Node | None
    below: _Node | None = None
    above: _Node | None = None
    left: set[int] = field(default_factory=set)
    exact: set[int] = field(default_factory=set)
    right: set[int] = field(default_factory=set)

    def region(self, side: str) -> Region:
        if side == "exact":
            return self.key, self.key, True
        return (self.low, self.key, False) if side == "left" else (self.key, self.high, False)

    def side_of(self, key: float) -> str:
        return "exact" if key == self.key else "left" if key < self.key else "right"


class AgileTree(KeyedIndex):
    """A binary search tree. Everything O(depth); nodes stay, so that regions do."""

    def __init__(self) -> None:
        super().__init__()
        self._root: _Node | None = None
        self._place_of: dict[int, tuple[_Node, str]] = {}
        self._everywhere: set[int] = set()

    def region(self, id_: int) -> Region:
        self._known(id_)
        if id_ in self._everywhere:
            return EVERYTHING
        node, side = self._place_of[id_]
        return node.region(side)

    def at_least(self, key: float) -> set[int]:
        """The ids whose K reaches up to the key or beyond. O(ids)."""
        _checked(key)
        return {i for i in self._keys if (r := self.region(i))[1] > key or (r[1] == key and r[2])}

    def _probe(self, key: float) -> set[int]:
        found, node = set(self._everywhere), self._root
        while node is not None:
            found |= getattr(node, node.side_of(key))
            node = None if key == node.key else node.below if key < node.key else node.above
        return found

    def _place(self, id_: int) -> None:
        key, node = self._keys[id_], self._root
        if node is None:
            node = self._root = _Node(key, -math.inf, math.inf, None)
        while node.key != key:
            node = self._child(node, key)
        self._put(id_, node, "exact")

    def _displace(self, id_: int) -> None:
        if id_ in self._everywhere:
            self._everywhere.discard(id_)
        else:
            node, side = self._place_of.pop(id_)
            getattr(node, side).discard(id_)

    def _escalate(self, id_: int) -> None:
        """To the lowest ancestor's set that covers both the old region and the new key."""
        child = self._place_of[id_][0]
        self._displace(id_)
        while (node := child.parent) is not None:
            side = "left" if child is node.below else "right"
            if contains(node.region(side), self._keys[id_]):
                self._put(id_, node, side)
                return
            child = node
        self._everywhere.add(id_)

    def _deescalate(self, id_: int) -> None:
        key = self._keys[id_]
        if id_ in self._everywhere:
            self._displace(id_)
            if self._root is None or self._root.key == key:
                self._place(id_)
            else:
                self._put(id_, self._root, self._root.side_of(key))
            return
        node, _ = self._place_of[id_]
        self._displace(id_)
        child = self._child(node, key)
        self._put(id_, child, child.side_of(key))

    def _put(self, id_: int, node: _Node, side: str) -> None:
        getattr(node, side).add(id_)
        self._place_of[id_] = node, side

    def _child(self, node: _Node, key: float) -> _Node:
        """The child on the key's side, made with this key if there is none."""
        if key < node.key:
            if node.below is None:
                node.below = _Node(key, node.low, node.key, node)
            return node.below
        if node.above is None:
            node.above = _Node(key, node.key, node.high, node)
        return node.above

    def check(self) -> None:
        """Every invariant. O(ids)."""
        super().check()
        claim(sorted([*self._place_of, *self._everywhere]) == sorted(self._keys), "an id stands in one place")
        for id_, (node, side) in self._place_of.items():
            claim(id_ in getattr(node, side), "an id is in the set that it names")
            claim(node.low < node.key < node.high, "a node's key lies between those of its ancestors")


def contains(region: Region, key: float) -> bool:
    """Whether a key lies in a region."""
    low, high, closed = region
    return low <= key <= high if closed else low < key < high


def _checked(key: float) -> float:
    if not math.isfinite(key):
        raise InvalidInput(f"key {key!r} is not finite")
    return key
