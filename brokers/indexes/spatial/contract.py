"""The reverse top-k contract: which subscriptions does a new object matter to?

Objects and subscriptions have an id, a place and a set of keywords. An object is *relevant* to a
subscription if they share a keyword; keywords only filter, distance ranks. For a query q, an object with
numbers k and delta >= 1, and a subscription s that shares a keyword with it:

    closer(s, q)        = {o relevant to s, o is not q : distance(s, o) < distance(s, q)}
    closer_delta(s, q)  = {o relevant to s, o is not q : delta * distance(s, o) < distance(s, q)}
    RT(q)       = {s : |closer(s, q)| < k}            q is among the k nearest; a tie counts for q
    RT_delta(q) = {s : |closer_delta(s, q)| < k}      q is at most delta times as far as the k-th nearest

`reverse` answers a set between the two: RT <= answer <= RT_delta. At delta = 1 it is RT. Indexes that say
`exact` answer RT at any delta, a function of query, subscription and held objects alone. The others may
answer anything in between, which depends on how they are laid out.

The queried object may be held or not. If its id is held, the held one does not count, wherever it is. What
"distance <" means in numbers is written in `brokers.indexes.spatial.geometry`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.errors import InvalidInput
from brokers.indexes.contract import Ids, Index, WorkCounters, checked_ids
from brokers.indexes.spatial.geometry import Floats, Geometry, geometry_named
from brokers.indexes.spatial.items import Items, Slots
from brokers.indexes.spatial.words import KeywordSets, Vocabulary, checked_sets

K_MAX = 1 << 20
_DELTA_PLAIN = 1e300  # a number from 1 to this is a delta without further questions
Keywords = KeywordSets | Sequence[Iterable[str]]


class BadQuery(InvalidInput):
    """A query that no reverse top-k index can answer."""


@dataclass
class SpatialCounters(WorkCounters):
    """`events` counts queries, `probed` tree nodes, `verified` leaf objects compared one by one."""

    groups: int = 0  # groups of subscriptions that an object tree was searched for
    subscriptions: int = 0  # subscriptions looked at one by one


class Queries(NamedTuple):
    """Checked queries: objects that may matter, and to how many they have to."""

    ids: Ids  # of the objects
    points: Floats
    keywords: KeywordSets  # those that the vocabulary knows; a set may be empty
    k: NDArray[np.int64]
    delta: Floats


class ReverseTopK(Index):
    """Objects come and expire, subscriptions come and go, and a query names the subscriptions it matters to.

    Input is checked here, all of it before anything is changed; an index implements what it does with
    the slots of `objects` and `subscriptions`.
    """

    question: ClassVar[str] = "reverse-topk"
    exact = False  # answers RT whatever delta is
    k_max = K_MAX

    def __init__(self, geometry: str = "plane", vocabulary: Vocabulary | None = None) -> None:
        self.geometry: Geometry = geometry_named(geometry)
        self.vocabulary = Vocabulary() if vocabulary is None else vocabulary
        self.counters: SpatialCounters = SpatialCounters()
        self.objects = Items("objects", self.geometry.axes)
        self.subscriptions = Items("subscriptions", self.geometry.axes)

    def __len__(self) -> int:
        """How many subscriptions it holds; of objects, `len(index.objects)`."""
        return len(self.subscriptions)

    # ---- changes -------------------------------------------------------------------------------------

    def insert_objects(self, ids: Any, places: Any, keywords: Keywords) -> None:
        """Objects arrive: ids int64[n], places float64[n, 2], a set of keywords each."""
        slots = self._add(self.objects, ids, places, keywords)
        if len(slots):
            self._objects_came(slots)

    def expire_objects(self, ids: Any) -> None:
        """Objects leave."""
        slots = self.objects.held(checked_ids(ids))
        if len(slots):
            self._objects_go(slots)
            self.objects.remove(slots)

    def insert_subscriptions(self, ids: Any, places: Any, keywords: Keywords) -> None:
        """Subscriptions come: ids int64[n], places float64[n, 2], a set of keywords each."""
        slots = self._add(self.subscriptions, ids, places, keywords)
        if len(slots):
            self._subscriptions_came(slots)

    def delete_subscriptions(self, ids: Any) -> None:
        """Subscriptions go."""
        slots = self.subscriptions.held(checked_ids(ids))
        if len(slots):
            self._subscriptions_go(slots)
            self.subscriptions.remove(slots)

    # ---- questions -----------------------------------------------------------------------------------

    def queries(self, ids: Any, places: Any, keywords: Keywords, k: Any, delta: Any = 1.0) -> Queries:
        """Objects as queries; k and delta one for all, or one each. An object may be asked repeatedly."""
        numbers = _query_ids(ids)
        points = self.geometry.points(places, len(numbers), "queries")
        sets = self._encoded(keywords, len(numbers), "queries", enter=False)
        return Queries(numbers, points, sets, self._ks(k, len(numbers)), _deltas(delta, len(numbers)))

    def reverse(self, queries: Queries) -> tuple[Ids, Ids]:
        """(ptr int64[n + 1], ids): query i matters to ids[ptr[i]:ptr[i + 1]], ascending."""
        if len(queries.k) and queries.k.max() > self.k_max:
            raise BadQuery(f"k is {queries.k.max()}; this index is built for 1..{self.k_max}")
        ptr, slots = self._reverse(queries)
        self.counters.events += len(queries.ids)
        self.counters.matched += len(slots)
        ids = self.subscriptions.ids[slots]
        if len(ptr) == 2:
            ids.sort()
            return ptr, ids
        order = np.lexsort((ids, np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))))
        return ptr, ids[order]

    def kth_distances(self, ids: Any, k: int) -> Floats:
        """Per subscription the distance of its k-th nearest relevant object, infinite if there are fewer."""
        slots = self.subscriptions.held(checked_ids(ids))
        return self.geometry.length(self._kth_squared(slots, self._one_k(k)))

    def kth_distance(self, subscription: int, k: int) -> float:
        """The same for one subscription."""
        return float(self.kth_distances([subscription], k)[0])

    def kth_squared(self, k: int, ids: Any = None) -> tuple[Slots, Floats]:
        """The slots of these subscriptions, or of all by ascending id, and the squared k-th distance of each."""
        slots = self.subscriptions.all_slots() if ids is None else self.subscriptions.held(checked_ids(ids))
        return slots, self._kth_squared(slots, self._one_k(k))

    def memory_bytes(self) -> int:
        """Bytes of all arrays; the strings of the vocabulary, which may be shared, are not counted."""
        return self.objects.memory_bytes() + self.subscriptions.memory_bytes()

    def check(self) -> None:
        """Raise AssertionError unless every invariant holds."""
        self.objects.check()
        self.subscriptions.check()

    # ---- what an index implements --------------------------------------------------------------------

    @abstractmethod
    def _objects_came(self, slots: Slots) -> None: ...

    @abstractmethod
    def _objects_go(self, slots: Slots) -> None:
        """The slots still hold the objects, and are freed after this."""

    @abstractmethod
    def _subscriptions_came(self, slots: Slots) -> None: ...

    @abstractmethod
    def _subscriptions_go(self, slots: Slots) -> None:
        """The slots still hold the subscriptions, and are freed after this."""

    @abstractmethod
    def _reverse(self, queries: Queries) -> tuple[Ids, Slots]:
        """(ptr, slots of subscriptions), each at most once per query, in any order."""

    @abstractmethod
    def _kth_squared(self, slots: Slots, k: int) -> Floats:
        """Squared, of each subscription's k-th nearest relevant object; inf if there are fewer."""

    # ---- checks --------------------------------------------------------------------------------------

    def _add(self, items: Items, ids: Any, places: Any, keywords: Keywords) -> Slots:
        fresh = checked_ids(ids)
        items.refuse_held(fresh)
        points = self.geometry.points(places, len(fresh), items.what)
        sets = self._encoded(keywords, len(fresh), items.what, enter=True)
        return items.add(fresh, points, sets)

    def _encoded(self, keywords: Keywords, count: int, what: str, enter: bool) -> KeywordSets:
        if isinstance(keywords, KeywordSets):
            rows = len(keywords.ptr) - 1
            encoded = checked_sets(keywords, len(self.vocabulary), what)
        else:
            rows = len(keywords) if hasattr(keywords, "__len__") else -1
            if rows == count:
                encoded = (self.vocabulary.encode if enter else self.vocabulary.known)(keywords)
        if rows != count:
            raise InvalidInput(f"{rows} sets of keywords for {count} {what}; pass a list with one set each")
        return encoded

    def _ks(self, k: Any, count: int) -> NDArray[np.int64]:
        """The k of each query."""
        if type(k) is int and 1 <= k <= self.k_max:  # one for all, as networks ask
            return np.full(count, k, np.int64)
        ks = _per_query(k, count, "k")
        if ks.dtype.kind not in "iu":
            raise BadQuery(f"k is of type {ks.dtype}; pass integers")
        _refuse((ks < 1) | (ks > self.k_max), ks, "k", f"it lies in 1..{self.k_max}")
        return ks.astype(np.int64)

    def _one_k(self, k: Any) -> int:
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or not 1 <= k <= self.k_max:
            raise BadQuery(f"k is {k!r}; pass an integer in 1..{self.k_max}")
        return int(k)


def _query_ids(ids: Any) -> Ids:
    """Ids of queried objects: as `checked_ids`, but one may be named repeatedly."""
    if (type(ids) is list and len(ids) == 1) or (type(ids) is np.ndarray and ids.shape == (1,)):
        return checked_ids(ids).copy()
    distinct, place = np.unique(np.asarray(ids), return_inverse=True)
    if np.asarray(ids).ndim != 1:
        return checked_ids(ids)  # which refuses it
    return checked_ids(distinct)[place]


def _deltas(delta: Any, count: int) -> Floats:
    """The delta of each query."""
    if type(delta) in (int, float) and 1 <= delta <= _DELTA_PLAIN:
        return np.full(count, delta, np.float64)
    deltas = _per_query(delta, count, "delta")
    if deltas.dtype.kind not in "iuf":
        raise BadQuery(f"delta is of type {deltas.dtype}; pass numbers")
    _refuse(~((deltas >= 1) & np.isfinite(deltas)), deltas, "delta", "it is at least 1 and finite")
    return deltas.astype(np.float64)


def _per_query(value: Any, count: int, name: str) -> NDArray[Any]:
    array = np.asarray(value)
    if array.shape not in ((), (count,)):
        raise BadQuery(f"{name} has shape {array.shape}; pass one number, or one for each of {count} queries")
    if array.size == 0:
        return np.empty(0, np.int64)
    return np.ascontiguousarray(np.broadcast_to(array, (count,)))


def _refuse(wrong: NDArray[np.bool_], values: NDArray[Any], name: str, why: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BadQuery(f"query {row}: {name} is {values[row]:g}; {why}")
