"""The pass of an audit over a run (`comparing`), and what it found, put together.

With few rows the pass is made in this process, where changes are few too without any Spark: to start it, and Python for
it, would take longer than all of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa

from analysis.spark import comparing, outages, passes
from analysis.spark.comparing import COUNTED, VERSIONS, Comparing, Judged
from analysis.spark.passes import BLOCK, Piece, opened
from analysis.spark.session import VERY_FEW_ROWS
from analysis.spark.trace import Service, Trace
from brokers.contract import NEVER
from brokers.faults import AWAY
from brokers.promises import Excused, excused, unnoticed_ns

_ROWS_PER_TASK = 500_000  # of those that merge
_MEASURED = ("missed", "unwanted", "duplicated", "out_of_order")


@dataclass
class Compared:
    """What was found of one service."""

    totals: dict[str, int] = field(default_factory=lambda: dict.fromkeys((*COUNTED, *_MEASURED, "doubled"), 0))
    shares: list[dict[str, int]] = field(default_factory=list)  # of what was wanted in time, where something fails
    examples: dict[str, list[dict[str, int]]] = field(default_factory=lambda: {name: [] for name in _MEASURED})
    crossed: dict[str, int] = field(default_factory=dict)  # of links: "twice" and "waste", where that was asked
    links: dict[str, list[dict[str, int]]] = field(default_factory=lambda: {"twice": [], "waste": []})
    healed: dict[str, int] = field(default_factory=dict)  # of what was published since all is owed again after faults
    last_ns: int = -1  # when the last message or timer was handled
    late: int = 0  # of them, long after anybody did anything


def few(rows: int) -> bool:
    """Whether a trace has so few rows that the pass is made in this process."""
    return rows < VERY_FEW_ROWS


def compare(
    trace: Trace,
    judged: Mapping[int, Judged],
    versions: Mapping[int, Any],
    examples: int,
    rows: int,
    acted_ns: Mapping[int, int],
) -> dict[int, Compared]:
    """Look through all deliveries and hops; and compare those of services whose rule has a matcher.

    `versions` are theirs, as `Standing.versions` has them, as DataFrames or tables of Arrow. Where there are few
    `rows`, all is done here.
    """
    here = few(rows)
    task = _task(trace, judged, examples, 1 if here else max(2, _dealt_rows(trace) // _ROWS_PER_TASK), acted_ns)
    pieces = _pieces(trace, task)
    blocks = _found_here(task, pieces, versions) if here else _found_in_tasks(trace, task, pieces, versions)
    return _put_together(blocks, trace.services, examples)


def excused_of(trace: Trace, service: Service) -> Excused:
    """What faults excuse of a service. Losses are read here, some rows at a time."""
    faults, unnoticed = service.faults(), -1
    if len(faults["end_ns"]):
        named = ("service", "type", "reason", "link", "time_ns")
        for piece in passes.pieces_of("losses", map(str, trace.run.parts("losses")), named):
            rows = piece.read()
            mine = {name: column[rows["service"] == service.number] for name, column in rows.items()}
            unnoticed = max(unnoticed, unnoticed_ns(faults, mine, service.kind.publications))
    return excused(service.guarantees(trace.network), faults, unnoticed, lambda: _homes(trace, service))


def _homes(trace: Trace, service: Service) -> set[int]:
    """The brokers whose clients published or wanted anything."""
    found: set[int] = set()
    for name in ("publications", "changes"):
        for piece in passes.pieces_of(name, map(str, trace.run.parts(name)), ("service", "broker")):
            rows = piece.read()
            found.update(np.unique(rows["broker"][rows["service"] == service.number]).tolist())
    return found


def _dealt_rows(trace: Trace) -> int:
    return 2 * trace.run.rows("deliveries") + trace.run.rows("publications")


def _task(
    trace: Trace, judged: Mapping[int, Judged], examples: int, tasks: int, acted_ns: Mapping[int, int]
) -> Comparing:
    network = trace.network
    heeded = any(each.heeds_losses or each.frugal for each in judged.values())
    excuses = ((service.number, excused_of(trace, service)) for service in trace.services)
    # The last is for the number -1: a delivery that fell with its broker, which may have been anybody's.
    behind = [network.behind(link) for link in (*range(network.source.size), -1)] if heeded else []
    low, high, inside = zip(*behind) if behind else ((), (), ())
    return Comparing(
        tasks=tasks,
        services=dict(judged),
        forgetful={number: (each.again_ns, each.forgot_ns) for number, each in excuses if each.forgot_ns < NEVER},
        examples=examples,
        deep=trace.has("hops"),
        carriers={
            service.number: tuple(sorted(service.kind.publications))
            for service in trace.services
            if trace.has("hops") and service.kind.publications
        },
        acted_ns=dict(acted_ns),
        duration_ns=trace.duration_ns,
        away=AWAY,
        travel_ns_max=network.travel_ns_max,
        never_ns=NEVER,
        cut_from_ns=trace.end_ns - network.travel_ns_max if trace.in_flight_at_end else None,
        marks=outages.marks_of(trace.outages),
        width_ns=outages.width_ns(trace.duration_ns),
        place=network.place,
        behind={"low": np.array(low, np.int64), "high": np.array(high, np.int64), "inside": np.array(inside, np.bool_)},
    )


def _pieces(trace: Trace, task: Comparing) -> list[Piece]:
    heeded = any(each.heeds_losses for each in task.services.values())
    wanted = {"deliveries": set(task.of_deliveries)}
    if "doubled" in trace.run.manifest["tables"]:
        wanted["doubled"] = set(comparing.COLUMNS["doubled"])
    if task.deep:
        wanted["hops"] = set(comparing.COLUMNS["hops"])
    if task.services:
        names = ["publications", *(["losses"] if heeded else [])]
        wanted |= {name: set(comparing.COLUMNS[name]) for name in names}
    for each in task.services.values():
        for name, part in each.tables.items():
            if trace.has(name):
                all_told = set(comparing.COLUMNS.get(name, ())) if part.always else set()
                wanted.setdefault(name, {"service"}).update(part.columns, [part.only[0]] if part.only else [], all_told)
    return [
        piece
        for name, columns in wanted.items()
        for piece in passes.pieces_of(name, map(str, trace.run.parts(name)), tuple(sorted(columns)))
    ]


def _found_here(task: Comparing, pieces: Iterable[Piece], versions: Mapping[int, Any]) -> Iterator[Any]:
    def dealt() -> Iterator[pa.RecordBatch]:
        for piece in pieces:
            yield from task.look(piece)
        for service, rows in versions.items():
            table = rows if isinstance(rows, pa.Table) else rows.select(*VERSIONS).toArrow()
            yield from task.spread(service)(table.to_batches())

    for batch in task.merged(dealt()):
        yield from zip(batch.column("what").to_pylist(), batch.column("block"))


def _found_in_tasks(
    trace: Trace, task: Comparing, pieces: list[Piece], versions: Mapping[int, Any]
) -> Iterator[Any]:
    comparing.sent_along([each.matcher for each in task.services.values()])
    frames = [trace.spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(task.over(pieces), BLOCK)] if pieces else []
    for service, rows in versions.items():
        frame = trace.spark.createDataFrame(rows) if isinstance(rows, pa.Table) else rows
        frames.append(frame.select(*VERSIONS).mapInArrow(task.spread(service), BLOCK))
    if frames:
        blocks = reduce(lambda a, b: a.unionByName(b), frames).repartition(task.tasks, "task")
        table = blocks.mapInArrow(task.merged, BLOCK).select("what", "block").toArrow()
        yield from zip(table["what"].to_pylist(), table["block"])


def _put_together(blocks: Iterable[Any], services: Iterable[Service], examples: int) -> dict[int, Compared]:
    found = {service.number: Compared() for service in services}
    for what, block in blocks:
        rows = opened(block.as_buffer()).to_pylist()
        name, _, number = what.partition(" ")
        if what == "ended":
            for row in rows:
                each = found[row["service"]]
                each.last_ns, each.late = max(each.last_ns, row["last_ns"]), each.late + row["late"]
        elif what == "crossed":
            for row in rows:
                crossed = found[row.pop("service")].crossed
                for sort, count in row.items():
                    crossed[sort] = crossed.get(sort, 0) + count
        elif name in ("twice", "waste"):
            found[int(number)].links[name] += rows
        elif name == "healed":
            for row in rows:
                healed = found[int(number)].healed
                healed.update({each: healed.get(each, 0) + count for each, count in row.items()})
        elif name == "share":
            found[int(number)].shares += rows
        elif number:
            found[int(number)].examples[name] += rows
        else:
            for row in rows:
                totals = found[row.pop("service")].totals
                for each, count in row.items():
                    totals[each] += count
    for each in found.values():
        for rows in each.examples.values():
            rows.sort(key=lambda row: (row["publication"], row["client"]))
            del rows[examples:]
        for rows in each.links.values():
            rows.sort(key=lambda row: (row["publication"], row["link"]))
            del rows[examples:]
    return found
