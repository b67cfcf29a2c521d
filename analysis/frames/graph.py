"""The overlay of a run as a graph of networkx, with what its brokers and links carried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from brokers.engine.runfolder import RunFolder
from topology.overlay import broker_label

if TYPE_CHECKING:
    import networkx as nx

_OF_BROKERS = ("messages", "deliveries", "busy_ns")
_OF_LINKS = ("link", "delay_ns", "latent", "messages", "bytes", "lost", "busy_ns")


def overlay_of(run: RunFolder) -> nx.DiGraph:
    """Brokers and servers by number with `name`, `messages`, `deliveries`, `busy_ns`; an edge for each directed link.

    O(brokers + links).
    """
    import networkx as nx

    brokers, links = run.read("brokers").sort_by("broker"), run.read("links").sort_by("link")
    graph = nx.DiGraph(name=run.manifest["name"])
    names = brokers["name"].to_pylist()
    told = [brokers[column].to_pylist() for column in _OF_BROKERS]
    for broker, facts in enumerate(zip(*told)):
        graph.add_node(broker, name=broker_label(broker, names), **dict(zip(_OF_BROKERS, facts)))
    columns = [links[column].to_pylist() for column in _OF_LINKS]
    for source, target, facts in zip(links["from"].to_pylist(), links["to"].to_pylist(), zip(*columns)):
        graph.add_edge(source, target, **dict(zip(_OF_LINKS, facts)))
    return graph
