"""The tables of the context protocols as compiled code sees them, and what is asked of them.

Each profile is there once, with one bit for each broker: noted there. What a broker knows of a value is a *cell*, made
when it first hears of it, found by (value, broker). Homes have numbers along the tree (`enter`), so that what lies
behind a link is one stretch of them, or two; the profiles that name a value are ordered by it. Of a publication it is
kept at which homes a profile may hold whatever values are; whether a broker has been told of that profile, whether it
may hold on what the broker knows of values (but for `context-edge`), and whether it holds on the values at its home, is
asked for each broker.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.compiled import digest
from brokers.indexes.context.table import EQUAL, GREATER, GREATER_EQUAL, LESS, LESS_EQUAL, UNEQUAL
from brokers.indexes.ids import find_one
from brokers.records import Record, reader
from brokers.views import FLAGS, INTS, NARROW, NARROW_TABLE, REALS, REALS_TABLE, WORDS_TABLE

RANGE = 16
NO_LINK = -1
UNKNOWN, OWN = -2, -1  # in place of the link by which a value comes
NOTHING = -3  # in place of a change: there is none, not even one from before the start (-1)

# Columns of an atom.
CONJUNCT, ATTRIBUTE, OPERATOR, VALUE, CONSTANT, EPSILON = range(6)
COLUMNS = 6

# Whose rules hold.
EDGE, REPLICATED, ESCALATED = range(3)

# On which values an atom is asked to hold, in place of a broker that knows ranges of them.
WHATEVER, HOME = -1, -2

# Numba does not see edits of one file in kernels of another.
_MADE_OF = digest(__file__, "known.py", "deciding.py")
RECORD = Record(f"context {_MADE_OF}", {
    "rule": INTS,  # the one number says whose
    "publishes": FLAGS,  # by link: whether it leads to publishers, and these are to be told of values
    "in_tree": FLAGS, "up": NARROW_TABLE, "enter": NARROW_TABLE, "leave": NARROW_TABLE,  # those of the routes
    "at_enter": NARROW,  # by number along the tree: the broker
    # profiles, by slot
    "id": INTS, "change": INTS, "home": NARROW, "client": INTS, "older": INTS, "start": INTS, "atom_count": NARROW,
    "name_count": NARROW, "told": FLAGS, "uses": INTS, "noted": WORDS_TABLE,
    "gone": INTS, "gone_count": INTS,  # slots that no broker here knows any more
    "ids": INTS, "slots": NARROW, "changes": INTS, "change_slots": NARROW,  # the newest of an id; by its change
    # atoms of profiles, and the values that they name, from `start` on
    "atoms": REALS_TABLE, "atom_cell": INTS, "name_value": INTS, "name_first": INTS,
    # profiles of a home, by client; profiles that name a value, by home along the tree
    "home_start": INTS, "home_count": INTS, "home_items": INTS,
    "naming_start": INTS, "naming_count": INTS, "naming_items": INTS,
    # cells
    "cell_keys": INTS, "cell_slots": NARROW, "cell_count": INTS, "source": NARROW, "left_out": FLAGS,
    "low": REALS, "high": REALS, "stamp": INTS, "revived": INTS, "first_by": INTS, "awaited": INTS, "known": REALS,
    # what bodies say of values, by body
    "said_generation": NARROW, "said_value": INTS, "said_low": REALS, "said_high": REALS, "said_issued": INTS,
    "said_target": NARROW,
    # publications: their row by body; values, one bit for each home where a profile may hold, and such a profile
    "published_generation": NARROW, "published_row": INTS, "values": REALS_TABLE, "where": WORDS_TABLE,
    "witness": NARROW_TABLE,
    "words": INTS,  # by value: its name
    "entries": INTS, "decided": INTS, "useless": INTS,  # by broker
    # ranges that brokers told their neighbours: by value and link; how often each was widened, the change that did it
    "told_keys": INTS, "told_slots": NARROW, "told_count": INTS, "told_low": REALS, "told_high": REALS,
    "told_level": INTS, "told_by": INTS,
    "widening": REALS,  # the first step, and the width of the domain
    "spreads": INTS, "escalations": INTS, "shrunk": INTS,  # by broker: news told on, and what it did to ranges
})  # fmt: skip
state_at = reader(RECORD)

SLOT = (1 << 32) - 1


# ---- profiles ----------------------------------------------------------------------------------------


@njit(inline="always")
def is_noted(state, slot, broker):
    return (state.noted[slot, broker >> 6] >> np.uint64(broker & 63)) & np.uint64(1) != np.uint64(0)


@njit(cache=True)
def version_at(state, id_, b):
    """The slot of that version of a profile which a broker knows; -1 where it knows none."""
    s = find_one(state.ids, state.slots, id_)
    for _ in range(state.older.size):
        if s < 0 or is_noted(state, s, b):
            break
        s = state.older[s]
    return s


@njit(inline="always")
def find_change(state, change):
    """The slot of the profile that came by a change; -1 where it is not known."""
    return find_one(state.changes, state.change_slots, change)


@njit(cache=True)
def holds(state, s, row, where):
    """Whether a profile holds on the values known at its home (HOME), or may hold on what a broker knows of them.

    Or may hold WHATEVER values are.
    """
    at = state.start[s]
    end = at + state.atom_count[s]
    while at < end:
        number, good = state.atoms[at, CONJUNCT], True
        while at < end and state.atoms[at, CONJUNCT] == number:
            if good:
                good = atom_holds(state, at, row, where, NO_LINK)
            at += 1
        if good:
            return True
    return False


@njit(inline="always")
def _range_at(state, at, b, link):
    """What a broker knows of the value that an atom names; or what it told over a link, if that is one."""
    value = np.int64(state.atoms[at, VALUE])
    cell = find_cell(state, value, b)
    if link >= 0 and cell >= 0 and state.source[cell] != UNKNOWN and state.source[cell] != link:
        cell = find_told(state, value, link)
        return (state.told_low[cell], state.told_high[cell]) if cell >= 0 else (-np.inf, np.inf)
    return (state.low[cell], state.high[cell]) if cell >= 0 else (-np.inf, np.inf)


@njit(cache=True)
def atom_holds(state, at, row, where, link):
    """Whether an atom holds; where a value is not known, whether it does for some value (as `sieve` has it).

    With a link, at a broker: as it looks to the neighbour there, by what that one was told. It knows itself what comes
    from there.
    """
    atoms = state.atoms
    if atoms[at, OPERATOR] != atoms[at, OPERATOR]:
        return True
    operator = int(atoms[at, OPERATOR])
    low = high = atoms[at, CONSTANT]
    if atoms[at, VALUE] == atoms[at, VALUE]:
        low, high = -np.inf, np.inf
        if where == HOME:
            low = high = state.known[state.atom_cell[at]]
            if low != low:
                return False
        elif where >= 0:
            low, high = _range_at(state, at, where, link)
            if low > high:
                return False
    if atoms[at, ATTRIBUTE] == atoms[at, ATTRIBUTE]:
        first = last = state.values[row, int(atoms[at, ATTRIBUTE])]
        if first != first:
            return False
    else:
        # A context with a constant: the value stands on the left.
        first, last = low, high
        low = high = atoms[at, CONSTANT]
    if operator == LESS:
        return first < high
    if operator == LESS_EQUAL:
        return first <= high
    if operator == EQUAL:
        return first <= high and last >= low
    if operator == UNEQUAL:
        return not (first == last and low == high and first == low)
    if operator == GREATER_EQUAL:
        return last >= low
    if operator == GREATER:
        return last > low
    return first <= high + atoms[at, EPSILON] and last >= low - atoms[at, EPSILON]



# ---- who names a value -------------------------------------------------------------------------------


@njit(cache=True)
def _seek(state, value, number):
    """Where in the profiles that name a value those of homes from this number on begin."""
    low = state.naming_start[value]
    high = low + state.naming_count[value]
    while low < high:
        middle = (low + high) // 2
        if state.naming_items[middle] >> 32 < number:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def named_in(state, value, b, first, stop):
    """Whether a broker knows a profile that names a value, of a home numbered first..stop."""
    if first >= stop:
        return False
    at = _seek(state, value, first)
    end = state.naming_start[value] + state.naming_count[value]
    while at < end and state.naming_items[at] >> 32 < stop:
        if is_noted(state, state.naming_items[at] & SLOT, b):
            return True
        at += 1
    return False


@njit(cache=True)
def leads(state, value, b, link, target):
    """Whether a broker knows a profile that names a value, of a home behind a link."""
    if link == state.up[0, b]:
        return named_in(state, value, b, 0, state.enter[0, b]) or named_in(
            state, value, b, state.leave[0, b], state.enter.columns
        )
    return named_in(state, value, b, state.enter[0, target], state.leave[0, target])


@njit(inline="always")
def wants(state, value, b, link, target):
    """Whether an update of a value goes over a link."""
    return state.publishes[link] or leads(state, value, b, link, target)


@njit(inline="always")
def lies_behind(state, home, b, link, target):
    """Whether a broker lies behind a link."""
    number = state.enter[0, home]
    if link == state.up[0, b]:
        return number < state.enter[0, b] or number >= state.leave[0, b]
    return state.enter[0, target] <= number < state.leave[0, target]


@njit(cache=True)
def first_of(state, value, home, b, but):
    """Of those profiles of a home that name a value and that a broker knows: the change by which the first came."""
    number = state.enter[0, home]
    at = _seek(state, value, number)
    end = state.naming_start[value] + state.naming_count[value]
    while at < end and state.naming_items[at] >> 32 == number:
        s = state.naming_items[at] & SLOT
        if s != but and is_noted(state, s, b):
            return _first_said(state, s, value)
        at += 1
    return np.int64(NOTHING)


@njit(inline="always")
def _first_said(state, s, value):
    at = state.start[s]
    while state.name_value[at] != value:
        at += 1
    return state.name_first[at]


@njit(inline="always")
def find_cell(state, value, b):
    """The cell of a value at a broker; -1 where it has not heard of it."""
    return find_one(state.cell_keys, state.cell_slots, value * state.entries.size + b)


@njit(inline="always")
def find_told(state, value, link):
    """Where it stands what was told of a value over a link; -1: nothing, so that it may be anything."""
    return find_one(state.told_keys, state.told_slots, value * state.in_tree.size + link)
