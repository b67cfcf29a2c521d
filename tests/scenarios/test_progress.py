"""Live progress: what it says, and how often."""

import io

import pytest

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
    last = text.split("\r")[-2]
    assert last.strip() == ""


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
    assert stream.getvalue().rstrip().endswith("4 s to go")


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
    progress = PointProgress(stream, lambda: now[0])
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
    progress = PointProgress(stream, at([0.0, 3.0, 6.0]))
    progress(1, 0, 4)
    progress(2, 0, 4)
    progress.close()
    first, second, cleared = stream.getvalue().split("\r")[1:4]
    assert first == "1 of 4 points (25%) · 3 s"
    assert second == "2 of 4 points (50%) · 6 s · 6 s to go"
    assert cleared.strip() == ""
