"""The protocols as practice has them, which serve several kinds: their lines in the manifests of those."""

from brokers.registry import Entry

PRACTICE = {
    "cluster": Entry(
        "protocols.practice.cluster:Cluster",
        "every two brokers have a link, over which each tells what its clients want; one hop to whoever wants it",
        {"under_faults": "recovers"},
    ),
    "leaf": Entry(
        "protocols.practice.leaf:Leaf",
        "clusters below clusters, each broker of which dials one above; nothing goes back where it came from",
        {"under_faults": "recovers"},
    ),
    "gateway": Entry(
        "protocols.practice.gateway:Gateway",
        "clusters with gateways between all of them, which take all that was not refused, or only what is asked for",
        {"under_faults": "recovers"},
    ),
    "bridges": Entry(
        "protocols.practice.bridges:Bridges",
        "every link a naive bridge: right on trees, and without end on cycles, by the echo rule and how it is declared",
    ),
}
