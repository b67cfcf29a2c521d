"""The comparison of all routing protocols: what is counted, and that none is left out of the table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from analysis.bench import routing_compared
from analysis.bench.routing_compared import (
    AFTER,
    PROTOCOLS,
    QUIET,
    SERVICES,
    WHILE,
    Sizes,
    compared,
    markdown,
    rows,
)

PAGE = Path(__file__).parents[2] / "docs" / "routing.md"


def test_a_time_is_while_it_lasts_or_after_it_or_neither():
    cut = routing_compared.ADVERSITIES["cut"]
    assert [cut.when(int(s * 1e9)) for s in (4.9, 5, 6.9, 7, 9.9, 10)] == ["", WHILE, WHILE, "", "", AFTER]
    assert routing_compared.ADVERSITIES[QUIET].when(0) == WHILE


def test_what_is_reliable_misses_nothing_and_what_forgets_does():
    found = {each.protocol: each for each in compared(Sizes(seeds=1, protocols=("reliable", "rendezvous")))}
    reliable, rendezvous = found["reliable"], found["rendezvous"]
    assert {share for shares in reliable.came.values() for share in shares} == {1.0}
    assert set(reliable.came) == {
        (QUIET, WHILE), ("loss", WHILE), ("cut", WHILE), ("cut", AFTER), ("restarts", WHILE), ("restarts", AFTER),
    }  # fmt: skip
    assert rendezvous.share(QUIET, WHILE) == 1
    assert rendezvous.share("restarts", AFTER) < 1  # hubs have forgotten who wants what
    assert reliable.misses_nothing and reliable.heals and not rendezvous.heals
    assert reliable.cost("control.per_change") > rendezvous.cost("control.per_change")


def test_rows_hold_a_protocol_to_what_it_promises(monkeypatch):
    sizes = Sizes(seeds=1, protocols=("cluster",))
    judged = {row["name"]: row for row in rows(sizes) if row["holds"] is not None}
    assert [name.split(": ")[1] for name in judged] == ["came where nothing fails", "came once all is whole again"] * 2
    assert all(row["holds"] for row in judged.values())
    whole = routing_compared._run

    def losing(point):
        run = whole(point)
        if point.values["adversity"] == "cut":
            run.pairs = set(sorted(run.pairs)[:-1])
        return run

    monkeypatch.setattr(routing_compared, "_run", losing)
    again = {row["name"]: row["holds"] for row in rows(sizes) if row["holds"] is not None}
    assert list(again.values()) == [True, False] * 2


def test_the_page_has_every_protocol_that_routes_ranges_or_names():
    listed = _tables(PAGE.read_text())
    assert listed == PROTOCOLS


@pytest.mark.full
def test_the_page_has_what_the_sweep_gives():
    assert markdown(compared()) in PAGE.read_text()


def _tables(text: str) -> dict[str, list[str]]:
    """The protocols of each table, in its order."""
    return {
        service: re.findall(r"^\| `([^`]+)`", text.partition(f"\n| {service} |")[2].partition("\n\n")[0], re.M)
        for service in SERVICES
    }
