"""Scenario files: what is right is read, and everything wrong is told at once, with its place."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

import scenarios.document
from brokers.errors import InvalidInput
from scenarios.loader import from_data, load, loads, locate, shipped, title_of
from scenarios.problems import PROBLEMS_SHOWN_MAX, ScenarioErrors

GOOD = """\
name: small
seed: 7
duration: 2 s
topology: {kind: line, nodes: 4}
links:
  delay: 5 ms
clients:
  publishers: {count: 2}
  subscribers: {count: 1e1, placement: even}
services:
  - name: news
    kind: content
    attributes: 3
    protocol: flooding
    workload:
      - {source: subscribe, clients: subscribers, width: 0.2}
      - {source: publish, clients: publishers, rate: 100/s}
  - name: more
    kind: content
    attributes: 1
    protocol: flooding
    index: scan
    workload: []
"""


def problems_of(text, *overrides, **more):
    with pytest.raises(ScenarioErrors) as caught:
        loads(text, overrides, **more)
    return [str(problem) for problem in caught.value.problems]


def changed(old, new):
    assert GOOD.count(old) == 1, "the text to change is there once"
    return GOOD.replace(old, new)


def test_a_scenario_is_read_in_base_units_with_names_resolved():
    scenario = loads(GOOD)
    assert scenario.model.duration == 2_000_000_000
    assert scenario.model.links.delay.delay == 5_000_000
    assert scenario.model.clients["subscribers"].count == 10
    assert scenario.topology_params == {"nodes": 4}
    news = scenario.services[0]
    assert news.kind.target == "protocols.content.kind:Content"
    assert news.params["attributes"] == 3
    assert [source.group for source in news.sources] == ["subscribers", "publishers"]
    assert news.sources[1].params["rate"] == 100.0
    assert scenario.services[1].index.target == "brokers.indexes.content.scan:Scan"


def test_a_service_without_an_index_gets_the_one_of_its_kind():
    assert loads(GOOD).services[0].index_name == "cells"


def test_a_scenario_without_a_name_is_called_as_its_file(tmp_path):
    path = tmp_path / "my-study.yaml"
    path.write_text(GOOD.replace("name: small\n", ""), encoding="utf-8")
    assert load(path).name == "my-study"


def test_a_resolved_scenario_reads_back_as_itself():
    resolved = loads(GOOD).resolved()
    assert from_data(resolved).resolved() == resolved


def test_engine_trace_and_memory_layout_are_no_part_of_the_model():
    parts = loads(GOOD).model_parts()
    same = loads(GOOD, ["engine.actors=2", "trace.level=full", "services.news.tables=own", "title=x"])
    assert same.model_parts() == parts
    assert loads(GOOD, ["seed=8"]).model_parts() != parts


# One mistake each: what is changed, into what, and the line that is said about it.
MISTAKES = {
    "unknown key at the top": ("seed: 7", "sed: 7", "<text>:2:1: sed: unknown key; did you mean 'seed'?"),
    "unknown key in a section": (
        "  delay: 5 ms",
        "  dealy: 5 ms",
        "<text>:6:3: links.dealy: unknown key; did you mean 'delay'?",
    ),
    "unknown unit": (
        "duration: 2 s",
        "duration: 2 sec",
        "<text>:3:11: duration: unknown unit 'sec'; did you mean 's'?",
    ),
    "wrong type": ("seed: 7", "seed: many", "<text>:2:7: seed: must be a whole number (got 'many')"),
    "out of range": ("seed: 7", "seed: -7", "<text>:2:7: seed: must be at least 0 (got -7)"),
    "a truth value for a number": ("seed: 7", "seed: true", "seed: must be a whole number (got True)"),
    "a list for a section": (
        "topology: {kind: line, nodes: 4}",
        "topology: [line]",
        "<text>:4:11: topology: must be a section (key: value) (got a list of 1)",
    ),
    "nothing for a section": (
        "  delay: 5 ms",
        "",
        "<text>:5:1: links: must be a section (key: value) (got nothing)",
    ),
    "missing key": ("duration: 2 s", "seed2: 1", "<text>:1:1: duration: is missing"),
    "unknown topology": (
        "kind: line",
        "kind: lien",
        "<text>:4:18: topology.kind: no topology named 'lien'; did you mean 'line'?",
    ),
    "unknown parameter of a topology": (
        "nodes: 4",
        "node: 4",
        "<text>:4:24: topology.node: unknown key; did you mean 'nodes'?",
    ),
    "missing parameter of a topology": (", nodes: 4", "", "<text>:4:1: topology.nodes: is missing"),
    "parameter of a topology out of range": (
        "nodes: 4",
        "nodes: 0",
        "<text>:4:31: topology.nodes: must be at least 1 (got 0)",
    ),
    "unknown delay model": (
        "  delay: 5 ms",
        "  delay: {kind: unifrm, low: 1, high: 2}",
        "<text>:6:17: links.delay.kind: must be 'constant', 'uniform', 'normal', 'geography'; "
        "did you mean 'uniform'? (got 'unifrm')",
    ),
    "bounds the wrong way round": (
        "  delay: 5 ms",
        "  delay: {kind: uniform, low: 3 ms, high: 2 ms}",
        "<text>:6:10: links.delay: low is above high (got 3 ms and 2 ms)",
    ),
    "unknown placement": (
        "placement: even",
        "placement: evn",
        "<text>:9:40: clients.subscribers.placement: must be 'uniform', 'even', 'degree', 'zipf', "
        "'explicit'; did you mean 'even'? (got 'evn')",
    ),
    "unknown group": (
        "clients: publishers,",
        "clients: publisher,",
        "<text>:17:36: services[0].workload[1].clients: no group of clients named 'publisher'; "
        "did you mean 'publishers'?",
    ),
    "no group where there are several": (
        "clients: publishers,",
        "",
        "<text>:17:9: services[0].workload[1]: say which clients act: one of publishers, subscribers",
    ),
    "unknown workload": (
        "source: publish,",
        "source: publsh,",
        "<text>:17:18: services[0].workload[1].source: no workload named 'publsh'; did you mean 'publish'?",
    ),
    "unknown parameter of a workload": (
        "rate: 100/s",
        "rat: 100/s",
        "<text>:17:48: services[0].workload[1].rat: unknown key; did you mean 'rate'?",
    ),
    "a workload for another kind": (
        "source: publish,",
        "source: context-updates,",
        "services[0].workload[1].source: 'context-updates' is a workload for context, not for 'content'",
    ),
    "an index that answers another question": (
        "index: scan",
        "index: part",
        "<text>:22:12: services[1].index: 'part' answers 'reverse-topk', the kind asks 'content-match'; "
        "indexes that do: ",
    ),
    "unknown index": (
        "index: scan",
        "index: scam",
        "<text>:22:12: services[1].index: no index named 'scam'; did you mean 'scan'?",
    ),
    "code from outside": (
        "index: scan",
        "index: nowhere.at.all:Index",
        "<text>:22:12: services[1].index: 'nowhere.at.all:Index' is code from outside brokerlab, and was not "
        "looked at; if you trust whoever wrote it, say --trust (in Python: trust=True)",
    ),
    "two services of one name": (
        "name: more",
        "name: news",
        "<text>:18:11: services[1].name: services[0] has this name already (got 'news')",
    ),
    "a wrong parameter of the kind": (
        "attributes: 1",
        "attributs: 1",
        "<text>:20:5: services[1].attributs: unknown key; did you mean 'attributes'?",
    ),
    "an option that the protocol lacks": (
        "index: scan",
        "options: {no-such-option: 1}",
        "<text>:22:15: services[1].options.no-such-option: unknown key",
    ),
    "a repeated key": ("seed: 7", "name: small", "<text>:2:1: name: repeated key, first at 1:1"),
    "a name that is no folder name": (
        "name: small",
        "name: Small Study",
        "<text>:1:7: name: must be lower-case letters",
    ),
    "a tag": ("seed: 7", "seed: !!python/name:os 7", "<text>:2:7: seed: the tag"),
    "broken YAML": ("seed: 7", "seed: [7", "not YAML"),
    "a number that nothing can hold": (
        "seed: 7",
        "seed: " + "7" * 5000,
        "<text>:2:7: seed: not a number this program can hold",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_with_its_place_and_what_to_do(mistake):
    old, new, expected = MISTAKES[mistake]
    lines = problems_of(changed(old, new))
    assert any(expected in line for line in lines), lines


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("nowhere.at.all:Index", "there is no module 'nowhere' on the path"),
        ("json:Index", "module 'json' has no 'Index'"),
        ("collections:OrderedDict", "is no index: it does not derive from Index; expected a class derived from"),
        (":", "is not of the form package.module:Name"),
    ],
)
def test_a_trusted_name_that_leads_to_no_index_is_told_with_what_it_leads_to(target, told):
    (line,) = problems_of(changed("index: scan", f"index: {target!r}"), trust=True)
    assert line.startswith(f"<text>:22:12: services[1].index: {target!r}") and told in line


def test_a_protocol_of_another_kind_is_refused_with_those_that_fit(tmp_path):
    (tmp_path / "a_kind_elsewhere.py").write_text(
        "from dataclasses import replace\n\nfrom protocols.content.kind import Content\n\n"
        "class Kind(Content):\n    manifest = replace(Content.manifest, name='elsewhere')\n",
        encoding="utf-8",
    )
    with pytest.raises(ScenarioErrors) as caught:
        text = changed("attributes: 1\n    protocol: flooding", "protocol: flooding")
        before, after = text.split("  - name: more\n    kind: content\n    ")
        loads(f"{before}  - name: more\n    kind: a_kind_elsewhere:Kind\n    {after}", folder=tmp_path, trust=True)
    lines = [str(problem) for problem in caught.value.problems]
    assert any("'flooding' serves the kinds 'content' and 'topics', not 'elsewhere'" in line for line in lines)


def test_a_module_that_breaks_on_import_is_a_mistake_in_the_scenario(tmp_path):
    (tmp_path / "a_broken_module.py").write_text("1 / 0\n", encoding="utf-8")
    with pytest.raises(ScenarioErrors, match="a_broken_module:X' cannot be imported: ZeroDivisionError"):
        loads(changed("index: scan", "index: a_broken_module:X"), folder=tmp_path, trust=True)


def test_a_module_that_ends_the_program_on_import_is_a_mistake_in_the_scenario(tmp_path):
    (tmp_path / "a_leaving_module.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    with pytest.raises(ScenarioErrors, match="a_leaving_module:X' cannot be imported: SystemExit: 0"):
        loads(changed("index: scan", "index: a_leaving_module:X"), folder=tmp_path, trust=True)


def test_all_mistakes_are_told_at_once_in_the_order_of_the_file():
    text = GOOD
    for old, new in (
        ("seed: 7", "seed: -7"),
        ("kind: line", "kind: lien"),
        ("delay: 5 ms", "delay: 5 furlongs"),
        ("source: publish,", "source: publsh,"),
        ("index: scan", "index: scam"),
    ):
        assert text.count(old) == 1
        text = text.replace(old, new)
    lines = problems_of(text)
    assert [int(line.split(":")[1]) for line in lines] == [2, 4, 6, 17, 22]


def test_what_follows_from_a_mistake_is_not_told_beside_it():
    for old, new, path in (
        ("kind: content\n    attributes: 3", "kind: contend\n    attributes: 3", "services[0].kind"),
        ("attributes: 3", "attributes: 3\n    colour: blue", "services[0].colour"),
        ("attributes: 3", "attributs: 3", "services[0].attributs"),
    ):
        told = [line.split(": ")[1] for line in problems_of(changed(old, new))]
        assert told == [path]


def test_every_repeated_key_is_told_not_only_the_first():
    lines = problems_of(GOOD + "seed: 1\nname: x\n")
    assert [line for line in lines if "repeated key" in line] == lines
    assert len(lines) == 2


def test_more_problems_than_anyone_reads_are_counted():
    with pytest.raises(ScenarioErrors) as caught:
        loads(GOOD + "".join(f"key{i}: 1\n" for i in range(PROBLEMS_SHOWN_MAX + 5)))
    assert "… and 5 more" in str(caught.value)
    assert str(caught.value).endswith("55 problems")


@pytest.mark.parametrize("text", ["", "[]", "just a text", "---\n...\n", "# only a comment\n", "3"])
def test_what_is_no_section_is_no_scenario(text):
    assert "a scenario is a section of keys" in problems_of(text)[0]


def test_an_alias_inside_itself_is_refused():
    assert any("alias" in line for line in problems_of("a: &x [*x]"))


def test_a_few_lines_cannot_stand_for_billions_of_values(monkeypatch):
    monkeypatch.setattr(scenarios.document, "VALUES_MAX", 10_000)
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert any("more than" in line for line in problems_of("\n".join(lines)))


def test_bytes_that_are_not_utf8_are_told_with_their_place():
    with pytest.raises(ScenarioErrors, match=r"<text>:2:7: byte 0xff is not UTF-8"):
        loads(b"a: 1\nbcd: \xe4\xff".replace(b"\xe4", b" ").replace(b"bcd:  ", b"bcd:  "))


def test_an_override_replaces_a_value_by_path_number_or_name():
    scenario = loads(
        GOOD,
        [
            "links.delay=7 ms",
            "services.more.attributes=2",
            "services[0].workload.publish.rate=5/s",
            "topology={kind: ring, nodes: 5}",
            "trace.level=full",
        ],
    )
    assert scenario.model.links.delay.delay == 7_000_000
    assert scenario.services[1].params["attributes"] == 2
    assert scenario.services[0].sources[1].params["rate"] == 5.0
    assert scenario.model.topology.kind == "ring"
    assert scenario.model.trace.level == "full"


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("links.delay=7 furlongs", "--set links.delay: links.delay: unknown unit 'furlongs'"),
        ("links.dealy=7 ms", "--set links.dealy: links.dealy: unknown key; did you mean 'delay'?"),
        ("services.nws.attributes=2", "--set services.nws.attributes: services: no entry 'nws' in this"),
        ("services[7].name=x", "no entry '7' in this list"),
        ("seed.a=1", "--set seed.a: seed: is a plain value; it has no 'a' to set"),
        ("seed", "expected path=value"),
        ("=1", "expected path=value"),
        ("a..b=1", "not a path"),
        ("seed=[1", "the value is no YAML"),
        ("topology={kind: ring}", "--set topology: topology.nodes: is missing"),
    ],
)
def test_a_wrong_override_is_told_under_its_own_name(override, expected):
    assert any(expected in line for line in problems_of(GOOD, override))


def test_a_shipped_scenario_goes_by_its_name():
    assert locate("quickstart") == shipped()["quickstart"]


def test_a_name_that_is_neither_file_nor_shipped_gets_a_guess():
    with pytest.raises(InvalidInput, match="did you mean 'quickstart'"):
        locate("quickstrat")
    with pytest.raises(InvalidInput, match=r"there is no file nowhere/x\.yaml"):
        locate("nowhere/x.yaml")


def test_a_folder_is_no_scenario(tmp_path):
    with pytest.raises(InvalidInput, match="is a folder"):
        load(tmp_path)


@pytest.mark.parametrize("name", sorted(shipped()))
def test_a_shipped_scenario_is_valid_and_says_what_it_shows(name):
    scenario = load(name)
    assert scenario.name == name
    assert 20 < len(scenario.model.title) <= 110
    assert title_of(shipped()[name]) == scenario.model.title


# ---- whatever the bytes ------------------------------------------------------------------------------


def _is_read_or_refused(source, *overrides):
    try:
        loads(source, overrides)
    except ScenarioErrors as error:
        assert error.problems
        for problem in error.problems:
            assert problem.line >= 1 or problem.where.startswith("--set")
            assert re.match(r".+:\d+:\d+: |--set ", str(problem), re.DOTALL)


@given(st.binary(max_size=300))
def test_random_bytes_are_never_a_traceback(source):
    _is_read_or_refused(source)


@given(st.text(alphabet=st.sampled_from(list("ab:-[]{}#&*!|>'\"%@`,?\n\t 019.~\\\x85﻿")), max_size=80))
def test_random_yaml_is_never_a_traceback(text):
    _is_read_or_refused(text)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=150)
@given(st.data())
def test_a_good_scenario_with_random_changes_is_never_a_traceback(data):
    source = bytearray(GOOD.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(source)))
        end = min(len(source), start + data.draw(st.integers(0, 12)))
        source[start:end] = data.draw(st.one_of(st.binary(max_size=6), st.sampled_from(_SPLICES)))
    _is_read_or_refused(bytes(source))


_SPLICES = [b"\n", b": ", b"- ", b"[", b"}", b"&a ", b"*a", b"1e400", b".nan", b"-.inf", b"~", b"0x"]
_VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=8),
        st.sampled_from(["5 ms", "100/s", "line", "content", "flooding", "publish", "a:b", "os:sep", ":"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def _paths(data, path=()):
    yield path
    children = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in children:
        yield from _paths(value, (*path, key))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=100)
@given(st.data())
def test_any_value_in_any_place_is_read_or_refused(data):
    scenario = YAML(typ="safe", pure=True).load(GOOD)
    for _ in range(data.draw(st.integers(1, 3))):
        *way, last = data.draw(st.sampled_from([path for path in _paths(scenario) if path]))
        current = scenario
        for part in way:
            current = current[part]
        current[last] = data.draw(_VALUES)
    try:
        from_data(scenario)
    except ScenarioErrors as error:
        assert error.problems


EXPECTING = GOOD + "expect: [%s]\n"
WRONG = "services.news.width=3"


def test_a_service_with_a_problem_is_not_said_to_lack_what_it_measures():
    text = EXPECTING.replace("    attributes: 3\n", "    attributes: 3\n    metrics: [tables.mean]\n")
    good = text % "news.tables.mean < 9, tables.mean < 9"
    assert loads(good).model.expect == ["news.tables.mean < 9", "tables.mean < 9"]
    assert len(problems_of(good, WRONG)) == 1


def test_what_no_service_measures_is_told_beside_other_problems():
    first, second = problems_of(EXPECTING % "news.tables.meen < 9", WRONG)
    assert "services[0].width" in first and "expect[0]: no metric 'news.tables.meen'" in second


def test_of_a_service_whose_metrics_are_wrong_themselves_none_is_missed():
    text = EXPECTING % "news.tables.mean < 9, more.tables.mean < 9"
    told = problems_of(text.replace("    attributes: 3\n", "    attributes: 3\n    metrics: [tables.meen]\n"))
    assert len(told) == 2 and "expect[1]: no metric 'more.tables.mean'" in "\n".join(told)


def test_what_reads_a_table_that_no_service_writes_may_be_named_and_nothing_expected_of_it():
    named = EXPECTING.replace("    attributes: 3\n", "    attributes: 3\n    metrics: [retained.answers]\n")
    assert loads(named.replace("[%s]", "[]")).services[0].metrics
    (told,) = problems_of(named % "news.retained.answers > 0")
    assert "news.retained.answers will not be measured: no service writes the table `retained`" in told
