"""How reports name runs in what they tell to type: as seen from one folder, and never from the author's home."""

from __future__ import annotations

import shlex

import pytest

from analysis.report.making import report
from analysis.report.typed import command, named, whence


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A home with a project in it, and the machine's other folders."""
    home = tmp_path / "machine" / "home" / "alice"
    monkeypatch.setenv("HOME", str(home))
    for each in ("project/runs", "other/runs"):
        (home / each).mkdir(parents=True)
    (tmp_path / "machine" / "data" / "runs").mkdir(parents=True)
    return home


@pytest.mark.parametrize(
    ("here", "runs", "told"),
    [
        ("project", ["project/runs/a"], ["runs/a"]),
        ("project", ["project/runs/a", "project/runs/b"], ["runs/a", "runs/b"]),
        ("project/runs", ["project/runs/a"], ["a"]),
        ("other", ["project/runs/a"], ["a"]),
        ("project/runs", ["project/runs"], ["runs"]),  # the folder itself
        ("other", ["project/runs/a", "other/runs/b"], ["project/runs/a", "other/runs/b"]),
        ("other", ["project/runs/a", "../../data/runs/b"], ["a", "b"]),
        ("other", ["project/runs/a", "../../data/runs/a"], ["project/runs/a", "data/runs/a"]),
        ("../..", ["project/runs/a"], ["a"]),
        ("../..", ["../../data/runs/a"], ["data/runs/a"]),
    ],
)
def test_runs_are_named_from_one_folder_without_the_authors_home(folders, monkeypatch, here, runs, told):
    monkeypatch.chdir(folders / here)
    found = named([folders / each for each in runs])
    assert found == told
    assert "alice" not in " ".join(found)


def test_a_command_names_runs_as_a_shell_takes_them(folders, monkeypatch):
    monkeypatch.chdir(folders)
    run = folders / "project" / "runs" / "it's a #1"
    assert shlex.split(command([run], "means", metric="network.messages")) == [
        "brokerlab", "plot", "project/runs/it's a #1", "--kind", "means", "--metric", "network.messages",
    ]  # fmt: skip
    assert "project/runs/it's a #1" in whence([run])


def test_no_report_says_where_its_author_keeps_runs(made, swept, tmp_path, monkeypatch):
    a, b = made("news", "duration=2 s"), made("news", "duration=2 s", "services.news.protocol=flooding")
    sweep = swept("500 ms", 2)
    monkeypatch.chdir(tmp_path)
    for number, runs in enumerate(([a.path], [a.path, b.path], [sweep], [sweep, a.path, b.path], [a.path] * 3)):
        text = report(runs, tmp_path / f"{number}.html").read_text("utf-8")
        for each in runs:
            assert str(each.parent) not in text
            assert each.name in text
