"""Duplicates and order among deliveries, publisher by publisher and client by client, in NumPy.

A publication's id counts up with its publisher's sends. Of one publication and client every delivery but the first is a
duplicate; a first one is out of order if a publication that was sent before it came later. Deliveries at one instant
keep no order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def coded(*columns: Array) -> Array:
    """Several columns as one number, which sorts as they do, in that order."""
    found, room = np.zeros(columns[0].size, np.int64), 62
    for column in columns:
        if not column.size:
            continue
        values = column.astype(np.int64) - int(column.min())
        bits = int(values.max()).bit_length()
        if bits > room:  # by their places among those there are
            found, values = (np.unique(each, return_inverse=True)[1] for each in (found, values))
            bits = int(values.max()).bit_length()
            room = 62 - int(found.max()).bit_length()
        found, room = found << bits | values, room - bits
    return found


def looked_through(client: Array, publication: Array, time_ns: Array) -> tuple[Array, Array, Array, Array]:
    """What sorts deliveries by client, publication and time; and in that order, three columns.

    Which are duplicates; when the latest of those before came, -1 where there is none; which are out of order.
    """
    code = coded(client, publication)
    order = np.argsort(code)
    code = code[order]
    again = np.zeros(code.size, np.bool_)
    again[1:] = code[1:] == code[:-1]
    if again.any():
        order = np.lexsort((time_ns, coded(client, publication)))
    client, publisher, time = client[order], publication[order] >> 32, time_ns[order]
    begins = np.ones(code.size, np.bool_)
    begins[1:] = (client[1:] != client[:-1]) | (publisher[1:] != publisher[:-1])
    latest = _latest_before(np.cumsum(begins), np.where(again, -1, time))
    latest[begins] = -1
    return order, again, latest, ~again & (latest > time)


def _latest_before(group: Array, time: Array) -> Array:
    """The greatest time in all rows above, where they are of the same group."""
    if not time.size:
        return time.copy()
    bits = int(time.max() + 1).bit_length()
    values, times = time + 1, None
    if bits + int(group[-1]).bit_length() > 62:
        times, values = np.unique(time, return_inverse=True)
        bits = int(times.size).bit_length()
    latest = np.maximum.accumulate(group << bits | values) & ((1 << bits) - 1)
    latest = latest - 1 if times is None else times[latest]
    return np.r_[-1, latest[:-1]]
