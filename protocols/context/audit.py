"""The audit rule of the kind `context`.

Of each context value a publication has the *possible* ones: those issued by the last decision about it that had not
been replaced, for all brokers, before it was sent; and that it is not known, until its first update had settled. A
pair (publication, client) is allowed if a profile of the client that may count holds under some choice of possible
values, and forced if one that counts holds under all choices. A choice gives each value that a profile names one of
its possible ones, so conditions that name a value twice, and alternatives, are judged exactly. Where the choices
are too many, the pair is free.

What was lost: a value that replaced another, but of which a link lost something, has not replaced it for good; the
next that all have heard does. And a profile of which a link lost something is not forced anywhere: the value it
names may not have come.

For tasks in Python `matching` says the same in NumPy.

Plan, in Spark. Publications meet profiles first on what needs no context, one compiled condition per pair. Only the
pairs left are joined with the possible values, one row per value that the profile names, and gathered again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from brokers.auditing import Question
from brokers.contract import NEVER, Kind
from brokers.indexes.context.contract import OPERATORS
from protocols.context.kind import ATOM, SUBSCRIBE, UPDATE, value_word
from protocols.context.matching import CHOICES_MAX, Profiles

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_PARTS = ("conjunct", "attribute", "operator", "context", "of", "constant", "epsilon")


class ContextRule:
    """See the module."""

    def __init__(self, kind: Kind) -> None:
        from protocols.context.kind import Context

        assert isinstance(kind, Context)
        self.kind = kind

    def matcher(self) -> Profiles:
        """The same in NumPy."""
        word, step, of = value_word(0, 0), value_word(1, 0), value_word(0, 1)
        return Profiles(UPDATE, SUBSCRIBE, ATOM, (word, step - word, of - word), OPERATORS, NEVER)

    def decisions(self, question: Question) -> DataFrame:
        from pyspark.sql import functions as F

        begun = question.keep(question.standing.versions())
        pairs = question.keep(self._pairs(question, begun))
        known = self._known(question, begun, pairs)
        judged = (
            pairs.join(known, ["publication", "change"], "left")
            .withColumn("possible", F.coalesce("possible", F.array().cast(_POSSIBLE)))
            .withColumn("choices", F.aggregate("possible", F.lit(1.0), lambda n, one: n * F.size(one["values"])))
            .withColumn("named", F.transform("possible", lambda one: one["word"]))
            .withColumn("few", F.col("choices") <= CHOICES_MAX)
            .withColumn("chosen", F.when(F.col("few"), _choices()))
            .withColumn("some", F.coalesce(F.exists("chosen", self._holds), ~F.col("few")))
            .withColumn("all", F.coalesce(F.forall("chosen", self._holds), F.lit(False)))
            .filter("some")
        )
        return judged.groupBy("publication", "client").agg(
            F.max(F.col("all") & F.col("forced")).alias("forced"),
            (F.max(F.col("all") & F.col("in_time")) & ~F.max(F.col("all") & F.col("forced"))).alias("excused"),
            F.min("issued_ns").alias("since_ns"),
        )

    def _pairs(self, question: Question, begun: DataFrame) -> DataFrame:
        """Publications and profiles that may count, and hold as far as no context is asked."""
        from pyspark.sql import functions as F

        atom = F.transform(
            F.sequence(F.lit(0), F.floor(F.size("values") / ATOM).cast("int") - 1),
            lambda k: F.struct(*(F.get("values", ATOM * k + i).alias(name) for i, name in enumerate(_PARTS))),
        )
        atoms = F.filter(atom, lambda a: ~F.isnan(a["conjunct"]))
        word = _word()
        profiles = (
            begun.filter(F.col("operation") == SUBSCRIBE)
            .withColumn("atoms", F.when(F.size("values") >= ATOM, atoms))
            .withColumn("words", F.array_distinct(F.filter(F.transform("atoms", word), lambda w: w.isNotNull())))
            .withColumn("conjuncts", F.transform(
                F.array_distinct(F.transform("atoms", lambda a: a["conjunct"])),
                lambda n: F.filter("atoms", lambda a: a["conjunct"] == n),
            ))
            .drop("values", "atoms", "operation", "interest", "broker")
        )  # fmt: skip
        in_time = question.standing.in_time()
        heard = in_time & (F.size("c.unheard") == 0)
        return (
            question.publications.alias("p")
            .join(profiles.alias("c"), question.standing.possible())
            .filter(F.exists("conjuncts", lambda atoms: F.forall(atoms, lambda a: _may_hold(a))))
            .select(
                "publication", "change", "client", "issued_ns", "words", "conjuncts", "p.values", "time_ns", "end_ns",
                in_time.alias("in_time"), (heard & question.standing.unspoilt()).alias("forced"),
            )
        )  # fmt: skip

    def _known(self, question: Question, begun: DataFrame, pairs: DataFrame) -> DataFrame:
        """Of each pair, the possible values of everything that its profile names."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        whole = F.size("unheard") == 0
        later = Window.partitionBy("interest").orderBy("issued_ns", "change").rowsBetween(0, Window.unboundedFollowing)
        versions = (
            begun.filter(F.col("operation") == UPDATE)
            # A value is gone once any later one has settled.
            .withColumn("gone_ns", F.min("gone_ns").over(later))
            .select(
                F.col("interest").alias("word"), F.get("values", F.lit(2)).alias("value"), "issued_ns", "gone_ns",
                F.when(whole, F.col("settled_ns")).otherwise(F.lit(NEVER)).alias("settled_ns"),
            )
        )  # fmt: skip
        asked = pairs.select("publication", "time_ns", "end_ns", F.explode("words").alias("word")).distinct()
        met = (F.col("a.word") == F.col("v.word")) & (F.col("v.issued_ns") <= F.col("a.end_ns"))
        nothing = F.array(F.lit(float("nan")))
        values = (
            asked.alias("a")
            .join(versions.alias("v"), met, "left")
            .groupBy("a.publication", "a.word", "a.time_ns")
            .agg(
                F.collect_set(F.when(F.col("v.gone_ns") >= F.col("a.time_ns"), F.col("v.value"))).alias("values"),
                F.min("v.settled_ns").alias("first_ns"),
            )
            .withColumn("unsure", F.coalesce(F.col("first_ns") >= F.col("time_ns"), F.lit(True)))
            .withColumn("values", F.when(F.col("unsure"), F.array_union("values", nothing)).otherwise(F.col("values")))
            .select("publication", "word", F.struct("word", "values").alias("one"))
        )
        named = pairs.select("publication", "change", F.explode("words").alias("word"))
        return (
            question.standing.undivided(named.join(values, ["publication", "word"]))
            .groupBy("publication", "change")
            .agg(F.array_sort(F.collect_list("one")).alias("possible"))
        )

    @staticmethod
    def _holds(choice: Column) -> Column:
        """Whether a profile holds under one choice of values, in the order of `named`."""
        from pyspark.sql import functions as F

        word = _word()
        return F.exists(
            "conjuncts",
            lambda atoms: F.forall(
                atoms, lambda a: _atom_holds(a, F.get(choice, F.array_position("named", word(a)).cast("int") - 1))
            ),
        )

    def reason(self, publication: dict[str, Any], change: dict[str, Any]) -> str:
        """What a change says."""
        if change["operation"] in self.kind.revocations:
            return "ends the profile"
        row = np.asarray(change["values"], np.float64)
        if change["operation"] == UPDATE:
            context, attribute, value = self.kind.update(row)
            return f"sets attribute {attribute} of context {context} to {'nothing' if value is None else value}"
        conjuncts = [" and ".join(map(_in_words, conjunct)) or "anything" for conjunct in self.kind.profile(row)]
        return f"asks for {' or '.join(conjuncts)}"


_POSSIBLE = "array<struct<word:bigint,values:array<double>>>"


def _in_words(atom: list[Any]) -> str:
    def name(operand: Any) -> str:
        if not isinstance(operand, list):
            return f"{operand:g}"
        return f"attribute {operand[1]}" if operand[0] == "message" else f"context {operand[1]}.{operand[2]}"

    return f"{name(atom[0])} {atom[1]} {name(atom[2])}" + (f" within {atom[3]:g}" if len(atom) == 4 else "")


def _word() -> Any:
    """The name of the value that an atom names, null if it names none."""
    from pyspark.sql import functions as F

    first, step = value_word(0, 0), value_word(1, 0) - value_word(0, 0)

    def of(atom: Column) -> Column:
        named = F.lit(first) + atom["context"].cast("bigint") * F.lit(step) + atom["of"].cast("bigint")
        return F.when(~F.isnan(atom["context"]), named)

    return of


def _choices() -> Column:
    """Every choice of one possible value for each that is named."""
    from pyspark.sql import functions as F

    return F.aggregate(
        "possible",
        F.array(F.array().cast("array<double>")),
        lambda chosen, one: F.flatten(
            F.transform(chosen, lambda c: F.transform(one["values"], lambda v: F.concat(c, F.array(v))))
        ),
    )


def _may_hold(atom: Column) -> Column:
    """An atom as far as no context is asked; Spark holds NaN to be equal to itself and above every number."""
    from pyspark.sql import functions as F

    value = F.get("p.values", atom["attribute"].cast("int"))
    plain = F.when(F.isnan(atom["context"]), _compared(atom, value, atom["constant"])).otherwise(F.lit(True))
    there = F.isnan(atom["attribute"]) | ~F.isnan(value)
    return F.isnan(atom["operator"]) | (F.coalesce(there, F.lit(False)) & F.coalesce(plain, F.lit(False)))


def _atom_holds(atom: Column, known: Column) -> Column:
    """An atom, where the value that it names is `known`: null or NaN if it names none, or none is known."""
    from pyspark.sql import functions as F

    value = F.get("values", atom["attribute"].cast("int"))
    on_message = ~F.isnan(atom["attribute"])
    left = F.when(on_message, value).otherwise(known)
    right = F.when(on_message & ~F.isnan(atom["context"]), known).otherwise(atom["constant"])
    there = left.isNotNull() & right.isNotNull() & ~F.isnan(left) & ~F.isnan(right)
    return F.isnan(atom["operator"]) | (F.coalesce(there, F.lit(False)) & _compared(atom, left, right))


def _compared(atom: Column, left: Column, right: Column) -> Column:
    from pyspark.sql import functions as F

    within = (left >= right - atom["epsilon"]) & (left <= right + atom["epsilon"])
    tests = {"<": left < right, "<=": left <= right, "=": left == right, "!=": left != right,
             ">=": left >= right, ">": left > right, "~": within}  # fmt: skip
    found = F.lit(False)
    for number, sign in enumerate(OPERATORS):
        found = F.when(atom["operator"] == number, tests[sign]).otherwise(found)
    return found
