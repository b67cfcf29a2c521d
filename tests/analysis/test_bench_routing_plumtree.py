"""The rows about Plumtree and HyParView of the group `routing`, scaled down."""

from __future__ import annotations

from analysis.bench import routing_gossip, routing_plumtree
from analysis.bench.routing_plumtree import Sizes
from brokers.engine.simulate import simulate

TINY = routing_gossip.Sizes(brokers=30, dials=3, publications=10)
SMALL = Sizes(
    seeds=(1, 2), linked=25, found=(12,), together=12, crashing=(30,), crashed=(0.8,), grown=30, repeats=1,
    both_forms=TINY, compiled=TINY,
)  # fmt: skip


def test_what_is_measured_is_what_closed_forms_and_bounds_say():
    rows = list(routing_plumtree.rows(SMALL))
    judged = [each for each in rows if each["holds"] is not None]
    assert len(judged) == 5 + 9 + 2 * 4 and all(each["holds"] for each in judged), judged
    assert rows[-3]["unit"] == "events/CPU s" and rows[-3]["value"] > 0


def test_compiled_stands_beside_the_authors_form_and_all_get_everything():
    quick, many = routing_plumtree.forms(SMALL)
    assert quick["value"] > quick["baseline"] > 0 and many["value"] > 0
    run = simulate(routing_plumtree.fixed(TINY))
    assert run.engine["forms"]["service"]["form"] == "compiled"
    assert run.metrics["services"]["service"]["deliveries"] == 30 * 10
