"""The overlay and the diagram of space and time by command: what the page draws, and what a look at each event says."""

from __future__ import annotations

import csv
import re
import shlex
from collections import Counter
from xml.etree import ElementTree

import pytest

from analysis.report.plotting import VIEWS, plot
from analysis.spark.graph import Network
from brokers.contract import MESSAGE
from brokers.naming import message_name
from scenarios.cli import main


def table(tmp_path, *arguments):
    """The rows of a figure's data."""
    file = tmp_path / "data.csv"
    file.unlink(missing_ok=True)
    assert main(["plot", *map(str, arguments), "-o", str(file)]) == 0
    with open(file, newline="", encoding="utf-8") as text:
        return [tuple(row.values()) for row in csv.DictReader(text)]


def of(rows, what):
    return [row for row in rows if row[0] == what]


def numbers(rows, what):
    return [float(row[2]) for row in of(rows, what)]


@pytest.fixture(scope="module")
def faulty(made):
    """Links are cut, a broker is down, messages are lost; two services."""
    return made("partition-heals", "trace.level=full")


# ---- against every event ---------------------------------------------------------------------------------


def test_the_overlay_of_a_run_is_its_traffic(faulty, tmp_path):
    rows = table(tmp_path, faulty.path, "--kind", "overlay")
    hops = faulty.read("hops").to_pylist()
    over = Counter(hop["link"] for hop in hops if hop["link"] >= 0 and hop["kind"] == MESSAGE)
    handled = Counter(hop["broker"] for hop in hops)
    assert numbers(rows, "link") == [over[link] for link in range(faulty.rows("links"))]
    assert numbers(rows, "broker") == [handled[broker] for broker in range(faulty.rows("brokers"))]
    assert sum(handled.values()) > 1000
    assert len(of(rows, "lost")) == min(500, sum(row["link"] >= 0 for row in faulty.read("losses").to_pylist())) > 0
    named = [f"{a} to {b}" for a, b in ends(faulty)]
    cut = {row["link"] & ~1 for row in faulty.read("faults").to_pylist() if row["link"] >= 0}
    assert {where for _, where, _ in of(rows, "cut")} == {named[link] for link in cut} != set()


def ends(run):
    network = Network.of(run)
    return [(network.names[a], network.names[b]) for a, b in zip(network.source, network.target)]


def test_one_service_at_a_time_adds_up_to_all(faulty, tmp_path):
    services = [each["name"] for each in faulty.manifest["scenario"]["services"]]
    assert len(services) == 2
    for what in ((), ("--at", "3 s")):
        together = table(tmp_path, faulty.path, "--kind", "overlay", *what)
        apart = [table(tmp_path, faulty.path, "--kind", "overlay", *what, "--service", each) for each in services]
        for each in ("link", "broker"):
            assert numbers(together, each) == [sum(pair) for pair in zip(*(numbers(rows, each) for rows in apart))]
        under_way = [sum(row[0].startswith("under way") for row in rows) for rows in (together, *apart)]
        assert under_way[0] == sum(under_way[1:]) and (under_way[0] > 0) == bool(what)


def test_what_is_broken_and_under_way_at_a_time_is_what_each_row_says(faulty, tmp_path):
    faults, named = faulty.read("faults").to_pylist(), [f"{a} to {b}" for a, b in ends(faulty)]
    delay = Network.of(faulty).delay_ns // 1000
    begins = sorted({row["begin_ns"] for row in faults})
    seen = 0
    for at_ns in (begins[0] - 10**8, begins[0] + 10**8, 5_000_000_000):
        rows = table(tmp_path, faulty.path, "--kind", "overlay", "--at", f"{at_ns} ns")
        broken = [row for row in faults if row["begin_ns"] <= at_ns and (row["end_ns"] < 0 or at_ns < row["end_ns"])]
        now = {row["link"] & ~1 for row in broken if row["link"] >= 0}
        assert {where for _, where, _ in of(rows, "cut")} == {named[link] for link in now}
        seen += bool(now)
        under_way = Counter(
            named[hop["link"]] for hop in faulty.read("hops").to_pylist()
            if hop["link"] >= 0 and 0 <= hop["time_ns"] // 1000 - at_ns / 1000 <= delay[hop["link"]]
        )  # fmt: skip
        found = [row for row in rows if row[0].startswith("under way")]
        assert Counter(where for _, where, _ in found) == under_way
        assert all(0 <= float(part) <= 1 for *_, part in found)
    assert 0 < seen < 3


def test_tables_at_a_time_are_the_last_sample_by_then(made, tmp_path):
    run = made("news", "duration=2 s", "trace.level=summary", "trace.sample_every=200 ms")
    samples = run.read("samples").to_pylist()
    for at_ns, more in ((2_000_000_000, ()), (950_000_000, ("--at", "950 ms")), (1_150_000_000, ("--at", "1.15 s"))):
        last = max(row["time_ns"] for row in samples if row["time_ns"] <= at_ns)
        told = {row["broker"]: row["entries"] for row in samples if row["time_ns"] == last}
        rows = table(tmp_path, run.path, "--kind", "overlay", "--metric", "tables", *more)
        assert numbers(rows, "broker") == [told[broker] for broker in range(run.rows("brokers"))]
        assert sum(told.values()) > 0


def test_space_and_time_has_every_event_of_its_stretch(faulty, tmp_path):
    lost = [row for row in faulty.read("losses").to_pylist() if row["link"] >= 0]
    begin = min(row["time_ns"] for row in lost) // 1000 - 100_000
    end = begin + 300_000
    rows = table(tmp_path, faulty.path, "--kind", "space-time", "--from", f"{begin}us", "--to", f"{end}us")
    names, network = Network.of(faulty).names, Network.of(faulty)
    expected = sorted(
        (names[network.source[hop["link"]]] if hop["link"] >= 0 else "", names[hop["broker"]],
         str(hop["time_ns"] // 1000), str(-(-hop["finish_ns"] // 1000)))
        for hop in faulty.read("hops").to_pylist() if begin <= hop["time_ns"] // 1000 < end
    )  # fmt: skip
    events = [row for row in rows if row[0] != "lost"]
    assert sorted((row[2], row[3], row[5], row[6]) for row in events) == expected
    assert len(expected) > 50
    within = sorted(str(row["time_ns"] // 1000) for row in lost if begin <= row["time_ns"] // 1000 <= end)
    assert sorted(row[4] for row in of(rows, "lost")) == within != []


def test_the_way_of_a_publication_is_its_events_also_where_it_is_not_in_the_sample(faulty, tmp_path, monkeypatch):
    nodes = faulty.rows("brokers")
    hops = faulty.read("hops").to_pylist()
    sent = [row["publication"] for row in faulty.read("publications").to_pylist()]
    chosen = max(sent, key=lambda id: sum(hop["body"] == id for hop in hops))
    expected = sorted((hop["broker"], hop["time_ns"] // 1000) for hop in hops if hop["body"] == chosen)
    names = Network.of(faulty).names
    asked = (faulty.path, "--message", message_name(chosen, nodes), "--kind")
    for most in (10**6, 10):
        monkeypatch.setattr("analysis.report.plotting.HOPS_MOST", most)
        rows = table(tmp_path, *asked, "space-time")
        found = sorted((names.index(row[3]), int(row[5])) for row in rows if row[0] != "lost")
        assert found == expected and len(found) > 3
        reached = {where for _, where, _ in of(table(tmp_path, *asked, "overlay"), "way")}
        assert {each for each in reached if " to " not in each} == {names[broker] for broker, _ in expected}


# ---- against the page ------------------------------------------------------------------------------------


MAP = """(() => { const { map } = brokerlab;
  return { links: Array.from(map.told.links), brokers: Array.from(map.told.at), lost: map.lossPlaces.length,
    dots: brokerlab.state.whole ? 0 : map.dots, faults: map.faultsShown,
    typed: document.getElementById('map-command').textContent }; })()"""
DIAGRAM = """(() => { const { diagram, model } = brokerlab, { hops } = diagram.window();
  const told = hop => [model.hopBroker[hop], model.columns.hop_time[hop], model.finish(hop)];
  return { events: hops.map(told).map(([at, ...times]) => [model.broker(at), ...times.map(String)]),
    typed: document.getElementById('diagram-command').textContent }; })()"""
STATES = [
    "setTime(0, true)", "setTime(5e6, false)", "setTime(brokerlab.model.span / 3, false)",
    "state.service = 1; brokerlab.setTime(4.2e6, false)", "state.show = 'waste'; brokerlab.setTime(4.2e6, false)",
    "state.show = 'tables'; brokerlab.setTime(0, true)", "state.show = 'tables'; brokerlab.setTime(4.2e6, false)",
    "state.show = 'load'; brokerlab.setTime(0, true)", "state.show = 'load'; brokerlab.setTime(4.2e6, false)",
    "state.service = 1; brokerlab.state.show = 'load'; brokerlab.setTime(4.2e6, false)",
    "state.window = 20000; brokerlab.setTime(2.5e6, false)",
    "select(sentRows[7], -1)",
]  # fmt: skip


@pytest.mark.xdist_group("browser")
@pytest.mark.parametrize("scenario", ["quickstart", "partition-heals"])
def test_what_scripts_draw_has_its_command_beside_it_which_is_true(
    made, reported, opened, tmp_path, capsys, monkeypatch, scenario
):
    run = made(scenario) if scenario == "quickstart" else made(scenario, "trace.level=full")
    page = opened(reported(run))
    monkeypatch.chdir(run.path.parent)
    page("window.sentRows = brokerlab.model.columns.sent_message")
    drawn = Counter()
    for state in STATES:
        page("brokerlab.state.service = -1, brokerlab.state.show = 'traffic', brokerlab.select(-1, -1)")
        page(f"(() => {{ brokerlab.{state}; brokerlab.redraw(); brokerlab.redrawDiagram(); }})()")
        told, diagram = page(MAP), page(DIAGRAM)
        rows = table(tmp_path, *typed(told["typed"]))
        assert numbers(rows, "link") == told["links"], state
        assert numbers(rows, "broker") == told["brokers"], state
        dots = [row for row in rows if row[0].startswith("under way")]
        assert (len(dots), len(of(rows, "lost"))) == (told["dots"], told["lost"]), state
        assert (told["faults"] > 0) == any(of(rows, what) for what in ("down", "slow", "cut", "worn"))
        events = [row for row in table(tmp_path, *typed(diagram["typed"])) if row[0] != "lost"]
        found = [[row[3], row[5], row[6]] for row in events]
        assert sorted(found) == sorted(diagram["events"]) and found, state
        drawn.update(dots=len(dots), lost=told["lost"], faults=told["faults"], way=len(of(rows, "way")))
    assert drawn["dots"] and drawn["way"]
    assert scenario == "quickstart" or (drawn["lost"] and drawn["faults"])
    assert page.is_quiet()
    capsys.readouterr()


@pytest.mark.xdist_group("browser")
def test_the_curve_of_a_link_has_its_command_which_is_true(quickstart, reported, opened, tmp_path, monkeypatch, capsys):
    page = opened(reported(quickstart))
    monkeypatch.chdir(quickstart.path.parent)
    busiest = page("(counts => counts.indexOf(Math.max(...counts)))(Array.from(brokerlab.map.told.links))")
    for service in (-1, 1):
        page(f"(brokerlab.state.service = {service}, brokerlab.pickLink({busiest}))")
        rows = table(tmp_path, *typed(page("document.getElementById('link-command').textContent")))
        carried = [page(f"carriedOver(brokerlab.model, {link}, {service})") for link in (busiest, busiest ^ 1)]
        assert [float(row[2]) for row in rows] == [count for counts in carried for count in counts]
        assert sum(carried[0]) > 100
    assert page.is_quiet()
    capsys.readouterr()


def typed(command):
    words = shlex.split(command)
    assert words[:2] == ["brokerlab", "plot"]
    return words[2:]


def test_without_scripts_the_commands_stand_there_too(quickstart, made, reported, tmp_path, capsys, monkeypatch):
    for run in (quickstart, made("news", "duration=2 s", "trace.level=summary")):
        text = reported(run).read_text("utf-8")
        monkeypatch.chdir(run.path.parent)
        commands = dict(re.findall(r'<code id="(\w+)-command">([^<]+)</code>', text))
        assert set(commands) == ({"map", "diagram"} if run is quickstart else {"map"})
        for command in commands.values():
            assert table(tmp_path, *typed(command))
    capsys.readouterr()


# ---- files -----------------------------------------------------------------------------------------------


def test_views_are_drawn_in_both_styles_with_the_same_bytes_each_time(faulty, tmp_path):
    pytest.importorskip("matplotlib")
    begin = min(row["begin_ns"] for row in faulty.read("faults").to_pylist())
    asked = {"overlay": {"at_ns": begin + 10**8}, "space-time": {"begin_ns": begin, "end_ns": begin + 2 * 10**8}}
    for kind, more in asked.items():
        for style, form in (("paper", "pdf"), ("screen", "svg"), ("paper", "png")):
            files = [tmp_path / f"{number}.{form}" for number in (1, 2)]
            for file in files:
                plot([faulty.path], [kind], file, style=style, **more)
            assert files[0].read_bytes() == files[1].read_bytes()
        text = (tmp_path / "1.svg").read_text("utf-8")
        assert ElementTree.fromstring(text) is not None
        legend = ["forgets, ", *(["a link is cut", "a message was lost"] if kind == "overlay" else [])]
        assert all(f"<!-- {each}" in text for each in legend)
    assert {*asked, "link"} == set(VIEWS)  # which is drawn as any line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kind", "overlay", "--metric", "speed"], "an overlay is of traffic, load, tables, waste (got 'speed')"),
        (["--kind", "overlay", "--at", "soon"], "--at: expected a duration"),
        (["--kind", "overlay", "--at", "1 min"], "--at: all is over at "),
        (["--kind", "overlay", "--from", "1 s"], "--from goes with space-time (got --kind overlay)"),
        (["--kind", "latency", "--message", "0#1"], "--message goes with overlay and space-time (got --kind latency)"),
        (["--kind", "overlay", "--service", "mail"], "the run has no service 'mail'; it has news"),
        (["--kind", "link"], "say which, by the brokers at its ends, as in --link b0 b1"),
        (["--kind", "link", "--link", "b0", "b0"], "--link: b0 and b0 are no neighbours"),
        (["--kind", "link", "--link", "b0", "nobody"], "--link: there is no broker named 'nobody'"),
        (["--kind", "overlay", "--link", "b0", "b1"], "--link goes with link (got --kind overlay)"),
        (["--kind", "space-time", "--metric", "waste"], "--metric goes with means, differences, grid, overlay and map"),
        (["--kind", "space-time", "--from", "1 s", "--to", "1 s"], "--to: later than --from"),
        (["--kind", "space-time", "--from", "1 s", "--to", "1.000001 s"], "there is nothing to draw"),
        (["--kind", "space-time", "--message", "0#1", "--to", "1 s"], "leave out --from and --to"),
        (["--kind", "space-time", "--message", "mail"], "'mail' names no message"),
        (["--kind", "space-time", "--message", "0#9999"], "--message: the run has no message 0#9999"),
        (["THIN", "--kind", "overlay"], "it is of one run (got 2)"),
    ],
)
def test_what_cannot_be_asked_is_said(made, arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    thin = made("news", "duration=2 s", "trace.level=summary", "seed=5")
    run = made("news", "duration=2 s")
    typed = [str(thin.path) if each == "THIN" else each for each in arguments]
    assert main(["plot", str(run.path), *typed, "-o", "x.csv"]) == 3
    told = capsys.readouterr().err
    assert said in told and "Traceback" not in told
    assert main(["plot", str(thin.path), "--kind", "overlay", "-o", "x.csv"]) == 3
    assert "'hops' needs 'full'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
