"""Cells as numbers: whole columns and single cells are read alike, so that one odd cell changes no other."""

from __future__ import annotations

import numpy as np
import pyarrow as arrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenarios.workloads.replaying.cells import as_numbers, as_wholes, list_parts

WHOLE = ["0", "7", "-3", "12.0", " 4 ", "1e3", "+5", "9007199254740993", "", "nan", "<NA>"]
REAL = [*WHOLE, "0.25", "-1e-9", "inf", "True", "false", "None"]
ODD = ["x", "0x1F", "1/2", "1.5.1", "[1]", "é"]


def read(cells, how):
    """(values, places that are none)."""
    wrong = []
    column = arrow.array([cell or None for cell in cells], arrow.string())
    return how(column, lambda place, cell: wrong.append(place)), wrong


def wholes(column, tell):
    return as_wholes(column, tell, -1)


@pytest.mark.parametrize(("how", "sound"), [(as_numbers, REAL), (wholes, WHOLE)])
@given(data=st.data())
def test_an_odd_cell_is_told_and_changes_no_other(how, sound, data):
    cells = data.draw(st.lists(st.sampled_from(sound), max_size=12))
    odd = data.draw(st.sampled_from(ODD))
    alone = [read([cell], how) for cell in cells]
    assert not any(wrong for _, wrong in alone)
    values, wrong = read(cells, how)
    among, told = read([*cells, odd], how)
    assert not wrong and told == [len(cells)]
    expected = np.array([value[0] for value, _ in alone], values.dtype)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(among[:-1], expected)


@given(st.lists(st.lists(st.integers(-9, 99), max_size=4), max_size=6))
def test_lists_are_read_from_lists_and_from_text(rows):
    as_text = arrow.array([" ".join(map(str, row)) for row in rows], arrow.string())
    for column in (arrow.array(rows, arrow.list_(arrow.int64())), as_text):
        parts, cells, places = list_parts(column)
        found = [[] for _ in rows]
        for value, cell, place in zip(as_numbers(parts, pytest.fail), cells.tolist(), places.tolist()):
            assert place == len(found[cell])
            found[cell].append(value)
        assert found == rows
