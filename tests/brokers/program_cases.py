"""Programs for tests, and who is whose child."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.bench.trial_cluster import children
from brokers.programs.spelling import spelled

EXAMPLES = Path(__file__).parents[2] / "docs" / "exec"
OUTSIDE = Path(__file__).parents[1] / "outside"
LANGUAGES = ("python", "msgpack", "javascript", "c")


def naughty(how: str) -> str:
    """The name of a program that does this wrong."""
    return spelled([sys.executable, str(OUTSIDE / "naughty.py"), how])


def children_of(process: int) -> set[tuple[int, str]]:
    """Number and command of all processes below one."""
    return set(children(process))


def alive_of(group: int) -> list[int]:
    """The processes of a group that have not ended."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, _, of = (entry / "stat").read_text("utf-8").rpartition(")")[2].split()[:3]
        except (OSError, ValueError):
            continue  # it has ended meanwhile
        found += [int(entry.name)] if int(of) == group and state != "Z" else []
    return found


def example(language: str, folder: Path) -> str:
    """The name of the example in a language, built in a folder if it has to be; the test is skipped without it."""
    if language == "python":
        return spelled([sys.executable, str(EXAMPLES / "subscription.py")])
    if language == "msgpack":
        return spelled([sys.executable, str(OUTSIDE / "packed.py"), str(EXAMPLES / "subscription.py")])
    tool = shutil.which({"c": "cc", "javascript": "node"}[language])
    if tool is None:
        pytest.skip(f"there is no {language} here")
    if language == "javascript":
        return spelled([tool, str(EXAMPLES / "subscription.js")])
    built = folder / "subscription"
    subprocess.run([tool, "-O1", "-o", built, EXAMPLES / "subscription.c"], check=True)
    return spelled([str(built)])


def telling() -> str:
    """The name of a program that uses all there is to do."""
    return spelled([sys.executable, str(OUTSIDE / "telling.py")])
