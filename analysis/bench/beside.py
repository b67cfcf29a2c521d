"""The aggregates of a run in DuckDB and in polars, on the same Parquet: what `brokerlab analyze` is measured beside.

    python -m analysis.bench.beside duckdb RUN
    python -m analysis.bench.beside polars RUN

Each prints its tables as JSON, so that they can be compared with what Spark found. Distances come from where Spark has
them (`analysis.spark.graph`); what is asked of an engine is all that goes through rows of the trace.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from analysis.spark.aggregates import _WIDTHS_NS, SERIES_ROWS_MAX
from analysis.spark.graph import Network
from analysis.spark.trace import services_of
from brokers.engine.runfolder import RunFolder, open_run

SHARES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))


class Given:
    """What both engines are told."""

    def __init__(self, path: str) -> None:
        import pyarrow as pa

        self.run: RunFolder = open_run(path)
        self.network = Network.of(self.run)
        duration = self.run.manifest["scenario"]["duration"]
        self.width_ns = next(w for w in _WIDTHS_NS if duration <= SERIES_ROWS_MAX * w)
        self.services = services_of(self.run)
        links = np.arange(self.network.source.size)
        self.links = pa.table(
            {"link": links, "link_from": self.network.source, "link_delay": self.network.delay_ns}
        )

    def files(self, table: str) -> list[str]:
        return [str(part) for part in self.run.parts(table)]

    def paths(self, origins: list[int]) -> Any:
        import pyarrow as pa

        n = self.network.brokers
        return pa.table(
            {
                "origin": np.repeat(np.array(origins, np.int64), n),
                "broker": np.tile(np.arange(n), len(origins)),
                "shortest_ns": np.concatenate([self.network.distances(o) for o in origins]),
                "shortest_hops": np.concatenate([self.network.distances(o, "hops") for o in origins]),
            }
        )


def in_duckdb(given: Given) -> dict[str, list[dict[str, Any]]]:
    """Each aggregate as a query."""
    import duckdb

    base: Any = duckdb.connect()
    base.execute("set threads to 2")
    for table in ("deliveries", "hops", "publications", "samples"):
        base.execute(f"create view {table} as select * from read_parquet({given.files(table)})")
    base.register("overlay", given.links)
    carries = " or ".join(
        f"(service = {s.number} and type in ({', '.join(map(str, sorted(s.kind.publications)))}))"
        for s in given.services
    )
    latency = "time_ns - published_ns"
    width = given.width_ns

    def spread(value: str, stem: str) -> str:
        shares = ", ".join(f"quantile_disc({value}, {share}) as {stem}_{name}" for name, share in SHARES)
        return f"count(*) as count, avg({value}) as {stem}_mean, {shares}, max({value}) as {stem}_max"

    def rows(query: str) -> list[dict[str, Any]]:
        return base.execute(query).to_arrow_table().to_pylist()

    found = {
        "services": f"select service, {spread(latency, 'latency')} from deliveries group by all order by all",
        "clients": f"select service, client, broker, {spread(latency, 'latency')} from deliveries group by all "
        "order by all",
        "brokers": f"select service, broker, {spread(latency, 'latency')} from deliveries group by all order by all",
        "published": "select service, count(*) as count from publications group by all order by all",
        "cost": f"select service, count(*) as messages, count(*) filter (({carries}) and kind = 1) as carry from hops "
        "where link >= 0 group by all order by all",
        "tables": "select service, broker, avg(entries) as mean, max(entries) as most, "
        "max_by(entries, time_ns) as last from samples group by all order by all",
        "waiting": "select broker, avg(backlog_ns) as backlog, max(backlog_ns) as backlog_max, avg(queued) as queued, "
        "max(queued) as queued_max from (select distinct time_ns, broker, backlog_ns, queued from samples) "
        "group by all order by all",
        "queues": f"select broker, {spread('finish_ns - time_ns', 'in_broker')} from hops group by all order by all",
        "series": f"select time_ns // {width} as start, service, {spread(latency, 'latency')} from deliveries "
        "group by all order by all",
        "series_published": f"select time_ns // {width} as start, service, count(*) as count from publications "
        "group by all order by all",
        "series_events": f"select time_ns // {width} as start, service, count(*) as count from hops group by all "
        "order by all",
    }
    answers = {name: rows(query) for name, query in found.items()}
    origins = [row["broker"] for row in rows("select distinct broker from publications order by all")]
    base.register("paths", given.paths(origins))
    base.execute(
        "create view entered as select d.*, p.origin from deliveries d join "
        "(select distinct client as publisher, broker as origin from publications) p on d.publication >> 32 = publisher"
    )
    stretch = f"({latency}) / shortest_ns"
    answers["stretch"] = rows(
        f"select service, {spread(stretch, 'stretch')}, avg(shortest_hops) as hops from entered join paths "
        "using (origin, broker) where shortest_ns > 0 group by all order by all"
    )
    base.execute(
        f"create temp table steps as select row_number() over () as id, body, broker, finish_ns, link_from, "
        f"time_ns - link_delay as sent from hops left join overlay using (link) where ({carries}) and kind = 1 "
        "and body >= 0"
    )
    # Sent by the event that finished just then, else by the first at the link's other end.
    base.execute(
        "create temp table sender as select s.id, coalesce(e.id, f.id) as before from steps s "
        "left join (select body, broker, finish_ns, max(id) as id from steps group by all) e "
        "on e.body = s.body and e.broker = s.link_from and e.finish_ns = s.sent "
        "left join (select body, broker, min(finish_ns) as finish_ns, min_by(id, finish_ns) as id from steps "
        "group by all) f on f.body = s.body and f.broker = s.link_from and f.finish_ns <= s.sent"
    )
    base.execute(
        "create temp table depth as with recursive depth(id, hops) as ("
        "select id, 0 from sender where before is null union all "
        "select sender.id, depth.hops + 1 from depth join sender on sender.before = depth.id) select * from depth"
    )
    answers["hops"] = rows(
        "select d.service, least.hops as hops, count(*) as count, avg(shortest_hops) as shortest from entered d join "
        "(select body, broker, finish_ns, min(hops) as hops from steps join depth using (id) group by all) least "
        "on d.publication = least.body and d.broker = least.broker and d.time_ns = least.finish_ns "
        "left join paths on paths.origin = d.origin and paths.broker = d.broker group by all order by all"
    )
    return answers


def in_polars(given: Given) -> dict[str, list[dict[str, Any]]]:
    """Each aggregate as a lazy frame; those that need no more than the trace are collected together."""
    import polars as pl

    deliveries, hops, publications, samples = (
        pl.scan_parquet(given.files(table)) for table in ("deliveries", "hops", "publications", "samples")
    )
    deliveries = deliveries.with_columns(latency=pl.col("time_ns") - pl.col("published_ns"))
    width = given.width_ns

    def spread(value: str, stem: str) -> list[Any]:
        of = pl.col(value)
        shares = [of.quantile(share, "equiprobable").alias(f"{stem}_{name}") for name, share in SHARES]
        return [pl.len().alias("count"), of.mean().alias(f"{stem}_mean"), *shares, of.max().alias(f"{stem}_max")]

    carries = pl.lit(False)
    for s in given.services:
        carries |= (pl.col("service") == s.number) & pl.col("type").is_in(sorted(s.kind.publications))
    carries &= pl.col("kind") == 1
    start = (pl.col("time_ns") // width).alias("start")
    spent = hops.with_columns(spent=pl.col("finish_ns") - pl.col("time_ns"))
    seen = samples.select("time_ns", "broker", "backlog_ns", "queued").unique()
    last = pl.col("entries").sort_by("time_ns").last().alias("last")
    frames = {
        "services": deliveries.group_by("service").agg(spread("latency", "latency")),
        "clients": deliveries.group_by("service", "client", "broker").agg(spread("latency", "latency")),
        "brokers": deliveries.group_by("service", "broker").agg(spread("latency", "latency")),
        "published": publications.group_by("service").agg(pl.len().alias("count")),
        "cost": hops.filter(pl.col("link") >= 0)
        .group_by("service")
        .agg(pl.len().alias("messages"), carries.sum().alias("carry")),
        "tables": samples.group_by("service", "broker").agg(
            pl.col("entries").mean().alias("mean"), pl.col("entries").max().alias("most"), last
        ),
        "waiting": seen.group_by("broker").agg(
            pl.col("backlog_ns").mean().alias("backlog"), pl.col("backlog_ns").max().alias("backlog_max"),
            pl.col("queued").mean(), pl.col("queued").max().alias("queued_max"),
        ),
        "queues": spent.group_by("broker").agg(spread("spent", "in_broker")),
        "series": deliveries.group_by(start, "service").agg(spread("latency", "latency")),
        "series_published": publications.group_by(start, "service").agg(pl.len().alias("count")),
        "series_events": hops.group_by(start, "service").agg(pl.len().alias("count")),
    }  # fmt: skip
    answers = dict(zip(frames, pl.collect_all(list(frames.values()), engine="streaming")))
    publishers = publications.select(publisher="client", origin=pl.col("broker").cast(pl.Int64)).unique().collect()
    reached: Any = pl.from_arrow(given.paths(sorted(publishers["origin"].unique().to_list())))
    paths = reached.lazy()
    entered = (
        deliveries.select(
            "service", "publication", "time_ns", "latency", pl.col("broker").cast(pl.Int64),
            publisher=pl.col("publication") // (1 << 32),
        )
        .join(publishers.lazy(), on="publisher")
        .join(paths, on=["origin", "broker"], how="left")
    )  # fmt: skip
    far = entered.filter(pl.col("shortest_ns") > 0).with_columns(stretch=pl.col("latency") / pl.col("shortest_ns"))
    stretch = far.group_by("service").agg(*spread("stretch", "stretch"), pl.col("shortest_hops").mean().alias("hops"))
    answers["stretch"] = stretch.collect(engine="streaming")
    steps = hops.filter(carries & (pl.col("body") >= 0)).select(
        "body", pl.col("broker", "link").cast(pl.Int64), "time_ns", "finish_ns"
    )
    answers["hops"] = _hops_in_polars(given, steps, entered)
    return {
        name: json.loads(frame.sort(frame.columns[:3]).write_json()) for name, frame in answers.items()
    }


def _hops_in_polars(given: Given, steps: Any, entered: Any) -> Any:
    import polars as pl

    overlay: Any = pl.from_arrow(given.links)
    links = overlay.lazy()
    steps = (
        steps.join(links, on="link", how="left", maintain_order="left")
        .with_columns(sent=pl.col("time_ns") - pl.col("link_delay"))
        .select("body", "broker", "finish_ns", "link_from", "sent")
        .with_row_index("id")
        .collect()
    )
    at = steps.group_by("body", "broker", "finish_ns").agg(pl.col("id").max().alias("exact"))
    first = steps.group_by("body", "broker").agg(
        pl.col("finish_ns").min().alias("begun"), pl.col("id").sort_by("finish_ns").first().alias("first")
    )
    ways = (
        steps.join(at, left_on=["body", "link_from", "sent"], right_on=["body", "broker", "finish_ns"], how="left")
        .join(first, left_on=["body", "link_from"], right_on=["body", "broker"], how="left")
        .with_columns(
            before=pl.coalesce("exact", pl.when(pl.col("begun") <= pl.col("sent")).then(pl.col("first")))
        )
        .sort("id")
    )
    before = ways["before"].fill_null(-1).cast(pl.Int64).to_numpy()
    depth = (before >= 0).astype(np.int64)
    while (before >= 0).any():
        ahead = np.maximum(before, 0)
        depth = depth + np.where(before >= 0, depth[ahead], 0)
        before = np.where(before >= 0, before[ahead], -1)
    least = ways.select("body", "broker", "finish_ns").with_columns(hops=pl.Series(depth))
    least = least.group_by("body", "broker", "finish_ns").agg(pl.col("hops").min())
    return (
        entered.join(
            least.lazy(), left_on=["publication", "broker", "time_ns"], right_on=["body", "broker", "finish_ns"]
        )
        .group_by("service", "hops")
        .agg(pl.len().alias("count"), pl.col("shortest_hops").mean().alias("shortest"))
        .collect(engine="streaming")
    )


ENGINES = {"duckdb": in_duckdb, "polars": in_polars}


def main() -> int:
    engine, path = sys.argv[1:]
    json.dump(ENGINES[engine](Given(str(Path(path)))), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
