"""`brokerlab reproduce gossip`, the published attack settings: the shipped scenarios `hardening-*`, as they are.

The files of gossipsub-hardening came without results. What is claimed is what the scenarios expect, over several seeds.
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
)
from analysis.papers.experiment import Cells, Experiment, Run, Tables
from analysis.papers.gossip_runs import SECOND
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from protocols.gossip import attacked
from scenarios.loader import load
from scenarios.plan import resolve

SCENARIOS = ("hardening-cold-boot", "hardening-oppgraft", "hardening-covert-flash", "hardening-dawn")
SCALE: tuple[str, ...] = ()  # what tests say on top of the scenarios
MOMENTS_S = (75, 90, 105)  # P3 is active from 90 s on
_MEASURES = {
    "delivered": attacked.delivered, "most in meshes": attacked.in_meshes_most, "in meshes": attacked.in_meshes,
    "score": attacked.score_of_attackers, "latency ms": attacked.latency_mean, "99 % ms": attacked.latency_p99,
}  # fmt: skip


def hardening(run: Run) -> Tables:
    """Each scenario, measured."""
    rows = []
    for name in SCENARIOS:
        model = resolve(load(name, [f"seed={run.seed}", "trace.level=deliveries", "expect=[]", *SCALE]))
        traces = MemoryTraces(model.trace_level, tables_of(model))
        simulate(model, trace=traces)
        tables: Any = traces.tables()
        kind = model.services[0].kind_class(model.services[0].params)
        measured = {key: measure(tables, kind) for key, measure in _MEASURES.items()}
        rows.append({"scenario": name, **measured, **_at_moments(tables)})
        run.say(f"seed {run.seed}, {name}: {rows[-1]}")
    return {"hardening": rows}


def _at_moments(tables: Any) -> Cells:
    """The share of the links of honest meshes that led to sybils when brokers watched next, from some moments on."""
    (sybils,) = (each for each in attacked.scores_over_time(tables) if each.name != attacked.HONEST)
    at = np.searchsorted(sybils.time_ns, np.array(MOMENTS_S) * SECOND)
    return {f"at {moment} s": float(sybils.in_mesh[each]) for moment, each in zip(MOMENTS_S, at.tolist())}


def judge(tables: Tables) -> Iterator[Claim]:
    """What the scenarios expect."""
    row = {each["scenario"].removeprefix("hardening-"): each for each in tables["hardening"]}
    expected = ours("what the shipped scenarios expect; the files of the test have no results")
    yield Claim(
        "hardening-delivered", "the share of honest publications that honest clients get", expected,
        {name: Figure(each["delivered"], exactly(1)) for name, each in row.items()},
    )  # fmt: skip
    most = {name: at_least(1) if name == "dawn" else above(0.5) for name in row}
    yield Claim(
        "hardening-most", "the share of honest meshes that sybils are at most", expected,
        {name: Figure(each["most in meshes"], most[name]) for name, each in row.items()},
        note="at dawn honest brokers have nobody else yet",
    )  # fmt: skip
    last = {"oppgraft": at_most(0.1), "covert-flash": between(0.1, 0.35)}
    yield Claim(
        "hardening-last", "the same in the end", expected,
        {name: Figure(each["in meshes"], last.get(name, at_most(0.05))) for name, each in row.items()},
        note="sybils that flash have earned too much by then to be seen through at one publication a second",
    )  # fmt: skip
    yield Claim(
        "hardening-score", "the median score of sybils in the end", derived("P3 and P3b of a neighbour that brings "
        "nothing: -12.5 at the least"), {name: Figure(each["score"], between(-12.5, 0)) for name, each in row.items()},
    )  # fmt: skip
    yield Claim(
        "hardening-oppgraft", "milliseconds within which 99 in 100 come, with opportunistic grafts for each without",
        expected, {"": Figure(row["oppgraft"]["99 % ms"] / row["cold-boot"]["99 % ms"], below(1))},
    )  # fmt: skip


EXPERIMENTS = [
    Experiment(
        "hardening", "Published attack settings, scaled down", hardening, judge,
        titles={"hardening": "Sybils in honest meshes, by attack"},
        text="The shipped scenarios: 80 brokers and 20 sybils, one publication a second; `--full` has no others.",
    ),
]  # fmt: skip
