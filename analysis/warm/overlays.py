"""Small networks of ranges that touch every kernel of the engine: what all other models use as well."""

from __future__ import annotations

from typing import Any

import numpy as np

from brokers.contract import NEVER
from brokers.engine.model import Model, ServiceSpec, SourceSpec
from brokers.engine.run import execute
from topology.build import build
from topology.links import LinkModel

_MS = 1_000_000
_SHAPES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("balanced-tree", {"branching": 2, "height": 2}),
    ("ring", {"nodes": 5}),
)
_PROTOCOLS = ("flooding:Flooding", "subscription:Subscription", "covering:Covering")


def run_each() -> None:
    """On a tree and on a cycle, with interests that stand and that come and go, in one shard and in two."""
    for shape in _SHAPES:
        for protocol in _PROTOCOLS:
            for settled in (False, True):
                execute(_model(*shape, protocol, settled), actors=2)


def _model(kind: str, params: dict[str, Any], protocol: str, settled: bool) -> Model:
    links = LinkModel.model_validate(
        {
            "delay": {"kind": "uniform", "low_ns": _MS, "high_ns": 3 * _MS},
            "jitter_ns": 1000,
            "bandwidth_bps": 10**9,
            "loss": 0.01,
        }
    )
    overlay = build(kind, params, links, 1)
    brokers = len(overlay.names)
    sources = [
        SourceSpec("scenarios.workloads.publish:Publish", {"process": "poisson", "rate": 200.0}, "clients"),
        SourceSpec(
            "scenarios.workloads.subscribe:Subscribe",
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
