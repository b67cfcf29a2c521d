"""The kinds that come with brokerlab, and the metrics that any service may name. A new one is one line here.

The line of a kind, which is one folder, names its manifest (`brokers.kinds`), which names its protocols, workloads and
all its other parts. Metrics lie in `protocols.measures`.
"""

from brokers.registry import Entry

KINDS: dict[str, str] = {
    "content": "protocols.content.manifest:CONTENT",
    "topk": "protocols.topk.manifest:TOPK",
    "channels": "protocols.channels.manifest:CHANNELS",
    "spatial": "protocols.spatial.manifest:SPATIAL",
    "context": "protocols.context.manifest:CONTEXT",
    "topics": "protocols.topics.manifest:TOPICS",
}

METRICS: dict[str, Entry] = {
    "tables.mean": Entry("protocols.measures:TABLES_MEAN", "entries of a broker, in the mean over brokers and samples"),
    "tables.largest": Entry("protocols.measures:TABLES_LARGEST", "entries of the broker that ever had most"),
    "links.carried": Entry("protocols.measures:CARRIED", "messages over links that carried publications (level full)"),
    "links.control": Entry("protocols.measures:CONTROL", "messages over links that carried none (level full)"),
    "control.per_change": Entry("protocols.measures:CONTROL_PER_CHANGE", "the same for each change (level full)"),
    "waste": Entry(
        "protocols.measures:WASTE", "share of the messages that carried publications, to nobody in the end (level full)"
    ),
    "stretch": Entry(
        "protocols.measures:STRETCH", "times as long as by the shortest way that a delivery to another broker took"
    ),
    "publications.outside": Entry(
        "protocols.content.measures:OUTSIDE", "dropped, as no advertisement of their publisher held them"
    ),
    "gossipsub.payloads": Entry("protocols.gossip.measures:PAYLOADS", "copies of publications over links (level full)"),
    "gossipsub.ihave": Entry("protocols.gossip.measures:IHAVES", "IHAVE that came over links (level full)"),
    "gossipsub.iwant": Entry("protocols.gossip.measures:IWANTS", "IWANT (level full)"),
    "gossipsub.grafts": Entry("protocols.gossip.measures:GRAFTS", "GRAFT (level full)"),
    "gossipsub.prunes": Entry("protocols.gossip.measures:PRUNES", "PRUNE (level full)"),
    "gossipsub.idontwant": Entry("protocols.gossip.measures:IDONTWANTS", "IDONTWANT (level full)"),
}
