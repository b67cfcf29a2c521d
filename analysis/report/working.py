"""For how long brokers were at work: by service, broker and stretch of time where every event is at hand.

A broker handles one event after the other, so an event kept it from the later of its arrival and the end of the one
before until its own end. All of it counts in the stretch in which the event came.
"""

from __future__ import annotations

import numpy as np

from analysis.report.gather import Array, Gathered

WHOLE = "Load is of the whole run and of all services: the report has not all events"


def work_us(found: Gathered) -> Array:
    """Microseconds by service, broker and stretch; by broker alone, of the whole run, where events are missing."""
    if not found.has("brokers"):
        return np.zeros((1, found.network.brokers, 1), np.int64)
    if not over_time(found):
        busy = found.run.read("brokers", ["broker", "busy_ns"]).sort_by("broker")["busy_ns"].to_numpy()
        return _us(busy.reshape(1, -1, 1))
    rows = found.rows("hops")
    order = np.lexsort((rows["time_ns"], rows["finish_ns"], rows["broker"]))
    broker, came, done = (rows[name][order] for name in ("broker", "time_ns", "finish_ns"))
    same = np.diff(broker, prepend=-1) == 0
    free = np.where(same, np.roll(done, 1), 0)  # of the event before
    took = np.zeros((found.services, found.network.brokers, found.stretches), np.int64)
    stretch = found.at(came, found.stretches)
    np.add.at(took, (rows["service"][order], broker, stretch), done - np.maximum(came, free))
    return _us(took)


def over_time(found: Gathered) -> bool:
    """Whether load is known around a time, and of one service."""
    return found.has("hops") and found.sample.whole


def _us(time_ns: Array) -> Array:
    return np.rint(time_ns / 1_000).astype(np.int64)


def available_us(found: Gathered, stretch: int | None) -> float:
    """The time of which work is a share: the simulated time, as charts have it, or a stretch."""
    if stretch is None:
        return max(1, int(found.run.manifest["scenario"]["duration"])) / 1_000
    return found.span_ns / 1_000 / found.stretches  # by the steps of the page, so that the last bits are the same
