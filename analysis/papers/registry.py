"""Experiments of papers that `brokerlab reproduce` repeats, by name.

An entry's target is a list of experiments (`analysis.papers.experiment`); those that the fact `further` names follow.
The fact `seeds` says how many seeds it takes where it is not the usual number.
The facts `tiny` and `tiny_network` name functions that do the same at a scale that only compiles: the library of the
`kind`, and its network.
"""

from __future__ import annotations

from brokers.registry import Entry

SEEDS = 3  # of a reproduction whose entry says no other number

PAPERS: dict[str, Entry] = {
    "merging": Entry(
        "analysis.papers.merging:EXPERIMENTS",
        "query merging: figures 13 to 20, heuristics beside the optimum, beyond where the source stops, in the network",
        {
            "further": ["analysis.papers.merging_beyond:EXPERIMENTS", "analysis.papers.merging_network:EXPERIMENTS"],
            "kind": "channels",
            "tiny": "analysis.papers.tiny:merging",
            "tiny_network": "analysis.papers.tiny:merging_in_network",
        },
    ),
    "htree": Entry(
        "analysis.papers.htree:EXPERIMENTS",
        "matching by cells: the H-Tree beside a scan, Tama, Siena's counting and Rein, and beside today's indexes",
        {
            "further": ["analysis.papers.htree_beyond:EXPERIMENTS"],
            "kind": "content",
            "tiny": "analysis.papers.tiny:htree",
        },
    ),
    "topk": Entry(
        "analysis.papers.topk:EXPERIMENTS",
        "weighted top-k partial matching: time and space against the bound, beside bit slices and scans",
        {
            "further": ["analysis.papers.topk_beyond:EXPERIMENTS", "analysis.papers.topk_network:EXPERIMENTS"],
            "kind": "topk",
            "tiny": "analysis.papers.tiny:topk",
            "tiny_network": "analysis.papers.tiny:topk_in_network",
        },
    ),
    "part": Entry(
        "analysis.papers.part:EXPERIMENTS",
        "PART and B-PART: time and work over nine parameters; messages and bytes of three protocols in the network",
        {
            "further": ["analysis.papers.part_beyond:EXPERIMENTS", "analysis.papers.part_network:EXPERIMENTS"],
            "kind": "spatial",
            "tiny": "analysis.papers.tiny:part",
            "tiny_network": "analysis.papers.tiny:part_in_network",
        },
    ),
    "agile": Entry(
        "analysis.papers.agile:EXPERIMENTS",
        "context-aware filtering: tables 3 to 6, figures 5 to 7 and 11 to 15, operations, modelled and real throughput",
        {
            "further": ["analysis.papers.agile_beyond:EXPERIMENTS", "analysis.papers.agile_network:EXPERIMENTS"],
            "kind": "context",
            "tiny": "analysis.papers.tiny:agile",
            "tiny_network": "analysis.papers.tiny:agile_in_network",
        },
    ),
    "routing": Entry(
        "analysis.papers.routing:EXPERIMENTS",
        "routing among brokers: closed forms and printed numbers of advertisements, trees, merging, leases, crashes",
        {
            "further": ["analysis.papers.routing_crashed:EXPERIMENTS"],
            "kind": "content",
            "tiny": "analysis.papers.tiny:routing",
            "tiny_network": "analysis.papers.tiny:routing_in_network",
        },
    ),
    "gossip": Entry(
        "analysis.papers.gossip:EXPERIMENTS",
        "gossip: closed forms of GossipSub and Plumtree, counts and bounds that others printed, what crashes leave",
        {
            "seeds": 5,
            "further": [
                "analysis.papers.gossip_printed:EXPERIMENTS",
                "analysis.papers.gossip_plumtree:EXPERIMENTS",
                "analysis.papers.gossip_attacked:EXPERIMENTS",
                "analysis.papers.gossip_hardening:EXPERIMENTS",
            ],
            "kind": "content",
            "tiny": "analysis.papers.gossip_plumtree:tiny",
            "tiny_network": "analysis.papers.tiny:gossip_in_network",
        },
    ),
}


def folder_of(name: str, full: bool) -> str:
    """Where a reproduction lies, of a scale, if nobody says otherwise."""
    return f"{name}-full" if full else name
