"""What a reproduction judges, keeps and writes, and what the command says of it."""

from __future__ import annotations

import json
import math
import os
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.bench.machine import machine
from analysis.papers import claims as c
from analysis.papers import reproducing
from analysis.papers.claims import FAILS, HOLDS, REPORTED, UNSURE, Claim, Figure, Spread, judged
from analysis.papers.experiment import Experiment, Picture, Run, Tables, curves
from analysis.papers.registry import PAPERS
from analysis.papers.reproducing import Asked, MeasurementsLost, reproduce
from analysis.papers.writing import markdown
from brokers.errors import InvalidInput
from brokers.registry import load
from scenarios.cli import main
from tests.analysis.wrong_data import broken_by

SAID = c.printed("section 5, table 1")


def claim(value: float | None, bound: c.Bound | None, **more: float) -> Claim:
    figures = {"": Figure(value, bound)} if not more else {name: Figure(each, bound) for name, each in more.items()}
    return Claim("linear", "time is linear", SAID, figures)


def verdict(values: list[float | None], bound: c.Bound | None) -> str:
    return judged("e", range(len(values)), [claim(value, bound) for value in values]).verdict


# ---- verdicts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "bound", "expected"),
    [
        ([2.0, 2.1, 1.9], c.at_least(1), HOLDS),
        ([2.0, 2.1, 1.9], c.at_most(1), FAILS),
        ([1.0, 1.4, 0.7], c.at_least(1), UNSURE),
        ([2.0, 2.1, 1.9], None, REPORTED),
        ([1.0, 1.0, 1.0], c.above(1), FAILS),
        ([1.0, 1.0, 1.0], c.at_least(1), HOLDS),
        ([0.0, 0.0], c.exactly(0), HOLDS),
        ([0.0, 1.0], c.exactly(0), FAILS),
        ([-1.0, 1.0], c.exactly(0), FAILS),
        ([7.0], c.between(6, 8), HOLDS),
        ([math.nan, 1.0], c.at_least(0), FAILS),
        ([10.4, 10.6, 10.5], c.near(10, 0.02), FAILS),
    ],
)
def test_a_verdict_is_that_of_the_mean_unless_other_seeds_might_say_the_opposite(values, bound, expected):
    assert verdict(values, bound) == expected


def test_a_figure_without_a_number_is_unsure_and_one_that_some_seeds_have_is_theirs():
    """A mean over no runs says neither that a claim holds nor that it does not."""
    assert verdict([None, None], c.at_most(1)) == verdict([None], c.at_most(1)) == UNSURE
    assert verdict([None, 0.1, 0.2], c.at_most(1)) == HOLDS and verdict([None, 5.0, 5.1], c.at_most(1)) == FAILS
    assert verdict([None, 0.1], c.at_most(1)) == UNSURE  # whose spread is not known
    assert verdict([None, None], None) == REPORTED
    none = judged("e", (1, 2), [claim(None, c.at_most(1))] * 2)
    assert (none.measured, none.reason) == ("no number", "2 of 2 seeds have no such number")
    assert none.as_data()["figures"][0]["mean"] is None
    some = judged("e", (1, 2, 3), [claim(value, c.at_most(1)) for value in (None, 0.1, 0.2)])
    assert some.reason == "1 of 3 seeds have no such number"


def test_one_figure_outside_breaks_a_claim_and_is_named():
    found = judged("e", (1, 2), [claim(0, c.at_most(3), few=1, many=value) for value in (5.0, 5.1)])
    assert (found.verdict, found.reason) == (FAILS, "not so: many")
    assert found.expected == "at most 3" and found.measured == "few: 1, many: 5.05 ± 0.0707"


def test_seeds_that_say_the_opposite_are_counted():
    found = judged("e", range(9), [claim(value, c.at_least(1)) for value in (*[5.0] * 8, 0.9)])
    assert found.verdict == HOLDS and "1 of 9 seeds by themselves say the opposite" in found.reason
    alone = judged("e", (1,), [claim(2.0, c.at_least(1))])
    assert alone.reason == "one seed, so its spread is not known"


def test_means_of_drawn_seeds_flip_as_seldom_as_is_said():
    """Of normal figures whose mean may lie on either side."""
    random = np.random.Generator(np.random.PCG64(3))
    for off in (0.3, 0.6, 1.0, 2.0):
        found = [verdict(list(random.normal(off, 1.0, 3)), c.at_least(0)) for _ in range(600)]
        assert found.count(FAILS) / len(found) < c.FLIPS_MOST
    assert found.count(HOLDS) > 200  # and some are given


@pytest.mark.parametrize("count", [1, 10])
def test_a_claim_of_ten_figures_that_just_holds_says_the_opposite_no_oftener_than_one_of_one(count):
    """Means of other seeds are drawn about those of these, as Student's t has them; one beyond its bound is enough."""
    values = (1.0, 2.0, 3.0, 4.0)
    edge = Spread(values, c.at_least(0), judged=count)
    room = edge._room(len(values))
    names = [str(at) for at in range(count)]
    for bound, expected in ((2.5 - 1.001 * room, HOLDS), (2.5 - 0.999 * room, UNSURE)):
        given = [claim(0, c.at_least(bound), **dict.fromkeys(names, value)) for value in values]
        assert judged("e", range(4), given).verdict == expected
    off = np.random.Generator(np.random.PCG64(4)).standard_t(3, (20_000, count)) * edge.deviation * math.sqrt(2 / 4)
    assert 0.8 * c.FLIPS_MOST < (off.min(axis=1) < -room).mean() < 1.1 * c.FLIPS_MOST


def test_a_figure_among_ten_has_to_be_farther_from_its_bound_than_one_alone():
    values = [2.0, 2.6, 1.4]
    assert verdict(values, c.at_least(0.2)) == HOLDS
    beside = {f"n{at}": 9.0 for at in range(9)}
    found = judged("e", range(3), [claim(0, c.at_least(0.2), one=value, **beside) for value in values])
    assert found.verdict == UNSURE and found.reason.startswith("one: ")


def test_what_has_to_be_none_holds_of_so_many_runs_and_says_of_how_many_it_may_be_otherwise():
    """The rule of three: of a thousand runs, what is seen in none may happen in three."""
    none, one = (
        judged("e", (1, 2), [Claim("k", "never", SAID, {"": Figure(count, c.exactly(0), 500)})] * 2)
        for count in (0, 1)
    )
    assert none.verdict == HOLDS
    assert none.reason == "in none of 1,000 runs, so in at most one of 333 with 95 % confidence"
    assert one.verdict == FAILS and "none of" not in one.reason
    assert (1 - 1 / (1_000 / 3)) ** 1_000 < 0.05  # whatever happens oftener is seen that surely


@pytest.mark.parametrize(("seeds", "expected"), [(1, UNSURE), (3, UNSURE), (20, UNSURE), (21, HOLDS)])
def test_a_share_of_few_runs_in_which_all_seeds_agree_is_not_certain(seeds, expected):
    share = Claim("k", "nearly always", SAID, {"": Figure(100.0, c.at_least(99), 15)})
    found = judged("e", range(seeds), [share] * seeds)
    assert found.verdict == expected
    assert expected == HOLDS or found.reason == "21 seeds would decide it (`--seeds 21`)"


@given(st.floats(0.05, 5), st.floats(0.05, 2), st.integers(2, 6))
def test_so_many_seeds_would_decide_it(off, deviation, count):
    values = [off + deviation * (-1) ** at for at in range(count - count % 2)]
    spread = Spread(tuple(values), c.at_least(0))
    if spread.verdict() != UNSURE:
        return
    enough = spread.decided_by()
    if enough is None:
        assert off <= spread._room(c._SEEDS_MOST)
        return
    assert enough > len(values)
    assert off > spread._room(enough) and off <= spread._room(enough - 1)


def test_nobody_decides_what_lies_on_its_bound():
    found = judged("e", range(3), [claim(value, c.at_least(1)) for value in (0.9, 1.0, 1.1)])
    assert found.reason == "10,000 seeds would not decide it"


def test_seeds_that_measure_other_things_are_a_mistake():
    with pytest.raises(ValueError, match="seeds differ in what they measure"):
        judged("e", (1, 2), [claim(1, None, a=1), claim(1, None, b=1)])


@pytest.mark.parametrize(
    ("found", "by_hand", "expected"),
    [
        (lambda size: size, None, True),  # 4, and some lie is above 5
        (lambda size: 1.0, None, False),  # holds of any table
        (lambda size: 9.0, None, False),  # and of none
        (lambda size: 1.0 if size == 4.5 else 9.0, None, False),  # of one that no lie comes by
        (lambda size: 1.0 if size == 4.5 else 9.0, 4.5, True),
        (lambda size: 9.0, 4.5, False),  # not even of that which was made by hand
    ],
)
def test_a_claim_is_tested_that_may_come_to_either(found, by_hand, expected):
    def judge(tables: Tables):
        yield Claim("size", "at most five", SAID, {"": Figure(found(tables["sizes"][0]["size"]), c.at_most(5))})

    experiment = Experiment("sizes", "Sizes", measured, judge)
    right = None if by_hand is None else {"sizes": [{"size": by_hand}]}
    assert broken_by(experiment, {"sizes": [{"size": 4.0}]}, "size", (), right) == expected


# ---- a reproduction --------------------------------------------------------------------------------------


def measured(run: Run) -> dict:
    run.say("half way")
    draw = float(run.generator("toy").normal(0, 0.01))
    return {"times": [{"size": size, "us": size * (1.5 + draw)} for size in (10, 100)]}


def judge(tables: dict):
    small, large = tables["times"]
    yield Claim("linear", "time | is linear", SAID, {"": Figure(large["us"] / small["us"], c.near(10, 0.01))})
    yield Claim("magic", "a thousand times", c.read_off("figure 9"), {"": Figure(small["us"], c.at_least(1e3))})


def draw(tables: dict):
    times = tables["times"]
    series = {"scan": ([row["size"] for row in times], [row["us"] for row in times])}
    yield Picture("times", "Times", "size", "us", curves(series), log_x=True)


TOY = Experiment("toy", "Toys & <b>bold</b>", measured, judge, draw, {"times": "Times"}, "Otherwise than there.")


def words(tables: Tables):
    size = tables["words"][0]["bytes"]
    yield Claim("memory", "bytes", c.derived("n bytes"), {"": Figure(size)}, "not given")
    yield Claim("right", "one", SAID, {"": Figure(tables["words"][0]["one"], c.exactly(1))})


WORDS = Experiment(
    "words", "Words", lambda run: {"words": [{"bytes": np.int64(4), "one": 1}]}, words, titles={"words": "Words"}
)


def run(folder: Path, capsys, experiments=(TOY,), **more) -> dict:
    found = reproduce("toys", experiments, Asked("toy", folder / "toy", **more), as_text=False)
    assert capsys.readouterr().out == ""
    return json.loads(json.dumps(found))


def test_it_leaves_claims_tables_figures_and_pages(tmp_path, capsys):
    document = run(tmp_path, capsys, (TOY, WORDS))
    folder = tmp_path / "toy"
    verdicts = {each["key"]: each["verdict"] for each in document["claims"]}
    assert verdicts == {"toy/linear": HOLDS, "toy/magic": FAILS, "words/memory": REPORTED, "words/right": HOLDS}
    assert [each["source"] for each in document["claims"]] == ["printed", "read off", "derived", "printed"]
    kept = json.loads((folder / "claims.json").read_text())
    assert kept["claims"] == document["claims"] and kept["seeds"] == [1, 2, 3]
    assert kept["command"] == "brokerlab reproduce toy" and kept["machine"] and kept["versions"]
    assert pq.read_table(folder / "times.parquet").to_pydict()["seed"] == [1, 1, 2, 2, 3, 3]
    svg = (folder / "times.svg").read_text()
    assert svg.startswith("<svg ") and svg.count('class="bars') == 1  # over seeds
    text = (folder / "report.md").read_text()
    assert "bars in figures go from least to most" in text
    assert "time \\| is linear" in text and "1 reported" in text and "![Times](times.svg)" in text
    page = (folder / "report.html").read_text()
    assert "brokerlab reproduce toy --claim toy/linear" in page and "<b>bold" not in page
    assert "Content-Security-Policy" in page
    index = (tmp_path / "index.html").read_text()
    assert "toy/report.html" in index and "time | is linear" in index


def test_bars_go_from_the_least_seed_to_the_most(tmp_path, capsys):
    """As pages say of them."""
    (found,) = reproducing.carried_out([TOY], Asked("toy", tmp_path / "toy"))
    (curve,) = found.pictures[0].curves
    by_seed = [[row["us"] for row in tables["times"]] for tables in found.by_seed]
    assert list(curve.low) == [min(each) for each in zip(*by_seed)]
    assert list(curve.high) == [max(each) for each in zip(*by_seed)] != list(curve.low)


def test_a_table_over_seeds_shows_means(tmp_path, capsys):
    run(tmp_path, capsys)
    rows = pq.read_table(tmp_path / "toy" / "times.parquet").to_pylist()
    mean = sum(row["us"] for row in rows if row["size"] == 10) / 3
    assert f"| {mean:.3g}" in (tmp_path / "toy" / "report.md").read_text()


def test_what_was_measured_is_not_measured_again(tmp_path, capsys):
    calls = []
    counted = replace(TOY, measure=lambda run: calls.append(run.seed) or measured(run))
    first = run(tmp_path, capsys, (counted,), seeds=2)
    again = run(tmp_path, capsys, (counted,), seeds=3)
    assert calls == [1, 2, 3]
    assert first["claims"][0]["figures"][0]["values"] == again["claims"][0]["figures"][0]["values"][:2]
    run(tmp_path, capsys, (counted,), seeds=1, full=True)
    run(tmp_path, capsys, (counted,), seeds=1, fresh=True)
    assert calls == [1, 2, 3, 1, 1]


def test_a_damaged_measurement_is_made_again_and_one_that_stopped_goes_on(tmp_path, capsys):
    def stops(run: Run) -> dict:
        if run.seed == 2:
            raise KeyboardInterrupt
        return measured(run)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, capsys, (replace(TOY, measure=stops),))
    kept = list((tmp_path / "toy" / "measured").iterdir())
    assert [each.name.rpartition("-")[0] for each in kept] == ["toy-1"]
    kept[0].write_text("{")
    seeds = []
    run(tmp_path, capsys, (replace(TOY, measure=lambda run: seeds.append(run.seed) or measured(run)),))
    assert seeds == [1, 2, 3]


def test_a_claim_is_repeated_alone(tmp_path, capsys):
    other = replace(TOY, name="other", measure=lambda run: pytest.fail("not asked for"))
    found = run(tmp_path, capsys, (TOY, other), claim="toy/magic")
    assert [each["key"] for each in found["claims"]] == ["toy/magic"]
    assert not (tmp_path / "toy" / "claims.json").exists()
    assert len(run(tmp_path, capsys, (TOY, other), claim="toy")["claims"]) == 2
    with pytest.raises(InvalidInput, match="there is no such claim; there are toy/linear, toy/magic"):
        run(tmp_path, capsys, (TOY,), claim="toy/none")
    with pytest.raises(InvalidInput, match="toy has no experiment 'none'; it has toy, other"):
        run(tmp_path, capsys, (TOY, other), claim="none")


@pytest.mark.parametrize("fresh", [False, True])
def test_a_claim_that_there_is_not_is_refused_before_anything_is_measured_where_something_was(fresh, tmp_path, capsys):
    calls = []
    counted = replace(TOY, measure=lambda run: calls.append(run.seed) or measured(run))
    for seeds, seed in ((3, 1), (3, 7)):  # at first of one seed, whose tables tell; then of none
        with pytest.raises(InvalidInput, match="--claim toy/none: there is no such claim; there are toy/linear, toy/m"):
            run(tmp_path, capsys, (counted,), claim="toy/none", seeds=seeds, seed=seed, fresh=fresh)
        assert calls == [1]
    assert [each["key"] for each in run(tmp_path, capsys, (counted,), claim="toy/magic")["claims"]] == ["toy/magic"]
    assert calls == [1, 2, 3]


def test_an_experiment_without_claims_has_none_to_repeat(tmp_path, capsys):
    with pytest.raises(InvalidInput, match="--claim toy/none: there is no such claim; toy has none"):
        run(tmp_path, capsys, (replace(TOY, judge=lambda tables: ()),), claim="toy/none")


def test_each_measurement_says_where_it_was_made_and_pages_say_where_they_differ(tmp_path, capsys, monkeypatch):
    run(tmp_path, capsys, seeds=1)
    report = tmp_path / "toy" / "report.md"
    assert f"- Machine: {machine()}\n" in report.read_text()
    monkeypatch.setattr(reproducing, "machine", lambda: "Another CPU")
    monkeypatch.setattr(reproducing, "versions", lambda: ["Python 9"])
    monkeypatch.setattr(os, "getloadavg", lambda: (7.25, 0.0, 0.0))
    document = run(tmp_path, capsys, seeds=2)
    first, second = document["measurements"]
    assert (first["machine"], first["seed"], first["experiment"]) == (machine(), 1, "toy")
    assert (second["machine"], second["versions"], second["load"]) == ("Another CPU", ["Python 9"], [7.25, 7.25])
    text = report.read_text()
    assert f"- Machine: 1 of 2 measurements: {machine()}; 1 of 2 measurements: Another CPU\n" in text
    assert "; 1 of 2 measurements: brokerlab" in text and "to 7.2 processes, the last minute" in text
    assert "1 of 2 measurements: Another CPU" in (tmp_path / "toy" / "report.html").read_text()


def alone(run: Run) -> dict:
    return {**measured(run), "who": [{"process": os.getpid()}]}


def dies(run: Run) -> dict:
    if run.seed == 2:
        os._exit(7)
    return measured(run)


def test_measurements_of_several_processes_are_those_of_one(tmp_path, capsys):
    apart = replace(TOY, measure=alone, titles={**TOY.titles, "who": "Who"})
    found = run(tmp_path / "two", capsys, (apart,), jobs=2)
    assert found["claims"] == run(tmp_path / "one", capsys)["claims"]
    assert (found["at_once"], found["command"]) == (2, "brokerlab reproduce toy")
    assert "up to 2 measurements at once" in (tmp_path / "two" / "toy" / "report.md").read_text()
    processes = pq.read_table(tmp_path / "two" / "toy" / "who.parquet").to_pydict()["process"]
    assert len(set(processes)) == 2 and os.getpid() not in processes


def test_what_a_process_that_died_had_to_measure_is_named_and_all_else_is_kept(tmp_path, capsys):
    with pytest.raises(MeasurementsLost, match=r"not measured: toy with seed 2: its process died \(exit code 7\)"):
        run(tmp_path, capsys, (replace(TOY, measure=dies),), jobs=2)
    seeds = []
    run(tmp_path, capsys, (replace(TOY, measure=lambda run: seeds.append(run.seed) or measured(run)),))
    assert seeds == [2]


@pytest.mark.parametrize("name", PAPERS)
def test_every_experiment_may_be_measured_by_another_process(name):
    entry = PAPERS[name]
    every = [each for target in (entry.target, *entry.facts.get("further", ())) for each in load(target)]
    assert all(pickle.loads(pickle.dumps(each.measure)) for each in every)
    assert len({each.name for each in every}) == len(every)


def test_for_people_each_claim_has_its_reason(tmp_path, capsys):
    reproduce("toys", [TOY], Asked("toy", tmp_path / "toy", seeds=1))
    shown = capsys.readouterr().out
    assert "DOES NOT HOLD: a thousand times  [toy/magic]" in shown and "read off: figure 9" in shown
    assert "1 holds, 1 does not hold" in shown and "one seed, so its spread is not known" in shown


def test_the_page_over_all_passes_over_what_another_version_wrote(tmp_path, capsys):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "claims.json").write_text('{"claims": [{"holds": true}]}')
    run(tmp_path, capsys)
    index = (tmp_path / "index.html").read_text()
    assert "toy/report.html" in index and "old/report.html" not in index


@pytest.mark.parametrize(
    ("name", "given", "count", "shown"),
    [
        ("gossip", [], 5, ""),
        ("gossip", ["--seeds", "3"], 3, " --seeds 3"),
        ("htree", [], 3, ""),
        ("htree", ["--seeds", "5"], 5, " --seeds 5"),
    ],
)
def test_each_reproduction_has_its_number_of_seeds(name, given, count, shown, monkeypatch):
    asked = []
    monkeypatch.setattr(reproducing, "reproduce", lambda prose, experiments, wanted, as_json: asked.append(wanted))
    assert main(["reproduce", name, *given]) == 0
    assert (asked[0].seeds, asked[0].command) == (count, f"brokerlab reproduce {name}{shown}")


def test_the_command_says_who_takes_another_number_of_seeds(capsys):
    assert main(["reproduce", "--help"]) == 0
    assert "(default: 3; gossip: 5)" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["none"], "nothing to reproduce under the name 'none'"),
        (["merging", "--seeds", "0"], "--seeds 0 is not positive; pass one or more"),
        (["merging", "--seed", "-1"], "--seed -1 is negative"),
        (["merging", "--jobs", "0"], "--jobs 0 is not positive; pass one or more"),
        (["all", "--claim", "toy/linear"], "--claim toy/linear is of one reproduction; name it instead of all"),
        (["merging", "--claim", "figure-99"], "merging has no experiment 'figure-99'; it has figure-13"),
    ],
)
def test_what_cannot_be_reproduced_is_said(given, told, capsys):
    assert main(["reproduce", *given]) == InvalidInput.exit_code
    assert told in capsys.readouterr().err


def test_columns_of_a_markdown_table_are_aligned():
    assert markdown([{"a": 1, "long name": None}, {"a": 12_345.0, "long name": "|x|"}]).splitlines() == [
        "| a      | long name |",
        "|--------|-----------|",
        "| 1      |           |",
        "| 12.3 k | \\|x\\|     |",
    ]
