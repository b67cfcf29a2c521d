"""`brokerlab plot`: what figures show is what the trace says, and the report's commands draw what it shows."""

from __future__ import annotations

import csv
import html
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from analysis.report import charts, joining
from analysis.report.figures import KINDS
from analysis.report.making import report
from analysis.report.plotting import VIEWS, Asked, figures, known, plot
from analysis.report.svg import Line
from analysis.spark.audit import audit
from brokers.contract import MESSAGE
from scenarios.cli import main
from scenarios.many.student import estimate

COMMAND = re.compile(r'<p class="command"><code>([^<]+)</code></p>')
FIGURE = re.compile(r'<figure>(<svg.*?</svg>).*?<p class="command"><code>([^<]+)</code></p>', re.S)
MATPLOTLIB = pytest.mark.skipif(
    subprocess.run([sys.executable, "-c", "import matplotlib"], capture_output=True).returncode != 0,
    reason="matplotlib is not installed",
)


def rows_of(file):
    with open(file, newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))


def drawn(tmp_path, *arguments):
    """The rows that a figure shows: (series, x, y, low, high, runs)."""
    file = tmp_path / "data.csv"
    assert main(["plot", *map(str, arguments), "-o", str(file)]) == 0
    return [tuple(row.values()) for row in rows_of(file)]


@pytest.fixture(scope="module")
def sweep(swept):
    return swept("1600 ms", 3)


# ---- what is shown ---------------------------------------------------------------------------------------


def test_a_share_of_latencies_is_that_of_the_deliveries(made, tmp_path):
    run = made("news", "duration=2 s")
    rows = run.read("deliveries")
    took = (rows["time_ns"].to_numpy() - rows["published_ns"].to_numpy()) / 1e6
    below = drawn(tmp_path, run.path, "--kind", "latency")
    assert len(below) > 50
    for _, x, y, *_ in below[1:]:
        assert float(y) == pytest.approx(np.mean(took <= float(x) * (1 + 1e-9)), abs=1e-12)
    above = drawn(tmp_path, run.path, "--kind", "latency-tail")
    assert [float(y) for _, _, y, *_ in above] == pytest.approx([1 - float(y) for _, _, y, *_ in below[1:]])


def test_what_was_delivered_of_what_was_wanted_is_what_the_audit_keeps(made, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(made("partition-heals").path, folder, ignore=shutil.ignore_patterns("analysis"))
    assert main(["plot", str(folder), "--kind", "owed", "-o", str(tmp_path / "none.csv")]) == 3
    assert "there is nothing to draw" in capsys.readouterr().err
    audited = {each.service: each.shares for each in audit(folder).services}
    lines = {}
    for name, x, y, *_ in drawn(tmp_path, folder, "--kind", "owed"):
        lines.setdefault(name, []).append((float(x), float(y)))
    kept = {name: shares for name, shares in audited.items() if shares}
    assert lines.keys() == kept.keys() and len(kept) > 1
    for name, shares in kept.items():
        begins = [row["from_ns"] / 1e9 for row in shares]
        half = min(np.diff(begins)) / 2
        assert [x for x, _ in lines[name]] == pytest.approx([begin + half for begin in begins])
        assert [y for _, y in lines[name]] == [row["delivered"] / row["wanted"] for row in shares]
    assert min(y for line in lines.values() for _, y in line) < 0.9
    assert lines["recovers"][-1][1] == 1
    assert "Delivered of what was wanted in time" in report([folder], tmp_path / "r.html").read_text("utf-8")
    place = folder / "analysis" / "audit.json"
    said = json.loads(place.read_text("utf-8"))
    row = {"from_ns": 0, "wanted": 2, "delivered": 1}
    for wrong in (5, [7], [{}], [row | {"wanted": 0}], [row | {"delivered": 3}], [row | {"wanted": "2"}]):
        for service in said["services"]:
            service["shares"] = wrong
        place.write_text(json.dumps(said))
        assert main(["plot", str(folder), "--kind", "owed", "-o", str(tmp_path / "none.csv")]) == 3


def test_settling_is_that_of_the_changes(made, tmp_path):
    run = made("news", "duration=2 s")
    took = [
        (row["settled_ns"] - row["issued_ns"]) / 1e6
        for row in run.read("changes").to_pylist()
        if row["issued_ns"] >= 0 and row["settled_ns"] >= 0
    ]
    rows = drawn(tmp_path, run.path, "--kind", "settling")
    assert len(took) > 100
    for _, x, y, *_ in rows[1:]:
        assert float(y) == pytest.approx(np.mean(np.array(took) <= float(x) * (1 + 1e-9)), abs=1e-12)


def test_redundancy_and_waste_are_what_a_look_at_each_copy_says(made, tmp_path):
    """On cycles flooding brings copies again."""
    run = made("real-network", "duration=1 s", "trace.level=full")
    copies = [
        (hop["body"], hop["broker"])
        for hop in run.read("hops").to_pylist()
        if hop["kind"] == MESSAGE and hop["type"] == 0 and hop["body"] >= 0
    ]
    times = Counter(Counter(copies).values())
    rows = drawn(tmp_path, run.path, "--kind", "redundancy")
    assert max(times) > 1
    for _, count, part, *_ in rows[:-1]:
        assert float(part) == pytest.approx(times[int(float(count))] / sum(times.values()))
    waste = [float(y) for _, _, y, *_ in drawn(tmp_path, run.path, "--kind", "waste")]
    assert all(0 <= each <= 1 for each in waste) and max(waste) > 0.3


def test_traffic_adds_up(made, tmp_path):
    run = made("news", "duration=2 s")
    links = run.read("links").sort_by("link")["messages"].to_pylist()
    ranked = drawn(tmp_path, run.path, "--kind", "links")
    assert [float(y) for _, _, y, *_ in ranked] == sorted(map(float, links), reverse=True)
    heat = drawn(tmp_path, run.path, "--kind", "link-heat")
    xs = sorted({float(x) for _, x, *_ in heat})
    assert sum(float(y) for _, _, y, *_ in heat) * (xs[1] - xs[0]) == pytest.approx(sum(links))
    assert len({name for name, *_ in heat}) == len(links)
    on_map = drawn(tmp_path, run.path, "--kind", "map")
    handled = run.read("brokers").sort_by("broker")["messages"].to_pylist()
    assert [float(y) for _, _, y, *_ in on_map] == [*map(float, links), *map(float, handled)]
    load = drawn(tmp_path, run.path, "--kind", "load")
    busy = sum(run.read("brokers")["busy_ns"].to_pylist())
    assert sum(float(y) for _, _, y, *_ in load) == pytest.approx(busy / 2e9)


def test_a_map_of_two_runs_is_their_difference(made, tmp_path):
    a, b = (made("news", "duration=2 s", f"services.news.protocol={each}") for each in ("flooding", "covering"))
    told = drawn(tmp_path, a.path, b.path, "--kind", "map", "--metric", "deliveries")
    counts = [run.read("brokers").sort_by("broker")["deliveries"].to_numpy() for run in (a, b)]
    assert [float(y) for _, _, y, *_ in told][-counts[0].size :] == (counts[1] - counts[0]).tolist()


# ---- several runs ----------------------------------------------------------------------------------------


def by_place(rows):
    """(series, x) -> row"""
    return {(name, x): row for name, x, *row in rows}


@pytest.mark.parametrize("kind", ["deliveries", "links", "latency"])
def test_a_band_is_students_interval_over_the_runs_of_a_variant(sweep, tmp_path, kind):
    one_by_one = drawn(tmp_path, sweep, "--kind", kind, "--each")
    together = drawn(tmp_path, sweep, "--kind", kind)
    assert {name for name, *_ in together} == {"protocol=flooding", "protocol=covering"}
    assert {runs for *_, runs in together} == {"3"} and {runs for *_, runs in one_by_one} == {"1"}
    each = {}
    for name, x, y, *_ in one_by_one:
        each.setdefault(name, []).append((float(x), float(y)))
    assert len(each) == 6 and all(" seed " in name for name in each)
    for name, x, y, low, high, _ in together[:: max(1, len(together) // 40)]:
        heights = [at(lines, float(x), kind == "latency") for label, lines in each.items() if label.startswith(name)]
        expected = estimate(heights, 0.95)
        ends = [expected.mean + sign * expected.half_width for sign in (-1, 1)]
        if kind == "latency":
            ends = np.clip(ends, 0, 1)
        assert (float(y), float(low), float(high)) == pytest.approx((expected.mean, *ends), abs=1e-9)


def at(points, x, share):
    """The height of a line at a place; of a share that of the last step."""
    if not share:
        return np.interp(x, *zip(*points))
    return max((y for place, y in points if place <= x), default=0.0)


def test_bands_of_other_sorts(sweep, tmp_path):
    mean = drawn(tmp_path, sweep, "--kind", "deliveries", "--band", "none")
    assert {(low, high) for *_, low, high, _ in mean} == {("", "")}
    outer, inner = (
        by_place(drawn(tmp_path, sweep, "--kind", "deliveries", "--band", band)) for band in ("range", "bootstrap")
    )
    for name, x, y, *_ in mean:
        (_, lowest, highest, _), (again, low, high, _) = (
            map(float, found[name, x]) for found in (outer, inner)
        )
        assert again == float(y)
        assert lowest <= low <= again <= high <= highest
    assert any(float(row[1]) < float(row[2]) for row in inner.values())


@pytest.mark.parametrize("alike", [False, True], ids=["places by themselves", "places alike"])
def test_a_simultaneous_band_has_the_whole_line_as_often_as_it_says_and_students_has_not(alike):
    """Runs that spread normally around a line that is nought, as the heights of lines of a figure."""
    dice = np.random.default_rng(5)
    held = Counter()
    for _ in range(400):
        runs = dice.standard_normal((5, 30))
        if alike:
            runs = np.cumsum(runs, 1)
        for band in (joining.SIMULTANEOUS, joining.STUDENT):
            line = mean_of(runs, band)
            held[band] += all(low <= 0 <= high for (_, low), (_, high) in zip(line.low, line.high))
    assert held[joining.SIMULTANEOUS] >= 0.94 * 400
    assert held[joining.STUDENT] < 0.85 * 400


def mean_of(runs, band):
    """The line of several runs, as a figure joins them."""
    return joining._mean("runs", [Line("one", list(enumerate(run))) for run in runs.tolist()], None, band)


def test_places_at_which_runs_are_the_same_again_make_a_simultaneous_band_no_wider():
    runs = np.random.default_rng(6).standard_normal((4, 10))
    once, twice = (mean_of(each, joining.SIMULTANEOUS) for each in (runs, np.repeat(runs, 2, axis=1)))
    assert [y for _, y in once.high] == pytest.approx([y for _, y in twice.high][::2])


def test_a_run_alone_has_no_band_and_labels_are_its_services(quickstart, tmp_path):
    told = drawn(tmp_path, quickstart.path, "--kind", "deliveries")
    assert [*dict.fromkeys(name for name, *_ in told)] == ["news", "offers", "alerts", "maps", "nearby"]
    only = drawn(tmp_path, quickstart.path, "--kind", "deliveries", "--service", "maps")
    assert only == [row for row in told if row[0] == "maps"]


def test_runs_of_unequal_length_share_their_stretches_of_time(made, tmp_path):
    a, b = made("news", "duration=2 s"), made("news", "duration=1 s")
    told = drawn(tmp_path, a.path, b.path, "--kind", "deliveries")
    names = [*dict.fromkeys(name for name, *_ in told)]
    places = [[x for name, x, *_ in told if name == each] for each in names]
    assert len(names) == 2 and places[0] == places[1]


# ---- the report's figures --------------------------------------------------------------------------------


def with_commands(text):
    """Figures and the commands beneath them, of those that have one."""
    figures_of = re.findall(r"<figure>.*?</figure>", text, re.S)
    return [match.groups() for each in figures_of if (match := FIGURE.search(each))]


def paths_in(svg):
    """What lines and bars are drawn."""
    return re.findall(r'<path class="(?:series|f|l|more|less|same)[^>]*? d="([^"]+)"', svg)


def with_names_of(svg, made):
    """The figure with its lines called as in a picture: a legend takes as much room as it needs."""
    names = [html.unescape(name) for name in re.findall(r'<path class="(?:series )?[sf]\d"[^>]*><title>([^<]*)<', svg)]
    if len(names) != len(made.series):
        return made
    return made._replace(series=tuple(line._replace(name=name) for line, name in zip(made.series, names)))


def agrees(svg, command):
    """Whether a command draws what stands above it."""
    words = shlex.split(html.unescape(command))[2:]
    runs = words[: next(at for at, word in enumerate(words) if word.startswith("--"))]
    named = {name: words[words.index(f"--{name}") + 1] for name in ("kind", "service", "metric", "baseline", "part")
             if f"--{name}" in words}  # fmt: skip
    kind = named.pop("kind")
    if "part" in named:
        named["part"] = int(named["part"])
    assert len(words) == len(runs) + 2 * (1 + len(named)) + ("--each" in words)
    (made,) = figures(Asked(runs, each="--each" in words, **named), [kind])
    return paths_in(charts.chart(with_names_of(svg, made), "").svg) == paths_in(svg) != []


def test_every_figure_of_a_run_has_its_command_which_is_true(quickstart, reported, tmp_path, capsys, monkeypatch):
    text = reported(quickstart).read_text("utf-8")
    monkeypatch.chdir(quickstart.path.parent)
    found = with_commands(text)
    assert len(found) == text.count("<figure>") == len(COMMAND.findall(text)) >= 9
    for number, (svg, command) in enumerate(found):
        assert agrees(svg, command), command
        words = shlex.split(html.unescape(command))
        assert words[0] == "brokerlab"
        assert main([*words[1:], "-o", str(tmp_path / f"{number}.csv")]) == 0
    capsys.readouterr()


def test_every_figure_of_two_runs_and_of_a_sweep_has_its_command_which_is_true(
    made, reported, sweep, tmp_path, capsys, monkeypatch
):
    a, b = made("news", "duration=2 s"), made("news", "duration=2 s", "services.news.protocol=flooding")
    assert main(["report", str(sweep), "--out", str(tmp_path / "sweep.html")]) == 0
    both = Path(os.path.commonpath([a.path, b.path]))
    for file, folder in ((reported(a, b), both), (tmp_path / "sweep.html", sweep.parent)):
        text = file.read_text("utf-8")
        monkeypatch.chdir(folder)
        found = with_commands(text)
        assert len(found) == text.count("<figure>") >= 5
        for svg, command in found:
            if "--kind means" not in command and "--kind differences" not in command:
                assert agrees(svg, command), command
            assert main([*shlex.split(html.unescape(command))[1:], "-o", str(tmp_path / "x.csv")]) == 0, command
    capsys.readouterr()


def test_a_mean_is_what_compare_says(sweep, tmp_path, capsys):
    told = drawn(tmp_path, sweep, "--kind", "means", "--metric", "network.messages")
    assert main(["compare", str(sweep), "--json"]) == 0
    out = capsys.readouterr().out
    sections = json.loads(out[out.index("{") :])["sections"]
    (values,) = [row["values"] for row in sections[0]["metrics"] if row["metric"] == "messages"]
    assert [float(y) for _, _, y, *_ in told] == [each["mean"] for each in values]
    assert [float(high) - float(y) for _, _, y, _, high, _ in told] == pytest.approx([v["half_width"] for v in values])


# ---- files -----------------------------------------------------------------------------------------------


@MATPLOTLIB
@pytest.mark.parametrize("kind", ["latency", "messages", "link-heat", "map"])
def test_the_same_run_gives_the_same_bytes_whatever_the_user_has_set(quickstart, tmp_path, kind):
    import matplotlib

    for form in ("pdf", "svg", "png"):
        files = [tmp_path / f"{number}.{form}" for number in (1, 2)]
        plot([quickstart.path], [kind], files[0])
        with matplotlib.rc_context({"font.size": 30, "lines.linewidth": 9, "text.usetex": True}):
            plot([quickstart.path], [kind], files[1])
        assert files[0].read_bytes() == files[1].read_bytes()
    pdf = (tmp_path / "1.pdf").read_bytes()
    assert pdf.startswith(b"%PDF") and b"CreationDate" not in pdf
    ElementTree.fromstring((tmp_path / "1.svg").read_text("utf-8"))


@MATPLOTLIB
def test_a_pdf_for_a_paper_is_a_column_wide_with_its_fonts_in_it(quickstart, tmp_path):
    plot([quickstart.path], ["latency"], tmp_path / "l.pdf")
    pdf = (tmp_path / "l.pdf").read_bytes()
    (wide,) = re.findall(rb"/MediaBox \[ *0 0 ([\d.]+)", pdf)
    assert float(wide) == pytest.approx(3.33 * 72, abs=0.1)
    assert b"/FontFile2" in pdf and b"/Subtype /Type3" not in pdf


@MATPLOTLIB
def test_every_kind_is_drawn_in_both_styles_and_all_of_a_run_at_once(made, tmp_path, capsys):
    run = made("lossy", "duration=6 s", "trace.level=full")
    for style in ("paper", "screen"):
        assert main(["plot", str(run.path), "--kind", "all", "--style", style, "--data",
                     "-o", str(tmp_path / style / "{kind}.svg")]) == 0  # fmt: skip
        for form in ("svg", "csv"):
            files = {file.stem for file in (tmp_path / style).glob(f"*.{form}")}
            assert files == {*KINDS, *VIEWS} - {"scores", "meshes", "owed", "link"}
    capsys.readouterr()


@MATPLOTLIB
def test_names_are_text_whatever_stands_in_them(tmp_path):
    from analysis.report.figures import Figure
    from analysis.report.paper import STYLES, drawn
    from analysis.report.svg import Axis, Line

    names = ["$\\frac{", "_hidden", "</svg><script>", "a%b#c"]
    series = tuple(Line(name, [(0, 1), (1, 2)]) for name in names)
    made = Figure("deliveries", "$x", Axis("x^2$"), Axis("y"), series, "")
    text = drawn(made, STYLES["screen"], "svg").decode()
    assert ElementTree.fromstring(text) is not None
    assert "<script" not in text
    for name in ("$\\frac{", "\u200b_hidden", "&lt;/svg&gt;&lt;script&gt;", "a%b#c", "$x", "x^2$"):
        assert f"<!-- {name} -->" in text


@MATPLOTLIB
@pytest.mark.parametrize(("lowest", "begins"), [(-12.5, -12.0), (0.5, 0.0)])
def test_an_axis_goes_down_to_what_is_below_zero_and_no_farther(lowest, begins):
    from analysis.report.figures import Figure
    from analysis.report.paper import STYLES, drawn
    from analysis.report.svg import Axis, Line

    band = [Line("score", [(0, 1), (1, 2)], [(0, lowest), (1, 1)], [(0, 2), (1, 3)])]
    text = drawn(Figure("scores", "", Axis("s"), Axis("score"), band, ""), STYLES["screen"], "svg").decode()
    upright = text[text.index('id="ytick_1"') :]
    assert min(float(label) for label in re.findall(r"<!-- (-?[\d.]+) -->", upright)) == begins


def test_without_matplotlib_there_is_the_data_and_a_sentence(made, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    run = made("news", "duration=2 s")
    assert main(["plot", str(run.path), "--kind", "latency", "-o", str(tmp_path / "x.pdf")]) == 4
    assert "pip install 'brokerlab[plots]'" in capsys.readouterr().err
    assert main(["plot", str(run.path), "--kind", "latency", "-o", str(tmp_path / "x.csv")]) == 0
    assert rows_of(tmp_path / "x.csv") and not (tmp_path / "x.pdf").exists()


def test_neither_help_nor_reports_load_matplotlib():
    code = (
        "import sys\nfrom scenarios.cli import main\nmain(['--help'])\nmain(['plot', '--list'])\n"
        "import analysis.report.making\nsys.exit('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[3])
    assert done.returncode == 0, done.stderr
    for name in known():
        assert re.search(rf"^{name} +\w", done.stdout, re.M)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name a run and what to draw"),
        (["RUN"], "name a run and what to draw"),
        (["nowhere", "--kind", "latency"], "no such run folder"),
        (["RUN", "--kind", "latensy"], "no kind 'latensy'; did you mean 'latency'?"),
        (["RUN", "--kind", "latency", "-o", "x.gif"], ".pdf, .svg, .png or .csv (got 'x.gif')"),
        (["RUN", "--kind", "latency", "--kind", "links", "-o", "x.pdf"], "2 kinds need a name each"),
        (["RUN", "--kind", "latency", "--style", "poster"], "no style 'poster'"),
        (["RUN", "--kind", "latency", "--band", "thick"], "no band 'thick'"),
        (["RUN", "--kind", "latency", "--service", "mail", "-o", "x.csv"], "has no 'mail'; it has news"),
        (["RUN", "--kind", "lost", "-o", "x.csv"], "there is nothing to draw"),
        (["RUN", "--kind", "latency", "--metric", "messages"], "goes with means, differences, grid, overlay and map"),
        (["RUN", "--kind", "map", "--part", "2"], "a map of two runs has parts 1 to 6 (got 2)"),
        (["RUN", "FEW", "--kind", "map", "--part", "2", "--metric", "deliveries"], "of time are of messages"),
        (["RUN", "--kind", "map", "--metric", "bytes"], "a map is of messages or deliveries"),
        (["RUN", "--kind", "means"], "say which metric, as in --metric network.messages"),
        (["RUN", "--kind", "means", "--metric", "network.mesages"], "was not measured; did you mean"),
        (["RUN", "--kind", "differences", "--metric", "network.messages"], "one variant, which differs from none"),
        (["THIN", "--kind", "messages"], "'hops' needs 'full': run it again with that"),
        (["NONE", "--kind", "load"], "its trace level is 'none'"),
        (["RUN", "THIN", "FEW", "--kind", "map"], "it is of one run or two (got 3)"),
        (["RUN", "FEW", "--kind", "messages"], "it is of one run (got 2)"),
        (["RUN", "FEW", "--kind", "map"], "different overlays"),
    ],
)
def test_what_cannot_be_asked_is_said(made, arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = {
        "RUN": ("duration=2 s",), "THIN": ("duration=2 s", "trace.level=summary", "seed=5"),
        "NONE": ("duration=2 s", "trace.level=none"), "FEW": ("duration=1 s", "topology.nodes=8"),
    }  # fmt: skip
    typed = [str(made("news", *runs[each]).path) if each in runs else each for each in arguments]
    assert main(["plot", *typed]) == 3
    told = capsys.readouterr().err
    assert said in told and "Traceback" not in told
    assert not list(tmp_path.iterdir())


def test_a_damaged_run_is_refused_as_by_the_report(damaged, tmp_path, capsys):
    told = []
    drawing = ["plot", str(damaged), "--kind", "latency", "-o", str(tmp_path / "x.csv")]
    for arguments in (drawing, ["report", str(damaged)]):
        assert main(arguments) == 2
        told.append(capsys.readouterr().err)
    assert told[0] == told[1]
