"""The audit rule of the kind `topics`.

A pair (publication, client) is forced if some subscription of the client has its name, had settled before it was sent,
and was not revoked before the last decision about it had been made. It is allowed if some subscription that has its
name had been issued by then and was not gone before it was sent. Allowed and not forced is free.

A rule that builds on this one, and changes it, is asked in Spark, where nothing but pairs is judged; for tasks in
Python `matching` says the same of values, and judges groups, no-local and copies, `matching_retained` what is retained.

Plan, in Spark. Subscriptions and publications are joined by their first level where that is a word, and each with each
where it is a wildcard; the levels after it are compared as arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from brokers.auditing import Question
from brokers.contract import Kind
from brokers.errors import InvalidInput
from brokers.indexes.topics.syntax import DOLLAR, HASH, PLUS
from protocols.content.audit import decided, heeding_offers
from protocols.topics.kind import FILTER_AT, NAME_AT, PUBLISH, SUBSCRIBE, Topics, leaves_out, levels_of
from protocols.topics.matching import Advertised, Filters, Groups
from protocols.topics.matching_retained import Retained
from topology.units import format_duration

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class TopicsRule:
    """See the module."""

    def __init__(self, kind: Kind) -> None:
        self.kind = cast(Topics, kind)
        self.mqtt = self.kind.syntax.dollar_rule

    def matcher(self) -> Filters:
        """The same in NumPy: of values alone, or of groups too."""
        kind, operations = self.kind, frozenset(self.kind.interests)
        if kind.advertised:
            return Advertised(operations, self.mqtt, frozenset(kind.offers))
        if kind.pair_by_pair:
            return Filters(operations, self.mqtt)
        judge = Retained if kind.retained else Groups
        return judge(operations, self.mqtt, kind.each, kind.counts_copies)

    def decisions(self, question: Question) -> DataFrame:
        if not self.kind.pair_by_pair:
            raise InvalidInput("a rule that builds on that of topics judges pairs alone; build on `matching.Groups`")
        pairs = self.pairs(question)
        if self.kind.advertised:
            pairs = heeding_offers(pairs, self.pairs(question, self.kind.offers))
        return decided(pairs)

    def pairs(self, question: Question, operations: frozenset[int] | None = None) -> DataFrame:
        """A row per publication and subscription that has its name and may count: how the subscription stood.

        publication, client, interest, in_time, forced (in time, and no loss excuses it), issued_ns, whole (no link
        lost anything of it that matters). Interests are those that want something, unless others are named.
        """
        from pyspark.sql import functions as F

        standing = question.standing
        names = question.publications.withColumns(_levels("values", NAME_AT))
        filters = (
            standing.versions()
            .filter(F.col("operation").isin(sorted(operations or self.kind.wants())))
            .withColumns(_levels("values", FILTER_AT))
            .withColumn("rest", F.array_position("levels", float(HASH)) - 1)
        )
        filters = question.keep(filters.drop("values", "operation", "change", "broker"))
        left, first = names.alias("p"), F.col("c.first")
        met = None
        for some, begins in (
            (first >= 0, F.col("p.first") == first),
            (first < 0, (F.col("p.first") < DOLLAR) if self.mqtt else F.lit(True)),
        ):
            right = filters.alias("c").filter(some)
            part = left.join(right, begins & self._has_name() & standing.possible()).select(
                "publication", "client", "interest", "issued_ns",
                standing.in_time().alias("in_time"), standing.unspoilt().alias("unspoilt"),
                (standing.mended() | (F.size("c.unheard") == 0)).alias("whole"),
            )  # fmt: skip
            met = part if met is None else met.unionByName(part)
        assert met is not None
        return met.withColumn("forced", F.col("in_time") & F.col("unspoilt"))

    def _has_name(self) -> Column:
        """Whether every level of a name, and of a filter up to the wildcard for the rest, is as it has to be."""
        from pyspark.sql import functions as F

        name, asked, rest = F.col("p.levels"), F.col("c.levels"), F.col("c.rest")

        def agrees(at: Column) -> Column:
            there = at < F.size(name)
            same = (F.get(asked, at) == F.get(name, at)) | ((F.get(asked, at) == PLUS) & there)
            behind = F.lit(True) if self.mqtt else (at > rest) | there
            return F.when((rest >= 0) & (at >= rest), behind).otherwise(F.coalesce(same, F.lit(False)))

        return F.forall(F.sequence(F.lit(0), F.greatest(F.size(name), F.size(asked)) - 1), agrees)

    def more(self, rows: Callable[[str], list[dict[str, Any]]], names: Mapping[int, str]) -> list[str]:
        """What else a client got a publication for, by the tables of the kind; `names` are those of its interests."""
        kept = "got it at {} as what is retained, for {}"
        live = "is told at {} that it is retained, for {}"
        told = [(row["time_ns"], live if row["live"] else kept, row["interest"]) for row in rows("retained")]
        told += [(row["time_ns"], "is chosen at {} of the group of {}", row["interest"]) for row in rows("chosen")]
        return [
            said.format(format_duration(time), f"its interest {names.get(interest, interest)}")
            for time, said, interest in sorted(told)
        ]

    def reason(self, publication: dict[str, Any], change: dict[str, Any]) -> str:
        """Whether a filter has a name, and at which level they part."""
        if change["operation"] not in self.kind.interests:
            return "ends what it asked for"
        asked, name = levels_of(SUBSCRIBE, change["values"]), levels_of(PUBLISH, publication["values"])
        filter_, topic = (
            self.kind.spelled(type, row["values"])[0] for type, row in ((SUBSCRIBE, change), (PUBLISH, publication))
        )
        said = f"asks for {filter_}"
        if leaves_out(change["values"], change["client"], publication["publication"]):
            return f"{said}, but not for what its client publishes"
        if self.mqtt and asked[0] < 0 and name[0] & DOLLAR:
            return f"{said}, which begins with a wildcard, and {topic} begins with $"
        for place, level in enumerate(asked):
            if level == HASH:
                enough = self.mqtt or place < len(name)
                return f"matches: {said}, and got {topic}" if enough else f"{said}, and {topic} ends before its end"
            if place == len(name):
                return f"{said}, and {topic} has only {len(name)} levels"
            if level not in (PLUS, name[place]):
                return f"{said}, and {topic} has another word as level {place + 1}"
        if len(name) > len(asked):
            return f"{said}, and {topic} has {len(name)} levels"
        return f"matches: {said}, and got {topic}"


def _levels(column: str, at: int) -> dict[str, Column]:
    """The levels of rows as arrays, without padding, and the first of them."""
    from pyspark.sql import functions as F

    there = F.filter(column, lambda level: ~F.isnan(level))
    return {"levels": F.slice(there, at + 1, F.size(there)), "first": F.get(there, F.lit(at))}
