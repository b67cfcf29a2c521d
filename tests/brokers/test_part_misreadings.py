"""Readings of the paper that fail, put into the kernels one by one: the oracle notices each.

The kernels' own source is changed in one place and run as plain Python, so these are mutations of what is
shipped and not of a second implementation.
"""

from __future__ import annotations

import types
from pathlib import Path

import numpy as np
import pytest

from brokers.indexes.spatial import bpart as bpart_module
from brokers.indexes.spatial import part as part_module
from brokers.indexes.spatial import search
from brokers.indexes.spatial.bpart import BPart
from brokers.indexes.spatial.part import Part

from .spatial_cases import Oracle, random_world, split

SOURCE = Path(search.__file__).read_text(encoding="utf-8")
PLAIN = ("from numba import njit\n", "def njit(**options):\n    return lambda function: function\n")
WORLDS = 40

PART, BPART = (Part,), (BPart,)
BOTH = (Part, BPart)


def plain_kernels(*changes):
    """The kernels as plain Python with changes (old, new, how often), each of which has to be found."""
    source = SOURCE
    for old, new, times in ((*PLAIN, 1), *changes):
        assert source.count(old) == times, f"{source.count(old)} times in the kernels: {old}"
        source = source.replace(old, new)
    module = types.ModuleType("plain_kernels")
    module.__dict__["__name__"] = search.__name__
    exec(compile(source, "plain_kernels", "exec"), module.__dict__)
    return module


def use(monkeypatch, kernels):
    monkeypatch.setattr(part_module, "search", kernels)
    monkeypatch.setattr(bpart_module, "search", kernels)


def build(class_, seed):
    options = {"fan_out": 2 + seed % 3, "group_size": 2 + seed % 7}
    return class_("plane", **options, **({"spread": 1e3} if class_ is BPart else {}))


def first_wrong(classes, seeds):
    """What the oracle says of the first wrong answer in worlds with these seeds."""
    for seed in seeds:
        world = random_world(seed, batch=8)
        oracle = Oracle(world)
        for class_ in classes:
            index = world.fill(build(class_, seed))
            wrong = oracle.wrong(split(index.reverse(index.queries(*world.asked))))
            if wrong:
                return f"{class_.__name__}, seed {seed}: {wrong}"
    return None


def test_the_kernels_as_plain_python_are_right(monkeypatch):
    use(monkeypatch, plain_kernels())
    assert first_wrong(BOTH, range(WORLDS)) is None


LINE_9 = ("mbr[:axes], mbr[axes:], near, reach, own", "mbr[:axes], mbr[axes:], far, reach, own", 1)
LINE_15 = ("reach = _reach_above(far, delta, axes)", "reach = _reach_above(near, delta, axes)", 1)
LINE_18 = ("work.far[j] < near[first]", "work.far[j] < far[first]", 1)
SHRUNK = (
    "        if first == end:\n            continue\n        out = _roomy",
    "        members = batch.group[first:end].copy()\n        if first == end:\n            break\n"
    "        out = _roomy", 1,
)  # fmt: skip
EARLY_RETURN = (
    "        if first == end:\n            continue\n        out = _roomy",
    "        first = 0\n        if count >= need:\n            continue\n        out = _roomy", 1,
)  # fmt: skip
ONCE_PER_KEYWORD = (" and work.seen[child] != epoch", "", 2)
ONCE_PER_KEYWORD_IN_BATCHES = (" or work.seen[child] == epoch", "", 1)
ITSELF = ("child != own and ", "", 2)
ITSELF_IN_BATCHES = (" and child != asked.own[alive[a]]", "", 1)
ITSELF_IN_SHARED_SETS = ("asked.k[query] + (1 if asked.own[query] != NONE else 0)", "asked.k[query]", 1)
BY_NEAR = (
    "_sort_by_far(batch.group, batch.near, batch.far, end)",
    "_sort_by_far(batch.group, batch.far, batch.near, end)", 1,
)  # fmt: skip
FIRST_QUERY_ONLY = (
    "        reach = max(reach, _reach_above(far[t], asked.delta[i], axes))\n",
    "        if t == begin:\n            reach = _reach_above(far[t], asked.delta[i], axes)\n", 1,
)  # fmt: skip

MISREADINGS = {
    "algorithm 2, line 9: the largest distance in place of the least": (PART, "lacks", [LINE_9]),
    "algorithm 2, line 15: the least in place of the largest": (PART, "too many", [LINE_15]),
    "algorithm 5, line 18: the largest distance in place of the least": (BPART, "lacks", [LINE_18]),
    "queries ruled out for one group stay away from the next": (BPART, "lacks", [SHRUNK]),
    "queries ruled out by algorithm 5 are verified nevertheless": (BPART, "too many", [EARLY_RETURN]),
    "objects are counted once per shared keyword": (PART, "lacks", [ONCE_PER_KEYWORD]),
    "in batches too": (BPART, "lacks", [ONCE_PER_KEYWORD, ONCE_PER_KEYWORD_IN_BATCHES]),
    "the queried object counts itself": (PART, "lacks", [ITSELF]),
    "in verification of batches too": (BPART, "lacks", [ITSELF_IN_BATCHES]),
    "in the sets that batches share too": (BPART, "lacks", [ITSELF_IN_SHARED_SETS]),
}


@pytest.mark.parametrize("name", MISREADINGS)
def test_a_misreading_is_noticed(monkeypatch, name):
    classes, effect, changes = MISREADINGS[name]
    use(monkeypatch, plain_kernels(*changes))
    wrong = first_wrong(classes, range(400))
    assert wrong is not None and effect in wrong


def test_a_set_never_grows_beyond_what_is_needed_so_that_equal_does_for_at_least(monkeypatch):
    """Algorithm 3, line 12: the misreading that only costs work in the paper costs nothing here."""
    use(monkeypatch, plain_kernels(("count >= k:", "count == k:", 5)))
    assert first_wrong(PART, range(WORLDS)) is None


# ---- line 23 of algorithm 5 --------------------------------------------------------------------------


def line_23():
    """Two subscriptions in a group, two leaves of objects; near and far are largest for different queries."""
    index = BPart(fan_out=2, group_size=2, spread=1e3)
    index.insert_objects([1, 2, 3, 4], [[19, 0], [19, 1], [500, 500], [501, 500]], [["w"]] * 4)
    index.insert_subscriptions([10, 11], [[0, 0], [10, 0]], [["w"]] * 2)
    return split(index.reverse(index.queries([21, 22], [[5, 7], [-6, 0]], [["w"]] * 2, k=1)))


@pytest.mark.parametrize("kernels", [search, plain_kernels()], ids=["compiled", "plain"])
def test_the_largest_bound_of_all_queries_decides_what_is_dropped(monkeypatch, kernels):
    use(monkeypatch, kernels)
    assert line_23() == [[10, 11], [10]]


def test_sorted_by_the_least_bound_the_first_query_drops_what_another_needs(monkeypatch):
    use(monkeypatch, plain_kernels(BY_NEAR, FIRST_QUERY_ONLY))
    assert line_23() == [[10, 11], [10, 11]]


def test_sorted_by_the_largest_bound_the_first_query_is_the_maximum(monkeypatch):
    use(monkeypatch, plain_kernels(FIRST_QUERY_ONLY))
    assert line_23() == [[10, 11], [10]]


def test_sharing_with_the_first_query_only_is_wrong_once_deltas_differ(monkeypatch):
    """The farthest query may have the largest delta and so the shortest reach."""
    index = BPart(fan_out=2, group_size=2, spread=1e3)
    index.insert_objects([1, 2, 3, 4], [[9, 0], [9, 6], [500, 500], [501, 500]], [["w"]] * 4)
    index.insert_subscriptions([10, 11], [[0, 0], [0, 1]], [["w"]] * 2)
    queries = index.queries([21, 22], [[20, 0], [-10, 0]], [["w"]] * 2, k=[3, 1], delta=[4.0, 1.0])
    assert split(index.reverse(queries))[1] == []
    use(monkeypatch, plain_kernels(FIRST_QUERY_ONLY))
    assert split(index.reverse(queries))[1] == [10, 11]


def test_a_change_that_is_not_found_fails():
    with pytest.raises(AssertionError, match="0 times in the kernels"):
        plain_kernels(("no such line", "", 1))


def test_the_plain_kernels_are_not_compiled():
    assert isinstance(plain_kernels().part, types.FunctionType)
    assert not isinstance(search.part, types.FunctionType)
    assert np.isclose(plain_kernels().reach_of(9.0, 2.0, 2), 2.25)
