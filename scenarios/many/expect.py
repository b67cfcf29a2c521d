"""Expectations: thresholds on what a run measures, in a scenario's or a sweep's `expect:`.

    expect:
      - deliveries.missed == 0          # asks the audit, and so needs Spark
      - latency.p99 < 80 ms             # of every service
      - news.latency.p99 < 80 ms        # of one
      - network.messages < 1e6
      - verdict == valid

A name without a service stands for all services, as the metric declares (`brokers.metrics`): counts are added up,
of verdicts the worst counts, and what does not add up, a mean or a percentile, has to hold of each service by itself.
Where nothing was measured (a latency without deliveries), no expectation holds.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from brokers.errors import InvalidInput
from brokers.metrics import Together
from brokers.verdicts import VERDICTS
from scenarios.many import metrics
from scenarios.problems import did_you_mean
from scenarios.progress import Steps
from topology import units

if TYPE_CHECKING:
    from brokers.engine.runfolder import RunFolder
    from brokers.schema import Table

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_FORM = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(<=|>=|==|!=|<|>)\s*(\S.*?)\s*")
_NUMBER = r"[+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,2})?"
_QUANTITY: dict[str, Callable[[object], float]] = {
    "duration": units.parse_cost,
    "size": units.parse_size,
    "rate": units.parse_rate,
}


class NoExpectation(InvalidInput, ValueError):
    """A text that is no expectation; a ValueError so that pydantic collects it with the others."""


class UnknownMetric(NoExpectation):
    """An expectation of what none of the services has."""


@dataclass(frozen=True)
class Expectation:
    """A metric, a comparison, and a bound as it was written."""

    text: str
    metric: str
    sign: str
    bound: str

    @property
    def audits(self) -> bool:
        """Whether it asks what only the audit knows."""
        return any(self.metric == name or self.metric.endswith(f".{name}") for name in metrics.AUDIT)

    def keys(self, services: metrics.Further) -> list[str]:
        """The flat names of the metrics it is about; NoExpectation for an unknown name or an unfit bound."""
        names = metrics.known(services)
        found = [name for name in names if self.metric in (name, metrics.bare(name))]
        if not found:
            parts = metrics.parts(services)
            fitting = {part for part in parts if self.metric in (part, metrics.bare(part))}
            found = [name for name in names if name.partition(".")[2] in fitting and name.partition(".")[0] in services]
        if not found:
            every = [*map(metrics.bare, names), *map(metrics.bare, metrics.parts(services))]
            raise UnknownMetric(f"no metric {self.metric!r}; {did_you_mean(self.metric, every)}")
        self.limit(found[0])
        return found

    def may_be_of(self, unclear: Collection[str], services: metrics.Further) -> bool:
        """Whether one of the services of which too little is known may have the metric."""
        named = {name for name in services if self.metric.startswith(f"{name}.")}
        return bool(unclear) and (not named or not named.isdisjoint(unclear))

    def limit(self, key: str) -> float | str:
        """The bound in the base unit of a metric: nanoseconds, bytes, events per second, or as it is."""
        sort = metrics.sort_of(key)
        if sort == "verdict":
            if self.bound not in VERDICTS or self.sign not in ("==", "!="):
                raise NoExpectation(
                    f"a verdict is == or != to {', '.join(VERDICTS)} (got {self.text!r})"
                )
            return self.bound
        number = _number(self.bound)
        if sort == "count":
            if number is None:
                raise NoExpectation(
                    f"{self.metric} is a count: compare it with a number (got {self.bound!r})"
                )
            return number
        if sort == "duration" and number is not None:
            if metrics.bare(key).endswith(self.metric):
                raise NoExpectation(
                    f"{self.metric} is a duration: say the unit, as in 80 ms (got {self.bound!r})"
                )
            return number * metrics.unit_ns(key)
        try:
            return float(_QUANTITY[sort](self.bound))
        except units.QuantityError as error:
            raise NoExpectation(str(error)) from None


@dataclass(frozen=True)
class Judged:
    """An expectation beside what was measured."""

    expectation: str
    value: float | str | None
    measured: str  # the value as people read it
    holds: bool

    def __str__(self) -> str:
        return f"{mark(self.holds)} {self.expectation}: {self.measured}"

    def as_data(self) -> dict[str, Any]:
        """Plain data, for --json."""
        return {"expectation": self.expectation, "value": self.value, "holds": self.holds}


def mark(holds: bool) -> str:
    """What stands before an expectation."""
    return "✓" if holds else "✗"


def parse(text: str) -> Expectation:
    """Read one expectation; whether its metric exists is asked with `keys`."""
    form = _FORM.fullmatch(text)
    if form is None:
        raise NoExpectation(
            f"expected METRIC, one of {' '.join(_COMPARE)}, and a bound, as in latency.p99 < 80 ms"
        )
    metric, sign, bound = form.groups()
    if bound not in VERDICTS and not re.match(_NUMBER, bound):
        raise NoExpectation(
            f"a bound is a number, a duration (80 ms), a size (2 MiB), a rate (100/s) or a verdict (got {bound!r})"
        )
    return Expectation(" ".join(text.split()), metric, sign, bound)


def checked(text: str) -> str:
    """The text itself, if it has the form of an expectation."""
    parse(text)
    return text


def misfits(
    texts: Iterable[str],
    services: metrics.Further,
    trace_level: str,
    tables: Mapping[str, Table],
    unclear: Collection[str] = (),
    lacking: Mapping[str, str] = MappingProxyType({}),
) -> list[tuple[int, str]]:
    """(number, what is wrong) of each expectation that does not fit the services or the trace level.

    `tables` are those that the kinds of the services add to a trace. Of services that are `unclear` it is not known
    what is measured: what may be theirs is not held against an expectation. `lacking` says by flat names what will
    not be measured, and why.
    """
    found = []
    for i, text in enumerate(texts):
        try:
            expectation = parse(text)
            keys = expectation.keys(services)
        except UnknownMetric as error:
            if not expectation.may_be_of(unclear, services):
                found.append((i, str(error)))
            continue
        except InvalidInput as error:
            found.append((i, str(error)))
            continue
        if expectation.audits and trace_level not in metrics.TRACE_LEVELS_AUDITED:
            found.append(
                (i, f"asks the audit, which needs the trace level deliveries or full (got {trace_level!r})")
            )
        found += [(i, message) for message in _unmeasured(keys, services, trace_level, tables)]
        lacks = [key for key in keys if key in lacking]
        apart = metrics.together(keys[0].partition(".")[2], services) is Together.APART
        if lacks and (not apart or len(lacks) == len(keys)):  # apart from others, those decide that are measured
            found.append((i, f"{lacks[0]} will not be measured: {lacking[lacks[0]]}"))
    return found


def _unmeasured(
    keys: Sequence[str], services: metrics.Further, trace_level: str, tables: Mapping[str, Table]
) -> Iterator[str]:
    """What is wrong where metrics read tables that the trace does not keep."""
    from brokers.engine.trace_schema import LEVELS, TABLES

    known = {**TABLES, **tables}
    for service, further in services.items():
        for metric in further:
            levels = [known[table].level for table in metric.reads if table in known]
            needed = max(levels, key=LEVELS.index, default=trace_level)
            if f"{service}.{metric.name}" in keys and LEVELS.index(needed) > LEVELS.index(trace_level):
                yield f"{metric.name} is measured from the trace level {needed} on (got {trace_level!r})"


def judge(texts: Iterable[str], run: RunFolder) -> list[Judged]:
    """Each expectation beside what the run measured; what asks the audit needs an audited run."""
    return judged(texts, metrics.measured(run), metrics.further_of(run))


def judged(texts: Iterable[str], values: Mapping[str, Any], services: metrics.Further) -> list[Judged]:
    """Each expectation beside values by their flat names."""
    return [_judge(parse(text), values, services) for text in texts]


def _judge(expectation: Expectation, values: Mapping[str, Any], services: metrics.Further) -> Judged:
    keys = expectation.keys(services)
    measured = [values.get(key) for key in keys]
    apart = len(keys) > 1 and metrics.together(keys[0].partition(".")[2], services) is Together.APART
    at = _decisive(expectation, keys, measured) if apart else None
    value = _together(keys, measured, services) if at is None else measured[at]
    shown = metrics.number_text(keys[0], value)
    if value is None:
        return Judged(expectation.text, None, shown, False)
    whose = "" if at is None else f" of {keys[at].partition('.')[0]}"
    return Judged(expectation.text, value, shown + whose, _holds(expectation, keys[0], value))


def _holds(expectation: Expectation, key: str, value: Any) -> bool:
    compared = value * metrics.unit_ns(key) if metrics.sort_of(key) == "duration" else value
    return _COMPARE[expectation.sign](compared, expectation.limit(key))


def _decisive(expectation: Expectation, keys: Sequence[str], values: Sequence[Any]) -> int | None:
    """The service that decides: the furthest from what is expected, or if it holds of all, the nearest to the bound."""
    there = [at for at, value in enumerate(values) if value is not None]
    failing = [at for at in there if not _holds(expectation, keys[at], values[at])]
    largest_first = expectation.sign in ("<", "<=")
    return min(failing or there, key=lambda at: -values[at] if largest_first else values[at], default=None)


def _together(keys: Sequence[str], values: Sequence[Any], services: metrics.Further) -> Any:
    """One value of what the services measured each, or the one that is asked for."""
    if len(keys) == 1:
        return values[0]
    how = metrics.together(keys[0].partition(".")[2], services)
    there = [value for value in values if value is not None]
    if how is Together.SUM:
        return sum(there) if len(there) == len(values) else None  # with something left out it would be a wrong number
    if how is Together.WORST:
        return max(there, key=VERDICTS.index) if len(there) == len(values) else None
    return max(there, default=None)


def need_audit(texts: Iterable[str]) -> bool:
    """Whether any of them asks the audit; refused at once where Spark is missing."""
    if not any(parse(text).audits for text in texts):
        return False
    from brokers.registry import load

    load("analysis.spark.session:check_installed")()
    return True


def audit_all(runs: Iterable[RunFolder], *, trust: bool = False, progress: bool = False) -> None:
    """Audit each run that was not, with one Spark for all; `trust` lets them name code from outside."""
    waiting = [run for run in runs if metrics.kept_audit(run) is None]
    if not waiting:
        return
    from brokers.registry import load

    audit = load("analysis.spark.audit:audit")
    # One Spark is started for all of them; the audit of each uses the one that is there.
    steps = Steps("audits") if progress else None
    with load("analysis.spark.session:session")() if len(waiting) > 1 else nullcontext(), steps or nullcontext():
        for done, run in enumerate(waiting):
            if steps is not None:
                steps(done, 0, len(waiting))
            audit(run.path, trust=trust)


def judged_run(run: RunFolder, texts: Sequence[str] | None = None, *, trust: bool = False) -> list[Judged]:
    """The expectations of a run's own scenario (or others) judged, audited first if one asks for it."""
    texts = run.manifest["scenario"].get("expect", []) if texts is None else texts
    if need_audit(texts):
        audit_all([run], trust=trust)
    return judge(texts, run)


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(_NUMBER, text) else None
