"""The rows about Plumtree and HyParView of the group `routing`, scaled down."""

from __future__ import annotations

from analysis.bench import routing_plumtree
from analysis.bench.routing_plumtree import Sizes

SMALL = Sizes(seeds=(1, 2), linked=25, found=(12,), together=12, crashing=(30,), crashed=(0.8,), grown=30)


def test_what_is_measured_is_what_closed_forms_and_bounds_say():
    rows = list(routing_plumtree.rows(SMALL))
    judged = [each for each in rows if each["holds"] is not None]
    assert len(judged) == 5 + 9 + 2 * 4 and all(each["holds"] for each in judged), judged
    assert rows[-1]["unit"] == "events/CPU s" and rows[-1]["value"] > 0
