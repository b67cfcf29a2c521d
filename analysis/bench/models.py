"""The models that are measured: content services over a tree, at any size.

The tree is grown by preferential attachment, as a Barabási–Albert graph with one link per broker; delays are
uniform from 5 to 50 ms. One client per broker publishes, as a Poisson process. Subscribers come round robin,
with one subscription each, so that matches and deliveries are the same number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from brokers.engine.model import Model, ServiceSpec, SourceSpec

FLOODING = "protocols.content.flooding:Flooding"
SUBSCRIPTION = "protocols.content.subscription:Subscription"
CELLS = "brokers.indexes.content.cells:CellBitset"
SCAN = "brokers.indexes.content.scan:Scan"

SEED = 1
# One link of 10 µs and twenty of 100 µs, evenly spread over the link numbers.
FAST_LINKS_NS = (10_000, *[100_000] * 20)


@dataclass(frozen=True)
class Setting:
    """What is measured. Every field shows in the model and nothing else does."""

    brokers: int = 1000
    publications_per_s: float = 10_000.0
    seconds: float = 1.0
    subscriptions: int = 0
    constraints: int = 3
    width: float = 0.1  # of each constraint, in units of the domain
    attributes: int = 4
    protocol: str = FLOODING
    index: str = CELLS
    tables: str = "shared"
    view: str = "auto"
    settled: bool = True
    ramp_s: float = 0.0  # without `settled`: over how long subscriptions are issued
    fast_links: bool = False


@lru_cache(maxsize=8)
def overlay(brokers: int, fast_links: bool = False) -> Any:
    """The tree of so many brokers."""
    from topology.build import build
    from topology.links import Links, UniformDelay

    links = Links(delay=UniformDelay(low=5_000_000, high=50_000_000))
    tree = build("barabasi-albert", {"nodes": brokers, "attach": 1}, links, SEED)
    if not fast_links:
        return tree
    delay = tree.delay_ns.copy()
    delay[np.linspace(0, tree.links - 1, len(FAST_LINKS_NS)).astype(np.int64)] = FAST_LINKS_NS
    return replace(tree, delay_ns=delay)


def model(setting: Setting) -> Model:
    """The model of a setting."""
    network = overlay(setting.brokers, setting.fast_links)
    publishers, subscribers = setting.brokers, setting.subscriptions
    groups = {"publishers": (0, publishers)}
    sources = []
    if subscribers:
        groups["subscribers"] = (publishers, subscribers)
        sources.append(SourceSpec(
            "protocols.content.subscribe:Subscribe",
            {
                "number": 1, "constraints": setting.constraints, "width": setting.width,
                "ramp": int(setting.ramp_s * 1e9),
            },
            "subscribers",
        ))
    if setting.publications_per_s:
        sources.append(SourceSpec(
            "protocols.content.publish:Publish",
            {"process": "poisson", "total_rate": setting.publications_per_s},
            "publishers",
        ))
    service = ServiceSpec(
        "bench", "protocols.content.kind:Content", setting.protocol, setting.index,
        tables=setting.tables, view=setting.view, settled=setting.settled,
        params={"attributes": setting.attributes}, sources=sources,
    )
    return Model(
        "bench", SEED, int(setting.seconds * 1e9), network,
        (np.arange(publishers + subscribers) % setting.brokers).astype(np.int32), groups, [service],
        trace_level="none",
    )
