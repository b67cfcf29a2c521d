"""The one error of this package. It imports nothing of ours; the scenario loader maps it to its own."""

from __future__ import annotations


class TopologyError(ValueError):
    """A topology, file, link model, placement or partition cannot be: where, what was given, what to do."""
