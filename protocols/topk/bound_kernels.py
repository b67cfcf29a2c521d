"""Bounds, as `protocols/topk/bounds.py` computes them, over snapshots that the brokers of a shard share."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from protocols.topk.asking_record import (
    CELLS,
    RAISED,
    READ,
    REFRESH,
    SNAPSHOTS_FREE,
    UNCHANGED,
    asking_at,
    log,
    send,
)

_SLACK = 1.0 + 2.0**-40
_UNITS = 32.0
_TINIEST = 5e-324


@njit(cache=True)
def stand(address, slots, snapshots):
    """Let filters that stand into the bounds of their brokers, before anybody knows of those."""
    s = asking_at(address)
    for i in range(slots.size):
        _raise(s, snapshots[i], slots[i])


@njit(cache=True)
def limit_behind(s, b, c, link):
    """What no filter behind a link can exceed, as broker b knows it."""
    child = s.target[link]
    gains = np.empty(s.low.columns)
    if s.up[child] == link ^ 1:
        return _limit_among(s, s.row_of[b], c, s.enter[child], s.leave[child], gains)
    return max(
        _limit_among(s, s.row_of[b], c, 0, s.enter[b], gains),
        _limit_among(s, s.row_of[b], c, s.leave[b], s.numbered.size, gains),
    )


@njit(cache=True)
def _limit_among(s, row, c, first, last, gains):
    """The same of the brokers with numbers from `first` to before `last`."""
    found = 0.0
    cells, weighs = s.said[CELLS], s.weighs[c]
    for number in range(first, last):
        snapshot = s.known[row, s.numbered[number]]
        most = s.most[snapshot]
        if most == 0:
            continue
        unit = s.unit[snapshot]
        count = 0
        for a in range(s.low.columns):
            if s.low[c, a] != s.low[c, a]:
                continue
            reached = np.uint8(0)
            for cell in range(s.first_cell[c, a], s.last_cell[c, a] + 1):
                reached = max(reached, s.units[snapshot, a * cells + cell])
            if reached == 0:
                gain = 0.0
            else:
                gain = max(s.sent[c, a], 0.0) if weighs else np.float64(reached) * unit
            place = count
            for at in range(count - 1, -1, -1):
                if gains[at] >= gain:
                    break
                gains[at + 1] = gains[at]
                place = at
            gains[place] = gain
            count += 1
        limit = 0.0
        for at in range(min(most, count)):
            limit += gains[at]
        if not weighs:
            limit = min(limit, s.top[snapshot])
        found = max(found, limit * _SLACK)
    return found


@njit(cache=True)
def tell(s, i, why):
    """A broker's bound changed."""
    b, body = s.broker[i], s.body[i]
    if s.noted[body] != s.generation[body]:
        why[0] = READ
        return False
    row, home, snapshot = s.row_of[b], s.body_count[body], s.body_start[body]
    _use(s, row, home, snapshot)
    for j in range(s.out_start[b], s.out_start[b + 1]):
        link = s.out_link[j]
        if s.in_tree[link] and link != s.link[i]:
            send(s, i, link, REFRESH, body, s.word[i])
    return True


@njit(cache=True)
def _use(s, row, home, snapshot):
    before = s.known[row, home]
    s.known[row, home] = snapshot
    s.uses[snapshot] += 1
    give_up(s.uses, s.snapshot_free, s.now, before)


@njit(cache=True)
def give_up(uses, free, now, snapshot):
    """One use of a snapshot less."""
    uses[snapshot] -= 1
    if uses[snapshot] == 0:
        free[now[SNAPSHOTS_FREE]] = snapshot
        now[SNAPSHOTS_FREE] += 1


@njit(cache=True)
def _new_snapshot(s):
    left = s.now[SNAPSHOTS_FREE] - 1
    s.now[SNAPSHOTS_FREE] = left
    return s.snapshot_free[left]


@njit(cache=True)
def raise_here(s, i, b, slot):
    """Let a filter into its broker's bound."""
    row = s.row_of[b]
    before = np.int64(s.known[row, b])
    fresh = _new_snapshot(s)
    for at in range(s.units.columns):
        s.units[fresh, at] = s.units[before, at]
    s.unit[fresh], s.most[fresh], s.top[fresh] = s.unit[before], s.most[before], s.top[before]
    _raise(s, fresh, slot)
    _settle_on(s, i, b, before, fresh)


@njit(cache=True)
def lower(s, i):
    """Bring a broker's bound down to what its filters can still score."""
    b = s.broker[i]
    s.stale[b] = False
    row = s.row_of[b]
    before = np.int64(s.known[row, b])
    fresh = _new_snapshot(s)
    for at in range(s.units.columns):
        s.units[fresh, at] = 0
    s.unit[fresh], s.most[fresh], s.top[fresh] = 0.0, 0, 0.0
    for at in range(s.first[b], s.first[b] + s.count[b]):
        _raise(s, fresh, s.mine[at])
    _settle_on(s, i, b, before, fresh)


@njit(cache=True)
def _settle_on(s, i, b, before, fresh):
    """Take the new snapshot if it differs from the one before, and say so."""
    same = s.unit[fresh] == s.unit[before] and s.most[fresh] == s.most[before] and s.top[fresh] == s.top[before]
    for at in range(s.units.columns):
        if not same:
            break
        same = s.units[fresh, at] == s.units[before, at]
    if same:
        s.snapshot_free[s.now[SNAPSHOTS_FREE]] = fresh
        s.now[SNAPSHOTS_FREE] += 1
        log(s, i, UNCHANGED, 0, 0, 0)
        return
    s.uses[before] += 1  # until it was told what differs
    s.uses[fresh] += 1
    _use(s, s.row_of[b], b, fresh)
    log(s, i, RAISED, before, fresh, 0)


@njit(cache=True)
def _raise(s, snapshot, slot):
    """Let a filter into a bound."""
    heaviest = 0.0
    constraints = 0
    for j in range(s.attribute.columns):
        if s.attribute[slot, j] < 0:
            break
        heaviest = max(heaviest, s.weight[slot, j])
        constraints += 1
    _make_room(s, snapshot, heaviest)
    unit, cells = s.unit[snapshot], s.said[CELLS]
    for j in range(constraints):
        units = np.uint8(1)
        if unit > 0.0:
            units = np.uint8(max(np.ceil(max(s.weight[slot, j], 0.0) / unit), 1.0))
        a = np.int64(s.attribute[slot, j]) * cells
        for cell in range(_cell(s, s.ends[slot, 2 * j]), _cell(s, s.ends[slot, 2 * j + 1]) + 1):
            s.units[snapshot, a + cell] = max(s.units[snapshot, a + cell], units)
    s.most[snapshot] = max(s.most[snapshot], constraints)
    s.top[snapshot] = max(s.top[snapshot], _coarse(s.total[slot]))


@njit(cache=True)
def _make_room(s, snapshot, weight):
    """A unit of which `weight` is at most 32; what is there is rounded up to it."""
    unit, had = _coarse_unit(weight), s.unit[snapshot]
    if unit <= had:
        return
    if had > 0.0:
        for at in range(s.units.columns):
            if s.units[snapshot, at] > 0:
                s.units[snapshot, at] = np.uint8(max(np.ceil(np.float64(s.units[snapshot, at]) * (had / unit)), 1.0))
    s.unit[snapshot] = unit


@njit(cache=True)
def _cell(s, value):
    cells = np.float64(s.said[CELLS])
    return np.int64(min(max(np.floor((value - s.said_real[1]) * s.said_real[2]), 0.0), cells - 1.0))


@njit(cache=True)
def _coarse_unit(weight):
    if not weight > 0.0:
        return 0.0
    fraction, exponent = math.frexp(weight)
    return max(math.ldexp(1.0, exponent - (1 if fraction == 0.5 else 0)) / _UNITS, _TINIEST)


@njit(cache=True)
def _coarse(value):
    fraction, exponent = math.frexp(value)
    return math.ldexp(np.ceil(fraction * 32.0) / 32.0, exponent)
