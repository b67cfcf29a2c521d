"""The audit of the kind topics: names and filters in Spark's words and in tasks; groups as the kit judges them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import yaml

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

from analysis.spark import compared, passes  # noqa: E402
from analysis.spark.audit import audit  # noqa: E402
from analysis.spark.explain import explain  # noqa: E402
from brokers.contract import Guarantees  # noqa: E402
from brokers.engine.runfolder import open_run  # noqa: E402
from protocols import judging  # noqa: E402
from protocols.topics.kind import Topics  # noqa: E402
from scenarios.running import run  # noqa: E402

SITES = """\
duration: 4 s
topology: {{kind: random-tree, nodes: 9}}
links: {{delay: {{kind: uniform, low: 1 ms, high: 5 ms}}, loss: {loss}}}
clients:
  sensors: {{count: 6}}
  people: {{count: 20}}
services:
  - name: sites
    kind: topics
    protocol: {protocol}
    {said}
    workload:
      - {{source: topic-subscribe, clients: people, number: [1, 3], topics: 40, depth: [1, 3], branching: 3,
         wildcards: 0.5, ramp: 500 ms, churn: {{process: replace, rate: 20/min}}{asked}}}
      - {{source: topic-publish, clients: sensors, rate: 8/s, topics: 40, depth: [1, 3], branching: 3}}
trace: {{level: full}}
"""
GROUPED = {"protocol": "topics", "said": "groups: true", "asked": ", groups: 2", "loss": "0"}
# The same with what is retained, and with others beside who ask for it.
STATUS = SITES.replace(
    "branching: 3}}\ntrace:",
    """branching: 3, retain: 0.6, empty: 0.2}}
      - {{source: topic-subscribe, clients: people, number: [1, 3], topics: 40, depth: [1, 3], branching: 3,
         wildcards: 0.6, ramp: 2 s, retained: if-new, as_published: true,
         churn: {{process: leave-and-join, stay: 700 ms, away: 300 ms}}}}
trace:""",
)
KEPT = {**GROUPED, "said": "groups: true\n    retained: true"}


def wrong(deliveries: pa.Table) -> pa.Table:
    """Some deliveries gone, and some to others."""
    rng = np.random.default_rng(7)
    rows = deliveries.take(pa.array(np.flatnonzero(rng.random(deliveries.num_rows) > 0.05)))
    client = rows["client"].to_numpy().copy()
    client[:10] = rng.permutation(client[:10])
    return rows.set_column(rows.schema.get_field_index("client"), "client", pa.array(client))


def chosen_wrong(rows: pa.Table) -> pa.Table:
    """Some choices gone, some of subscriptions that others have, some of another publication."""
    rng = np.random.default_rng(5)
    kept = rows.take(pa.array(np.flatnonzero(rng.random(rows.num_rows) > 0.05)))
    columns = {name: kept[name].to_numpy().copy() for name in kept.column_names}
    columns["interest"][:12] = rng.permutation(columns["interest"][:12])
    columns["publication"][12:24] = rng.permutation(columns["publication"][12:24])
    return pa.table(columns, schema=rows.schema)


def columns(rows: pa.Table):
    """A table as the kit has it."""
    return {name: np.array(rows[name].to_pylist(), object if name == "values" else None) for name in rows.column_names}


def judged(path):
    """What the kit's judge says of a run."""
    run = open_run(path)
    tables = {name: columns(run.read(name)) for name in run.tables()}
    params = run.manifest["scenario"]["services"][0]
    kind = Topics({name: params[name] for name in Topics.Params.model_fields if name in params})
    return judging.audit(tables, kind, Guarantees())


@pytest.mark.parametrize(
    "tampers", [{}, {"deliveries": wrong}, {"chosen": chosen_wrong}], ids=["right", "gone", "others"]
)
def test_groups_are_judged_as_the_kit_judges_them(filled, tampered, tampers):
    path = tampered(filled(SITES, **GROUPED), **tampers)
    (found,), kit = audit(path).services, judged(path)
    assert found.verdict == kit.verdict == ("invalid" if tampers else "valid")
    assert (found.deliveries, found.publications) == (kit.deliveries, kit.publications)
    assert found.forced == kit.forced > 100
    assert found.missed.count == kit.missed.count
    # A second member of a group is one too many of that client for the one, and a duplicate for the other.
    assert (found.unwanted.count > 0) == (kit.unwanted.count + kit.duplicated.count > 0)


def copies_wrong(deliveries: pa.Table) -> pa.Table:
    """Some deliveries gone, some twice."""
    rng = np.random.default_rng(11)
    times = rng.choice([0, 1, 2], deliveries.num_rows, p=[0.03, 0.94, 0.03])
    return deliveries.take(pa.array(np.repeat(np.arange(times.size), times)))


def retained_wrong(rows: pa.Table) -> pa.Table:
    """Some of what was told to be retained gone, some of another publication, some of another subscription."""
    rng = np.random.default_rng(3)
    kept = rows.take(pa.array(np.flatnonzero(rng.random(rows.num_rows) > 0.05)))
    columns = {name: kept[name].to_numpy().copy() for name in kept.column_names}
    for name, some in (("publication", slice(0, 40)), ("interest", slice(40, 60)), ("live", slice(60, 70))):
        columns[name][some] = rng.permutation(columns[name][some]) if name != "live" else 1 - columns[name][some]
    return pa.table(columns, schema=rows.schema)


@pytest.mark.parametrize("overlap", ["one", "each"])
@pytest.mark.parametrize(
    "tampers", [{}, {"deliveries": copies_wrong}, {"retained": retained_wrong}], ids=["right", "copies", "retained"]
)
def test_what_is_retained_and_every_copy_is_judged_as_the_kit_judges_it(filled, tampered, tampers, overlap):
    run = filled(STATUS, **{**KEPT, "said": f"{KEPT['said']}\n    overlap: {overlap}"})
    assert run.read("retained")["live"].to_numpy().mean() not in (0, 1) and run.rows("retained") > 200
    path = tampered(run, **tampers)
    (found,), kit = audit(path).services, judged(path)
    assert found.verdict == kit.verdict == ("invalid" if tampers else "valid"), (found, str(kit))
    assert (found.deliveries, found.publications) == (kit.deliveries, kit.publications)
    if not tampers:
        assert found.forced == kit.forced > 100
        assert audit(path, sample=60).verdict == "valid"
    for name in ("missed", "unwanted", "duplicated"):
        assert (getattr(found, name).count > 0) == (getattr(kit, name).count > 0), name


@pytest.mark.parametrize("of", [[], [0], [1], [0, 1], [0, 1, 2]])
def test_what_is_retained_is_judged_where_nothing_is_retained_or_nobody_asks(of, tmp_path):
    acts = [
        {"at": "1 s", "client": 0, "op": "publish", "text": "1"},
        {"at": "2 s", "client": 1, "op": "subscribe", "text": "#"},
        {"at": "3 s", "client": 0, "op": "publish", "text": "1", "flags": ["retain"]},
    ]
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({
        "duration": "4 s", "topology": {"kind": "line", "nodes": 2}, "clients": {"all": {"count": 2}},
        "services": [{"name": "s", "kind": "topics", "protocol": "topics", "retained": True,
                      "workload": [{"source": "script", "actions": [acts[number] for number in of]}]}],
        "trace": {"level": "full"},
    }))  # fmt: skip
    (found,) = audit(run(tmp_path / "s.yaml", engine="inline", out=tmp_path).folder.path).services
    assert (found.deliveries, found.missed.count, found.unwanted.count) == (int(len(of) == 3), 0, 0)


def test_many_tasks_say_of_what_is_retained_what_one_does(filled, tampered, monkeypatch):
    path = tampered(filled(STATUS, **{**KEPT, "loss": "3 %"}), deliveries=copies_wrong, retained=retained_wrong)
    (alone,) = audit(path).as_data()["services"]
    monkeypatch.setattr(compared, "VERY_FEW_ROWS", 0)
    monkeypatch.setattr(compared, "_ROWS_PER_TASK", 1_000)
    monkeypatch.setattr(passes, "PIECE_ROWS", 1_000)
    (many,) = audit(path).as_data()["services"]
    assert many == alone
    assert all(alone["findings"][name]["count"] > 0 for name in ("missed", "unwanted", "duplicated"))


@pytest.mark.parametrize("kept", [False, True], ids=["groups", "retained"])
def test_what_links_lost_is_excused_of_groups_too(filled, kept):
    run = filled(STATUS if kept else SITES, **{**(KEPT if kept else GROUPED), "loss": "3 %"})
    (found,), kit = audit(run.path).services, judged(run.path)
    assert found.verdict == kit.verdict == "valid"
    assert found.forced > kit.forced > 100 and found.excused > 0  # the kit excuses what links elsewhere lost


GOSSIP = """\
duration: 6 s
topology: {{kind: erdos-renyi, nodes: 12, probability: 0.6}}
links: {{delay: 5 ms}}
clients: {{people: {{count: 24}}}}
services:
  - name: news
    kind: topics
    wildcards: false
    protocol: gossipsub
    options: {{d: 3, d_lo: 2, d_hi: 5, d_out: 1, d_score: 2}}
    workload:
      - {{source: topic-subscribe, topics: 4, depth: 1, ramp: 2 s}}
      - {{source: topic-publish, topics: 4, depth: 1, rate: 2/s}}
trace: {{level: full}}
"""


@pytest.mark.parametrize(
    ("what", "verdict", "told"),
    [
        ("nothing", "valid", "kept what is promised: nothing unwanted, no duplicates"),
        ("gone", "valid", "missed (not promised: exactness)"),
        ("to others", "invalid", "broke what is promised: nothing unwanted ("),
    ],
)
def test_gossip_may_miss_and_may_not_give_to_who_did_not_ask(filled, tampered, what, verdict, told):
    def gone(deliveries: pa.Table) -> pa.Table:
        return deliveries.slice(deliveries.num_rows // 4)

    def to_others(deliveries: pa.Table) -> pa.Table:
        client = deliveries["client"].to_numpy().copy()
        client[-20:] = 12 + (client[-20:] - 12 + 7) % 24
        return deliveries.set_column(deliveries.schema.get_field_index("client"), "client", pa.array(client))

    changed = {"gone": {"deliveries": gone}, "to others": {"deliveries": to_others}}
    (found,) = audit(tampered(filled(GOSSIP), **changed.get(what, {}))).services
    assert found.verdict == verdict
    assert told in found.reason + found.judgement.found
    assert found.missed.declared is False and found.unwanted.declared is True


def test_explain_says_in_words_why_a_filter_has_a_name_or_not(filled):
    run = filled(SITES, protocol="covering", said="", asked="", loss="0")
    rows = run.read("publications").to_pylist()
    told = [
        line["reason"]
        for row in rows[:12]
        for client in range(6, 12)
        for line in explain(run.path, str(row["publication"]), client)["to"]["interests"]
    ]
    assert any(line.startswith("matches: asks for ") for line in told)
    assert any("has another word as level" in line for line in told)
