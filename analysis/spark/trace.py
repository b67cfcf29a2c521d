"""The trace of a run as DataFrames.

Every file that Spark will get is compared with the manifest before Spark is started: size, sha256, footer. What
differs is damage, and named; it never becomes a verdict.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from analysis.spark.graph import Network
from analysis.spark.outages import outages
from brokers.contract import NEVER, Guarantees, Kind
from brokers.engine.linkrows import COLUMN
from brokers.engine.manifest import refuse_links
from brokers.engine.runfolder import RunFolder, open_run
from brokers.engine.trace_schema import TABLES
from brokers.errors import EnvironmentProblem, InvalidInput
from brokers.names import found_again
from brokers.promises import Faced, promised
from brokers.words import words_in
from scenarios.many.metrics import stood_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAULTS = (  # what promises depend on
    "what", "broker", "link", "begin_ns", "end_ns", "state", "delay_ns", "loss", "twice", "begins",
)  # fmt: skip
ANALYSIS = "analysis"  # the folder beside the tables, for what is computed from them
STAMP = "analyze.json"  # in it: of which run its tables are, and how they were made


@dataclass(frozen=True)
class Service:
    """A service of a run, as its manifest describes it."""

    number: int
    name: str
    kind_name: str
    protocol_name: str
    kind: Kind
    protocol: Any
    options: dict[str, Any]
    run: RunFolder

    def guarantees(self, network: Network) -> Guarantees:
        """What the protocol declares, on this overlay and under these faults."""
        links = network.source[::2], network.target[::2], network.delay_ns[::2]
        latent = None if network.latent is None else network.latent[::2]
        return promised(self.protocol, self.options, network, Faced.read(self.faults(), self.detect_ns, *links, latent))

    def faults(self) -> dict[str, Any]:
        """The table of faults, by column."""
        return faults_of(self.run)

    @property
    def opens(self) -> bool:
        """Whether its brokers may open latent links."""
        return bool(getattr(self.protocol, "opens", False))

    @property
    def detect_ns(self) -> int:
        """After what time brokers were told of links that went down."""
        detect = self.run.manifest["scenario"].get("faults", {}).get("detect", "never")
        return NEVER if detect == "never" else int(detect)


def faults_of(run: RunFolder) -> dict[str, Any]:
    """The table of faults, by column; empty where the trace level has none."""
    if "faults" not in run.manifest["tables"]:
        return dict.fromkeys(FAULTS, ())
    table = run.read("faults", FAULTS)
    return {name: table[name].to_numpy() for name in FAULTS}


def checked(path: str | PathLike[str], tables: Collection[str] | None = None) -> RunFolder:
    """A finished run with these tables (default: what an audit reads) as the run wrote them."""
    run = open_run(path)
    wanted = set(run.model_tables()) - {"samples"} if tables is None else tables
    run.check([name for name in run.tables() if name in wanted])
    return run


def rows_of(run: RunFolder) -> int:
    """How many rows the trace of a run has, over all tables."""
    return sum(table["rows"] for table in run.manifest["tables"].values())


def services_of(run: RunFolder, *, trust: bool = False) -> list[Service]:
    """The services of a run, in the order of its scenario; `trust` lets the run name code from outside."""
    found = []
    beside = (run.path / run.manifest["engine"].get("scenario_folder", ".")).resolve()
    sections = run.manifest["scenario"]["services"]
    for number, (section, was) in enumerate(zip(sections, stood_for(run.path, run.manifest), strict=True)):
        try:
            kind, protocol = (
                found_again(group, section[key], was.get(key), trust=trust, folder=beside).object
                for group, key in (("kinds", "kind"), ("protocols", "protocol"))
            )
        except InvalidInput as error:
            raise InvalidInput(f"{run.path}: service {section['name']!r}: {error}") from error
        known = set(kind.Params.model_fields)
        params = {key: value for key, value in section.items() if key in known}
        params |= words_in(run, number)
        found.append(
            Service(
                number,
                section["name"],
                section["kind"],
                section["protocol"],
                kind(params),
                protocol,
                section.get("options", {}),
                run,
            )
        )
    return found


def network_of(run: RunFolder, services: Iterable[Service]) -> Network:
    """The overlay of a run, whose latent links count where a service may open some."""
    return Network.of(run, opens=any(service.opens for service in services))


class Trace:
    """A run, for Spark; without one, all but its tables as DataFrames."""

    def __init__(self, spark: SparkSession | None, run: RunFolder, *, trust: bool = False) -> None:
        self.spark: Any = spark
        self.run = run
        self.trust = trust
        self._made: dict[str, DataFrame] = {}
        self._making = RLock()  # services may be audited at the same time

    @property
    def level(self) -> str:
        return self.run.manifest["trace_level"]

    def has(self, table: str) -> bool:
        """Whether the trace level kept this table."""
        return table in self.run.manifest["tables"]

    def need(self, table: str, what: str) -> str | None:
        """What to tell where a table is missing; None where it is there."""
        if self.has(table):
            return None
        return f"{what} needs trace level {TABLES[table].level!r}, this run has {self.level!r}"

    def table(self, name: str) -> DataFrame:
        """A table of the trace."""
        parts = [glob_safe(path) for path in self.run.parts(name)]
        return self.once(f"table {name}", lambda: self._by_rows(undivided(self.spark.read.parquet(*parts))))

    def _by_rows(self, frame: DataFrame) -> DataFrame:
        """With links called by their rows."""
        from pyspark.sql import functions as F

        other = self.run.link_rows
        if other is None or COLUMN not in frame.columns:
            return frame
        pairs = zip(other.number.tolist(), other.row.tolist())
        called = self.spark.createDataFrame(list(pairs), f"{COLUMN} int, link_row int")
        row = F.coalesce("link_row", COLUMN).alias(COLUMN)
        columns = [row if column == COLUMN else F.col(column) for column in frame.columns]
        return frame.join(F.broadcast(called), COLUMN, "left").select(*columns)

    def once(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """What is the same for all services, made for the first that asks."""
        with self._making:
            if name not in self._made:
                self._made[name] = make()
            return self._made[name]

    @cached_property
    def services(self) -> list[Service]:
        return services_of(self.run, trust=self.trust)

    @cached_property
    def network(self) -> Network:
        return network_of(self.run, self.services)

    @property
    def duration_ns(self) -> int:
        return self.run.manifest["scenario"]["duration"]

    @cached_property
    def outages(self) -> list[tuple[int, int]]:
        """From when until when something was broken."""
        faults = faults_of(self.run)
        return outages(faults["begin_ns"], faults["end_ns"])

    @property
    def end_ns(self) -> int:
        """What arrived after this was not handled any more."""
        return self.duration_ns + self.run.manifest["scenario"]["drain"]

    @property
    def in_flight_at_end(self) -> int:
        return self.run.manifest["engine"]["metrics"]["network"]["in_flight_at_end"]

    def write(self, frame: DataFrame, name: str) -> DataFrame:
        """Keep a result beside the trace, and read it back from there."""
        path = self.folder() / name
        frame.write.mode("overwrite").parquet(glob_safe(path, escape=False))
        return self.spark.read.parquet(glob_safe(path))

    def folder(self) -> Path:
        """Where results are kept."""
        return analysis_folder(self.run)


def in_one_partition(spark: SparkSession) -> bool:
    """Whether the session works on so few rows (`session`) that dividing them is not worth it."""
    return spark.conf.get("spark.sql.shuffle.partitions") == "1"


def undivided(frame: DataFrame) -> DataFrame:
    """In one partition, if the session has no more for its work: then nothing after it is shuffled.

    For what comes from outside, for unions, and for inner joins that are joined further, which Spark does not take to
    be in one though they are; all else keeps that it is in one.
    """
    return frame.coalesce(1) if in_one_partition(frame.sparkSession) else frame


def analysis_folder(run: RunFolder) -> Path:
    """<run>/analysis, made where it is not there yet."""
    path = run.path / ANALYSIS
    refuse_links(run.path)  # what is written there must not land elsewhere
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise EnvironmentProblem(f"cannot write to {path}: {error.strerror}") from None
    return path


def write_json(run: RunFolder, name: str, data: Mapping[str, Any]) -> None:
    """Keep plain data as <run>/analysis/<name>; a reader sees all of it or nothing."""
    path = analysis_folder(run) / name
    unfinished = path.with_name(f"_tmp-{name}")
    try:
        unfinished.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
        os.replace(unfinished, path)
    except OSError as error:
        raise EnvironmentProblem(f"cannot write {path}: {error.strerror}") from None


def glob_safe(path: Path, escape: bool = True) -> str:
    """A path as Spark reads it: on the local file system whatever its default is, and no pattern."""
    text = re.sub(r"([\\{}\[\]*?])", r"\\\1", str(path)) if escape else str(path)
    return f"file://{text}"


def service_number(services: list[Service], name: str) -> int:
    """The number of the service with this name."""
    for service in services:
        if service.name == name:
            return service.number
    raise InvalidInput(f"no service {name!r}; there are {', '.join(s.name for s in services)}")
