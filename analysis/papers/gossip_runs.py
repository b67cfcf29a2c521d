"""Runs of `gossipsub` over any graph, and what their traces say: for `brokerlab reproduce gossip` and for tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import networkx as nx
import numpy as np

from brokers.engine.model import Model, SourceSpec
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.limits import NO_LIMITS
from protocols.gossip.talking import HEARTBEAT
from protocols.joining import overlay_of
from protocols.rehearsing import SCRIPT, service_of
from protocols.topics.kind import PUBLISH, SUBSCRIBE

MS, SECOND = 1_000_000, 1_000_000_000
NEWS = 1  # the topic that everybody subscribes to


@dataclass(frozen=True)
class Setting:
    """A network with a subscriber at every broker, and who publishes when."""

    graph: Any  # nodes 0 to n - 1
    delay_ns: Mapping[tuple[int, int], int] | int  # by link, the lower end first
    published: Sequence[tuple[int, int]]  # time, broker
    options: Mapping[str, Any] = field(default_factory=dict)
    seconds: int = 30
    jitter: float = 0.0  # of the delay of a link
    subscribe_every_ns: int = 1
    bandwidth_bps: int = 0  # of each link; 0: unlimited
    queue: int = 0  # messages that may wait in front of it; 0: unlimited

    def model(self, seed: int) -> Model:
        n = self.graph.number_of_nodes()
        links = sorted((min(edge), max(edge)) for edge in self.graph.edges)
        delay = [self.delay_ns if isinstance(self.delay_ns, int) else self.delay_ns[link] for link in links]
        jitter = [int(self.jitter * each) for each in delay]
        overlay = overlay_of(links, delay, jitter_ns=jitter, bandwidth_bps=self.bandwidth_bps)
        everybody = list(range(n))
        subscribed = {
            "type": SUBSCRIBE, "time": [1 + self.subscribe_every_ns * client for client in everybody],
            "client": everybody, "word": [(n + client) << 32 for client in everybody], "rows": [[0, 0, NEWS]] * n,
        }  # fmt: skip
        times, authors = zip(*sorted(self.published)) if self.published else ((), ())
        said = {"type": PUBLISH, "time": [*times], "client": [*authors], "rows": [[NEWS]] * len(times)}
        emissions = [said, subscribed] if times else [subscribed]
        source = SourceSpec(SCRIPT, {"emissions": emissions}, "all")
        service = service_of("gossipsub", options=dict(self.options), sources=[source])
        return Model(
            "gossip", seed, self.seconds * SECOND, overlay, np.arange(n, dtype=np.int32), {"all": (0, n)}, [service],
            drain_ns=20 * SECOND, limits=NO_LIMITS._replace(messages=self.queue),
        )  # fmt: skip


class Played:
    """What a run says of its mesh, as it was at the end, and of what went over links."""

    def __init__(self, setting: Setting, seed: int) -> None:
        self.model = setting.model(seed)
        self.brokers = self.model.overlay.brokers
        self.mesh: list[set[int]] = []
        self.known: list[set[int]] = []
        traces = MemoryTraces("full", tables_of(self.model))
        simulate(self.model, trace=traces, observe=self._observe)
        self.tables: Mapping[str, Any] = traces.tables()
        self._hops = {
            name: self.tables["hops"][name] for name in ("type", "link", "body", "time_ns", "source", "broker")
        }
        self._copies = self._by_publication()
        published = self.tables["publications"]
        order = np.argsort(published["time_ns"], kind="stable")
        self.ids: list[int] = published["publication"][order].tolist()
        self.sent_ns: dict[int, int] = dict(zip(self.ids, published["time_ns"][order].tolist()))
        self.author: dict[int, int] = dict(zip(self.ids, published["broker"][order].tolist()))

    def _by_publication(self) -> dict[int, list[tuple[int, int, int]]]:
        """Payloads over links, in the order of time: (time, from, to)."""
        rows = np.flatnonzero((self._hops["type"] == PUBLISH) & (self._hops["link"] >= 0))
        names = ("body", "time_ns", "source", "broker")
        rows = rows[np.lexsort([self._hops[name][rows] for name in reversed(names)])]
        found: dict[int, list[tuple[int, int, int]]] = {}
        for id_, *copy in zip(*(self._hops[name][rows].tolist() for name in names)):
            found.setdefault(id_, []).append(tuple(copy))
        return found

    def _observe(self, shards: Any) -> None:
        number = {name: at for at, name in enumerate(self.model.overlay.names)}
        told = list(map(shards.shards[0].services.protocols[0].describe, range(self.brokers)))
        self.mesh = [{number[name] for name in each["mesh"][str(NEWS)]} for each in told]
        self.known = [{number[name] for name in each["neighbours"][str(NEWS)]} for each in told]

    @property
    def edges(self) -> int:
        """Links of the mesh."""
        return sum(map(len, self.mesh)) // 2

    def count(self, type: int) -> int:
        """Messages of a type over links."""
        return int(((self._hops["type"] == type) & (self._hops["link"] >= 0)).sum())

    def copies(self, id: int) -> list[tuple[int, int, int]]:
        """Payloads of a publication over links, in the order of time: (time, from, to)."""
        return self._copies.get(id, [])

    def over(self, type: int) -> list[tuple[int, int, int]]:
        """What went over links, of a type: (time, from, to)."""
        rows = (self._hops["type"] == type) & (self._hops["link"] >= 0)
        return list(zip(*(self._hops[name][rows].tolist() for name in ("time_ns", "source", "broker"))))

    def first(self, id: int) -> dict[int, tuple[int, int]]:
        """When each broker got a payload first, and from whom; without its author."""
        found: dict[int, tuple[int, int]] = {}
        for time, source, broker in self.copies(id):
            if broker != self.author[id]:
                found.setdefault(broker, (time, source))
        return found

    def heard_elsewhere(self, id: int) -> int:
        """Mesh neighbours of the author that hear from another first."""
        author, first = self.author[id], self.first(id)
        return sum(first[broker][1] != author for broker in self.mesh[author])

    def payloads_expected(self, id: int) -> int:
        """2E - (n - 1) - a."""
        return 2 * self.edges - (self.brokers - 1) - self.heard_elsewhere(id)

    def heard_outside(self, id: int) -> int:
        """Brokers that hear first from one that is not in their mesh: by flood publishing, or because they asked."""
        return sum(source not in self.mesh[broker] for broker, (_, source) in self.first(id).items())

    def flooded_expected(self, id: int) -> int:
        """The same where the author sends to all neighbours of the topic: 2E + d - d_m - (n - 1) + x - a."""
        further = len(self.known[self.author[id]]) - len(self.mesh[self.author[id]])
        return self.payloads_expected(id) + further + self.heard_outside(id)

    def spared_expected(self, id: int, validation_ns: int) -> int:
        """How many payloads IDONTWANT saves: B skips A if T_A + d_AB <= T_B + v."""
        overlay, first, author = self.model.overlay, self.first(id), self.author[id]
        ends = zip(overlay.link_a.tolist(), overlay.link_b.tolist())
        delay = dict(zip(map(frozenset, ends), overlay.delay_ns.tolist()))
        return sum(
            first[a][0] + delay[frozenset((a, b))] <= first[b][0] + validation_ns
            for b in range(self.brokers)
            if b != author
            for a in self.mesh[b]
            if a not in (author, first[b][1]) and first[a][1] != b
        )

    def beats(self) -> list[int]:
        """When heartbeats were."""
        found: list[int] = np.sort(self._hops["time_ns"][self._hops["type"] == HEARTBEAT]).tolist()
        return found

    def undisturbed(self, id: int) -> bool:
        """Whether there was no heartbeat while a publication spread."""
        last = max(time for time, _ in self.first(id).values())
        return not any(self.sent_ns[id] <= beat <= last for beat in self.beats())

    def hops_to(self, id: int) -> dict[int, int]:
        """Over how many links a payload came first to each broker."""
        first, depth = self.first(id), {self.author[id]: 0}
        for broker, (_, source) in sorted(first.items(), key=lambda each: each[1][0]):
            depth[broker] = depth[source] + 1
        return depth

    def latencies_ms(self) -> Any:
        """Of all deliveries but those to clients of the author's own broker."""
        deliveries = self.tables["deliveries"]
        found = (deliveries["time_ns"] - deliveries["published_ns"]) / MS
        return found[found > 0]

    def told(self, type: int) -> Counter[tuple[int, int]]:
        """How often each broker sent a message of a type to each other."""
        return Counter((source, broker) for _, source, broker in self.over(type))


def uniform_delays(graph: Any, low_ms: float, high_ms: float, seed: int) -> dict[tuple[int, int], int]:
    """A delay for each link, drawn."""
    random = np.random.Generator(np.random.PCG64(seed))
    links = sorted((min(edge), max(edge)) for edge in graph.edges)
    return dict(zip(links, (random.uniform(low_ms, high_ms, len(links)) * MS).astype(np.int64).tolist()))


def dialled(brokers: int, dials: int, seed: int) -> Any:
    """A graph in which each node dials so many others, of which some dial it too."""
    random = np.random.Generator(np.random.PCG64(seed))
    graph = nx.empty_graph(brokers)
    for broker in range(brokers):
        others = random.choice(brokers - 1, dials, replace=False)
        graph.add_edges_from((broker, int(each + (each >= broker))) for each in others)
    return graph
