"""Message diagrams of run folders, for the command line and for findings of a hunt."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from analysis.spark.explain import opened
from analysis.spark.trace import service_number, services_of
from analysis.ways import plain, vector
from analysis.ways.deciding import decided
from analysis.ways.pair import Pair
from analysis.ways.rows import Picture, of_change, of_pair, of_way, of_window
from analysis.ways.told import Told
from analysis.ways.way import Way
from brokers.engine.runfolder import RunFolder
from brokers.errors import EnvironmentProblem, InvalidInput
from brokers.naming import message_id


def picture(
    path: str | PathLike[str],
    message: str | None = None,
    client: int | None = None,
    *,
    begin_ns: int | None = None,
    end_ns: int | None = None,
    service: str | None = None,
    trust: bool = False,
) -> Picture:
    """What happened to a message, with a client to what of it wants it too; or in a stretch of time, of a service."""
    run = opened(path)
    if message is not None:
        if begin_ns is not None or end_ns is not None:
            raise InvalidInput("a message or a stretch of time, not both")
        return _of_message(run, message, client, trust)
    scenario = run.manifest["scenario"]
    end = scenario["duration"] + scenario["drain"] if end_ns is None else end_ns
    begin = 0 if begin_ns is None else begin_ns
    if begin > end:
        raise InvalidInput("the stretch of time ends before it begins")
    services = services_of(run, trust=trust)
    number = 0 if service is None else service_number(services, service)
    return of_window(Told.of_run(run, services[number]), begin, end)


def _of_message(run: RunFolder, message: str, client: int | None, trust: bool) -> Picture:
    services = services_of(run, trust=trust)
    told = Told.of_run(run, services[0])
    key = message_id(message, told.nodes)
    for table, column in (("publications", "publication"), ("changes", "change")):
        for row in told.rows(table, **{column: key}):
            told = Told.of_run(run, services[row["service"]])
            if table == "changes":
                return of_change(told, row)
            if client is None:
                return of_way(Way(told, row))
            pair = Pair(told, row, client + told.nodes)
            return of_pair(pair, decided(pair))
    raise InvalidInput(f"{run.path}: nobody sent a message {message}")


def as_text(shown: Picture) -> str:
    """A diagram of characters."""
    return plain.drawn(shown)


def write_svg(shown: Picture, file: str | PathLike[str]) -> None:
    """A diagram as an SVG file."""
    try:
        Path(file).write_text(vector.drawn(shown), "utf-8")
    except OSError as error:
        raise EnvironmentProblem(f"cannot write {file}: {error.strerror}") from None
