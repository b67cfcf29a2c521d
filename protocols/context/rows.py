"""The rows of profiles in compiled code: whether they are profiles, and what is in them."""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.indexes.context.contract import OPERATORS
from protocols.context.kind import ATOM, CONTEXTS_MAX, value_word

_WITHIN = OPERATORS.index("~")
_word_of = njit(cache=True)(value_word)


@njit(cache=True)
def _whole(number, end):
    """Whether a number is there and is none of 0..end, which makes it wrong."""
    return number == number and not (0 <= number < end and number == np.floor(number))


@njit(cache=True)
def look_over(rows, attributes, good):
    """Whether each row is a profile, beyond doubt: as `Context.profile` and `checked_profile` have it."""
    for i in range(rows.shape[0]):
        good[i] = False
        before = -np.inf
        for at in range(0, rows.shape[1] - ATOM + 1, ATOM):
            conjunct, attribute, operator, context, of, constant, epsilon = (
                rows[i, at], rows[i, at + 1], rows[i, at + 2], rows[i, at + 3], rows[i, at + 4], rows[i, at + 5],
                rows[i, at + 6],
            )  # fmt: skip
            if conjunct != conjunct:
                continue
            good[i] = conjunct >= before
            before = conjunct
            good[i] &= not (_whole(attribute, attributes) or _whole(operator, len(OPERATORS)))
            good[i] &= not (_whole(context, CONTEXTS_MAX) or _whole(of, attributes))
            good[i] &= (context == context) == (of == of)
            operands = (attribute == attribute) + (context == context) + (constant == constant)
            good[i] &= operands == (2 if operator == operator else 0)
            good[i] &= constant != constant or np.isfinite(constant)
            good[i] &= operator != _WITHIN or (np.isfinite(epsilon) and epsilon >= 0)
            if not good[i]:
                break


@njit(cache=True)
def count_atoms(rows, counts):
    for i in range(rows.shape[0]):
        counts[i] = 0
        for at in range(0, rows.shape[1] - ATOM + 1, ATOM):
            counts[i] += rows[i, at] == rows[i, at]


@njit(cache=True)
def fill(rows, starts, atoms, names, firsts):
    """The atoms of rows, and what names the values in them."""
    for i in range(rows.shape[0]):
        to, j = starts[i], firsts[i]
        for at in range(0, rows.shape[1] - ATOM + 1, ATOM):
            if rows[i, at] == rows[i, at]:
                for column in range(3):
                    atoms[to, column] = rows[i, at + column]
                atoms[to, 4], atoms[to, 5] = rows[i, at + 5], rows[i, at + 6]
                if rows[i, at + 3] == rows[i, at + 3]:
                    names[j] = _word_of(np.int64(rows[i, at + 3]), np.int64(rows[i, at + 4]))
                to += 1
                j += 1


@njit(cache=True)
def fill_names(slots, counts, starts, names, numbers, name_value, name_first, name_count):
    """The values that each profile names, once each, in the order of their names."""
    at = 0
    for i in range(slots.size):
        start, count = starts[i], 0
        before = np.int64(-1)
        for _ in range(counts[i]):
            least = -1
            for j in range(at, at + counts[i]):
                if names[j] > before and (least < 0 or names[j] < names[least]):
                    least = j
            if least < 0:
                break
            before = names[least]
            name_value[start + count], name_first[start + count] = numbers[least], -1
            count += 1
        name_count[slots[i]] = count
        at += counts[i]
