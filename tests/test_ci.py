"""What `.ci/run` says was left behind is what was left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

LEFT = Path(__file__).parents[1] / ".ci" / "left.py"
LINGERER = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    input()
"""
pytestmark = pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="looks into /proc")


@pytest.fixture
def looked(tmp_path):
    """Looks at two folders and at processes with a mark; gives exit code and lines."""
    for name in ("home/clone", "temporary"):
        (tmp_path / name).mkdir(parents=True)
    mark = f"BROKERLAB_CI={uuid4()}"

    def look(ending_s="0"):
        done = subprocess.run(
            [sys.executable, LEFT, "--home", tmp_path / "home", "--temporary", tmp_path / "temporary", "--clone",
             tmp_path / "home/clone", "--marked", mark, "--ending", ending_s],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout.splitlines()

    look.mark, look.folder = mark, tmp_path
    return look


def test_nothing_left_behind_is_exit_code_0(looked):
    assert looked() == (0, ["nothing: no process, no port, no file"])


def test_a_process_that_stays_is_named_with_its_port_until_it_ends(looked):
    environment = {**os.environ, **dict([looked.mark.split("=")])}
    with subprocess.Popen(
        [sys.executable, "-c", LINGERER], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as lingerer:
        port = lingerer.stdout.readline().strip()
        code, lines = looked()
        assert code == 1
        assert len(lines) == 1
        assert lines[0].startswith(f"left behind: process {lingerer.pid},")
        assert lines[0].endswith(f"listening at {port}")
        lingerer.communicate("\n")
    assert looked("30")[0] == 0


def test_files_are_named_but_for_those_that_tools_keep_on_purpose(looked):
    for kept in ("home/.cache/pip/http/a", "home/.cache/brokerlab/code/b/c.py"):
        (looked.folder / kept).parent.mkdir(parents=True)
        (looked.folder / kept).touch()
    assert looked()[0] == 0
    (looked.folder / "home/.cache/brokerlab/other").mkdir()
    (looked.folder / "home/.ray").mkdir()
    (looked.folder / "temporary/bl-1").mkdir()
    assert looked() == (
        1,
        [
            f"left behind: {looked.folder}/temporary/bl-1 in the temporary folder",
            f"left behind: {looked.folder}/home/.cache/brokerlab/other in HOME",
            f"left behind: {looked.folder}/home/.ray in HOME",
        ],
    )
