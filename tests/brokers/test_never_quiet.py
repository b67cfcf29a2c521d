"""A protocol that answers itself for ever is a finding, whatever carries it, and no hang."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from brokers.contract import BrokerProtocol
from brokers.engine.batching import Cutting
from brokers.engine.simulate import simulate
from brokers.errors import NeverQuiet
from protocols.conformance import REHEARSALS, rehearse
from scenarios import cli
from scenarios.expected import messages_max
from scenarios.loader import load
from scenarios.plan import resolve


class Echo(BrokerProtocol):
    """Says everything that it hears to all neighbours: every message is more messages."""

    kind: ClassVar[str] = "content"

    def on_message(self, message: Any) -> None:
        for link in self.node.links:
            self.node.forward(message, link)


SHORT = """
duration: 100 ms
topology: {kind: star, nodes: 6}
links: {delay: 1 ms}
clients: {all: {count: 4}}
services:
  - {name: calls, kind: content, protocol: "echoing:Echo", workload: [{source: publish, rate: 100/s}]}
"""


@pytest.mark.parametrize("actors", [1, 3])
def test_a_storm_ends_and_is_named(actors):
    model = replace(rehearse(REHEARSALS[1], Echo), messages_max=20_000)
    with pytest.raises(NeverQuiet, match=r"verdict invalid: it never gets quiet: .* no more than 20,000 .*Echo"):
        simulate(model, actors=actors)


@pytest.mark.parametrize("how", [{}, {"cutting": Cutting(compiled="events")}, {"actors": 2, "engine": "threads"}])
def test_compiled_rounds_are_listened_to_as_well(how):
    model = rehearse(REHEARSALS[1], "flooding")
    handled = simulate(model, **how).metrics["network"]["events"]
    assert simulate(replace(model, messages_max=handled), **how).digest == simulate(model).digest
    with pytest.raises(NeverQuiet):
        simulate(replace(model, messages_max=handled - 1), **how)


@pytest.mark.parametrize("name", ["quickstart", "lossy", "partition-heals"])
def test_what_shipped_scenarios_may_come_to_is_far_from_what_they_do(name):
    model = resolve(load(name, ["duration=3 s"]))
    limit = messages_max(model)
    events = simulate(replace(model, trace_level="none")).metrics["network"]["events"]
    assert 20 * events < limit < 10_000 * events


def test_a_run_that_never_gets_quiet_ends_with_verdict_and_reason(tmp_path, monkeypatch, capsys):
    (tmp_path / "calls.yaml").write_text(SHORT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "echoing", sys.modules[__name__])
    arguments = ["run", "calls.yaml", "--trust", "--engine", "inline", "--quiet", "--out", "runs"]
    assert cli.main([*arguments, "--set", "engine.messages_max=30000"]) == 1
    assert "verdict invalid: it never gets quiet" in capsys.readouterr().err
    assert cli.main([*arguments, "--json", "--overwrite", "--set", "engine.messages_max=30000"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["verdict"] == "invalid" and "it never gets quiet" in told["reason"]
