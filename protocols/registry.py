"""The kinds that come with brokerlab, and the metrics that any service may name. A new one is one line here.

The line of a kind, which is one folder, names its manifest (`brokers.kinds`), which names its protocols, workloads and
all its other parts. Metrics lie in `protocols.measures` and `protocols.spreading`.
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

BEHAVIOURS: dict[str, Entry] = {  # of brokers that do something else than their protocol
    "silent": Entry("protocols.gossip.attacks:Silent", "gossipsub: takes everything, and passes nothing on"),
    "dropping": Entry("protocols.gossip.attacks:Dropping", "gossipsub: passes on a share of what it should"),
    "ihave-flood": Entry("protocols.gossip.attacks:IhaveFlood", "gossipsub: tells of ids that nobody has"),
    "graft-flood": Entry(
        "protocols.gossip.attacks:GraftFlood", "gossipsub: grafts everybody at every heartbeat, pruned or not; silent"
    ),
    "cold-boot": Entry(
        "protocols.gossip.attacks:ColdBoot",
        "gossipsub: grafts everybody before others begin to, and is silent: an eclipse",
    ),
    "covert-flash": Entry(
        "protocols.gossip.attacks:CovertFlash", "gossipsub: behaves until a moment, then grafts everybody and is silent"
    ),
    "sybil": Entry(
        "protocols.gossip.sybils:Sybil",
        "gossipsub: grafts whoever joins a topic, again after each prune, and passes nothing on",
    ),
}

METRICS: dict[str, Entry] = {
    "tables.mean": Entry("protocols.measures:TABLES_MEAN", "entries of a broker, in the mean over brokers and samples"),
    "tables.largest": Entry("protocols.measures:TABLES_LARGEST", "entries of the broker that ever had most"),
    "tables.left": Entry("protocols.measures:TABLES_LEFT", "entries of all brokers at the last sample"),
    "quiet.after_s": Entry(
        "protocols.measures:QUIET_AFTER", "from the last that clients and faults did to the last event (level full)"
    ),
    "quiet.late": Entry(
        "protocols.measures:QUIET_LATE", "messages and timers more than 9 s after clients and faults (level full)"
    ),
    "links.carried": Entry("protocols.measures:CARRIED", "messages over links that carried publications (level full)"),
    "links.control": Entry("protocols.measures:CONTROL", "messages over links that carried none (level full)"),
    "links.dropped": Entry("protocols.measures:DROPPED", "messages that found no place in front of links"),
    "links.dropped_worst": Entry("protocols.measures:DROPPED_WORST", "the most of them to one neighbour of one broker"),
    "control.per_change": Entry("protocols.measures:CONTROL_PER_CHANGE", "the same for each change (level full)"),
    "waste": Entry(
        "protocols.measures:WASTE", "share of the messages that carried publications, to nobody in the end (level full)"
    ),
    "stretch": Entry(
        "protocols.measures:STRETCH", "times as long as by the shortest way that a delivery to another broker took"
    ),
    "hops.last": Entry("protocols.spreading:HOPS_LAST", "round in which the last broker is reached (level full)"),
    "hops.most": Entry("protocols.spreading:HOPS_MOST", "latest round in which any broker is reached (level full)"),
    "hops.half": Entry("protocols.spreading:HOPS_HALF", "round by which half of those reached have it (level full)"),
    "hops.nearly": Entry("protocols.spreading:HOPS_NEARLY", "round by which 99 in 100 have it (level full)"),
    "redundancy": Entry("protocols.spreading:REDUNDANCY", "copies for each broker reached, less one: RMR (level full)"),
    "duplicates.per_delivery": Entry(
        "protocols.spreading:DUPLICATES", "copies that came where one had come, for each delivery (level full)"
    ),
    "control.bytes_per_payload_byte": Entry(
        "protocols.spreading:CONTROL_BYTES", "bytes of control for each byte of copies, of a service alone (level full)"
    ),
    "time_to_all_ms": Entry("protocols.spreading:TIME_TO_ALL", "from publishing to the last delivery, in the mean"),
    "tables.churn": Entry("protocols.spreading:TABLES_CHURN", "change of a broker's entries from sample to sample"),
    "publications.outside": Entry(
        "protocols.content.measures:OUTSIDE", "dropped, as no advertisement of their publisher held them"
    ),
    "gossipsub.payloads": Entry("protocols.gossip.measures:PAYLOADS", "copies of publications over links (level full)"),
    "gossipsub.ihave": Entry("protocols.gossip.measures:IHAVES", "IHAVE that came over links (level full)"),
    "gossipsub.iwant": Entry("protocols.gossip.measures:IWANTS", "IWANT (level full)"),
    "gossipsub.grafts": Entry("protocols.gossip.measures:GRAFTS", "GRAFT (level full)"),
    "gossipsub.prunes": Entry("protocols.gossip.measures:PRUNES", "PRUNE (level full)"),
    "gossipsub.idontwant": Entry("protocols.gossip.measures:IDONTWANTS", "IDONTWANT (level full)"),
    "honest.delivered": Entry(
        "protocols.gossip.attacked:DELIVERED",
        "with attackers: share of honest publications that reached the honest clients who wanted them",
    ),
    "honest.latency.mean_ms": Entry("protocols.gossip.attacked:LATENCY_MEAN", "how long these took, in the mean"),
    "honest.latency.p99_ms": Entry("protocols.gossip.attacked:LATENCY_P99", "within which 99 in 100 of them came"),
    "scores.honest": Entry(
        "protocols.gossip.attacked:SCORE_HONEST",
        "with attackers: median score that honest brokers of gossipsub gave each other at last (option watch_ticks)",
    ),
    "scores.attackers": Entry("protocols.gossip.attacked:SCORE_ATTACKERS", "the same that they gave attackers"),
    "meshes.attackers": Entry(
        "protocols.gossip.attacked:IN_MESHES", "share of the links of honest meshes that led to attackers at last"
    ),
    "meshes.attackers_most": Entry("protocols.gossip.attacked:IN_MESHES_MOST", "the same when it was largest"),
    "meshes.entered": Entry(
        "protocols.gossip.churning:ENTERED",
        "links that came into meshes of gossipsub from one watching to the next (option watch_ticks)",
    ),
    "meshes.left": Entry("protocols.gossip.churning:LEFT", "links that went out of them"),
    "meshes.churn": Entry("protocols.gossip.churning:CHURN", "both, for each broker and time between"),
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
