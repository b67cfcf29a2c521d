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
}

METRICS: dict[str, Entry] = {
    "control": Entry(
        "protocols.measures:CONTROL", "`messages.control`: over links, that carried no publication (trace level full)"
    ),
    "outside": Entry(
        "protocols.content.measures:OUTSIDE",
        "`publications.outside`: dropped, as no advertisement of their publisher held them",
    ),
}
