"""A run's metrics by flat names: `network.messages`, `news.latency.p99_ms`, `news.deliveries.missed`.

The names stand here, so that a misspelt one shows before a run and not after it. The last part of a name says
the unit: `_ms` and `_s` are durations, `bytes` a size, `_per_s` a rate; what says nothing is a count. In an
expectation a duration may leave its unit out: `latency.p99`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from brokers.engine.manifest import read_bytes
from brokers.verdicts import FINDINGS, VERDICTS

if TYPE_CHECKING:
    from brokers.engine.runfolder import RunFolder

NETWORK = (
    "events",
    "messages",
    "bytes",
    "lost",
    "in_flight_at_end",
    "busiest_broker_s",
    "changes",
    "changes_unsettled",
)


class Together(Enum):
    """What stands for all services where an expectation names none of them."""

    SUM = "the sum"
    LARGEST = "the largest"
    WORST = "the worst"
    APART = "each service by itself"  # of a mean or a percentile there is none: it does not follow from the services'


class Metric(NamedTuple):
    """What is measured of each service: its name, whose last part says the unit, and how it adds up over services."""

    name: str
    together: Together


_OF_SERVICES = (
    Metric("publications", Together.SUM),
    Metric("deliveries", Together.SUM),
    Metric("latency.mean_ms", Together.APART),
    Metric("latency.p50_ms", Together.APART),
    Metric("latency.p99_ms", Together.APART),
    Metric("latency.max_ms", Together.LARGEST),
)
DECISIONS = ("forced", "free", "excused", "excused_missed")
_OF_AUDITS = (
    *(Metric(f"deliveries.{name}", Together.SUM) for name in (*FINDINGS, *DECISIONS)),
    Metric("verdict", Together.WORST),
)
SERVICE = tuple(metric.name for metric in _OF_SERVICES)
AUDIT = tuple(metric.name for metric in _OF_AUDITS)
RUN = ("wall_s", "loop_wall_s", "events_per_s", "simulated_s", "cpu_s", "cpu_slowest_s")
TRACE_LEVELS_AUDITED = ("deliveries", "full")

_DURATION_NS = {"_ns": 1.0, "_ms": 1e6, "_s": 1e9}


def sort_of(name: str) -> str:
    """What a metric counts: duration, size, rate, verdict or count."""
    last = name.rpartition(".")[2]
    if last == "verdict":
        return "verdict"
    if last.endswith("_per_s"):
        return "rate"
    if any(last.endswith(suffix) for suffix in _DURATION_NS):
        return "duration"
    return "size" if last == "bytes" else "count"


def together(name: str) -> Together:
    """How a metric of a service adds up over services; what does not say so does not."""
    declared = (metric for metric in (*_OF_SERVICES, *_OF_AUDITS) if name in (metric.name, bare(metric.name)))
    return next((metric.together for metric in declared), Together.APART)


def unit_ns(name: str) -> float:
    """The nanoseconds in one unit of a duration."""
    return next(ns for suffix, ns in _DURATION_NS.items() if name.endswith(suffix))


def bare(name: str) -> str:
    """`latency.p99_ms` as `latency.p99`: a duration without its unit."""
    return name.rpartition("_")[0] if sort_of(name) == "duration" else name


def known(services: Iterable[str]) -> list[str]:
    """All names that a run of these services has, audit included."""
    names = [f"network.{name}" for name in NETWORK] + [f"run.{name}" for name in RUN]
    return names + [f"{service}.{name}" for service in services for name in (*SERVICE, *AUDIT)]


def flat(metrics: Mapping[str, Any]) -> dict[str, float | None]:
    """The metrics of a manifest by flat name."""
    found: dict[str, float | None] = {}
    sections = {**{key: each for key, each in metrics.items() if key != "services"}, **metrics["services"]}
    for section, content in sections.items():
        _flatten(section, content, found)
    return found


def _flatten(prefix: str, content: Any, found: dict[str, float | None]) -> None:
    if isinstance(content, Mapping):
        for key, each in content.items():
            _flatten(f"{prefix}.{key}", each, found)
    elif content is None or isinstance(content, int | float):
        found[prefix] = content


def measured(run: RunFolder) -> dict[str, Any]:
    """All metrics of a finished run; with the audit's, if there was one."""
    found: dict[str, Any] = dict(flat(run.manifest["engine"]["metrics"]))
    for service in (kept_audit(run) or {"services": []})["services"]:
        name = service["service"]
        for finding in FINDINGS:
            found[f"{name}.deliveries.{finding}"] = service["findings"][finding]["count"]
        for decision in DECISIONS:
            found[f"{name}.deliveries.{decision}"] = service[decision]
        found[f"{name}.verdict"] = service["verdict"]
    return found


def kept_audit(run: RunFolder) -> dict[str, Any] | None:
    """What the audit of this run left in its folder.

    None if it was not audited, if the run is another by now, or if what is there is no answer of an audit: then it
    is asked again where it is needed.
    """
    try:
        found = json.loads(read_bytes(run.path / "analysis" / "audit.json"))
    except (OSError, ValueError, RecursionError):
        return None
    return found if _is_audit(found) and found["digest"] == run.digest else None


def _is_audit(found: Any) -> bool:
    """Whether everything is there that is read of an audit."""
    try:
        services = found["services"]
        counts = [each[decision] for each in services for decision in DECISIONS]
        counts += [each["findings"][finding]["count"] for each in services for finding in FINDINGS]
        verdicts = [found["verdict"], *(each["verdict"] for each in services)]
        names = [found["digest"], *(each["service"] for each in services)]
    except (KeyError, IndexError, TypeError):
        return False
    return (
        isinstance(services, list)
        and all(type(count) is int and 0 <= count < 2**63 for count in counts)
        and all(isinstance(verdict, str) and verdict in VERDICTS for verdict in verdicts)
        and all(isinstance(name, str) for name in names)
    )


def kinds_of(run: RunFolder) -> dict[str, str]:
    """The kind of each service of a run."""
    return {service["name"]: service["kind"] for service in run.manifest["scenario"]["services"]}


def number_text(name: str, value: Any) -> str:
    """A measured value as people read it, with its unit."""
    if value is None:
        return "nothing measured"
    if isinstance(value, str):
        return value
    text = f"{value:,.0f}" if float(value).is_integer() and abs(value) < 1e15 else f"{value:,.4g}"
    if abs(value) >= 1e4 and not float(value).is_integer():
        text = f"{value:,.0f}"
    unit = {"duration": name.rpartition("_")[2], "size": "bytes", "rate": "per s"}.get(sort_of(name))
    return f"{text} {unit}" if unit else text
