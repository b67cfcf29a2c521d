"""Independent pieces of work as Ray tasks: the points of a sweep.

Rules:
- At most `jobs` tasks are under way, so that a cluster is shared and an interruption loses little.
- A task runs in one process and is told nothing of Ray; where its process or node dies it is tried once more.
- Ray is started and stopped, and code is shipped to a cluster, as for the engine (`ray.py`).
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from brokers.engine.ray import _code, _host_class, _Session, ray
from brokers.errors import EnvironmentProblem


def on_ray(
    function: Callable[[Any], Any], work: Sequence[Any], jobs: int | None, address: str | None, cpus_here: int
) -> Iterator[tuple[int, Any, str | None]]:
    """(number, function(piece), None) for every piece of work, in the order in which they end.

    Where its process or node was lost: (number, None, a sentence that says so).

    `function` is a module's, and answers for its own mistakes: what it raises ends everything. `jobs` bounds the
    tasks under way; default: the CPUs there are, which are `cpus_here` where Ray is started for this.
    """
    session = _Session(address, jobs or cpus_here)
    try:
        jobs = jobs or max(1, int(ray.cluster_resources().get("CPU", 1)))
        task = ray.remote(_task()).options(num_cpus=1, max_retries=1, scheduling_strategy="SPREAD")
        host: Any = _host_class()
        unpack = ray.put(host._unpack)
        code = ray.put(_code()) if session.remote else None
        paths = [path for path in sys.path if path and Path(path).is_dir()]
        waiting = list(range(len(work)))[::-1]
        under_way: dict[Any, int] = {}
        while waiting or under_way:
            while waiting and len(under_way) < jobs:
                number = waiting.pop()
                payload = pickle.dumps((function, work[number]))
                under_way[task.remote(unpack, code, paths, payload)] = number
            done, _ = ray.wait(list(under_way), num_returns=1)
            number = under_way.pop(done[0])
            try:
                yield number, ray.get(done[0]), None
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, PermissionError):
                    raise EnvironmentProblem(f"a task could not start: {error.cause}") from None
                raise error.cause if isinstance(error.cause, Exception) else error from None
            except ray.exceptions.RayError as error:
                yield number, None, f"its process or node died ({type(error).__name__})"
    finally:
        session.close()


def _task() -> Callable[..., Any]:
    """The task. Made inside a function it travels by value: the node need not have brokerlab yet."""

    def task(unpack: Any, code: Any, paths: list[str], payload: bytes) -> Any:
        import pickle
        import sys

        if code is not None:
            unpacked = unpack(*code)
            if unpacked not in sys.path:
                sys.path.insert(0, unpacked)
        sys.path.extend(path for path in paths if path not in sys.path)
        function, piece = pickle.loads(payload)
        return function(piece)

    return task
