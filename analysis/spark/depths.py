"""Over how many links each copy of a publication came, found from when copies were handled and sent on.

A copy that reached a broker over a link was sent by an event of its publication at the link's other end, finished at
least the link's delay earlier: by the latest such if it finished exactly then, else, since jitter or a queue at the
link hides which it was, by the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def begins(ordered: Array) -> Array:
    """Where each run of equals begins."""
    return np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]][: ordered.size])


def links_from(sender: Array) -> Array:
    """How many senders each event has before it, by the sender of each; -1 where there is none. O(n log depth)."""
    hops = (sender >= 0).astype(np.int64)
    before = sender
    while (before >= 0).any():  # each round doubles how far back every event has looked
        ahead = np.maximum(before, 0)
        hops = hops + np.where(before >= 0, hops[ahead], 0)
        before = np.where(before >= 0, before[ahead], -1)
    return hops


@dataclass(frozen=True)
class Moments:
    """Events by key and the time when they were done, in order, to be asked for the latest up to some time."""

    code: Array  # key and time as one number
    key: Array
    finish: Array
    least: int  # time that is 1 in the code; 0 is before all
    bits: int
    times: Array | None  # those there are, where it is their numbers that the code has

    @classmethod
    def of(cls, keys: int, key: Array, finish: Array, link: Array) -> tuple[Moments, Array]:
        """The moments, and what sorts events so; the link decides between events of one key and time."""
        least = int(finish.min())
        bits = int(finish.max() - least + 2).bit_length()
        times = None
        if bits + keys.bit_length() > 63:
            times = np.unique(finish)
            bits = int(times.size + 1).bit_length()
        made = cls(key, key, finish, least, bits, times)
        code = made._coded(key, finish)
        order = np.argsort(code)
        if (code[order][1:] == code[order][:-1]).any():
            order = np.lexsort((link, code))
        return cls(code[order], key[order], finish[order], least, bits, times), order

    @property
    def first(self) -> Array:
        """By event, the first of its key."""
        begin = begins(self.key)
        return np.repeat(begin, np.diff(np.r_[begin, self.key.size]))

    def senders(self, base: Array, steps: Mapping[str, Array], source: Array, delay_ns: Array) -> Array:
        """By event, the one that sent it, -1 where it came from a client; `base` + broker is its key.

        `steps` are the events in this order, with the link each came over, and when.
        """
        came = np.flatnonzero(steps["link"] >= 0)
        link = steps["link"][came]
        sent = steps["time_ns"][came] - delay_ns[link]
        latest = self.latest(base[came] + source[link], sent)
        fits = latest >= 0
        came, sent, latest = came[fits], sent[fits], latest[fits]
        sender = np.full(base.size, -1, np.int64)
        sender[came] = np.where(self.finish[latest] == sent, latest, self.first[latest])
        return sender

    def latest(self, key: Array, time: Array) -> Array:
        """The last event of each key that was done by that time; -1 where there is none."""
        at = np.searchsorted(self.code, self._coded(key, time), side="right") - 1
        return np.where((at >= 0) & (self.key[np.maximum(at, 0)] == key), at, -1)

    def _coded(self, key: Array, time: Array) -> Array:
        if self.times is not None:
            number = np.searchsorted(self.times, time, side="right")
        else:
            number = np.clip(time - self.least + 1, 0, (1 << self.bits) - 1)
        return key << self.bits | number
