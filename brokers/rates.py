"""What is expected of a run before it runs: what sources will send, and what protocols make of it.

A source declares its `Rates`, a protocol the events that it expects of a `Demand`: the rates of all sources of its
service, laid out over the brokers that their clients are attached to. Estimates, in the mean of a run: of what
`brokerlab plan` prints they decide, of what happens nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Rates:
    """What a source expects all clients of its group to do, per simulated second in the mean of the run."""

    publications: float = 0.0
    changes: float = 0.0  # of all kinds: those that begin an interest, end it, replace it
    interests: float = 0.0  # not a rate: how many stand at one time, once the first have been issued
    share: float = 0.0  # of publications, how many one of these interests asks for
    covered: float = 0.0  # of other such interests, how many ask for all that one of these asks for
    more: Mapping[str, Any] = field(default_factory=dict)  # what protocols of one kind want to know besides


@dataclass(frozen=True)
class Demand:
    """What a protocol will have to do in a service. Rates are per simulated second, in the mean of the run."""

    overlay: Any  # topology.overlay.Overlay
    links: Any  # brokers.contract.LinkTable: those that the service may use
    params: Mapping[str, Any]  # of the kind
    options: Any  # of the protocol, validated, or a mapping
    duration_s: float
    settled: bool  # interests stand at time 0, and nobody has to be told
    server: int  # the node of the service's server; -1: it has none
    publications: Floats  # that enter at each node
    changes: Floats  # that enter at each node
    interests: Floats  # of each node's clients, at one time
    publishes: NDArray[np.bool_]  # whether publications may enter at a node
    share: float  # in the mean over all interests, as in `Rates`
    covered: float
    sources: tuple[tuple[Rates, Floats], ...]  # the rates of each source, and the part of its clients at each node

    @property
    def nodes(self) -> int:
        return int(self.publications.size)

    def more(self, name: str) -> list[Any]:
        """What sources say under a name in `Rates.more`."""
        return [rates.more[name] for rates, _ in self.sources if name in rates.more]

    def of(self, name: str) -> Floats:
        """A number that sources say in `Rates.more`, laid out over nodes."""
        return sum((float(rates.more.get(name, 0.0)) * spread for rates, spread in self.sources), np.zeros(self.nodes))


def demand(
    parts: Iterable[tuple[Rates, bool, NDArray[np.int32]]],
    overlay: Any,
    links: Any,
    params: Mapping[str, Any],
    options: Any,
    duration_s: float,
    settled: bool = False,
    server: int = -1,
) -> Demand:
    """Lay the rates of sources out over nodes; a part is (rates, whether it publishes, the brokers of its clients)."""
    nodes = overlay.nodes
    publications, changes, interests = np.zeros(nodes), np.zeros(nodes), np.zeros(nodes)
    publishes = np.zeros(nodes, np.bool_)
    share = covered = 0.0
    sources = []
    for rates, enters, brokers in parts:
        spread = np.bincount(brokers, minlength=nodes) / max(1, brokers.size)
        publications += rates.publications * spread
        changes += rates.changes * spread
        interests += rates.interests * spread
        publishes |= (spread > 0) & enters
        share += rates.share * rates.interests
        covered += rates.covered * rates.interests
        sources.append((rates, spread))
    total = max(float(interests.sum()), 1e-300)
    return Demand(
        overlay, links, params, options, duration_s, settled, server, publications, changes, interests, publishes,
        share / total, covered / total, tuple(sources),
    )  # fmt: skip


def everywhere(demand: Demand) -> float:
    """Events per second if every publication and every change is handled once by every broker."""
    return float((demand.publications.sum() + demand.changes.sum()) * demand.overlay.brokers)
