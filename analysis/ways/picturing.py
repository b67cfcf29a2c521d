"""Message diagrams of run folders, for the command line and for findings of a hunt."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from analysis.spark.answered import answer_of, key_of, round_of
from analysis.spark.explain import opened
from analysis.spark.trace import service_number, services_of
from analysis.ways import plain, vector
from analysis.ways.deciding import decided
from analysis.ways.pair import Pair, when
from analysis.ways.round_told import ways_of
from analysis.ways.rounds import Round
from analysis.ways.rows import Picture, of_change, of_messages, of_pair, of_way, of_window
from analysis.ways.told import Told
from analysis.ways.way import Way
from brokers.engine.runfolder import RunFolder
from brokers.errors import EnvironmentProblem, InvalidInput


def picture(
    path: str | PathLike[str],
    message: str | None = None,
    client: int | None = None,
    *,
    begin_ns: int | None = None,
    end_ns: int | None = None,
    at_ns: int | None = None,
    service: str | None = None,
    trust: bool = False,
) -> Picture:
    """What happened to a message, with a client to what of it wants it too; or in a stretch of time, of a service.

    Of a query that a server answers, `at_ns` says when it was due.
    """
    run = opened(path)
    if message is not None:
        if begin_ns is not None or end_ns is not None:
            raise InvalidInput("a message or a stretch of time, not both")
        return _of_message(run, message, client, at_ns, trust)
    scenario = run.manifest["scenario"]
    end = scenario["duration"] + scenario["drain"] if end_ns is None else end_ns
    begin = 0 if begin_ns is None else begin_ns
    if begin > end:
        raise InvalidInput("the stretch of time ends before it begins")
    services = services_of(run, trust=trust)
    number = 0 if service is None else service_number(services, service)
    return of_window(Told.of_run(run, services[number]), begin, end)


def _of_message(run: RunFolder, message: str, client: int | None, at_ns: int | None, trust: bool) -> Picture:
    services = services_of(run, trust=trust)
    told = Told.of_run(run, services[0])
    key = key_of(message, told.names)
    answer = answer_of(run, services, key)
    if at_ns is not None or (answer is not None and client is not None):
        return of_round(round_of(run, services, key, at_ns, client))
    if answer is not None:
        return of_way(Way(Told.of_run(run, services[answer["service"]]), {**answer, "client": answer["broker"]}))
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


def of_round(round: Round) -> Picture:
    """A query in a round: how it came to the server, how the word on who listens came, and the answers."""
    ways, changes = ways_of(round)
    types = {*round.told.kind.changes, round.told.explaining.listens}
    title = f"{round.name} at {when(round.at_ns)}"
    return of_messages(round.told, title, ways, changes, types, round.version)


def as_text(shown: Picture) -> str:
    """A diagram of characters."""
    return plain.drawn(shown)


def write_svg(shown: Picture, file: str | PathLike[str]) -> None:
    """A diagram as an SVG file."""
    try:
        Path(file).write_text(vector.drawn(shown), "utf-8")
    except OSError as error:
        raise EnvironmentProblem(f"cannot write {file}: {error.strerror}") from None
