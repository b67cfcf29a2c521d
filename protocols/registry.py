"""The kinds that come with brokerlab. A new one is one folder and one line here.

The line names the kind's manifest (`brokers.kinds`), which names its protocols, workloads and all its other parts.
"""

KINDS: dict[str, str] = {
    "content": "protocols.content.manifest:CONTENT",
    "topk": "protocols.topk.manifest:TOPK",
    "channels": "protocols.channels.manifest:CHANNELS",
    "spatial": "protocols.spatial.manifest:SPATIAL",
    "context": "protocols.context.manifest:CONTEXT",
    "topics": "protocols.topics.manifest:TOPICS",
}
