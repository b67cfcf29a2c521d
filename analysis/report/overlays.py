"""The overlay as a report's page draws it: what links and brokers had to do with, in the whole run or around a time.

Above that lies what failed, what was lost, the way of a message, and, around a time, what was under way then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.report.copies import waste, wasted_by_place
from analysis.report.figures import Drawn, Figure, Table, link_name, map_figure, names_of
from analysis.report.gather import Array, Gathered, Rows
from analysis.report.places import Places, drawn_links, places
from analysis.report.summary import name_of
from analysis.report.views import View, chosen, of_sample, sent_us, service_of, us, us_within, way_of
from analysis.report.words import share, time
from analysis.report.working import WHOLE, available_us, over_time, work_us
from analysis.ways.told import CUT, DOWN
from brokers.errors import InvalidInput

TRAFFIC, LOAD, TABLES, WASTE = "traffic", "load", "tables", "waste"
NEEDED = {
    TRAFFIC: ("hops", "publications"), LOAD: ("brokers",), TABLES: ("samples",),
    WASTE: ("hops", "publications", "deliveries"),
}  # fmt: skip
_TITLES = {
    TRAFFIC: ("Messages over links, events at brokers", "messages", "events"),
    LOAD: ("Time at work of brokers", "", "of the time"),
    TABLES: ("Table entries of brokers", "", "entries"),
    WASTE: ("Copies that came for nothing", "copies", "copies"),
}
FAILS = ("down", "slow", "cut", "worn")
_DOTS_MOST, _LOSSES_MOST = 6_000, 500
_LATELY = 100  # what was lost lately was lost in this part of the run


class Dots(NamedTuple):
    """Messages under way."""

    service: Array
    carries: NDArray[np.bool_]  # a publication
    link: Array
    part: NDArray[np.float64]  # of its link that each is past


class Marks(NamedTuple):
    """What is drawn above an overlay."""

    failed: dict[str, list[int]]  # what: brokers that are down or slow, links that are cut or worn
    lost: list[int]  # links, one for each message
    lost_of: int  # how many were lost
    dots: Dots
    dots_of: int  # how many were under way
    way_links: list[int]
    way_brokers: list[int]
    services: list[str]


def overlay(found: Gathered, view: View, *, trust: bool = False) -> Figure:
    """The overlay of a run by a metric."""
    metric = view.metric or TRAFFIC
    service = service_of(found, view.service)
    at_us = None if view.at_ns is None else us_within(found, "--at", view.at_ns)
    links, brokers = _counts(found, metric, service)
    stretch = None if at_us is None else _stretch(found, at_us)
    counted = stretch if metric != LOAD or over_time(found) else None
    at_brokers, most = _seen(brokers, counted, metric), _most(brokers, counted, metric)
    shares: NDArray[np.float64] | None = None
    if metric == LOAD:
        available = available_us(found, counted)
        shares, most = at_brokers / available, most / available
    where = places(found.run, found.network, trust=trust)
    marks = _marks(found, view, service, at_us)
    drawn = Drawn(
        where, found.network, _seen(links, counted, metric), at_brokers if shares is None else shares,
        most=(_most(links, counted, metric), most), there=_there(found, stretch),
        marks=marks, of_time=shares is not None,
    )  # fmt: skip
    name = _TITLES[metric][0]
    when = "" if at_us is None else f", at {time(at_us * 1_000)}"
    title = f"{name}{when}{f', {view.service}' if view.service is not None else ''}"
    said = " ".join([_said(found, where, drawn, metric, counted), *_partly(found, marks, at_us)])
    made = map_figure(title, drawn, said)
    return made._replace(data=_data(found, drawn, marks))


def _stretch(found: Gathered, at_us: float) -> int:
    """The stretch of a time, by the steps in which the page finds it, so that their last bits are the same."""
    return min(found.stretches - 1, int(at_us / (found.span_ns / 1_000) * found.stretches))


def _counts(found: Gathered, metric: str, service: int | None) -> tuple[Array, Array]:
    """By link, and by broker, and by stretch of time."""
    network, counts = found.network, found.counts
    nothing = np.zeros((found.services, network.source.size, found.stretches), np.int64)
    if metric == LOAD:
        worked = work_us(found)
        of_service = slice(None) if service is None or not over_time(found) else slice(service, service + 1)
        return nothing.sum(0), worked[of_service].sum(0)
    on_links, at_brokers = (
        (counts["on_links"], counts["at_brokers"]) if metric == TRAFFIC
        else (nothing, counts["entries"]) if metric == TABLES
        else wasted_by_place(found, waste(found))
    )  # fmt: skip
    which = slice(None) if service is None else slice(service, service + 1)
    return on_links[which].sum(0), at_brokers[which].sum(0)


def _seen(counts: Array, stretch: int | None, metric: str) -> Array:
    """Around a time, or in all; of tables those at that time, or in the end."""
    if metric == TABLES:
        return counts[:, -1 if stretch is None else stretch]
    return counts.sum(1) if stretch is None else counts[:, stretch]


def _most(counts: Array, stretch: int | None, metric: str) -> float:
    """The largest of the run, or of any stretch of time, so that colours mean the same at all times."""
    return float((_seen(counts, None, metric) if stretch is None else counts).max(initial=0))


def _there(found: Gathered, stretch: int | None) -> NDArray[np.bool_]:
    """Which links are drawn: of those that arise at times, the ones that carried something then."""
    there = drawn_links(found.run, found.network)
    latent = found.network.latent
    if stretch is not None and latent is not None and "on_links" in found.counts:
        carried = found.counts["on_links"][:, :, stretch].sum(0).reshape(-1, 2).sum(1) > 0
        there = there & (~latent.astype(np.bool_) | np.repeat(carried, 2))
    return there


# ---- what lies above -------------------------------------------------------------------------------------


def _marks(found: Gathered, view: View, service: int | None, at_us: float | None) -> Marks:
    lost, links, brokers = found.rows("losses"), list[int](), list[int]()
    if view.message is not None:
        way = way_of(found, view.message)
        lost = way.losses
        links, brokers = _reached(way.events, at_us)
    return Marks(
        _faults(found, at_us), *_lost(found, lost, service, at_us), *_dots(found, service, at_us), links,
        brokers, names_of(found),
    )  # fmt: skip


def _reached(events: Rows, at_us: float | None) -> tuple[list[int], list[int]]:
    """The links and brokers that a message had come to by a time; of links the number of either direction's first."""
    until = events["time_ns"].size if at_us is None else int((us(events["time_ns"]) <= at_us).sum())
    links = {link & ~1 for link in events["link"][:until].tolist() if link >= 0}
    return sorted(links), sorted(set(events["broker"][:until].tolist()))


def _faults(found: Gathered, at_us: float | None) -> dict[str, list[int]]:
    """What is broken at a time, or ever was."""
    rows, there = found.rows("faults"), drawn_links(found.run, found.network)
    told: dict[str, list[int]] = {each: [] for each in FAILS}
    for what, broker, link, begin, end in zip(*(rows[name].tolist() for name in rows)):
        if at_us is not None and not (begin // 1_000 <= at_us and (end < 0 or at_us < end // 1_000)):
            continue
        if broker >= 0:
            told["down" if what == DOWN else "slow"].append(broker)
        elif there[link]:
            told["cut" if what == CUT else "worn"].append(link & ~1)
    return {name: sorted(set(each)) for name, each in told.items()}


def _lost(found: Gathered, rows: Rows, service: int | None, at_us: float | None) -> tuple[list[int], int]:
    """The links of what was lost, in the whole run or shortly before a time; of many some, and how many there are."""
    when, fits = us(rows["time_ns"]), rows["link"] >= 0
    if at_us is not None:
        fits = fits & (when >= at_us - found.span_ns / 1_000 / _LATELY) & (when <= at_us)
    links = chosen(rows, service, fits)["link"]
    return _spread(links, _LOSSES_MOST).tolist(), links.size


def _spread(many: Array, most: int) -> Array:
    """Some of many, from the first to the last, as the page takes them."""
    return many[:: max(1, -(-many.size // most))]


def _dots(found: Gathered, service: int | None, at_us: float | None) -> tuple[Dots, int]:
    """Messages that are on a link at a time, as its delay says; of many some, and how many there are."""
    rows, at = found.rows("hops"), -1 if at_us is None else at_us  # nothing is under way before the beginning
    under_way = (rows["link"] >= 0) & (sent_us(found, rows) <= at) & (at <= us(rows["time_ns"]))
    there = chosen(rows, service, under_way)
    of = there["link"].size
    there = {name: _spread(column, _DOTS_MOST) for name, column in there.items()}
    came = us(there["time_ns"])
    part = 1 - (came - at) / np.maximum(came - sent_us(found, there), 1)
    return Dots(there["service"], found.carries(there["body"]), there["link"], part), of


# ---- words and data --------------------------------------------------------------------------------------


def _said(found: Gathered, where: Places, drawn: Drawn, metric: str, stretch: int | None) -> str:
    """In words; the stretch is that of the counts."""
    _, on_links, at_brokers = _TITLES[metric]
    assert drawn.most is not None
    link_most, broker_most = drawn.most
    told = [f"{link_most:,.0f} {on_links} on a link"] if on_links else []
    most = share(broker_most) if drawn.of_time else f"{broker_most:,.0f}"
    told.append(f"{most} {at_brokers} at a broker")
    of = "" if stretch is None else ", the most in any such stretch of time"
    parts = [where.how, f"Strongest and widest: {', '.join(told)}{of}."]
    if stretch is not None:
        width = found.span_ns / found.stretches
        begin, end = time(stretch * width), time((stretch + 1) * width)
        parts.append(f"Sampled last by {end}." if metric == TABLES else f"Counts are of {begin} to {end}.")
    if metric == LOAD and not over_time(found):
        parts.append(f"{WHOLE}.")
    if metric == WASTE and (of := waste(found).said):
        parts.append(f"Waste is {of}.")
    return " ".join(parts)


def _partly(found: Gathered, marks: Marks, at_us: float | None) -> list[str]:
    """What is not all drawn, and how much of it is."""
    parts = []
    if marks.lost_of > len(marks.lost):
        parts.append(f"{len(marks.lost):,} of {marks.lost_of:,} losses are drawn.")
    if marks.dots_of > marks.dots.link.size:
        parts.append(f"{marks.dots.link.size:,} of {marks.dots_of:,} messages under way are drawn.")
    return parts + (of_sample(found, "Messages under way") if at_us is not None else [])


def _data(found: Gathered, drawn: Drawn, marks: Marks) -> Table:
    """A row for each thing that is drawn."""
    network, failed = found.network, marks.failed
    rows: list[tuple[str, ...]] = []
    rows += [("link", link_name(network, at), f"{drawn.links[at]}") for at in range(network.source.size)]
    rows += [("broker", name_of(network, at), f"{drawn.brokers[at]}") for at in range(network.brokers)]
    for what, brokers in (("down", failed["down"]), ("slow", failed["slow"]), ("way", marks.way_brokers)):
        rows += [(what, name_of(network, at), "") for at in brokers]
    over = {"cut": failed["cut"], "worn": failed["worn"], "lost": marks.lost, "way": marks.way_links}
    for what, links in over.items():
        rows += [(what, link_name(network, at), "") for at in links]
    for service, carries, link, part in zip(*(column.tolist() for column in marks.dots)):
        what = f"under way: {marks.services[service]}, {'a publication' if carries else 'other'}"
        rows.append((what, link_name(network, link), f"{part:.6f}"))
    return ("what", "where", "value"), rows


def check_metric(metric: str | None) -> None:
    if metric is not None and metric not in NEEDED:
        raise InvalidInput(f"--metric: an overlay is of {', '.join(NEEDED)} (got {metric!r})")


def tables_of(view: View) -> tuple[str, ...]:
    """What has to be in the trace."""
    way = ("hops", "publications") if view.message is not None else ()
    return ("links", "brokers", *NEEDED[view.metric or TRAFFIC], *way)


def drawn_if_there(view: View) -> tuple[str, ...]:
    """What else is drawn of a trace that has it: around a time, messages under way; load over time."""
    around = view.at_ns is not None or view.metric == LOAD
    return ("losses", "faults", "hops", "publications") if around else ("losses", "faults")
