"""Quantities with units: "5 ms", "2 KiB", "100/s", "1 Gbit/s", "5 %".

Each `parse_*` function turns what stands in a scenario into one base unit (nanoseconds, bytes, bits per
second, events per second); each type of the same name does so inside a pydantic model. Rules:

- A number without a unit is in the base unit. A string needs no blank between number and unit.
- Decimals are exact ("0.1 s" is 100,000,000 ns): everything is counted in fractions, never in floats.
- What is not a whole number of the base unit is refused, not rounded; rates, fractions and costs are floats.
- Letters are read as written ("MB" and "mB" differ), since "Mbit" and "mbit" are a factor of 10⁹ apart.
- 1 kB is 1000 bytes, 1 KiB is 1024.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction as Ratio
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

NS_PER_S = 1_000_000_000
# Sums of two times must stay in int64, and 2**62 is the engine's "never".
DURATION_NS_MAX = 2**62 - 1
AMOUNT_MAX = 2**62 - 1

DURATION_UNITS: dict[str, Ratio] = {
    "ns": Ratio(1),
    "us": Ratio(10**3),
    "µs": Ratio(10**3),
    "μs": Ratio(10**3),  # Greek mu; the line above is the micro sign
    "ms": Ratio(10**6),
    "s": Ratio(10**9),
    "min": Ratio(60 * 10**9),
    "h": Ratio(3600 * 10**9),
    "d": Ratio(86400 * 10**9),
}
RATE_UNITS: dict[str, Ratio] = {
    "/ns": Ratio(10**9),
    "/us": Ratio(10**6),
    "/µs": Ratio(10**6),
    "/ms": Ratio(1000),
    "/s": Ratio(1),
    "/min": Ratio(1, 60),
    "/h": Ratio(1, 3600),
    "/d": Ratio(1, 86400),
    "Hz": Ratio(1),
    "kHz": Ratio(10**3),
    "MHz": Ratio(10**6),
}
_DECIMAL_PREFIXES = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY_PREFIXES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
SIZE_UNITS: dict[str, Ratio] = {
    "B": Ratio(1),
    **{f"{prefix}B": Ratio(factor) for prefix, factor in _DECIMAL_PREFIXES.items()},
    "KB": Ratio(1000),
    **{f"{prefix}B": Ratio(factor) for prefix, factor in _BINARY_PREFIXES.items()},
}
BANDWIDTH_UNITS: dict[str, Ratio] = {
    "bit/s": Ratio(1),
    **{f"{prefix}bit/s": Ratio(factor) for prefix, factor in _DECIMAL_PREFIXES.items()},
    "bps": Ratio(1),
    **{f"{prefix}bps": Ratio(factor) for prefix, factor in _DECIMAL_PREFIXES.items()},
    **{f"{unit}/s": 8 * factor for unit, factor in SIZE_UNITS.items()},
}
FRACTION_UNITS: dict[str, Ratio] = {"%": Ratio(1, 100)}

# Three digits of exponent hold every float, and keep "1e999999999" from filling the memory.
_NUMBER = r"[+-]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})(?:[eE][+-]?\d{1,3})?(?![eE][+-]?\d)"
_QUANTITY = re.compile(rf"\s*({_NUMBER})\s*([^\d\s.].*?)?\s*", re.ASCII)


class QuantityError(ValueError):
    """A text that is no quantity of this sort; a ValueError so that pydantic collects it with the others."""


def parse_duration(value: object) -> int:
    """Nanoseconds of "5 ms", "1.5 s", "2 min" or a bare number of nanoseconds."""
    return _whole(value, DURATION_UNITS, "a duration", "5 ms", "nanoseconds", DURATION_NS_MAX)


def parse_cost(value: object) -> float:
    """Nanoseconds, possibly a fraction of one: "0.5 ns", "1.2 us", or a bare number of nanoseconds."""
    return float(_not_negative(_read(value, DURATION_UNITS, "a duration", "0.5 us"), value, "a duration"))


def parse_rate(value: object) -> float:
    """Events per second of "100/s", "6/min", "2 kHz" or a bare number."""
    if isinstance(value, str):
        value = re.sub(r"\s*/\s*", "/", value)
    return float(_not_negative(_read(value, RATE_UNITS, "a rate", "100/s"), value, "a rate"))


def parse_size(value: object) -> int:
    """Bytes of "2 KiB", "1 MB" or a bare number."""
    return _whole(value, SIZE_UNITS, "a size", "2 KiB", "bytes", AMOUNT_MAX)


def parse_bandwidth(value: object) -> int:
    """Bits per second of "1 Gbit/s", "10 MB/s" or a bare number; "unlimited" is 0."""
    if value == "unlimited":
        return 0
    return _whole(value, BANDWIDTH_UNITS, "a bandwidth", "1 Gbit/s", "bits per second", AMOUNT_MAX)


def parse_fraction(value: object) -> float:
    """A number from 0 to 1, also as "5 %"."""
    ratio = _read(value, FRACTION_UNITS, "a fraction", "0.05")
    if not 0 <= ratio <= 1:
        raise QuantityError(f"a fraction lies between 0 and 1 (got {_short(value)})")
    return float(ratio)


def format_duration(duration_ns: int) -> str:
    """The shortest exact text in the largest of ns, us, ms, s that is not above the value."""
    return _format(duration_ns, (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1)))


def format_rate(rate: float) -> str:
    """Events per second, exact: "100/s"."""
    return f"{_plain(rate)}/s"


def format_size(size_bytes: int) -> str:
    """Exact: a whole number of a binary unit if there is one, else decimal: "2 KiB", "1.5 MB", "17 B"."""
    for unit, factor in reversed(_BINARY_PREFIXES.items()):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor} {unit}B"
    return _format(size_bytes, _decimal_units("B"))


def format_bandwidth(bandwidth_bps: int) -> str:
    """Exact: "1 Gbit/s"; 0 is "unlimited"."""
    return _format(bandwidth_bps, _decimal_units("bit/s")) if bandwidth_bps else "unlimited"


def _decimal_units(base: str) -> tuple[tuple[str, int], ...]:
    prefixed = [(f"{prefix}{base}", factor) for prefix, factor in _DECIMAL_PREFIXES.items()]
    return (*reversed(prefixed), (base, 1))


def _format(amount: int, units: tuple[tuple[str, int], ...]) -> str:
    for unit, factor in units:
        if abs(amount) >= factor or factor == 1:
            shifted = Decimal(int(amount)).scaleb(1 - len(str(factor)))  # the factors are powers of ten
            return f"{_plain_decimal(shifted)} {unit}"
    raise AssertionError("the last unit has factor 1")


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) and abs(number) < 1e15 else repr(float(number))


def _plain_decimal(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _read(value: object, units: Mapping[str, Ratio], what: str, example: str) -> Ratio:
    """The value in the base unit, exactly."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise QuantityError(f"expected {what} such as {example!r} (got {_short(value)})")
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise QuantityError(f"expected {what} such as {example!r} (got {value!r})")
        # repr, since a person who writes 0.1 means a tenth and not the float beside it.
        return Ratio(repr(value))
    if isinstance(value, int):
        return Ratio(value)
    match = _QUANTITY.fullmatch(value)
    if match is None:
        raise QuantityError(f"expected {what} such as {example!r} (got {_short(value)})")
    number, unit = match.groups()
    if unit is None:
        return Ratio(number)
    if unit not in units:
        close = get_close_matches(unit, units, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]!r}? " if close else ""
        known = f"known units: {', '.join(units)}"
        raise QuantityError(f"unknown unit {_short(unit)}; {hint}{known} (got {_short(value)})")
    return Ratio(number) * units[unit]


def _not_negative(ratio: Ratio, value: object, what: str) -> Ratio:
    if ratio < 0:
        raise QuantityError(f"{what} cannot be negative (got {_short(value)})")
    if ratio > AMOUNT_MAX:
        raise QuantityError(f"{what} this large is beyond 2^62 of its base unit (got {_short(value)})")
    return ratio


def _whole(
    value: object, units: Mapping[str, Ratio], what: str, example: str, base: str, largest: int
) -> int:
    if type(value) is int and 0 <= value <= largest:  # what programs write, thousands of times
        return value
    ratio = _not_negative(_read(value, units, what, example), value, what)
    if ratio.denominator != 1:
        raise QuantityError(f"{what} must be a whole number of {base} (got {_short(value)})")
    if ratio > largest:
        raise QuantityError(f"{what} is at most {largest} {base} (got {_short(value)})")
    return int(ratio)


def _short(value: object) -> str:
    if isinstance(value, int) and abs(value) > 10**60:  # Python refuses to print what has 4,300 digits
        return "a number of more than 60 digits"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _quantity(parse: Callable[[object], Any], prose: str, example: str) -> tuple[Any, Any]:
    schema = {"type": ["string", "number"], "description": prose, "examples": [example]}
    return BeforeValidator(parse), WithJsonSchema(schema)


_DURATION = _quantity(parse_duration, f"duration; units {', '.join(DURATION_UNITS)}; bare: ns", "5 ms")
_COST = _quantity(parse_cost, f"service time; units {', '.join(DURATION_UNITS)}; bare: ns", "0.5 us")
_RATE = _quantity(parse_rate, f"events per time; units {', '.join(RATE_UNITS)}; bare: per second", "100/s")
_SIZE = _quantity(parse_size, f"size; units {', '.join(SIZE_UNITS)}; bare: bytes", "2 KiB")
_BANDWIDTH = _quantity(
    parse_bandwidth, f"bandwidth; units {', '.join(BANDWIDTH_UNITS)}; bare: bit/s; unlimited", "1 Gbit/s"
)
_FRACTION = _quantity(parse_fraction, "a number from 0 to 1, or a percentage", "0.05")

# Written out one by one (no helper returning Annotated), so that type checkers see int and float.
Duration = Annotated[int, _DURATION[0], _DURATION[1]]
PositiveDuration = Annotated[int, _DURATION[0], Field(ge=1), _DURATION[1]]
Cost = Annotated[float, _COST[0], _COST[1]]
Rate = Annotated[float, _RATE[0], _RATE[1]]
PositiveRate = Annotated[float, _RATE[0], Field(gt=0), _RATE[1]]
Size = Annotated[int, _SIZE[0], _SIZE[1]]
Bandwidth = Annotated[int, _BANDWIDTH[0], _BANDWIDTH[1]]
Fraction = Annotated[float, _FRACTION[0], _FRACTION[1]]
