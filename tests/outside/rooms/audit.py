"""The audit rule of the kind `rooms`: a client is forced if a stay of it that must count is near enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from brokers.auditing import Question
from brokers.contract import Kind
from rooms.kind import ENTER

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class RoomsRule:
    """See the module."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def decisions(self, question: Question) -> DataFrame:
        from pyspark.sql import functions as F

        standing = question.standing
        stays = standing.versions().withColumn("room", F.get("values", F.lit(0))).drop("values")
        room, loudness = F.get("p.values", F.lit(0)), F.get("p.values", F.lit(1))
        near = F.abs(F.col("c.room") - room) <= loudness
        in_time, unspoilt = standing.in_time(), standing.unspoilt()
        met = question.publications.alias("p").join(stays.alias("c"), near & standing.possible())
        return (
            met.select("publication", "client", "issued_ns", in_time.alias("in_time"), unspoilt.alias("unspoilt"))
            .groupBy("publication", "client")
            .agg(
                F.max(F.col("in_time") & F.col("unspoilt")).alias("forced"),
                (F.max("in_time") & ~F.max(F.col("in_time") & F.col("unspoilt"))).alias("excused"),
                F.min("issued_ns").alias("since_ns"),
            )
        )

    def reason(self, publication: dict[str, Any], change: dict[str, Any]) -> str:
        """How far away a stay is from what was said."""
        if change["operation"] != ENTER:
            return "leaves"
        room, loudness = publication["values"][:2]
        walls = abs(change["values"][0] - room)
        return f"is in room {change['values'][0]:g}, {walls:g} walls away from what carries through {loudness:g}"
