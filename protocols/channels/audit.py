"""The audit rule of the kind `channels`: at every round, every client got the answers to its queries.

What a client received for a query in a round (`received`) is compared with the query's answer on the server's
database (`objects`), as the number of objects and the sum of their marks. Of a query at a time at which it is due,
each version (what one change made of it) is out, certain or free, as docs/analysis.md says: certain if the change had
settled before, and nothing took its place until the last answer of the round had been handled. Then something has to
have been received; and whatever was received has to be the answer of a version that is not out.

In what the audit counts a pair is a client and a query in one round: `publication` is the query's id.

Losses. A lost answer excuses what lies behind the link for its round. A lost word on who listens to which channel
excuses what lies behind the link until one that was said later came over it, for that tells everything again; the trace
level `full` says when that was, at lower levels it excuses the rest of the run. An answer that a link doubled may come
twice.

What follows is asked in Spark; for tasks in Python `matching` says the same in NumPy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brokers.auditing import Question
from brokers.contract import NEVER, Kind
from protocols.channels.matching import Answered
from protocols.channels.server import LISTEN, PLANNED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class ChannelsRule:
    """See the module."""

    def __init__(self, kind: Kind) -> None:
        from protocols.channels.kind import Channels

        assert isinstance(kind, Channels)
        self.kind, self.dimensions = kind, kind.dimensions

    def matcher(self) -> Answered:
        """The same in NumPy."""
        operations = frozenset(self.kind.interests | self.kind.replacements)
        return Answered(operations, self.dimensions, (LISTEN, PLANNED), NEVER)

    def judge(self, question: Question, delivered: DataFrame) -> DataFrame:
        """A row per query and round in which it may be due, or was answered. O(queries * rounds), sorted once."""
        from pyspark.sql import functions as F

        due = ["interest", "period_ns", "round"]
        versions = question.keep(self._versions(question))
        rounds = self._rounds(question, versions)
        standing = question.standing
        may = standing.undivided(rounds.alias("p").join(versions.alias("c"), ["interest", "period_ns"]))
        may = may.filter(standing.possible())
        certain = standing.in_time()
        excused = ~standing.unspoilt()
        at_hand = F.filter(
            "p.stretches", lambda s: (s["begin"] <= F.col("p.end_ns")) & (s["end"] >= F.col("p.time_ns"))
        )
        untold = standing.is_behind(F.col("c.home"), F.transform(at_hand, lambda s: s["behind"]))
        may = may.select(
            *due, "c.client", certain.alias("certain"), (excused | untold).alias("excuse"),
            F.struct("c.objects", "c.marks").alias("answer"),
        ).groupBy(*due, "client").agg(
            F.max("certain").alias("certain"),
            F.max(F.col("certain") & F.col("excuse")).alias("excuse"),
            F.collect_set("answer").alias("right"),
        )  # fmt: skip
        got = self._received(question).join(self._twice(question), ["period_ns", "round"], "left")
        there = F.col("times").isNotNull()
        wrong = F.col("right").isNull() | ~F.forall("answers", lambda a: F.array_contains("right", a))
        forced = F.coalesce(F.col("certain") & ~F.col("excuse"), F.lit(False))
        distinct = F.size(F.array_distinct("answers"))  # of structs a set of Spark may have one twice
        again = F.when(F.coalesce("twice", F.lit(False)), distinct).otherwise(F.col("times")) > 1
        return may.join(got, [*due, "client"], "full").select(
            F.col("interest").alias("publication"), "client", "times", "first_ns", forced.alias("forced"),
            F.coalesce("excuse", F.lit(False)).alias("excused"),
            (forced & ~there).alias("missed"),
            F.coalesce(there & (wrong | again), F.lit(False)).alias("unwanted"),
        )  # fmt: skip

    # ---- what is right -----------------------------------------------------------------------------------

    def _versions(self, question: Question) -> DataFrame:
        """Versions of queries: when they counted, and what answers them."""
        from pyspark.sql import functions as F

        found = (
            question.standing.versions()
            .filter(F.size("values") > 2 * self.dimensions)
            .withColumn("period_ns", F.get("values", F.lit(0)).cast("bigint"))
        )
        ends = [
            F.get("values", F.lit(1 + 2 * k + side)).alias(f"{name}_{k}")
            for k in range(self.dimensions)
            for side, name in ((0, "low"), (1, "high"))
        ]
        answers = self._answers(question, found.select("change", *ends))
        return found.drop("values").join(answers, "change")

    def _answers(self, question: Question, boxes: DataFrame) -> DataFrame:
        """change, objects, marks: the objects in each box. Both are dealt out along the first axis, by mean width."""
        from pyspark.sql import functions as F

        objects = question.trace.table("objects").filter(F.col("service") == question.service.number)
        objects = objects.select(
            "mark", *(F.get("point", F.lit(k)).alias(f"at_{k}") for k in range(self.dimensions))
        )
        mean = boxes.agg(F.avg(F.col("high_0") - F.col("low_0")).alias("width")).first()
        width = float((mean["width"] if mean is not None else None) or 1.0)

        def strip(column: str) -> Column:
            return F.floor(F.col(column) / F.lit(width))

        dealt = boxes.withColumn("strip", F.explode(F.sequence(strip("low_0"), strip("high_0"))))
        inside = F.col("b.strip") == F.col("o.strip")
        for k in range(self.dimensions):
            inside = inside & F.col(f"at_{k}").between(F.col(f"low_{k}"), F.col(f"high_{k}"))
        met = dealt.alias("b").join(objects.withColumn("strip", strip("at_0")).alias("o"), inside)
        counted = (
            question.standing.undivided(met)
            .groupBy("change")
            .agg(F.count("*").alias("objects"), F.sum("mark").alias("marks"))
        )
        return boxes.select("change").join(counted, "change", "left").fillna(0)

    # ---- rounds ------------------------------------------------------------------------------------------

    def _rounds(self, question: Question, versions: DataFrame) -> DataFrame:
        """A row per query and time at which one of its versions may be due: time_ns, end_ns, cut, place, losses."""
        from pyspark.sql import functions as F

        trace, last_ns = question.trace, question.trace.duration_ns - 1
        ends = question.keep(self._ends(question))
        took = F.col("end_ns") - F.col("round") * F.col("period_ns")
        longest = ends.agg(F.max(took).alias("ns")).first()
        longest_ns = int((longest["ns"] if longest is not None else None) or 0)
        period = F.col("period_ns")
        # A round may be under way when the query comes, and end long after its time.
        first = F.greatest(F.lit(1), F.floor((F.col("issued_ns") - F.lit(longest_ns)) / period)).cast("bigint")
        last = F.floor(F.least("gone_ns", F.lit(last_ns)) / period).cast("bigint")
        spans = versions.select("interest", "period_ns", first.alias("first"), last.alias("last"))
        spans = spans.filter(F.col("first") <= F.col("last"))
        rounds = spans.select("interest", "period_ns", F.explode(F.sequence("first", "last")).alias("round")).distinct()
        at = F.col("round") * F.col("period_ns")
        bound = trace.network.travel_ns_max
        cut = F.lit(False) if trace.in_flight_at_end == 0 else F.col("time_ns") + bound >= trace.end_ns
        return (
            rounds.join(F.broadcast(ends), ["period_ns", "round"], "left")
            .withColumn("time_ns", at)
            .withColumn("end_ns", F.greatest(F.col("time_ns"), F.coalesce("end_ns", "time_ns")))
            .withColumn("unheard", F.coalesce("unheard", F.array().cast(f"array<{question.standing.BEHIND}>")))
            .withColumn("stretches", self._untold(question))
            .withColumn("cut", cut)
            .withColumn("place", F.lit(int(trace.network.place[self._server(question)])))
        )

    def _server(self, question: Question) -> int:
        row = question.trace.table("objects").select("broker").first()
        return int(row["broker"]) if row is not None else 0

    def _ends(self, question: Question) -> DataFrame:
        """period_ns, round, end_ns (an answer of the round was handled last), unheard (behind which links)."""
        from pyspark.sql import functions as F

        trace, service = question.trace, question.service.number
        mine = F.col("service") == service
        answers = trace.table("answers").filter(mine).select("publication", "period_ns", "round", "time_ns")
        bound = trace.network.travel_ns_max
        if trace.has("hops"):
            handled = trace.table("hops").filter(mine & (F.col("body") >= 0))
            handled = handled.groupBy(F.col("body").alias("publication")).agg(F.max("time_ns").alias("end_ns"))
            answers = answers.join(handled, "publication", "left")
        else:
            answers = answers.withColumn("end_ns", F.col("time_ns") + F.lit(bound))
        ends = answers.groupBy("period_ns", "round").agg(F.max("end_ns").alias("end_ns"))
        lost = trace.table("losses").filter(mine & (F.col("body") >= 0) & (F.col("link") >= 0))
        where = question.standing.behind_links(lost) if self._losses(question) else None
        if where is None:
            return ends.withColumn("unheard", F.array().cast(f"array<{question.standing.BEHIND}>"))
        unheard = (
            lost.select(F.col("body").alias("publication"), "link")
            .join(answers, "publication")
            .join(where, "link")
            .groupBy("period_ns", "round")
            .agg(F.collect_set("behind").alias("unheard"))
        )
        return ends.join(unheard, ["period_ns", "round"], "left")

    @staticmethod
    def _losses(question: Question) -> bool:
        return question.trace.run.rows("losses") > 0 and not question.guarantees.under_loss

    def _untold(self, question: Question) -> Column:
        """From when until when who listens to what was not known behind which link; a constant."""
        from pyspark.sql import functions as F

        rows: list[Any] = []
        if self._losses(question):
            trace = question.trace
            mine = (F.col("service") == question.service.number) & (F.col("type") == LISTEN)
            lost = trace.table("losses").filter(mine).select("link", F.col("time_ns").alias("begin")).distinct()
            if trace.has("hops"):
                again = lost.join(self._told(question), "link").filter(F.col("said_ns") > F.col("begin"))
                again = again.groupBy("link", "begin").agg(F.min("time_ns").alias("end"))
                lost = lost.join(again, ["link", "begin"], "left")
            else:
                lost = lost.withColumn("end", F.lit(None).cast("bigint"))
            # One row per loss of this one type of message, of which there is one per plan and link at most.
            rows = lost.fillna(NEVER).collect()
        stretches = []
        for row in rows:
            low, high, inside = question.trace.network.behind(row["link"])
            behind = F.struct(
                F.lit(int(low)).alias("low"), F.lit(int(high)).alias("high"), F.lit(bool(inside)).alias("inside")
            )
            begin, end = F.lit(int(row["begin"])).alias("begin"), F.lit(int(row["end"])).alias("end")
            stretches.append(F.struct(begin, end, behind.alias("behind")))
        stretch = f"struct<begin:bigint,end:bigint,behind:{question.standing.BEHIND}>"
        return F.array(*stretches).cast(f"array<{stretch}>")

    @staticmethod
    def _told(question: Question) -> DataFrame:
        """Each word on who listens to what: link, said_ns, time_ns; said where one of its cause was first known."""
        from pyspark.sql import functions as F

        mine = (F.col("service") == question.service.number) & F.col("type").isin(LISTEN, PLANNED)
        words = question.trace.table("hops").filter(mine)
        first = words.groupBy(F.col("broker").alias("source"), "cause").agg(F.min("time_ns").alias("said_ns"))
        heard = words.filter(F.col("type") == LISTEN).select("link", "source", "cause", "time_ns")
        return heard.join(first, ["source", "cause"])

    # ---- what was received -------------------------------------------------------------------------------

    def _twice(self, question: Question) -> DataFrame:
        """period_ns, round, twice: a link doubled an answer, so that one and the same may come more than once."""
        from pyspark.sql import functions as F

        mine = F.col("service") == question.service.number
        doubled = question.trace.table("doubled").filter(mine).select(F.col("body").alias("publication")).distinct()
        rounds = question.trace.table("answers").filter(mine).join(doubled, "publication")
        return rounds.select("period_ns", "round", F.lit(True).alias("twice")).distinct()

    def _received(self, question: Question) -> DataFrame:
        from pyspark.sql import functions as F

        return (
            question.trace.table("received")
            .filter(F.col("service") == question.service.number)
            .groupBy(F.col("query").alias("interest"), "period_ns", "round", "client")
            .agg(
                F.count("*").alias("times"),
                F.min("time_ns").alias("first_ns"),
                F.collect_set(F.struct(F.col("objects").cast("bigint").alias("objects"), "marks")).alias("answers"),
            )
        )

    def reason(self, publication: dict[str, Any], change: dict[str, Any]) -> str:
        """What a query asks for, in words."""
        period, *ends = change["values"][: 1 + 2 * self.dimensions]
        box = " by ".join(f"{low:g} to {high:g}" for low, high in zip(ends[::2], ends[1::2]))
        return f"asks every {period / 1e9:g} s for the objects in {box}"

