"""The experiments of each paper at a scale that proves nothing, so that setting up compiles what they need.

Tables, plots and claims are thrown away.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from analysis.papers import agile_network, merging_network, part_network, topk_network
from analysis.papers.experiment import Run

_RUN = Run(1, False, lambda text: None)


def merging() -> None:
    """A few queries through every algorithm."""
    from analysis.papers import merging as paper
    from analysis.papers import merging_beyond

    scale = paper.Scale(optimal=1, starts=1, sensitivity=1, large=1, clustering=1, channels=1)
    random = np.random.Generator(np.random.PCG64(1))
    for measure in (paper.optimal, paper.starts, paper.sensitivity, paper.large, paper.clustering_factor,
                    paper.example, paper.channels):  # fmt: skip
        measure(scale, random)
    merging_beyond.measured(merging_beyond.Scale(((6, 1),), ((6, 1),), ((4, 2, 1),)), _RUN)


def merging_in_network() -> None:
    """A round of each mode."""
    for mode in merging_network.MODES:
        merging_network.measure(merging_network.Setting(queries=30, brokers=6, objects=200, mode=mode, channels=3))


def htree() -> None:
    """All contenders on some hundred subscriptions."""
    from analysis.papers import htree as paper
    from analysis.papers import htree_beyond

    scale = paper.Scale(subscriptions=300, growth=(100, 200), divided=50, events=2)
    for measure in (paper.matching, paper.levels, paper.cells, paper.division, paper.order_of_levels,
                    paper.selection, paper.transformation, paper.candidate_share):  # fmt: skip
        measure(scale, _RUN)
    htree_beyond.measured(htree_beyond.Scale((100, 300), 300, events=2, changes=3, repeats=1), _RUN)


def topk() -> None:
    """All indexes at one point, without and with weights of the sender."""
    from analysis.papers import topk as paper
    from analysis.papers import topk_beyond

    scale = paper.Scale(filters=400, growth=(400,), messages=2)
    for sender in (False, True):
        paper.measured(paper.Point(filters=400, sender=sender), scale, 1)
    topk_beyond.measured(topk_beyond.Scale((100, 300), 300, 2_000, messages=2, repeats=1), _RUN)


def topk_in_network() -> None:
    """Each protocol, with some changes."""
    for protocol in topk_network.PROTOCOLS:
        topk_network.measure(topk_network.Setting(brokers=6, filters=80, publications=20), protocol, 1)


def part() -> None:
    """All indexes at one point, exact and relaxed."""
    from analysis.papers import part as paper
    from analysis.papers import part_beyond

    for delta in (1.0, 2.0):
        paper.measure(paper.Setting(objects=400, subscriptions=100, words=20, queries=6, side=0.5, delta=delta))
    small = part_beyond.Point(300, 60)
    part_beyond.measured(part_beyond.Scale((100, 300), small, 4, lives=4, churn=(0, 1), repeats=1), _RUN)


def part_in_network() -> None:
    """Each protocol for some seconds."""
    for protocol in part_network.PROTOCOLS:
        one = part_network.model(protocol, 1 << 10, 1, False, brokers=6)
        part_network.measured(replace(one, duration_ns=one.duration_ns // 2))


def agile() -> None:
    """Every approach under every policy on a few profiles."""
    from analysis.papers import agile_beyond, agile_gbu
    from analysis.papers.agile_readings import Reading, counted
    from analysis.papers.agile_runs import APPROACHES, Setting, run
    from analysis.papers.agile_workload import Load
    from brokers.indexes.context.policies import Auto, Fixed

    for approach in APPROACHES:
        for policy in (Fixed(), Auto(100.0)):
            run(Setting(approach, Load(profiles=100), 1_000, 5, 2, policy))
    counted(Reading(profiles=100), 1_000, 5, 1)
    agile_gbu.counted(agile_gbu.GbuReading(profiles=100), 1_000, 5, 1)
    agile_beyond.measured(agile_beyond.Scale((100, 300), 3, 2, 3_000), _RUN)


def routing() -> None:
    """What needs no network of its own."""
    from analysis.papers import routing as paper

    paper.intervals(4, 1, 1)


def routing_in_network() -> None:
    """The parts that take a second or two."""
    from analysis.papers import routing as paper

    paper.rendezvous(_RUN)
    paper.practice(_RUN)


def gossip_in_network() -> None:
    """Each protocol that gossips, with a few brokers."""
    import networkx as nx

    from analysis.papers import gossip_plumtree
    from analysis.papers.gossip_runs import MS, SECOND, Played, Setting

    ran = Played(Setting(nx.complete_graph(4), 5 * MS, [(3 * SECOND, 0)], seconds=5), 1)
    ran.payloads_expected(ran.ids[0])
    gossip_plumtree.tiny_network()


def agile_in_network() -> None:
    """Each protocol at one rate of updates."""
    for protocol in agile_network.PROTOCOLS:
        agile_network.measure(protocol, 2.0, 1, 6)
