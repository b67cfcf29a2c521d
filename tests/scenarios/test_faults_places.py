"""Outages of a part of the map."""

from __future__ import annotations

import numpy as np
import pytest

from brokers.faults import Crash, Cut
from scenarios.loader import loads
from scenarios.plan import plan, resolve

TEXT = """
duration: 2 s
topology: {{kind: {topology}}}
links: {{delay: 5 ms}}
clients: {{all: {{count: 6}}}}
services:
  - name: news
    kind: content
    protocol: flooding
    attributes: 1
    workload: [{{source: publish, rate: 2/s}}]
faults:
  schedule:
    - {{fault: outage, at: 500 ms, lasts: 300 ms, {more}}}
"""
REGIONS = "hierarchical, regions: 3, region_size: 4"


def of(topology: str, more: str):
    return resolve(loads(TEXT.format(topology=topology, more=more)))


def test_all_brokers_of_a_region_crash():
    model = of(REGIONS, "region: 1")
    faults = model.faults.faults
    assert {model.overlay.names[f.broker] for f in faults} == {"r1", "r1.1", "r1.2", "r1.3"}
    assert all(isinstance(f, Crash) and (f.begin, f.end) == (500_000_000, 800_000_000) for f in faults)
    assert "outage: brokers r1," in plan(loads(TEXT.format(topology=REGIONS, more="region: 1"))).faults[0]


def test_or_all_links_that_begin_or_end_there_are_cut():
    model = of(REGIONS, "region: 2, what: cut")
    overlay, faults = model.overlay, model.faults.faults
    touched = (overlay.region[overlay.link_a] == 2) | (overlay.region[overlay.link_b] == 2)
    assert all(isinstance(f, Cut) for f in faults)
    assert sorted(f.link for f in faults) == sorted(2 * e + way for e in np.flatnonzero(touched) for way in (0, 1))


def test_all_around_a_broker_crashes_within_a_radius_on_the_globe():
    model = of(REGIONS, "around: r1, radius: 20000")
    assert len(model.faults.faults) > 4
    near = of(REGIONS, "around: r1, radius: 0.001")
    assert [near.overlay.names[f.broker] for f in near.faults.faults] == ["r1"]
    x, y = near.overlay.position[1].tolist()
    same = of(REGIONS, f"place: [{x!r}, {y!r}], radius: 0.001")
    assert same.faults.faults == near.faults.faults


@pytest.mark.parametrize(
    ("topology", "more", "told"),
    [
        (REGIONS, "region: 7", r"14:\d+: faults.schedule\[0\].region: there is no region 7; there are 0 to 2"),
        ("line, nodes: 4", "region: 0", "the topology has no regions; `hierarchical` has"),
        ("line, nodes: 4", "around: b1, radius: 3", "the brokers of this topology lie nowhere"),
        (REGIONS, "place: [0, 89.9], radius: 0.001", "no broker lies so near; the nearest, r"),
        (REGIONS, "region: 1, around: r1, radius: 1", "say where in one way"),
        (REGIONS, "around: r1", "`radius` goes with `around` and with `place`"),
        (REGIONS, "around: nobody, radius: 1", "there is no broker named 'nobody'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_where_it_stands(topology, more, told):
    with pytest.raises(Exception, match=told):
        of(topology, more)
