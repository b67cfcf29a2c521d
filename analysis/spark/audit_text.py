"""What an audit found, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from brokers.verdicts import FINDINGS, words

if TYPE_CHECKING:
    from analysis.spark.audit import Audit, ServiceAudit

_OUTAGES_MAX = 5  # that are told
_CROSSED = {"twice": "over a link again", "waste": "for nobody"}


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
        if service.doubled:
            lines.append(f"  {service.doubled:,} deliveries were doubled, as links had doubled what they brought")
        if service.losses:
            lines.append(
                f"  {service.losses:,} messages lost; they excuse {service.excused:,} decisions, of which "
                f"{service.excused_missed:,} were not delivered"
            )
        if service.late_missed:
            lines.append(
                f"  {service.late_missed:,} decisions were not delivered, of publications that were under way for "
                f"{service.guarantees['within_ns'] / 1e9:.3g} s or longer"
            )
        if service.sessions is not None:
            owed, away = (f"{service.sessions[name]:,}" for name in ("owed", "sent_while_away"))
            lines.append(f"  {owed} decisions forced over several stays of a client, {away} of them while it was away")
        if manners := "; ".join(_manners(service)):
            lines.append(f"  {manners}")
        lines += [f"  {_outage(each)}" for each in service.outages[:_OUTAGES_MAX]]
        for name in FINDINGS:
            lines += [f"    {words(name)}: {_example(each)}" for each in getattr(service, name).examples]
        crossings = (service.budget or {}).get("examples", {})
        lines += [f"    {_CROSSED[sort]}: {_crossing(each)}" for sort, found in crossings.items() for each in found]
    return "\n".join([*lines, f"verdict: {found.verdict}"])


def _manners(service: ServiceAudit) -> Iterator[str]:
    """How it behaved beside what it delivered."""
    budget = service.budget or {}
    counts = {_CROSSED[sort]: budget.get(sort) for sort in _CROSSED}
    if told := [f"{count:,} {where}" for where, count in counts.items() if count is not None]:
        yield f"budget: {', '.join(told)}"
    if budget.get("bytes"):
        yield f"{budget['bytes']:,} links carried more bytes than there was to tell"
    if service.quiet is not None:
        late = f", {service.quiet['late']:,} events later than 9 s" if service.quiet["late"] else ""
        yield f"quiet: {service.quiet['after_ns'] / 1e9:.3g} s after clients and faults{late}"
    if service.heals is not None:
        yield f"heals: {_healed(service.heals)}"
    if service.leaks is not None:
        entries, brokers = service.leaks["entries"], service.leaks["brokers"]
        yield f"leaks: {f'{entries:,} entries at {brokers:,} brokers' if entries else 'nothing'}"
    if service.drops is not None:
        longest, links = service.drops["longest_ns"] / 1e9, service.drops["links"]
        yield f"drops: for up to {longest:.3g} s in front of one link, and lasting in front of {links:,}"


def _healed(heals: dict[str, int]) -> str:
    """What came of publications once all was owed again."""
    wrong = [f"{heals[name]:,} {name}" for name in ("missed", "unwanted") if heals[name]]
    after = f"decisions forced since {heals['from_ns'] / 1e9:.3g} s"
    return f"{', '.join(wrong) or 'nothing wrong'} of {heals['forced']:,} {after}"


def _crossing(example: dict[str, Any]) -> str:
    return f"message {example['message']}, {example['from']} -> {example['to']}"


def _outage(outage: dict[str, Any]) -> str:
    """What came after a stretch in which something failed."""
    begin = f"{outage['begin_ns'] / 1e9:g} s"
    if outage["end_ns"] < 0:
        return f"something fails from {begin} on"
    told = f"something failed from {begin} to {outage['end_ns'] / 1e9:g} s; "
    missing = outage["missing_for_ns"]
    told += f"something published is missing until {missing / 1e9:.3g} s after" if missing else "nothing missing after"
    return told + ("" if outage["repair_messages"] is None else f", {outage['repair_messages']:,} messages repaired")


def _example(example: dict[str, Any]) -> str:
    told = f"message {example['message']} and client {example['client']}"
    times = [(key.removesuffix("_ns"), value) for key, value in example.items() if key.endswith("_ns")]
    return ", ".join([told, *(f"{what.replace('_', ' ')} at {when:,} ns" for what, when in times)])
