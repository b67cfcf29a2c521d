"""The three topk protocols beside each other on tree overlays: messages, bytes, refreshes, latency, state.

One factor varies at a time. All three get the same overlay, clients and draws. Filters stand from the start, and
are replaced now and then: two changes, the old one's end and a new one. Messages are those over links between
brokers, per publication, those that changes cause included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from analysis.papers.claims import Claim, Figure, at_most, ours
from analysis.papers.experiment import Experiment, Picture, Run, Tables, curves
from brokers.engine.simulate import simulate
from scenarios.loader import from_data
from scenarios.plan import resolve

PROTOCOLS = ("topk-ingress", "topk-gather", "topk-bounded")
HALF = 0.5
REGIONAL = ("0.02", "0.03", "0.05")


@dataclass(frozen=True)
class Setting:
    """One network and what happens in it."""

    brokers: int = 100
    filters: int = 2_000
    k: int = 10
    region: float | None = 0.03  # how far interests lie from their broker's centre; None: anywhere
    changes: float = 0.1  # per publication; a replacement is two
    publications: int = 300

    def data(self, protocol: str, seed: int) -> dict[str, Any]:
        """The scenario, as its file would say it."""
        clients = max(self.brokers, 40)
        publishers = max(10, self.brokers // 4)
        seconds = 10.0
        region = {} if self.region is None else {"region": self.region}
        churn = self.changes / 2.0 * self.publications / seconds / clients
        subscribe: dict[str, Any] = {
            "source": "rank-subscribe", "clients": "subscribers", "number": max(1, self.filters // clients),
            "constraints": [3, 5], "width": 0.1, **region,
        }  # fmt: skip
        if churn > 0:
            subscribe["churn"] = {"process": "replace", "rate": f"{churn * 60:.9f}/min"}
        return {
            "name": "topk-network",
            "seed": seed,
            "duration": f"{seconds} s",
            "topology": {"kind": "barabasi-albert", "nodes": self.brokers, "attach": 1},
            "links": {"delay": {"kind": "uniform", "low": "2 ms", "high": "20 ms"}},
            "clients": {
                "subscribers": {"count": clients, "placement": "even"},
                "publishers": {"count": publishers, "placement": "even"},
            },
            "services": [
                {
                    "name": "best", "kind": "topk", "attributes": 8, "k": self.k, "protocol": protocol,
                    "view": "message",  # what each broker keeps is counted in it, as its author says it
                    "subscriptions": "settled",
                    "workload": [
                        subscribe,
                        {"source": "rank-publish", "clients": "publishers",
                         "total_rate": f"{self.publications / seconds}/s", **region},
                    ],
                }
            ],
            "trace": {"level": "none"},
        }  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """What one run came to."""

    publications: int
    changes: int
    deliveries: int
    messages: float  # per publication
    bytes: float
    refreshes: int
    latency_ms: float
    state: float  # filters known, per broker
    bound_bytes: float  # of what is known of other brokers' filters, per broker


def measure(setting: Setting, protocol: str, seed: int) -> Cost:
    """Run one protocol in one setting."""
    model = resolve(from_data(setting.data(protocol, seed)))
    seen: dict[str, Any] = {}

    def observe(shards: Any) -> None:
        adaptor = shards.shards[0].services.protocols[0]
        seen["refreshes"] = sum(getattr(broker, "refreshes", 0) for broker in adaptor.brokers.values())
        seen["state"] = float(np.mean(adaptor.entries()))
        bounds = [b.bounds.memory_bytes() for b in adaptor.brokers.values() if hasattr(b, "bounds")]
        seen["bounds"] = float(np.mean(bounds)) if bounds else 0.0

    metrics = simulate(model, observe=observe).metrics
    service, network = metrics["services"]["best"], metrics["network"]
    published = max(service["publications"], 1)
    return Cost(
        service["publications"], network["changes"] - _standing(setting), service["deliveries"],
        network["messages"] / published, network["bytes"] / published, seen["refreshes"],
        service["latency"]["p50_ms"], seen["state"], seen["bounds"],
    )  # fmt: skip


def _standing(setting: Setting) -> int:
    """Filters that stand from the start."""
    clients = max(setting.brokers, 40)
    return clients * max(1, setting.filters // clients)


def factors(full: bool) -> dict[str, list[tuple[str, Setting]]]:
    """What varies, and how."""
    base = Setting()
    sizes = (10, 32, 100, 316, 1000)
    count = 300 if full else 60

    def sized(brokers: int) -> Setting:
        return replace(base, brokers=brokers, publications=count if brokers > 100 else 300)

    return {
        "brokers": [(str(n), sized(n)) for n in sizes],
        "k": [(str(k), replace(base, k=k)) for k in (1, 10, 100)],
        "filters": [(str(n), replace(base, filters=n)) for n in (500, 2_000, 8_000)],
        "changes per publication": [(str(c), replace(base, changes=c)) for c in (0.0, 0.1, 1.0)],
        "region": [(str(r), replace(base, region=r)) for r in (0.02, 0.03, 0.05, 0.1, None)],
    }


def measured(factor: str, run: Run) -> Tables:
    """The three over one factor."""
    rows = []
    for label, setting in factors(run.full)[factor]:
        for protocol in PROTOCOLS:
            rows.append({factor: label, "protocol": protocol, **vars(measure(setting, protocol, run.seed))})
        run.say(f"{factor} = {label}")
    return {table_of(factor): rows}


def table_of(factor: str) -> str:
    return f"network_{factor.split()[0]}"


def judge(factor: str, tables: Tables) -> Iterator[Claim]:
    """What topk-bounded is for, and what it costs."""
    rows = tables[table_of(factor)]
    by = {(row[factor], row["protocol"]): row for row in rows}
    labels = list(dict.fromkeys(row[factor] for row in rows))
    over = {
        column: {label: by[label, "topk-bounded"][column] / by[label, "topk-gather"][column] for label in labels}
        for column in ("messages", "latency_ms")
    }
    if factor == "region":
        yield Claim(
            "half", "On regional interests topk-bounded sends at most half the messages of topk-gather",
            ours("what bounds are for; refreshes included, ten publications per change"),
            {_where(label): Figure(ratio, at_most(HALF) if label in REGIONAL else None)
             for label, ratio in over["messages"].items()}, f"at most {HALF}, within {REGIONAL[-1]}", unit="times",
        )  # fmt: skip
    yield Claim(
        "latency", "Median latency of topk-bounded over that of topk-gather", ours("what asking in turn costs"),
        {_where(label) if factor == "region" else f"{factor} = {label}": Figure(ratio)
         for label, ratio in over["latency_ms"].items()}, "reported", unit="times",
    )  # fmt: skip


def _where(region: str) -> str:
    return "anywhere" if region == "None" else f"within {region}"


def draw(factor: str, tables: Tables) -> Iterator[Picture]:
    """Messages, where the factor is a number."""
    rows = tables[table_of(factor)]
    if any(row[factor] == "None" for row in rows):
        return
    log = factor in ("brokers", "k", "filters")
    series = {
        name: ([float(row[factor]) for row in rows if row["protocol"] == name],
               [row["messages"] for row in rows if row["protocol"] == name])
        for name in PROTOCOLS
    }  # fmt: skip
    yield Picture(table_of(factor), f"Messages per publication over {factor}", factor, "messages", curves(series),
                  log_x=log, log_y=log)  # fmt: skip


EXPERIMENTS = [
    Experiment(
        f"network-{factor.split()[0]}", f"Three protocols in the network over {factor}", partial(measured, factor),
        partial(judge, factor), partial(draw, factor), {table_of(factor): f"Three protocols over {factor}"},
    )
    for factor in factors(False)
]  # fmt: skip
