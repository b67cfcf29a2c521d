"""What `context-escalated` adds in compiled code: ranges that neighbours were told, and publications in vain.

What was told of a value over a link is a row of its own, made when something is told for the first time; where there
is none, everything is.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.compiled import desk_at, work
from brokers.contract import NEVER
from brokers.out import SAME
from protocols.context.answering import asides_at, change_of, lean, pass_on, tell, tell_range
from protocols.context.deciding import enter_cell
from protocols.context.kind import UPDATE
from protocols.context.known import (
    CONJUNCT,
    NO_LINK,
    SLOT,
    VALUE,
    atom_holds,
    find_cell,
    find_told,
    is_noted,
    leads,
    lies_behind,
    state_at,
)

_LEVEL_MAX = 60
_NO_CAUSE = -1


@njit(cache=True)
def make_told(state, value, link):
    """Where it stands what was told of a value over a link, made if need be; there has to be room."""
    at = find_told(state, value, link)
    if at < 0:
        at = state.told_count[0]
        enter_cell(state.told_keys, state.told_slots, value * state.in_tree.size + link, at)
        state.told_count[0] = at + 1
        state.told_low[at], state.told_high[at] = -np.inf, np.inf
        state.told_level[at], state.told_by[at] = 0, -1
    return at


@njit(cache=True)
def note_told(state, value, link, low, high, change):
    """A neighbour is told a range of a value; returns where that stands."""
    at = make_told(state, value, link)
    state.told_low[at], state.told_high[at] = low, high
    if change >= 0:
        state.told_by[at] = change
    return at


@njit(inline="always")
def _told(state, value, link):
    """The range that a neighbour was told, and the change that last widened it."""
    at = find_told(state, value, link)
    if at < 0:
        return -np.inf, np.inf, np.int64(-1)
    return state.told_low[at], state.told_high[at], state.told_by[at]


@njit(inline="always")
def _covers(wide_low, wide_high, low, high):
    """Whether a range holds another; one that is empty is in every range."""
    return low > high or (wide_low <= low and high <= wide_high)


@njit(cache=True)
def spread_escalated(desk, state, asides, i, value, cell, target, asked):
    """News of a value: as they are to homes that name it, and to others where they leave what these were told."""
    b, low, high = np.int64(desk.broker[i]), state.low[cell], state.high[cell]
    state.spreads[b] += 1
    for j in range(desk.out_start[b], desk.out_start[b + 1]):
        o = desk.out_link[j]
        if not state.in_tree[o] or o == state.source[cell]:
            continue
        told_low, told_high, told_by = _told(state, value, o)
        if target >= 0 and lies_behind(state, target, b, o, desk.target[o]):
            tell_all(desk, state, asides, i, o, value, cell, target, asked)
        elif leads(state, value, b, o, desk.target[o]):
            if told_low == low and told_high == high:
                lean(asides, change_of(desk, i), told_by)
            else:
                tell_all(desk, state, asides, i, o, value, cell, -1, -1)
        elif _covers(told_low, told_high, low, high):
            lean(asides, change_of(desk, i), told_by)
        else:
            _escalate(desk, state, asides, i, o, value, cell)


@njit(cache=True)
def tell_all(desk, state, asides, i, link, value, cell, target, asked):
    """Send news as they are."""
    at = note_told(state, value, link, state.low[cell], state.high[cell], change_of(desk, i))
    state.told_level[at] = 0
    if desk.type[i] == UPDATE and target < 0:
        pass_on(desk, asides, i, link)
    else:
        tell(desk, state, asides, i, link, value, cell, target, asked)


@njit(cache=True)
def _escalate(desk, state, asides, i, link, value, cell):
    """Widen what a neighbour was told until it holds what is known, and say so."""
    low, high = state.low[cell], state.high[cell]
    at = make_told(state, value, link)
    level, step, width = state.told_level[at], state.widening[0], state.widening[1]
    more = step * np.float64(np.int64(1) << min(level, np.int64(_LEVEL_MAX)))
    if more >= width:
        wide_low, wide_high = -np.inf, np.inf
    else:
        wide_low = state.told_low[at] if state.told_low[at] <= low else low - more
        wide_high = state.told_high[at] if state.told_high[at] >= high else high + more
    note_told(state, value, link, wide_low, wide_high, change_of(desk, i))
    state.told_level[at] = min(level, np.int64(_LEVEL_MAX)) + 1
    state.escalations[desk.broker[i]] += 1
    _say(desk, state, asides, i, link, value, cell, wide_low, wide_high)


@njit(inline="always")
def _say(desk, state, asides, i, link, value, cell, low, high):
    tell_range(desk, state, asides, i, link, value, cell, low, high, -1, -1, SAME)


@njit(cache=True)
def forget_told(desk, state, asides, i, value, cell):
    """Nothing is known of a value any more: tell those who were told something."""
    b = np.int64(desk.broker[i])
    for j in range(desk.out_start[b], desk.out_start[b + 1]):
        o = desk.out_link[j]
        if not state.in_tree[o] or o == state.source[cell]:
            continue
        low, high, _ = _told(state, value, o)
        if low != -np.inf or high != np.inf:
            note_told(state, value, o, -np.inf, np.inf, change_of(desk, i))
            _say(desk, state, asides, i, o, value, cell, -np.inf, np.inf)


# ---- publications in vain ----------------------------------------------------------------------------


@njit(cache=True)
def in_vain(desk_address, mine, i):
    """Count a publication that nobody here or beyond wants; returns the value to blame, or -1.

    That is the one by which a conjunct fails here that may hold by what the neighbour was told; of several profiles
    with such a conjunct it is asked of the one with the least id.
    """
    desk, state = desk_at(desk_address), state_at(mine)
    b, link = np.int64(desk.broker[i]), desk.link[i]
    work(desk, i, state.entries[b], 0)
    state.decided[b] += 1
    state.useless[b] += 1
    row, blamed, least = state.published_row[desk.body[i]], np.int64(-1), np.int64(NEVER)
    begin, end = np.int64(0), state.enter.columns
    left, right = np.int64(state.enter[0, desk.target[link]]), np.int64(state.leave[0, desk.target[link]])
    if link == state.up[0, b]:
        begin, end, left, right = np.int64(state.enter[0, b]), np.int64(state.leave[0, b]), np.int64(0), np.int64(0)
    for number in range(begin, end):
        bit = np.uint64(1) << np.uint64(number & 63)
        if left <= number < right or state.where[row, number >> 6] & bit == np.uint64(0):
            continue
        home = state.at_enter[number]
        for at in range(state.home_start[home], state.home_start[home] + state.home_count[home]):
            s = state.home_items[at] & SLOT
            if state.id[s] < least and is_noted(state, s, b):
                value = _blamed(state, s, row, b, link)
                if value >= 0:
                    blamed, least = value, state.id[s]
    return blamed


@njit(cache=True)
def _blamed(state, s, row, b, link):
    """The value by which the first conjunct of a profile fails that may hold by what a neighbour was told; or -1."""
    at, end = state.start[s], state.start[s] + state.atom_count[s]
    while at < end:
        number, believed, failed = state.atoms[at, CONJUNCT], True, np.int64(-1)
        while at < end and state.atoms[at, CONJUNCT] == number:
            believed = believed and atom_holds(state, at, row, b, link)
            if failed < 0 and not atom_holds(state, at, row, b, NO_LINK):
                failed = at
            at += 1
        if believed and failed >= 0 and state.atoms[failed, VALUE] == state.atoms[failed, VALUE]:
            return np.int64(state.atoms[failed, VALUE])
    return np.int64(-1)


@njit(cache=True)
def shrink(desk_address, mine, asides_address, i, value):
    """Tell the neighbour that sent in vain what is known of a value, if that says more than it was told."""
    desk, state, asides = desk_at(desk_address), state_at(mine), asides_at(asides_address)
    b, link = np.int64(desk.broker[i]), np.int64(desk.link[i])
    cell = find_cell(state, value, b)
    if cell < 0:
        return
    told_low, told_high, _ = _told(state, value, link)
    low, high = state.low[cell], state.high[cell]
    if _covers(told_low, told_high, low, high) and not (told_low == low and told_high == high):
        state.told_level[note_told(state, value, link, low, high, _NO_CAUSE)] = 0
        state.shrunk[b] += 1
        tell_range(desk, state, asides, i, link, value, cell, low, high, -1, -1, _NO_CAUSE)


# ---- what Python asks --------------------------------------------------------------------------------


@njit(cache=True)
def told_of(mine, values, links):
    """Where it stands what was told of these values over these links, made where there is nothing yet."""
    state = state_at(mine)
    found = np.empty(values.size, np.int64)
    for i in range(values.size):
        found[i] = make_told(state, values[i], links[i])
    return found
