"""Experiments of papers that `brokerlab reproduce` repeats, by name.

An entry's target is a function that is handed an `analysis.papers.report.Report` and tells it what it found; so are
those that the fact `further` names, the part in the network among them.
"""

from __future__ import annotations

from brokers.registry import Entry

PAPERS: dict[str, Entry] = {
    "merging": Entry(
        "analysis.papers.merging:reproduce",
        "query merging: figures 13 to 20, heuristics beside the optimum, beyond where the source stops, in the network",
        {"further": ["analysis.papers.merging_network:network"]},
    ),
    "htree": Entry(
        "analysis.papers.htree:reproduce",
        "matching by cells: the H-Tree beside a scan, Tama, Siena's counting and Rein",
    ),
    "topk": Entry(
        "analysis.papers.topk:reproduce",
        "weighted top-k partial matching: time and space against the bound, beside the fast index and a scan",
    ),
    "part": Entry(
        "analysis.papers.part:experiments",
        "PART and B-PART: time and work over nine parameters; messages and bytes of three protocols in the network",
        {"further": ["analysis.papers.part_network:network"]},
    ),
    "agile": Entry(
        "analysis.papers.agile:reproduce",
        "context-aware filtering: tables 3 to 6 and figures 11 to 15, operations, modelled and real throughput",
        {"further": ["analysis.papers.agile_network:network"]},
    ),
}
