"""No loop of a kernel can go on without end: what hangs in compiled code can hardly be stopped.

A `for` ends by itself. A `while` is taken for one that counts if the body moves a number that its test looks at.
Every other one is listed here with what ends it; a loop that follows links is a `for ... else: raise EndlessWalk`.
"""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from brokers.errors import EndlessWalk
from brokers.indexes import ids
from brokers.indexes.context import skiplist_kernels
from brokers.indexes.context.skiplist import IntervalSkipList

ROOT = Path(__file__).parents[1]
PACKAGES = ("topology", "brokers", "protocols", "scenarios", "analysis")

HEAP = "goes down or up one level of a heap in an array"
TOPICS = "goes along the topics of a broker, which are chained in their order"
PROMISES = "goes along what was promised of a publication or a broker, each of which is chained once"
STRETCH = "goes on to the end of the stretch it looked at, which is further along"
ENDED_BY = {
    ("analysis/spark/graph.py", "_distances"): HEAP,
    ("brokers/engine/advance.py", "advance"): "fills the bench by a row at least in each turn, or leaves",
    ("brokers/engine/advance.py", "_decide"): "goes on by a stretch of a service in each turn, or leaves",
    ("brokers/engine/crossing.py", "travel"): "goes on to a later window in each turn, or leaves",
    ("brokers/engine/crossing.py", "_take_in"): "takes a row or a neighbour in each turn, or leaves",
    ("brokers/engine/crowding.py", "lay_crowded"): "takes out what comes first, or has it come later, or leaves",
    ("brokers/engine/gather.py", "gather"): "a turn without rows drops something, or puts it off, or leaves",
    ("brokers/engine/gather.py", "_sift"): HEAP,
    ("brokers/engine/meeting.py", "await_all"): "all come to a meeting, or stop everybody",
    ("brokers/engine/meeting.py", "others_rest"): "all come to a meeting or wait, or stop everybody",
    ("brokers/indexes/content/cells_build.py", "_split"): STRETCH,
    ("brokers/indexes/content/cells_match.py", "_match_one"): STRETCH,
    ("brokers/indexes/content/cells_plan.py", "_cost"): STRETCH,
    ("brokers/indexes/content/cells_plan.py", "_split_cost"): STRETCH,
    ("brokers/indexes/content/htree_probe.py", "position"): "halves what lies between low and high",
    ("brokers/indexes/content/htree_probe.py", "match"): STRETCH,
    ("brokers/indexes/context/bits.py", "write_members"): "takes a bit out of a word",
    ("brokers/indexes/context/skiplist_kernels.py", "_release"): "lowers the list's height",
    ("brokers/indexes/context/store_kernels.py", "conjuncts_of"): "goes the way that was counted just before",
    ("brokers/indexes/spatial/search.py", "_push"): HEAP,
    ("brokers/indexes/spatial/search.py", "_drop_first"): HEAP,
    ("brokers/indexes/spatial/tree_kernels.py", "delete"): "the root's only child is one level lower",
    ("brokers/indexes/topk/kernels.py", "_sink"): HEAP,
    ("brokers/indexes/topk/kernels.py", "offer"): HEAP,
    ("brokers/indexes/topk/slices.py", "search"): "lowers the count that is reached for",
    ("brokers/indexes/topk/tree.py", "_remove"): "lowers the tree's height",
    ("brokers/indexes/topics/level_kernels.py", "_merge_runs"): "halves the runs in each turn, or leaves",
    ("brokers/planning/geometry.py", "_cut"): "steps through the cells of a block",
    ("brokers/planning/geometry.py", "_all_of"): "steps through the cells of a block",
    ("brokers/planning/geometry.py", "_measure"): "doubles the number of a node of a tree in an array",
    ("brokers/planning/greedy.py", "_push"): HEAP,
    ("brokers/planning/greedy.py", "_sift"): HEAP,
    ("brokers/planning/sizes.py", "_count"): "steps through the rows of a block",
    ("brokers/planning/sizes.py", "_mark"): "steps through the rows of a block",
    ("protocols/context/sieve.py", "_behind"): STRETCH,
    ("protocols/context/sieve.py", "_culprit"): STRETCH,
    ("protocols/gossip/kernels.py", "_decay"): TOPICS,
    ("protocols/gossip/kernels.py", "_deliver"): "goes along the interests in a topic, each of which is chained once",
    ("protocols/gossip/kernels.py", "_has_room_for_heartbeat"): TOPICS,
    ("protocols/gossip/kernels.py", "_heartbeat"): TOPICS,
    ("protocols/gossip/kernels.py", "_hold_to_promises"): PROMISES,
    ("protocols/gossip/kernels.py", "_keep_promises"): PROMISES,
    ("protocols/gossip/kernels.py", "_shift"): "takes the oldest out of what was seen",
    ("protocols/gossip/kernels.py", "_sweep"): TOPICS,
    ("protocols/gossip/kernels.py", "promise"): PROMISES,
    ("protocols/gossip/kernels.py", "score_of"): TOPICS,
    ("protocols/gossip/kernels.py", "seat_of"): TOPICS,
    ("protocols/routes.py", "_shortest_paths"): "takes from a heap; distances only fall, by 1 ns at least",
    ("protocols/routes.py", "_hang"): "takes from a stack; goes down a tree, away from the link it came by",
    ("protocols/routes.py", "_number"): "looks at each child of each broker once",
    ("brokers/wire/blake.py", "fingerprint"): "goes on by a block in each turn",
    ("brokers/workloads/kernels.py", "arrivals"): "fills an array",
    ("brokers/workloads/kernels.py", "subscriber_acts"): "fills an array",
    ("topology/bisection.py", "components"): "a parent is lower than its child",
    ("topology/bisection.py", "refine"): "takes from a heap",
}


def _compiled(function):
    return any(mark in ast.unparse(d) for d in function.decorator_list for mark in ("njit", "handler"))


def whiles_of(tree):
    """(function, loop) of all kernels of a module."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and _compiled(function):
            yield from ((function.name, loop) for loop in ast.walk(function) if isinstance(loop, ast.While))


def counts(loop):
    """Whether the body moves a number that the test looks at."""
    moved = set()
    for node in (inner for statement in loop.body for inner in ast.walk(statement)):
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            moved.add(node.target.id)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
            moved |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return bool(moved & {node.id for node in ast.walk(loop.test) if isinstance(node, ast.Name)})


def endless(tree):
    """The functions with a loop that neither counts nor has a bound."""
    return {name for name, loop in whiles_of(tree) if not counts(loop)}


def test_every_loop_of_a_kernel_counts_or_is_known_to_end():
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for name in endless(ast.parse(path.read_text(encoding="utf-8")))
    }
    assert found == set(ENDED_BY), "write it as `for ... else: raise EndlessWalk`, or say here what ends it"


def test_a_loop_that_follows_links_is_found():
    walk = "@njit(cache=True)\ndef walk(next_, at):\n    while next_[at] >= 0:\n        at = next_[at]\n    return at\n"
    count = "@njit\ndef count(n):\n    while n > 0:\n        n -= 1\n    return n\n"
    assert endless(ast.parse(walk)) == {"walk"}
    assert endless(ast.parse(count)) == set()


def test_a_table_of_ids_without_a_gap_raises_instead_of_going_round():
    keys, slots = np.arange(8), np.arange(8)  # no place is empty
    for kernel, arguments in ((ids._find, ()), (ids._add, (np.array([99]),)), (ids._remove, ())):
        with pytest.raises(EndlessWalk):
            kernel(keys.copy(), slots.copy(), np.array([99]), *arguments)


def test_a_skip_list_with_a_ring_raises_instead_of_going_round():
    index = IntervalSkipList(2, 0, (-np.inf, np.inf))
    asked = np.array([[1.0, 2.0], [3.0, 4.0]])
    index.update_many(np.arange(2), asked, skiplist_kernels.EXACT)
    parts = skiplist_kernels.Arrays(*skiplist_kernels.arrays(index.state))
    ends = (skiplist_kernels.HEAD, skiplist_kernels.TAIL)
    nodes = [node for node in np.flatnonzero(parts.height > 0) if node not in ends]
    last = max(nodes, key=lambda node: parts.key[node])
    parts.link[last + 1, skiplist_kernels.NEXT] = last  # its edge leads back to it
    with pytest.raises(EndlessWalk):
        index.update_many(np.arange(1), np.array([[9.0, 9.5]]), skiplist_kernels.EXACT)
