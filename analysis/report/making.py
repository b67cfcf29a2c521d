"""`report`: a run, two runs or a sweep, written as one HTML file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from analysis.report.one import report_of
from analysis.report.sampling import HOPS_MOST
from brokers.engine.runfolder import open_run
from brokers.errors import EnvironmentProblem, InvalidInput

NAME = "report.html"


def report(
    paths: Sequence[str | PathLike[str]], out: str | PathLike[str] | None = None, *, hops_most: int = HOPS_MOST,
    trust: bool = False,
) -> Path:  # fmt: skip
    """Write the report of a run folder; gives where it is.

    Parameters
    ----------
    paths : a run folder
    out : the file; default: `report.html` in the folder
    hops_most : so many events are drawn one by one at most; of more a share of all messages, each whole
    trust : let the run name code from outside
    """
    (path,) = paths
    run = open_run(path)
    target = Path(out) if out is not None else run.path / "analysis" / NAME
    return written(report_of(run, hops_most, trust=trust), target)


def written(text: str, target: Path) -> Path:
    """The file appears whole or not at all."""
    if target.is_dir():
        raise InvalidInput(f"{target} is a folder; name a file, as in {target / NAME}")
    unfinished = target.with_name(f"_tmp-{target.name}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished.unlink(missing_ok=True)
        with open(unfinished, "x", encoding="utf-8") as file:
            file.write(text)
        os.replace(unfinished, target)
    except OSError as error:
        raise EnvironmentProblem(f"cannot write {target}: {error.strerror or error}") from None
    return target
