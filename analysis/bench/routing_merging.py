"""Rows of the group `routing`: merging of filters beside covering, and leases beside their closed forms.

No speeds: tables, messages and waste, each in the mean over several seeds, with the spread of the mean beside it.
`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, log
from random import Random
from typing import Any

import numpy as np

from analysis.bench.rows import Row, row
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from protocols.joining import Joined, join

_MS, _SECOND = 1_000_000, 1_000_000_000
_COVERING = "covering"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    seeds: int = 5
    first: int = 0
    brokers: int = 20
    subscriptions: int = 160
    publications: int = 300
    waste: tuple[float, ...] = (0.1, 0.3)
    arrivals: int = 1_500  # of subscriptions that are leased
    lease_brokers: int = 5


def rows(sizes: Sizes | None = None) -> Iterator[Row]:
    """Every row, as it is measured."""
    sizes = sizes or Sizes()
    for attributes in (1, 2):
        yield from merged(sizes, attributes)
    for waste in sizes.waste:
        yield wasted(sizes, waste)
    yield from leased(sizes)
    yield from flooded(sizes)


# ---- merging -----------------------------------------------------------------------------------------


def merged(sizes: Sizes, attributes: int) -> Iterator[Row]:
    """Tables, control messages and publications over links, of the same clients under covering and merged."""
    seeds = range(sizes.first, sizes.first + sizes.seeds)
    beside = [covered(seed, sizes, attributes) for seed in seeds]
    for waste in (0.0, *sizes.waste):
        counted = [with_waste(seed, sizes, attributes, waste) for seed in seeds]
        about = f"{attributes} attribute{'s' * (attributes > 1)}, {sizes.brokers} brokers, waste {waste:g}"
        for what, bound in (("table entries", 1.0), ("messages of changes", None), ("publications over links", None)):
            values, baselines = ([each[what] for each in some] for some in (counted, beside))
            exactly = 1.0 if waste == 0 and what == "publications over links" else None
            yield row(
                f"{what}, {about}, {_spread(values)}", float(np.mean(values)), "", baseline=float(np.mean(baselines)),
                ratio_least=exactly, ratio_most=exactly or bound, against=_COVERING,
            )  # fmt: skip
        if waste == 0:
            other = [elsewhere(a, b) for a, b in zip(counted, beside)]
            yield row(f"publications that go elsewhere than under covering, {about}", float(sum(other)), "", most=0)


def covered(seed: int, sizes: Sizes, attributes: int) -> dict[str, Any]:
    """What a network knows and sends under covering."""
    return _counted(_network(_COVERING, seed, sizes, attributes))


def with_waste(seed: int, sizes: Sizes, attributes: int, waste: float) -> dict[str, Any]:
    """The same, merged."""
    return _counted(_network("merging", seed, sizes, attributes, {"waste": waste}))


def elsewhere(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """How many publications went over a link in one network alone."""
    return sum(((one["went"] - other["went"]) + (other["went"] - one["went"])).values())


def _network(
    protocol: str, seed: int, sizes: Sizes, attributes: int, options: Mapping[str, Any] | None = None
) -> Joined:
    """A random tree. Clients subscribe one after the other, take back a third, and publish uniform values."""
    random, brokers = Random(f"{seed} {attributes}"), sizes.brokers
    net = join(
        protocol, [(random.randrange(b), b) for b in range(1, brokers)], params={"attributes": attributes},
        options=dict(options or {}),
    )  # fmt: skip
    begun = []
    for i in range(sizes.subscriptions):
        client, ranges = random.randrange(brokers), []
        for attribute in range(attributes):
            low = random.randrange(64)
            ranges += [attribute, low / 64, min(64, low + random.randrange(1, 5 * attributes**2)) / 64]
        net.send(client, "subscribe", ranges, word=net.interest(client, i), at_ns=(i + 1) * 50 * _MS)
        begun.append((client, i))
    at = sizes.subscriptions * 50 * _MS
    for client, i in random.sample(begun, sizes.subscriptions // 3):
        at += 50 * _MS
        net.send(client, "unsubscribe", word=net.interest(client, i), at_ns=at)
    for _ in range(sizes.publications):
        at += 50 * _MS
        net.send(random.randrange(brokers), "publish", [random.random() for _ in range(attributes)], at_ns=at)
    return net


def _counted(net: Joined) -> dict[str, Any]:
    """What a network knows at the end, and what went over its links."""
    traces = MemoryTraces("full", tables_of(net.model()))
    simulate(net.model(), trace=traces)
    tables = traces.tables()
    samples, hops = tables["samples"], tables["hops"]
    over = hops["link"] >= 0
    published = over & (hops["type"] == PUBLISH)
    return {
        "table entries": int(samples["entries"][samples["time_ns"] == samples["time_ns"].max()].sum()),
        "messages of changes": int((over & ~published).sum()),
        "publications over links": int(published.sum()),
        "went": Counter(zip(hops["body"][published].tolist(), hops["link"][published].tolist())),
    }


def wasted(sizes: Sizes, waste: float) -> Row:
    """Of what goes over a link for a merger, the share that answers nobody; its parts lie as far apart as may be."""
    seeds = range(sizes.first, sizes.first + 2 * sizes.seeds)
    shares = [waste_of_one(seed, 2 * sizes.publications, waste) for seed in seeds]
    bound = waste + 2 * float(np.std(shares, ddof=1)) / len(shares) ** 0.5
    name = f"waste of one merger, bound {waste:g} and twice the spread of the mean, {_spread(shares)}"
    return row(name, float(np.mean(shares)), "", most=bound)


def waste_of_one(seed: int, publications: int, waste: float, apart: tuple[float, float] = (0.97, 1.0)) -> float:
    """The share of one merger; its parts lie apart by a part of what the bound allows. Values lie evenly."""
    random = Random(seed)
    widths = random.uniform(0.1, 0.2), random.uniform(0.1, 0.2)
    gap = sum(widths) * waste / (1 - waste) * random.uniform(*apart)
    low = random.uniform(0.0, 0.2)
    net = join("merging", [(0, 1)], options={"waste": waste})
    net.send(1, "subscribe", [0, low, low + widths[0]], word=net.interest(1))
    net.send(1, "subscribe", [0, low + widths[0] + gap, low + sum(widths) + gap], word=net.interest(1, 1))
    for i in range(publications):
        value = (i + random.random()) / publications
        net.send(0, "publish", [value, 0, 0, 0], at_ns=10 * _SECOND + i * _MS)
    sent = sum(hop.type == PUBLISH for hop in net.over(0, 1))
    return 1 - len(net.deliveries(1)) / sent


def _spread(values: Sequence[float]) -> str:
    mean = float(np.std(values, ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return f"± {mean:.2g} over {len(values)} seeds"


# ---- leases ------------------------------------------------------------------------------------------

_RATE, _GONE, _RENEW, _LEASE, _STEPS = 2.0, 0.02, 10.0, 25.0, 25  # per second and in seconds, as on the page


def leased(sizes: Sizes) -> Iterator[Row]:
    """Entries and messages of subscriptions that come at a rate and live exponentially, withdrawn at the end or not."""
    for withdraw in (False, True):
        found = [lived(seed, sizes, withdraw) for seed in range(sizes.first, sizes.first + sizes.seeds)]
        forms = lease_forms(sizes, withdraw)
        entries, messages = ([each[i] for each in found] for i in (0, 1))
        said = "leases, withdrawn at the end" if withdraw else "leases"
        for what, values, unit, form in (
            ("entries in the mean", entries, "entries", forms[0]),
            ("messages of subscriptions over links", messages, "/s", forms[1]),
        ):
            yield row(
                f"{said}, {what}, {_spread(values)}", float(np.mean(values)), unit, baseline=form,
                ratio_least=0.97, ratio_most=1.03, against="the closed form",
            )  # fmt: skip


def lease_forms(sizes: Sizes, withdraw: bool) -> tuple[float, float]:
    """Entries in the mean and messages per second, by the closed forms."""
    brokers, renewed = sizes.lease_brokers, 1 - exp(-_GONE * _RENEW)
    stays = 1 / _GONE if withdraw else _LEASE - _LEASE / _STEPS / 2 + _RENEW / (exp(_GONE * _RENEW) - 1)
    return _RATE * brokers * stays, _RATE * (brokers - 1) * (1 / renewed + withdraw)


def flooded(sizes: Sizes) -> Iterator[Row]:
    """Leases beside flooding, where nobody wants what is published: from which rate on they send less."""
    for times in (0.8, 1.25):
        seeds = range(sizes.first, sizes.first + sizes.seeds)
        ours = [lived(seed, sizes, False)[1] for seed in seeds]
        theirs = [publishing(seed, sizes, times) for seed in seeds]
        name = f"leases beside flooding at {times:g} times the rate that is even, {_spread(ours)}: messages over links"
        least, most = (1.0, None) if times < 1 else (None, 1.0)
        yield row(
            name, float(np.mean(ours)), "/s", baseline=float(np.mean(theirs)), ratio_least=least, ratio_most=most,
            against="flooding",
        )  # fmt: skip


def publishing(seed: int, sizes: Sizes, times: float) -> float:
    """Messages per second of flooding, of what is published at so many times the rate at which leases send as many."""
    random, brokers, count = Random(seed), sizes.lease_brokers, sizes.publications
    rate = times * _RATE / (1 - exp(-_GONE * _RENEW))
    links = [(random.randrange(b), b) for b in range(1, brokers)]
    net = join("flooding", links)
    for i in range(count):
        net.send(random.randrange(brokers), "publish", [2.0, 0, 0, 0], at_ns=1 + int(i / rate * _SECOND))
    return sum(len(net.over(*ends)) for link in links for ends in (link, link[::-1])) / (count / rate)


@lru_cache(maxsize=32)  # the same runs stand beside closed forms and beside flooding
def lived(seed: int, sizes: Sizes, withdraw: bool) -> tuple[float, float]:
    """Entries in the mean and messages per second, counted over all that came of so many subscriptions."""
    random, brokers = Random(seed), sizes.lease_brokers
    options = {"lease": int(_LEASE * _SECOND), "renew": int(_RENEW * _SECOND), "steps": _STEPS, "withdraw": withdraw}
    net = join("leases", [(random.randrange(b), b) for b in range(1, brokers)], options=options)
    said, at = [], 0.0
    for i, life in enumerate(_lives(sizes.arrivals, random)):
        at -= log(1 - random.random()) / _RATE
        client = random.randrange(brokers)
        said += [(at, client, "subscribe", i), (at + life, client, "unsubscribe", i)]
    for when, client, op, i in sorted(said):
        ranges = [0.0, 0.0, 1.0] if op == "subscribe" else None
        net.send(client, op, ranges, word=net.interest(client, i), at_ns=1 + int(when * _SECOND))
    last = max(when for when, *_ in said)
    net.send(0, "publish", [2.0, 0, 0, 0], at_ns=int((last + _LEASE + 2 * _RENEW) * _SECOND))
    model = replace(net.model(), sample_every_ns=700 * _MS)
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    tables = traces.tables()
    seconds = sizes.arrivals / _RATE  # in which so many come, for ever
    told = (tables["hops"]["link"] >= 0) & np.isin(tables["hops"]["type"], (SUBSCRIBE, UNSUBSCRIBE))
    return float(tables["samples"]["entries"].sum() * 0.7 / seconds), float(told.sum() / seconds)


def _lives(count: int, random: Random) -> list[float]:
    """Exponential lives, one from each of so many equal shares of their law."""
    found = [-log(1 - (i + random.random()) / count) / _GONE for i in range(count)]
    random.shuffle(found)
    return found
