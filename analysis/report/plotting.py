"""`plot`: figures of runs and sweeps, each as a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from analysis.export.files import data_by_us, refuse_to_replace, written_by_us
from analysis.report import carrying, many, overlays, spacetime, two
from analysis.report.figures import KINDS, METRICS_OF_MAPS, Figure, map_of
from analysis.report.gather import Gathered, gather
from analysis.report.joining import BANDS, STUDENT, Group, joined, variants
from analysis.report.making import written
from analysis.report.paper import FORMATS, STYLES, drawn
from analysis.report.places import places
from analysis.report.sampling import HOPS_MOST
from analysis.report.views import View
from analysis.spark.stretches import span_of
from brokers.engine.runfolder import RunFolder, open_run
from brokers.errors import InvalidInput
from scenarios.many.compare import Comparison, Row, compare
from scenarios.many.diff import diff
from scenarios.problems import did_you_mean

OF_METRICS = {
    "means": "a metric of each variant, with its interval (--metric)",
    "differences": "a metric of each variant less that of the first (--metric)",
    "grid": "a metric over two things that vary, in panels over a third (--metric)",
}


class Viewed(NamedTuple):
    """A kind of figure of single messages: what it shows, the tables that it needs, and what makes it."""

    prose: str
    tables: Callable[[View], tuple[str, ...]]
    make: Callable[..., Figure | None]
    takes: tuple[str, ...]  # of a view, beside the service


VIEWS = {
    "overlay": Viewed(
        "the overlay at a time (--at) or over the run: --metric traffic, load, tables or waste; a --message's way",
        overlays.tables_of, overlays.overlay, ("metric", "at", "message"),
    ),
    "space-time": Viewed(
        "brokers over time, messages as lines: a stretch of time (--from, --to), or a --message's way",
        spacetime.tables_of, spacetime.space_time, ("from", "to", "message"),
    ),
    "link": Viewed(
        "what one link carried over time, in both directions (--link FROM TO)",
        carrying.tables_of, carrying.carrying, ("link",),
    ),
}  # fmt: skip
ALL = "all"
KIND = "{kind}"
_MAP, OVERLAY = "map", "overlay"
_NAMED_MOST = 5  # runs in a message


class Asked(NamedTuple):
    """What to draw of which runs."""

    paths: Sequence[str | PathLike[str]]
    service: str | None = None
    metric: str | None = None
    baseline: str | None = None
    band: str = STUDENT
    each: bool = False
    trust: bool = False
    notice: Callable[[str], None] = lambda sentence: None
    part: int | None = None
    at_ns: int | None = None
    begin_ns: int | None = None
    end_ns: int | None = None
    message: str | None = None
    link: tuple[str, str] | None = None

    @property
    def view(self) -> View:
        return View(self.metric, self.service, self.at_ns, self.begin_ns, self.end_ns, self.message, self.link)


class Plotted(NamedTuple):
    """A figure that was written."""

    kind: str
    path: Path
    said: str


def known() -> dict[str, str]:
    """Every kind, with what it shows."""
    of_runs = {name: kind.prose for name, kind in (KINDS | VIEWS).items()}
    return of_runs | OF_METRICS


def plot(
    paths: Sequence[str | PathLike[str]], kinds: Sequence[str], out: str | PathLike[str] | None = None, *,
    style: str = "paper", data: bool = False, service: str | None = None, metric: str | None = None,
    baseline: str | None = None, band: str = STUDENT, each: bool = False, trust: bool = False,
    notice: Callable[[str], None] = lambda sentence: None, part: int | None = None, at_ns: int | None = None,
    begin_ns: int | None = None, end_ns: int | None = None, message: str | None = None,
    link: tuple[str, str] | None = None, force: bool = False,
) -> list[Plotted]:  # fmt: skip
    """Draw figures of runs; gives the files.

    Parameters
    ----------
    paths : run folders and sweep folders
    kinds : what to draw, or `all`: whatever the trace has enough for
    out : a file ending in .pdf, .svg, .png, or .csv for the data alone; `{kind}` in it stands for the kind
    style : paper, a column wide with 8 points, or screen
    data : write what is drawn as CSV, too, beside the figure
    service : of this service only
    metric : of means and differences; of a map: messages or deliveries; of an overlay: traffic, load, tables or waste
    baseline : the label of the variant that others are compared with, or part of it
    band : around several runs of a variant: student, bootstrap, simultaneous, range or none
    each : a line for each run in place of a band
    trust : let runs name code from outside
    notice : told what was left out
    part : of a map of two runs: of the whole time this sixth alone, from 1 on
    at_ns : of an overlay: around this time, in place of the whole run
    begin_ns, end_ns : of space and time: from when, and until when; default: the first few links' delays
    message : of an overlay, and of space and time: the way of this message
    link : of what a link carried: the brokers at its ends
    force : replace what is there, if it is no such figure or data either
    """
    target = str(f"{KIND}.pdf" if out is None else out)
    form = _form(target)
    if style not in STYLES:
        raise InvalidInput(f"--style: no style {style!r}; {did_you_mean(style, STYLES)}")
    if band not in BANDS:
        raise InvalidInput(f"--band: no band {band!r}; {did_you_mean(band, BANDS)}")
    chosen = [*KINDS, *VIEWS] if ALL in kinds else list(dict.fromkeys(kinds))
    for kind in chosen:
        if kind not in known():
            raise InvalidInput(f"--kind: no kind {kind!r}; {did_you_mean(kind, known())}; --list explains them")
    if len(chosen) > 1 and KIND not in target:
        raise InvalidInput(f"-o: {len(chosen)} kinds need a name each; put {KIND} into it, as in {KIND}.pdf")
    asked = Asked(
        paths, service, metric, baseline, band, each, trust, notice, part, at_ns, begin_ns, end_ns, message,
        link,
    )  # fmt: skip
    found, files = [], []
    for made in figures(asked, chosen, lenient=ALL in kinds):
        file = Path(target.replace(KIND, made.kind))
        found.append(Plotted(made.kind, file, _said(made, band)))
        if form != "csv":
            refuse_to_replace(file, force, written_by_us)
            files.append((file, lambda made=made: drawn(made, STYLES[style], form)))
        if form == "csv" or data:
            table = table_of(made)
            file = file.with_suffix(".csv")
            refuse_to_replace(file, force, data_by_us(table.partition("\n")[0]))
            files.append((file, lambda table=table: table))
    for file, content in files:
        written(content(), file)
    return found


def _form(target: str) -> str:
    form = Path(target).suffix.removeprefix(".").lower()
    if form not in (*FORMATS, "csv"):
        raise InvalidInput(f"-o: a file that ends in .{', .'.join(FORMATS)} or .csv (got {target!r})")
    return form


def _said(made: Figure, band: str) -> str:
    return f"{made.said} Bands: {BANDS[band].told}, over n runs." if made.band else made.said


def table_of(made: Figure) -> str:
    """What a figure shows, as CSV: a row for each point of each series."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    if made.data is not None:
        rows.writerows([made.data[0], *made.data[1]])
        return text.getvalue()
    rows.writerow(("series", made.across.label or "place", made.up.label, "low", "high", "runs"))
    for line in made.series:
        for at, (x, y) in enumerate(line.points):
            ends = [repr(side[at][1]) if side else "" for side in (line.low, line.high)]
            rows.writerow((line.name, repr(float(x)), repr(float(y)), *ends, line.runs))
    return text.getvalue()


def figures(asked: Asked, kinds: Sequence[str], lenient: bool = False) -> Iterator[Figure]:
    """The data of each kind; `lenient` passes over what a run has nothing for, and says so."""
    of_runs = [kind for kind in kinds if kind in KINDS or kind in VIEWS]
    for kind in (kind for kind in kinds if kind in OF_METRICS):
        yield _of_metric(asked, kind)
    if not of_runs:
        return
    groups, notes = variants(asked.paths, asked.each)
    for note in notes:
        asked.notice(note)
    runs = [[open_run(path) for path in members] for _, members in groups]
    flat = [run for members in runs for run in members]
    there = []
    for kind in of_runs:
        try:
            _check(kind, flat, asked)
        except InvalidInput as error:
            if not lenient:
                raise
            asked.notice(f"left out {kind}: {error}")
        else:
            there.append(kind)
    tables = {table for kind in there for table in (*_tables_of(kind, asked), *overlays.drawn_if_there(asked.view))}
    span = max(map(span_of, flat)) if len(flat) > 1 else None
    gathered = [
        Group(label, [gather(run, HOPS_MOST, trust=asked.trust, tables=tables, span_ns=span) for run in members])
        for (label, _), members in zip(groups, runs)
    ]
    any_made = False
    for kind in there:
        made = _figure(kind, gathered, asked)
        if made is not None:
            any_made = True
            yield made
        elif lenient:
            asked.notice(f"left out {kind}: there is nothing to draw")
        else:
            raise InvalidInput(f"--kind {kind}: there is nothing to draw: {flat[0].path} has none of that")
    if not any_made:
        levels = ", ".join(f"{run.path} has trace level {run.manifest['trace_level']!r}" for run in flat[:_NAMED_MOST])
        raise InvalidInput(f"--kind {ALL}: there is nothing to draw of any kind: {levels}; summary or more has tables")


def _check(kind: str, runs: Sequence[RunFolder], asked: Asked) -> None:
    most = 2 if kind == _MAP else 1
    joins = kind in KINDS and KINDS[kind].joins
    if not joins and len(runs) > most:
        several = " or two" if most == 2 else ""
        raise InvalidInput(f"--kind {kind}: it is of one run{several} (got {len(runs)})")
    if kind == OVERLAY:
        overlays.check_metric(asked.metric)
    elif asked.metric is not None and kind != _MAP:
        raise InvalidInput(f"--metric goes with {', '.join(OF_METRICS)}, {OVERLAY} and {_MAP}")
    if asked.part is not None and asked.metric not in (None, METRICS_OF_MAPS[0]):
        raise InvalidInput(f"--part: maps by stretches of time are of messages (got --metric {asked.metric})")
    if asked.part is not None and (kind != _MAP or len(runs) != 2 or not 1 <= asked.part <= two.PERIODS):
        raise InvalidInput(f"--part: a map of two runs has parts 1 to {two.PERIODS} (got {asked.part})")
    _check_view(kind, asked)
    for run in runs:
        run.check(_tables_of(kind, asked))


def _check_view(kind: str, asked: Asked) -> None:
    given = {"at": asked.at_ns, "from": asked.begin_ns, "to": asked.end_ns, "message": asked.message,
             "link": asked.link}  # fmt: skip
    takes = VIEWS[kind].takes if kind in VIEWS else ()
    for name, value in given.items():
        if value is not None and name not in takes:
            where = " and ".join(each for each, view in VIEWS.items() if name in view.takes)
            raise InvalidInput(f"--{name} goes with {where} (got --kind {kind})")
    if kind == "link" and asked.link is None:
        raise InvalidInput("--kind link: say which, by the brokers at its ends, as in --link b0 b1")
    if asked.message is not None and (asked.begin_ns is not None or asked.end_ns is not None):
        raise InvalidInput("--message: its own way tells from when to when; leave out --from and --to")


def _tables_of(kind: str, asked: Asked) -> tuple[str, ...]:
    if kind in VIEWS:
        return VIEWS[kind].tables(asked.view)
    return KINDS[kind].tables if asked.part is None else (*KINDS[kind].tables, "hops")


def _figure(kind: str, groups: Sequence[Group], asked: Asked) -> Figure | None:
    if kind in VIEWS:
        made: Figure | None = VIEWS[kind].make(groups[0].runs[0], asked.view, trust=asked.trust)
        return None if made is None else made._replace(kind=kind)
    if kind != _MAP:
        return joined(kind, groups, service=asked.service, band=asked.band)
    metric = asked.metric or METRICS_OF_MAPS[0]
    if metric not in METRICS_OF_MAPS:
        raise InvalidInput(f"--metric: a map is of {' or '.join(METRICS_OF_MAPS)} (got {metric!r})")
    found = [run for group in groups for run in group.runs]
    return (map_of(found[0], metric) if len(found) == 1 else _differences(found, metric, asked))._replace(kind=_MAP)


def _differences(found: Sequence[Gathered], metric: str, asked: Asked) -> Figure:
    a, b = (each.network for each in found)
    if not two.same_overlay(a, b):
        raise InvalidInput("--kind map: the two runs are of different overlays; there is no map of their differences")
    where = places(found[0].run, a, trust=asked.trust)
    if asked.part is not None:
        return two.difference_in(found, where, asked.part)
    parted = two.broker_of(diff(found[0].run.path, found[1].run.path), a.brokers)
    return two.difference(found, where, metric, parted)


def _of_metric(asked: Asked, kind: str) -> Figure:
    """Means or differences of a metric of a sweep."""
    if asked.metric is None:
        raise InvalidInput(f"--kind {kind}: say which metric, as in --metric network.messages")
    found = compare(asked.paths, baseline=asked.baseline)
    rows = {many.full_name(section, row): row for section in found.sections for row in section.rows}
    if asked.metric not in rows:
        raise InvalidInput(f"--metric: {asked.metric!r} was not measured; {did_you_mean(asked.metric, rows)}")
    for note in found.notes:
        asked.notice(note)
    made = _METRIC_MAKERS[kind](found, rows[asked.metric])
    if made is None:
        made = "there is one variant, which differs from none"
    if isinstance(made, str):
        raise InvalidInput(f"--kind {kind}: {made}")
    return made


_METRIC_MAKERS: dict[str, Callable[[Comparison, Row], Figure | str | None]] = {
    "means": many.means, "differences": many.differences, "grid": many.grid,
}  # fmt: skip
