"""Links that entered and left meshes of GossipSub: `metrics: [meshes.entered, meshes.left, meshes.churn]`.

`gossipsub.grafts` and `gossipsub.prunes` count what was said; a GRAFT may be refused, and a neighbour leaves without a
word when its link goes down. Here is what came of it: whom a broker had in the mesh of a topic when it watched
(`watch_ticks`, `watching.py`), and had not when it watched before, or the other way round. What enters and leaves
between two heartbeats that watch is not seen. Told is of honest brokers (`attacked.py`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.contract import Kind
from brokers.metrics import Metric, Together
from protocols.measures import Tables

Ints = NDArray[np.int64]


class Churn(NamedTuple):
    """A row for each time that a broker watched: which time it was, and what had become of its meshes."""

    broker: Ints
    turn: Ints  # from 0 on, by broker
    time_ns: Ints
    links: Ints  # in meshes, over all topics
    entered: Ints  # since the time before; of the first time nothing is known
    left: Ints


def churn(tables: Tables) -> Churn:
    """What honest brokers saw of their own meshes. O(n log n) in rows of `scores`."""
    scores = tables["scores"]
    rows = np.flatnonzero(~np.isin(scores["broker"], tables["attackers"]["broker"]))
    (broker, time_ns), watch = _distinct(scores["broker"][rows], scores["time_ns"][rows])
    first, last = (np.searchsorted(broker, broker, side) for side in ("left", "right"))
    turn = np.arange(broker.size) - first
    in_mesh = (scores["mesh"][rows] > 0) & (scores["topic"][rows] != "")
    there, watch = rows[in_mesh], watch[in_mesh]
    _, topic = np.unique(scores["topic"][there].astype(str), return_inverse=True)
    _, member = _distinct(scores["broker"][there], topic, scores["neighbour"][there])
    order = np.lexsort((watch, member))
    member, watch = member[order], watch[order]
    stays = (member[1:] == member[:-1]) & (watch[1:] == watch[:-1] + 1)  # from one watch to the next
    entered = watch[np.r_[True, ~stays][: watch.size]]
    left = watch[np.r_[~stays, True][: watch.size]] + 1
    left = left[left < last[left - 1]]
    count = [np.bincount(each, minlength=broker.size) for each in (watch, entered[turn[entered] > 0], left)]
    return Churn(broker, turn, time_ns, *count)


def _distinct(*columns: Any) -> tuple[Any, Ints]:
    """Rows that differ, in order, by column; and which of them each row is."""
    found, of = np.unique(np.array(columns, np.int64), axis=1, return_inverse=True)
    return found, of.ravel()


def entered(tables: Tables, kind: Kind) -> int | None:
    """Links that were in a mesh when a broker watched, and had not been when it watched before."""
    found = churn(tables)
    return int(found.entered.sum()) if found.turn.any() else None


def left(tables: Tables, kind: Kind) -> int | None:
    """Links that were not, and had been."""
    found = churn(tables)
    return int(found.left.sum()) if found.turn.any() else None


def churned(tables: Tables, kind: Kind) -> float | None:
    """Both together, in the mean over brokers and the times between."""
    found = churn(tables)
    later = found.turn > 0
    return float((found.entered + found.left)[later].mean()) if later.any() else None


_READS = {"attackers": ("broker",), "scores": ("broker", "time_ns", "neighbour", "topic", "mesh")}
ENTERED = Metric("meshes.entered", Together.SUM, measure="protocols.gossip.churning:entered", reads=_READS)
LEFT = Metric("meshes.left", Together.SUM, measure="protocols.gossip.churning:left", reads=_READS)
CHURN = Metric("meshes.churn", Together.APART, measure="protocols.gossip.churning:churned", reads=_READS)
