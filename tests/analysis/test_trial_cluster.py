"""The cluster for trials starts where no Ray has been, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from analysis.bench.trial_cluster import TrialCluster, children

pytestmark = pytest.mark.ray

STARTED = """
import ray
from analysis.bench.trial_cluster import TrialCluster

cluster = TrialCluster()
print(len([node for node in ray.nodes() if node["Alive"]]), flush=True)
cluster.close()
"""


@pytest.fixture
def empty():
    """An empty temporary folder with a path short enough for sockets."""
    pytest.importorskip("ray")
    with tempfile.TemporaryDirectory(prefix="bl-") as folder:
        yield Path(folder)


def test_three_nodes_start_in_an_empty_temporary_folder_and_leave_it_empty(empty):
    environment = {**os.environ, "TMPDIR": str(empty)}
    environment.pop("RAY_TMPDIR", None)
    done = subprocess.run(
        [sys.executable, "-c", STARTED], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["3"]
    assert list(empty.iterdir()) == []


@pytest.mark.parametrize("failing", ["add_node", pytest.param("init", marks=pytest.mark.full)])
def test_a_cluster_that_fails_at_its_start_leaves_no_folder_no_process_and_the_environment(
    failing, empty, monkeypatch
):
    import ray
    from ray.cluster_utils import Cluster

    add_node, folders = Cluster.add_node, []

    def first_node_only(self, *args, **kwargs):
        if self.head_node is not None:
            folders.extend(empty.iterdir())
            raise RuntimeError("no second node")
        return add_node(self, *args, **kwargs)

    def refuses(**_):
        folders.extend(empty.iterdir())
        raise RuntimeError("no connection")

    monkeypatch.setattr(tempfile, "tempdir", str(empty))
    monkeypatch.setenv("RAY_TMPDIR", "somewhere")
    if failing == "add_node":
        monkeypatch.setattr(Cluster, "add_node", first_node_only)
    else:
        monkeypatch.setattr(ray, "init", refuses)
    before = {pid for pid, _ in children(os.getpid())}
    with pytest.raises(RuntimeError, match=r"no (second node|connection)"):
        TrialCluster()
    assert len(folders) == 1
    assert list(empty.iterdir()) == []
    assert os.environ["RAY_TMPDIR"] == "somewhere"
    assert [command for pid, command in children(os.getpid()) if pid not in before] == []
