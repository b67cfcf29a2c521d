"""`brokerlab analyze RUN…`: aggregates of finished runs, computed in Spark."""

from __future__ import annotations

import argparse
import json
from typing import Any

from scenarios.commands import add_trust, parser, shown


def command(arguments: list[str]) -> int:
    result = parser(
        "analyze",
        "Compute aggregates of finished runs in Spark: deliveries and latency, hops and stretch, load and its "
        "balance, messages per delivery, table sizes, queues, time series. Each is kept as Parquet under "
        "RUN/analysis, and its first rows are shown.",
        """
        brokerlab analyze runs/latest
        brokerlab analyze runs/* --warm-up '2 s' --json
        brokerlab analyze /shared/runs/latest --remote sc://spark:15002
        """,
    )
    result.add_argument("runs", metavar="RUN", nargs="+", help="a run folder")
    result.add_argument("--warm-up", metavar="T", default="0 s", help="leave out what was sent before")
    add_spark(result)
    add_trust(result)
    result.add_argument("--json", action="store_true", help="{runs: [{run, notes, tables}]}")
    options = result.parse_args(arguments)

    from brokers.errors import InvalidInput
    from brokers.registry import load
    from topology.units import parse_duration

    try:
        warm_up_ns = parse_duration(options.warm_up)
    except InvalidInput as error:
        raise InvalidInput(f"--warm-up: {error}") from None
    analyze = load("analysis.spark.aggregates:analyze")
    found = analyze(
        options.runs, warm_up_ns=warm_up_ns, master=options.master, remote=options.remote, trust=options.trust
    )
    if options.json:
        print(json.dumps({"runs": [each.as_data() for each in found]}, indent=2))
        return 0
    for each in found:
        print(f"{shown(each.run)}")
        for name, rows in each.shown.items():
            print(f"\n{name}")
            print(table(rows, each.rows[name]))
        print("\n".join(["", *each.notes, f"all of it: {shown(each.folder)}"]))
    return 0


def add_spark(arguments: argparse.ArgumentParser) -> None:
    """Where to compute."""
    where = arguments.add_mutually_exclusive_group()
    where.add_argument("--master", metavar="M", help="a Spark cluster, as in spark://host:7077; default: local")
    where.add_argument("--remote", metavar="R", help="a Spark Connect server, as in sc://host:15002")


def table(rows: list[dict[str, Any]], count: int) -> str:
    """Rows as text: nanoseconds as milliseconds, fractions short."""
    if not rows:
        return "  no rows"
    names = list(rows[0])
    cells = [[_cell(name, row[name]) for name in names] for row in rows]
    heads = [f"{name[:-3]} (ms)" if name.endswith("_ns") else name for name in names]
    widths = [max(len(line[i]) for line in [heads, *cells]) for i in range(len(names))]
    left = [isinstance(rows[0][name], str) for name in names]
    lines = [
        "  " + "  ".join(cell.ljust(w) if to_left else cell.rjust(w) for cell, w, to_left in zip(line, widths, left))
        for line in [heads, *cells]
    ]
    if count > len(rows):
        lines.append(f"  … {count - len(rows):,} more")
    return "\n".join(line.rstrip() for line in lines)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name.endswith("_ns"):
        return f"{value / 1e6:,.3f}"
    if isinstance(value, float):
        return f"{value:,.3f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
