"""A Ray of the run's own, and one of three nodes that was there before."""

from __future__ import annotations

import os
import select
import tempfile
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from brokers.engine.simulate import simulate
from brokers.errors import EnvironmentProblem, Interrupted, ProtocolFault
from protocols.conformance import REHEARSALS, rehearse

pytestmark = pytest.mark.ray
TREE, STRAINED = REHEARSALS[0], REHEARSALS[2]


@pytest.fixture(autouse=True)
def no_ray_yet():
    ray = pytest.importorskip("ray")
    assert not ray.is_initialized()
    yield
    assert not ray.is_initialized()


def descendants() -> set[int]:
    """Processes that this one started, and theirs."""
    parent_of = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent_of[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it ended meanwhile
    found = {os.getpid()}
    while more := {p for p, parent in parent_of.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


class Witness:
    """Notes the processes of a run while it is running, and waits for their end."""

    def __init__(self) -> None:
        self.before = descendants()
        self.started: dict[int, int] = {}  # process -> a handle that becomes readable when it ends

    def look(self, *_: object) -> None:
        for process in descendants() - self.before - self.started.keys():
            try:
                self.started[process] = os.pidfd_open(process)
            except ProcessLookupError:
                continue

    def left(self) -> set[int]:
        """Processes that do not end."""
        left = set()
        for process, handle in self.started.items():
            if not select.select([handle], [], [], 20)[0]:
                left.add(process)
            os.close(handle)
        return left


def test_a_run_starts_its_own_ray_and_leaves_no_process_and_no_token():
    model = rehearse(STRAINED, "flooding")
    environment = dict(os.environ)
    witness = Witness()
    result = simulate(model, engine="ray", actors=2, progress=witness.look)
    assert len(witness.started) > 3
    assert witness.left() == set()
    assert result.digest == simulate(model).digest
    assert {k: v for k, v in os.environ.items() if "TOKEN" in k or "AUTH" in k} == {
        k: v for k, v in environment.items() if "TOKEN" in k or "AUTH" in k
    }


@pytest.fixture(scope="module")
def own_ray(listeners):
    """What a Ray of a run's own was seen to have: who listens where, and the rights of its folders."""
    here = tempfile.mkdtemp(prefix="b-")  # short: paths of sockets have a limit
    seen: dict[str, Any] = {}

    def look(shards) -> None:
        (closed,) = Path(here).glob("bl-*")
        (socket,) = closed.rglob("session_2*/sockets/raylet")
        folders = [folder for folder in socket.parents if folder.is_relative_to(closed)]
        seen["rights"] = [folder.stat().st_mode & 0o777 for folder in folders]
        seen["listeners"] = listeners()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", here)
        simulate(rehearse(TREE, "flooding"), engine="ray", actors=2, observe=look)
    yield seen
    Path(here).rmdir()  # nothing is left in it


def test_a_ray_of_the_runs_own_listens_on_the_loopback_only(own_ray):
    assert {"gcs_server", "raylet", "ray::Host"} <= {name for name, _ in own_ray["listeners"]}
    assert [who for who in own_ray["listeners"] if not ip_address(who[1]).is_loopback] == []


def test_what_ray_opens_to_everybody_is_in_a_folder_that_nobody_else_enters(own_ray):
    *opened, closed = own_ray["rights"]
    assert 0o777 in opened
    assert closed == 0o700


def test_the_switch_that_keeps_ray_on_the_loopback_is_put_back_and_may_be_missing(monkeypatch):
    from ray._private import ray_constants

    from brokers.engine.ray_privacy import on_the_loopback

    before = ray_constants.ENABLE_RAY_CLUSTER
    with on_the_loopback():
        assert not ray_constants.ENABLE_RAY_CLUSTER
    assert ray_constants.ENABLE_RAY_CLUSTER is before
    monkeypatch.delattr(ray_constants, "ENABLE_RAY_CLUSTER")
    with on_the_loopback():  # as a Ray of another version may have it
        assert not hasattr(ray_constants, "ENABLE_RAY_CLUSTER")


@pytest.mark.parametrize("ending", ["fault", "interrupt"])
def test_a_run_that_fails_leaves_no_process_either(ending, outside):
    witness = Witness()

    def interrupt(*_: object) -> None:
        witness.look()
        raise KeyboardInterrupt

    if ending == "interrupt":
        with pytest.raises(Interrupted):
            simulate(rehearse(TREE, "flooding"), engine="ray", actors=2, progress=interrupt)
    else:
        with pytest.raises(ProtocolFault, match="which is not one of its own"):
            simulate(
                rehearse(TREE, "pings:Trespasser"),
                engine="ray",
                actors=2,
                max_window_ns=1_000_000,
                progress=witness.look,
            )
    assert len(witness.started) > 3
    assert witness.left() == set()


def test_a_cluster_that_is_not_there_is_one_clear_sentence():
    with pytest.raises(EnvironmentProblem, match=r"no Ray at '127\.0\.0\.1:1'"):
        simulate(rehearse(TREE, "flooding"), engine="ray", actors=2, address="127.0.0.1:1")


def test_three_nodes_of_a_cluster_run_shipped_code_and_give_the_same_digest(shipped, monkeypatch):
    from analysis.bench.trial_cluster import TrialCluster

    monkeypatch.setenv("XDG_CACHE_HOME", str(shipped))
    model = rehearse(STRAINED, "subscription")
    expected = simulate(model).digest
    seen = []

    def look(shards) -> None:
        def where(shard):
            import sys

            import ray

            return sys.modules[type(shard).__module__].__file__, ray.get_runtime_context().get_node_id()

        seen.extend(shards._get([actor.call.remote(where) for actor in shards._actors]))

    cluster = TrialCluster(connect=False)
    try:
        result = simulate(model, engine="ray", actors=3, address=cluster.address, observe=look)
    finally:
        cluster.close()
    assert result.digest == expected
    assert len({node for _, node in seen}) == 3
    assert all(Path(file).is_relative_to(shipped / "brokerlab" / "code") for file, _ in seen)
