"""The audit rule of the kind `content`.

A pair (publication, client) is forced if some interest of the client holds all its values, had settled before
it was sent, and was not revoked before the last decision about it had been made. It is allowed if some
interest that holds all its values had been issued by then and was not gone before it was sent. Allowed and not
forced is free.

Where publishers advertise, a pair is forced only if an advertisement of the publisher holds the values too, had settled
and was not taken back in the same way, and no link lost anything of it.

A rule that builds on this one, and changes it, is asked in Spark; for tasks in Python `matching` says the same of
values.

Plan, in Spark. Publications and interests meet block by block: interests are dealt out to blocks, publications are sent
to all of them, and within a block a sort-merge join tries each pair, times first, then ranges as flat columns,
which Spark compiles. That is some 50 million pairs a second and core, needs no memory beyond a block of
interests, and cares neither for skew nor for what the values are distributed like.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brokers.auditing import Question
from brokers.contract import Kind
from brokers.words import word_of, words_of
from protocols.content.matching import Advertised, Ranges

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_INTERESTS_PER_BLOCK = 2_000
_BLOCKS_MAX = 64


class ContentRule:
    """See the module."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def matcher(self) -> Ranges:
        """The same in NumPy; of values alone, unless publishers advertise."""
        if self.kind.advertised:
            return Advertised(frozenset(self.kind.interests), frozenset(self.kind.offers))
        return Ranges(frozenset(self.kind.interests))

    def decisions(self, question: Question) -> DataFrame:
        pairs = self.pairs(question)
        if self.kind.advertised:
            pairs = heeding_offers(pairs, self.pairs(question, self.kind.offers))
        return decided(pairs)

    def pairs(self, question: Question, operations: frozenset[int] | None = None) -> DataFrame:
        """A row per publication and interest that holds its values and may count: how the interest stood.

        publication, client, interest, values (the publication's), in_time, forced (in time, and no loss excuses
        it), issued_ns, whole (no link lost anything of it that matters). Interests are those that want something,
        unless others are named.
        """
        from pyspark.sql import functions as F

        interests = question.keep(self._interests(question, operations or self.kind.wants()))
        sizes = interests.agg(F.count("*").alias("count"), F.max(F.size("ranges")).alias("widest")).first()
        assert sizes is not None
        count, widest = sizes["count"], sizes["widest"]
        blocks = min(max(2, count // _INTERESTS_PER_BLOCK), _BLOCKS_MAX)
        right = interests.withColumn("block", F.pmod(F.xxhash64("interest"), F.lit(blocks)).cast("int"))
        for k in range(widest or 0):
            one = F.get(F.col("ranges"), F.lit(k))
            right = right.withColumns(
                {f"attribute_{k}": one["attribute"], f"low_{k}": one["low"], f"high_{k}": one["high"]}
            )
        left = question.publications.withColumn("block", F.explode(F.sequence(F.lit(0), F.lit(blocks - 1))))
        wanted = (F.col("p.block") == F.col("c.block")) & question.standing.possible()
        for k in range(widest or 0):
            wanted = wanted & self._holds(k)
        met = left.alias("p").join(right.drop("ranges").hint("merge").alias("c"), wanted)
        in_time = question.standing.in_time()
        return met.select(
            "publication", "client", "interest", "values", in_time.alias("in_time"),
            (in_time & question.standing.unspoilt()).alias("forced"), "issued_ns",
            (question.standing.mended() | (F.size("c.unheard") == 0)).alias("whole"),
        )  # fmt: skip

    @staticmethod
    def _holds(k: int) -> Column:
        """Whether range k holds the publication's value. NaN, a missing value, is above every number in Spark."""
        from pyspark.sql import functions as F

        value = F.get(F.col("values"), F.col(f"attribute_{k}"))
        inside = (value >= F.col(f"low_{k}")) & (value <= F.col(f"high_{k}"))
        return F.col(f"attribute_{k}").isNull() | (inside & ~F.isnan(value))

    def _interests(self, question: Question, operations: frozenset[int]) -> DataFrame:
        """One row per interest: who, when, and its ranges."""
        from pyspark.sql import functions as F

        triple = F.transform(
            F.sequence(F.lit(0), F.floor(F.size("values") / 3).cast("int") - 1),
            lambda k: F.struct(
                F.get("values", 3 * k).alias("attribute"),
                F.get("values", 3 * k + 1).alias("low"),
                F.get("values", 3 * k + 2).alias("high"),
            ),
        )
        present = F.filter(triple, lambda r: ~F.isnan(r["attribute"]))
        ranges = F.transform(
            F.when(F.size("values") >= 3, present).otherwise(F.array().cast(_RANGES)),
            lambda r: F.struct(r["attribute"].cast("int").alias("attribute"), r["low"], r["high"]),
        )
        return (
            question.standing.versions()
            .filter(F.col("operation").isin(sorted(operations)))
            .withColumn("ranges", ranges)
            .drop("values", "operation", "change", "broker")
        )

    def reason(self, publication: dict[str, Any], change: dict[str, Any]) -> str:
        """Whether an interest wants a publication, and which range says no."""
        values, row = publication["values"], change["values"]
        words = words_of(self.kind.params)
        said = []
        for k in range(0, len(row) - 2, 3):
            attribute, low, high = row[k : k + 3]
            if attribute != attribute:
                continue
            value = values[int(attribute)] if int(attribute) < len(values) else float("nan")
            if value != value:
                return f"asks for {self._named(int(attribute))}, which is missing"
            told = [word_of(words, int(attribute), number) for number in (low, high, value)]
            begin, end, got = (each if isinstance(each, str) else f"{each:g}" for each in told)
            if not low <= value <= high:
                return f"asks for {begin} to {end} in {self._named(int(attribute))}, which is {got}"
            said.append(f"{got} in {begin} to {end}")
        return "matches: " + ("; ".join(said) or "it asks for everything")

    def _named(self, attribute: int) -> str:
        names = self.kind.params.get("names") or ()
        return names[attribute] if attribute < len(names) else f"attribute {attribute}"


def decided(pairs: DataFrame) -> DataFrame:
    """What the pairs of publications and interests come to, by publication and client."""
    from pyspark.sql import functions as F

    return pairs.groupBy("publication", "client").agg(
        F.max("forced").alias("forced"),
        (F.max("in_time") & ~F.max("forced")).alias("excused"),
        F.min("issued_ns").alias("since_ns"),
    )


def heeding_offers(pairs: DataFrame, offers: DataFrame) -> DataFrame:
    """Pairs of publications and interests, in time and forced only where the publisher had advertised, and it counts.

    `offers` are pairs of publications and advertisements that hold them. No loss may have spoilt that either.
    """
    from pyspark.sql import functions as F

    own = offers.filter(F.col("client") == F.shiftright("publication", 32).cast("long"))
    offered = own.groupBy("publication").agg(
        F.max("in_time").alias("offered_in_time"), F.max(F.col("forced") & F.col("whole")).alias("offered")
    )
    return pairs.join(offered, "publication", "left").withColumns({
        "in_time": F.col("in_time") & F.coalesce("offered_in_time", F.lit(False)),
        "forced": F.col("forced") & F.coalesce("offered", F.lit(False)),
    })  # fmt: skip


_RANGES = "array<struct<attribute:double,low:double,high:double>>"
