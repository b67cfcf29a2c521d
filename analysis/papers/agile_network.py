"""The three context protocols beside each other over the rate of updates: messages, updates, latency.

All three get the same overlay, clients and draws: profiles that ask for what is near a moving thing, and messages
everywhere. Only how often the things move varies. Messages are those over links between brokers; of them, those
that carry values or ranges of values are the update traffic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from analysis.papers.experiment import Experiment, Told
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
        "publications": service["publications"],
        "deliveries": service["deliveries"],
        "publications over links": int((sent == PUBLISH).sum()),
        "updates over links": int(np.isin(sent, (UPDATE, RANGE)).sum()),
        "messages": metrics["network"]["messages"],
        "bytes": metrics["network"]["bytes"],
        "latency_ms": service["latency"]["p50_ms"],
    }


def network(report: Told) -> None:
    """The three protocols over the rate of updates."""
    brokers = 60 if report.full else 24
    rows = [measure(protocol, rate, report.seed, brokers) for rate in RATES for protocol in PROTOCOLS]
    report.table("network", f"Three protocols between {brokers} brokers, over the rate of updates", rows)
    for column in ("messages", "updates over links", "latency_ms"):
        series = {protocol: _series(rows, protocol, column) for protocol in PROTOCOLS}
        name = column.replace(" ", "_")
        report.plot(f"network_{name}", f"{column} over the rate of updates", "updates per second", column, series,
                    log_x=True, log_y=column != "latency_ms")
    fastest = {row["protocol"]: row for row in rows if row["updates per second"] == RATES[-1]}
    edge, replicated, escalated = (fastest[protocol] for protocol in PROTOCOLS)
    for name, column, better, than in (
        ("brokers that know the values forward fewer messages", "publications over links", replicated, edge),
        ("widened ranges let fewer updates travel than replicas do", "updates over links", escalated, replicated),
    ):
        report.claim(
            name, "ours", f"fewer {column} at {RATES[-1]:g} updates per second",
            f"{better[column]:,} against {than[column]:,}", better[column] < than[column],
        )  # fmt: skip


def _series(rows: Sequence[dict[str, Any]], protocol: str, column: str) -> tuple[list[float], list[float]]:
    mine = [row for row in rows if row["protocol"] == protocol]
    return [row["updates per second"] for row in mine], [row[column] for row in mine]


EXPERIMENTS = [Experiment("network", "Three protocols in the network", told=network)]
