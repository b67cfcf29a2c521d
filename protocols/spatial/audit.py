"""The audit rule of the kind `spatial`: between two bounds.

Objects are certain (settled before the publication, not ended until the last decision about it), free (a change of
theirs was in flight), or out. More objects make an answer smaller. So a subscription is

    forced    if it is certain, and in RT(q) among all objects, the certain and the free
    allowed   if it may have been there, and in RT_delta(q) among the certain objects alone

Whatever the free ones did, the right answer lies between. A client is forced or allowed if a subscription of it is.

An object ends by its withdrawal; where only the last n of a broker count, with the n-th after it at its broker; where
it has a lifetime, with the first at its broker that was published so much later.

Ends of what a change leans on do not matter here: in the protocols a change leans on a message of another that is
under way, not on what the other stands for.

A change of which a link lost something is never certain: an answer about keywords that was lost on its way to a
broker keeps its subscriptions waiting for objects from everywhere.

On the sphere Spark's sine may differ from the indexes' in the last bits. There an object counts as nearer for the
lower bound, and as not nearer for the upper, if the squared distances differ by less than 1e-9 of themselves.

For tasks in Python `matching` says the same in NumPy.

Plan, in Spark. Subscriptions meet publications by keyword, and of each subscription the objects by keyword too; the two
join
on the subscription.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from brokers.auditing import Question
from brokers.contract import NEVER, Kind
from brokers.words import KEYWORDS, word_of, words_of
from protocols.spatial.matching import Nearest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SLACK = {"plane": 0.0, "sphere": 1e-9}


class SpatialRule:
    """See the module."""

    def __init__(self, kind: Kind) -> None:
        from protocols.spatial.kind import Spatial

        assert isinstance(kind, Spatial)
        self.kind = kind
        self.slack = _SLACK[kind.geometry]

    def matcher(self) -> Nearest:
        """The same in NumPy."""
        from protocols.spatial.kind import OBJECT_KEYWORDS, PUBLISH, SUBSCRIBE, SUBSCRIPTION_KEYWORDS

        kind = self.kind
        return Nearest(
            PUBLISH, SUBSCRIBE, OBJECT_KEYWORDS, SUBSCRIPTION_KEYWORDS, kind.geometry == "sphere", kind.delta,
            self.slack, kind.last, kind.lifetime_ns, NEVER,
        )  # fmt: skip

    def decisions(self, question: Question) -> DataFrame:
        from pyspark.sql import functions as F

        objects, subscriptions = self._things(question)
        met = question.keep(self._met(question, objects, subscriptions))
        counts = self._counts(question, met, objects, subscriptions)
        key = ["publication", "subscription"]
        judged = met.join(counts, key, "left").select(
            *key, "client", "issued_ns", "in_time", "heard",
            (F.coalesce("most", F.lit(0)) < F.col("k")).alias("lower"),
            (F.coalesce("least", F.lit(0)) < F.col("k")).alias("upper"),
        )  # fmt: skip
        forced = F.col("lower") & F.col("in_time")
        return (
            judged.filter("upper")
            .groupBy("publication", "client")
            .agg(
                F.max(forced & F.col("heard")).alias("forced"),
                (F.max(forced) & ~F.max(forced & F.col("heard"))).alias("excused"),
                F.min("issued_ns").alias("since_ns"),
            )
        )

    def _met(self, question: Question, objects: DataFrame, subscriptions: DataFrame) -> DataFrame:
        """A row per publication and subscription that share a keyword, where the subscription may count."""
        from pyspark.sql import functions as F

        offered = objects.select(F.col("change").alias("publication"), F.col("at").alias("to"), "words")
        asked = question.publications.select(
            "publication", "time_ns", "end_ns", "cut", F.col("unheard").alias("copies"),
            F.get("values", F.lit(2)).alias("k"),
        ).join(offered, "publication")  # fmt: skip
        wanted = subscriptions.select(
            F.col("change").alias("subscription"), "client", "at", "home", "issued_ns", "settled_ns", "revoked_ns",
            "gone_ns", "unheard", F.explode("words").alias("word"),
        )  # fmt: skip
        pairs = question.standing.undivided(asked).withColumn("word", F.explode("words")).join(wanted, "word")
        pairs = pairs.filter((F.col("issued_ns") <= F.col("end_ns")) & (F.col("gone_ns") >= F.col("time_ns")))
        certain = (F.col("settled_ns") < F.col("time_ns")) & (F.col("revoked_ns") > F.col("end_ns")) & ~F.col("cut")
        heard = (F.size("unheard") == 0) & ~question.standing.is_behind(F.col("home"), F.col("copies"))
        return pairs.dropDuplicates(["publication", "subscription"]).select(
            "publication", "subscription", "client", "issued_ns", "time_ns", "end_ns", "k",
            self._squared("at", "to").alias("asked"), certain.alias("in_time"), heard.alias("heard"),
        )  # fmt: skip

    def _counts(
        self, question: Question, met: DataFrame, objects: DataFrame, subscriptions: DataFrame
    ) -> DataFrame:
        """Per publication and subscription how many objects are nearer, at most; and delta times nearer, at least."""
        from pyspark.sql import functions as F

        offered = objects.select(
            F.col("change").alias("object"), F.col("at").alias("to"), F.col("issued_ns").alias("born_ns"),
            F.col("settled_ns").alias("known_ns"), F.col("revoked_ns").alias("ending_ns"),
            F.col("gone_ns").alias("dead_ns"), F.col("unheard").alias("missed"), F.explode("words").alias("word"),
        )  # fmt: skip
        wanted = subscriptions.select(F.col("change").alias("subscription"), "at", F.explode("words").alias("word"))
        near = question.standing.undivided(offered.join(wanted, "word"))
        near = near.dropDuplicates(["object", "subscription"])
        near = near.withColumn("far", self._squared("at", "to")).drop("at", "to", "word")
        possible = (F.col("born_ns") <= F.col("end_ns")) & (F.col("dead_ns") >= F.col("time_ns"))
        certain = (
            (F.col("known_ns") < F.col("time_ns"))
            & (F.col("ending_ns") > F.col("end_ns"))
            & (F.size("missed") == 0)
        )
        nearer = F.col("far") * (1 - self.slack) < F.col("asked")
        much_nearer = F.col("far") * (1 + self.slack) < self._reach(F.col("asked"))
        return (
            question.standing.undivided(met.join(near, "subscription"))
            .filter(possible & nearer & (F.col("object") != F.col("publication")))
            .groupBy("publication", "subscription")
            .agg(F.count("*").alias("most"), F.count(F.when(certain & much_nearer, 1)).alias("least"))
        )

    def _things(self, question: Question) -> tuple[DataFrame, DataFrame]:
        """Objects and subscriptions: where, about what, and when."""
        from pyspark.sql import functions as F

        from protocols.spatial.kind import OBJECT_KEYWORDS, PUBLISH, SUBSCRIBE, SUBSCRIPTION_KEYWORDS

        changes = question.standing.versions()

        def of(operation: int, start: int) -> DataFrame:
            words = F.filter(F.slice("values", start + 1, F.greatest(F.size("values") - start, F.lit(0))), _present)
            return (
                changes.filter(F.col("operation") == operation)
                .withColumn("words", F.array_distinct(F.transform(words, lambda w: w.cast("int"))))
                .withColumn("at", self._point())
                .drop("values")
            )

        objects, subscriptions = of(PUBLISH, OBJECT_KEYWORDS), of(SUBSCRIBE, SUBSCRIPTION_KEYWORDS)
        return question.keep(self._windowed(question, objects)), question.keep(subscriptions)

    def _windowed(self, question: Question, objects: DataFrame) -> DataFrame:
        """With the ends that come of windows over the objects of a broker."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        gone = F.when(F.size("unheard") == 0, F.col("settled_ns")).otherwise(F.lit(NEVER))
        if self.kind.last is not None:
            order = Window.partitionBy("broker").orderBy("issued_ns", "change")
            by = F.lead(F.struct(F.col("issued_ns").alias("out_ns"), gone.alias("left_ns")), self.kind.last)
            objects = _ended(objects.withColumn("by", by.over(order)))
        if self.kind.lifetime_ns is not None:
            # Backwards in time, a row that asks comes after all that were published as late or later.
            order = Window.partitionBy("broker").orderBy(F.desc("time_ns"), "asks", F.desc("change"))
            fresh = objects.select(
                "broker", "change", F.col("issued_ns").alias("time_ns"), F.lit(False).alias("asks"),
                F.struct(F.col("issued_ns").alias("out_ns"), gone.alias("left_ns")).alias("by"),
            )  # fmt: skip
            old = objects.select(
                "broker", "change", (F.col("issued_ns") + self.kind.lifetime_ns).alias("time_ns"),
                F.lit(True).alias("asks"), F.lit(None).cast(fresh.schema["by"].dataType).alias("by"),
            )  # fmt: skip
            ends = question.standing.undivided(fresh.unionByName(old))
            ends = ends.withColumn("by", F.last("by", ignorenulls=True).over(order))
            objects = _ended(objects.join(ends.filter("asks").select("change", "by"), "change"))
        return objects

    def _point(self) -> Column:
        """The coordinates that distances are taken of."""
        from pyspark.sql import functions as F

        x, y = F.get("values", F.lit(0)), F.get("values", F.lit(1))
        if self.kind.geometry == "plane":
            return F.array(x, y)
        latitude, longitude = F.radians(x), F.radians(y)
        return F.array(
            F.cos(latitude) * F.cos(longitude), F.cos(latitude) * F.sin(longitude), F.sin(latitude)
        )

    def _squared(self, one: str, other: str) -> Column:
        """Of two points, along the axes in order, as the indexes have it."""
        from pyspark.sql import functions as F

        axes = 2 if self.kind.geometry == "plane" else 3
        gaps = [F.get(one, F.lit(axis)) - F.get(other, F.lit(axis)) for axis in range(axes)]
        return reduce(lambda total, gap: total + gap * gap, gaps, F.lit(0.0))

    def _reach(self, squared: Column) -> Column:
        """The squared distance below which an object is delta times nearer."""
        from pyspark.sql import functions as F

        delta = self.kind.delta
        if delta == 1:
            return squared
        if self.kind.geometry == "plane":
            return squared / F.lit(delta * delta)
        sine = F.sin(F.asin(F.least(F.sqrt(squared) / 2, F.lit(1.0))) / F.lit(delta))
        return 4 * sine * sine

    def reason(self, publication: dict[str, Any], change: dict[str, Any]) -> str:
        """What an object and a subscription have in common, and how far apart they are."""
        import numpy as np

        from brokers.indexes.spatial.geometry import geometry_named, squared_distances
        from protocols.spatial.kind import OBJECT_KEYWORDS, SUBSCRIBE, SUBSCRIPTION_KEYWORDS, keywords_of

        if change["operation"] != SUBSCRIBE:
            return "is no subscription"
        offered, wanted = (np.asarray(row["values"], np.float64) for row in (publication, change))
        shared = sorted(set(keywords_of(offered, OBJECT_KEYWORDS)) & set(keywords_of(wanted, SUBSCRIPTION_KEYWORDS)))
        if not shared:
            return "shares no keyword"
        geometry = geometry_named(self.kind.geometry)
        points = geometry.points([offered[:2], wanted[:2]], 2, "places")
        length = float(geometry.length(squared_distances(points[:1], points[1]))[0])
        words = ", ".join(str(word_of(words_of(self.kind.params), KEYWORDS, each)) for each in shared)
        return f"shares keyword {words}; the object is {length:g} {geometry.unit} away, and asks for k = {offered[2]:g}"


def _ended(objects: DataFrame) -> DataFrame:
    """Objects that end as they did, or `by` another object: of two ends the earlier one is told to others."""
    from pyspark.sql import functions as F

    objects = objects.select(
        "*",
        F.coalesce("by.out_ns", F.lit(NEVER)).alias("out_ns"),
        F.coalesce("by.left_ns", F.lit(NEVER)).alias("left_ns"),
    )
    first = (
        F.when(F.col("revoked_ns") < F.col("out_ns"), F.col("gone_ns"))
        .when(F.col("revoked_ns") > F.col("out_ns"), F.col("left_ns"))
        .otherwise(F.greatest("gone_ns", "left_ns"))
    )
    ended = objects.withColumn("gone_ns", first).withColumn("revoked_ns", F.least("revoked_ns", "out_ns"))
    return ended.drop("by", "out_ns", "left_ns")


def _present(word: Column) -> Column:
    from pyspark.sql import functions as F

    return ~F.isnan(word)
