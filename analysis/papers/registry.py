"""Experiments of papers that `brokerlab reproduce` repeats, by name.

An entry's target is a function that is handed an `analysis.papers.report.Report` and tells it what it found.
"""

from __future__ import annotations

from brokers.registry import Entry

PAPERS: dict[str, Entry] = {
    "htree": Entry(
        "analysis.papers.htree:reproduce",
        "matching by cells: the H-Tree beside a scan, Tama, Siena's counting and Rein",
    ),
    "topk": Entry(
        "analysis.papers.topk:reproduce",
        "weighted top-k partial matching: time and space against the bound, beside the fast index and a scan",
    ),
}
