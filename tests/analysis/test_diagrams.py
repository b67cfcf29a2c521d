"""Message diagrams show what a run did, as text and as SVG: arrows end at their columns, no label lies on another."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import pytest

from analysis.ways import plain, vector
from analysis.ways.deciding import decided, told_of
from analysis.ways.pair import Pair
from analysis.ways.rows import ARROW, CLIENT, LOSS, Line, Picture, of_change, of_pair, of_way, of_window
from scenarios.hunt.drawing import Prey, draw
from scenarios.hunt.running import run
from tests.analysis.test_ways import MS, Withholds, case, pair_of, told_by

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = '<b>"&\x1b[31m\n\u202e]]>' + "x" * 90


@pytest.fixture(scope="module")
def withheld():
    return pair_of(case(Withholds, [(10, 0, "+", 0), (50, 1, "!")]), "1#0", 0)


@pytest.fixture(scope="module")
def failing():
    fault = {"fault": "crash", "brokers": [1], "at": 40 * MS, "lasts": 20 * MS, "state": "kept"}
    cut = {"fault": "cut", "link": [0, 1], "at": 45 * MS, "lasts": 20 * MS}
    return pair_of(case("subscription", [(10, 0, "+", 0), (50, 1, "!")], faults=(fault, cut)), "1#0", 0)


@pytest.fixture(scope="module")
def busy():
    told = told_by(run(draw(Prey.of("flooding", faults=False), 2, 3)))
    return of_window(told, 0, 1 << 60)


def test_a_text_diagram_is_this(withheld):
    assert plain.drawn(of_pair(withheld, decided(withheld))).splitlines() == [
        "          b0      b1      b2",
        "         (0)             (1)     (clients)",
        "10 ms      o       |       |   client 0: subscribe 0#0",
        "11 ms      |------>|       |   subscribe 0#0",
        "12 ms      |       |------>|   subscribe 0#0",
        "50 ms      |       |       o   client 1: publish 1#0",
        "51 ms      |       |<------|   publish 1#0",
    ]


def test_what_happens_at_one_instant_stands_in_the_order_in_which_it_was_handled():
    pair = pair_of(case(Withholds, [(10, 0, "+", 0), (10, 0, "+", 1), (50, 0, "-", 0), (50, 0, "!")]), "0#3", 0)
    sent = [line.text for line in of_window(pair.told, 50 * MS, 50 * MS).lines if line.sort == CLIENT]
    assert sent == ["client 0: unsubscribe 0#2", "client 0: publish 0#3"]


def test_what_is_down_and_what_is_lost_is_drawn(failing):
    drawn = plain.drawn(of_pair(failing, decided(failing))).splitlines()
    assert any(re.search(r"\|       #  X----\|   publish 1#0 lost \(crash\)", line) for line in drawn)
    assert any(line.endswith("down, from 40 ms to 60 ms") for line in drawn)
    assert any(line.endswith("link to b1 cut, from 45 ms to 65 ms") for line in drawn)
    root = ET.fromstring(vector.drawn(of_pair(failing, decided(failing))))
    shades = [each for each in root.iter(f"{SVG}rect") if each.get("class") == "shade"]
    assert len(shades) == 3 and all(float(each.get("height")) > 0 for each in shades)


def test_every_row_of_text_has_its_marks_at_columns(busy):
    shown = busy.within(plain.LINES_MOST, plain.COLUMNS_MOST)
    drawn = plain.drawn(busy).splitlines()
    head = drawn[0]
    columns = [match.start() for match in re.finditer(r"b\d", head)]
    rows = drawn[2 : 2 + len(shown.lines)]
    assert len(rows) == len(shown.lines) and len(columns) == len(shown.columns)
    for line, row in zip(shown.lines, rows):
        end = columns[shown.columns.index(line.broker)] + 1
        if line.sort == ARROW:
            start = columns[shown.columns.index(line.source)] + 1
            assert row[start] == "|" and row[end + (-1 if end > start else 1)] == (">" if end > start else "<")
        else:
            assert row[end] in "otv!"


def test_arrows_end_at_their_columns_and_go_down(busy, failing):
    for picture in (busy, of_pair(failing, decided(failing))):
        layout = vector.Layout(picture)
        for number, line in enumerate(layout.picture.lines):
            if line.sort not in (ARROW, LOSS):
                continue
            (x1, y1), (x2, y2) = layout.start(number), layout.end(number)
            assert x1 == layout.x[line.source] and y1 < y2
            assert abs(x2 - layout.x[line.broker]) <= (0 if line.sort == ARROW else layout.column / 4)


def test_labels_lie_inside_and_none_lies_on_another(busy, failing):
    for picture in (busy, of_pair(failing, decided(failing)), replace(busy, names=dict.fromkeys(busy.names, HOSTILE))):
        layout = vector.Layout(picture)
        boxes = sorted((label.box for label in layout.labels()), key=lambda box: box[1])
        assert all(x1 >= 0 and x2 <= layout.width and y2 <= layout.height for x1, _, x2, y2 in boxes)
        for at, (a1, _, a2, bottom) in enumerate(boxes):
            for b1, top, b2, _ in boxes[at + 1 :]:
                assert bottom <= top or a2 <= b1 or b2 <= a1


def test_rows_of_a_picture_are_evenly_spaced_and_in_order(busy):
    layout = vector.Layout(busy)
    assert {b - a for a, b in pairwise(layout.y)} == {vector.ROW}
    times = [line.at_ns for line in layout.picture.lines]
    assert times == sorted(times)


def test_hostile_names_are_escaped_and_move_no_cursor(withheld):
    picture = of_pair(withheld, decided(withheld))
    lines = [line._replace(text=HOSTILE) for line in picture.lines]
    hostile = replace(picture, title=HOSTILE, names=dict.fromkeys(picture.names, HOSTILE), lines=lines)
    drawn = vector.drawn(hostile)
    root = ET.fromstring(drawn)  # it is well formed
    assert "<b>" not in drawn and "\x1b" not in drawn and "\u202e" not in drawn
    assert not [each for each in root.iter() if each.tag == f"{SVG}b"]
    shown = plain.drawn(hostile)
    assert all(each.isprintable() for each in shown.splitlines()) and "\x1b" not in shown


def test_a_picture_says_what_it_is_and_adapts_to_dark(withheld):
    drawn = vector.drawn(of_way(withheld.way))
    root = ET.fromstring(drawn)
    title, desc = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert root.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}" and root.get("role") == "img"
    assert title.text == "Message diagram: 1#0" and "50 ms, b2: client 1: publish 1#0." in desc.text
    assert "prefers-color-scheme:dark" in drawn and "http" not in drawn.replace("http://www.w3.org/2000/svg", "")
    assert vector.drawn(of_way(withheld.way)) == drawn


def test_what_is_left_out_is_said():
    lines = [Line(at, 1, ARROW, 1 + at % 30, "x", 0, at - 1) for at in range(1, 400)]
    names = {each: f"b{each}" for each in range(31)}
    picture = Picture("much", sorted(names), names, {}, lines, [])
    shown = picture.within(60, 12)
    assert len(shown.lines) == 60 and len(shown.columns) == 12
    assert shown.notes == ["339 events are left out", "19 brokers are left out"]
    assert plain.drawn(picture).splitlines()[1 + 30].strip() == "..." and shown.gap == 30
    assert plain.drawn(picture).splitlines()[-2:] == ["339 events are left out.", "19 brokers are left out."]
    assert "events are left out" in vector.drawn(picture)


def test_in_a_large_network_the_way_to_the_client_is_told_and_drawn_and_no_other():
    star = tuple((0, each) for each in range(1, 90))
    pair = pair_of(case("flooding", [(10, 0, "+", 0), (50, 1, "!")], clients=(3, 2), edges=star), "1#0", 0)
    drawn = of_pair(pair, decided(pair))
    assert drawn.columns == [0, 2, 3]
    assert plain.drawn(drawn).splitlines()[-1] == "87 events at brokers off the way are left out."
    assert {each["broker"] for each in told_of(pair)["steps"]} == {"b0", "b2", "b3"}


def test_a_change_has_a_diagram_of_its_own(withheld):
    drawn = plain.drawn(of_change(withheld.told, withheld.standing[0]))
    assert drawn.splitlines()[-1] == "12 ms      |       |------>|   subscribe 0#0"


def test_a_stretch_of_time_shows_what_was_handled_in_it_and_no_more(withheld):
    drawn = of_window(withheld.told, 11 * MS, 12 * MS)
    assert [line.at_ns // MS for line in drawn.lines] == [11, 12]
    assert of_window(withheld.told, 13 * MS, 14 * MS).lines == []
    assert plain.drawn(of_window(withheld.told, 13 * MS, 14 * MS)) is not None


def test_pairs_of_every_kind_are_told_and_drawn():
    for name in ("covering", "topk-gather", "spatial", "context-escalated"):
        outcome = run(draw(Prey.of(name), 4, 1))
        told = told_by(outcome)
        for row in told.rows("publications")[:4]:
            for client in range(len(outcome.case.clients)):
                pair = Pair(told, row, client + told.nodes)
                decision = decided(pair)
                assert decision.verdict and plain.drawn(of_pair(pair, decision))
