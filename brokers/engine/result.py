"""What came of a run: one result from the shards' parts, and the tables that belong to the whole of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.contract import LinkTable
from brokers.engine import layout as L
from brokers.engine.latency import bucket_value
from brokers.engine.model import Model
from brokers.engine.shard import ShardResult, Window
from brokers.words import rows_of

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
    link_state: NDArray[np.int64]
    digest_entry_s: int = 1
    changes: dict[str, NDArray[Any]] = field(default_factory=dict)
    dependencies: NDArray[np.int64] = field(
        default_factory=lambda: np.empty((0, 2), np.int64)
    )  # (change, on)


def combine(model: Model, results: list[ShardResult]) -> Result:
    """One result from the shards' parts. Every broker and every link is in exactly one part."""
    brokers = len(model.overlay.names)
    links = 2 * model.overlay.link_a.size
    state = np.zeros((brokers, L.BROKER_STATE), np.int64)
    link_state = np.zeros((links, L.LINK_STATE), np.int64)
    for r in results:
        state[r.local] = r.broker_state
        link_state[r.link] = r.link_state
    columns = [L.B_HANDLED, L.B_DELIVERED, L.B_DIGEST_A, L.B_DIGEST_B]
    digest = blake2b(
        np.ascontiguousarray(state[:, columns]).astype("<i8").tobytes(), digest_size=16
    ).hexdigest()
    seconds = np.sum([r.seconds for r in results], axis=0)
    entry_s = -(-seconds.size // SECONDS_MAX)  # digests are sums, so several seconds have one too
    seconds = np.add.reduceat(seconds, np.arange(0, seconds.size, entry_s))
    used = np.flatnonzero(seconds)
    per_second = [f"{int(s) & 0xFFFFFFFFFFFFFFFF:016x}" for s in seconds[: used[-1] + 1 if used.size else 0]]

    histogram = np.sum([r.histogram for r in results], axis=0)
    totals = np.array([r.totals for r in results])
    published = np.sum([r.publications for r in results], axis=0)
    services = {}
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
    metrics: dict[str, Any] = {
        "network": {
            "events": int(state[:, L.B_HANDLED].sum()),
            "messages": int(link_state[:, L.L_SENT].sum()),
            "bytes": int(link_state[:, L.L_BYTES].sum()),
            "lost": int(link_state[:, L.L_LOST].sum()),
            "in_flight_at_end": sum(r.in_flight for r in results),
            "busiest_broker_s": float(state[:, L.B_WORK].max() / 1e9),
        },
        "services": services,
    }
    result = Result(digest, per_second, metrics, {}, state, link_state, entry_s)
    result.changes = _changes(model, results)
    result.dependencies = _dependencies(model, result.changes, results)
    metrics["network"]["changes"] = int(result.changes["change"].size)
    metrics["network"]["changes_unsettled"] = int((result.changes["settled_ns"] < 0).sum())
    return result


def _percentile(histogram: NDArray[np.int64], share: float, largest: int) -> float | None:
    total = int(histogram.sum())
    if total == 0:
        return None
    bucket = int(np.searchsorted(np.cumsum(histogram), share * total, side="left"))
    return min(bucket_value(bucket), largest) / 1e6


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
    np.add.at(sums, at, counts[:, [L.C_SENT, L.C_HANDLED, L.C_LOST]])
    np.maximum.at(finish, at, counts[:, L.C_FINISH])
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
    for i, spec in enumerate(model.services):
        kind = spec.kind_class
        begins = np.flatnonzero((table["service"] == i) & np.isin(table["operation"], sorted(kind.interests)))
        ends = np.flatnonzero((table["service"] == i) & np.isin(table["operation"], sorted(kind.revocations)))
        if begins.size and ends.size:
            ends = ends[np.argsort(table["interest"][ends], kind="stable")]
            names = table["interest"][ends]
            found = np.minimum(np.searchsorted(names, table["interest"][begins]), names.size - 1)
            hit = names[found] == table["interest"][begins]
            table["revoked_ns"][begins[hit]] = table["issued_ns"][ends[found[hit]]]
            table["gone_ns"][begins[hit]] = table["settled_ns"][ends[found[hit]]]
        states = np.flatnonzero(
            (table["service"] == i) & np.isin(table["operation"], sorted(kind.replacements))
        )
        if states.size:
            states = states[
                np.lexsort((table["change"][states], table["issued_ns"][states], table["interest"][states]))
            ]
            earlier, later = states[:-1], states[1:]
            same = table["interest"][earlier] == table["interest"][later]
            table["revoked_ns"][earlier[same]] = table["issued_ns"][later[same]]
            table["gone_ns"][earlier[same]] = table["settled_ns"][later[same]]
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


def _dependencies(
    model: Model, changes: dict[str, NDArray[Any]], results: list[ShardResult]
) -> NDArray[np.int64]:
    """Pairs (change, on change). A leaning between interests becomes one between the changes that issued them."""
    pairs = [r.dependencies for r in results]
    leanings = np.unique(np.concatenate([r.leanings for r in results]), axis=0)
    for service in np.unique(leanings[:, 0]).tolist():
        kind = model.services[service].kind_class
        begins = (changes["service"] == service) & np.isin(changes["operation"], sorted(kind.interests))
        issued_by = dict(zip(changes["interest"][begins].tolist(), changes["change"][begins].tolist()))
        mine = leanings[leanings[:, 0] == service, 1:]
        pairs.append(
            np.array([[issued_by[a], issued_by[b]] for a, b in mine.tolist()], np.int64).reshape(-1, 2)
        )
    return np.unique(np.concatenate(pairs), axis=0)


def write_tables(
    model: Model, writer: Any, result: Result, log: WindowLog, where: list[tuple[int, str]]
) -> None:
    """The tables that belong to the whole run: links, brokers, words, changes, dependencies, windows, actors."""
    try:
        links = LinkTable.of(model.overlay)
        numbers = np.arange(links.source.size, dtype=np.int32)
        state = result.link_state
        writer.write(
            "links",
            **{"link": numbers, "from": links.source, "to": links.target, "delay_ns": links.delay_ns},
            messages=state[:, L.L_SENT],
            bytes=state[:, L.L_BYTES],
            lost=state[:, L.L_LOST],
            busy_ns=state[:, L.L_BUSY],
        )
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
            reports = [
                (i, n, begin, end, r) for n, (begin, end, all_) in enumerate(log) for i, r in enumerate(all_)
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
