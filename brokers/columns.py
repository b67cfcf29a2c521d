"""What arrays out of a file have to look like before a kernel sees them: kernels do not check bounds.

    CHANGES = {"id": Column("i8", ("n",), low=0), "rows": Column("f8", ("n", None))}
    check_columns(state, CHANGES, {"n": 3})

A length is a number, a name, or None for any. A name means the same length wherever it stands; it is what `sizes`
says, or else what it is first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from brokers.errors import EnvironmentProblem, RunIncomplete


class BadState(RunIncomplete):
    """State in a checkpoint that this program did not write."""


@dataclass(frozen=True)
class Column:
    """An array: its type, its lengths, and between what its elements lie, both included."""

    dtype: str
    shape: tuple[int | str | None, ...]
    low: int | None = None
    high: int | str | None = None  # or the name of a size, for numbers below it


def check_columns(
    state: Any,
    columns: Mapping[str, Column],
    sizes: Mapping[str, int] | None = None,
    others: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """The state, if it is a dict of just these columns (and `others`, which are not looked at); else BadState."""
    if type(state) is not dict:
        raise BadState(f"a {type(state).__name__} stands where columns are expected")
    wanted = columns.keys() | others
    if state.keys() != wanted:
        lacking, more = sorted(wanted - state.keys()), sorted(map(str, state.keys() - wanted))
        what = f"lacks {lacking[0]!r}" if lacking else f"has {more[0]!r:.60}, which nobody knows"
        raise BadState(f"it {what}")
    known = dict(sizes or {})
    for name, column in columns.items():
        check_column(name, state[name], column, known)
    return state


def check_column(name: str, array: Any, column: Column, sizes: dict[str, int]) -> None:
    """One column; lengths that get a name here are entered into `sizes`."""
    if type(array) is not np.ndarray or array.dtype != np.dtype(column.dtype):
        found = f"{array.dtype} values" if type(array) is np.ndarray else f"a {type(array).__name__}"
        raise BadState(f"{name!r} is {found}; it is an array of {np.dtype(column.dtype).name}")
    if array.ndim != len(column.shape):
        raise BadState(f"{name!r} has {array.ndim} dimensions, not {len(column.shape)}")
    for length, wanted in zip(array.shape, column.shape):
        expected = sizes.setdefault(wanted, length) if isinstance(wanted, str) else wanted
        if expected is not None and length != expected:
            raise BadState(f"{name!r} has shape {list(array.shape)}; {expected} are expected where it has {length}")
    if array.size == 0:
        return
    least, largest = array.min(), array.max()
    high = sizes[column.high] - 1 if isinstance(column.high, str) else column.high
    if (column.low is not None and not least >= column.low) or (high is not None and not largest <= high):
        wrong = least if column.low is not None and not least >= column.low else largest
        bounds = f"{column.low} to {high}" if high is not None else f"at least {column.low}"
        raise BadState(f"{name!r} holds {wrong}; its numbers are {bounds}")


@contextmanager
def taken_over(what: str) -> Iterator[None]:
    """Say of what goes wrong within that it came of the state of `what`, which nobody has to have written."""
    try:
        yield
    except EnvironmentProblem:
        raise
    except BadState as error:
        raise BadState(f"{what}: {error}") from None
    except Exception as error:
        raise BadState(f"{what}: cannot be taken over: {type(error).__name__}: {str(error)[:300]}") from error


__all__ = ["BadState", "Column", "check_column", "check_columns", "taken_over"]
