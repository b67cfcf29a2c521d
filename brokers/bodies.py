"""Message bodies of one shard: created once, shared by every hop, freed when nothing needs them.

A message under way carries a handle, a small integer. Behind it stands the body: a row of numbers (most
publications and subscriptions) or plain data that msgpack can carry, with arrays in the place of lists of numbers.
Plain data is kept as the bytes that it is encoded to; what readers make of them is made once for the shard. `refs`
counts the messages under way; the engine keeps it. A body without references that no protocol holds is freed between
windows, and its handle is used again under another `generation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.contract import Floats, Ints, Ints32, Kind
from brokers.fingerprint import hash_rows
from brokers.making import Making, bytes_at
from brokers.records import address_of
from brokers.wire import decode_body, encoded_body

_COLUMNS = {
    "hash": np.uint64,
    "size": np.int64,
    "time": np.int64,
    "key": np.int64,
    "uid": np.int64,
    "broker": np.int32,
    "service": np.int16,
    "type": np.int16,
    "row": np.int32,
    "generation": np.int32,
    "data_at": np.int64,
    "data_size": np.int64,
}


class _Rows:
    """Numeric bodies of one service and type: a growing matrix with reuse of rows."""

    def __init__(self, width: int) -> None:
        self.matrix = np.empty((64, width), np.float64)
        self.free = np.arange(63, -1, -1, dtype=np.int32)
        self.free_count = 64

    def add(self, rows: Floats) -> NDArray[np.int32]:
        n = len(rows)
        if rows.shape[1] > self.matrix.shape[1]:
            wider = np.full((len(self.matrix), rows.shape[1]), np.nan)
            wider[:, : self.matrix.shape[1]] = self.matrix
            self.matrix = wider
        if n > self.free_count:
            old = len(self.matrix)
            size = max(2 * old, old + n)
            grown = np.empty((size, self.matrix.shape[1]), np.float64)
            grown[:old] = self.matrix
            self.matrix = grown
            free = np.empty(size, np.int32)
            free[: size - old] = np.arange(size - 1, old - 1, -1, dtype=np.int32)
            free[size - old : size - old + self.free_count] = self.free[: self.free_count]
            self.free, self.free_count = free, size - old + self.free_count
        at = self.free[self.free_count - n : self.free_count][::-1].copy()
        self.free_count -= n
        if rows.shape[1] == self.matrix.shape[1]:
            self.matrix[at] = rows
        else:
            self.matrix[at] = np.nan
            self.matrix[at, : rows.shape[1]] = rows
        return at

    def release(self, at: NDArray[np.int32]) -> None:
        self.free[self.free_count : self.free_count + len(at)] = at
        self.free_count += len(at)


class Carried:
    """How many messages under way in a shard carry each body."""

    def __init__(self, capacity: int) -> None:
        self.refs: Ints = np.zeros(capacity, np.int64)


class Bodies:
    """The bodies of a shard, or of several in one process. Columns are arrays indexed by handle."""

    hash: NDArray[np.uint64]
    size: Ints
    time: Ints  # when the client sent it; -1 where a protocol made it
    key: Ints  # publication or change id; -1 where a protocol made it
    uid: Ints  # names the body between shards; physical, in no digest
    broker: NDArray[np.int32]  # where the client that sent it is attached; -1 where a protocol made it
    service: NDArray[np.int16]
    type: NDArray[np.int16]
    row: NDArray[np.int32]
    generation: NDArray[np.int32]
    data_at: Ints  # where the bytes of plain data lie that compiled code made or may read; 0: nowhere
    data_size: Ints

    def __init__(self, kinds: Sequence[Kind], shard: int = 0, shards: int = 1) -> None:
        """`shards`: how many have these bodies in common."""
        self.kinds = kinds
        self._capacity = 1024
        self.carried = [Carried(self._capacity) for _ in range(shards)]  # by shard of those
        for name, dtype in _COLUMNS.items():
            setattr(self, name, np.zeros(self._capacity, dtype))
        self._free = np.arange(self._capacity - 1, -1, -1, dtype=np.int32)
        self._free_count = self._capacity
        self._rows: dict[tuple[int, int], _Rows] = {}
        self._objects: dict[int, Any] = {}  # of bodies that are no rows, and of those whose author has seen one
        self._encoded: dict[int, bytes] = {}
        self._read: dict[int, dict[Any, Any]] = {}  # what readers made of them
        self._used = np.zeros(self._capacity, np.bool_)
        self._shard = shard
        self.made = shard << 48
        self._by_uid: dict[int, int] = {}
        self.shared = False  # true where bodies cross to other shards
        self.readable = False  # whether compiled code reads bodies of plain data
        self._making = [Making(self) for _ in range(shards)]

    def __len__(self) -> int:
        return int(self._used.sum())

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def alive(self) -> NDArray[np.bool_]:
        return self._used

    @property
    def refs(self) -> Ints:
        """How many messages under way carry each body, in all shards that have it."""
        if len(self.carried) == 1:
            return self.carried[0].refs
        return np.sum([each.refs for each in self.carried], axis=0, dtype=np.int64)

    def _take(self, n: int) -> NDArray[np.int32]:
        while self._free_count < n:
            old = self._capacity
            self._capacity = old * 2
            for owner, name in (*((self, name) for name in (*_COLUMNS, "_used")), *((c, "refs") for c in self.carried)):
                column = getattr(owner, name)
                grown = np.zeros(self._capacity, column.dtype)
                grown[:old] = column
                setattr(owner, name, grown)
            free = np.empty(self._capacity, np.int32)
            free[:old] = np.arange(self._capacity - 1, old - 1, -1)
            free[old : old + self._free_count] = self._free[: self._free_count]
            self._free, self._free_count = free, old + self._free_count
        self._free_count -= n
        handles: NDArray[np.int32] = self._free[self._free_count : self._free_count + n][::-1].copy()
        self._used[handles] = True
        for each in self.carried:
            each.refs[handles] = 0
        return handles

    def making_of(self, shard: int = 0) -> Making:
        """Where compiled handlers of a shard make bodies."""
        return self._making[shard]

    def lend(self, n: int) -> NDArray[np.int32]:
        """So many handles for bodies of plain data that compiled code is to make, none of which is one yet."""
        handles = self._take(n)
        self._used[handles] = False
        self.row[handles] = -1
        self.uid[handles] = np.arange(self.made + 1, self.made + n + 1)
        self.made += n
        return handles

    def add_rows(
        self,
        service: int,
        type: int,
        rows: Floats,
        time: Ints | int = -1,
        key: Ints | int = -1,
        broker: NDArray[np.int32] | int = -1,
        uid: Ints | None = None,
    ) -> NDArray[np.int32]:
        """New numeric bodies; returns their handles. O(rows)."""
        n = len(rows)
        if n == 0:
            return np.empty(0, np.int32)
        rows = np.ascontiguousarray(rows, np.float64)
        store = self._rows.get((service, type))
        if store is None:
            store = self._rows[(service, type)] = _Rows(rows.shape[1])
        handles = self._take(n)
        self.row[handles] = store.add(rows)
        hashes = np.empty(n, np.uint64)
        hash_rows(rows, service, type, hashes)
        self.hash[handles] = hashes
        self.size[handles] = self.kinds[service].row_bytes(type, rows)
        self._describe(handles, service, type, time, key, broker, uid)
        return handles

    def add_object(
        self,
        service: int,
        type: int,
        body: Any,
        time: int = -1,
        key: int = -1,
        broker: int = -1,
        uid: int | None = None,
        encoded: bytes | None = None,
    ) -> int:
        """A new body of plain data; returns its handle."""
        data, plain = (encoded, True) if encoded is not None else encoded_body(body)
        uids = None if uid is None else np.array([uid])
        h = int(self.add_encoded(service, type, [data], time, key, broker, uids)[0])
        if plain:  # else who asks gets what was encoded: lists, as on any other shard
            self._objects[h] = body
        return h

    def add_encoded(
        self,
        service: int,
        type: Ints | int,
        encoded: Sequence[bytes],
        time: Ints | int = -1,
        key: Ints | int = -1,
        broker: NDArray[np.int32] | int = -1,
        uid: Ints | None = None,
    ) -> NDArray[np.int32]:
        """New bodies of plain data that is encoded already, by `encode_body` or in the same form; their handles."""
        handles = self._take(len(encoded))
        types = [type] * len(encoded) if isinstance(type, int) else type.tolist()
        salts = {each: service.to_bytes(2, "little") + each.to_bytes(2, "little") for each in set(types)}
        hashes = b"".join([blake2b(data, digest_size=8, salt=salts[t]).digest() for data, t in zip(encoded, types)])
        self.row[handles] = -1
        self.hash[handles] = np.frombuffer(hashes, "<u8")
        self.size[handles] = [len(data) + 16 for data in encoded]
        self._encoded.update(zip(handles.tolist(), encoded))
        self.data_at[handles] = self.data_size[handles] = 0
        if self.readable:
            self.data_at[handles] = [address_of(np.frombuffer(data, np.uint8)) for data in encoded]
            self.data_size[handles] = [len(data) for data in encoded]
        self._describe(handles, service, type, time, key, broker, uid)
        return handles

    def _describe(
        self, handles: Any, service: int, type: Any, time: Any, key: Any, broker: Any, uid: Any
    ) -> None:
        self.service[handles] = service
        self.type[handles] = type
        self.time[handles] = time
        self.key[handles] = key
        self.broker[handles] = broker
        if uid is None:
            n = len(handles)
            self.uid[handles] = np.arange(self.made + 1, self.made + n + 1)
            self.made += n
        else:
            self.uid[handles] = uid
        if self.shared:
            self._by_uid.update(zip(self.uid[handles].tolist(), handles.tolist()))

    def stands_for(self, handle: int) -> tuple[int, int, int]:
        """(time, key, broker) of the client's message behind a body, for one made because of it; -1 for none."""
        if handle < 0:
            return -1, -1, -1
        return int(self.time[handle]), int(self.key[handle]), int(self.broker[handle])

    def all_stand_for(self, handles: Ints | Ints32) -> tuple[Ints, Ints, NDArray[np.int32]]:
        """The same of many, as columns for `add_encoded`."""
        brokers = np.where(handles < 0, -1, self.broker[handles])
        return named(self.time, handles), named(self.key, handles), brokers.astype(np.int32)

    def values(self, handles: NDArray[np.int32]) -> Floats:
        """The rows of numeric bodies, all of one service and type."""
        first = int(handles[0])
        return self._rows[(int(self.service[first]), int(self.type[first]))].matrix[self.row[handles]]

    def object(self, handle: int) -> Any:
        """A body as its author sees it: plain data, or what the kind makes of a row. Kept until freed."""
        found = self._objects.get(handle)
        if found is None and self.row[handle] < 0:
            found = self._objects[handle] = decode_body(self.encoded(handle))
        elif found is None:
            service, type_ = int(self.service[handle]), int(self.type[handle])
            row = self._rows[(service, type_)].matrix[self.row[handle]]
            found = self._objects[handle] = self.kinds[service].row_to_object(type_, row.copy())
        return found

    def encoded(self, handle: int) -> bytes:
        """The bytes of a body of plain data."""
        found = self._encoded.get(handle)
        return bytes_at(int(self.data_at[handle]), int(self.data_size[handle])) if found is None else found

    def read(self, handle: int, reader: Callable[[bytes], Any]) -> Any:
        """What a reader makes of the bytes of a body of plain data; made once for all of a shard, and kept until freed.

        A pure function at the top level of a module; nobody changes what it returns.
        """
        made = self._read.get(handle)
        if made is None:
            made = self._read[handle] = {}
        elif reader in made:
            return made[reader]
        made[reader] = found = reader(self.encoded(handle))
        return found

    def carry(self, handles: Ints, by: int, shard: int = 0) -> None:
        """So many more messages under way (or fewer) carry each of these; -1 is none."""
        _count(handles, self.carried[shard].refs, by)

    def uids(self, handles: Ints) -> Ints:
        """What names bodies between shards; -1 for none."""
        return named(self.uid, handles)

    def keys(self, handles: Ints) -> Ints:
        """The publications or changes that bodies are of; -1 for none."""
        return named(self.key, handles)

    def growing(self, shard: int = 0) -> dict[str, tuple[Any, str]]:
        """Where those are that the engine's kernels see; all are replaced when there are more bodies than ever."""
        return {
            "body_hash": (self, "hash"), "body_size": (self, "size"), "body_time": (self, "time"),
            "body_refs": (self.carried[shard], "refs"),
        }  # fmt: skip

    def sweep(self, held: Sequence[Any]) -> int:
        """Free what no message and no protocol needs; returns how many. O(bodies)."""
        dead = self._used & (self.refs == 0)
        for handles in held:
            if len(handles):
                dead[np.asarray(handles, np.int64)] = False
        gone = np.flatnonzero(dead).astype(np.int32)
        if gone.size == 0:
            return 0
        self._used[gone] = False
        self.generation[gone] += 1
        if self.readable:
            self.data_at[gone] = self.data_size[gone] = 0
            needed_at = np.sort(self.data_at[self._used])
            for each in self._making:
                each.let_go(needed_at)
        if self.shared:
            for uid in self.uid[gone].tolist():
                self._by_uid.pop(uid, None)
        rows = self.row[gone]
        numeric = rows >= 0
        if numeric.any():
            which = gone[numeric]
            code = (self.service[which].astype(np.int64) << 16) | self.type[which]
            for value in np.unique(code).tolist():
                self._rows[(value >> 16, value & 0xFFFF)].release(rows[numeric][code == value])
        if self._objects or self._encoded:
            freed = set(gone.tolist())
            for kept in (self._objects, self._encoded, self._read):
                for handle in kept.keys() & freed:  # goes through the smaller of the two
                    del kept[handle]
        self._free[self._free_count : self._free_count + gone.size] = gone[::-1]
        self._free_count += int(gone.size)
        return int(gone.size)

    # ---- crossing to another shard -------------------------------------------------------------------

    def pack(self, handles: NDArray[np.int32]) -> dict[str, Any]:
        """What another shard needs to know these bodies: one row each, plain data for the wire."""
        numeric = self.row[handles] >= 0
        if self.shared:  # those that compiled code made are known by name from here on
            self._by_uid.update(zip(self.uid[handles].tolist(), handles.tolist()))
        frame: dict[str, Any] = {"groups": [], "objects": []}
        which = handles[numeric]
        code = (self.service[which].astype(np.int64) << 16) | self.type[which]
        for value in np.unique(code).tolist():
            chosen = which[code == value]
            frame["groups"].append(
                {
                    "service": value >> 16,
                    "type": value & 0xFFFF,
                    "rows": self.values(chosen),
                    **{name: getattr(self, name)[chosen] for name in ("uid", "time", "key", "broker")},
                }
            )
        for handle in handles[~numeric].tolist():
            frame["objects"].append(
                [
                    int(self.service[handle]),
                    int(self.type[handle]),
                    self.encoded(handle),
                    int(self.time[handle]),
                    int(self.key[handle]),
                    int(self.broker[handle]),
                    int(self.uid[handle]),
                ]
            )
        return frame

    def unpack(self, frame: dict[str, Any]) -> dict[int, int]:
        """Take in what another shard packed; returns uid -> handle. A body known already is not made again."""
        known = self._by_uid
        found: dict[int, int] = {}
        for group in frame["groups"]:
            uids = group["uid"].tolist()
            fresh = np.array([u not in known for u in uids], np.bool_)
            found.update((u, known[u]) for u in uids if u in known)
            handles = self.add_rows(
                group["service"],
                group["type"],
                group["rows"][fresh],
                group["time"][fresh],
                group["key"][fresh],
                group["broker"][fresh],
                group["uid"][fresh],
            )
            found.update(zip(group["uid"][fresh].tolist(), handles.tolist()))
        for service, type_, data, time, key, broker, uid in frame["objects"]:
            if uid in known:
                found[uid] = known[uid]
            else:
                found[uid] = self.add_object(service, type_, decode_body(data), time, key, broker, uid, data)
        return found

    # ---- checkpoints ---------------------------------------------------------------------------------

    def state(self, handles: NDArray[np.int32]) -> dict[str, Any]:
        """What a checkpoint keeps of these bodies, and how many were made."""
        return {"bodies": self.pack(handles), "bodies_made": self.made}

    def load(self, states: Sequence[dict[str, Any]]) -> dict[int, int]:
        """Make the bodies that all shards kept; returns uid -> handle."""
        made = max(int(state["bodies_made"]) & ((1 << 48) - 1) for state in states)
        self.made = (self._shard << 48) | made
        handle_of: dict[int, int] = {}
        for state in states:
            handle_of.update(self.unpack(state["bodies"]))
        return handle_of


@njit(cache=True)
def named(names: Ints, handles: Any) -> Ints:
    """What stands for each handle; -1 for none."""
    found = np.empty(handles.size, np.int64)
    for i in range(handles.size):
        found[i] = names[handles[i]] if handles[i] >= 0 else -1
    return found


@njit(cache=True)
def _count(handles, refs, by):
    for i in range(handles.size):
        if handles[i] >= 0:
            refs[handles[i]] += by
