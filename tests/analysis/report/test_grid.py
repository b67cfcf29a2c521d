"""Grids of sweeps: by two things that vary, in panels over a third; in the report, and by its command."""

from __future__ import annotations

import html
import itertools
import json
import re
import shlex
import shutil
from xml.etree import ElementTree

import pytest

from analysis.report import charts
from analysis.report.making import report
from analysis.report.plotting import Asked, figures, plot, table_of
from scenarios.cli import main
from scenarios.many.student import estimate

VALUES = {
    "services.news.protocol": ("flooding", "covering"), "topology.nodes": (4, 6, 8),
    "clients.subscribers.count": (10, 20), "links.delay": ("5 ms", "9 ms"),
}  # fmt: skip
INSIDE = r"(?:(?!</figure>).)*?"
FIGURE = re.compile(rf"<figure>(<svg{INSIDE}</svg>){INSIDE}<code>([^<]+--kind grid[^<]+)</code>", re.S)
METRIC = "network.events"


@pytest.fixture(scope="module")
def varied(made, tmp_path_factory):
    """Makes the folder of a sweep over the first few things, with so many seeds; and what each run measured."""

    def make(things, seeds=2):
        folder, points, measured = tmp_path_factory.mktemp("grid"), [], {}
        names = list(VALUES)[:things]
        for values in itertools.product(*(VALUES[name][: 3 if things < 4 else 2] for name in names)):
            for seed in range(1, seeds + 1):
                told = [f"{name}={value}" for name, value in zip(names, values)]
                run = made("news", "duration=300 ms", f"seed={seed}", *told)
                shutil.copytree(run.path, folder / "runs" / run.path.name)
                point = {"values": dict(zip(names, values)), "status": "finished", "run": f"runs/{run.path.name}"}
                points.append(point)
                events = run.manifest["engine"]["metrics"]["network"]["events"]
                measured.setdefault(tuple(map(str, values)), []).append(events)
        (folder / "sweep.json").write_text(json.dumps({"points": points}))
        return folder, measured

    return make


def drawn(folder, metric=METRIC):
    (made,) = figures(Asked([folder], metric=metric), ["grid"])
    return made


def cells_of(made):
    """(down, across, panel) -> cell"""
    found = {}
    for (panel, row, column), cell in made.grid.cells.items():
        where = [made.grid.down.values[row], made.grid.across.values[column]]
        found[tuple(where + ([made.grid.panels.values[panel]] if made.grid.panels else []))] = cell
    return found


@pytest.mark.parametrize("things", [2, 3])
def test_each_cell_is_the_mean_over_seeds_with_students_interval(varied, things):
    folder, measured = varied(things)
    made = drawn(folder)
    names = [made.grid.down.name, made.grid.across.name, *([made.grid.panels.name] if things == 3 else [])]
    assert names == ["nodes", "protocol", "count"][:things]  # most values first
    found = cells_of(made)
    expected = {(nodes, protocol, *rest): each for (protocol, nodes, *rest), each in measured.items()}
    assert found.keys() == expected.keys() and len(found) == 6 * (things - 1)
    for where, cell in found.items():
        told = estimate(expected[where], 0.95)
        assert (cell.mean, cell.half_width, cell.runs) == (told.mean, told.half_width, 2)
    assert any(cell.half_width for cell in found.values())
    assert "over 2 runs each" in made.said
    parts = [made.grid.part(cell.mean) for cell in found.values()]
    assert (min(parts), max(parts)) == (0.0, 1.0)


@pytest.mark.parametrize("things", [2, 3])
def test_every_grid_of_a_report_has_its_command_which_is_true(varied, things, monkeypatch, tmp_path, capsys):
    folder, measured = varied(things)
    monkeypatch.chdir(folder.parent)
    text = report([folder], tmp_path / "r.html").read_text("utf-8")
    found = FIGURE.findall(text)
    assert len(found) == len(set(re.findall(r"--metric (\S+)", text))) >= 3
    for svg, command in found:
        words = shlex.split(html.unescape(command))
        asked = dict(zip(words[3::2], words[4::2]))
        assert words[:2] == ["brokerlab", "plot"] and asked["--kind"] == "grid"
        (made,) = figures(Asked([words[2]], metric=asked["--metric"], baseline=asked["--baseline"]), ["grid"])
        assert charts.chart(made, "").svg == svg
        assert main([*words[1:], "-o", str(tmp_path / "x.csv")]) == 0
        assert (tmp_path / "x.csv").read_text("utf-8") == table_of(made)
    assert len(table_of(made).splitlines()) == 1 + len(measured)
    headings = re.findall(r">count = (\d+)<", found[0][0])
    assert headings == (["10", "20"] if things == 3 else [])
    capsys.readouterr()


@pytest.mark.xdist_group("browser")
def test_the_page_of_a_sweep_opens_without_a_word_and_shows_its_grids(varied, opened, tmp_path):
    page = opened(report([varied(3)[0]], tmp_path / "r.html"))
    assert page.is_quiet()
    shown = page("""Array.from(document.querySelectorAll('figure'), each => [each.querySelector('code').textContent,
        each.querySelectorAll('rect').length, each.querySelector('svg').getBoundingClientRect().width])""")
    grids = [(cells, wide) for command, cells, wide in shown if "--kind grid" in command]
    assert len(grids) >= 3 and all(cells == 12 and wide > 200 for cells, wide in grids)


def test_a_point_that_has_not_finished_is_no_cell(varied):
    folder, _ = varied(2, seeds=1)
    told = json.loads((folder / "sweep.json").read_text())
    (folder / "sweep.json").write_text(json.dumps({"points": told["points"][:-1]}))
    made = drawn(folder)
    assert len(cells_of(made)) == 5 and ("8", "covering") not in cells_of(made)
    assert {cell.half_width for cell in cells_of(made).values()} == {None}
    assert charts.chart(made, "").svg.count("<rect") == 5


def test_where_more_vary_or_less_there_is_a_word(varied, swept, tmp_path, capsys):
    folder, _ = varied(4, seeds=1)
    said = "4 things vary (protocol, nodes, count, delay), and a grid shows no more than 3"
    text = report([folder], tmp_path / "r.html").read_text("utf-8")
    assert f"There is no grid: {said}" in text and "--kind grid" not in text and "--kind means" in text
    for path, told in ((folder, said), (swept("500 ms", 2), "protocol alone varies")):
        assert main(["plot", str(path), "--kind", "grid", "--metric", METRIC, "-o", str(tmp_path / "x.pdf")]) == 3
        assert told in capsys.readouterr().err
    assert not (tmp_path / "x.pdf").exists()


def test_a_grid_is_drawn_in_both_styles_with_the_same_bytes_each_time(varied, tmp_path):
    pytest.importorskip("matplotlib")
    folder, _ = varied(3)
    for style in ("paper", "screen"):
        files = [tmp_path / f"{style}-{number}.svg" for number in (1, 2)]
        for file in files:
            plot([folder], ["grid"], file, metric=METRIC, style=style)
        text = files[0].read_text("utf-8")
        assert files[0].read_bytes() == files[1].read_bytes()
        assert ElementTree.fromstring(text) is not None
        means = [cell.text.partition(" ")[0] for cell in cells_of(drawn(folder)).values()]
        assert all(f"<!-- {mean} -->" in text or f"<!-- {mean}\n" in text for mean in means)
        assert "<!-- count = 20 -->" in text
