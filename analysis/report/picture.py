"""A run in one picture that stands alone: the overlay by its traffic, the latency, what was delivered when."""

from __future__ import annotations

import numpy as np

from analysis.report.charts import charts
from analysis.report.gather import Array, gather
from analysis.report.maps import map_parts
from analysis.report.page import alone
from analysis.report.places import places
from analysis.report.svg import HEIGHT, WIDTH, document, tag, text
from analysis.report.words import plain
from analysis.spark.graph import Network
from brokers.engine.runfolder import RunFolder
from brokers.errors import InvalidInput

_MAP = 560.0
_BESIDE = 2  # charts
_TITLE = "Messages over links, events at brokers"


def picture(run: RunFolder, *, trust: bool = False) -> str:
    """An SVG document."""
    found = gather(run, 1, trust=trust)
    if not found.network.brokers:
        raise InvalidInput(f"{run.path}: its trace has no overlay to draw; run it with trace.level summary or more")
    where = places(run, found.network, trust=trust)
    links, brokers = _messages(run)
    title = plain(f"{run.manifest['name']}: {run.manifest['scenario'].get('title', '')}", 150)
    beside = [each for each in charts(found) if _is_wanted(each.svg)][:_BESIDE]
    width, height = _MAP + (WIDTH if beside else 0) + 16, max(_MAP, _BESIDE * HEIGHT) + 34
    parts = [
        tag("rect", class_="back", width=f"{width:.0f}", height=f"{height:.0f}"),
        text(8, 20, title, class_="title"),
        tag("g", "".join(map_parts(_TITLE, where, found.network, links, brokers, _MAP)), transform="translate(0 34)"),
    ]  # fmt: skip
    for at, each in enumerate(beside):
        inner = each.svg.replace("<svg ", f'<svg x="{_MAP + 16:.0f}" y="{34 + at * HEIGHT}" ', 1)
        parts.append(inner)
    told = f"{found.network.brokers} brokers and servers, {found.network.links} links; the busiest link carried "
    told += f"{int(np.max(links, initial=0)):,} messages."
    return alone(document(title, told, parts, width, height))


def small_picture(run: RunFolder, size: float, *, trust: bool = False) -> str:
    """The overlay alone, by its traffic. Reads nothing whose size is that of the trace."""
    network = Network.of(run)
    links, brokers = _messages(run)
    parts = map_parts(_TITLE, places(run, network, trust=trust), network, links, brokers, size)
    back = tag("rect", class_="back", width=f"{size:.0f}", height=f"{size:.0f}")
    return alone(document(plain(run.manifest["name"]), "", [back, *parts], size, size))


def _messages(run: RunFolder) -> tuple[Array, Array]:
    """Messages over links, events at brokers."""
    links, brokers = (
        run.read(name, [key, "messages"]).sort_by(key)["messages"].to_numpy()
        for name, key in (("links", "link"), ("brokers", "broker"))
    )
    return links, brokers


def _is_wanted(svg: str) -> bool:
    return ">Deliveries<" in svg or ">Latency: share of deliveries up to it<" in svg
