"""A run's metrics by flat names: `network.messages`, `news.latency.p99_ms`, `news.deliveries.missed`.

The names of those that every run has stand here, and kinds and scenarios say which they add (`brokers.metrics`), so
that a misspelt one shows before a run and not after it. In an expectation a duration may leave its unit out:
`latency.p99`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokers.engine.manifest import read_bytes
from brokers.errors import RunDamaged
from brokers.metrics import Metric, Together
from brokers.verdicts import FINDINGS, VERDICTS

if TYPE_CHECKING:
    from brokers.engine.runfolder import RunFolder

NETWORK = (
    "events",
    "messages",
    "bytes",
    "lost",
    "dropped",
    "in_flight_at_end",
    "busiest_broker_s",
    "changes",
    "changes_unsettled",
)


Further = Mapping[str, Sequence[Metric]]  # service -> its metrics beside those that every service has

OF_SERVICES = (
    Metric("publications", Together.SUM, "messages that clients published"),
    Metric("deliveries", Together.SUM, "messages that clients got"),
    Metric("latency.mean_ms", Together.APART, "from a publication to its delivery, in the mean"),
    Metric("latency.p50_ms", Together.APART, "the same of half of the deliveries"),
    Metric("latency.p99_ms", Together.APART, "the same of 99 in 100"),
    Metric("latency.max_ms", Together.LARGEST, "the longest"),
)
DECISIONS = ("forced", "free", "excused", "excused_missed", "late_missed")
OF_AUDITS = (
    *(Metric(f"deliveries.{name}", Together.SUM, "as the audit counts them") for name in (*FINDINGS, *DECISIONS)),
    Metric("verdict", Together.WORST, "of the audit: valid, unknown or invalid"),
)
SERVICE = tuple(metric.name for metric in OF_SERVICES)
AUDIT = tuple(metric.name for metric in OF_AUDITS)
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


def together(name: str, services: Further) -> Together:
    """How a metric of a service adds up over services; what does not say so does not."""
    further = (metric for each in services.values() for metric in each)
    declared = (m for m in (*OF_SERVICES, *OF_AUDITS, *further) if name in (m.name, bare(m.name)))
    return next((metric.together for metric in declared), Together.APART)


def unit_ns(name: str) -> float:
    """The nanoseconds in one unit of a duration."""
    return next(ns for suffix, ns in _DURATION_NS.items() if name.endswith(suffix))


def bare(name: str) -> str:
    """`latency.p99_ms` as `latency.p99`: a duration without its unit."""
    return name.rpartition("_")[0] if sort_of(name) == "duration" else name


def parts(services: Further) -> list[str]:
    """The names of what is measured of any of these services, audit included."""
    further = (metric.name for each in services.values() for metric in each)
    return list(dict.fromkeys([*SERVICE, *AUDIT, *further]))


def known(services: Further) -> list[str]:
    """All names that a run of these services has, audit included."""
    names = [f"network.{name}" for name in NETWORK] + [f"run.{name}" for name in RUN]
    for service, further in services.items():
        names += [f"{service}.{name}" for name in (*SERVICE, *AUDIT, *(metric.name for metric in further))]
    return names


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


def stood_for(folder: Path, manifest: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the names of each service stood for when a run began, by its manifest; nothing if that does not say."""
    services = manifest["scenario"]["services"]
    if "names" not in manifest:
        return [{} for _ in services]
    try:
        told = [dict(each) for each in manifest["names"]["services"]]
    except (KeyError, TypeError, ValueError):
        told = []
    if len(told) != len(services):
        raise RunDamaged.at(folder, "the manifest does not say what the names of its services stand for")
    return told


def further_of(run: RunFolder) -> dict[str, tuple[Metric, ...]]:
    """Of each service of a run, what was measured of it beside what every service has, as its manifest says."""
    services, stood = run.manifest["scenario"]["services"], stood_for(run.path, run.manifest)
    try:
        return {
            service["name"]: tuple(Metric(each["name"], Together(each["together"])) for each in was.get("metrics", ()))
            for service, was in zip(services, stood, strict=True)
        }
    except (KeyError, TypeError, ValueError, AttributeError):
        raise RunDamaged.at(run.path, "the manifest does not say what was measured of its services") from None


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
