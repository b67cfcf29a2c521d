"""`report`: a run, two runs or a sweep, written as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from analysis.export.files import whole_file
from analysis.report import many, one, two
from analysis.report.picture import picture
from analysis.report.sampling import HOPS_MOST
from brokers.engine.runfolder import open_run
from brokers.errors import InvalidInput
from scenarios.many.carry import DESCRIPTION

NAME = "report.html"


def report(
    paths: Sequence[str | PathLike[str]], out: str | PathLike[str] | None = None, *,
    svg: str | PathLike[str] | None = None, hops_most: int | None = None, baseline: str | None = None,
    trust: bool = False,
) -> Path:  # fmt: skip
    """Write the report of a run, of two runs, or of a sweep; gives where it is.

    Parameters
    ----------
    paths : a run folder, two of them, or a sweep folder; more than two runs are reported as a sweep is
    out : the file; default: `report.html` in the run's folder `analysis`, in the sweep's folder, else in this one
    svg : where to write a picture of a run beside it
    hops_most : so many events are drawn one by one at most; of more a share of all messages, each whole
    baseline : of a sweep, the label of the variant, or part of it, that the others are compared with
    trust : let runs name code from outside
    """
    sweep = len(paths) > 2 or any((Path(path) / DESCRIPTION).is_file() for path in paths)
    alone = len(paths) == 1 and not sweep
    if svg is not None and not alone:
        raise InvalidInput("--svg: a picture is of one run")
    if hops_most is not None and (hops_most < 1 or not alone):
        raise InvalidInput(f"--hops: at least one event, of one run (got {hops_most})")
    if baseline is not None and not sweep:
        raise InvalidInput("--baseline goes with a sweep")
    if sweep:
        here = Path(paths[0]) / NAME if len(paths) == 1 else Path(NAME)
        return written(many.report_of(paths, baseline), Path(out) if out is not None else here)
    runs = [open_run(path) for path in paths]
    if not alone:
        return written(two.report_of(runs, trust=trust), Path(NAME if out is None else out))
    run = runs[0]
    target = Path(out) if out is not None else run.path / "analysis" / NAME
    text = one.report_of(run, HOPS_MOST if hops_most is None else hops_most, trust=trust)
    if svg is not None:
        written(picture(run, trust=trust), Path(svg))
    return written(text, target)


def written(content: str | bytes, target: Path) -> Path:
    """The file appears whole or not at all."""
    with whole_file(target) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return target
