"""Kernels that enter subscriptions into the tree and take them out; `htree_tree` says what the arrays mean.

`plan` has a row per level: attribute, segments, how many cells below a value's segment reach it (1 if cells
overlap, 0 if not), regular cells. A path has one byte per level: 0 is the special cell, 1 + i regular cell i.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.errors import EndlessWalk

# Columns of `plan`.
ATTRIBUTE, SEGMENTS, BACK, REGULAR = range(4)

# Words of `state`: sizes of the pools, heads of the free lists (0: empty), what is live, which of two trees this is.
NODE_WORDS, BUCKETS_USED, ENTRIES_USED, FREE_BUCKET, BUCKETS, ENTRIES, ENTRIES_WANTED, SIDE = range(8)
FREE_BLOCKS = 8  # one head per power of two
LEVELS = 40  # from here on two words per level: head of the free nodes, live nodes
BLOCK_CLASSES = LEVELS - FREE_BLOCKS

_LOOKED_AT = 4096  # buckets, when some slots are asked for

# Words of a node before its children: its parent, the word that points to it, how many children it has.
PARENT, UP, LIVE, CHILDREN = range(4)

# Columns of `buckets`.
START, COUNT, CLASS, BUCKET_PARENT, BUCKET_UP = range(5)


@njit(cache=True)
def walk(nodes, plan, path):
    """The bucket of a path, or -1."""
    at = nodes[0]
    for level in range(plan.shape[0]):
        if at == 0:
            return -1
        at = nodes[at + CHILDREN + path[level]]
    return at - 1


@njit(cache=True)
def enter(nodes, buckets, quick, owner, state, plan, where, paths, codes, slots, begin):
    """Enter from row `begin` on; returns the first row for which a pool has no room left.

    Rows of equal path that stand side by side are entered at once.
    """
    levels = plan.shape[0]
    room = levels * CHILDREN
    for level in range(levels):
        room += 1 + plan[level, REGULAR]
    i = begin
    while i < slots.size:
        run = 1
        while i + run < slots.size and _equal(paths[i], paths[i + run]):
            run += 1
        if state[NODE_WORDS] + room > nodes.size or state[BUCKETS_USED] >= buckets.shape[0]:
            return i
        bucket = walk(nodes, plan, paths[i])
        count = buckets[bucket, COUNT] if bucket >= 0 else 0
        if bucket < 0 or count + run > 1 << buckets[bucket, CLASS]:
            size = _class_of(count + run)
            block = _take_block(owner, state, size)
            if block < 0:
                state[ENTRIES_WANTED] = 1 << size
                return i
            if bucket < 0:
                bucket = _new_bucket(nodes, buckets, state, plan, paths[i])
            else:
                _move(buckets, quick, owner, state, bucket, block)
            buckets[bucket, START], buckets[bucket, CLASS] = block, size
        at = buckets[bucket, START] + count
        for r in range(run):
            quick[at + r], owner[at + r] = codes[i + r], slots[i + r]
            where[slots[i + r], 0], where[slots[i + r], 1] = 2 * bucket + state[SIDE], count + r
        buckets[bucket, COUNT] += run
        state[ENTRIES] += run
        i += run
    return i


@njit(cache=True)
def _equal(left, right):
    same = True
    for j in range(left.size):
        same &= left[j] == right[j]
    return same


@njit(cache=True)
def _class_of(count):
    size = 0
    while 1 << size < count:
        size += 1
    return size


@njit(cache=True)
def _take_block(owner, state, size):
    """A block of 2**size entries: a free one, or a new one, or -1."""
    head = state[FREE_BLOCKS + size]
    if head:
        state[FREE_BLOCKS + size] = owner[head - 1]
        return head - 1
    start = state[ENTRIES_USED]
    if start + (1 << size) > owner.size:
        return -1
    state[ENTRIES_USED] += 1 << size
    return start


@njit(cache=True)
def _free_block(buckets, owner, state, bucket):
    start, size = buckets[bucket, START], buckets[bucket, CLASS]
    owner[start] = state[FREE_BLOCKS + size]
    state[FREE_BLOCKS + size] = start + 1


@njit(cache=True)
def _move(buckets, quick, owner, state, bucket, block):
    start = buckets[bucket, START]
    for i in range(buckets[bucket, COUNT]):
        quick[block + i], owner[block + i] = quick[start + i], owner[start + i]
    _free_block(buckets, owner, state, bucket)


@njit(cache=True)
def _new_bucket(nodes, buckets, state, plan, path):
    """An empty bucket at the end of a path that has none; nodes on the way are made where they lack."""
    at, parent = 0, 0
    for level in range(plan.shape[0]):
        node = nodes[at]
        if node == 0:
            node = _new_node(nodes, state, level, plan[level, REGULAR] + 1)
            nodes[node + PARENT], nodes[node + UP] = parent, at
            nodes[at] = node
            if level:
                nodes[parent + LIVE] += 1
        parent, at = node, node + CHILDREN + path[level]
    if plan.shape[0]:
        nodes[parent + LIVE] += 1
    head = state[FREE_BUCKET]
    if head:
        bucket = head - 1
        state[FREE_BUCKET] = buckets[bucket, START]
    else:
        bucket = state[BUCKETS_USED]
        state[BUCKETS_USED] += 1
    nodes[at] = bucket + 1
    buckets[bucket, COUNT] = 0
    buckets[bucket, BUCKET_PARENT], buckets[bucket, BUCKET_UP] = parent, at
    state[BUCKETS] += 1
    return bucket


@njit(cache=True)
def _new_node(nodes, state, level, children):
    node = state[LEVELS + 2 * level]
    if node:
        state[LEVELS + 2 * level] = nodes[node + PARENT]
    else:
        node = state[NODE_WORDS]
        state[NODE_WORDS] += CHILDREN + children
    nodes[node + LIVE : node + CHILDREN + children] = 0
    state[LEVELS + 2 * level + 1] += 1
    return node


@njit(cache=True)
def last_slots(buckets, owner, left, out):
    """Slots of the last of the first `left` buckets; how many, and how many buckets may hold more.

    Few of the buckets are looked at in one call, so there may be none though the tree is not empty.
    """
    count = 0
    end = max(left - _LOOKED_AT, 0)
    for bucket in range(left - 1, end - 1, -1):
        begin = buckets[bucket, START]
        for i in range(buckets[bucket, COUNT]):
            if count == out.size:
                return count, bucket + 1
            out[count] = owner[begin + i]
            count += 1
    return count, end


@njit(cache=True)
def remove(nodes, buckets, quick, owner, state, where, slots):
    """Take out slots that stand in one bucket each, by the place stored when they were entered."""
    for i in range(slots.size):
        bucket = where[slots[i], 0] >> 1
        _drop(nodes, buckets, quick, owner, state, where, bucket, buckets[bucket, START] + where[slots[i], 1])


@njit(cache=True)
def remove_paths(nodes, buckets, quick, owner, state, plan, where, paths, slots):
    """Take a slot out of the bucket of each path."""
    for i in range(slots.size):
        bucket = walk(nodes, plan, paths[i])
        begin = np.int64(buckets[bucket, START])
        for at in range(begin, begin + buckets[bucket, COUNT]):
            if owner[at] == slots[i]:
                _drop(nodes, buckets, quick, owner, state, where, bucket, np.int64(at))
                break
        else:
            raise EndlessWalk("a subscription is not in the bucket of its path")


@njit(cache=True)
def _drop(nodes, buckets, quick, owner, state, where, bucket, at):
    last = buckets[bucket, START] + buckets[bucket, COUNT] - 1
    quick[at], owner[at] = quick[last], owner[last]
    where[owner[at], 1] = at - buckets[bucket, START]
    buckets[bucket, COUNT] -= 1
    state[ENTRIES] -= 1
    if buckets[bucket, COUNT] > 0:
        return
    _free_block(buckets, owner, state, bucket)
    node, up = np.int64(buckets[bucket, BUCKET_PARENT]), np.int64(buckets[bucket, BUCKET_UP])
    buckets[bucket, START] = state[FREE_BUCKET]
    state[FREE_BUCKET] = bucket + 1
    state[BUCKETS] -= 1
    nodes[up] = 0
    for level in range((state.size - LEVELS) // 2 - 1, -1, -1):
        nodes[node + LIVE] -= 1
        if nodes[node + LIVE] > 0:
            return
        up, parent = np.int64(nodes[node + UP]), np.int64(nodes[node + PARENT])
        nodes[node + PARENT] = state[LEVELS + 2 * level]
        state[LEVELS + 2 * level] = node
        state[LEVELS + 2 * level + 1] -= 1
        nodes[up] = 0
        node = parent
