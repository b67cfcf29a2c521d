"""The protocols that gossip: their lines in the manifests of the kinds that they serve."""

from brokers.registry import Entry

GOSSIP = {
    "gossipsub": Entry(
        "protocols.gossip.shard:GossipShard",
        "GossipSub 1.0 to 1.2: a mesh of a few neighbours for each topic, gossip to others, scores of neighbours",
    ),
    "plumtree": Entry(
        "protocols.gossip.plumtree_shard:PlumtreeShard",
        "along a tree that grows out of the first publication; who only heard of one asks; over links or HyParView",
        {"under_faults": "recovers"},
    ),
    "hyparview-flooding": Entry(
        "protocols.gossip.hyparview_flooding:HyParViewFlooding",
        "to all neighbours, which brokers find among links that may arise: HyParView, views mended as others crash",
    ),
}
