"""What `deciding.py` leaves aside: rows that are answered by bodies of their own, or say what leans on what.

They are decided in compiled code too, one by one; the bodies are made afterwards, all at once. And what else Python
asks of the shared tables.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.compiled import desk_at
from brokers.contract import Batch, ShardEnv
from brokers.out import Out
from protocols.context.answering import ASIDES, asides_at, change_of, lean, pass_on, tell
from protocols.context.deciding import enter_cell, hear, make_cell, note, refresh, take_range
from protocols.context.escalating import forget_told, shrink, spread_escalated, tell_all
from protocols.context.kind import SUBSCRIBE, UPDATE
from protocols.context.known import (
    ESCALATED,
    NOTHING,
    OWN,
    RANGE,
    UNKNOWN,
    WHATEVER,
    find_cell,
    find_change,
    first_of,
    holds,
    lies_behind,
    named_in,
    state_at,
    version_at,
    wants,
)


@njit(cache=True)
def set_aside(desk_address, mine, asides_address, i):
    """Decide on a row that was left; there has to be room for what it is answered by."""
    desk, state, asides = desk_at(desk_address), state_at(mine), asides_at(asides_address)
    if desk.type[i] == SUBSCRIBE:
        _subscribe(desk, state, asides, i)
        return
    b, value = np.int64(desk.broker[i]), state.said_value[desk.body[i]]
    cell = find_cell(state, value, b)
    if cell < 0:
        cell = make_cell(state, value, b)
    if desk.type[i] == UPDATE:
        _update(desk, state, asides, i, value, cell)
    else:
        _range(desk, state, asides, i, value, cell)


@njit(inline="always")
def _is_named(state, value, b):
    return named_in(state, value, b, 0, state.enter.columns)


@njit(cache=True)
def _spread(desk, state, asides, i, value, cell, target, asked):
    """What is known of a value changed: tell those behind, by all means whom it answers."""
    if state.rule[0] == ESCALATED:
        spread_escalated(desk, state, asides, i, value, cell, target, asked)
        return
    b, type_ = np.int64(desk.broker[i]), desk.type[i]
    for j in range(desk.out_start[b], desk.out_start[b + 1]):
        o = desk.out_link[j]
        if not state.in_tree[o] or o == state.source[cell]:
            continue
        aimed = target >= 0 and lies_behind(state, target, b, o, desk.target[o])
        if not aimed and not wants(state, value, b, o, desk.target[o]):
            continue
        if type_ == UPDATE or (aimed and type_ == RANGE):
            pass_on(desk, asides, i, o)
        elif aimed:
            tell(desk, state, asides, i, o, value, cell, target, asked)
        else:
            tell(desk, state, asides, i, o, value, cell, -1, -1)


@njit(cache=True)
def _reset(desk, state, asides, i, value, cell):
    """Nothing is known of a value any more: tell those behind who may hold an old one."""
    if state.rule[0] == ESCALATED:
        forget_told(desk, state, asides, i, value, cell)
    b = np.int64(desk.broker[i])
    for j in range(desk.out_start[b], desk.out_start[b + 1]):
        o = desk.out_link[j]
        if state.publishes[o] and o != state.source[cell]:
            tell(desk, state, asides, i, o, value, cell, -1, -1)


@njit(cache=True)
def _answer(desk, state, asides, i, value, cell, home):
    """Tell one home the value; all others who need it were told before."""
    b = np.int64(desk.broker[i])
    asked = first_of(state, value, home, b, -1)
    for j in range(desk.out_start[b], desk.out_start[b + 1]):
        o = desk.out_link[j]
        if not state.in_tree[o] or not lies_behind(state, home, b, o, desk.target[o]):
            continue
        if state.rule[0] == ESCALATED:
            tell_all(desk, state, asides, i, o, value, cell, home, asked)
        else:
            tell(desk, state, asides, i, o, value, cell, home, asked)


@njit(cache=True)
def _update(desk, state, asides, i, value, cell):
    """The owner's news, where they answer profiles or lean on others, or where they may say more than is needed."""
    b, body, link = np.int64(desk.broker[i]), desk.body[i], desk.link[i]
    new, named = state.source[cell] == UNKNOWN, _is_named(state, value, b)
    if link >= 0 and not named:
        state.source[cell], state.left_out[cell] = link, True
        return
    hear(state, cell, body, link, desk.published_ns[body])
    if not named:
        state.left_out[cell] = True
        return
    _spread(desk, state, asides, i, value, cell, -1, -1)
    if link >= 0:
        return
    change = change_of(desk, i)
    lean(asides, change, state.first_by[cell])
    if new:
        for home in range(state.entries.size):
            there = state.at_enter[state.enter[0, home]] == home  # as a server is not
            if home != b and there and first_of(state, value, home, b, -1) != NOTHING:
                state.first_by[cell] = change
                _answer(desk, state, asides, i, value, cell, home)


@njit(cache=True)
def _range(desk, state, asides, i, value, cell):
    """News that answer a profile, where they are news to others too, or that may say more than is needed."""
    b, body, link = np.int64(desk.broker[i]), desk.body[i], desk.link[i]
    if not _is_named(state, value, b):
        state.source[cell], state.left_out[cell] = link, True
        return
    take_range(state, cell, body, b, link, desk.word[i])
    _spread(desk, state, asides, i, value, cell, np.int64(state.said_target[body]), desk.word[i])


@njit(cache=True)
def _subscribe(desk, state, asides, i):
    """A profile that leans on other changes, or that the owner of a value answers."""
    b = np.int64(desk.broker[i])
    s = find_change(state, desk.key[desk.body[i]])
    change, home, start = state.change[s], np.int64(state.home[s]), state.start[s]
    end = start + state.name_count[s]
    for at in range(start, end):
        value = state.name_value[at]
        cell = find_cell(state, value, b)
        if cell >= 0 and state.left_out[cell] and state.source[cell] != OWN:
            state.left_out[cell], state.revived[cell] = False, change
            state.low[cell], state.high[cell] = -np.inf, np.inf
            refresh(state, cell)
            _reset(desk, state, asides, i, value, cell)
    for j in range(desk.out_start[b], desk.out_start[b + 1]):
        o = desk.out_link[j]
        if state.in_tree[o] and o != desk.link[i]:
            pass_on(desk, asides, i, o)
    note(state, s, b)
    for at in range(start, end):
        value, first = state.name_value[at], state.name_first[at]
        cell = find_cell(state, value, b)
        if cell >= 0:
            lean(asides, change, state.revived[cell])
        lean(asides, change, first)
        # It is the first where no other that the broker knows names the value.
        if cell >= 0 and state.source[cell] == OWN and first_of(state, value, home, b, s) == NOTHING:
            _tell_first(desk, state, asides, i, value, cell, home)
    state.told[s] = True


@njit(cache=True)
def _tell_first(desk, state, asides, i, value, cell, home):
    """The owner tells a home the value that a profile there is the first to name."""
    b, change = np.int64(desk.broker[i]), desk.key[desk.body[i]]
    if state.left_out[cell]:
        state.left_out[cell], state.revived[cell] = False, change
        _spread(desk, state, asides, i, value, cell, home, change)
    elif home != b:
        _answer(desk, state, asides, i, value, cell, home)


class Asides:
    """What rows that were left aside are answered by, until it is handed on."""

    def __init__(self, env: ShardEnv) -> None:
        self._env = env
        self._counts = np.zeros(3, np.int64)
        self._room(64)

    def _room(self, rows: int) -> None:
        self._sent, self._leans = np.empty((rows, 5), np.int64), np.empty((rows, 2), np.int64)
        self._made, self._about = np.empty((rows, 6)), np.empty(rows, np.int64)
        self._held = ASIDES.of({
            "counts": self._counts, "sent": self._sent, "made": self._made, "about": self._about, "leans": self._leans,
        })  # fmt: skip

    def decide(self, desk: int, mine: int, row: int, broker: int, names: int) -> None:
        """Decide on a row at a broker; `names` is how many values it names at most."""
        links = int(self._env.links.out_start[broker + 1] - self._env.links.out_start[broker])
        # Over each link, for each value and each home at most.
        self._have(2 * (links + 1) * (names + 1) + self._env.brokers)
        set_aside(desk, mine, self._held.address, row)

    def shrink(self, desk: int, mine: int, row: int, value: int) -> None:
        """Answer a publication that came in vain by what is known of a value."""
        self._have(1)
        shrink(desk, mine, self._held.address, row, value)

    def _have(self, more: int) -> None:
        """Have room for so much more."""
        old = self._sent, self._leans, self._made, self._about
        needed = int(self._counts.max()) + more
        if needed > len(self._sent):
            self._room(2 * needed)
            for into, each in zip((self._sent, self._leans, self._made, self._about), old):
                into[: len(each)] = each

    def hand_on(self, batch: Batch, out: Out) -> None:
        """Make the bodies, and answer."""
        sent, made, leans = self._counts.tolist()
        if sent:
            bodies, (row, link, body, word, cause) = self._env.bodies, self._sent[:sent].T.copy()
            type_ = batch.type[row]
            fresh = body >= 0
            body[~fresh] = batch.body[row[~fresh]]
            if made:
                about = self._about[:made]
                of = bodies.time[about], bodies.key[about], bodies.broker[about]
                body[fresh] = bodies.add_rows(self._env.service, RANGE, self._made[:made], *of)[body[fresh]]
            out.send(row, link, np.where(fresh, RANGE, type_), body, word, cause=cause)
        if leans:
            out.depends(self._leans[:leans, 0].copy(), self._leans[:leans, 1].copy())
        self._counts[:] = 0


# ---- what Python asks --------------------------------------------------------------------------------


@njit(cache=True)
def cells_of(mine, values, brokers, make):
    """The cells of these values at these brokers, made where there is none yet if asked to; -1 for none."""
    state = state_at(mine)
    found = np.empty(values.size, np.int64)
    for i in range(values.size):
        found[i] = find_cell(state, values[i], brokers[i])
        if found[i] < 0 and make:
            found[i] = make_cell(state, values[i], brokers[i])
    return found


@njit(cache=True)
def version_of(mine, id_, b):
    """The slot of the profile of this id that a broker knows; -1 where it knows none."""
    return version_at(state_at(mine), id_, b)


@njit(cache=True)
def refresh_all(mine, cells):
    """What is known of values changed."""
    state = state_at(mine)
    for cell in cells:
        refresh(state, cell)


@njit(cache=True)
def enter_cells(keys, slots, held, cells):
    """Enter cells into a larger table."""
    for i in range(held.size):
        enter_cell(keys, slots, held[i], cells[i])


@njit(cache=True)
def match(mine, rows, slots):
    """Note of publications at which homes one of these profiles may hold."""
    state = state_at(mine)
    for j in range(slots.size):
        s = slots[j]
        if state.home[s] < 0:
            continue
        number = state.enter[0, state.home[s]]
        word, bit = number >> 6, np.uint64(1) << np.uint64(number & 63)
        for i in range(rows.size):
            row = rows[i]
            if state.where[row, word] & bit == np.uint64(0) and holds(state, s, row, WHATEVER):
                state.where[row, word] |= bit
                state.witness[row, number] = s


@njit(cache=True)
def ways(mine, values, owners, target, publishers):
    """Who is told of values by their owners, and by which link: (number of the value, broker, link) each.

    That is who is on the way to homes of profiles that name them; and to these publishers' brokers, if there are such.
    """
    state = state_at(mine)
    brokers = state.entries.size
    found = np.empty((3, 4 * brokers), np.int64)
    count = 0
    seen = np.full((2, brokers), -1, np.int64)  # the last value for which a broker was come by; place in the chain
    chain = np.empty(brokers, np.int64)  # from the owner up to the root
    for i in range(values.size):
        if count + 2 * brokers > found.shape[1]:
            more = np.empty((3, 2 * found.shape[1]), np.int64)
            more[:, :count] = found[:, :count]
            found = more
        b = np.int64(owners[i])
        for at in range(brokers):
            chain[at], seen[0, b], seen[1, b] = b, i, at
            if state.up[0, b] < 0:
                break
            b = np.int64(target[state.up[0, b]])
        highest, start, named = 0, state.naming_start[values[i]], state.naming_count[values[i]]
        for at in range(named + (publishers.size if named else 0)):
            if at < named:
                b = np.int64(state.at_enter[state.naming_items[start + at] >> 32])
            else:
                b = np.int64(publishers[at - named])
            for _ in range(brokers):
                if seen[0, b] == i:
                    break
                seen[0, b], seen[1, b] = i, 0
                found[0, count], found[1, count], found[2, count] = i, b, state.up[0, b]
                count += 1
                b = np.int64(target[state.up[0, b]])
            highest = max(highest, seen[1, b])
        for at in range(1, highest + 1):
            found[0, count], found[1, count], found[2, count] = i, chain[at], state.up[0, chain[at - 1]] ^ 1
            count += 1
    return found[:, :count]
