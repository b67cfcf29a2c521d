"""`report`: a run, two runs or a sweep, written as one HTML file."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from analysis.export.files import refuse_to_replace, whole_file, written_by_us
from analysis.report import many, one, two
from analysis.report.picture import picture
from analysis.report.sampling import HOPS_MOST
from brokers.engine.runfolder import RunFolder, open_run
from brokers.errors import InvalidInput
from scenarios.many.carry import DESCRIPTION

NAME = "report.html"


def report(
    paths: Sequence[str | PathLike[str]], out: str | PathLike[str] | None = None, *,
    svg: str | PathLike[str] | None = None, hops_most: int | None = None, baseline: str | None = None,
    trust: bool = False, force: bool = False,
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
    force : replace what is there, if it is no report or picture either
    """
    sweep = len(paths) > 2 or any((Path(path) / DESCRIPTION).is_file() for path in paths)
    alone = len(paths) == 1 and not sweep
    if svg is not None and not alone:
        raise InvalidInput("--svg: a picture is of one run")
    if hops_most is not None and (hops_most < 1 or not alone):
        raise InvalidInput(f"--hops: at least one event, of one run (got {hops_most})")
    if baseline is not None and not sweep:
        raise InvalidInput("--baseline goes with a sweep")
    runs = [] if sweep else [open_run(path) for path in paths]
    home = _home(paths, runs)
    target = Path(out) if out is not None else (home or Path()) / NAME
    refuse_to_replace(target, force or (out is None and home is not None), written_by_us)
    if svg is not None:
        refuse_to_replace(Path(svg), force, written_by_us)
    if sweep:
        return written(many.report_of(paths, baseline), target)
    if not alone:
        return written(two.report_of(runs, trust=trust), target)
    run = runs[0]
    text = one.report_of(run, HOPS_MOST if hops_most is None else hops_most, trust=trust)
    if svg is not None:
        written(picture(run, trust=trust), Path(svg))
    return written(text, target)


def _home(paths: Sequence[str | PathLike[str]], runs: Sequence[RunFolder]) -> Path | None:
    """The folder in which a report has its place, if there is one: what is called so there is one."""
    if len(paths) > 1:
        return None
    return runs[0].path / "analysis" if runs else Path(paths[0])


def written(content: str | bytes, target: Path) -> Path:
    """The file appears whole or not at all."""
    with whole_file(target) as file:
        file.write(content.encode() if isinstance(content, str) else content)
    return target
