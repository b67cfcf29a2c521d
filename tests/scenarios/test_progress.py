"""Live progress: what it says, and how often."""

import io

from scenarios.progress import PIPE_EVERY_S, PointProgress, Progress


class Screen(io.StringIO):
    def isatty(self):
        return True


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
        "5.0 s simulated (50%) · 10k events/s · 1 s per s · 12 in flight · 5 s to go\n"
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
    last = text.split("\r")[-2]
    assert last.strip() == ""


def test_rates_are_of_the_stretch_since_the_last_line():
    stream = io.StringIO()
    progress = Progress(100_000_000_000, stream, at([0.0, 10.0, 20.0]))
    progress.update(10_000_000_000, 1_000_000, 0)
    progress.update(11_000_000_000, 1_000_500, 0)
    assert "· 50 events/s · 0.1 s per s ·" in stream.getvalue().splitlines()[1]


def test_time_to_go_is_unknown_before_anything_happened():
    stream = io.StringIO()
    progress = Progress(10, stream, at([0.0, 10.0]))
    progress.update(0, 0, 0)
    assert stream.getvalue().endswith("? to go\n")


def test_the_points_of_a_sweep_on_a_pipe_are_a_line_every_few_seconds_and_one_at_the_end():
    now, stream = [0.0], io.StringIO()
    progress = PointProgress(stream, lambda: now[0])
    for ended, at in enumerate((0, 1, 4, 6, 7, 20)):
        now[0] = at
        progress(ended, min(ended, 1), 5)
    assert stream.getvalue().splitlines() == [
        "3 of 5 points (60%) · 1 failed · 6 s · 4 s to go",
        "5 of 5 points (100%) · 1 failed · 20 s · 0 s to go",
    ]


def test_the_points_of_a_sweep_on_a_terminal_are_one_line_that_always_changes_and_is_cleared():
    stream = Screen()
    progress = PointProgress(stream, at([0.0, 1.0, 2.0]))
    progress(1, 0, 4)
    progress(2, 0, 4)
    progress.close()
    first, second, cleared = stream.getvalue().split("\r")[1:4]
    assert first == "1 of 4 points (25%) · 1 s · 3 s to go"
    assert second == "2 of 4 points (50%) · 2 s · 2 s to go"
    assert cleared.strip() == ""
