"""The engine on Ray: one actor per shard, many brokers in each.

Rules:
- Ray is started here only if nobody has: `address="local"`, no dashboard, no usage statistics, on the loopback, in a
  folder that only this user enters, and token authentication with a random token. What is started here is stopped
  here, whatever happens.
- One call per actor and window. A call returns a small report and one blob per peer; blobs go from actor to
  actor as references, the driver fetches the reports only.
- On a cluster that was given, the code is shipped: unpacked once per node under the user's cache, at a path
  that depends on its content only. Numba finds its cache by path, so a node compiles once per version.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import secrets
import shutil
import socket
import sys
import zipfile
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers import names
from brokers.engine.batching import Cutting
from brokers.engine.model import Model
from brokers.engine.ray_manners import Manners
from brokers.engine.ray_privacy import closed_folder, on_the_loopback, own_token
from brokers.engine.shard import ShardResult, Standing, Window
from brokers.errors import ActorsLost, BrokerlabError, EnvironmentProblem
from brokers.interrupting import undisturbed
from brokers.programs.spelling import is_program

try:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray
except ImportError:
    raise EnvironmentProblem(
        "the engine 'ray' needs the extra 'ray': pip install 'brokerlab[ray]', or run with --engine inline"
    ) from None

_PACKAGES = ("topology", "brokers", "protocols", "scenarios", "analysis")
_STORE_BYTES = 1 << 30
_CLOSE_S = 5.0  # for actors to end their programs, which end with them in any case
_ANSWER_S = 10.0  # for a cluster's head to take a connection


class _Session:
    """A Ray that is up while a run lasts: the caller's if there is one, else our own."""

    def __init__(self, address: str | None, actors: int) -> None:
        self.ours = not ray.is_initialized()
        self.remote = address not in (None, "local")
        self._token = contextlib.ExitStack()
        self._folder: str | None = None
        self._manners: Manners | None = None
        if not self.ours:
            self.remote = True  # whoever started it may have more nodes than this one
            return
        quiet: dict[str, Any] = {
            "include_dashboard": False,
            "log_to_driver": False,
            "logging_level": "ERROR",
            "configure_logging": True,
            "job_config": _job(),
        }
        self._manners = Manners()
        try:
            if self.remote:
                quiet.pop("include_dashboard")
                _knock(str(address))
                ray.init(address=address, **quiet)
            else:
                self._token.enter_context(own_token())
                self._folder, within = closed_folder()
                with on_the_loopback():
                    ray.init(
                        address="local",
                        num_cpus=max(actors, 1),
                        object_store_memory=_STORE_BYTES,
                        _temp_dir=within,
                        **quiet,
                    )
            self._manners.insist()
        except (KeyboardInterrupt, SystemExit):
            self.close()
            raise KeyboardInterrupt from None  # Ray exits on SIGTERM while it starts
        except Exception as error:
            self.close()
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            where = f"at {address!r}" if self.remote else "on this machine"
            raise EnvironmentProblem(
                f"no Ray {where}: {first}; try brokerlab doctor, or --engine inline"
            ) from None

    def close(self) -> None:
        if not self.ours:
            return
        with undisturbed():  # a Ray that is stopped in the middle of its end takes the process with it
            try:
                ray.shutdown()
            finally:
                self._token.close()
                if self._folder is not None:
                    shutil.rmtree(self._folder, ignore_errors=True)
        if self._manners is not None:
            self._manners.close()


class _OnOurPath(list[str]):
    """Folders that come onto a worker's path: none that is not on ours."""

    def extend(self, folders: Iterable[str]) -> None:
        ours = {os.path.abspath(path) for path in sys.path}
        super().extend(folder for folder in folders if os.path.abspath(folder) in ours)


def _job() -> Any:
    """Ray would put the folder we are in first on every worker's path, and a `simpy.py` in it in SimPy's place."""
    job: Any = ray.job_config.JobConfig()
    job._py_driver_sys_path = _OnOurPath()
    return job


def _knock(address: str) -> None:
    """Fail at once where nobody answers: Ray itself would go on trying for minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdigit():
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S):
            pass


def _code() -> tuple[str, bytes]:
    """The packages as a zip, and a name that depends on their content only."""
    buffer = io.BytesIO()
    digest = blake2b(digest_size=8)
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in _PACKAGES:
            root = Path(__file__).resolve().parents[2] / package
            for path in sorted(root.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    name = path.relative_to(root.parent).as_posix()
                    data = path.read_bytes()
                    digest.update(f"{name}\0{len(data)}\0".encode())
                    digest.update(data)
                    archive.writestr(zipfile.ZipInfo(name), data)
    return digest.hexdigest(), buffer.getvalue()


def _host_class() -> type:
    """The actor. A class made inside a function travels by value: the node need not have brokerlab yet."""

    class Host:
        def begin(self, code: Any, payload: bytes) -> None:
            """Become a shard. Not when made: of that Ray would tell that it failed, not the error."""
            import pickle
            import sys

            if code is not None:
                sys.path.insert(0, self._unpack(*code))
            # From here on brokerlab can be imported, and so can what the payload is made of.
            from brokers import names
            from brokers.engine.shard import Shard

            number, model, assignment, trace, cutting, resume, third_parties, beside = pickle.loads(payload)
            sys.path.extend(p for p in third_parties if p not in sys.path)
            names.beside.look_in(beside)
            self._trace = trace(number)
            self._shard = Shard(model, number, assignment, self._trace, cutting, resume)

        @staticmethod
        def _unpack(name: str, data: bytes) -> str:
            import io
            import os
            import pathlib
            import platform
            import tempfile
            import zipfile

            def close(folder: pathlib.Path) -> None:
                """What is here runs as this user, so nobody else may write here."""
                found = folder.lstat()
                if found.st_uid != os.getuid():
                    raise PermissionError(
                        f"{folder} of the node {platform.node()} belongs to another user, and code in it would run "
                        "as you: remove it, or have XDG_CACHE_HOME name another place there"
                    )
                if found.st_mode & 0o022:
                    folder.chmod(0o700)

            cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
            ours = pathlib.Path(cache) / "brokerlab"
            target = ours / "code" / name
            for folder in (ours, target.parent):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                close(folder)
            if not target.exists():
                fresh = tempfile.mkdtemp(dir=target.parent)
                zipfile.ZipFile(io.BytesIO(data)).extractall(fresh)
                try:
                    os.rename(fresh, target)
                except OSError:  # another actor of this node was first
                    import shutil

                    shutil.rmtree(fresh, ignore_errors=True)
            close(target)
            return str(target)

        def sees(self, path: str | None) -> bool:
            return path is None or os.path.exists(path)

        def next_time(self) -> int:
            return self._shard.next_time()

        def window(self, end: int, samples: range, *blobs: bytes) -> Any:
            report, packed = self._shard.window(end, list(blobs), samples)
            return report, *packed

        def checkpoint(self, folder: str, number: int, *blobs: bytes) -> int:
            return self._shard.checkpoint(folder, number, list(blobs))

        def standing(self) -> Any:
            return self._shard.standing()

        def finish(self) -> Any:
            result = self._shard.finish()
            self._trace.close()
            return result

        def abandon(self) -> None:
            self._trace.abort()

        def where(self) -> tuple[int, str]:
            import platform

            return os.getpid(), platform.node()

        def close(self) -> None:
            self._shard.close()

        def call(self, function: Any) -> Any:
            return function(self._shard)

    return Host


def cluster_cpus(address: str) -> int:
    """The CPUs of a cluster that is up."""
    session = _Session(address, 1)
    try:
        return max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        session.close()


class RayShards:
    """Shards on Ray actors."""

    name = "ray"

    def __init__(
        self,
        model: Model,
        assignment: NDArray[np.int32],
        trace: Callable[[int], Any],
        cutting: Cutting | None = None,
        address: str | None = None,
        resume: str | None = None,
    ) -> None:
        shards = int(assignment.max()) + 1
        self._session = _Session(address, shards)
        self._lets_go = any(is_program(spec.protocol_target) for spec in model.services)
        self._actors: list[Any] = []
        try:
            cpus = float(ray.cluster_resources().get("CPU", 1.0))
            host: Any = ray.remote(_host_class()).options(
                num_cpus=min(1.0, int(10_000 * cpus / shards) / 10_000),
                scheduling_strategy="SPREAD",
                max_restarts=0,
            )
            code = ray.put(_code()) if self._session.remote else None
            paths = [p for p in sys.path if p and Path(p).is_dir()]
            self._actors = [host.remote() for _ in range(shards)]
            shared = (model, assignment, trace, cutting, resume, paths, names.beside.folders)
            self._begin(
                actor.begin.remote(code, pickle.dumps((number, *shared))) for number, actor in enumerate(self._actors)
            )
            self._check_folder(getattr(trace, "folder", None))
            self._blobs: list[list[Any]] = [[b""] * shards for _ in range(shards)]
        except BaseException:
            self._session.close()
            raise

    def _begin(self, begun: Iterable[Any]) -> None:
        try:
            self._get(list(begun))
        except PermissionError as error:
            raise EnvironmentProblem(f"an actor could not start: {getattr(error, 'cause', error)}") from None

    def _check_folder(self, folder: str | None) -> None:
        """Refuse a run folder that not all nodes see, before anything is simulated."""
        if folder is None:
            self._get([actor.next_time.remote() for actor in self._actors])
            return
        probe = Path(folder) / f".probe-{secrets.token_hex(4)}"
        probe.touch()
        try:
            seen = self._get([actor.sees.remote(str(probe)) for actor in self._actors])
        finally:
            probe.unlink()
        if not all(seen):
            raise EnvironmentProblem(
                f"{seen.count(False)} of {len(seen)} actors cannot see the run folder {folder}: name one on a file "
                "system that all nodes share (--out)"
            )

    def _get(self, refs: Any) -> Any:
        try:
            return ray.get(refs)
        except ray.exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, BrokerlabError):
                raise cause from None
            raise
        except (
            ray.exceptions.RayActorError,
            ray.exceptions.ObjectLostError,
            ray.exceptions.NodeDiedError,
        ) as error:
            raise ActorsLost(f"lost {self._who_died(error)}") from None

    def _who_died(self, error: Exception) -> str:
        """Which shards' actors do not answer."""
        asked = {actor.next_time.remote(): i for i, actor in enumerate(self._actors)}
        done, _ = ray.wait(list(asked), num_returns=len(asked), timeout=2)
        dead = []
        for ref in done:
            try:
                ray.get(ref)
            except ray.exceptions.RayError:
                dead.append(asked[ref])
        if not dead:
            return f"an answer between actors ({type(error).__name__})"
        return f"the {'actor' if len(dead) == 1 else 'actors'} of shard {', '.join(map(str, sorted(dead)))}"

    def next_time(self) -> int:
        return min(self._get([actor.next_time.remote() for actor in self._actors]))

    def step(self, end: int, samples: range) -> list[Window]:
        """Advance all shards to `end`; blobs stay references."""
        n = len(self._actors)
        calls = [
            actor.window.options(num_returns=1 + n).remote(end, samples, *(sent[i] for sent in self._blobs))
            for i, actor in enumerate(self._actors)
        ]
        self._blobs = [list(refs[1:]) for refs in calls]
        return self._get([refs[0] for refs in calls])

    def checkpoint(self, folder: str, number: int) -> int:
        """Have every actor keep its shard's state; returns the bytes written."""
        n = len(self._actors)
        calls = [
            actor.checkpoint.remote(folder, number, *(sent[i] for sent in self._blobs))
            for i, actor in enumerate(self._actors)
        ]
        self._blobs = [[b""] * n for _ in range(n)]
        return sum(self._get(calls))

    def standing(self) -> list[Standing]:
        return self._get([actor.standing.remote() for actor in self._actors])

    def finish(self) -> list[ShardResult]:
        return self._get([actor.finish.remote() for actor in self._actors])

    def where(self) -> list[tuple[int, str]]:
        return self._get([actor.where.remote() for actor in self._actors])

    def abandon(self) -> None:
        """Have every actor that still answers drop its part of the trace."""
        try:
            ray.get([actor.abandon.remote() for actor in self._actors], timeout=5)
        except (ray.exceptions.RayError, KeyboardInterrupt):
            return  # a dead actor leaves only files that no reader takes for parts

    def close(self) -> None:
        if self._lets_go:
            with contextlib.suppress(ray.exceptions.RayError):
                ray.get([actor.close.remote() for actor in self._actors], timeout=_CLOSE_S)
        for actor in self._actors:
            ray.kill(actor)
        self._actors = []
        self._session.close()
