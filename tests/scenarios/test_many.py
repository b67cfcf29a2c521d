"""Sweeps and repeats: their points, their seeds, and what becomes of points that finish, fail, die or wait."""

import json
import os
import signal
import sys

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokers import names
from brokers.engine.runfolder import open_run
from brokers.errors import Interrupted, InvalidInput, RunIncomplete
from scenarios import cli
from scenarios.many import conditions, expect
from scenarios.many.carry import carry_out
from scenarios.many.pool import answers
from scenarios.many.reader import load_sweep
from scenarios.many.sweep import repeated, seed_of, short_names
from scenarios.problems import ScenarioErrors
from scenarios.running import run

# A third party's publishers, who misbehave when they are told to.
MISCHIEF = """\
import os, signal
from pathlib import Path
from protocols.content.publish import Publish, PublishParameters

class Parameters(PublishParameters):
    do: str = "nothing"

class Publishers(Publish):
    Params = Parameters
    def __init__(self, params, context):
        params = dict(params)
        self.do = params.pop("do")
        super().__init__(params, context)
    def take(self):
        if self.do == "raise":
            raise ValueError("the moon is full")
        if self.do == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.do == "interrupt" and (Path(__file__).parent / "stop").exists():
            raise KeyboardInterrupt
        return super().take()

def double(number):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number
"""


@pytest.fixture
def study(tree, tmp_path):
    return tree(tmp_path).parent


@pytest.fixture
def mischief(study, tree):
    """A study whose publishers do what `workload[1].do` says, by the name of their module."""
    name = "mischief_" + "".join(c for c in study.name if c.isalnum())
    (study / f"{name}.py").write_text(MISCHIEF, encoding="utf-8")
    tree(study, ("source: publish,", f"source: {name}:Publishers,"))
    yield name
    sys.modules.pop(name, None)
    if str(study) in sys.path:  # by the test
        sys.path.remove(str(study))
    if str(study) in names.beside.folders:
        names.beside.folders.remove(str(study))


def sweep_of(folder, text, overrides=()):
    path = folder / "routing.yaml"
    path.write_text(text, encoding="utf-8")
    return load_sweep(path, overrides, trust=True)  # the study is our own


def carried(folder, text, **more):
    return carry_out(sweep_of(folder, text), **{"engine": "inline", "out": folder / "sweeps", **more})


def problems(folder, text):
    with pytest.raises(ScenarioErrors) as caught:
        sweep_of(folder, text)
    return [str(problem).replace(f"{folder}{os.sep}", "") for problem in caught.value.problems]


PROTOCOLS = "scenario: tree.yaml\nvary: {services.news.protocol: [flooding, subscription]}\n"

# ---- points -----------------------------------------------------------------------------------------


def test_points_are_all_combinations_of_what_varies_and_steps_of_what_goes_together(study):
    sweep = sweep_of(
        study,
        "scenario: tree.yaml\n"
        "repeats: 2\n"
        "vary: {services.news.protocol: [flooding, covering], services.news.attributes: [2, 3, 4]}\n"
        "zip: {links.delay: [1 ms, 2 ms], links.jitter: [0, 1 ms]}\n"
        "where: [attributes < 4 or protocol == 'covering']\n",
    )
    assert sweep.left_out == 2
    assert len(sweep.points) == (2 * 3 * 2 - 2) * 2
    assert len({point.slug for point in sweep.points}) == len(sweep.points)
    for point in sweep.points:
        model = point.scenario.model
        assert model.services[0].protocol == point.values["services.news.protocol"]
        assert (model.links.delay.delay, model.links.jitter) in ((1_000_000, 0), (2_000_000, 1_000_000))
        assert model.services[0].protocol == "covering" or point.scenario.services[0].params["attributes"] < 4


def test_repeats_have_seeds_of_their_own_and_the_first_that_of_the_scenario(study):
    sweep = sweep_of(study, PROTOCOLS + "repeats: 4\n")
    by_repeat = [{point.seed for point in sweep.points if point.repeat == repeat} for repeat in range(4)]
    assert by_repeat == [{seed_of(1, repeat)} for repeat in range(4)]
    assert by_repeat[0] == {1}
    assert len(set.union(*by_repeat)) == 4
    assert all(0 <= seed_of(2**63 - 1, repeat) < 2**63 for repeat in range(50))


def test_a_sweep_that_grows_keeps_its_folder_and_another_scenario_gets_another(study, tree):
    first = sweep_of(study, PROTOCOLS)
    assert (
        sweep_of(study, PROTOCOLS.replace("subscription", "subscription, covering") + "repeats: 3").id
        == first.id
    )
    assert sweep_of(study, PROTOCOLS + "set: {duration: 1 s}").id != first.id
    assert sweep_of(study, PROTOCOLS + "seed: 5").id != first.id
    tree(study, ("0.5", "0.4"))
    assert sweep_of(study, PROTOCOLS).id != first.id


def test_paths_are_shown_by_as_few_last_parts_as_tell_them_apart():
    paths = ["services.news.protocol", "services.alerts.protocol", "topology.nodes", "seed"]
    assert short_names(paths) == ["news.protocol", "alerts.protocol", "nodes", "seed"]
    assert short_names([]) == []


def test_everything_wrong_with_a_sweep_file_is_shown_at_once_where_it_stands(study):
    found = problems(
        study,
        "scenario: tree.yaml\n"
        "repets: 3\n"
        "repeats: 0\n"
        "vary:\n"
        "  links.loss: [0.1, 0.1]\n"
        "  links.jitter: []\n"
        "expect: [latency < 5]\n",
    )
    assert found == [
        "routing.yaml:2:1: repets: unknown key; did you mean 'repeats'?",
        "routing.yaml:3:10: repeats: must be at least 1 (got 0)",
        "routing.yaml:5:15: vary.links.loss: a value stands here twice (got 0.1)",
        "routing.yaml:6:17: vary.links.jitter: must have at least 1 entry (got a list of 0)",
    ]


def test_everything_wrong_with_the_points_is_shown_at_once_where_the_sweep_file_says_it(study):
    found = problems(
        study,
        "scenario: tree.yaml\n"
        "set: {duration: for ever}\n"
        "vary:\n"
        "  services.nws.protocol: [flooding, covering]\n"
        "  links.loss: [0.1, 2, 0.3]\n"
        "zip:\n"
        "  links.jitter: [1 ms, 1 mss]\n"
        "  links.bandwdth: [1, 2]\n"
        "expect:\n"
        "  - network.lost == 0\n",
    )
    assert [each.split(" (got")[0] for each in found] == [
        "routing.yaml:2:17: set.duration: expected a duration such as '5 ms'",
        "routing.yaml:4:3: vary.services.nws.protocol: services: no entry 'nws' in this list; did you mean 'news'?",
        "routing.yaml:5:21: vary.links.loss[1]: a fraction lies between 0 and 1",
        "routing.yaml:7:24: zip.links.jitter[1]: unknown unit 'mss'; did you mean 'ms'? known units: ns, us, µs, μs, "
        "ms, s, min, h, d",
        "routing.yaml:8:3: zip.links.bandwdth: unknown key; did you mean 'bandwidth'?",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scenario: nothing.yaml\n", "routing.yaml:1:11: scenario: there is no file"),
        ("scenario: quickstrat\n", "did you mean 'quickstart'?"),
        ("- 1\n", "a sweep is a section of keys such as scenario and vary"),
        ("vary: {seed: [1, 2]}\nscenario: tree.yaml\n", "vary.seed: cannot be varied; say `seed` and `repeats`"),
        (
            PROTOCOLS + "set: {services.news.protocol: covering}\n",
            "vary.services.news.protocol: is set twice",
        ),
        (
            PROTOCOLS + "zip: {services: [1]}\n",
            "zip.services: overlaps with services.news.protocol, which is set too",
        ),
        (
            PROTOCOLS + "zip: [{links.loss: [0], links.jitter: [0, 1]}]\n",
            "(got 1 of links.loss, 2 of links.jitter)",
        ),
        (PROTOCOLS + "where: [protocol == 'x']\n", "where: leaves no point"),
        (PROTOCOLS + "where: protcol == 'x'\n", "where: 'protcol' is not varied; did you mean 'protocol'?"),
        (PROTOCOLS + "where: [protocol < 3]\n", "where[0]: 'protocol < 3' cannot be told for"),
        (PROTOCOLS + "expect: [news.delivery == 0]\n", "expect[0]: no metric 'news.delivery'; did you mean"),
        (
            PROTOCOLS + "set: {trace.level: none}\nexpect: [verdict == valid]\n",
            "needs the trace level deliveries",
        ),
        (
            f"scenario: tree.yaml\nrepeats: 9999\nvary: {{duration: {list(range(1, 13))}}}\n",
            "more than 100,000 points",
        ),
    ],
)
def test_a_wrong_sweep_file_is_explained(study, text, words):
    assert words in "\n".join(problems(study, text))


def test_a_combination_that_does_not_fit_names_itself(study, tree):
    tree(study, ("protocol: flooding", "protocol: covering\n    options: {routing: shared}"))
    (only,) = problems(study, PROTOCOLS)
    assert only.startswith("tree.yaml:12:") and only.endswith("(with protocol=flooding)")


def test_a_scenario_in_place_of_a_sweep_is_told_apart(study):
    with pytest.raises(InvalidInput, match="is a scenario, not a sweep"):
        load_sweep(study / "tree.yaml")
    with pytest.raises(InvalidInput, match="brokerlab repeat quickstart --times 5"):
        load_sweep("quickstart")
    with pytest.raises(InvalidInput, match="does not exist"):
        load_sweep(study / "none.yaml")


# ---- constraints ------------------------------------------------------------------------------------

NAMES = ["topology.nodes", "services.by-flooding.protocol", "links.delay", "links.loss"]
VALUES = {
    "topology.nodes": 32,
    "services.by-flooding.protocol": "flooding",
    "links.delay": "5 ms",
    "links.loss": "5 %",
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("nodes == 32", True),
        ("topology.nodes < 32", False),
        ("services.by-flooding.protocol == 'flooding'", True),
        ('services.by-flooding.protocol != "flooding"', False),
        ("delay < '10 ms'", True),
        ("links.delay<'900 us'", False),
        ("loss * 2 == 0.1", True),
        ("1 < nodes <= 32", True),
        ("nodes % 3 == 2 and not nodes // 2 == 15", True),
        ("nodes in [16, 32] and protocol not in ('covering', 'nodes')", True),
        ("delay in ['5000 us']", True),
        ("-nodes + 2 > 0 or false", False),
    ],
)
def test_a_constraint_compares_what_is_varied(text, holds):
    assert conditions.parse(text, NAMES).holds(VALUES) is holds


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "nodes.__class__",
        "(lambda: 1)()",
        "[x for x in [1]]",
        "nodes ** 9 ** 9 ** 9",
        "nodes if 1 else 2",
        "f'{nodes}'",
        "nodes[0]",
        "other == 1",
        "nodes ==",
        "(" * 500 + "nodes" + ")" * 500,
        "not " * 500 + "nodes",
        "nodes == b'1'",
        "_v0_ == 1 and __debug__",
        "nodes @ 2 == 1",
        "'a\nb' == 1",
        "",
    ],
)
def test_a_constraint_is_nothing_but_a_comparison(text):
    with pytest.raises(InvalidInput):
        conditions.parse(text, NAMES)


def test_a_constraint_that_cannot_be_computed_says_with_which_values():
    with pytest.raises(
        InvalidInput, match=r"'nodes / 0 > 1' cannot be told for topology.nodes = 32: division by zero"
    ):
        conditions.parse("nodes / 0 > 1", NAMES).holds(VALUES)
    with pytest.raises(InvalidInput, match="'flooding' is no number"):
        conditions.parse("protocol + 1 > 1", NAMES).holds(VALUES)


# ---- whatever the text ------------------------------------------------------------------------------

SOMETHING = st.text(alphabet="nodesprtcl.and or not in()[]'\"<>=!+-*/%0123456789 \n", max_size=60) | st.text(
    max_size=40
)


@settings(deadline=None)
@given(SOMETHING)
def test_any_text_is_a_constraint_or_refused(text):
    try:
        condition = conditions.parse(text, NAMES)
    except InvalidInput:
        return
    try:
        assert isinstance(condition.holds(VALUES), bool)
    except InvalidInput as error:
        assert "cannot be told for" in str(error)


@settings(deadline=None)
@given(SOMETHING | st.from_regex(r"[a-z]{1,9}\.p99 ?[<>=]{1,2} ?[0-9.e+-]{1,9} ?[a-z]{0,3}", fullmatch=True))
def test_any_text_is_an_expectation_or_refused(text):
    try:
        expectation = expect.parse(text)
        assert expectation.limit(expectation.keys({"news": ()})[0]) is not None
    except InvalidInput as error:
        assert str(error)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(
    st.binary(max_size=80)
    | st.dictionaries(
        st.sampled_from(["scenario", "vary", "zip", "where", "set", "repeats", "seed", "expect", "name", "x"]),
        st.sampled_from(["tree.yaml", "where", "links.jitter"]) | st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["links.jitter", "links.delay", "links", "a.b", ""]), inner, max_size=3),
            max_leaves=6,
        ),
    ).map(lambda data: json.dumps(data).encode())
)  # fmt: skip
def test_any_bytes_are_a_sweep_or_refused_in_sentences(study, source):
    (study / "any.yaml").write_bytes(source)
    try:
        assert load_sweep(study / "any.yaml").points
    except InvalidInput as error:
        assert str(error)


# ---- carrying out -----------------------------------------------------------------------------------


def test_points_that_differ_in_protocol_only_have_the_same_publications_and_subscriptions(study):
    done = carried(study, PROTOCOLS + "repeats: 2\n")
    by_repeat = {}
    for state in done.states:
        by_repeat.setdefault(state.point.repeat, []).append(state.run)
    for flooding, subscription in by_repeat.values():
        assert flooding.digest != subscription.digest
        assert (
            flooding.read("publications")
            .sort_by("publication")
            .equals(subscription.read("publications").sort_by("publication"))
        )
        columns = ["change", "client", "issued_ns", "values"]
        a, b = (r.read("changes", columns).sort_by("change") for r in (flooding, subscription))
        assert a.equals(b)
    first, second = (runs[0].read("publications") for runs in by_repeat.values())
    assert not first.equals(second)


def test_a_point_is_the_run_of_its_scenario(study):
    done = carried(study, PROTOCOLS)
    alone = run(
        study / "tree.yaml",
        engine="inline",
        out=study / "runs",
        overrides=["services.news.protocol=subscription"],
    )
    assert done.states[1].run.digest == alone.digest
    assert done.states[1].run.manifest["id"] == alone.folder.manifest["id"]


def test_one_table_holds_every_point_with_values_seed_digest_and_metrics(study):
    done = carried(
        study, PROTOCOLS + "zip: {links.jitter: [0, 1 ms]}\nrepeats: 2\nexpect: [network.lost == 0]\n"
    )
    table = pq.read_table(done.path / "points.parquet").to_pylist()
    assert len(table) == 8
    for row, state in zip(table, done.states):
        found = open_run(done.path / row["run"])
        assert row["digest"] == found.digest == state.run.digest
        assert (row["point"], row["repeat"], row["seed"]) == (
            state.point.slug,
            state.point.repeat,
            state.point.seed,
        )
        assert row["services.news.protocol"] == found.manifest["scenario"]["services"][0]["protocol"]
        assert row["links.jitter"] == str(state.point.values["links.jitter"])
        assert row["news.deliveries"] == found.rows("deliveries") > 0
        assert row["network.messages"] == found.manifest["engine"]["metrics"]["network"]["messages"]
        assert row["status"] == "finished" and row["error"] is None and row["expectations_hold"] is True


def test_finished_points_are_not_run_again_and_new_ones_are_added(study):
    first = carried(study, PROTOCOLS)
    before = {state.point.slug: state.run.manifest["ended"] for state in first.states}
    grown = carried(study, PROTOCOLS.replace("subscription", "subscription, covering") + "repeats: 2\n")
    assert grown.path == first.path
    assert (grown.reused, len(grown.finished)) == (2, 6)
    after = {state.point.slug: state.run.manifest["ended"] for state in grown.states}
    assert before.items() <= after.items()


def test_finished_points_are_run_again_when_told_to(study):
    first = carried(study, PROTOCOLS)
    again = carried(study, PROTOCOLS, again=True)
    assert again.reused == 0
    assert [s.run.path for s in again.states] == [s.run.path for s in first.states]
    assert all(a.run.manifest["ended"] > b.run.manifest["ended"] for a, b in zip(again.states, first.states))


def test_a_point_whose_model_changed_is_run_again(study, tree):
    (study / "net.json").write_text(
        '{"nodes": [{"id": 0}, {"id": 1}], "links": [{"source": 0, "target": 1}]}'
    )
    tree(study, ("{kind: balanced-tree, branching: 2, height: 2}", "{kind: file, path: net.json}"))
    first = carried(study, PROTOCOLS)
    assert carried(study, PROTOCOLS).reused == 2
    three = (study / "net.json").read_text().replace("1}]", '1}, {"source": 1, "target": 2}]')
    three = three.replace('{"id": 1}', '{"id": 1}, {"id": 2}')
    (study / "net.json").write_text(three)
    again = carried(study, PROTOCOLS)
    assert again.path == first.path and again.reused == 0
    assert {s.run.digest for s in again.states}.isdisjoint(s.run.digest for s in first.states)


FAILING = 'scenario: tree.yaml\nvary: {"services.news.workload[1].do": [nothing, raise, later]}\n'


def test_a_point_that_fails_is_kept_apart_with_its_reason_and_stops_no_other(study, mischief):
    done = carried(study, FAILING + "repeats: 2\n")
    assert [state.status for state in done.states] == ["finished", "failed", "finished"] * 2
    assert done.exit_code == 1
    reason = json.loads((done.path / "failed" / "raise-r0.json").read_text())
    assert "ValueError: the moon is full" in reason["error"] == done.failed[0].error
    assert reason["values"] == {"services.news.workload[1].do": "raise"}
    assert [path.name for path in (done.path / "runs").glob("raise-*")] == []
    assert len(list((done.path / "failed").glob("raise-r0-*"))) == 1
    row = pq.read_table(done.path / "points.parquet").to_pylist()[1]
    assert row["status"] == "failed" and row["error"] == reason["error"]
    assert row["digest"] is None and row["news.deliveries"] is None


def test_a_failed_point_is_tried_again_and_its_reason_goes_when_it_finishes(study, mischief):
    assert len(carried(study, FAILING).failed) == 1
    module = study / f"{mischief}.py"
    module.write_text(MISCHIEF.replace("raise ValueError", "ValueError"), encoding="utf-8")
    sys.modules.pop(mischief)
    done = carried(study, FAILING)
    assert (done.reused, len(done.finished), done.exit_code) == (2, 3, 0)
    assert not (done.path / "failed" / "raise-r0.json").exists()


def test_a_point_that_cannot_be_resolved_fails_with_a_sentence(study, tree):
    links = "links: {overrides: [{between: [0, 8], delay: 1 ms}], "
    tree(study, ("balanced-tree, branching: 2, height: 2", "ring, nodes: 9"), ("links: {", links))
    done = carried(study, "scenario: tree.yaml\nvary: {topology.nodes: [9, 5]}\n")
    assert [state.status for state in done.states] == ["finished", "failed"]
    assert "links" in done.failed[0].error and "\n" not in done.failed[0].error


def test_a_point_whose_process_dies_stops_no_other(study, mischief):
    done = carried(study, FAILING.replace("raise", "die"), jobs=2)
    assert [state.status for state in done.states] == ["finished", "failed", "finished"]
    assert done.failed[0].error == "its process died (SIGKILL)"


def test_processes_give_the_digests_of_one_process(study):
    text = PROTOCOLS + "repeats: 2\n"
    here = carried(study, text)
    there = carried(study, text, jobs=2, out=study / "elsewhere")
    assert [s.run.digest for s in here.states] == [s.run.digest for s in there.states]


def test_every_piece_of_work_has_one_answer_though_a_process_dies(study, mischief):
    sys.path.append(str(study))
    double = __import__(mischief).double
    found = {answer.number: answer for answer in answers(double, range(6), "inline", 2)}
    assert {n: a.value for n, a in found.items()} == {0: 0, 1: 2, 2: 4, 3: None, 4: 8, 5: 10}
    assert found[3].lost == "its process died (SIGKILL)"


def test_an_interrupted_sweep_keeps_what_finished_and_goes_on_where_it_was(study, mischief):
    (study / "stop").touch()
    text = FAILING.replace("raise", "interrupt")
    with pytest.raises(Interrupted, match="2 of 3 points are left"):
        carried(study, text)
    (path,) = (study / "sweeps").iterdir()
    assert [row["status"] for row in pq.read_table(path / "points.parquet").to_pylist()] == [
        "finished", "not run", "not run",
    ]  # fmt: skip
    (study / "stop").unlink()
    done = carried(study, text)
    assert (done.path, done.reused, len(done.finished)) == (path, 1, 3)


CHECKPOINTS = PROTOCOLS + "set: {engine.window_max: 20 ms, engine.checkpoint_every: 1 us}\n"


@pytest.fixture
def interrupted(study, monkeypatch):
    """Carries a sweep as far as the fifth checkpoint of its first point; gives the folder of that point's run."""

    def interrupt(**more):
        taken = []

        def prune(folder):
            taken.append(folder)
            if len(taken) == 5:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(Interrupted, match="points are left"):
            patch.setattr("brokers.engine.checkpoint.prune", prune)
            carried(study, CHECKPOINTS, **more)
        (folder,) = (study / "sweeps").glob("*/runs/flooding-*")
        return folder

    return interrupt


def test_an_interrupted_point_goes_on_from_its_checkpoint(study, interrupted):
    folder = interrupted()
    done = carried(study, CHECKPOINTS)
    point = done.states[0].run
    assert (point.path, len(point.manifest["resumed"])) == (folder, 1)
    undisturbed = carried(study, CHECKPOINTS, out=study / "undisturbed")
    assert [s.run.digest for s in done.states] == [s.run.digest for s in undisturbed.states]
    assert point.read("deliveries").num_rows == undisturbed.states[0].run.read("deliveries").num_rows > 0


def test_an_interrupted_point_begins_anew_where_it_cannot_go_on_or_is_told_to(study, interrupted):
    manifest = interrupted() / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"schema_version": 3', '"schema_version": 0'))
    assert "resumed" not in carried(study, CHECKPOINTS).states[0].run.manifest
    interrupted(again=True)
    assert "resumed" not in carried(study, CHECKPOINTS, again=True).states[0].run.manifest


def test_two_sweeps_into_one_folder_are_refused(study):
    def other(ended, failed, points):
        with pytest.raises(RunIncomplete, match="being written by another sweep"):
            carried(study, PROTOCOLS)
        asked.append(ended)

    asked = []
    carried(study, PROTOCOLS, progress=other)
    assert asked == [0, 1, 2]
    assert carried(study, PROTOCOLS).reused == 2


def test_repeating_is_a_sweep_in_which_only_the_seed_varies(study):
    three = carry_out(repeated(study / "tree.yaml", 3), engine="inline", out=study / "sweeps")
    assert [state.point.slug for state in three.states] == ["tree-r0", "tree-r1", "tree-r2"]
    assert three.states[0].run.digest == run(study / "tree.yaml", engine="inline", out=study / "runs").digest
    assert len({state.run.digest for state in three.states}) == 3
    five = carry_out(repeated(study / "tree.yaml", 5), engine="inline", out=study / "sweeps")
    assert (five.path, five.reused) == (three.path, 3)
    with pytest.raises(InvalidInput, match="--times"):
        repeated(study / "tree.yaml", 0)


@pytest.mark.ray
def test_points_run_as_ray_tasks_with_the_same_digests_and_a_dead_task_stops_no_other(study, mischief):
    pytest.importorskip("ray")
    text = FAILING.replace("raise", "die")
    there = carried(study, text, engine="ray", jobs=2)
    here = carried(
        study,
        'scenario: tree.yaml\nvary: {"services.news.workload[1].do": [nothing, later]}\n',
        out=study / "here",
    )
    assert [state.status for state in there.states] == ["finished", "failed", "finished"]
    assert "its process or node died" in there.failed[0].error
    assert [s.run.digest for s in there.finished] == [s.run.digest for s in here.finished]


# ---- commands ---------------------------------------------------------------------------------------


def test_the_sweep_command_shows_expectations_first_and_leaves_with_1_if_one_fails(
    study, capsys, monkeypatch
):
    monkeypatch.chdir(study)
    (study / "s.yaml").write_text(PROTOCOLS + "expect: [network.lost == 0, news.latency.p99 < 1 ms]\n")
    assert cli.main(["sweep", "s.yaml", "--engine", "inline", "--quiet"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "✓ network.lost == 0: 0 at 2 points"
    assert lines[1] == "✗ news.latency.p99 < 1 ms: does not hold at 2 of 2 points"
    assert lines[2].startswith("    protocol=flooding repeat 0: ")
    assert "points  2 of 2 finished; 0 failed" in lines
    assert (
        cli.main(["sweep", "s.yaml", "--engine", "inline", "--json", "--set", "expect=[network.lost == 0]"])
        == 0
    )
    answer = json.loads(capsys.readouterr().out)
    assert answer["finished"] == answer["reused"] == 2
    assert answer["expect"] == [{"expectation": "network.lost == 0", "holds": True, "failing": []}]


def test_a_dry_run_lists_the_points_and_runs_none(study, capsys, monkeypatch):
    monkeypatch.chdir(study)
    (study / "s.yaml").write_text(PROTOCOLS)
    assert cli.main(["sweep", "s.yaml", "--engine", "inline", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "2 points: 2 variants, 1 seeds"
    assert not (study / "sweeps").exists()


def test_the_repeat_command_shows_means_with_intervals(study, capsys, monkeypatch):
    monkeypatch.chdir(study)
    assert (
        cli.main(
            ["repeat", "tree.yaml", "--times", "3", "--engine", "inline", "--quiet", "--set", "duration=1 s"]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "points  3 of 3 finished; 0 failed" in out
    assert "95 % Student-t interval over 3 seeds" in out
    assert signal.getsignal(signal.SIGTERM) is not signal.default_int_handler
