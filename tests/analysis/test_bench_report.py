"""Rows of the group `report`, scaled down. No figure of a machine is judged."""

from __future__ import annotations

from analysis.bench import browsing, report

SMALL = report.Case("small", "news", ("duration=2 s", "topology.nodes=8"), 1e6, 60.0, 1000.0, 1e6, 600.0, 50.0)


def test_a_report_is_made_weighed_opened_and_drawn():
    rows = {row["name"]: row for row in report.measure(report.Sizes((SMALL,)))}
    played = rows.pop("small: frames played", None)
    assert all(row["holds"] in (True, None) for row in rows.values())
    events, size = rows["small: events"]["value"], rows["small: the file"]["value"]
    assert rows["small: the file, an event"]["value"] == size * 1e3 / events > 0
    figures = rows["small: eight figures, CPU time"]
    assert figures["value"] > figures["baseline"] > 0  # drawing costs more than its data
    if browsing.missing():
        assert any("not opened" in name for name in rows)
    else:
        assert rows["small: opened in"]["value"] > 0 and rows["small: a frame"]["value"] > 0
        assert played["value"] > 0 and played["holds"] is False  # no browser shows a million a second


def test_what_is_asked_of_150_000_events_is_asked_of_1_000_brokers_too():
    small, large, wide = report.Sizes().cases[:3]
    for case in (small, large, wide):
        assert (case.most_bytes, case.opens_most_s, case.frame_most_ms) == (1e6, 1.0, 16.0)
        assert 59 < case.played_least_per_s <= 60


def test_without_a_browser_that_is_said_and_nothing_judged(monkeypatch):
    monkeypatch.setattr(browsing.shutil, "which", lambda name: None)
    assert browsing.missing() == browsing.NO_PROGRAM
    monkeypatch.setattr(report, "missing", browsing.missing)
    rows = list(report.measure(report.Sizes((SMALL,))))
    assert rows[-1]["name"].startswith("small: not opened, no browser on PATH") and rows[-1]["holds"] is None
