"""Query merging in the simulated network: what the server sends, what clients hear in vain, what links carry.

Queries stand from the start, one per client, and all have one period, so that a round is what the cost model prices:
merged queries, objects sent, and objects that queries receive in vain. Sizes are counts over the database. Boxes lie
on tiles, so that some are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from analysis.papers.experiment import Experiment, Told
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from scenarios.loader import from_data
from scenarios.plan import resolve

MODES = ("unicast", "identical", "merged", "channels")
CLUSTERING = (0.0, 0.25, 0.5, 0.75, 1.0)
ROUNDS = 2
BAND = 0.1


@dataclass(frozen=True)
class Setting:
    """One network, its database, and how the server plans."""

    queries: int = 1000
    brokers: int = 100
    objects: int = 20_000
    clustered: float = 0.8  # cf
    mode: str = "merged"
    channels: int = 20

    def data(self, seed: int) -> dict[str, Any]:
        """The scenario, as its file would say it."""
        return {
            "name": "merging-network",
            "seed": seed,
            "duration": f"{ROUNDS + 0.5} s",
            "topology": {"kind": "barabasi-albert", "nodes": self.brokers, "attach": 1},
            "links": {"delay": {"kind": "uniform", "low": "2 ms", "high": "20 ms"}},
            "servers": {"atlas": {"broker": 0}},
            "clients": {"people": {"count": self.queries}},
            "services": [
                {
                    "name": "maps", "kind": "channels", "protocol": "channels", "subscriptions": "settled",
                    "objects": self.objects, "hot_spots": 8,
                    "options": {"mode": self.mode, "channels": self.channels},
                    "workload": [
                        {"source": "map-queries", "period": ["1 s"], "width": [30, 60], "clusters": 8,
                         "clustered": self.clustered, "snap": 10},
                    ],
                }
            ],
        }  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """Per round, beside what the model says of the plan."""

    merged: int  # merged queries
    merged_model: int
    sent: float  # objects the server sent
    sent_model: float
    irrelevant: float  # objects received in vain, per client
    irrelevant_model: float
    overheard: float  # objects on a client's channels that it had no use for, per client
    server_bytes: float  # that the server sent
    link_bytes: float  # on all links


def measure(setting: Setting, seed: int = 1) -> Measured:
    """Run one network."""
    model = resolve(from_data(setting.data(seed)))
    traces = MemoryTraces("deliveries", tables_of(model))
    simulate(model, trace=traces)
    tables = traces.tables()
    plans, answers = tables["plans"], tables["answers"]
    clients = setting.queries * ROUNDS
    return Measured(
        merged=len(answers["round"]) // ROUNDS,
        merged_model=int(plans["merged"].sum()),
        sent=float(answers["objects"].sum()) / ROUNDS,
        sent_model=float(plans["sent"].sum()),
        irrelevant=float(tables["received"]["irrelevant"].sum()) / clients,
        irrelevant_model=float(plans["irrelevant"].sum()) / setting.queries,
        overheard=float(tables["heard"]["irrelevant"].sum()) / clients,
        server_bytes=float(answers["size_bytes"].sum()) / ROUNDS,
        link_bytes=float(tables["links"]["bytes"].sum()) / ROUNDS,
    )


def network(report: Told) -> None:
    """Bytes on links for the four modes over the clustering factor, and the network beside the cost model."""
    setting = Setting() if report.full else Setting(queries=200, objects=5_000)
    rows: list[dict[str, Any]] = []
    for clustered in CLUSTERING:
        for mode in MODES:
            found = measure(replace(setting, clustered=clustered, mode=mode), report.seed)
            rows.append({"clustering factor": clustered, "mode": mode, **vars(found)})
    title = f"{setting.brokers} brokers, {setting.queries} queries with hot spots: per round, sizes by count"
    report.table("network", title, rows)
    for key, title in (("server_bytes", "Bytes sent by the server"), ("link_bytes", "Bytes on all links")):
        curves = {mode: (CLUSTERING, [row[key] for row in rows if row["mode"] == mode]) for mode in MODES}
        report.plot(key, f"{title}, per round", "clustering factor", "bytes", curves)
    _claim(report, rows)


def _claim(report: Told, rows: Sequence[dict[str, Any]]) -> None:
    same = all(row["merged"] == row["merged_model"] for row in rows)
    report.claim("Merged queries per round in the network", "issue, in the network", "as many as in the plan",
                 "equal at every point" if same else "not equal at every point", same)
    for what, name in (("sent", "objects sent by the server"), ("irrelevant", "irrelevant objects per client")):
        off = max(_off(row[what], row[f"{what}_model"]) for row in rows)
        report.claim(f"In the network, {name}", "issue, in the network", "within 10 % of the cost model's",
                     f"off by {100 * off:.2f} % at most", off <= BAND)
    for key, where in (("server_bytes", "sent by the server"), ("link_bytes", "on all links")):
        for clustered in (CLUSTERING[0], CLUSTERING[-1]):
            of = {row["mode"]: row[key] for row in rows if row["clustering factor"] == clustered}
            report.claim(
                f"Bytes {where}, clustering factor {clustered:g}", "issue, in the network", "reported",
                ", ".join(f"{mode} {of[mode] / of['unicast']:.2f}" for mode in MODES) + " times unicast's", None,
            )


def _off(measured: float, model: float) -> float:
    """How far a figure is from the model's, as a part of it."""
    return abs(measured - model) / model if model else float(measured > 0)


EXPERIMENTS = [Experiment("network", "The server's modes in the network", told=network)]
