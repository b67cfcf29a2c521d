"""Where brokers are drawn."""

from __future__ import annotations

import json

import numpy as np
import pytest

from analysis.report import places as placing
from analysis.report.places import drawn_links, places
from analysis.spark.graph import Network


def network(edges, brokers):
    a, b = (np.array(each, np.int64) for each in zip(*edges))
    source, target = np.stack([a, b], 1).ravel(), np.stack([b, a], 1).ravel()
    delay = np.full(source.size, 1_000_000)
    return Network(
        tuple(f"b{at}" for at in range(brokers)), source, target, delay, delay * 0, np.zeros(brokers, np.int64)
    )


TREE = network([(at // 3, at) for at in range(1, 40)], 40)
GRID = network([(at, at + 1) for at in range(35) if at % 6 != 5] + [(at, at + 6) for at in range(30)], 36)


@pytest.mark.parametrize("overlay", [TREE, GRID], ids=["tree", "grid"])
def test_every_broker_has_a_place_of_its_own_inside(overlay, monkeypatch):
    monkeypatch.setattr(placing, "_geography", lambda *_: None)
    found = places(None, overlay)
    assert found.at.shape == (overlay.brokers, 2)
    assert found.at.min() >= 0 and found.at.max() <= 1
    assert sorted(found.order.tolist()) == list(range(overlay.brokers))
    apart = np.hypot(*(found.at[:, None] - found.at[None]).transpose(2, 0, 1)) + np.eye(overlay.brokers)
    assert apart.min() > 0.005
    assert np.array_equal(found.at, places(None, overlay).at)


def test_neighbours_are_nearer_than_others(monkeypatch):
    monkeypatch.setattr(placing, "_geography", lambda *_: None)
    found = places(None, GRID).at
    apart = np.hypot(*(found[:, None] - found[None]).transpose(2, 0, 1))
    linked = np.zeros_like(apart, bool)
    linked[GRID.source, GRID.target] = True
    assert apart[linked].mean() < apart[~linked].mean() / 2


def test_many_brokers_lie_in_rings_without_a_loop_over_pairs(monkeypatch):
    monkeypatch.setattr(placing, "_geography", lambda *_: None)
    monkeypatch.setattr(placing, "SPRINGS_MOST", 10)
    monkeypatch.setattr(placing, "_springs", None)
    assert places(None, TREE).how.endswith("in rings around a middle.")


def test_a_map_is_a_map(made):
    """Londoners are drawn above and to the left of Athenians."""
    run = made("real-network", "duration=1 s", "trace.level=full")
    overlay = Network.of(run)
    found = places(run, overlay)
    assert found.how == "Brokers lie where the topology has them."
    uk, greece = (found.at[overlay.names.index(name)] for name in ("UK", "GR"))
    assert uk[0] < greece[0] and uk[1] < greece[1]


def test_links_that_never_arose_are_not_drawn(made):
    run = made("plumtree", "duration=3 s")
    overlay = Network.of(run)
    drawn = drawn_links(run, overlay)
    rows = run.read("links").sort_by("link").to_pylist()
    assert 0 < drawn.sum() < drawn.size
    for link, row in enumerate(rows):
        both = row["messages"] + rows[link ^ 1]["messages"]
        assert drawn[link] == (both > 0 or not row["latent"])


def test_a_file_that_a_run_folder_names_is_not_read(made, tmp_path, monkeypatch):
    run = made("real-network", "duration=1 s", "trace.level=full")
    manifest = json.loads(json.dumps(run.manifest))
    for path in ("/etc/passwd", "../secret.gml", "secret.gml"):
        manifest["scenario"]["topology"]["path"] = path
        monkeypatch.setattr(run, "manifest", manifest)
        monkeypatch.setattr(placing, "build", None)  # would be called with the path
        monkeypatch.setattr(placing, "scenario_of", None)
        assert places(run, Network.of(run)).how.startswith("The topology has no places")
