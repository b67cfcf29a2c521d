"""The workload sources that come with brokerlab. A new one is one file and one line here."""

from __future__ import annotations

from brokers.registry import Entry

_HERE = "scenarios.workloads"

WORKLOADS: dict[str, Entry] = {
    "publish": Entry(
        f"{_HERE}.publish:Publish",
        "clients publish messages with attribute values: constant, Poisson or in bursts",
        {"kinds": ["content", "context"]},
    ),
    "subscribe": Entry(
        f"{_HERE}.subscribe:Subscribe",
        "clients subscribe to ranges of attribute values, and may replace them or leave and join",
        {"kinds": ["content"]},
    ),
    "replay": Entry(
        f"{_HERE}.replay:Replay",
        "timed events from a CSV or Parquet file of any size: numbers or text, dates or numbers as times",
        {"kinds": None},  # every kind, those of third parties too
    ),
    "rank-publish": Entry(
        f"{_HERE}.ranked:RankPublish",
        "as publish, for topk: points or intervals, with the sender's weights or without, by region or everywhere",
        {"kinds": ["topk"]},
    ),
    "rank-subscribe": Entry(
        f"{_HERE}.ranked:RankSubscribe",
        "as subscribe, for topk: weighted filters, which may get other weights, by region or everywhere",
        {"kinds": ["topk"]},
    ),
    "objects": Entry(
        f"{_HERE}.objects:Objects",
        "objects with a place, keywords and a payload, which last for a while, by region or everywhere",
        {"kinds": ["spatial"]},
    ),
    "object-subscribe": Entry(
        f"{_HERE}.objects:ObjectSubscribe",
        "as subscribe, for spatial: places and keywords, by region or everywhere",
        {"kinds": ["spatial"]},
    ),
    "context-profiles": Entry(
        f"{_HERE}.context_profiles:ContextProfiles",
        "as subscribe, for context: ranges around values of contexts, or around constants",
        {"kinds": ["context"]},
    ),
    "context-updates": Entry(
        f"{_HERE}.context_updates:ContextUpdates",
        "attribute values of contexts change by random walk or are drawn anew",
        {"kinds": ["context"]},
    ),
    "map-queries": Entry(
        f"{_HERE}.map_queries:MapQueries",
        "clients ask for boxes on a map, around hot spots or anywhere; boxes move, clients leave and join",
        {"kinds": ["channels"]},
    ),
}
