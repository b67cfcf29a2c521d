"""`brokerlab calibrate` prints a cost section that a scenario takes."""

import json

from scenarios.cli import main
from scenarios.loader import loads

SCENARIO = """
name: calibrated
duration: 1 s
topology: {{kind: line, nodes: 2}}
clients: {{all: {{count: 2}}}}
services:
  - name: news
    kind: content
    protocol: flooding
    workload: [{{source: publish, clients: all, process: poisson, rate: 1/s}}]
    {cost}
"""


def test_the_printed_cost_section_can_be_pasted_into_a_scenario(capsys):
    assert main(["calibrate", "cells"]) == 0
    line = capsys.readouterr().out.strip()
    service = loads(SCENARIO.format(cost=line)).services[0]
    assert service.section.cost.base > 0


def test_json_names_the_three_coefficients(capsys):
    assert main(["calibrate", "scan", "--json"]) == 0
    fitted = json.loads(capsys.readouterr().out)
    assert sorted(fitted) == ["base_ns", "per_entry_ns", "per_match_ns"]
    assert fitted["per_entry_ns"] > 0, "a scan looks at every entry"


def test_an_unknown_index_is_refused_with_a_suggestion(capsys):
    assert main(["calibrate", "cels"]) == 3
    assert "did you mean 'cells'" in capsys.readouterr().err
