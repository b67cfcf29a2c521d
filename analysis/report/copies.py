"""Copies of publications that brokers got, and which of them came for nothing.

A copy came for nothing if its broker had handled one before, or neither delivered it to a client nor sent it on.
`brokerlab analyze` counts them over the whole run; where it was not asked, those of the sample are looked at here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.report.gather import Array, Gathered, Rows
from analysis.report.words import share
from brokers.contract import MESSAGE

WHOLE = "of the whole run, as brokerlab analyze counted"


class Waste(NamedTuple):
    """Copies over links, and those that came for nothing, each by service, link and stretch of time."""

    copies: Array
    for_nothing: Array
    said: str  # what they are of


def waste(found: Gathered) -> Waste:
    """Of the whole run where `analyze` has counted them, else of the messages that are in the sample."""
    shape = found.services, found.network.source.size, found.stretches
    came, wasted = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    counted = found.analyzed.numbers("waste", _limits(found))
    if counted is not None:
        place = counted["service"], counted["link"], counted["stretch"]
        np.add.at(came, place, counted["copies"])
        np.add.at(wasted, place, counted["for_nothing"])
        return Waste(came, wasted, WHOLE)
    got = copies(found)
    over = got.link >= 0
    place = got.service[over], got.link[over], found.at(got.time_ns[over], found.stretches)
    np.add.at(came, place, 1)
    np.add.at(wasted, tuple(each[got.wasted[over]] for each in place), 1)
    return Waste(came, wasted, of_sample(found))


def _above_all(found: Gathered) -> int:
    """More than can have been counted of anything."""
    return found.run.rows("hops") + 1 if found.has("hops") else 1


def _limits(found: Gathered) -> dict[str, tuple[int, int]]:
    most = _above_all(found)
    return {
        "service": (0, found.services), "link": (0, found.network.source.size), "stretch": (0, found.stretches),
        "copies": (1, most), "for_nothing": (0, most),
    }  # fmt: skip


def handled(found: Gathered) -> tuple[list[Array], str]:
    """By service, how many brokers handled 0, 1, 2 … copies of a publication; and what that is of."""
    most = _above_all(found)
    limits = {"service": (0, found.services), "copies": (1, most), "brokers": (1, most)}
    counted = found.analyzed.numbers("copies", limits)
    if counted is not None:
        each = [counted["service"] == service for service in range(found.services)]
        many = [np.bincount(counted["copies"][mine], counted["brokers"][mine]).astype(np.int64) for mine in each]
        return many, WHOLE
    got = copies(found)
    times = [np.unique(got.place[got.service == service], return_counts=True)[1] for service in range(found.services)]
    return [np.bincount(each) for each in times], of_sample(found)


def of_sample(found: Gathered) -> str:
    return "" if found.sample.whole else f"of {share(found.sample.share)} of all messages"


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
    carries = _passed_on(found, rows) & (rows["kind"] == MESSAGE) & (rows["body"] >= 0)
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
    on_link = (lost["link"] >= 0) & _passed_on(found, lost)
    useful.append(index(ids, lost["body"][on_link]) * network.brokers + network.source[lost["link"][on_link]])
    got = found.rows("deliveries")
    useful.append(index(ids, got["publication"]) * network.brokers + got["broker"])
    wasted = (again | ~np.isin(place, np.concatenate(useful))) & over
    return Copies(service, place, broker, link, time, wasted)


def wasted_by_place(found: Gathered, wasted: Waste) -> tuple[Array, Array]:
    """Copies that came for nothing, by service, link and stretch of time; and by the broker that got them."""
    at_brokers = np.zeros((found.services, found.network.brokers, found.stretches), np.int64)
    np.add.at(at_brokers.transpose(1, 0, 2), found.network.target, wasted.for_nothing.transpose(1, 0, 2))
    return wasted.for_nothing, at_brokers


def index(ids: Array, wanted: Array) -> Array:
    """Where each stands among sorted ids; −1 where it does not."""
    if not ids.size:
        return np.full(wanted.size, -1, np.int64)
    at = np.minimum(np.searchsorted(ids, wanted), ids.size - 1)
    return np.where(ids[at] == wanted, at, -1)


def _passed_on(found: Gathered, rows: Rows) -> NDArray[np.bool_]:
    """Which messages pass a publication on, and are no question or answer about one."""
    carries = np.zeros(rows["service"].size, np.bool_)
    for each in found.kinds or ():
        types = sorted(each.kind.publications)
        carries |= (rows["service"] == each.number) & np.isin(rows["type"], types)
    return carries
