"""The audit: was delivered what had to be, and nothing else.

For each service, the rule of its kind says from publications and changes alone which pairs of publication and
client were forced, free or forbidden. Deliveries are compared with that, and looked through for duplicates and
for order, publisher by publisher. Where a rule has a matcher, tasks in Python do both in one pass over the tables
(`compared`); other rules are asked in Spark. A small run whose rules all have one needs no Spark. Findings, promises
and verdicts are those of `brokers.verdicts`; a delivery is unwanted, too, before anything allowed it.

Times. A decision about a publication is made where it is handled. The full trace says when it was handled
last; at lower levels it is given as long as a message can take through the overlay at most, so that more is
free. A run that ended with messages under way leaves free what may have been among them.

Losses. Where a protocol declares nothing under loss, a lost copy excuses what lies behind the link, and a lost
change what comes from behind it; where there is a way around the link, everything. Nothing else is excused; but for
faults: a broker that forgot what it knew excuses everything that is under way after, and a protocol that recovers owes
everything again after the time that it states (`brokers.promises`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from analysis.spark import audit_text, drops, manners, outages, sessions, stood
from analysis.spark.compared import Compared, compare, excused_of, few
from analysis.spark.comparing import SAMPLE_STEPS, Judged
from analysis.spark.heeded import Heeded
from analysis.spark.passes import pieces_of
from analysis.spark.rules import Kept, judged, matcher_of, rule_of
from analysis.spark.session import FEW_ROWS
from analysis.spark.sizes import Sizes, sizes_of
from analysis.spark.standing import BEHIND, Standing, behind_links, changes_of, settlement
from analysis.spark.stood import Changes
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
from brokers.auditing import Judge, Matcher, Question, Rule
from brokers.contract import NEVER, Guarantees
from brokers.faults import AWAY
from brokers.naming import message_name
from brokers.padded import Padded
from brokers.promises import RELIABLE, Excused, healing
from brokers.verdicts import (
    EXIT_CODES,
    FINDINGS,
    UNKNOWN,
    VALID,
    VERDICTS,
    Judgement,
    judgement,
    over_budget,
    rules_out,
)
from scenarios.many.pool import cpus
from scenarios.progress import Line, clock_text, ticking

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from brokers.engine.runfolder import RunFolder

FILE = "audit.json"
EXAMPLES_MAX = 5
# Publications times interests of a service. Above, publications are sampled; this many take about a minute.
PAIRS_MAX = 2_000_000_000
JUDGED_MAX = 1_000_000  # changes of a run whose services are judged in tasks that each see all of them


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
    guarantees: dict[str, Any]
    publications: int = 0
    audited: int = 0  # publications; fewer than there are if they were sampled
    interests: int = 0
    deliveries: int = 0  # of the audited publications
    forced: int = 0
    free: int = 0
    excused: int = 0  # of the free ones, those that are free only because of losses
    excused_missed: int = 0
    late_missed: int = 0  # of the free ones, those missed of what was under way for longer than exactness is promised
    losses: int = 0  # messages that links lost
    losses_by_reason: dict[str, int] = field(default_factory=dict)
    shares: list[dict[str, Any]] = field(default_factory=list)  # what was wanted in time, by when it was published
    outages: list[dict[str, Any]] = field(default_factory=list)  # what came after each
    doubled: int = 0  # deliveries once more, free because a link had doubled the publication
    sessions: dict[str, int] | None = None  # what was owed to clients over several stays; None: not asked
    budget: dict[str, Any] | None = None  # how often publications went over links again, or for nobody; None: not asked
    quiet: dict[str, int] | None = None  # how long it went on after clients and faults; None: not asked
    heals: dict[str, int] | None = None  # what came of publications once all was owed again; None: not asked
    leaks: dict[str, int] | None = None  # what brokers know where nothing stands any more; None: something does
    drops: dict[str, int] | None = None  # how long publications went on to find no place in front of a link; None: none
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
        over = over_budget(*(self.budget[sort] or 0 for sort in ("twice", "waste", "bytes"))) if self.budget else ""
        return judgement(Guarantees(**self.guarantees), counts, self.forced, self.free, self.deliveries, over)

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


@dataclass(repr=False)
class Audit:
    """What the audit says of a run."""

    run: str
    digest: str
    services: list[ServiceAudit]
    path: Path | None = field(default=None, compare=False)  # of the run's folder, to draw its overlay

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

    def __repr__(self) -> str:
        return audit_text.text(self)

    def _repr_html_(self) -> str:
        from analysis.frames.showing import audit_html

        return audit_html(self.as_data(), self.path)


def audit(
    path: str | PathLike[str],
    *,
    master: str | None = None,
    remote: str | None = None,
    sample: int | None = None,
    trust: bool = False,
    progress: bool = False,
) -> Audit:
    """Audit a finished run; the answer is kept as <run>/analysis/audit.json.

    `sample` judges about this many publications of each service, chosen by a hash of their id. `trust` lets the run
    name code from outside. `progress` says on stderr that it is at work.
    """
    from analysis.spark.session import explained, session

    run = checked(path)
    services = services_of(run, trust=trust)  # what may not be imported is refused before Spark starts
    rows, in_spark = rows_of(run), _rows_in_spark(run, services)
    here = not in_spark and few(rows) and master is None and remote is None
    light = in_spark < min(rows, FEW_ROWS)
    begun = nullcontext() if here else session(master, remote, rows=in_spark, light=light)
    asked = f"auditing {len(services)} {'service' if len(services) == 1 else 'services'}, {rows:,} rows"
    telling = Line() if progress else None
    shown = ticking(telling, lambda passed_s: f"{asked} · {clock_text(passed_s)}") if telling else nullcontext()
    with shown, begun as spark, explained([run]):
        services_found = _audited(Trace(spark, run, trust=trust), sample, rows)
    found = Audit(run.path.name, run.digest, services_found, run.path)
    write_json(run, FILE, found.as_data())
    return found


def needs_spark(run: RunFolder) -> bool:
    """Whether the audit of a run has Spark started: not that of a small one, whose rules are all asked in NumPy."""
    return not few(rows_of(run)) or _rows_in_spark(run, services_of(run)) > 0


def _rows_in_spark(run: RunFolder, services: Sequence[Service]) -> int:
    """How many rows Spark itself works on: where all rules have matchers, those that tell what stood when, if many."""
    if "deliveries" not in run.tables():
        return 0
    if any(_matcher(run, rule_of(service)) is None for service in services):
        return rows_of(run)
    return 0 if stood.few(run) else sum(run.rows(name) for name in ("changes", "dependencies", "losses"))


def _matcher(run: RunFolder, rule: Rule) -> Matcher | Judge | None:
    """What is asked in tasks. A judge looks at all versions at once in each, so that they may not be too many."""
    matcher = matcher_of(rule)
    return None if isinstance(matcher, Padded) and run.rows("changes") > JUDGED_MAX else matcher


def _audited(trace: Trace, sample: int | None, rows: int) -> list[ServiceAudit]:
    """All services of a run."""
    found = [_begun(trace, service, size) for service, size in zip(trace.services, sizes_of(trace))]
    if not trace.has("deliveries"):
        return found
    rules = [rule_of(service) for service in trace.services]
    acted = manners.acted_ns(trace)
    undivided_ = trace.spark is not None and in_one_partition(trace.spark)

    def in_tasks() -> dict[int, Compared]:
        with Kept(undivided_) as keep:
            return _compared(trace, rules, sample, found, keep, rows, acted)

    def in_spark(service: Service) -> None:
        with Kept(undivided_) as keep:
            _judge(trace, service, rules[service.number], sample, found[service.number], keep)

    # One thread makes a plan of Spark: with few rows, services side by side keep all cores at work.
    with ThreadPoolExecutor(cpus() if rows < FEW_ROWS else 1) as pool:
        compared = pool.submit(in_tasks)
        left = [service for service in trace.services if _matcher(trace.run, rules[service.number]) is None]
        for _ in pool.map(in_spark, left):
            pass
        for number, each in compared.result().items():
            _told(found[number], each, trace.network.brokers)
            found[number].heals = manners.heals(trace, trace.services[number], each)
            if each.shares:
                _recovered(trace, trace.services[number], found[number], each)
            if trace.has("hops"):
                found[number].budget = manners.budget(trace, trace.services[number], each)
                found[number].quiet = manners.quiet(each, acted[number])
    for service in trace.services:
        found[service.number].leaks = manners.leaks(trace, service)
        found[service.number].drops = drops.of(trace, service)
        _handed(trace, service, found[service.number])
    return found


def _handed(trace: Trace, service: Service, found: ServiceAudit) -> None:
    """What sessions keep, where that is promised."""
    asked = sessions.asked(trace, service)
    if asked is None:
        return
    found.sessions = {name: asked[name] for name in ("owed", "sent_while_away")}
    found.forced += asked["owed"]
    for name, rows in asked["findings"].items():
        finding = getattr(found, name)
        finding.count += len(rows)
        room = max(0, EXAMPLES_MAX - len(finding.examples))
        finding.examples += [_example_of(row, trace.network.brokers) for row in rows[:room]]


def _begun(trace: Trace, service: Service, sizes: Sizes) -> ServiceAudit:
    """What is known of a service before its deliveries are looked at."""
    guarantees = service.guarantees(trace.network)
    found = ServiceAudit(
        service.name, service.kind_name, service.protocol_name, vars(guarantees),
        publications=sizes.publications, interests=sizes.interests, losses=sizes.losses,
        losses_by_reason=sizes.reasons,
    )  # fmt: skip
    for name in FINDINGS:
        getattr(found, name).declared = rules_out(guarantees, name)
    found.unable = trace.need("deliveries", "the audit") or ""
    return found


def _share(found: ServiceAudit, sample: int | None) -> float:
    """Of the publications of a service, which share is judged."""
    if sample is not None:
        return sample / max(found.publications, 1)
    return min(1.0, PAIRS_MAX / max(found.publications * found.interests, 1))


def _compared(
    trace: Trace,
    rules: Sequence[Rule],
    sample: int | None,
    found: Sequence[ServiceAudit],
    keep: Kept,
    rows: int,
    acted_ns: Mapping[int, int],
) -> dict[int, Compared]:
    """All deliveries looked through, and those of services whose rule has a matcher compared with what it says."""
    judged: dict[int, Judged] = {}
    versions: dict[int, Any] = {}
    changes = Changes(trace.run, trace.network) if stood.few(trace.run) else None
    for service, rule in zip(trace.services, rules):
        matcher = _matcher(trace.run, rule)
        if matcher is None:
            continue
        share = _share(found[service.number], sample)
        heeds = _heeds_losses(trace, service, found[service.number])
        steps = None if share >= 1 else int(share * SAMPLE_STEPS)
        owed, frugal = service.guarantees(trace.network), manners.frugal(trace, service)
        lasts = owed.under_faults == RELIABLE and found[service.number].losses > 0
        excuse = excused_of(trace, service)
        healed_ns = healing(owed, service.faults(), excuse.again_ns).from_ns
        judged[service.number] = Judged(matcher, steps, heeds, *excuse, owed.within_ns, lasts, frugal, healed_ns)
        if changes is None:
            known = _standing(trace, service, heeds, keep).versions()
            versions[service.number] = known.filter(known["operation"].isin(sorted(matcher.operations)))
        elif (here := changes.versions(service, heeds, matcher.operations)) is not None:
            versions[service.number] = here
    return compare(trace, judged, versions, EXAMPLES_MAX, rows, acted_ns)


def _heeds_losses(trace: Trace, service: Service, found: ServiceAudit) -> Heeded:
    """Which losses excuse."""
    if not found.losses:
        return Heeded.NONE
    return Heeded.OVER_NO_LINK if service.guarantees(trace.network).without_excuse else Heeded.ALL


def _standing(trace: Trace, service: Service, heeds_losses: Heeded, keep: Kept) -> Standing:
    changes = keep(changes_of(trace, service))
    settled = keep.apart(settlement(trace, service, changes, heeds_losses))
    return Standing(trace, service, changes, settled, _places(trace), excused_of(trace, service))


def _told(found: ServiceAudit, compared: Compared, nodes: int) -> None:
    """What was found, as it is told."""
    for name, count in compared.totals.items():
        if name in FINDINGS:
            getattr(found, name).count += count
        else:
            setattr(found, name, getattr(found, name) + count)
    for name, rows in compared.examples.items():
        getattr(found, name).examples += [_example_of(row, nodes) for row in rows]


def _recovered(trace: Trace, service: Service, found: ServiceAudit, compared: Compared) -> None:
    """How much was delivered when, and what came after each outage."""
    spans = trace.outages
    repairs: dict[int, int] | None = None
    if trace.has("hops"):  # read here, some rows at a time
        marks, repairs = outages.marks_of(spans), {}
        named = ("service", "type", "link", "cause", "time_ns")
        for piece in pieces_of("hops", map(str, trace.run.parts("hops")), named):
            rows = piece.read()
            repair = (rows["service"] == service.number) & (rows["link"] >= 0) & (rows["cause"] < 0)
            repair &= ~np.isin(rows["type"], sorted(service.kind.publications))
            counted = np.bincount(np.searchsorted(marks, rows["time_ns"][repair], side="right"))
            for mark, count in enumerate(counted.tolist()):
                repairs[mark] = repairs.get(mark, 0) + count
    width = outages.width_ns(trace.duration_ns)
    found.shares, found.outages = outages.told(compared.shares, spans, repairs, width)


def _judge(
    trace: Trace, service: Service, rule: Rule, sample: int | None, found: ServiceAudit, keep: Kept
) -> None:
    """Compare the deliveries with what the kind's rule says, in Spark."""
    from pyspark.sql import functions as F

    guarantees = service.guarantees(trace.network)
    mine = F.col("service") == service.number
    published = trace.table("publications").filter(mine)
    share = _share(found, sample)

    def chosen(frame: DataFrame) -> DataFrame:
        if share >= 1:
            return frame
        step = F.pmod(F.xxhash64("publication"), F.lit(SAMPLE_STEPS))
        return frame.filter(step < F.lit(int(share * SAMPLE_STEPS)))

    heeds = _heeds_losses(trace, service, found)
    heeded = mine & (F.col("reason") < AWAY) & (F.col("link") < heeds.before)
    lost = trace.table("losses").filter(heeded) if heeds else None
    publications = keep(_publications(trace, service.number, chosen(published), lost))
    found.audited = found.publications if share >= 1 else publications.count()
    standing = _standing(trace, service, heeds, keep)
    question = Question(trace, service, guarantees, publications, standing, keep)
    delivered = (
        chosen(trace.table("deliveries").filter(mine))
        .groupBy("publication", "client")
        .agg(F.count("*").alias("times"), F.min("time_ns").alias("first_ns"))
    )
    pairs = _owed(judged(rule, question, delivered), publications, standing.excused)
    pairs = _in_time(pairs, publications, guarantees)
    counts = pairs.agg(
        F.sum("times").alias("deliveries"),
        _count_if(F.col("forced")).alias("forced"),
        _count_if(~F.col("forced")).alias("free"),
        _count_if(F.col("excused")).alias("excused"),
        _count_if(F.col("excused") & F.col("times").isNull()).alias("excused_missed"),
        _count_if(F.col("late_missed")).alias("late_missed"),
        _count_if(F.col("missed")).alias("missed"),
        _count_if(F.col("unwanted")).alias("unwanted"),
    ).first()
    assert counts is not None
    for name in ("deliveries", "forced", "free", "excused", "excused_missed", "late_missed"):
        setattr(found, name, counts[name] or 0)
    for name in ("missed", "unwanted"):
        finding = getattr(found, name)
        finding.count = counts[name]
        if finding.count:
            rows = pairs.filter(name).select("publication", "client", F.col("first_ns").alias("delivered_ns"))
            sent = publications.select("publication", F.col("time_ns").alias("sent_ns"))
            finding.examples = _examples(rows.join(sent, "publication", "left"), trace.network.brokers)


def _owed(pairs: DataFrame, publications: DataFrame, excuse: Excused) -> DataFrame:
    """Nothing is owed about what was under way while some broker may have known nothing of anybody."""
    from pyspark.sql import functions as F

    if excuse.forgot_ns == NEVER:
        return pairs
    forgotten = (F.col("end_ns") >= excuse.forgot_ns) & (F.col("time_ns") < excuse.again_ns)
    marked = pairs.join(publications.select("publication", forgotten.alias("forgotten")), "publication", "left")
    free = F.coalesce("forgotten", F.lit(False))
    columns = {name: F.col(name) & ~free for name in ("forced", "missed", "unwanted")}
    excuses = F.col("excused") | (F.col("forced") & free)
    return marked.withColumns({**columns, "excused": excuses}).drop("forgotten")


def _in_time(pairs: DataFrame, publications: DataFrame, guarantees: Guarantees) -> DataFrame:
    """What is missed of publications that were under way for longer than exactness is promised is free."""
    from pyspark.sql import functions as F

    if not guarantees.ends:
        return pairs.withColumn("late_missed", F.lit(False))
    long = F.col("end_ns") - F.col("time_ns") >= F.lit(guarantees.within_ns)
    marked = pairs.join(publications.select("publication", long.alias("long")), "publication", "left")
    late = F.col("missed") & F.coalesce("long", F.lit(False))
    columns = {name: F.col(name) & ~late for name in ("forced", "missed")}
    return marked.withColumns({"late_missed": late, **columns}).drop("long")


def _count_if(condition: Column) -> Column:
    from pyspark.sql import functions as F

    return F.count(F.when(condition, 1))


def _publications(trace: Trace, service: int, published: DataFrame, losses: DataFrame | None) -> DataFrame:
    """What a rule has to know of each publication; see `Question`."""
    from pyspark.sql import functions as F

    bound = trace.network.travel_ns_max
    publications = published.select("publication", "time_ns", "broker", "values")
    if trace.has("hops"):
        told = trace.table("hops").select("service", "body", "time_ns")
        if trace.has("stays"):  # what came too late for a client was decided on then
            gone = trace.table("losses").filter(F.col("reason") == AWAY)
            told = told.unionByName(gone.select("service", "body", "time_ns"))
        last = (
            told.filter((F.col("service") == service) & (F.col("body") >= 0))
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


def _examples(rows: DataFrame, nodes: int) -> list[dict[str, Any]]:
    """The first few, by publication and client."""
    taken = rows.orderBy("publication", "client").limit(EXAMPLES_MAX).collect()
    known = [{key: value for key, value in row.asDict().items() if value is not None} for row in taken]
    return [_example_of(row, nodes) for row in known]


def _example_of(row: dict[str, int], nodes: int) -> dict[str, Any]:
    """As it is told: the client by number, as commands take it, and nothing of what did not happen."""
    example: dict[str, Any] = {key: value for key, value in row.items() if value >= 0 or not key.endswith("_ns")}
    if example["client"] >= nodes:
        example["client"] -= nodes
    return {**example, "message": message_name(row["publication"], nodes)}
