"""The overlay as a still picture: how much went over links and brokers, or how two runs differ in that."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from analysis.report.places import Places
from analysis.report.summary import name_of
from analysis.report.svg import document, tag, text
from analysis.spark.graph import Network

_NAMED_MOST = 60
LEVELS = 8
_SIZE = 520.0  # of a map of differences


def map_parts(
    name: str, where: Places, network: Network, links: Any, brokers: Any, size: float, left: float = 0.0
) -> list[str]:
    """Links by width and colour, brokers by size and colour, as parts of a picture."""
    x, y = _scaled(where, size, left)
    busier = np.maximum(np.asarray(links)[::2], np.asarray(links)[1::2]) if network.links else np.zeros(0)
    level = levels_of(busier)
    parts = [text(left + 8, 14, name, class_="title")]
    for at in np.argsort(level, kind="stable").tolist():
        if network.has_latent and not level[at]:
            continue  # it never arose, or nothing that could be told from that
        a, b = int(network.source[2 * at]), int(network.target[2 * at])
        said = f"{name_of(network, a)} and {name_of(network, b)}: {busier[at]:,.0f}"
        parts.append(
            tag("path", _title(said), class_=f"l{level[at]}", stroke_width=f"{0.8 + level[at] * 0.6:.1f}",
                d=f"M{x[a]:.1f} {y[a]:.1f}L{x[b]:.1f} {y[b]:.1f}")
        )  # fmt: skip
    levels = levels_of(np.asarray(brokers))
    for at in range(network.brokers):
        said = f"{name_of(network, at)}: {brokers[at]:,.0f}"
        parts.append(
            tag("circle", _title(said), class_=f"node q{levels[at]}", cx=f"{x[at]:.1f}", cy=f"{y[at]:.1f}",
                r=f"{_radius(network) * (0.7 + 0.08 * levels[at]):.1f}")
        )  # fmt: skip
    return parts + _names(network, x, y)


def difference_map(name: str, where: Places, network: Network, links: Any, brokers: Any, first: int = -1) -> str:
    """What is more is orange and solid, what is less blue and dashed; wider where it is more so."""
    x, y = _scaled(where, _SIZE, 0.0)
    both = np.asarray(links)[::2] + np.asarray(links)[1::2] if network.links else np.zeros(0)
    level = levels_of(np.abs(both))
    parts = [text(8, 14, name, class_="title")]
    for at in np.argsort(level, kind="stable").tolist():
        if network.has_latent and not level[at]:
            continue  # it never arose, or nothing that could be told from that
        a, b = int(network.source[2 * at]), int(network.target[2 * at])
        said = f"{name_of(network, a)} and {name_of(network, b)}: {both[at]:+,.0f}"
        parts.append(
            tag("path", _title(said), class_=_sort(both[at]), stroke_width=f"{0.8 + level[at] * 0.6:.1f}",
                d=f"M{x[a]:.1f} {y[a]:.1f}L{x[b]:.1f} {y[b]:.1f}")
        )  # fmt: skip
    levels = levels_of(np.abs(np.asarray(brokers)))
    for at in range(network.brokers):
        said = f"{name_of(network, at)}: {brokers[at]:+,.0f}"
        radius = _radius(network) * (0.6 + 0.12 * levels[at])
        css = f"node {_sort(brokers[at])}-node"
        parts.append(tag("circle", _title(said), class_=css, cx=f"{x[at]:.1f}", cy=f"{y[at]:.1f}", r=f"{radius:.1f}"))
    if first >= 0:
        parts.append(
            tag("circle", class_="first", cx=f"{x[first]:.1f}", cy=f"{y[first]:.1f}", r=_radius(network) + 7)
        )
    return document(name, "", parts + _names(network, x, y), _SIZE, _SIZE)


def _title(said: str) -> str:
    return f"<title>{escape(said)}</title>"


def _sort(value: float) -> str:
    return "more" if value > 0 else "less" if value < 0 else "same"


def _radius(network: Network) -> float:
    return max(1.5, min(8.0, 70.0 / network.brokers**0.5))


def _scaled(where: Places, size: float, left: float) -> tuple[Sequence[float], Sequence[float]]:
    margin = 30.0
    at = margin + where.at * (size - 2 * margin)
    return (at[:, 0] + left).tolist(), at[:, 1].tolist()


def levels_of(values: Any, most: float | None = None) -> Any:
    """0 for nothing, then 1 to 7 by share of the largest, or of a given number."""
    most = float(values.max(initial=0)) if most is None else most
    if not most:
        return np.zeros(len(values), np.int64)
    level = 1 + np.floor(values / most * (LEVELS - 1)).astype(np.int64)
    return np.where(values > 0, np.minimum(level, LEVELS - 1), 0)


def _names(network: Network, x: Sequence[float], y: Sequence[float]) -> list[str]:
    if network.brokers > _NAMED_MOST:
        return []
    away = _radius(network) + 2
    return [text(x[at] + away, y[at] - 3, name_of(network, at)[:14], class_="dim") for at in range(network.brokers)]
