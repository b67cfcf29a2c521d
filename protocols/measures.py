"""What routing costs, measured of any service that names it: `metrics: [tables.mean, links.control, waste]`.

A message over a link *carries a publication* if its body is one, or stands for one and is no mere word of it (a type
that its protocol `announces`); all others are control. Of a message that carries a publication, *waste* is what brought
it to nobody: neither to a client where it arrived, nor, by any message that followed from there, to one further on; and
what came as something of its type had come before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers.contract import MESSAGE, Kind
from brokers.faults import NO_PLACE_AHEAD
from brokers.metrics import Metric, Together
from topology.distances import distances, neighbours

Tables = Mapping[str, Mapping[str, NDArray[Any]]]

LATE_NS = 9_000_000_000  # after the last that clients or faults did
_ACTS = {
    "publications": ("time_ns",), "changes": ("issued_ns",), "faults": ("begin_ns", "end_ns"),
    "stays": ("begin_ns", "end_ns"),
}  # fmt: skip
_HOPS = {"hops": ("link", "kind", "body", "type"), "publications": ("publication",)}
_WAYS = {
    "hops": ("link", "body", "time_ns", "broker", "source", "type"), "publications": ("publication", "broker"),
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


def tables_left(tables: Tables, kind: Kind) -> int | None:
    """Entries of all brokers at the last sample."""
    time, entries = tables["samples"]["time_ns"], tables["samples"]["entries"]
    return int(entries[time == time.max()].sum()) if time.size else None


def quiet_after(tables: Tables, kind: Kind) -> float | None:
    """Seconds from the last that clients or faults did to the last message or timer; None where there was none."""
    times = _handled(tables)
    return max(0, int(times.max()) - _acted(tables)) / 1e9 if times.size else None


def quiet_late(tables: Tables, kind: Kind) -> int:
    """Messages and timers long after clients and faults had done their last."""
    return int((_handled(tables) > _acted(tables) + LATE_NS).sum())


def _handled(tables: Tables) -> NDArray[np.int64]:
    """When messages and timers were handled."""
    hops = tables["hops"]
    times: NDArray[np.int64] = hops["time_ns"][hops["kind"] >= MESSAGE]
    return times


def _acted(tables: Tables) -> int:
    """When clients and faults did their last, or 0."""
    columns = [tables[table][name] for table, names in _ACTS.items() for name in names if table in tables]
    return max((int(each.max()) for each in columns if each.size), default=0)


def carried(tables: Tables, kind: Kind) -> int:
    """Messages over links that carried publications."""
    return int(_carrying(tables, kind).sum())


def control(tables: Tables, kind: Kind) -> int:
    """Messages over links that carried none; what a broker is told of a fault at a link is no message."""
    hops = tables["hops"]
    return int((~_carrying(tables, kind) & (hops["link"] >= 0) & (hops["kind"] == MESSAGE)).sum())


def control_per_change(tables: Tables, kind: Kind) -> float | None:
    """The same for each change that clients made."""
    changes = tables["changes"]["change"].size
    return control(tables, kind) / changes if changes else None


def waste(tables: Tables, kind: Kind) -> float | None:
    """The share of messages that carried publications and brought them to nobody."""
    rows = np.flatnonzero(_carrying(tables, kind))
    if not rows.size:
        return None
    hops, published, deliveries = tables["hops"], tables["publications"], tables["deliveries"]
    names = ("body", "broker", "source", "type")
    rows = rows[np.argsort(hops["time_ns"][rows], kind="stable")]
    first: dict[tuple[int, int, int], int] = {}  # publication, broker, type -> from whom it came first
    entered = set(zip(published["publication"].tolist(), published["broker"].tolist()))
    for body, broker, source, type_ in zip(*(hops[name][rows].tolist() for name in names)):
        if (body, broker) not in entered:
            first.setdefault((body, broker, type_), source)
    served = set(zip(deliveries["publication"].tolist(), deliveries["broker"].tolist()))
    useful = 0
    for (body, broker, _), source in reversed(first.items()):
        if (body, broker) in served:
            served.add((body, source))  # what brought it there was of use too
            useful += 1
    return 1 - useful / rows.size


def stretch(tables: Tables, kind: Kind) -> float | None:
    """How many times as long as by the shortest way a delivery to another broker took, in the mean."""
    published, deliveries = tables["publications"], tables["deliveries"]
    entered = dict(zip(published["publication"].tolist(), published["broker"].tolist()))
    links = tables["links"]
    near = neighbours(links["from"], links["to"], links["delay_ns"])
    shortest: dict[int, dict[int, int]] = {}
    found = []
    names = ("publication", "broker", "published_ns", "time_ns")
    for id_, broker, sent, came in zip(*(deliveries[name].tolist() for name in names)):
        origin = entered.get(id_, broker)
        if origin == broker:
            continue
        if origin not in shortest:
            shortest[origin] = distances(near, origin)
        found.append((came - sent) / shortest[origin][broker])
    return float(np.mean(found)) if found else None


def dropped(tables: Tables, kind: Kind) -> int:
    """Messages that found no place in front of a link."""
    return int(_ahead(tables).size)


def dropped_worst(tables: Tables, kind: Kind) -> int:
    """The same in front of that link, in one direction, where most were: those of one broker to one neighbour."""
    return int(np.unique(_ahead(tables), return_counts=True)[1].max(initial=0))


def _ahead(tables: Tables) -> NDArray[Any]:
    """The links in front of which messages found no place, each as often as one did."""
    losses = tables["losses"]
    return losses["link"][losses["reason"] == NO_PLACE_AHEAD]


def _carrying(tables: Tables, kind: Kind) -> NDArray[np.bool_]:
    hops = tables["hops"]
    known: NDArray[np.bool_] = np.isin(hops["body"], tables["publications"]["publication"])
    return known & (hops["link"] >= 0) & ~np.isin(hops["type"], sorted(kind.announced))


_SAMPLES = {"samples": ("entries",)}
_LASTS = {"hops": ("time_ns", "kind"), **_ACTS}
TABLES_MEAN = Metric("tables.mean", Together.APART, measure="protocols.measures:tables_mean", reads=_SAMPLES)
TABLES_LARGEST = Metric("tables.largest", Together.LARGEST, measure="protocols.measures:tables_largest", reads=_SAMPLES)
TABLES_LEFT = Metric(
    "tables.left", Together.SUM, measure="protocols.measures:tables_left", reads={"samples": ("time_ns", "entries")}
)
QUIET_AFTER = Metric("quiet.after_s", Together.LARGEST, measure="protocols.measures:quiet_after", reads=_LASTS)
QUIET_LATE = Metric("quiet.late", Together.SUM, measure="protocols.measures:quiet_late", reads=_LASTS)
CARRIED = Metric("links.carried", Together.SUM, measure="protocols.measures:carried", reads=_HOPS)
CONTROL = Metric("links.control", Together.SUM, measure="protocols.measures:control", reads=_HOPS)
CONTROL_PER_CHANGE = Metric(
    "control.per_change", Together.APART, measure="protocols.measures:control_per_change",
    reads={**_HOPS, "changes": ("change",)},
)  # fmt: skip
_LOSSES = {"losses": ("link", "reason")}
DROPPED = Metric("links.dropped", Together.SUM, measure="protocols.measures:dropped", reads=_LOSSES)
DROPPED_WORST = Metric(
    "links.dropped_worst", Together.LARGEST, measure="protocols.measures:dropped_worst", reads=_LOSSES
)
WASTE = Metric("waste", Together.APART, measure="protocols.measures:waste", reads=_WAYS)
STRETCH = Metric("stretch", Together.APART, measure="protocols.measures:stretch", reads=_DELAYS)
