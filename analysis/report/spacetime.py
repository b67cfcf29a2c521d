"""Space and time as a report's page draws it: a row for each broker, time from left to right, messages as lines."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.report.content import window_us
from analysis.report.figures import SPACE_TIME, Figure, Table, names_of
from analysis.report.gather import Array, Gathered, Rows
from analysis.report.places import places
from analysis.report.summary import name_of
from analysis.report.svg import Axis
from analysis.report.views import View, called, chosen, of_sample, sent_us, service_of, us, us_within, way_of
from analysis.report.words import time
from brokers.errors import InvalidInput

_LINES_MOST, _ROWS_MOST = 12_000, 400
_ROOM = 0.06  # beside the way of a message, of its width
_ROOM_LEAST_US = 50


class Events(NamedTuple):
    """What is drawn, event by event; times in microseconds."""

    rows: list[int]  # brokers, from top to bottom
    names: list[str]  # of those
    begin_us: float
    end_us: float
    source: Array  # whence a message came; -1 where it came over no link
    broker: Array
    sent_us: Array
    came_us: Array
    done_us: Array
    service: Array
    carries: NDArray[np.bool_]  # a publication
    lost: list[tuple[int, int, float]]  # from, to, when
    services: list[str]
    way: bool  # of one message

    @property
    def step(self) -> int:
        """One event in so many is drawn."""
        return max(1, -(-self.broker.size // _LINES_MOST))

    @property
    def origin_us(self) -> float:
        """From when times are told."""
        return max(self.begin_us, 0.0)


def space_time(found: Gathered, view: View, *, trust: bool = False) -> Figure | None:
    """The events of a stretch of time, or those of one message; nothing where there is none."""
    service = service_of(found, view.service)
    if view.message is not None:
        way = way_of(found, view.message)
        events, lost = way.events, way.losses
        begin, end = _around(events)
    else:
        begin, end = _window(found, view)
        came = us(found.rows("hops")["time_ns"])
        events = chosen(found.rows("hops"), service, (came >= begin) & (came < end))
        order = np.argsort(us(events["time_ns"]), kind="stable")
        events, lost = {name: column[order] for name, column in events.items()}, found.rows("losses")
    if not events["time_ns"].size:
        return None
    drawn = _drawn(found, events, lost, (begin, end), view.message is not None, trust)
    return _figure(found, events, drawn, view)


def _window(found: Gathered, view: View) -> tuple[float, float]:
    begin = us_within(found, "--from", view.begin_ns or 0)
    end = begin + window_us(found) if view.end_ns is None else view.end_ns / 1_000
    if end <= begin:
        raise InvalidInput(f"--to: later than --from (got {time(begin * 1_000)} to {time(end * 1_000)})")
    return begin, end


def _around(events: Rows) -> tuple[float, float]:
    begin, end = float(us(events["time_ns"])[0]), float(_done(events).max())
    room = max(_ROOM_LEAST_US, (end - begin) * _ROOM)
    return begin - room, end + room


def _done(events: Rows) -> Array:
    return -(-events["finish_ns"] // 1_000)


def _drawn(found: Gathered, events: Rows, lost: Rows, window: tuple[float, float], way: bool, trust: bool) -> Events:
    network = found.network
    link = events["link"]
    source = np.where(link >= 0, network.source[np.maximum(link, 0)] if network.source.size else -1, -1)
    used = set(events["broker"].tolist()) | set(source[source >= 0].tolist())
    order = places(found.run, network, trust=trust).order
    rows = [broker for broker in order.tolist() if broker in used][:_ROWS_MOST]
    when = us(lost["time_ns"])
    within = (lost["link"] >= 0) & (when >= window[0]) & (when <= window[1])
    crosses = [
        (int(network.source[at]), int(network.target[at]), float(us_lost))
        for at, us_lost in zip(lost["link"][within].tolist(), when[within].tolist())
    ]
    names = [name_of(network, broker) for broker in rows]
    return Events(
        rows, names, *window, source, events["broker"], sent_us(found, events), us(events["time_ns"]), _done(events),
        events["service"], found.carries(events["body"]), crosses, names_of(found), way,
    )  # fmt: skip


def _figure(found: Gathered, events: Rows, drawn: Events, view: View) -> Figure:
    used = len(set(drawn.broker.tolist()) | set(drawn.source[drawn.source >= 0].tolist()))
    said = [f"{drawn.broker.size:,} events from {time(drawn.origin_us * 1_000)} to {time(drawn.end_us * 1_000)}."]
    if drawn.step > 1:
        said.append(f"One in {drawn.step} is drawn.")
    if used > len(drawn.rows):
        said.append(f"{len(drawn.rows)} of {used} brokers are drawn.")
    if not drawn.way:
        said += of_sample(found, "They")
    title = f"Space and time: the way of {view.message}" if drawn.way else "Space and time"
    across = Axis(f"ms after {f'{drawn.origin_us / 1e6:.6f}'.rstrip('0').rstrip('.')} s")
    return Figure(
        SPACE_TIME, title, across, Axis("broker"), (), " ".join(said), sort=SPACE_TIME,
        data=_data(found, events, drawn), events=drawn,
    )  # fmt: skip


def _data(found: Gathered, events: Rows, drawn: Events) -> Table:
    """A row for each event, and for each loss."""

    def name(broker: int) -> str:
        return "" if broker < 0 else name_of(found.network, broker)

    columns = (drawn.service, drawn.carries, drawn.source, drawn.broker, drawn.sent_us, drawn.came_us, drawn.done_us)
    rows: list[tuple[str, ...]] = [
        (f"{drawn.services[service]}, {'a publication' if carries else 'other'}", about, name(source), name(broker),
         str(sent), str(came), str(done))
        for (service, carries, source, broker, sent, came, done), about
        in zip(zip(*(column.tolist() for column in columns)), called(found, events))
    ]  # fmt: skip
    rows += [("lost", "", name(source), name(target), f"{when:.0f}", "", "") for source, target, when in drawn.lost]
    return ("what", "message", "from", "to", "sent (us)", "came (us)", "done (us)"), rows


def tables_of(view: View) -> tuple[str, ...]:
    """What has to be in the trace."""
    return "links", "brokers", "hops", "publications"
