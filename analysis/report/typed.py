"""What a report tells to type.

A report is sent to others, whose folders are others, and where its author's lie is nobody's business. So runs that lie
beneath the folder where it is made are named from there, and runs elsewhere from the deepest folder that holds them
all. Where that would tell the author's home, of each run as little is told as keeps them apart.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from shlex import quote

from analysis.report.words import plain

_TOLD_MOST = 200


def command(paths: Sequence[str | PathLike[str]], kind: str, **more: str | None) -> str:
    """What to type to have a figure alone; `more` are options with their values."""
    told = [f"--{name} {quote(value)}" if value else f"--{name}" for name, value in more.items() if value is not None]
    return " ".join([plot_of(paths), f"--kind {kind}", *told])


def plot_of(paths: Sequence[str | PathLike[str]]) -> str:
    """The beginning of every command that draws a figure of runs."""
    return " ".join(["brokerlab plot", *map(quote, named(paths))])


def whence(paths: Sequence[str | PathLike[str]]) -> str:
    """Where commands that name these runs are to be typed, as a sentence."""
    return f"Commands are for the folder from which {plain(named(paths)[0], _TOLD_MOST)} is reached by that name."


def named(paths: Sequence[str | PathLike[str]]) -> list[str]:
    """Runs and sweeps as a command names them, all from one folder."""
    real, here = [Path(path).resolve() for path in paths], Path.cwd()
    beneath = all(here in each.parents for each in real)
    base = here if beneath else Path(os.path.commonpath([each.parent for each in real]))
    home = Path(os.path.expanduser("~"))
    if base in home.parents and any(each.is_relative_to(home) for each in real):
        return _tails(real)
    return [str(each.relative_to(base)) for each in real]


def _tails(real: Sequence[Path]) -> list[str]:
    """The last parts of each path, as few as tell them apart."""
    for many in range(1, max(len(each.parts) for each in real)):
        tails = [str(Path(*each.parts[-many:])) for each in real]
        if len(set(tails)) == len(set(real)):
            break
    return tails
