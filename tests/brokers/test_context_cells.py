"""Cells know what they cost: values are parked, rows are made anew, useless rows are not asked. Answers stay."""

from __future__ import annotations

import numpy as np

from brokers.indexes.context.cells import CellFilter
from brokers.indexes.context.contract import Schema
from brokers.indexes.context.filter import NoIndex
from brokers.indexes.context.upkeep import CLOCK_START, COOL, CREDIT_MAX, GAP, HURRY_MAX, NEVER, Upkeep

from . import context_cases as cases

SCHEMA = Schema({"m": "number", "n": "number"}, {"p": "number"})


def profile(context, centre, epsilon=0.02):
    return [[[["message", "m"], "~", ["context", context, "p"], epsilon], [["message", "n"], "~", centre, 0.1]]]


def filled(index, count, draws, contexts=None, epsilon=0.02):
    """Profiles around the values of so many contexts, each of its own unless said otherwise."""
    contexts = contexts or count
    index.update_many(np.arange(contexts), np.zeros(contexts, int), draws.random(contexts))
    index.insert(range(count), [profile(i % contexts, float(draws.random()), epsilon) for i in range(count)])
    return index


def generator():
    return np.random.Generator(np.random.PCG64(11))


def test_answers_stay_while_profiles_come_and_go_in_the_middle_of_rows_made_anew():
    index, scan, draws = cases.restless(SCHEMA, ["m", "n"]), NoIndex(SCHEMA), generator()
    for each in (index, scan):
        filled(each, 400, generator(), 300)
    in_the_middle = parked_there = 0
    for step in range(600):
        changed = draws.integers(0, 300, 5)
        changed[0] = step % 3  # these change all the time
        values = draws.random(5) + 0.002 * step
        fresh = 1_000 + step
        for each in (index, scan):
            each.update_many(changed, np.zeros(5, int), values)
            if step % 2:
                each.insert([fresh], [profile(int(changed[0]), float(values[1] % 1))])
            else:
                each.delete([fresh - 1_000 if step < 400 else fresh - 399])
        begun = index._renewing >= 0 and index._renewed > 0
        in_the_middle += begun
        parked_there += begun and index._parked_count[index._spare] > 0
        message = {"m": float(values[2]), "n": float(draws.random())}
        if step % 9 == 0:
            del message["m"]
        assert index.handle_message(message).tolist() == scan.handle_message(message).tolist()
        if step % 25 == 0:
            index.check()
    index.check()
    counters = index.counters
    assert in_the_middle > 100 and parked_there > 10
    assert counters.renewed > 10 and counters.parked > 100 and counters.shrunk > 0
    assert 0 < counters.probed < 2 * counters.events  # some messages were scanned


def test_a_value_that_changes_with_every_message_is_parked_and_taken_back_once_it_rests():
    index, draws = CellFilter(SCHEMA, ["m"]), generator()
    filled(index, 2_000, draws, 1)
    for _ in range(3):
        index.update_context(0, "p", float(draws.random()))
        index.handle_message({"m": 0.5, "n": 0.5})
    assert index.counters.parked == 2_000
    touched = index.counters.touched
    index.update_context(0, "p", 0.5)
    assert index.counters.touched == touched  # an update costs what it costs a scan
    assert len(index.handle_message({"m": 0.5, "n": 0.5}))
    for _ in range(4_000):
        index.handle_message({"m": 0.9, "n": 0.5})
    index.check()
    assert index.counters.shrunk == 2_000
    verified = index.counters.verified
    index.handle_message({"m": 0.9, "n": 0.5})
    assert index.counters.verified == verified  # the rows say all


def test_eager_parks_nothing():
    index, draws = CellFilter(SCHEMA, ["m"], eager=True), generator()
    filled(index, 500, draws, 1)
    for _ in range(50):
        index.update_context(0, "p", float(draws.random()))
        index.handle_message({"m": 0.5, "n": 0.5})
    assert index.counters.parked == 0
    assert index.counters.touched == 50 * 500
    index.check()


def drifted(index, count, steps):
    """Values move up by half their range, in turns, two with each message; then they rest. Returns them."""
    values, at = generator().random(count), 0
    for step in range(steps):
        places = np.arange(at, at + 2) % count
        at += 2
        values[places] += 0.5
        index.update_many(places, np.zeros(2, int), values[places])
        index.handle_message({"m": 0.5 + step / count, "n": 0.5})
    for value in values[:500]:
        index.handle_message({"m": float(value), "n": 0.5})
    return values


def candidates(index, values, count=200):
    """How many conjuncts are post-filtered for messages among the values."""
    before = index.counters.verified
    for value in values[:: len(values) // count]:
        index.handle_message({"m": float(value), "n": 0.5})
    return index.counters.verified - before


def test_after_any_drift_cells_leave_about_as_many_candidates_as_fresh_ones(monkeypatch):
    found = []
    for look_every in (Upkeep.look_every, NEVER):
        monkeypatch.setattr(Upkeep, "look_every", look_every)
        index = filled(CellFilter(SCHEMA, ["m"]), 3_000, generator(), epsilon=0.002)
        values = drifted(index, 3_000, 4_500)
        fresh = CellFilter(SCHEMA, ["m"])
        fresh.update_many(np.arange(3_000), np.zeros(3_000, int), values)
        fresh.insert(range(3_000), [profile(i, 0.5, 0.002) for i in range(3_000)])
        found.append(candidates(index, values) / candidates(fresh, values))
        index.check()
    followed, left_alone = found
    assert followed < 2.5 < 5 < left_alone


def test_cells_cut_while_values_move_reach_to_where_they_go():
    index = filled(CellFilter(SCHEMA, ["m"]), 3_000, generator(), epsilon=0.002)
    drifted(index, 3_000, 200)
    assert index.counters.renewed == 0 or index._borders[index._block[0]].max() > 1.6
    drifted(index, 3_000, 600)
    assert index.counters.renewed > 0
    assert (index._borders[index._block[0]] > 1.6).sum() > 5  # nothing is there yet
    index.check()


def test_values_that_jump_about_are_no_movement():
    index, draws = filled(CellFilter(SCHEMA, ["m"]), 3_000, generator(), epsilon=0.002), generator()
    for _ in range(1_500):
        index.update_many(draws.integers(0, 3_000, 4), np.zeros(4, int), draws.random(4))
        index.handle_message({"m": float(draws.random()), "n": 0.5})
    index._cut(0, index._spare, 3_000)
    borders = index._borders[index._spare]
    assert borders[0] > -0.1 and borders[-1] < 1.1


def test_while_values_move_messages_leave_few_candidates_all_the_time():
    held = 20_000
    index = filled(CellFilter(SCHEMA, ["m", "n"]), held, generator(), epsilon=0.002)
    values, found = generator().random(held), []
    for step in range(1_500):
        places = np.arange(40 * step, 40 * step + 40) % held
        values[places] += 0.5
        before = index.counters.verified
        index.update_many(places, np.zeros(40, int), values[places])
        index.handle_message({"m": float(values[7 * step % held]), "n": 0.5})
        found.append(index.counters.verified - before)
    assert index.counters.renewed >= 4
    usual = np.mean(found[:20])
    parts = np.median(np.reshape(found, (15, 100)), axis=1)
    assert parts.max() < 2.5 * usual
    index.check()


def test_rows_that_rule_nothing_out_are_asked_ever_more_rarely():
    index = CellFilter(SCHEMA, ["m"])
    index.insert(range(1_000), [[[[["message", "m"], ">=", 0]]] for _ in range(1_000)])
    for _ in range(320):
        assert len(index.handle_message({"m": 1, "n": 0})) == 1_000
    assert index.counters.probed <= 15


# ---- what is spent ------------------------------------------------------------------------------------------


def test_messages_that_skip_the_rows_double_up_to_31_and_begin_anew_after_one_that_did_well():
    upkeep, skips = Upkeep(2), []
    for _ in range(7):
        upkeep.too_many()
        skips.append(upkeep.skips)
    assert skips == [1, 3, 7, 15, 31, 31, 31]
    upkeep.answered(1_000, 3)
    upkeep.too_many()
    assert upkeep.skips == 1


def rests_of(upkeep, messages):
    """The lengths of the stretches in which nothing is followed, under updates that never pay."""
    lengths, length = [], 0
    for _ in range(messages):
        if upkeep.gap != NEVER:
            upkeep.followed(10_000, 200_000, 0)
        upkeep.scanned(10_000)
        if upkeep.gap == NEVER:
            length += 1
        elif length:
            lengths.append(length)
            length = 0
    return lengths


def test_an_index_in_debt_rests_longer_each_time():
    lengths = rests_of(Upkeep(2), 20_000)
    assert len(lengths) >= 4
    assert lengths == sorted(lengths) and lengths[-1] > lengths[0]
    assert len(lengths) < 10  # it is seldom tried


def test_an_index_that_saves_what_it_costs_does_not_rest():
    upkeep = Upkeep(2)
    for _ in range(5_000):
        upkeep.followed(20, 800, 0)
        upkeep.answered(1_000_000, 1_000)
    assert upkeep.gap == GAP < COOL


def test_credit_is_bounded_by_the_longest_pause_and_the_clock_goes_round():
    upkeep = Upkeep(1)
    upkeep.updated(10**9)
    assert upkeep.credit == CREDIT_MAX
    upkeep.clock = (1 << 31) - 2
    upkeep.scanned(10)
    assert upkeep.clock == CLOCK_START


def test_in_a_hurry_regions_that_move_are_credit_up_to_what_rows_save():
    upkeep = Upkeep(1)
    for hurry, entries, least, most in ((False, 1_000, 0, 10_000), (True, 1_000, 90_000, 110_000),
                                        (True, 10**6, HURRY_MAX, HURRY_MAX)):
        upkeep.hurry, upkeep.credit = hurry, 0
        upkeep.followed(entries, 0, 0)
        upkeep.answered(10**6, 0)
        assert least <= upkeep.credit <= most
    upkeep.credit = 0
    upkeep.followed(10**6, 0, 0)
    upkeep.scanned(1_000)  # nothing is saved
    assert upkeep.credit < 10_000


def test_what_is_parked_and_made_anew_does_not_depend_on_how_updates_are_cut():
    found = []
    for cut in (1, 2, 3):
        index, draws = filled(cases.restless(SCHEMA, ["m", "n"]), 200, generator(), 50), generator()
        for _ in range(300):
            contexts, values = draws.integers(0, 50, 3), draws.random(3)
            for begin in range(0, 3, cut):
                part = contexts[begin : begin + cut]
                index.update_many(part, np.zeros(len(part), int), values[begin : begin + cut])
            index.handle_message({"m": float(values[0]), "n": 0.5})
        found.append(index.counters)
    assert found[0] == found[1] == found[2]
    assert found[0].parked > 0 and found[0].renewed > 0
