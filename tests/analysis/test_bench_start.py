"""The group `start`: each command is called as a newcomer calls it, and judged beside its baseline."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.bench import start
from analysis.bench.spark import Cost, cost_of
from scenarios.run import run


class Calls:
    """Stands for the command line: simulates for a moment, and costs what the test says."""

    def __init__(self, wall_s: dict[str, list[float]]) -> None:
        self.wall_s = wall_s
        self.made: list[tuple[str, ...]] = []
        self.caches: list[str] = []
        self.ends: dict[tuple[str, str], set[int]] = {}

    def __call__(self, *arguments: str, environment: dict[str, str], ends_with: set[int] = frozenset({0})) -> Cost:
        self.made.append(arguments)
        self.ends[arguments[0], Path(arguments[-1]).parent.name] = set(ends_with)
        self.caches.append(environment["NUMBA_CACHE_DIR"])
        assert Path(self.caches[-1]).is_dir()
        if "--out" in arguments:
            run("lossy", engine="inline", overrides=["duration=200 ms"], out=arguments[arguments.index("--out") + 1])
        return Cost(self.wall_s[arguments[0]].pop(0), 1.0, 0)


@pytest.fixture
def rows(monkeypatch):
    """The rows, by name, for the wall times of each command and the simulated ones of the two demos."""

    def measured(simulated=(5.0, 5.0), **wall_s):
        calls = Calls({"warm": [80.0], "demo": [25.0, 24.0], "run": [1.0, 9.0], "audit": [6.0, 18.0], **wall_s})
        monkeypatch.setattr(start, "cost_of", calls)
        monkeypatch.setattr(start, "_simulated_s", lambda out: simulated[out.name == "second"])
        return {row["name"]: row for row in start.measure(start.Sizes())}, calls

    return measured


def test_every_command_is_called_once_or_beside_its_baseline_with_the_same_new_kernels(rows):
    found, calls = rows()
    assert [arguments[0] for arguments in calls.made] == ["warm", "demo", "demo", "run", "run", "audit", "audit"]
    assert len(set(calls.caches)) == 1
    assert found["quickstart inline"]["ratio"] == 9.0
    assert found["audit of quickstart alone"]["ratio"] == 3.0
    assert all(row["holds"] is not False for row in found.values())
    assert calls.ends["audit", "whole"] == {0}


@pytest.mark.full
def test_a_run_of_nothing_is_audited_and_ends_with_unknown(tmp_path):
    cost_of("run", start.SCENARIO, "--engine", "inline", "--quiet", "--set", "duration=1 ms", "--out", str(tmp_path))
    assert cost_of("audit", str(tmp_path / "latest"), ends_with={2}).cpu_s > 0
    with pytest.raises(RuntimeError, match="ended with 2"):
        cost_of("audit", str(tmp_path / "latest"))


def test_a_first_demo_that_compiles_does_not_hold(rows):
    found, _ = rows(simulated=(6.6, 5.0))
    judged = found["first demo: simulating"]
    assert (judged["ratio"], judged["holds"]) == (pytest.approx(1.32), False)
    assert judged["target"] == "at most 1.3 times the second's"


def test_only_the_second_demo_has_to_be_quick(rows):
    found, _ = rows(demo=[90.0, 31.0], warm=[151.0])
    assert [name for name, row in found.items() if row["holds"] is False] == [
        next(name for name in found if name.startswith("all kernels")), "second demo, to the verdict"
    ]  # fmt: skip


def test_the_time_to_simulate_is_that_of_the_last_run_in_the_folder(tmp_path):
    done = run("lossy", engine="inline", overrides=["duration=200 ms"], out=tmp_path)
    assert start._simulated_s(tmp_path) == done.metrics["run"]["loop_wall_s"] > 0
