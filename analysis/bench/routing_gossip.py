"""What `gossipsub` does in a second of CPU: compiled, in the author's form, and beside flooding in the author's view.

All run over one graph in which each broker has some twenty neighbours, with a subscriber at every broker. The group
`gossip-large` has the sizes that take minutes. Beside that: counts that closed forms tell exactly, publication by
publication (`analysis.papers.gossip`, which `brokerlab reproduce gossip` has over more seeds), and one digest however
a run is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import networkx as nx

from analysis.bench.rows import REPEATS, Row, medians, row
from analysis.papers import gossip
from analysis.papers.gossip_runs import SECOND, Played, Setting, dialled, uniform_delays
from brokers.engine.model import Model
from protocols.rehearsing import service_of


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    repeats: int = REPEATS
    brokers: int = 1000
    dials: int = 10
    publications: int = 100
    counted: int = gossip.BROKERS  # brokers whose messages are counted
    validations_ms: tuple[int, ...] = (0, 30)
    compared: int = 300  # brokers that run in every way


def rows(sizes: Sizes) -> Iterator[Row]:
    """All rows."""
    yield from speeds(sizes)
    yield from exact(sizes)
    yield one_digest(sizes)


def speeds(sizes: Sizes) -> Iterator[Row]:
    """Hops per second of CPU."""
    compiled = model(sizes)
    gossip = replace(compiled, services=[replace(compiled.services[0], view="message")])
    flood = service_of("flooding", kind="topics", view="message", sources=gossip.services[0].sources)
    forms = [speed(compiled), speed(gossip), speed(replace(gossip, services=[flood]))]
    quick, value, baseline = medians(forms, sizes.repeats)
    over = f"{sizes.brokers:,} brokers with {2 * sizes.dials} neighbours"
    yield row(f"gossipsub, compiled beside the author's form, {over}", quick, "hops/CPU s", baseline=value)
    yield row(f"gossipsub beside flooding, author's view, {over}", value, "hops/CPU s", baseline=baseline)


def exact(sizes: Sizes) -> Iterator[Row]:
    """Payloads over a mesh at rest, IHAVE, and what IDONTWANT saves, beside the closed forms."""
    n, graph = sizes.counted, nx.random_regular_graph(12, sizes.counted, seed=1)
    ran = Played(gossip.settled(graph, {**gossip.PUSH_ONLY, "d_hi": n}, 1), 1)
    meshes = [gossip.mesh_row(ran, id_) for id_ in ran.ids]
    told = f"gossipsub, {n} brokers"
    sent = [each["payloads"] for each in meshes]
    yield _beside(f"{told}: payloads of a publication, 2E - (n - 1) - a", sent, list(map(gossip.over_mesh, meshes)))
    many = gossip.announced(nx.random_regular_graph(24, n, seed=1), 5, 1)
    closed = n * gossip.LAZY * (5 + gossip.WINDOWS - 1)
    yield _beside(f"{told}: IHAVE of five publications, n D_lazy H", [many["IHAVE"]], [closed])
    for ms in sizes.validations_ms:
        spared = gossip.spared(graph, ms, 1)
        saved = [gossip.over_mesh(each) - each["payloads"] for each in spared]
        name = f"{told}, validation {ms} ms: payloads that IDONTWANT saves, T_A + d_AB <= T_B + v"
        yield _beside(name, saved, [each["skips"] for each in spared])


def _beside(name: str, counted: list[Any], closed: list[Any]) -> Row:
    """The mean of counts beside that of their closed form; it holds if they are equal one by one."""
    found = row(name, fmean(counted), "messages", baseline=fmean(closed))
    return {**found, "target": "the closed form, one by one", "holds": counted == closed}


def one_digest(sizes: Sizes) -> Row:
    """How many digests a run has on one, two and three shards, on threads, and in the author's form."""
    name = f"gossipsub, {sizes.compared} brokers: digests on 1, 2 and 3 shards, 3 threads and in the author's form"
    return row(name, len(set(digests(sizes).values())), "digests", most=1)


def digests(sizes: Sizes) -> dict[str, str]:
    """The digest of the same run by way of carrying it out, the form that ran included."""
    from brokers.engine.simulate import simulate

    compiled = model(replace(sizes, brokers=sizes.compared, publications=min(20, sizes.publications)))
    author = replace(compiled, services=[replace(compiled.services[0], view="message")])
    found = {}
    for each, engine, actors in (
        (compiled, "inline", 1), (compiled, "inline", 2), (compiled, "inline", 3), (compiled, "threads", 3),
        (author, "inline", 1),
    ):  # fmt: skip
        result = simulate(each, engine=engine, actors=actors)
        found[f"{engine}, {actors}, {result.engine['forms']['service']['form']}"] = result.digest
    return found


def model(sizes: Sizes) -> Model:
    """Ten publications a second, once meshes stand."""
    graph = dialled(sizes.brokers, sizes.dials, 1)
    published = [(5 * SECOND + at * SECOND // 10, at * 7 % sizes.brokers) for at in range(sizes.publications)]
    setting = Setting(graph, uniform_delays(graph, 5, 50, 1), published, seconds=6 + sizes.publications // 10)
    return replace(setting.model(1), trace_level="none")


def speed(built: Model) -> Callable[[], float]:
    """Events handled per second of CPU."""
    from brokers.engine.simulate import simulate

    def measure() -> float:
        run: Any = simulate(built, engine="inline").metrics["run"]
        return float(run["events_per_s"] * run["loop_wall_s"] / run["cpu_s"])

    return measure
