"""What attackers among brokers did to the others, if there are any; and scores over time.

*Honest* are brokers that are in no entry of `attackers`, their clients, and what these publish. An honest client wants
an honest publication if it had subscribed before that was sent, had not unsubscribed, and the definition of its kind
says so. Scores, and who is in whose mesh, are told of honest brokers, and need `watch_ticks` (`watching.py`): the n-th
time that each of them watched is one moment here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokers.contract import NEVER, Kind
from brokers.metrics import Metric, Together
from protocols.measures import Tables

HONEST = "honest"


class Series(NamedTuple):
    """Of a class of neighbours, by time: the scores that honest brokers give it, and how much of their meshes it is."""

    name: str
    time_ns: NDArray[np.int64]
    low: NDArray[np.float64]  # 5 %
    median: NDArray[np.float64]
    high: NDArray[np.float64]  # 95 %
    in_mesh: NDArray[np.float64]  # the share of the links of honest meshes that lead to it


def scores_over_time(tables: Tables) -> list[Series]:
    """A series for each class of neighbours, the honest first. O(rows of `scores`)."""
    attackers, rows = tables["attackers"], _watched(tables)
    named = dict(zip(attackers["entry"].tolist(), attackers["behaviour"].tolist()))
    in_meshes = np.bincount(rows["turn"], rows["mesh"])
    found = []
    for entry in np.unique(rows["attacker"]).tolist():
        mine = {name: column[rows["attacker"] == entry] for name, column in rows.items()}
        turns, begins = np.unique(mine["turn"], return_index=True)
        when, score = np.split(mine["time_ns"], begins[1:]), np.split(mine["score"], begins[1:])
        low, median, high = np.array([np.percentile(each, [5, 50, 95]) for each in score]).T
        share = np.bincount(mine["turn"], mine["mesh"], in_meshes.size)[turns] / np.maximum(1, in_meshes[turns])
        name = f"{entry}: {named.get(entry, entry)}" if entry else HONEST
        found.append(Series(name, np.array([int(np.median(each)) for each in when]), low, median, high, share))
    return found


def delivered(tables: Tables, kind: Kind) -> float | None:
    """The share of honest publications that reached the honest clients who wanted them."""
    came = _came(tables)
    wanted = [pair in came for pair in _wanted(tables, kind)]
    return float(np.mean(wanted)) if wanted else None


def latency_mean(tables: Tables, kind: Kind) -> float | None:
    """Milliseconds that deliveries of honest publications to honest clients took, in the mean."""
    took = list(_came(tables).values())
    return float(np.mean(took)) / 1e6 if took else None


def latency_p99(tables: Tables, kind: Kind) -> float | None:
    """Within which 99 in 100 of these came."""
    took = sorted(_came(tables).values())
    return took[-(-99 * len(took) // 100) - 1] / 1e6 if took else None


def score_of_honest(tables: Tables, kind: Kind) -> float | None:
    """The median of what honest brokers gave each other when each watched last."""
    return _last_score(tables, attacking=False)


def score_of_attackers(tables: Tables, kind: Kind) -> float | None:
    """The same of attackers."""
    return _last_score(tables, attacking=True)


def in_meshes(tables: Tables, kind: Kind) -> float | None:
    """The share of the links of honest meshes that led to attackers when each broker watched last."""
    rows = _watched(tables)
    there = (rows["mesh"] > 0) & rows["last"]
    return float((rows["attacker"][there] > 0).mean()) if there.any() else None


def in_meshes_most(tables: Tables, kind: Kind) -> float | None:
    """The same when it was largest."""
    rows = _watched(tables)
    every = np.bincount(rows["turn"], rows["mesh"])
    theirs = np.bincount(rows["turn"], rows["mesh"] * (rows["attacker"] > 0), every.size)
    return float((theirs[every > 0] / every[every > 0]).max()) if every.any() else None


def _last_score(tables: Tables, attacking: bool) -> float | None:
    rows = _watched(tables)
    found = rows["score"][rows["last"] & ((rows["attacker"] > 0) == attacking)]
    return float(np.median(found)) if found.size else None


def _watched(tables: Tables) -> dict[str, Any]:
    """The rows of honest brokers that are of all topics together, by turn; and whether they are the broker's last."""
    scores = tables["scores"]
    kept = np.flatnonzero((scores["topic"] == "") & ~np.isin(scores["broker"], tables["attackers"]["broker"]))
    watches, turn = np.unique(np.array([scores["broker"][kept], scores["time_ns"][kept]]), axis=1, return_inverse=True)
    first = np.searchsorted(watches[0], watches[0])  # of each broker
    last = np.searchsorted(watches[0], watches[0], side="right") - 1
    watch = turn.ravel()
    turn = watch - first[watch]
    order = np.argsort(turn, kind="stable")
    found = {name: scores[name][kept][order] for name in ("time_ns", "score", "attacker", "mesh")}
    return {**found, "turn": turn[order], "last": (watch == last[watch])[order]}


def _came(tables: Tables) -> dict[tuple[int, int], int]:
    """How long what is honest took, by publication and client."""
    bad, published, deliveries = tables["attackers"]["broker"], tables["publications"], tables["deliveries"]
    honest = published["publication"][~np.isin(published["broker"], bad)]
    rows = np.isin(deliveries["publication"], honest) & ~np.isin(deliveries["broker"], bad)
    ids, clients, sent, came = (
        deliveries[name][rows].tolist() for name in ("publication", "client", "published_ns", "time_ns")
    )
    return {(id_, client): at - since for id_, client, since, at in zip(ids, clients, sent, came)}


def _wanted(tables: Tables, kind: Kind) -> Iterator[tuple[int, int]]:
    """The honest publications, each with each honest client that wants it."""
    bad, published, changes = tables["attackers"]["broker"], tables["publications"], tables["changes"]
    rows = np.flatnonzero(np.isin(changes["operation"], sorted(kind.wants())) & ~np.isin(changes["broker"], bad))
    interests = {row: changes["values"][row] for row in rows.tolist()}
    ends = np.where(changes["revoked_ns"] < 0, NEVER, changes["revoked_ns"])
    answering: dict[bytes, NDArray[np.int64]] = {}  # values of a publication -> rows of interests
    for row in np.flatnonzero(~np.isin(published["broker"], bad)).tolist():
        values, sent = published["values"][row], int(published["time_ns"][row])
        key = np.asarray(values, np.float64).tobytes()
        if key not in answering:
            answering[key] = np.array(sorted(kind.oracle(interests, values)), np.int64)
        found = answering[key]
        standing = found[(changes["issued_ns"][found] < sent) & (sent < ends[found])]
        for client in np.unique(changes["client"][standing]).tolist():
            yield int(published["publication"][row]), client


_ATTACKERS = {"attackers": ("broker",)}
_HONEST = {
    **_ATTACKERS, "publications": ("publication", "broker"),
    "deliveries": ("publication", "broker", "client", "published_ns", "time_ns"),
}  # fmt: skip
_PAIRS = {
    **_HONEST, "publications": ("publication", "broker", "time_ns", "values"),
    "changes": ("operation", "broker", "client", "issued_ns", "revoked_ns", "values"),
}  # fmt: skip
_SCORES = {**_ATTACKERS, "scores": ("broker", "time_ns", "topic", "attacker", "mesh", "score")}


def _metric(name: str, measure: str, reads: Any) -> Metric:
    return Metric(name, Together.APART, measure=f"protocols.gossip.attacked:{measure}", reads=reads)


DELIVERED = _metric("honest.delivered", "delivered", _PAIRS)
LATENCY_MEAN = _metric("honest.latency.mean_ms", "latency_mean", _HONEST)
LATENCY_P99 = _metric("honest.latency.p99_ms", "latency_p99", _HONEST)
SCORE_HONEST = _metric("scores.honest", "score_of_honest", _SCORES)
SCORE_ATTACKERS = _metric("scores.attackers", "score_of_attackers", _SCORES)
IN_MESHES = _metric("meshes.attackers", "in_meshes", _SCORES)
IN_MESHES_MOST = _metric("meshes.attackers_most", "in_meshes_most", _SCORES)
