"""Real processes and nodes are killed while a run lasts; its digest stays that of the undisturbed run."""

from __future__ import annotations

import select
import time
from uuid import uuid4

import pytest

from analysis.bench import survival
from scenarios.running import run

SECONDS = 6
pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("survival")]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The digest of the run that nothing happens to."""
    return run(
        survival.SCENARIO,
        engine="inline",
        overrides=survival.overrides(f"{SECONDS} s"),
        out=tmp_path_factory.mktemp("whole"),
    ).digest


@pytest.fixture(scope="module")
def three_nodes(shipped):
    pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(shipped))
        with survival.cluster() as made:
            yield made


@pytest.mark.parametrize("share", [0.35, pytest.param(0.8, marks=pytest.mark.full)])
def test_a_run_goes_on_by_itself_after_an_actor_is_killed(three_nodes, undisturbed, tmp_path, share):
    digest, recovered = survival.survive_loss(SECONDS, share, lambda: three_nodes.lose_actor(1), tmp_path)
    assert digest == undisturbed
    assert recovered >= 1


def test_a_run_goes_on_by_itself_after_a_node_is_lost(three_nodes, undisturbed, tmp_path):
    digest, _ = survival.survive_loss(SECONDS, 0.5, three_nodes.lose_node, tmp_path)
    assert digest == undisturbed


@pytest.mark.parametrize(("share", "actors"), [pytest.param(0.3, 1, marks=pytest.mark.full), (0.7, 3)])
def test_a_run_whose_driver_was_killed_is_finished_by_resume(undisturbed, tmp_path, share, actors):
    assert survival.survive_driver(SECONDS, share, "inline", actors, tmp_path) == undisturbed


@pytest.mark.full  # Ray's own processes take the better part of a minute to notice
def test_a_driver_killed_under_ray_leaves_no_process_behind(undisturbed, tmp_path):
    mark = uuid4().hex
    digest = survival.survive_driver(SECONDS, 0.5, "inline", 2, tmp_path, killed="ray", mark=mark)
    assert digest == undisturbed
    deadline = time.monotonic() + 240
    while survival.marked(mark) and time.monotonic() < deadline:
        select.select([], [], [], 0.2)
    assert survival.marked(mark) == []
