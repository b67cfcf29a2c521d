"""The world of a shard as kernels see it: every array of its rooms in one reference.

    world = World.of({**links.arrays(), **brokers.arrays(), ...})
    rows = gather(world, end)

A call with it costs a fraction of one with forty arrays. Each array belongs to a room, which keeps it in Python; the
world only points to it, so both see what the other writes. A room that outgrows an array makes a larger one, and then
the world is made anew: no kernel ever replaces a field, so a field taken into a local stays the array it was.

Numba does not notice an edit in a file whose functions it has inlined elsewhere. The world's type carries a digest of
all such files, and every kernel that takes a world is compiled anew when one of them changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from numba import njit, types
from numba.experimental import structref
from numba.np.numpy_support import as_dtype

_INLINED = ("layout.py", "rings.py", "latency.py", "gather.py", "settle.py", "world.py", "../fingerprint.py")

_BOOLS = types.boolean[::1]
_NARROW, _INTS, _WORDS = types.int32[::1], types.int64[::1], types.uint64[::1]
_NARROW_TABLE, _TABLE, _REALS = types.int32[:, ::1], types.int64[:, ::1], types.float64[:, ::1]


class Arrays(NamedTuple):
    """The arrays of a world, by owner. Tables have the columns of `layout`."""

    # links
    facts: Any  # by directed link: delay, jitter, bandwidth, target, whether the target is local
    link_state: Any
    loss_limit: Any
    loss_key: Any
    jitter_key: Any
    link_source: Any
    in_start: Any  # links in_start[b] to in_start[b + 1], in the order of these, reach broker b
    in_source: Any  # -1 where another shard carries it
    in_delay: Any
    lane_start: Any  # the same for rings: those of the links that reach a broker, then of its timers
    lane_ring: Any
    lane_order: Any
    rings: Any
    arena: Any
    outbox: Any
    outbox_used: Any
    # brokers
    broker_state: Any
    next_time: Any  # the earliest event known of, by broker
    horizon: Any  # nothing more reaches a broker before it
    frontier: Any  # everything before it was handled
    local: Any
    patience: Any
    shortest_timer: Any
    # inputs
    inputs: Any
    input_at: Any
    input_end: Any
    # services
    cost_model: Any
    timer_min: Any
    charging: Any  # whether any service has a cost model
    # bodies and causes
    body_hash: Any
    body_size: Any
    body_refs: Any
    body_time: Any
    causes: Any
    cause_key: Any
    # tallies
    seconds: Any
    histogram: Any
    totals: Any
    # the batch
    wide: Any
    narrow: Any
    finish: Any
    cost: Any
    losses: Any  # of the sends: which, and when they left
    arrival: Any  # by send; -1 if it is lost
    send_number: Any
    timer_number: Any
    turns: Any  # the brokers of a round
    heap: Any  # what holds something for the broker at hand
    cut: Any  # how batches are cut, and where the engine is with it


_TYPES = Arrays(
    # links
    _TABLE, _TABLE, _WORDS, _WORDS, _WORDS, _NARROW, _NARROW, _INTS, _INTS, _INTS, _INTS, _INTS,
    _TABLE, _TABLE, _TABLE, _INTS,
    # brokers
    _TABLE, _INTS, _INTS, _INTS, _BOOLS, _INTS, _INTS,
    # inputs
    _TABLE, _INTS, _INTS,
    # services
    _REALS, _TABLE, _BOOLS,
    # bodies and causes
    _WORDS, _INTS, _INTS, _INTS, _TABLE, _INTS,
    # tallies
    _INTS, _TABLE, _TABLE,
    # the batch
    _TABLE, _NARROW_TABLE, _INTS, _INTS, _TABLE, _INTS, _INTS, _INTS, _TABLE, _TABLE, _INTS,
)  # fmt: skip


@structref.register
class WorldType(types.StructRef):
    """The type of a world."""

    def __init__(self) -> None:
        super().__init__(_TYPES._asdict().items())
        self.name = f"World[{_digest()}]"


def _digest() -> str:
    """What the kernels of a world are made of."""
    here = Path(__file__).parent
    return blake2b(b"".join((here / name).read_bytes() for name in _INLINED), digest_size=8).hexdigest()


class World(structref.StructRefProxy):
    """A world, for kernels only: Python reaches its arrays through the rooms that own them."""

    __slots__ = ()

    @staticmethod
    def of(arrays: Mapping[str, Any]) -> World:
        """A world of these arrays; TypeError where one is not as kernels expect it."""
        for name, type_ in _TYPES._asdict().items():
            array = arrays[name]
            fits = array.flags.c_contiguous and array.flags.writeable and array.ndim == type_.ndim
            if not fits or array.dtype != as_dtype(type_.dtype):
                raise TypeError(f"{name!r} is {array.dtype} in {array.ndim} dimensions; kernels take {type_}")
        return _made(_WORLD, Arrays(**arrays))


structref.define_boxing(WorldType, World)
_WORLD = WorldType()


@njit(cache=True)
def _made(type_, arrays):
    """The type is an argument: as a constant it would be, in a factory from the cache, the type of another day."""
    world: Any = structref.new(type_)  # type: ignore[call-arg]
    world.facts, world.link_state = arrays.facts, arrays.link_state
    world.loss_limit, world.loss_key, world.jitter_key = arrays.loss_limit, arrays.loss_key, arrays.jitter_key
    world.link_source = arrays.link_source
    world.in_start, world.in_source, world.in_delay = arrays.in_start, arrays.in_source, arrays.in_delay
    world.lane_start, world.lane_ring, world.lane_order = arrays.lane_start, arrays.lane_ring, arrays.lane_order
    world.rings, world.arena = arrays.rings, arrays.arena
    world.outbox, world.outbox_used = arrays.outbox, arrays.outbox_used
    world.broker_state, world.next_time = arrays.broker_state, arrays.next_time
    world.horizon, world.frontier, world.local = arrays.horizon, arrays.frontier, arrays.local
    world.patience, world.shortest_timer = arrays.patience, arrays.shortest_timer
    world.inputs, world.input_at, world.input_end = arrays.inputs, arrays.input_at, arrays.input_end
    world.cost_model, world.timer_min, world.charging = arrays.cost_model, arrays.timer_min, arrays.charging
    world.body_hash, world.body_size = arrays.body_hash, arrays.body_size
    world.body_refs, world.body_time = arrays.body_refs, arrays.body_time
    world.causes, world.cause_key = arrays.causes, arrays.cause_key
    world.seconds, world.histogram, world.totals = arrays.seconds, arrays.histogram, arrays.totals
    world.wide, world.narrow = arrays.wide, arrays.narrow
    world.finish, world.cost, world.losses = arrays.finish, arrays.cost, arrays.losses
    world.arrival, world.send_number, world.timer_number = arrays.arrival, arrays.send_number, arrays.timer_number
    world.turns, world.heap, world.cut = arrays.turns, arrays.heap, arrays.cut
    return world
