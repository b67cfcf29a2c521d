"""Numbers of clients and brokers mean one thing in every command, in a graph whose brokers are called by numbers."""

from __future__ import annotations

import json
import re

import pytest

from scenarios import cli
from scenarios.running import run

# Broker 0 is called 3, broker 1 is called 0, and so on: a line 3 - 0 - 10 - 1 - 2 with a server behind broker 0.
SCENARIO = """\
duration: 500 ms
topology: {kind: explicit, nodes: ["3", "0", "10", "1", "2"], links: [["3", "0"], ["0", "10"], ["10", "1"], ["1", "2"]]}
links: {delay: 2 ms, overrides: [{between: [number:0, 10], delay: 9 ms}, {between: ["name:3", "name:0"], delay: 7 ms}]}
servers: {depot: {broker: number:4}}
clients:
  publishers: {count: 2, placement: {kind: explicit, brokers: [10]}}
  subscribers: {count: 10, placement: {kind: explicit, brokers: ["name:3", "number:3", 4]}}
services:
  - name: news
    kind: content
    attributes: 2
    protocol: subscription
    workload:
      - {source: subscribe, clients: subscribers, width: 0.5}
      - {source: publish, clients: publishers, rate: 40/s}
trace: {level: full}
"""
NODES = 6  # five brokers and a server
FIRST = SCENARIO.replace("{between: [number:0, 10], delay: 9 ms}, ", "")  # there is no such link


@pytest.fixture(scope="module")
def shuffled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shuffled")
    (folder / "s.yaml").write_text(FIRST)
    return run(folder / "s.yaml", engine="inline", out=folder / "runs")


def called(capsys, *arguments):
    code = cli.main([str(each) for each in arguments])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def test_names_and_numbers_that_leave_no_doubt_are_taken(shuffled):
    homes = shuffled.changes.group_by(["client", "broker"]).aggregate([]).to_pylist()
    by_number = {row["client"] - NODES: row["broker"] for row in homes}
    # Clients 2 to 11 are the subscribers, in turn at the broker named 3, at broker number 3, and at broker 4.
    assert by_number == {2 + i: (0, 3, 4)[i % 3] for i in range(10)}
    assert set(shuffled.publications["broker"].to_pylist()) == {2}
    delays = {(row["from"], row["to"]): row["delay_ns"] for row in shuffled.links.to_pylist()}
    assert delays[0, 1] == 7_000_000 and (4, 5) in delays


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("brokers: [10]", "brokers: [3]", "clients.publishers.placement"),
        ("brokers: [10]", 'brokers: ["3"]', "clients.publishers.placement"),
        ("broker: number:4", "broker: 2", "servers.depot.broker"),
        ('["name:3", "name:0"]', '[3, "name:0"]', "links"),
    ],
)
def test_validate_refuses_a_number_that_is_another_brokers_name_and_shows_both(old, new, where, tmp_path, capsys):
    assert FIRST.count(old) == 1
    (tmp_path / "s.yaml").write_text(FIRST.replace(old, new))
    code, said = called(capsys, "validate", tmp_path / "s.yaml")
    number = re.search(r"(\d) may mean", said)[1]
    assert code == 3 and f": {where}" in said
    assert re.search(rf"broker number {number}, whose name is '\d+', or the broker named '{number}'", said)
    assert f"write number:{number} or name:{number}" in said


def test_a_link_that_there_is_not_is_named_by_what_was_meant(tmp_path, capsys):
    (tmp_path / "s.yaml").write_text(SCENARIO)
    code, said = called(capsys, "validate", tmp_path / "s.yaml")
    assert code == 3 and "there is no link between '3' and '10'" in said


def test_inspect_takes_both_and_shows_what_can_be_given_back(shuffled, capsys):
    for given in "10", "name:10", "number:2":
        code, said = called(capsys, "inspect", shuffled.path, "--broker", given, "--at", "200 ms", "--json")
        state = json.loads(said)
        assert (code, state["broker"], state["name"]) == (0, 2, "10")
        assert state["neighbours"] == ["name:0", "name:1"]
    code, said = called(capsys, "inspect", shuffled.path, "--broker", "3", "--at", "200 ms")
    assert code == 3 and "--broker: 3 may mean broker number 3" in said and "write number:3 or name:3" in said


def test_explain_takes_and_tells_client_numbers(shuffled, capsys):
    publication = shuffled.deliveries["publication"][0].as_py()
    served = {
        row["client"] - NODES for row in shuffled.deliveries.to_pylist() if row["publication"] == publication
    }
    name = f"{(publication >> 32) - NODES}#{publication & 0xFFFFFFFF}"
    for client in range(12):
        code, said = called(capsys, "explain", shuffled.path, name, client)
        publisher = name.partition("#")[0]
        assert code == 0 and f"{name} ({publication}): publish of client {publisher} at broker name:10" in said
        (told,) = (line for line in said.splitlines() if line.startswith(f"client {client} "))
        assert told.startswith(f"client {client} {'got it' if client in served else 'did not get it'}")
        assert ("never asked for anything" in told) == (client < 2)
        assert client < 2 or f"interest {client}#" in told
    code, said = called(capsys, "explain", shuffled.path, name, 12)
    assert code == 3 and "no client 12; they are numbered 0 to 11" in said


@pytest.mark.parametrize("wrong", ["true", "2.0", "null", "[0]"])
@pytest.mark.parametrize("place", ["brokers: [10]", "broker: number:4", "between: [number:0, 10]"])
def test_a_broker_is_a_whole_number_or_a_text_and_nothing_that_could_pass_for_one(wrong, place, tmp_path, capsys):
    assert SCENARIO.count(place) == 1
    (tmp_path / "s.yaml").write_text(SCENARIO.replace(place, re.sub(r"(number:)?\d+(?=\]?$)", wrong, place)))
    assert cli.main(["validate", str(tmp_path / "s.yaml")]) == 3
    said = capsys.readouterr().err
    assert "must be a text or must be a whole number" in said and place.split(":")[0] in said
