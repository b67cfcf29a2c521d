"""Experiments of papers that `brokerlab reproduce` repeats, by name.

An entry's target is a function that gets the remaining arguments as a list and returns an exit code.
"""

from __future__ import annotations

from brokers.registry import Entry

PAPERS: dict[str, Entry] = {}
