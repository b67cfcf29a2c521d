"""The group `gossip-large`: GossipSub 1.1 with scores at the sizes that it is asked to reach, in compiled rounds.

    python -m analysis.bench.gossip_large '{"brokers": 10000, "publications": 1000}'

prints the figures of one network as a JSON object, out of a process of its own, since peak memory is the process's. The
overlay is ten rings through all brokers in orders that are drawn, so each has twenty neighbours; all subscribe to one
topic. Scores are those of the hardening report of libp2p (`1k.json`), as far as they are about topics and behaviour.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

import networkx as nx
import numpy as np

from analysis.bench.alone import peak_bytes
from analysis.bench.rows import Row, row
from analysis.papers.gossip_runs import SECOND, Setting, uniform_delays
from brokers.engine.model import Model

SCORING = {
    "topic": {
        "weight": 0.25, "mesh_weight": 0.0027, "mesh_quantum": "1 s", "mesh_cap": 3600.0, "first_weight": 0.664,
        "first_decay": 0.9916, "first_cap": 1500.0, "rate_weight": -0.25, "rate_decay": 0.997, "rate_cap": 400.0,
        "rate_threshold": 10.0, "rate_activation": "60 s", "rate_window": "5 ms", "failure_weight": -0.25,
        "failure_decay": 0.997, "invalid_weight": -99.0, "invalid_decay": 0.9994,
    },
    "behaviour_weight": -1.0, "thresholds": {"gossip": -4000, "publish": -5000, "graylist": -10000},
}  # fmt: skip
OPTIONS = {"version": "1.1", "d": 8, "d_lo": 6, "d_hi": 12, "d_score": 6, "d_lazy": 12, "scoring": SCORING}


@dataclass(frozen=True)
class Size:
    """One network."""

    brokers: int
    publications: int
    rings: int = 10
    per_s: int = 100
    seed: int = 1


SIZES = (Size(10_000, 1_000), Size(100_000, 100))
COMPARED = Size(1_000, 50)  # on one, two and three shards


def rows(sizes: tuple[Size, ...] = SIZES, compared: Size = COMPARED) -> Iterator[Row]:
    """CPU seconds and peak memory of each network, set-up included; and one digest on one, two and three shards."""
    found = len(set(digests(compared)))
    told = f"gossipsub 1.1 with scores, {compared.brokers:,} brokers, {compared.publications:,} publications"
    yield row(f"{told}: digests on 1, 2 and 3 shards", found, "digests", most=1)
    for size, cpu_most, bytes_most in zip(sizes, (120.0, None), (4e9, 24e9)):
        found = alone(size)
        name = f"gossipsub 1.1 with scores, {size.brokers:,} brokers of degree {2 * size.rings}, {size.publications:,}"
        yield row(f"{name} publications: run", found["cpu_s"], "CPU s", most=cpu_most)
        yield row(f"{name}: peak memory", found["peak_bytes"], "bytes", most=bytes_most)
        yield row(f"{name}: messages", found["messages_per_cpu_s"], "messages/CPU s")


def alone(size: Size) -> Any:
    """The figures of one network, in a process of its own."""
    command = [sys.executable, "-m", "analysis.bench.gossip_large", json.dumps(asdict(size))]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def digests(size: Size) -> list[str]:
    """Of one network on one, two and three shards."""
    from brokers.engine.simulate import simulate

    return [simulate(model(size), engine="inline", actors=actors).digest for actors in (1, 2, 3)]


def model(size: Size) -> Model:
    """Publications at a steady rate, each by another broker, once meshes stand."""
    random, graph = np.random.Generator(np.random.PCG64(size.seed)), nx.empty_graph(size.brokers)
    for _ in range(size.rings):
        nx.add_cycle(graph, random.permutation(size.brokers).tolist())
    published = [(5 * SECOND + at * SECOND // size.per_s, at * 7 % size.brokers) for at in range(size.publications)]
    seconds = 7 + size.publications // size.per_s
    setting = Setting(graph, uniform_delays(graph, 5, 50, size.seed), published, OPTIONS, seconds=seconds)
    return replace(setting.model(size.seed), trace_level="none")


def measure(size: Size) -> dict[str, Any]:
    """Run it once; a small one goes first, so that compiling is in no figure."""
    from brokers.engine.simulate import simulate

    simulate(model(replace(size, brokers=60, publications=20)))
    built, began = model(size), time.process_time()
    result = simulate(built)
    cpu_s, run = time.process_time() - began, result.metrics["run"]
    network, service = result.metrics["network"], result.metrics["services"]["service"]
    return {
        "digest": result.digest, "cpu_s": cpu_s, "loop_cpu_s": run["cpu_s"], "peak_bytes": peak_bytes(),
        "messages": network["messages"], "events": network["events"], "deliveries": service["deliveries"],
        "messages_per_cpu_s": network["messages"] / cpu_s,
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(measure(Size(**json.loads(sys.argv[1])))))
