"""Query merging in the simulated network: what the server sends, what clients hear in vain, what links carry.

Queries stand from the start, one per client, and all have one period, so that a round is what the cost model prices:
merged queries, objects sent, and objects that queries receive in vain. Sizes are counts over the database. Boxes lie
on tiles, so that some are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from analysis.papers.claims import Claim, Figure, below, derived, exactly, ours
from analysis.papers.experiment import Cells, Experiment, Picture, Run, Table, Tables, curves
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from scenarios.loader import from_data
from scenarios.plan import resolve

MODES = ("unicast", "identical", "merged", "channels")
CLUSTERING = (0.0, 0.25, 0.5, 0.75, 1.0)
ROUNDS = 2


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


def modes(run: Run) -> Tables:
    """The four modes over the clustering factor."""
    setting = Setting() if run.full else Setting(queries=200, objects=5_000)
    rows: Table = []
    for clustered in CLUSTERING:
        for mode in MODES:
            found = measure(replace(setting, clustered=clustered, mode=mode), run.seed)
            rows.append({"clustering factor": clustered, "mode": mode, **vars(found)})
        run.say(f"clustering factor {clustered:g}")
    return {"network": rows}


def judge(tables: Tables) -> Iterator[Claim]:
    """The network beside the cost model, and what each mode costs beside unicast."""
    rows = tables["network"]
    model = derived("sizes are counts over the database, and each merged query of the plan is answered once a round")
    for column, key, name in (
        ("merged", "merged", "Merged queries per round"), ("sent", "sent", "Objects sent by the server"),
        ("irrelevant", "irrelevant", "Irrelevant objects per client"),
    ):  # fmt: skip
        off = max(_off(row[column], row[f"{column}_model"]) for row in rows)
        yield Claim(
            key, f"{name} in the network are those of the cost model", model,
            {"most that a point is off": Figure(off, exactly(0))},
        )  # fmt: skip
    over = {
        column: {
            (row["clustering factor"], row["mode"]): row[column] / _unicast(rows, row)[column] for row in rows
        }
        for column in ("server_bytes", "link_bytes")
    }  # fmt: skip
    near = CLUSTERING[-1]
    yield Claim(
        "saved", f"Where all queries lie around hot spots, the server sends fewer bytes than in {MODES[0]}",
        ours("what merging is for"),
        {mode: Figure(over["server_bytes"][near, mode], below(1)) for mode in ("merged", "channels")}, unit="times",
    )  # fmt: skip
    for column, where in (("server_bytes", "sent by the server"), ("link_bytes", "on all links")):
        yield Claim(
            column.replace("_", "-"), f"Bytes {where}, beside {MODES[0]}", ours("what each mode costs"),
            {f"{mode}, clustering factor {clustered:g}": Figure(over[column][clustered, mode])
             for clustered in (CLUSTERING[0], near) for mode in MODES[1:]}, "reported", unit="times",
        )  # fmt: skip


def _unicast(rows: Table, row: Cells) -> Cells:
    """The row of the first mode at the same clustering factor."""
    return next(
        each for each in rows if (each["mode"], each["clustering factor"]) == (MODES[0], row["clustering factor"])
    )


def _off(measured: float, model: float) -> float:
    """How far a figure is from the model's, as a part of it."""
    return abs(measured - model) / model if model else float(measured != 0)


def draw(tables: Tables) -> Iterator[Picture]:
    """Bytes over the clustering factor."""
    rows = tables["network"]
    for key, title in (("server_bytes", "Bytes sent by the server"), ("link_bytes", "Bytes on all links")):
        series = {mode: (CLUSTERING, [row[key] for row in rows if row["mode"] == mode]) for mode in MODES}
        yield Picture(key, f"{title}, per round", "clustering factor", "bytes", curves(series))


EXPERIMENTS = [
    Experiment(
        "network", "The server's modes in the network", modes, judge, draw,
        {"network": "Per round, queries with hot spots; sizes by count"},
        "200 queries over 5,000 objects; `--full` has 1,000 over 20,000. Both on 100 brokers.",
    )
]  # fmt: skip
