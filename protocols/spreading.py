"""How publications spread, measured of any service that names it: `metrics: [hops.last, redundancy, time_to_all_ms]`.

A *copy* of a publication is a message over a link of a type by which clients publish; whatever else goes over links is
control, an announcement too. The first copy that comes to a broker *reaches* it, one round later than it reached the
broker from which it came; where a publication enters is reached in round 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from brokers.contract import MESSAGE, Kind
from brokers.metrics import Metric, Together
from protocols.measures import Tables


class Spread(NamedTuple):
    """What became of the publications of a service."""

    rounds: dict[int, dict[int, int]]  # publication -> broker that was reached -> round
    copies: dict[int, int]  # publication -> copies that arrived


# What was found last of the service of a kind, and of which columns: its metrics are measured one after the other.
_FOUND: WeakKeyDictionary[Kind, tuple[NDArray[Any], NDArray[Any], Spread]] = WeakKeyDictionary()


def spread(tables: Tables, kind: Kind) -> Spread:
    """What became of publications; metrics of one service, measured of the same columns, share what is found."""
    body, ids = tables["hops"]["body"], tables["publications"]["publication"]
    known = _FOUND.get(kind)
    if known is None or known[0] is not body or known[1] is not ids:
        known = _FOUND[kind] = body, ids, _spread(tables, kind)
    return known[2]


def _spread(tables: Tables, kind: Kind) -> Spread:
    """Go through all copies in the order of time. O(copies log copies)."""
    published = tables["publications"]
    origins = zip(published["publication"].tolist(), published["broker"].tolist())
    rounds = {id_: {broker: 0} for id_, broker in origins}
    copies = dict.fromkeys(rounds, 0)
    hops = tables["hops"]
    rows = np.flatnonzero(_copies(tables, kind))
    rows = rows[np.lexsort((hops["sequence"][rows], hops["source"][rows], hops["time_ns"][rows]))]
    for id_, broker, source in zip(*(hops[name][rows].tolist() for name in ("body", "broker", "source"))):
        copies[id_] += 1
        reached = rounds[id_]
        if broker not in reached and source in reached:
            reached[broker] = reached[source] + 1
    return Spread(rounds, copies)


def hops_last(tables: Tables, kind: Kind) -> float | None:
    """The round in which the last broker was reached, in the mean over publications."""
    last = [max(reached.values()) for reached in spread(tables, kind).rounds.values()]
    return float(np.mean(last)) if last else None


def hops_most(tables: Tables, kind: Kind) -> int | None:
    """The latest round in which any broker was reached."""
    return max((max(reached.values()) for reached in spread(tables, kind).rounds.values()), default=None)


def hops_half(tables: Tables, kind: Kind) -> int | None:
    """The round by which half of the brokers were reached that ever were."""
    return _by_share(spread(tables, kind), 50)


def hops_nearly(tables: Tables, kind: Kind) -> int | None:
    """The round by which 99 in 100 were."""
    return _by_share(spread(tables, kind), 99)


def reached_by_round(tables: Tables, kind: Kind) -> list[float]:
    """By round, which share of the brokers that were ever reached had been by then."""
    rounds = [each for reached in spread(tables, kind).rounds.values() for each in reached.values()]
    counts = np.bincount(np.array(rounds, np.int64))
    shares: list[float] = (np.cumsum(counts) / max(1, counts.sum())).tolist()
    return shares


def redundancy(tables: Tables, kind: Kind) -> float | None:
    """Copies for each broker that was reached beside the first, less one, in the mean over publications (RMR)."""
    found = spread(tables, kind)
    each = [found.copies[id_] / (len(reached) - 1) - 1 for id_, reached in found.rounds.items() if len(reached) > 1]
    return float(np.mean(each)) if each else None


def duplicates_per_delivery(tables: Tables, kind: Kind) -> float | None:
    """Copies that came where one had come, for each delivery to a client."""
    found, deliveries = spread(tables, kind), tables["deliveries"]["publication"].size
    needed = sum(len(reached) - 1 for reached in found.rounds.values())
    return (sum(found.copies.values()) - needed) / deliveries if deliveries else None


def control_bytes(tables: Tables, kind: Kind) -> float | None:
    """Bytes of control for each byte of copies; None where other services have sent something too."""
    hops, losses, links, published = (tables[name] for name in ("hops", "losses", "links", "publications"))
    over, lost = (hops["link"] >= 0) & (hops["kind"] == MESSAGE), losses["link"] >= 0
    if int(over.sum() + lost.sum()) != int(links["messages"].sum()):
        return None
    size = dict(zip(published["publication"].tolist(), published["size_bytes"].tolist()))
    mine = hops["body"][_copies(tables, kind)].tolist()
    mine += losses["body"][lost & np.isin(losses["type"], sorted(kind.publications))].tolist()
    copies = sum(size[id_] + kind.padding for id_ in mine if id_ in size)
    return (int(links["bytes"].sum()) - copies) / copies if copies else None


def time_to_all(tables: Tables, kind: Kind) -> float | None:
    """Milliseconds from publishing to the last delivery, in the mean over publications that were delivered."""
    deliveries = tables["deliveries"]
    took: dict[int, int] = {}
    for id_, sent, came in zip(*(deliveries[name].tolist() for name in ("publication", "published_ns", "time_ns"))):
        took[id_] = max(took.get(id_, 0), came - sent)
    return float(np.mean(list(took.values()))) / 1e6 if took else None


def tables_churn(tables: Tables, kind: Kind) -> float | None:
    """By how many entries the table of a broker is larger or smaller than a sample before, in the mean."""
    samples = tables["samples"]
    order = np.lexsort((samples["time_ns"], samples["broker"]))
    broker, entries = samples["broker"][order], samples["entries"][order]
    later = broker[1:] == broker[:-1]
    return float(np.abs(np.diff(entries))[later].mean()) if later.any() else None


def _copies(tables: Tables, kind: Kind) -> NDArray[np.bool_]:
    hops = tables["hops"]
    mine: NDArray[np.bool_] = (hops["link"] >= 0) & (hops["kind"] == MESSAGE)
    mine &= np.isin(hops["type"], sorted(kind.publications))
    return mine & np.isin(hops["body"], tables["publications"]["publication"])


def _by_share(found: Spread, percent: int) -> int | None:
    rounds = sorted(each for reached in found.rounds.values() for each in reached.values())
    return rounds[-(-percent * len(rounds) // 100) - 1] if rounds else None


_COPIES: Mapping[str, tuple[str, ...]] = {
    "hops": ("link", "kind", "type", "body", "broker", "source", "sequence", "time_ns"),
    "publications": ("publication", "broker"),
}


def _metric(name: str, measure: str, together: Together = Together.APART, **more: tuple[str, ...]) -> Metric:
    return Metric(name, together, measure=f"protocols.spreading:{measure}", reads={**_COPIES, **more})


HOPS_LAST = _metric("hops.last", "hops_last")
HOPS_MOST = _metric("hops.most", "hops_most", Together.LARGEST)
HOPS_HALF = _metric("hops.half", "hops_half")
HOPS_NEARLY = _metric("hops.nearly", "hops_nearly")
REDUNDANCY = _metric("redundancy", "redundancy")
DUPLICATES = _metric("duplicates.per_delivery", "duplicates_per_delivery", deliveries=("publication",))
CONTROL_BYTES = replace(
    _metric(
        "control.bytes_per_payload_byte", "control_bytes", publications=("publication", "size_bytes"),
        links=("messages", "bytes"), losses=("link", "type", "body"),
    ),
    alone=True,
)  # fmt: skip
TIME_TO_ALL = Metric(
    "time_to_all_ms", Together.APART, measure="protocols.spreading:time_to_all",
    reads={"deliveries": ("publication", "published_ns", "time_ns")},
)  # fmt: skip
TABLES_CHURN = Metric(
    "tables.churn", Together.APART, measure="protocols.spreading:tables_churn",
    reads={"samples": ("broker", "time_ns", "entries")},
)  # fmt: skip
