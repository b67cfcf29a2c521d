"""The arrays of `protocols.spatial.kernels` for one shard: room for what comes, and objects by what they are.

Subscriptions and objects are numbered here, heads and topics by the kernels, which take them from stacks of free ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.contract import Floats, Ints, Ints32, ShardEnv
from brokers.indexes.ids import IdMap
from brokers.indexes.spatial.geometry import geometry_named
from brokers.records import Record
from protocols.spatial import asking
from protocols.spatial.kernels import FLOOD, HEADS, K_MAX, TOPICS, WINDOWED, WORD_BITS, rehash
from protocols.spatial.kind import OBJECT_KEYWORDS, Spatial, keywords_of

REFUSED = -2  # in place of an object: the body is none

_WIDE = {"head_id", "head_since"}
_OBJECTS = ("point", "word", "uses", "bytes")
_HEADS = ("head_broker", "head_id", "head_object", "head_link", "head_since", "head_topic", "head_next", "head_prev")
_TOPICS = ("topic_broker", "topic_word", "here", "wanting", "first_head", "last_head", "first_sub")
_SUBS = (
    "sub_point", "sub_word", "sub_broker", "sub_client", "sub_id", "waiting", "sub_topic", "sub_next", "sub_prev",
    "near", "squared", "held",
)  # fmt: skip
_BODIES = ("body_object", "body_generation", "body_k")


class Object(NamedTuple):
    """What brokers tell each other of an object."""

    place: tuple[float, float]
    words: tuple[int, ...]
    bytes: int  # of its payload


class Keys(IdMap):
    """Links and keywords, as `keys_of` makes one number of them, each with a slot that others may come to have."""

    def __init__(self) -> None:
        super().__init__()
        self.used = 0  # slots below this have been given out
        self._free: list[int] = []

    def enter(self, keys: Ints) -> Ints:
        """Enter those that are not there; returns them."""
        fresh: Ints = keys[self.find(keys) < 0]
        again = min(fresh.size, len(self._free))
        slots = np.arange(self.used - again, self.used - again + fresh.size)
        if again:
            slots[:again] = self._free[-again:]
            del self._free[-again:]
        self.used += fresh.size - again
        self.add(fresh, slots)
        return fresh

    def leave(self, keys: Ints) -> Ints:
        """Take out those that are there; returns them."""
        slots = self.find(keys)
        gone: Ints = keys[slots >= 0]
        self._free.extend(slots[slots >= 0].tolist())
        self.remove(gone)
        return gone


class Known:
    """See the module."""

    def __init__(
        self, env: ShardEnv, kind: Spatial, in_tree: NDArray[np.bool_], flood: bool, windowed: bool, record: Record,
        more: dict[str, NDArray[Any]],
    ) -> None:
        self.env = env
        self.kind = kind
        self.geometry = geometry_named(kind.geometry)
        self.wants, self.asked = Keys(), Keys()
        self._more_columns = more  # of a record that has more; its owner replaces them
        self._moved = False  # whether the record names arrays that there are no more
        self._columns: dict[str, NDArray[Any]] | None = None
        self.objects: list[Object | None] = []  # by number
        self.sub_id: list[int] = []  # by slot
        self.sub_words: list[tuple[int, ...]] = []
        self.sub_place: list[tuple[float, float]] = []
        self.slot_of: dict[int, int] = {}  # of subscriptions
        self._number_of: dict[Object, int] = {}
        self._free_objects: list[int] = []
        self._free_subs: list[int] = []
        axes, capacity = self.geometry.axes, 2 * (kind.k_max + 1)
        self.arrays: dict[str, NDArray[Any]] = {
            "point": np.zeros((0, axes)), "word": np.zeros((0, 1), np.int32), "uses": np.zeros(0, np.int32),
            "bytes": np.zeros(0, np.int64),
            **{name: np.zeros(0, np.int32) for name in _BODIES},
            **{name: np.zeros(0, np.int64 if name in _WIDE else np.int32) for name in _HEADS[:5]},
            **{name: np.zeros((0, 1), np.int32) for name in _HEADS[5:]},
            **{name: np.zeros(0, np.int32) for name in _TOPICS},
            "head_place": np.full(8, -1, np.int32), "head_free": np.zeros(0, np.int32),
            "topic_place": np.full(8, -1, np.int32), "topic_free": np.zeros(0, np.int32),
            "sub_point": np.zeros((0, axes)), "sub_word": np.zeros((0, 1), np.int32),
            "sub_broker": np.zeros(0, np.int32), "sub_client": np.zeros(0, np.int32), "waiting": np.zeros(0, np.bool_),
            "sub_id": np.zeros(0, np.int64),
            **{name: np.zeros((0, 1), np.int32) for name in ("sub_topic", "sub_next", "sub_prev")},
            "near": np.zeros((0, capacity), np.int32), "squared": np.zeros((0, capacity)),
            "held": np.zeros(0, np.int32), "found": np.zeros(0, np.int32),
            "subscriptions": np.zeros(env.brokers, np.int64), "heads": np.zeros(env.brokers, np.int64),
            "in_tree": in_tree, "facts": np.zeros(4, np.int64), "spare": np.zeros(2, np.int64),
        }  # fmt: skip
        self.facts = self.arrays["facts"]
        self.facts[FLOOD], self.facts[WINDOWED], self.facts[K_MAX] = flood, windowed, kind.k_max
        self.spare = self.arrays["spare"]
        self._grow(_OBJECTS, 64)
        self._grow(_SUBS, 64)
        self.arrays["found"] = np.zeros(64, np.int32)
        self.make_room(64)
        self._held = record.of(self.columns())

    def columns(self) -> dict[str, NDArray[Any]]:
        """The arrays of the record; the same dict as long as they are the same arrays."""
        if self._columns is None:
            self._columns = self._named()
        return self._columns

    def _named(self) -> dict[str, NDArray[Any]]:
        return {
            **self.arrays, **self._more_columns,
            "want_keys": self.wants.keys, "want_slots": self.wants.slots,
            "asked_keys": self.asked.keys, "asked_slots": self.asked.slots,
        }  # fmt: skip

    def moved(self) -> None:
        """An array was replaced."""
        self._moved, self._columns = True, None

    @property
    def record(self) -> Any:
        """What kernels take."""
        if self._moved:
            self._moved = False
            self._held.follow(self.columns())
        return self._held

    def memory_bytes(self) -> int:
        """Of all arrays."""
        return sum(array.nbytes for array in self.columns().values())

    # ---- room ----------------------------------------------------------------------------------------

    def _grow(self, names: Iterable[str], rows: int) -> None:
        self.moved()
        for name in names:
            old = self.arrays[name]
            grown = np.zeros((rows, *old.shape[1:]), old.dtype)
            grown[: len(old)] = old
            self.arrays[name] = grown

    def make_room(self, heads: int, topics: int = 0) -> None:
        """Have room for so many more heads with their topics, and for so many topics beside."""
        if self.spare[HEADS] < heads:
            self._more(HEADS, _HEADS, "head", "head_id", heads)
        topics += heads * self.arrays["word"].shape[1]
        if self.spare[TOPICS] < topics:
            self._more(TOPICS, _TOPICS, "topic", "topic_word", topics)

    def _more(self, which: int, names: tuple[str, ...], what: str, numbers: str, needed: int) -> None:
        """More heads or topics, at least twice as many."""
        arrays, spare = self.arrays, int(self.spare[which])
        old = len(arrays[names[0]])
        size = max(2 * old, old + needed - spare, 64)
        used = np.ones(size, np.bool_)
        used[arrays[f"{what}_free"][:spare]] = used[old:] = False
        self._grow(names, size)
        free = np.empty(size, np.int32)
        free[: size - old] = np.arange(size - 1, old - 1, -1)
        free[size - old : size - old + spare] = arrays[f"{what}_free"][:spare]
        arrays[f"{what}_free"] = free
        self.moved()
        self.spare[which] = size - old + spare
        arrays[f"{what}_place"] = np.full(1 << (2 * size - 1).bit_length(), -1, np.int32)
        rehash(arrays[f"{what}_place"], arrays[f"{what}_broker"], arrays[numbers].astype(np.int64), used)

    def _widen(self, name: str, nodes: tuple[str, ...], ends: tuple[str, ...], width: int) -> None:
        """So many keywords at most; nodes of lists, a row and a column in one number, become others."""
        arrays = self.arrays
        self.moved()
        old = arrays[name].shape[1]

        def moved(numbers: NDArray[Any]) -> NDArray[Any]:
            return np.where(numbers < 0, numbers, numbers // old * width + numbers % old).astype(np.int32)

        for table in (name, *nodes):
            wider = np.full((len(arrays[table]), width), -1, np.int32)
            wider[:, :old] = arrays[table] if table == name or "topic" in table else moved(arrays[table])
            arrays[table] = wider
        for end in ends:
            arrays[end] = moved(arrays[end])

    # ---- keywords that neighbours want, and are asked for ------------------------------------------------

    def add_keys(self, table: Keys, keys: Ints) -> Ints:
        """Enter those that are not there; returns them."""
        fresh = table.enter(keys)
        self.moved()
        return fresh

    def remove_keys(self, table: Keys, keys: Ints) -> Ints:
        """Take out those that are there; returns them."""
        return table.leave(keys)

    def count_wanting(self, brokers: Ints, words: Ints, by: int) -> None:
        """So many more neighbours of brokers want keywords, or fewer."""
        self.make_room(0, words.size)
        asking.count_wanting(self.record, brokers, words, by)

    # ---- objects -------------------------------------------------------------------------------------

    def number(self, thing: Object) -> int:
        """The number of an object, which is in use from now on or may be another's after the next call of `note`."""
        number = self._number_of.get(thing)
        if number is None:
            point = self.geometry.points([thing.place], 1, "objects")[0]
            number = self._enter(thing, point)
        return number

    def _enter(self, thing: Object, point: Floats) -> int:
        if not self._free_objects:
            if len(self.objects) == len(self.arrays["point"]):
                self._grow(_OBJECTS, 2 * len(self.objects))
            self._free_objects.append(len(self.objects))
            self.objects.append(None)
        number = self._free_objects.pop()
        if len(thing.words) > self.arrays["word"].shape[1]:
            self._widen("word", ("head_topic", "head_next", "head_prev"), ("first_head", "last_head"), len(thing.words))
            self.make_room(0)
        word = self.arrays["word"][number]
        word[:] = -1
        word[: len(thing.words)] = thing.words
        self.arrays["point"][number] = point
        self.arrays["uses"][number] = 0
        self.arrays["bytes"][number] = thing.bytes
        self.objects[number] = thing
        self._number_of[thing] = number
        return number

    def note(self, bodies: Ints32) -> None:
        """Know the objects that these bodies are."""
        table, arrays = self.env.bodies, self.arrays
        if len(arrays["body_object"]) < table.capacity:
            old = len(arrays["body_object"])
            self._grow(_BODIES, table.capacity)
            arrays["body_generation"][old:] = -1
        stale = arrays["body_generation"][bodies] != table.generation[bodies]
        if not np.count_nonzero(stale):
            return
        fresh = np.unique(bodies[stale])
        if len(self._free_objects) < len(fresh) and len(self.objects) + len(fresh) > len(arrays["point"]):
            self._sweep()
        rows = table.values(fresh)
        good = self._good(rows)
        points = self.geometry.points(np.where(good[:, None], rows[:, :2], 0.0), len(rows), "objects")
        for body, row, point, well in zip(fresh.tolist(), rows, points, good.tolist()):
            number, k = REFUSED, 0.0
            if well:
                x, y, k, size = map(float, row[:OBJECT_KEYWORDS].tolist())
                thing = Object((x, y), keywords_of(row, OBJECT_KEYWORDS), int(size))
                known = self._number_of.get(thing)
                number = self._enter(thing, point) if known is None else known
            self.arrays["body_object"][body], self.arrays["body_k"][body] = number, int(k)
        self.arrays["body_generation"][fresh] = table.generation[fresh]

    def _good(self, rows: Floats) -> NDArray[np.bool_]:
        """Which rows are objects, as `Spatial.check` and `Spatial.asked` have it."""
        words, k = rows[:, OBJECT_KEYWORDS:], rows[:, 2]
        there = ~np.isnan(words)
        whole = (words >= 0) & (words < self.kind.params["keywords"]) & (words == np.floor(words))
        inside = (np.abs(rows[:, :2]) <= self.geometry.limits).all(axis=1)
        asked = (k >= 1) & (k <= self.kind.k_max) & (k == np.floor(k))
        found: NDArray[np.bool_] = (
            inside & asked & np.isfinite(rows[:, 3]) & there.any(axis=1) & (whole | ~there).all(axis=1)
        )
        return found

    def _sweep(self) -> None:
        """Find the numbers of objects that no broker knows and no body is."""
        table, arrays = self.env.bodies, self.arrays
        size = min(len(arrays["body_object"]), table.capacity)
        live = (arrays["body_generation"][:size] == table.generation[:size]) & table.alive[:size]
        needed = arrays["uses"][: len(self.objects)] > 0
        of_bodies = arrays["body_object"][:size][live]
        needed[of_bodies[of_bodies >= 0]] = True
        arrays["body_generation"][:size][~live] = -1
        for number in np.flatnonzero(~needed).tolist():
            thing = self.objects[number]
            if thing is not None:
                del self._number_of[thing]
                self.objects[number] = None
                self._free_objects.append(number)

    # ---- heads ---------------------------------------------------------------------------------------

    def head(self, broker: int, id: int) -> int:
        """The head of an object at a broker; -1 if it is not known there."""
        return int(asking.head_at(self.record, broker, id))

    def head_object(self, head: int) -> int:
        return int(self.arrays["head_object"][head])

    # ---- subscriptions -------------------------------------------------------------------------------

    def add(self, id: int, place: tuple[float, float], words: tuple[int, ...], broker: int, waiting: bool) -> int:
        """A subscription of a client at a broker; returns its slot."""
        slot = self.new_slot(id, place, words, broker)
        self.arrays["waiting"][slot] = waiting
        self.make_room(0, len(words))
        asking.subscribe(self.record, slot)
        return slot

    def new_slot(
        self, id: int, place: tuple[float, float], words: tuple[int, ...], broker: int, point: Any = None
    ) -> int:
        """A slot for a subscription, which has yet to be entered."""
        if not self._free_subs:
            if len(self.sub_id) == len(self.arrays["held"]):
                self._grow(_SUBS, 2 * len(self.sub_id))
                self.arrays["found"] = np.zeros(2 * len(self.sub_id), np.int32)
            self._free_subs.append(len(self.sub_id))
            self.sub_id.append(-1)
            self.sub_words.append(())
            self.sub_place.append((0.0, 0.0))
        slot = self._free_subs.pop()
        if len(words) > self.arrays["sub_word"].shape[1]:
            self._widen("sub_word", ("sub_topic", "sub_next", "sub_prev"), ("first_sub",), len(words))
        arrays = self.arrays
        self.sub_id[slot], self.sub_words[slot], self.sub_place[slot] = id, words, place
        self.slot_of[id] = slot
        arrays["sub_point"][slot] = self.geometry.points([place], 1, "subscriptions")[0] if point is None else point
        arrays["sub_word"][slot] = -1
        arrays["sub_word"][slot, : len(words)] = words
        arrays["sub_broker"][slot], arrays["sub_id"][slot] = broker, id
        arrays["sub_client"][slot] = (id >> 32) - self.env.entity_base
        arrays["waiting"][slot] = False
        return slot

    def remove(self, slot: int) -> None:
        """The subscription is no more."""
        asking.unsubscribe(self.record, slot)
        del self.slot_of[self.sub_id[slot]]
        self.sub_id[slot] = -1
        self._free_subs.append(slot)


def keys_of(link: Any, words: Any) -> Ints:
    """A link and keywords, each as one number."""
    return (np.asarray(link, np.int64) << WORD_BITS) | np.asarray(words, np.int64)
