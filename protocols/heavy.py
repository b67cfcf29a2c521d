"""How many bytes may go over a link: a message is no larger than a few times all that could be told.

A publication weighs what it weighs. Any other message, whatever it is for, can tell of what clients ever said, and of
who there is: so it may be as large as all bodies of publications and changes of the run together, `ROOM` times, and an
id for each broker and client. Who sends more piles something up, as lists from which nothing is ever taken out. Asked
of links that one service uses alone, and of kinds without a server, whose answers are made of what no client said.

Numbers only, by link: kit and audit count them each in their own way.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.contract import Kind

ROOM = 2  # as many times: names of attributes, ids and times beside values
_MESSAGE_BYTES = 64  # what is no body of a client's
_ID_BYTES = 16

Array = NDArray[np.int64]


class Carried(NamedTuple):
    """What went over each directed link."""

    messages: Array  # sent, as the table of links counts them
    bytes: Array
    published: Array  # messages that carried publications
    published_bytes: Array  # of their bodies, as clients sent them


def asked(kind: Kind) -> bool:
    """Whether messages of a kind tell of what clients say, and nothing else."""
    return not kind.server and bool(kind.publications)


def said_bytes(kind: Kind, sizes: Array, operation: Array, values: Any) -> int:
    """Of all publications, by their sizes, and changes, by operations and values."""
    changes = 0
    for type_ in np.unique(operation).tolist():
        mine = [values[row] for row in np.flatnonzero(operation == type_).tolist()]
        longest = max(map(len, mine))
        rows = np.full((len(mine), longest), np.nan)
        for row, each in zip(rows, mine):
            row[: len(each)] = each
        changes += int(kind.row_bytes(type_, rows).sum())
    return int(sizes.sum()) + changes


def too_heavy(carried: Carried, said: int, entities: int) -> Array:
    """By how many bytes each link carried more than it may; 0 where it did not."""
    telling = np.maximum(carried.messages - carried.published, 0)  # what is doubled comes more often
    each = ROOM * said + _ID_BYTES * entities
    most = _MESSAGE_BYTES * carried.messages + ROOM * carried.published_bytes + each * telling
    return np.maximum(carried.bytes - most, 0)
