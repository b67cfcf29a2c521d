"""Kernels that search the keyword trees: PART, B-PART, and the k nearest objects. One family.

They read two forests: `trees` over the objects, `groups` over the subscriptions, whose leaves are the groups
of the algorithms. The paper's names: O+ is `found[:count]`, N_c are `leaves[:kept]`. All distances are
squared, see `brokers.indexes.spatial.geometry`; `near` and `far` are the least and the largest of a box,
`reach` is what relaxes a comparison by delta.

Each object stands once in the tree of each of its keywords, so sets over several trees have to be sets of
slots: `seen[slot] == epoch` marks the members of the set that is being built.

A count that is handed on begins as np.int64(0): of a plain 0 Numba compiles what it is handed to a second time.

Written so that it also runs as plain Python, without Numba: that is how the tests run it with the misreadings
of the paper put in.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import EndlessWalk
from brokers.indexes.spatial.tree_kernels import COUNT, LEVEL, NONE, Forest

EPOCH, GROUPS, NODES, OBJECTS, SUBSCRIPTIONS = 0, 1, 2, 3, 4  # places of `state`
STATE_LENGTH = 5
TOO_MANY = -1  # leaves of a group, to be looked at again for each of its subscriptions

# Great-circle bounds pass through polynomials, which are monotone but for their last bits.
_SLACK = 1.0 + 1e-9
_TURNS = 0.017453292519943295  # radians per degree


class World(NamedTuple):
    """What is searched."""

    trees: Forest  # over the objects
    groups: Forest  # over the subscriptions
    places: NDArray[np.float64]  # of subscriptions
    words: NDArray[np.int32]  # of subscriptions, ascending, then NONE


class Asked(NamedTuple):
    """Queries as arrays."""

    points: NDArray[np.float64]
    ptr: NDArray[np.int64]
    words: NDArray[np.int32]
    k: NDArray[np.int64]
    delta: NDArray[np.float64]
    own: NDArray[np.int64]  # the slot of the queried object if it is held, else NONE


class Scratch(NamedTuple):
    """Room to work in. Kept between calls; only `seen` and `state` carry anything over."""

    state: NDArray[np.int64]
    seen: NDArray[np.int64]  # per object slot
    found: NDArray[np.int32]
    key: NDArray[np.float64]  # the heap
    node: NDArray[np.int32]
    stack: NDArray[np.int32]
    leaves: NDArray[np.int32]  # of a group
    own_leaves: NDArray[np.int32]  # of one subscription
    near: NDArray[np.float64]  # per child of a node
    far: NDArray[np.float64]
    group_stack: NDArray[np.int32]


# ---- distances ---------------------------------------------------------------------------------------


@njit(cache=True)
def _sine(angle):
    """Of 0 <= angle <= pi/2, by its series."""
    square = angle * angle
    total = 0.0
    for odd in range(23, 1, -2):
        total = (total + 1.0) * -square / (odd * (odd - 1))
    return angle * (total + 1.0)


@njit(cache=True)
def _arc_tangent(ratio):
    """Of 0 <= ratio <= 1: halved twice, then by its series."""
    for _ in range(2):
        ratio = ratio / (1.0 + np.sqrt(1.0 + ratio * ratio))
    square = ratio * ratio
    total = 0.0
    for odd in range(25, 1, -2):
        total = -square * (1.0 / odd + total)
    return 4.0 * ratio * (1.0 + total)


@njit(cache=True)
def _half_arc(squared):
    """Half the angle of a squared chord, 0 to pi/2."""
    sine = min(1.0, 0.5 * np.sqrt(squared))
    return 2.0 * _arc_tangent(sine / (1.0 + np.sqrt(1.0 - sine * sine)))


@njit(cache=True)
def _sine_of_degrees(degrees):
    """Of -180 <= degrees <= 180; quarter turns are exact."""
    size = abs(degrees)
    if size > 90.0:
        size = 180.0 - size
    sine = 1.0 if size == 90.0 else _sine(size * _TURNS)
    return sine if degrees >= 0.0 else -sine


@njit(cache=True)
def unit_vectors(places):
    """(latitude, longitude) in degrees as points on the unit sphere."""
    out = np.empty((places.shape[0], 3))
    for i in range(places.shape[0]):
        latitude, longitude = places[i, 0], places[i, 1]
        level = _sine_of_degrees(90.0 - abs(latitude))
        out[i, 0] = level * _sine_of_degrees(90.0 - abs(longitude))
        out[i, 1] = level * _sine_of_degrees(longitude)
        out[i, 2] = _sine_of_degrees(latitude)
    return out


@njit(cache=True)
def arcs(squared):
    """The angle of each squared chord."""
    out = np.empty(squared.size)
    for i in range(squared.size):
        out[i] = 2.0 * _half_arc(squared[i])
    return out


@njit(cache=True)
def reach_of(squared, delta, axes):
    """The squared distance below which delta times the distance is below the one given.

    In the plane squared / delta^2. On the sphere the squared chord of the angle divided by delta.
    """
    if delta == 1.0 or squared == np.inf:
        return squared
    if axes == 2:
        return squared / (delta * delta)
    sine = 2.0 * _sine(_half_arc(squared) / delta)
    return min(squared, sine * sine)


@njit(cache=True)
def reach_many(squared, delta, axes):
    out = np.empty(squared.size)
    for i in range(squared.size):
        out[i] = reach_of(squared[i], delta[i], axes)
    return out


@njit(cache=True)
def _reach_above(squared, delta, axes):
    """No less than the reach of any smaller distance: what pruning may rely on."""
    reach = reach_of(squared, delta, axes)
    return reach if axes == 2 or delta == 1.0 else reach * _SLACK


@njit(cache=True)
def _near_far(mbr, point):
    """Least and largest squared distance from a box to a point."""
    axes = point.size
    near, far = 0.0, 0.0
    for axis in range(axes):
        below, above = point[axis] - mbr[axis], mbr[axes + axis] - point[axis]
        gap = max(0.0, max(-below, -above))
        span = max(below, above)
        near += gap * gap
        far += span * span
    return near, far


@njit(cache=True)
def _squared(a, b):
    total = 0.0
    for axis in range(a.size):
        total += (a[axis] - b[axis]) * (a[axis] - b[axis])
    return total


@njit(cache=True)
def _bound_children(box, count, low, high, near, far):
    """Least and largest squared distance between the box low..high and each child of a node."""
    axes = low.size
    for j in range(count):
        near[j] = 0.0
        far[j] = 0.0
    for axis in range(axes):
        lows, highs = box[axis], box[axes + axis]
        a, b = low[axis], high[axis]
        for j in range(count):
            gap = max(0.0, max(a - highs[j], lows[j] - b))
            span = max(highs[j] - a, b - lows[j])
            near[j] += gap * gap
            far[j] += span * span


# ---- heap: smallest key first ------------------------------------------------------------------------


@njit(cache=True)
def _push(keys, nodes, size, key, node):
    i = size
    while i > 0:
        up = (i - 1) >> 1
        if keys[up] <= key:
            break
        keys[i] = keys[up]
        nodes[i] = nodes[up]
        i = up
    keys[i] = key
    nodes[i] = node
    return size + 1


@njit(cache=True)
def _drop_first(keys, nodes, size):
    size -= 1
    key, node = keys[size], nodes[size]
    i = 0
    while 2 * i + 1 < size:
        down = 2 * i + 1
        if down + 1 < size and keys[down + 1] < keys[down]:
            down += 1
        if key <= keys[down]:
            break
        keys[i] = keys[down]
        nodes[i] = nodes[down]
        i = down
    keys[i] = key
    nodes[i] = node
    return size


# ---- sets of objects ---------------------------------------------------------------------------------


@njit(cache=True)
def _collect(trees, top, own, need, count, work):
    """Add the objects below a node to the set, until it has `need`."""
    epoch = work.state[EPOCH]
    work.stack[0] = top
    size = 1
    for _ in range(trees.meta.shape[0] + 1):
        if size == 0:
            break
        size -= 1
        n = work.stack[size]
        for j in range(trees.meta[n, COUNT]):
            child = trees.child[n, j]
            if trees.meta[n, LEVEL] > 0:
                work.stack[size] = child
                size += 1
            elif child != own and work.seen[child] != epoch:
                work.seen[child] = epoch
                work.found[count] = child
                count += 1
                if count >= need:
                    return count
    else:
        raise EndlessWalk("a tree has a ring")
    return count


@njit(cache=True)
def _begin_set(work, count):
    """A new set that holds what `found` begins with."""
    work.state[EPOCH] += 1
    for t in range(count):
        work.seen[work.found[t]] = work.state[EPOCH]


@njit(cache=True)
def _root(forest, word):
    return forest.root[word] if word < forest.root.size else NONE


# ---- PART --------------------------------------------------------------------------------------------


@njit(cache=True)
def _candidates(trees, word, low, high, least, reach, own, k, count, work, leaves, kept):
    """GetCandidates (algorithm 2) for a box or point.

    `least` is the least squared distance of the box to the query, `reach` what the largest one is relaxed to.
    Adds objects that are closer than the query to all of the box, leaves that may hold others in reach. Gives
    up when there is no room for a leaf: kept is TOO_MANY then, and whoever is in the box has to search alone.
    """
    root = _root(trees, word)
    if root == NONE:
        return count, kept
    size = _push(work.key, work.node, 0, 0.0, root)
    for _ in range(trees.meta.shape[0] + 1):
        if size == 0:
            break
        n = work.node[0]
        size = _drop_first(work.key, work.node, size)
        work.state[NODES] += 1
        if trees.meta[n, LEVEL] == 0:
            if kept == leaves.size:
                return count, TOO_MANY
            leaves[kept] = n
            kept += 1
            continue
        children = trees.meta[n, COUNT]
        _bound_children(trees.box[n], children, low, high, work.near, work.far)
        for j in range(children):
            if work.far[j] < least:
                count = _collect(trees, trees.child[n, j], own, k, count, work)
                if count >= k:
                    return count, kept
            elif work.near[j] < reach:
                size = _push(work.key, work.node, size, work.near[j], trees.child[n, j])
    else:
        raise EndlessWalk("a tree has a ring")
    return count, kept


@njit(cache=True)
def _first_shared(words, queried, word):
    """Whether `word` is the first that a subscription and a query share: elsewhere the pair is left alone."""
    for column in range(words.size):
        if words[column] >= word or words[column] == NONE:
            return True
        for t in range(queried.size):
            if queried[t] == words[column]:
                return False
    return True


@njit(cache=True)
def _matters(world, subscription, word, squared, k, delta, own, strict, count, kept, work):
    """Verification and CheckSubscription (algorithm 3) of one subscription, given O+ and N_c of its group."""
    trees, place = world.trees, world.places[subscription]
    axes = place.size
    _begin_set(work, count)
    reach = _reach_above(squared, delta, axes)
    mine = np.int64(0)
    for t in range(kept):
        n = work.leaves[t]
        near, far = _near_far(trees.mbr[n], place)
        if far < squared:
            count = _collect(trees, n, own, k, count, work)
            if count >= k:
                return False
        elif near < reach:
            work.own_leaves[mine] = n
            mine += 1
    words = world.words[subscription]
    for column in range(words.size):
        if words[column] == NONE:
            break
        if words[column] == word and kept != TOO_MANY:
            continue
        count, mine = _candidates(
            trees, words[column], place, place, squared, reach, own, k, count, work, work.own_leaves, mine
        )
        if count >= k:
            return False
    limit = squared if strict else reach_of(squared, delta, axes)
    epoch = work.state[EPOCH]
    for t in range(mine):
        n = work.own_leaves[t]
        children = trees.meta[n, COUNT]
        work.state[OBJECTS] += children
        _bound_children(trees.box[n], children, place, place, work.near, work.far)
        for j in range(children):
            child = trees.child[n, j]
            if work.near[j] < limit and child != own and work.seen[child] != epoch:
                work.seen[child] = epoch
                count += 1
                if count >= k:
                    return False
    return True


@njit(cache=True)
def _roomy(array, needed):
    """The array, or a larger one that begins with it."""
    if needed <= array.size:
        return array
    larger = np.empty(2 * needed, array.dtype)
    larger[: array.size] = array
    return larger


@njit(cache=True)
def _part_word(world, asked, members, word, strict, work, out, owner, total):
    """Algorithm 1 for a keyword and queries that have it, each on its own. Group by group, since the search
    for a far query looks at what is near the group. Returns (subscriptions, the query of each, how many)."""
    groups = world.groups
    axes = world.places.shape[1]
    root = _root(groups, word)
    size = 0
    if root != NONE:
        work.group_stack[0] = root
        size = 1
    for _ in range(groups.meta.shape[0] + 1):
        if size == 0:
            break
        size -= 1
        g = work.group_stack[size]
        subscriptions = groups.meta[g, COUNT]
        if groups.meta[g, LEVEL] > 0:
            for j in range(subscriptions):
                work.group_stack[size + j] = groups.child[g, j]
            size += subscriptions
            continue
        mbr = groups.mbr[g]
        for i in members:
            point, k, delta, own = asked.points[i], asked.k[i], asked.delta[i], asked.own[i]
            queried = asked.words[asked.ptr[i] : asked.ptr[i + 1]]
            work.state[GROUPS] += 1
            near, far = _near_far(mbr, point)
            reach = _reach_above(far, delta, axes)
            _begin_set(work, 0)
            count, kept = _candidates(
                world.trees, word, mbr[:axes], mbr[axes:], near, reach, own, k, np.int64(0), work, work.leaves,
                np.int64(0),
            )  # fmt: skip
            if count >= k:
                continue
            out, owner = _roomy(out, total + subscriptions), _roomy(owner, total + subscriptions)
            for j in range(subscriptions):
                s = groups.child[g, j]
                if not _first_shared(world.words[s], queried, word):
                    continue
                work.state[SUBSCRIPTIONS] += 1
                squared = _squared(world.places[s], point)
                if _matters(world, s, word, squared, k, delta, own, strict, count, kept, work):
                    out[total] = s
                    owner[total] = i
                    total += 1
    else:
        raise EndlessWalk("a tree has a ring")
    return out, owner, total


@njit(cache=True)
def part(world, asked, strict, work):
    """PART: (ptr, subscription slots) of the queries, one after the other."""
    queries = asked.k.size
    ptr = np.zeros(queries + 1, np.int64)
    out, owner = np.empty(256, np.int64), np.empty(256, np.int64)
    one = np.empty(1, np.int64)
    total = np.int64(0)
    for i in range(queries):
        one[0] = i
        for t in range(asked.ptr[i], asked.ptr[i + 1]):
            out, owner, total = _part_word(world, asked, one, asked.words[t], strict, work, out, owner, total)
        ptr[i + 1] = total
    return ptr, out[:total].copy()


# ---- B-PART ------------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """Queries that are handled together, the one with the largest distance first."""

    group: NDArray[np.int64]  # queries alive for a group of subscriptions
    near: NDArray[np.float64]
    far: NDArray[np.float64]
    alive: NDArray[np.int64]  # queries alive for one subscription
    squared: NDArray[np.float64]
    limit: NDArray[np.float64]  # below this an object is closer
    missing: NDArray[np.int64]  # closer objects that are still to be found


@njit(cache=True)
def _need(asked, query):
    """So many objects of a set that queries share rule one out: it may hold the query's own object."""
    return asked.k[query] + (1 if asked.own[query] != NONE else 0)


@njit(cache=True)
def _bounds_of(asked, queries, near, far, begin, end):
    """Of the queries in begin..end: (least distance, widest reach, how large a set rules out all)."""
    axes = asked.points.shape[1]
    least, reach, need = np.inf, 0.0, 0
    for t in range(begin, end):
        i = queries[t]
        least = min(least, near[t])
        reach = max(reach, _reach_above(far[t], asked.delta[i], axes))
        need = max(need, _need(asked, i))
    return least, reach, need


@njit(cache=True)
def _sort_by_far(queries, near, far, end):
    """In place, the farthest first; stable."""
    for t in range(1, end):
        query, low, high = queries[t], near[t], far[t]
        at = t
        while at > 0 and far[at - 1] < high:
            queries[at], near[at], far[at] = queries[at - 1], near[at - 1], far[at - 1]
            at -= 1
        queries[at], near[at], far[at] = query, low, high


@njit(cache=True)
def _batch_candidates(
    trees, word, low, high, asked, queries, near, far, end, count, work, leaves, kept, least, reach, need
):
    """BatchGetCandidates (algorithm 5): as `_candidates`, for the queries before `end`, sorted by far.

    Returns (size of O+, leaves kept, first query that is not ruled out; `end` if all are).
    """
    first, before = 0, count
    root = _root(trees, word)
    if root == NONE:
        return count, kept, first
    size = _push(work.key, work.node, 0, 0.0, root)
    for _ in range(trees.meta.shape[0] + 1):
        if size == 0:
            break
        n = work.node[0]
        size = _drop_first(work.key, work.node, size)
        work.state[NODES] += 1
        if trees.meta[n, LEVEL] == 0:
            if kept == leaves.size:
                return count, TOO_MANY, first
            leaves[kept] = n
            kept += 1
            continue
        children = trees.meta[n, COUNT]
        _bound_children(trees.box[n], children, low, high, work.near, work.far)
        for j in range(children):
            if work.far[j] < least:
                count = _collect(trees, trees.child[n, j], NONE, need, count, work)
                if count >= need:
                    return count, kept, end
                continue
            # What this tree gave to O+ is disjoint from what lies below the child, what others gave may not.
            closer = max(count, count - before + trees.below[n, j])
            ruled_out = 0
            while first < end and work.far[j] < near[first] and closer >= _need(asked, queries[first]):
                first += 1
                ruled_out += 1
            if ruled_out > 0:
                least, reach, need = _bounds_of(asked, queries, near, far, first, end)
                if first == end or count >= need:
                    return count, kept, end
            if work.near[j] < reach:
                size = _push(work.key, work.node, size, work.near[j], trees.child[n, j])
    else:
        raise EndlessWalk("a tree has a ring")
    return count, kept, first


@njit(cache=True)
def _batch_matters(world, asked, subscription, word, batch, end, strict, count, kept, work):
    """BatchVerification (algorithm 6) of one subscription. Leaves those it matters to in front of
    `batch.alive`, and returns how many."""
    trees, place = world.trees, world.places[subscription]
    axes, alive, squared = place.size, batch.alive, batch.squared
    _begin_set(work, count)
    least, reach, need = _bounds_of(asked, alive, squared, squared, np.int64(0), end)
    mine = np.int64(0)
    for t in range(kept):
        n = work.leaves[t]
        near, far = _near_far(trees.mbr[n], place)
        if far < least:
            count = _collect(trees, n, NONE, need, count, work)
            if count >= need:
                return 0
        elif near < reach:
            work.own_leaves[mine] = n
            mine += 1
    words = world.words[subscription]
    first = np.int64(0)
    for column in range(words.size):
        if words[column] == NONE:
            break
        if words[column] == word and kept != TOO_MANY:
            continue
        least, reach, need = _bounds_of(asked, alive, squared, squared, first, end)
        if first > 0:
            for t in range(first, end):
                alive[t - first], squared[t - first] = alive[t], squared[t]
            end, first = end - first, np.int64(0)
        count, mine, first = _batch_candidates(
            trees, words[column], place, place, asked, alive, squared, squared, end, count, work,
            work.own_leaves, mine, least, reach, need,
        )
        if first == end:
            return 0
    left, reach = 0, 0.0
    epoch = work.state[EPOCH]
    for t in range(first, end):
        i = alive[t]
        missing = asked.k[i] - count
        if asked.own[i] != NONE and work.seen[asked.own[i]] == epoch:
            missing += 1
        if missing > 0:
            alive[left] = i
            batch.missing[left] = missing
            batch.limit[left] = squared[t] if strict else reach_of(squared[t], asked.delta[i], axes)
            reach = max(reach, batch.limit[left])
            left += 1
    for t in range(mine):
        n = work.own_leaves[t]
        children = trees.meta[n, COUNT]
        work.state[OBJECTS] += children
        _bound_children(trees.box[n], children, place, place, work.near, work.far)
        for j in range(children):
            child, distance = trees.child[n, j], work.near[j]
            if distance >= reach or work.seen[child] == epoch:
                continue
            work.seen[child] = epoch
            a = 0
            while a < left:
                if distance < batch.limit[a] and child != asked.own[alive[a]]:
                    batch.missing[a] -= 1
                if batch.missing[a] == 0:
                    left -= 1
                    alive[a], batch.missing[a] = alive[left], batch.missing[left]
                    batch.limit[a] = batch.limit[left]
                else:
                    a += 1
            if left == 0:
                return 0
    return left


@njit(cache=True)
def _batch_word(world, asked, members, word, strict, work, batch, out, owner, total):
    """Algorithm 4 for some queries and one keyword that they share."""
    groups, trees, axes = world.groups, world.trees, world.places.shape[1]
    root = _root(groups, word)
    size = 0
    if root != NONE:
        work.group_stack[0] = root
        size = 1
    for _ in range(groups.meta.shape[0] + 1):
        if size == 0:
            break
        size -= 1
        g = work.group_stack[size]
        subscriptions = groups.meta[g, COUNT]
        if groups.meta[g, LEVEL] > 0:
            for j in range(subscriptions):
                work.group_stack[size + j] = groups.child[g, j]
            size += subscriptions
            continue
        work.state[GROUPS] += 1
        mbr, end = groups.mbr[g], members.size
        for t in range(end):  # a fresh copy for each group
            batch.group[t] = members[t]
            batch.near[t], batch.far[t] = _near_far(mbr, asked.points[members[t]])
        _sort_by_far(batch.group, batch.near, batch.far, end)
        _begin_set(work, 0)
        least, reach, need = _bounds_of(asked, batch.group, batch.near, batch.far, np.int64(0), end)
        count, kept, first = _batch_candidates(
            trees, word, mbr[:axes], mbr[axes:], asked, batch.group, batch.near, batch.far, end, np.int64(0), work,
            work.leaves, np.int64(0), least, reach, need,
        )
        if first == end:
            continue
        out = _roomy(out, total + subscriptions * end)
        owner = _roomy(owner, total + subscriptions * end)
        for j in range(subscriptions):
            s = groups.child[g, j]
            alive = np.int64(0)
            for t in range(first, end):
                i = batch.group[t]
                if _first_shared(world.words[s], asked.words[asked.ptr[i] : asked.ptr[i + 1]], word):
                    batch.alive[alive] = i
                    batch.squared[alive] = _squared(world.places[s], asked.points[i])
                    alive += 1
            if alive == 0:
                continue
            work.state[SUBSCRIPTIONS] += 1
            _sort_by_far(batch.alive, batch.squared, batch.squared, alive)
            alive = _batch_matters(world, asked, s, word, batch, alive, strict, count, kept, work)
            for t in range(alive):
                out[total] = s
                owner[total] = batch.alive[t]
                total += 1
    else:
        raise EndlessWalk("a tree has a ring")
    return out, owner, total


@njit(cache=True)
def _clusters(points, queries, count_max, width_squared_max):
    """Which cluster each query goes to: the first that has room and does not become too wide. Returns
    (cluster per query, how many clusters)."""
    axes = points.shape[1]
    cluster = np.empty(queries.size, np.int64)
    boxes = np.empty((queries.size, 2 * axes))
    held = np.zeros(queries.size, np.int64)
    clusters = 0
    for t in range(queries.size):
        point = points[queries[t]]
        c = 0
        while c < clusters:
            width = 0.0
            for axis in range(axes):
                edge = max(boxes[c, axes + axis], point[axis]) - min(boxes[c, axis], point[axis])
                width += edge * edge
            if held[c] < count_max and width <= width_squared_max:
                break
            c += 1
        if c == clusters:
            clusters += 1
            boxes[c, :axes] = point
            boxes[c, axes:] = point
        for axis in range(axes):
            boxes[c, axis] = min(boxes[c, axis], point[axis])
            boxes[c, axes + axis] = max(boxes[c, axes + axis], point[axis])
        held[c] += 1
        cluster[t] = c
    return cluster, clusters


@njit(cache=True)
def batch_part(world, asked, words, word_ptr, by_word, count_max, spread, strict, work, batch):
    """B-PART: (ptr, subscription slots). The queries by_word[word_ptr[w]:word_ptr[w + 1]] have words[w].

    Queries of one keyword are handled together, at most `count_max` and as near to each other as `spread`
    times the typical group of that keyword is wide. Who is left alone is handled as by PART.
    """
    groups = world.groups
    axes = world.places.shape[1]
    out, owner = np.empty(256, np.int64), np.empty(256, np.int64)
    total = np.int64(0)
    for w in range(word_ptr.size - 1):
        queries = by_word[word_ptr[w] : word_ptr[w + 1]]
        word = words[w]
        root = _root(groups, word)
        if root == NONE:
            continue
        width = 0.0
        for axis in range(axes):
            edge = groups.mbr[root, axes + axis] - groups.mbr[root, axis]
            width += edge * edge
        width *= spread * spread / groups.leaves[word]
        cluster, clusters = _clusters(asked.points, queries, count_max, width)
        held = np.bincount(cluster, minlength=clusters)
        alone = queries[held[cluster] == 1]
        out, owner, total = _part_word(world, asked, alone, word, strict, work, out, owner, total)
        for c in np.flatnonzero(held > 1):
            members = queries[cluster == c]
            out, owner, total = _batch_word(
                world, asked, members, word, strict, work, batch, out, owner, total
            )
    ptr = np.zeros(asked.k.size + 1, np.int64)
    for t in range(total):
        ptr[owner[t] + 1] += 1
    for i in range(asked.k.size):
        ptr[i + 1] += ptr[i]
    sorted_out, cursor = np.empty(total, np.int64), ptr[:-1].copy()
    for t in range(total):
        sorted_out[cursor[owner[t]]] = out[t]
        cursor[owner[t]] += 1
    return ptr, sorted_out


# ---- the nearest objects of subscriptions ------------------------------------------------------------


@njit(cache=True)
def _insert_nearest(squared, slots, held, capacity, distance, slot):
    """Put an object among the nearest, in order; the last one falls off if there is no room. Returns held."""
    if held == capacity:
        if distance >= squared[held - 1]:
            return held
        held -= 1
    i = held
    while i > 0 and squared[i - 1] > distance:
        squared[i] = squared[i - 1]
        slots[i] = slots[i - 1]
        i -= 1
    squared[i] = distance
    slots[i] = slot
    return held + 1


@njit(cache=True)
def _nearest(trees, place, words, capacity, squared, slots, work):
    """Fill in the nearest relevant objects of a place with keywords, best node first. Returns how many."""
    _begin_set(work, 0)
    epoch = work.state[EPOCH]
    size, held = 0, 0
    for column in range(words.size):
        if words[column] == NONE:
            break
        root = _root(trees, words[column])
        if root != NONE:
            size = _push(work.key, work.node, size, 0.0, root)
    for _ in range(trees.meta.shape[0] + 1):
        if size == 0:
            break
        if held == capacity and work.key[0] >= squared[held - 1]:
            break
        n = work.node[0]
        size = _drop_first(work.key, work.node, size)
        work.state[NODES] += 1
        children = trees.meta[n, COUNT]
        _bound_children(trees.box[n], children, place, place, work.near, work.far)
        leaf = trees.meta[n, LEVEL] == 0
        if leaf:
            work.state[OBJECTS] += children
        for j in range(children):
            child, distance = trees.child[n, j], work.near[j]
            if held == capacity and distance >= squared[held - 1]:
                continue
            if not leaf:
                size = _push(work.key, work.node, size, distance, child)
            elif work.seen[child] != epoch:
                work.seen[child] = epoch
                held = _insert_nearest(squared, slots, held, capacity, distance, child)
    else:
        raise EndlessWalk("a tree has a ring")
    return held


@njit(cache=True)
def nearest(world, subscriptions, k, work):
    """Per subscription its k nearest relevant objects: (squared distances, slots); inf, NONE where fewer."""
    squared = np.full((subscriptions.size, k), np.inf)
    slots = np.full((subscriptions.size, k), NONE, np.int32)
    for i in range(subscriptions.size):
        s = subscriptions[i]
        _nearest(world.trees, world.places[s], world.words[s], k, squared[i], slots[i], work)
    return squared, slots
