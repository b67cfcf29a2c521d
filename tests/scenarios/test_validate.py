"""What `validate` passes, `run` begins; what it refuses, `run` refuses with the same words."""

import pytest
from hypothesis import HealthCheck, given, settings

from brokers.engine.simulate import simulate
from brokers.errors import InvalidInput
from scenarios import cli
from scenarios.loader import from_data
from scenarios.plan import resolve
from tests.scenarios.mutants import mutants


@pytest.mark.parametrize("level", ["none", "deliveries"])
def test_more_samples_than_a_run_can_write_are_refused_with_what_it_can(level):
    text = {"duration": "2 s", "topology": {"kind": "line", "nodes": 4}, "clients": {"all": {"count": 1}}}
    service = {"name": "a", "kind": "content", "protocol": "flooding"}
    with pytest.raises(InvalidInput, match=r"2,000,000,000 samples, a row for each of 4 .*say 8 ns or more"):
        resolve(from_data({**text, "services": [service], "trace": {"sample_every": "1 ns", "level": level}}))
    resolve(from_data({**text, "services": [service], "trace": {"sample_every": "8 ns", "level": level}}))


CONTENT = """
duration: 1 ms
topology: {kind: line, nodes: 4}
links: {loss: 1 %}
clients: {all: {count: 4}}
services:
  - {name: a, kind: content, attributes: 2, protocol: flooding, workload: [{source: subscribe}]}
"""
SPATIAL = """
duration: 1 ms
topology: {kind: line, nodes: 4}
clients: {all: {count: 4}}
services:
  - {name: a, kind: spatial, protocol: spatial, workload: [{source: objects, rate: 1/s}, {source: object-subscribe}]}
"""
CONTEXT = """
duration: 1 ms
topology: {kind: line, nodes: 4}
links: {loss: 1 %}
clients: {all: {count: 4}}
services:
  - {name: a, kind: context, protocol: context-edge, workload: [{source: publish, rate: 1/s}]}
"""
MAPS = """
duration: 1 ms
topology: {kind: line, nodes: 4}
clients: {all: {count: 4}}
servers: {atlas: {broker: 0}}
services:
  - {name: a, kind: channels, protocol: channels, workload: [{source: map-queries}]}
"""
WRONG = {
    "an index that does not go with delta": (SPATIAL, ["services.0.index=part", "services.0.delta=2"], "index"),
    "places beyond the poles": (
        SPATIAL, ["services.0.geometry=sphere", "services.0.workload.0.domain=[-180, 180]"], "workload[0].domain",
    ),
    "subscriptions beyond the poles": (
        SPATIAL, ["services.0.geometry=sphere", "services.0.workload.1.domain=[[-91, 0], [0, 1]]"],
        "workload[1].domain",
    ),
    "a k that is not answered": (SPATIAL, ["services.0.workload.0.k=11"], "workload[0].k"),
    "holding back on links that lose": (CONTEXT, ["services.0.options.hold_back=1000000"], "options.hold_back"),
    "a domain upside down": (CONTEXT, ["services.0.domain=[1, 0]"], "domain"),
    "a database that is not there": (MAPS, ["services.0.file=nowhere.csv"], "file"),
    "a period of a year": (MAPS, ["services.0.workload.0.period=[365 d]"], "workload[0]"),
    "more queries than ids": (MAPS, ["services.0.workload.0.number=2000000"], "workload[0]"),
    "more actors than brokers": (CONTENT, ["engine.actors=5"], "engine.actors"),
    "a partition of other brokers": (CONTENT, ["engine.actors=2", "engine.partition=[0, 1]"], "engine.partition"),
    "a replay of nothing": (
        CONTENT, ["services.0.workload=[{source: replay, file: nowhere.csv}]"], "workload[0].file",
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", WRONG)
def test_validate_and_run_refuse_the_same_with_the_same_words(why, tmp_path, monkeypatch, capsys):
    text, overrides, place = WRONG[why]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.yaml").write_text(text, encoding="utf-8")
    changes = [part for override in overrides for part in ("--set", override)]
    assert cli.main(["validate", "wrong.yaml", *changes]) == 3
    said = capsys.readouterr().err
    assert f"{place}:" in said
    assert cli.main(["run", "wrong.yaml", "--engine", "inline", *changes]) == 3
    assert capsys.readouterr().err == said
    assert not (tmp_path / "runs").exists()


def check(data):
    try:
        model = resolve(from_data(data))
    except InvalidInput:
        return
    simulate(model)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutants())
def test_what_is_valid_runs(data):
    check(data)


@pytest.mark.full
@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutants())
def test_whatever_is_valid_runs(data):
    check(data)
