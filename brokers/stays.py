"""Where clients are when: stays at brokers, as plain data known from the start.

A client that comes and goes is at one broker, and connected, from the beginning of a stay until before its end, and
away in between. Where a client is follows from scenario and seed alone, so nobody waits for it: the engine looks it up.

Each stay has a number as clients have, and belongs to one broker. Towards brokers a client acts under the number of its
stay: whoever leaves withdraws what it asked for, whoever arrives asks for it anew, under another number. So protocols,
judges and audits of all kinds know clients that stay where they are, and no others. The first stay of a client goes
under its own number if it is where the client was placed.

    stays, client_broker = numbered([Stay(0, 2, 0, 5 * S), Stay(0, 4, 6 * S)], placed, duration_ns)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.contract import NEVER, Ints, Kind, Sessions
from brokers.errors import InvalidInput

STAYS_MAX = 20_000_000  # of a run; each takes some fifty bytes, and some hundred while they are drawn


class Stay(NamedTuple):
    """A client is at a broker from `begin` until before `end`."""

    client: int
    broker: int
    begin: int
    end: int = NEVER
    keep_ns: int = 0  # its session: for how long after it what comes is kept
    most: int = NEVER  # and how much of it


class WrongMovement(InvalidInput):
    """A movement that does not go with the network; `path` leads to what is wrong in its section."""

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True)
class Stays:
    """All stays of the clients that come and go, by client, then time."""

    clients: int  # how many the model has; further stays are numbered from here on
    number: Ints
    client: Ints
    broker: Ints
    begin: Ints
    end: Ints
    keep_ns: Ints  # for how long after it what comes is kept; 0: not at all
    most: Ints  # how many messages of it

    @property
    def moving(self) -> NDArray[np.bool_]:
        """Per client, whether it comes and goes."""
        found = np.zeros(self.clients, np.bool_)
        found[self.client] = True
        return found

    def at(self, clients: Any, times: Any) -> Ints:
        """The rows of the stays in which clients are at these times; -1 where they are away. O(n log stays)."""
        row = self.before(clients, times)
        there = row >= 0
        there[there] = self.end[row[there]] > np.asarray(times)[there]
        return np.where(there, row, -1)

    def before(self, clients: Any, times: Any) -> Ints:
        """The rows of the stays that clients began last, at these times or before; -1 where there is none."""
        clients, times = np.asarray(clients, np.int64), np.asarray(times, np.int64)
        first, last = np.searchsorted(self.client, clients), np.searchsorted(self.client, clients, "right")
        low, high = first.copy(), last.copy()
        while (open_ := low < high).any():
            middle = (low + high) // 2
            later = np.zeros(low.size, np.bool_)
            later[open_] = self.begin[middle[open_]] > times[open_]
            high = np.where(open_ & later, middle, high)
            low = np.where(open_ & ~later, middle + 1, low)
        return np.where(low > first, low - 1, -1)

    def numbers_of(self, clients: Ints) -> Ints:
        """These clients and all their stays, as numbers."""
        return np.union1d(clients, self.number[np.isin(self.client, clients)])

    def sessions(self, numbers: int) -> Sessions | None:
        """What is kept for clients that are away; None where nothing is."""
        if not self.keep_ns.any():
            return None
        keep, most, begin, end = (np.zeros(numbers, np.int64) for _ in range(4))
        before = np.full(numbers, -1, np.int64)
        keep[self.number], most[self.number] = self.keep_ns, self.most
        begin[self.number], end[self.number] = self.begin, self.end
        again = np.flatnonzero((self.client[1:] == self.client[:-1]) & (self.keep_ns[:-1] > 0))
        before[self.number[again + 1]] = self.number[again]
        return Sessions(keep, most, before, begin, end)

    def leaves(self, numbers: int) -> Ints:
        """Per number, when its stay is over; NEVER for clients that stay."""
        found = np.full(numbers, NEVER, np.int64)
        found[self.number] = self.end
        return found


def numbered(
    stays: Iterable[Stay], placed: NDArray[np.int32], duration_ns: int = NEVER
) -> tuple[Stays, NDArray[np.int32]]:
    """Number stays: the table of them, and the broker of each number, clients first.

    Nobody comes or leaves any more after `duration_ns`, when clients do not act. A client without any has never been
    there: give it none only if it is to stay where it was placed.
    """
    rows = sorted(stays, key=lambda stay: (stay.client, stay.begin))
    client, broker, begin, end, keep_ns, most = np.array(rows, np.int64).reshape(-1, 6).T.copy()
    end[end >= duration_ns] = NEVER
    first = np.concatenate(([True], client[1:] != client[:-1])) if client.size else np.zeros(0, np.bool_)
    own = first & (broker == placed[client])
    number = np.empty(client.size, np.int64)
    number[own] = client[own]
    number[~own] = placed.size + np.arange(np.count_nonzero(~own))
    broker_of = np.concatenate((placed, broker[~own])).astype(np.int32)
    return Stays(int(placed.size), number, client, broker, begin, end, keep_ns, most), broker_of


def withdrawal(kind: Kind, type: int) -> int | None:
    """The type of the change that ends an interest that one of this type began; None if there is none.

    The only one of the kind, or the one that is called like it: `unsubscribe` for `subscribe`.
    """
    ending = {name: number for name, number in kind.types.items() if number in kind.revocations}
    named = [ending[f"un{name}"] for name, number in kind.types.items() if number == type and f"un{name}" in ending]
    if named:
        return named[0]
    return next(iter(ending.values())) if len(ending) == 1 else None


def joined(spans: Iterable[tuple[int, int]], until: int) -> Iterator[tuple[int, int]]:
    """Spans of time in order, without those that begin at `until` or later; those that touch are one."""
    waiting: tuple[int, int] | None = None
    for begin, end in spans:
        if begin >= until:
            break
        if waiting is not None and begin <= waiting[1]:
            waiting = waiting[0], max(waiting[1], end)
            continue
        if waiting is not None:
            yield waiting
        waiting = begin, end
    if waiting is not None:
        yield waiting
