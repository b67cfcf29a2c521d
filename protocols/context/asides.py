"""What `deciding.py` leaves aside: rows that are answered by bodies of their own, or say what leans on what.

They are decided in compiled code too, one by one; the bodies are made afterwards, all at once. And what else Python
asks of the shared tables.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.compiled import desk_at, digest
from brokers.contract import Batch, ShardEnv
from brokers.out import Out
from brokers.records import Record, reader
from brokers.views import INTS, REALS_TABLE, TABLE
from protocols.context.deciding import enter_cell, hear, make_cell, note, refresh, take_range
from protocols.context.kind import SUBSCRIBE, UPDATE, value_of
from protocols.context.known import (
    NOTHING,
    OWN,
    RANGE,
    UNKNOWN,
    find_cell,
    find_change,
    first_of,
    holds,
    leads,
    lies_behind,
    state_at,
    version_at,
)

_MADE_OF = digest(__file__, "known.py", "deciding.py")  # which Numba does not see edits of
ASIDES = Record(f"context-edge asides {_MADE_OF}", {
    "counts": INTS,  # sends, bodies, leanings
    "sent": TABLE,  # row, link, the body made for it or -1, word
    "made": REALS_TABLE, "about": INTS,  # bodies made, and those that they stand for
    "leans": TABLE,  # a change, and the one that it leans on
})  # fmt: skip
SENT, MADE, LEANS = range(3)
_asides_at = reader(ASIDES)
_value_of = njit(cache=True)(value_of)


@njit(cache=True)
def set_aside(desk_address, mine, asides_address, i):
    """Decide on a row that was left; there has to be room for what it is answered by."""
    desk, state, asides = desk_at(desk_address), state_at(mine), _asides_at(asides_address)
    if desk.type[i] == SUBSCRIBE:
        _subscribe(desk, state, asides, i)
    elif desk.type[i] == UPDATE:
        _first_update(desk, state, asides, i)
    else:
        _part_answer(desk, state, asides, i)


@njit(cache=True)
def _send(desk, asides, i, link, made, word):
    at = asides.counts[SENT]
    asides.sent[at, 0], asides.sent[at, 1], asides.sent[at, 2], asides.sent[at, 3] = i, link, made, word
    asides.counts[SENT] = at + 1


@njit(cache=True)
def _lean(asides, change, on):
    """A change relies on one that may still be in flight; -1: on none."""
    if on >= 0 and on != change:
        at = asides.counts[LEANS]
        asides.leans[at, 0], asides.leans[at, 1] = change, on
        asides.counts[LEANS] = at + 1


@njit(cache=True)
def _tell(desk, state, asides, i, link, value, home, asked):
    """Send what is known of a value; the answer to a profile counts not before it."""
    cell = find_cell(state, value, np.int64(desk.broker[i]))
    issued = state.stamp[cell]
    if desk.type[i] == SUBSCRIBE:
        issued = max(issued, desk.published_ns[desk.body[i]])
    context, attribute = _value_of(state.words[value])
    at = asides.counts[MADE]
    asides.about[at] = desk.body[i]
    asides.made[at, 0], asides.made[at, 1], asides.made[at, 2] = context, attribute, state.low[cell]
    asides.made[at, 3], asides.made[at, 4], asides.made[at, 5] = state.high[cell], issued, home
    asides.counts[MADE] = at + 1
    _send(desk, asides, i, link, at, asked)


@njit(cache=True)
def _answer(desk, state, asides, i, value, home):
    """Tell one home the value; all others who need it were told before."""
    b = np.int64(desk.broker[i])
    asked = first_of(state, value, home, b, -1)
    for j in range(desk.out_start[b], desk.out_start[b + 1]):
        o = desk.out_link[j]
        if state.in_tree[o] and lies_behind(state, home, b, o, desk.target[o]):
            _tell(desk, state, asides, i, o, value, home, asked)


@njit(cache=True)
def _first_update(desk, state, asides, i):
    """The owner's news, where they answer profiles or lean on those that did."""
    b, body = np.int64(desk.broker[i]), desk.body[i]
    value = state.said_value[body]
    cell = find_cell(state, value, b)
    if cell < 0:
        cell = make_cell(state, value, b)
    new = state.source[cell] == UNKNOWN
    hear(state, cell, body, -1, desk.published_ns[body])
    for j in range(desk.out_start[b], desk.out_start[b + 1]):
        o = desk.out_link[j]
        if state.in_tree[o] and leads(state, value, b, o, desk.target[o]):
            _send(desk, asides, i, o, -1, desk.word[i])
    change = desk.key[body]
    _lean(asides, change, state.first_by[cell])
    if new:
        for home in range(state.entries.size):
            there = state.at_enter[state.enter[0, home]] == home  # as a server is not
            if home != b and there and first_of(state, value, home, b, -1) != NOTHING:
                state.first_by[cell] = change
                _answer(desk, state, asides, i, value, home)


@njit(cache=True)
def _part_answer(desk, state, asides, i):
    """An answer that is news to others too."""
    b, body, link = np.int64(desk.broker[i]), desk.body[i], desk.link[i]
    value, target = state.said_value[body], np.int64(state.said_target[body])
    cell = find_cell(state, value, b)
    if cell < 0:
        cell = make_cell(state, value, b)
    take_range(state, cell, body, b, link, desk.word[i])
    for j in range(desk.out_start[b], desk.out_start[b + 1]):
        o = desk.out_link[j]
        if not state.in_tree[o] or o == link:
            continue
        if lies_behind(state, target, b, o, desk.target[o]):
            _send(desk, asides, i, o, -1, desk.word[i])
        elif leads(state, value, b, o, desk.target[o]):
            _tell(desk, state, asides, i, o, value, -1, -1)


@njit(cache=True)
def _subscribe(desk, state, asides, i):
    """A profile that leans on other changes, or that the owner of a value answers."""
    b = np.int64(desk.broker[i])
    s = find_change(state, desk.key[desk.body[i]])
    change, home, start = state.change[s], np.int64(state.home[s]), state.start[s]
    end = start + state.name_count[s]
    for at in range(start, end):
        cell = find_cell(state, state.name_value[at], b)
        if cell >= 0 and state.left_out[cell] and state.source[cell] != OWN:
            state.left_out[cell], state.revived[cell] = False, change
            state.low[cell], state.high[cell] = -np.inf, np.inf
            refresh(state, cell)
    for j in range(desk.out_start[b], desk.out_start[b + 1]):
        o = desk.out_link[j]
        if state.in_tree[o] and o != desk.link[i]:
            _send(desk, asides, i, o, -1, desk.word[i])
    note(state, s, b)
    for at in range(start, end):
        value, first = state.name_value[at], state.name_first[at]
        cell = find_cell(state, value, b)
        if cell >= 0:
            _lean(asides, change, state.revived[cell])
        _lean(asides, change, first)
        # It is the first where no other that the broker knows names the value.
        if cell >= 0 and state.source[cell] == OWN and first_of(state, value, home, b, s) == NOTHING:
            _tell_first(desk, state, asides, i, value, cell, home)
    state.told[s] = True


@njit(cache=True)
def _tell_first(desk, state, asides, i, value, cell, home):
    """The owner tells a home the value that a profile there is the first to name."""
    b, change = np.int64(desk.broker[i]), desk.key[desk.body[i]]
    if not state.left_out[cell]:
        if home != b:
            _answer(desk, state, asides, i, value, home)
        return
    state.left_out[cell], state.revived[cell] = False, change
    for j in range(desk.out_start[b], desk.out_start[b + 1]):
        o = desk.out_link[j]
        if not state.in_tree[o]:
            continue
        if home != b and lies_behind(state, home, b, o, desk.target[o]):
            _tell(desk, state, asides, i, o, value, home, change)
        elif leads(state, value, b, o, desk.target[o]):
            _tell(desk, state, asides, i, o, value, -1, -1)


class Asides:
    """What rows that were left aside are answered by, until it is handed on."""

    def __init__(self, env: ShardEnv) -> None:
        self._env = env
        self._counts = np.zeros(3, np.int64)
        self._room(64)

    def _room(self, rows: int) -> None:
        self._sent, self._leans = np.empty((rows, 4), np.int64), np.empty((rows, 2), np.int64)
        self._made, self._about = np.empty((rows, 6)), np.empty(rows, np.int64)
        self._held = ASIDES.of({
            "counts": self._counts, "sent": self._sent, "made": self._made, "about": self._about, "leans": self._leans,
        })  # fmt: skip

    def decide(self, desk: int, mine: int, row: int, broker: int, names: int) -> None:
        """Decide on a row at a broker; `names` is how many values it names at most."""
        env, old = self._env, (self._sent, self._leans, self._made, self._about)
        links = int(env.links.out_start[broker + 1] - env.links.out_start[broker])
        # Over each link, for each value and each home at most.
        needed = int(self._counts.max()) + 2 * (links + 1) * (names + 1) + env.brokers
        if needed > len(self._sent):
            self._room(2 * needed)
            for into, each in zip((self._sent, self._leans, self._made, self._about), old):
                into[: len(each)] = each
        set_aside(desk, mine, self._held.address, row)

    def hand_on(self, batch: Batch, out: Out) -> None:
        """Make the bodies, and answer."""
        sent, made, leans = self._counts.tolist()
        if sent:
            bodies, (row, link, body, word) = self._env.bodies, self._sent[:sent].T.copy()
            type_ = batch.type[row]
            fresh = body >= 0
            body[~fresh] = batch.body[row[~fresh]]
            if made:
                about = self._about[:made]
                of = bodies.time[about], bodies.key[about], bodies.broker[about]
                body[fresh] = bodies.add_rows(self._env.service, RANGE, self._made[:made], *of)[body[fresh]]
            out.send(row, link, np.where(fresh, RANGE, type_), body, word)
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
            if state.where[row, word] & bit == np.uint64(0) and holds(state, s, row, False):
                state.where[row, word] |= bit
                state.witness[row, number] = s


@njit(cache=True)
def ways(mine, values, owners, target):
    """Who is told of values by their owners, and by which link: (number of the value, broker, link) each."""
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
        highest, start = 0, state.naming_start[values[i]]
        for at in range(start, start + state.naming_count[values[i]]):
            b = np.int64(state.at_enter[state.naming_items[at] >> 32])
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
