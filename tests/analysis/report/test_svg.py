"""Charts as SVG: well formed, escaped, with round ticks."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.report.svg import WIDTH, Axis, Interval, Line, Shade, grid, intervals, lines, stacked, ticks

HOSTILE = "</svg><script>alert(1)</script>\"'&"
SVG = "{http://www.w3.org/2000/svg}"


def classes(svg, tag):
    return [each.get("class") for each in ElementTree.fromstring(svg).iter(f"{SVG}{tag}")]


def test_lines_are_one_path_a_series_and_hostile_names_are_text():
    svg = lines(HOSTILE, Axis("x"), Axis("y"), [Line(HOSTILE, [(0, 1), (1, 2)]), Line("b", [(0, 2), (1, 3)])],
                [Shade(0.2, 0.4, HOSTILE)])  # fmt: skip
    root = ElementTree.fromstring(svg)
    assert [each for each in classes(svg, "path") if each.startswith("series")][:2] == ["series s0", "series s1"]
    assert classes(svg, "rect") == ["shade"]
    assert root.find(f".//{SVG}script") is None
    assert HOSTILE in root.get("aria-label")


def test_a_grid_has_a_cell_for_each_value_and_hostile_names_are_text():
    cells = {(0, 0, 0): ("1", 0.0), (0, 1, 0): ("2", 0.5), (1, 1, 1): (HOSTILE, 1.0)}
    svg = grid(HOSTILE, (HOSTILE, ["a", HOSTILE]), ("across", [HOSTILE, "b"]), [HOSTILE, "c = 2"], cells)
    assert classes(svg, "rect") == ["q0", "q4", "q7"]
    assert ElementTree.fromstring(svg).find(f".//{SVG}script") is None
    heights = [float(each.get("y")) for each in ElementTree.fromstring(svg).iter(f"{SVG}rect")]
    assert heights == sorted(set(heights))  # the panels lie one below the other


def test_a_point_is_drawn_where_it_is():
    svg = lines("t", Axis("x", most=10.0), Axis("y", most=4.0), [Line("a", [(0, 0), (10, 4), (5, 2)])])
    (path,) = (
        each.get("d")
        for each in ElementTree.fromstring(svg).iter(f"{SVG}path")
        if "series" in (each.get("class") or "")
    )
    first, last, middle = ([float(at) for at in point.split()] for point in path[1:].split("L"))
    assert middle[0] == pytest.approx((first[0] + last[0]) / 2, abs=0.1)
    assert middle[1] == pytest.approx((first[1] + last[1]) / 2, abs=0.1)
    assert last[1] < first[1]


def test_what_a_logarithm_cannot_show_is_left_out():
    svg = lines(
        "t", Axis("x", log=True), Axis("y", log=True), [Line("a", [(0, 1), (1, 0), (10, 0.1), (100, 0.01)])]
    )
    (path,) = (
        each.get("d")
        for each in ElementTree.fromstring(svg).iter(f"{SVG}path")
        if "series" in (each.get("class") or "")
    )
    assert path.count("L") + path.count("M") == 2


def test_bars_stand_on_one_another():
    svg = stacked(
        "t", Axis("s"), Axis("n"), [0.0, 1.0], 1.0, [Line("a", [(0, 2), (1, 0)]), Line("b", [(0, 1), (1, 3)])]
    )
    ElementTree.fromstring(svg)
    assert "f0" in classes(svg, "path") and "f1" in classes(svg, "path")


def test_an_interval_says_its_figures():
    svg = intervals("t", "ms", [Interval("a", 3.0, 1.0), Interval("b", 5.0, None)], first=1)
    titles = [each.text for each in ElementTree.fromstring(svg).iter(f"{SVG}title")]
    assert titles == ["a: 3 ± 1", "b: 5"]


@given(st.floats(-1e3, 1e3), st.floats(1e-6, 1e9))
def test_ticks_are_few_and_within(shift, wide):
    low = shift * wide
    found = ticks(Axis("x"), low, low + wide)
    assert 2 <= len(found) <= 11
    assert all(low - wide * 1e-3 <= each <= low + wide * 1.001 for each in found)


@given(st.floats(1e-9, 1e9), st.floats(10, 1e12))
def test_ticks_of_a_logarithmic_axis_are_few_and_within(low, times):
    found = ticks(Axis("x", log=True), low, low * times)
    assert 2 <= len(found) <= 13
    assert all(low * 0.999 <= each <= low * times * 1.001 for each in found)


def test_the_last_number_below_a_chart_does_not_stick_out():
    svg = lines("t", Axis("x", log=True), Axis("y"), [Line("a", [(1, 1), (100_000, 2)])])
    (last,) = (each for each in ElementTree.fromstring(svg).iter(f"{SVG}text") if each.text == "100,000")
    assert float(last.get("x")) + len("100,000") * 6.6 / 2 <= WIDTH + 0.1


def test_no_series_is_an_empty_chart():
    """Its title and what it is about, and nothing in it that would be a value."""
    for svg, frame, labels in (
        (lines("t", Axis("x"), Axis("y"), []), {"grid", "axis"}, {"t", "x", "y"}),
        (stacked("t", Axis("x"), Axis("y"), [0.0], 1.0, []), {"grid", "axis"}, {"t", "x", "y"}),
        (intervals("t", "x", []), {"grid"}, {"t", "x"}),
    ):
        assert set(classes(svg, "path")) == frame
        assert classes(svg, "circle") == classes(svg, "rect") == []
        assert labels <= {each.text for each in ElementTree.fromstring(svg).iter(f"{SVG}text")}
