"""What a link carried over time, in both directions, as a report's page draws it beside the map."""

from __future__ import annotations

import numpy as np

from analysis.report.figures import Figure, Seconds, least, link_name
from analysis.report.gather import Gathered
from analysis.report.svg import Axis, Line
from analysis.report.views import View, service_of
from analysis.report.words import time
from brokers.errors import InvalidInput
from topology.errors import TopologyError
from topology.overlay import broker_number


def carrying(found: Gathered, view: View, *, trust: bool = False) -> Figure:
    """Messages over a link that is named by its ends."""
    service, link = service_of(found, view.service), _link(found, view)
    counts = found.counts["on_links"][slice(None) if service is None else slice(service, service + 1)].sum(0)
    seconds = Seconds(found, found.stretches)
    series = [
        Line(link_name(found.network, each), list(zip(seconds.middles, map(float, counts[each].tolist()))))
        for each in (link, link ^ 1)
    ]
    said = f"{int(counts[[link, link ^ 1]].sum()):,} messages in both directions."
    width = time(found.span_ns / found.stretches)
    return Figure(
        "", "What a link carried", seconds.axis, Axis(f"messages in {width}"), tuple(series), said, *least(series),
        shades=seconds.shades,
    )  # fmt: skip


def _link(found: Gathered, view: View) -> int:
    """The number of the link from one broker to another."""
    assert view.link is not None
    network = found.network
    numbers = {name: number for number, name in enumerate(network.names)}
    try:
        source, target = (broker_number(name, numbers, "--link") for name in view.link)
    except TopologyError as error:
        raise InvalidInput(str(error)) from None
    there = np.flatnonzero((network.source == source) & (network.target == target))
    if not there.size:
        raise InvalidInput(f"--link: {view.link[0]} and {view.link[1]} are no neighbours")
    return int(there[0])


def tables_of(view: View) -> tuple[str, ...]:
    """What has to be in the trace."""
    return "links", "brokers", "hops", "publications"
