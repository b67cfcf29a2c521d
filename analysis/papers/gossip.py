"""`brokerlab reproduce gossip`: closed forms of GossipSub, each beside what a run counted.

Counts are exact, publication by publication: tables hold what a form is made of, of each publication by itself, and
claims are about the largest difference. What is drawn (who is told of a publication by gossip) has a law, and its mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import fsum
from statistics import fmean
from typing import Any

import networkx as nx
import numpy as np

from analysis.papers.claims import Claim, Figure, above, at_least, below, derived, exactly, near, ours
from analysis.papers.experiment import Cells, Experiment, Picture, Run, Table, Tables, curves
from analysis.papers.gossip_runs import MS, SECOND, Played, Setting, dialled, uniform_delays
from protocols.gossip.talking import GRAFT, IDONTWANT, IHAVE, IWANT

BROKERS, PUBLICATIONS, ASKED = 60, 5, 20  # publications of a run; with gossip beside the mesh
LAZY, WINDOWS, D_LO, D_HI = 6, 3, 5, 12  # the defaults
NO_PRUNES = {"d_hi": BROKERS}  # so that meshes stay as they are
NO_GOSSIP = {**NO_PRUNES, "d_lazy": 0, "gossip_factor": 0.0}
PUSH_ONLY = {**NO_GOSSIP, "version": "1.1"}


def overlays(seed: int, degree: int = 12) -> dict[str, Any]:
    """Graphs of about the same degree that differ in how evenly it is spread."""
    return {
        "regular": nx.random_regular_graph(degree, BROKERS, seed=seed),
        "attached": nx.barabasi_albert_graph(BROKERS, degree // 2, seed=seed),
        "dialled": dialled(BROKERS, degree // 2, seed),
    }


def settled(graph: Any, options: Any, seed: int, slowest_ms: int = 50, publications: int = PUBLICATIONS) -> Setting:
    """Publications of drawn authors, once meshes are at rest, over links of drawn delays."""
    random = np.random.Generator(np.random.PCG64(seed))
    authors = random.integers(graph.number_of_nodes(), size=publications).tolist()
    # Not a whole second apart, so that heartbeats come at other times of each.
    published = [(8 * SECOND + at * 1037 * MS, author) for at, author in enumerate(authors)]
    delay_ns = uniform_delays(graph, slowest_ms / 5, slowest_ms, seed)
    return Setting(graph, delay_ns, published, options)


def mesh_row(ran: Played, id: int) -> Cells:
    """What 2E - (n - 1) - a is made of, who heard first from outside of its mesh, and the payloads that were sent."""
    return {
        "brokers": ran.brokers, "mesh links": ran.edges, "elsewhere first": ran.heard_elsewhere(id),
        "outside first": ran.heard_outside(id), "payloads": len(ran.copies(id)),
    }  # fmt: skip


def over_mesh(row: Cells) -> float:
    """Payloads of a publication: each link of the mesh carries two, but for those that nobody sends back."""
    return float(2 * row["mesh links"] - (row["brokers"] - 1) - row["elsewhere first"])


def flooded(row: Cells) -> float:
    """The same where the author sends to all neighbours of the topic."""
    return over_mesh(row) + row["neighbours"] - row["in mesh"] + row["outside first"]


def exact(key: str, name: str, form: str, rows: Table, expected: Callable[[Cells], float], measured: str) -> Claim:
    """A claim that holds if every row is what its closed form says."""
    return Claim(
        key, name, derived(form),
        {"largest difference": Figure(max(abs(row[measured] - expected(row)) for row in rows), exactly(0)),
         "mean": Figure(fmean(row[measured] for row in rows))},
        "the closed form, one by one",
    )  # fmt: skip


# ---- payloads and IHAVE over a mesh at rest ---------------------------------------------------------------


def closed_forms(run: Run) -> Tables:
    """Counts that are exact."""
    tables: Tables = {"mesh": [], "flooded": [], "ihave": [], "rest": [], "asked": []}
    for name, graph in overlays(run.seed).items():
        ran = Played(settled(graph, PUSH_ONLY, run.seed), run.seed)
        tables["mesh"] += [{"overlay": name, **mesh_row(ran, id_)} for id_ in ran.ids]
        ran = Played(settled(graph, {**PUSH_ONLY, "flood_publish": True}, run.seed), run.seed)
        tables["flooded"] += [
            {"overlay": name, **mesh_row(ran, id_), "neighbours": len(ran.known[ran.author[id_]]),
             "in mesh": len(ran.mesh[ran.author[id_]])}
            for id_ in ran.ids
        ]  # fmt: skip
    for name, graph in overlays(run.seed, 24).items():
        for slowest_ms in (5, 50):
            tables["asked"] += asked(name, graph, slowest_ms, run.seed)
        tables["rest"].append({"overlay": name, **at_rest(graph, run.seed)})
    tables["ihave"] = [announced(graph, publications, run.seed) for graph, publications in (
        (overlays(run.seed, 24)["regular"], 5), (nx.complete_graph(40), 3), (nx.complete_graph(40), 9),
    )]  # fmt: skip
    return tables


def asked(name: str, graph: Any, slowest_ms: int, seed: int) -> Table:
    """Publications with gossip beside the mesh: some of them spread between two heartbeats."""
    options = {**NO_PRUNES, "version": "1.1", "gossip_factor": 0.0}
    ran = Played(settled(graph, options, seed, slowest_ms, ASKED), seed)
    requests = ran.count(IWANT)
    return [
        {"overlay": name, "slowest ms": slowest_ms, **mesh_row(ran, id_), "undisturbed": ran.undisturbed(id_),
         "requests of all": requests}
        for id_ in ran.ids
    ]  # fmt: skip


def announced(graph: Any, publications: int, seed: int) -> Cells:
    """IHAVE of publications of one author, a second apart, so that each broker gets them a heartbeat apart."""
    published = [((8 + at) * SECOND, 0) for at in range(publications)]
    delay_ns = uniform_delays(graph, 10, 50, seed)
    options = {**NO_PRUNES, "gossip_factor": 0.0}
    ran = Played(Setting(graph, delay_ns, published, options), seed)
    return {"brokers": ran.brokers, "publications": publications, "IHAVE": ran.count(IHAVE)}


def at_rest(graph: Any, seed: int) -> Cells:
    """Meshes that have had forty seconds."""
    delay_ns = uniform_delays(graph, 10, 50, seed)
    ran = Played(Setting(graph, delay_ns, [(40 * SECOND, 0)], seconds=41), seed)
    sizes = [len(mesh) for mesh in ran.mesh]
    return {
        "one-sided": sum(a not in ran.mesh[b] for a in range(ran.brokers) for b in ran.mesh[a]),
        "least": min(sizes), "mean degree": fmean(sizes), "most": max(sizes), "GRAFTs": ran.count(GRAFT),
        "later GRAFTs": sum(time > 10 * SECOND for time, _, _ in ran.over(GRAFT)),
    }  # fmt: skip


def judge_closed_forms(tables: Tables) -> Iterator[Claim]:
    yield exact("mesh", "payloads of a publication over a mesh", "2E - (n - 1) - a", tables["mesh"], over_mesh,
                "payloads")  # fmt: skip
    ratios = [
        (row["payloads"] / (row["brokers"] - 1) - 1) / (2 * row["mesh links"] / row["brokers"] - 2)
        for row in tables["mesh"]
    ]
    yield Claim(
        "redundancy", "payloads for each broker but one, less one, for each of D - 2 of the mesh's mean degree D",
        derived("2E - (n - 1) - a over n - 1: about D - 2"), {"": Figure(fmean(ratios), near(1, 0.05))},
        "about 1; 5 % either way are our reading of that",
    )  # fmt: skip
    yield exact("flooded", "payloads with flood publishing", "2E + d - d_m - (n - 1) + x - a", tables["flooded"],
                flooded, "payloads")  # fmt: skip
    yield from _judge_asked(tables["asked"])
    yield exact(
        "ihave", "IHAVE of publications of one author", f"n D_lazy H; H is all publications and {WINDOWS - 1} more",
        tables["ihave"], lambda row: float(row["brokers"] * LAZY * (row["publications"] + WINDOWS - 1)), "IHAVE",
    )  # fmt: skip
    rest = tables["rest"]
    enough = [row["least"] for row in rest if row["overlay"] != "attached"]
    yield Claim(
        "rest", "meshes at rest: symmetric, D_lo <= |mesh| < D_hi, no GRAFT", derived("the steps of the heartbeat"),
        {"one-sided links": Figure(sum(row["one-sided"] for row in rest), exactly(0)),
         "least": Figure(min(enough), at_least(D_LO)),
         "most": Figure(max(row["most"] for row in rest), below(D_HI)),
         "GRAFTs after ten seconds": Figure(sum(row["later GRAFTs"] for row in rest), exactly(0)),
         "GRAFTs": Figure(sum(row["GRAFTs"] for row in rest), above(0))},
        note="the least is not judged where neighbours do not suffice: those of a hub have no place for it",
    )  # fmt: skip


def _judge_asked(rows: Table) -> Iterator[Claim]:
    still = [abs(row["payloads"] - over_mesh(row)) for row in rows if row["undisturbed"]]
    yield Claim(
        "asked-never", "payloads that were asked for, of publications that spread between two heartbeats",
        derived("0"),
        {"largest": Figure(max(still, default=float("nan")), exactly(0)), "publications": Figure(len(still), above(0))},
    )  # fmt: skip
    runs: dict[Any, Table] = {}
    for row in rows:
        runs.setdefault((row["overlay"], row["slowest ms"]), []).append(row)
    off = [
        abs(fsum(row["payloads"] - over_mesh(row) - row["outside first"] for row in each) - each[0]["requests of all"])
        for each in runs.values()
    ]
    yield Claim(
        "asked", "payloads beyond those over the mesh",
        derived("one for each IWANT, and one for each broker that an answer reaches first: it sends to all its mesh"),
        {"largest difference": Figure(max(off), exactly(0)),
         "IWANT": Figure(sum(each[0]["requests of all"] for each in runs.values()), above(0))},
        "as many as IWANT and brokers reached so, run by run",
    )  # fmt: skip


# ---- IDONTWANT --------------------------------------------------------------------------------------------

# What one overlay of 200 brokers came to in the notes: payloads saved of 1,389, by milliseconds of validation.
NOTED, NOTED_OF = {0: 0, 10: 252, 30: 605, 60: 855}, 1_389
_NOTE = ours("a simulation of one overlay of 200 brokers, delays of 10 to 50 ms, that the closed form was checked with")


def idontwant(run: Run) -> Tables:
    """What word of a payload that is being validated saves, by how long that takes."""
    return {"idontwant": [row for ms in NOTED for row in spared(dialled(200, 10, run.seed), ms, run.seed)]}


def spared(graph: Any, validation_ms: int, seed: int) -> Table:
    """By publication, the payloads that were not sent."""
    options = {**NO_GOSSIP, "d_hi": graph.number_of_nodes(), "payload": 2000, "validation": f"{validation_ms} ms"}
    ran = Played(settled(graph, options, seed), seed)
    return [
        {"validation ms": validation_ms, **mesh_row(ran, id_),
         "skips": ran.spared_expected(id_, validation_ms * MS), "IDONTWANT": ran.count(IDONTWANT)}
        for id_ in ran.ids
    ]  # fmt: skip


def judge_idontwant(tables: Tables) -> Iterator[Claim]:
    for ms, noted in NOTED.items():
        rows = [row for row in tables["idontwant"] if row["validation ms"] == ms]
        saved = exact(
            f"saved-{ms}", f"payloads that IDONTWANT leaves, validation {ms} ms",
            "those over the mesh, less one for each B and A with T_A + d_AB <= T_B + v", rows,
            lambda row: over_mesh(row) - row["skips"], "payloads",
        )  # fmt: skip
        told = {"IDONTWANT": Figure(rows[0]["IDONTWANT"], above(0))}
        yield replace(saved, figures={**saved.figures, **told})
        share = 1 - fsum(row["payloads"] for row in rows) / fsum(over_mesh(row) for row in rows)
        if noted:
            yield Claim(
                f"share-{ms}", f"share of payloads that IDONTWANT saves, validation {ms} ms", _NOTE,
                {"": Figure(share, near(noted / NOTED_OF, 0.1))}, f"{noted} of {NOTED_OF:,}, within 10 %",
            )  # fmt: skip
        else:
            yield Claim(
                f"share-{ms}", "share of payloads that IDONTWANT saves, without validation",
                derived("nobody has word of a payload before the payload"), {"": Figure(share, exactly(0))},
            )  # fmt: skip


def draw_idontwant(tables: Tables) -> Iterator[Picture]:
    shares = []
    for ms in NOTED:
        rows = [row for row in tables["idontwant"] if row["validation ms"] == ms]
        shares.append(1 - fsum(row["payloads"] for row in rows) / fsum(over_mesh(row) for row in rows))
    yield Picture(
        "idontwant", "Share of payloads that IDONTWANT saves", "milliseconds of validation", "share",
        curves({"measured": (list(NOTED), shares),
                "one overlay of the notes": (list(NOTED), [each / NOTED_OF for each in NOTED.values()])}),
    )  # fmt: skip


# ---- who hears by gossip ----------------------------------------------------------------------------------

CANDIDATES = (12, 20, 24, 30, 100)
PAIRS = 480  # divided by the candidates: overlays, so that a share is known to a part in a hundred
ROUNDS = WINDOWS


def hearing(run: Run) -> Tables:
    """Of a broker's neighbours out of its mesh, how many it tells of a publication within r heartbeats."""
    rows = []
    for c in CANDIDATES:
        pairs, told = 0, [0] * ROUNDS
        for at in range(max(1, PAIRS // c)):
            counted, heard = heard_within(c, run.seed * PAIRS + at)
            pairs += counted
            told = [before + more for before, more in zip(told, heard)]
        rows += [{"candidates": c, "rounds": r, "pairs": pairs, "told": each} for r, each in enumerate(told, 1)]
        run.say(f"{c} candidates: {pairs} pairs")
    return {"hearing": rows}


def heard_within(c: int, seed: int) -> tuple[int, list[int]]:
    """Pairs of a broker that has just so many candidates and one of these; how many of them it told by each round."""
    brokers = c + 7  # a mesh of six is the most frequent
    setting = Setting(nx.complete_graph(brokers), 5 * MS, [(8 * SECOND, 0)], {"d_hi": brokers}, seconds=14)
    ran = Played(setting, seed)
    ihave: dict[int, list[tuple[int, int]]] = {}
    for time, source, broker in sorted(ran.over(IHAVE)):
        ihave.setdefault(source, []).append((time, broker))
    tellers = [b for b in range(brokers) if brokers - 1 - len(ran.mesh[b]) == c]
    heard = [0] * ROUNDS
    for b in tellers:
        beats = sorted({time for time, _ in ihave[b]})
        assert len(beats) == ROUNDS, f"broker {b} told of it in {len(beats)} heartbeats"
        for r in range(ROUNDS):
            heard[r] += len({other for time, other in ihave[b] if time <= beats[r]})
    return c * len(tellers), heard


def share_told(c: int, rounds: int) -> float:
    """1 - (1 - k/c)^r, k of c being told in each round."""
    return 1 - (1 - max(LAZY, c // 4) / c) ** rounds


def judge_hearing(tables: Tables) -> Iterator[Claim]:
    rows = tables["hearing"]
    once = [row["told"] * row["candidates"] - row["pairs"] * max(LAZY, row["candidates"] // 4)
            for row in rows if row["rounds"] == 1]  # fmt: skip
    yield Claim(
        "one-round", "pairs told in one heartbeat", derived("k of c"),
        {"largest difference": Figure(max(map(abs, once)), exactly(0)),
         "pairs": Figure(min(row["pairs"] for row in rows), above(0))},
        "k of c, broker by broker",
    )  # fmt: skip
    for r in range(2, ROUNDS + 1):
        yield Claim(
            f"{r}-rounds", f"share of neighbours out of the mesh that hear within {r} heartbeats, by their number",
            derived(f"1 - (1 - k/c)^{r}, k the larger of 6 and a quarter; within 3 %"),
            {f"of {row['candidates']}": Figure(
                row["told"] / row["pairs"], near(share_told(row["candidates"], r), 0.03)
            ) for row in rows if row["rounds"] == r},
        )  # fmt: skip


def draw_hearing(tables: Tables) -> Iterator[Picture]:
    rows = [row for row in tables["hearing"] if row["rounds"] == ROUNDS]
    cs = [row["candidates"] for row in rows]
    yield Picture(
        "hearing", f"Share that hears within {ROUNDS} heartbeats", "candidates", "share",
        curves({"measured": (cs, [row["told"] / row["pairs"] for row in rows]),
                "1 - (1 - k/c)^r": (cs, [share_told(c, ROUNDS) for c in cs])}), log_x=True,
    )  # fmt: skip


EXPERIMENTS = [
    Experiment(
        "closed-forms", "Closed forms of GossipSub", closed_forms, judge_closed_forms,
        titles={
            "mesh": "Publications over a mesh", "flooded": "Publications with flood publishing",
            "asked": "Publications with gossip beside the mesh", "ihave": "IHAVE of one author",
            "rest": "Meshes at rest",
        },
        text="Sixty brokers over three overlays, of degree 12 and 24, links of 10 to 50 ms. E are links of the mesh, n "
        "brokers; of the author's neighbours d, d_m are in its mesh, of which a hear from another first; x are reached "
        "by the author outside of its mesh.",
    ),
    Experiment(
        "idontwant", "What IDONTWANT saves", idontwant, judge_idontwant, draw_idontwant,
        {"idontwant": "Publications over 200 brokers, by time of validation"},
        "Two hundred brokers that dial ten each, five publications of 2,000 bytes by milliseconds of validation.",
    ),
    Experiment(
        "hearing", "Who hears of a publication out of the mesh", hearing, judge_hearing, draw_hearing,
        {"hearing": "Pairs of a broker and a neighbour out of its mesh, and those told within so many heartbeats"},
        "Complete graphs with seven brokers more than candidates; only brokers with a mesh of six count, so that the "
        "number of candidates is exact.",
    ),
]  # fmt: skip
