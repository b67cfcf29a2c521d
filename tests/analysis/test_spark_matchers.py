"""What tasks make of pairs and of order, beside what Spark makes of them by the rules."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

from analysis.spark import audit as audits  # noqa: E402
from analysis.spark import compared, comparing, passes  # noqa: E402
from protocols.content.kind import PUBLISH  # noqa: E402
from scenarios import running  # noqa: E402
from tests.analysis.test_spark_channels import MAPS, TREE  # noqa: E402
from tests.analysis.test_spark_context import NEAR as CONTEXTS  # noqa: E402
from tests.analysis.test_spark_spatial import NEAR as NEAREST  # noqa: E402
from tests.analysis.test_spark_topics import SITES  # noqa: E402
from tests.analysis.test_spark_topk import BEST  # noqa: E402

CYCLES = "{kind: watts-strogatz, nodes: 15, neighbours: 4, rewire: 0.2}"
LINE = "\n    "


def wrong(deliveries: pa.Table) -> pa.Table:
    """Some deliveries gone, some twice, some to others, some of nothing that was published, some at other times."""
    rng = np.random.default_rng(7)
    rows = deliveries.take(pa.array(np.flatnonzero(rng.random(deliveries.num_rows) > 0.02)))
    again = rows.take(pa.array(rng.integers(0, rows.num_rows, 40)))
    columns = {name: again[name].to_numpy().copy() for name in again.column_names}
    columns["client"][:10] = rng.permutation(columns["client"][:10])
    columns["publication"][10:14] += 1 << 50
    columns["publication"][14] = -1
    columns["time_ns"] = columns["time_ns"] + rng.integers(0, 2, 40) * 300_000_000
    return pa.concat_tables([rows, pa.table(columns, schema=rows.schema)])


RUNS = {
    "covering": {},
    "lossy": {"loss": "4 %", "protocol": "covering"},
    "lossy on cycles": {"loss": "4 %", "protocol": "subscription", "topology": CYCLES},
    "deliveries only": {"level": "deliveries", "protocol": "flooding"},
    "short of memory": {"protocol": "flooding", "topology": CYCLES, "options": "{remember_s: 0.05}"},
    "cut": {"drain": "0 s", "duration": "2 s", "protocol": "flooding"},
}


@pytest.fixture
def told(monkeypatch):
    """What an audit says, without the name of the run."""

    def tell(path, in_spark=False, few=True, **more):
        with monkeypatch.context() as patch:
            if in_spark:
                patch.setattr(audits, "matcher_of", lambda rule: None)
            if not few:
                patch.setattr(compared, "VERY_FEW_ROWS", 0)
                patch.setattr(compared, "_ROWS_PER_TASK", 2_000)
                patch.setattr(passes, "PIECE_ROWS", 1_000)
            services = audits.audit(path, **more).as_data()["services"]
        for each in services:
            del each["shares"], each["outages"], each["heals"]  # only tasks tell them
            for told_of in (each["budget"] or {}, (each["budget"] or {}).get("examples", {})):
                told_of.pop("waste", None)
        return services

    return tell


@pytest.mark.parametrize("name", RUNS)
def test_tasks_say_of_every_pair_what_spark_does(name, news, tampered, told):
    path = tampered(news(**RUNS[name]), deliveries=wrong)
    (expected,) = told(path, in_spark=True)
    (found,) = told(path)
    assert found == expected
    assert found["forced"] > 0 < found["free"]
    assert all(found["findings"][name]["count"] > 0 for name in ("unwanted", "duplicated"))
    assert (found["excused"] > 0) == (found["losses"] > 0)
    assert (found["late_missed"] > 0) == ("options" in RUNS[name])


def astray(hops: pa.Table) -> pa.Table:
    """Some publications over other links, and some once more."""
    links = hops["link"].to_numpy().copy()
    carrying = np.flatnonzero((links >= 0) & (hops["type"].to_numpy() == PUBLISH) & (hops["kind"].to_numpy() == 1))
    chosen = np.random.default_rng(3).choice(carrying, 60, replace=False)
    links[chosen] = (links[chosen] + 2) % (int(links.max()) + 1)
    moved = hops.set_column(hops.schema.get_field_index("link"), "link", pa.array(links, pa.int32()))
    return pa.concat_tables([moved, moved.take(pa.array(chosen[:20]))])


def test_many_tasks_count_what_links_carried_as_one_does(news, tampered, monkeypatch):
    path = tampered(news("subscription"), hops=astray)
    (alone,) = audits.audit(path).services
    monkeypatch.setattr(compared, "VERY_FEW_ROWS", 0)
    monkeypatch.setattr(compared, "_ROWS_PER_TASK", 2_000)
    monkeypatch.setattr(passes, "PIECE_ROWS", 1_000)
    (many,) = audits.audit(path).services
    assert (many.budget, many.quiet) == (alone.budget, alone.quiet)
    assert alone.budget["twice"] >= 20 and alone.budget["waste"] > 0 and alone.verdict == "invalid"


def test_a_delivery_that_fell_with_its_broker_is_excused_in_tasks_as_in_spark(tmp_path, told):
    crash = "[{fault: crash, brokers: [3, 4, 5, 6], at: 1700 ms}]"
    slow = ["services.news.cost.base=5 ms", "trace.level=full", "duration=3 s", f"faults.schedule={crash}"]
    run = running.run("news", overrides=slow, engine="inline", out=tmp_path)
    assert min(run.read("losses")["link"].to_pylist()) == -1  # on no link
    (found,) = told(run.folder.path)
    assert [found] == told(run.folder.path, in_spark=True)
    assert found["verdict"] == "valid" and found["excused_missed"] > 0


def wrong_rows(table: pa.Table) -> pa.Table:
    """Some rows gone, some twice, and some that say something else."""
    rng = np.random.default_rng(5)
    rows = table.take(pa.array(np.flatnonzero(rng.random(table.num_rows) > 0.03)))
    again = rows.take(pa.array(rng.integers(0, rows.num_rows, 12)))
    columns = {name: again[name].to_numpy().copy() for name in again.column_names}
    for number, name in enumerate({"rank", "score", "objects", "marks", "round"} & set(columns)):
        columns[name][3 * number : 3 * number + 4] += 1
    columns["client"][8:10] += 1
    return pa.concat_tables([rows, pa.table(columns, schema=rows.schema)])


PLANTED = {"best": {"rankings": wrong_rows}, "maps": {"received": wrong_rows}}
SAID = {"protocol": "spatial", "said": "delta: 1", "loss": "0"}
OTHERS = {
    "context": (CONTEXTS, {"protocol": "context-replicated", "loss": "2 %"}),
    "topk": (BEST, {"protocol": "topk-gather", "said": "ties: none", "loss": "4 %"}),
    "channels": (MAPS, {"options": "{}", "topology": TREE, "loss": "2 %", "level": "full"}),
    "spatial": (NEAREST, {**SAID, "protocol": "spatial-keyword", "said": "lifetime_ms: 400", "loss": "1 %"}),
    "topics": (SITES, {"protocol": "covering", "said": "levels: 5", "asked": "", "loss": "2 %"}),
    "topics as in NATS": (SITES, {"protocol": "flooding", "said": "syntax: nats", "asked": "", "loss": "0"}),
    "context, nothing lost": (CONTEXTS, {"protocol": "context-edge", "loss": "0"}),
    "topk by receiver": (BEST, {"protocol": "topk-bounded", "said": "unit: receiver", "loss": "0"}),
    "topk with all ties": (BEST, {"protocol": "topk-gather", "said": "ties: all", "loss": "0"}),
    "topk prorated": (BEST, {"protocol": "topk-ingress", "said": "prorate: true", "loss": "4 %"}),
    "topk, no tie": (BEST, {"protocol": "topk-bounded", "said": f"ties: none{LINE}unit: receiver", "loss": "0"}),
    "channels on cycles": (MAPS, {"options": "{mode: channels, channels: 3}", "topology": CYCLES, "loss": "0",
                                  "level": "full"}),
    "channels without hops": (MAPS, {"options": "{}", "topology": TREE, "loss": "2 %", "level": "deliveries"}),
    "spatial on the sphere": (NEAREST, {**SAID, "said": f"geometry: sphere{LINE}delta: 1.5"}),
    "spatial, lossy": (NEAREST, {**SAID, "loss": "3 %"}),
    "spatial, the last": (NEAREST, {**SAID, "said": f"last: 20{LINE}lifetime_ms: 300"}),
}  # fmt: skip


USUAL = {"context", "topk", "channels", "spatial", "topics"}


@pytest.mark.parametrize("name", [
    name if name in USUAL else pytest.param(name, marks=pytest.mark.full) for name in OTHERS
])  # fmt: skip
def test_tasks_judge_other_kinds_as_spark_does(name, filled, tampered, told):
    text, gaps = OTHERS[name]
    right = filled(text, **gaps)
    service = right.manifest["scenario"]["services"][0]["name"]
    path = tampered(right, **PLANTED.get(service, {"deliveries": wrong}))
    (expected,) = told(path, in_spark=True)
    assert told(path) == [expected]
    assert told(path, few=False) == [expected]
    assert expected["forced"] > 0 < expected["free"]
    assert (expected["losses"] > 0) == (gaps["loss"] != "0")
    assert sum(expected["findings"][each]["count"] for each in ("missed", "unwanted")) > 0


def test_a_small_audit_starts_no_spark(news, told, monkeypatch):
    monkeypatch.setattr("analysis.spark.session._start", None)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", None)
    assert told(news("covering").path)[0]["verdict"] == "valid"


@pytest.mark.parametrize("name", ["lossy", "deliveries only"])
def test_many_tasks_say_what_one_does(name, news, tampered, told):
    path = tampered(news(**RUNS[name]), deliveries=wrong)
    assert told(path, few=False) == told(path)


def test_a_sample_is_the_same_in_spark_and_in_tasks(news, told):
    path = news("flooding").path
    assert told(path, sample=100) == told(path, in_spark=True, sample=100)


def test_a_hash_is_that_of_spark(spark):
    from pyspark.sql import functions as F

    numbers = np.random.default_rng(3).integers(-(1 << 62), 1 << 62, 500)
    rows = spark.createDataFrame(pa.table({"n": numbers})).select("n", F.xxhash64("n").alias("h")).toArrow()
    assert np.array_equal(comparing.hashed(rows["n"].to_numpy()), rows["h"].to_numpy())
