"""What brokers of GossipSub think of their neighbours while a run goes on: the trace table `scores`.

The option `watch_ticks` has it written, at heartbeats until clients are silent, as things stand before anything is
mended. A row is of a
broker, a neighbour and a topic, or of all topics together: those have the score, and parts P5 to P7. Of a service
without scoring all parts are 0, and who is in whose mesh is told all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from brokers.schema import Column, Table

if TYPE_CHECKING:
    from brokers.contract import Message
    from protocols.gossip.gossipsub import GossipSub

PARTS = ("p1", "p2", "p3", "p3b", "p4", "p5", "p6", "p7")
_IN_TOPIC = 5

TABLES = {
    "scores": Table(
        "What brokers of GossipSub think of their neighbours, where `watch_ticks` asks for it.",
        "summary",
        (
            Column("service", "int16", "number of the service in the scenario"),
            Column("broker", "int32", "the broker"),
            Column("time_ns", "int64", "when: at a heartbeat, before anything is mended"),
            Column("neighbour", "int32", "the broker at the far end of one of its links"),
            Column("attacker", "int16", "the neighbour's entry in `attackers` of the service, from 1 (0: in none)"),
            Column("topic", "string", "the topic (empty: all of them together)"),
            Column("mesh", "int8", "1: the neighbour is in the broker's mesh of the topic, or of any"),
            Column("score", "float64", "the score; of a topic what it adds, before the cap"),
            *(Column(name, "float64", f"what {name.upper()} adds, weighted") for name in PARTS),
        ),
        asked_by="watch_ticks",
    )
}


def watch(broker: GossipSub, message: Message) -> None:
    """Write down what a broker thinks of each neighbour, if it is time to. O(neighbours x topics)."""
    node, attackers = broker.node, broker.node.env.attackers
    every = broker.said.watch_ticks
    if not every or broker.ticks % every or message.time >= node.env.duration_ns:
        return
    rows: list[tuple[Any, ...]] = []
    for link in broker.links:
        neighbour = node.neighbour(link)
        entry = 0 if attackers is None else int(attackers[neighbour])
        in_topics, beyond = ({}, (0.0,) * 3) if broker.scores is None else broker.scores.parts(link)
        known = (broker.topics, broker.mesh)  # a link may have lost what would have told of a topic that is grafted
        told = sorted({topic for each in known for topic, there in each.items() if link in there} | in_topics.keys())
        nothing = (0.0,) * _IN_TOPIC
        for topic in told:
            parts = in_topics.get(topic, nothing)
            in_mesh = link in broker.mesh.get(topic, ())
            rows.append((neighbour, entry, broker.name_of(topic), in_mesh, sum(parts), *parts, 0.0, 0.0, 0.0))
        together = (sum(column) for column in zip(nothing, *in_topics.values()))
        in_any = any(link in mesh for mesh in broker.mesh.values())
        rows.append((neighbour, entry, "", in_any, broker.score(link), *together, *beyond))
    if rows:
        names = [column.name for column in TABLES["scores"].columns[3:]]
        columns = dict(zip(names, map(list, zip(*rows)), strict=True))
        node.record(message, "scores", **{name: _column(name, values) for name, values in columns.items()})


def _column(name: str, values: list[Any]) -> Any:
    types = {"neighbour": np.int32, "attacker": np.int16, "topic": object, "mesh": np.int8}
    return np.array(values, types.get(name, np.float64))
