"""What a figure of single messages shows: which time, which service, the way of which message."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.report.figures import names_of
from analysis.report.gather import WANTED, Array, Gathered, Rows, blocks
from analysis.report.words import share, time
from brokers.errors import InvalidInput
from brokers.naming import message_id, message_name

Mask = NDArray[np.bool_]
_US = 1_000  # ns: a page knows times to the microsecond, and its commands draw what it shows


class View(NamedTuple):
    """What is asked for; None is all, or what the figure begins with."""

    metric: str | None = None
    service: str | None = None
    at_ns: int | None = None
    begin_ns: int | None = None
    end_ns: int | None = None
    message: str | None = None
    link: tuple[str, str] | None = None  # from a broker, to a broker


def service_of(found: Gathered, name: str | None) -> int | None:
    """The number of the service that is asked for; None for all."""
    names = names_of(found)
    if name is not None and name not in names:
        raise InvalidInput(f"--service: the run has no service {name!r}; it has {', '.join(names)}")
    return None if name is None else names.index(name)


def us(time_ns: Array) -> Array:
    return time_ns // _US


def us_within(found: Gathered, option: str, time_ns: int) -> float:
    """A time that is asked for, in microseconds, if it is in the run."""
    if time_ns > found.span_ns:
        raise InvalidInput(f"{option}: all is over at {time(found.span_ns)} (got {time(time_ns)})")
    return time_ns / _US


class Way(NamedTuple):
    """The events of a message, by time, and how it was lost."""

    id: int
    events: Rows
    losses: Rows


def way_of(found: Gathered, name: str) -> Way:
    """The events that carried a publication; of what no publication is, also those that it caused."""
    wanted = message_id(name, found.network.brokers)
    events = _about(found, "hops", wanted)
    carried = events["body"] == wanted
    if carried.any() and found.carries(np.array([wanted]))[0]:
        events = _of(events, carried)
    if not events["time_ns"].size:
        raise InvalidInput(f"--message: the run has no message {name}; they are called client#number, as in 0#1")
    order = np.argsort(us(events["time_ns"]), kind="stable")
    lost = _about(found, "losses", wanted) if found.has("losses") else found.rows("losses")
    theirs = np.where(lost["body"] >= 0, lost["body"], lost["cause"]) == wanted
    return Way(wanted, _of(events, order), _of(lost, theirs))


def _about(found: Gathered, table: str, wanted: int) -> Rows:
    """Rows that carry a message or that it caused, whether or not it is in the sample."""
    parts = [
        _of(rows, (rows["body"] == wanted) | (rows["cause"] == wanted))
        for rows in blocks(found.run, table, WANTED[table])
    ]
    none = np.empty(0, np.int64)
    return {name: np.concatenate([none, *(part[name] for part in parts)]) for name in WANTED[table]}


def _of(rows: Rows, chosen: Array | Mask) -> Rows:
    return {name: column[chosen] for name, column in rows.items()}


def chosen(rows: Rows, service: int | None, mask: Mask) -> Rows:
    """The rows of a service, or of all, that a mask has."""
    return _of(rows, mask if service is None else mask & (rows["service"] == service))


def sent_us(found: Gathered, rows: Rows) -> Array:
    """When messages were put on their links, as their delays say; of what came over no link, when it came."""
    over = np.maximum(rows["link"], 0)
    delay = us(found.network.delay_ns)[over] if found.network.delay_ns.size else np.zeros(over.size, np.int64)
    return us(rows["time_ns"]) - np.where(rows["link"] >= 0, delay, 0)


def called(found: Gathered, rows: Rows) -> list[str]:
    """What each event carries, else what caused it, as commands name it."""
    about = np.where(rows["body"] != -1, rows["body"], rows["cause"])
    return ["" if each == -1 else message_name(abs(each), found.network.brokers) for each in about.tolist()]


def of_sample(found: Gathered, what: str) -> list[str]:
    """Where not all messages are in the sample, a sentence."""
    return [] if found.sample.whole else [f"{what} are of {share(found.sample.share)} of all messages."]
