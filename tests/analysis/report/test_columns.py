"""Columns come out of a page as they went in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.report.columns import Columns, unpacked

NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1)


@given(st.lists(st.one_of(st.lists(NUMBERS, max_size=40), st.lists(st.integers(0, 300), max_size=200)), max_size=6))
def test_what_is_packed_is_unpacked(columns):
    packed = Columns()
    for number, values in enumerate(columns):
        packed.add(f"c{number}", np.array(values, np.int64))
    found = unpacked(packed.directory, packed.packed())
    assert [found[f"c{number}"].tolist() for number in range(len(columns))] == columns


def test_times_in_order_are_kept_as_differences_and_small_numbers_are_not():
    packed = Columns()
    packed.add("times", np.cumsum(np.random.default_rng(1).integers(0, 200, 10_000)))
    packed.add("types", np.random.default_rng(2).integers(0, 3, 10_000))
    assert [each["running"] for each in packed.directory] == [True, False]
    assert [each["planes"] for each in packed.directory] == [2, 1]
    assert len(packed.packed()) < 10_000 * 2


def test_a_number_that_a_page_cannot_hold_is_refused():
    with pytest.raises(ValueError, match="not exact"):
        Columns().add("ids", np.array([2**53]))
