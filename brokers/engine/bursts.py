"""Losses in bursts: a link is good or bad, and loses more while it is bad (Gilbert 1960, Elliott 1963).

Before each message that leaves over it, a good link turns bad and a bad one good with probabilities of their own; the
first finds it as it is in the long run. All of it are draws named by link and number of the message. So what a link is
at its nth message is a function of seed, link and n; the state that is kept, a number per link, spares counting from 0.

A link has two such chains: its own, and the one of the fault that wears it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, uint64

from brokers.contract import Ints
from brokers.engine.layout import (
    G_BAD,
    G_BEGINS,
    G_ENDS,
    G_GOOD,
    G_SHARE,
    L_BAD,
    L_WORN,
    Z_BAD,
    Z_BEGINS,
    Z_ENDS,
    Z_LOSS,
    Z_SHARE,
)
from brokers.fingerprint import draw, scramble

_WHOLE = 2.0**64
_TURNS, _WORN_TURNS = np.uint64(0x74_75_72_6E), np.uint64(0x77_74_75_72_6E)  # apart from the draws of losses


def limit(share: float) -> int:
    """The draws below it are so many of all, as the bits of an int64."""
    return int(np.array([min(int(share * _WHOLE), (1 << 64) - 1)], np.uint64).view(np.int64)[0])


def chain(begins: float, ends: float) -> list[int]:
    """The limits of a chain: of draws that turn it bad, and good; and that find it bad first."""
    return [limit(begins), limit(ends), limit(begins / (begins + ends) if begins else 0.0)]


def table_of(bursts: Any) -> Ints:
    """The rows of `layout` for each directed link, of those of an overlay; none where it has none."""
    if bursts is None:
        return np.empty((5, 0), np.int64)
    rows = [[*chain(begins, ends), limit(good), limit(bad)] for begins, ends, good, bad in bursts.tolist()]
    return np.ascontiguousarray(np.repeat(np.array(rows, np.int64).T, 2, axis=1))


@njit(forceinline=True, cache=True)
def loses(world, link, number):
    """The limit of draws by which a link loses a message that leaves over it; steps on to it."""
    bursts, state = world.bursts, world.link_state
    if bursts.shape[1] == 0 or bursts[G_BEGINS, link] == 0:
        return world.loss_limit[link]
    drawn = draw(scramble(world.loss_key[link] ^ _TURNS), number)
    bad = _steps(
        state[link, L_BAD] == 1, number == 0, drawn, bursts[G_BEGINS, link], bursts[G_ENDS, link], bursts[G_SHARE, link]
    )
    state[link, L_BAD] = bad
    return uint64(bursts[G_BAD if bad else G_GOOD, link])


@njit(forceinline=True, cache=True)
def wear_loses(world, link, stretch, number):
    """And those by which it loses more, worn as it is in a stretch; a chain begins with its stretch."""
    wear, state = world.wear, world.link_state
    if wear[Z_BEGINS, stretch] == 0:
        return uint64(wear[Z_LOSS, stretch])
    drawn = draw(scramble(world.loss_key[link] ^ _WORN_TURNS), number)
    known = state[link, L_WORN]
    bad = _steps(
        known & 1 == 1, known >> 1 != stretch + 1, drawn, wear[Z_BEGINS, stretch], wear[Z_ENDS, stretch],
        wear[Z_SHARE, stretch],
    )  # fmt: skip
    state[link, L_WORN] = 2 * (stretch + 1) + bad
    return uint64(wear[Z_BAD if bad else Z_LOSS, stretch])


@njit(forceinline=True, cache=True)
def _steps(bad, first, drawn, begins, ends, share):
    """Whether a link is bad now that was bad or not."""
    if first:
        return drawn < uint64(share)
    return drawn >= uint64(ends) if bad else drawn < uint64(begins)
