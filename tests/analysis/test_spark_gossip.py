"""What the shipped scenarios of gossip expect holds of whole runs, audited. Minutes of CPU: `make test-all` only."""

from __future__ import annotations

import pytest

from brokers.verdicts import VALID
from scenarios.loader import load, shipped
from scenarios.many.expect import judged_run
from scenarios.running import run

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.full, pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

WHOLE = ["gossip", "gossip-attacked", "gossip-floods", "gossip-heals", "plumtree", "slow-peers"]
WHOLE += sorted(name for name in shipped() if name.startswith("hardening"))


@pytest.mark.parametrize("name", WHOLE)
def test_what_a_shipped_scenario_of_gossip_expects_holds(name, tmp_path):
    expected = load(name).model.expect
    judged = judged_run(run(name, engine="inline", out=tmp_path).folder)
    assert [each.expectation for each in judged] == list(expected)
    assert len(expected) > 1 and judged[0].value == VALID
    assert all(each.holds for each in judged), list(map(str, judged))
