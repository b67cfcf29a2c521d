"""What a report calls unusual, and that it never says more than what was looked at; shares are said."""

from __future__ import annotations

import re

import numpy as np
import pytest

from analysis.report import figures, one, summary
from analysis.report import gather as gathering
from analysis.report.gather import gather
from analysis.report.making import report

LEVELS = ("none", "summary", "deliveries", "full")
LOSSY = ("duration=2 s", "links.loss=20 %")


def unusual(run):
    return summary.unusual(gather(run, 1_000_000), None)


@pytest.mark.parametrize("level", LEVELS)
def test_losses_are_told_at_every_level(made, tmp_path, level):
    lost = made("news", *LOSSY, "trace.level=full").rows("losses")
    assert lost > 100
    run = made("news", *LOSSY, f"trace.level={level}")
    told = " ".join(unusual(run).found)
    assert re.search(rf"\b{lost:,} messages were lost", told)
    assert ("table losses, from level deliveries on" in told) == (level in ("none", "summary"))
    text = report([run.path], tmp_path / "r.html").read_text("utf-8")
    assert f"{lost:,} messages were lost" in text
    assert not re.search("no loss|no message lost|<li>Nothing", text)


@pytest.mark.parametrize("level", LEVELS)
def test_an_all_clear_says_what_was_looked_at_and_no_more(made, level):
    found = unusual(made("news", "duration=2 s", f"trace.level={level}"))
    assert found.found == []
    first, *rest = found.sentences
    assert first.startswith("Nothing: ") and first.endswith(".")
    assert "that never settled" in first and "no broker overloaded" in first
    assert ("no loss" in first) == (level in ("deliveries", "full"))
    assert ("no message lost over a link or dropped at a queue, by the run's totals" in first) == (
        level in ("none", "summary")
    )
    assert ("no link overloaded" in first) == (level != "none")
    assert rest == (
        ["Not known, for want of tables: overloaded links (table links, from level summary on)."]
        if level == "none"
        else []
    )


def test_of_totals_that_a_manifest_does_not_have_nothing_is_said(made):
    found = gather(made("news", "duration=2 s", "trace.level=none"), 1_000_000)
    metrics = found.run.manifest["engine"]["metrics"]
    was, metrics["network"] = metrics["network"], {}
    try:
        told = summary.unusual(found, None)
    finally:
        metrics["network"] = was
    assert told.absent == ["no fault in the scenario"]
    assert [table for _, table in told.unknown] == ["losses", "changes", "brokers", "links"]


@pytest.mark.parametrize(("level", "said"), [("none", "The scenario has faults;"), ("summary", "Faults from ")])
def test_faults_are_told_where_no_table_has_them(made, level, said):
    found = unusual(made("partition-heals", "duration=3 s", "expect=[]", f"trace.level={level}"))
    assert [each for each in found.found if each.startswith(said)]
    assert not [each for each in found.absent if "fault" in each]


def test_busy_brokers_are_told_with_how_many_more(made, monkeypatch):
    monkeypatch.setattr(summary, "BUSY_SHARE", 1e-6)
    thin, whole = (unusual(made("news", "duration=2 s", f"trace.level={level}")) for level in ("none", "summary"))
    assert [each for each in thin.found if each.startswith("The busiest broker was at work ")]
    brokers = [each for each in whole.found if each.startswith("Broker ")]
    (more,) = (each for each in whole.found if "more brokers were at work" in each)
    busy = made("news", "duration=2 s", "trace.level=summary").read("brokers")["busy_ns"].to_numpy() / 2e9
    assert len(brokers) == 5 and int(more.split()[0]) == (busy >= 1e-6).sum() - 5 > 0


def test_of_many_losses_a_share_from_all_the_time_is_kept_and_the_counts_are_of_all(made, monkeypatch):
    run = made("news", *LOSSY, "trace.level=full")
    whole = gather(run, 1_000_000)
    monkeypatch.setattr(gathering, "_ROWS_MOST", 200)
    some = gather(run, 1_000_000)
    assert np.array_equal(whole.counts["reasons"], some.counts["reasons"])
    assert 140 < some.rows("losses")["time_ns"].size < 260
    begin, end = whole.rows("losses")["time_ns"].min(), whole.rows("losses")["time_ns"].max()
    quarters, _ = np.histogram(some.rows("losses")["time_ns"], 4, (begin, end))
    of_all, _ = np.histogram(whole.rows("losses")["time_ns"], 4, (begin, end))
    assert (quarters > 0.5 * of_all * 200 / of_all.sum()).all()
    kept = set(zip(*(some.rows("losses")[name].tolist() for name in ("time_ns", "link", "body", "cause"))))
    assert kept < set(zip(*(whole.rows("losses")[name].tolist() for name in ("time_ns", "link", "body", "cause"))))


def test_what_happens_at_once_is_kept_by_a_share_too():
    """Half of all brokers fail at one moment: neither all nor none of them are in the file."""
    rows = {name: np.zeros(10_000, np.int64) for name in gathering.WANTED["faults"]}
    rows["broker"] = np.arange(10_000)
    share = gathering.Sample.of(10_000, 1_000).has(gathering._mixed(rows))
    assert 800 < share.sum() < 1_200


def test_faults_are_counted_whole_though_a_share_is_kept(made, monkeypatch):
    run = made("partition-heals", "duration=3 s", "expect=[]", "trace.level=summary")
    before = list(summary._failed(gather(run, 1_000_000)))
    monkeypatch.setattr(gathering, "_ROWS_MOST", 1)
    cut = gather(run, 1_000_000)
    assert list(summary._failed(cut)) == before != []


def test_of_very_many_faults_charts_shade_some_and_say_so(made, tmp_path, monkeypatch):
    run = made("flapping", "expect=[]", "trace.level=summary")
    found = gather(run, 1_000_000)
    whole = figures.shades(found)
    assert len(whole) > 4 and figures.shades_said(found) == []
    monkeypatch.setattr(figures, "_SHADES_MOST", 3)
    some = figures.shades(found)
    assert 1 < len(some) <= 3 and set(some) < set(whole) and some[-1] in whole[-len(whole) // 2 :]
    assert figures.shades_said(found) == [
        f"Charts shade {len(some)} of {len(whole)} times at which something was broken."
    ]
    text = report([run.path], tmp_path / "r.html").read_text("utf-8")
    assert figures.shades_said(found)[0] in text


def test_wherever_something_is_cut_the_report_says_how_many_of_how_many(made, tmp_path, monkeypatch):
    run = made("news", *LOSSY, "trace.level=full")
    whole = report([run.path], tmp_path / "whole.html").read_text("utf-8")
    assert "are in this file one by one" not in whole and "whether it had is not known" not in whole
    monkeypatch.setattr(gathering, "_ROWS_MOST", 200)
    monkeypatch.setattr(one, "_LOSSES_MOST", 50)
    text = report([run.path], tmp_path / "some.html", hops_most=3_000).read_text("utf-8")
    found = gather(run, 3_000)
    for table in ("losses", "changes"):
        kept, there = found.rows(table)["service"].size, run.rows(table)
        assert 0 < kept < there
        assert f"Of {there:,} {table} {kept:,} are in this file one by one" in text
    assert "whether it had is not known" in text
    (listed,) = re.findall(r"The list Lost has (\d+) of ([\d,]+) losses", text)
    assert 0 < int(listed[0]) <= 50 and listed[1] == f"{run.rows('losses'):,}"
    assert text.count("(link)</option>") == int(listed[0])
