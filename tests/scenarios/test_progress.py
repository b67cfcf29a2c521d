"""Live progress: what it says, and how often."""

import io
import re
import threading
from pathlib import Path

import pytest

from scenarios import progress as progress_module
from scenarios.progress import PIPE_EVERY_S, Line, Progress, Steps, coloured, ticking

ROOT = Path(__file__).parents[2]


class Screen(io.StringIO):
    """A stream that says it is a terminal, and what stands on it."""

    def isatty(self):
        return True

    def rows(self):
        return on_screen(self.getvalue())


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def at(times):
    moments = iter(times)
    return lambda: next(moments)


def test_a_pipe_gets_a_plain_line_every_few_seconds():
    stream = io.StringIO()
    progress = Progress(10_000_000_000, stream, at([0.0, 1.0, PIPE_EVERY_S, PIPE_EVERY_S + 1.0]))
    progress.update(1_000_000_000, 1000, 5)
    progress.update(5_000_000_000, 50_000, 12)
    progress.update(6_000_000_000, 60_000, 12)
    progress.close()
    assert stream.getvalue() == (
        "5.0 s simulated (50%) · 10k events/s · 1 s per s · 12 in flight\n"
    )


def test_a_terminal_has_one_line_that_changes_and_is_cleared():
    stream = Screen()
    progress = Progress(10_000_000_000, stream, at([0.0, 1.0, 2.0]))
    progress.update(1_000_000_000, 3_000_000, 12_345)
    progress.update(2_000_000_000, 3_000_100, 1)
    progress.close()
    text = stream.getvalue()
    assert "\n" not in text
    assert "3M events/s" in text
    assert "12.3k in flight" in text
    assert stream.rows() == []


def test_rates_are_of_the_stretch_since_the_last_line():
    stream = io.StringIO()
    progress = Progress(100_000_000_000, stream, at([0.0, 10.0, 20.0]))
    progress.update(10_000_000_000, 1_000_000, 0)
    progress.update(11_000_000_000, 1_000_500, 0)
    assert "· 50 events/s · 0.1 s per s ·" in stream.getvalue().splitlines()[1]


def ends_of_lines(*looks):
    """What stands last in the lines of a run that had simulated shares at moments: (moment, share)."""
    stream = io.StringIO()
    progress = Progress(10_000, stream, at([0.0, *(moment for moment, _ in looks)]))
    for _, share in looks:
        progress.update(round(share * 10_000), 100, 0)
    return [line.rpartition("· ")[2] for line in stream.getvalue().splitlines()]


NOTHING_TOLD = "0 in flight"


@pytest.mark.parametrize("pace", [0.02, 0.04])
def test_the_time_to_go_is_told_from_the_second_line_on_and_is_right(pace):
    ends = ends_of_lines(*((5.0 * i, pace * 5 * i) for i in range(1, 5)))
    assert ends == [NOTHING_TOLD, *(f"{1 / pace - 5 * i:.0f} s to go" for i in range(2, 5))]


def test_no_time_to_go_is_told_as_long_as_next_to_nothing_has_been_simulated():
    assert set(ends_of_lines(*((5.0 * i, 0.0005 * i) for i in range(1, 30)))) == {NOTHING_TOLD}


def test_a_terminal_shows_no_time_to_go_in_the_first_seconds():
    stream = Screen()
    progress = Progress(100, stream, at([0.0, 1.0, 2.5, 4.5, 6.0]))
    for share in (10, 25, 45):
        progress.update(share, 100, 0)
    assert "to go" not in stream.getvalue()
    progress.update(60, 100, 0)
    (line,) = stream.rows()
    assert line.endswith("4 s to go")


def test_a_run_that_first_compiles_for_a_minute_tells_no_hours():
    looks = [(60.0, 0.03), *((60.0 + 5 * i, 0.03 + 0.02 * i) for i in range(1, 40))]
    ends = ends_of_lines(*looks)
    told = [end for end in ends if end != NOTHING_TOLD]
    assert ends.index(told[0]) > 5
    assert told == ends[ends.index(told[0]) :]
    minutes, _, seconds, *_ = told[0].split()
    _, share = looks[ends.index(told[0])]
    right_s = (1 - share) / 0.02 * 5
    assert right_s < 60 * int(minutes) + int(seconds) < 2 * right_s + 1


def test_a_run_that_stands_still_tells_no_time_to_go():
    assert set(ends_of_lines(*((60.0 + 5 * i, 0.05) for i in range(20)))) == {NOTHING_TOLD}


def test_the_points_of_a_sweep_on_a_pipe_are_a_line_every_few_seconds_and_one_at_the_end():
    now, stream = [0.0], io.StringIO()
    progress = Steps("points", stream, lambda: now[0])
    for ended, moment in enumerate((0, 1, 4, 6, 12, 20)):
        now[0] = moment
        progress(ended, min(ended, 1), 5)
    assert stream.getvalue().splitlines() == [
        "3 of 5 points (60%) · 1 failed · 6 s",
        "4 of 5 points (80%) · 1 failed · 12 s · 3 s to go",
        "5 of 5 points (100%) · 1 failed · 20 s",
    ]


def test_the_points_of_a_sweep_on_a_terminal_are_one_line_that_always_changes_and_is_cleared():
    stream = Screen()
    progress = Steps("points", stream, at([0.0, 3.0, 6.0]))
    progress(1, 0, 4)
    assert stream.rows() == ["1 of 4 points (25%) · 3 s"]
    progress(2, 0, 4)
    assert stream.rows() == ["2 of 4 points (50%) · 6 s · 6 s to go"]
    progress.close()
    assert stream.rows() == []


def test_a_sentence_that_stays_stands_above_what_changes():
    stream = Screen()
    steps = Steps("groups", stream, at([0.0, 3.0]))
    steps(1, 1, 4, "engine")
    steps.say("a figure")
    steps.say("another")
    assert stream.rows() == ["a figure", "another", "1 of 4 groups (25%) · 1 failed · engine · 3 s"]
    steps.close()
    assert stream.rows() == ["a figure", "another"]


def test_several_lines_change_in_place_and_fewer_leave_nothing_behind():
    stream = Screen()
    with Line(stream, lambda: 0.0) as block:
        block.show("first\nsecond\nthird", 1.0)
        block.show("FIRST\nSECOND", 2.0)
        assert stream.rows() == ["FIRST", "SECOND"]
    assert stream.rows() == []


def test_what_does_not_fit_is_cut(monkeypatch):
    stream = Screen()
    monkeypatch.setattr(progress_module, "_size", lambda stream: (10, 4))
    Line(stream, lambda: 0.0).show("0123456789abcdef\nb\nc\nd\ne", 1.0)
    assert stream.rows() == ["012345678", "b", "c"]


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_go_back_gets_plain_lines(monkeypatch, term):
    monkeypatch.setenv("TERM", term)
    stream = Screen()
    progress = Progress(10_000_000_000, stream, at([0.0, PIPE_EVERY_S]))
    progress.update(1_000_000_000, 3_000_000, 12_345)
    assert stream.getvalue().endswith("in flight\n") and "\x1b" not in stream.getvalue()


def test_colours_are_for_terminals_of_those_who_want_them(monkeypatch):
    assert coloured(Screen()) and not coloured(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not coloured(Screen())


def test_work_that_cannot_say_how_far_it_is_shows_that_it_goes_on():
    stream, told = io.StringIO(), threading.Event()

    def text(passed_s):
        told.set()
        return f"at work for {passed_s >= 0}"

    with ticking(Line(stream, pipe_every_s=0.0), text):
        assert told.wait(30)
    assert stream.getvalue().startswith("at work for True\n")


def test_nobody_else_looks_for_a_terminal_or_writes_over_a_line():
    """So that all progress is told in one way."""
    found = [
        file.relative_to(ROOT).as_posix()
        for package in ("topology", "brokers", "protocols", "scenarios", "analysis")
        for file in (ROOT / package).rglob("*.py")
        if re.search(r"isatty|x1b|end=\"\\\\r|write\(f?\"\\\\r", file.read_text("utf-8"))
    ]
    assert sorted(found) == ["scenarios/progress.py", "scenarios/watching.py"]


def on_screen(text):
    """What stands on a terminal after a text: lines, and the four ways of moving that are used."""
    rows, row, column = [""], 0, 0
    for piece in re.findall(r"\x1b\[\d*[A-Za-z]|\r|\n|[^\x1b\r\n]+", text):
        if piece == "\r":
            column = 0
        elif piece == "\n":
            row, column = row + 1, 0
            rows += [""] * (row + 1 - len(rows))
        elif piece.endswith("A"):
            row -= int(piece[2:-1])
        elif piece.endswith("K"):
            rows[row] = rows[row][:column]
        elif piece.endswith("J"):
            rows[row:] = [rows[row][:column]]
        elif not piece.startswith("\x1b"):
            rows[row] = rows[row][:column].ljust(column) + piece + rows[row][column + len(piece) :]
            column += len(piece)
    return rows[: max((at + 1 for at, each in enumerate(rows) if each), default=0)]
