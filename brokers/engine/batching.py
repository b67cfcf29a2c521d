"""The batch of a round: how it is cut, and the arrays that it is laid into."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.compiled import ANSWERED, ANSWERS, HANDLERS_MOST
from brokers.contract import Batch, Ints
from brokers.engine import layout as L
from topology import draws

_SMALL = 512  # events, up to which a batch is cheap next to the views of its columns
MODES = {"horizon": L.MODE_HORIZON, "one": L.MODE_ONE, "random": L.MODE_RANDOM}


@dataclass(frozen=True)
class Cutting:
    """How a shard cuts what reached its brokers into batches. Never shows in a trace; tests vary it."""

    mode: str = "horizon"  # "one": one event at a time, the oracle; "random": cut at random
    limit: int = 8192  # events per batch: the columns of a batch stay in the second-level cache
    seed: int = 0
    compiled: str = "auto"  # "never"; or "events", "rounds": always so where protocols have compiled handlers


class Workbench:
    """What lies on the bench in a round: the batch, what it costs and when it ends, and what links lost of it."""

    def __init__(self, cutting: Cutting, brokers: int, fan_in: int) -> None:
        limit, rows = cutting.limit, 2 * cutting.limit  # compiled code lays one batch behind the other
        self.wide = np.zeros((L.WIDE, rows), np.int64)
        self.narrow = np.zeros((L.NARROW, rows), np.int32)
        self.finish = np.zeros(rows, np.int64)
        self.cost = np.zeros(rows, np.int64)
        self.course = L.apart(L.COURSE)
        self.answered = L.apart(ANSWERED)
        self.mine, self.desks = np.zeros(HANDLERS_MOST, np.int64), np.zeros(HANDLERS_MOST, np.int64)
        self._no_bodies = np.empty(0, np.int64)
        self.speaking = False  # whether handlers say more than what events brought
        self.send_detail, self.timers = np.empty((L.SEND_DETAIL, 0), np.int64), np.empty((L.TIMER, 0), np.int64)
        self.send_event = self.send_link = self.deliver_event = self.deliver_client = np.empty(0, np.int64)
        self.timer_number = np.empty(0, np.int64)
        self.losses = np.empty((0, L.LOSS), np.int64)
        self.reserve(256, 256)
        self._turns = np.empty((L.TURN, brokers), np.int64)
        self._heap = np.empty((L.HEAP, fan_in + 2), np.int64)  # of the inputs and the timers, beside the links
        self._cut = L.apart(L.CUT)
        self._cut[L.CUT_MODE], self._cut[L.CUT_LIMIT] = MODES[cutting.mode], limit
        self._cut[L.CUT_KEY : L.CUT_KEY + 1].view(np.uint64)[0] = draws.stream(cutting.seed, 0, "cut")
        self._order = np.empty(limit, np.int64)  # rows by service, as `_starts` bounds them
        self._starts = np.empty(0, np.int64)
        self._laid: dict[int, tuple[NDArray[Any], ...]] = {}  # by size, the columns of small batches

    def arrays(self) -> dict[str, Any]:
        """What kernels work on; what is by send or timer is replaced when it grows."""
        return {
            "wide": self.wide, "narrow": self.narrow, "finish": self.finish, "cost": self.cost,
            "losses": self.losses, "arrival": self._arrival, "copies": self._copies, "send_number": self._send_number,
            "timer_number": self.timer_number, "cut": self._cut,
            "turns": self._turns, "heap": self._heap, "course": self.course, "answered": self.answered,
            "send_event": self.send_event, "send_link": self.send_link,
            "deliver_event": self.deliver_event, "deliver_client": self.deliver_client, "mine": self.mine,
            "send_detail": self.send_detail, "timers": self.timers, "desks": self.desks, "no_bodies": self._no_bodies,
        }  # fmt: skip

    def growing(self) -> dict[str, tuple[Any, str]]:
        """Where those of them are that may be replaced."""
        return {
            "losses": (self, "losses"), "arrival": (self, "_arrival"), "copies": (self, "_copies"),
            "send_number": (self, "_send_number"),
            "timer_number": (self, "timer_number"), **{name: (self, name) for name in ANSWERS},
        }  # fmt: skip

    def reserve(self, sends: int, timers: int) -> None:
        """Room for so many outputs of a batch."""
        if sends > len(self.losses):
            self.losses = np.empty((2 * sends, L.LOSS), np.int64)
            self._arrival = np.empty(2 * sends, np.int64)
            self._copies = np.empty(2 * sends, np.int64)
            self._send_number = np.empty(2 * sends, np.int64)
        if timers > self.timer_number.size:
            self.timer_number = np.empty(2 * timers, np.int64)

    def reserve_answers(self, sends: int, deliveries: int, timers: int = 0) -> None:
        """Room for so many answers of handlers, none of which waits to be settled."""
        if sends > self.send_event.size or self.speaking > self.send_detail.size:
            sends = max(sends, self.send_event.size)
            self.send_event, self.send_link = np.empty(2 * sends, np.int64), np.empty(2 * sends, np.int64)
            if self.speaking:
                self.send_detail = np.empty((L.SEND_DETAIL, 2 * sends), np.int64)
            self.reserve(2 * sends, 0)
        if timers > self.timers.shape[1]:
            self.timers = np.empty((L.TIMER, 2 * timers), np.int64)
            self.reserve(0, 2 * timers)
        if deliveries > self.deliver_event.size:
            self.deliver_event = np.empty(2 * deliveries, np.int64)
            self.deliver_client = np.empty(2 * deliveries, np.int64)

    def parts(self, size: int, services: int) -> list[tuple[int, NDArray[Any] | None]]:
        """Which rows of the batch are whose: (service, rows), None for all of them."""
        if services == 1:
            return [(0, None)]
        if self._starts.size <= services:
            self._starts = np.empty(services + 1, np.int64)
        starts = self._starts[: services + 1]
        by_service(self.narrow, size, starts, self._order)
        bounds = starts.tolist()
        found = [(s, bounds[s], bounds[s + 1]) for s in range(services) if bounds[s + 1] > bounds[s]]
        if len(found) == 1:
            return [(found[0][0], None)]
        return [(s, self._order[first:last]) for s, first, last in found]

    def lay_out(self, batch: Batch, size: int, rows: Ints | None) -> None:
        """Make `batch` the rows named of a batch of `size`."""
        batch.rows = rows
        if rows is None:
            batch.size = size
            columns = self._laid.get(size)
            if columns is None:
                columns = (*self.wide[:, :size], *self.narrow[:, :size])
                if size <= _SMALL:
                    self._laid[size] = columns
        else:
            batch.size = rows.size
            columns = (*self.wide.take(rows, axis=1), *self.narrow.take(rows, axis=1))
        (
            batch.time, batch.source, batch.sequence, batch.word,
            batch.broker, batch.kind, batch.link, batch.type, _, batch.body, batch.cause,
        ) = columns  # fmt: skip
        batch.recut()


@njit(cache=True)
def by_service(narrow, size, starts, order):
    """The rows of a batch by service, each in their order: those of s are order[starts[s]:starts[s + 1]]."""
    starts[:] = 0
    for i in range(size):
        starts[narrow[L.N_SERVICE, i] + 1] += 1
    for s in range(1, starts.size):
        starts[s] += starts[s - 1]
    for i in range(size - 1, -1, -1):
        starts[narrow[L.N_SERVICE, i] + 1] -= 1
        order[starts[narrow[L.N_SERVICE, i] + 1]] = i
    for s in range(starts.size - 1):
        starts[s] = starts[s + 1]
    starts[starts.size - 1] = size
