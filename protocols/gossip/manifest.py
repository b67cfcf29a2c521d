"""Gossip protocols, which serve topics that are names: their lines in the manifest of that kind."""

from brokers.registry import Entry

GOSSIP = {
    "gossipsub": Entry(
        "protocols.gossip.gossipsub:GossipSub",
        "GossipSub 1.0 to 1.2: a mesh of a few neighbours for each topic, gossip to others, scores of neighbours",
    ),
}
