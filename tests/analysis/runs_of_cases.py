"""Runs of cases, and of the settings of planted bugs, as folders for an audit."""

from __future__ import annotations

from pathlib import Path

import yaml

from brokers.faults import NEVER, Crash, Cut
from scenarios.hunt.case import Act, Case, Edge
from scenarios.running import run
from tests.planted.settings import MS, RANGE, VALUES, Setting

OPS = {"+": "subscribe", "-": "unsubscribe", "!": "publish"}
STATES = ("kept", "stored", "lost")


def run_of(case: Case, folder: Path) -> Path:
    """The folder of a case's run, with a sample every tenth of a second."""
    scenario = case.scenario()
    scenario["trace"]["sample_every"] = 100 * MS
    folder.mkdir(exist_ok=True)
    file = folder / "case.yaml"
    file.write_text(yaml.dump(scenario), "utf-8")
    return run(file, engine="inline", out=folder / "runs", trust=True).path


def case_of(setting: Setting, protocol: type) -> Case:
    """A setting as a case; of faults crashes and cuts that end."""
    thin = {link: setting.bits for link in setting.links if set(link) & set(setting.slow)}
    acts, faults = [], []
    asked: dict[int, int] = {}
    number = [0] * len(setting.clients)
    for at_ms, client, what in setting.script:
        if what == "+":
            asked[client] = number[client]
        body = {"+": tuple(RANGE), "!": tuple(VALUES), "-": None}[what]
        acts.append(Act(int(at_ms * MS), client, OPS[what], None if what == "!" else asked[client], None, body))
        number[client] += 1
    for each in setting.faults.of(Crash):
        said = {"brokers": [each.broker], "state": STATES[each.state]}
        faults.append({"fault": "crash", "at": each.begin, "lasts": each.end - each.begin, **said})
    for each in setting.faults.of(Cut):
        if each.link % 2 == 0:  # the other direction goes with it
            ends = list(setting.links[each.link // 2])
            faults.append({"fault": "cut", "at": each.begin, "lasts": each.end - each.begin, "link": ends})
    detect = setting.faults.detect_ns
    return Case(
        protocol=f"{protocol.__module__}:{protocol.__qualname__}", kind="content", brokers=setting.brokers,
        edges=tuple(Edge(a, b, int(setting.delay_ms * MS), bandwidth=thin.get((a, b), 0)) for a, b in setting.links),
        clients=setting.clients, queues={"links": {"messages": setting.room}} if setting.room else {},
        acts=tuple(acts), duration_ns=int(setting.duration_ms * MS), faults=tuple(faults),
        detect_ns=None if detect >= NEVER else detect,
    )  # fmt: skip
