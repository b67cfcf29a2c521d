"""The audit rule of each kind: what the definition forces, and what it leaves free.

A rule is a class that is called `rule(kind)` and answers

    decisions(question) -> DataFrame
        publication, client   a pair that the definition allows at all; any other is forbidden
        forced                whether it had to be delivered
        excused               whether it is free only because a link lost something
        since_ns              the earliest time at which a delivery to the client was in order

with one row per pair. It computes from publications and changes alone (with dependencies and losses), never
from deliveries: those are what it judges. The audit does the rest: sampling, comparing, counting, duplicates
and order. So are judged kinds that say of each pair whether it is right, and those that bound the answer from
below (forced) and from above (allowed).

Where who is in the answer depends on the others, a rule answers instead

    judge(question, delivered) -> DataFrame
        publication, client, times, first_ns   as in `delivered`; of a pair that was not delivered: null
        forced, excused                        as above
        missed, unwanted                       what is wrong with the pair

with a row for every pair that is not forbidden or that was delivered. `delivered` has a row per pair with how
often and when first it was delivered.

A rule may also answer `reason(publication, change) -> str`: in words, whether the change of a client wants
the publication and why; both are rows of the trace as dictionaries.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from brokers.contract import Guarantees
from brokers.errors import InvalidInput
from brokers.names import load_as

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from analysis.spark.trace import Service, Trace

# Name of the kind -> "module:Class". A third party's kind may carry `audit_rule = "module:Class"` instead.
RULES: dict[str, str] = {
    "channels": "analysis.spark.channels:ChannelsRule",
    "content": "analysis.spark.content:ContentRule",
    "context": "analysis.spark.context:ContextRule",
    "topk": "analysis.spark.topk:TopKRule",
    "spatial": "analysis.spark.spatial:SpatialRule",
}


class Kept:
    """Frames that are computed once and used several times, for as long as a `with` block lasts.

    What is kept of a large run is given back at the end: Spark compares every later plan with it, which makes a long
    session slow and full. Of a run that is read in one partition rows are kept without the plan that made them. For
    Spark goes through a whole plan each time that something is added to it, and with few rows that is most of the work.
    """

    def __init__(self, few: bool) -> None:
        self._few = few
        self._frames: list[DataFrame] = []

    def __call__(self, frame: DataFrame) -> DataFrame:
        if self._few:
            return frame.localCheckpoint(eager=False)
        self._frames.append(frame.persist())
        return frame

    def apart(self, frame: DataFrame) -> DataFrame:
        """Cut from the plan that made it where rows are few; else as it is, for what is cheap to make again."""
        return self(frame) if self._few else frame

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *_: object) -> None:
        while self._frames:
            with suppress(Exception):  # a Spark that died, which is told already
                self._frames.pop().unpersist()


@dataclass(frozen=True)
class Question:
    """What a rule gets.

    `publications` are those to judge: publication, time_ns, values, place (of the broker where it entered),
    end_ns (no decision about it was made after that), unheard (what lies behind links that lost a copy),
    cut (whether the run may have ended before it was done).
    `changes` and `settled` are as in `analysis.spark.changes`. `places` gives each broker its place. `keep` is for a
    frame that is used several times; it is given back when the service has been judged.
    """

    trace: Trace
    service: Service
    guarantees: Guarantees
    publications: DataFrame
    changes: DataFrame
    settled: DataFrame
    places: DataFrame
    keep: Kept


class Rule(Protocol):
    """See the module. One of `decisions` and `judge` has to be there."""

    def decisions(self, question: Question) -> DataFrame: ...

    def judge(self, question: Question, delivered: DataFrame) -> DataFrame: ...

    def reason(self, publication: dict[str, Any], change: dict[str, Any]) -> str: ...


def rule_of(service: Service) -> Rule:
    """The audit rule of a service's kind."""
    target = RULES.get(service.kind.name) or getattr(service.kind, "audit_rule", None)
    if target is None:
        raise InvalidInput(
            f"service {service.name!r}: the kind {service.kind.name!r} has no audit rule; give the class an "
            "attribute audit_rule = 'package.module:Class', as analysis/spark/rules.py describes"
        )
    return load_as("audit rules", target)(service.kind)


def judged(rule: Rule, question: Question, delivered: DataFrame) -> DataFrame:
    """What a rule says of every pair: its own judgement, or its decisions beside what was delivered."""
    if hasattr(rule, "judge"):
        return rule.judge(question, delivered)
    from pyspark.sql import functions as F

    from analysis.spark.trace import undivided

    never_in_order = F.col("since_ns").isNull() | (F.col("since_ns") > F.col("first_ns"))
    return (
        undivided(rule.decisions(question))
        .join(delivered, ["publication", "client"], "full")
        .select(
            "publication", "client", "times", "first_ns", "forced", "excused",
            (F.col("forced") & F.col("times").isNull()).alias("missed"),
            (F.col("times").isNotNull() & never_in_order).alias("unwanted"),
        )
    )  # fmt: skip
