"""From when on a change counts: settled, with everything it leans on, and when its end counts too.

Theory. A publication sent at T is judged on the changes settled before T. A change that leans on others has
not settled before they have, transitively; and while something it leans on is being withdrawn, it is unsettled
again. A change of which a link lost a message never settles beyond that link, though it does on this side of
it; the same for a change that leans on it.

A change ends by another: an interest by its revocation, a value by the next with its word, where its kind lists
the type in `replacements`. From when the end is issued (`revoked_ns`) until it has settled (`gone_ns`) both may count.

`settlement` gives each change one row:

    change, settled_ns   with everything it leans on; NEVER
    unsettled            times [begin, end] in which something it leans on was being withdrawn
    unheard              what lies behind the links that lost a message of it, or of what it leans on

`Standing` is what every audit rule is handed; `brokers.auditing` says what it is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from analysis.spark.heeded import Heeded
from analysis.spark.trace import Service, Trace, undivided
from brokers.contract import NEVER
from brokers.promises import Excused

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

NO_EXCUSE = Excused()
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


def ends(changes: DataFrame, service: Service) -> DataFrame:
    """change, end: the changes of a service that others ended, each with the one that did."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    kind = service.kind
    begun = changes.filter(F.col("operation").isin(sorted(kind.interests | kind.replacements)))
    revoked = changes.filter(F.col("operation").isin(sorted(kind.revocations)))
    by_word = begun.select("change", "interest").join(
        revoked.select("interest", F.col("change").alias("revocation")), "interest", "left"
    )
    if not kind.replacements:
        return by_word.select("change", F.col("revocation").alias("end")).filter(F.col("end").isNotNull())
    in_order = Window.partitionBy("interest").orderBy("issued_ns", "change")
    replaced = changes.filter(F.col("operation").isin(sorted(kind.replacements))).select(
        "change", F.lead("change").over(in_order).alias("next")
    )
    return (
        by_word.join(replaced, "change", "left")
        .select("change", F.coalesce("next", "revocation").alias("end"))
        .filter(F.col("end").isNotNull())
    )


def settlement(trace: Trace, service: Service, changes: DataFrame, losses: Heeded) -> DataFrame:
    """See the module. `losses` says which lost messages are to be looked at."""
    from pyspark.sql import functions as F

    no_windows = F.array().cast(f"array<{WINDOW}>")
    nowhere = F.array().cast(f"array<{BEHIND}>")
    alone = changes.select("change", "settled_ns")
    spoilt = _unheard(trace, changes, losses) if losses else None
    if trace.run.rows("dependencies") == 0:
        plain = alone.withColumn("unsettled", no_windows)
        if spoilt is None:
            return plain.withColumn("unheard", nowhere)
        return plain.join(spoilt, "change", "left").withColumn("unheard", F.coalesce("unheard", nowhere))

    leans = trace.once("leans", lambda: closure(trace.table("dependencies").select("change", "depends_on")))
    # When the end of a change is itself settled, with what the end leans on.
    own = alone.withColumn("on", F.col("change"))
    every = undivided(leans.join(alone.select(F.col("change").alias("on"), "settled_ns"), "on").unionByName(own))
    settled = every.groupBy("change").agg(F.max("settled_ns").alias("settled_ns"))

    begins = undivided(changes.select("change", "revoked_ns").join(ends(changes, service), "change"))
    gone = settled.select(F.col("change").alias("end"), F.col("settled_ns").alias("gone_ns"))
    windows = undivided(begins.join(gone, "end")).select(
        F.col("change").alias("on"),
        F.col("end").alias("ended_by"),
        F.struct(F.col("revoked_ns").alias("begin"), F.col("gone_ns").alias("end")).alias("window"),
    )
    result = settled
    unsettled = undivided(leans.join(windows, "on"))
    unsettled = unsettled.groupBy("change").agg(F.collect_set("window").alias("unsettled"))
    result = result.join(unsettled, "change", "left")
    if spoilt is None:
        result = result.withColumn("unheard", nowhere)
    else:
        # A change, what it leans on, and the ends of what it leans on.
        heeds = undivided(
            alone.select("change", F.col("change").alias("on"))
            .unionByName(leans)
            .unionByName(leans.join(windows, "on").select("change", F.col("ended_by").alias("on")))
        ).distinct()
        unheard = (
            undivided(heeds.join(spoilt.withColumnRenamed("change", "on"), "on"))
            .groupBy("change")
            .agg(F.array_distinct(F.flatten(F.collect_list("unheard"))).alias("unheard"))
        )
        result = result.join(unheard, "change", "left")
    return result.withColumn("unheard", F.coalesce("unheard", nowhere)).withColumn(
        "unsettled", F.coalesce("unsettled", no_windows)
    )


class Standing:
    """What stood when, what had settled, and what is free; see `brokers.auditing.Standing`."""

    BEHIND: ClassVar[str] = BEHIND

    def __init__(
        self, trace: Trace, service: Service, changes: DataFrame, settled: DataFrame, places: DataFrame,
        excused: Excused = NO_EXCUSE,
    ) -> None:
        self.trace = trace
        self.service = service
        self.changes = changes
        self.settled = settled
        self.places = places
        self.excused = excused

    def versions(self) -> DataFrame:
        """What ended while a link lost something of its end is not gone: the end may never have reached everybody.

        Unless it has by now, as the protocol recovers.
        """
        from pyspark.sql import functions as F

        kind = self.service.kind
        again = self.excused.again_ns
        mended = F.lit(NEVER) if again >= NEVER else F.greatest("settled_ns", F.lit(again - 1))
        gone = ends(self.changes, self.service).join(
            self.settled.select(
                F.col("change").alias("end"),
                F.when(F.size("unheard") == 0, F.col("settled_ns")).otherwise(mended).alias("gone_ns"),
            ),
            "end",
        )
        begun = self.changes.filter(F.col("operation").isin(sorted(kind.interests | kind.replacements)))
        known = undivided(begun.drop("settled_ns").join(self.settled, "change"))
        ended = known.join(undivided(gone).select("change", "gone_ns"), "change", "left")
        return undivided(ended.join(self.places, "broker")).select(
            "change", "interest", "operation", "client", "broker", F.col("place").alias("home"), "values",
            "issued_ns", "settled_ns", "revoked_ns", F.coalesce("gone_ns", F.lit(NEVER)).alias("gone_ns"),
            "unsettled", "unheard",
        )  # fmt: skip

    def possible(self) -> Column:
        from pyspark.sql import functions as F

        return (F.col("c.issued_ns") <= F.col("p.end_ns")) & (F.col("c.gone_ns") >= F.col("p.time_ns"))

    def in_time(self) -> Column:
        from pyspark.sql import functions as F

        sent = F.col("p.time_ns")
        return (
            (F.col("c.settled_ns") < sent)
            & (F.col("c.revoked_ns") > F.col("p.end_ns"))
            & ~F.exists("c.unsettled", lambda w: (w["begin"] <= sent) & (w["end"] >= sent))
            & ~F.col("p.cut")
        )

    def unspoilt(self) -> Column:
        from pyspark.sql import functions as F

        at_home = is_behind(F.col("c.home"), F.col("p.unheard"))
        return (self.mended() | ~is_behind(F.col("p.place"), F.col("c.unheard"))) & ~at_home

    def mended(self) -> Column:
        from pyspark.sql import functions as F

        return F.col("p.time_ns") >= self.excused.again_ns

    def behind_links(self, lost: DataFrame) -> DataFrame | None:
        return behind_links(self.trace, lost)

    def is_behind(self, place: Column, behind: Column) -> Column:
        return is_behind(place, behind)

    def undivided(self, frame: DataFrame) -> DataFrame:
        return undivided(frame)


def closure(leans: DataFrame) -> DataFrame:
    """(change, on) for everything a change leans on, directly or through others. Doubles its reach each round.

    What counts the pairs is what computes them, once.
    """
    from pyspark.sql import functions as F

    pairs = leans.select("change", F.col("depends_on").alias("on")).distinct().localCheckpoint(eager=False)
    count = pairs.count()
    while True:
        further = pairs.alias("a").join(pairs.alias("b"), F.col("a.on") == F.col("b.change"))
        pairs = (
            undivided(pairs.unionByName(further.select(F.col("a.change"), F.col("b.on"))))
            .filter(F.col("change") != F.col("on"))
            .distinct()
            .localCheckpoint(eager=False)
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
    return undivided(trace.spark.createDataFrame(rows, schema)).select(
        "link", F.struct("low", "high", "inside").alias("behind")
    )


def _unheard(trace: Trace, changes: DataFrame, losses: Heeded) -> DataFrame | None:
    from pyspark.sql import functions as F

    lost = trace.table("losses").filter(F.col("link") < losses.before).select(F.col("cause").alias("change"), "link")
    lost = lost.join(changes.select("change"), "change", "left_semi")
    where = behind_links(trace, lost)
    if where is None:
        return None
    return undivided(lost.join(where, "link")).groupBy("change").agg(F.collect_set("behind").alias("unheard"))


def is_behind(place: Column, behind: Column) -> Column:
    """Whether a broker's place lies behind one of the links in an array of `behind`."""
    from pyspark.sql import functions as F

    return F.exists(behind, lambda b: ((place >= b["low"]) & (place < b["high"])) == b["inside"])
