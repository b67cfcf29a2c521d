"""Run groups of measurements; print them, or write them into a page.

    python -m analysis.bench engine
    python -m analysis.bench engine --json
    python -m analysis.bench engine --write docs/performance.md

In a page the table of a group stands between `<!-- bench: GROUP -->` and `<!-- end bench: GROUP -->`, with
the machine, the versions and the command that made it; everything else in the page is left alone.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from analysis.bench.machine import machine, versions
from analysis.bench.registry import BENCHES
from analysis.bench.rows import Row, table
from brokers.errors import InvalidInput
from brokers.registry import load
from scenarios.progress import Steps


def main(groups: Sequence[str], as_json: bool = False, write: str | None = None) -> int:
    """Measure the groups (all of them if none is named); 1 if a figure does not hold."""
    unknown = [group for group in groups if group not in BENCHES]
    if unknown:
        raise InvalidInput(f"no group {unknown[0]!r}; groups: {', '.join(BENCHES)}")
    wanted = groups or list(BENCHES)
    if write is not None:
        if not Path(write).is_file():
            raise InvalidInput(f"--write {write}: there is no such page")
        for group in wanted:
            replaced(Path(write).read_text(encoding="utf-8"), group, "")
    everything: list[Row] = []
    steps = Steps("groups")
    for done, group in enumerate(wanted):
        rows: list[Row] = []
        for row in load(BENCHES[group].target)():
            steps.say(f"{group}: {row['name']}")
            steps(done, 0, len(wanted), group)
            rows.append(row)
        steps.close()
        if write is not None:
            page = Path(write)
            text = replaced(page.read_text(encoding="utf-8"), group, section(group, rows))
            page.write_text(text, encoding="utf-8")
        if not as_json:
            print(table(rows), flush=True)
        everything += rows
    if as_json:
        print(json.dumps(everything, indent=2, ensure_ascii=False))
    return 0 if all(row["holds"] is not False for row in everything) else 1


def section(group: str, rows: Iterable[Row]) -> str:
    """What a page says of a group's figures."""
    facts = [
        f"- Measured {datetime.now(UTC):%Y-%m-%d} by `python -m analysis.bench {group}`",
        f"- Machine: {machine()}",
        f"- Versions: {', '.join(versions())}",
    ]
    return "\n".join([*facts, "", table(rows)])


def replaced(page: str, group: str, text: str, of: str = "bench") -> str:
    """The page with the group's section replaced."""
    begin, end = f"<!-- {of}: {group} -->", f"<!-- end {of}: {group} -->"
    found = re.search(f"{re.escape(begin)}.*?{re.escape(end)}", page, re.DOTALL)
    if found is None:
        raise InvalidInput(f"the page has no section between {begin!r} and {end!r}")
    return f"{page[: found.start()]}{begin}\n{text}\n{end}{page[found.end() :]}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m analysis.bench", description="Measure.")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"of {', '.join(BENCHES)}; default: all")
    parser.add_argument("--json", action="store_true", help="print the rows as one JSON list")
    parser.add_argument("--write", metavar="PAGE", help="also replace the groups' sections in this page")
    options = parser.parse_args()
    try:
        sys.exit(main(options.groups, options.json, options.write))
    except InvalidInput as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
