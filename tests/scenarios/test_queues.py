"""The section `queues` of a scenario: what it makes, and what it refuses."""

from __future__ import annotations

import pytest

from brokers.limits import NEWEST, NO_LIMITS, OLDEST, REFUSE, Limits
from scenarios.loader import from_data, loads
from scenarios.plan import resolve
from scenarios.problems import ScenarioErrors

TEXT = """
duration: 4 s
topology: {kind: line, nodes: 3}
clients: {all: {count: 4}}
services:
  - {name: news, kind: content, protocol: flooding, attributes: 1, workload: [{source: publish, rate: 1/s}]}
"""


@pytest.mark.parametrize(
    ("said", "made"),
    [
        ("{}", NO_LIMITS),
        ("{places: 7}", Limits((7, 7, 7), NEWEST)),
        ("{places: 7, full: oldest, brokers: [b1]}", Limits((0, 7, 0), OLDEST)),
        ("{places: 2, full: refuse, brokers: [2, b0]}", Limits((2, 0, 2), REFUSE)),
        ("{links: {messages: 20}}", Limits(messages=20)),
        ("{places: 1, links: {bytes: 10 kB}}", Limits((1, 1, 1), NEWEST, bytes=10_000)),
    ],
)
def test_a_section_makes_limits(said, made):
    scenario = loads(f"{TEXT}queues: {said}\n")
    assert resolve(scenario).limits == made
    assert resolve(from_data(scenario.resolved())).limits == made


@pytest.mark.parametrize(
    ("said", "place", "why"),
    [
        ("{places: 0}", ":7:18: ", "queues.places"),
        ("{places: 3, brokers: [b9]}", ":7:31: ", "b9"),
        ("{places: 3, full: random}", ":7:27: ", "newest"),
        ("{links: {messages: -1}}", ":7:28: ", "messages"),
        ("{links: {bytes: many}}", ":7:25: ", "bytes"),
        ("{place: 3}", ":7:10: ", "place"),
        ("{full: refuse}", ":7:9: ", "`full` goes with `places`"),
        ("{brokers: [b1], links: {messages: 3}}", ":7:9: ", "`brokers` goes with `places`"),
    ],
)
def test_what_is_wrong_with_it_is_told_with_its_place(said, place, why):
    with pytest.raises(ScenarioErrors) as told:
        resolve(loads(f"{TEXT}queues: {said}\n"))
    assert place in str(told.value) and why in str(told.value)
    assert len(told.value.problems) == 1


def test_limits_that_do_nothing_are_noted_or_left_out_of_what_a_run_is():
    none = loads(f"{TEXT}queues: {{places: null, full: oldest}}\n")  # a limit that a sweep lifts
    assert "queues" not in from_data(none.resolved()).resolved() and not resolve(none).limits
    links = f"{TEXT}queues: {{links: {{messages: 5}}}}\n"
    assert "queues.links has no effect" in resolve(loads(links)).facts["notes"][0]
    assert not resolve(loads(links, ["links.bandwidth=1Mbit/s"])).facts["notes"]


def test_no_section_leaves_the_run_what_it_was():
    assert "queues" not in loads(TEXT).resolved()
    assert loads(TEXT).model_parts() == loads(f"{TEXT}queues: {{}}\n").model_parts()
