"""`brokerlab reproduce routing`, what crashes: delivery in the end, and past brokers that are down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from analysis.bench import routing_neighbourhood, routing_reliable
from analysis.bench.models import SUBSCRIPTION
from analysis.papers.claims import (
    Claim,
    Figure,
    above,
    at_least,
    below,
    derived,
    exactly,
    near,
    ours,
    printed,
)
from analysis.papers.experiment import Cells, Experiment, Run, Table, Tables

LAW = 0.1  # within this part a mean comes near that of a law
_LINES = 1_000  # more than are drawn for a seed: no two seeds draw the same
_SPEAKERS = 12  # of a line: what all of them found out would say little more


def crashing(full: bool) -> routing_reliable.Sizes:
    """A network of which a sixth of the brokers crash."""
    sizes = routing_reliable.Sizes()
    return sizes if full else replace(sizes, brokers=100, homes=25, subscriptions=50)


def reliable(run: Run) -> Tables:
    """Everything that was accepted comes, once and in order, although brokers crash."""
    sizes = crashing(run.full)
    return {
        "reliable": [
            {"protocol": name, **routing_reliable.measured(sizes, protocol, run.seed)}
            for name, protocol in (("reliable", routing_reliable.RELIABLE), ("subscription", SUBSCRIPTION))
        ]
    }


def judge_reliable(tables: Tables) -> Iterator[Claim]:
    mine, other = tables["reliable"]
    yield _once(mine)
    yield Claim(
        "without", "The share that comes of what had to come, by subscription forwarding",
        ours("without acknowledgements some is lost: else nothing was shown"),
        {"": Figure(other["came"] / other["wanted"], below(1))},
    )  # fmt: skip
    yield _costs(mine, other, "subscription forwarding")


def _once(row: Cells) -> Claim:
    return Claim(
        "exactly-once", "Pairs of a publication and a client that were missed, came twice, out of order or unwanted",
        derived("what the protocol promises"),
        {"missed": Figure(row["missed"], exactly(0)), "else wrong": Figure(row["wrong"], exactly(0)),
         "had to come": Figure(row["wanted"], above(0))},
    )  # fmt: skip


def _costs(mine: Cells, other: Cells, name: str) -> Claim:
    return Claim(
        "messages", f"Messages over links, beside {name}", ours("what the promise costs"),
        {"": Figure(mine["messages"] / other["messages"])}, "reported", unit="times",
    )  # fmt: skip


def down(full: bool) -> routing_neighbourhood.Sizes:
    """Lines and trees of which a sixth of the brokers is down."""
    sizes = routing_neighbourhood.Sizes(lines=40, over_time=crashing(full))
    return sizes if full else replace(sizes, tree=150, publishers=20)


def outages(run: Run) -> Tables:
    """While brokers are down: who is served, pair by pair."""
    sizes = down(run.full)
    rows: Table = []
    links = routing_neighbourhood.line(sizes.line)
    for delta, apart in sizes.distances:
        seeds = [run.seed * _LINES + each for each in range(sizes.lines)]
        found = [routing_neighbourhood.outage(links, delta, sizes.share, seed, _SPEAKERS) for seed in seeds]
        rows.append({
            "on": f"lines, {apart} apart", "δ": delta, "pairs": sum(int(each.asked.sum()) for each in found),
            "wrong": sum(each.wrong for each in found), "served": routing_neighbourhood.share_of(found, apart),
            "recurrence": routing_neighbourhood.survival(apart, delta, sizes.share),
        })  # fmt: skip
        run.say(f"lines, δ {delta}: {rows[-1]['served']:.3f} served")
    tree = routing_neighbourhood.tree(sizes.tree, run.seed)
    one = routing_neighbourhood.outage(tree, sizes.tree_delta, sizes.share, run.seed, sizes.publishers)
    rows.append({
        "on": f"a tree of {sizes.tree}", "δ": sizes.tree_delta, "pairs": int(one.asked.sum()), "wrong": one.wrong,
        "served": routing_neighbourhood.share_of([one]), "recurrence": None,
    })  # fmt: skip
    return {"outages": rows}


def judge_outages(tables: Tables) -> Iterator[Claim]:
    *lines, tree = tables["outages"]
    yield Claim(
        "pairs", "Pairs served although more than δ are down in a row, or not served although not",
        derived("δ-fault tolerance: each broker knows its (δ + 1)-neighbourhood"),
        {_where(row): Figure(row["wrong"], exactly(0)) for row in (*lines, tree)},
        note=f"of {sum(row['pairs'] for row in (*lines, tree)):,} pairs in the first seed",
    )  # fmt: skip
    yield Claim(
        "recurrence", "Pairs on lines that are served, over the probability by the recurrence",
        derived("a_h = Σ fⁱ (1 - f) a_{h-1-i}, i to min(δ, h - 1); a tenth is our band"),
        {_where(row): Figure(row["served"] / row["recurrence"], near(1, LAW)) for row in lines}, unit="times",
    )  # fmt: skip
    yield Claim(
        "in-trees", "Pairs that are served, 17 % of the brokers down at once",
        printed("Kazemzadeh and Jacobsen, SRDS 2009: 97 % with δ = 3 and up to 500 brokers; topology unknown"),
        {_where(tree): Figure(tree["served"], at_least(0.97))},
    )  # fmt: skip


def _where(row: Cells) -> str:
    return f"{row['on']}, δ {row['δ']}"


def neighbourhood(run: Run) -> Tables:
    """What comes in the end, and what late, where brokers crash and come back."""
    sizes = down(run.full)
    protocols = {"neighbourhood": routing_neighbourhood.NEIGHBOURHOOD, "reliable": routing_reliable.RELIABLE}
    return {
        "neighbourhood": [
            {"protocol": name, **routing_neighbourhood.struck(sizes, protocol, run.seed)}
            for name, protocol in protocols.items()
        ]
    }


def judge_neighbourhood(tables: Tables) -> Iterator[Claim]:
    mine, other = tables["neighbourhood"]
    yield _once(mine)
    yield Claim(
        "late", "The share of deliveries that come a second late, beside that of reliable",
        ours("bridges past what is down need not wait until it is back"),
        {"": Figure(mine["late"] / other["late"], below(1))}, unit="times",
    )  # fmt: skip
    yield _costs(mine, other, "reliable")


EXPERIMENTS = [
    Experiment(
        "reliable", "Reliable delivery", reliable, judge_reliable, titles={"reliable": "Through crashes"},
        text="100 brokers of which 17 crash over time; `--full` has 500.",
    ),
    Experiment(
        "outages", "Past brokers that are down", outages, judge_outages, titles={"outages": "Brokers down at once"},
        text="40 lines of 60 brokers for each δ, of which 12 publish, and a tree of 150, `--full` of 500.",
    ),
    Experiment(
        "neighbourhood", "Bridges past what crashed", neighbourhood, judge_neighbourhood,
        titles={"neighbourhood": "Through crashes"}, text="100 brokers of which 17 crash over time; `--full` has 500.",
    ),
]  # fmt: skip
