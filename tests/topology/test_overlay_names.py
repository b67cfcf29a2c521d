"""Brokers by name or number, in graphs whose names are numbers of others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.build import build
from topology.errors import TopologyError
from topology.links import Links
from topology.overlay import broker_label, broker_number
from topology.placing import place
from topology.servers import Server, with_servers

SHUFFLED = ["3", "1", "0", "10", "hub"]  # broker 0 is called 3, and so on
LINKS = [["3", "1"], ["1", "0"], ["0", "10"], ["10", "hub"]]
NUMBER_OF = {name: number for number, name in enumerate(SHUFFLED)}


def overlay(**links):
    return build("explicit", {"nodes": SHUFFLED, "links": LINKS}, Links(**links), seed=1)


def test_links_of_a_list_with_names_go_by_these_names():
    assert list(zip(overlay().link_a.tolist(), overlay().link_b.tolist())) == [(0, 1), (1, 2), (2, 3), (3, 4)]


@pytest.mark.parametrize("given", [3, "3"])
def test_a_number_that_is_the_name_of_another_broker_shows_both_and_how_to_say_which(given):
    with pytest.raises(TopologyError) as error:
        broker_number(given, NUMBER_OF, "here")
    assert str(error.value) == (
        "here: 3 may mean broker number 3, whose name is '10', or the broker named '3', whose number is 0; write "
        "number:3 or name:3"
    )
    assert (broker_number("number:3", NUMBER_OF, "here"), broker_number("name:3", NUMBER_OF, "here")) == (3, 0)


@pytest.mark.parametrize(
    ("reference", "number"),
    [(1, 1), ("1", 1), (2, 2), ("2", 2), (4, 4), ("hub", 4), (10, 3), ("10", 3), ("name:hub", 4), ("number:2", 2)],
)
def test_what_can_mean_only_one_broker_is_taken(reference, number):
    assert broker_number(reference, NUMBER_OF, "here") == number


@pytest.mark.parametrize("reference", [5, "5", "number:5", "number:hub", "name:2", "02", "", "hup", -1, "²"])
def test_what_means_no_broker_is_refused(reference):
    with pytest.raises(TopologyError, match=r"^here: there is no broker"):
        broker_number(reference, NUMBER_OF, "here")


@pytest.mark.parametrize(
    "ask",
    [
        lambda: place(overlay(), 4, {"kind": "explicit", "brokers": [3]}, seed=1),
        lambda: place(overlay(), 4, {"kind": "explicit", "brokers": ["3"], "counts": [4]}, seed=1),
        lambda: overlay(overrides=[{"between": (3, "hub"), "loss": 0.5}]),
        lambda: with_servers(overlay(), [Server("server", 3, 1000)]),
        lambda: overlay().broker(3),
    ],
    ids=["placement", "placement with counts", "link", "server", "inspect"],
)
def test_whatever_takes_a_broker_refuses_a_number_that_is_another_ones_name(ask):
    with pytest.raises(TopologyError, match=r"write number:3 or name:3"):
        ask()


names = st.lists(st.one_of(st.integers(0, 9).map(str), st.text("ab:", max_size=3)), min_size=1, unique=True, max_size=8)


@given(names)
def test_a_label_can_be_given_back_unless_it_is_a_number_and_every_name_and_number_can_be_said(names):
    number_of = {name: number for number, name in enumerate(names)}
    for number, name in enumerate(names):
        assert broker_number(f"name:{name}", number_of, "here") == number
        assert broker_number(f"number:{number}", number_of, "here") == number
        assert broker_number(broker_label(number, names), number_of, "here") == number
