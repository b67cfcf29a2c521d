"""The context protocols in compiled code: what the brokers of a shard decide on tables that they share (`known.py`).

A row that asks for a body of its own, or says that a change leans on another, is left aside (`asides.py`). So are, for
`context-escalated`, all news of values, and publications that came in vain.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.compiled import deliver, fits, forward, handler, work
from brokers.errors import EndlessWalk
from protocols.context.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE, UPDATE
from protocols.context.known import (
    EDGE,
    ESCALATED,
    HOME,
    NOTHING,
    OWN,
    RANGE,
    RECORD,
    SLOT,
    UNKNOWN,
    WHATEVER,
    find_cell,
    find_change,
    first_of,
    holds,
    is_noted,
    lies_behind,
    named_in,
    state_at,
    version_at,
    wants,
)

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@handler(RECORD)
def context(desk, mine, at, stop):
    """Decide on messages in their order."""
    state = state_at(mine)
    for i in range(at, stop):
        type_ = desk.type[i]
        if type_ == PUBLISH:
            done = _publish(desk, state, i)
        elif type_ == UPDATE:
            done = _update(desk, state, i)
        elif type_ == SUBSCRIBE:
            done = _subscribe(desk, state, i)
        elif type_ == UNSUBSCRIBE:
            done = _unsubscribe(desk, state, i)
        elif type_ == RANGE:
            done = _range(desk, state, i)
        else:
            done = False
        if not done:
            return i
    return stop


# ---- profiles ----------------------------------------------------------------------------------------


@njit(inline="always")
def _flip(state, slot, broker):
    state.noted[slot, broker >> 6] ^= np.uint64(1) << np.uint64(broker & 63)


@njit(cache=True)
def _subscribe(desk, state, i):
    """Note a profile, and pass it on."""
    b = np.int64(desk.broker[i])
    s = find_change(state, desk.key[desk.body[i]])
    if s < 0 or (desk.link[i] < 0 and version_at(state, desk.word[i], b) >= 0):
        return False
    if _leans_or_asks(state, s, b) or not fits(desk, desk.out_start[b + 1] - desk.out_start[b], 0):
        return False
    note(state, s, b)
    _pass_on(desk, state, i)
    return True


@njit(cache=True)
def _leans_or_asks(state, s, b):
    """Whether a profile that reaches a broker leans on another change, or asks for a value to be told."""
    change, home, start = state.change[s], np.int64(state.home[s]), state.start[s]
    for at in range(start, start + state.name_count[s]):
        value = state.name_value[at]
        cell = find_cell(state, value, b)
        own = cell >= 0 and state.source[cell] == OWN
        out = cell >= 0 and state.left_out[cell]
        if (out and not own) or (cell >= 0 and state.revived[cell] >= 0 and state.revived[cell] != change):
            return True
        first = first_of(state, value, home, b, s)
        if first == NOTHING:
            if own and (out or home != b):
                return True
        elif not state.told[s] and first != change and first >= 0:
            return True
    return False


@njit(cache=True)
def note(state, s, b):
    """A broker knows a profile from now on. A value that it is the first here to name counts once it is answered."""
    change, home, start = state.change[s], np.int64(state.home[s]), state.start[s]
    for at in range(start, start + state.name_count[s]):
        value = state.name_value[at]
        first = first_of(state, value, home, b, s)
        state.name_first[at] = change if first == NOTHING else first
        if home == b and first == NOTHING:
            cell = find_cell(state, value, b)
            if state.source[cell] != OWN:
                state.awaited[cell] = change
                refresh(state, cell)
    _flip(state, s, b)
    state.uses[s] += 1
    state.entries[b] += 1


@njit(cache=True)
def _unsubscribe(desk, state, i):
    """Forget a profile, and pass that on."""
    b = np.int64(desk.broker[i])
    s = version_at(state, desk.word[i], b)
    if s < 0:
        return True
    if state.gone_count[0] == state.gone.size or not fits(desk, desk.out_start[b + 1] - desk.out_start[b], 0):
        return False
    _flip(state, s, b)
    state.entries[b] -= 1
    state.uses[s] -= 1
    if state.uses[s] == 0:
        state.gone[state.gone_count[0]] = s
        state.gone_count[0] += 1
    if state.home[s] == b:
        for at in range(state.start[s], state.start[s] + state.name_count[s]):
            value = state.name_value[at]
            if first_of(state, value, b, b, s) == NOTHING:
                cell = find_cell(state, value, b)
                state.awaited[cell] = -1
                refresh(state, cell)
    _pass_on(desk, state, i)
    return True


@njit(inline="always")
def _pass_on(desk, state, i):
    """Send what came over all other links of the tree."""
    b = desk.broker[i]
    for j in range(desk.out_start[b], desk.out_start[b + 1]):
        link = desk.out_link[j]
        if state.in_tree[link] and link != desk.link[i]:
            forward(desk, i, link)


# ---- values ------------------------------------------------------------------------------------------


@njit(inline="always")
def has_room(state):
    """Whether there is room for another cell."""
    count = state.cell_count[0]
    return count < state.low.size and 5 * (count + 1) <= 3 * state.cell_keys.size


@njit(cache=True)
def enter_cell(keys, slots, key, cell):
    """Enter a cell into a table that has room, as `IdMap` does, which is found in by `find_one`."""
    mask = keys.size - 1
    place = np.int64((np.uint64(key) * _GOLDEN) >> np.uint64(32)) & mask
    for _ in range(keys.size):
        if keys[place] < 0:
            break
        place = (place + 1) & mask
    else:
        raise EndlessWalk("a table of cells is full")
    keys[place], slots[place] = key, cell


@njit(cache=True)
def make_cell(state, value, b):
    """A cell for a value that a broker has not heard of; there has to be room."""
    cell = state.cell_count[0]
    enter_cell(state.cell_keys, state.cell_slots, value * state.entries.size + b, cell)
    state.cell_count[0] = cell + 1
    state.source[cell], state.left_out[cell] = UNKNOWN, False
    state.low[cell], state.high[cell], state.known[cell] = -np.inf, np.inf, np.nan
    state.stamp[cell] = state.revived[cell] = state.first_by[cell] = state.awaited[cell] = -1
    return cell


@njit(inline="always")
def refresh(state, cell):
    """What counts at a home: a value that it knows to the point, and does not wait for."""
    certain = state.low[cell] == state.high[cell] and state.awaited[cell] < 0
    state.known[cell] = state.low[cell] if certain else np.nan


@njit(inline="always")
def _is_said(desk, state, body):
    known = state.said_generation
    return body >= 0 and body < known.size and known[body] == desk.generation[body]


@njit(cache=True)
def hear(state, cell, body, link, issued):
    """Take in news of a value that come by a link, or from a client."""
    state.source[cell] = link if link >= 0 else OWN
    state.low[cell], state.high[cell] = state.said_low[body], state.said_high[body]
    state.stamp[cell] = issued
    if link < 0:
        state.awaited[cell] = -1
    refresh(state, cell)


@njit(cache=True)
def _update(desk, state, i):
    """News from the owner: to where profiles name the value."""
    b, body, link = np.int64(desk.broker[i]), desk.body[i], desk.link[i]
    if not _is_said(desk, state, body) or state.rule[0] == ESCALATED:
        return False
    value = state.said_value[body]
    cell = find_cell(state, value, b)
    first, last = desk.out_start[b], desk.out_start[b + 1]
    if not fits(desk, last - first, 0):
        return False
    if cell < 0 and not has_room(state):
        return False
    named = named_in(state, value, b, 0, state.enter.columns)
    if link < 0 and named and (cell < 0 or state.source[cell] == UNKNOWN or state.first_by[cell] >= 0):
        return False
    if cell < 0:
        cell = make_cell(state, value, b)
    if named or link < 0:
        hear(state, cell, body, link, desk.published_ns[body])
    else:
        state.source[cell] = link
    if not named:
        state.left_out[cell] = True
        return True
    for j in range(first, last):
        o = desk.out_link[j]
        if state.in_tree[o] and o != link and wants(state, value, b, o, desk.target[o]):
            forward(desk, i, o)
    return True


@njit(cache=True)
def _range(desk, state, i):
    """News that answer a profile, or follow such an answer."""
    b, body, link = np.int64(desk.broker[i]), desk.body[i], desk.link[i]
    if not _is_said(desk, state, body) or state.rule[0] == ESCALATED:
        return False
    value, target = state.said_value[body], np.int64(state.said_target[body])
    cell = find_cell(state, value, b)
    first, last = desk.out_start[b], desk.out_start[b + 1]
    if not fits(desk, last - first, 0):
        return False
    if cell < 0 and not has_room(state):
        return False
    named = named_in(state, value, b, 0, state.enter.columns)
    if named and target >= 0:
        for j in range(first, last):  # those for whom it is no answer get it without
            o = desk.out_link[j]
            other = state.in_tree[o] and o != link and not lies_behind(state, target, b, o, desk.target[o])
            if other and wants(state, value, b, o, desk.target[o]):
                return False
    if cell < 0:
        cell = make_cell(state, value, b)
    if not named:
        state.source[cell], state.left_out[cell] = link, True
        return True
    take_range(state, cell, body, b, link, desk.word[i])
    for j in range(first, last):
        o = desk.out_link[j]
        if not state.in_tree[o] or o == link:
            continue
        aimed = target >= 0 and lies_behind(state, target, b, o, desk.target[o])
        if aimed or (target < 0 and wants(state, value, b, o, desk.target[o])):
            forward(desk, i, o)
    return True


@njit(cache=True)
def take_range(state, cell, body, b, link, asked):
    """Take in an answer."""
    if state.said_target[body] == b and state.awaited[cell] == asked:
        state.awaited[cell] = -1
    hear(state, cell, body, link, state.said_issued[body])


# ---- publications ------------------------------------------------------------------------------------


@njit(cache=True)
def _publish(desk, state, i):
    """Serve the clients here, and pass a publication on to where others may be."""
    b, body, link = np.int64(desk.broker[i]), desk.body[i], desk.link[i]
    known = state.published_generation
    if body >= known.size or known[body] != desk.generation[body]:
        return False
    first, last = desk.out_start[b], desk.out_start[b + 1]
    if not fits(desk, last - first, state.home_count[b]):
        return False
    row, where = state.published_row[body], (np.int64(WHATEVER) if state.rule[0] == EDGE else b)
    begin, end = np.int64(state.enter[0, b]), np.int64(state.leave[0, b])
    sent = False
    for j in range(first, last):
        o = desk.out_link[j]
        if not state.in_tree[o] or o == link:
            continue
        if o == state.up[0, b]:
            brokers = state.enter.columns
            wanted = _wanted_in(state, row, b, 0, begin, where) or _wanted_in(state, row, b, end, brokers, where)
        else:
            child = desk.target[o]
            wanted = _wanted_in(state, row, b, np.int64(state.enter[0, child]), np.int64(state.leave[0, child]), where)
        if wanted:
            sent = True
            forward(desk, i, o)
    found = _serve(desk, state, i, b, row)
    in_vain = link >= 0 and not sent and found == 0
    if in_vain and state.rule[0] == ESCALATED:
        return False
    work(desk, i, state.entries[b], found)
    state.decided[b] += 1
    state.useless[b] += in_vain
    return True


@njit(cache=True)
def _serve(desk, state, i, b, row):
    """Hand a publication to those of whose profiles here one holds; returns how many profiles do."""
    found, taken, number = 0, np.int64(-1), np.int64(state.enter[0, b])
    if (state.where[row, number >> 6] >> np.uint64(number & 63)) & np.uint64(1) == np.uint64(0):
        return found
    for at in range(state.home_start[b], state.home_start[b] + state.home_count[b]):
        s = state.home_items[at] & SLOT
        if is_noted(state, s, b) and holds(state, s, row, HOME):
            found += 1
            if state.client[s] != taken:
                taken = state.client[s]
                deliver(desk, i, taken)
    return found


@njit(cache=True)
def _wanted_in(state, row, b, first, stop, where):
    """Whether a broker knows a profile that may hold, of a home numbered first..stop."""
    at = first
    while at < stop:
        word = state.where[row, at >> 6] >> np.uint64(at & 63)
        if word == np.uint64(0):
            at = (at | 63) + 1
            continue
        while word & np.uint64(1) == np.uint64(0):
            word >>= np.uint64(1)
            at += 1
        if at < stop and _may_hold_at(state, row, b, at, where):
            return True
        at += 1
    return False


@njit(cache=True)
def _may_hold_at(state, row, b, number, where):
    """Whether a broker knows a profile of this home that may hold."""
    home = state.at_enter[number]
    s = state.witness[row, number]
    # It may have been forgotten since, and its slot another's.
    if state.home[s] == home and is_noted(state, s, b) and holds(state, s, row, where):
        return True
    for at in range(state.home_start[home], state.home_start[home] + state.home_count[home]):
        s = state.home_items[at] & SLOT
        if is_noted(state, s, b) and holds(state, s, row, where):
            state.witness[row, number] = s
            return True
    return False


