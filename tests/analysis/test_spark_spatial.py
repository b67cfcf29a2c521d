"""The audit of the kind spatial: right answers pass, whatever was free; a wrong one is named."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

from analysis.spark.audit import audit  # noqa: E402
from analysis.spark.explain import explain  # noqa: E402

NEAR = """\
duration: 4 s
topology: {{kind: random-tree, nodes: 9}}
links: {{delay: {{kind: uniform, low: 1 ms, high: 5 ms}}, loss: {loss}}}
clients:
  sellers: {{count: 6}}
  seekers: {{count: 20}}
services:
  - name: near
    kind: spatial
    protocol: {protocol}
    keywords: 6
    k_max: 3
    {said}
    workload:
      - {{source: object-subscribe, clients: seekers, number: [1, 2], words: [1, 2], domain: [-60, 60], ramp: 500 ms,
         churn: {{process: replace, rate: 6/min}}}}
      - {{source: objects, clients: sellers, rate: 6/s, words: [1, 2], domain: [-60, 60], lifetime: 1 s}}
trace: {{level: full}}
"""


@pytest.fixture(scope="module")
def near(filled):
    """Makes a run, once for each way of calling it."""

    def make(protocol, said="delta: 1", loss="0"):
        return filled(NEAR, protocol=protocol, said=said, loss=loss)

    return make


def one(path):
    (service,) = audit(path).services
    return service


@pytest.mark.parametrize(
    ("protocol", "said", "loss"),
    [
        ("spatial", "delta: 1", "0"),
        pytest.param("spatial", "delta: 1", "3 %", marks=pytest.mark.full),
        pytest.param("spatial", "{geometry: sphere, delta: 1.5}", "0", marks=pytest.mark.full),
        pytest.param("spatial-keyword", "last: 6", "0", marks=pytest.mark.full),
        pytest.param("spatial-keyword", "lifetime_ms: 400", "0", marks=pytest.mark.full),
        pytest.param("spatial", "{last: 20, lifetime_ms: 300}", "0", marks=pytest.mark.full),
        pytest.param("spatial-flooding", "last: 6", "3 %", marks=pytest.mark.full),
    ],
)
def test_right_answers_are_valid(near, protocol, said, loss):
    said = said.strip("{}").replace(", ", "\n    ") if said.startswith("{") else said
    service = one(near(protocol, said, loss).path)
    assert service.verdict == "valid", service.reason
    assert service.forced > 50


def test_who_was_left_out_and_who_got_what_others_were_nearer_to_are_named(near, tampered):
    run = near("spatial")
    deliveries = run.read("deliveries")
    publication = deliveries["publication"][-1].as_py()
    served = deliveries.filter(pc.equal(deliveries["publication"], publication))["client"].to_pylist()
    strangers = sorted(set(deliveries["client"].to_pylist()) - set(served))

    def to_strangers(table):
        """Half of the deliveries are missing, and the last object went to all others too."""
        row = table.slice(len(table) - 1, 1)
        at = row.schema.get_field_index("client")
        more = [row.set_column(at, "client", pa.array([c])).cast(table.schema) for c in strangers]
        return pa.concat_tables([table.slice(len(table) // 2), *more])

    service = one(tampered(run, deliveries=to_strangers))
    assert service.verdict == "invalid"
    assert service.unwanted.count > len(strangers) / 2 and service.missed.count > service.forced / 4


def test_an_answer_that_forgets_an_object_is_named(near, tampered):
    """All was delivered as before; but the objects that ranked before others lie elsewhere."""
    run = near("spatial")

    def nearer(table):
        values = [[0.0, 0.0, *row[2:]] if op == 1 else row for row, op in
                  zip(table["values"].to_pylist(), table["operation"].to_pylist())]  # fmt: skip
        at = table.schema.get_field_index("values")
        return table.set_column(at, "values", pa.array(values, table["values"].type))

    service = one(tampered(run, changes=nearer))
    assert service.verdict == "invalid" and service.missed.count > 0 and service.unwanted.count > 0


def test_explain_says_what_is_shared_and_how_far_apart(near):
    run = near("spatial")
    first = run.read("deliveries")
    publication, client = first["publication"][0].as_py(), first["client"][0].as_py()
    assert "shares keyword" in str(explain(run.path, str(publication), client - run.read("brokers").num_rows))
