"""`brokerlab reproduce gossip`: closed forms and printed counts of GossipSub, as claims.

Each claim names its source and the class of that: *derived*, a closed form that follows from the rules and is exact
run by run, or the mean of a law; *printed*, what the authors of a simulation or a test say of one run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, sqrt
from statistics import mean, stdev
from typing import Any

import networkx as nx
import numpy as np

from analysis.papers.experiment import Experiment, Told
from analysis.papers.gossip_runs import MS, SECOND, Played, Setting, dialled, uniform_delays
from protocols.gossip.talking import GRAFT, IDONTWANT, IHAVE, IWANT, PRUNE
from protocols.topics.kind import PUBLISH
from scenarios.many.student import quantile

SEEDS = 7
_PUSH_ONLY = {"version": "1.1", "d_lazy": 0, "gossip_factor": 0.0, "d_hi": 60}

# The simulation of the protocol's author (vyzo/gerbil-simsub), README: counts of one run, and deliveries by 100 ms.
SIMULATED: Mapping[str, Any] = {
    "1.0": ({PUBLISH: 6_280, IHAVE: 7_212, IWANT: 44, GRAFT: 372, PRUNE: 7}, (156, 722, 112)),
    "1.1": ({PUBLISH: 6_738, IHAVE: 9_516, IWANT: 30, GRAFT: 372, PRUNE: 7}, (527, 463, 0)),
}
_NAMES = {PUBLISH: "payloads", IHAVE: "IHAVE", IWANT: "IWANT", GRAFT: "GRAFT", PRUNE: "PRUNE"}


def simulated(version: str, seed: int) -> Setting:
    """A hundred brokers that each dial twenty others; ten publications by five of them, a second apart."""
    graph = dialled(100, 20, seed)
    options: dict[str, Any] = {
        "version": version, "d": 6, "d_lo": 4, "d_hi": 13, "d_score": 0, "d_out": 0, "first_heartbeat": "1 s",
        "exclude_author": False,
    }  # fmt: skip
    if version == "1.1":
        options |= {"flood_publish": True, "px": True, "gossip_draw": "each"}
    published = [((5 + at) * SECOND, 7 * (at % 5)) for at in range(10)]
    return Setting(graph, uniform_delays(graph, 10, 150, seed), published, options, seconds=20, jitter=0.1)


def printed(report: Told) -> None:
    """What the author's simulation counted."""
    rows = []
    for version, (counts, spread) in SIMULATED.items():
        ran = [Played(simulated(version, report.seed + at), report.seed + at) for at in range(SEEDS)]
        for type_, expected in counts.items():
            found = [each.count(type_) for each in ran]
            rows.append({
                "version": version, "messages": _NAMES[type_], "printed": expected, "mean": mean(found),
                "least": min(found), "most": max(found),
            })  # fmt: skip
            report.claim(
                f"{_NAMES[type_]}, version {version}", f"printed: {expected:,} in one run; {_tolerance(type_)}",
                f"{expected:,}", _told(found), _agrees(type_, expected, found),
            )  # fmt: skip
        latencies = [np.histogram(each.latencies_ms(), [0, 100, 200, 300])[0].tolist() for each in ran]
        for at, expected in enumerate(spread):
            found = [each[at] for each in latencies]
            name, told = f"deliveries after {100 * at} to {100 * at + 100} ms, version {version}", _told(found)
            if expected:
                close = abs(mean(found) - expected) <= 0.05 * expected
                report.claim(f"{name}, in the mean", "printed, in one run; within 5 %", f"{expected}", told, close)
            report.claim(
                f"{name}, as one more run", "printed, in one run; as far from the mean as one more is, 19 times in 20",
                f"{expected}", f"{told}, {min(found)} to {max(found)}", _is_one_more(expected, found),
            )  # fmt: skip
    report.table("printed", "Messages of the author's simulation, and of so many seeds", rows)


def _tolerance(type: int) -> str:
    return {IWANT: "within a factor of two", PRUNE: "within the range of seeds"}.get(type, "within 5 %")


def _agrees(type: int, expected: int, found: Sequence[int]) -> bool:
    if type == PRUNE:
        return min(found) <= expected <= max(found)
    if type == IWANT:
        return expected / 2 <= mean(found) <= 2 * expected
    return abs(mean(found) - expected) <= 0.05 * expected


def _is_one_more(expected: int, found: Sequence[int]) -> bool:
    """Whether a run may be one more of these, by Student's t: it is not the mean of many that was printed."""
    room = quantile(0.95, len(found) - 1) * stdev(found) * sqrt(1 + 1 / len(found))
    return abs(expected - mean(found)) <= room


def closed_forms(report: Told) -> None:
    """Counts that are exact, run by run."""
    graphs = [nx.random_regular_graph(12, 60, seed=report.seed + at) for at in range(SEEDS)]
    push = [_regular(graph, at, _PUSH_ONLY, report) for at, graph in enumerate(graphs)]
    found = [(each.payloads_expected(id_), len(each.over(PUBLISH, id_))) for each in push for id_ in each.ids]
    _equal(report, "payloads of a publication over a mesh", "derived: 2E - (n - 1) - a", found)

    flooded = [_regular(graph, at, {**_PUSH_ONLY, "flood_publish": True}, report) for at, graph in enumerate(graphs)]
    found = [(each.flooded_expected(id_), len(each.over(PUBLISH, id_))) for each in flooded for id_ in each.ids]
    _equal(report, "payloads with flood publishing", "derived: 2E + d - d_m - (n - 1) + x - a", found)

    wide = [nx.random_regular_graph(24, 60, seed=report.seed + at) for at in range(SEEDS)]
    lazily = {"gossip_factor": 0.0, "d_hi": 60}
    gossiping = [_regular(graph, at, lazily, report, 5, one_author=True) for at, graph in enumerate(wide)]
    found = [(60 * 6 * 7, each.count(IHAVE)) for each in gossiping]
    _equal(report, "IHAVE of five publications of one author", "derived: n D_lazy H, with H = 5 + 2", found)
    asked = [
        (0, len(each.over(PUBLISH, id_)) - each.payloads_expected(id_))
        for each in gossiping
        for id_ in each.ids
        if each.undisturbed(id_)
    ]
    _equal(report, "payloads that were asked for where no heartbeat came meanwhile", "derived: 0", asked)
    quiet = [each for each in gossiping if _is_quiet(each)]
    report.claim(
        "meshes at rest are symmetric, and within D_lo and D_hi", "derived", f"{SEEDS} of {SEEDS} runs",
        f"{len(quiet)} of {SEEDS} runs", len(quiet) == SEEDS,
    )  # fmt: skip

    rows = []
    for validation_ms in (0, 10, 30, 60):
        spares = {"d_lazy": 0, "gossip_factor": 0.0, "d_hi": 60, "payload": 2000, "validation": f"{validation_ms} ms"}
        ran = [_regular(graph, at, spares, report) for at, graph in enumerate(graphs)]
        found = [
            (each.spared_expected(id_, validation_ms * MS), each.payloads_expected(id_) - len(each.over(PUBLISH, id_)))
            for each in ran
            for id_ in each.ids
        ]
        _equal(
            report, f"payloads that IDONTWANT saves, validation {validation_ms} ms",
            "derived: B skips A iff T_A + d_AB <= T_B + v", found,
        )  # fmt: skip
        without = fsum(each.payloads_expected(id_) for each in ran for id_ in each.ids)
        rows.append({
            "validation ms": validation_ms, "saved": fsum(saved for _, saved in found), "of": without,
            "IDONTWANT": sum(each.count(IDONTWANT) for each in ran),
        })  # fmt: skip
    report.table("idontwant", "Payloads that IDONTWANT saves", rows)


def hearing(report: Told) -> None:
    """Who is in no mesh hears of a publication within r heartbeats: 1 - (1 - k / c)^r."""
    rows = []
    for brokers in (19, 27, 31, 37, 107):
        graph, expected, measured = nx.complete_graph(brokers), [], []
        for at in range(SEEDS):
            setting = Setting(graph, 5 * MS, [(8 * SECOND, 0)], {"d_hi": 60}, seconds=14)
            ran = Played(setting, report.seed + at)
            told = ran.told(IHAVE)
            for b in range(brokers):
                others = [other for other in range(brokers) if other != b and other not in ran.mesh[b]]
                c = len(others)
                expected.append(1 - (1 - max(6, c // 4) / c) ** 3)
                measured.append(sum((b, other) in told for other in others) / c)
        rows.append({"brokers": brokers, "derived": mean(expected), "measured": mean(measured)})
    report.table("hearing", "Share of neighbours out of the mesh that hear of a publication in three heartbeats", rows)
    for row in rows:
        near = abs(row["measured"] / row["derived"] - 1) <= 0.03
        report.claim(
            f"told of it, of {row['brokers']} brokers that all know each other",
            "derived: 1 - (1 - k / c)^3, within 3 %", f"{row['derived']:.3f}", f"{row['measured']:.3f}", near,
        )  # fmt: skip


def testnet(report: Told) -> None:
    """Ninety-five brokers of a Barabási–Albert graph, as on a test network (whiteblock/gossipsub-testing, README)."""
    count = 36_000 if report.full else 100
    rows = []
    for attach, delay_ms in ((2, 50), (6, 50), (12, 50), (16, 50), (6, 200)):
        graph = nx.barabasi_albert_graph(95, attach, seed=42)
        for at in range(1 if report.full else 5):
            random = np.random.Generator(np.random.PCG64(report.seed + at))
            published = [(10 * SECOND + each * 5 * MS, int(random.integers(95))) for each in range(count)]
            setting = Setting(graph, delay_ms * MS, published, {"payload": 1000}, count // 200 + 20)
            ran = Played(setting, report.seed + at)
            last = [max(ran.hops_to(id_).values()) for id_ in ran.ids]
            spread = [max(time for time, _ in ran.first(id_).values()) - ran.sent_ns[id_] for id_ in ran.ids]
            rows.append({
                "m": attach, "link ms": delay_ms, "seed": report.seed + at, "publications": len(ran.ids),
                "lost": 95 * len(ran.ids) - len(ran.tables["deliveries"]["client"]), "last hop": mean(last),
                "median spread ms": float(np.median(spread)) / MS, "worst ms": max(spread) / MS,
            })  # fmt: skip
        report.say(f"m = {attach}, {delay_ms} ms")
    report.table("testnet", "95 brokers, 200 publications of 1,000 bytes per second", rows)
    dense = [row for row in rows if row["m"] > 2]
    report.claim(
        "deliveries that are lost, m > 2", "printed: none of 36,000 publications", "0",
        f"{sum(row['lost'] for row in dense)} of {sum(row['publications'] for row in dense):,} publications",
        not any(row["lost"] for row in dense),
    )  # fmt: skip
    hops = [row["last hop"] for row in dense]
    near = abs(mean(hops) - 4) <= 0.5
    report.claim("last hop of a publication, m > 2", "printed: about 4", "4 ± 0.5", _told(hops), near)
    for delay_ms, expected in ((50, 200), (200, 800)):
        found = [row["median spread ms"] for row in rows if (row["m"], row["link ms"]) == (6, delay_ms)]
        report.claim(
            f"most publications have spread after, links of {delay_ms} ms", "printed: where the spike is",
            f"{expected} ms", f"{_told(found)} ms", all(abs(at - expected) < 1 for at in found),
        )  # fmt: skip
    report.text(
        f"{count:,} of the 36,000 publications that were measured. At m = 2 up to 246 of them were lost by "
        "queues of 32 places in each process: see `queues`. The time of processes that share a host, which the worst "
        "of 4.573 s may be, is not modelled."
    )


def _regular(
    graph: Any, at: int, options: Mapping[str, Any], report: Told, delay_ms: int = 50, one_author: bool = False
) -> Played:
    random = np.random.Generator(np.random.PCG64(report.seed + at))
    authors = [0] * 5 if one_author else random.integers(60, size=5).tolist()
    published = [((8 + each) * SECOND, author) for each, author in enumerate(authors)]
    delay_ns = uniform_delays(graph, delay_ms / 5, delay_ms, report.seed + at)
    return Played(Setting(graph, delay_ns, published, options), report.seed + at)


def _is_quiet(ran: Played) -> bool:
    symmetric = all(a in ran.mesh[b] for b in range(ran.brokers) for a in ran.mesh[b])
    bounded = all(5 <= len(mesh) < 60 for mesh in ran.mesh)
    return symmetric and bounded and max(time for time, _, _ in ran.over(GRAFT)) < 8 * SECOND


def _equal(report: Told, name: str, source: str, found: Sequence[tuple[int, int]]) -> None:
    """A claim that holds if every number is what the closed form says, publication by publication."""
    expected, measured = zip(*found)
    report.claim(name, source, _told(expected), _told(measured), expected == measured)


def _told(found: Sequence[float]) -> str:
    """A mean with its spread."""
    spread = stdev(found) if len(found) > 1 else 0.0
    return f"{mean(found):,.6g} ± {spread:.3g} of {len(found)}"


EXPERIMENTS = [
    Experiment("closed-forms", "Closed forms of GossipSub", told=closed_forms),
    Experiment("printed", "What the author's simulation counted", told=printed),
    Experiment("hearing", "Who hears of a publication out of the mesh", told=hearing),
    Experiment("testnet", "The test network of 95 nodes", told=testnet),
]
