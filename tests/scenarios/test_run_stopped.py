"""A run under a real Ray that is told to end, or loses a process: what it says, leaves behind, and comes to."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile

import pytest

from scenarios.running import resume, run

pytestmark = pytest.mark.ray

# Runs `brokerlab` with these arguments; at the first window a signal goes to the run itself, or to an actor, or to
# the run and again every few milliseconds, for as long as it lasts.
STOPPED = """\
import json, os, signal, sys, threading, time
from pathlib import Path

import scenarios.running
from analysis.bench.trial_cluster import children
from scenarios import cli

name, target, notes, *arguments = sys.argv[1:]
# As in a terminal, whoever started the tests: a shell's job in the background, or nohup, ignores some of these.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

def again_and_again():
    while True:
        os.kill(os.getpid(), getattr(signal, name))
        time.sleep(0.005)

class Stop:
    done = False

    def __init__(self, duration_ns):
        pass

    def update(self, *figures):
        if not Stop.done:
            Stop.done = True
            started = children(os.getpid())
            Path(notes).write_text(json.dumps(started))
            actors = [pid for pid, command in started if command.startswith("ray::Host")]
            if target == "run again and again":
                threading.Thread(target=again_and_again, daemon=True).start()
            else:
                os.kill(os.getpid() if target == "run" else actors[0], getattr(signal, name))

    def close(self):
        pass

scenarios.running.Progress = Stop
sys.argv = ["brokerlab", *arguments]
cli.entry()
"""


@pytest.fixture
def scenario(tmp_path, tree):
    return tree(tmp_path)


@pytest.fixture
def stopped(scenario, tmp_path):
    pytest.importorskip("ray")

    def carry_out(name: str, target: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
        """How the command ended, and the processes of it that did not, or folders that it left."""
        arguments = ["run", str(scenario), "--engine", "ray", "--actors", "2", "--out", str(tmp_path / "runs")]
        command = [sys.executable, "-c", STOPPED, name, target, str(tmp_path / "started"), *arguments]
        with tempfile.TemporaryDirectory(prefix="bl-") as temporary:  # short, since sockets' paths lie below
            environment = {**os.environ, "TMPDIR": temporary}
            ended = subprocess.run(command, capture_output=True, text=True, env=environment)
            left = still_there(json.loads((tmp_path / "started").read_text()))
            return ended, left + os.listdir(temporary)

    return carry_out


def still_there(started: list[tuple[int, str]]) -> list[str]:
    """What of these processes does not end."""
    assert len(started) > 3
    left = []
    for pid, command in started:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        if not select.select([handle], [], [], 20)[0]:
            left.append(command)
        os.close(handle)
    return left


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("SIGTERM", "run"),
        ("SIGHUP", "run again and again"),
        pytest.param("SIGINT", "run again and again", marks=pytest.mark.full),
        pytest.param("SIGTERM", "run again and again", marks=pytest.mark.full),
    ],
)
def test_a_run_that_is_told_to_end_says_so_in_one_sentence_and_can_be_resumed(
    name, target, scenario, stopped, tmp_path
):
    ended, left = stopped(name, target)
    (folder,) = (tmp_path / "runs").glob("tree-*")
    assert ended.stderr == f"brokerlab: interrupted; finish it with: brokerlab run --resume {folder}\n"
    assert (ended.returncode, ended.stdout, left) == (130, "", [])
    assert resume(folder, engine="inline").digest == run(scenario, engine="inline", out=tmp_path / "other").digest


# SIGKILL in `make test`: tests/analysis/test_survival.py
@pytest.mark.parametrize("name", ["SIGTERM", pytest.param("SIGKILL", marks=pytest.mark.full)])
def test_a_run_that_loses_an_actor_says_so_in_one_sentence_and_goes_on(name, scenario, stopped, tmp_path):
    ended, left = stopped(name, "actor")
    said = ended.stderr.splitlines()
    assert len(said) == 1 and said[0].startswith("brokerlab: lost the actor of shard "), ended.stderr
    assert (ended.returncode, left) == (0, [])
    digest = run(scenario, engine="inline", out=tmp_path / "other").digest
    assert ended.stdout.startswith("run ") and f"digest   {digest}" in ended.stdout


def note(*_: object) -> None:
    raise AssertionError("nobody sends it")


@pytest.mark.parametrize("before", [note, signal.SIG_DFL])
def test_sigterm_is_handled_as_before_or_interrupts_while_ray_is_up(before, scenario, tmp_path):
    pytest.importorskip("ray")
    seen = []

    def look(*_: object) -> None:
        seen.append(signal.getsignal(signal.SIGTERM))

    outside = signal.signal(signal.SIGTERM, before)
    try:
        run(scenario, engine="ray", actors=2, out=tmp_path / "runs", progress=look)
        assert set(seen) == {note if before is note else signal.default_int_handler}
        assert signal.getsignal(signal.SIGTERM) is before
    finally:
        signal.signal(signal.SIGTERM, outside)
