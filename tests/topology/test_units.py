"""Quantities: exact, refused rather than guessed, and read back as they are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from brokers import units
from brokers.errors import InvalidInput

PARSERS = [
    units.parse_duration,
    units.parse_cost,
    units.parse_rate,
    units.parse_size,
    units.parse_bandwidth,
    units.parse_fraction,
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 ms", 5_000_000),
        ("5ms", 5_000_000),
        ("10 us", 10_000),
        ("10 µs", 10_000),
        ("10 μs", 10_000),
        ("1.5 s", 1_500_000_000),
        ("2 min", 120_000_000_000),
        ("1 h", 3_600_000_000_000),
        ("1e3 ns", 1000),
        ("1e3", 1000),
        (".5 us", 500),
        (7, 7),
        (1e6, 1_000_000),
        ("0.1 s", 100_000_000),
        ("0.000000001 s", 1),
    ],
)
def test_a_duration_is_counted_in_nanoseconds(text, expected):
    assert units.parse_duration(text) == expected


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (units.parse_rate, "100/s", 100.0),
        (units.parse_rate, "6/min", 0.1),
        (units.parse_rate, "100 / s", 100.0),
        (units.parse_rate, "2 kHz", 2000.0),
        (units.parse_rate, 0.5, 0.5),
        (units.parse_size, "2 KiB", 2048),
        (units.parse_size, "1 MB", 1_000_000),
        (units.parse_size, "1.5 KiB", 1536),
        (units.parse_bandwidth, "1 Gbit/s", 10**9),
        (units.parse_bandwidth, "10 MB/s", 80_000_000),
        (units.parse_bandwidth, "64 kbps", 64_000),
        (units.parse_bandwidth, "unlimited", 0),
        (units.parse_fraction, "5 %", 0.05),
        (units.parse_fraction, 1, 1.0),
        (units.parse_cost, "0.5 ns", 0.5),
        (units.parse_cost, "1.2 us", 1200.0),
    ],
)
def test_other_quantities_are_in_their_base_unit(parse, text, expected):
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("parse", "value", "words"),
    [
        (units.parse_duration, "5 msec", "did you mean 'ms'? known units: ns, us"),
        (units.parse_duration, "5 parsec", "unknown unit 'parsec'"),
        (units.parse_duration, "soon", "such as '5 ms'"),
        (units.parse_duration, "0.5 ns", "whole number of nanoseconds"),
        (units.parse_duration, "-1 s", "cannot be negative"),
        (units.parse_duration, "1e30 s", "beyond"),
        (units.parse_duration, "1e999999999", "such as '5 ms'"),
        (units.parse_duration, True, "got True"),
        (units.parse_duration, None, "got None"),
        (units.parse_duration, [], "got []"),
        (units.parse_duration, float("nan"), "got nan"),
        (units.parse_rate, "5 ms", "known units: /ns"),
        (units.parse_size, "0.5 B", "whole number of bytes"),
        (units.parse_bandwidth, "5 mbit/s", "did you mean"),
        (units.parse_fraction, 1.01, "between 0 and 1"),
        (units.parse_fraction, "120 %", "between 0 and 1"),
    ],
)
def test_what_is_no_quantity_is_refused_with_what_to_write_instead(parse, value, words):
    with pytest.raises(InvalidInput) as caught:
        parse(value)
    assert words in str(caught.value)


def test_a_number_too_long_to_print_is_refused_without_printing_it():
    with pytest.raises(InvalidInput, match="more than 60 digits"):
        units.parse_duration(10**5000)


@given(st.integers(0, units.DURATION_NS_MAX))
def test_a_duration_reads_back_as_it_was_written(duration_ns):
    assert units.parse_duration(units.format_duration(duration_ns)) == duration_ns


@given(st.integers(0, units.AMOUNT_MAX))
def test_a_size_and_a_bandwidth_read_back_as_they_were_written(amount):
    assert units.parse_size(units.format_size(amount)) == amount
    assert units.parse_bandwidth(units.format_bandwidth(amount)) == amount


@given(st.floats(0, 1e15))
def test_a_rate_reads_back_as_it_was_written(rate):
    assert units.parse_rate(units.format_rate(rate)) == rate


@given(st.integers(0, 10**12), st.sampled_from(sorted(units.DURATION_UNITS)))
def test_a_whole_number_of_any_unit_is_exact(count, unit):
    factor = units.DURATION_UNITS[unit]
    if count * factor <= units.DURATION_NS_MAX:
        assert units.parse_duration(f"{count} {unit}") == count * factor


@given(st.one_of(st.text(), st.integers(), st.floats(), st.binary(), st.booleans(), st.none()))
def test_any_value_is_parsed_or_refused_but_never_breaks_a_parser(value):
    for parse in PARSERS:
        try:
            assert parse(value) >= 0
        except units.QuantityError as error:
            assert str(error)


def test_the_types_parse_inside_models_and_describe_themselves():
    adapter = TypeAdapter(units.Duration)
    assert adapter.validate_python("5 ms") == 5_000_000
    assert adapter.json_schema()["examples"] == ["5 ms"]
    with pytest.raises(ValidationError):
        TypeAdapter(units.PositiveDuration).validate_python("0 s")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (units.format_duration(1_500_000), "1.5 ms"),
        (units.format_duration(0), "0 ns"),
        (units.format_size(2048), "2 KiB"),
        (units.format_size(3000), "3 kB"),
        (units.format_bandwidth(0), "unlimited"),
        (units.format_bandwidth(10**9), "1 Gbit/s"),
        (units.format_rate(100.0), "100/s"),
    ],
)
def test_quantities_are_written_in_their_largest_fitting_unit(written, expected):
    assert written == expected
