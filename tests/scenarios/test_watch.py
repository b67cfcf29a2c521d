"""`brokerlab watch`: what it shows is what the run has come to, on a real terminal, and leaves that as it was."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios

import pytest

from brokers.engine.runfolder import PROGRESS, create_run, is_written, under_way
from brokers.errors import Interrupted, InvalidInput, RunDamaged
from scenarios import watching
from scenarios.cli import main
from scenarios.running import run
from scenarios.watching import Told, View, follow, read
from tests.scenarios.test_progress import Screen, on_screen


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Every window is told of."""
    monkeypatch.setattr(watching, "KEPT_EVERY_S", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


class Looking(View):
    """A view that keeps what it was told."""

    def __init__(self):
        super().__init__("run", 0.0, io.StringIO())
        self.told = []

    def tell(self, told):
        self.told.append(told)


def short(tmp_path, duration="1500 ms", **more):
    return run("news", overrides=[f"duration={duration}"], out=tmp_path / "runs", **more)


# ---- what is told ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how",
    [{"engine": "inline"}, {"engine": "inline", "actors": 3}, {"engine": "threads", "actors": 2},
     pytest.param({"engine": "ray", "actors": 2}, marks=pytest.mark.ray)],
)  # fmt: skip
def test_what_is_told_last_is_what_came_of_the_run(tmp_path, how):
    view = Looking()
    done = short(tmp_path, watch=view, **how)
    last, network = view.told[-1], done.metrics["network"]
    assert (last.messages, last.bytes, last.lost) == (network["messages"], network["bytes"], network["lost"])
    assert last.events == network["events"] and last.in_flight == 0
    news = done.metrics["services"]["news"]
    assert last.services["news"].model_dump() == {
        "publications": news["publications"], "deliveries": news["deliveries"],
        "p50_ms": news["latency"]["p50_ms"], "p99_ms": news["latency"]["p99_ms"],
    }  # fmt: skip
    assert last.reached_ns == last.duration_ns == 1_500_000_000
    deliveries = [each.services["news"].deliveries for each in view.told]
    assert deliveries == sorted(deliveries) and len(set(deliveries)) > 1
    assert done.digest == short(tmp_path / "other", engine="inline").digest
    assert not (done.path / PROGRESS).exists()


def test_a_queue_that_grows_is_told(tmp_path):
    view = Looking()
    run("overload", engine="inline", overrides=["duration=2 s"], out=tmp_path, watch=view)
    assert max(each.behind for each in view.told) > 0
    assert max(each.backlog_ns for each in view.told) > 1_000_000


def test_a_process_that_sees_the_folder_reads_what_is_told(tmp_path):
    seen = []

    def look(reached, events, in_flight):
        folder = under_way(tmp_path / "runs")
        assert is_written(folder)
        seen.append((events, read(folder)))

    done = short(tmp_path, engine="inline", progress=look)
    told = [each for _, each in seen if each is not None]
    assert told and all(isinstance(each, Told) for each in told)
    assert [each.events for each in told] == [events for events, _ in seen][: len(told)]  # that of the window before
    assert not is_written(done.path)


def test_an_interrupted_run_leaves_nothing_that_tells_of_it(tmp_path):
    def press(reached, events, in_flight):
        if reached > 1_000_000_000:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        short(tmp_path, engine="inline", progress=press)
    (folder,) = (tmp_path / "runs").glob("news-*")
    assert not (folder / PROGRESS).exists()


# ---- what is shown ---------------------------------------------------------------------------------------


def told(wall_s=1.0, deliveries=10, **more):
    facts = {
        "reached_ns": 1, "duration_ns": 4, "wall_s": wall_s, "events": 100, "in_flight": 3, "messages": 50,
        "bytes": 2000, "lost": 0, "dropped": 0, "behind": 2, "backlog_ns": 1_500_000,
        "services": {"news": {"publications": 5, "deliveries": deliveries, "p50_ms": 1.5, "p99_ms": None}},
        "expected": [
            {"text": "network.lost == 0", "measured": "0", "holds": True},
            {"text": "news.deliveries > 99", "measured": "10", "holds": False},
            {"text": "verdict == valid", "measured": "nothing measured", "holds": None},
        ],
    }  # fmt: skip
    return Told.model_validate({**facts, **more})


def test_a_terminal_shows_services_queues_and_expectations_in_place():
    screen = Screen()
    view = View("news", 0.0, screen)
    view.tell(told())
    view.tell(told(3.0, 50))
    rows = screen.rows()
    assert rows[0] == "news" and rows[1].startswith("0.0 s simulated (25%)")
    assert rows[3].split() == ["news", "5", "50", "20", "1.5", "ms", "–"]
    assert rows[5] == "queues: 2 brokers behind, by 1.5 ms at most"
    assert rows[6:] == [
        "✓ network.lost == 0: 0 so far", "✗ news.deliveries > 99: 10 so far", "· verdict == valid: not measured yet",
    ]  # fmt: skip
    view.close()
    assert screen.rows() == []


def test_elsewhere_it_is_a_line_no_more_often_than_asked():
    stream = io.StringIO()
    view = View("news", 2.0, stream)
    for wall_s in (1.0, 2.0, 3.0, 4.5):
        view.tell(told(wall_s))
    lines = stream.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[0].endswith(
        "2 brokers behind, by 1.5 ms at most · 0 lost · news 10 delivered · 1 expectations hold so far, "
        "not news.deliveries > 99"
    )


def test_names_of_a_stranger_do_not_move_the_cursor():
    screen = Screen()
    services = {"\x1b[2J\nx": {"publications": 0, "deliveries": 0, "p50_ms": None, "p99_ms": None}}
    View("a\x1b[31m", 0.0, screen).tell(told(services=services))
    assert "\x1b[2J" not in screen.getvalue() and "\x1b[31m" not in screen.getvalue().replace("\x1b[31m✗", "")
    assert screen.rows()[3].startswith("?[2J?x")


def test_colours_stand_where_they_are_wanted(monkeypatch):
    screen = Screen()
    View("news", 0.0, screen).tell(told())
    assert "\x1b[32m✓\x1b[0m" in screen.getvalue() and "\x1b[31m✗\x1b[0m" in screen.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Screen()
    View("news", 0.0, plain).tell(told())
    assert "✓" in plain.getvalue() and not re.search(r"\x1b\[\d+m", plain.getvalue())


def test_a_follower_shows_what_is_told_until_the_run_ends(tmp_path):
    made = create_run(tmp_path, "news", {}, scenario={}, seed=1, level="none")
    looks = iter([None, told(1.0), told(2.0, 30), None])
    view, shown = Looking(), []

    def between(seconds):
        shown.append(len(view.told))
        if (now := next(looks)) is not None:
            made.tell(now.model_dump_json())
        elif len(shown) > 1:
            made.fail("interrupted")

    follow(under_way(tmp_path), view, 0.5, between)
    assert shown == [0, 0, 1, 2]
    assert [each.wall_s for each in view.told] == [1.0, 2.0]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"reached_ns": NaN}', "x" * (1 << 21)])
def test_what_no_run_writes_is_damage(tmp_path, text):
    made = create_run(tmp_path, "news", {}, scenario={}, seed=1, level="none")
    made.tell(text)
    with pytest.raises(RunDamaged, match=re.escape(PROGRESS)):
        read(made.path)
    made.leave()


# ---- on a real terminal ----------------------------------------------------------------------------------


PATIENCE_S = 300


def at_a_terminal():
    """What a shell in the foreground does; one whose job is in the background ignores Ctrl-C, and so would we."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A command in a pty of its own."""

    def __init__(self, *arguments, columns=100, **environment):
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from scenarios.cli import entry; entry()", *map(str, arguments)], stdin=theirs,
            stdout=theirs, stderr=theirs, start_new_session=True, cwd=environment.pop("cwd"),
            env={**os.environ, "TERM": "xterm", "PYTHONPATH": os.getcwd(), **environment},
            preexec_fn=at_a_terminal,
        )  # fmt: skip
        self.theirs, self.text = theirs, ""

    def until(self, pattern):
        """Read until something was written."""
        while not re.search(pattern, self.text):
            assert select.select([self.ours], [], [], PATIENCE_S)[0], f"nothing more came after {self.text[-500:]!r}"
            self.text += os.read(self.ours, 1 << 16).decode(errors="replace")
        return self

    def end(self):
        """The exit code, once it has ended; and whether the terminal is as it was."""
        code = self.process.wait(PATIENCE_S)
        os.set_blocking(self.ours, False)
        try:
            while True:
                self.text += os.read(self.ours, 1 << 16).decode(errors="replace")
        except BlockingIOError:
            pass
        assert termios.tcgetattr(self.theirs) == self.before
        os.close(self.theirs)
        os.close(self.ours)
        return code

    def press_control_c(self):
        os.write(self.ours, b"\x03")


def test_in_a_narrow_terminal_a_run_is_shown_in_place_and_then_told(tmp_path):
    terminal = Terminal("watch", "news", "--engine", "inline", "--set", "duration=8 s", "--every", "1ms", columns=44,
                        cwd=tmp_path)  # fmt: skip
    assert terminal.until("digest").end() == 0
    frames = terminal.text.partition("run      ")[0]
    assert frames.count("service  published") >= 2 and "\x1b[" in frames
    assert max(len(each) for each in re.split(r"\x1b\[\d*[A-Za-z]|[\r\n]+", frames)) == 43
    rows = on_screen(terminal.text)
    assert not any(row.startswith(("service", "queues")) for row in rows)
    assert any(row.startswith("digest") for row in rows)


def test_control_c_ends_the_run_that_is_shown_and_says_how_to_finish_it(tmp_path):
    terminal = Terminal("watch", "news", "--engine", "inline", "--set", "duration=2 h", cwd=tmp_path)
    terminal.until("service  published").press_control_c()
    assert terminal.end() == 130
    rows = on_screen(terminal.text)
    assert any("interrupted; finish it with: brokerlab run --resume" in row for row in rows)
    assert not any(row.startswith("service") for row in rows)


def test_a_dumb_terminal_gets_lines_and_a_run_goes_on_that_is_no_longer_watched(tmp_path):
    running = Terminal("run", "news", "--engine", "inline", "--set", "duration=2 h", "--out", "runs", cwd=tmp_path)
    running.until("simulated")
    watching_it = Terminal("watch", "runs", "--every", "1ms", TERM="dumb", cwd=tmp_path)
    watching_it.until(r"news [\d,]+ delivered").press_control_c()
    assert watching_it.end() == 130
    assert "\x1b" not in watching_it.text and "no longer watched; the run goes on" in watching_it.text
    assert running.process.poll() is None
    running.press_control_c()
    assert running.end() == 130


# ---- what cannot be --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 3, "name a scenario to run, or a run folder"),
        (["nowhere.yaml"], 3, "nowhere.yaml"),
        (["EMPTY"], 3, "no run is under way there"),
        (["DONE"], 3, "is a finished run; see it with: brokerlab report"),
        (["DIED"], 2, "is no finished run: it died; finish it with"),
        (["GOES", "--seed", "3"], 3, "takes no --set, --seed"),
        (["news", "--every", "0"], 3, "--every:"),
        (["news", "--every", "soon"], 3, "--every:"),
    ],
)
def test_what_cannot_be_watched_is_said(tmp_path, arguments, code, said, capsys):
    places = {name: tmp_path / name for name in ("EMPTY", "DONE", "DIED", "GOES")}
    (tmp_path / "EMPTY").mkdir()
    if "DONE" in arguments:
        places["DONE"] = short(tmp_path, "200 ms", engine="inline").path
    if {"DIED", "GOES"} & set(arguments):
        made = create_run(tmp_path / "x", "news", {}, scenario={"services": []}, seed=1, level="none")
        places["DIED"] = places["GOES"] = made.path
        if "DIED" in arguments:
            made.leave()
    assert main(["watch", *(str(places.get(each, each)) for each in arguments)]) == code
    told_ = capsys.readouterr().err
    assert said in told_ and "Traceback" not in told_


def test_of_several_runs_under_way_one_has_to_be_named(tmp_path):
    made = [create_run(tmp_path, name, {}, scenario={}, seed=1, level="none") for name in ("a", "b")]
    with pytest.raises(InvalidInput, match=r"2 runs are under way there, name one: .*/a-.*, .*/b-"):
        under_way(tmp_path)
    assert under_way(made[1].path) == made[1].path.resolve()
    for each in made:
        each.leave()
    assert json.loads((made[0].path / "manifest.json").read_text())["status"] == "running"
