"""What tasks make of pairs and of order, beside what Spark makes of them by the rules."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

from analysis.spark import audit as audits  # noqa: E402
from analysis.spark import compared, comparing, passes  # noqa: E402
from protocols.content.audit import ContentRule  # noqa: E402

CYCLES = "{kind: watts-strogatz, nodes: 15, neighbours: 4, rewire: 0.2}"


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
    "cut": {"drain": "0 s", "duration": "2 s", "protocol": "flooding"},
}


@pytest.fixture
def told(monkeypatch):
    """What an audit says, without the name of the run."""

    def tell(path, in_spark=False, few=True, **more):
        with monkeypatch.context() as patch:
            if in_spark:
                patch.delattr(ContentRule, "matcher")
            if not few:
                patch.setattr(compared, "VERY_FEW_ROWS", 0)
                patch.setattr(compared, "_ROWS_PER_TASK", 2_000)
                patch.setattr(passes, "PIECE_ROWS", 1_000)
            return audits.audit(path, **more).as_data()["services"]

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
