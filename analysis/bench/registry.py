"""Groups of `brokerlab bench`, by name.

An entry's target is a function without arguments that yields rows (`analysis.bench.rows.Row`) as they are
measured, so that a long group shows what it has so far.
"""

from __future__ import annotations

from brokers.registry import Entry

BENCHES: dict[str, Entry] = {
    "start": Entry(
        "analysis.bench.start:rows",
        "what a newcomer waits for: compiling all kernels, the first demo beside the second, the quickstart, its audit",
    ),
    "engine": Entry(
        "analysis.bench.engine:rows",
        "hops per second of one core and of two actors, memory, start-up, beside plain event loops",
    ),
    "small": Entry(
        "analysis.bench.small:rows",
        "hops per second of small and thin networks, beside a plain event loop that does the same",
    ),
    "network": Entry(
        "analysis.bench.network:rows",
        "networks as a whole: two threads beside one core, dense, matching, thin",
    ),
    "faults": Entry(
        "analysis.bench.faults:rows",
        "dense flooding while links are cut and brokers crash, lose in bursts and double, beside the same without",
    ),
    "hunt": Entry(
        "analysis.bench.hunt:rows",
        "messages per second of brokers that are programs, in Python, JavaScript and C, beside the author's view",
    ),
    "contexts": Entry(
        "analysis.bench.contexts:rows",
        "context protocols at full size with everything changing, beside the author's view where it is small enough",
    ),
    "nearby": Entry(
        "analysis.bench.spatial:rows",
        "hops per second of the spatial protocols in both views, and over a thousand brokers",
    ),
    "spark": Entry(
        "analysis.bench.spark:rows",
        "analyze and audit of ten million hops, Java included, beside DuckDB and polars; what checkpoints cost",
    ),
    "matching": Entry(
        "analysis.bench.matching:rows",
        "a million subscriptions, seven workloads: every content index beside an early-exit scan, changes, memory",
    ),
    "hard": Entry(
        "analysis.bench.hard:rows",
        "data on which an index has nothing to gain, and values that move: matching and top-k beside their scans",
    ),
    "topk": Entry(
        "analysis.bench.topk:rows",
        "a million weighted filters: every top-k index beside a compiled scan, changes, memory",
    ),
    "routing": Entry(
        "analysis.bench.routing:rows",
        "routing of topics and among brokers: speeds beside ranges, messages and tables beside closed forms",
    ),
    "gossip-large": Entry(
        "analysis.bench.gossip_large:rows",
        "GossipSub with scores over 10,000 and 100,000 brokers: CPU seconds and peak memory; takes minutes and 10 GB",
    ),
    "report": Entry(
        "analysis.bench.report:rows",
        "reports of runs: what they weigh, how soon a browser opens them, how fast they draw, ten million events",
    ),
    "survival": Entry(
        "analysis.bench.survival:rows",
        "fifty kills of actors, nodes and drivers at random moments: digests unchanged",
    ),
    "part": Entry(
        "analysis.bench.part:rows",
        "reverse top-k: PART and B-PART among a million objects, beside brute force and materialised distances",
    ),
    "agile": Entry(
        "analysis.bench.agile:rows",
        "context filters over half a million profiles: messages and updates, and which approach is ahead when",
    ),
    "hard-context": Entry(
        "analysis.bench.hard_context:rows",
        "inputs made against the context index, and values that drift: the default beside the scan and a fresh index",
    ),
    "maps": Entry(
        "analysis.bench.maps:rows",
        "a thousand map queries to a server over two hundred brokers, beside the same in the author's view",
    ),
    "merging": Entry(
        "analysis.bench.merging:rows",
        "query merging: optimum, pair merging and directed search beside the plain algorithms; channel allocation",
    ),
}
