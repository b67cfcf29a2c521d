"""A run: windows over shards until nothing is left, then one result.

The loop is the same for both engines. It skips quiet time, cuts windows at sample times, and never lets a
window be longer than the lookahead: the shortest delay of a link between shards. How windows fall, how many
shards there are and who carries them shows in the run tables only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from brokers.contract import NEVER, LinkTable
from brokers.engine import kernels as K
from brokers.engine.model import Model
from brokers.engine.shard import Cutting, ShardResult, Window
from brokers.engine.trace import DRIVER, MemoryTrace, TraceWriter
from brokers.errors import Interrupted, InvalidInput, ProtocolFault

_FIRST_WINDOW_NS = 50_000_000
_WINDOW_WALL_NS = 200_000_000  # a window without peers is cut so that progress can be shown about this often


class Shards(Protocol):
    """What carries the shards: this process, or Ray actors."""

    name: str

    def next_time(self) -> int: ...
    def step(self, end: int, sample: bool) -> list[Window]: ...
    def finish(self) -> list[ShardResult]: ...
    def where(self) -> list[tuple[int, str]]: ...
    def abandon(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class FileTraces:
    """Makes the trace writer of each shard; pickles, so that actors make their own."""

    folder: str
    level: str

    def __call__(self, shard: int) -> TraceWriter:
        return TraceWriter(self.folder, shard, self.level)


class MemoryTraces:
    """Keeps the trace of each shard in memory."""

    def __init__(self, level: str = "full") -> None:
        self.level = level
        self.parts: dict[int, MemoryTrace] = {}

    def __call__(self, shard: int) -> MemoryTrace:
        return self.parts.setdefault(shard, MemoryTrace(self.level))

    def tables(self) -> dict[str, dict[str, NDArray[Any]]]:
        """All shards' rows together, as arrays by table and column."""
        parts = [part.tables() for part in self.parts.values()]
        return {
            table: {column: np.concatenate([p[table][column] for p in parts]) for column in parts[0][table]}
            for table in parts[0]
        }


@dataclass
class Result:
    """What came of a run."""

    digest: str
    digest_per_second: list[str]
    metrics: dict[str, Any]
    engine: dict[str, Any]
    broker_state: NDArray[np.int64]
    link_state: NDArray[np.int64]
    changes: dict[str, NDArray[Any]] = field(default_factory=dict)
    dependencies: NDArray[np.int64] = field(
        default_factory=lambda: np.empty((0, 2), np.int64)
    )  # (change, on)


def execute(
    model: Model,
    *,
    engine: str = "inline",
    actors: int | None = None,
    address: str | None = None,
    partition: str | list[int] = "auto",
    trace: Callable[[int], Any] | None = None,
    progress: Callable[[int, int, int], None] | None = None,
    cutting: Cutting | None = None,
    max_window_ns: int | None = None,
    until_ns: int | None = None,
    observe: Callable[[Any], None] | None = None,
) -> Result:
    """Run a model. `progress(sim_ns, events, in_flight)` is called after every window.

    `observe(shards)` is called at the end, before anything is closed; `until_ns` ends the run early.
    """
    began = time.time_ns()
    trace = trace or MemoryTraces("none")
    shards_wanted = actors if actors is not None else 1
    brokers = len(model.overlay.names)
    if not 1 <= shards_wanted <= brokers:
        raise InvalidInput(f"{shards_wanted} actors for {brokers} brokers: pass 1 to {brokers}")
    from topology.partition import partition as cut

    parts = cut(model.overlay, shards_wanted, partition)
    assignment = np.ascontiguousarray(parts.assignment, np.int32)
    lookahead = int(parts.lookahead_ns)
    shards: Shards
    if engine == "inline":
        from brokers.engine.inline import InlineShards

        shards = InlineShards(model, assignment, trace, cutting)
    elif engine == "ray":
        from brokers.engine.ray import RayShards

        shards = RayShards(model, assignment, trace, cutting, address)
    else:
        raise InvalidInput(f"no engine named {engine!r}: it is inline or ray")
    try:
        windows = _Windows(model, shards, lookahead, max_window_ns, until_ns)
        windows.run(progress)
        if observe is not None:
            observe(shards)
        where = shards.where()
        results = shards.finish()
    except KeyboardInterrupt:
        shards.abandon()
        raise Interrupted("interrupted") from None
    except BaseException:
        shards.abandon()
        raise
    finally:
        shards.close()
    result = _combine(model, results)
    result.engine = {
        "engine": shards.name,
        "actors": len(assignment) and shards_wanted,
        "cut_links": int(parts.cut_links.size),
        "lookahead_ns": lookahead if lookahead < NEVER else None,
        "imbalance": float(parts.imbalance),
        "windows": len(windows.log),
        "rounds": sum(w.rounds for _, _, reports in windows.log for w in reports),
    }
    wall = time.time_ns() - began
    result.metrics["run"] = {
        "wall_s": wall / 1e9,
        "loop_wall_s": windows.wall_ns / 1e9,
        "events_per_s": result.metrics["network"]["events"] / max(windows.wall_ns / 1e9, 1e-9),
        "simulated_s": windows.reached / 1e9,
        "cpu_s": sum(w.cpu_ns for _, _, reports in windows.log for w in reports) / 1e9,
        "cpu_slowest_s": sum(max(w.cpu_ns for w in reports) for _, _, reports in windows.log) / 1e9,
    }
    _write_tables(model, trace, result, windows, where)
    return result


class _Windows:
    """The sequence of windows of a run."""

    def __init__(
        self, model: Model, shards: Shards, lookahead: int, max_window: int | None, until: int | None
    ) -> None:
        self.model = model
        self.shards = shards
        self.length = max_window or _FIRST_WINDOW_NS
        self.fixed = max_window is not None
        self.lookahead = lookahead
        self.hard_end = model.duration_ns + model.drain_ns
        if until is not None:
            self.hard_end = min(self.hard_end, until)
        self.log: list[tuple[int, int, list[Window]]] = []
        self.wall_ns = 0
        self.reached = 0

    def run(self, progress: Callable[[int, int, int], None] | None) -> None:
        began = time.perf_counter_ns()
        every = self.model.sample_every_ns
        sample_at = every
        sample_until = min(self.model.duration_ns, self.hard_end)
        now = self.shards.next_time()
        events = 0
        while True:
            sampling = sample_at <= sample_until
            if now >= self.hard_end:
                if not sampling:
                    break
                now = sample_at
            if sampling and now >= sample_at:
                now = end = sample_at
            else:
                end = min(now + min(self.length, self.lookahead), self.hard_end)
                if sampling:
                    end = min(end, sample_at)
            before = time.perf_counter_ns()
            reports = self.shards.step(end, sampling and end == sample_at)
            if sampling and end == sample_at:
                sample_at += every
            self.log.append((now, end, reports))
            events += sum(r.events for r in reports)
            in_flight = sum(r.in_flight for r in reports)
            if not self.fixed:
                wall = time.perf_counter_ns() - before
                if wall < _WINDOW_WALL_NS // 2:
                    self.length = min(self.length * 2, 1 << 50)
                elif wall > _WINDOW_WALL_NS:
                    self.length = max(self.length // 2, 1_000_000)
            self.reached = max(self.reached, min(end, self.model.duration_ns))
            if progress is not None:
                progress(min(end, self.model.duration_ns), events, in_flight)
            now = max(end, min(min(r.next_time, r.sent_first) for r in reports))
        self.wall_ns = time.perf_counter_ns() - began


def _combine(model: Model, results: list[ShardResult]) -> Result:
    """One result from the shards' parts. Every broker and every link is in exactly one part."""
    brokers = len(model.overlay.names)
    links = 2 * model.overlay.link_a.size
    state = np.zeros((brokers, K.BROKER_STATE), np.int64)
    link_state = np.zeros((links, K.LINK_STATE), np.int64)
    for r in results:
        state[r.local] = r.broker_state
        link_state[r.link] = r.link_state
    columns = [K.B_HANDLED, K.B_DELIVERED, K.B_DIGEST_A, K.B_DIGEST_B]
    digest = blake2b(
        np.ascontiguousarray(state[:, columns]).astype("<i8").tobytes(), digest_size=16
    ).hexdigest()
    seconds = np.sum([r.seconds for r in results], axis=0)
    used = np.flatnonzero(seconds)
    per_second = [f"{int(s) & 0xFFFFFFFFFFFFFFFF:016x}" for s in seconds[: used[-1] + 1 if used.size else 0]]

    histogram = np.sum([r.histogram for r in results], axis=0)
    totals = np.array([r.totals for r in results])
    published = np.sum([r.publications for r in results], axis=0)
    services = {}
    for i, spec in enumerate(model.services):
        count, summed, largest = (
            int(totals[:, i, 0].sum()),
            int(totals[:, i, 1].sum()),
            int(totals[:, i, 2].max()),
        )
        services[spec.name] = {
            "publications": int(published[i]),
            "deliveries": count,
            "latency": {
                "mean_ms": summed / count / 1e6 if count else None,
                "p50_ms": _percentile(histogram[i], 0.50, largest),
                "p99_ms": _percentile(histogram[i], 0.99, largest),
                "max_ms": largest / 1e6 if count else None,
            },
        }
    metrics: dict[str, Any] = {
        "network": {
            "events": int(state[:, K.B_HANDLED].sum()),
            "messages": int(link_state[:, K.L_SENT].sum()),
            "bytes": int(link_state[:, K.L_BYTES].sum()),
            "lost": int(link_state[:, K.L_LOST].sum()),
            "in_flight_at_end": sum(r.in_flight for r in results),
            "busiest_broker_s": float(state[:, K.B_WORK].max() / 1e9),
        },
        "services": services,
    }
    result = Result(digest, per_second, metrics, {}, state, link_state)
    result.changes = _changes(model, results)
    result.dependencies = np.unique(np.concatenate([r.dependencies for r in results]), axis=0)
    result.dependencies = np.unique(np.concatenate([r.dependencies for r in results]), axis=0)
    metrics["network"]["changes"] = int(result.changes["change"].size)
    metrics["network"]["changes_unsettled"] = int((result.changes["settled_ns"] < 0).sum())
    return result


def _percentile(histogram: NDArray[np.int64], share: float, largest: int) -> float | None:
    total = int(histogram.sum())
    if total == 0:
        return None
    bucket = int(np.searchsorted(np.cumsum(histogram), share * total, side="left"))
    return min(K.bucket_value(bucket), largest) / 1e6


def _changes(model: Model, results: list[ShardResult]) -> dict[str, NDArray[Any]]:
    """One row per change: when issued, settled, revoked, gone.

    A change is settled when everything it caused has been handled, wherever: sent + 1 = handled, summed over
    all shards, at the latest finish. What a link lost was not sent on; the count of losses stays beside it.
    """
    keys = np.concatenate([r.cause_key for r in results])
    counts = np.concatenate([r.causes for r in results])
    unique, at = np.unique(keys, return_inverse=True)
    sums = np.zeros((unique.size, 3), np.int64)
    finish = np.zeros(unique.size, np.int64)
    np.add.at(sums, at, counts[:, [K.C_SENT, K.C_HANDLED, K.C_LOST]])
    np.maximum.at(finish, at, counts[:, K.C_FINISH])
    settled = np.where(sums[:, 0] - sums[:, 2] + 1 == sums[:, 1], finish, -1)

    parts = [part for r in results for part in r.changes]
    sizes = [part["change"].size for part in parts]

    def column(name: str, dtype: type = np.int64) -> NDArray[Any]:
        pieces: list[NDArray[Any]] = [
            np.broadcast_to(np.asarray(p[name], dtype), n) for p, n in zip(parts, sizes)
        ]
        return np.concatenate(pieces) if pieces else np.empty(0, dtype)

    table = {
        name: column(name)
        for name in ("change", "service", "operation", "interest", "broker", "client", "issued_ns")
    }
    standing = column("standing", np.bool_)
    where = np.minimum(np.searchsorted(unique, table["change"]), max(unique.size - 1, 0))
    table["settled_ns"] = (
        np.where(standing, 0, settled[where]) if unique.size else np.zeros(standing.size, np.int64)
    )
    table["lost"] = (
        np.where(standing, 0, sums[where, 2]) if unique.size else np.zeros(standing.size, np.int64)
    )
    table["revoked_ns"] = np.full(standing.size, -1, np.int64)
    table["gone_ns"] = np.full(standing.size, -1, np.int64)
    from brokers import registry

    for i, spec in enumerate(model.services):
        kind = registry.load(spec.kind_target)
        begins = np.flatnonzero((table["service"] == i) & np.isin(table["operation"], sorted(kind.interests)))
        ends = np.flatnonzero((table["service"] == i) & np.isin(table["operation"], sorted(kind.revocations)))
        if begins.size and ends.size:
            ends = ends[np.argsort(table["interest"][ends], kind="stable")]
            names = table["interest"][ends]
            found = np.minimum(np.searchsorted(names, table["interest"][begins]), names.size - 1)
            hit = names[found] == table["interest"][begins]
            table["revoked_ns"][begins[hit]] = table["issued_ns"][ends[found[hit]]]
            table["gone_ns"][begins[hit]] = table["settled_ns"][ends[found[hit]]]
    order = np.lexsort((table["interest"], table["service"], table["change"]))
    table = {name: values[order] for name, values in table.items()}
    rows = [part["values"] for part in parts]
    width = max((r.shape[1] for r in rows if r is not None), default=0)
    values = np.full((sum(sizes), width), np.nan)
    at_row = 0
    for r, n in zip(rows, sizes):
        if r is not None:
            values[at_row : at_row + n, : r.shape[1]] = r
        at_row += n
    table["values"] = values[order]
    return table


def _write_tables(
    model: Model, trace: Callable[[int], Any], result: Result, windows: _Windows, where: list[tuple[int, str]]
) -> None:
    """The tables that belong to the whole run: links, brokers, changes, windows, actors."""
    writer = trace(DRIVER)
    try:
        links = LinkTable.of(model.overlay)
        numbers = np.arange(links.source.size, dtype=np.int32)
        state = result.link_state
        writer.write(
            "links",
            **{"link": numbers, "from": links.source, "to": links.target, "delay_ns": links.delay_ns},
            messages=state[:, K.L_SENT],
            bytes=state[:, K.L_BYTES],
            lost=state[:, K.L_LOST],
            busy_ns=state[:, K.L_BUSY],
        )
        brokers = result.broker_state
        writer.write(
            "brokers",
            broker=np.arange(len(brokers), dtype=np.int32),
            name=list(model.overlay.names),
            messages=brokers[:, K.B_HANDLED],
            deliveries=brokers[:, K.B_DELIVERED],
            busy_ns=brokers[:, K.B_WORK],
            digest_a=brokers[:, K.B_DIGEST_A],
            digest_b=brokers[:, K.B_DIGEST_B],
        )
        if result.changes["change"].size:
            changes = dict(result.changes)
            narrow = {"service": np.int16, "operation": np.int8, "broker": np.int32, "lost": np.int32}
            writer.write("changes", **{n: v.astype(narrow.get(n, v.dtype)) for n, v in changes.items()})
        if len(result.dependencies):
            writer.write(
                "dependencies", change=result.dependencies[:, 0], depends_on=result.dependencies[:, 1]
            )
        if len(result.dependencies):
            writer.write(
                "dependencies", change=result.dependencies[:, 0], depends_on=result.dependencies[:, 1]
            )
        if writer.wants("windows"):
            reports = [
                (i, n, begin, end, r)
                for n, (begin, end, all_) in enumerate(windows.log)
                for i, r in enumerate(all_)
            ]
            if reports:
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
        writer.close()
    except BaseException:
        writer.abort()
        raise


__all__ = ["Cutting", "FileTraces", "MemoryTraces", "ProtocolFault", "Result", "execute"]
