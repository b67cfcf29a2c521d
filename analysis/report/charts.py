"""The charts of a run: latency, deliveries, messages, tables and queues over time, services side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from analysis.report.gather import LATENCY_BINS, STRETCHES, Array, Gathered
from analysis.report.scores import pictures
from analysis.report.svg import Axis, Line, Shade, lines, stacked
from analysis.report.words import number, plain, share, time
from analysis.ways.told import CUT, DOWN, SLOW

_SHADES_MOST = 200
_POINTS = 200
_FAILS = {DOWN: "a broker is down", SLOW: "a broker is slow", CUT: "a link is cut"}


class Chart(NamedTuple):
    """A picture, what to know about it, and its figures as a table."""

    svg: str
    said: str
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


def charts(found: Gathered) -> list[Chart]:
    """All that the trace holds enough for."""
    return list(_charts(found))


def _charts(found: Gathered) -> Iterator[Chart]:
    names = [plain(name) for name in found.names]
    counts = found.counts
    seconds = _Seconds(found)
    if "latency" in counts:
        yield from latency(names, counts["latency"])
        per_s = [Line(name, seconds.per_s(row)) for name, row in zip(names, counts["delivered"])]
        svg = lines("Deliveries", seconds.axis, Axis("per second"), per_s, seconds.shades)
        yield Chart(svg, "By when clients got them.", *_totals(names, counts["delivered"], "deliveries"))
        ratio = [
            Line(name, seconds.quotient(got, sent))
            for name, got, sent in zip(names, counts["answered"], counts.get("published", counts["answered"] * 0))
        ]
        svg = lines("Deliveries per publication", seconds.axis, Axis("ratio"), ratio, seconds.shades)
        told = "By when they were published: where it dips beside a fault, clients may have missed something."
        yield Chart(svg, told, *_least(ratio))
    if "lost" in counts and counts["lost"].any():
        lost = [Line(name, seconds.per_s(row)) for name, row in zip(names, counts["lost"])]
        axes = seconds.axis, Axis("per second")
        svg = stacked("Lost messages", *axes, seconds.begins, seconds.width, lost, seconds.shades)
        told = "Every message that a link, a queue or a crash took."
        yield Chart(svg, told, *_totals(names, counts["lost"], "lost"))
    if "carried" in counts:
        parts = [
            Line(f"{name}, {what}", seconds.per_s(row[at]))
            for at, name in enumerate(names)
            for what, row in (("publications", counts["carried"]), ("other", counts["other"]))
        ]
        title = "Messages between brokers: with publications, and other"
        svg = stacked(title, seconds.axis, Axis("per second"), seconds.begins, seconds.width, parts, seconds.shades)
        told = "Other messages are what it costs to know who wants what: subscriptions, summaries, acknowledgements."
        yield Chart(svg, told, *_control(names, counts["carried"], counts["other"]))
        if counts["on_links"].any():
            yield _traffic(found, names)
    if counts.get("sampled_ns") is not None and counts["sampled_ns"].size:
        yield from _sampled(found, names, seconds)
    for each in pictures(found.run, names, seconds.axis, seconds.shades):
        yield Chart(*each)


class _Seconds:
    """Stretches of time in seconds."""

    def __init__(self, found: Gathered) -> None:
        self.width = found.span_ns / STRETCHES / 1e9
        self.begins = [at * self.width for at in range(STRETCHES)]
        self.axis = Axis("simulated time (s)", most=found.span_ns / 1e9)
        self.shades = shades(found)

    def per_s(self, counts: Array) -> list[tuple[float, float]]:
        return [(begin + self.width / 2, count / self.width) for begin, count in zip(self.begins, counts.tolist())]

    def quotient(self, above: Array, below: Array) -> list[tuple[float, float]]:
        pairs = zip(self.begins, above.tolist(), below.tolist())
        return [(begin + self.width / 2, got / sent) for begin, got, sent in pairs if sent]


def shades(found: Gathered) -> list[Shade]:
    """When something was broken."""
    rows = found.rows("faults")
    told = []
    for what, begin, end in sorted(set(zip(*(rows[name].tolist() for name in ("what", "begin_ns", "end_ns"))))):
        until = found.span_ns if end < 0 else end
        when = f"{time(max(begin, 0))} to {'the end' if end < 0 else time(end)}"
        told.append(Shade(begin / 1e9, until / 1e9, f"{_FAILS.get(what, 'a link is worn')}, {when}"))
    return told[:_SHADES_MOST]


def latency(names: Sequence[str], counts: Array) -> Iterator[Chart]:
    """Its distribution, and the tail of that."""
    edges = 10.0 ** (3 + np.arange(counts.shape[1]) / LATENCY_BINS) / 1e6
    below, above, rows = [], [], []
    for name, row in zip(names, counts):
        total = int(row.sum())
        if not total:
            continue
        there = np.flatnonzero(row)
        until = np.cumsum(row) / total
        kept = there[np.unique(np.linspace(0, there.size - 1, min(there.size, _POINTS)).astype(int))]
        first = [(float(edges[max(kept[0] - 1, 0)]), 0.0)]
        below.append(Line(name, first + [(float(edges[at]), float(until[at])) for at in kept]))
        above.append(Line(name, [(float(edges[at]), float(1 - until[at])) for at in kept if until[at] < 1]))
        told = [number(float(edges[np.searchsorted(until, part - 1e-12)])) for part in (0.5, 0.9, 0.99, 0.999, 1.0)]
        rows.append((name, f"{total:,}", *told))
    if not below:
        return
    heads = ("service", "deliveries", "p50 (ms)", "p90 (ms)", "p99 (ms)", "p99.9 (ms)", "longest (ms)")
    across = Axis("latency (ms)", number, log=True)
    svg = lines("Latency: share of deliveries up to it", across, Axis("share", share, most=1.0), below)
    yield Chart(svg, "From publication to delivery; values are to within 0.6 %.", heads, tuple(rows))
    tail = lines("Latency, the tail: share of deliveries above it", across, Axis("share", share, log=True), above)
    yield Chart(tail, "A straight fall is a short tail; what runs flat to the right waits long.")


def _traffic(found: Gathered, names: Sequence[str]) -> Chart:
    per_link = found.counts["on_links"].sum(2)
    series = []
    for name, row in zip(names, per_link):
        ordered = np.sort(row)[::-1].tolist()
        if any(ordered):
            series.append(Line(name, [(at + 1.0, float(count)) for at, count in enumerate(ordered)]))
    totals = per_link.sum(0)
    order = np.argsort(-totals, kind="stable")[:10].tolist()
    ends = found.network.source, found.network.target
    rows = tuple(
        (plain(found.network.names[ends[0][link]]), plain(found.network.names[ends[1][link]]), f"{totals[link]:,}")
        for link in order
    )
    axes = Axis("directed links, the busiest first", number, least=1.0), Axis("messages")
    return Chart(lines("Traffic per link", *axes, series), "How evenly messages spread over links.",
                 ("from", "to", "messages"), rows)  # fmt: skip


def _sampled(found: Gathered, names: Sequence[str], seconds: _Seconds) -> Iterator[Chart]:
    at = [float(ns) / 1e9 for ns in found.counts["sampled_ns"].tolist()]
    values = found.counts["sampled"].astype(float)
    brokers = max(1, found.network.brokers)
    mean = [Line(name, list(zip(at, (values[:, row, 0] / brokers).tolist()))) for row, name in enumerate(names)]
    most = tuple((name, f"{values[:, row, 0].max() / brokers:,.4g}", f"{values[:, row, 1].max():,.0f}")
                 for row, name in enumerate(names))  # fmt: skip
    svg = lines("Table entries per broker", seconds.axis, Axis("in the mean"), mean, seconds.shades)
    yield Chart(svg, "What brokers know about interests, sampled.", ("service", "mean at most", "largest"), most)
    queue = values[:, -1]
    series = [
        Line("mean over brokers", list(zip(at, (queue[:, 0] / brokers).tolist()))),
        Line("longest", list(zip(at, queue[:, 1].tolist()))),
    ]
    svg = lines("Events waiting in brokers' queues", seconds.axis, Axis("events"), series, seconds.shades)
    told = "Sampled; a queue that fills and empties between two samples is not seen."
    yield Chart(svg, told, *_least(series))


def _least(series: Sequence[Line]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """How far lines go down and up."""
    values = [(line.name, [y for _, y in line.points]) for line in series if line.points]
    return ("", "lowest", "highest"), tuple((name, number(min(ys)), number(max(ys))) for name, ys in values)


def _totals(names: Sequence[str], counts: Array, what: str) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    return ("service", what), tuple((name, f"{int(row.sum()):,}") for name, row in zip(names, counts))


def _control(names: Sequence[str], carried: Array, other: Array) -> tuple[Any, Any]:
    rows = []
    for name, with_publications, without in zip(names, carried.sum(1).tolist(), other.sum(1).tolist()):
        total = with_publications + without
        rows.append((name, f"{with_publications:,}", f"{without:,}", share(without / total) if total else "–"))
    return ("service", "with publications", "other", "share of other"), tuple(rows)
