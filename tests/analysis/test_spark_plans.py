"""What Spark plans for a small audit."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.xdist_group("spark")

import analysis.spark.audit as audits  # noqa: E402
from analysis.spark.session import session  # noqa: E402
from protocols.content.audit import ContentRule  # noqa: E402


def test_a_small_audit_shuffles_nothing_and_goes_back_no_further_than_what_it_kept(
    spark, news, monkeypatch, capsys
):
    judged = audits.judged

    def told(*arguments):
        pairs = judged(*arguments)
        before = spark.conf.get("spark.sql.maxPlanStringLength")
        spark.conf.set("spark.sql.maxPlanStringLength", "1000000")
        pairs.explain()
        spark.conf.set("spark.sql.maxPlanStringLength", before)
        return pairs

    monkeypatch.setattr(audits, "judged", told)
    monkeypatch.delattr(ContentRule, "matcher")  # a rule that is asked in Spark
    assert audits.audit(news("covering").path).verdict == "valid"
    plan = capsys.readouterr().out
    assert "SortMergeJoin" in plan
    assert "Exchange" not in plan
    assert "Scan ExistingRDD" in plan
    assert plan.count("FileScan") == 1  # the deliveries; publications and changes were kept


def test_only_few_rows_are_planned_for_one_partition(spark):
    with session(rows=1_000) as few:
        assert few.conf.get("spark.sql.defaultSizeInBytes") == "1"
        with session(rows=10_000_000) as many:
            assert int(many.conf.get("spark.sql.defaultSizeInBytes")) == 2**63 - 1
            assert many.conf.get("spark.sql.optimizer.runtime.bloomFilter.enabled") == "true"
        assert few.conf.get("spark.sql.defaultSizeInBytes") == "1"
