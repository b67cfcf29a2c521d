"""What rows that were left aside are answered by, in compiled code: sends, bodies made for them, and leanings."""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.compiled import digest
from brokers.out import SAME
from brokers.records import Record, reader
from brokers.views import INTS, REALS_TABLE, TABLE
from protocols.context.kind import SUBSCRIBE, value_of

_MADE_OF = digest(__file__, "answering.py", "known.py", "deciding.py")  # which Numba does not see edits of
ASIDES = Record(f"context asides {_MADE_OF}", {
    "counts": INTS,  # sends, bodies, leanings
    "sent": TABLE,  # row, link, the body made for it or -1, word, cause
    "made": REALS_TABLE, "about": INTS,  # bodies made, and those that they stand for
    "leans": TABLE,  # a change, and the one that it leans on
})  # fmt: skip
SENT, MADE, LEANS = range(3)
asides_at = reader(ASIDES)
_value_of = njit(cache=True)(value_of)


@njit(inline="always")
def change_of(desk, i):
    """The change that a row comes from; -1: none, as for what publications brought about."""
    return desk.key[desk.body[i]] if desk.cause[i] >= 0 else np.int64(-1)


@njit(cache=True)
def send(asides, i, link, made, word, cause):
    """Send a body that was made over a link, or, with -1, what the row brought."""
    at = asides.counts[SENT]
    asides.sent[at, 0], asides.sent[at, 1], asides.sent[at, 2], asides.sent[at, 3] = i, link, made, word
    asides.sent[at, 4] = cause
    asides.counts[SENT] = at + 1


@njit(cache=True)
def pass_on(desk, asides, i, link):
    """Send what the row brought over a link."""
    send(asides, i, link, -1, desk.word[i], SAME)


@njit(cache=True)
def lean(asides, change, on):
    """A change relies on one that may still be in flight; -1: on none."""
    if change >= 0 and on >= 0 and on != change:
        at = asides.counts[LEANS]
        asides.leans[at, 0], asides.leans[at, 1] = change, on
        asides.counts[LEANS] = at + 1


@njit(cache=True)
def tell(desk, state, asides, i, link, value, cell, home, asked):
    """Send what is known of a value."""
    tell_range(desk, state, asides, i, link, value, cell, state.low[cell], state.high[cell], home, asked, SAME)


@njit(cache=True)
def tell_range(desk, state, asides, i, link, value, cell, low, high, home, asked, cause):
    """Send a range of a value; the answer to a profile counts not before it."""
    issued = state.stamp[cell]
    if desk.type[i] == SUBSCRIBE:
        issued = max(issued, desk.published_ns[desk.body[i]])
    context, attribute = _value_of(state.words[value])
    at = asides.counts[MADE]
    asides.about[at] = desk.body[i]
    asides.made[at, 0], asides.made[at, 1], asides.made[at, 2] = context, attribute, low
    asides.made[at, 3], asides.made[at, 4], asides.made[at, 5] = high, issued, home
    asides.counts[MADE] = at + 1
    send(asides, i, link, at, asked, cause)
