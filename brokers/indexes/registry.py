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
    "counting": Entry(
        "brokers.indexes.content.counting:Counting",
        "sorted bounds per attribute, a counter per subscription (Siena)",
        {"question": "content-match"},
    ),
    "tama": Entry(
        "brokers.indexes.content.tama:Tama",
        "cells of a hierarchy per attribute, a counter per subscription, candidates verified (Tama)",
        {"question": "content-match"},
    ),
    "rein": Entry(
        "brokers.indexes.content.rein:Rein",
        "buckets of range ends per attribute, whoever fails is marked in a set of bits (Rein)",
        {"question": "content-match"},
    ),
    "cells": Entry(
        "brokers.indexes.content.cells:CellBitset",
        "64 subscriptions compared by cell at once, in a tree by shared attributes; survivors verified",
        {"question": "content-match"},
    ),
    "htree": Entry(
        "brokers.indexes.content.htree:HTree",
        "a tree of overlapping cells with one bucket per subscription; an event looks into few buckets",
        {"question": "content-match"},
    ),
    "topk-scan": Entry(
        "brokers.indexes.topk.scan:Scan",
        "scores every filter, constraint by constraint, in NumPy: the oracle",
        {"question": "ranked-match"},
    ),
    "topk-quick": Entry(
        "brokers.indexes.topk.quick:Quick",
        "scores every filter in one compiled pass: the baseline",
        {"question": "ranked-match"},
    ),
    "topk-trees": Entry(
        "brokers.indexes.topk.trees:Trees",
        "an interval tree per attribute and a map of scores: the paper's",
        {"question": "ranked-match"},
    ),
    "topk-fagin": Entry(
        "brokers.indexes.topk.fagin:Fagin",
        "the threshold algorithm over lists of constraints by weight",
        {"question": "ranked-match"},
    ),
    "topk-sliced": Entry(
        "brokers.indexes.topk.sliced:Sliced",
        "bit-sliced counts of matched constraints, bounds on what a count can score: the fast one",
        {"question": "ranked-match"},
    ),
    "spatial-brute": Entry(
        "brokers.indexes.spatial.brute:Brute",
        "compares every subscription with every object, in NumPy: the oracle",
        {"question": "reverse-topk"},
    ),
    "part": Entry(
        "brokers.indexes.spatial.part:Part",
        "R-trees per keyword searched per group of subscriptions (PART)",
        {"question": "reverse-topk"},
    ),
    "b-part": Entry(
        "brokers.indexes.spatial.bpart:BPart",
        "the same for batches of queries that share a keyword and lie near each other (B-PART)",
        {"question": "reverse-topk"},
    ),
    "materialised": Entry(
        "brokers.indexes.spatial.materialised:Materialised",
        "every subscription keeps its nearest objects, a query is a stabbing question",
        {"question": "reverse-topk"},
    ),
    "context-brute": Entry(
        "brokers.indexes.context.brute:Brute",
        "evaluates every profile by the definition, in plain Python: the oracle",
        {"question": "context-filter"},
    ),
    "context-noindex": Entry(
        "brokers.indexes.context.filter:NoIndex",
        "compares every conjunct, column by column: NOINDEX, the baseline",
        {"question": "context-filter"},
    ),
    "context-eager": Entry(
        "brokers.indexes.context.agile:Eager",
        "interval skip lists that follow every context update: EAGER",
        {"question": "context-filter"},
    ),
    "context-partial": Entry(
        "brokers.indexes.context.agile:Partial",
        "interval skip lists for what lies in a scope, the rest always a candidate: PARTIAL",
        {"question": "context-filter"},
    ),
    "context-gbu": Entry(
        "brokers.indexes.context.agile:Gbu",
        "interval skip lists that widen to the nodes around an update: GBU",
        {"question": "context-filter"},
    ),
    "context-agile": Entry(
        "brokers.indexes.context.agile:Agile",
        "interval skip lists that escalate with updates and de-escalate with false positives: AGILE",
        {"question": "context-filter"},
    ),
    "context-cells": Entry(
        "brokers.indexes.context.cells:CellFilter",
        "a bitset per attribute and cell of its values, exact or escalated: the fast one",
        {"question": "context-filter"},
    ),
    "topic-scan": Entry(
        "brokers.indexes.topics.scan:Scan",
        "compares every filter, level by level, in one compiled pass: the baseline",
        {"question": "topic-match"},
    ),
    "trie": Entry(
        "brokers.indexes.topics.trie:Trie",
        "names looked up whole, filters with wildcards in a tree by level, names asked in blocks: the fast one",
        {"question": "topic-match"},
    ),
    "topic-skipping": Entry(
        "brokers.indexes.topics.skipping:Skipping",
        "filters in one order, searched by skipping what cannot have the name (EMQX's ordered set)",
        {"question": "topic-match"},
    ),
}
