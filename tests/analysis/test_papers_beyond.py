"""What papers would find today: claims follow from tables, hold where a paper is right, and can fail."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.bench.subscriptions import Workload
from analysis.papers import agile_beyond, beyond, htree_beyond, merging_beyond, part_beyond, topk_beyond
from analysis.papers.agile_workload import SCHEMA
from analysis.papers.claims import HOLDS, REPORTED, judged
from analysis.papers.experiment import Run
from analysis.papers.htree import Point
from analysis.papers.registry import PAPERS
from brokers.errors import InvalidInput
from brokers.indexes.context.filter import NoIndex
from brokers.indexes.spatial.part import Part
from brokers.indexes.topk.quick import Quick
from brokers.planning import planner
from brokers.registry import load
from tests.analysis.wrong_data import broken_by

RUN = Run(1, False, lambda text: None)
SMALL = part_beyond.Point(300, 60)
MODULES = {
    "htree": (htree_beyond, htree_beyond.Scale((100, 300), 300, events=3, changes=3, repeats=1)),
    "topk": (topk_beyond, topk_beyond.Scale((100, 300), 300, 2_000, messages=2, repeats=1)),
    "agile": (agile_beyond, agile_beyond.Scale((100, 300), 3, 2, 3_000)),
    "merging": (
        merging_beyond, merging_beyond.Scale(((6, 2), (12, 2), (16, 1)), ((12, 1), (16, 1)), ((4, 2, 2), (5, 2, 2)))
    ),
    "part": (part_beyond, part_beyond.Scale((100, 300), SMALL, 6, lives=4, churn=(0, 1), repeats=1)),
}  # fmt: skip
AXES = ("subscriptions", "filters", "width", "profiles", "UP", "|Q|", "clients", "channels", "objects", "partitions")


@pytest.fixture(scope="module")
def measured():
    """The tables of each, measured once at a small scale."""
    found = {}

    def of(name):
        if name not in found:
            module, scale = MODULES[name]
            found[name] = module.measured(scale, RUN)
        return deepcopy(found[name])

    return of


@pytest.mark.parametrize("name", MODULES)
def test_the_reproduction_has_it_and_its_tables_and_pictures_have_what_they_name(name, measured):
    (experiment,) = MODULES[name][0].EXPERIMENTS
    assert any(load(each) == [experiment] for each in PAPERS[name].facts["further"])
    tables = measured(name)
    assert set(tables) == set(experiment.titles) and all(tables.values())
    pictures = list(experiment.draw(tables))
    assert pictures[0].name == "beyond"
    for picture in pictures:
        assert len(picture.curves) > 1 and all(len(each.x) == len(each.y) > 0 for each in picture.curves)


@pytest.mark.parametrize("name", MODULES)
def test_all_answer_alike(name, measured):
    (experiment,) = MODULES[name][0].EXPERIMENTS
    found = {each.key: judged("", (1,), [each]).verdict for each in experiment.judge(measured(name))}
    assert found["same"] == HOLDS


# ---- tables by which a paper is right --------------------------------------------------------------------


def right_htree(tables):
    for rows in tables.values():
        for row in rows:
            row |= {f"{name}, µs": 1_000.0 for name in htree_beyond.RIVALS}
            row["H-Tree, µs"] = row["H-Tree, tuned, µs"] = 0.5 if row.get("subscriptions") == 300 else 100.0
            row |= {"H-Tree, bytes": 4.0, "cells, bytes": 40.0}
            row |= {"H-Tree, µs per change": 1.0, "cells, µs per change": 10.0}
    return tables


def right_topk(tables):
    for rows in tables.values():
        for at, row in enumerate(rows):
            row |= {f"{name}, µs": 1_000.0 * (at + 1) for name in topk_beyond.RIVALS}
            row["interval trees, µs"] = 10.0
            row |= {"interval trees, bytes": 10.0, "bit slices, bytes": 100.0}
    return tables


def right_agile(tables):
    said = {"NOINDEX": 20.0, "EAGER": 10.0, "GBU": 10.0, "cells": 5.0, "AGILE piecewise": 8.0}
    for row in tables["beyond"]:
        busy = (row["approach"], row["UP"]) == ("EAGER", 10_000)
        row[agile_beyond.TOTAL] = 100.0 if busy else said.get(row["approach"], 1.0)
    for row in tables["beyond-costs"]:
        row |= {"profiles per index update": 273.0, "profiles per context update": 1.55}
    return tables


def right_merging(tables):
    for row in tables["beyond-exact"]:
        exact_ms = 10_000.0 * row["|Q|"] ** 3
        row |= {"subset programme, ms": exact_ms, "branch and bound, ms": exact_ms, "every partition, ms": 10.0}
        row |= {f"{name}, ms": 1.0 for name in merging_beyond.HEURISTICS}
        row |= {"Pair Merging dearer %": 0.5, "Directed Search dearer %": 0.1, "moves of single queries dearer %": 0.3}
    for row in tables["beyond-far"]:
        row |= {"proved optimal %": 0.0, "Pair Merging distance %": 1.0}
    for row in tables["beyond-channels"]:
        row |= {"optimum, ms": 10.0, "Channel Merging, ms": 1.0, "Channel Merging dearer %": 0.5}
        row["stronger dearer %"] = 0.1
    return tables


def right_part(tables):
    for rows in tables.values():
        for row in rows:
            row |= {"PART, µs": 10.0, "materialised, µs": 100.0}
            if "inverted file, µs" in row:
                row |= {"inverted file, µs": 1_000.0, "everything compared, µs": 1_000.0, "B-PART, µs": 5.0}
                row |= {"PART, bytes": 10.0, "materialised, bytes": 100.0}
            if row.get("shape") == "delta = 2":
                row["PART, µs"] = 5.0
    return tables


RIGHT = {"htree": right_htree, "topk": right_topk, "agile": right_agile, "merging": right_merging, "part": right_part}


@pytest.mark.parametrize("name", MODULES)
def test_each_claim_holds_where_the_paper_is_right_and_fails_by_some_lie(name, measured):
    (experiment,) = MODULES[name][0].EXPERIMENTS
    tables = RIGHT[name](measured(name))
    found = {each.key: judged("", (1,), [each]).verdict for each in experiment.judge(tables)}
    assert {key: verdict for key, verdict in found.items() if verdict not in (HOLDS, REPORTED)} == {}
    assert [key for key in found if not broken_by(experiment, tables, key, AXES)] == []


# ---- who answers otherwise is noticed --------------------------------------------------------------------


def test_a_content_index_that_forgets_is_noticed(monkeypatch):
    point = Point(Workload(attributes=2, ranges=1, width=0.5), levels=1, cells=2)
    scale = MODULES["htree"][1]
    assert htree_beyond.compared(point, 50, scale, 1)["matches"] > 1
    real = htree_beyond.contenders

    def forgetful(ids, rows):
        index = real(point)[htree_beyond.CELLS](ids, rows)
        index.delete(ids[::2])
        return index

    monkeypatch.setattr(htree_beyond, "contenders", lambda point: {**real(point), htree_beyond.CELLS: forgetful})
    assert htree_beyond.compared(point, 50, scale, 1)["differ"] == 1


def test_a_ranking_that_forgets_is_noticed(monkeypatch):
    class Forgetful(Quick):
        def insert(self, ids, rows, receivers=None):
            super().insert(ids[::2], rows[::2], receivers)

    scale = MODULES["topk"][1]
    monkeypatch.setattr(topk_beyond, "CONTENDERS", {**topk_beyond.CONTENDERS, topk_beyond.COMPILED: Forgetful})
    assert topk_beyond.compared(topk_beyond.BASE, 200, scale, 1)["differ"] == 1


def test_a_filter_that_answers_too_much_is_noticed(monkeypatch):
    class Generous(NoIndex):
        def handle_many(self, messages):
            return np.array([0, 1]), np.array([7])

    real = agile_beyond.make
    monkeypatch.setattr(
        agile_beyond, "make",
        lambda name, *rest: Generous(SCHEMA) if name == "GBU" else real(name, *rest),
    )  # fmt: skip
    rows = agile_beyond.compared(100, 1, MODULES["agile"][1], 1)
    assert {row["approach"]: row["differ"] for row in rows if row["differ"]} == {"GBU": 3}


def test_an_optimum_that_is_none_is_noticed(monkeypatch):
    monkeypatch.setattr(merging_beyond, "subset_programme", planner.separate)
    assert merging_beyond.exact(9, 3, RUN.generator("test"))["not the same optimum"] == 3


def test_an_answer_that_lacks_somebody_is_noticed(monkeypatch):
    class Silent(Part):
        def reverse(self, queries):
            return np.zeros(len(queries.ids) + 1, np.int64), np.empty(0, np.int64)

    scale = MODULES["part"][1]
    right = part_beyond.compared(SMALL, scale, 1)
    assert right["wrong"] == 0 and right["answers"] > 0
    monkeypatch.setattr(part_beyond, "Part", Silent)
    assert part_beyond.compared(SMALL, scale, 1)["wrong"] > 0


def test_the_inverted_file_answers_what_is_defined():
    """Beside everything compared, where objects share several words of a subscription."""
    row = part_beyond.compared(part_beyond.Point(120, 40, words=6, k=3), MODULES["part"][1], 2)
    assert row["wrong"] == 0 and row["inverted file, µs"] and row["everything compared, µs"]


# ---- the page --------------------------------------------------------------------------------------------


PAGE = "# Beyond\n\n<!-- beyond: topk -->\nold\n<!-- end beyond: topk -->\nthe rest\n"


@pytest.fixture
def little(monkeypatch, tmp_path):
    """The experiment on top-k at a small scale, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    (experiment,) = topk_beyond.EXPERIMENTS
    small = replace(experiment, measure=lambda run: topk_beyond.measured(MODULES["topk"][1], run))
    monkeypatch.setattr(beyond, "experiment_of", lambda name: small)
    return tmp_path / "page.md"


def test_a_page_gets_claims_and_a_figure_and_keeps_the_rest(little, capsys):
    little.write_text(PAGE, encoding="utf-8")
    beyond.main(["topk"], little)
    text = little.read_text(encoding="utf-8")
    assert text.startswith("# Beyond\n\n<!-- beyond: topk -->\n- Measured ") and text.endswith("-->\nthe rest\n")
    assert "`brokerlab reproduce topk --claim beyond`, seeds 1 to 3" in text and "\nold\n" not in text
    assert "| All contenders give the same answers " in text
    figure = (little.parent / "beyond-topk.svg").read_text(encoding="utf-8")
    assert figure.startswith("<svg ") and "interval trees" in figure and len(figure) < 20_000
    beyond.main(["topk"])  # what was measured counts, so the same is printed
    assert capsys.readouterr().out.splitlines()[5:] == text.splitlines()[8:-2]


def test_a_page_that_has_no_place_for_it_is_left_alone(little):
    with pytest.raises(InvalidInput, match="there is no such page"):
        beyond.main(["topk"], little)
    little.write_text("# Nothing\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match="no section between '<!-- beyond: topk -->'"):
        beyond.main(["topk"], little)
    assert little.read_text(encoding="utf-8") == "# Nothing\n" and not list(little.parent.glob("*.svg"))
    with pytest.raises(InvalidInput, match="nothing beyond a paper 'gossip'; there are htree, topk"):
        beyond.main(["gossip"], little)


@pytest.mark.parametrize("name", beyond.NAMES)
def test_each_paper_has_its_experiment_and_its_section(name):
    assert beyond.experiment_of(name) is MODULES[name][0].EXPERIMENTS[0]
    docs = Path(__file__).parents[2] / "docs"
    text = (docs / "beyond.md").read_text(encoding="utf-8")
    assert f"<!-- beyond: {name} -->\n- Measured " in text and f"](beyond-{name}.svg)" in text
    assert (docs / f"beyond-{name}.svg").is_file()
