"""Times of a file, as whole nanoseconds of the simulation.

A column `time_ns` or `time_s` is taken as it is. A column `time` may hold dates (ISO 8601 text, Arrow timestamps;
without a zone they are UTC) or numbers in a `unit`, Unix time among them; its first event is at 0 unless `start` says
which instant is. With `speed` n, n seconds of the file pass in one.

Everything is counted in whole numbers, so order and gaps are kept to the nanosecond: floats carry no more than
their digits, and a division rounds down.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import numpy as np

from brokers.contract import NEVER, Floats, Ints
from brokers.errors import InvalidInput
from scenarios.workloads.replaying.cells import as_wholes, plain, whole_column, within

UNITS: dict[str, int] = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
    "d": 86400 * 10**9,
    "day": 86400 * 10**9,
}
COLUMNS = ("time", "time_ns", "time_s")
FIRST = "first"
_DIGITS = 9  # of the decimals that are read exactly, column by column
_PLACES = {10**digits: digits for digits in (0, 3, 6, 9)}  # of a nanosecond in units that are powers of ten
_RATIO_MAX = 1 << 31
_RATIO = re.compile(r"\d{1,12}(\.\d{0,12})?([eE][+-]?\d)?|\d{1,12}/\d{1,12}", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FAR = 1 << 63


class Times:
    """How the times of one file become times of the simulation."""

    def __init__(
        self, column: str, unit: str | None, start: str | int | float | None, speed: Fraction
    ) -> None:
        self.column = column
        self.unit = {"time_ns": "ns", "time_s": "s"}.get(column, unit)
        self.speed = speed
        self._start = start if start is not None else FIRST if column == "time" else 0
        self.origin: int | None = None if self._start == FIRST else self._instant(self._start)

    def _instant(self, start: str | int | float) -> int:
        """The instant that `start` names, in nanoseconds of the file."""
        if isinstance(start, str):
            try:
                return _date_ns(start)
            except ValueError:  # then it is a number
                if _number(start) is None:
                    message = (
                        f"`start` is a date such as 2024-05-01 12:00:00, a number, or {FIRST} (got {start!r})"
                    )
                    raise InvalidInput(message) from None
        if self.unit is None:
            raise InvalidInput(f"`start` is a number, so say its `unit`, or give a date (got {start!r})")
        found = _exact_ns(start, UNITS[self.unit])
        if found is None:
            raise InvalidInput(f"`start` is beyond what can be simulated (got {start!r})")
        return found

    def read(self, column: Any, tell: Callable[[int, Any, str], None]) -> Ints:
        """Nanoseconds of the file; `tell` gets the place, the cell and what it must be."""
        import pyarrow as arrow

        column = plain(column)
        types = arrow.types
        if self.column == "time_ns":
            return as_wholes(column, lambda place, cell: tell(place, cell, "must be a whole number"))
        if types.is_temporal(column.type):
            return _temporal(column, tell)
        if self.unit is not None:
            return _counted(column, UNITS[self.unit], tell)
        return _dates(column, tell)

    def simulated(self, times: Ints) -> Ints:
        """Nanoseconds of the simulation. The first times that are read are those of the first events."""
        if self.origin is None:
            self.origin = int(times[0]) if times.size else None
        origin = self.origin or 0
        near = within(times.astype(np.float64) - origin, NEVER)
        since = np.where(near, times - origin, np.where(times > origin, NEVER, -NEVER))
        if self.speed == 1:
            return since
        through, by = self.speed.numerator, self.speed.denominator
        whole, rest = np.divmod(since, through)
        far = np.abs(whole) > NEVER // by
        return np.where(far, np.sign(whole) * NEVER, np.where(far, 0, whole) * by + rest * by // through)


def ratio(value: str | int | float) -> Fraction:
    """A speed: 3600, 0.5, "1/60"."""
    found = Fraction(0)
    if _RATIO.fullmatch(str(value)) and not isinstance(value, bool):
        with suppress(ZeroDivisionError):
            found = Fraction(str(value))
    if found <= 0 or max(found.numerator, found.denominator) > _RATIO_MAX:
        raise ValueError(
            f"must be a number above 0, or a ratio such as 1/60, of numbers up to {_RATIO_MAX:,}"
        )
    return found


def _temporal(column: Any, tell: Callable[[int, Any, str], None]) -> Ints:
    import pyarrow as arrow
    import pyarrow.compute as compute

    types = arrow.types
    try:
        if types.is_duration(column.type):
            column = compute.cast(column, arrow.duration("ns"))
        else:
            column = compute.cast(column, arrow.timestamp("ns", getattr(column.type, "tz", None)))
        found = compute.cast(column, arrow.int64())
    except arrow.ArrowException:
        raise InvalidInput(
            f"times of the type {column.type} cannot be read, or lie beyond 1677 to 2262; write dates, or numbers"
        ) from None
    for place in np.flatnonzero(np.asarray(compute.is_null(found)))[:20].tolist():
        tell(place, None, "must be a date")
    return np.asarray(found.fill_null(0).to_numpy(zero_copy_only=False), np.int64)


def _counted(column: Any, factor: int, tell: Callable[[int, Any, str], None]) -> Ints:
    """Numbers of some unit."""
    import pyarrow as arrow

    types = arrow.types
    if column.null_count == 0 and not types.is_boolean(column.type):
        if types.is_floating(column.type):
            found = _float_ns(np.asarray(column.to_numpy(zero_copy_only=False), np.float64), factor)
            if found is not None:
                return found
        else:
            try:
                whole = np.asarray(whole_column(column).to_numpy(zero_copy_only=False), np.int64)
                if within(whole, NEVER // factor).all():
                    return whole * factor
            except arrow.ArrowException:
                found = _decimal_ns(column, factor)
                if found is not None:
                    return found
    out = np.zeros(len(column), np.int64)
    for place, cell in enumerate(column.to_pylist()):
        exact = _exact_ns(cell, factor)
        if exact is None:
            tell(
                place,
                cell,
                "must be a number" if _number(cell) is None else "is beyond what can be simulated",
            )
        else:
            out[place] = exact
    return out


def _decimal_ns(column: Any, factor: int) -> Ints | None:
    """The nearest nanosecond of decimals; None where one is none, or has very many digits."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    try:
        decimals = compute.cast(column, arrow.decimal128(38, _DIGITS))
    except arrow.ArrowException:
        if factor not in _PLACES:
            return None
        try:  # a float that is written in full has some twenty digits
            whole = compute.cast(column, arrow.decimal256(76, 38))
            near = compute.round(whole, ndigits=_PLACES[factor], round_mode="half_to_even")
            decimals = compute.cast(near, arrow.decimal128(38, _DIGITS))
        except arrow.ArrowException:
            return None
    words = np.frombuffer(decimals.buffers()[1], np.int64).reshape(-1, 2)
    low, high = words[decimals.offset : decimals.offset + len(decimals)].T  # 128 bits, the low half first
    if (high != low >> 63).any() or not within(low, NEVER).all():
        return None
    one = 10**_DIGITS
    if factor >= one:
        return low * (factor // one) if within(low, NEVER // (factor // one)).all() else None
    whole, rest = np.divmod(low, one // factor)
    return None if rest.any() else whole


def _float_ns(numbers: Floats, factor: int) -> Ints | None:
    """The nearest nanosecond of each; None where one is no number, or too large."""
    if not within(numbers, NEVER / factor).all():
        return None
    whole = np.floor(numbers)
    return whole.astype(np.int64) * factor + np.rint((numbers - whole) * factor).astype(np.int64)


def _number(cell: Any) -> Decimal | None:
    try:
        number = Decimal(
            cell.strip() if isinstance(cell, str) else repr(cell) if isinstance(cell, float) else cell
        )
    except (InvalidOperation, ValueError, TypeError):
        return None
    return number if number.is_finite() and not isinstance(cell, bool) else None


def _exact_ns(cell: Any, factor: int) -> int | None:
    number = _number(cell)
    if number is None or (number and not -40 < number.adjusted() < 20):
        return None if number is None or number.adjusted() >= 20 else 0
    found = round(Fraction(number) * factor)
    return found if abs(found) < NEVER else None


def _dates(column: Any, tell: Callable[[int, Any, str], None]) -> Ints:
    """ISO 8601; what names no zone is UTC."""
    import pyarrow as arrow
    import pyarrow.compute as compute

    if not arrow.types.is_string(column.type):
        raise InvalidInput(f"the column time holds numbers; say their `unit`, one of {', '.join(UNITS)}")
    if column.null_count == 0:
        for target in (arrow.timestamp("ns"), arrow.timestamp("ns", "UTC")):
            try:
                return np.asarray(
                    compute.cast(compute.cast(column, target), arrow.int64()).to_numpy(), np.int64
                )
            except arrow.ArrowException:
                continue
    out = np.zeros(len(column), np.int64)
    for place, cell in enumerate(column.to_pylist()):
        try:
            out[place] = _date_ns(cell or "")
        except ValueError:
            hint = " (for numbers say their `unit`)" if _number(cell) is not None else ""
            tell(place, cell, f"must be a date such as 2024-05-01 12:00:00{hint}")
    return out


def _date_ns(text: str) -> int:
    """Nanoseconds since 1970 of an ISO date, or ValueError."""
    text = text.strip()
    head, dot, tail = text.partition(".")
    digits = tail[: len(tail) - len(tail.lstrip("0123456789"))]
    if len(digits) > 9:
        raise ValueError("more digits than nanoseconds have")
    when = datetime.fromisoformat(head + (tail[len(digits) :] if dot else ""))
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    found = (when - _EPOCH) // timedelta(microseconds=1) * 1000 + int(digits.ljust(9, "0") if digits else 0)
    if not -_FAR < found < _FAR:
        raise ValueError("beyond 64 bits of nanoseconds")
    return found
