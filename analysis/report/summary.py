"""What matters first: verdict, expectations, figures of each service, and what is unusual about a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.report.gather import Gathered
from analysis.report.words import number, plain, share, time
from brokers.engine.runfolder import RunFolder
from brokers.engine.trace_schema import TABLES
from brokers.faults import REASONS
from brokers.verdicts import FINDINGS, words
from scenarios.many.expect import judge, parse
from scenarios.many.metrics import kept_audit
from topology.overlay import broker_label

NOT_AUDITED = "not audited"
BUSY_SHARE = 0.8  # of the time, from which a broker or link counts as overloaded
_SHOWN = 5


def summary(found: Gathered) -> dict[str, Any]:
    """Plain data: what the page begins with."""
    manifest = found.run.manifest
    audit = kept_audit(found.run)
    return {
        "name": plain(manifest["name"]),
        "title": plain(manifest["scenario"].get("title", ""), 400),
        "verdict": NOT_AUDITED if audit is None else audit["verdict"],
        "verdicts": _verdicts(audit),
        "expected": expected(found.run, audit),
        "services": [_service(found, at, audit) for at in range(found.services)],
        "network": {key: number(value) for key, value in manifest["engine"]["metrics"]["network"].items()},
        "scenario": _scenario(found),
        "unusual": unusual(found, audit),
        "notes": [plain(each, 400) for each in manifest["engine"].get("notes", ())],
    }


def _verdicts(audit: dict[str, Any] | None) -> list[dict[str, str]]:
    return [
        {"service": plain(each["service"]), "verdict": each["verdict"], "reason": plain(each.get("reason", ""), 400)}
        for each in (audit or {"services": []})["services"]
    ]


def expected(run: RunFolder, audit: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Each expectation of the scenario beside what was measured."""
    texts = run.manifest["scenario"].get("expect", [])
    told = []
    for text, judged in zip(texts, judge(texts, run)):
        unasked = parse(text).audits and audit is None
        told.append(
            {
                "text": plain(judged.expectation, 200),
                "measured": NOT_AUDITED if unasked else plain(judged.measured, 200),
                "holds": None if unasked else judged.holds,
            }
        )
    return told


def service_figures(run: RunFolder, at: int, audit: dict[str, Any] | None) -> dict[str, str]:
    """What the manifest and the audit say of a service."""
    section = run.manifest["scenario"]["services"][at]
    measured = run.manifest["engine"]["metrics"]["services"].get(section["name"], {})
    latency = measured.get("latency", {})
    judged = {each["service"]: each for each in (audit or {"services": []})["services"]}.get(section["name"])
    return {
        "name": plain(section["name"]),
        "kind": plain(section["kind"]),
        "protocol": plain(section["protocol"]),
        "publications": number(measured.get("publications", 0)),
        "deliveries": number(measured.get("deliveries", 0)),
        **{f"{name} (ms)": number(latency.get(f"{name}_ms")) for name in ("p50", "p99", "max")},
        "verdict": NOT_AUDITED if judged is None else judged["verdict"],
    }


def _service(found: Gathered, at: int, audit: dict[str, Any] | None) -> dict[str, Any]:
    row, counts = service_figures(found.run, at, audit), found.counts
    if "carried" in counts:
        row["messages with publications"] = number(int(counts["carried"][at].sum()))
        row["other messages"] = number(int(counts["other"][at].sum()))
    if "changes" in counts:
        row["changes"] = number(int(counts["changes"][at]))
        row["never settled"] = number(int(counts["unsettled"][at]))
    if "reasons" in counts:
        row["lost"] = number(int(counts["reasons"][at].sum()))
    return row


def _scenario(found: Gathered) -> list[list[str]]:
    """What was run, in a few rows."""
    manifest = found.run.manifest
    scenario, engine = manifest["scenario"], manifest["engine"]
    topology = ", ".join(f"{key} {plain(value, 40)}" for key, value in scenario["topology"].items() if key != "kind")
    groups = ", ".join(f"{group['count']:,} {plain(name, 40)}" for name, group in scenario["clients"].items())
    brokers, links = found.network.brokers - len(scenario.get("servers", {})), found.network.links
    return [
        ["topology", f"{plain(scenario['topology']['kind'])}, {topology}"],
        ["overlay", f"{brokers:,} brokers, {links:,} links" if brokers > 0 else "not in this trace"],
        ["clients", groups],
        ["simulated", f"{time(scenario['duration'])}, then up to {time(scenario['drain'])} until all is quiet"],
        ["seed", str(manifest["seed"])],
        ["engine", f"{plain(engine.get('engine', ''))}, actors: {engine.get('actors', 1)}"],
        ["trace level", manifest["trace_level"]],
        ["digest", manifest["digest"]],
    ]


class Look(NamedTuple):
    """One thing that somebody should know of a run: the table that tells it, and what the manifest alone tells.

    Without the table `find_in_all` gives None where the manifest does not tell either.
    """

    what: str
    table: str
    absent: str
    find: Callable[[Gathered], Iterable[str]]
    absent_in_all: str
    find_in_all: Callable[[Gathered], list[str] | None]


class Unusual(NamedTuple):
    """What was found, in sentences; what was looked for in vain; and of what nothing is known, with its table."""

    found: list[str]
    absent: list[str]
    unknown: list[tuple[str, str]]

    @property
    def sentences(self) -> list[str]:
        """All of it, for a reader: never more of an all-clear than what was looked at."""
        told = list(self.found)
        if not told:
            known = f": {'; '.join(self.absent)}" if self.absent else " that could be looked at"
            told.append(f"Nothing{known}.")
        return told + self.doubts

    @property
    def doubts(self) -> list[str]:
        """What nobody looked at."""
        needs = [f"{what} ({_home(table)})" for what, table in self.unknown]
        return [f"Not known, for want of tables: {'; '.join(needs)}."] if needs else []


def unusual(found: Gathered, audit: dict[str, Any] | None) -> Unusual:
    """What somebody should look at."""
    told = Unusual(list(_broken(audit)), [], [])
    for look in _LOOKS:
        there = found.has(look.table)
        sentences = list(look.find(found)) if there else look.find_in_all(found)
        if sentences is None:
            told.unknown.append((look.what, look.table))
        elif sentences:
            told.found.extend(sentences)
        else:
            told.absent.append(look.absent if there else look.absent_in_all)
    under_way = _totals(found).get("in_flight_at_end")
    if under_way:
        told.found.append(f"{number(under_way)} messages were under way when the run ended.")
    return told


def _totals(found: Gathered) -> dict[str, Any]:
    return found.run.manifest["engine"]["metrics"]["network"]


def _broken(audit: dict[str, Any] | None) -> Iterator[str]:
    for service in (audit or {"services": []})["services"]:
        for finding in FINDINGS:
            count = service["findings"][finding]["count"]
            if count:
                yield f"{plain(service['service'])}: {count:,} decisions {words(finding)}, by the audit."


def _lost(found: Gathered) -> Iterator[str]:
    for service, reasons in zip(found.names, found.counts["reasons"].tolist()):
        told = ", ".join(f"{count:,} by {REASONS[at]}" for at, count in enumerate(reasons) if count)
        if told:
            yield f"{plain(service)}: {sum(reasons):,} messages were lost: {told}."


def _lost_in_all(found: Gathered) -> list[str] | None:
    lost, dropped = (_totals(found).get(name) for name in ("lost", "dropped"))
    if lost is None or dropped is None:
        return None
    told = [f"{number(lost)} messages were lost over links"] if lost else []
    told += [f"{number(dropped)} messages were dropped for want of a place in a queue"] if dropped else []
    return [f"{each}; of which service and why is in {_home('losses')}." for each in told]


def _never_settled(found: Gathered) -> Iterator[str]:
    for at, service in enumerate(found.names):
        never, asked = int(found.counts["unsettled"][at]), int(found.counts["changes"][at])
        if never:
            yield f"{plain(service)}: {never:,} of {asked:,} changes never settled."


def _never_settled_in_all(found: Gathered) -> list[str] | None:
    never, asked = (_totals(found).get(name) for name in ("changes_unsettled", "changes"))
    if never is None:
        return None
    return [f"{number(never)} of {number(asked)} changes never settled."] if never else []


def _overloaded_brokers(found: Gathered) -> Iterator[str]:
    busy = _busy(found, "broker")
    worst, more = _overloaded(busy)
    for broker in worst:
        yield f"Broker {name_of(found.network, broker)} was at work {share(busy[broker])} of the time."
    if more:
        yield f"{more:,} more brokers were at work {share(BUSY_SHARE)} of the time or more."


def _overloaded_links(found: Gathered) -> Iterator[str]:
    network, busy = found.network, _busy(found, "link")
    worst, more = _overloaded(busy)
    for link in worst:
        ends = name_of(network, int(network.source[link])), name_of(network, int(network.target[link]))
        yield f"The link from {ends[0]} to {ends[1]} was transmitting {share(busy[link])} of the time."
    if more:
        yield f"{more:,} more links were transmitting {share(BUSY_SHARE)} of the time or more."


def _overloaded(busy: NDArray[np.float64]) -> tuple[list[int], int]:
    """The busiest of those that were overloaded, and how many others were."""
    over = int((busy >= BUSY_SHARE).sum())
    return np.argsort(-busy, kind="stable")[: min(over, _SHOWN)].tolist(), max(0, over - _SHOWN)


def _busy(found: Gathered, place: str) -> NDArray[np.float64]:
    """The share of the time that each was at work."""
    rows = found.run.read(f"{place}s", [place, "busy_ns"]).sort_by(place)
    return np.asarray(rows["busy_ns"].to_numpy() / _duration_ns(found))


def _duration_ns(found: Gathered) -> int:
    return max(1, found.run.manifest["scenario"]["duration"])


def _busiest(found: Gathered) -> list[str] | None:
    worked_s = _totals(found).get("busiest_broker_s")
    if worked_s is None:
        return None
    busy = worked_s * 1e9 / _duration_ns(found)
    return [f"The busiest broker was at work {share(busy)} of the time."] if busy >= BUSY_SHARE else []


def _failed(found: Gathered) -> Iterator[str]:
    told = ("brokers down", "brokers slow", "directed links cut", "directed links worn")
    kinds = found.counts["failed"].tolist()
    if sum(kinds):
        first, last, for_good = found.counts["failing_ns"].tolist()
        until = "for good" if for_good else f"until {time(last)}"
        what = ", ".join(f"{count:,} {name}" for count, name in zip(kinds, told) if count)
        yield f"Faults from {time(first)} {until}: {what}."


def _scheduled(found: Gathered) -> list[str] | None:
    schedule = found.run.manifest["scenario"].get("faults")
    return [f"The scenario has faults; when and where is in {_home('faults')}."] if schedule else []


def _home(table: str) -> str:
    """Where to find what a thin trace left out."""
    return f"table {table}, from level {TABLES[table].level} on"


_LOOKS = (
    Look(
        "losses", "losses", "no loss", _lost,
        "no message lost over a link or dropped at a queue, by the run's totals", _lost_in_all,
    ),
    Look(
        "changes that never settled", "changes", "no change that never settled", _never_settled,
        "no change that never settled, by the run's totals", _never_settled_in_all,
    ),
    Look(
        "overloaded brokers", "brokers", "no broker overloaded", _overloaded_brokers,
        "no broker overloaded, by the busiest one's work", _busiest,
    ),
    Look("overloaded links", "links", "no link overloaded", _overloaded_links, "", lambda found: None),
    Look("faults", "faults", "no fault", _failed, "no fault in the scenario", _scheduled),
)  # fmt: skip


def name_of(network: Any, broker: int) -> str:
    """A broker as commands name it."""
    return plain(broker_label(broker, network.names))
