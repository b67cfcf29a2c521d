"""Copies of publications that brokers got, and which of them came for nothing.

A copy came for nothing if its broker had handled one before, or neither delivered it to a client nor sent it on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.report.gather import Array, Gathered, Rows
from brokers.contract import MESSAGE


class Copies(NamedTuple):
    """A row for each copy of a publication in the sample that a broker handled."""

    service: Array
    place: Array  # a number per publication and broker
    broker: Array
    link: Array  # over which it came; negative where its publisher brought it
    time_ns: Array
    wasted: NDArray[np.bool_]


def copies(found: Gathered) -> Copies:
    """Those of the messages that are in the sample."""
    network, rows = found.network, found.rows("hops")
    carries = _passed_on(found, rows) & (rows["body"] >= 0)
    body, broker, link, time, service = (
        rows[name][carries] for name in ("body", "broker", "link", "time_ns", "service")
    )
    ids, number = np.unique(body, return_inverse=True)
    place = number * network.brokers + broker
    order = np.lexsort((time, place))
    again = np.zeros(place.size, np.bool_)
    again[order[1:]] = place[order[1:]] == place[order[:-1]]
    over = link >= 0
    useful = [number[over] * network.brokers + network.source[link[over]]]
    lost = found.rows("losses")
    on_link = lost["link"] >= 0
    useful.append(index(ids, lost["body"][on_link]) * network.brokers + network.source[lost["link"][on_link]])
    got = found.rows("deliveries")
    useful.append(index(ids, got["publication"]) * network.brokers + got["broker"])
    wasted = (again | ~np.isin(place, np.concatenate(useful))) & over
    return Copies(service, place, broker, link, time, wasted)


def wasted_by_place(found: Gathered) -> tuple[Array, Array]:
    """Copies that came for nothing, by service, link and stretch of time; and by the broker that got them."""
    on_links = np.zeros((found.services, found.network.source.size, found.stretches), np.int64)
    at_brokers = np.zeros((found.services, found.network.brokers, found.stretches), np.int64)
    got = copies(found)
    service, link, broker, time = (
        column[got.wasted] for column in (got.service, got.link, got.broker, got.time_ns)
    )  # fmt: skip
    stretch = found.at(time, found.stretches)
    np.add.at(on_links, (service, link, stretch), 1)
    np.add.at(at_brokers, (service, broker, stretch), 1)
    return on_links, at_brokers


def index(ids: Array, wanted: Array) -> Array:
    """Where each stands among sorted ids; −1 where it does not."""
    if not ids.size:
        return np.full(wanted.size, -1, np.int64)
    at = np.minimum(np.searchsorted(ids, wanted), ids.size - 1)
    return np.where(ids[at] == wanted, at, -1)


def _passed_on(found: Gathered, rows: Rows) -> NDArray[np.bool_]:
    """Which events are messages that pass a publication on, and no question or answer about one."""
    carries = np.zeros(rows["service"].size, np.bool_)
    for each in found.kinds or ():
        types = sorted(each.kind.publications)
        carries |= (rows["service"] == each.number) & np.isin(rows["type"], types)
    return carries & (rows["kind"] == MESSAGE)
