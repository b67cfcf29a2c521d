"""The indexes by name. A new one is a file and a line here; `question` is what it answers."""

from __future__ import annotations

from brokers.registry import Entry

INDEXES: dict[str, Entry] = {
    "scan": Entry(
        "brokers.indexes.content.scan:Scan",
        "compares every subscription, column by column, in NumPy: the oracle",
        {"question": "content-match"},
    ),
    "quick_scan": Entry(
        "brokers.indexes.content.quick_scan:QuickScan",
        "compares every subscription up to its first range that fails, in Numba: the baseline",
        {"question": "content-match"},
    ),
    "cells": Entry(
        "brokers.indexes.content.cells:Cells",
        "one bitset per attribute and cell of its values, combined and verified",
        {"question": "content-match"},
    ),
    "topk-scan": Entry(
        "brokers.indexes.topk.scan:Scan",
        "scores every filter, constraint by constraint, in NumPy: the oracle",
        {"question": "ranked-match"},
    ),
}
