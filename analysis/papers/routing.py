"""`brokerlab reproduce routing`: closed forms and printed numbers of routing among brokers, as claims.

A closed form that follows from the rules is exact, seed by seed, or the mean of a law, which what is measured comes
near. How the brokers fare through crashes is in `routing_crashed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import NamedTuple

import networkx as nx
import numpy as np

from analysis.bench import routing_adverts, routing_merging, routing_practice, routing_trees
from analysis.papers.claims import (
    Bound,
    Claim,
    Figure,
    above,
    at_most,
    below,
    between,
    derived,
    exactly,
    near,
    printed,
)
from analysis.papers.experiment import Experiment, Picture, Run, Table, Tables, curves
from protocols.content.kind import ADVERTISE, SUBSCRIBE
from protocols.joining import join
from protocols.rehearsing import Dice

LAW = 0.03  # within this part a mean comes near that of a law


class Form(NamedTuple):
    """What is counted beside a closed form: the key of the claim, what is counted, and why it is so."""

    key: str
    what: str
    why: str


def beside(where: str, what: str, measured: float, form: float) -> dict[str, float | str]:
    """A row of a table of closed forms."""
    return {"setting": where, "what": what, "measured": measured, "closed form": form}


def exact(forms: Iterable[Form], rows: Table) -> Iterator[Claim]:
    """Claims that all that is counted is what the closed form says."""
    for form in forms:
        yield Claim(
            form.key, f"{form.what}, less those of the closed form", derived(form.why),
            {row["setting"]: Figure(row["measured"] - row["closed form"], exactly(0))
             for row in rows if row["what"] == form.what},
        )  # fmt: skip


# ---- advertisements --------------------------------------------------------------------------------------

_ADVERTS = (
    Form("adverts", "messages of advertisements", "A (B - 1)"),
    Form("subscriptions", "messages of subscriptions", "links of Steiner trees of who meets whom"),
    Form("entries", "entries of all brokers", "A B, and one of a subscription for each broker of its tree"),
    Form("flooded", "messages of subscriptions without advertisements", "S (B - 1)"),
)


def advertisements(run: Run) -> Tables:
    """What advertisements cost, and what they save where interests are local."""
    sizes = routing_adverts.Sizes()
    forms, messages = [], []
    for width in sizes.localities:
        world = routing_adverts.World(sizes, width, run.seed)
        sent, entries = world.ran("advertising")
        flooded, _ = world.ran("subscription")
        counted = (
            (sent[ADVERTISE], world.told), (sent[SUBSCRIBE], world.steiner), (entries, world.entries),
            (flooded[SUBSCRIBE], len(world.subscriptions) * len(world.links)),
        )  # fmt: skip
        forms += [beside(f"width {width:g}", form.what, *pair) for form, pair in zip(_ADVERTS, counted)]
        messages.append({"width": width, "subscription": flooded[SUBSCRIBE], "advertising": sum(sent.values())})
    return {"adverts": forms, "control": messages}


def judge_advertisements(tables: Tables) -> Iterator[Claim]:
    yield from exact(_ADVERTS, tables["adverts"])
    local = tables["control"][0]
    yield Claim(
        "help", "Control messages without advertisements over those with them, where interests are local",
        printed("Mühl, MASCOTS 2002: they help considerably; no figure"),
        {f"width {local['width']:g}": Figure(local["subscription"] / local["advertising"], above(1))}, unit="times",
    )  # fmt: skip


def draw_advertisements(tables: Tables) -> Iterator[Picture]:
    rows = tables["control"]
    series = {
        name: ([row["width"] for row in rows], [row[name] for row in rows]) for name in ("subscription", "advertising")
    }
    yield Picture(
        "adverts", "Control messages", "width of interests and advertisements", "messages over links", curves(series),
        log_x=True,
    )  # fmt: skip


# ---- merging ---------------------------------------------------------------------------------------------

INTERVALS = ((20, 5), (60, 12))  # how many touch, and how many of them are withdrawn
MERGERS = 10  # of which the mean waste is measured
PUBLICATIONS = 2_000  # for each of them
_INTERVALS = (
    Form("one", "entries of intervals that touch", "they are one interval"),
    Form("holes", "entries around holes, no two beside each other", "k + 1"),
)


def merging(run: Run) -> Tables:
    """Merging beside covering, and the waste of mergers that cover more than they ought to."""
    sizes = routing_merging.Sizes()
    forms = []
    for count, gone in INTERVALS:
        pairs = zip(intervals(count, gone, run.seed), (1, gone + 1))
        forms += [beside(f"{count}, {gone} withdrawn", form.what, *pair) for form, pair in zip(_INTERVALS, pairs)]
    rows = []
    for attributes in (1, 2):
        covered = routing_merging.covered(run.seed, sizes, attributes)
        for waste in (0.0, *sizes.waste):
            found = routing_merging.with_waste(run.seed, sizes, attributes, waste)
            counted = {name: value for name, value in found.items() if name != "went"}
            rows.append({
                "attributes": attributes, "waste": waste, **counted,
                "elsewhere": routing_merging.elsewhere(found, covered),
                **{f"{name}, covering": covered[name] for name in counted},
            })  # fmt: skip
            run.say(_setting(rows[-1]))
    return {"intervals": forms, "merging": rows, "waste": [_wasted(run, waste) for waste in sizes.waste]}


def _wasted(run: Run, waste: float) -> dict[str, float]:
    """Of mergers whose parts lie as far apart as may be, and of some whose parts lie a little farther."""
    seeds = [run.seed * MERGERS + each for each in range(MERGERS)]
    measure = routing_merging.waste_of_one
    return {
        "bound": waste,
        "measured": float(np.mean([measure(seed, PUBLICATIONS, waste) for seed in seeds])),
        "farther apart": float(np.mean([measure(seed, PUBLICATIONS, waste, (1.02, 1.05)) for seed in seeds])),
    }


def judge_merging(tables: Tables) -> Iterator[Claim]:
    yield from exact(_INTERVALS, tables["intervals"])
    rows = tables["merging"]
    perfect = [row for row in rows if not row["waste"]]
    yield Claim(
        "elsewhere", "Publications that go elsewhere than under covering, merged without waste",
        derived("a merger is the union of its parts"),
        {_attributes(row): Figure(row["elsewhere"], exactly(0)) for row in perfect},
    )  # fmt: skip
    yield Claim(
        "publications", "Publications over links without waste, beside covering",
        derived("a merger is the union of its parts"),
        {_attributes(row): Figure(_over_covering(row, "publications over links"), exactly(1)) for row in perfect},
        unit="times",
    )  # fmt: skip
    yield Claim(
        "tables", "Entries of tables, beside covering", derived("what is merged is merged after covering"),
        {_setting(row): Figure(_over_covering(row, "table entries"), at_most(1)) for row in rows}, unit="times",
    )  # fmt: skip
    yield Claim(
        "changes", "Messages of changes, beside covering", derived("no form: what is merged may have to be told again"),
        {_setting(row): Figure(_over_covering(row, "messages of changes")) for row in rows}, "reported", unit="times",
    )  # fmt: skip
    yield Claim(
        "wasted", "The share of publications over a link of one merger that answer nobody",
        derived("it may be as large as the bound, and is nearly, as far apart as the parts lie; farther, none is made"),
        {name: figure for row in tables["waste"] for name, figure in _shares(row)},
    )  # fmt: skip


def _shares(row: dict[str, float]) -> Iterator[tuple[str, Figure]]:
    bound = row["bound"]
    yield f"bound {bound:g}", Figure(row["measured"], between(0.9 * bound, bound))
    yield f"bound {bound:g}, parts farther apart", Figure(row["farther apart"], exactly(0))


def _attributes(row: dict[str, float]) -> str:
    return f"{row['attributes']} attribute{'s' * (row['attributes'] > 1)}"


def _setting(row: dict[str, float]) -> str:
    return f"{_attributes(row)}, waste {row['waste']:g}"


def _over_covering(row: dict[str, float], what: str) -> float:
    return row[what] / row[f"{what}, covering"]


def intervals(count: int, gone: int, seed: int) -> tuple[int, int]:
    """Entries of the broker beside, after `count` intervals that touch, and after some were withdrawn again."""
    random = Random(seed)
    order = random.sample(range(count), count)
    holes = [1 + 2 * each for each in random.sample(range((count - 2) // 2), gone)]
    net = join("merging", [(0, 1)], [0] * count, params={"attributes": 1})
    for at in order:
        net.send(at, "subscribe", [0, at / count, (at + 1) / count], word=net.interest(at))
    whole = net.entries(1)
    for at in holes:
        net.send(at, "unsubscribe", word=net.interest(at))
    return whole, net.entries(1)


# ---- leases ----------------------------------------------------------------------------------------------

EVEN = (0.8, 1.25)  # times the rate of publications at which flooding sends as many messages


def leases(run: Run) -> Tables:
    """Entries and messages of leases, beside their laws and beside flooding."""
    sizes = routing_merging.Sizes()
    rows, messages = [], 0.0
    for withdraw in (True, False):
        entries, messages = routing_merging.lived(run.seed, sizes, withdraw)
        of_entries, of_messages = routing_merging.lease_forms(sizes, withdraw)
        rows.append({
            "withdrawn": "at the end" if withdraw else "never",
            "entries": entries, "entries, closed form": of_entries,
            "messages per second": messages, "messages per second, closed form": of_messages,
        })  # fmt: skip
    return {
        "leases": rows,
        "flooding": [
            {"times": times, "leases": messages, "flooding": routing_merging.publishing(run.seed, sizes, times)}
            for times in EVEN
        ],
    }


def judge_leases(tables: Tables) -> Iterator[Claim]:
    for key, what in (("entries", "entries"), ("messages", "messages per second")):
        yield Claim(
            f"law-of-{key}", f"{what.capitalize()} of leases over those of the closed form",
            derived("Poisson arrivals, exponential lives; three parts in a hundred are our band"),
            {f"withdrawn {row['withdrawn']}": Figure(row[what] / row[f"{what}, closed form"], near(1, LAW))
             for row in tables["leases"]}, unit="times",
        )  # fmt: skip
    fewer, more = tables["flooding"]
    yield Claim(
        "beside-flooding", "Messages of leases over those of flooding that nobody wants, around the rate that is even",
        derived("λ / (1 - exp(-μρ)) = ω"),
        {f"{row['times']:g} times the rate": Figure(row["leases"] / row["flooding"], bound)
         for row, bound in ((fewer, above(1)), (more, below(1)))}, unit="times",
    )  # fmt: skip


# ---- a hub -----------------------------------------------------------------------------------------------

_HUB = (
    Form("to-the-hub", "messages of rendezvous", "the ways to the hub"),
    Form("everywhere", "messages of subscription forwarding", "S (B - 1)"),
)


def rendezvous(run: Run) -> Tables:
    """What a subscription to one hub costs: the way there."""
    dice = Dice(run.seed, 0, "papers/hubs")
    links = [(dice.below(b), b) for b in range(1, 40)]
    homes = [dice.below(40) for _ in range(60)]
    tree = nx.Graph(links)
    hub = max(tree.nodes, key=lambda broker: (tree.degree[broker], -broker))
    depth = nx.single_source_shortest_path_length(tree, hub)
    counted = (
        (_subscribed("rendezvous", links, homes, {"hubs": 1}), sum(depth[home] for home in homes)),
        (_subscribed("subscription", links, homes, {}), len(homes) * len(links)),
    )
    return {"hubs": [beside("60 subscriptions, 40 brokers", form.what, *pair) for form, pair in zip(_HUB, counted)]}


def _subscribed(protocol: str, links: list[tuple[int, int]], homes: Sequence[int], options: dict[str, int]) -> int:
    net = join(protocol, links, homes, options=options)
    for client in range(len(homes)):
        net.send(client, "subscribe", [0, 0.2, 0.3], word=net.interest(client))
    hops = (hop for a, b in links for ends in ((a, b), (b, a)) for hop in net.over(*ends))
    return sum(hop.type == SUBSCRIBE for hop in hops)


def judge_rendezvous(tables: Tables) -> Iterator[Claim]:
    return exact(_HUB, tables["hubs"])


# ---- clusters, groups, gateways, bridges -----------------------------------------------------------------

BROKERS = 12  # of a cluster
_CLUSTER = (
    Form("told", "control messages", "what NATS does: one to each other broker for each that first asks"),
    Form("known", "entries of a table", "what NATS does: every interest of every broker"),
    Form("copies", "copies of 100 publications", "what NATS does: one to each other broker that asked"),
)
_FIXED = (
    Form("gateways", "gateways", "what NATS does: one in vain for each broker, name and other cluster"),
    Form("bridges", "bridges", "the ways of copies, where a broker does not send back to where one came from"),
)
SERVED = 8_000  # publications for a group


def practice(run: Run) -> Tables:
    """Clusters, groups, gateways and bridges."""
    where = f"cluster of {BROKERS}"
    cluster = [beside(where, what, *pair) for what, pair in routing_practice.cluster(BROKERS, run.seed).items()]
    fixed = [
        beside(row["name"], form.what, row["value"], row["baseline"] or 0)
        for form, rows in zip(_FIXED, (routing_practice.gateways, routing_practice.bridges))
        for row in rows(None)
    ]
    there, here = (routing_practice.served(members, SERVED, run.seed) for members in (0, 1))
    groups = {
        "publications": SERVED, "second": there.count(2) / len(there), "came": len(here), "elsewhere": _elsewhere(here)
    }
    return {"practice": cluster + fixed, "groups": [groups]}


def _elsewhere(served: list[int]) -> int:
    return len(served) - served.count(0)


def judge_practice(tables: Tables) -> Iterator[Claim]:
    yield from exact((*_CLUSTER, *_FIXED), tables["practice"])
    (groups,) = tables["groups"]
    yield Claim(
        "group", "The share of a group's second broker, with weights 1 and 3 and no member where publications enter",
        derived("what NATS does: w / Σ w; three parts in a hundred are our band"),
        {"": Figure(groups["second"], near(3 / 4, LAW))},
    )  # fmt: skip
    yield Claim(
        "here-first", "Publications of a group that has a member where they enter", derived("what NATS does"),
        {"served": Figure(groups["came"], exactly(groups["publications"])),
         "served elsewhere": Figure(groups["elsewhere"], exactly(0))},
    )  # fmt: skip


# ---- a tree for each advertisement -----------------------------------------------------------------------

_TREES = (
    Form("planted", "messages of advertisements", "2 E - (B - 1)"),
    Form("felled", "messages of their ends", "2 E"),
    Form("climbed", "messages of subscriptions", "the different beginnings of the ways up the trees"),
    Form("kept", "entries of all brokers", "a tree is known to all, a subscription on its ways"),
)
BUSY, QUIET = 50, 0  # other traffic, messages per second
GRIDS = 3  # that are drawn for a seed: how full links are varies much
PADRES = "PADRES on cyclic overlays: 51.67 % less delay under congestion, almost no overhead otherwise; no setting"


def trees(run: Run) -> Tables:
    """What trees cost on overlays with cycles."""
    sizes = routing_trees.Sizes()
    counted = routing_trees.World(sizes, run.seed).beside_forms()
    return {"trees": [beside(f"random graph of {sizes.brokers}", what, *pair) for what, pair in counted.items()]}


def judge_trees(tables: Tables) -> Iterator[Claim]:
    return exact(_TREES, tables["trees"])


def congestion(run: Run) -> Tables:
    """What re-choosing trees by load is worth, where links fill and where they never do."""
    sizes = routing_trees.Sizes()
    rows = []
    for rate in (BUSY, QUIET):
        for by_load, trees in ((False, "kept"), (True, "re-chosen")):
            ran = [routing_trees.run(sizes, run.seed * GRIDS + each, rate, by_load) for each in range(GRIDS)]
            summed = {name: sum(vars(each)[name] for each in ran) for name in vars(ran[0])}
            summed["delay_ms"] /= GRIDS
            rows.append({"other traffic": rate, "trees": trees, **summed})
    return {"congestion": rows}


def judge_congestion(tables: Tables) -> Iterator[Claim]:
    by = {(row["other traffic"], row["trees"]): row for row in tables["congestion"]}

    def over(rate: int, column: str, bound: Bound | None = None) -> dict[str, Figure]:
        return {"": Figure(by[rate, "re-chosen"][column] / by[rate, "kept"][column], bound)}

    yield Claim(
        "busy", "Delay with trees re-chosen by load, beside trees that are kept, where other traffic fills links",
        printed(PADRES), over(BUSY, "delay_ms", below(1)), "less", unit="times",
    )  # fmt: skip
    yield Claim(
        "busy-messages", "Messages, the same", printed(PADRES), over(BUSY, "messages"), "reported", unit="times"
    )
    yield Claim(
        "quiet-delay", "Delay, the same, where links are never full", printed(f"{PADRES}; a hundredth is our reading"),
        over(QUIET, "delay_ms", at_most(1.01)), unit="times",
    )  # fmt: skip
    yield Claim(
        "quiet-messages", "Messages, the same, where links are never full",
        printed(f"{PADRES}; a hundredth is our reading"), over(QUIET, "messages", at_most(1.01)), unit="times",
    )  # fmt: skip
    yield Claim(
        "planted", "Trees that are planted, the same, where other traffic fills links and where it does not",
        derived("a tree is planted again where its links are full"),
        {"full": Figure(by[BUSY, "re-chosen"]["planted"] / by[BUSY, "kept"]["planted"], above(1)),
         "never full": Figure(by[QUIET, "re-chosen"]["planted"] / by[QUIET, "kept"]["planted"])}, unit="times",
    )  # fmt: skip
    yield Claim(
        "once", "Missed, twice or unwanted", derived("exactly once"),
        {f"{row['trees']}, other traffic {row['other traffic']}/s": Figure(row["wrong"], exactly(0))
         for row in tables["congestion"]},
    )  # fmt: skip


EXPERIMENTS = [
    Experiment(
        "advertisements", "What advertisements cost", advertisements, judge_advertisements, draw_advertisements,
        {"adverts": "Random trees of 60 brokers", "control": "Control messages"},
    ),
    Experiment(
        "merging", "Merging among brokers", merging, judge_merging,
        titles={"intervals": "Intervals that touch, in any order", "merging": "Merging beside covering, 20 brokers",
                "waste": "The share that answers nobody"},
    ),
    Experiment(
        "leases", "Leases", leases, judge_leases,
        titles={"leases": "1,500 subscriptions that come and go, 5 brokers", "flooding": "Messages per second"},
    ),
    Experiment("rendezvous", "A hub", rendezvous, judge_rendezvous, titles={"hubs": "Messages of subscriptions"}),
    Experiment(
        "practice", "Clusters, groups, gateways, bridges", practice, judge_practice,
        titles={"practice": "As practice has them", "groups": "Who serves a group"},
        text="Gateways and bridges draw nothing: all seeds count the same.",
    ),
    Experiment(
        "trees", "A tree for each advertisement", trees, judge_trees, titles={"trees": "30 brokers, with cycles"}
    ),
    Experiment(
        "congestion", "Trees re-chosen by load", congestion, judge_congestion,
        titles={"congestion": f"{GRIDS} grids of 25 brokers: the mean delay, the sums of all else"},
    ),
]  # fmt: skip
