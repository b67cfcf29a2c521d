"""`brokerlab reproduce gossip`: what others counted, of GossipSub in a simulation and on a test network.

What they print is of one run. Two things are asked of each figure: whether the mean of ours is near it, and whether it
may be one more run of ours, which is as far from their mean as one more is 19 times in 20. The second needs the spread
of single runs, so each seed has several.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import comb, fsum, inf, sqrt
from statistics import fmean, stdev
from typing import Any

import networkx as nx
import numpy as np

from analysis.papers.claims import (
    Bound,
    Claim,
    Figure,
    Source,
    at_most,
    between,
    derived,
    exactly,
    near,
    printed,
)
from analysis.papers.experiment import Cells, Curve, Experiment, Picture, Run, Table, Tables, curves
from analysis.papers.gossip_runs import MS, SECOND, Played, Setting, dialled, uniform_delays
from protocols.gossip.talking import GRAFT, IHAVE, IWANT, PRUNE
from protocols.topics.kind import PUBLISH
from scenarios.many.student import quantile

RUNS = 7  # of each seed
AUTHOR = "vyzo/gerbil-simsub, README"
NETWORK = "whiteblock/gossipsub-testing, README"

TYPES = {"payloads": PUBLISH, "IHAVE": IHAVE, "IWANT": IWANT, "GRAFT": GRAFT, "PRUNE": PRUNE}
SPREAD = ("0 to 100 ms", "100 to 200 ms", "200 to 300 ms")
# Counts of the author's simulation, and deliveries by 100 ms without those of authors to themselves.
SIMULATED: Mapping[str, Mapping[str, int]] = {
    "1.0": dict(zip((*TYPES, *SPREAD), (6_280, 7_212, 44, 372, 7, 156, 722, 112))),
    "1.1": dict(zip((*TYPES, *SPREAD), (6_738, 9_516, 30, 372, 7, 527, 463, 0))),
}
_NODES, _PUBLICATIONS, _LAZY, _BEATS, _CANDIDATES = 100, 10, 6, 12, 29
_FLOODED = 685  # payloads of a publication: the closed form in the mean, as the notes have it


# ---- the simulation of the protocol's author ---------------------------------------------------------------


def simulated(version: str, seed: int) -> Setting:
    """A hundred brokers that each dial twenty others; ten publications by five of them, a second apart."""
    graph = dialled(_NODES, 20, seed)
    options: dict[str, Any] = {
        "version": version, "d": 6, "d_lo": 4, "d_hi": 13, "d_score": 0, "d_out": 0, "first_heartbeat": "1 s",
        "exclude_author": False,
    }  # fmt: skip
    if version == "1.1":
        options |= {"flood_publish": True, "px": True, "gossip_draw": "each"}
    published = [((5 + at) * SECOND, 7 * (at % 5)) for at in range(_PUBLICATIONS)]
    return Setting(graph, uniform_delays(graph, 10, 150, seed), published, options, seconds=20, jitter=0.1)


def simulation(run: Run) -> Tables:
    """Several runs of both versions."""
    rows = []
    for version in SIMULATED:
        for at in range(RUNS):
            seed = run.seed * RUNS + at
            rows.append({"version": version, "run": at, **_counted(Played(simulated(version, seed), seed), version)})
    return {"simulation": rows}


def _counted(ran: Played, version: str) -> Cells:
    times = np.histogram(ran.latencies_ms(), [0, 100, 200, 300])[0].tolist()
    flooding = ((len(ran.known[author]), len(ran.mesh[author])) for author in ran.author.values())
    return {
        **{name: ran.count(type_) for name, type_ in TYPES.items()}, **dict(zip(SPREAD, times)),
        "mesh links": ran.edges, "flooded outside": sum(d - m for d, m in flooding) if version == "1.1" else 0,
        "outside first": sum(map(ran.heard_outside, ran.ids)),
    }  # fmt: skip


def judge_simulation(tables: Tables) -> Iterator[Claim]:
    for version, expected in SIMULATED.items():
        rows = [row for row in tables["simulation"] if row["version"] == version]
        where = printed(f"{AUTHOR}: of one run, version {version}")
        for name, value in expected.items():
            found = [float(row[name]) for row in rows]
            bound, tolerance = _tolerance(name, value)
            key = "-".join([*name.lower().split(), version])
            if bound:
                yield Claim(key, f"{_told(name)}, version {version}: the mean", where,
                            {"": Figure(fmean(found), bound)}, f"{value:,}, {tolerance}")  # fmt: skip
            yield Claim(
                f"{key}-one-more", f"{_told(name)}, version {version}: as one more run", where,
                {"distance": Figure(distance(value, found), at_most(1)), "mean": Figure(fmean(found)),
                 "spread": Figure(stdev(found))}, f"{value:,}, at a distance of at most 1",
            )  # fmt: skip
        yield from _judge_forms(version, rows)


def _told(name: str) -> str:
    return f"deliveries after {name}" if name in SPREAD else name


def _tolerance(name: str, value: int) -> tuple[Bound | None, str]:
    """None: too few to have one."""
    if name == "PRUNE" or not value:
        return None, ""
    return (between(value / 2, 2 * value), "twice or half") if name == "IWANT" else (near(value, 0.05), "within 5 %")


def distance(value: float, found: Sequence[float]) -> float:
    """How far a run is from the mean of others; 1 is as far as one more of these is once in 20 times."""
    room = quantile(0.95, len(found) - 1) * stdev(found) * sqrt(1 + 1 / len(found))
    off = abs(value - fmean(found))
    return off / room if room else inf if off else 0.0


def gossiped_to(candidates: int) -> float:
    """E[max(6, Bin(c, 1/4))]: each candidate is drawn by itself, and six there are at least."""
    weights = ((comb(candidates, k) * 3 ** (candidates - k), k) for k in range(candidates + 1))
    return fsum(weight / 4**candidates * max(_LAZY, k) for weight, k in weights)


def _judge_forms(version: str, rows: Table) -> Iterator[Claim]:
    """What follows from the rules in this setting, where an author is not spared: a is 0."""
    off = max(abs(row["payloads"] - _payloads(row)) for row in rows)
    yield Claim(
        f"payloads-{version}-form", f"payloads, version {version}: run by run",
        derived(f"{'2E + d - d_m' if version == '1.1' else '2E'} - (n - 1) + x of each publication, and one for each "
                "IWANT"),
        {"largest difference": Figure(off, exactly(0)), "mean": Figure(fmean(map(_payloads, rows)))},
        "the closed form, one by one",
    )  # fmt: skip
    yield Claim(
        f"links-{version}", f"links of the mesh beyond GRAFTs less PRUNEs, version {version}", derived("none"),
        {"": Figure(max(row["mesh links"] - (row["GRAFT"] - row["PRUNE"]) for row in rows), at_most(0))},
    )  # fmt: skip
    each = float(_LAZY) if version == "1.0" else gossiped_to(_CANDIDATES)
    law, told = _NODES * _BEATS * each, "n D_lazy H" if version == "1.0" else "n H E[max(6, Bin(29, 1/4))]"
    yield Claim(
        f"ihave-{version}-form", f"IHAVE, version {version}: beside its law",
        derived(f"{told}, heartbeats H = {_BEATS} with a window that is not empty; within 2 %"),
        {"": Figure(fmean(row["IHAVE"] for row in rows), near(law, 0.02))}, f"{law:,.0f}, within 2 %",
    )  # fmt: skip
    if version == "1.1":
        mean = fmean(row["payloads"] / _PUBLICATIONS for row in rows)
        yield Claim(
            "flooded-1.1", "payloads of a publication with flood publishing",
            derived("2E + d - d_m - (n - 1) + x - a with this setting's degrees in the mean; 674 were printed"),
            {"": Figure(mean, near(_FLOODED, 0.05))}, f"{_FLOODED}, within 5 %",
        )  # fmt: skip


def _payloads(row: Cells) -> float:
    pushed = _PUBLICATIONS * (2 * row["mesh links"] - (_NODES - 1)) + row["flooded outside"]
    return float(pushed + row["outside first"] + row["IWANT"])


def draw_simulation(tables: Tables) -> Iterator[Picture]:
    for version, expected in SIMULATED.items():
        rows = [row for row in tables["simulation"] if row["version"] == version]
        middles = [50.0, 150.0, 250.0]
        yield Picture(
            f"simulation-{version}", f"Deliveries by 100 ms, version {version}", "milliseconds", "deliveries",
            [*curves({"measured": (middles, [fmean(row[name] for row in rows) for name in SPREAD])}),
             Curve("printed", middles, [float(expected[name]) for name in SPREAD], paper=True)],
        )  # fmt: skip


# ---- a test network ----------------------------------------------------------------------------------------

NODES, RATE, SERIES = 95, 200, 36_000
# Links of a new node, and the delay of a link, which is half of what the source's labels say.
NETWORKS = ((2, 50), (6, 50), (12, 50), (16, 50), (6, 200))
SPIKES = {50: 200, 200: 800}  # milliseconds after which most publications have spread, by the delay of a link
_LAST_HOP = 4


def network(attach: int) -> Any:
    return nx.barabasi_albert_graph(NODES, attach, seed=42)


def talk(run: Run, purpose: str, count: int) -> list[tuple[int, int]]:
    """Publications of drawn brokers, two hundred in a second."""
    random = run.generator(f"gossip/{purpose}")
    return [(10 * SECOND + at * SECOND // RATE, int(random.integers(NODES))) for at in range(count)]


def testnet(run: Run) -> Tables:
    """How publications spread where nothing is lost on the way."""
    published, rows = talk(run, "testnet", 3_600 if run.full else 100), []
    for attach, delay_ms in NETWORKS:
        setting = Setting(
            network(attach), delay_ms * MS, published, {"payload": 1000}, len(published) // RATE + 20
        )
        ran = Played(setting, run.seed)
        spread = [max(time for time, _ in ran.first(id_).values()) - ran.sent_ns[id_] for id_ in ran.ids]
        rows.append({
            "m": attach, "link ms": delay_ms, "publications": len(ran.ids),
            "lost": NODES * len(ran.ids) - len(ran.tables["deliveries"]["client"]),
            "last hop": fmean(max(ran.hops_to(id_).values()) for id_ in ran.ids),
            "median spread ms": float(np.median(spread)) / MS, "worst ms": max(spread) / MS,
        })  # fmt: skip
        run.say(f"m = {attach}, {delay_ms} ms")
    return {"testnet": rows}


def judge_testnet(tables: Tables) -> Iterator[Claim]:
    rows = tables["testnet"]
    dense = {f"m = {row['m']}, {row['link ms']} ms": row for row in rows if row["m"] > 2}
    yield Claim(
        "lost", "deliveries that are lost, m > 2", printed(f"{NETWORK}: none of 36,000 publications"),
        {name: Figure(row["lost"], exactly(0)) for name, row in dense.items()},
    )  # fmt: skip
    yield Claim(
        "last-hop", "last hop of a publication, m > 2", printed(f"{NETWORK}: about 4"),
        {name: Figure(row["last hop"], between(_LAST_HOP - 0.5, _LAST_HOP + 0.5)) for name, row in dense.items()},
        "4, half a hop either way",
    )  # fmt: skip
    yield Claim(
        "lost-thin", "deliveries that are lost, m = 2, where queues are not limited",
        printed(f"{NETWORK}: losses at m = 2 are those of queues"),
        {"": Figure(fsum(row["lost"] for row in rows if row["m"] == 2), exactly(0))},
    )  # fmt: skip
    worst = {50: printed(f"{NETWORK}: 200 ms"), 200: printed(f"{NETWORK}: 4.573 s")}
    for delay_ms, expected in SPIKES.items():
        (row,) = (row for row in rows if (row["m"], row["link ms"]) == (6, delay_ms))
        yield Claim(
            f"spike-{delay_ms}", f"most publications have spread after, links of {delay_ms} ms, m = 6",
            printed(f"{NETWORK}: where the spike is"),
            {"": Figure(row["median spread ms"], between(expected - 1, expected + 1))}, f"{expected}", unit="ms",
        )  # fmt: skip
        yield _worst(row, worst[delay_ms])


def _worst(row: Cells, source: Source) -> Claim:
    return Claim(
        f"worst-{row['link ms']}", f"the last that has spread, links of {row['link ms']} ms, m = 6", source,
        {"": Figure(row["worst ms"])}, "reported",
        "the time of processes that share a host, which the printed worst may be, is not modelled", "ms",
    )  # fmt: skip


def draw_testnet(tables: Tables) -> Iterator[Picture]:
    rows = [row for row in tables["testnet"] if row["link ms"] == 50]
    ms = [row["m"] for row in rows]
    yield Picture("testnet", "Last hop of a publication", "links of a new node (m)", "hops",
                  curves({"measured": (ms, [row["last hop"] for row in rows])}))  # fmt: skip


EXPERIMENTS = [
    Experiment(
        "simulation", "What the author's simulation counted", simulation, judge_simulation, draw_simulation,
        titles={"simulation": "A hundred brokers, ten publications: messages, and deliveries by 100 ms"},
        text=f"{RUNS} runs for each seed, each over an overlay of its own; jitter of up to 10 % of a link's delay. A "
        "distance of 1 from the mean is as far as one more run is once in 20 times, by Student's t. The "
        "author of a publication gets copies as others do, so that a is 0; x are brokers that hear first from outside "
        "of their mesh.",
    ),
    Experiment(
        "testnet", "The test network of 95 nodes", testnet, judge_testnet, draw_testnet,
        {"testnet": "95 brokers, 200 publications of 1,000 bytes per second"},
        "100 of the 36,000 publications that were measured for each m, with --full 3,600; no queues and no limits: see "
        "`queues` for what these lose.",
    ),
]  # fmt: skip
