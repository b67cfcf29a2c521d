"""What all reverse top-k indexes share: the definition, geometry, keywords, windows, summaries, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.errors import InvalidInput
from brokers.indexes.contract import DuplicateId, UnknownId
from brokers.indexes.spatial.bpart import BPart
from brokers.indexes.spatial.brute import Brute
from brokers.indexes.spatial.contract import BadQuery
from brokers.indexes.spatial.geometry import (
    EARTH_RADIUS_M,
    PLANE,
    SPHERE,
    BadPlace,
    squared_distances,
    squared_gaps,
)
from brokers.indexes.spatial.materialised import Materialised
from brokers.indexes.spatial.part import Part
from brokers.indexes.spatial.summary import coarser, joined, summaries
from brokers.indexes.spatial.window import LastObjects, LastTime
from brokers.indexes.spatial.words import BadKeywords, KeywordSets, Vocabulary

from .spatial_cases import K_LARGEST, REVERSE, Oracle, index_class, naive_counts, random_world, split


@pytest.fixture(params=REVERSE)
def new(request):
    return index_class(request.param)


# ---- the definition ----------------------------------------------------------------------------------


def test_brute_is_the_definition_word_by_word():
    for seed in range(150):
        world = random_world(seed)
        oracle = Oracle(world)
        k = world.asked[3]
        for i in range(len(k)):
            counts = naive_counts(world, i)
            assert oracle.must[i] == [s for s in sorted(counts) if counts[s][0] < k[i]]
            assert oracle.may[i] == [s for s in sorted(counts) if counts[s][1] < k[i]]


def test_the_worlds_hold_what_makes_them_hard():
    moved = ties = held = gone = 0
    for seed in range(200):
        world = random_world(seed)
        gone += len(world.steps) > 2 and any("expire" in method for method, _ in world.steps)
        places = [tuple(place) for place, _ in world.objects.values()]
        ties += len(set(places)) < len(places)
        for id_, place in zip(world.asked[0], world.asked[1]):
            held += id_ in world.objects
            moved += id_ in world.objects and list(place) != world.objects[id_][0]
    assert min(moved, ties, held, gone) > 50


def test_a_tie_counts_for_the_query_and_a_word_is_enough(new):
    index = new()
    index.insert_objects([1, 2], [[3, 4], [0, 5]], [["a"], ["b", "c"]])
    index.insert_subscriptions([7, 8], [[0, 0], [0, 0]], [["a", "c"], ["c"]])
    queries = index.queries([9, 9, 9], [[5, 0], [5, 0], [6, 0]], [["c"]] * 3, k=[1, 1, 2])
    assert split(index.reverse(queries)) == [[7, 8], [7, 8], [8]]


def test_the_queried_object_does_not_count_wherever_it_is_held(new):
    index = new()
    index.insert_objects([1], [[1, 0]], [["a"]])
    index.insert_subscriptions([7], [[0, 0]], [["a"]])
    assert split(index.reverse(index.queries([1, 2], [[5, 0], [5, 0]], [["a"]] * 2, k=1))) == [[7], []]


def test_nothing_held_and_nothing_asked_are_answered(new):
    index = new()
    assert split(index.reverse(index.queries([], [], [], k=1))) == []
    assert split(index.reverse(index.queries([1], [[0, 0]], [["a"]], k=1))) == [[]]
    index.insert_objects([], [], [])
    index.insert_subscriptions([5], [[0, 0]], [["a"]])
    assert split(index.reverse(index.queries([1, 1], [[0, 0]] * 2, [["a"], ["b"]], k=1))) == [[5], []]
    assert index.kth_distance(5, 1) == math.inf
    index.delete_subscriptions([5])
    index.expire_objects([])
    assert len(index) == 0
    index.check()


# ---- refusals ----------------------------------------------------------------------------------------

GOOD = [1], [[0.0, 0.0]], [["a"]]
BAD_ROWS = [
    (([1, 2], [[0, 0], [math.nan, 0]], [["a"]] * 2), BadPlace, "row 1 .* is nan"),
    (([1], [[0, math.inf]], [["a"]]), BadPlace, "row 0 .* is inf"),
    (([1], [[1e200, 0]], [["a"]]), BadPlace, "1e\\+200"),
    (([1], [[0, 0, 0]], [["a"]]), BadPlace, "pairs of numbers"),
    (([1], [["x", "y"]], [["a"]]), BadPlace, "pairs of numbers"),
    (([1, 2], [[0, 0], [0]], [["a"]] * 2), BadPlace, "ragged"),
    (([1, 2], [[0, 0]], [["a"]] * 2), BadPlace, "1 places for 2"),
    (([1, 2], [[0, 0]] * 2, [["a"], []]), BadKeywords, "row 1 has no keywords"),
    (([1], [[0, 0]], ["abc"]), BadKeywords, "pass a set of strings"),
    (([1], [[0, 0]], [["a", 5]]), BadKeywords, "keyword 5"),
    (([1], [[0, 0]], [["a", ""]]), BadKeywords, "keyword ''"),
    (([1], [[0, 0]], [["a"], ["b"]]), InvalidInput, "2 sets of keywords for 1"),
    (([-1], [[0, 0]], [["a"]]), InvalidInput, "negative"),
    (([3, 3], [[0, 0]] * 2, [["a"]] * 2), DuplicateId, "3 is named twice"),
    (([2, 77], [[0, 0]] * 2, [["a"]] * 2), DuplicateId, "77 is among"),
    (([1], [[0, 0]], KeywordSets(np.array([0, 1]), np.array([99]))), BadKeywords, "outside of"),
    (([1], [[0, 0]], KeywordSets(np.array([0, 0]), np.array([], int))), BadKeywords, "row 0 .* no keywords"),
    (([1], [[0, 0]], KeywordSets(np.array([0, 2]), np.array([0, 0]))), BadKeywords, "do not ascend"),
    (([1], [[0, 0]], KeywordSets(np.array([0, 2]), np.array([0]))), BadKeywords, "pointers"),
]


def filled(new):
    index = new()
    index.insert_objects([77, 78], [[0, 0], [9, 9]], [["a"], ["a", "b"]])
    index.insert_subscriptions([77, 78], [[1, 0], [8, 9]], [["a"], ["b"]])
    return index


def seen(index):
    asked = index.queries([5, 6], [[1, 1], [8, 8]], [["a", "b"]] * 2, k=1)
    return split(index.reverse(asked)), len(index), len(index.objects), len(index.vocabulary)


@pytest.mark.parametrize(("rows", "error", "message"), BAD_ROWS)
def test_bad_rows_are_refused_and_the_index_stays_as_it_was(new, rows, error, message):
    index = filled(new)
    before = seen(index)
    for insert in (index.insert_objects, index.insert_subscriptions):
        with pytest.raises(error, match=message):
            insert(*rows)
    assert seen(index) == before
    index.check()


def test_an_unknown_id_is_refused_and_the_index_stays_as_it_was(new):
    index = filled(new)
    before = seen(index)
    for remove in (index.expire_objects, index.delete_subscriptions):
        with pytest.raises(UnknownId, match="id 5 is not among"):
            remove([77, 5])
        with pytest.raises(DuplicateId, match="named twice"):
            remove([77, 77])
    with pytest.raises(UnknownId, match="id 5"):
        index.kth_distance(5, 1)
    assert seen(index) == before
    index.check()


@pytest.mark.parametrize(
    ("k", "delta", "message"),
    [
        (0, 1, "query 0: k is 0"), ([1, -2], 1, "query 1: k is -2"), (1.5, 1, "pass integers"),
        (1 << 40, 1, "k is"), ([1], 1, "shape"), ([1, 1, 1], 1, "shape"),
        (1, 0.5, "query 0: delta is 0.5"), (1, [1, math.nan], "query 1: delta is nan"),
        (1, math.inf, "delta is inf"), (1, "two", "pass numbers"), (1, [[1, 1]], "shape"),
    ],
)  # fmt: skip
def test_a_bad_query_is_refused(new, k, delta, message):
    with pytest.raises(BadQuery, match=message):
        filled(new).queries([1, 2], [[0, 0]] * 2, [["a"]] * 2, k=k, delta=delta)


def test_a_query_is_checked_as_a_row_is(new):
    index = filled(new)
    for rows, error, message in BAD_ROWS:
        if error is not DuplicateId:  # an object may be asked about repeatedly
            with pytest.raises(error, match=message):
                index.queries(*rows, k=1)
    for ids in ([[1]], np.array([[1]]), np.array(1), 1):
        with pytest.raises(InvalidInput, match="dimensions"):
            index.queries(ids, [[0, 0]], [["a"]], k=1)
    for k in (0, True, 1.0, 1 << 40):
        with pytest.raises(BadQuery, match="k is"):
            index.kth_distance(77, k)


@pytest.mark.parametrize(
    ("class_", "options"),
    [
        (Part, {"geometry": "torus"}), (Part, {"check": "lax"}), (Part, {"fan_out": 1}),
        (Part, {"group_size": 2.0}), (BPart, {"batch_max": 0}), (BPart, {"spread": -1.0}),
        (BPart, {"spread": math.nan}), (Materialised, {"k_max": 0}), (Materialised, {"k_max": True}),
    ],
)  # fmt: skip
def test_an_index_that_cannot_be_is_refused(class_, options):
    with pytest.raises(InvalidInput, match=next(iter(options)) if "geometry" not in options else "torus"):
        class_(**options)


def test_a_k_beyond_what_is_materialised_is_refused():
    index = filled(lambda: Materialised(k_max=3))
    with pytest.raises(BadQuery, match=r"1\.\.3"):
        index.queries([1], [[0, 0]], [["a"]], k=4)
    with pytest.raises(BadQuery, match=r"1\.\.3"):
        index.reverse(filled(Part).queries([1], [[0, 0]], [["a"]], k=4))


# ---- geometry ----------------------------------------------------------------------------------------

latitudes = st.one_of(st.sampled_from([-90.0, 0.0, 90.0, 45.0]), st.floats(-90, 90))
longitudes = st.one_of(st.sampled_from([-180.0, 0.0, 180.0, -179.9]), st.floats(-180, 180))
on_earth = st.tuples(latitudes, longitudes)


def haversine(a, b):
    (lat_a, lon_a), (lat_b, lon_b) = (map(math.radians, place) for place in (a, b))
    half = math.sin((lat_b - lat_a) / 2) ** 2
    half += math.cos(lat_a) * math.cos(lat_b) * math.sin((lon_b - lon_a) / 2) ** 2
    return 2 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(half)))


@given(on_earth, on_earth)
@settings(deadline=None)
def test_the_length_on_the_sphere_is_the_great_circle_distance(a, b):
    points = SPHERE.points([a, b], 2, "objects")
    assert np.allclose((points**2).sum(axis=1), 1.0, atol=1e-15)
    length = float(SPHERE.length(squared_distances(points[:1], points[1]))[0])
    assert length == pytest.approx(haversine(a, b), rel=1e-7, abs=0.3)


def test_poles_and_the_date_line_are_no_borders():
    points = SPHERE.points([[90, 0], [90, 123], [10, 180], [10, -180], [0, 90], [0, -90]], 6, "objects")
    assert np.array_equal(points[0], points[1]) and np.array_equal(points[2], points[3])
    assert np.array_equal(points[4], -points[5])
    assert float(SPHERE.length(4.0)) == pytest.approx(math.pi * EARTH_RADIUS_M)


@pytest.mark.parametrize("place", [[90.1, 0], [-91, 0], [0, 180.5], [0, -181], [math.nan, 0]])
def test_a_place_that_is_not_on_the_earth_is_refused(new, place):
    with pytest.raises(BadPlace, match="itude is"):
        new("sphere").insert_objects([1], [place], [["a"]])


@given(st.floats(0, 4), st.floats(1, 100))
@settings(deadline=None)
def test_the_reach_is_what_delta_times_the_distance_says(squared, delta):
    for geometry, slack in ((PLANE, 1e-12), (SPHERE, 1e-9)):
        reach = float(geometry.reach(squared, delta))
        assert reach <= squared
        assert float(geometry.reach(squared, 1.0)) == squared
        length = float(geometry.length(squared))
        assert delta * float(geometry.length(reach)) == pytest.approx(length, rel=1e-6)
        wider = np.linspace(squared, 4.0, 50)
        assert (np.diff(geometry.reach(wider, delta)) >= -slack).all()


boxes = st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=2, max_size=6)


@given(boxes, st.tuples(st.integers(-9, 9), st.integers(-9, 9)), st.sampled_from([1.0, 0.1, 1e-3]))
def test_the_gap_of_a_box_is_no_more_than_the_distance_of_what_is_in_it(places, place, scale):
    points, point = np.array(places) * scale, np.array(place) * scale
    box = np.concatenate([points.min(axis=0), points.max(axis=0)])[None, :]
    assert squared_gaps(box, point)[0] <= squared_distances(points, point).min()


# ---- keywords, windows, summaries --------------------------------------------------------------------


def test_a_vocabulary_may_be_shared_and_queries_do_not_enlarge_it():
    vocabulary = Vocabulary()
    one, two = Part(vocabulary=vocabulary), Brute(vocabulary=vocabulary)
    encoded = vocabulary.encode([["b", "a", "a"], {"c"}])
    assert [vocabulary.string(word) for word in encoded.words[:2]] in (["a", "b"], ["b", "a"])
    for index in (one, two):
        index.insert_subscriptions([1, 2], [[0, 0], [1, 1]], encoded)
        assert split(index.reverse(index.queries([5], [[0, 0]], [["c", "new"]], k=1))) == [[2]]
    assert len(vocabulary) == 3 and vocabulary.number("new") == -1
    with pytest.raises(BadKeywords):
        vocabulary.encode([["new"], []])
    assert len(vocabulary) == 3
    with pytest.raises(BadKeywords, match="one set of strings per row"):
        vocabulary.encode("ab")


def test_a_window_of_the_last_objects_lets_the_oldest_go():
    window = LastObjects(3)
    assert window.add([1, 2], 10).tolist() == []
    assert window.add([3, 4, 5], 10).tolist() == [1, 2]
    again = LastObjects(3)
    again.load(window.state())
    assert again.add([6], 11).tolist() == window.add([6], 11).tolist() == [3]
    assert len(window) == 3 and window.due(10**9).tolist() == []
    with pytest.raises(InvalidInput, match="lies before"):
        window.add([7], 10)


def test_a_window_of_time_lets_go_what_is_as_old_as_it_is_long():
    window = LastTime(100)
    assert window.next_due_ns() is None
    window.add([1], 0)
    assert window.add([2], 99).tolist() == [] and window.next_due_ns() == 100
    assert window.due(100).tolist() == [1] and window.due(198).tolist() == []
    assert window.add([3], 199).tolist() == [2]


@pytest.mark.parametrize("size", [0, -1, 2.5, True])
def test_a_window_without_size_is_refused(size):
    for window in (LastObjects, LastTime):
        with pytest.raises(InvalidInput, match="above 0"):
            window(size)


@pytest.mark.parametrize("geometry", ["plane", "sphere"])
def test_a_summary_never_keeps_an_object_from_whom_it_matters_to(geometry):
    kept = asked = 0
    for seed in range(120):
        world = random_world(seed, geometry)
        index, other = world.fill(Materialised(geometry, k_max=K_LARGEST)), world.fill(Brute(geometry))
        k = int(world.asked[3][0])
        mine = summaries(index, k, boxes_max=2)
        both = joined([mine, summaries(other, k, boxes_max=3)], boxes_max=1)
        ids, places, keywords = world.asked[:3]
        moved = [id_ in world.objects and world.objects[id_][0] != list(p) for id_, p in zip(ids, places)]
        ids = [10**7 + i if gone else id_ for i, (id_, gone) in enumerate(zip(ids, moved))]
        queries = other.queries(ids, places, keywords, k)
        for i, answer in enumerate(split(other.reverse(queries))):
            for summary in (mine, both):
                assert all(len(one.squared) <= 2 for one in summary.values())
                here = [w for w in keywords[i] if w in summary and summary[w].may_matter(queries.points[i])]
                assert here or not answer
            asked += 1
            kept += not any(w in mine and mine[w].may_matter(queries.points[i]) for w in keywords[i])
    assert kept > asked / 20  # and it does keep some


def test_a_summary_needs_a_box():
    with pytest.raises(InvalidInput, match="boxes_max"):
        coarser(summaries(filled(Brute), 1)["a"], 0)
