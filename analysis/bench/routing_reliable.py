"""Rows of the group `routing` about `reliable`: 500 brokers, of which 17 % crash over time.

What was accepted and wanted, and how much of it came, by the audit of the conformance kit; beside it `subscription`
with the same workload and faults, which promises nothing. Subscriptions stand from the start. Each crash takes its
broker for a second or two; those with clients come back with their store, all others know nothing. Five seeds.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analysis.bench.models import SUBSCRIPTION, Setting, model
from analysis.bench.rows import Row, row
from brokers.faults import LOST, NEVER, STORED, Crash, Schedule
from protocols.content.kind import PUBLISH

RELIABLE = "protocols.content.reliable:Reliable"
_S = 1_000_000_000


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    brokers: int = 500
    homes: int = 100  # brokers with clients
    subscriptions: int = 200
    publications_per_s: float = 40.0
    seconds: int = 10
    share: float = 0.17  # of brokers that crash, each once
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)


def rows(sizes: Sizes) -> Iterator[Row]:
    """What came of what had to come, and what each publication cost on links."""
    told = f"{sizes.brokers} brokers, {sizes.share:.0%} crashed over time"
    reliable = [measured(sizes, RELIABLE, seed) for seed in sizes.seeds]
    plain = [measured(sizes, SUBSCRIPTION, seed) for seed in sizes.seeds]
    missed = sum(each["missed"] + each["wrong"] for each in reliable)
    yield row(f"reliable, {told}: missed, twice, out of order or unwanted", missed, "pairs", most=0)
    forced = sum(each["wanted"] for each in reliable)
    yield row(f"reliable, {told}: had to come", forced, "pairs", least=1)
    shares = [each["came"] / each["wanted"] for each in plain]
    spread = f"{min(shares):.1%} to {max(shares):.1%} over {len(shares)} seeds"
    yield row(f"subscription, the same: share that came ({spread})", float(np.mean(shares)), "share")
    for name, what in (("publications over links", "data"), ("all messages", "messages")):
        ours, theirs = (float(np.mean([each[what] for each in found])) for found in (reliable, plain))
        yield row(f"reliable, {told}: {name}", ours, "messages", baseline=theirs, against="subscription")


def measured(sizes: Sizes, protocol: str, seed: int) -> dict[str, int]:
    """One run of a protocol, as `measured_of` has it."""
    return measured_of(struck(sizes, protocol, seed))


def measured_of(built: Any, soon_ns: int = NEVER) -> dict[str, int]:
    """One run: pairs that had to come but for losses, those that did, what was wrong, and messages over links.

    `late` are deliveries that came no sooner than `soon_ns` after they were published.
    """
    from brokers.engine.simulate import MemoryTraces, simulate, tables_of
    from protocols.conformance import audit

    traces = MemoryTraces("full", tables_of(built))
    simulate(built, trace=traces)
    tables, service = traces.tables(), built.services[0]
    kind = service.kind_class(service.params)
    found = audit(tables, kind, replace(service.protocol_class.guarantees_for(built.overlay), hands_over=False))
    wanted = found.forced + found.excused
    over = tables["hops"]["link"] >= 0
    return {
        "wanted": wanted,
        "came": found.deliveries,
        "missed": found.missed.count,
        "wrong": found.unwanted.count + found.duplicated.count + found.out_of_order.count,
        "data": int((over & (tables["hops"]["type"] == PUBLISH)).sum()),
        "messages": int(over.sum()),
        "late": int((tables["deliveries"]["time_ns"] - tables["deliveries"]["published_ns"] >= soon_ns).sum()),
    }


def struck(sizes: Sizes, protocol: str, seed: int) -> Any:
    """The model of one run."""
    setting = Setting(
        brokers=sizes.brokers, publications_per_s=sizes.publications_per_s, seconds=sizes.seconds,
        subscriptions=sizes.subscriptions, protocol=protocol, width=0.5,
    )  # fmt: skip
    plain, dice = model(setting), np.random.default_rng(seed)
    homes = dice.permutation(sizes.brokers)[: sizes.homes]
    at = homes[np.arange(plain.client_broker.size) % sizes.homes].astype(np.int32)
    crashes = tuple(_crashes(sizes, dice, set(homes.tolist())))
    return replace(plain, seed=seed, client_broker=at, faults=Schedule(crashes))


def _crashes(sizes: Sizes, dice: np.random.Generator, homes: set[int]) -> Iterator[Crash]:
    for broker in dice.permutation(sizes.brokers)[: round(sizes.share * sizes.brokers)].tolist():
        begin = int(dice.integers((sizes.seconds - 2) * _S))
        lasts = int(dice.integers(_S, 2 * _S))
        yield Crash(broker, begin, begin + lasts, state=STORED if broker in homes else LOST)
