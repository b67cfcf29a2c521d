"""Small networks that touch every kernel of the engine and of topologies: what all other models use as well."""

from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from brokers.contract import NEVER
from brokers.engine.model import Model, ServiceSpec, SourceSpec
from brokers.engine.simulate import simulate
from brokers.errors import Interrupted
from scenarios.loader import load
from scenarios.plan import resolve
from scenarios.running import resume, run
from topology.build import build
from topology.links import Links

_MS = 1_000_000
_SHAPES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("balanced-tree", {"branching": 2, "height": 2}),
    ("ring", {"nodes": 5}),
)
_GEOMETRIC: tuple[tuple[str, dict[str, Any]], ...] = (
    ("random-geometric", {"nodes": 12, "radius": 0.4}),
    ("waxman", {"nodes": 12}),
)
# Neighbours with scores that miss much of what others say that they have: promises are open wherever it stops.
_GOSSIP: dict[str, Any] = {
    "name": "gossip", "duration": "2 s", "topology": {"kind": "ring", "nodes": 6},
    "links": {"delay": "2 ms", "loss": 0.3}, "clients": {"all": {"count": 6, "placement": "even"}},
    "services": [{
        "name": "talk", "kind": "topics", "wildcards": False, "protocol": "gossipsub",
        "options": {
            "d": 2, "d_lo": 1, "d_hi": 3, "d_out": 0, "d_score": 1, "heartbeat": "50 ms", "first_heartbeat": "10 ms",
            "scoring": {"topic": {"first_weight": 1.0}, "decay_every": "20 ms"},
        },
        "workload": [
            {"source": "topic-subscribe", "clients": "all", "filter": "1"},
            {"source": "topic-publish", "clients": "all", "topics": 1, "depth": 1, "rate": "20/s", "start": "100 ms"},
        ],
    }],
}  # fmt: skip
# Copies that are lost again and again: announcements wait, and somebody asks, wherever it stops.
_PLUMTREE: dict[str, Any] = {
    **_GOSSIP, "services": [{
        **_GOSSIP["services"][0], "protocol": "plumtree", "options": {"t1": "100 ms", "t2": "50 ms"},
    }],
}  # fmt: skip
_PROTOCOLS = ("flooding:Flooding", "subscription:Subscription", "covering:Covering")


def run_each() -> None:
    """On a tree and on a cycle, with interests that stand and that come and go, in one shard and in two."""
    for shape in _SHAPES:
        for protocol in _PROTOCOLS:
            for settled in (False, True):
                simulate(_model(*shape, protocol, settled), actors=2)
    simulate(_model(*_SHAPES[0], "covering:Covering", False), actors=2, engine="threads")
    for shape in _GEOMETRIC:
        build(*shape, Links(), 1)


def interrupt_and_resume() -> None:
    """A run that goes on from a checkpoint, on another number of shards."""
    for name, milliseconds in (("churn", 2_000), ("nearest", 400)):
        _interrupted(name, milliseconds)
    with tempfile.TemporaryDirectory(prefix="bl-") as folder:
        for gossip in (_GOSSIP, _PLUMTREE):
            path = Path(folder) / "gossip.json"
            path.write_text(json.dumps(gossip), encoding="utf-8")
            _interrupted(str(path), 2_000)
            simulate(resolve(load(path)), observe=lambda shards: shards.shards[0].services.protocols[0].describe(0))


def _interrupted(scenario: str, milliseconds: int) -> None:
    def interrupt(now_ns: int, events: int, under_way: int) -> None:
        if now_ns > milliseconds * _MS * 3 // 4:
            raise KeyboardInterrupt

    overrides = (f"duration={milliseconds} ms", "engine.checkpoint_every=50 ms", "engine.window_max=50 ms")
    with tempfile.TemporaryDirectory(prefix="bl-") as folder:
        try:
            run(scenario, engine="inline", actors=2, overrides=overrides, out=folder, progress=interrupt)
        except Interrupted:
            (unfinished,) = (path for path in Path(folder).iterdir() if path.is_dir() and not path.is_symlink())
            resume(unfinished, engine="inline", actors=1)


def reweigh() -> None:
    """Weighted filters that get other weights, which no shipped scenario has."""
    from scenarios.loader import from_data
    from scenarios.plan import resolve

    workload = [
        {"source": "rank-subscribe", "clients": "all", "width": 0.3, "reweight": "5/s"},
        {"source": "rank-publish", "clients": "all", "rate": "2/s", "weights": [1, 2], "interval": 0.1},
    ]
    simulate(
        resolve(
            from_data(
                {
                    "name": "warm", "duration": "1 s",
                    "topology": {"kind": "ring", "nodes": 4}, "links": {"delay": "1 ms"},
                    "clients": {"all": {"count": 8}},
                    "services": [{"name": "ranked", "kind": "topk", "protocol": "topk-ingress", "workload": workload}],
                }
            )
        )
    )  # fmt: skip


def close_windows() -> None:
    """Objects that newer ones push out, of which no shipped scenario has any."""
    from protocols.rehearsing import REHEARSALS, rehearse
    from protocols.spatial.kind import Spatial
    from protocols.spatial.manifest import SPATIAL

    for protocol in SPATIAL.protocols:
        simulate(rehearse(REHEARSALS[0], protocol, params=Spatial.Params(last=2).model_dump()))


def break_things() -> None:
    """Faults of every sort, in compiled rounds and in Python's."""
    from brokers.engine.batching import Cutting
    from brokers.engine.simulate import MemoryTraces
    from brokers.faults import Crash, Cut, Schedule, Slow, Worn

    faults = (
        Crash(1, 20 * _MS, 30 * _MS), Cut(0, 20 * _MS, 40 * _MS), Slow(2, 10 * _MS, 20 * _MS, 2.0),
        Worn(2, 10 * _MS, 90 * _MS, 0.1, 0.1, _MS, 2.0),
    )  # fmt: skip
    broken = replace(_model(*_SHAPES[0], "flooding:Flooding", False), faults=Schedule(faults), sample_every_ns=5 * _MS)
    for compiled in ("auto", "never"):
        simulate(broken, cutting=Cutting(compiled=compiled), trace=MemoryTraces("full"))
    mended = _model(*_SHAPES[0], "subscription:Subscription", False)
    mended.services[0].options = {"recover": True}
    simulate(replace(mended, faults=Schedule(faults, detect_ns=5 * _MS)))


def _model(kind: str, params: dict[str, Any], protocol: str, settled: bool) -> Model:
    links = Links.model_validate(
        {
            "delay": {"kind": "uniform", "low": _MS, "high": 3 * _MS},
            "jitter": 1000,
            "bandwidth": 10**9,
            "loss": 0.01,
        }
    )
    overlay = build(kind, params, links, 1)
    brokers = len(overlay.names)
    sources = [
        SourceSpec("protocols.content.publish:Publish", {"process": "poisson", "rate": 200.0}, "clients"),
        SourceSpec(
            "protocols.content.subscribe:Subscribe",
            {"constraints": 2, "width": 0.5, "churn": {"process": "replace", "rate": 20.0}},
            "clients",
        ),
    ]
    service = ServiceSpec(
        "warm",
        "protocols.content.kind:Content",
        f"protocols.content.{protocol}",
        "brokers.indexes.content.cells:CellBitset",
        params={"attributes": 4},
        cost={"base": 1000.0, "per_match": 100.0},
        settled=settled,
        sources=sources,
    )
    clients = np.arange(8, dtype=np.int32) % brokers
    return Model(
        "warm", 1, 100 * _MS, overlay, clients, {"clients": (0, 8)}, [service], sample_every_ns=NEVER
    )
