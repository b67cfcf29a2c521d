"""Charts of what brokers of GossipSub thought of their neighbours, where a run was watched (`watch_ticks`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from analysis.report.svg import Axis, Line, Shade, lines
from analysis.report.words import number, plain, share
from brokers.engine.runfolder import RunFolder
from brokers.errors import RunDamaged
from protocols.gossip.attacked import Series, scores_over_time

ROWS_MOST = 5_000_000  # of the table `scores`
_READ = {"attackers": ("service", "broker", "entry", "behaviour"),
         "scores": ("service", "broker", "time_ns", "attacker", "topic", "mesh", "score")}  # fmt: skip


class Picture(NamedTuple):
    """A picture, what to know about it, and its figures."""

    svg: str
    said: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def watched(run: RunFolder) -> dict[int, list[Series]]:
    """The series of each service that was watched, by its number; nothing of a run with too many rows."""
    there = run.manifest["tables"]
    if "scores" not in there or not 0 < run.rows("scores") <= ROWS_MOST:
        return {}
    tables = {name: _columns(run, name) if name in there else _nobody() for name in _READ}
    if not np.isfinite(tables["scores"]["score"]).all():
        raise RunDamaged.at(run.path, "table 'scores' has a score that is no number")
    services = range(len(run.manifest["scenario"]["services"]))
    found = {}
    for service in services:
        mine = {
            name: {key: column[columns["service"] == service] for key, column in columns.items()}
            for name, columns in tables.items()
        }
        if series := scores_over_time(mine):
            found[service] = series
    return found


def pictures(run: RunFolder, names: Sequence[str], across: Axis, shades: Sequence[Shade]) -> Iterator[Picture]:
    """Two for each service: scores by class of neighbours, and whom meshes lead to."""
    for service, series in watched(run).items():
        told = [(plain(each.name), each, (each.time_ns / 1e9).tolist()) for each in series]
        drawn = [
            Line(f"{name}, {what}", list(zip(at, values.tolist())))
            for name, each, at in told
            for what, values in (("median", each.median), ("5 %", each.low), ("95 %", each.high))
        ]
        rows = tuple(
            (name, number(float(each.median[0])), number(float(each.median[-1])), number(float(each.low.min())))
            for name, each, _ in told
        )
        svg = lines(f"{names[service]}: scores of neighbours", across, Axis("score"), drawn, shades)
        said = "What honest brokers thought of their neighbours, by what those are."
        yield Picture(svg, said, ("neighbours", "median at first", "at last", "least of 5 %"), rows)
        led = [Line(name, list(zip(at, each.in_mesh.tolist()))) for name, each, at in told]
        title = f"{names[service]}: whom honest meshes lead to"
        svg = lines(title, across, Axis("share", share, most=1.0), led, shades)
        ends = tuple((name, share(float(each.in_mesh[0])), share(float(each.in_mesh[-1]))) for name, each, _ in told)
        yield Picture(svg, "Of all links in meshes of honest brokers.", ("neighbours", "at first", "at last"), ends)


def _columns(run: RunFolder, table: str) -> dict[str, Any]:
    read = run.read(table, list(_READ[table]))
    return {name: read[name].to_numpy(zero_copy_only=False) for name in _READ[table]}


def _nobody() -> dict[str, Any]:
    """The columns of `attackers` where nobody attacks."""
    none = np.empty(0, np.int64)
    return {"service": none, "broker": none, "entry": none, "behaviour": np.empty(0, object)}
