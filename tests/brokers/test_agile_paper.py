"""The paper's workload, cost model and experiments, on a small scale."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

from analysis.bench.agile import Sizes, rows
from analysis.papers import agile, agile_gbu
from analysis.papers.agile_readings import Reading, counted
from analysis.papers.agile_runs import APPROACHES, Found, Setting, per_message, run
from analysis.papers.agile_workload import ATTRIBUTES, DOMAIN, SCHEMA, Load, Workload, rounded
from analysis.papers.claims import FAILS, judged
from analysis.papers.experiment import Run
from brokers.indexes.context.policies import Fixed
from tests.analysis.wrong_data import broken_by

SMALL = Load(profiles=300)
RUN = Run(1, False, lambda text: None)
TINY = agile.Scale(
    profiles=200, messages=(200, 200, 100, 50, 20), warm_messages=10, simple_updates=4_000, sweep_messages=5, burst=25,
    readings=(20, 20, 10, 5, 2), gbu_messages=20, gbu_profiles=100,
)


def test_values_have_three_significant_digits():
    values = np.array([9994.9, 1234.0, 999.6, 12.345, 1.2345, 0.0126, 0.0004])
    assert rounded(values).tolist() == [9990.0, 1230.0, 1000.0, 12.3, 1.23, 0.013, 0.0]


@pytest.mark.parametrize("share", [0.2, 0.9])
def test_profiles_refer_to_contexts_as_often_as_the_load_says(share):
    table = Workload(Load(profiles=20_000, share=share)).table
    table.check(SCHEMA)
    bound = (table.context >= 0).reshape(-1, ATTRIBUTES)
    assert abs(bound.mean() - share) < 0.01
    assert 0.9 - bound.any(axis=1).mean() > -0.01


def test_updates_walk_by_at_most_the_distance_and_stay_in_the_domain():
    work = Workload(Load(profiles=500, on_indexed=0.7, distance=100.0))
    before = work.values.copy()
    contexts, attributes, values = work.updates(20_000)
    assert abs((attributes < 2).mean() - 0.7) < 0.02
    assert values.min() >= 0 and values.max() <= DOMAIN
    for context, attribute, value in zip(contexts.tolist(), attributes.tolist(), values.tolist()):
        assert abs(value - before[context, attribute]) <= 105  # and the rounding of either
        before[context, attribute] = value
    assert np.array_equal(before, work.values)


def test_the_cost_model_is_that_of_found():
    rows = agile.cost_model(agile.Scale(), RUN)["cost-model"]
    for row in rows:
        approach = "AGILE range" if row["approach"] == "AGILE" else row["approach"]
        found = Found(
            messages=1, updates=row["updates"], moved=row["moves"] + row["AGILE moves"], shrunk=0,
            postfiltered=row["profiles"], matched=0, real_s=0,
        )
        assert 1 / found.modelled_s(approach) == pytest.approx(row["from the constants in use"])
        assert abs(row["from the constants in use"] / row["printed msg/s"] - 1) < 0.12


def test_runs_are_repeated_to_the_count():
    for approach in APPROACHES:
        setting = Setting(approach, SMALL, 1_000, 30, 20, Fixed(2))
        first, second = run(setting), run(setting)
        assert (first.moved, first.shrunk, first.postfiltered, first.matched) == (
            second.moved, second.shrunk, second.postfiltered, second.matched)
        assert first.updates == pytest.approx(500_000 / 300 * per_message(300, 1_000))


def test_every_approach_finds_the_same_matches():
    many = Load(profiles=10_000, share=0.5)  # a pair matches once in two million
    found = {approach: run(Setting(approach, many, 1, 1_000, 5)).matched for approach in APPROACHES}
    assert len(set(found.values())) == 1 and found["NOINDEX"] > 0


def printed(tables):
    """Experiment 1 as the paper prints it."""
    found = copy.deepcopy(tables)
    for row in next(iter(found.values())):
        paper, at = row["approach"].split()[0], agile.RATES.index(row["UP"])
        for column, said in (("modelled msg/s", agile.PAPER_THROUGHPUT), ("index updates, M", agile.PAPER_MOVED),
                             ("post-filtered, M", agile.PAPER_POSTFILTERED)):  # fmt: skip
            if paper in said:
                row[column] = float(said[paper][at]) * (0.9 if row["approach"] == "AGILE piecewise" else 1)
    return found


def slows_down(tables):
    """Experiment 3 as the paper tells it: times at the nearest distance, and at all others."""
    found = copy.deepcopy(tables)
    told = {"NOINDEX": (480, 480), "EAGER": (770, 770), "GBU": (200, 770), "AGILE range": (150, 480)}
    for row in found["experiment-3"]:
        row["modelled s"] = told.get(row["approach"], (100, 100))[row["distance of updates"] > 1.0]
        row["real s, this size"] = 1.0
    return found


def near(tables):
    """Readings as near as is asked for."""
    return {name: [row | {"off table 4": 1.2, "off table 5": 1.3} for row in rows] for name, rows in tables.items()}


RIGHT = {
    "experiment-1-together": printed, "experiment-1-share-20": printed, "experiment-1-share-90": printed,
    "experiment-3": slows_down, "readings": near, "readings-gbu": near,
}  # fmt: skip


def test_what_the_paper_prints_makes_its_tables_hold():
    """All but the claim that its own table 3 contradicts."""
    experiment = next(each for each in agile.EXPERIMENTS if each.name == "experiment-1-together")
    tables = printed({"experiment-1-together": [
        {"approach": approach, "UP": rate, "modelled msg/s": 0.0, "index updates, M": 0.0, "post-filtered, M": 0.0,
         "real msg/s": 1.0} for approach in APPROACHES for rate in agile.RATES
    ]})  # fmt: skip
    found = {each.key: judged("", (1,), [each]).verdict for each in experiment.judge(tables)}
    assert [key for key, verdict in found.items() if verdict == FAILS] == ["magnitude"]


@pytest.mark.parametrize("experiment", agile.EXPERIMENTS, ids=lambda each: each.name)
def test_each_claim_follows_from_its_tables_and_can_fail(experiment, monkeypatch):
    monkeypatch.setattr(agile, "scale_of", lambda run: TINY)
    some = [Reading(share, together, value_only=only) for share in (0.2, 0.9) for together in (False, True)
            for only in (False, True)]  # fmt: skip
    monkeypatch.setattr(agile.agile_readings, "readings", lambda: iter(some))
    tables = experiment.measure(RUN)
    shown = set(experiment.titles)
    assert shown and shown <= set(tables) and set(tables) - shown <= {"burst"}
    axes = ("UP", "share", "updates on indexed attributes", "distance of updates", "message", "probes", "profiles")
    claims = [each.key for each in experiment.judge(tables)]
    right = RIGHT.get(experiment.name, lambda tables: None)(tables)
    assert [key for key in claims if not broken_by(experiment, tables, key, axes, right)] == []
    assert len(set(claims)) == len(claims)
    for picture in experiment.draw(tables):
        assert picture.curves and all(len(each.x) == len(each.y) > 0 for each in picture.curves)


@pytest.mark.parametrize(
    ("scale", "expected"), [(agile.Scale(), [100, 1_000, 10_000]), (agile.FULL, [10, 100, 1_000, 10_000])]
)
def test_values_of_fp_that_come_to_the_same_are_measured_once(scale, expected):
    assert agile.told_apart(scale) == expected
    assert len({agile.fixed(scale, each) for each in expected}) == len(expected)


@pytest.mark.parametrize("scale", [agile.Scale(), agile.FULL])
def test_experiment_4_has_the_messages_of_the_paper_at_either_scale(scale, monkeypatch):
    played = []
    real = agile.play
    monkeypatch.setattr(agile, "play", lambda f, w, count, rate: played.append((count, rate)) or real(f, w, 1, rate))
    agile.experiment_4(replace(scale, profiles=20), RUN)
    parts = [played[at : at + 51] for at in range(0, len(played), 51)]
    assert len(parts) == 5 + len(agile.OTHER_C) + len(agile.told_apart(replace(scale, profiles=20)))
    for warm_up, *each in parts:
        assert warm_up == (500, 1)
        assert [sum(count for count, _ in some) for some in (each[:10], each[10:20], each[20:])] == [1000, 1000, 3000]
        assert {rate for _, rate in each[10:20]} == {1_000} and {rate for _, rate in each[:10] + each[20:]} == {1}


def test_who_is_left_out_of_the_sweep_of_fp_is_named():
    few, all_ = (
        {"experiment-4": [{"approach": name, "modelled msg/s": 100.0, "before the burst": 1.0, "in it": 1.0,
                           "at the end": 1.0} for name in ("NOINDEX", "EAGER", "GBU", agile.SWIFT,
                                                           *(f"AGILE range fixed({fp:,})" for fp in some),
                                                           *(f"AGILE range auto({c:,})" for c in agile.OTHER_C))],
         "burst": [{"approach": agile.SWIFT, "modelled msg/s": 1.0}] * 50}
        for some in (agile.FIXED[1:], agile.FIXED)
    )  # fmt: skip
    notes = [{each.key: each.note for each in agile.judge_4(of)}["insensitive"] for of in (few, all_)]
    assert notes == ["FP = 10 cannot be had at this scale", ""]


def test_updates_come_as_often_as_the_rate_says_also_where_they_are_fewer_than_messages():
    found = run(Setting("NOINDEX", Load(profiles=5_000), 1, 1_000, 10))
    assert found.updates * 5_000 / 500_000 * 1_000 == pytest.approx(500, abs=1)


def test_predicates_of_a_profile_are_bound_together_where_the_load_says_so():
    table = Workload(Load(profiles=20_000, together=True)).table
    bound = (table.context >= 0).reshape(-1, ATTRIBUTES)
    assert (bound[:, 0] == bound[:, 1]).all() and not (bound[:, 1] == bound[:, 2]).all()
    assert abs(bound[:, 0].mean() - 0.2) < 0.01


def test_counting_without_an_index_comes_near_the_filters():
    """What moves and what is post-filtered, for one reading."""
    reading = Reading(together=True, false_positives=5_000, profiles=2_000)
    load = Load(profiles=2_000, together=True)
    for rate in (10, 1_000):
        counted_ = counted(reading, rate, 400, 1)
        eager, agile_ = (run(Setting(name, load, rate, 400, 500, Fixed(20))) for name in ("EAGER", "AGILE range"))
        assert counted_.eager_moved == pytest.approx(eager.moved * agile.MILLIONS, rel=0.1)
        assert counted_.eager_postfiltered == pytest.approx(eager.postfiltered * agile.MILLIONS, rel=0.1)
        assert counted_.moved == pytest.approx(agile_.moved * agile.MILLIONS, rel=0.35)
        assert counted_.postfiltered == pytest.approx(agile_.postfiltered * agile.MILLIONS, rel=0.35)


def test_counting_gbu_without_an_index_comes_near_its_filter():
    """Where regions end at the nodes around their intervals, which is how the filter reads the paper."""
    for rate in (10, 1_000):
        found = agile_gbu.counted(agile_gbu.GbuReading(together=True, profiles=2_000), rate, 400, 1)
        gbu = run(Setting("GBU", Load(profiles=2_000, together=True), rate, 400, 500))
        assert found.moved == pytest.approx(gbu.moved * agile.MILLIONS, rel=0.1)
        assert found.postfiltered == pytest.approx(gbu.postfiltered * agile.MILLIONS, rel=0.1)


@pytest.mark.parametrize("scope", agile_gbu.SCOPES)
@pytest.mark.parametrize(("beside", "grows", "spacing"), [(False, False, 0.0), (True, False, 0.0), (True, True, 300.0)])
def test_gbu_is_counted_as_plain_python_counts_it(scope, beside, grows, spacing):
    reading = agile_gbu.GbuReading(True, spacing, beside, grows, scope, share=0.9, profiles=60)
    rate, messages = 40_000, 60
    work = Workload(Load(60, 0.9, together=True))
    bound = (work.table.context >= 0).reshape(-1, ATTRIBUTES)
    centre = np.where(bound, work.values, work.table.constant.reshape(-1, ATTRIBUTES))
    regions = [[(centre[p, a] - 245.0, centre[p, a] + 245.0) for a in range(2)] for p in range(60)]
    lists = []
    for a in range(2):
        kept = []
        for node in sorted({end for region in regions for end in region[a]}):
            if not kept or node - kept[-1] >= spacing:
                kept.append(node)
        lists.append(kept)
    moved = found = 0
    for at, message in enumerate(work.messages(agile_gbu.WARM + messages)):
        counts = at >= agile_gbu.WARM
        found += counts * sum(all(low <= value <= high for (low, high), value in zip(region, message))
                              for region in regions)  # fmt: skip
        for p, a, value in zip(*(each.tolist() for each in work.updates(60 * rate // 10_000))):
            if a > 1 or not bound[p, a]:
                continue
            low, high = value - 245.0, value + 245.0
            if regions[p][a][0] <= low and high <= regions[p][a][1]:
                continue
            moved += counts
            below = [node for node in lists[a] if (node < low if beside else node <= low)]
            above = [node for node in lists[a] if (node > high if beside else node >= high)]
            if (not below and scope == "both") or (not above and scope != "none"):
                regions[p][a] = (-np.inf, np.inf)
                continue
            new = (below[-1] if below else -np.inf, above[0] if above else np.inf)
            old = regions[p][a]
            regions[p][a] = (min(new[0], old[0]), max(new[1], old[1])) if grows else new
    scale = 500_000 / 60 * 10_000 / messages / 1e6
    counted_ = agile_gbu.counted(reading, rate, messages, 1)
    assert moved > 0 and counted_.moved == pytest.approx(moved * scale)
    assert counted_.postfiltered == pytest.approx(found * scale)


def test_where_the_value_alone_is_tested_fewer_regions_move():
    moved = [counted(Reading(value_only=only, profiles=500), 1_000, 50, 1).moved for only in (False, True)]
    assert moved[1] < moved[0]


def test_the_group_measures_every_row_at_any_size():
    names = ("NOINDEX", "EAGER", "GBU", "AGILE", "cells", "cells eager")
    sizes = Sizes(profiles=300, slices=1, messages=3, update_slices=2, warm_updates=100,
                  rates=((1, 2, 1, names), (1_000, 1, 1, ("NOINDEX", "AGILE", "cells"))))
    found = [row["name"] for row in rows(sizes)]
    assert len(found) == len(set(found)) > 15
