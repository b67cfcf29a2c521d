"""What each kind of figure of a run shows, as data: the report draws it as SVG, `brokerlab plot` for a paper.

A kind is a function of what was gathered, and a line in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from analysis.report.copies import handled, waste
from analysis.report.gather import LATENCY_BINS, Array, Gathered
from analysis.report.places import Places, places
from analysis.report.scores import watched
from analysis.report.svg import Axis, Line, Shade
from analysis.report.words import number, plain, share, time
from analysis.spark import outages
from analysis.spark.graph import Network
from analysis.spark.stretches import STRETCHES
from analysis.ways.told import CUT, DOWN, SLOW
from protocols.gossip.attacked import Series
from scenarios.many.metrics import kept_audit
from topology.overlay import broker_label

if TYPE_CHECKING:
    from analysis.report.overlays import Marks
    from analysis.report.spacetime import Events

LINES, STACKED, HEAT, INTERVALS, GRID = "lines", "stacked", "heat", "intervals", "grid"
MAP, SPACE_TIME = "map", "space-time"
METRICS_OF_MAPS = ("messages", "deliveries")
_SHADES_MOST = 200
_COPIES_MOST = 12  # told one by one; more are one
Table = tuple[tuple[str, ...], list[tuple[str, ...]]]  # heads, rows
_FAILS = {DOWN: "a broker is down", SLOW: "a broker is slow", CUT: "a link is cut"}


class Drawn(NamedTuple):
    """An overlay with something to tell of its links and brokers."""

    where: Places
    network: Network
    links: Any  # by directed link
    brokers: Any
    differences: bool = False
    first: int = -1  # the broker where two runs part
    most: tuple[float, float] | None = None  # of links and of brokers, what has the strongest colour; else the largest
    there: Any = None  # by directed link, whether it is drawn; else those that had something, and all that are lasting
    marks: Marks | None = None  # what lies above: see `overlays`
    of_time: bool = False  # what brokers had is a share of the time


class Thing(NamedTuple):
    """Something that varies in a sweep."""

    name: str
    values: list[str]


class Cell(NamedTuple):
    """A mean of a grid."""

    mean: float
    half_width: float | None  # of its interval
    runs: int

    @property
    def text(self) -> str:
        return number(self.mean) + ("" if self.half_width is None else f" ± {number(self.half_width)}")


class Grid(NamedTuple):
    """Means by two things that vary; a panel for each value of a third, if there is one."""

    down: Thing
    across: Thing
    panels: Thing | None
    cells: dict[tuple[int, int, int], Cell]  # by panel, place down, place across

    @property
    def headings(self) -> list[str]:
        return [""] if self.panels is None else [f"{self.panels.name} = {each}" for each in self.panels.values]

    def part(self, mean: float) -> float:
        """From 0 for the least mean of all panels to 1 for the largest."""
        means = [cell.mean for cell in self.cells.values()]
        return (mean - min(means)) / ((max(means) - min(means)) or 1.0)


class Figure(NamedTuple):
    """See the module."""

    kind: str
    title: str
    across: Axis
    up: Axis
    series: tuple[Line, ...]
    said: str
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    sort: str = LINES
    shades: tuple[Shade, ...] = ()
    outside: tuple[float, float] | None = None  # what a line comes to before its first point and after its last
    width: float = 0.0  # of a bar
    band: str = ""  # what those around lines are, for a legend
    drawn: Drawn | None = None
    events: Events | None = None  # of space and time: see `spacetime`
    grid: Grid | None = None
    data: Table | None = None  # as a table, where points do not tell it


class Kind(NamedTuple):
    """A kind of figure: what it shows, the tables that it needs, and what makes it; nothing where there is nothing."""

    prose: str
    tables: tuple[str, ...]
    make: Callable[[Gathered], Figure | None]
    joins: bool = True  # whether one figure may show several runs


def figure(kind: str, found: Gathered) -> Figure | None:
    """A figure of one run, a line for each service."""
    made = KINDS[kind].make(found)
    return None if made is None else made._replace(kind=kind)


def names_of(found: Gathered) -> list[str]:
    return [plain(name) for name in found.names]


# ---- over time -------------------------------------------------------------------------------------------


class Seconds:
    """Stretches of time in seconds."""

    def __init__(self, found: Gathered, stretches: int = STRETCHES) -> None:
        self.width = found.span_ns / stretches / 1e9
        self.middles = [(at + 0.5) * self.width for at in range(stretches)]
        self.axis = Axis("simulated time (s)", least=0.0, most=found.span_ns / 1e9)
        self.shades = tuple(shades(found))

    def per_s(self, counts: Array) -> list[tuple[float, float]]:
        return [(middle, count / self.width) for middle, count in zip(self.middles, counts.tolist())]

    def quotient(self, above: Array, below: Array) -> list[tuple[float, float]]:
        pairs = zip(self.middles, above.tolist(), below.tolist())
        return [(middle, got / sent) for middle, got, sent in pairs if sent]


def shades(found: Gathered) -> list[Shade]:
    """When something was broken; of very many times some from everywhere."""
    times = _broken(found)
    told = []
    for what, begin, end in times[:: -(-len(times) // _SHADES_MOST) or 1]:
        until = found.span_ns if end < 0 else end
        when = f"{time(max(begin, 0))} to {'the end' if end < 0 else time(end)}"
        told.append(Shade(begin / 1e9, until / 1e9, f"{_FAILS.get(what, 'a link is worn')}, {when}"))
    return told


def _broken(found: Gathered) -> list[tuple[int, int, int]]:
    """What was broken from when to when, each once, in order."""
    rows = found.rows("faults")
    return sorted(set(zip(*(rows[name].tolist() for name in ("what", "begin_ns", "end_ns")))))


def shades_said(found: Gathered) -> list[str]:
    """Where not all of them are shown, how many of how many."""
    shown, there = len(shades(found)), len(_broken(found))
    return [f"Charts shade {shown:,} of {there:,} times at which something was broken."] if shown < there else []


def _over_time(
    found: Gathered, title: str, up: Axis, series: Sequence[Line], said: str, table: tuple[Any, Any] = ((), ()),
    sort: str = LINES,
) -> Figure:  # fmt: skip
    seconds = Seconds(found)
    return Figure(
        "", title, seconds.axis, up, tuple(series), said, *table, sort=sort, shades=seconds.shades,
        width=seconds.width if sort == STACKED else 0.0,
    )  # fmt: skip


def _per_s(found: Gathered, counts: Array) -> list[Line]:
    seconds = Seconds(found)
    return [Line(name, seconds.per_s(row)) for name, row in zip(names_of(found), counts)]


def _deliveries(found: Gathered) -> Figure | None:
    counts = found.counts["delivered"]
    table = _totals(names_of(found), counts, "deliveries")
    return _over_time(
        found, "Deliveries", Axis("per second"), _per_s(found, counts), "By when clients got them.", table
    )


def _ratio(found: Gathered) -> Figure | None:
    counts, seconds = found.counts, Seconds(found)
    sent = counts.get("published", counts["answered"] * 0)
    ratio = [
        Line(name, seconds.quotient(*rows)) for name, *rows in zip(names_of(found), counts["answered"], sent)
    ]
    said = (
        "By when they were published, of whatever was owed: where it dips beside a fault, clients may have missed "
        "something."
    )
    up = Axis("deliveries / publication")
    return _over_time(found, "Deliveries per publication", up, ratio, said, least(ratio))


def _owed(found: Gathered) -> Figure | None:
    audited = {each["service"]: each for each in (kept_audit(found.run) or {"services": []})["services"]}
    width_ns = outages.width_ns(found.run.manifest["scenario"]["duration"])
    series, rows = [], []
    for name, shown in zip(found.names, names_of(found)):
        told = _wanted(audited.get(name, {}).get("shares"))
        if told:
            series.append(Line(shown, [((begin + width_ns / 2) / 1e9, got / wanted) for begin, wanted, got in told]))
            wanted, got = (sum(each[at] for each in told) for at in (1, 2))
            rows.append((shown, f"{wanted:,}", f"{got:,}", share(got / wanted)))
    if not series:
        return None
    table = ("service", "wanted", "delivered", "share"), tuple(rows)
    said = (
        "By the audit: of what had to be delivered, or had to but for losses, how much was, by when it was published."
    )
    up = Axis("share", share, most=1.0)
    return _over_time(found, "Delivered of what was wanted in time", up, series, said, table)


def _wanted(shares: Any) -> list[tuple[int, int, int]]:
    """When a stretch began, what was wanted and how much of it came; nothing if an audit.json says what cannot be."""
    try:
        told = [(each["from_ns"], each["wanted"], each["delivered"]) for each in shares or ()]
    except (TypeError, KeyError):
        return []
    all_count = all(type(figure) is int and 0 <= figure < 1 << 60 for row in told for figure in row)
    return told if all_count and all(got <= wanted > 0 for _, wanted, got in told) else []


def _lost(found: Gathered) -> Figure | None:
    counts = found.counts["lost"]
    if not counts.any():
        return None
    table = _totals(names_of(found), counts, "lost")
    said = "Every message that a link, a queue or a crash took."
    return _over_time(found, "Lost messages", Axis("per second"), _per_s(found, counts), said, table, STACKED)


def _messages(found: Gathered) -> Figure | None:
    carried, other = found.counts["carried"], found.counts["other"]
    parts = [
        line._replace(name=f"{line.name}, {what}")
        for pair in zip(_per_s(found, carried), _per_s(found, other))
        for line, what in zip(pair, ("publications", "other"))
    ]
    said = "Other messages are what it costs to know who wants what: subscriptions, summaries, acknowledgements."
    title = "Messages between brokers: with publications, and other"
    table = _control(names_of(found), carried, other)
    return _over_time(found, title, Axis("per second"), parts, said, table, STACKED)


def _payload(found: Gathered) -> Figure | None:
    said = "Messages between brokers that carry a publication."
    return _over_time(
        found, "Messages with publications", Axis("per second"), _per_s(found, found.counts["carried"]), said
    )


def _others(found: Gathered) -> Figure | None:
    said = "Messages between brokers that carry no publication: subscriptions, summaries, acknowledgements."
    return _over_time(found, "Other messages", Axis("per second"), _per_s(found, found.counts["other"]), said)


def _tables(found: Gathered) -> Figure | None:
    at, values = _sampled(found)
    brokers = max(1, found.network.brokers)
    names = names_of(found)
    if not at:
        return None
    mean = [Line(name, list(zip(at, (values[:, row, 0] / brokers).tolist()))) for row, name in enumerate(names)]
    most = tuple((name, f"{values[:, row, 0].max() / brokers:,.4g}", f"{values[:, row, 1].max():,.0f}")
                 for row, name in enumerate(names))  # fmt: skip
    table = ("service", "mean at most", "largest"), most
    said = "What brokers know about interests, sampled."
    return _over_time(found, "Table entries per broker", Axis("in the mean"), mean, said, table)


def _queues(found: Gathered) -> Figure | None:
    at, values = _sampled(found)
    if not at:
        return None
    queue = values[:, -1]
    series = [
        Line("mean over brokers", list(zip(at, (queue[:, 0] / max(1, found.network.brokers)).tolist()))),
        Line("longest", list(zip(at, queue[:, 1].tolist()))),
    ]
    said = "Sampled; a queue that fills and empties between two samples is not seen."
    return _over_time(found, "Events waiting in brokers' queues", Axis("events"), series, said, least(series))


def _scores(found: Gathered) -> Figure | None:
    series = [
        Line(name, _points(each, each.median), _points(each, each.low), _points(each, each.high))
        for name, each in _watched(found)
    ]
    if not series:
        return None
    said = "What honest brokers thought of their neighbours, by what those are: medians, and 5 to 95 %."
    return _over_time(found, "Scores of neighbours", Axis("score"), series, said, least(series))


def _meshes(found: Gathered) -> Figure | None:
    series = [Line(name, _points(each, each.in_mesh)) for name, each in _watched(found)]
    if not series:
        return None
    up = Axis("share of links", share, least=0.0, most=1.0)
    return _over_time(found, "Whom honest meshes lead to", up, series, "Of all links in meshes.", least(series))


def _watched(found: Gathered) -> list[tuple[str, Series]]:
    """The series of all services with their names."""
    names = names_of(found)
    every = watched(found.run).items()
    return [(f"{names[service]}, {plain(each.name)}", each) for service, series in every for each in series]


def _points(series: Series, values: Any) -> list[tuple[float, float]]:
    return list(zip((series.time_ns / 1e9).tolist(), values.tolist()))


def _sampled(found: Gathered) -> tuple[list[float], Any]:
    """When samples were taken, in seconds, and what was found."""
    return [float(ns) / 1e9 for ns in found.counts["sampled_ns"].tolist()], found.counts["sampled"].astype(float)


def _waste(found: Gathered) -> Figure | None:
    got, seconds = waste(found), Seconds(found, found.stretches)
    series, rows = [], []
    for name, came, wasted in zip(names_of(found), got.copies.sum(1), got.for_nothing.sum(1)):
        if came.any():
            series.append(Line(name, seconds.quotient(wasted, came)))
            rows.append((name, f"{came.sum():,}", f"{wasted.sum():,}", share(wasted.sum() / came.sum())))
    if not series:
        return None
    table = ("service", "copies", "for nothing", "share"), tuple(rows)
    said = (
        "Copies of publications over links whose broker had handled one before, or neither delivered it nor sent it "
        f"on{_of(got.said)}."
    )
    return _over_time(found, "Copies that came for nothing", Axis("share", share, most=1.0), series, said, table)


def _of(said: str) -> str:
    return f"; {said}" if said else ""


# ---- distributions ---------------------------------------------------------------------------------------


def _latency(found: Gathered) -> Figure | None:
    return latency(names_of(found), found.counts["latency"])


def _latency_tail(found: Gathered) -> Figure | None:
    return latency_tail(names_of(found), found.counts["latency"])


def latency(names: Sequence[str], counts: Array) -> Figure | None:
    """Its distribution."""
    said = "From publication to delivery; values are to within 0.6 %."
    return _distribution("Latency: share of deliveries up to it", "latency (ms)", "deliveries", names, counts, said)


def latency_tail(names: Sequence[str], counts: Array) -> Figure | None:
    """The share that took longer."""
    made = latency(names, counts)
    return None if made is None else made._replace(
        title="Latency, the tail: share of deliveries above it", up=Axis("share", share, log=True),
        series=tuple(Line(each.name, [(x, 1 - y) for x, y in each.points[1:]]) for each in made.series),
        said="A straight fall is a short tail; what runs flat to the right waits long.", heads=(), rows=(),
        outside=(1.0, 0.0),
    )  # fmt: skip


def _settling(found: Gathered) -> Figure | None:
    title = "Settling: share of changes settled within a time"
    said = "From when a change was issued until it was in force everywhere; those that never settled are left out."
    return _distribution(title, "time to settle (ms)", "changes", names_of(found), found.counts["settling"], said)


def _distribution(
    title: str, label: str, what: str, names: Sequence[str], counts: Array, said: str
) -> Figure | None:
    """Shares up to a time, of durations counted in bins."""
    edges = 10.0 ** (3 + np.arange(counts.shape[1]) / LATENCY_BINS) / 1e6
    series, rows = [], []
    for name, row in zip(names, counts):
        total = int(row.sum())
        if not total:
            continue
        there = np.flatnonzero(row)
        until = np.cumsum(row) / total
        first = [(float(edges[max(there[0] - 1, 0)]), 0.0)]
        series.append(Line(name, first + list(zip(edges[there].tolist(), until[there].tolist()))))
        told = [number(float(edges[np.searchsorted(until, part - 1e-12)])) for part in (0.5, 0.9, 0.99, 0.999, 1.0)]
        rows.append((name, f"{total:,}", *told))
    if not series:
        return None
    heads = ("service", what, "p50 (ms)", "p90 (ms)", "p99 (ms)", "p99.9 (ms)", "longest (ms)")
    across, up = Axis(label, number, log=True), Axis("share", share, least=0.0, most=1.0)
    return Figure("", title, across, up, tuple(series), said, heads, tuple(rows), outside=(0.0, 1.0))


def _redundancy(found: Gathered) -> Figure | None:
    counts, of = handled(found)
    series, rows = [], []
    for name, brokers in zip(names_of(found), counts):
        if not brokers.any():
            continue
        times = np.minimum(np.arange(brokers.size), _COPIES_MOST)
        shares = np.bincount(times, brokers, _COPIES_MOST + 1)[1:] / brokers.sum()
        series.append(Line(name, [(at + 1.0, part) for at, part in enumerate(shares.tolist())]))
        mean = (np.arange(brokers.size) * brokers).sum() / brokers.sum()
        rows.append((name, f"{mean:.4g}", f"{brokers.size - 1:,}"))
    if not series:
        return None
    said = (
        "How many copies of a publication a broker that got one handled; the last point is of that many and more"
        f"{_of(of)}."
    )
    return Figure(
        "", "Redundancy: copies of a publication at a broker", Axis("copies", least=1.0, most=float(_COPIES_MOST)),
        Axis("share of brokers reached", share, least=0.0, most=1.0), tuple(series), said,
        ("service", "mean", "most"), tuple(rows),
    )  # fmt: skip


# ---- over links and brokers ------------------------------------------------------------------------------


def _links(found: Gathered) -> Figure | None:
    per_link = found.counts["on_links"].sum(2)
    if not per_link.any():
        return None
    series = [ranked(name, row) for name, row in zip(names_of(found), per_link) if row.any()]
    totals = per_link.sum(0)
    ends = found.network.source, found.network.target
    rows = tuple(
        (plain(found.network.names[ends[0][link]]), plain(found.network.names[ends[1][link]]), f"{totals[link]:,}")
        for link in np.argsort(-totals, kind="stable")[:10].tolist()
    )
    return Figure(
        "", "Traffic per link", Axis("directed links, the busiest first", number, least=1.0), Axis("messages"),
        tuple(series), "How evenly messages spread over links.", ("from", "to", "messages"), rows,
    )  # fmt: skip


def ranked(name: str, values: Any) -> Line:
    """The largest first."""
    return Line(name, [(at + 1.0, float(value)) for at, value in enumerate(np.sort(values)[::-1].tolist())])


def _link_heat(found: Gathered) -> Figure | None:
    per_link = found.counts["on_links"].sum(0)
    if not per_link.any():
        return None
    seconds = Seconds(found, found.stretches)
    order = np.argsort(-per_link.sum(1), kind="stable").tolist()
    series = tuple(Line(link_name(found.network, link), seconds.per_s(per_link[link])) for link in order)
    return Figure(
        "", "Traffic of each link over time", seconds.axis, Axis("messages per second"), series,
        "A row for each directed link, the busiest on top.", sort=HEAT, shades=seconds.shades, width=seconds.width,
    )  # fmt: skip


def link_name(network: Network, link: int) -> str:
    ends = network.source[link], network.target[link]
    return " to ".join(plain(broker_label(int(end), network.names)) for end in ends)


def _load(found: Gathered) -> Figure | None:
    duration = max(1, found.run.manifest["scenario"]["duration"])
    busy = found.run.read("brokers", ["broker", "busy_ns"]).sort_by("broker")["busy_ns"].to_numpy() / duration
    order = np.argsort(-busy, kind="stable")[:10].tolist()
    rows = tuple((plain(broker_label(at, found.network.names)), share(busy[at])) for at in order)
    return Figure(
        "", "Load: time at work of each broker", Axis("brokers, the busiest first", number, least=1.0),
        Axis("share of the simulated time", share), (ranked("brokers", busy),),
        "How evenly work spreads over brokers; above one, a broker was still at work after the end.",
        ("broker", "at work"), rows,
    )  # fmt: skip


def _map(found: Gathered) -> Figure | None:
    return map_of(found, METRICS_OF_MAPS[0])


def map_of(found: Gathered, metric: str) -> Figure:
    """The overlay by what its links carried and its brokers handled, or delivered."""
    messages = metric == METRICS_OF_MAPS[0]
    links = column_of(found, "links", "link") if messages else np.zeros(found.network.source.size, np.int64)
    where = places(found.run, found.network)
    drawn = Drawn(where, found.network, links, column_of(found, "brokers", "broker", metric))
    title = "Messages over links, events at brokers" if messages else "Deliveries at brokers"
    return map_figure(title, drawn, where.how)


def map_figure(title: str, drawn: Drawn, said: str, **more: Any) -> Figure:
    """An overlay; its figures are lines of one point each, links by both directions, then brokers."""
    series = tuple(Line(name, [(0.0, value)]) for name, value in _on_map(drawn))
    return Figure("", title, Axis(""), Axis("number"), series, said, sort=MAP, drawn=drawn, **more)


def _on_map(drawn: Drawn) -> Iterator[tuple[str, float]]:
    for at in range(drawn.network.source.size):
        yield link_name(drawn.network, at), float(drawn.links[at])
    for at in range(drawn.network.brokers):
        yield plain(broker_label(at, drawn.network.names)), float(drawn.brokers[at])


def column_of(found: Gathered, table: str, key: str, column: str = "messages") -> Any:
    """A column of totals, in the order of ids."""
    return found.run.read(table, [key, column]).sort_by(key)[column].to_numpy()


# ---- their figures as tables -----------------------------------------------------------------------------


def least(series: Sequence[Line]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
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


_HOPS = ("hops", "publications")
_COPIES = ("hops", "publications", "deliveries")
KINDS: dict[str, Kind] = {
    "latency": Kind("share of deliveries up to a latency (CDF)", ("deliveries",), _latency),
    "latency-tail": Kind("share of deliveries above a latency (CCDF)", ("deliveries",), _latency_tail),
    "deliveries": Kind("deliveries per second over time", ("deliveries",), _deliveries),
    "ratio": Kind("deliveries for each publication over time", ("publications", "deliveries"), _ratio),
    "owed": Kind(
        "share of what was wanted in time that was delivered, over time; of audited runs with faults",
        ("publications", "deliveries"), _owed,
    ),
    "lost": Kind("lost messages over time", ("losses",), _lost, joins=False),
    "messages": Kind("messages over time, with publications and other", _HOPS, _messages, joins=False),
    "payload": Kind("messages with publications over time", _HOPS, _payload),
    "control": Kind("messages without publications over time", _HOPS, _others),
    "links": Kind("traffic of links, the busiest first", _HOPS, _links),
    "link-heat": Kind("traffic of each link over time, as colours", _HOPS, _link_heat, joins=False),
    "map": Kind("the overlay by traffic; of two runs, by what differs", ("links", "brokers"), _map, joins=False),
    "tables": Kind("table entries per broker over time", ("samples",), _tables),
    "queues": Kind("events that wait in brokers' queues over time", ("samples",), _queues),
    "load": Kind("share of the time that brokers were at work, the busiest first", ("brokers",), _load),
    "scores": Kind("scores of neighbours over time, where they were watched", ("scores",), _scores, joins=False),
    "meshes": Kind("whom honest meshes lead to over time, where that was watched", ("scores",), _meshes, joins=False),
    "settling": Kind("share of changes in force within a time (CDF)", ("changes",), _settling),
    "waste": Kind("share of copies of publications that came for nothing, over time", _COPIES, _waste),
    "redundancy": Kind("how many copies of a publication brokers handled", _COPIES, _redundancy),
}
REPORTED = ("latency", "latency-tail", "deliveries", "ratio", "owed", "lost", "messages", "links", "tables", "queues",
            "load", "scores", "meshes", "settling")  # fmt: skip
