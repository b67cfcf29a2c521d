"""Killing what carries a run, at random moments, and seeing that its trace does not change.

Three kinds of death: an actor's process, a node of a Ray cluster with all that runs on it, and the driver. For the
first two the run goes on by itself; after the third `resume` finishes the folder, on another engine or number of
actors. A moment is a share of the simulated time, so it falls at another point of the work on every machine.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.bench.rows import Row, row
from brokers.errors import BrokerlabError
from scenarios.running import resume, run

if TYPE_CHECKING:
    from analysis.bench.trial_cluster import TrialCluster

SCENARIO = "news"
CHECKPOINTS = "engine.checkpoint_every=200 ms"
DEATHS = ("actor", "driver", "node")
_MARK = "BROKERLAB_SURVIVAL_MARK"


def overrides(duration: str) -> list[str]:
    """A tree that routes news, for so long, with frequent checkpoints."""
    return [f"duration={duration}", CHECKPOINTS]


@contextmanager
def cluster() -> Iterator[TrialCluster]:
    """A cluster while the block lasts."""
    from analysis.bench.trial_cluster import TrialCluster

    made = TrialCluster()
    try:
        yield made
    finally:
        made.close()


def at_share(share: float, duration_ns: int, act: Callable[[], Any]) -> Callable[[int, int, int], None]:
    """A progress callback that acts once, when a share of the simulated time has passed."""
    done: list[bool] = []

    def look(now_ns: int, events: int, under_way: int) -> None:
        if not done and now_ns >= share * duration_ns:
            done.append(True)
            act()

    return look


def survive_loss(duration_s: int, share: float, act: Callable[[], Any], out: str | Path) -> tuple[str, int]:
    """Run on the Ray that is up, with something dying on the way; the digest, and how often it recovered."""
    done = run(
        SCENARIO,
        engine="ray",
        actors=2,
        overrides=overrides(f"{duration_s} s"),
        out=out,
        progress=at_share(share, duration_s * 1_000_000_000, act),
    )
    return done.digest, int(done.engine["recovered"])


def survive_driver(
    duration_s: int,
    share: float,
    engine: str,
    actors: int,
    out: str | Path,
    *,
    killed: str = "inline",
    mark: str = "",
) -> str:
    """Run in a process that is killed on the way, on the engine `killed`; then finish the folder from here.

    Returns the digest. `mark` ends up in the environment of every process of the killed run.
    """
    command = [sys.executable, "-m", "analysis.bench.survival", str(duration_s), str(share), str(out), killed]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, _MARK: mark}
    )
    if ended.returncode != -signal.SIGKILL:
        raise BrokerlabError(
            f"the driver was to be killed, but ended with {ended.returncode}: {ended.stderr[-400:]}"
        )
    (folder,) = [path for path in Path(out).iterdir() if path.is_dir() and not path.is_symlink()]
    return resume(folder, engine=engine, actors=actors).digest


def marked(mark: str) -> list[int]:
    """The processes, anywhere on this machine, that a run with this mark has started."""
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def main(duration_s: int, share: float, out: str, engine: str) -> None:
    """The process that is to die."""
    run(
        SCENARIO,
        engine=engine,
        actors=2,
        overrides=overrides(f"{duration_s} s"),
        out=out,
        progress=at_share(share, duration_s * 1_000_000_000, lambda: os.kill(os.getpid(), signal.SIGKILL)),
    )


def rows(kills: int = 50, duration_s: int = 20, seed: int = 1) -> Iterator[Row]:
    """`kills` deaths of all kinds in turn, at random moments: how many left the digest as it was."""
    from topology.draws import stream, uniforms

    moments = uniforms(stream(seed, 0, "bench/survival"), 0, kills).tolist()
    folder = tempfile.mkdtemp(prefix="bl-survival-")
    try:
        whole = run(
            SCENARIO, engine="inline", overrides=overrides(f"{duration_s} s"), out=f"{folder}/whole"
        ).digest
        unchanged, recovered, began = dict.fromkeys(DEATHS, 0), 0, time.perf_counter()
        for number, share in enumerate(moments):
            if DEATHS[number % 3] == "driver":
                engine = ("inline", "ray")[number % 2]
                digest = survive_driver(
                    duration_s, share, "inline", 1 + number % 3, f"{folder}/{number}", killed=engine
                )
                unchanged["driver"] += digest == whole
        with cluster() as three:
            for number, share in enumerate(moments):
                death = DEATHS[number % 3]
                if death == "driver":
                    continue
                act = three.lose_node if death == "node" else partial(three.lose_actor, number)
                digest, times = survive_loss(duration_s, share, act, f"{folder}/{number}")
                unchanged[death] += digest == whole
                recovered += times
        took = time.perf_counter() - began
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    total = sum(unchanged.values())
    yield row(f"{kills} random kills (actor, driver, node): digest unchanged", total, "runs", least=kills)
    yield row("runs that went on by themselves after losing actors", recovered, "recoveries")
    yield row("time per kill, from start to digest", took / kills, "s")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4])
