"""Plumtree and HyParView in `brokerlab reproduce gossip`: closed forms, bounds of a published test, crashes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from math import nan
from random import Random
from typing import Any

import networkx as nx

from analysis.bench import routing_plumtree
from analysis.bench.routing_plumtree import BOUNDS, MENDED_MOST, ROUNDS
from analysis.papers.claims import (
    Claim,
    Figure,
    Source,
    above,
    at_least,
    at_most,
    below,
    between,
    derived,
    exactly,
    ours,
    printed,
)
from analysis.papers.experiment import Cells, Experiment, Run, Table, Tables
from analysis.papers.gossip_runs import MS, dialled, uniform_delays
from protocols.content.kind import PUBLISH
from protocols.gossip.plumtree import GRAFT, IHAVE, PRUNE
from protocols.joining import overlay_of
from topology.overlay import Overlay

# ---- exact counts over fixed links -------------------------------------------------------------------

BROKERS, LINKS = 200, 595  # of the overlay whose counts are in the notes: three dialled by each, five of them twice
_ELSEWHERE = 5  # brokers that publish once a tree of another stands
_DISPATCH, _WAIT = 5 * MS, 80 * MS  # the defaults of `dispatch` and `t1`


def overlays(seed: int) -> dict[str, Any]:
    """Graphs over which counts are closed forms."""
    return {
        "dialled": noted(seed), "attached": nx.barabasi_albert_graph(100, 3, seed=seed),
        "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(10, 10)), "complete": nx.complete_graph(30),
        "ring": nx.cycle_graph(40),
    }  # fmt: skip


def noted(seed: int) -> Any:
    """The first graph that is drawn with just so many links, all in one part."""
    drawn = (dialled(BROKERS, 3, 1000 * seed + at) for at in count())
    return next(graph for graph in drawn if graph.number_of_edges() == LINKS and nx.is_connected(graph))


def plumtree(run: Run) -> Tables:
    """The first publication and the next, over several overlays; and one of another source after these."""
    rows = []
    for name, graph in overlays(run.seed).items():
        overlay, _ = with_delays(graph, 50, run.seed)
        source = run.seed % overlay.brokers
        for which, counts in zip(("first", "second"), routing_plumtree.spreading_of(overlay, [source, source])):
            rows.append({
                "overlay": name, "brokers": overlay.brokers, "links": overlay.links, "publication": which,
                "copies": counts[PUBLISH], "PRUNE": counts[PRUNE], "IHAVE": counts[IHAVE], "GRAFT": counts[GRAFT],
            })  # fmt: skip
    graph = noted(run.seed)
    return {"plumtree": rows, "moved": [row for slowest in (5, 50) for row in elsewhere(graph, slowest, run.seed)]}


def with_delays(graph: Any, slowest_ms: int, seed: int) -> tuple[Overlay, dict[tuple[int, int], int]]:
    """Brokers over a graph with links of drawn delays, the slowest five times the quickest."""
    delays = uniform_delays(graph, slowest_ms / 5, slowest_ms, seed)
    return overlay_of(list(delays), list(delays.values())), delays


def elsewhere(graph: Any, slowest_ms: int, seed: int) -> Table:
    """Publications of other brokers over the tree of one, each beside whether word of it can outrun it there."""
    overlay, delays = with_delays(graph, slowest_ms, seed)
    source = seed % overlay.brokers
    found = []
    for other in Random(seed).sample([b for b in range(overlay.brokers) if b != source], _ELSEWHERE):
        counts = routing_plumtree.spreading_of(overlay, [source, source, other])[2]
        found.append({
            "slowest ms": slowest_ms, "source": other, "brokers": overlay.brokers, "copies": counts[PUBLISH],
            "outrun": outrun(delays, source, other),
        })  # fmt: skip
    return found


def outrun(delays: dict[tuple[int, int], int], source: int, other: int) -> int:
    """Links out of the tree of the quickest ways, over which word of a publication comes t1 before it does."""
    graph = nx.Graph()
    graph.add_weighted_edges_from((a, b, delay) for (a, b), delay in delays.items())
    ways = nx.single_source_dijkstra_path(graph, source)
    tree = graph.edge_subgraph((way[-2], way[-1]) for way in ways.values() if len(way) > 1)
    time = nx.single_source_dijkstra_path_length(tree, other)
    return sum(
        time[a] + _DISPATCH + delay + _WAIT < time[b]
        for (low, high), delay in delays.items() if not tree.has_edge(low, high)
        for a, b in ((low, high), (high, low))
    )  # fmt: skip


_NONE: tuple[str, Callable[[int, int], int]] = "0", lambda n, e: 0
_SURPLUS: tuple[str, Callable[[int, int], int]] = "2 (E - (n - 1))", lambda n, e: 2 * (e - n + 1)
FORMS: Mapping[str, Mapping[str, tuple[str, Callable[[int, int], int]]]] = {
    "first": {
        "copies": ("2E - (n - 1)", lambda n, e: 2 * e - (n - 1)), "PRUNE": _SURPLUS, "IHAVE": _NONE, "GRAFT": _NONE,
    },
    "second": {"copies": ("n - 1", lambda n, e: n - 1), "PRUNE": _NONE, "IHAVE": _SURPLUS, "GRAFT": _NONE},
}  # fmt: skip


def judge_plumtree(tables: Tables) -> Iterator[Claim]:
    rows = tables["plumtree"]
    for which, forms in FORMS.items():
        yield from _forms([row for row in rows if row["publication"] == which], which, forms)
    mine = {row["publication"]: row for row in rows if row["overlay"] == "dialled"}
    yield Claim(
        "noted", f"{BROKERS} brokers, {LINKS} links: copies and PRUNEs of the first, copies and IHAVE of the second",
        derived("2E - (n - 1) and 2 (E - (n - 1)), then n - 1 and 2 (E - (n - 1)), in figures"),
        {"copies of the first": Figure(mine["first"]["copies"], exactly(991)),
         "PRUNE": Figure(mine["first"]["PRUNE"], exactly(792)),
         "copies of the second": Figure(mine["second"]["copies"], exactly(199)),
         "IHAVE": Figure(mine["second"]["IHAVE"], exactly(792))},
    )  # fmt: skip
    yield from _judge_moved(tables["moved"])


def _forms(rows: Table, which: str, forms: Mapping[str, tuple[str, Callable[[int, int], int]]]) -> Iterator[Claim]:
    for what, (form, expected) in forms.items():
        off = max(abs(row[what] - expected(row["brokers"], row["links"])) for row in rows)
        yield Claim(
            f"{which}-{what.lower()}", f"{what} of the {which} publication of a source", derived(form),
            {"largest difference": Figure(off, exactly(0))}, "the closed form, over each overlay",
        )  # fmt: skip


def _judge_moved(rows: Table) -> Iterator[Claim]:
    copies = [row["copies"] for row in rows if row["slowest ms"] == 50]
    yield Claim(
        "moved", f"copies of a publication of another source, {BROKERS} brokers, {LINKS} links",
        ours("a simulation of one such overlay, beside the notes: 199 to 201"),
        {"least": Figure(min(copies), between(199, 201)), "most": Figure(max(copies), between(199, 201))},
        "199 to 201", "how many is a matter of delays, which the notes do not have",
    )  # fmt: skip
    wrong = [(row["copies"] > row["brokers"] - 1) != (row["outrun"] > 0) for row in rows]
    yield Claim(
        "moved-when", "publications of another source that have more copies than n - 1 although nothing outruns the "
        "tree, or have not although something does",
        derived("somebody is grafted just where an IHAVE comes t1 before the payload along the tree"),
        {"": Figure(wrong.count(True), exactly(0)), "outrun": Figure(sum(row["outrun"] > 0 for row in rows), above(0))},
    )  # fmt: skip
    still = [abs(row["copies"] - (row["brokers"] - 1)) for row in rows if not row["outrun"]]
    yield Claim(
        "moved-tree", "copies beyond n - 1 where nothing outruns the tree",
        derived("0: another source uses the same tree"),
        {"largest": Figure(max(still, default=nan), exactly(0))},
    )  # fmt: skip


# ---- bounds over brokers that find each other --------------------------------------------------------

TESTS = printed("n0-computer/iroh-gossip, tests/sim.rs: what the mean over rounds has to be below")
BESIDE = ours("the same bounds for as many brokers as its simulations have; its tests take a hundred")
FOUND, TESTED = (20, 100), 100  # brokers, and those of the tests
TOGETHER = 300  # brokers that publish all at once, at most: a thousand take some 20 GB of trace


def bounds(run: Run) -> Tables:
    """Last hop and redundancy, for each way of publishing."""
    rows = []
    for most in (*FOUND, 1_000) if run.full else FOUND:
        for how in BOUNDS:
            brokers = min(most, TOGETHER) if how == "all at once" else most
            last, redundant, missed = routing_plumtree.spread(brokers, how, run.seed)
            # Theirs divides by n - 2.
            theirs = (redundant + 1) * (brokers - 1) / (brokers - 2) - 1
            rows.append({
                "brokers": brokers, "publishing": how, "last hop": last, "redundancy": theirs, "missed": missed,
            })  # fmt: skip
            run.say(f"{brokers:,} brokers, {how}")
    return {"bounds": rows}


def judge_bounds(tables: Tables) -> Iterator[Claim]:
    rows = tables["bounds"]
    for how in BOUNDS:
        mine = [row for row in rows if row["publishing"] == how]
        yield from _bounded(how, [row for row in mine if row["brokers"] == TESTED], TESTS, "")
        yield from _bounded(how, [row for row in mine if row["brokers"] != TESTED], BESIDE, "-beside")


def _bounded(how: str, rows: Table, source: Source, suffix: str) -> Iterator[Claim]:
    _, last, redundant = BOUNDS[how]
    key = how.replace(" ", "-") + suffix
    for name, column, bound in (
        ("last hop", "last hop", below(last)),
        ("redundancy as theirs", "redundancy", below(redundant)),
        ("deliveries that are missed", "missed", exactly(0)),
    ):
        yield Claim(
            f"{column.replace(' ', '-')}-{key}", f"{name}, {how}", source,
            {f"{row['brokers']:,} brokers": Figure(row[column], bound) for row in rows},
        )  # fmt: skip


# ---- crashes -----------------------------------------------------------------------------------------

MEMORY = ours("from memory of the paper: 10,000 nodes, reliable up to 80 % crashed, and in few rounds at 90 %")
SHARES = (0.8, 0.9)
CRASHING = (100,)  # brokers
MANY = 10_000  # brokers whose views mend by flooding alone: a tree of as many takes too long


def crashes(run: Run) -> Tables:
    """What those that are left get, a round after the other, and what their views are then."""
    rows = []
    for brokers in (*CRASHING, 1_000, MANY) if run.full else CRASHING:
        for share in SHARES:
            for protocol in ("hyparview-flooding",) if brokers == MANY else ("hyparview-flooding", "plumtree"):
                left = routing_plumtree.crashed(brokers, share, protocol, run.seed)
                rows.append({
                    "protocol": protocol, "brokers": brokers, "crashed": share, "last five": min(left.shares[-5:]),
                    "rounds to all": left.mended, "parts": left.parts, "one-sided": left.onesided,
                })  # fmt: skip
                run.say(f"{protocol}, {brokers:,} brokers, {share:.0%}")
    return {"crashes": rows}


def judge_crashes(tables: Tables) -> Iterator[Claim]:
    for share in SHARES:
        rows = {_of(row): row for row in tables["crashes"] if row["crashed"] == share}
        after = f"after {share:.0%} crashed"
        for key, name, column, bound in (
            ("reliable", f"least share that gets a publication, {ROUNDS - 5} rounds and more {after}", "last five",
             at_least(1)),
            ("mended", f"rounds until everybody gets everything, {after}", "rounds to all", at_most(MENDED_MOST)),
            ("whole", f"parts that views fall into, {after}", "parts", exactly(1)),
            ("symmetric", f"neighbours of one side, {after}", "one-sided", exactly(0)),
        ):  # fmt: skip
            yield Claim(f"{key}-{share * 100:.0f}", name, MEMORY,
                        {of: Figure(row[column], bound) for of, row in rows.items()})  # fmt: skip


def _of(row: Cells) -> str:
    return f"{row['protocol']}, {row['brokers']:,}"


# ---- to compile --------------------------------------------------------------------------------------


def tiny() -> None:
    """Fixed links, at a scale that only compiles."""
    routing_plumtree.spreading_of(with_delays(nx.cycle_graph(6), 50, 1)[0], [0, 0])


def tiny_network() -> None:
    """The same of brokers that find each other."""
    routing_plumtree.spread(8, "one source", 1)


EXPERIMENTS = [
    Experiment(
        "plumtree", "Closed forms of Plumtree", plumtree, judge_plumtree,
        titles={"plumtree": "Messages of the first publication of a source and of its next",
                "moved": "Copies of a publication of another source, over the tree of the first"},
        text="Links of 10 to 50 ms, drawn, and of 1 to 5 ms for some other sources. The tree that is left is "
        "that of the quickest ways from the source, so where word of another's publication can outrun it is known from "
        "the delays.",
    ),
    Experiment(
        "bounds", "Bounds of a published test", bounds, judge_bounds, titles={"bounds": "Plumtree over HyParView"},
        text="Thirty publications of one source, or each of another, a second apart; and five times one of every "
        "broker at once. Links of 10 to 50 ms, each drawn once; 20 and 100 brokers, with --full 1,000 too, of "
        "which 300 publish at once. Redundancy is copies over n - 2, less one, as there.",
    ),
    Experiment(
        "crashes", "What crashes leave", crashes, judge_crashes,
        titles={"crashes": "Brokers that are left, whose views mend while one of them publishes each second"},
        text="A round is a second, in which each broker shuffles once; few rounds are ten. With --full 1,000 brokers "
        "too, and 10,000 under flooding alone.",
    ),
]  # fmt: skip
