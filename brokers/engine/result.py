"""What came of a run: one result from the shards' parts, and the tables that belong to the whole of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers import attackers
from brokers.contract import NEVER, LinkTable
from brokers.engine import layout as L
from brokers.engine.change_rows import changes_of, dependencies_of
from brokers.engine.latency import bucket_value
from brokers.engine.model import Model
from brokers.engine.shard import ShardResult, Standing, Window
from brokers.faults import Crash, Cut, Schedule, Slow
from brokers.stays import Stays
from brokers.words import rows_of
from topology.numbers import Numbers

SECONDS_MAX = 10_000  # digests of a run, one per second unless it lasts longer

WindowLog = Sequence[tuple[int, int, list[Window]]]  # start, end, one report per shard


@dataclass
class Result:
    """What came of a run."""

    digest: str
    digest_per_second: list[str]  # one per `digest_entry_s` seconds
    metrics: dict[str, Any]
    engine: dict[str, Any]
    broker_state: NDArray[np.int64]
    link_state: NDArray[np.int64]  # of all links that are listed, then of those that arose
    arisen: NDArray[np.int64]  # the numbers of links that are described and arose, both directions one after the other
    digest_entry_s: int = 1
    changes: dict[str, NDArray[Any]] = field(default_factory=dict)
    dependencies: NDArray[np.int64] = field(
        default_factory=lambda: np.empty((0, 2), np.int64)
    )  # (change, on)


def combine(model: Model, results: list[ShardResult]) -> Result:
    """One result from the shards' parts. Every broker and every link is in exactly one part."""
    state, link_state, arisen, metrics = so_far(model, results)
    columns = [L.B_HANDLED, L.B_DELIVERED, L.B_DIGEST_A, L.B_DIGEST_B]
    digest = blake2b(
        np.ascontiguousarray(state[:, columns]).astype("<i8").tobytes(), digest_size=16
    ).hexdigest()
    seconds = np.sum([r.seconds for r in results], axis=0)
    entry_s = -(-seconds.size // SECONDS_MAX)  # digests are sums, so several seconds have one too
    seconds = np.add.reduceat(seconds, np.arange(0, seconds.size, entry_s))
    used = np.flatnonzero(seconds)
    per_second = [f"{int(s) & 0xFFFFFFFFFFFFFFFF:016x}" for s in seconds[: used[-1] + 1 if used.size else 0]]
    result = Result(digest, per_second, metrics, {}, state, link_state, arisen, entry_s)
    result.changes = changes_of(model, results)
    result.dependencies = dependencies_of(model, result.changes, results)
    metrics["network"]["changes"] = int(result.changes["change"].size)
    metrics["network"]["changes_unsettled"] = int((result.changes["settled_ns"] < 0).sum())
    return result


def so_far(
    model: Model, results: Sequence[Standing]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], dict[str, Any]]:
    """State of brokers and links, the links that arose, and what was measured, at any window's border."""
    brokers = len(model.overlay.names)
    links = 2 * model.overlay.link_a.size
    state = np.zeros((brokers, L.BROKER_STATE), np.int64)
    arisen = _arisen(model.overlay.numbers, np.concatenate([r.arisen for r in results]))
    link_state = np.zeros((links + arisen.size, L.LINK_STATE), np.int64)
    row = {number: links + at for at, number in enumerate(arisen.tolist())}
    for r in results:
        state[r.local] = r.broker_state
        link_state[r.link] = r.link_state
        link_state[[row[number] for number in r.arisen.tolist()]] = r.arisen_state
    histogram = np.sum([r.histogram for r in results], axis=0)
    totals = np.array([r.totals for r in results])
    published = np.sum([r.publications for r in results], axis=0)
    refused = np.sum([r.refused for r in results], axis=0)
    services: dict[str, dict[str, Any]] = {}
    for i, spec in enumerate(model.services):
        count, summed, timed = (
            int(totals[:, i, column].sum()) for column in (L.D_COUNT, L.D_LATENCY, L.D_TIMED)
        )
        largest = int(totals[:, i, L.D_LONGEST].max())
        services[spec.name] = {
            "publications": int(published[i]),
            "deliveries": count,
            "latency": {
                "mean_ms": summed / timed / 1e6 if timed else None,
                "p50_ms": _percentile(histogram[i], 0.50, largest),
                "p99_ms": _percentile(histogram[i], 0.99, largest),
                "max_ms": largest / 1e6 if timed else None,
            },
        }
        if model.faults:
            services[spec.name]["refused"] = int(refused[i])
        if model.stays is not None:
            services[spec.name]["absent"] = sum(int(r.absent[i]) for r in results)
            services[spec.name]["left"] = int(totals[:, i, L.D_AWAY].sum())
    dropped = int(state[:, L.B_DROPPED].sum() + link_state[:, L.L_DROPPED].sum())
    metrics: dict[str, Any] = {
        "network": {
            "events": int(state[:, L.B_HANDLED].sum()),
            "messages": int(link_state[:, L.L_SENT].sum()),
            "bytes": int(link_state[:, L.L_BYTES].sum()),
            "lost": int(link_state[:, L.L_LOST].sum()),
            "dropped": dropped,
            "in_flight_at_end": sum(r.in_flight for r in results),
            "busiest_broker_s": float(state[:, L.B_WORK].max() / 1e9),
        },
        "services": services,
    }
    return state, link_state, arisen, metrics


def _arisen(numbers: Numbers, sent_over: NDArray[np.int64]) -> NDArray[np.int64]:
    """Both directions of each link that something was sent over, in order of their ends."""
    back = numbers.back(sent_over)
    lower = np.unique(np.where(numbers.source(sent_over) < numbers.target(sent_over), sent_over, back))
    return np.stack([lower, numbers.back(lower)], axis=1).ravel()


def _percentile(histogram: NDArray[np.int64], share: float, largest: int) -> float | None:
    total = int(histogram.sum())
    if total == 0:
        return None
    bucket = int(np.searchsorted(np.cumsum(histogram), share * total, side="left"))
    return min(bucket_value(bucket), largest) / 1e6


def write_tables(
    model: Model, writer: Any, result: Result, log: WindowLog, where: list[tuple[int, str]]
) -> None:
    """The tables that belong to the whole run: links, brokers, words, changes, dependencies, windows, actors."""
    try:
        _write_links(writer, model, result)
        _write_brokers(writer, model, result)
        if model.faults:
            writer.write("faults", **fault_columns(model.faults))
        if model.stays is not None:
            writer.write("stays", **_stays(model.stays, model.overlay.nodes))
        if any(service.attackers for service in model.services):
            writer.write("attackers", **attackers.columns([service.attackers for service in model.services]))
        service, attribute, code, text = rows_of(model.services)
        if text and writer.wants("words"):
            writer.write(
                "words",
                service=np.array(service, np.int16),
                attribute=np.array(attribute, np.int32),
                code=np.array(code),
                text=text,
            )
        if result.changes["change"].size:
            changes = dict(result.changes)
            narrow = {"service": np.int16, "operation": np.int8, "broker": np.int32, "lost": np.int32}
            writer.write("changes", **{n: v.astype(narrow.get(n, v.dtype)) for n, v in changes.items()})
        if len(result.dependencies):
            writer.write(
                "dependencies", change=result.dependencies[:, 0], depends_on=result.dependencies[:, 1]
            )
        if writer.wants("windows"):
            _write_windows(writer, log, where)
        writer.close()
    except BaseException:
        writer.abort()
        raise


def _write_links(writer: Any, model: Model, result: Result) -> None:
    overlay = model.overlay
    links, arisen, numbers = LinkTable.of(overlay), result.arisen, overlay.numbers
    source, target = numbers.source(arisen), numbers.target(arisen)
    delay_ns = overlay.described.delays(source, target) if arisen.size else np.empty(0, np.int64)
    latent = np.zeros(links.source.size, np.int8) if overlay.latent is None else np.repeat(overlay.latent, 2)
    state = result.link_state
    writer.write(
        "links",
        **{
            "link": np.concatenate([np.arange(links.source.size), arisen]).astype(np.int32),
            "from": np.concatenate([links.source, source]).astype(np.int32),
            "to": np.concatenate([links.target, target]).astype(np.int32),
            "delay_ns": np.concatenate([links.delay_ns, delay_ns]),
        },
        latent=np.concatenate([latent, np.ones(arisen.size)]).astype(np.int8),
        messages=state[:, L.L_SENT],
        bytes=state[:, L.L_BYTES],
        lost=state[:, L.L_LOST],
        busy_ns=state[:, L.L_BUSY],
    )


def _write_brokers(writer: Any, model: Model, result: Result) -> None:
    brokers = result.broker_state
    writer.write(
        "brokers",
        broker=np.arange(len(brokers), dtype=np.int32),
        name=list(model.overlay.names),
        messages=brokers[:, L.B_HANDLED],
        deliveries=brokers[:, L.B_DELIVERED],
        busy_ns=brokers[:, L.B_WORK],
        digest_a=brokers[:, L.B_DIGEST_A],
        digest_b=brokers[:, L.B_DIGEST_B],
    )


def fault_columns(schedule: Schedule) -> dict[str, Any]:
    """The columns of what fails."""
    rows: list[tuple[Any, ...]] = []
    no_bursts = (0.0, 1.0, 0.0)
    for each in schedule.faults:
        begin, end = each.begin, -1 if each.end >= NEVER else each.end
        if isinstance(each, Crash):
            rows.append((each.entry, 0, each.broker, -1, begin, end, each.state, 1.0, 0.0, 0.0, 0, *no_bursts))
        elif isinstance(each, Slow):
            rows.append((each.entry, 1, each.broker, -1, begin, end, 0, each.factor, 0.0, 0.0, 0, *no_bursts))
        elif isinstance(each, Cut):
            rows.append((each.entry, 2, -1, each.link, begin, end, 0, 1.0, 0.0, 0.0, 0, *no_bursts))
        else:
            rows.append((each.entry, 3, -1, each.link, begin, end, 0, each.slower, each.loss, each.twice, each.delay,
                         each.begins, each.ends, each.bad))  # fmt: skip
    columns = {
        "entry": np.int32, "what": np.int8, "broker": np.int32, "link": np.int32, "begin_ns": np.int64,
        "end_ns": np.int64, "state": np.int8, "factor": np.float64, "loss": np.float64, "twice": np.float64,
        "delay_ns": np.int64, "begins": np.float64, "ends": np.float64, "bad": np.float64,
    }  # fmt: skip
    return {name: np.array(values, type_) for (name, type_), values in zip(columns.items(), zip(*rows))}


def _stays(stays: Stays, nodes: int) -> dict[str, Any]:
    """The columns of where clients are; who is never there has no row."""
    there = stays.begin < NEVER - 1
    return {
        "stay": nodes + stays.number[there],
        "client": nodes + stays.client[there],
        "broker": stays.broker[there].astype(np.int32),
        "begin_ns": stays.begin[there],
        "end_ns": np.where(stays.end >= NEVER, -1, stays.end)[there],
        "keep_ns": stays.keep_ns[there],
        "most": stays.most[there],
    }


def _write_windows(writer: Any, log: WindowLog, where: list[tuple[int, str]]) -> None:
    """A row per shard and window, and one per shard."""
    reports = [(i, n, begin, end, r) for n, (begin, end, all_) in enumerate(log) for i, r in enumerate(all_)]
    if not reports:
        return
    writer.write(
        "windows",
        shard=np.array([r[0] for r in reports], np.int16),
        window=np.array([r[1] for r in reports]),
        start_ns=np.array([r[2] for r in reports]),
        end_ns=np.array([r[3] for r in reports]),
        events=np.array([r[4].events for r in reports]),
        wall_ns=np.array([r[4].wall_ns for r in reports]),
        blob_bytes=np.array([r[4].blob_bytes for r in reports]),
    )
    for i, (pid, node) in enumerate(where):
        mine = [r[4] for r in reports if r[0] == i]
        writer.write(
            "actors",
            shard=i,
            pid=pid,
            node=node,
            wall_ns=sum(m.wall_ns for m in mine),
            cpu_ns=sum(m.cpu_ns for m in mine),
        )
