"""What routing costs, measured of any service that names it: `metrics: [tables.mean, links.control, waste]`.

A message over a link *carries a publication* if its body is one, or stands for one; all others are control. Of a
message that carries a publication, *waste* is what brought it to nobody: neither to a client where it arrived, nor,
by any message that followed from there, to one further on.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.contract import Kind
from brokers.metrics import Metric, Together

Tables = Mapping[str, Mapping[str, NDArray[Any]]]

_HOPS = {"hops": ("link", "body"), "publications": ("publication",)}
_WAYS = {
    "hops": ("link", "body", "time_ns", "broker", "source"), "publications": ("publication",),
    "deliveries": ("publication", "broker"),
}  # fmt: skip
_DELAYS = {
    "deliveries": ("publication", "broker", "published_ns", "time_ns"), "publications": ("publication", "broker"),
    "links": ("from", "to", "delay_ns"),
}  # fmt: skip


def tables_mean(tables: Tables, kind: Kind) -> float | None:
    """Entries of a broker, in the mean over brokers and samples."""
    entries = tables["samples"]["entries"]
    return float(entries.mean()) if entries.size else None


def tables_largest(tables: Tables, kind: Kind) -> int | None:
    """Entries of the broker that ever had most."""
    entries = tables["samples"]["entries"]
    return int(entries.max()) if entries.size else None


def carried(tables: Tables, kind: Kind) -> int:
    """Messages over links that carried publications."""
    return int(_carrying(tables).sum())


def control(tables: Tables, kind: Kind) -> int:
    """Messages over links that carried none."""
    return int((~_carrying(tables) & (tables["hops"]["link"] >= 0)).sum())


def control_per_change(tables: Tables, kind: Kind) -> float | None:
    """The same for each change that clients made."""
    changes = tables["changes"]["change"].size
    return control(tables, kind) / changes if changes else None


def waste(tables: Tables, kind: Kind) -> float | None:
    """The share of messages that carried publications and brought them to nobody."""
    rows = np.flatnonzero(_carrying(tables))
    if not rows.size:
        return None
    hops, deliveries = tables["hops"], tables["deliveries"]
    rows = rows[np.argsort(hops["time_ns"][rows], kind="stable")[::-1]]
    served = set(zip(deliveries["publication"].tolist(), deliveries["broker"].tolist()))
    wasted = 0
    for body, broker, source in zip(*(hops[name][rows].tolist() for name in ("body", "broker", "source"))):
        if (body, broker) in served:
            served.add((body, source))  # what brought it there was of use too
        else:
            wasted += 1
    return wasted / rows.size


def stretch(tables: Tables, kind: Kind) -> float | None:
    """How many times as long as by the shortest way a delivery to another broker took, in the mean."""
    published, deliveries = tables["publications"], tables["deliveries"]
    entered = dict(zip(published["publication"].tolist(), published["broker"].tolist()))
    near = _neighbours(tables["links"])
    shortest: dict[int, dict[int, int]] = {}
    found = []
    names = ("publication", "broker", "published_ns", "time_ns")
    for id_, broker, sent, came in zip(*(deliveries[name].tolist() for name in names)):
        origin = entered.get(id_, broker)
        if origin == broker:
            continue
        if origin not in shortest:
            shortest[origin] = dict(_reached(near, origin))
        found.append((came - sent) / shortest[origin][broker])
    return float(np.mean(found)) if found else None


def _carrying(tables: Tables) -> NDArray[np.bool_]:
    hops = tables["hops"]
    known: NDArray[np.bool_] = np.isin(hops["body"], tables["publications"]["publication"])
    return known & (hops["link"] >= 0)


def _neighbours(links: Mapping[str, NDArray[Any]]) -> dict[int, list[tuple[int, int]]]:
    near: dict[int, list[tuple[int, int]]] = {}
    for source, target, delay in zip(*(links[name].tolist() for name in ("from", "to", "delay_ns"))):
        near.setdefault(source, []).append((target, delay))
    return near


def _reached(near: Mapping[int, list[tuple[int, int]]], origin: int) -> Iterator[tuple[int, int]]:
    """Every broker and how far it is, the nearest first."""
    ahead, known = [(0, origin)], set()
    while ahead:
        far, broker = heapq.heappop(ahead)
        if broker not in known:
            known.add(broker)
            yield broker, far
            for other, delay in near.get(broker, ()):
                heapq.heappush(ahead, (far + delay, other))


_SAMPLES = {"samples": ("entries",)}
TABLES_MEAN = Metric(
    "tables.mean", Together.APART, "entries of a broker's tables, in the mean over brokers and samples",
    "protocols.measures:tables_mean", _SAMPLES,
)  # fmt: skip
TABLES_LARGEST = Metric(
    "tables.largest", Together.LARGEST, "entries of the broker that ever had most", "protocols.measures:tables_largest",
    _SAMPLES,
)  # fmt: skip
CARRIED = Metric(
    "links.carried", Together.SUM, "messages over links that carried publications", "protocols.measures:carried", _HOPS
)
CONTROL = Metric(
    "links.control", Together.SUM, "messages over links that carried none", "protocols.measures:control", _HOPS
)
CONTROL_PER_CHANGE = Metric(
    "control.per_change", Together.APART, "messages over links that carried none, for each change of a client",
    "protocols.measures:control_per_change", {**_HOPS, "changes": ("change",)},
)  # fmt: skip
WASTE = Metric(
    "waste", Together.APART, "share of the messages that carried publications and brought them to nobody",
    "protocols.measures:waste", _WAYS,
)  # fmt: skip
STRETCH = Metric(
    "stretch", Together.APART, "times as long as by the shortest way that a delivery to another broker took",
    "protocols.measures:stretch", _DELAYS,
)  # fmt: skip
