"""Claims of `brokerlab reproduce routing`: what follows from their tables, and that wrong tables break each of them."""

from __future__ import annotations

from functools import partial

import pytest

from analysis.bench import routing_adverts, routing_merging, routing_neighbourhood, routing_reliable
from analysis.papers import routing, routing_crashed
from analysis.papers.claims import FAILS, HOLDS, REPORTED, judged
from analysis.papers.experiment import Run
from tests.analysis.wrong_data import broken_by

RUN = Run(3, False, lambda text: None)
EXPERIMENTS = {each.name: each for each in (*routing.EXPERIMENTS, *routing_crashed.EXPERIMENTS)}
AXES = ("width", "attributes", "waste", "bound", "times", "other traffic", "δ", "publications", "recurrence", "pairs")
CRASHING = routing_reliable.Sizes(brokers=20, homes=8, subscriptions=16, seconds=4)


@pytest.fixture(scope="module")
def tables():
    """Of every experiment, in small networks."""
    found = {}

    def measured(name):
        if name not in found:
            found[name] = EXPERIMENTS[name].measure(RUN)
        return found[name]

    with pytest.MonkeyPatch.context() as patched:
        merged = partial(
            routing_merging.Sizes, brokers=8, subscriptions=40, publications=100, waste=(0.3,), arrivals=1_000,
            lease_brokers=3,
        )  # fmt: skip
        patched.setattr(routing_merging, "Sizes", merged)
        patched.setattr(
            routing_adverts, "Sizes", partial(routing_adverts.Sizes, brokers=12, subscriptions=30, adverts=4)
        )
        patched.setattr(routing, "INTERVALS", ((12, 3), (9, 2)))
        patched.setattr(routing, "MERGERS", 2)
        patched.setattr(routing, "SERVED", 2_000)
        patched.setattr(routing, "GRIDS", 1)
        sizes = routing_neighbourhood.Sizes(lines=12, line=30, tree=40, publishers=8, over_time=CRASHING)
        patched.setattr(routing_crashed, "down", lambda full: sizes)
        patched.setattr(routing_crashed, "crashing", lambda full: CRASHING)
        yield measured


def verdicts(name, found):
    return {each.key: judged("", (1,), [each]).verdict for each in EXPERIMENTS[name].judge(found)}


REPORTS = {"changes", "busy-messages", "messages"}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_claims_hold_and_each_can_fail(name, tables):
    found = verdicts(name, tables(name))
    expected = {key: REPORTED if key in REPORTS else HOLDS for key in found}
    assert found == expected
    assert [key for key in found if not broken_by(EXPERIMENTS[name], tables(name), key, AXES)] == []


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_pictures_and_tables_have_what_they_name(name, tables):
    assert set(EXPERIMENTS[name].titles) == set(tables(name))
    for picture in EXPERIMENTS[name].draw(tables(name)):
        assert picture.curves and all(len(each.x) == len(each.y) == 3 for each in picture.curves)


def test_keys_of_claims_are_different(tables):
    for name, experiment in EXPERIMENTS.items():
        keys = [each.key for each in experiment.judge(tables(name))]
        assert keys and len(keys) == len(set(keys))


def test_intervals_that_touch_are_one_entry_and_fall_apart_around_holes():
    assert routing.intervals(12, 3, 5) == (1, 4)


def test_one_seed_that_differs_breaks_a_closed_form_although_the_means_are_equal():
    form = routing.Form("told", "messages", "as many")
    by_seed = [[routing.beside("here", "messages", measured, 5)] for measured in (4, 6)]
    claims = [next(routing.exact([form], rows)) for rows in by_seed]
    found = judged("e", (1, 2), claims)
    assert found.spreads["here"].mean == 0 and found.verdict == FAILS


def test_other_seeds_draw_others():
    one, other = (routing.rendezvous(Run(seed, False, print))["hubs"] for seed in (3, 4))
    assert one != other and [row["measured"] for row in one] == [row["closed form"] for row in one]


def test_no_two_seeds_draw_the_same_lines_or_mergers():
    assert routing_crashed.down(False).lines < routing_crashed._LINES
    assert routing_crashed.down(True).lines < routing_crashed._LINES
