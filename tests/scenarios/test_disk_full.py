"""A disk that is full ends a run with exit code 4; with room made, the run is finished to the same digest."""

from __future__ import annotations

import subprocess

import pytest

from scenarios.cli import main
from scenarios.running import run

CHANGES = ["duration=4 s", "engine.checkpoint_every=100 ms", "trace.level=full"]  # half a megabyte


@pytest.fixture
def small_disk(tmp_path):
    """A file system of a quarter of a megabyte, and a way to make it larger."""
    folder = tmp_path / "small"
    folder.mkdir()

    def mount(*options: str) -> int:
        return subprocess.run(["mount", *options, "none", str(folder)], capture_output=True, check=False).returncode

    if mount("-t", "tmpfs", "-o", "size=256k"):
        pytest.skip("a file system of its own needs the right to mount one")
    yield folder, lambda: mount("-o", "remount,size=200m", "-t", "tmpfs")
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_ends_the_run_with_exit_code_4_and_it_can_be_resumed(small_disk, tmp_path, capsys):
    disk, grow = small_disk
    whole = run("churn", engine="inline", overrides=CHANGES, out=tmp_path / "whole")
    told = [part for change in CHANGES for part in ("--set", change)]
    assert main(["run", "churn", "--engine", "inline", "--quiet", "--out", str(disk / "runs"), *told]) == 4
    said = capsys.readouterr().err
    assert "No space left on device" in said and "brokerlab run --resume" in said
    (folder,) = [path for path in (disk / "runs").iterdir() if path.is_dir()]
    assert grow() == 0
    assert main(["run", "--resume", str(folder), "--engine", "inline", "--quiet"]) == 0
    assert f"digest   {whole.digest}" in capsys.readouterr().out
