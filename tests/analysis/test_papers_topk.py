"""The reproduction of the top-k paper: its settings vary what they say, its claims are all there."""

from __future__ import annotations

import json

import numpy as np

from analysis.papers import topk
from analysis.papers.registry import PAPERS
from analysis.papers.report import Report
from brokers.registry import load

TINY = topk.Scale(filters=400, growth=(200, 400, 800), messages=2)


def test_a_message_without_its_last_attributes_matches_only_on_the_first():
    full, short = (topk.measured(topk.Point(filters=2_000, present=m), TINY, 1) for m in (20, 5))
    assert full["same"] and short["same"]
    assert 3 < full["hits"] / short["hits"] < 5
    assert short["bound"] < full["bound"]


def test_every_claim_is_made_and_the_answers_agree(tmp_path, monkeypatch):
    monkeypatch.setattr(topk, "Scale", lambda: TINY)
    drawn = []  # plots take long, and are tested with the report
    monkeypatch.setattr(Report, "plot", lambda self, name, *_, **__: drawn.append(name))
    report = Report("topk", tmp_path, 1, False, lambda text: None)
    load(PAPERS["topk"].target)(report)
    report.finish()
    claims = {claim["name"]: claim for claim in json.loads((tmp_path / "claims.json").read_text())["claims"]}
    assert claims["all indexes give the same answers"]["holds"] is True
    assert claims["the paper's structure beside the scan"]["holds"] is None
    assert len(claims) == 7
    assert drawn == ["filters", "present", "width", "k", "constraints", "sender", "bound"]
    for name in ("filters", "present", "width", "k", "constraints", "sender"):
        assert (tmp_path / f"{name}.parquet").exists()


def test_weights_of_the_sender_are_asked_where_the_sweep_says_so():
    rows = [topk.measured(topk.Point(filters=500, sender=sender), TINY, 1) for sender in (False, True)]
    assert np.isclose(rows[0]["hits"], rows[1]["hits"]) and all(row["same"] for row in rows)
