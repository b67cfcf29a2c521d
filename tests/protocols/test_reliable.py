"""`reliable`: what a live broker accepted is delivered once and in order, whatever is lost and whoever crashes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers import names
from brokers.contract import NEVER, Guarantees
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.errors import InvalidInput
from brokers.faults import KEPT, LOST, STORED, Crash, Cut, Schedule, Slow, Worn
from brokers.promises import Excused, excused
from brokers.verdicts import INVALID, VALID
from protocols.conformance import REHEARSALS, audit, audit_run, check_digests, join, rehearse, variants
from protocols.content.reliable.broker import NACK, TICKS_MOST
from protocols.content.reliable.ranges import Ranges
from tests.brokers.test_engine_checkpoint import (
    continued,
    differing_tables,
    folder_for,
    stopped_at,
    undisturbed,
)

MS = 1_000_000
SMALL = [each for each in REHEARSALS if "overload" not in each.name]


def faults(model: Any, seed: int, until: int = 250 * MS) -> Schedule:
    """Cuts, crashes, losses in bursts, doubled messages, slow brokers and a partition; over by then.

    Brokers with clients keep their store, others may lose everything.
    """
    draws = np.random.default_rng(seed)
    homes = set(model.client_broker.tolist())
    found: list[Any] = []

    def span() -> tuple[int, int]:
        begin = int(draws.integers(until))
        return begin, min(until, begin + 1 + int(draws.integers(until // 2)))

    for _ in range(3):
        link, (begin, end) = int(draws.integers(2 * model.overlay.links)), span()
        found += [Cut(link, begin, end), *([Cut(link ^ 1, begin, end)] * int(draws.integers(2)))]
        broker, (begin, end) = int(draws.integers(model.overlay.brokers)), span()
        states = (KEPT, STORED) if broker in homes else (KEPT, STORED, LOST)
        found.append(Crash(broker, begin, end, state=int(draws.choice(states))))
        found.append(Slow(int(draws.integers(model.overlay.brokers)), *span(), float(draws.choice([0.0, 2.0]))))
        link = int(draws.integers(2 * model.overlay.links))
        found.append(Worn(link, *span(), twice=0.5, begins=0.1, ends=0.3, bad=0.9, delay=int(draws.integers(9 * MS))))
    return Schedule(tuple(found), int(draws.choice([1, 8 * MS, 1 << 62])))


def struck(rehearsal: Any, seed: int, clients: int = 7, **service: Any) -> Any:
    """A rehearsal under faults, with some brokers that have no clients."""
    model = rehearse(replace(rehearsal, duration_ns=400 * MS), "reliable", seed, clients, **service)
    return replace(model, faults=faults(model, seed))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rehearsal", SMALL, ids=lambda each: each.name)
def test_nothing_that_was_accepted_is_missed_doubled_or_out_of_order(rehearsal, seed):
    found = audit_run(struck(rehearsal, seed))
    assert found.guarantees.under_faults == "reliable"
    assert found.verdict == VALID or "too little" in str(found), str(found)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1000))
def test_nothing_is_missed_whatever_the_schedule(seed):
    found = audit_run(struck(SMALL[seed % len(SMALL)], 1000 + seed))
    assert found.verdict == VALID or "too little" in str(found), str(found)


@pytest.mark.parametrize("number", [0, 5], ids=lambda number: SMALL[number].name)
def test_under_faults_it_is_the_same_in_every_way_of_running(number):
    model = struck(SMALL[number], 3)
    ways = variants(model)
    some = [ways[0], *(way for way in ways if way.actors in (3, model.overlay.brokers) or "on_run," in way.name)]
    assert len(some) > 4 and check_digests(model, some) == []


@pytest.mark.parametrize("share", [0.3, 0.55])
def test_under_faults_it_goes_on_where_it_was_stopped(tmp_path, share):
    model = struck(SMALL[0], 4)
    whole, result = undisturbed(tmp_path / "whole", model)
    halves = folder_for(tmp_path / "halves", model)
    stopped_at(share, model, halves.path, 3)
    resumed = continued(model, halves.path, 2)
    assert resumed.digest == result.digest
    assert differing_tables(whole, halves.finish(resumed.digest)) == []


# ---- by hand: brokers in a line ----------------------------------------------------------------------

WIDE = [0, 0.0, 1.0]
IN_IT = [0.5, 0.5, 0.5, 0.5]


def line(*faults: Any, until_ms: int = 3_000) -> tuple[Any, dict[str, Any]]:
    """A publisher at broker 0 that says something each 100 ms, a subscriber at broker 3; and what came of it."""
    net = join("reliable", [(0, 1), (1, 2), (2, 3)], clients=[0, 3], delay_ns=5 * MS)
    net.send(1, "subscribe", WIDE, word=net.interest(1), at_ns=0)
    sent = [net.send(0, "publish", IN_IT, at_ns=at * MS) for at in range(1_000, until_ms, 100)]
    model = replace(net.model(), faults=Schedule(faults))
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    tables = traces.tables()
    tables["sent"] = sent
    return model, tables


def arrivals(tables: Any) -> list[int]:
    """Publications in the order of their delivery."""
    table = tables["deliveries"]
    return [int(table["publication"][row]) for row in np.argsort(table["time_ns"], kind="stable")]


@pytest.mark.parametrize("state", [KEPT, STORED, LOST])
@pytest.mark.parametrize("broker", [1, 2])
def test_an_inner_broker_that_crashes_costs_nothing(broker, state):
    _, tables = line(Crash(broker, 1_250 * MS, 1_850 * MS, state=state))
    assert arrivals(tables) == tables["sent"]


@pytest.mark.parametrize("state", [KEPT, STORED])
def test_the_log_and_the_place_of_a_client_survive_in_the_store(state):
    """The publishing broker crashes while nobody can hear it, and the client's broker later."""
    cut = (Cut(2, 1_050 * MS, 2_500 * MS), Cut(3, 1_050 * MS, 2_500 * MS))
    crashes = (Crash(0, 1_450 * MS, 1_650 * MS, state=state), Crash(3, 2_530 * MS, 2_650 * MS, state=state))
    _, tables = line(*cut, *crashes)
    refused = {tables["sent"][at] for at in (5, 6)}  # while the broker was down
    assert arrivals(tables) == [each for each in tables["sent"] if each not in refused]


def test_a_publisher_that_lost_its_store_loses_what_it_had_logged_and_goes_on():
    cut = (Cut(2, 1_050 * MS, 2_500 * MS), Cut(3, 1_050 * MS, 2_500 * MS))
    _, tables = line(*cut, Crash(0, 1_450 * MS, 1_660 * MS, state=LOST))
    gone = set(tables["sent"][1:5]) | {tables["sent"][at] for at in (5, 6)}
    assert [each for each in arrivals(tables) if each not in gone] == [
        each for each in tables["sent"] if each not in gone
    ]


def test_the_last_of_a_stream_is_missed_and_made_good_since_silence_is_told():
    model, tables = line(Cut(4, 2_900 * MS, 2_960 * MS))
    assert arrivals(tables) == tables["sent"]
    every = model.services[0].protocol_class.Options().every
    late = int(tables["deliveries"]["time_ns"].max()) - 2_900 * MS
    assert 60 * MS < late < 3 * every


def test_repair_takes_a_round_trip_to_the_nearest_cache():
    """One is lost between 2 and 3; the next tells 3 so, which asks 2 and not the publisher."""
    _, tables = line(Cut(4, 1_905 * MS, 1_950 * MS))
    times = dict(zip(tables["deliveries"]["publication"].tolist(), tables["deliveries"]["time_ns"].tolist()))
    lost, following = tables["sent"][9], tables["sent"][10]
    told = 2_000 * MS + 15 * MS
    assert told <= times[lost] < told + 10 * MS + MS or times[lost] < told  # or a beat was sooner
    assert times[following] >= times[lost]
    asked = tables["hops"]["type"] == NACK
    assert set(tables["hops"]["broker"][asked].tolist()) <= {2}


def test_nothing_is_kept_once_all_have_acknowledged():
    net = join("reliable", [(0, 1), (1, 2)], clients=[0, 2])
    net.send(1, "subscribe", WIDE, word=net.interest(1))
    for _ in range(20):
        net.send(0, "publish", IN_IT)
    assert len(net.deliveries(1)) == 20
    assert all(not net.describe(broker)["waited_for"] for broker in range(3))
    assert [net.entries(broker) for broker in range(3)] == [1, 1, 1]


def test_who_loses_a_table_hears_it_before_it_tells_its_own():
    """Two brokers side by side come back and know nothing; neither may say that nobody wants anything."""
    both = (Crash(1, 1_250 * MS, 1_600 * MS, state=LOST), Crash(2, 1_250 * MS, 1_650 * MS, state=LOST))
    _, tables = line(*both)
    assert arrivals(tables) == tables["sent"]


# ---- what excuses ------------------------------------------------------------------------------------


def owed(state: int, broker: int, lasts: int | None = 50 * MS) -> Any:
    faults = {
        "begin_ns": np.array([10 * MS]), "end_ns": np.array([-1 if lasts is None else 10 * MS + lasts]),
        "state": np.array([state]), "broker": np.array([broker]),
    }  # fmt: skip
    return excused(Guarantees(under_faults="reliable"), faults, -1, lambda: {0, 3})


def test_a_run_for_which_there_are_not_enough_numbers_is_refused():
    lost = Schedule((Crash(1, 100, 100, LOST),))
    long = replace(rehearse(REHEARSALS[0], "reliable"), duration_ns=TICKS_MOST, faults=lost)
    with pytest.raises(InvalidInput, match=r"up to 2\^49: with such crashes `duration` is at most 6.5 days"):
        simulate(long)


def test_only_a_client_s_broker_that_lost_its_store_and_faults_without_end_excuse():
    assert owed(LOST, 1) == owed(STORED, 0) == owed(KEPT, 3) == Excused()
    assert owed(LOST, 3) == Excused(60 * MS, 10 * MS)
    assert owed(KEPT, 1, None).again_ns == NEVER and owed(KEPT, 1, None).forgot_ns == 10 * MS


def test_the_judges_accuse_who_promises_it_and_does_not_keep_it():
    """The same without a log: what `subscription` loses, if it had promised the same."""
    model = rehearse(replace(SMALL[0], duration_ns=400 * MS), "subscription", 1, 7)
    model = replace(model, faults=faults(model, 1))
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    service = model.services[0]
    kind = service.kind_class(service.params)
    promise = names.find("protocols", "reliable").object.guarantees
    assert audit(traces.tables(), kind, promise).verdict == INVALID
    assert audit(traces.tables(), kind, service.protocol_class.guarantees).verdict != INVALID


# ---- ranges ------------------------------------------------------------------------------------------

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12)


@given(SPANS, st.integers(0, 45), st.integers(0, 45))
def test_ranges_are_sets_of_numbers(spans, begin, end):
    ranges, numbers = Ranges(spans), {n for low, high in spans for n in range(low, high)}
    ranges.check()
    assert {n for n in range(50) if n in ranges} == numbers == {n for span in ranges for n in range(*span)}
    assert {n for gap in ranges.gaps(begin, end) for n in range(*gap)} == set(range(begin, end)) - numbers
    assert {n for span in ranges.within(begin, end) for n in range(*span)} == set(range(begin, end)) & numbers
    assert ranges.first_gap() == next(n for n in range(50) if n not in numbers)
    for number in numbers:
        start = ranges.start(number)
        assert start - 1 not in numbers and set(range(start, number + 1)) <= numbers
