"""The audit of the kind channels: right answers pass through plans, joins and leaves; a wrong one is named."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

from analysis.spark import audit as audits  # noqa: E402
from analysis.spark.audit import audit  # noqa: E402
from analysis.spark.audit_text import text  # noqa: E402
from protocols.channels.kind import UNSUBSCRIBE  # noqa: E402
from scenarios import running  # noqa: E402

MAPS = """\
duration: 4 s
topology: {topology}
links: {{delay: {{kind: uniform, low: 3 ms, high: 25 ms}}, jitter: 1 ms, loss: {loss}}}
servers: {{atlas: {{broker: 2}}}}
clients: {{people: {{count: 24}}}}
services:
  - name: maps
    kind: channels
    protocol: channels
    options: {options}
    workload:
      - {{source: map-queries, number: [1, 2], period: [300 ms, 500 ms], width: [60, 120], ramp: 1 s,
         churn: {{process: leave-and-join, stay: 3 s, away: 1 s}}}}
      - {{source: map-queries, period: [400 ms], width: [60, 120], ramp: 1 s, move: 10/min}}
trace: {{level: {level}}}
"""
TREE = "{kind: random-tree, nodes: 10}"
CYCLES = "{kind: watts-strogatz, nodes: 10, neighbours: 4, rewire: 0.2}"


@pytest.fixture(scope="module")
def maps(filled):
    """Makes a run, once for each way of calling it."""

    def make(options="{}", loss="0", level="full", topology=TREE):
        return filled(MAPS, options=options, loss=loss, level=level, topology=topology)

    return make


def one(path):
    (service,) = audit(path).services
    return service


def findings(service):
    return service.missed.count, service.unwanted.count, service.duplicated.count, service.out_of_order.count


@pytest.mark.parametrize(
    ("options", "topology"),
    [
        ("{}", TREE),
        pytest.param("{mode: channels, channels: 3}", CYCLES, marks=pytest.mark.full),
        pytest.param("{mode: unicast}", CYCLES, marks=pytest.mark.full),
        pytest.param("{procedure: exact}", TREE, marks=pytest.mark.full),
        pytest.param("{replan: mended, replan_every_ms: 200}", TREE, marks=pytest.mark.full),
        pytest.param("{mode: channels, channels: 3, weights: [1, 2, 2], replan: mended}", TREE, marks=pytest.mark.full),
        pytest.param("{extractor: tags}", CYCLES, marks=pytest.mark.full),
    ],
)
def test_every_query_is_answered_in_every_round_through_plans_joins_and_leaves(options, topology, maps):
    folder = maps(options, topology=topology)
    found = audit(folder.path)
    (service,) = found.services
    assert (service.verdict, service.unable) == ("valid", "")
    assert findings(service) == (0, 0, 0, 0)
    assert service.forced > 2 * service.free > 0
    assert service.forced <= service.deliveries == folder.read("received").num_rows
    assert folder.read("plans").num_rows > 10
    # Nobody publishes: what is printed counts answers.
    assert f"  {service.interests:,} interests, {service.deliveries:,} answers; " in text(found)


def test_losses_excuse_what_they_explain_and_leave_the_rest_forced(maps):
    service = one(maps(loss="2 %").path)
    assert service.verdict == "valid", service.reason
    assert 0 < service.excused_missed <= service.excused
    assert service.forced > service.excused


NARROW = """\
duration: 300 ms
topology: {kind: explicit, nodes: 2, links: [[0, 1]]}
links: {delay: 8 ms, bandwidth: 400 kbit/s}
clients: {people: {count: 2, placement: {kind: explicit, brokers: [1, 0]}}}
servers: {atlas: {broker: 0}}
queues: {links: {messages: 2}}
services:
  - name: maps
    kind: channels
    protocol: channels
    workload:
      - source: script
        clients: people
        actions:
          - {at: 50 ms, client: 0, op: subscribe, number: 0, body: [24000000, 0, 1, 0, 375]}
          - {at: 50 ms, client: 0, op: subscribe, number: 1, body: [24000000, 0, 500, 0, 1]}
          - {at: 90 ms, client: 1, op: subscribe, number: 0, body: [24000000, 0, 1, 0, 1]}
          - {at: 100 ms, client: 1, op: subscribe, number: 0, body: [24000000, 0, 1, 0, 1125]}
trace: {level: full}
"""


@pytest.mark.parametrize("where", ["in tasks", "in Spark"])
def test_a_lost_word_excuses_until_one_said_later_has_come(where, tmp_path, monkeypatch):
    if where == "in Spark":
        monkeypatch.setattr(audits, "matcher_of", lambda rule: None)
    (tmp_path / "narrow.yaml").write_text(NARROW, encoding="utf-8")
    service = one(running.run(tmp_path / "narrow.yaml", engine="inline", out=tmp_path / "runs").folder.path)
    assert service.verdict == "valid", service.reason
    assert 0 < service.excused_missed <= service.excused


@pytest.mark.full
def test_without_hops_more_is_excused_and_nothing_is_accused(maps):
    full, less = one(maps(loss="2 %").path), one(maps(loss="2 %", level="deliveries").path)
    assert less.verdict == "valid"
    assert less.forced <= full.forced


# ---- faults, planted in a copy of the trace ----------------------------------------------------------


def edited(row, **values):
    """Puts other values into one row of a table."""

    def edit(table):
        for name, change in values.items():
            column = table.column(name).to_pylist()
            column[row] = change(column[row])
            field = table.schema.field(name)
            table = table.set_column(table.schema.get_field_index(name), field, pa.array(column, field.type))
        return table

    return edit


def test_an_answer_that_is_not_there_is_missed(maps, tampered):
    folder = maps()
    last = int(pc.max(folder.read("received").column("round")).as_py()) - 1
    service = one(tampered(folder, received=lambda t: t.filter(pc.not_equal(t.column("round"), last))))
    assert service.verdict == "invalid"
    assert service.missed.count > 0 and service.unwanted.count == 0
    example = service.missed.examples[0]
    assert example["client"] == (example["publication"] >> 32) - folder.read("brokers").num_rows
    assert example["message"].startswith(f"{example['client']}#")


def test_wrong_answers_are_named(maps, tampered):
    folder = maps()
    received, changes = folder.read("received").to_pydict(), folder.read("changes").to_pydict()
    ended = {query for query, operation in zip(changes["interest"], changes["operation"]) if operation == UNSUBSCRIBE}
    gone = max(row for row, query in enumerate(received["query"]) if query in ended)  # answered for the last time
    middle = len(received["query"]) // 2

    def plant(table):
        for row, fault in enumerate(
            (
                {"objects": lambda n: n + 1},  # one object too many
                {"marks": lambda n: n ^ 1},  # as many, but others
                {"client": lambda n: n + 1},  # somebody else's: missing there, unwanted here
                {"round": lambda n: n + 10_000},  # at a time at which nothing is due: the same
            ),
            middle,
        ):
            table = edited(row, **fault)(table)
        twice = table.slice(middle + 4, 1)
        goes_on = edited(0, round=lambda n: n + 4)(table.slice(gone, 1))
        return pa.concat_tables([table, twice, goes_on])

    service = one(tampered(folder, received=plant))
    assert (service.verdict, service.missed.count, service.unwanted.count) == ("invalid", 2, 6)
