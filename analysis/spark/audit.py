"""The audit: was delivered what had to be, and nothing else.

For each service, the rule of its kind says from publications and changes alone which pairs of publication and
client were forced, free or forbidden. Deliveries are compared with that, and looked through for duplicates and
for order, publisher by publisher. Findings, promises and verdicts are those of `brokers.verdicts`; a delivery is
unwanted, too, before anything allowed it.

Times. A decision about a publication is made where it is handled. The full trace says when it was handled
last; at lower levels it is given as long as a message can take through the overlay at most, so that more is
free. A run that ended with messages under way leaves free what may have been among them.

Losses. Where a protocol declares nothing under loss, a lost copy excuses what lies behind the link, and a lost
change what comes from behind it; where there is a way around the link, everything. Nothing else is excused.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import reduce
from os import PathLike
from typing import TYPE_CHECKING, Any

from analysis.spark.rules import Kept, judged, rule_of
from analysis.spark.standing import BEHIND, Standing, behind_links, changes_of, settlement
from analysis.spark.trace import (
    Service,
    Trace,
    checked,
    in_one_partition,
    rows_of,
    services_of,
    undivided,
    write_json,
)
from brokers.auditing import Question
from brokers.contract import NEVER, Guarantees
from brokers.naming import message_name
from brokers.verdicts import EXIT_CODES, FINDINGS, UNKNOWN, VALID, VERDICTS, Judgement, judgement, words
from scenarios.many.pool import cpus

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FILE = "audit.json"
EXAMPLES_MAX = 5
# Publications times interests of a service. Above, publications are sampled; this many take about a minute.
PAIRS_MAX = 2_000_000_000
_SAMPLE_STEPS = 1 << 30


@dataclass
class Finding:
    """One way to be wrong: how often, whether the protocol declared that it never is, and a few examples."""

    declared: bool
    count: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class ServiceAudit:
    """What the audit says of one service."""

    service: str
    kind: str
    protocol: str
    guarantees: dict[str, bool]
    publications: int = 0
    audited: int = 0  # publications; fewer than there are if they were sampled
    interests: int = 0
    deliveries: int = 0  # of the audited publications
    forced: int = 0
    free: int = 0
    excused: int = 0  # of the free ones, those that are free only because of losses
    excused_missed: int = 0
    losses: int = 0  # messages that links lost
    missed: Finding = field(default_factory=lambda: Finding(True))
    unwanted: Finding = field(default_factory=lambda: Finding(True))
    duplicated: Finding = field(default_factory=lambda: Finding(True))
    out_of_order: Finding = field(default_factory=lambda: Finding(True))
    unable: str = ""  # why it could not be audited

    @property
    def judgement(self) -> Judgement:
        """Verdict, reason and what was found."""
        if self.unable:
            return Judgement(UNKNOWN, self.unable, "not audited")
        counts = {name: getattr(self, name).count for name in FINDINGS}
        return judgement(Guarantees(**self.guarantees), counts, self.forced, self.free, self.deliveries)

    @property
    def verdict(self) -> str:
        return self.judgement.verdict

    @property
    def reason(self) -> str:
        """The verdict in words."""
        return self.judgement.reason

    def as_data(self) -> dict[str, Any]:
        """Plain data, for audit.json."""
        data = {key: value for key, value in vars(self).items() if not isinstance(value, Finding)}
        data["findings"] = {name: vars(getattr(self, name)) for name in FINDINGS}
        return {**data, "verdict": self.verdict, "reason": self.reason}


@dataclass
class Audit:
    """What the audit says of a run."""

    run: str
    digest: str
    services: list[ServiceAudit]

    @property
    def verdict(self) -> str:
        """The worst of the services'."""
        return max((service.verdict for service in self.services), key=VERDICTS.index, default=VALID)

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.verdict]

    def as_data(self) -> dict[str, Any]:
        """Plain data, for audit.json."""
        return {
            "run": self.run, "digest": self.digest, "verdict": self.verdict,
            "services": [service.as_data() for service in self.services],
        }  # fmt: skip


def audit(
    path: str | PathLike[str],
    *,
    master: str | None = None,
    remote: str | None = None,
    sample: int | None = None,
    trust: bool = False,
) -> Audit:
    """Audit a finished run; the answer is kept as <run>/analysis/audit.json.

    `sample` judges about this many publications of each service, chosen by a hash of their id. `trust` lets the run
    name code from outside.
    """
    from analysis.spark.session import FEW_ROWS, check_installed, explained, session

    check_installed()
    run = checked(path)
    services_of(run, trust=trust)  # what may not be imported is refused before Spark starts
    with session(master, remote, rows=rows_of(run)) as spark, explained([run]):
        trace = Trace(spark, run, trust=trust)
        sizes = _sizes(trace)
        # One thread makes a plan of Spark: with few rows, services side by side keep all cores at work.
        with ThreadPoolExecutor(cpus() if rows_of(run) < FEW_ROWS else 1) as pool:
            services = list(pool.map(lambda s: audit_service(trace, s, sizes[s.number], sample), trace.services))
        found = Audit(run.path.name, run.digest, services)
    write_json(run, FILE, found.as_data())
    return found


@dataclass
class Sizes:
    """How much of everything a service has."""

    publications: int = 0
    losses: int = 0
    interests: int = 0


def _sizes(trace: Trace) -> list[Sizes]:
    """Of every service, in one go."""
    from pyspark.sql import functions as F

    found = [Sizes() for _ in trace.services]
    if not trace.has("deliveries"):
        return found
    kinds = [service.kind for service in trace.services]
    tables = [
        trace.table(name).select("service", F.lit(-1).alias("operation"), F.lit(name).alias("table"))
        for name in ("publications", "losses")
        if trace.run.rows(name)
    ]
    tables.append(trace.table("changes").select("service", "operation", F.lit("changes").alias("table")))
    rows = undivided(reduce(lambda a, b: a.unionByName(b), tables))
    counts = rows.groupBy("service", "operation", "table").count()
    # As many rows at most as there are services and types of messages.
    for number, operation, table, count in counts.collect():
        if table == "changes":
            found[number].interests += count if operation in kinds[number].interests else 0
        else:
            setattr(found[number], table, count)
    return found


def audit_service(trace: Trace, service: Service, sizes: Sizes, sample: int | None = None) -> ServiceAudit:
    """Audit one service of a run."""
    guarantees = service.guarantees(trace.network)
    found = ServiceAudit(
        service.name, service.kind_name, service.protocol_name, vars(guarantees),
        publications=sizes.publications, interests=sizes.interests, losses=sizes.losses,
    )  # fmt: skip
    for name, guarantee in FINDINGS.items():
        getattr(found, name).declared = bool(getattr(guarantees, guarantee))
    found.unable = trace.need("deliveries", "the audit") or ""
    if found.unable:
        return found
    with Kept(in_one_partition(trace.spark)) as keep:
        _judge(trace, service, guarantees, sample, found, keep)
    _look_through(trace, service, found)
    return found


def _judge(
    trace: Trace, service: Service, guarantees: Guarantees, sample: int | None, found: ServiceAudit, keep: Kept
) -> None:
    """Compare the deliveries with what the kind's rule says."""
    from pyspark.sql import functions as F

    changes = keep(changes_of(trace, service))
    mine = F.col("service") == service.number
    published = trace.table("publications").filter(mine)
    losses = trace.table("losses").filter(mine)
    share = 1.0
    if sample is not None:
        share = sample / max(found.publications, 1)
    elif found.publications * found.interests > PAIRS_MAX:
        share = PAIRS_MAX / (found.publications * found.interests)

    def chosen(frame: DataFrame) -> DataFrame:
        if share >= 1:
            return frame
        step = F.pmod(F.xxhash64("publication"), F.lit(_SAMPLE_STEPS))
        return frame.filter(step < F.lit(int(share * _SAMPLE_STEPS)))

    consider_losses = found.losses > 0 and not guarantees.under_loss
    lost = losses if consider_losses else None
    publications = keep(_publications(trace, service.number, chosen(published), lost))
    found.audited = found.publications if share >= 1 else publications.count()
    settled = keep.apart(settlement(trace, service, changes, consider_losses))
    standing = Standing(trace, service, changes, settled, _places(trace))
    question = Question(trace, service, guarantees, publications, standing, keep)
    delivered = (
        chosen(trace.table("deliveries").filter(mine))
        .groupBy("publication", "client")
        .agg(F.count("*").alias("times"), F.min("time_ns").alias("first_ns"))
    )
    pairs = judged(rule_of(service), question, delivered)
    counts = pairs.agg(
        F.sum("times").alias("deliveries"),
        _count_if(F.col("forced")).alias("forced"),
        _count_if(~F.col("forced")).alias("free"),
        _count_if(F.col("excused")).alias("excused"),
        _count_if(F.col("excused") & F.col("times").isNull()).alias("excused_missed"),
        _count_if(F.col("missed")).alias("missed"),
        _count_if(F.col("unwanted")).alias("unwanted"),
    ).first()
    assert counts is not None
    for name in ("deliveries", "forced", "free", "excused", "excused_missed"):
        setattr(found, name, counts[name] or 0)
    for name in ("missed", "unwanted"):
        finding = getattr(found, name)
        finding.count = counts[name]
        if finding.count:
            rows = pairs.filter(name).select("publication", "client", F.col("first_ns").alias("delivered_ns"))
            sent = publications.select("publication", F.col("time_ns").alias("sent_ns"))
            finding.examples = _examples(rows.join(sent, "publication", "left"), trace.network.brokers)


def _count_if(condition: Column) -> Column:
    from pyspark.sql import functions as F

    return F.count(F.when(condition, 1))


def _publications(trace: Trace, service: int, published: DataFrame, losses: DataFrame | None) -> DataFrame:
    """What a rule has to know of each publication; see `Question`."""
    from pyspark.sql import functions as F

    bound = trace.network.travel_ns_max
    publications = published.select("publication", "time_ns", "broker", "values")
    if trace.has("hops"):
        last = (
            trace.table("hops")
            .filter((F.col("service") == service) & (F.col("body") >= 0))
            .groupBy(F.col("body").alias("publication"))
            .agg(F.max("time_ns").alias("last_ns"))
        )
        publications = publications.join(last, "publication", "left").withColumn(
            "end_ns", F.greatest("time_ns", F.coalesce("last_ns", "time_ns"))
        )
    else:
        publications = publications.withColumn("end_ns", F.least(F.col("time_ns") + bound, F.lit(NEVER)))
    cut = F.lit(False) if trace.in_flight_at_end == 0 else F.col("time_ns") + bound >= trace.end_ns
    where = None if losses is None else behind_links(trace, losses.filter(F.col("body") >= 0))
    nowhere = F.array().cast(f"array<{BEHIND}>")
    if where is None or losses is None:
        publications = publications.withColumn("unheard", nowhere)
    else:
        unheard = (
            undivided(losses.select(F.col("body").alias("publication"), "link").join(where, "link"))
            .groupBy("publication")
            .agg(F.collect_set("behind").alias("unheard"))
        )
        publications = publications.join(unheard, "publication", "left").withColumn(
            "unheard", F.coalesce("unheard", nowhere)
        )
    return publications.join(_places(trace), "broker").select(
        "publication", "time_ns", "values", "place", "end_ns", "unheard", cut.alias("cut")
    )


def _places(trace: Trace) -> DataFrame:
    """broker, place. From Arrow: rows of Python would need a Python of Spark to hand them over."""
    import pyarrow as pa

    def make() -> DataFrame:
        place = trace.network.place
        columns = {"broker": pa.array(range(len(place)), pa.int32()), "place": pa.array(place, pa.int64())}
        return undivided(trace.spark.createDataFrame(pa.table(columns)))

    return trace.once("places", make)


def _look_through(trace: Trace, service: Service, found: ServiceAudit) -> None:
    """Duplicates and order, over all deliveries: one sort per publisher and client."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    # A publication's id counts up with its publisher's sends. Deliveries at one instant keep no order.
    ordered = Window.partitionBy("client", "publisher").orderBy("publication", "time_ns")
    before = ordered.rowsBetween(Window.unboundedPreceding, -1)
    first_time = F.when(~F.col("duplicated"), F.col("time_ns"))
    deliveries = (
        trace.table("deliveries")
        .filter((F.col("service") == service.number) & (F.col("publication") >= 0))
        .select("publication", "client", "time_ns", F.shiftright("publication", 32).alias("publisher"))
        .withColumn("duplicated", F.coalesce(F.lag("publication").over(ordered) == F.col("publication"), F.lit(False)))
        .withColumn("latest_ns", F.max(first_time).over(before))
        .withColumn("out_of_order", ~F.col("duplicated") & (F.coalesce("latest_ns", F.lit(-1)) > F.col("time_ns")))
    )
    counts = deliveries.agg(*(_count_if(F.col(name)).alias(name) for name in ("duplicated", "out_of_order"))).first()
    assert counts is not None
    for name in ("duplicated", "out_of_order"):
        finding = getattr(found, name)
        finding.count = counts[name]
        if finding.count:
            columns: list[Any] = ["publication", "client", F.col("time_ns").alias("delivered_ns")]
            if name == "out_of_order":
                columns.append(F.col("latest_ns").alias("later_one_delivered_ns"))
            finding.examples = _examples(deliveries.filter(name).select(*columns), trace.network.brokers)


def _examples(rows: DataFrame, nodes: int) -> list[dict[str, Any]]:
    """The first few, by publication and client; clients by number, as commands take them."""
    taken = rows.orderBy("publication", "client").limit(EXAMPLES_MAX).collect()
    found = []
    for row in taken:
        example = {key: value for key, value in row.asDict().items() if value is not None}
        if example.get("client", -1) >= nodes:
            example["client"] -= nodes
        found.append({**example, "message": message_name(row["publication"], nodes)})
    return found


def text(found: Audit) -> str:
    """The audit for people."""
    lines = []
    for service in found.services:
        lines.append(f"{service.service} ({service.protocol}): {service.verdict}: {service.reason}")
        if service.unable:
            continue
        lines.append(f"  found: {service.judgement.found}")
        sampled = "" if service.audited == service.publications else f" (a sample of {service.publications:,})"
        counts = f"{service.interests:,} interests, {service.deliveries:,} answers"  # of a server
        if service.publications or not service.deliveries:
            publications = f"{service.audited:,} publications{sampled}"
            counts = f"{publications}, {service.interests:,} interests, {service.deliveries:,} deliveries"
        lines.append(f"  {counts}; {service.forced:,} decisions forced, {service.free:,} free")
        if service.losses:
            lines.append(
                f"  {service.losses:,} messages lost; they excuse {service.excused:,} decisions, of which "
                f"{service.excused_missed:,} were not delivered"
            )
        for name in FINDINGS:
            lines += [f"    {words(name)}: {_example(each)}" for each in getattr(service, name).examples]
    return "\n".join([*lines, f"verdict: {found.verdict}"])


def _example(example: dict[str, Any]) -> str:
    told = f"message {example['message']} and client {example['client']}"
    times = [(key.removesuffix("_ns"), value) for key, value in example.items() if key.endswith("_ns")]
    return ", ".join([told, *(f"{what.replace('_', ' ')} at {when:,} ns" for what, when in times)])
