"""The plan's events per second against what a run handles, and against closed forms."""

import json

import networkx as nx
import numpy as np
import pytest

from brokers.engine.simulate import simulate
from brokers.rates import Rates, demand
from protocols.content.publish import Publish
from protocols.expected import across, flow, to_all, to_some, to_wanted, trees
from scenarios import cli
from scenarios.loader import load, loads, shipped
from scenarios.plan import plan, resolve
from scenarios.running import run

# Where the whole takes long, part of it that shows the same.
SHORTER = {
    "churn": ["duration=12 s"],
    **{name: ["duration=40 s"] for name in shipped() if name.startswith("hardening")},
    "nearest": ["duration=4 s"],
    "real-network": ["duration=5 s"],
    "ten-thousand": ["topology.nodes=1000", "clients.subscribers.count=5000"],
}


@pytest.mark.parametrize("name", shipped())
def test_what_is_planned_is_within_a_factor_of_two_of_what_is_handled(name):
    scenario = load(name, [*SHORTER.get(name, []), "trace.level=none", "expect=[]"])
    planned = plan(scenario, "inline", 1).events_per_s
    handled = simulate(resolve(scenario)).metrics["network"]["events"]
    assert 0.5 <= planned * scenario.model.duration / 1e9 / handled <= 2.0


SMALL = """
duration: 2 s
topology: {kind: line, nodes: 4}
clients: {all: {count: 4, placement: even}}
services:
  - {name: a, kind: content, attributes: 1, protocol: flooding, workload: [WORKLOAD]}
"""


def small(workload, *overrides, folder="."):
    return loads(SMALL.replace("WORKLOAD", workload), overrides, folder)


def test_a_replay_is_planned_from_its_file(tmp_path):
    rows = ["time_s,client,op,a0,low_0,high_0", "0,1,subscribe,,0,0.5"]
    rows += [f"{0.1 + i / 1000},{i % 4},publish,{i % 2},," for i in range(1000)]
    (tmp_path / "events.csv").write_text("\n".join(rows), encoding="utf-8")
    scenario = small("{source: replay, file: events.csv}", folder=tmp_path)
    assert plan(scenario, "inline", 1).events_per_s == 500 * 4 + 0.5
    # Half of the publications are asked for at one broker, which is the second of four in line.
    by_interest = small("{source: replay, file: events.csv}", "services.0.protocol=subscription", folder=tmp_path)
    handled = simulate(resolve(by_interest)).metrics["network"]["events"]
    planned = plan(by_interest, "inline", 1).events_per_s
    assert planned * 2 == pytest.approx(handled, rel=0.2)
    # Who asks may stand in another file than what is published.
    (tmp_path / "wants.csv").write_text("\n".join(rows[:2]), encoding="utf-8")
    (tmp_path / "events.csv").write_text("\n".join([rows[0], *rows[2:]]), encoding="utf-8")
    files = "{source: replay, file: wants.csv}, {source: replay, file: events.csv}"
    apart = small(files, "services.0.protocol=subscription", folder=tmp_path)
    assert plan(apart, "inline", 1).events_per_s == planned


@pytest.fixture
def silent(monkeypatch):
    """A source that does not say what it will do, as those of third parties need not."""
    monkeypatch.setattr(Publish, "rates", classmethod(lambda cls, params, context: None))
    return "{source: publish, rate: 10/s}"


def test_a_source_that_does_not_say_what_it_does_makes_the_plan_unknown_and_not_nothing(silent):
    answer = plan(small(silent), "inline", 2)
    assert (answer.unknown, answer.lambda_, answer.events_by_service) == (("a",), None, {"a": None})
    assert "λ is not known" in answer.advice
    assert any("does not say" in note for note in answer.notes)


def test_what_happens_rarely_is_not_said_to_be_nothing():
    from scenarios.commands.plan import text
    from scenarios.commands.run import simulated

    rare = small("{source: publish, process: constant, rate: 1/h}", "duration=7 d")
    assert "events     about 0.0044 per simulated second" in text(plan(rare, "inline", 1))
    assert [simulated(s) for s in (1e-3, 10.0, 604800.0)] == ["1 ms", "10.0 s", "604,800.0 s"]


def overlay_of(graph):
    from topology.overlay import Overlay

    ends = np.array(sorted(tuple(sorted(edge)) for edge in graph.edges), np.int32).reshape(-1, 2)
    size = len(ends)
    return Overlay(
        tuple(map(str, graph.nodes)), np.full((len(graph), 2), np.nan), ends[:, 0], ends[:, 1],
        np.ones(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.int64), np.full(size, 0.1),
    )  # fmt: skip


@pytest.fixture
def asked():
    """Two groups of clients on a random tree whose links lose a tenth of the messages."""
    from brokers.contract import LinkTable

    graph = nx.random_labeled_tree(12, seed=3)
    overlay = overlay_of(graph)
    parts = [
        (Rates(publications=6.0), True, np.array([2, 2, 7], np.int32)),
        (Rates(changes=3.0, interests=9.0, share=0.25), False, np.array([0, 4, 4], np.int32)),
    ]
    return graph, demand(parts, overlay, LinkTable.of(overlay), {}, None, 1.0)


def test_what_travels_to_the_interested_is_the_sum_over_all_brokers_by_brute_force(asked):
    graph, demanded = asked
    interests = {0: 3, 4: 6}
    expected = expected_all = expected_some = 0.0
    for root, rate in ((2, 4.0), (7, 2.0)):
        for node in graph:
            path = nx.shortest_path(graph, root, node)
            behind = sum(n for home, n in interests.items() if node in nx.shortest_path(graph, root, home))
            arrives = 0.9 ** (len(path) - 1)
            expected_all += rate * arrives
            expected += rate * arrives * (1.0 if node == root else 1 - 0.75**behind)
            expected_some += rate * arrives * (1.0 if node == root else 1 - (1 - behind / 9) ** 2)
    assert to_wanted(demanded, 0.25) == pytest.approx(expected)
    assert to_all(demanded, demanded.publications) == pytest.approx(expected_all)
    assert to_some(demanded, demanded.publications, demanded.interests, 2) == pytest.approx(expected_some)
    assert across(demanded) == pytest.approx(nx.average_shortest_path_length(graph) * 11 / 12)


def test_the_busiest_of_many_brokers_stand_for_all():
    from brokers.contract import LinkTable

    overlay = overlay_of(nx.path_graph(100))
    parts = [(Rates(publications=50.0), True, np.arange(100, dtype=np.int32))]
    demanded = demand(parts, overlay, LinkTable.of(overlay), {}, None, 1.0)
    found = list(trees(demanded, demanded.publications))
    assert len(found) < 100
    assert sum(tree.rate for tree in found) == pytest.approx(50.0)
    assert flow(demanded, demanded.publications, lambda tree: np.zeros(100)) == pytest.approx(50.0)


def test_what_a_script_says_is_counted():
    script = "{source: script, actions: [{at: 1 s, client: 0, op: publish, body: [0.5]}]}"
    assert plan(small(script, "services.0.attributes=1"), "inline", 1).events_per_s > 0


def test_the_command_says_of_which_service_nobody_knows(silent, tmp_path, capsys):
    path = tmp_path / "one.yaml"
    path.write_text(SMALL.replace("WORKLOAD", silent), encoding="utf-8")
    assert cli.main(["plan", str(path), "--engine", "inline"]) == 0
    assert "not known of a" in capsys.readouterr().out
    assert cli.main(["plan", str(path), "--engine", "inline", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["events_by_service"] == {"a": None}


# ---- which form of a protocol runs -------------------------------------------------------------------

FORMS = """
duration: 200 ms
topology: {kind: ring, nodes: 4}
links: {delay: 2 ms}
clients: {all: {count: 4}}
services:
  - {name: news, kind: content, protocol: plumtree, attributes: 1, workload: WORKLOAD}
  - {name: beside, kind: content, protocol: PROTOCOL, attributes: 1, workload: WORKLOAD}
""".replace("WORKLOAD", "[{source: publish, rate: 20/s}]")
BESIDE = "shard's view, since beside beside it cannot be compiled, and rounds are for all services or for none"


@pytest.mark.parametrize(
    ("protocol", "overrides", "told"),
    [
        ("flooding", [], {"news": "compiled", "beside": "compiled"}),
        ("merging", [], {"news": BESIDE}),
        (
            "flooding", ["services.news.view=message"],
            {
                "news": "author's view, since `view: message` asks for it",
                "beside": BESIDE.replace("beside beside", "news beside"),
            },
        ),
    ],
)  # fmt: skip
def test_plans_and_manifests_say_which_form_runs_of_those_that_have_several(
    protocol, overrides, told, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "forms.yaml").write_text(FORMS.replace("PROTOCOL", protocol))
    said = [word for override in overrides for word in ("--set", override)]
    assert cli.main(["plan", "forms.yaml", "--json", *said]) == 0
    assert json.loads(capsys.readouterr().out)["forms"] == told
    assert cli.main(["plan", "forms.yaml", *said]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = next(line for line in lines if line.startswith("  forms "))
    assert first.split(maxsplit=1)[1] == f"{', '.join(n for n in told if told[n] == told['news'])}: {told['news']}"
    found = run("forms.yaml", engine="inline", actors=2, overrides=overrides, out="runs")
    forms = found.folder.manifest["engine"]["forms"]
    ran = {name: ", since ".join(filter(None, (each["form"], each["why"]))) for name, each in forms.items()}
    assert ran == {"beside": "author's view", **told}
