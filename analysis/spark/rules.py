"""The audit rule of a service, and its question answered. What a rule is: `brokers.auditing`."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from brokers.auditing import Judge, Matcher, Question, Rule
from brokers.errors import InvalidInput
from brokers.names import load_as

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from analysis.spark.trace import Service


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


def rule_of(service: Service) -> Rule:
    """The audit rule of a service's kind."""
    target = service.kind.manifest.audit_rule
    if not target:
        raise InvalidInput(
            f"service {service.name!r}: the kind {service.kind.name!r} has no audit rule; name one as audit_rule = "
            "'package.module:Class' in its manifest, as brokers/auditing.py describes"
        )
    rule: Rule = load_as("audit rules", target)(service.kind)
    return rule


def matcher_of(rule: Rule) -> Matcher | Judge | None:
    """What a rule has for tasks. A rule that inherits it may have changed what it says, and is asked in Spark."""
    return rule.matcher() if "matcher" in vars(type(rule)) else None


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
