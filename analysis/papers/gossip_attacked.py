"""`brokerlab reproduce gossip`, what goes wrong: attackers in the settings of a published test, and full send queues.

The settings of the test (gossipsub-hardening, `1k.json`) come without results. What is claimed is what the
specification says that scores are for, and a closed form; the printed losses of a test network are another matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from analysis.papers.claims import (
    Claim,
    Figure,
    above,
    at_least,
    at_most,
    below,
    between,
    derived,
    exactly,
    ours,
    printed,
)
from analysis.papers.experiment import Cells, Experiment, Run, Tables
from analysis.papers.gossip_printed import NETWORK, NODES, RATE, SERIES, network, talk
from analysis.papers.gossip_runs import MS, Played, Setting
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import NO_PLACE_AHEAD
from protocols.gossip import attacked
from scenarios.loader import load
from scenarios.plan import resolve

SCENARIO = "gossip-attacked"
# Two brokers in five of those of the test, with as many links and neighbours that are sybils, for as long; and one
# publication in a hundred.
_HONEST, _SYBILS, _PRESS = 400, 100, 100
_FULL = (
    "duration=180 s",
    f"topology={{kind: attached, nodes: {_HONEST}, dials: 10, further: {_SYBILS}, links: 100}}",
    f"clients.everybody.count={_HONEST + _SYBILS}",
    f"clients.press={{count: {_PRESS}, placement: {{kind: explicit, brokers: "
    f"{list(range(0, _HONEST, _HONEST // _PRESS))}}}}}",
)  # fmt: skip
_FULL_EACH = ("options.watch_ticks=10", "workload.topic-publish.total_rate=1.2/s")
_FULL_SCORED = ("options.scoring.topic.rate_activation=60 s",)
_MEASURES = {
    "delivered": attacked.delivered, "latency ms": attacked.latency_mean, "score": attacked.score_of_attackers,
    "in meshes": attacked.in_meshes, "most in meshes": attacked.in_meshes_most,
}  # fmt: skip


def attacks(run: Run) -> Tables:
    """The services of the shipped scenario, measured."""
    said = [f"seed={run.seed}", "trace.level=deliveries", "expect=[]"]
    if run.full:
        names = [service.section.name for service in load(SCENARIO).services]
        said += [*_FULL, *(f"services.{name}.{key}" for name in names for key in _FULL_EACH)]
        said += [f"services.{name}.{key}" for name in names[1:] for key in _FULL_SCORED]
        said += ["services.covert-flash.attackers.0.start=60 s"]
    model = resolve(load(SCENARIO, said))
    traces = MemoryTraces(model.trace_level, tables_of(model))
    simulate(model, trace=traces)
    tables: Any = traces.tables()
    rows = []
    for number, service in enumerate(model.services):
        mine = {name: _of_service(columns, number) for name, columns in tables.items()}
        kind = service.kind_class(service.params)
        rows.append({"service": service.name, **{name: measure(mine, kind) for name, measure in _MEASURES.items()}})
        run.say(f"seed {run.seed}, {service.name}: {rows[-1]}")
    return {"attacks": rows}


def _of_service(columns: Any, number: int) -> Any:
    if "service" not in columns:
        return columns
    rows = np.flatnonzero(columns["service"] == number)
    return {name: [column[row] for row in rows] if isinstance(column, list) else column[rows]
            for name, column in columns.items()}  # fmt: skip


def judge_attacks(tables: Tables) -> Iterator[Claim]:
    """What scores are for."""
    row = {each["service"]: each for each in tables["attacks"]}
    purpose = ours("what the specification of GossipSub 1.1 says that scores are for; the test has no results")
    yield Claim(
        "all-delivered", "the share of honest publications that honest clients get, whatever sybils do", purpose,
        {name: Figure(each["delivered"], exactly(1)) for name, each in row.items()},
    )  # fmt: skip
    yield Claim(
        "eclipse", "the share of honest meshes that sybils are who were there first, without scores and with", purpose,
        {"without": Figure(row["unscored"]["in meshes"], at_least(0.9)),
         "with, at most": Figure(row["cold-boot"]["most in meshes"], at_least(0.9)),
         "with, in the end": Figure(row["cold-boot"]["in meshes"], at_most(0.05))},
    )  # fmt: skip
    yield Claim(
        "eclipse-latency", "milliseconds of a delivery under an eclipse, with scores for each without", purpose,
        {"": Figure(row["cold-boot"]["latency ms"] / row["unscored"]["latency ms"], below(0.5))},
    )  # fmt: skip
    yield Claim(
        "silent", "the share of honest meshes that silent sybils are in the end", purpose,
        {"": Figure(row["silent"]["in meshes"], at_most(0.2))},
    )  # fmt: skip
    yield Claim(
        "flash", "the share of meshes that sybils are who flash, in the end for each at most", purpose,
        {"": Figure(row["covert-flash"]["in meshes"] / row["covert-flash"]["most in meshes"], below(0.8))},
        note="they earned so much that P3 has not seen through them by then; what turns them out is D_score.",
    )  # fmt: skip
    yield Claim(
        "silent-score", "the score of a silent neighbour that was turned out",
        derived("w (w3 + w3b) threshold²: -12.5, and half of that once P3b has decayed"),
        {"": Figure(row["silent"]["score"], between(-12.5, -6.25))},
    )  # fmt: skip


# Of so many publications, those that were lost in five series; what a loss is counted by is not said.
_LOST = (22, 39, 246, 10, 40)


def queues(run: Run) -> Tables:
    """The test network of 95 brokers, with 32 places in front of each link, by today's rules and by the first ones."""
    published, rows = talk(run, "queues", 3_600 if run.full else RATE), []
    for version, attach in (("1.2", 2), ("1.2", 6), ("1.0", 2)):
        options = {"payload": 1000, "version": version}
        setting = Setting(
            network(attach), 50 * MS, published, options, len(published) // RATE + 12,
            bandwidth_bps=1_000_000_000, queue=32,
        )  # fmt: skip
        rows.append({"version": version, "m": attach, **_lost(Played(setting, run.seed))})
        run.say(f"version {version}, m = {attach}: {rows[-1]}")
    return {"queues": rows}


def _lost(ran: Played) -> Cells:
    """By broker, and by publication, what did not arrive."""
    count, deliveries = len(ran.ids), ran.tables["deliveries"]
    missed = count - np.bincount(deliveries["client"] - NODES, minlength=NODES)
    alone = np.array([not mesh for mesh in ran.mesh])
    whole = sum(got == NODES for got in np.unique(deliveries["publication"], return_counts=True)[1].tolist())
    return {
        "publications": count, "lost": int(missed.sum()), "incomplete": count - whole, "in no mesh": int(alone.sum()),
        "lost in a mesh": int(missed[~alone].sum()),
        "dropped": int((ran.tables["losses"]["reason"] == NO_PLACE_AHEAD).sum()),
    }  # fmt: skip


def judge_queues(tables: Tables) -> Iterator[Claim]:
    """Where losses come from, and how many they are."""
    row = {(each["version"], each["m"]): each for each in tables["queues"]}
    thin, dense, old = row["1.2", 2], row["1.2", 6], row["1.0", 2]
    readme = printed(f"{NETWORK}: {', '.join(map(str, _LOST))} of 36,000 in five series at m = 2, none above")
    yield Claim(
        "queues-of-32", "deliveries that are lost with 32 places in front of each link", readme,
        {"m = 2": Figure(thin["lost"], above(0)), "m = 6": Figure(dense["lost"], exactly(0))},
        note="that some are lost is claimed here, not how many",
    )  # fmt: skip
    for key, name, column in (
        ("lost-publications", "publications that somebody misses, of 36,000 at m = 2", "incomplete"),
        ("lost-deliveries", "deliveries that are lost, of 36,000 publications at m = 2", "lost"),
    ):
        yield Claim(
            key, name, readme,
            {"": Figure(_of_series(thin, column), between(min(_LOST), max(_LOST))),
             "by the rules of 1.0": Figure(_of_series(old, column))},
            note="the source does not say by which of the two it counts, of which version",
        )  # fmt: skip
    yield Claim(
        "who-loses", "of these, lost by brokers that are in a mesh",
        derived("a broker that is in none asks for what a heartbeat told it of, 200 at once"),
        {"": Figure(thin["lost in a mesh"], exactly(0)), "brokers in none": Figure(thin["in no mesh"], above(0))},
    )  # fmt: skip


def _of_series(row: Cells, column: str) -> float:
    return float(row[column] * SERIES / row["publications"])


EXPERIMENTS = [
    Experiment(
        "queues", "The test network of 95 nodes, with send queues", queues, judge_queues,
        titles={"queues": "95 brokers, 200 publications of 1,000 bytes per second, 1 Gbit/s, 32 places per link"},
        text="A second of what was published for three minutes; `--full` has eighteen.",
    ),
    Experiment(
        "attacked", "Sybils in the settings of a published test", attacks, judge_attacks,
        titles={"attacks": "Honest brokers and sybils, by attack"},
        text=f"One broker in 25, one publication in 30; `--full` has {_HONEST} brokers and {_SYBILS} sybils of degree "
        "100, where the test has 1,000 and 250, for three minutes as there, and one publication in a hundred.",
    ),
]  # fmt: skip
