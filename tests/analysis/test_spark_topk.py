"""The audit of the kind topk: right answers pass, whatever was free; a wrong one is named."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from scenarios.running import run

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

from analysis.spark.audit import audit  # noqa: E402
from analysis.spark.explain import explain  # noqa: E402

BEST = """\
duration: 4 s
topology: {{kind: random-tree, nodes: 9}}
links: {{delay: {{kind: uniform, low: 3 ms, high: 25 ms}}, jitter: 1 ms, loss: {loss}}}
clients:
  publishers: {{count: 4}}
  subscribers: {{count: 25}}
services:
  - name: best
    kind: topk
    protocol: {protocol}
    attributes: 4
    k: 4
    {said}
    workload:
      - {{source: rank-subscribe, clients: subscribers, number: [1, 3], constraints: [1, 3], width: 0.5,
         weight: [-1, 4], weight_values: 6, ramp: 1 s, churn: {{process: replace, rate: 6/min}}}}
      - {{source: rank-subscribe, clients: subscribers, constraints: [1, 3], width: 0.5, weight: [0, 4],
         weight_values: 5, ramp: 1 s, reweight: 10/min}}
      - {{source: rank-publish, clients: publishers, rate: 10/s, interval: 0.05}}
      - {{source: rank-publish, clients: publishers, rate: 3/s, weights: [0, 2]}}
trace: {{level: full}}
"""


@pytest.fixture(scope="module")
def best(filled):
    """Makes a run, once for each way of calling it."""

    def make(protocol, said="ties: deterministic", loss="0"):
        return filled(BEST, protocol=protocol, said=said, loss=loss)

    return make


def one(path):
    (service,) = audit(path).services
    return service


def test_without_hops_a_long_search_is_judged_up_to_its_answer(tmp_path):
    """A search over a star asks its branches in turn: far longer than a message travels."""
    text = BEST.format(protocol="topk-bounded", said="ties: deterministic", loss="0")
    text = text.replace("random-tree, nodes: 9", "star, nodes: 16").replace("level: full", "level: deliveries")
    (tmp_path / "star.yaml").write_text(text, encoding="utf-8")
    service = one(run(tmp_path / "star.yaml", engine="inline", out=tmp_path / "runs").folder.path)
    assert service.verdict == "valid", service.reason
    assert service.forced > 100


@pytest.mark.parametrize(
    ("protocol", "said", "loss"),
    [
        ("topk-ingress", "ties: deterministic", "0"),
        pytest.param("topk-bounded", "unit: receiver", "0", marks=pytest.mark.full),
        pytest.param("topk-gather", "ties: none", "4 %", marks=pytest.mark.full),
        pytest.param("topk-bounded", "ties: none", "0", marks=pytest.mark.full),
        pytest.param("topk-gather", "ties: all", "0", marks=pytest.mark.full),
        pytest.param("topk-ingress", "prorate: true", "4 %", marks=pytest.mark.full),
        pytest.param("topk-bounded", "threshold: 1.5", "4 %", marks=pytest.mark.full),
    ],
)
def test_right_answers_are_valid(best, protocol, said, loss):
    service = one(best(protocol, said, loss).path)
    assert service.verdict == "valid", service.reason
    assert service.forced > (service.free / 2 if loss == "0" else 100)
    assert (service.losses > 0) == (service.excused > 0) == (loss != "0")


def test_a_recipient_that_was_left_out_and_one_that_was_put_in_are_named(best, tampered):
    run = best("topk-ingress")
    rows = run.read("deliveries")
    served = Counter(rows["publication"].to_pylist())
    publication = next(p for p, count in served.most_common() if count == 4)
    at = pc.index(rows["publication"], publication).as_py()
    clients = rows.filter(pc.equal(rows["publication"], publication))["client"].to_pylist()
    stranger = next(c for c in set(rows["client"].to_pylist()) if c not in clients)

    def another(table):
        row = table.slice(at, 1)
        row = row.set_column(row.schema.get_field_index("client"), "client", pa.array([stranger])).cast(table.schema)
        return pa.concat_tables([table.slice(0, at), row, table.slice(at + 1)])

    service = one(tampered(run, deliveries=another))
    assert service.verdict == "invalid"
    number = stranger - run.read("brokers").num_rows
    assert service.unwanted.count == 1 and service.unwanted.examples[0]["client"] == number
    assert service.missed.count + service.out_of_order.count >= 1


def test_an_answer_that_counts_a_filter_twice_as_good_is_named(best, tampered):
    """Everyone was served as before; but a weight that had long settled was another."""
    run = best("topk-gather")
    rankings = run.read("rankings")
    winner = Counter(rankings["interest"].to_pylist()).most_common(1)[0][0]

    def weigh_less(table):
        values = [
            [0.0 if i % 4 == 3 and v == v else v for i, v in enumerate(row)] if interest == winner else row
            for row, interest in zip(table["values"].to_pylist(), table["interest"].to_pylist())
        ]
        at = table.schema.get_field_index("values")
        return table.set_column(at, "values", pa.array(values, table["values"].type))

    service = one(tampered(run, changes=weigh_less))
    assert service.verdict == "invalid" and service.missed.count > 0


@pytest.mark.parametrize(
    "column", ["tie", pytest.param("rank", marks=pytest.mark.full), pytest.param("gone", marks=pytest.mark.full)]
)
def test_rankings_that_say_something_else_than_the_definition_are_named(best, tampered, column):
    """Everyone was served as before, and the rankings are the only table that is wrong."""
    run = best("topk-ingress")
    # Filters have settled then, and few change: of the last publications, some had nothing free.
    late = set(run.read("publications")["publication"].to_pylist()[-60:])

    def misstate(table):
        mine = [p in late for p in table["publication"].to_pylist()]
        if column == "gone":
            return table.filter(pa.array([not m or r > 0 for m, r in zip(mine, table["rank"].to_pylist())]))
        values = [1 - v if m else v for v, m in zip(table[column].to_pylist(), mine)]
        at = table.schema.get_field_index(column)
        return table.set_column(at, column, pa.array(values, table[column].type))

    service = one(tampered(run, rankings=misstate))
    assert service.verdict == "invalid"
    assert service.missed.count > 10
    assert (service.unwanted.count > 10) == (column != "gone")
    client = service.missed.examples[0]["client"]
    nodes = run.read("brokers").num_rows
    assert client == -1 or client + nodes in run.read("rankings")["client"].to_pylist()


def test_explain_says_what_a_filter_scores(best):
    run = best("topk-ingress")
    rankings = run.read("rankings")
    rankings = rankings.filter(pc.greater_equal(rankings["rank"], 0))
    publication, client = rankings["publication"][0].as_py(), rankings["client"][0].as_py()
    told = explain(run.path, str(publication), client - run.read("brokers").num_rows)
    assert "scores" in str(told)
