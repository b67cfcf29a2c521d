"""What a reproduction leaves behind: claims, tables and figures, for people and for programs.

    claims.json     the claims with figures, verdicts and reasons; machine, versions, commit, seeds, time, command
    report.md       the same to read, with tables and figures
    report.html     the same as one page, offline, as reports of runs are
    NAME.parquet    each table, of all seeds
    NAME.svg        each figure
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from analysis.bench.rows import number
from analysis.papers.claims import SORTS, VERDICTS, Judged
from analysis.papers.experiment import Cells, Outcome, Picture, Table
from analysis.report import page
from analysis.report.charts import Chart
from analysis.report.svg import Axis, Line, lines

FORMAT = 2  # of claims.json
_HEADS = ("claim", "source", "expected", "measured", "verdict", "why")


def overview(claims: Sequence[Judged], width: int = 100) -> str:
    """The claims one below the other, for a terminal, and the count of verdicts."""
    return "\n\n".join([*(_listed(each, width) for each in claims), counted(each.verdict for each in claims)])


def _listed(claim: Judged, width: int) -> str:
    lines = [f"{claim.verdict.upper()}: {claim.claim.name}  [{claim.key}]"]
    for head, text in zip(_HEADS, _cells(claim)):
        if head not in ("claim", "verdict") and text:
            lines += wrap(f"{head:9} {text}", width, initial_indent="  ", subsequent_indent=" " * 12)
    return "\n".join(lines)


def counted(verdicts: Iterable[str]) -> str:
    """How many claims have which verdict."""
    found = list(verdicts)
    return ", ".join(f"{found.count(each)} {each}" for each in VERDICTS if each in found)


def write(folder: Path, about: Mapping[str, Any], outcomes: Sequence[Outcome]) -> None:
    """All files of a reproduction."""
    claims = [claim for each in outcomes for claim in each.claims]
    document = {"format": FORMAT, **about, "claims": [each.as_data() for each in claims]}
    _text(folder / "claims.json", json.dumps(document, indent=2) + "\n")
    for outcome in outcomes:
        for name in outcome.experiment.titles:
            rows = [
                {"seed": seed, **row} for seed, tables in zip(outcome.seeds, outcome.by_seed) for row in tables[name]
            ]
            pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
        for picture in outcome.pictures:
            _text(folder / f"{picture.name}.svg", page.alone(drawn(picture)))
    _text(folder / "report.md", _markdown(about, outcomes, claims))
    _text(folder / "report.html", _page(about, outcomes, claims))


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


# ---- for people who read ----------------------------------------------------------------------------------


def _markdown(about: Mapping[str, Any], outcomes: Sequence[Outcome], claims: Sequence[Judged]) -> str:
    parts = [f"# {about['name']}: {about['prose']}", "\n".join(f"- {name}: {told}" for name, told in _facts(about))]
    table = markdown([dict(zip(_HEADS, _cells(each))) for each in claims])
    parts.append(f"## Claims\n\n{counted(each.verdict for each in claims)}\n\n{table}")
    for outcome in outcomes:
        experiment = outcome.experiment
        parts.append(f"## {experiment.title}")
        parts += [experiment.text] if experiment.text else []
        parts += [f"### {title}\n\n{markdown(averaged(outcome, name))}" for name, title in experiment.titles.items()]
        parts += [f"![{each.title}]({each.name}.svg)" for each in outcome.pictures]
    return "\n\n".join(parts) + "\n"


def _facts(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    seeds, made = about["seeds"], about["measurements"]
    return [
        ("Command", f"`{about['command']}`"),
        ("Scale", "that of the source, where feasible" if about["full"] else "some minutes"),
        ("Seeds", f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0])),
        ("Machine", each_with_count(each["machine"] for each in made)),
        ("Versions", each_with_count(", ".join([f"brokerlab {e['version']}", *e["versions"]]) for e in made)),
        ("Commit", each_with_count(each["commit"] or "not a clone" for each in made)),
        ("Measured in", f"{about['wall_s']:.0f} s of wall time{_at_once(about['at_once'])}"),
        ("Load", load_of(made)),
        ("Spread", "claims have the mean ± the standard deviation of seeds; bars in figures go from least to most"),
    ]


def each_with_count(found: Iterable[str]) -> str:
    """What measurements have in common, or each of what they differ in."""
    counts = Counter(found)
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{count} of {counts.total()} measurements: {each}" for each, count in counts.items())


def load_of(made: Iterable[Mapping[str, Any]]) -> str:
    """How many processes ran or wanted to."""
    found = [load for each in made for load in each["load"]]
    return f"{min(found):.1f} to {max(found):.1f} processes, the last minute before and at the end of each measurement"


def _at_once(most: int) -> str:
    return f", up to {most} measurements at once" if most > 1 else ""


def _cells(claim: Judged) -> tuple[str, ...]:
    return (claim.claim.name, str(claim.claim.source), claim.expected, claim.measured, claim.verdict, claim.reason)


def averaged(outcome: Outcome, name: str) -> Table:
    """A table over seeds: means of what differs, where all seeds have the same rows."""
    by_seed = [tables[name] for tables in outcome.by_seed]
    first = by_seed[0]
    if any([list(row) for row in rows] != [list(row) for row in first] for rows in by_seed[1:]):
        return [{"seed": seed, **row} for seed, rows in zip(outcome.seeds, by_seed) for row in rows]
    return [{key: _mean([row[key] for row in same]) for key in same[0]} for same in zip(*by_seed)]


def _mean(values: Sequence[Any]) -> Any:
    numbers = all(isinstance(each, int | float) and not isinstance(each, bool) for each in values)
    if not numbers or all(each == values[0] for each in values):
        return values[0]
    return sum(values) / len(values)


def markdown(rows: Sequence[Cells]) -> str:
    """Rows with the same keys as a Markdown table that reads well on a terminal too."""
    if not rows:
        return "None."
    table = [[_cell(key) for key in rows[0]]] + [[_cell(row[key]) for key in rows[0]] for row in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(table[0]))]
    text = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths)) + " |" for line in table]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def _cell(value: Any) -> str:
    """A bar would begin another cell."""
    return _shown(value).replace("|", "\\|").replace("\n", " ")


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return number(value)
    return "" if value is None else str(value)


# ---- as a page --------------------------------------------------------------------------------------------


def _page(about: Mapping[str, Any], outcomes: Sequence[Outcome], claims: Sequence[Judged]) -> str:
    told = page.paragraph(counted(each.verdict for each in claims))
    facts = page.dictionary("How it was measured", [(name, value.strip("`")) for name, value in _facts(about)])
    sections = [("claims", "Claims", told + "".join(_claims(about, each) for each in outcomes if each.claims))]
    for outcome in outcomes:
        inside = page.paragraph(outcome.experiment.text) if outcome.experiment.text else ""
        inside += page.figures([_chart(each) for each in outcome.pictures])
        inside += "".join(_table(title, averaged(outcome, name)) for name, title in outcome.experiment.titles.items())
        sections.append((outcome.experiment.name, outcome.experiment.title, inside))
    sections.append(("measured", "How", facts + page.listed([f"{sort}: {words}" for sort, words in SORTS.items()])))
    title = f"{about['name']}: {about['prose']}"
    return page.page(title, sections, f"<h1>{escape(title)}</h1>")


def _claims(about: Mapping[str, Any], outcome: Outcome) -> str:
    rows = [(*_cells(each), f"{about['command']} --claim {each.key}") for each in outcome.claims]
    return page.table(outcome.experiment.title, (*_HEADS, "repeat it alone"), rows)


def _table(title: str, rows: Table) -> str:
    heads = list(rows[0])
    inside = page.table("", heads, [[_shown(row[key]) for key in heads] for row in rows])
    return f"<details><summary>{escape(title)}</summary>{inside}</details>"


def _chart(picture: Picture) -> Chart:
    paper = [each.name for each in picture.curves if each.paper]
    said = f"{picture.y} over {picture.x}"
    return Chart(drawn(picture), f"{said}; of the paper: {', '.join(paper)}" if paper else said)


def drawn(picture: Picture) -> str:
    """A figure as SVG."""
    series = [
        Line(each.name, list(zip(each.x, each.y)), list(zip(each.x, each.low)), list(zip(each.x, each.high)))
        for each in picture.curves
    ]
    return lines(picture.title, Axis(picture.x, log=picture.log_x), Axis(picture.y, log=picture.log_y), series)
