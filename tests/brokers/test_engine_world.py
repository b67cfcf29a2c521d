"""The world that kernels see: made of the rooms' arrays, compiled once for all processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from brokers.engine.shard import Shard
from brokers.engine.simulate import MemoryTraces
from brokers.engine.world import World
from protocols.conformance import REHEARSALS, rehearse

ROOT = Path(__file__).parents[2]

# Run in a process of its own. What it prints was compiled, of the engine.
RUN = """
from analysis.warm.events import listening
from brokers.engine.simulate import simulate
from protocols.conformance import REHEARSALS, rehearse

with listening(lambda compiled: print(compiled, flush=True)):
    simulate(rehearse(REHEARSALS[0], "flooding"))
"""


def shard_of(rehearsal):
    model = rehearse(rehearsal, "flooding")
    return Shard(model, 0, np.zeros(model.overlay.brokers, np.int32), MemoryTraces("none")(0))


def arrays_of(shard):
    rooms = (shard.links, shard.services, shard.queues, shard.outages, shard.crowding, shard.tallies, shard.bench)
    return {name: array for room in rooms for name, array in room.arrays().items()}


def compiled_by_a_run(tree: Path, cache: Path) -> list[str]:
    """The engine's kernels that a fresh process compiles."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", RUN], env=environment, cwd=tree, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [line.partition("(")[0] for line in done.stdout.splitlines() if line.startswith("brokers.engine")]


@pytest.fixture
def tree(tmp_path):
    """A copy of the packages that may be edited."""
    for package in ("topology", "brokers", "protocols", "scenarios", "analysis"):
        shutil.copytree(ROOT / package, tmp_path / "tree" / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "tree"


@pytest.mark.full  # test_warm holds for every kernel that it is on disk; this compiles the engine twice
def test_kernels_of_a_world_are_compiled_by_one_process_for_all_and_again_after_an_edit(tree, tmp_path):
    kernels = {f"brokers.engine.{name}" for name in ("advance.advance", "gather.gather", "heads.plant")}
    assert kernels <= set(compiled_by_a_run(tree, tmp_path / "cache"))
    assert compiled_by_a_run(tree, tmp_path / "cache") == []
    # what is edited lies in another file than the kernels that inline it
    with open(tree / "brokers" / "engine" / "latency.py", "a", encoding="utf-8") as file:
        file.write("# another line\n")
    assert kernels <= set(compiled_by_a_run(tree, tmp_path / "cache"))


def test_every_array_of_a_world_has_one_owner():
    shard = shard_of(REHEARSALS[0])
    rooms = (shard.links, shard.services, shard.queues, shard.outages, shard.crowding, shard.tallies, shard.bench)
    names = [name for room in rooms for name in room.arrays()]
    assert len(names) == len(set(names))


def test_a_room_that_outgrows_an_array_shows_in_the_next_round():
    """Every array that is replaced when it grows is made too small; the run stays what it was."""
    whole, cramped = shard_of(REHEARSALS[2]), shard_of(REHEARSALS[2])
    rings = cramped.links.rings
    rings.arena = rings.arena[: rings.table[:, 1].sum()].copy()
    cramped.bench.losses = cramped.bench.losses[:1].copy()
    cramped.services.causes.key = cramped.services.causes.key[:0].copy()
    counted = cramped.services.causes.counted[0]
    counted.counts = counted.counts[:0].copy()
    for shard in (whole, cramped):
        while (now := shard.next_time()) < 2_000_000_000:
            shard.window(now + 1_000_000_000, [b""])
    assert len(cramped.services.causes.key) > 0
    assert whole.queues.handled == cramped.queues.handled > 100
    assert np.array_equal(whole.queues.broker_state, cramped.queues.broker_state)


@pytest.mark.parametrize(
    "spoil", [lambda a: a.astype(np.int32), lambda a: np.repeat(a, 2)[::2], lambda a: a[None]],
    ids=["narrower", "strided", "of more dimensions"],
)  # fmt: skip
def test_an_array_that_kernels_do_not_expect_is_named(spoil):
    arrays = arrays_of(shard_of(REHEARSALS[0]))
    World.of(arrays)
    with pytest.raises(TypeError, match="'finish' is int"):
        World.of({**arrays, "finish": spoil(arrays["finish"])})
