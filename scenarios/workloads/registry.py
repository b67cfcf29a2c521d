"""The workload sources that are of no one kind; those of a kind are named by its manifest."""

from __future__ import annotations

from brokers.registry import Entry

WORKLOADS: dict[str, Entry] = {
    "replay": Entry(
        "scenarios.workloads.replay:Replay",
        "timed events from a CSV or Parquet file of any size: numbers or text, dates or numbers as times",
        {"kinds": None},  # every kind, those of third parties too
    ),
    "script": Entry(
        "scenarios.workloads.script:Script",
        "what each client does when, written down in the scenario",
        {"kinds": None},
    ),
}
