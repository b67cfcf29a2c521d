"""What a reproduction writes, and what the command says of it."""

from __future__ import annotations

import json
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest

from analysis.papers.report import Report, markdown, reproduce


def two_findings(report: Report) -> None:
    report.table("times", "Times", [{"size": 10, "us": 1.5}, {"size": 100, "us": 15_000.0}])
    report.plot("times", "Times", "size", "us", {"scan": ([10, 100], [1.5, 15.0])}, log_x=True)
    report.text("Measured otherwise than in the source.")
    report.claim("linear", "section 5", "ratio 10", "ratio 10", np.bool_(True))
    report.claim("magic", "abstract", "1000 times", "3 times", False)
    report.claim("memory", "section 6", "not given", "4 bytes", None)


def test_a_reproduction_leaves_tables_plots_and_claims(tmp_path, capsys):
    reproduce("toy", [two_findings], tmp_path / "toy", 7, False, as_json=True)
    document = json.loads(capsys.readouterr().out)
    assert [claim["holds"] for claim in document["claims"]] == [True, False, None]
    assert json.loads((tmp_path / "toy" / "claims.json").read_text())["claims"] == document["claims"]
    assert pq.read_table(tmp_path / "toy" / "times.parquet").to_pydict() == {
        "size": [10, 100], "us": [1.5, 15_000.0],
    }
    assert (tmp_path / "toy" / "times.png").stat().st_size > 5_000
    text = (tmp_path / "toy" / "report.md").read_text()
    assert "Seed 7" in text and "| magic " in text and "does not hold" in text and "![Times](times.png)" in text


def test_without_matplotlib_the_plots_are_left_out_and_that_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    reproduce("toy", [two_findings], tmp_path, 1, False, as_json=False)
    assert not (tmp_path / "times.png").exists()
    assert (tmp_path / "report.md").read_text().count("matplotlib is missing") == 1
    assert "| linear | section 5 |" in capsys.readouterr().out


def test_a_table_without_rows_is_a_mistake_of_the_reproduction(tmp_path):
    with pytest.raises(ValueError, match="'none' has no rows"):
        Report("toy", tmp_path, 1, False, print).table("none", "None", [])


def test_columns_of_a_markdown_table_are_aligned():
    assert markdown([{"a": 1, "long name": None}, {"a": 12_345.0, "long name": "x"}]).splitlines() == [
        "| a      | long name |",
        "|--------|-----------|",
        "| 1      |           |",
        "| 12.3 k | x         |",
    ]
