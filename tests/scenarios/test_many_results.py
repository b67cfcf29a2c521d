"""What many runs are judged by: expectations, intervals, comparisons, and where two runs part."""

import json
import math
import random

import pytest

from brokers.errors import InvalidInput, RunIncomplete
from scenarios import cli
from scenarios.loader import load
from scenarios.many import expect, metrics
from scenarios.many.carry import carry_out
from scenarios.many.compare import compare, text
from scenarios.many.diff import diff
from scenarios.many.reader import load_sweep
from scenarios.many.student import difference, estimate, quantile, two_sided_tail
from scenarios.problems import ScenarioErrors
from scenarios.run import run

SECOND = """\
  - {name: alerts, kind: content, attributes: 2, protocol: covering, workload: *work}
"""


@pytest.fixture(scope="module")
def study(tree, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    tree(folder)
    tree(folder, more=SECOND, name="two.yaml")
    return folder


def inline(study, *overrides, scenario="tree.yaml"):
    return run(
        study / scenario, engine="inline", out=study / "runs", overrides=list(overrides), overwrite=True
    )


@pytest.fixture(scope="module")
def sweep(study):
    """Three protocols, four seeds."""
    (study / "sweep.yaml").write_text(
        "scenario: tree.yaml\nrepeats: 4\n"
        "vary: {services.news.protocol: [flooding, subscription, covering]}\n"
    )
    return carry_out(load_sweep(study / "sweep.yaml"), engine="inline", out=study / "sweeps")


# ---- metrics and expectations -----------------------------------------------------------------------


def test_the_known_metrics_are_those_that_a_run_measures(study):
    done = inline(study, scenario="two.yaml")
    known = set(metrics.known(["news", "alerts"]))
    audited = {f"{service}.{name}" for service in ("news", "alerts") for name in metrics.AUDIT}
    assert set(metrics.measured(done.folder)) == known - audited


def test_what_the_audit_found_is_among_the_metrics_while_the_run_is_the_same(study):
    done = inline(study, "seed=77")
    findings = {name: {"count": i} for i, name in enumerate(metrics.FINDINGS)}
    service = {"service": "news", "findings": findings, "verdict": "invalid"}
    service |= dict.fromkeys(metrics.DECISIONS, 9)
    (done.path / "analysis").mkdir()
    kept = done.path / "analysis" / "audit.json"
    kept.write_text(json.dumps({"digest": done.digest, "verdict": "invalid", "services": [service]}))
    judged = expect.judge(
        ["deliveries.unwanted == 1", "news.deliveries.forced > 8", "verdict != invalid"], done.folder
    )
    assert [each.holds for each in judged] == [True, True, False]
    kept.write_text(json.dumps({"digest": "another", "verdict": "valid", "services": [service]}))
    assert not expect.judge(["deliveries.unwanted == 1"], done.folder)[0].holds


@pytest.mark.parametrize(
    ("sign", "holds"), [("<", False), ("<=", True), (">", False), (">=", True), ("==", True), ("!=", False)]
)
def test_every_comparison_means_what_it_says(study, sign, holds):
    done = inline(study)
    value = done.metrics["network"]["messages"]
    (judged,) = expect.judge([f"network.messages {sign} {value}"], done.folder)
    assert (judged.value, judged.holds) == (value, holds)


def test_durations_are_compared_in_their_units(study):
    done = inline(study)
    p99_ms = done.metrics["services"]["news"]["latency"]["p99_ms"]
    texts = [
        f"latency.p99 <= {p99_ms!r} ms",
        f"latency.p99 < {p99_ms / 1000 + 1e-6:.9f} s",
        f"news.latency.p99 > {p99_ms * 1000 - 1:.3f} us",
        f"latency.p99_ms < {p99_ms + 0.01:.6f}",
        "network.busiest_broker_s == 0",
        "network.bytes > 1 KiB",
        "run.events_per_s > 1/min",
    ]
    assert [each.holds for each in expect.judge(texts, done.folder)] == [True] * 7


def test_without_a_service_counts_are_added_up_and_the_longest_duration_counts(study):
    done = inline(study, scenario="two.yaml")
    news, alerts = (done.metrics["services"][name] for name in ("news", "alerts"))
    total, longest = expect.judge(["deliveries > 0", "latency.max > 0 ms"], done.folder)
    assert total.value == news["deliveries"] + alerts["deliveries"]
    assert longest.value == max(each["latency"]["max_ms"] for each in (news, alerts))


def test_means_and_percentiles_have_to_hold_of_each_service_by_itself_and_are_never_added_up(study):
    slow = "services.alerts.cost={base: 20 ms}"
    done = inline(study, slow, scenario="two.yaml")
    news, alerts = (done.metrics["services"][name]["latency"] for name in ("news", "alerts"))
    assert news["mean_ms"] != alerts["mean_ms"]
    low, high = sorted((news, alerts), key=lambda each: each["mean_ms"])
    slower, quicker = ("news", "alerts") if high is news else ("alerts", "news")
    between = (low["mean_ms"] + high["mean_ms"]) / 2
    texts = [f"latency.mean {sign} {between:.9f} ms" for sign in ("<", ">", "!=")]
    below, above, other = expect.judge(texts, done.folder)
    # Of one service each is true, and of all neither.
    assert (below.holds, below.value, below.measured.endswith(f" of {slower}")) == (False, high["mean_ms"], True)
    assert (above.holds, above.value, above.measured.endswith(f" of {quicker}")) == (False, low["mean_ms"], True)
    assert other.holds
    (named,) = expect.judge([f"{quicker}.latency.mean < {between:.9f} ms"], done.folder)
    assert (named.holds, named.value) == (True, low["mean_ms"])
    (equal,) = expect.judge([f"latency.mean == {low['mean_ms']!r} ms"], done.folder)
    assert not equal.holds and equal.value == high["mean_ms"]


def test_each_metric_of_a_service_declares_how_it_adds_up_and_what_declares_nothing_does_not():
    apart = {name for name in (*metrics.SERVICE, *metrics.AUDIT) if metrics.together(name) is metrics.Together.APART}
    assert apart == {"latency.mean_ms", "latency.p50_ms", "latency.p99_ms"}
    assert metrics.together("hit_share") is metrics.Together.APART
    assert metrics.together("latency.max") is metrics.Together.LARGEST
    assert metrics.together("verdict") is metrics.Together.WORST


def test_where_nothing_was_measured_no_expectation_holds(study):
    done = inline(
        study, "services.news.workload.subscribe.width=0", "services.news.workload.subscribe.number=1"
    )
    assert done.metrics["services"]["news"]["deliveries"] == 0
    judged = expect.judge(["latency.p99 < 1 h", "latency.p99 > 0 ns"], done.folder)
    assert [(each.holds, each.measured) for each in judged] == [(False, "nothing measured")] * 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("latency.p98 < 80 ms", "no metric 'latency.p98'; did you mean 'latency.p99'?"),
        ("nws.latency.p99 < 80 ms", "did you mean 'news.latency.p99'?"),
        ("latency.p99 < 80", "latency.p99 is a duration: say the unit, as in 80 ms"),
        ("latency.p99 < 80 mss", "unknown unit 'mss'; did you mean 'ms'?"),
        ("network.lost == 5 ms", "network.lost is a count: compare it with a number"),
        ("network.lost = 5", "expected METRIC, one of < <= > >= == !=, and a bound"),
        ("network.lost < few", "a bound is a number"),
        ("verdict > valid", "a verdict is == or != to valid, unknown, invalid"),
        ("verdict == 3", "a verdict is == or != to valid, unknown, invalid"),
        ("", "expected METRIC"),
        ("network.lost < 1e999", "a bound is a number|compare it with a number"),
    ],
)
def test_a_wrong_expectation_is_refused_where_it_stands_in_the_scenario(study, tree, text, words):
    more = "expect:\n  - network.lost == 0\n  - " + json.dumps(text) + "\n"
    path = tree(study, more=more, name="wrong.yaml")
    with pytest.raises(ScenarioErrors) as caught:
        load(path)
    (problem,) = caught.value.problems
    assert (problem.line, problem.column, problem.path) == (17, 5, ("expect", 1))
    assert any(each in problem.message for each in words.split("|"))


def test_expectations_of_the_audit_need_deliveries_in_the_trace(study):
    with pytest.raises(ScenarioErrors, match="needs the trace level deliveries or full"):
        load(study / "tree.yaml", ["trace.level=summary", "expect=[news.deliveries.missed == 0]"])
    load(study / "tree.yaml", ["trace.level=summary", "expect=[news.deliveries > 0]"])


def test_expectations_are_no_part_of_the_model(study):
    plain, hopeful = inline(study), inline(study, "expect=[network.lost == 0]")
    assert plain.folder.manifest["id"] == hopeful.folder.manifest["id"]
    assert hopeful.folder.manifest["scenario"]["expect"] == ["network.lost == 0"]


def test_the_run_command_shows_expectations_first_and_leaves_with_1_if_one_fails(study, capsys, monkeypatch):
    monkeypatch.chdir(study)
    command = ["run", "tree.yaml", "--engine", "inline", "--quiet", "--set"]
    assert cli.main([*command, "expect=[network.lost == 0, news.latency.p99 < 1 ms]"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "✓ network.lost == 0: 0"
    assert lines[1].startswith("✗ news.latency.p99 < 1 ms: ") and lines[1].endswith(" ms")
    assert cli.main([*command, "expect=[network.lost == 0]", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["expect"] == [{"expectation": "network.lost == 0", "value": 0, "holds": True}]


# ---- Student's t ------------------------------------------------------------------------------------


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.99, 0.999999])
def test_quantiles_have_their_closed_forms_for_1_2_and_4_degrees_of_freedom(confidence):
    assert quantile(confidence, 1) == pytest.approx(math.tan(math.pi * confidence / 2), rel=1e-9)
    alpha = 1 - confidence * confidence
    assert quantile(confidence, 2) == pytest.approx(confidence * math.sqrt(2 / alpha), rel=1e-9)
    root = math.sqrt(alpha)
    q = math.cos(math.acos(root) / 3) / root
    assert quantile(confidence, 4) == pytest.approx(2 * math.sqrt(q - 1), rel=1e-9)


def test_quantiles_agree_with_printed_tables():
    printed = {(0.95, 3): 3.182, (0.95, 9): 2.262, (0.95, 29): 2.045, (0.99, 9): 3.250, (0.9, 120): 1.658}
    for (confidence, freedom), t in printed.items():
        assert quantile(confidence, freedom) == pytest.approx(t, abs=5e-4)
    assert quantile(0.95, 1e9) == pytest.approx(1.959963985, abs=1e-6)


def test_the_tail_agrees_with_the_density_summed_up():
    def density(t, freedom):
        constant = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - math.log(freedom * math.pi) / 2
        return math.exp(constant - (freedom + 1) / 2 * math.log1p(t * t / freedom))

    for freedom in (0.7, 3, 12.5, 200):
        for t in (0.01, 0.5, 2.0, 6.0):
            steps = 4000
            width = t / steps
            inner = sum(
                density(i * width, freedom) * (1 if i in (0, steps) else 4 if i % 2 else 2)
                for i in range(steps + 1)
            )
            assert two_sided_tail(t, freedom) == pytest.approx(1 - 2 * inner * width / 3, abs=1e-9)


def test_intervals_cover_the_mean_as_often_as_they_say():
    draw = random.Random(5)
    covered = sum(
        abs(each.mean - 3) <= each.half_width
        for each in (estimate([draw.gauss(3, 2) for _ in range(4)], 0.9) for _ in range(4000))
    )
    assert 0.885 < covered / 4000 < 0.915
    apart = [
        difference([draw.gauss(1, 1) for _ in range(5)], [draw.gauss(0, 4) for _ in range(9)], 0.9)
        for _ in range(4000)
    ]
    assert 0.88 < sum(abs(each.mean - 1) <= each.half_width for each in apart) / 4000 < 0.92


def test_one_value_has_a_mean_and_no_interval():
    assert estimate([7.0], 0.95) == (7.0, None, 1)
    assert not estimate([7.0], 0.95).clear_of_zero
    assert estimate([2.0, 2.0], 0.95) == (2.0, 0.0, 2)


# ---- compare ----------------------------------------------------------------------------------------


def test_a_comparison_holds_the_means_and_paired_differences_of_its_runs(sweep):
    found = compare([sweep.path])
    assert found.labels == ("protocol=flooding", "protocol=subscription", "protocol=covering")
    messages = {
        (s.point.values["services.news.protocol"], s.point.seed): s.run.manifest["engine"]["metrics"][
            "network"
        ]["messages"]
        for s in sweep.states
    }
    (row,) = [row for row in found.sections[0].rows if row.metric == "messages"]
    for i, protocol in enumerate(("flooding", "subscription", "covering")):
        mine = [messages[protocol, seed] for seed in found.seeds[i]]
        assert row.estimates[i] == estimate(mine, 0.95)
        assert len(mine) == 4
        if i:
            pairs = [messages[protocol, seed] - messages["flooding", seed] for seed in found.seeds[i]]
            assert row.differences[i].how == "paired"
            assert row.differences[i].estimate == estimate(pairs, 0.95)
    assert row.differences[0] is None


def test_what_protocols_have_in_common_does_not_differ_at_all(sweep):
    found = compare([sweep.path])
    (row,) = [row for row in found.sections[1].rows if row.metric == "publications"]
    assert row.estimates[0].half_width > 0
    assert all(
        each.estimate[:2] == (0.0, 0.0) and not each.estimate.clear_of_zero for each in row.differences[1:]
    )


def test_run_folders_that_differ_in_their_seed_are_repeats_and_without_common_seeds_it_is_welch(study):
    flooding = [inline(study, f"seed={seed}") for seed in (11, 12, 13)]
    covering = [inline(study, f"seed={seed}", "services.news.protocol=covering") for seed in (14, 15)]
    found = compare([each.path for each in [*flooding, *covering]])
    assert len(found.labels) == 2 and "covering" in found.labels[1]
    assert found.seeds == ((11, 12, 13), (14, 15))
    assert {row.differences[1].how for section in found.sections for row in section.rows} == {"welch"}
    other = compare([each.path for each in [*flooding, *covering]], baseline="covering")
    assert other.labels == found.labels[::-1]


def test_the_same_run_twice_counts_once(study):
    one, two = (
        inline(study, "seed=21"),
        run(study / "tree.yaml", engine="inline", out=study / "runs", seed=21),
    )
    assert one.path != two.path
    found = compare([one.path, two.path])
    assert found.seeds == ((21,),)
    assert any("counted once" in note for note in found.notes)


def test_services_of_other_names_are_compared_by_kind(study, tree):
    tree(study, ("name: news", "name: alerts"), name="renamed.yaml")
    found = compare([inline(study).path, inline(study, scenario="renamed.yaml").path])
    assert [section.title for section in found.sections] == ["network", "content: news / alerts"]
    assert found.sections[1].services == ("news", "alerts")
    assert all(
        row.estimates[0] is not None and row.estimates[1] is not None for row in found.sections[1].rows
    )


def test_a_comparison_for_people_has_a_line_per_metric_and_variant(sweep, capsys):
    lines = text(compare([sweep.path])).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("  messages"))
    assert [line.split()[-4 if i else 0] for i, line in enumerate(lines[at : at + 1])] == ["messages"]
    assert "protocol=flooding" in lines[at] and "±" in lines[at]
    assert "protocol=subscription" in lines[at + 1] and "%)" in lines[at + 1]
    assert any("the same in all: lost 0" in line for line in lines)
    assert "95 % Student-t interval over 4 seeds" in lines[-1]
    assert cli.main(["compare", str(sweep.path), "--json", "--confidence", "0.9"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["confidence"], answer["baseline"]) == (0.9, "protocol=flooding")
    assert [len(variant["seeds"]) for variant in answer["variants"]] == [4, 4, 4]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["compare", "nowhere"], 3, "no such run folder"),
        (["compare", "{sweep}", "--baseline", "protocol"], 3, "3 variants are called 'protocol'"),
        (["compare", "{sweep}", "--baseline", "x"], 3, "no variant is called 'x'"),
        (["compare", "{sweep}", "--confidence", "1"], 3, "from 0.5 to below 1"),
        (["diff", "nowhere", "nowhere"], 3, "no such run folder"),
    ],
)
def test_a_wrong_comparison_is_explained(sweep, capsys, arguments, code, words):
    assert cli.main([each.format(sweep=sweep.path) for each in arguments]) == code
    assert words in capsys.readouterr().err


def test_a_sweep_without_finished_points_is_incomplete(study):
    folder = study / "empty"
    folder.mkdir()
    (folder / "sweep.json").write_text(json.dumps({"points": [{"status": "not run", "values": {}}]}))
    with pytest.raises(RunIncomplete, match="none of the 1 points"):
        compare([folder])
    (folder / "sweep.json").write_text("{")
    with pytest.raises(InvalidInput, match="cannot be read"):
        compare([folder])


# ---- diff -------------------------------------------------------------------------------------------


def test_equal_runs_have_no_difference_but_their_circumstances(study, capsys):
    one = inline(study, "seed=31")
    two = run(
        study / "tree.yaml", engine="inline", actors=2, out=study / "runs", seed=31,
        overrides=["trace.level=full", "services.news.tables=own"],
    )  # fmt: skip
    found = diff(one.path, two.path)
    assert found.equal and found.parted is None and not found.model and not found.measured
    assert found.circumstances["trace.level"] == ("deliveries", "full")
    assert found.circumstances["services.news.tables"] == ("auto", "own")
    assert found.circumstances["run.actors"] == (1, 2)
    assert cli.main(["diff", str(one.path), str(two.path)]) == 0
    assert capsys.readouterr().out.startswith(f"equal: digest {one.digest}\n")


def test_runs_are_not_called_equal_where_a_file_is_not_what_they_wrote(study, capsys):
    one, two = inline(study, "seed=32"), inline(study, "seed=32", "services.news.tables=own")
    part = next(path for path in two.folder.parts("deliveries"))
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    assert cli.main(["diff", str(one.path), str(two.path)]) == 2
    assert f"damaged: tables/deliveries/{part.name} is not what the run wrote" in capsys.readouterr().err


def test_with_hops_on_both_sides_the_first_diverging_event_is_told(study, capsys):
    full = "trace.level=full"
    one, two = inline(study, full, "seed=41"), inline(study, full, "seed=41", "links.jitter=1 ms")
    found = diff(one.path, two.path)
    assert not found.equal
    assert found.model == {"links.jitter": (0, 1_000_000)}
    assert "news.latency.mean_ms" in found.measured
    assert found.parted.startswith("the first difference is the message at ")
    assert cli.main(["diff", str(one.path), str(two.path), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["equal"] is False and answer["first_difference"].startswith("the first difference is")


def test_without_hops_the_first_differing_second_is_told(study):
    late = ["duration=3 s", "trace.level=summary", "services.news.workload.publish.start=2 s"]
    one = inline(study, *late)
    two = inline(study, *late, "services.news.workload.publish.rate=41/s")
    assert "they part in simulated second 2 (2 s to 3 s)" in diff(one.path, two.path).parted


# ---- the audit --------------------------------------------------------------------------------------


@pytest.mark.xdist_group("spark")
def test_expectations_of_the_audit_have_every_point_audited(study, spark):
    (study / "audited.yaml").write_text(
        "scenario: tree.yaml\nvary: {services.news.protocol: [flooding, covering]}\n"
        "expect: [deliveries.missed == 0, verdict == valid, news.deliveries.forced > 1e9]\n"
    )
    done = carry_out(load_sweep(study / "audited.yaml"), engine="inline", out=study / "sweeps")
    assert [[each.holds for each in state.judged] for state in done.states] == [[True, True, False]] * 2
    for state in done.states:
        kept = json.loads((state.run.path / "analysis" / "audit.json").read_bytes())
        assert kept["digest"] == state.run.digest
        assert state.judged[2].value == kept["services"][0]["forced"] > 0
    assert done.exit_code == 1


def test_every_metric_that_an_expectation_may_name_is_one_that_a_run_has(study):
    found = inline(study).folder
    named = {name for name in metrics.known(["news"]) if not name.startswith(tuple(f"news.{a}" for a in metrics.AUDIT))}
    assert named == metrics.measured(found).keys()
