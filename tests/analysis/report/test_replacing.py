"""What is there already is replaced only where this program wrote it, a run's own files never; all or nothing."""

from __future__ import annotations

import shutil

import pytest

from scenarios.cli import main
from tests.analysis.report.test_plot import MATPLOTLIB

NOT_OURS = {
    "html": b"<!doctype html>\n<title>mine</title>",
    "svg": b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>',
    "pdf": b"%PDF-1.4 /Creator (somebody)",
    "png": b"\x89PNG\r\n\x1a\nSoftware\0GIMP",
    "csv": b"name,price\nring,5\n",
}


@pytest.fixture
def run(made, tmp_path):
    """A run of our own to spoil."""
    source = made("news", "duration=2 s", "trace.level=full")
    folder = tmp_path / "runs" / source.path.name
    shutil.copytree(source.path, folder, ignore=shutil.ignore_patterns("analysis"))
    return folder


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def command(run, form, target):
    if form in ("html", "picture"):
        option = "--out" if form == "html" else "--svg"
        return ["report", str(run), "--out", str(target.with_name("beside.html")), option, str(target)]
    return ["plot", str(run), "--kind", "latency", "-o", str(target)]


FORMS = ["html", "picture", "csv", *(pytest.param(form, marks=MATPLOTLIB) for form in ("svg", "pdf", "png"))]


@pytest.mark.parametrize("form", FORMS)
def test_what_we_wrote_is_written_again_and_what_somebody_else_did_is_not(run, tmp_path, form, capsys):
    target = tmp_path / "out" / f"file.{'svg' if form == 'picture' else form}"
    asked = command(run, form, target)
    assert main(asked) == main(asked) == 0
    ours = target.read_bytes()
    target.write_bytes(NOT_OURS[target.suffix[1:]])
    before = contents(tmp_path)
    capsys.readouterr()
    assert main(asked) == 3
    error = capsys.readouterr().err
    assert f"{target} is there already; --force replaces it" in error and error.count("\n") == 1
    assert contents(tmp_path) == before
    assert main([*asked, "--force"]) == 0 and target.read_bytes() == ours
    target.write_bytes(b"")
    assert main(asked) == 0 and target.read_bytes() == ours


def test_data_of_a_figure_may_become_that_of_another_but_no_other_table(run, tmp_path, capsys):
    target = tmp_path / "data.csv"
    for kind in ("latency", "deliveries", "space-time", "space-time"):
        assert main(["plot", str(run), "--kind", kind, "-o", str(target)]) == 0
    was = target.read_bytes()
    assert not was.startswith(b"series,")
    assert main(["plot", str(run), "--kind", "latency", "-o", str(target)]) == 3
    assert "is there already; --force" in capsys.readouterr().err and target.read_bytes() == was


def test_where_one_of_several_figures_has_no_place_none_is_written(run, tmp_path, capsys):
    (tmp_path / "deliveries.csv").write_bytes(NOT_OURS["csv"])
    asked = ["plot", str(run), "--kind", "latency", "--kind", "deliveries", "-o", str(tmp_path / "{kind}.csv")]
    assert main(asked) == 3
    assert [each.name for each in tmp_path.glob("*.csv")] == ["deliveries.csv"]


def test_a_report_in_its_own_place_is_replaced_whatever_it_was(run):
    place = run / "analysis" / "report.html"
    place.parent.mkdir()
    place.write_bytes(b"a report of an earlier version")
    assert main(["report", str(run)]) == 0 and place.read_bytes().startswith(b"<!doctype html>")


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize("inside", ["manifest.json", "_SUCCESS", "tables/hops/part-0000.parquet", "tables/new.csv"])
def test_what_a_run_is_made_of_is_never_replaced(run, inside, force, capsys, monkeypatch):
    monkeypatch.chdir(run.parent)
    (run.parent / "linked").symlink_to(run)
    before = contents(run)
    for folder in (run, run.parent / "linked"):
        target = folder / inside
        for asked in (
            ["report", str(run), "--out", str(target)],
            ["report", str(run), "--out", "r.html", "--svg", str(target)],
            ["export", str(run), "--to", "graphml", "--out", str(target)],
            *([["plot", str(run), "--kind", "latency", "-o", str(target)]] if target.suffix == ".csv" else []),
        ):
            assert main([*asked, *force]) == 3
            assert f"is part of the run {run.name} and stays as it is" in capsys.readouterr().err
    assert contents(run) == before and not (run.parent / "r.html").exists()


# ---- all or nothing --------------------------------------------------------------------------------------


def test_a_table_that_is_damaged_leaves_no_csv_of_the_others(damaged, tmp_path, capsys):
    out = tmp_path / "deep" / "tables"
    assert main(["export", str(damaged), "--to", "csv", "--out", str(out)]) == 2
    assert "its sha256 differs" in capsys.readouterr().err
    assert not (tmp_path / "deep").exists()
    out.mkdir(parents=True)
    assert main(["export", str(damaged), "--to", "csv", "--out", str(out)]) == 2
    assert list(out.iterdir()) == []


def test_with_force_old_csv_stay_where_a_table_is_damaged(damaged, tmp_path):
    for name in ("brokers", "deliveries"):
        (tmp_path / f"{name}.csv").write_bytes(b"mine")
    asked = ["export", str(damaged), "--to", "csv", "--table", "brokers", "--table", "deliveries"]
    assert main([*asked, "--out", str(tmp_path), "--force"]) == 2
    assert {(tmp_path / f"{name}.csv").read_bytes() for name in ("brokers", "deliveries")} == {b"mine"}
    assert not list(tmp_path.glob("_tmp*"))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["plot", "RUN", "--kind", "all", "-o", "{kind}.csv"], "there is nothing to draw of any kind: "),
        (["plot", "RUN", "--kind", "load", "-o", "load.csv"], "run it again with that; it has no table at all"),
        (["export", "RUN", "--to", "csv", "--out", "out"], "has no table to write: its trace level is 'none'"),
        (["export", "RUN", "--to", "graphml", "--out", "out"], "run it again with that; it has no table at all"),
    ],
)
def test_where_nothing_can_be_made_it_is_an_error_that_says_why(made, asked, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = str(made("news", "duration=1 s", "trace.level=none").path)
    assert main([path if each == "RUN" else each for each in asked]) == 3
    last = capsys.readouterr().err.splitlines()[-1]
    assert said in last and "'none'" in last
    assert list(tmp_path.iterdir()) == []
