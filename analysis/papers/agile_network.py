"""The three context protocols beside each other over the rate of updates: messages, updates, latency.

All three get the same overlay, clients and draws: profiles that ask for what is near a moving thing, and messages
everywhere. Only how often the things move varies. Messages are those over links between brokers; of them, those
that carry values or ranges of values are the update traffic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from analysis.papers.claims import Claim, Figure, below, derived, exactly, ours
from analysis.papers.experiment import Cells, Experiment, Picture, Run, Tables, curves
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from protocols.context.common import RANGE
from protocols.context.kind import PUBLISH, UPDATE
from scenarios.loader import from_data
from scenarios.plan import resolve

PROTOCOLS = ("context-edge", "context-replicated", "context-escalated")
RATES = (0.2, 1.0, 5.0, 20.0)  # updates per second of each thing
SECONDS = 6


def data(protocol: str, rate: float, seed: int, brokers: int) -> dict[str, Any]:
    """The scenario, as its file would say it."""
    return {
        "name": "agile-network",
        "seed": seed,
        "duration": f"{SECONDS} s",
        "topology": {"kind": "barabasi-albert", "nodes": brokers, "attach": 1},
        "links": {"delay": {"kind": "uniform", "low": "2 ms", "high": "20 ms"}},
        "clients": {
            "things": {"count": 20, "placement": "even"},
            "people": {"count": 60, "placement": "even"},
            "senders": {"count": 6, "placement": "even"},
        },
        "services": [
            {
                "name": "near", "kind": "context", "attributes": 2, "protocol": protocol,
                "workload": [
                    {"source": "context-updates", "clients": "things", "rate": f"{rate}/s", "step": 0.02},
                    {"source": "context-profiles", "clients": "people", "contexts": [0, 19], "constraints": 2,
                     "width": 0.1, "ramp": "1 s"},
                    {"source": "publish", "clients": "senders", "rate": "10/s", "start": "1500 ms"},
                ],
            }
        ],
        "trace": {"level": "full"},
    }  # fmt: skip


def measure(protocol: str, rate: float, seed: int, brokers: int) -> dict[str, Any]:
    """Run one protocol at one rate of updates."""
    model = resolve(from_data(data(protocol, rate, seed, brokers)))
    traces = MemoryTraces("full", tables_of(model))
    metrics = simulate(model, trace=traces).metrics
    hops = traces.tables()["hops"]
    sent = hops["type"][hops["link"] >= 0]
    service = metrics["services"]["near"]
    return {
        "updates per second": rate,
        "protocol": protocol,
        "brokers": brokers,
        "publications": service["publications"],
        "deliveries": service["deliveries"],
        "publications over links": int((sent == PUBLISH).sum()),
        "updates over links": int(np.isin(sent, (UPDATE, RANGE)).sum()),
        "messages": metrics["network"]["messages"],
        "bytes": metrics["network"]["bytes"],
        "latency_ms": service["latency"]["p50_ms"],
    }


def network(run: Run) -> Tables:
    """The three protocols over the rate of updates."""
    brokers = 60 if run.full else 24
    return {"network": [measure(protocol, rate, run.seed, brokers) for rate in RATES for protocol in PROTOCOLS]}


def judge(tables: Tables) -> Iterator[Claim]:
    """What knowing the values spares, and what widened ranges spare of that."""
    by = {(row["updates per second"], row["protocol"]): row for row in tables["network"]}

    def over(column: str, mine: str, other: str) -> dict[str, Figure]:
        return {f"{rate:g}/s": Figure(by[rate, mine][column] / by[rate, other][column], below(1)) for rate in RATES}

    edge, replicated, escalated = PROTOCOLS
    yield Claim(
        "floods", f"{edge} sends each publication over every link", derived("a tree of B brokers has B - 1 links"),
        {f"{rate:g}/s": Figure(_per_link(by[rate, edge]), exactly(1)) for rate in RATES}, unit="times",
    )  # fmt: skip
    yield Claim(
        "fewer-publications", f"Publications over links of {replicated}, beside {edge}",
        ours("brokers that know the values need not forward what nobody gets"),
        over("publications over links", replicated, edge), unit="times",
    )  # fmt: skip
    yield Claim(
        "fewer-updates", f"Updates over links of {escalated}, beside {replicated}",
        ours("what widened ranges are for"), over("updates over links", escalated, replicated), unit="times",
    )  # fmt: skip


def _per_link(row: Cells) -> float:
    return float(row["publications over links"] / row["publications"] / (row["brokers"] - 1))


def draw(tables: Tables) -> Iterator[Picture]:
    """What travels, and how long a message takes."""
    rows = tables["network"]
    for column in ("messages", "updates over links", "latency_ms"):
        series = {
            name: (RATES, [row[column] for row in rows if row["protocol"] == name]) for name in PROTOCOLS
        }
        yield Picture(
            f"network_{column.replace(' ', '_')}", f"{column} over the rate of updates", "updates per second", column,
            curves(series), log_x=True, log_y=column != "latency_ms",
        )  # fmt: skip


EXPERIMENTS = [
    Experiment(
        "network", "Three protocols in the network", network, judge, draw,
        {"network": "Three protocols over the rate of updates"}, "24 brokers; `--full` has 60.",
    )
]  # fmt: skip
