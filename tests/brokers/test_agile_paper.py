"""The paper's workload, cost model and experiments, on a small scale."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.bench.agile import Sizes, rows
from analysis.papers import agile
from analysis.papers.agile_runs import APPROACHES, Found, Setting, per_message, run
from analysis.papers.agile_workload import ATTRIBUTES, DOMAIN, SCHEMA, Load, Workload, rounded
from analysis.papers.claims import HOLDS
from analysis.papers.experiment import Run, Told
from brokers.indexes.context.policies import Fixed

SMALL = Load(profiles=300)


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


def test_the_cost_model_gives_the_paper_s_table_3_from_its_tables_4_and_5():
    for name, throughput in agile.PAPER_THROUGHPUT.items():
        approach = "AGILE range" if name == "AGILE" else name
        for i, rate in enumerate(agile.RATES):
            found = Found(
                messages=1, updates=500_000 * rate / 10_000, moved=agile.PAPER_MOVED[name][i] * 100, shrunk=0,
                postfiltered=agile.PAPER_POSTFILTERED[name][i] * 100, matched=0, real_s=0,
            )
            assert abs(1 / found.modelled_s(approach) / throughput[i] - 1) < 0.12


def test_runs_are_repeated_to_the_count():
    for approach in APPROACHES:
        setting = Setting(approach, SMALL, 1_000, 30, 20, Fixed(2))
        first, second = run(setting), run(setting)
        assert (first.moved, first.shrunk, first.postfiltered, first.matched) == (
            second.moved, second.shrunk, second.postfiltered, second.matched)
        assert first.updates == 500_000 / 300 * per_message(300, 1_000)


def test_every_approach_finds_the_same_matches():
    many = Load(profiles=10_000, share=0.5)  # a pair matches once in two million
    found = {approach: run(Setting(approach, many, 1, 1_000, 5)).matched for approach in APPROACHES}
    assert len(set(found.values())) == 1 and found["NOINDEX"] > 0


def test_the_experiments_leave_tables_and_claims(tmp_path):
    report = Told(Run(1, False, lambda text: None))
    scale = agile.Scale(profiles=200, messages=(200, 200, 100, 50, 20), warm_messages=10, simple_updates=4_000)
    agile.experiment_1(report, scale, 0.2)
    assert any(said.claim.source.where == "figure 3" and said.verdict == HOLDS for said in report.claims)
    assert report.tables["experiment-1-share-20"]


def test_the_group_measures_every_row_at_any_size():
    names = ("NOINDEX", "EAGER", "GBU", "AGILE", "cells", "cells eager")
    sizes = Sizes(profiles=300, slices=1, messages=3, update_slices=2, warm_updates=100,
                  rates=((1, 2, 1, names), (1_000, 1, 1, ("NOINDEX", "AGILE", "cells"))))
    found = [row["name"] for row in rows(sizes)]
    assert len(found) == len(set(found)) > 15
