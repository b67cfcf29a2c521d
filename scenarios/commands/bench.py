"""`brokerlab bench [GROUP]`: figures beside their baselines. The groups live in `analysis.bench.registry`."""

from __future__ import annotations

import json
import sys
from typing import Any

from brokers.errors import InvalidInput
from scenarios.commands import parser


def command(arguments: list[str]) -> int:
    result = parser(
        "bench",
        "Measure. Every figure is judged by its ratio to a baseline of the same run. Exit code 1 if one does "
        "not hold.",
        """
        brokerlab bench
        brokerlab bench engine --json
        """,
    )
    result.add_argument("group", nargs="?", help="only this group")
    rows_help = "rows {name, value, unit, baseline, ratio, target, holds}"
    result.add_argument("--json", action="store_true", help=rows_help)
    options = result.parse_args(arguments)

    from brokers.registry import load
    from scenarios.problems import did_you_mean
    from scenarios.progress import Steps

    benches = load("analysis.bench.registry:BENCHES")
    if options.group is not None and options.group not in benches:
        raise InvalidInput(f"no group {options.group!r}; {did_you_mean(options.group, benches)}")
    rows = []
    groups = [options.group] if options.group else list(benches)
    with Steps("groups") as steps:
        for done, group in enumerate(groups):
            steps(done, 0, len(groups), group)
            for row in load(benches[group].target)():
                rows.append(row)
                if not options.json:
                    steps.say(row_text(row), sys.stdout)
                steps(done, 0, len(groups), f"{group}, {len(rows)} figures so far")
    if options.json:
        print(json.dumps(rows, indent=2))
    return 0 if all(row["holds"] is not False for row in rows) else 1


def row_text(row: dict[str, Any]) -> str:
    """One figure as a line."""
    mark = {True: "holds", False: "DOES NOT HOLD", None: "reported"}[row["holds"]]
    text = f"{row['name']}: {row['value']:.4g} {row['unit']}"
    if row.get("ratio") is not None:
        text += f", {row['ratio']:.3g} times its baseline of {row['baseline']:.4g}"
    return f"{text} (target: {row['target']}): {mark}" if row.get("target") else f"{text}: {mark}"
