"""Compiled handlers: a protocol that the engine calls from compiled code, event by event or in batches.

    _STATE = Record("relay", {"seen": FLAGS})
    _state = reader(_STATE)

    @handler(_STATE)
    def relay(desk, mine, at, stop):
        state = _state(mine)
        for i in range(at, stop):
            first, last = desk.out_start[desk.broker[i]], desk.out_start[desk.broker[i] + 1]
            if not fits(desk, last - first, 0):
                return i
            for j in range(first, last):
                if desk.out_link[j] != desk.link[i]:
                    forward(desk, i, desk.out_link[j])
            state.seen[desk.broker[i]] = True
        return stop

A handler decides on rows `at` to `stop` of what lies on the desk, in order, and returns the row that it reached. It
stops before a row for which there is no room (`fits` says so, and asks for it), and before one that it leaves to
`handle`: whatever needs Python. Of a row at which it stops it has changed nothing.

`mine` is the record of what its protocol gives as `columns()`. One that is made with `speaks=True` may send what no row
brought, set timers and make bodies (`brokers.making`). docs/protocols.md has the whole contract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit, types
from numba.core.errors import NumbaError
from numba.experimental import structref
from numpy.typing import NDArray

from brokers import making
from brokers.errors import ProtocolFault
from brokers.making import BYTES_AT, POOL_AT, POOL_END
from brokers.out import SEND_COLUMNS, TIMER_COLUMNS
from brokers.records import Held, Record, reader
from brokers.views import INTS, NARROW, REALS_TABLE, TABLE

if TYPE_CHECKING:
    from brokers.contract import Batch, Ints, ShardEnv
    from brokers.out import Out


def digest(beside: str, *names: str) -> str:
    """Of files beside one: what kernels are made of that inline them, and that Numba does not notice edits of."""
    here = Path(beside).parent
    return blake2b(b"".join((here / name).read_bytes() for name in names), digest_size=8).hexdigest()


_ROWS = {
    "time": INTS, "source": INTS, "sequence": INTS, "word": INTS,
    "broker": NARROW, "kind": NARROW, "type": NARROW, "service": NARROW, "cause": NARROW,
    "link": NARROW,  # this broker's own link towards the sender; -1 from a client
    "body": NARROW,  # its handle; -1 for none
    "cost": INTS,  # ns charged beyond what the scenario's cost model charges by itself
}  # fmt: skip
_BODIES = {
    "published_ns": INTS,  # when its client sent it; -1 where a protocol made it
    "key": INTS,  # the publication or change that it is of
    "origin": NARROW,  # the broker of the client that sent it
    "generation": NARROW,  # goes up when the handle becomes another body's
}
_NETWORK = {
    "out_start": NARROW, "out_link": NARROW,  # links out_link[out_start[b]:out_start[b + 1]] leave broker b
    "target": NARROW,  # the broker that a link reaches
    "cost_model": REALS_TABLE,  # by service: base, entries, matches, links, bytes
}  # fmt: skip
_ANSWERS = {
    "answered": INTS, "send_event": INTS, "send_link": INTS, "deliver_event": INTS, "deliver_client": INTS,
    "send_detail": TABLE, "timers": TABLE,  # without room unless a handler speaks
}  # fmt: skip
ANSWERS = tuple(name for name in _ANSWERS if name != "answered")
_BODY_COLUMNS = {"published_ns": "time", "key": "key", "origin": "broker", "generation": "generation"}
# What `answered` counts: sends, deliveries, timers; and how many of each, of bodies and of their bytes found no room.
SENDS, DELIVERIES, TIMERS, SENDS_WANTED, DELIVERIES_WANTED, TIMERS_WANTED, BODIES_WANTED, BYTES_WANTED = range(8)
ANSWERED = 8
_TYPE, _BODY, _WORD, _SIZE, _CAUSE = SEND_COLUMNS
_T_EVENT, _T_DELAY, _T_TYPE, _T_BODY, _T_WORD, _T_CAUSE = TIMER_COLUMNS
_PER_ENTRY, _PER_MATCH = 1, 2

_MADE_OF = digest(
    __file__, "compiled.py", "making.py", "views.py", "records.py", "tables.py", "indexes/ids.py", "fingerprint.py",
    "wire/blake.py", "wire/numbers.py",
)  # fmt: skip
DESK = Record(f"desk {_MADE_OF}", {**_ROWS, **_BODIES, **_NETWORK, **_ANSWERS, **making.FIELDS})
desk_at = reader(DESK)
_LAID = (  # the columns of a batch, as `_point` takes them
    "time", "source", "sequence", "word", "cost", "broker", "kind", "link", "type", "body", "cause", "service",
)  # fmt: skip
_PLACES = np.array([DESK.place[name] for name in _LAID])
SIGNATURE = types.int64(DESK, types.int64, types.int64, types.int64)
HANDLER = types.FunctionType(SIGNATURE)


class Handler:
    """A compiled handler, the record that it takes as `mine`, and whether it says more than what rows brought."""

    __slots__ = ("kernel", "record", "speaks")

    def __init__(self, kernel: Any, record: Record, speaks: bool = False) -> None:
        self.kernel = kernel
        self.record = record
        self.speaks = speaks

    def compile(self) -> None:
        """Compile it, or load it from the disk cache; ProtocolFault where it is none."""
        try:
            self.kernel.compile(SIGNATURE)
        except NumbaError as error:
            name, why = self.kernel.py_func.__qualname__, " ".join(str(error).split())
            raise ProtocolFault(f"the compiled handler {name!r} cannot be compiled: {why:.600}") from error


def handler(record: Record, speaks: bool = False) -> Callable[[Any], Handler]:
    """Make a handler of a function; it is compiled, or loaded from the disk cache, when a network is built.

    `speaks`: it calls `send`, `timer` or `finish`, for which there is room then.
    """
    return lambda function: Handler(njit(cache=True)(function), record, speaks)


def handler_of(protocol: type) -> Handler | None:
    """The compiled handler of a protocol, or None. One that was inherited past a new `handle` is another protocol's."""
    for cls in protocol.__mro__:
        if "compiled" in vars(cls):
            found: Handler | None = vars(cls)["compiled"]
            return found
        if "handle" in vars(cls):
            return None
    return None


# ---- what is answered --------------------------------------------------------------------------------


@njit(inline="always")
def fits(desk, sends, deliveries):
    """Whether there is room for so many more; if not, it is asked for, and the handler has to return its row."""
    answered = desk.answered
    lacking = answered[SENDS] + sends > desk.send_event.size
    lacking |= answered[DELIVERIES] + deliveries > desk.deliver_event.size
    if lacking:
        answered[SENDS_WANTED], answered[DELIVERIES_WANTED] = sends, deliveries
    return not lacking


@njit(inline="always")
def forward(desk, row, link):
    """Send what the row brought over a link: same type, body, word and cause."""
    answered = desk.answered
    at = answered[SENDS]
    if at >= desk.send_event.size:
        raise IndexError("it sends more than it asked `fits` for")
    desk.send_event[at] = row
    desk.send_link[at] = link
    detail = desk.send_detail
    if detail.columns > 0:
        detail[_TYPE, at], detail[_BODY, at], detail[_WORD, at] = desk.type[row], desk.body[row], desk.word[row]
        detail[_SIZE, at], detail[_CAUSE, at] = -1, desk.cause[row]
    answered[SENDS] = at + 1


@njit(inline="always")
def makes(desk, timers, bodies, size):
    """Whether there is room for so many more timers, and bodies of so many bytes together; asks for it as `fits`."""
    answered = desk.answered
    lacking = answered[TIMERS] + timers > desk.timers.columns
    lacking |= desk.making[POOL_AT] + bodies > desk.making[POOL_END]
    lacking |= desk.making[BYTES_AT] + size > desk.bytes.size
    if lacking:
        answered[TIMERS_WANTED], answered[BODIES_WANTED], answered[BYTES_WANTED] = max(1, timers), bodies, size
    return not lacking


@njit(inline="always")
def send(desk, row, link, type_, body, word, size):
    """Send a message of a type over a link because of the row, with its cause.

    `body` is a handle or -1, `size` in bytes; -1 is the body's own.
    """
    answered, detail = desk.answered, desk.send_detail
    at = answered[SENDS]
    if at >= min(desk.send_event.size, detail.columns):
        raise IndexError("it sends more than it asked `fits` for, or was not made with `speaks`")
    desk.send_event[at] = row
    desk.send_link[at] = link
    detail[_TYPE, at], detail[_BODY, at], detail[_WORD, at] = type_, body, word
    detail[_SIZE, at], detail[_CAUSE, at] = size, desk.cause[row]
    answered[SENDS] = at + 1


@njit(inline="always")
def timer(desk, row, delay_ns, type_, word, body):
    """Wake the row's broker so long after the row, with a message of a type; `body` is a handle or -1."""
    answered, timers = desk.answered, desk.timers
    at = answered[TIMERS]
    if at >= timers.columns:
        raise IndexError("it sets more timers than it asked `makes` for")
    timers[_T_EVENT, at], timers[_T_DELAY, at], timers[_T_TYPE, at] = row, delay_ns, type_
    timers[_T_BODY, at], timers[_T_WORD, at], timers[_T_CAUSE, at] = body, word, desk.cause[row]
    answered[TIMERS] = at + 1


@njit(inline="always")
def deliver(desk, row, client):
    """Hand the row's body to a client, given by its client number."""
    answered = desk.answered
    at = answered[DELIVERIES]
    if at >= desk.deliver_event.size:
        raise IndexError("it delivers more than it asked `fits` for")
    desk.deliver_event[at] = row
    desk.deliver_client[at] = client
    answered[DELIVERIES] = at + 1


@njit(inline="always")
def work(desk, row, entries, matches):
    """Charge the scenario's cost model for table entries looked at and matches found (logical counts)."""
    service, model = desk.service[row], desk.cost_model
    per_entry, per_match = model[service, _PER_ENTRY], model[service, _PER_MATCH]
    if per_entry != 0.0 or per_match != 0.0:
        desk.cost[row] += np.int64(per_entry * entries + per_match * matches + 0.5)


@njit(inline="always")
def charge(desk, row, ns):
    """Charge service time beyond what the scenario's cost model charges by itself."""
    desk.cost[row] += ns


# ---- calling handlers --------------------------------------------------------------------------------

HANDLERS_MOST = 8  # services whose handlers one crew holds
_CREW = types.UniTuple(HANDLER, HANDLERS_MOST)


@structref.register
class _CrewType(types.StructRef):
    """The type of a crew."""


class Crew(structref.StructRefProxy):
    """Handlers, handed to compiled code once: to hand one over takes as long as handling three hundred events."""

    __slots__ = ()

    @staticmethod
    def of(handlers: Sequence[Handler]) -> Crew:
        """At most `HANDLERS_MOST`; the rest of the places repeat the first."""
        for each in handlers:
            each.compile()
        crew: Crew = _new(_CREW_TYPE)
        _fill(crew, *(each.kernel for each in (*handlers, *[handlers[0]] * (HANDLERS_MOST - len(handlers)))))
        return crew


structref.define_boxing(_CrewType, Crew)
_CREW_TYPE = _CrewType([("handlers", _CREW)])


@njit(cache=True)
def _new(type_):
    """The type is an argument: as a constant it would be, in a factory from the cache, the type of another day."""
    return structref.new(type_)  # type: ignore[call-arg]


@njit(types.void(_CREW_TYPE, *[HANDLER] * HANDLERS_MOST), cache=True)
def _fill(crew, a, b, c, d, e, f, g, h):
    crew.handlers = (a, b, c, d, e, f, g, h)


class Desk:
    """A desk for one service, to call its handler from Python on rows of a batch."""

    def __init__(self, env: ShardEnv, protocol: Any, handler: Handler | None = None) -> None:
        """`handler`: in place of the one that the engine calls too."""
        self._env = env
        self._protocol = protocol
        self._handler: Handler = protocol.compiled if handler is None else handler
        self._crew = Crew.of([self._handler])
        self._model = np.zeros((env.service + 1, len(env.cost)))
        self._model[env.service] = env.cost
        self._service = np.empty(0, np.int32)
        self._answered = np.zeros(ANSWERED, np.int64)
        self._making = env.bodies.making_of(env.lane)
        self._desk: Held | None = None
        self._mine: Held | None = None
        self._columns: Mapping[str, NDArray[Any]] = {}  # of `mine`
        env.bodies.readable |= self._handler.speaks
        self._room(64, 64, 64)

    def _room(self, sends: int, deliveries: int, timers: int) -> None:
        spoken = int(self._handler.speaks)
        self._answers = {
            "answered": self._answered,
            "send_event": np.empty(sends, np.int64), "send_link": np.empty(sends, np.int64),
            "send_detail": np.empty((len(SEND_COLUMNS), spoken * sends), np.int64),
            "timers": np.empty((len(TIMER_COLUMNS), spoken * timers), np.int64),
            "deliver_event": np.empty(deliveries, np.int64), "deliver_client": np.empty(deliveries, np.int64),
        }  # fmt: skip

    def decide(
        self, batch: Batch, out: Out, at: int, stop: int, aside: Callable[[int], int] | None = None
    ) -> None:
        """Have the handler decide on rows at..stop, and `aside` on those that it leaves, which returns where to go on.

        Without `aside`, one that is left is its protocol's fault.
        """
        at = self.reach(batch, out, at, stop, aside)
        if at < stop:
            raise ProtocolFault(
                f"{type(self._protocol).__name__}: its compiled handler leaves a message of type "
                f"{int(batch.type[at])} to `handle`, which hands it to the handler"
            )

    def reach(
        self, batch: Batch, out: Out, at: int, stop: int, aside: Callable[[int], int] | None = None
    ) -> int:
        """As `decide`; returns the row that is left to Python, or `stop`."""
        if at == stop:
            return stop
        cost, answered = np.zeros(batch.size, np.int64), self._answered
        desk, mine = self._lay(batch, cost)
        while at < stop:
            answered[:] = 0
            at = _call(self._crew, desk.address, mine.address, at, stop)
            self._say(batch, out)
            if at < stop:
                if not answered[SENDS_WANTED:].any():
                    if aside is None:
                        break
                    at = aside(at)
                    desk.renew()
                    mine.follow(self._protocol.columns())
                    continue
                self._more_room()
                desk.renew()
                self._columns = self._protocol.columns()
                mine.follow(self._columns)
        if np.count_nonzero(cost):
            charged = np.flatnonzero(cost)
            out.cost(charged, cost[charged])
        return at

    def _say(self, batch: Batch, out: Out) -> None:
        """Hand on what the handler answered."""
        found, (sends, delivered, timers) = self._answers, self._answered[:SENDS_WANTED].tolist()
        if sends and self._handler.speaks:
            sent = found["send_event"][:sends].copy(), found["send_link"][:sends].copy()
            out.send(*sent, *found["send_detail"][:, :sends].copy())
        elif sends:
            self.hand_on(batch, out, found["send_event"][:sends].copy(), found["send_link"][:sends].copy())
        if delivered:
            out.deliver(found["deliver_event"][:delivered].copy(), found["deliver_client"][:delivered].copy())
        if timers:
            event, delay_ns, type_, body, word, cause = found["timers"][:, :timers].copy()
            out.timer(event, delay_ns, type_, word, body, cause)

    def _more_room(self) -> None:
        """For what the handler had no room for, and only for that: of handles it may run out again and again."""
        answered, found = self._answered, self._answers
        sizes = found["send_event"].size, found["deliver_event"].size, found["timers"].shape[1]
        counts = answered[SENDS:SENDS_WANTED].tolist(), answered[SENDS_WANTED:BODIES_WANTED].tolist()
        grown = [
            2 * max(64, size, wanted) if count + wanted > size else size for size, count, wanted in zip(sizes, *counts)
        ]
        if grown != list(sizes):
            self._room(*grown)
            assert self._desk is not None
            self._desk.follow(self._answers)
        self._making.reserve(int(answered[BODIES_WANTED]), int(answered[BYTES_WANTED]))

    def hand_on(self, batch: Batch, out: Out, event: Ints, link: Ints) -> None:
        """What the handler sends; a protocol that is called by its `handle` alone may mean more by it."""
        out.forward(event, link)

    @property
    def address(self) -> int:
        """The desk as it was laid last, for kernels that decide on what the handler leaves."""
        assert self._desk is not None
        return self._desk.address

    def _lay(self, batch: Batch, cost: NDArray[np.int64]) -> tuple[Held, Held]:
        """What the handler is given of a batch."""
        if self._service.size < batch.size:
            self._service = np.full(2 * batch.size, self._env.service, np.int32)
        rows = (
            batch.time, batch.source, batch.sequence, batch.word, cost, batch.broker, batch.kind, batch.link,
            batch.type, batch.body, batch.cause, self._service,
        )  # fmt: skip
        columns = self._protocol.columns()
        if self._desk is None or self._mine is None:
            always = {
                **network_columns(self._env.links), "cost_model": self._model, **self._answers,
                **self._making.columns(),
            }  # fmt: skip
            named: dict[str, NDArray[Any]] = dict(zip(_LAID, rows))
            self._desk = DESK.of({**named, **body_columns(self._env.bodies), **always})
            self._desk.watch({**where_bodies_are(self._env.bodies), **self._making.growing()})
            self._mine = self._handler.record.of(columns)
        else:
            self._desk.renew()
            if columns is not self._columns:
                self._mine.follow(columns)
        self._columns = columns
        _point(self._desk.table, _PLACES, *rows)
        return self._desk, self._mine


def network_columns(links: Any) -> dict[str, NDArray[Any]]:
    """What a desk has of the network."""
    return {"out_start": links.out_start, "out_link": links.out_link, "target": links.target}


def body_columns(bodies: Any) -> dict[str, Any]:
    """What a desk has of bodies; all of it is replaced when there are more of them than ever."""
    return {name: getattr(bodies, column) for name, column in _BODY_COLUMNS.items()}


def where_bodies_are(bodies: Any) -> dict[str, tuple[Any, str]]:
    """Where these columns are, for `Held.watch`."""
    return {name: (bodies, column) for name, column in _BODY_COLUMNS.items()}


@njit(cache=True)
def _point(table, places, time, source, sequence, word, cost, broker, kind, link, type_, body, cause, service):
    """Have the table of a desk name the columns of a batch, which live as long as it is used."""
    found = (
        time.ctypes.data, source.ctypes.data, sequence.ctypes.data, word.ctypes.data, cost.ctypes.data,
        broker.ctypes.data, kind.ctypes.data, link.ctypes.data, type_.ctypes.data, body.ctypes.data, cause.ctypes.data,
        service.ctypes.data,
    )  # fmt: skip
    for i in range(places.size):
        table[places[i], 0] = found[i]
        table[places[i], 1] = table[places[i], 2] = time.size


@njit(cache=True)
def _call(crew, desk, mine, at, stop):
    return crew.handlers[0](desk_at(desk), mine, at, stop)
