"""What brokers were at work on, and the messages between them, for ui.perfetto.dev: JSON of Chrome's trace events.

A broker is a process, each of its services a thread. A slice lasts from when the broker took up an event, which is not
before it was done with the one before, to when it was done: one queue over all services, so that no two slices of a
broker overlap. An arrow leads from the slice in which a message was sent to that in which it was handled. Who sent it
is the last event of the same message (or change) that the broker at the other end had done with in time, as far as a
trace tells.

Viewers hold some hundred thousand events. Of a longer run a share of all messages is shown, each whole, as in a report.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from analysis.export.asked import Asked
from analysis.frames.naming import Names
from analysis.report.gather import Array, Rows
from analysis.report.sampling import Sample, in_sample
from analysis.report.words import plain, share
from analysis.spark.graph import Network
from brokers.naming import message_name

EVENTS_MOST = 100_000
_HOPS = ("broker", "time_ns", "kind", "source", "sequence", "link", "service", "type", "body", "cause", "finish_ns")
_KEPT = ("broker", "time_ns", "kind", "link", "service", "type", "body", "cause", "finish_ns", "begin_ns", "about")


def write_perfetto(asked: Asked, file: BinaryIO, limit: int, *, trust: bool = False) -> str:
    """The trace; a sentence about it."""
    run = asked.run
    rows = asked.table("hops").num_rows
    sample = Sample.of(rows, limit)
    names, network = Names(run, trust), Network.of(run)
    slices = _slices(asked, sample)
    told = f"{slices['broker'].size:,} of {rows:,} events"
    told += "" if sample.whole else f", those of {share(sample.share)} of all messages, each whole"
    about = {"run": plain(run.path.name, 200), "digest": run.digest, "shown": told}
    file.write(f'{{"displayTimeUnit":"ns","otherData":{_json(about)},"traceEvents":[\n'.encode())
    first = True
    for event in chain(_who(names, slices), _events(slices, _senders(slices, network), names)):
        file.write((b"" if first else b",\n") + event.encode())
        first = False
    file.write(b"\n]}\n")
    return told


def _slices(asked: Asked, sample: Sample) -> Rows:
    """Events in the sample, in the order of time, with when their brokers took them up."""
    everything = Asked(asked.run, asked.since_ns, asked.until_ns)  # a queue is that of all services
    done: Array = np.zeros(asked.run.rows("brokers"), np.int64)
    kept: list[Rows] = []
    for rows in everything.in_time("hops", _HOPS):
        rows["begin_ns"] = _begins(rows, done)
        rows["about"] = np.where(rows["cause"] != -1, rows["cause"], rows["body"])
        chosen = in_sample(sample, rows)
        if asked.services:
            chosen &= np.isin(rows["service"], asked.services)
        kept.append({name: rows[name][chosen] for name in _KEPT})
    return {name: np.concatenate([np.empty(0, np.int64), *(each[name] for each in kept)]) for name in _KEPT}


def _begins(rows: Rows, done: Array) -> Array:
    """When a broker took up each event: it was there, and the one before was done. `done` goes on to the next piece."""
    order = np.argsort(rows["broker"], kind="stable")
    broker, finish = rows["broker"][order], rows["finish_ns"][order]
    before = np.concatenate([np.zeros(1, np.int64), finish[:-1]])[: broker.size]
    is_first = np.ones(broker.size, np.bool_)
    is_first[1:] = broker[1:] != broker[:-1]
    before[is_first] = done[broker[is_first]]
    done[broker] = finish  # the last of each broker stays
    begins = np.empty(order.size, np.int64)
    begins[order] = np.minimum(np.maximum(rows["time_ns"][order], before), finish)
    return begins


def _senders(slices: Rows, network: Network) -> Array:
    """Per slice the one in which its message was sent; -1 for what came from a client, or was not found."""
    count = slices["broker"].size
    asking = np.flatnonzero((slices["link"] >= 0) & (slices["about"] != -1))
    link = slices["link"][asking]
    about = np.concatenate([slices["about"], slices["about"][asking]])
    broker = np.concatenate([slices["broker"], network.source[link]])
    # A link takes at least its delay, so what was sent later than that before cannot be this.
    moment = np.concatenate([slices["finish_ns"], slices["time_ns"][asking] - network.delay_ns[link]])
    asks = np.arange(about.size) >= count
    order = np.lexsort((asks, moment, broker, about))
    same = np.zeros(order.size, np.bool_)
    same[1:] = (np.diff(about[order]) == 0) & (np.diff(broker[order]) == 0)
    place = np.arange(order.size)
    begins = np.maximum.accumulate(np.where(same, 0, place))
    last = np.maximum.accumulate(np.where(asks[order], -1, place))
    found = np.full(order.size, -1, np.int64)
    good = last >= begins
    found[order[good]] = order[last[good]]
    senders = np.full(count, -1, np.int64)
    senders[asking] = found[count:]
    return senders


def _who(names: Names, slices: Rows) -> Iterator[str]:
    """Names of processes and threads."""
    for broker in np.unique(slices["broker"]).tolist():
        told = {"name": plain(names.brokers[broker])}
        yield _json({"ph": "M", "pid": broker + 1, "name": "process_name", "args": told})
        order = {"sort_index": broker}
        yield _json({"ph": "M", "pid": broker + 1, "name": "process_sort_index", "args": order})
    both = np.unique(np.stack([slices["broker"], slices["service"]]), axis=1)
    for broker, service in both.T.tolist():
        args = {"name": plain(names.services[service])}
        yield _json({"ph": "M", "pid": broker + 1, "tid": service + 1, "name": "thread_name", "args": args})


def _events(slices: Rows, senders: Array, names: Names) -> Iterator[str]:
    """Slices, and behind them the ends of arrows, which belong to the slice that is open at their time."""
    nodes, types = len(names.brokers), names.type_names(slices["type"], slices["service"], slices["kind"])
    columns = {name: column.tolist() for name, column in slices.items()}
    has_followers = np.zeros(senders.size, np.bool_)
    has_followers[senders[senders >= 0]] = True
    followers = _grouped(senders)
    for at, sender in enumerate(senders.tolist()):
        pid, tid = columns["broker"][at] + 1, columns["service"][at] + 1
        begin, finish = columns["begin_ns"][at], columns["finish_ns"][at]
        args = {
            name: message_name(columns[name][at], nodes) for name in ("body", "cause") if columns[name][at] != -1
        }  # fmt: skip
        waited = begin - columns["time_ns"][at]
        where = f'"pid":{pid},"tid":{tid}'
        yield (
            f'{{"ph":"X","name":{_json(types[at])},{where},"ts":{_us(begin)},"dur":{_us(finish - begin)},'
            f'"args":{_json({**args, "waited_ns": waited})}}}'
        )
        if sender >= 0:
            yield f'{{"ph":"f","bp":"e","cat":"message","name":"message","id":{at},{where},"ts":{_us(begin)}}}'
        if has_followers[at]:
            # Inside of the slice, which does not hold the moment at which it ends.
            leaves = _us(max(begin, finish - 1))
            for follower in followers[at]:
                yield f'{{"ph":"s","cat":"message","name":"message","id":{follower},{where},"ts":{leaves}}}'


def _grouped(senders: NDArray[np.int64]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for at in np.flatnonzero(senders >= 0).tolist():
        found.setdefault(int(senders[at]), []).append(at)
    return found


def _us(ns: int) -> str:
    """Microseconds, exactly."""
    return f"{ns // 1000}.{ns % 1000:03}"


def _json(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))
