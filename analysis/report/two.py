"""The report of two runs: what was asked for and measured differently, where they part, and maps of the differences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from analysis.report.cases import EVENTS_MOST
from analysis.report.charts import Chart, chart
from analysis.report.figures import KINDS, METRICS_OF_MAPS, Drawn, Figure, column_of, map_figure
from analysis.report.gather import Array, Gathered, gather
from analysis.report.joining import Group, joined
from analysis.report.page import badge, dictionary, figures, listed, page, paragraph, table
from analysis.report.places import Places, places
from analysis.report.summary import NOT_AUDITED, name_of, summary
from analysis.report.typed import command, whence
from analysis.report.words import plain, time
from analysis.spark.explain import explain
from analysis.spark.graph import Network
from analysis.spark.stretches import span_of
from brokers.engine.runfolder import RunFolder
from brokers.errors import InvalidInput
from brokers.naming import message_name
from scenarios.many.diff import RunDifference, diff
from scenarios.many.metrics import number_text
from scenarios.many.sweep import value_text

_ROWS_MOST = 300
PERIODS, _SMALL_MOST = 6, 400  # of maps over time: how many, of how many brokers at most
_WAYS_MOST = 4  # of each run
_KINDS = ("latency", "latency-tail", "deliveries", "payload", "control")
_BROKER = re.compile(r"\bbroker (\d+)\b")


def report_of(runs: Sequence[RunFolder], *, trust: bool = False) -> str:
    """The page of two runs, as text."""
    span = max(map(span_of, runs))
    found = [gather(run, 1, trust=trust, span_ns=span) for run in runs]  # counts only
    told = [summary(each) for each in found]
    differ = diff(runs[0].path, runs[1].path)
    labels = _labels(runs)
    sections = [("differs", "What differs", _differs(differ, labels, told))]
    maps = _maps(found, differ, labels, trust)
    if maps:
        sections.append(("maps", "Where they differ", maps))
    ways = ways_of(runs, trust)
    if ways:
        sections.append(("ways", "Ways that differ", _ways(ways)))
    pictures = _charts(found, labels)
    if pictures:
        typed = paragraph(whence([run.path for run in runs]), "dim")
        sections.append(("charts", "Side by side", typed + figures(pictures)))
    head = (
        "<h1>Two runs</h1>"
        f"<p>A: {escape(labels[0])} {badge(told[0]['verdict'])} {escape(told[0]['title'])}</p>"
        f"<p>B: {escape(labels[1])} {badge(told[1]['verdict'])} {escape(told[1]['title'])}</p>"
    )
    return page(f"{labels[0]} and {labels[1]}: report of two runs", sections, head)


def _labels(runs: Sequence[RunFolder]) -> list[str]:
    return [plain(run.path.name, 120) for run in runs]


def _differs(found: RunDifference, labels: Sequence[str], told: Sequence[dict[str, Any]]) -> str:
    parts = []
    if found.equal:
        parts.append(paragraph(f"They are equal, event by event: both have the digest {found.digests[0]}."))
    else:
        parts.append(paragraph(_sentence(found.parted or "their digests differ")))
    heads = ("", f"A: {labels[0]}", f"B: {labels[1]}")
    model = [_row(name, *sides) for name, sides in found.model.items()]
    if model:
        parts.append(_table("The model: what was asked for", heads, model))
    measured = []
    for name, (a, b) in found.measured.items():
        both = isinstance(a, int | float) and isinstance(b, int | float)
        change = "–" if not both else f"{b - a:+,.4g}" + (f" ({(b - a) / a * 100:+.3g} %)" if a else "")
        measured.append([plain(name), number_text(name, a), number_text(name, b), change])
    if measured:
        parts.append(_table("Measured", (*heads, "B less A"), measured))
    else:
        parts.append(paragraph("All that is measured is the same."))
    circumstances = [_row(name, *sides) for name, sides in found.circumstances.items()]
    if circumstances:
        inside = _table("", heads, circumstances)
        parts.append(f"<details><summary>What differs and changes no result</summary>{inside}</details>")
    for label, each in zip("AB", told):
        unusual = each["unusual"].found + each["unusual"].doubts
        if unusual:
            parts.append(f"<h3>Unusual in {label}</h3>{listed(unusual)}")
        if each["verdict"] == NOT_AUDITED:
            parts.append(paragraph(f"{label} was not audited.", "dim"))
        parts += [dictionary(f"{label} in short", each["scenario"])]
    return "".join(parts)


def _sentence(text: str) -> str:
    shown = plain(text, 1000)
    return f"{shown[:1].upper()}{shown[1:]}."


def _table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    left = "" if len(rows) <= _ROWS_MOST else paragraph(f"{len(rows) - _ROWS_MOST:,} more; brokerlab diff shows all.")
    return table(caption, heads, rows[:_ROWS_MOST]) + left


def _row(name: str, a: Any, b: Any) -> list[str]:
    return [plain(name), *("–" if each is None else plain(value_text(each), 120) for each in (a, b))]


# ---- maps ------------------------------------------------------------------------------------------------


def _maps(found: Sequence[Gathered], differ: RunDifference, labels: Sequence[str], trust: bool) -> str:
    a, b = (each.network for each in found)
    if not a.brokers or not b.brokers:
        return ""
    if not same_overlay(a, b):
        return paragraph("The two runs are of different overlays; there is no map of their differences.")
    where = places(found[0].run, a, trust=trust)
    charts = []
    for metric in METRICS_OF_MAPS:
        made = difference(found, where, metric, broker_of(differ, a.brokers))
        charts.append(chart(made, command([each.run.path for each in found], "map", metric=metric)))
    return paragraph(where.how, "dim") + figures(charts) + _over_time(found, where)


def _over_time(found: Sequence[Gathered], where: Places) -> str:
    """The same by stretches of time, for overlays that are small enough to be drawn several times."""
    network = found[0].network
    if network.brokers > _SMALL_MOST or not all("on_links" in each.counts for each in found):
        return ""
    charts = []
    for part in range(1, PERIODS + 1):
        made = difference_in(found, where, part)
        charts.append(chart(made, command([each.run.path for each in found], "map", part=str(part))))
    return f"<h3>Over time</h3>{figures(charts, small=True)}"


def difference_in(found: Sequence[Gathered], where: Places, part: int) -> Figure:
    """The map of messages of one of as many stretches of time, from 1 on."""
    links, brokers = (_by_period(found, name)[part - 1] for name in ("on_links", "at_brokers"))
    width_ns = found[0].span_ns / PERIODS
    name = f"{time((part - 1) * width_ns)} to {time(part * width_ns)}"
    said = f"{int(links.sum()):+,} messages over links in B, {int(np.abs(links).sum()):,} more or fewer."
    drawn = Drawn(where, found[0].network, links, brokers, True)
    return map_figure(f"B less A: messages, {name}", drawn, said)


def _by_period(found: Sequence[Gathered], name: str) -> Array:
    """B less A of all services, by period and place."""
    change = found[1].counts[name].sum(0) - found[0].counts[name].sum(0)
    parts = np.array_split(np.arange(change.shape[1]), PERIODS)
    return np.stack([change[:, part].sum(1) for part in parts])


# ---- ways ------------------------------------------------------------------------------------------------


class Parted(NamedTuple):
    """A message that a client got in one of the runs only, and where its ways part."""

    message: str
    client: int
    only_in: str
    said: list[str]


def ways_of(runs: Sequence[RunFolder], trust: bool) -> list[Parted]:
    """Of the first few deliveries that one run has alone; none where the runs are not of the same case."""
    if any("hops" not in run.tables() or run.rows("hops") > EVENTS_MOST for run in runs):
        return []
    keys = ["publication", "client"]
    rows = [run.read("deliveries", keys).group_by(keys).aggregate([]) for run in runs]
    nodes = runs[0].rows("brokers")
    found = []
    for only_in, mine, other in (("A", *rows), ("B", *reversed(rows))):
        alone = mine.join(other, keys, join_type="left anti").sort_by([(key, "ascending") for key in keys])
        for row in alone.slice(0, _WAYS_MOST).to_pylist():
            name, client = message_name(row["publication"], nodes), row["client"] - nodes
            try:
                told = explain(runs[0].path, name, client, beside=runs[1].path, trust=trust)
            except InvalidInput:
                continue  # of another case, or of a kind of which ways are not told beside one another
            found.append(Parted(name, client, only_in, told["beside"]["said"]))
    return found


def _ways(ways: Sequence[Parted]) -> str:
    rows = [[each.message, str(each.client), each.only_in, plain(" ".join(each.said), 1000)] for each in ways]
    heads = ("message", "client", "got it in", "where its ways part: here is A, there B")
    more = "The first few of each run; all others: brokerlab explain A MESSAGE --client N --beside B."
    return table("Deliveries of one run alone", heads, rows) + paragraph(more, "dim")


def broker_of(differ: RunDifference, brokers: int) -> int:
    """Where two runs part first; -1 if nobody can tell."""
    match = _BROKER.search(differ.parted or "")
    return int(match[1]) if match and int(match[1]) < brokers else -1


def same_overlay(a: Network, b: Network) -> bool:
    return a.names == b.names and np.array_equal(a.source, b.source) and np.array_equal(a.target, b.target)


def difference(found: Sequence[Gathered], where: Places, metric: str, first: int) -> Figure:
    """A map of what the second run had more of than the first."""
    a = found[0].network
    links = [column_of(each, "links", "link") if metric == "messages" else np.zeros(a.source.size) for each in found]
    brokers = [column_of(each, "brokers", "broker", metric) for each in found]
    change = links[1] - links[0], brokers[1] - brokers[0]
    heads, rows = _most(found[0], change, metric == "messages")
    drawn = Drawn(where, a, *change, True, first)
    return map_figure(f"B less A: {metric}", drawn, _said(metric, first, found[0]), heads=heads, rows=rows)


def _said(title: str, first: int, found: Gathered) -> str:
    where = f" The ring is around {name_of(found.network, first)}, where they part first." if first >= 0 else ""
    return f"Orange and solid: more {title} in B; blue and dashed: fewer; grey: as many.{where}"


def _most(found: Gathered, change: tuple[Any, Any], links: bool) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Where the differences are largest, as figures."""
    rows: list[tuple[str, ...]] = []
    if links:
        for at in np.argsort(-np.abs(change[0]), kind="stable")[:10].tolist():
            ends = (
                name_of(found.network, int(found.network.source[at])),
                name_of(found.network, int(found.network.target[at])),
            )
            rows.append((f"{ends[0]} to {ends[1]}", f"{int(change[0][at]):+,}"))
    for at in np.argsort(-np.abs(change[1]), kind="stable")[:10].tolist():
        rows.append((name_of(found.network, at), f"{int(change[1][at]):+,}"))
    return ("where", "B less A"), tuple(row for row in rows if row[1] != "+0")


# ---- charts ----------------------------------------------------------------------------------------------


def _charts(found: Sequence[Gathered], labels: Sequence[str]) -> list[Chart]:
    """Each service of both, the runs as series."""
    charts: list[Chart] = []
    groups = [Group(f"{letter}: {label}", [each]) for letter, label, each in zip("AB", labels, found)]
    for name in found[0].names:
        for kind in _KINDS if name in found[1].names else ():
            if all(each.has(table) for each in found for table in KINDS[kind].tables):
                made = joined(kind, groups, service=plain(name))
                if made is not None and any(y for line in made.series for _, y in line.points):
                    runs = [each.run.path for each in found]
                    drawn_by = command(runs, kind, each="", service=plain(name))
                    said = f"{made.said} Faults of A are shaded." if made.shades else made.said
                    charts.append(chart(made._replace(title=f"{plain(name)}: {made.title}", said=said), drawn_by))
    return charts
