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
    "chosen.imbalance": Entry(
        "protocols.topics.measures:IMBALANCE",
        "of the group that was served least evenly, how many times the mean its busiest member was chosen",
    ),
    "retained.answers": Entry(
        "protocols.topics.measures:ANSWERS", "retained publications that subscriptions were answered with"
    ),
    "retained.age_mean_ms": Entry(
        "protocols.topics.measures:AGE_MEAN", "how long before they had been published, in the mean"
    ),
}
