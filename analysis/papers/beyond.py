"""What the papers would find today, as tables and figures of a page.

    python -m analysis.papers.beyond htree --write docs/beyond.md

measures the experiment `beyond` of reproductions, all five if none is named, over three seeds; what `brokerlab
reproduce NAME --claim beyond` measured before counts. In the page the claims of each stand between `<!-- beyond: NAME
-->` and `<!-- end beyond: NAME -->`; its figures go beside the page, as `beyond-NAME.svg`.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from analysis.bench.__main__ import replaced
from analysis.papers.experiment import Experiment, Outcome
from analysis.papers.registry import PAPERS
from analysis.papers.reproducing import Asked, carried_out
from analysis.papers.writing import counted, drawn, each_with_count, load_of, markdown
from analysis.report import page
from brokers.errors import InvalidInput
from brokers.registry import load

NAMES = ("htree", "topk", "agile", "merging", "part")
EXPERIMENT = "beyond"


def main(names: Sequence[str], write: Path | None = None) -> None:
    """Measure the papers (all of them if none is named); print the claims, or write them into a page."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise InvalidInput(f"nothing beyond a paper {unknown[0]!r}; there are {', '.join(NAMES)}")
    wanted = names or NAMES
    if write is not None:
        if not write.is_file():
            raise InvalidInput(f"--write {write}: there is no such page")
        for name in wanted:
            replaced(write.read_text(encoding="utf-8"), name, "", EXPERIMENT)
    for name in wanted:
        asked = Asked(name, Path("reproductions") / name, claim=EXPERIMENT)
        (outcome,) = carried_out([experiment_of(name)], asked)
        if write is None:
            print(section(asked, outcome), flush=True)
            continue
        text = replaced(write.read_text(encoding="utf-8"), name, section(asked, outcome), EXPERIMENT)
        write.write_text(text, encoding="utf-8")
        figure = write.with_name(f"{EXPERIMENT}-{name}.svg")
        figure.write_text(page.alone(drawn(outcome.pictures[0])), encoding="utf-8")


def experiment_of(name: str) -> Experiment:
    """What is beyond a paper."""
    every = [each for target in PAPERS[name].facts["further"] for each in load(target)]
    return next(each for each in every if each.name == EXPERIMENT)


def section(asked: Asked, outcome: Outcome) -> str:
    """What a page says of a paper's claims."""
    rows = [
        {"claim": each.claim.name, "expected": each.expected, "measured": each.measured, "verdict": each.verdict}
        for each in outcome.claims
    ]
    wall_s = sum(each["wall_s"] for each in outcome.made)
    facts = [
        f"- Measured {datetime.now(UTC):%Y-%m-%d} by `{asked.command} --claim {EXPERIMENT}`, seeds "
        f"{outcome.seeds[0]} to {outcome.seeds[-1]}, in {wall_s:.0f} s of wall time",
        f"- Machine: {each_with_count(each['machine'] for each in outcome.made)}",
        f"- Versions: {each_with_count(', '.join(each['versions']) for each in outcome.made)}",
        f"- Load: {load_of(outcome.made)}",
        f"- {counted(each.verdict for each in outcome.claims)}",
    ]
    return "\n".join([*facts, "", narrow(markdown(rows))])


def narrow(table: str) -> str:
    """A table without the room that aligns its columns, since cells are long here."""
    return re.sub(r"-{3,}", "---", re.sub(r" {2,}", " ", table))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m analysis.papers.beyond", description="Beyond the papers.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="replace the papers' sections in this page")
    options = parser.parse_args()
    try:
        main(options.names, options.write)
    except InvalidInput as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
