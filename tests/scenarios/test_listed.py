"""Whatever `brokerlab list` shows runs in a scenario: the names come from the list, so that a new one is covered."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from brokers import names, registry
from brokers.kinds import kinds_of
from scenarios import parameters
from scenarios.commands.list import GROUPS, names_of
from scenarios.loader import shipped
from scenarios.running import run

# What a topology cannot do without, by parameter.
TOPOLOGY: dict[str, Any] = {
    "nodes": 6, "branching": 2, "height": 2, "rows": 3, "columns": 3, "probability": 0.7, "neighbours": 2,
    "rewire": 0.1, "radius": 0.8, "regions": 2, "region_size": 3, "path": "Geant2012",
    "links": [[0, 1], [1, 2], [2, 3]], "dials": 3,
}  # fmt: skip
# What it needs besides, where it takes one of several.
ONE_OF: dict[str, dict[str, Any]] = {"hierarchical": {"region_size": 3}, "clusters": {"size": 4}}
# Where protocols run that take no tree of any brokers.
MESHED = {name: {"kind": "clusters", "size": 6} for name in ("cluster", "leaf", "gateway")}
# What links have to say where protocols open some.
LINKS = {"neighbourhood": {"latent": {"hops": 2}}}
# What a workload cannot do without where no shipped scenario uses it.
WORKLOAD: dict[str, dict[str, Any]] = {
    "replay": {"file": "replay.csv"},
    "script": {
        "actions": [
            {"at": "1 ms", "client": 0, "op": "subscribe", "body": [0, 0.0, 1.0]},
            {"at": "1 s", "client": 1, "op": "publish", "body": [0.5, 0.5, 0.5, 0.5]},
        ]
    },
}
# What a fault cannot do without.
FAULT: dict[str, Any] = {
    "at": "1 s", "lasts": "1 s", "brokers": [0, 1], "link": [0, 1], "sets": [[0], [1]], "what": "crash", "rate": "2/s",
    "every": "1 s", "down": "200 ms", "up": "300 ms",
}  # fmt: skip
# What connections and mobility cannot do without.
MOVEMENT: dict[str, Any] = {
    "on": "1 s", "off": "1 s", "online": [["1 s", "3 s"]], "at": "1 s", "stops": [{"at": "1 s", "broker": 2}],
    "stay": "1 s", "work": [3], "day": "2 s", "leave": "500 ms", "back": "1 s", "after": "100 ms",
    "moves": [{"client": 0, "at": "1 s"}, {"client": 0, "at": "2 s", "broker": 2}],
}  # fmt: skip
REPLAY = """\
time_s,client,op,a0,a1,a2,a3,low_0,high_0
0,0,subscribe,,,,,0,1
1,1,publish,0.5,0.5,0.5,0.5,,
"""


def listed(group: str) -> list[str]:
    return sorted(names_of(group))


def services() -> dict[str, dict[str, Any]]:
    """A service of each kind, from the shipped scenario with the fewest others beside it; one without adverts."""
    found: dict[str, dict[str, Any]] = {}
    written = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in shipped().values()]
    for scenario in sorted(written, key=lambda each: -len(each["services"])):
        for service in scenario["services"]:
            if not service.get("adverts") and service.get("wildcards", True) and service["protocol"] not in MESHED:
                found.setdefault(service["kind"], service)
    return found


SERVICES = services()
DELIVERED: dict[str, int] = {}  # by the default index of each kind


def carried_out(
    folder,
    service: dict[str, Any],
    topology: dict[str, Any] | None = None,
    faults: dict[str, Any] | None = None,
    moving: dict[str, Any] | None = None,
):
    """What came of one service on a small network, for a few seconds."""
    groups = sorted({source["clients"] for source in service["workload"]})
    scenario: dict[str, Any] = {
        "duration": "5 s",
        "topology": topology or MESHED.get(service["protocol"], {"kind": "random-tree", "nodes": 6}),
        "links": LINKS.get(service["protocol"], {}),
        "clients": {group: {"count": 20, "placement": "even", **(moving or {})} for group in groups},
        "services": [{**service, "name": "service"}],
        "trace": {"level": "none"},
    }
    if faults:
        scenario["faults"] = faults
    _, kind = names.find("kinds", service["kind"])
    if kind.server:
        scenario["servers"] = {"server": {"broker": 0}}
        scenario["services"][0].pop("server", None)
    (folder / "replay.csv").write_text(REPLAY)
    (folder / "s.yaml").write_text(yaml.safe_dump(scenario))
    return run(folder / "s.yaml", engine="inline", out=folder / "runs").metrics["services"]["service"]


def advertised(service: dict[str, Any]) -> dict[str, Any]:
    """The same, in which whoever publishes says so before."""
    sources = {"publish": "advertise", "topic-publish": "topic-advertise"}
    workload = [each for each in service["workload"] if each["source"] in sources]
    adverts = [{**each, "source": sources[each["source"]]} for each in workload]
    known = ("source", "clients", "domain")
    adverts = [{key: each[key] for key in known if key in each} for each in adverts]
    return {**service, "adverts": True, "workload": [*adverts, *service["workload"]]}


@pytest.mark.parametrize("name", listed("kinds"))
def test_every_kind_runs_and_delivers(name, tmp_path):
    service = {key: each for key, each in SERVICES[name].items() if key != "index"}
    assert carried_out(tmp_path, service)["deliveries"] > 0


@pytest.mark.parametrize(("name", "kind"), [
    (name, kind) for name in listed("protocols") for kind in names_of("protocols")[name]["kinds"]
])  # fmt: skip
def test_every_protocol_runs_and_delivers(name, kind, tmp_path):
    service = {key: each for key, each in SERVICES[kind].items() if key != "options"}
    required = names.find("protocols", name).object.requires
    if required.get("adverts"):
        service = advertised(service)
    if required.get("wildcards") is False:
        literal = [{key: each[key] for key in each if key != "wildcards"} for each in service["workload"]]
        service = {**service, "wildcards": False, "workload": literal}
    assert carried_out(tmp_path, {**service, "protocol": name})["deliveries"] > 0


@pytest.mark.parametrize("name", listed("protocols"))
def test_a_protocol_serves_the_kinds_that_list_it_and_no_other(name):
    assert sorted(kinds_of(names.find("protocols", name).object)) == sorted(names_of("protocols")[name]["kinds"])


@pytest.mark.parametrize("name", listed("indexes"))
def test_every_index_runs_under_a_kind_that_asks_its_question_and_delivers_what_the_default_does(name, tmp_path):
    question = names_of("indexes")[name]["question"]
    kind = next(kind for kind, facts in names_of("kinds").items() if facts["question"] == question)
    found = carried_out(tmp_path, {**SERVICES[kind], "index": name})
    if kind not in DELIVERED:
        DELIVERED[kind] = carried_out(tmp_path, {k: v for k, v in SERVICES[kind].items() if k != "index"})["deliveries"]
    assert found["deliveries"] == DELIVERED[kind] > 0


@pytest.mark.parametrize("name", listed("topologies"))
def test_every_topology_carries_a_service(name, tmp_path):
    fields = parameters.topology_model(name).model_fields
    needed = {field: TOPOLOGY[field] for field, info in fields.items() if info.is_required()} | ONE_OF.get(name, {})
    assert carried_out(tmp_path, SERVICES["content"], {"kind": name, **needed})["deliveries"] > 0


@pytest.mark.parametrize("name", listed("workloads"))
def test_every_workload_drives_a_service_of_each_kind_that_it_is_for(name, tmp_path):
    # What serves every kind is tried with each by `test_replay_of_every_kind.py`.
    for kind in names_of("workloads")[name]["kinds"] or ["content"]:
        service = SERVICES[kind]
        mine = next((each for each in service["workload"] if each["source"] == name), None)
        if mine is None:
            mine = {"source": name, "clients": service["workload"][0]["clients"], **WORKLOAD.get(name, {})}
            service = advertised(service) if name.endswith("advertise") else {**service, "workload": [mine]}
        assert carried_out(tmp_path, service)["deliveries"] > 0


@pytest.mark.parametrize("name", sorted(set(listed("faults")) - {"open"}))  # that opens what nobody uses here
def test_every_fault_breaks_something(name, tmp_path):
    fields = parameters.params_model(names.find("faults", name).object).model_fields
    entry = {"fault": name, **{field: FAULT[field] for field, info in fields.items() if info.is_required()}}
    entry |= {"degrade": {"loss": 0.5}, "cut": {"link": FAULT["link"]}}.get(name, {})
    line: dict[str, Any] = {"kind": "line", "nodes": 6}  # so that it is known which links there are
    if name == "outage":
        entry["region"], line = 1, {"kind": "hierarchical", "regions": 2, "region_size": 3}
    whole = carried_out(tmp_path, SERVICES["content"], line)
    broken = carried_out(tmp_path, SERVICES["content"], line, {"schedule": [entry]})
    assert broken.pop("refused") >= 0 and broken != whole


@pytest.mark.parametrize("sort", ["connections", "mobility"])
def test_every_movement_moves_somebody(sort, tmp_path):
    for name in listed(sort):
        fields = parameters.params_model(names.find(sort, name).object).model_fields
        section = {"kind": name, **{field: MOVEMENT[field] for field, info in fields.items() if info.is_required()}}
        faults = {"schedule": [{"fault": "crash", "brokers": [0, 1, 2], "at": "1 s", "lasts": "2 s"}]}
        service = {**SERVICES["content"], "protocol": "subscription"}
        still = carried_out(tmp_path, service, None, faults)
        moved = carried_out(tmp_path, service, None, faults, {sort: section})
        assert moved.pop("absent") >= 0 and moved.pop("left") >= 0 and moved != still


def test_every_group_of_the_list_has_a_test_here_or_beside():
    assert set(GROUPS) == {
        "kinds", "protocols", "behaviours", "topologies", "workloads", "indexes", "faults", "connections", "mobility",
        "metrics", "scenarios", "judges",  # behaviours: test_attackers.py, judges: test_hunt.py
    }  # fmt: skip


def test_every_bench_and_every_paper_can_be_imported():
    from analysis.bench.registry import BENCHES
    from analysis.papers.registry import PAPERS

    for entry in BENCHES.values():
        assert callable(registry.load(entry.target))
    for entry in PAPERS.values():
        experiments = [e for t in (entry.target, *entry.facts.get("further", ())) for e in registry.load(t)]
        assert experiments and len({each.name for each in experiments}) == len(experiments)
        assert all(callable(each.measure) for each in experiments)
