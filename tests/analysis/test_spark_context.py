"""The audit of the kind context: right runs pass, whatever values were in flight; a wrong delivery is named."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from protocols.conformance import audit as judge_in_python
from protocols.context.kind import UPDATE, Context

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

from analysis.spark.audit import audit  # noqa: E402
from analysis.spark.explain import explain  # noqa: E402

NEAR = """\
duration: 4 s
topology: {{kind: random-tree, nodes: 9}}
links: {{delay: {{kind: uniform, low: 3 ms, high: 25 ms}}, jitter: 1 ms, loss: {loss}}}
clients:
  things: {{count: 6}}
  people: {{count: 25}}
  senders: {{count: 4}}
services:
  - name: near
    kind: context
    protocol: {protocol}
    attributes: 2
    workload:
      - {{source: context-updates, clients: things, rate: 1/s, step: 0.3}}
      - {{source: context-profiles, clients: people, contexts: [0, 5], number: [1, 3], constraints: [1, 2],
         width: 0.6, bound: 0.7, alternatives: 2, ramp: 1 s, churn: {{process: replace, rate: 6/min}}}}
      - {{source: publish, clients: senders, rate: 10/s, start: 500 ms}}
trace: {{level: full}}
"""


@pytest.fixture(scope="module")
def near(filled):
    """Makes a run, once for each way of calling it."""

    def make(protocol, loss="0"):
        return filled(NEAR, protocol=protocol, loss=loss)

    return make


def one(path):
    (service,) = audit(path).services
    return service


@pytest.mark.parametrize(
    ("protocol", "loss"),
    [
        ("context-edge", "0"),
        ("context-escalated", "0"),
        pytest.param("context-replicated", "0", marks=pytest.mark.full),
        pytest.param("context-edge", "1 %", marks=pytest.mark.full),
        pytest.param("context-replicated", "1 %", marks=pytest.mark.full),
        pytest.param("context-escalated", "1 %", marks=pytest.mark.full),
    ],
)
def test_right_runs_are_valid_and_plain_python_agrees(near, protocol, loss):
    folder = near(protocol, loss)
    service = one(folder.path)
    assert service.verdict == "valid", service.reason
    assert service.forced > (service.free / 2 if loss == "0" else 100)
    if loss == "0":
        names = ("changes", "dependencies", "losses", "hops", "deliveries", "publications")
        tables = {name: _columns(folder.read(name)) for name in names}
        found = judge_in_python(tables, Context({"attributes": 2}), _exact(), 0)
        # Where a change leans on one that is withdrawn while a publication is under way, plain Python forces less.
        assert found.broken == [] and found.forced + found.free == service.forced + service.free
        assert 0 <= service.forced - found.forced <= 0.02 * service.forced


def test_a_delivery_too_many_and_one_too_few_are_named(near, tampered):
    folder = near("context-edge")
    rows = folder.read("deliveries")
    clients = rows["client"].to_pylist()
    stranger = min(set(clients)) - 1  # a thing: it asks for nothing

    def astray(table):
        row = table.slice(0, 1)
        row = row.set_column(row.schema.get_field_index("client"), "client", pa.array([stranger])).cast(table.schema)
        return pa.concat_tables([row, table.slice(len(table) // 2)])

    service = one(tampered(folder, deliveries=astray))
    assert service.verdict == "invalid"
    number = stranger - folder.read("brokers").num_rows
    assert service.unwanted.count == 1 and service.unwanted.examples[0]["client"] == number
    assert service.missed.count > 100


def test_answers_on_a_value_that_was_not_there_are_named(near, tampered):
    def other_values(table):
        values = [
            [*row[:2], 1.0 - row[2], *row[3:]] if operation == UPDATE else row
            for row, operation in zip(table["values"].to_pylist(), table["operation"].to_pylist())
        ]
        at = table.schema.get_field_index("values")
        return table.set_column(at, "values", pa.array(values, table["values"].type))

    service = one(tampered(near("context-edge"), changes=other_values))
    assert service.verdict == "invalid" and service.missed.count and service.unwanted.count


def test_explain_says_what_a_profile_asks_for(near):
    folder = near("context-edge")
    rows = folder.read("deliveries")
    publication, client = rows["publication"][0].as_py(), rows["client"][0].as_py()
    told = explain(folder.path, str(publication), client - folder.read("brokers").num_rows)
    assert "asks for" in str(told)


def _columns(table):
    found = {}
    for name in table.column_names:
        column = table[name]
        if pa.types.is_list(column.type):
            values = np.empty(len(column), object)
            values[:] = [np.array(row, float) for row in column.to_pylist()]
            found[name] = values
        else:
            found[name] = column.to_numpy()
    return found


def _exact():
    from protocols.context.edge import Edge

    return replace(Edge.guarantees)
