"""Who listens to which channel, as a broker hears it: a list of [client, [channel, ...]], by client.

What a broker tells the brokers below a link is a part of the rows that it heard, in the same order, so that the bytes
of the part are those of its rows, behind a head of their own. Nothing is taken apart and put together again.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.columns import BadState
from brokers.contract import Ints
from brokers.wire.numbers import read_head, read_int, write_head, write_int

NOBODY = b"\x90"  # an empty list
_HEAD_WIDEST = 5
_NONE: list[int] = []


class Listening:
    """For each channel that leads to a broker: its clients that listen, and the links behind which others do."""

    __slots__ = ("_at", "_client_start", "_clients", "_link_start", "_links", "channels", "handed")

    def __init__(self, channels: Ints, client_start: Ints, clients: Ints, link_start: Ints, links: Ints) -> None:
        self.channels = channels
        self._client_start: Any = client_start
        self._clients: Any = clients
        self._link_start: Any = link_start
        self._links: Any = links
        self._at: dict[int, int] | None = None
        self.handed: dict[int, Any] = {}  # what came of the last answer on a channel

    def of(self, channel: int) -> tuple[list[int], list[int]]:
        """(Clients, links) of a channel, both ascending. O(1), but the first time."""
        if self._at is None:
            self._at = {each: at for at, each in enumerate(self.channels.tolist())}
            for name in ("_client_start", "_clients", "_link_start", "_links"):
                setattr(self, name, getattr(self, name).tolist())
        at = self._at.get(channel)
        if at is None:
            return _NONE, _NONE
        return (
            self._clients[self._client_start[at] : self._client_start[at + 1]],
            self._links[self._link_start[at] : self._link_start[at + 1]],
        )

    def by_client(self) -> dict[int, list[int]]:
        """The clients of each channel that has some here."""
        return {channel: clients for channel in self.channels.tolist() if (clients := self.of(channel)[0])}


def heard(
    data: bytes, enter: NDArray[np.int32], mine: int, below: Ints, links: Ints
) -> tuple[Listening, list[bytes]]:
    """What a broker makes of the rows it hears, and the part of them for each of its links down. O(rows).

    `enter` is by client where its broker comes in the numbering of the tree, `mine` where this one does, `below` where
    the brokers below its `links` do.
    """
    found = _sorted_out(np.frombuffer(data, np.uint8), enter, mine, below, links)
    parts, start, channels, client_start, clients, link_start, link = found
    if not start.size:
        raise BadState("a broker heard something else than who listens to what")
    whole, cut = parts.tobytes(), start.tolist()
    told = [whole[a:b] or NOBODY for a, b in pairwise(cut)]
    return Listening(channels, client_start, clients, link_start, link), told


def rows_of(clients: Ints, start: Ints, channels: Ints) -> bytes:
    """The rows of clients, ascending, each with its channels: `channels[start[i]:start[i + 1]]`. O(channels)."""
    out = np.empty(_HEAD_WIDEST + clients.size * (1 + 9 + _HEAD_WIDEST) + 9 * channels.size, np.uint8)
    return out[: _write(clients, start, channels, out)].tobytes()


# ---- kernels -----------------------------------------------------------------------------------------


@njit(cache=True)
def _write(clients, start, channels, out):
    at = write_head(out, 0, clients.size)
    for i in range(clients.size):
        at = write_head(out, at, 2)
        at = write_int(out, at, clients[i])
        at = write_head(out, at, start[i + 1] - start[i])
        for k in range(start[i], start[i + 1]):
            at = write_int(out, at, channels[k])
    return at


@njit(cache=True)
def _read(data, enter, mine, below, row, slot, channel, target):
    """Where each row begins, to whom it goes (0: here, 1 + i: below link i), and channels with their clients or -1 - i.

    Returns (rows, channels), -1 rows where this is something else.
    """
    count, at = read_head(data, 0)
    held = 0
    for i in range(count):
        row[i] = at
        width, at = read_head(data, at)
        client, at = read_int(data, at)
        if width != 2 or at < 0 or client < 0 or client >= enter.size:
            return -1, 0
        place = enter[client]
        slot[i] = 0 if place == mine else np.searchsorted(below, place, "right")
        if slot[i] == 0 and place != mine:
            return -1, 0
        several, at = read_head(data, at)
        if several < 0:
            return -1, 0
        for _ in range(several):
            channel[held], at = read_int(data, at)
            if at < 0:
                return -1, 0
            target[held] = client if slot[i] == 0 else -slot[i]
            held += 1
    if count >= 0:
        row[count] = at
    return (count if at == data.size else -1), held


@njit(cache=True)
def _sorted_out(data, enter, mine, below, links):
    """See `heard`: (parts behind each other, where each begins, channels, starts, clients, starts, links)."""
    slots, none = below.size, np.empty(0, np.int64)
    row, slot = np.empty(data.size + 1, np.int64), np.empty(data.size, np.int64)
    channel, target = np.empty(data.size, np.int64), np.empty(data.size, np.int64)
    rows, held = _read(data, enter, mine, below, row, slot, channel, target)
    if rows < 0:
        return np.empty(0, np.uint8), none, none, none, none, none, none
    # The parts: how many rows and bytes each has, and then the bytes.
    many, size = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
    for i in range(rows):
        if slot[i]:
            many[slot[i] - 1] += 1
            size[slot[i] - 1] += row[i + 1] - row[i]
    start = np.zeros(slots + 1, np.int64)
    head = np.empty(5, np.uint8)
    for s in range(slots):
        start[s + 1] = start[s] + (size[s] + write_head(head, 0, many[s]) if many[s] else 0)
    parts, fill = np.empty(start[slots], np.uint8), start[:-1].copy()
    for s in range(slots):
        if many[s]:
            fill[s] = write_head(parts, fill[s], many[s])
    for i in range(rows):
        s = slot[i] - 1
        if s >= 0:
            for at in range(row[i], row[i + 1]):
                parts[fill[s]] = data[at]
                fill[s] += 1
    return (parts, start, *_by_channel(channel[:held], target[:held], links))


@njit(cache=True)
def _by_channel(channel, target, links):
    """(Channels ascending, where the clients of each begin, clients, where the links of each begin, links)."""
    held = channel.size
    order = np.argsort(channel, kind="mergesort")
    channels = np.empty(held, np.int64)
    client_start, clients = np.zeros(held + 1, np.int64), np.empty(held, np.int64)
    link_start, link = np.zeros(held + 1, np.int64), np.empty(held, np.int64)
    count, here, there = 0, 0, 0
    last = np.full(links.size, -1, np.int64)  # of each link, the last channel that it was put down for
    for place in range(held):
        i = order[place]
        if place == 0 or channel[i] != channels[count - 1]:
            link[link_start[max(count - 1, 0)] : there].sort()
            channels[count] = channel[i]
            client_start[count], link_start[count] = here, there
            count += 1
        if target[i] >= 0:
            clients[here] = target[i]
            here += 1
        elif last[-target[i] - 1] != count:
            last[-target[i] - 1] = count
            link[there] = links[-target[i] - 1]
            there += 1
    if count:
        link[link_start[count - 1] : there].sort()
    client_start[count], link_start[count] = here, there
    return (
        channels[:count].copy(), client_start[: count + 1].copy(), clients[:here].copy(),
        link_start[: count + 1].copy(), link[:there].copy(),
    )  # fmt: skip
