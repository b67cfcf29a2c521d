"""The room of faults: what is broken when, by broker and by directed link, as kernels look it up.

A table lists stretches of time: those of a target are first[target]:first[target + 1], in order, and no two of them
overlap. Where faults overlap, stretches are cut so that each says all that holds in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from brokers.contract import Ints
from brokers.engine.bursts import chain, limit, wear_loses
from brokers.engine.layout import (
    B_BUSY,
    B_UP,
    L_FREE,
    L_UP,
    NEVER,
    Z_BEGIN,
    Z_DELAY,
    Z_END,
    Z_HOLDS,
    Z_SLOWER,
    Z_TWICE,
)
from brokers.faults import CRASHED, CUT_OFF, KEPT, ON_LINK, Crash, Cut, Schedule, Slow, Worn, at_a_stretch
from brokers.fingerprint import draw, scramble

_THOUSAND = 1000
_WORN, _DOUBLED = np.uint64(0x77_6F_72_6E), np.uint64(0x74_77_6F)  # apart from the losses of the link itself


class Stretches(NamedTuple):
    """Stretches of time by target."""

    first: Ints
    table: Ints  # rows Z_BEGIN, Z_END and what holds in each


class Outages:
    """The faults of a run."""

    def __init__(self, schedule: Schedule, brokers: int, links: int) -> None:
        self.any = bool(schedule)
        self._faulty = np.array([self.any])
        downs = [(crash.broker, crash) for crash in at_a_stretch(schedule.of(Crash))]
        self.downs = _stretches(brokers, downs, lambda crashes: [0])
        self.forgets = _stretches(brokers, [each for each in downs if each[1].state != KEPT], lambda c: [c[0].state])
        self._paces = _stretches(brokers, [(f.broker, f) for f in schedule.of(Slow)], _pace)
        self.cuts = _stretches(links, [(f.link, f) for f in schedule.of(Cut)], lambda cuts: [0])
        self._wear = _stretches(links, [(f.link, f) for f in schedule.of(Worn)], _wear, 8)

    def arrays(self) -> dict[str, Any]:
        """What kernels see of the faults."""
        return {
            "faulty": self._faulty,
            "downs_first": self.downs.first, "downs": self.downs.table,
            "forgets_first": self.forgets.first, "forgets": self.forgets.table,
            "paces_first": self._paces.first, "paces": self._paces.table,
            "cuts_first": self.cuts.first, "cuts": self.cuts.table,
            "wear_first": self._wear.first, "wear": self._wear.table,
        }  # fmt: skip

    def fell(self, broker_state: Ints, broker: int, time: int) -> int:
        """When a broker that is up at a time crashed last, if it has done nothing since; NEVER if it has."""
        first, last = self.downs.first[broker], self.downs.first[broker + 1]
        ended = int(np.searchsorted(self.downs.table[Z_END, first:last], time, "right")) - 1
        if ended < 0 or broker_state[broker, B_UP] >= self.downs.table[Z_END, first + ended]:
            return int(NEVER)
        return int(self.downs.table[Z_BEGIN, first + ended])

    def up_from(self, brokers: Any, times: Ints) -> Ints:
        """When these brokers are up, at these times or after; NEVER where they are down for good."""
        if not self.any:
            return times
        return np.asarray(_up_from(*self.downs, np.asarray(brokers, np.int64), np.ascontiguousarray(times)))

    def never_ring(self, brokers: Any, set_at: Ints, times: Ints) -> NDArray[np.bool_]:
        """Which timers of these brokers, set at these times for later ones, die with them."""
        return np.asarray(_never_ring(*self.downs, *self.forgets, brokers, set_at, times))

    def served_until(self, brokers: Any, times: Ints, finish: Ints) -> Ints:
        """Until when what brokers took up at these times is in their queues, whose service would end so."""
        return np.asarray(_served_until(*self.downs, brokers, times, finish)) if self.any else finish

    def busy_until(self, broker_state: Ints, at: int) -> Ints:
        """By broker, until when it has work at a time."""
        if not self.any:
            return broker_state[:, B_BUSY]
        return np.asarray(_busy_until(*self.downs, broker_state, at))


def _pace(slow: Sequence[Slow]) -> list[int]:
    factors = [each.factor for each in slow]
    return [0 if 0.0 in factors else max(_thousandths(factor) for factor in factors)]


def _wear(worn: Sequence[Worn]) -> list[int]:
    through, once = prod(1.0 - each.loss for each in worn), prod(1.0 - each.twice for each in worn)
    slower = max(_thousandths(each.slower) for each in worn)
    found = [sum(each.delay for each in worn), slower, limit(1.0 - through), limit(1.0 - once)]
    worst = max(worn, key=lambda each: (each.share * each.bad, each.begins, each.ends))
    others = prod(1.0 - each.loss for each in worn if each is not worst)
    return [*found, *chain(worst.begins, worst.ends), limit(1.0 - others * (1.0 - worst.bad))]


def _thousandths(factor: float) -> int:
    return int(factor * _THOUSAND + 0.5)


def _stretches(
    targets: int, faults: list[tuple[int, Any]], holds: Callable[[Any], list[int]], columns: int = 1
) -> Stretches:
    """Cut faults into stretches that do not overlap, and say of each what `holds` in it. O(n log n + overlaps)."""
    of_target: dict[int, list[Any]] = {}
    for target, fault in faults:
        of_target.setdefault(target, []).append(fault)
    count, rows = np.zeros(targets + 1, np.int64), []
    for target in sorted(of_target):
        found = _cut(sorted(of_target[target], key=lambda fault: (fault.begin, fault.end)), holds)
        count[target + 1] = len(found)
        rows += found
    table = np.array(rows, np.int64).reshape(-1, 2 + columns)
    return Stretches(np.cumsum(count), np.ascontiguousarray(table.T))


def _cut(faults: list[Any], holds: Callable[[Any], list[int]]) -> list[list[int]]:
    """Stretches of one target; those that touch and say the same are one."""
    edges = sorted({time for fault in faults for time in (fault.begin, fault.end)})
    rows: list[list[int]] = []
    current: list[Any] = []
    at = 0
    for begin, end in pairwise(edges):
        current = [fault for fault in current if fault.end > begin]
        while at < len(faults) and faults[at].begin <= begin:
            current.append(faults[at])
            at += 1
        if not current:
            continue
        said = holds(current)
        if rows and rows[-1][1] == begin and rows[-1][2:] == said:
            rows[-1][1] = end
        else:
            rows.append([begin, end, *said])
    return rows


# ---- looked up in compiled code ----------------------------------------------------------------------


@njit(forceinline=True, cache=True)
def follows(first, table, target, time):
    """The first stretch of a target that ends after `time`; first[target + 1] where none does."""
    low, high = first[target], first[target + 1]
    while low < high:
        middle = (low + high) // 2
        if table[Z_END, middle] <= time:
            low = middle + 1
        else:
            high = middle
    return low


@njit(forceinline=True, cache=True)
def within(first, table, target, begin, end):
    """Whether a stretch of a target reaches into begin to end, both included."""
    at = follows(first, table, target, begin)
    return at < first[target + 1] and table[Z_BEGIN, at] <= end


@njit(forceinline=True, cache=True)
def falls(world, broker, time, done):
    """Whether a broker that is up at `time` has crashed before it is `done`."""
    return within(world.downs_first, world.downs, broker, time, done - 1)


@njit(forceinline=True, cache=True)
def rise(world, broker, time):
    """A broker that is up at `time` owes nothing of what it had to do before it crashed."""
    first, downs, state = world.downs_first, world.downs, world.broker_state
    at = follows(first, downs, broker, time) - 1
    if at >= first[broker] and state[broker, B_UP] < downs[Z_END, at]:
        state[broker, B_UP] = downs[Z_END, at]
        state[broker, B_BUSY] = min(state[broker, B_BUSY], downs[Z_BEGIN, at])


@njit(forceinline=True, cache=True)
def clear_link(world, link, broker, time):
    """Nor does a link of its go on sending what waited to be sent."""
    first, downs, state = world.downs_first, world.downs, world.link_state
    at = follows(first, downs, broker, time) - 1
    if at >= first[broker] and state[link, L_UP] < downs[Z_END, at]:
        state[link, L_UP] = downs[Z_END, at]
        state[link, L_FREE] = min(state[link, L_FREE], downs[Z_BEGIN, at])


@njit(forceinline=True, cache=True)
def forgotten(world, broker, set_at, time):
    """Whether a broker has forgotten at `time` what it set going at a time when it was up."""
    return within(world.forgets_first, world.forgets, broker, set_at, time)


@njit(cache=True)
def done_at(first, paces, broker, begun, work):
    """When a broker is done with work that it begins, where it pauses and is slow in between."""
    time, left = begun, work
    at, last = follows(first, paces, broker, begun), first[broker + 1]
    while at < last:
        ahead = paces[Z_BEGIN, at] - time
        if ahead > 0:
            if left <= ahead:
                break
            time, left = paces[Z_BEGIN, at], left - ahead
        factor, end = paces[Z_HOLDS, at], paces[Z_END, at]
        if factor > 0:
            able = (end - time) // factor * _THOUSAND + (end - time) % factor * _THOUSAND // factor
            if left <= able:
                return time + left // _THOUSAND * factor + (left % _THOUSAND * factor + _THOUSAND - 1) // _THOUSAND
            left -= able
        time = end
        at += 1
    return time + left


@njit(forceinline=True, cache=True)
def worn(world, link, time):
    """Which stretch says how worn a link is at `time`; -1 if it is as new."""
    if link >= world.wear_first.size - 1:  # the schedule names no link that is described
        return np.int64(-1)
    at = follows(world.wear_first, world.wear, link, time)
    return at if at < world.wear_first[link + 1] and world.wear[Z_BEGIN, at] <= time else np.int64(-1)


@njit(forceinline=True, cache=True)
def slowed(world, stretch, transmission):
    """How long a transmission takes on a link that is worn so."""
    if stretch < 0:
        return transmission
    slower = world.wear[Z_SLOWER, stretch]
    return transmission // _THOUSAND * slower + (transmission % _THOUSAND * slower + _THOUSAND - 1) // _THOUSAND


@njit(forceinline=True, cache=True)
def lengthened(world, stretch):
    """How much longer a link takes that is worn so."""
    return world.wear[Z_DELAY, stretch] if stretch >= 0 else np.int64(0)


@njit(forceinline=True, cache=True)
def fate(world, link, stretch, number, target, leaves, arrives):
    """Why what leaves over a link does not arrive; -1 if it does."""
    lossy = wear_loses(world, link, stretch, number) if stretch >= 0 else uint64(0)
    if link < world.cuts_first.size - 1 and within(world.cuts_first, world.cuts, link, leaves, arrives):
        return CUT_OFF
    if stretch >= 0 and _drawn(world.loss_key[link] ^ _WORN, number, lossy):
        return ON_LINK
    if within(world.downs_first, world.downs, target, arrives, arrives):
        return CRASHED
    return -1


@njit(forceinline=True, cache=True)
def copies(world, link, stretch, number):
    """How often what leaves over a link arrives, if it does."""
    return 2 if stretch >= 0 and _drawn(world.loss_key[link] ^ _DOUBLED, number, world.wear[Z_TWICE, stretch]) else 1


@njit(forceinline=True, cache=True)
def _drawn(key, number, limit):
    return draw(scramble(key), number) < uint64(limit)


@njit(forceinline=True, cache=True)
def up_at(first, downs, broker, time):
    """When a broker is up, at this time or after; NEVER if it is down for good."""
    at = follows(first, downs, broker, time)
    return downs[Z_END, at] if at < first[broker + 1] and downs[Z_BEGIN, at] <= time else time


@njit(cache=True)
def _up_from(first, downs, brokers, times):
    found = np.empty_like(times)
    for i in range(times.size):
        found[i] = up_at(first, downs, brokers[i], times[i])
    return found


@njit(cache=True)
def _never_ring(first, downs, forgets_first, forgets, brokers, set_at, times):
    found = np.zeros(times.size, np.bool_)
    for i in range(times.size):
        b = brokers[i]
        down = up_at(first, downs, b, times[i]) == NEVER
        found[i] = down or within(forgets_first, forgets, b, set_at[i], times[i])
    return found


@njit(cache=True)
def _served_until(first, downs, brokers, times, finish):
    found = finish.copy()
    for i in range(finish.size):
        b = brokers[i]
        at = follows(first, downs, b, times[i])
        if at < first[b + 1]:
            found[i] = min(finish[i], downs[Z_BEGIN, at])
    return found


@njit(cache=True)
def _busy_until(first, downs, state, now):
    found = state[:, B_BUSY].copy()
    for b in range(found.size):
        at = follows(first, downs, b, now)
        if at == first[b + 1] or downs[Z_BEGIN, at] > now:
            at -= 1  # it is up: what counts is when it was down last
        if at >= first[b] and state[b, B_UP] < downs[Z_END, at]:
            found[b] = min(found[b], downs[Z_BEGIN, at])
    return found
