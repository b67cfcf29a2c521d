"""Compile every kernel once, so that no user's first run waits for it: `python -m brokers.engine.warm`.

Numba keeps what it compiled on disk. The kernels are reached the way a run reaches them: by running small
models that touch each of them.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from brokers import registry
from brokers.contract import NEVER
from brokers.engine.model import Model, ServiceSpec, SourceSpec
from brokers.engine.run import execute
from topology.build import build
from topology.links import LinkModel

_MS = 1_000_000
# Each compiles the kernels of the indexes that it belongs to.
_INDEXES = (
    "brokers.indexes.content.cells:warm",
    "brokers.indexes.content.htree:warm",
    "brokers.indexes.topk.warm:warm",
)
_PROTOCOLS = ("flooding:Flooding", "subscription:Subscription", "covering:Covering")


def _model(kind: str, params: dict[str, int], protocol: str, settled: bool) -> Model:
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


def warm() -> float:
    """Compile; returns the seconds it took."""
    began = time.perf_counter()
    for kind, params in (("balanced-tree", {"branching": 2, "height": 2}), ("ring", {"nodes": 5})):
        for protocol in _PROTOCOLS:
            for settled in (False, True):
                execute(_model(kind, params, protocol, settled), actors=2)
    for target in _INDEXES:
        registry.load(target)()
    return time.perf_counter() - began


if __name__ == "__main__":
    print("Compiling kernels (once; Numba keeps them) ...", file=sys.stderr, flush=True)
    print(f"Kernels ready after {warm():.1f} s.", file=sys.stderr)
