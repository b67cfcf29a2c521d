"""Times of replayed files: dates and numbers, shifted to the start, stretched and squeezed, to the nanosecond."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as arrow
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.contract import NEVER, SourceContext
from brokers.errors import InvalidInput
from scenarios.workloads.replay import Replay
from scenarios.workloads.replaying.times import UNITS, Times, _counted, _decimal_ns, _exact_ns

SECOND = 1_000_000_000


def times(folder, cells, params, *, type_=None, seconds=100, name="time"):
    """The times at which publications at these times of a file happen."""
    if type_ is None:
        path = folder / "events.csv"
        path.write_text(f"{name}\n" + "".join(f"{cell}\n" for cell in cells))
    else:
        path = folder / "events.parquet"
        parquet.write_table(arrow.table({name: arrow.array(cells, type_)}), path)
    context = SourceContext(1, 0, 0, np.arange(1), 1, 1, seconds * SECOND, False, {"attributes": 1})
    source = Replay({"file": str(path), "op": "publish", "client": 0, **params}, context)
    found = []
    while source.next_wake() < NEVER:
        found += [time for each in source.take() for time in each.time.tolist()]
    return found


DATES = ["2024-05-01 12:00:00", "2024-05-01T12:00:01.5Z", "2024-05-01 14:00:02.000000001+02:00"]


def test_dates_begin_at_the_first_with_and_without_a_zone(tmp_path):
    assert times(tmp_path, DATES, {}) == [1, 1_500_000_000, 2_000_000_001]
    assert times(tmp_path, DATES[:1], {}) == [1]
    assert times(tmp_path, DATES[1:], {}) == [1, 500_000_001]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_timestamps_of_any_resolution_and_zone_are_the_same_times(unit, zone, tmp_path):
    stamps = [datetime(2024, 5, 1, 12, 0, second, tzinfo=UTC) for second in (0, 3, 7)]
    plain = [stamp if zone else stamp.replace(tzinfo=None) for stamp in stamps]
    assert times(tmp_path, plain, {}, type_=arrow.timestamp(unit, zone)) == [1, 3 * SECOND, 7 * SECOND]


def test_what_pandas_writes_of_dates_is_read_from_both_formats(tmp_path):
    stamps = pd.date_range("2024-05-01", periods=3, freq="500ms")
    expected = [1, SECOND // 2, SECOND]
    assert times(tmp_path, stamps.astype(str), {}) == expected
    assert times(tmp_path, stamps, {}, type_=arrow.timestamp("ns")) == expected


@pytest.mark.parametrize(
    ("unit", "cells"),
    [
        ("s", ["1714564800", "1714564801.5", "1714564802.000000001"]),
        ("ms", ["1000", "2500", "3000.000001"]),
        ("us", ["1", "1500001", "2000001.001"]),
        ("ns", ["5", "1500000005", "2000000006"]),
        ("min", ["0", "0.025", "0.03333333335"]),
        ("h", ["1", "1.000416666666667", "1.000555555555833"]),
        ("day", ["0", "1.736111111e-5", "2.314814816e-5"]),
    ],
)
def test_numbers_of_any_unit_are_read_to_the_nanosecond(unit, cells, tmp_path):
    found = times(tmp_path, cells, {"unit": unit})
    exact = [round(Fraction(Decimal(cell)) * UNITS[unit]) for cell in cells]
    assert found == [max(1, each - exact[0]) for each in exact]
    assert found[1] == pytest.approx(1.5 * SECOND, abs=50_000)


def test_floats_are_told_to_the_nanosecond_as_far_as_they_go(tmp_path):
    assert times(tmp_path, [0.1, 0.3, 12.000000001], {}, type_=arrow.float64(), name="time_s") == [
        100_000_000, 300_000_000, 12_000_000_001,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("2024-05-01 11:59:50", [10, 11.5, 12.000000001]),
        ("2024-05-01", None),
        (1714564790, [10, 11.5, 12.000000001]),
        ("first", [0.000000001, 1.5, 2.000000001]),
    ],
)
def test_a_start_says_which_instant_is_zero(start, expected, tmp_path):
    if expected is None:
        with pytest.raises(InvalidInput, match="is not within the duration of 100 s"):
            times(tmp_path, DATES, {"start": start})
        return
    unit = {"unit": "s"} if isinstance(start, int) else {}
    if unit:
        with pytest.raises(InvalidInput, match="say its `unit`"):
            times(tmp_path, DATES, {"start": start})
        cells = ["1714564800", "1714564801.5", "1714564802.000000001"]
    else:
        cells = DATES
    assert times(tmp_path, cells, {"start": start, **unit}) == [round(Decimal(str(e)) * SECOND) for e in expected]


def test_an_hour_plays_in_a_second_and_a_second_in_an_hour(tmp_path):
    assert times(tmp_path, ["0", "1", "2.5"], {"unit": "h", "speed": 3600}) == [1, SECOND, 5 * SECOND // 2]
    slow = times(tmp_path, ["0", "0.01"], {"unit": "s", "speed": "1/3600"})
    assert slow == [1, 36 * SECOND]
    assert times(tmp_path, ["0", "3"], {"unit": "s", "speed": 1.5}) == [1, 2 * SECOND]


@given(
    st.lists(st.integers(0, 10**17), min_size=1, max_size=20),
    st.fractions(min_value=Fraction(1, 1000), max_value=10**6, max_denominator=1000),
)
def test_a_speed_divides_exactly_and_keeps_the_order(events, speed):
    events = sorted(events)
    found = Times("time_ns", None, None, speed).simulated(np.array(events)).tolist()
    assert found == [min(time * speed.denominator // speed.numerator, NEVER) for time in events]


@pytest.mark.parametrize(
    ("cells", "params", "message"),
    [
        (["17"], {}, r"events.csv:2: time must be a date such as 2024-05-01 12:00:00 \(for numbers say their `unit`\)"),
        (["2024-05-01", "soon"], {}, r"events.csv:3: time must be a date such as .* \(got 'soon'\)"),
        (["1", "x"], {"unit": "s"}, r"events.csv:3: time must be a number \(got 'x'\)"),
        (["1", "1e30"], {"unit": "s"}, r"events.csv:3: time is beyond what can be simulated"),
        (DATES[::-1], {}, r"events.csv:3: time 2024-05-01T12:00:01.5Z is before that above it; sort the file"),
        (DATES, {"start": DATES[1]}, r"events.csv:2: it lies 1.5 s before `start`"),
        (["1", "2"], {"unit": "day"}, r"is not within the duration of 100 s; raise the duration, let the file"),
        (["1"], {"unit": "s", "start": "noon"}, r"`start` is a date such as .* \(got 'noon'\)"),
    ],
)
def test_times_that_cannot_be_are_told_as_they_stand(cells, params, message, tmp_path):
    with pytest.raises(InvalidInput, match=message):
        times(tmp_path, cells, params)


def test_numbers_in_parquet_want_a_unit_before_anything_is_read(tmp_path):
    with pytest.raises(InvalidInput, match="the column 'time' holds numbers; say their `unit`, one of ns, us"):
        times(tmp_path, [1, 2], {}, type_=arrow.int64())


def test_what_lies_beyond_the_run_can_be_cut(tmp_path):
    cells = [str(number) for number in range(10)]
    cut = {"unit": "s", "start": 3, "cut": True}
    assert times(tmp_path, cells, cut, seconds=4) == [1, SECOND, 2 * SECOND, 3 * SECOND]


DECIMALS = st.decimals(0, 90, allow_nan=False, places=None).map(str) | st.floats(0, 90).map(repr) | st.sampled_from(
    ["1.0000000005", "1.0000000015", "2.5e-10", "5e-10", "0.00000000050000000000000000001", "8" + "." + "4" * 38]
)  # fmt: skip


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s", "min"])
@given(cells=st.lists(DECIMALS, min_size=1, max_size=9))
def test_whole_columns_of_decimals_are_rounded_as_single_ones(unit, cells):
    factor = UNITS[unit]
    expected = [_exact_ns(cell, factor) for cell in cells]
    found = _decimal_ns(arrow.array(cells), factor)
    assert found is None or found.tolist() == expected
    assert _counted(arrow.array(cells), factor, lambda *wrong: pytest.fail(str(wrong))).tolist() == expected


def test_floats_that_are_written_in_full_are_read_by_the_column():
    cells = [repr(number) for number in (np.arange(1000) / 7).tolist()]
    assert max(map(len, cells)) > 17
    found = _decimal_ns(arrow.array(cells), UNITS["s"])
    assert found is not None and found.tolist() == [_exact_ns(cell, UNITS["s"]) for cell in cells]


@pytest.mark.parametrize("speed", [0, -1, "fast", "1/0", 1e300, "1e999999999", True, float("nan")])
def test_a_speed_that_is_none_is_refused(speed):
    with pytest.raises(ValueError, match="must be a number above 0, or a ratio"):
        Replay.Params.model_validate({"file": "x.csv", "speed": speed})
