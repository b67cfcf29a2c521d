"""Runs whose links were described: whoever reads them calls each link by its row."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.report.gather import blocks
from brokers.contract import MESSAGE
from brokers.engine.linkrows import LinkRows
from brokers.verdicts import VALID

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

from analysis.spark.audit import audit  # noqa: E402
from analysis.spark.graph import Network  # noqa: E402
from analysis.spark.passes import pieces_of  # noqa: E402
from analysis.spark.trace import Trace  # noqa: E402

TEXT = """\
duration: 6 s
topology: {{kind: star, nodes: 20}}
links: {{delay: 20 ms, latent: {{{which}, delay: {{kind: uniform, low: 10 ms, high: 50 ms}}}}}}
clients:
  readers: {{count: 20, placement: even}}
services:
  - name: news
    kind: content
    attributes: 1
    protocol: hyparview-flooding
    options: {{shuffle: 1 s}}
    subscriptions: settled
    workload:
      - {{source: subscribe, clients: readers, constraints: 1, width: 1}}
      - {{source: publish, clients: readers, rate: 1/s, start: 2 s}}
faults:
  detect: 100 ms
  schedule:
    - {{fault: crash, brokers: [b3, b4, b5, b6], at: 3 s, state: kept}}
trace: {{level: full}}
"""


def test_links_are_called_by_their_rows():
    rows = LinkRows.of(np.array([0, 1, 2, 3, 19, 40, 13, 25], np.int32))
    assert rows.rows(np.array([-1, 0, 3, 13, 19, 25, 40, 14])).tolist() == [-1, 0, 3, 6, 4, 7, 5, 14]
    assert LinkRows.of(np.arange(8)) is None


def test_every_way_of_reading_calls_them_so(filled, spark):
    run = filled(TEXT, which="all: true")
    network, trace = Network.of(run), Trace(spark, run)
    assert run.read("links")["link"].to_pylist() == list(range(network.source.size))
    for table in ("hops", "losses"):
        link = run.read(table)["link"].to_numpy()
        assert link.max() < network.source.size and (link >= 2 * 19).sum() > 5
        by_spark = [row["link"] for row in trace.table(table).select("link").collect()]
        pieces = pieces_of(table, map(str, run.parts(table)), ("link",))
        by_piece = np.concatenate([piece.read()["link"] for piece in pieces])
        by_block = np.concatenate([rows["link"] for rows in blocks(run, table, ("link",))])
        assert sorted(by_spark) == sorted(link.tolist()) == sorted(by_piece.tolist()) == sorted(by_block.tolist())
    hops = run.read("hops")
    link, source, broker = (hops[name].to_numpy() for name in ("link", "source", "broker"))
    over = (link >= 0) & (hops["kind"].to_numpy() == MESSAGE)
    assert (network.source[link[over]] == source[over]).all() and (network.target[link[over]] == broker[over]).all()


def test_the_audit_says_what_it_says_of_listed_ones(filled):
    one, other = (audit(filled(TEXT, which=which).path).services[0] for which in ("all: true", "hops: 2"))
    assert one.verdict == other.verdict == VALID
    assert one.deliveries == other.deliveries > 50
