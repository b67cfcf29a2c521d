"""The audit rule of the kind `topk`.

Who is in an answer depends on the others, so each answer is judged as a whole. Every filter is certain (its last
change had settled, the next was issued after the last decision), free (a change of it was in flight), or out. An
answer is right if it is the definition's on the certain filters and on some choice for the free ones. One choice
decides it: for the filters that the run says it chose, the version with the score it says; for the others, what
scores least, which is nothing where the filter may have been absent. For what is not among the first k may be
weakened without changing who is. The run's word is only a proposal: what was delivered is compared with the
answer on that choice.

Where ties are kept out altogether, free filters may have made the tie that ends an answer. So it is right too if
below it, and not below any other filter, so many could have had one score that there was no room for all.

Forced is who is in the answer although all free filters score as high as they can. Where a link lost a copy of a
publication, nothing of it is judged.

Where nothing was free, the table `rankings` has to say just what the definition does: every filter of the answer
with its rank and score, and whether the boundary was a tie. Whose row is lacking counts as missed, whose row says
anything else as unwanted, and so a filter with a wrong rank counts as both.

What follows is asked in Spark; for tasks in Python `matching` says the same in NumPy.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from brokers.auditing import Question
from brokers.contract import NEVER, Kind
from brokers.faults import AWAY
from protocols.topk.matching import Best

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class TopKRule:
    """See the module."""

    def __init__(self, kind: Kind) -> None:
        from protocols.topk.kind import TopK

        assert isinstance(kind, TopK)
        self.kind = kind
        self.query = kind.query(-1)

    def matcher(self) -> Best:
        """The same in NumPy."""
        kind, query = self.kind, self.query
        assert query.k is not None
        return Best(
            frozenset(kind.interests | kind.replacements), kind.attributes, query.k, query.threshold, query.ties,
            query.unit == "receiver", query.prorate, kind.exclude_publisher, NEVER, AWAY,
        )  # fmt: skip

    def judge(self, question: Question, delivered: DataFrame) -> DataFrame:
        """A row per publication and client that is in the right answer, or was served."""
        from pyspark.sql import functions as F

        rankings = question.trace.table("rankings").filter(F.col("service") == question.service.number)
        question = replace(question, publications=question.keep(self._decided(question, rankings)))
        filters = self._filters(question)
        shown = rankings.select("publication", "interest", F.col("score").alias("shown"))
        filters = filters.join(shown, ["publication", "interest"], "left")
        known = F.col("shown").isNotNull() & F.array_contains("scores", F.col("shown"))
        filters = question.keep(filters.withColumn("weakest", F.when(known, F.col("shown")).otherwise(F.col("least"))))
        right = self._answer(filters, "weakest")
        if self.query.ties == "none":
            right = self._ended_by_a_tie(question, filters, right)
        forced = self._answer(filters, "most").filter("certain").select("publication", "client").distinct()
        spoilt = question.publications.select(
            "publication", (F.size("unheard") > 0).alias("spoilt"), "cut"
        )
        pair = ["publication", "client"]
        there, wanted, stayed = F.col("times").isNotNull(), F.col("wanted").isNotNull(), F.col("gone").isNull()
        gone = question.trace.table("losses").filter(
            (F.col("service") == question.service.number) & (F.col("reason") == AWAY)
        )  # answers that came to clients that had left
        gone = gone.select(F.col("body").alias("publication"), "client").distinct().withColumn("gone", F.lit(True))
        lacking, mistold = (F.coalesce(name, F.lit(False)) for name in ("lacking", "mistold"))
        return (
            right.select(*pair).distinct().withColumn("wanted", F.lit(True))
            .join(delivered, pair, "full")
            .join(self._mistold(question, filters, rankings), pair, "full")
            .join(forced.withColumn("sure", F.lit(True)), pair, "left")
            .join(gone, pair, "left")
            .join(spoilt, "publication")
            .select(
                *pair, "times", "first_ns",
                (F.col("sure").isNotNull() & stayed & ~F.col("spoilt") & ~F.col("cut")).alias("forced"),
                F.col("spoilt").alias("excused"),
                (((wanted & ~there & stayed) | lacking) & ~F.col("spoilt") & ~F.col("cut")).alias("missed"),
                (((there & ~wanted) | mistold) & ~F.col("spoilt") & ~F.col("cut")).alias("unwanted"),
            )
        )  # fmt: skip

    def _mistold(self, question: Question, filters: DataFrame, rankings: DataFrame) -> DataFrame:
        """publication, client, lacking, mistold: where nothing was free, what the rankings lack or say wrongly."""
        from pyspark.sql import functions as F

        free = filters.filter(~F.col("certain") & (F.col("most") > self.query.threshold))
        clear = question.keep(question.publications.select("publication").join(free, "publication", "left_anti"))
        ranked = self._ranked(filters.filter("certain"), "least").join(clear, "publication", "left_semi")
        answer = self._kept(ranked, "least").withColumn("rank", F.col("place") - 1)
        tied = ranked.groupBy("publication").agg(F.max("tie").alias("tie"))
        nobody = (
            clear.join(answer.select("publication").distinct(), "publication", "left_anti")
            .join(tied, "publication", "left")
            .select(
                "publication", F.lit(-1).alias("rank"), F.lit(-1).alias("interest"), F.lit(-1).alias("client"),
                F.lit(0.0).alias("score"), F.coalesce("tie", F.lit(False)).alias("tie"),
            )
        )  # fmt: skip
        row = ["publication", "rank", "interest", "client", "score", "tie"]
        expected = answer.withColumn("score", F.col("least")).select(*row)
        expected = question.standing.undivided(expected.unionByName(nobody.select(*row)))
        told = rankings.join(clear, "publication", "left_semi").withColumn("tie", F.col("tie") != 0).select(*row)
        both = expected.withColumn("more", F.lit(1)).unionByName(told.withColumn("more", F.lit(-1)))
        differing = (
            question.standing.undivided(both)
            .groupBy(*row)
            .agg(F.sum("more").alias("more"))
        )
        return differing.groupBy("publication", "client").agg(
            F.max(F.col("more") > 0).alias("lacking"), F.max(F.col("more") < 0).alias("mistold")
        ).filter(F.col("lacking") | F.col("mistold"))

    def _decided(self, question: Question, rankings: DataFrame) -> DataFrame:
        """The publications, with the time of their answer for the last decision about them.

        The way of a question to all brokers and back is longer than what the audit allows a message. An answer
        that had not come when the run was cut may still have been under way.
        """
        from pyspark.sql import functions as F

        answered = rankings.groupBy("publication").agg(F.max("time_ns").alias("answered_ns"))
        under_way = F.lit(question.trace.in_flight_at_end > 0) & F.col("answered_ns").isNull()
        return (
            question.publications.join(answered, "publication", "left")
            .withColumn("end_ns", F.coalesce("answered_ns", "end_ns"))
            .withColumn("cut", F.col("cut") | under_way)
            .drop("answered_ns")
        )

    def _filters(self, question: Question) -> DataFrame:
        """A row per publication and filter that may score: certain, scores, least, most."""
        from pyspark.sql import functions as F

        versions = question.keep(self._versions(question))
        widest = versions.agg(F.max(F.size("constraints"))).first()
        width = (widest[0] if widest is not None else 0) or 0
        for k in range(width):
            one = F.get(F.col("constraints"), F.lit(k))
            versions = versions.withColumns({f"{name}_{k}": one[name] for name in _PARTS})
        publications = self._asked(question.publications)
        publisher = F.shiftright("p.publication", 32)
        others = F.col("c.client") != publisher if self.kind.exclude_publisher else F.lit(True)
        met = question.standing.possible() & others
        certain = question.standing.in_time() & (F.size("c.unheard") == 0)
        known = (F.col("c.settled_ns") < F.col("p.time_ns")) & (F.size("c.unheard") == 0)
        scored = (
            publications.alias("p")
            .join(versions.drop("constraints").alias("c"), met)
            .select(
                "publication", "interest", "client", certain.alias("certain"), known.alias("known"),
                (F.col("c.withdrawn_ns") <= F.col("p.end_ns")).alias("withdrawn"),
                reduce(lambda total, k: total + self._contribution(k), range(width), F.lit(0.0)).alias("score"),
            )
        )  # fmt: skip
        key = ["publication", "interest", "client"]
        certainly = scored.filter(F.col("certain") & (F.col("score") > self.query.threshold)).select(
            *key, F.lit(True).alias("certain"), F.array("score").alias("scores"),
            F.col("score").alias("least"), F.col("score").alias("most"),
        )  # fmt: skip
        absent = ~F.max("known") | F.max("withdrawn")
        freely = (
            scored.filter(~F.col("certain"))
            .groupBy(*key)
            .agg(
                F.collect_set("score").alias("scores"),
                F.when(absent, F.lit(0.0)).otherwise(F.min("score")).alias("least"),
                F.max("score").alias("most"),
            )
            .select(*key, F.lit(False).alias("certain"), "scores", "least", "most")
        )
        freely = freely.join(certainly.select(*key), key, "left_anti")
        return question.standing.undivided(certainly.unionByName(freely))

    def _versions(self, question: Question) -> DataFrame:
        """Filters as each change made them, constraints by attribute, and when their end was issued."""
        from pyspark.sql import functions as F

        ended = (
            question.standing.changes.filter(F.col("operation").isin(sorted(self.kind.revocations)))
            .groupBy("interest")
            .agg(F.min("issued_ns").alias("withdrawn_ns"))
        )
        quadruple = F.transform(
            F.sequence(F.lit(0), F.floor(F.size("values") / 4).cast("int") - 1),
            lambda k: F.struct(
                *(F.get("values", 4 * k + i).alias(name) for i, name in enumerate(_PARTS))
            ),
        )
        present = F.array_sort(F.filter(quadruple, lambda c: ~F.isnan(c["attribute"])))
        constraints = F.transform(
            F.when(F.size("values") >= 4, present).otherwise(F.array().cast(_CONSTRAINTS)),
            lambda c: F.struct(c["attribute"].cast("int").alias("attribute"), c["low"], c["high"], c["weight"]),
        )
        return (
            question.standing.versions()
            .withColumn("constraints", constraints)
            .drop("values")
            .join(ended, "interest", "left")
            .withColumn("withdrawn_ns", F.coalesce("withdrawn_ns", F.lit(NEVER)))
        )

    def _asked(self, publications: DataFrame) -> DataFrame:
        """Publications with their ends, and the sender's weights or null."""
        from pyspark.sql import functions as F

        m = self.kind.attributes
        values = F.col("values")
        high = F.when(F.size(values) >= 2 * m, F.slice(values, m + 1, m)).otherwise(F.slice(values, 1, m))
        weights = F.when(F.size(values) >= 3 * m, F.slice(values, 2 * m + 1, m))
        given = F.exists(weights, lambda w: ~F.isnan(w))
        return publications.withColumns(
            {
                "asked_low": F.slice(values, 1, m),
                "asked_high": F.zip_with(high, F.slice(values, 1, m), lambda h, v: F.when(F.isnan(h), v).otherwise(h)),
                "sender": F.when(given, F.transform(weights, lambda w: F.when(F.isnan(w), F.lit(0.0)).otherwise(w))),
            }
        )

    def _contribution(self, k: int) -> Column:
        """What constraint k adds, as `brokers.indexes.topk.contract.contributions` has it."""
        from pyspark.sql import functions as F

        attribute, low, high = F.col(f"attribute_{k}"), F.col(f"low_{k}"), F.col(f"high_{k}")
        asked_low, asked_high = F.get("asked_low", attribute), F.get("asked_high", attribute)
        counted = F.when(F.col("sender").isNull(), F.col(f"weight_{k}")).otherwise(F.get("sender", attribute))
        if self.query.prorate:
            length = high - low
            infinite = (low == F.lit(float("-inf"))) | (high == F.lit(float("inf"))) | (length == F.lit(float("inf")))
            share = (F.least(high, asked_high) - F.greatest(low, asked_low)) / F.nullif(length, F.lit(0.0))
            whole = infinite | (length == 0) | (asked_low == asked_high)
            counted = F.when(whole, counted).otherwise(counted * share)
        hit = attribute.isNotNull() & ~F.isnan(asked_low) & (low <= asked_high) & (high >= asked_low)
        return F.when(hit, counted).otherwise(F.lit(0.0))

    def _answer(self, filters: DataFrame, by: str) -> DataFrame:
        """The rows of the answer if each filter scores what column `by` says."""
        return self._kept(self._ranked(filters, by), by)

    def _ranked(self, filters: DataFrame, by: str) -> DataFrame:
        """Those above the threshold: `place` from 1, `last` (the score at the boundary), whether that is a `tie`."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        k = self.query.k
        assert k is not None
        ranked = filters.filter(F.col(by) > self.query.threshold)
        order = [F.desc(by), F.col("interest")]
        if self.query.unit == "receiver":
            own = F.row_number().over(Window.partitionBy("publication", "client").orderBy(*order))
            ranked = ranked.withColumn("own", own).filter("own = 1").drop("own")
        whole = Window.partitionBy("publication")
        ranked = ranked.withColumn("place", F.row_number().over(whole.orderBy(*order)))
        last = F.max(F.when(F.col("place") == k, F.col(by))).over(whole)
        behind = F.max(F.when(F.col("place") == k + 1, F.col(by))).over(whole)
        tie = F.coalesce(F.col("last") == F.col("behind"), F.lit(False))
        return ranked.withColumns({"last": last, "behind": behind}).withColumn("tie", tie).drop("behind")

    def _kept(self, ranked: DataFrame, by: str) -> DataFrame:
        """Of those ranked, the answer."""
        from pyspark.sql import functions as F

        assert self.query.k is not None
        first = F.col("place") <= self.query.k
        at_boundary = F.coalesce(F.col(by) == F.col("last"), F.lit(False))
        if self.query.ties == "all":
            return ranked.filter(first | at_boundary)
        return ranked.filter(first & ~(F.col("tie") & at_boundary) if self.query.ties == "none" else first)

    def _ended_by_a_tie(self, question: Question, filters: DataFrame, right: DataFrame) -> DataFrame:
        """The right answers, and in place of them those shown that free filters may have ended with a tie."""
        from pyspark.sql import functions as F

        k = self.query.k
        threshold = self.query.threshold
        chosen = F.col("shown").isNotNull()
        rest = filters.filter(~chosen)
        sums = filters.groupBy("publication").agg(
            F.min(F.when(chosen, F.col("weakest"))).alias("lowest"),
            F.max(F.when(~chosen, F.col("weakest"))).alias("highest"),
            F.count(F.when(chosen, 1)).alias("count"),
        )
        could = rest.select("publication", F.explode("scores").alias("score"), "weakest", F.lit(1).alias("one")).filter(
            (F.col("score") != F.col("weakest")) & (F.col("score") > threshold)
        )
        does = rest.select("publication", F.col("weakest").alias("score"), F.lit(1).alias("one"))
        # At least one free filter of that score: else the certain ones would have made the tie by themselves.
        could = could.select("publication", "score", "one", F.lit(1).alias("free"))
        levels = (
            question.standing.undivided(could.unionByName(does.withColumn("free", F.lit(0))))
            .groupBy("publication", "score")
            .agg(F.sum("one").alias("crowd"), F.max("free").alias("free"))
            .filter("free = 1")
            .join(sums, "publication")
        )
        if self.query.unit == "receiver":
            # Which free filter made which tie is not followed up: nothing is said where one is free.
            unclear = filters.filter(~F.col("certain")).select("publication").distinct()
            return _replaced(question, right, filters.filter(chosen), unclear)
        room = F.lit(k) - F.col("count")
        ended = levels.filter(
            (F.coalesce("highest", F.lit(0.0)) <= F.col("score"))
            & (F.col("lowest").isNull() | (F.col("score") < F.col("lowest")))
            & (F.col("crowd") > room)
            & (room >= 0)
        )
        return _replaced(question, right, filters.filter(chosen), ended.select("publication").distinct())

    def reason(self, publication: dict[str, Any], change: dict[str, Any]) -> str:
        """What a filter scores with a publication, constraint by constraint."""
        if change["operation"] in self.kind.revocations:
            return "ends the filter"
        asked = self.kind.asked(np.asarray(publication["values"], np.float64))
        said, total = [], 0.0
        for attribute, low, high, weight in sorted(np.reshape(change["values"], (-1, 4)).tolist()):
            if attribute != attribute:
                continue
            a = int(attribute)
            hit = low <= asked.high[a] and high >= asked.low[a]
            gain = (weight if asked.weights is None else float(asked.weights[a])) if hit else 0.0
            total += gain
            said.append(f"{gain:g} for {low:g} to {high:g} in attribute {a}")
        prorated = " before prorating" if self.query.prorate else ""
        return f"scores {total:g}{prorated}: " + "; ".join(said)


def _replaced(question: Question, answers: DataFrame, others: DataFrame, publications: DataFrame) -> DataFrame:
    """The answers, and the others in place of them for these publications."""
    columns = ["publication", "client", "interest"]
    kept = answers.join(publications, "publication", "left_anti").select(*columns)
    others = others.join(publications, "publication", "left_semi").select(*columns)
    return question.standing.undivided(kept.unionByName(others))


_PARTS = ("attribute", "low", "high", "weight")
_CONSTRAINTS = "array<struct<attribute:double,low:double,high:double,weight:double>>"
