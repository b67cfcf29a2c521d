"""A Ray cluster of three nodes on this machine, whose actors and nodes can be killed: for tests and trials."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

_ACTOR = "ray::Host"  # how Ray names the processes of brokers.engine.ray's actors
_RAY_FOLDER = "RAY_TMPDIR"  # below which Ray puts what no folder is named for


def children(root: int) -> list[tuple[int, str]]:
    """All processes below one: number and command line."""
    parent: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, ValueError, IndexError):
                continue  # it has ended meanwhile
    below, grown = {root}, True
    while grown:
        fresh = {pid for pid, above in parent.items() if above in below} - below
        grown = bool(fresh)
        below |= fresh
    found = []
    for pid in sorted(below - {root}):
        try:
            found.append(
                (pid, (Path("/proc") / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            )
        except OSError:
            continue
    return found


class TrialCluster:
    """Three Ray nodes on this machine; any but the first may be lost and is replaced.

    Ray's cluster for trials writes its address below the system's temporary folder, whatever folder it is given, and
    fails where no Ray has made that before. So RAY_TMPDIR names the cluster's own folder while it is up.
    """

    def __init__(self, connect: bool = True) -> None:
        import ray
        from ray.cluster_utils import Cluster as RayCluster

        self._ray = ray
        self._folder = tempfile.mkdtemp(prefix="bl-")  # short: socket paths have a limit of 107 bytes
        self._ray_folder_before = os.environ.get(_RAY_FOLDER)
        self._node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 1 << 27}
        self._cluster = RayCluster()
        try:
            within = Path(self._folder) / "ray"  # Ray opens it to everybody; nobody else enters the one above
            within.mkdir()
            os.environ[_RAY_FOLDER] = self._folder
            self._cluster.add_node(**self._node, include_dashboard=False, temp_dir=str(within))
            self._nodes = [self._cluster.add_node(**self._node) for _ in range(2)]
            if connect:
                ray.init(address=self.address, log_to_driver=False, logging_level=logging.ERROR)
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """Where a run finds it."""
        return str(self._cluster.address)

    def lose_node(self) -> None:
        """Kill a node, as a power cut would, and have another join."""
        self._cluster.remove_node(self._nodes.pop(0), allow_graceful=False)
        self._nodes.append(self._cluster.add_node(**self._node))

    def lose_actor(self, number: int) -> None:
        """Kill one of the processes that carry shards."""
        actors = [pid for pid, command in children(os.getpid()) if command.startswith(_ACTOR)]
        if actors:
            os.kill(actors[number % len(actors)], signal.SIGKILL)

    def close(self) -> None:
        """Stop its processes and remove its folder, however far its start came."""
        try:
            self._ray.shutdown()
            self._cluster.shutdown()
        finally:
            if self._ray_folder_before is None:
                os.environ.pop(_RAY_FOLDER, None)
            else:
                os.environ[_RAY_FOLDER] = self._ray_folder_before
            shutil.rmtree(self._folder, ignore_errors=True)
