"""From when on a change counts: settled, with everything it leans on, and when its end counts too.

Theory. A publication sent at T is judged on the changes settled before T. A change that leans on others has
not settled before they have, transitively; and while something it leans on is being withdrawn, it is unsettled
again. A change of which a link lost a message never settles beyond that link, though it does on this side of
it; the same for a change that leans on it.

`settlement` gives each change one row:

    change, settled_ns   with everything it leans on; NEVER
    unsettled            times [begin, end] in which something it leans on was being withdrawn
    unheard              what lies behind the links that lost a message of it, or of what it leans on
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from analysis.spark.trace import Service, Trace
from brokers.contract import NEVER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BEHIND = "struct<low:bigint,high:bigint,inside:boolean>"
WINDOW = "struct<begin:bigint,end:bigint>"


def changes_of(trace: Trace, service: Service) -> DataFrame:
    """The changes of a service, with NEVER in place of -1. What stands from the start settled before everything."""
    from pyspark.sql import functions as F

    def or_never(name: str) -> Column:
        return F.when(F.col(name) < 0, F.lit(NEVER)).otherwise(F.col(name)).alias(name)

    standing = F.col("issued_ns") < 0
    return (
        trace.table("changes")
        .filter(F.col("service") == service.number)
        .select(
            "change", "operation", "interest", "broker", "client", "issued_ns", "lost", "values",
            F.when(standing, F.lit(-1)).otherwise(or_never("settled_ns")).alias("settled_ns"),
            or_never("revoked_ns"),
        )
    )  # fmt: skip


def revocations(changes: DataFrame, service: Service) -> DataFrame:
    """Each interest with the change that ends it."""
    from pyspark.sql import functions as F

    ends = changes.filter(F.col("operation").isin(sorted(service.kind.revocations)))
    return ends.select("interest", F.col("change").alias("revocation"))


def settlement(trace: Trace, service: Service, changes: DataFrame, losses: bool) -> DataFrame:
    """See the module. `losses` says whether lost messages are to be looked at."""
    from pyspark.sql import functions as F

    no_windows = F.array().cast(f"array<{WINDOW}>")
    nowhere = F.array().cast(f"array<{BEHIND}>")
    alone = changes.select("change", "settled_ns")
    spoilt = _unheard(trace, changes) if losses else None
    if trace.run.rows("dependencies") == 0:
        plain = alone.withColumn("unsettled", no_windows)
        if spoilt is None:
            return plain.withColumn("unheard", nowhere)
        return plain.join(spoilt, "change", "left").withColumn("unheard", F.coalesce("unheard", nowhere))

    leans = closure(trace.table("dependencies").select("change", "depends_on"))
    ends = revocations(changes, service)
    # When the end of an interest is itself settled, with what the end leans on.
    own = alone.withColumn("on", F.col("change"))
    every = leans.join(alone.select(F.col("change").alias("on"), "settled_ns"), "on").unionByName(own)
    settled = every.groupBy("change").agg(F.max("settled_ns").alias("settled_ns"))

    begins = changes.select("change", "interest", "revoked_ns").join(ends, "interest")
    gone = settled.select(F.col("change").alias("revocation"), F.col("settled_ns").alias("end"))
    windows = begins.join(gone, "revocation").select(
        F.col("change").alias("on"), "revocation", F.struct(F.col("revoked_ns").alias("begin"), "end").alias("window")
    )
    result = settled
    unsettled = leans.join(windows, "on").groupBy("change").agg(F.collect_set("window").alias("unsettled"))
    result = result.join(unsettled, "change", "left")
    if spoilt is None:
        result = result.withColumn("unheard", nowhere)
    else:
        # A change, what it leans on, and the ends of what it leans on.
        heeds = (
            alone.select("change", F.col("change").alias("on"))
            .unionByName(leans)
            .unionByName(leans.join(windows, "on").select("change", F.col("revocation").alias("on")))
            .distinct()
        )
        unheard = (
            heeds.join(spoilt.withColumnRenamed("change", "on"), "on")
            .groupBy("change")
            .agg(F.array_distinct(F.flatten(F.collect_list("unheard"))).alias("unheard"))
        )
        result = result.join(unheard, "change", "left")
    return result.withColumn("unheard", F.coalesce("unheard", nowhere)).withColumn(
        "unsettled", F.coalesce("unsettled", no_windows)
    )


def closure(leans: DataFrame) -> DataFrame:
    """(change, on) for everything a change leans on, directly or through others. Doubles its reach each round."""
    from pyspark.sql import functions as F

    pairs = leans.select("change", F.col("depends_on").alias("on")).distinct().localCheckpoint()
    count = pairs.count()
    while True:
        further = pairs.alias("a").join(pairs.alias("b"), F.col("a.on") == F.col("b.change"))
        pairs = (
            pairs.unionByName(further.select(F.col("a.change"), F.col("b.on")))
            .filter(F.col("change") != F.col("on"))
            .distinct()
            .localCheckpoint()
        )
        grown = pairs.count()
        if grown == count:
            return pairs
        count = grown


def behind_links(trace: Trace, lost: DataFrame) -> DataFrame | None:
    """`link` -> the brokers that are reached only over it, for the links that lost something."""
    from pyspark.sql import functions as F

    # As many rows at most as the overlay has links.
    links = [row["link"] for row in lost.select("link").distinct().collect()]
    if not links:
        return None
    rows: list[Any] = [(int(link), *trace.network.behind(link)) for link in links]
    schema = "link int, low bigint, high bigint, inside boolean"
    return trace.spark.createDataFrame(rows, schema).select(
        "link", F.struct("low", "high", "inside").alias("behind")
    )


def _unheard(trace: Trace, changes: DataFrame) -> DataFrame | None:
    from pyspark.sql import functions as F

    lost = trace.table("losses").select(F.col("cause").alias("change"), "link")
    lost = lost.join(changes.select("change"), "change", "left_semi")
    where = behind_links(trace, lost)
    if where is None:
        return None
    return lost.join(where, "link").groupBy("change").agg(F.collect_set("behind").alias("unheard"))


def is_behind(place: Column, behind: Column) -> Column:
    """Whether a broker's place lies behind one of the links in an array of `behind`."""
    from pyspark.sql import functions as F

    return F.exists(behind, lambda b: ((place >= b["low"]) & (place < b["high"])) == b["inside"])
