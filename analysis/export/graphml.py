"""The overlay as GraphML, with what its brokers and links carried: for Gephi, yEd, networkx, and as a topology."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np

from analysis.export.asked import Asked
from analysis.frames.graph import overlay_of
from analysis.report.words import plain
from brokers.contract import MESSAGE

_HOPS = ("broker", "time_ns", "kind", "link", "service", "finish_ns")
_NOT_OF_A_STRETCH = ("deliveries", "bytes", "lost", "busy_ns")  # which the trace has of the whole run only


def write_graphml(asked: Asked, file: BinaryIO) -> str:
    """The graph; a sentence about it.

    Of a stretch of time, or of some services, events and messages are counted in the hops.
    """
    import networkx as nx

    graph = overlay_of(asked.run)
    if not asked.is_all:
        _count(graph, asked)
    for _, facts in graph.nodes(data=True):
        facts["name"] = plain(facts["name"], 1000)  # XML has no place for letters that are none
    nx.write_graphml(graph, file)
    return f"{graph.number_of_nodes():,} brokers and servers, {graph.number_of_edges():,} directed links"


def _count(graph: object, asked: Asked) -> None:
    import networkx as nx

    assert isinstance(graph, nx.DiGraph)
    brokers, links = np.zeros(graph.number_of_nodes(), np.int64), np.zeros(graph.number_of_edges(), np.int64)
    for rows in asked.in_time("hops", _HOPS):
        brokers += np.bincount(rows["broker"], minlength=brokers.size)
        over = rows["link"][(rows["link"] >= 0) & (rows["kind"] == MESSAGE)]
        links += np.bincount(over, minlength=links.size)
    for broker, facts in graph.nodes(data=True):
        facts["messages"] = int(brokers[broker])
    for _, _, facts in graph.edges(data=True):
        facts["messages"] = int(links[facts["link"]])
    for facts in (*(each for _, each in graph.nodes(data=True)), *(each for _, _, each in graph.edges(data=True))):
        for name in _NOT_OF_A_STRETCH:
            facts.pop(name, None)
