"""What a run cost and how well it served: aggregates of its trace, kept as Parquet beside it.

`analyze` makes these tables under <run>/analysis/<name>/; docs/analysis.md describes their columns.

    services    deliveries and latency per service          clients, brokers   the same per client, per broker
    load        what each broker did                        links              what went over each link
    balance     Gini coefficient and maximum over mean      cost               messages and bytes per delivery
    hops        how many links deliveries came over         stretch            latency over the quickest path's
    tables      table sizes per broker                      queues             waiting per broker
    series      the run over time

Rules:
- Percentiles are values that occur, the smallest with that share at or below it: exact up to 10,000 values,
  above that within a ten-thousandth of the rank.
- With a warm-up T, publications sent before T and their deliveries are left out, and events, samples and time
  before T. `load`, `links` and `balance` are totals of the whole run, which the trace does not divide.
- What the trace level left out is said, and the rest is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.spark.trace import Trace, analysis_folder, checked, glob_safe, rows_of, services_of
from brokers.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

ACCURACY = 10_000
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
PAIRS_MAX = 4_000_000  # of publishing broker and broker, for which distances are computed
SERIES_ROWS_MAX = 100
SHOWN_ROWS_MAX = 10
_WIDTHS_NS = [10**k * f for k in range(6, 18) for f in (1, 2, 5)]
_HOP_ROWS_PER_TASK = 500_000


@dataclass
class Analysis:
    """The aggregates of a run: where they are, and the first rows of each."""

    run: str
    folder: Path
    warm_up_ns: int
    notes: list[str] = field(default_factory=list)
    shown: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """Plain data, for --json."""
        tables = {
            name: {"path": str(self.folder / name), "rows": self.rows[name], "first": shown}
            for name, shown in self.shown.items()
        }
        return {"run": self.run, "warm_up_ns": self.warm_up_ns, "notes": self.notes, "tables": tables}


class _Aggregates:
    """The tables of one run, as DataFrames."""

    def __init__(self, trace: Trace, warm_up_ns: int) -> None:
        self.trace = trace
        self.warm_up_ns = warm_up_ns
        self.notes: list[str] = []

    def deliveries(self) -> DataFrame:
        from pyspark.sql import functions as F

        return (
            self.trace.table("deliveries")
            .filter(F.col("published_ns") >= self.warm_up_ns)
            .withColumn("latency_ns", F.col("time_ns") - F.col("published_ns"))
        )

    def after_warm_up(self, table: str) -> DataFrame:
        from pyspark.sql import functions as F

        return self.trace.table(table).filter(F.col("time_ns") >= self.warm_up_ns)

    # ---- deliveries and latency

    def services(self) -> DataFrame:
        from pyspark.sql import functions as F

        published = self.after_warm_up("publications").groupBy("service").agg(F.count("*").alias("publications"))
        names = self.trace.spark.createDataFrame(
            [(s.number, s.name) for s in self.trace.services], "service smallint, name string"
        )
        delivered = self.deliveries().groupBy("service").agg(*_distribution("latency_ns", "deliveries"))
        return (
            names.join(published, "service", "left")
            .join(delivered, "service", "left")
            .fillna(0, ["publications", "deliveries"])
            .withColumn("deliveries_per_publication", F.col("deliveries") / F.nullif(F.col("publications"), F.lit(0)))
            .orderBy("service")
        )

    def clients(self) -> DataFrame:
        from pyspark.sql import functions as F

        latency = _distribution("latency_ns", "deliveries")
        number = (F.col("client") - F.lit(self.trace.network.brokers)).alias("client")  # of the entity id
        return self.deliveries().groupBy("service", number, "broker").agg(*latency).orderBy("service", "client")

    def brokers(self) -> DataFrame:
        latency = _distribution("latency_ns", "deliveries")
        return self.deliveries().groupBy("service", "broker").agg(*latency).orderBy("service", "broker")

    # ---- load

    def load(self) -> DataFrame:
        from pyspark.sql import functions as F

        return (
            self.trace.table("brokers")
            .select("broker", "name", "messages", "deliveries", "busy_ns")
            .withColumn("utilisation", F.col("busy_ns") / F.lit(float(self.trace.duration_ns)))
            .orderBy(F.desc("messages"), "broker")
        )

    def links(self) -> DataFrame:
        from pyspark.sql import functions as F

        return (
            self.trace.table("links")
            .withColumn("utilisation", F.col("busy_ns") / F.lit(float(self.trace.duration_ns)))
            .orderBy(F.desc("bytes"), F.desc("messages"), "link")
        )

    def balance(self) -> DataFrame:
        brokers, links = self.trace.table("brokers"), self.trace.table("links")
        measured = [
            _evenness(brokers, "brokers", "messages"), _evenness(brokers, "brokers", "busy_ns"),
            _evenness(brokers, "brokers", "deliveries"), _evenness(links, "links", "messages"),
            _evenness(links, "links", "bytes"),
        ]  # fmt: skip
        result = measured[0]
        for each in measured[1:]:
            result = result.unionByName(each)
        return result

    def cost(self) -> DataFrame:
        """One row for all services; at level full one per service too, where bytes are not known."""
        from pyspark.sql import functions as F

        none = F.lit(None)
        sent = self.trace.table("links").agg(F.sum("messages").alias("messages"), F.sum("bytes").alias("bytes"))
        whole = self.trace.table("brokers").agg(F.sum("deliveries").alias("deliveries"))
        total = sent.crossJoin(whole).select(
            F.lit("all").alias("name"), "messages", none.cast("bigint").alias("publication_messages"), "bytes",
            "deliveries",
        )  # fmt: skip
        if self.trace.has("hops"):
            names = self.trace.spark.createDataFrame(
                [(s.number, s.name) for s in self.trace.services], "service smallint, name string"
            )
            hops = self.after_warm_up("hops").filter(F.col("link") >= 0)
            handled = hops.groupBy("service").agg(
                F.count("*").alias("messages"),
                F.count(F.when(self._publication_hop(), 1)).alias("publication_messages"),
            )
            delivered = self.deliveries().groupBy("service").agg(F.count("*").alias("deliveries"))
            each = names.join(handled, "service", "left").join(delivered, "service", "left").fillna(0)
            total = total.unionByName(each.withColumn("bytes", none.cast("bigint")).select(*total.columns))
        over = F.nullif(F.col("deliveries"), F.lit(0))
        return total.withColumns(
            {"messages_per_delivery": F.col("messages") / over, "bytes_per_delivery": F.col("bytes") / over}
        ).orderBy(F.col("name") != "all", "name")

    def _publication_hop(self) -> Column:
        from pyspark.sql import functions as F

        found = F.lit(False)
        for service in self.trace.services:
            mine = (F.col("service") == service.number) & F.col("type").isin(sorted(service.kind.publications))
            found = found | (mine & (F.col("kind") == 1))
        return found

    # ---- paths

    @cached_property
    def paths(self) -> DataFrame:
        """origin, broker, hops and delay_ns of the quickest way, for brokers at which something was published."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        network = self.trace.network
        # At most as many rows as there are brokers.
        origins = sorted(r["broker"] for r in self.after_warm_up("publications").select("broker").distinct().collect())
        room = max(1, PAIRS_MAX // network.brokers)
        if len(origins) > room:
            self.notes.append(
                f"stretch: from {room:,} of the {len(origins):,} brokers at which something was published"
            )
            origins = [origins[i * len(origins) // room] for i in range(room)]
        n = network.brokers
        table = pa.table(
            {
                "origin": np.repeat(np.array(origins, np.int32), n),
                "broker": np.tile(np.arange(n, dtype=np.int32), len(origins)),
                "shortest_ns": _stacked([network.distances(o) for o in origins]),
                "shortest_hops": _stacked([network.distances(o, "hops") for o in origins]).astype(np.int32),
            }
        )
        folder = analysis_folder(self.trace.run) / "paths"
        folder.mkdir(exist_ok=True)
        pq.write_table(table, folder / "part.parquet")
        return self.trace.spark.read.parquet(glob_safe(folder / "part.parquet"))

    def _with_origin(self) -> DataFrame:
        from pyspark.sql import functions as F

        publishers = self.trace.table("publications").select(
            F.col("client").alias("publisher"), F.col("broker").alias("origin")
        )
        deliveries = self.deliveries().withColumn("publisher", F.shiftright("publication", 32))
        return deliveries.join(publishers.distinct(), "publisher")

    def stretch(self) -> DataFrame:
        """Latency over that of the quickest path, for deliveries at another broker than that of the publisher."""
        from pyspark.sql import functions as F

        measured = self._with_origin().join(self.paths, ["origin", "broker"]).filter(F.col("shortest_ns") > 0)
        return (
            measured.withColumn("stretch", F.col("latency_ns") / F.col("shortest_ns"))
            .groupBy("service")
            .agg(*_distribution("stretch", "deliveries"), F.avg("shortest_hops").alias("shortest_hops_mean"))
            .orderBy("service")
        )

    def hops(self) -> DataFrame:
        """How many deliveries came over how many links, beside the fewest that lead there."""
        from pyspark.sql import functions as F

        depths = self._depths()
        found = self._with_origin().withColumnRenamed("time_ns", "finish_ns")
        found = found.join(depths, ["publication", "broker", "finish_ns"])
        found = found.join(self.paths, ["origin", "broker"], "left")
        return (
            found.groupBy("service", "hops")
            .agg(F.count("*").alias("deliveries"), F.avg("shortest_hops").alias("shortest_hops_mean"))
            .orderBy("service", "hops")
        )

    def _depths(self) -> DataFrame:
        """publication, broker, finish_ns, hops: how many links each handled copy of a publication came over."""
        from pyspark.sql import functions as F

        hops = self.after_warm_up("hops").filter(self._publication_hop() & (F.col("body") >= 0))
        tasks = max(2, self.trace.run.rows("hops") // _HOP_ROWS_PER_TASK)
        network = self.trace.network
        return (
            hops.select("body", "broker", "time_ns", "link", "finish_ns")
            .repartition(tasks, "body")
            .mapInArrow(
                depth_finder(network.source, network.delay_ns),
                "publication bigint, broker int, finish_ns bigint, hops int",
            )
        )

    # ---- tables and queues

    def tables(self) -> DataFrame:
        from pyspark.sql import functions as F

        return (
            self.after_warm_up("samples")
            .groupBy("service", "broker")
            .agg(
                F.avg("entries").alias("entries_mean"), F.max("entries").alias("entries_max"),
                F.max_by("entries", "time_ns").alias("entries_last"),
            )
            .orderBy("service", F.desc("entries_max"), "broker")
        )  # fmt: skip

    def queues(self) -> DataFrame:
        """Samples see a queue now and then; at level full, waiting_ns is from when each event came to when it began."""
        from pyspark.sql import functions as F

        samples = self.after_warm_up("samples").select("time_ns", "broker", "backlog_ns", "queued").distinct()
        result = samples.groupBy("broker").agg(
            F.avg("backlog_ns").alias("backlog_mean_ns"), F.max("backlog_ns").alias("backlog_max_ns"),
            F.avg("queued").alias("queued_mean"), F.max("queued").alias("queued_max"),
        )  # fmt: skip
        if self.trace.has("hops"):
            hops = self.after_warm_up("hops").withColumn("in_broker_ns", F.col("finish_ns") - F.col("time_ns"))
            spent = hops.groupBy("broker").agg(*_distribution("in_broker_ns", "events"))
            result = result.join(spent, "broker", "full")
        return result.orderBy(F.desc("backlog_max_ns"), "broker")

    # ---- time

    def series(self) -> DataFrame:
        from pyspark.sql import functions as F

        width = self.series_width_ns()

        def moment(column: str) -> Column:
            return (F.floor(F.col(column) / F.lit(width)) * width).cast("bigint").alias("start_ns")

        published = self.after_warm_up("publications").groupBy(moment("time_ns"), "service")
        result = published.agg(F.count("*").alias("publications"))
        delivered = self.deliveries().groupBy(moment("time_ns"), "service")
        result = result.join(delivered.agg(*_distribution("latency_ns", "deliveries")), ["start_ns", "service"], "full")
        if self.trace.has("hops"):
            handled = self.after_warm_up("hops").groupBy(moment("time_ns"), "service")
            result = result.join(handled.agg(F.count("*").alias("events")), ["start_ns", "service"], "full")
        counts: list[str] = [name for name in ("publications", "deliveries", "events") if name in result.columns]
        return result.fillna(0, counts).orderBy("service", "start_ns")

    def series_width_ns(self) -> int:
        """The shortest round stretch of time that divides the run into few enough parts."""
        return next(w for w in _WIDTHS_NS if self.trace.duration_ns <= SERIES_ROWS_MAX * w)


# name -> (how, tables it needs)
AGGREGATES: dict[str, tuple[Callable[[_Aggregates], DataFrame], tuple[str, ...]]] = {
    "services": (_Aggregates.services, ("deliveries", "publications")),
    "clients": (_Aggregates.clients, ("deliveries",)),
    "brokers": (_Aggregates.brokers, ("deliveries",)),
    "load": (_Aggregates.load, ("brokers",)),
    "links": (_Aggregates.links, ("links",)),
    "balance": (_Aggregates.balance, ("brokers", "links")),
    "cost": (_Aggregates.cost, ("brokers", "links")),
    "stretch": (_Aggregates.stretch, ("deliveries", "publications", "links")),
    "hops": (_Aggregates.hops, ("hops", "deliveries", "publications", "links")),
    "tables": (_Aggregates.tables, ("samples",)),
    "queues": (_Aggregates.queues, ("samples",)),
    "series": (_Aggregates.series, ("deliveries", "publications")),
}


def analyze(
    paths: Sequence[str | PathLike[str]],
    *,
    warm_up_ns: int = 0,
    master: str | None = None,
    remote: str | None = None,
    trust: bool = False,
) -> list[Analysis]:
    """Make the aggregates of finished runs; `trust` lets them name code from outside."""
    from analysis.spark.session import check_installed, explained, session

    check_installed()
    read = {table for _, tables in AGGREGATES.values() for table in tables}
    runs = [checked(path, read) for path in paths]
    for run in runs:
        duration = run.manifest["scenario"]["duration"]
        if not 0 <= warm_up_ns < duration:
            raise InvalidInput(f"--warm-up: {run.path.name} lasts {duration} ns (got {warm_up_ns} ns)")
        services_of(run, trust=trust)  # what may not be imported is refused before Spark starts
    rows = max(map(rows_of, runs), default=0)
    with session(master, remote, rows=rows) as spark, explained(runs):
        return [_analyze(Trace(spark, run, trust=trust), warm_up_ns) for run in runs]


def _analyze(trace: Trace, warm_up_ns: int) -> Analysis:
    aggregates = _Aggregates(trace, warm_up_ns)
    found = Analysis(str(trace.run.path), trace.folder(), warm_up_ns)
    for name, (make, tables) in AGGREGATES.items():
        missing = next((said for table in tables if (said := trace.need(table, name))), None)
        if missing:
            found.notes.append(missing)
            continue
        kept = trace.write(make(aggregates).coalesce(1), name)
        found.rows[name] = kept.count()
        found.shown[name] = [row.asDict() for row in kept.limit(SHOWN_ROWS_MAX).collect()]
    found.notes += aggregates.notes
    return found


def _distribution(column: str, count: str) -> list[Column]:
    """How many, and how a column is distributed: mean, percentiles, maximum."""
    from pyspark.sql import functions as F

    stem, unit = (column[:-3], "_ns") if column.endswith("_ns") else (column, "")
    shares = F.percentile_approx(column, list(PERCENTILES.values()), ACCURACY)
    return [
        F.count("*").alias(count),
        F.avg(column).alias(f"{stem}_mean{unit}"),
        *(F.get(shares, F.lit(i)).alias(f"{stem}_{name}{unit}") for i, name in enumerate(PERCENTILES)),
        F.max(column).alias(f"{stem}_max{unit}"),
    ]


def _evenness(frame: DataFrame, what: str, column: str) -> DataFrame:
    """Gini coefficient, and maximum over mean, of a column: 0 and 1 where all are equal."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    rank = F.row_number().over(Window.partitionBy("all").orderBy("value"))
    ranked = frame.select(F.lit(1).alias("all"), F.col(column).cast("double").alias("value")).withColumn("rank", rank)
    n, total = F.count("*"), F.nullif(F.sum("value"), F.lit(0.0))
    return ranked.agg(
        F.lit(what).alias("of"),
        F.lit(column).alias("measure"),
        n.alias("count"),
        F.avg("value").alias("mean"),
        F.max("value").alias("max"),
        (F.max("value") * n / total).alias("max_over_mean"),
        (2 * F.sum(F.col("rank") * F.col("value")) / (n * total) - (n + 1) / n).alias("gini"),
    )


def _stacked(rows: list[Any]) -> Any:
    return np.concatenate(rows) if rows else np.empty(0, np.int64)


def depth_finder(source: Any, delay_ns: Any) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What a Spark task does to find how far each copy of a publication had come.

    A copy that reached a broker over a link was sent by an event of its publication at the link's other end,
    finished at least the link's delay earlier: by the latest such if it finished exactly then, else, since
    jitter or a queue at the link hides which it was, by the first. The function carries all it needs, as tasks
    run in other processes.
    """

    def depths(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa

        parts = list(batches)
        if not parts:
            return
        table = pa.Table.from_batches(parts)
        names = ("body", "broker", "time_ns", "link", "finish_ns")
        body, broker, time, link, finish = (table[name].to_numpy().astype(np.int64) for name in names)
        came = link >= 0
        known = np.maximum(link, 0)
        # Events, and for each that came over a link the question who sent it, in one order.
        count, asked = body.size, np.flatnonzero(came)
        sent = time - delay_ns[known]
        bodies = np.concatenate([body, body[asked]])
        places = np.concatenate([broker, source[known[asked]]])
        moments = np.concatenate([finish, sent[asked]])
        question = np.concatenate([np.zeros(count, np.int8), np.ones(asked.size, np.int8)])
        order = np.lexsort((question, moments, places, bodies))
        is_event = order < count
        events = order[is_event]
        starts = np.ones(count, np.bool_)
        starts[1:] = (body[events[1:]] != body[events[:-1]]) | (broker[events[1:]] != broker[events[:-1]])
        first_of = np.maximum.accumulate(np.where(starts, np.arange(count), 0))
        rank = (np.cumsum(is_event) - 1)[~is_event]  # of the last event before each question
        asker = asked[order[~is_event] - count]
        latest, first = events[np.maximum(rank, 0)], events[first_of[np.maximum(rank, 0)]]
        fits = (rank >= 0) & (body[latest] == body[asker]) & (broker[latest] == source[known[asker]])
        sender = np.full(count, -1, np.int64)
        sender[asker[fits]] = np.where(finish[latest] == sent[asker], latest, first)[fits]
        # Pointer jumping: each round doubles how far back every event has looked.
        hops = (sender >= 0).astype(np.int32)
        before = sender.copy()
        while (before >= 0).any():
            ahead = np.maximum(before, 0)
            hops = hops + np.where(before >= 0, hops[ahead], 0).astype(np.int32)
            before = np.where(before >= 0, before[ahead], -1)
        keep = np.lexsort((hops, finish, broker, body))
        same = np.zeros(count, np.bool_)
        same[1:] = (
            (body[keep][1:] == body[keep][:-1])
            & (broker[keep][1:] == broker[keep][:-1])
            & (finish[keep][1:] == finish[keep][:-1])
        )
        keep = keep[~same]
        columns = [body[keep], broker[keep].astype(np.int32), finish[keep], hops[keep]]
        yield pa.RecordBatch.from_arrays(
            [pa.array(c) for c in columns], names=["publication", "broker", "finish_ns", "hops"]
        )

    return depths
