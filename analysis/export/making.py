"""`export`: a run as files for other programs."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import NamedTuple

from analysis.export.asked import Asked
from analysis.export.csv import write_csv
from analysis.export.files import refuse_to_replace, whole_file
from analysis.export.graphml import write_graphml
from analysis.export.pcapng import write_pcapng
from analysis.export.perfetto import EVENTS_MOST, write_perfetto
from brokers.engine.runfolder import open_run
from brokers.errors import InvalidInput

FORMATS = {"csv": "csv", "perfetto": "trace.json", "pcapng": "hops.pcapng", "graphml": "overlay.graphml"}


class Exported(NamedTuple):
    """A file, and what is in it."""

    path: Path
    told: str


def export(
    path: str | PathLike[str], to: str, out: str | PathLike[str] | None = None, *, tables: Sequence[str] = (),
    named: bool = False, since: str | int | None = None, until: str | int | None = None,
    services: Sequence[str | int] = (), limit: int | None = None, force: bool = False, trust: bool = False,
) -> list[Exported]:  # fmt: skip
    """Write a run, or a part of it, in a format that other programs read; gives each file with a word about it.

    Parameters
    ----------
    path : a run folder
    to : csv, perfetto, pcapng or graphml
    out : the file, of csv the folder; default: in the run's folder `analysis`
    tables : of csv, which; default: all
    named : of csv, names in place of ids
    since, until : simulated time from the first up to before the second, as in "2.5 s"
    services : only these
    limit : of perfetto, about so many events; of more a share of all messages, each whole
    force : replace what is there
    trust : let the run name code from outside, for names of types
    """
    if to not in FORMATS:
        raise InvalidInput(f"--to {to}: there are {', '.join(FORMATS)}")
    for given, name, belongs in ((tables, "--table", "csv"), (named, "--named", "csv"), (limit, "--limit", "perfetto")):
        if given and to != belongs:
            raise InvalidInput(f"{name} goes with --to {belongs}")
    if limit is not None and limit < 1:
        raise InvalidInput(f"--limit: at least one event (got {limit})")
    run = open_run(path)
    asked = Asked.of(run, since, until, tuple(services))
    target = Path(out) if out is not None else run.path / "analysis" / FORMATS[to]
    if to == "csv":
        return _csv(asked, target, tables or run.tables(), named, force, trust)
    refuse_to_replace(target, force)
    with whole_file(target) as file:
        if to == "perfetto":
            told = write_perfetto(asked, file, EVENTS_MOST if limit is None else limit, trust=trust)
        else:
            told = (write_pcapng if to == "pcapng" else write_graphml)(asked, file)
    return [Exported(target, told)]


def _csv(asked: Asked, folder: Path, names: Sequence[str], named: bool, force: bool, trust: bool) -> list[Exported]:
    if folder.exists() and not folder.is_dir():
        raise InvalidInput(f"{folder} is no folder; csv writes a file for each table into one")
    if not names:
        level = asked.run.manifest["trace_level"]
        raise InvalidInput(f"{asked.run.path} has no table to write: its trace level is {level!r}; run it with summary "
                           "or more")  # fmt: skip
    chosen = {folder / f"{name}.csv": asked.table(name) for name in dict.fromkeys(names)}
    for target in chosen:
        refuse_to_replace(target, force)
    found = []
    with contextlib.ExitStack() as stack:  # all of them appear, or none
        for target, table in chosen.items():
            rows = write_csv(table.named(trust=trust) if named else table, stack.enter_context(whole_file(target)))
            found.append(Exported(target, f"{rows:,} rows"))
    return found
