"""Text in replayed files: the same numbers in every shard and order of reading, and text again in the trace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.spark.explain import explain, text
from analysis.spark.rules import rule_of
from analysis.spark.trace import services_of
from brokers.engine.simulate import simulate
from brokers.errors import InvalidInput
from brokers.words import beginning_with
from scenarios.loader import loads
from scenarios.plan import resolve
from scenarios.running import run

TICKS = """\
duration: 10 s
topology: {kind: line, nodes: 3}
clients: {all: {count: 3, placement: even}}
services:
  - name: ticks
    kind: content
    protocol: subscription
    names: [symbol, price]
    text: [symbol]
    workload: [{source: replay, file: ticks.csv}, {source: replay, file: wants.csv}]
"""
WANTS = """\
time_s,client,op,is_symbol,prefix_symbol,low_symbol,high_symbol,low_price
0,0,subscribe,IBM,,,,
0,1,subscribe,,A,,,10
0,2,subscribe,,Z,,,
0,2,subscribe,,,ALPHA,Äther,
"""
SYMBOLS = ["IBM", "AAPL", "AMZN", "", "Äther", "zinc"]
GOT = {"IBM": {0, 2}, "AAPL": {1}, "AMZN": {1, 2}, "": set(), "Äther": {2}, "zinc": {2}}


def scenario(folder, *overrides):
    (folder / "wants.csv").write_text(WANTS, encoding="utf-8")
    rows = [f"{2 + i},{i % 3},publish,{symbol},11" for i, symbol in enumerate(SYMBOLS)]
    (folder / "ticks.csv").write_text("time_s,client,op,symbol,price\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return loads(TICKS, overrides, folder)


@pytest.fixture(scope="module")
def ticks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ticks")
    return run(scenario(folder, "trace.level=full"), engine="inline", out=folder / "runs")


def test_text_is_delivered_by_equality_prefix_and_range(ticks):
    published = {row["publication"]: row["time_ns"] for row in ticks.publications.to_pylist()}
    got = {symbol: set() for symbol in SYMBOLS}
    for row in ticks.deliveries.to_pylist():
        got[SYMBOLS[published[row["publication"]] // 10**9 - 2]].add(row["client"] - 3)
    assert got == GOT


def test_the_trace_keeps_the_words_of_both_files_in_order(ticks):
    words = sorted({symbol for symbol in SYMBOLS if symbol} | {"ALPHA"})
    expected = [{"service": 0, "attribute": 0, "code": i, "text": word} for i, word in enumerate(words)]
    assert ticks.words.to_pylist() == expected
    values = [row["values"][0] for row in sorted(ticks.publications.to_pylist(), key=lambda row: row["time_ns"])]
    assert ["" if value != value else words[int(value)] for value in values] == SYMBOLS


def test_an_explanation_says_words(ticks):
    first = min(ticks.publications.to_pylist(), key=lambda row: row["time_ns"])
    assert "values: IBM, 11" in text(explain(ticks.path, str(first["publication"])))
    rule = rule_of(services_of(ticks.folder)[0])
    wanted = sorted(ticks.changes.to_pylist(), key=lambda row: row["client"])
    assert rule.reason(first, wanted[0]) == "matches: IBM in IBM to IBM"
    assert rule.reason(first, wanted[1]) == "asks for AAPL to AMZN in symbol, which is IBM"


def test_an_explanation_names_interests_by_the_messages_that_asked(ticks):
    changes = {row["interest"]: row["change"] for row in ticks.changes.to_pylist()}
    first = min(ticks.publications.to_pylist(), key=lambda row: row["time_ns"])
    (named,) = explain(ticks.path, str(first["publication"]), 1)["to"]["interests"]
    assert explain(ticks.path, named["name"])["id"] == changes[named["interest"]]


@pytest.mark.parametrize("actors", [2, 3])
def test_words_have_the_same_numbers_in_every_shard(actors, ticks, tmp_path):
    assert simulate(resolve(scenario(tmp_path)), engine="inline", actors=actors).digest == ticks.digest


def test_a_run_without_text_has_no_table_of_words(tmp_path):
    plain = loads("duration: 1 s\ntopology: {kind: line, nodes: 2}\nclients: {all: {count: 2}}\n"
                  "services: [{name: a, kind: content, protocol: flooding}]\n", (), tmp_path)  # fmt: skip
    assert "words" not in run(plain, engine="inline", out=tmp_path / "runs").folder.tables()


def test_workloads_that_draw_numbers_do_not_serve_a_service_of_text(tmp_path):
    with pytest.raises(InvalidInput, match="hold text, and this draws numbers; `replay` serves such a service"):
        scenario(tmp_path, "services.ticks.workload=[{source: publish, rate: 1/s}]")


def test_text_in_an_attribute_of_numbers_is_told_with_a_way_out(tmp_path):
    with pytest.raises(InvalidInput, match=r"symbol must be a number \(got 'IBM'\); if it is text, say so by `text`"):
        resolve(scenario(tmp_path, "services.ticks.text=[]"))


def test_attributes_that_are_text_are_named_or_numbered_and_are_there(tmp_path):
    assert scenario(tmp_path, "services.ticks.text=[0]").services[0].params["text"] == [0]
    for wrong in ("[2]", "[volume]"):
        with pytest.raises(InvalidInput, match="`text`"):
            scenario(tmp_path, f"services.ticks.text={wrong}")


KEYWORDS = """\
duration: 10 s
topology: {kind: line, nodes: 2}
clients: {all: {count: 2, placement: even}}
services:
  - {name: near, kind: spatial, protocol: spatial, text: true, keywords: 3,
     workload: [{source: replay, file: near.csv}]}
"""


def test_keywords_may_be_words_up_to_the_number_of_the_service(tmp_path):
    events = "time_s,client,op,x,y,keywords\n0,0,subscribe,0,0,coffee cake\n1,1,publish,1,1,tea\n2,1,publish,1,2,cake\n"
    (tmp_path / "near.csv").write_text(events, encoding="utf-8")
    done = run(loads(KEYWORDS, (), tmp_path), engine="inline", out=tmp_path / "runs")
    assert [row["text"] for row in done.words.to_pylist()] == ["cake", "coffee", "tea"]
    assert [row["time_ns"] // 10**9 for row in done.deliveries.to_pylist()] == [2]
    with pytest.raises(InvalidInput, match="3 different keywords, the service has 2; raise `keywords`"):
        resolve(loads(KEYWORDS, ["services.near.keywords=2"], tmp_path))


@settings(max_examples=200)
@given(st.sets(st.text(max_size=4), max_size=12), st.text(max_size=3))
def test_the_words_that_begin_alike_lie_together(words, prefix):
    ordered = sorted(words)
    first, last = beginning_with(ordered, prefix)
    assert ordered[first : last + 1] == [word for word in ordered if word.startswith(prefix)]
    assert np.all(np.diff([first - 1, last]) >= 0)
