"""What matters first: verdict, expectations, figures of each service, and what is unusual about a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from analysis.report.gather import Gathered
from analysis.report.words import number, plain, share, time
from brokers.engine.runfolder import RunFolder
from brokers.faults import REASONS
from brokers.verdicts import FINDINGS, words
from scenarios.many.expect import judge, parse
from scenarios.many.metrics import kept_audit
from topology.overlay import broker_label

NOT_AUDITED = "not audited"
BUSY_SHARE = 0.8  # of the time, from which a broker or link counts as overloaded
_SHOWN = 5
_NEVER_AUDITED = "ask the audit; this run was not audited: brokerlab audit"


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
        "unusual": list(unusual(found, audit)),
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


def unusual(found: Gathered, audit: dict[str, Any] | None) -> Iterator[str]:
    """What somebody should look at, in sentences."""
    yield from _broken(audit)
    yield from _lost(found)
    yield from _never_settled(found)
    yield from _overloaded(found)
    yield from _failed(found)
    network = found.run.manifest["engine"]["metrics"]["network"]
    if network.get("in_flight_at_end"):
        yield f"{number(network['in_flight_at_end'])} messages were under way when the run ended."


def _broken(audit: dict[str, Any] | None) -> Iterator[str]:
    for service in (audit or {"services": []})["services"]:
        for finding in FINDINGS:
            count = service["findings"][finding]["count"]
            if count:
                yield f"{plain(service['service'])}: {count:,} decisions {words(finding)}, by the audit."


def _lost(found: Gathered) -> Iterator[str]:
    if "reasons" not in found.counts:
        return
    for service, reasons in zip(found.names, found.counts["reasons"].tolist()):
        told = ", ".join(f"{count:,} by {REASONS[at]}" for at, count in enumerate(reasons) if count)
        if told:
            yield f"{plain(service)}: {sum(reasons):,} messages were lost: {told}."


def _never_settled(found: Gathered) -> Iterator[str]:
    if "unsettled" not in found.counts:
        return
    for at, service in enumerate(found.names):
        never, asked = int(found.counts["unsettled"][at]), int(found.counts["changes"][at])
        if never:
            yield f"{plain(service)}: {never:,} of {asked:,} changes never settled."


def _overloaded(found: Gathered) -> Iterator[str]:
    if not found.has("brokers"):
        return
    network, duration = found.network, max(1, found.run.manifest["scenario"]["duration"])
    busy = found.run.read("brokers", ["broker", "busy_ns"]).sort_by("broker")["busy_ns"].to_numpy() / duration
    for broker in np.argsort(-busy, kind="stable")[:_SHOWN].tolist():
        if busy[broker] >= BUSY_SHARE:
            yield f"Broker {name_of(network, broker)} was at work {share(busy[broker])} of the time."
    links = found.run.read("links", ["link", "busy_ns"]).sort_by("link")["busy_ns"].to_numpy() / duration
    for link in np.argsort(-links, kind="stable")[:_SHOWN].tolist():
        if links[link] >= BUSY_SHARE:
            ends = name_of(network, int(network.source[link])), name_of(network, int(network.target[link]))
            yield f"The link from {ends[0]} to {ends[1]} was transmitting {share(links[link])} of the time."


def _failed(found: Gathered) -> Iterator[str]:
    faults = found.rows("faults")
    kinds = np.bincount(faults["what"], minlength=4).tolist()
    told = ("brokers down", "brokers slow", "directed links cut", "directed links worn")
    if sum(kinds):
        first, last = int(faults["begin_ns"].min()), int(faults["end_ns"].max())
        until = "for good" if (faults["end_ns"] < 0).any() else f"until {time(last)}"
        what = ", ".join(f"{count:,} {name}" for count, name in zip(kinds, told) if count)
        yield f"Faults from {time(first)} {until}: {what}."


def name_of(network: Any, broker: int) -> str:
    """A broker as commands name it."""
    return plain(broker_label(broker, network.names))
