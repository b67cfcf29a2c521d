"""What questions and answers say, encoded many at a time; byte for byte what `brokers.wire.encode_body` gives."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.contract import Floats, Ints

Bytes = NDArray[Any]

_ENTRY_MOST, _BESIDE = 18, 24  # bytes of an id and a score, and of all else


def encoded(
    case: Ints, start: Ints, count: Ints, floor: Floats, ids: Ints, scores: Floats, texts: Bytes, sizes: Ints
) -> list[bytes]:
    """Questions, where a count is -1, and answers, in the order given.

    A question is {"floor": floor, "values": ...}, of which `texts` has all behind the floor by case; an answer
    {"ids": ..., "scores": ...} of a stretch. Ids are not negative.
    """
    asked = int(np.count_nonzero(count < 0))
    most = (int(count.sum()) + asked) * _ENTRY_MOST + asked * texts.shape[1] + _BESIDE * count.size
    room, ends = np.empty(most, np.uint8), np.empty(count.size + 1, np.int64)
    _encode(
        case, start, count, floor.view(np.int64), ids, scores.view(np.int64), texts, sizes, room, ends
    )
    data, borders = room[: ends[-1]].tobytes(), ends.tolist()
    return [data[a:b] for a, b in itertools.pairwise(borders)]


@njit(cache=True)
def _encode(case, start, count, floor, ids, bits, texts, sizes, room, ends):
    at = 0
    ends[0] = 0
    for i in range(count.size):
        room[at] = 0x82
        if count[i] < 0:
            at = _text(room, at + 1, 0x726F6F6C66, 5)  # "floor"
            room[at] = 0xCB
            at = _big_end(room, at + 1, floor[i], 8)
            for k in range(sizes[case[i]]):
                room[at + k] = texts[case[i], k]
            at += sizes[case[i]]
        else:
            at = _text(room, at + 1, 0x736469, 3)  # "ids"
            at = _length(room, at, count[i])
            for j in range(start[i], start[i] + count[i]):
                at = _whole(room, at, ids[j])
            at = _text(room, at, 0x7365726F6373, 6)  # "scores"
            at = _length(room, at, count[i])
            for j in range(start[i], start[i] + count[i]):
                room[at] = 0xCB
                at = _big_end(room, at + 1, bits[j], 8)
        ends[i + 1] = at


@njit(cache=True)
def _text(room, at, letters, count):
    """A short text, its first letter in the lowest byte."""
    room[at] = 0xA0 | count
    for k in range(count):
        room[at + 1 + k] = (letters >> (8 * k)) & 0xFF
    return at + 1 + count


@njit(cache=True)
def _big_end(room, at, number, size):
    for k in range(size):
        room[at + k] = (number >> (8 * (size - 1 - k))) & 0xFF
    return at + size


@njit(cache=True)
def _length(room, at, count):
    """The head of a list."""
    if count < 16:
        room[at] = 0x90 | count
        return at + 1
    if count < 1 << 16:
        room[at] = 0xDC
        return _big_end(room, at + 1, count, 2)
    room[at] = 0xDD
    return _big_end(room, at + 1, count, 4)


@njit(cache=True)
def _whole(room, at, number):
    """A number that is not negative, in as few bytes as there are forms for."""
    if number < 1 << 7:
        room[at] = number
        return at + 1
    if number < 1 << 8:
        room[at] = 0xCC
        return _big_end(room, at + 1, number, 1)
    if number < 1 << 16:
        room[at] = 0xCD
        return _big_end(room, at + 1, number, 2)
    if number < 1 << 32:
        room[at] = 0xCE
        return _big_end(room, at + 1, number, 4)
    room[at] = 0xCF
    return _big_end(room, at + 1, number, 8)
