"""The kernels of the trie: filters held once each, a table of whole filters, a tree of those with wildcards.

**Entries.** However many ids have a filter, it has one entry, a row of 64 bytes: where its levels and its ids lie.
`table` finds an entry by the hash of all its levels. A name is looked up there like a filter, and finds the filter
without wildcards that it is.

**Ids** of an entry lie ascending in a block, so that a hot filter is answered by a copy. An id that is removed stays as
its complement, below 0, until these are more than half: both changes cost O(log ids), and seldom O(ids). An only id
lies in the entry itself.

**Nodes** are where filters with wildcards part. A node leads on by `+`, by `#`, by the end, and by words, to *refs*:
above 0 a node, below 0 the complement of an entry that is alone from there on and has the rest of its levels compared,
0 nothing. A node has two ways at least, but for the root; levels that all below it share, its *stem*, are its own and
are compared on arrival. So there are fewer nodes than filters. Of its ways by words a node knows how many they are, and
the exclusive or of their words and of their refs: an only one is in the node itself. Where there are more, `edge` finds
each by node and word. So when an entry goes, its node knows without a search what is left.

**Names** are asked in blocks, a node of each at a time: the memory that one name waits for is asked for while others
are looked at. A name that meets very many nodes has all filters with wildcards compared instead, and if most of a block
do, so have the names of the next blocks from the start, until a block is tried again. That changes no answer.

Nothing here grows: changes stop where an array may have no room, say which, and are called again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import EndlessWalk
from brokers.indexes.intrinsics import prefetch
from brokers.indexes.topics.level_kernels import depth_of, order
from brokers.indexes.topics.syntax import DOLLAR, HASH, PADDING, PLUS

HASHED, LEVELS, SHAPE, IDS, ROOM, USED, LIVE, ONLY = range(8)  # columns of an entry
BY_PLUS, BY_HASH, BY_END, WORDS, WORD, REF, STEM, LENGTH = range(8)  # columns of a node
(
    ENTRIES, ENTRIES_TOP, ENTRY_FREE, WILD, NODES, NODES_TOP, NODE_FREE, EDGES, DEEPEST, VISITED, VERIFIED, PATIENCE,
) = range(12)  # what `counts` counts  # fmt: skip
DONE, NO_ENTRY, NO_LEVELS, NO_IDS, NO_NODE, NO_EDGE, NO_PLACE = range(7)  # what a change stopped for

ROOT, NOTHING, NEVER = 0, 0, -1
END = PADDING  # the word by which a filter ends; it, `PLUS` and `HASH` are columns of a node: -1 - word
CLASSES = 40  # sizes of blocks: powers of two

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SHIFT, _HALF = np.uint64(29), np.uint64(32)
_LOWER = (1 << 32) - 1
_BLOCK = 256  # names asked together
_NODES_MOST = 8  # a name that meets more than one node in so many filters with wildcards has them all compared
_NODES_FREE = 64  # but for so many nodes
_BLOCKS_COMPARED = 16  # how many blocks have all compared after one in which most names had


class Arrays(NamedTuple):
    """All that a trie is made of."""

    table: NDArray[np.int64]  # by hash: its upper half, and the number of an entry plus one
    entry: NDArray[np.int64]
    levels: NDArray[np.int32]
    level_blocks: NDArray[np.int64]  # where the blocks that were never taken begin; free blocks by class
    ids: NDArray[np.int64]
    id_blocks: NDArray[np.int64]
    node: NDArray[np.int32]
    edge: NDArray[np.int64]  # by node and word: both in one number, then the ref
    counts: NDArray[np.int64]


# ---- blocks ------------------------------------------------------------------------------------------


@njit(inline="always")
def _class_of(size):
    """The smallest power of two that is not less."""
    power = 0
    for _ in range(CLASSES):
        if size <= 1 << power:
            break
        power += 1
    return power


@njit(inline="always")
def _take_block(data, blocks, power):
    """Where a block of this class begins that nobody has; -1 if there is no room."""
    start = blocks[1 + power]
    if start >= 0:
        blocks[1 + power] = data[start]
        return start
    start = blocks[0]
    if start + (1 << power) > data.size:
        return np.int64(-1)
    blocks[0] = start + (1 << power)
    return start


@njit(inline="always")
def _give_block(data, blocks, start, power):
    data[start] = blocks[1 + power]
    blocks[1 + power] = start


@njit(inline="always")
def _cut_block(data, blocks, start, power, smaller):
    """Give back all of a block but its beginning."""
    for size in range(smaller, power):
        _give_block(data, blocks, start + (1 << size), size)


# ---- the ids of an entry -----------------------------------------------------------------------------


@njit(inline="always")
def _plain(cell):
    """The id of a cell, whether it is there or gone."""
    return cell ^ (cell >> 63)


@njit(inline="always")
def _lower_bound(ids, start, end, id_):
    """The first cell of ids[start:end] whose id is not less."""
    low, high = start, end
    while low < high:
        middle = (low + high) >> 1
        if _plain(ids[middle]) < id_:
            low = middle + 1
        else:
            high = middle
    return low


@njit(inline="always")
def _room_for(live):
    """Room for so many ids and half as many more."""
    return np.int64(1 << _class_of(live + live // 2 + 1))


@njit(cache=True)
def _move_ids(a, entry, room):
    """Have the ids that are there, and no others, in a block with this room (0: in the entry); False without room."""
    old, had, used = a.entry[entry, IDS], a.entry[entry, ROOM], a.entry[entry, USED]
    start = np.int64(0)
    if room:
        start = _take_block(a.ids, a.id_blocks, _class_of(room))
        if start < 0:
            return False
    at = start
    if had == 0 and a.entry[entry, LIVE]:
        a.ids[at] = a.entry[entry, ONLY]
        at += 1
    for cell in range(old, old + used):
        if a.ids[cell] >= 0:
            if room:
                a.ids[at] = a.ids[cell]
            else:
                a.entry[entry, ONLY] = a.ids[cell]
            at += 1
    if had:
        _give_block(a.ids, a.id_blocks, old, _class_of(had))
    a.entry[entry, IDS], a.entry[entry, ROOM] = start, room
    a.entry[entry, USED] = at - start if room else 0
    return True


@njit(cache=True)
def _add_id(a, entry, id_):
    """False if there is no room, and nothing has changed."""
    row = a.entry[entry]
    if row[ROOM] == 0 and row[LIVE] == 0:
        row[ONLY], row[LIVE] = id_, 1
        return True
    start, end = row[IDS], row[IDS] + row[USED]
    at = end
    if row[ROOM] and _plain(a.ids[end - 1]) >= id_:
        at = _lower_bound(a.ids, start, end, id_)
        gone = at if a.ids[at] == ~id_ else at - 1
        if gone >= start and a.ids[gone] < 0:
            a.ids[gone] = id_
            row[LIVE] += 1
            return True
    if row[USED] == row[ROOM]:
        if not _move_ids(a, entry, _room_for(row[LIVE])):
            return False
        start, end = row[IDS], row[IDS] + row[USED]
        at = _lower_bound(a.ids, start, end, id_)
    for cell in range(end, at, -1):
        a.ids[cell] = a.ids[cell - 1]
    a.ids[at] = id_
    row[USED] += 1
    row[LIVE] += 1
    return True


@njit(cache=True)
def _remove_id(a, entry, id_):
    row = a.entry[entry]
    row[LIVE] -= 1
    if row[ROOM] == 0:
        return
    cell = _lower_bound(a.ids, row[IDS], row[IDS] + row[USED], id_)
    a.ids[cell] = ~id_
    if row[LIVE] <= 1:
        _move_ids(a, entry, 0)
    elif 2 * row[LIVE] < row[USED]:
        _move_ids(a, entry, _room_for(row[LIVE]))


# ---- the table of whole filters ----------------------------------------------------------------------


@njit(inline="always")
def _hash_of(rows, i, depth):
    hashed = np.uint64(depth)
    for j in range(depth):
        hashed = (hashed ^ np.uint64(np.int64(rows[i, j]) + 4)) * _GOLDEN
        hashed ^= hashed >> _SHIFT
    return np.int64(hashed ^ (hashed >> _HALF))


@njit(inline="always")
def _shape_of(rows, i, depth):
    """How deep a row is, and whether it has wildcards."""
    wild = False
    for j in range(depth):
        wild |= rows[i, j] < 0
    return np.int64(2 * depth + wild)


@njit(inline="always")
def _is(entries, levels, entry, rows, i, shape):
    """Whether the levels of a row are the entry's."""
    if entries[entry, SHAPE] != shape:
        return False
    start, depth, agreed = entries[entry, LEVELS], shape >> 1, 0
    while agreed < depth and levels[start + agreed] == rows[i, agreed]:
        agreed += 1
    return agreed == depth


@njit(inline="always")
def _entry_of(table, entries, levels, rows, i, shape, hashed):
    """The entry with the levels of a row; -1 if there is none."""
    mask = table.size - 1
    place = hashed & mask
    for _ in range(table.size):
        found = table[place]
        if found == 0:
            return np.int64(-1)
        entry = (found & _LOWER) - 1
        if found >> 32 == hashed >> 32 and _is(entries, levels, entry, rows, i, shape):
            return entry
        place = (place + 1) & mask
    raise EndlessWalk("a table of filters is full")


@njit(inline="always")
def _list_entry(table, hashed, entry):
    mask = table.size - 1
    place = hashed & mask
    for _ in range(table.size):
        if table[place] == 0:
            break
        place = (place + 1) & mask
    else:
        raise EndlessWalk("a table of filters is full")
    table[place] = (hashed >> 32) << 32 | (entry + 1)


@njit(cache=True)
def list_all(a, table):
    """Enter all entries in a table that is empty."""
    for entry in range(a.counts[ENTRIES_TOP]):
        if a.entry[entry, SHAPE]:
            _list_entry(table, a.entry[entry, HASHED], entry)


@njit(cache=True)
def _unlist_entry(a, entry):
    mask = a.table.size - 1
    hole = a.entry[entry, HASHED] & mask
    for _ in range(a.table.size):
        if (a.table[hole] & _LOWER) - 1 == entry:
            break
        hole = (hole + 1) & mask
    else:
        raise EndlessWalk("an entry to remove is not in its table")
    place = (hole + 1) & mask
    for _ in range(a.table.size):
        if a.table[place] == 0:
            break
        home = a.entry[(a.table[place] & _LOWER) - 1, HASHED] & mask
        if ((place - home) & mask) >= ((place - hole) & mask):
            a.table[hole] = a.table[place]
            hole = place
        place = (place + 1) & mask
    else:
        raise EndlessWalk("a table of filters is full")
    a.table[hole] = 0


# ---- the children of a node by words -----------------------------------------------------------------


@njit(inline="always")
def _key(node, word):
    return np.int64(node) << 32 | np.int64(word)


@njit(inline="always")
def _home(key, mask):
    return np.int64((np.uint64(key ^ (key >> 21)) * _GOLDEN) >> _HALF) & mask


@njit(inline="always")
def _edge_place(edge, key):
    """The place of an edge, or the empty one where it would be."""
    mask = edge.shape[0] - 1
    place = _home(key, mask)
    for _ in range(edge.shape[0]):
        if edge[place, 0] == key or edge[place, 0] == NEVER:
            return place
        place = (place + 1) & mask
    raise EndlessWalk("a table of edges is full")


@njit(inline="always")
def _put_edge(a, node, word, ref):
    place = _edge_place(a.edge, _key(node, word))
    if a.edge[place, 0] == NEVER:
        a.counts[EDGES] += 1
    a.edge[place, 0], a.edge[place, 1] = _key(node, word), ref


@njit(cache=True)
def put_edges(old, edge):
    """Enter all edges in a table that is empty."""
    for i in range(old.shape[0]):
        if old[i, 0] != NEVER:
            place = _edge_place(edge, old[i, 0])
            edge[place, 0], edge[place, 1] = old[i, 0], old[i, 1]


@njit(cache=True)
def _drop_edge(a, node, word):
    edge = a.edge
    mask = edge.shape[0] - 1
    hole = _edge_place(edge, _key(node, word))
    a.counts[EDGES] -= 1
    place = (hole + 1) & mask
    for _ in range(edge.shape[0]):
        if edge[place, 0] == NEVER:
            break
        home = _home(edge[place, 0], mask)
        if ((place - home) & mask) >= ((place - hole) & mask):
            edge[hole, 0], edge[hole, 1] = edge[place, 0], edge[place, 1]
            hole = place
        place = (place + 1) & mask
    else:
        raise EndlessWalk("a table of edges is full")
    edge[hole, 0] = NEVER


@njit(cache=True)
def _lead(a, node, word):
    """The ref by a word, a wildcard or the end."""
    if word < 0:
        return np.int64(a.node[node, -1 - word])
    if a.node[node, WORDS] < 2:
        return np.int64(a.node[node, REF]) if a.node[node, WORD] == word else np.int64(NOTHING)
    place = _edge_place(a.edge, _key(node, word))
    return a.edge[place, 1] if a.edge[place, 0] != NEVER else np.int64(NOTHING)


@njit(cache=True)
def _set_lead(a, node, word, ref):
    """Lead to something by a word, a wildcard or the end, or to nothing."""
    if word < 0:
        a.node[node, -1 - word] = ref
        return
    row, before = a.node[node], _lead(a, node, word)
    if before == NOTHING:
        if row[WORDS] == 1:
            _put_edge(a, node, row[WORD], row[REF])
        if row[WORDS]:
            _put_edge(a, node, word, ref)
        row[WORDS] += 1
        row[WORD] ^= np.int32(word)
    elif ref == NOTHING:
        if row[WORDS] > 1:
            _drop_edge(a, node, word)
        row[WORDS] -= 1
        row[WORD] ^= np.int32(word)
        if row[WORDS] == 1:
            _drop_edge(a, node, row[WORD])
    elif row[WORDS] > 1:
        _put_edge(a, node, word, ref)
    row[REF] ^= np.int32(before) ^ np.int32(ref)


# ---- nodes -------------------------------------------------------------------------------------------


@njit(inline="always")
def _word_of(a, entry, level):
    """By what an entry goes on at this level."""
    if level == a.entry[entry, SHAPE] >> 1:
        return np.int64(END)
    return np.int64(a.levels[a.entry[entry, LEVELS] + level])


@njit(cache=True)
def _new_node(a, start, length):
    """A node that leads nowhere yet; its stem is a copy of these levels."""
    node = a.counts[NODE_FREE]
    if node >= 0:
        a.counts[NODE_FREE] = a.node[node, REF]
    else:
        node = a.counts[NODES_TOP]
        a.counts[NODES_TOP] += 1
    a.counts[NODES] += 1
    a.node[node, :] = 0
    if length:
        stem = _take_block(a.levels, a.level_blocks, _class_of(length))
        for j in range(length):
            a.levels[stem + j] = a.levels[start + j]
        a.node[node, STEM], a.node[node, LENGTH] = stem, length
    return node


@njit(inline="always")
def _give_node(a, node):
    if a.node[node, LENGTH]:
        _give_block(a.levels, a.level_blocks, np.int64(a.node[node, STEM]), _class_of(a.node[node, LENGTH]))
    a.node[node, REF] = a.counts[NODE_FREE]
    a.counts[NODE_FREE] = node
    a.counts[NODES] -= 1


@njit(inline="always")
def _shared(a, entry, level, start, length):
    """How many of these levels the entry has too from this level on. `#` is never shared, since nothing follows it."""
    there = min(length, (a.entry[entry, SHAPE] >> 1) - level)
    own, shared = a.entry[entry, LEVELS] + level, 0
    while shared < there and a.levels[own + shared] == a.levels[start + shared]:
        shared += 1
    return shared


@njit(inline="always")
def _part_from_entry(a, entry, level, other):
    """A node where two entries part that are the same up to a level; it leads to the other one."""
    start, length = a.entry[other, LEVELS] + level, (a.entry[other, SHAPE] >> 1) - level
    shared = _shared(a, entry, level, start, length)
    node = _new_node(a, start, shared)
    _set_lead(a, node, _word_of(a, other, level + shared), ~other)
    return node


@njit(inline="always")
def _part_from_stem(a, lower, shared):
    """A node in the stem of another, where so many of its levels are shared; it leads to the other one."""
    stem, length = np.int64(a.node[lower, STEM]), np.int64(a.node[lower, LENGTH])
    node = _new_node(a, stem, shared)
    _set_lead(a, node, np.int64(a.levels[stem + shared]), lower)
    left = length - shared - 1
    for j in range(left):
        a.levels[stem + j] = a.levels[stem + shared + 1 + j]
    a.node[lower, LENGTH] = left
    if left:
        _cut_block(a.levels, a.level_blocks, stem, _class_of(length), _class_of(left))
    else:
        _give_block(a.levels, a.level_blocks, stem, _class_of(length))
    return node


@njit(cache=True)
def _hang(a, entry):
    """Have the tree lead to a new entry. O(depth)."""
    node, level = np.int64(ROOT), np.int64(0)
    for _ in range(a.entry[entry, SHAPE]):
        word = _word_of(a, entry, level)
        ref = _lead(a, node, word)
        level += 1
        if ref == NOTHING:
            _set_lead(a, node, word, ~entry)
            return
        below = ref
        if ref < 0:
            below = _part_from_entry(a, entry, level, ~ref)
        else:
            shared = _shared(a, entry, level, np.int64(a.node[ref, STEM]), np.int64(a.node[ref, LENGTH]))
            if shared < a.node[ref, LENGTH]:
                below = _part_from_stem(a, ref, shared)
        if below != ref:
            _set_lead(a, node, word, below)
        node = below
        level += a.node[node, LENGTH]
    raise EndlessWalk("a filter is deeper in the tree than it has levels")


@njit(inline="always")
def _way_left(a, node):
    """The only word by which a node leads on; `END - 1` if there are more."""
    row = a.node[node]
    ways = (row[BY_PLUS] != 0) + (row[BY_HASH] != 0) + (row[BY_END] != 0) + row[WORDS]
    if ways != 1:
        return np.int64(END - 1)
    if row[WORDS]:
        return np.int64(row[WORD])
    return np.int64(PLUS if row[BY_PLUS] else HASH if row[BY_HASH] else END)


@njit(inline="always")
def _join_stems(a, upper, word, lower):
    """The lower node gets the stem of the upper one and the word between them before its own."""
    above, below = np.int64(a.node[upper, LENGTH]), np.int64(a.node[lower, LENGTH])
    start, old = np.int64(a.node[upper, STEM]), np.int64(a.node[lower, STEM])
    stem = _take_block(a.levels, a.level_blocks, _class_of(above + 1 + below))
    for j in range(above):
        a.levels[stem + j] = a.levels[start + j]
    a.levels[stem + above] = word
    for j in range(below):
        a.levels[stem + above + 1 + j] = a.levels[old + j]
    if below:
        _give_block(a.levels, a.level_blocks, old, _class_of(below))
    a.node[lower, STEM], a.node[lower, LENGTH] = stem, above + 1 + below


@njit(cache=True)
def _unhang(a, entry):
    """Have the tree lead to an entry no more; a node with one way left goes too. O(depth)."""
    above, above_word = np.int64(ROOT), np.int64(0)
    node, level, word = np.int64(ROOT), np.int64(0), _word_of(a, entry, 0)
    for _ in range(a.entry[entry, SHAPE]):
        ref = _lead(a, node, word)
        if ref <= 0:
            break
        above, above_word, node = node, word, ref
        level += 1 + a.node[node, LENGTH]
        word = _word_of(a, entry, level)
    if _lead(a, node, word) != ~entry:
        raise EndlessWalk("an entry to remove is not in the tree")
    _set_lead(a, node, word, NOTHING)
    left = _way_left(a, node)
    if node == ROOT or left < END:
        return
    ref = _lead(a, node, left)
    if ref > 0:
        _join_stems(a, node, left, ref)
    _set_lead(a, above, above_word, ref)
    _give_node(a, node)


# ---- changes -----------------------------------------------------------------------------------------


@njit(inline="always")
def _lacks(a, depth):
    """What may have no room for one filter more."""
    if a.counts[ENTRY_FREE] < 0 and a.counts[ENTRIES_TOP] >= a.entry.shape[0]:
        return NO_ENTRY
    if 5 * (a.counts[ENTRIES] + 1) > 3 * a.table.size:
        return NO_PLACE
    if a.level_blocks[0] + (2 << _class_of(depth)) > a.levels.size:
        return NO_LEVELS
    if a.counts[NODE_FREE] < 0 and a.counts[NODES_TOP] >= a.node.shape[0]:
        return NO_NODE
    if 5 * (a.counts[EDGES] + 4) > 3 * a.edge.shape[0]:
        return NO_EDGE
    return DONE


@njit(cache=True)
def _new_entry(a, rows, i, shape, hashed):
    entry, depth = a.counts[ENTRY_FREE], shape >> 1
    if entry >= 0:
        a.counts[ENTRY_FREE] = a.entry[entry, ONLY]
    else:
        entry = a.counts[ENTRIES_TOP]
        a.counts[ENTRIES_TOP] += 1
    a.counts[ENTRIES] += 1
    a.counts[DEEPEST] = max(a.counts[DEEPEST], depth)
    start = _take_block(a.levels, a.level_blocks, _class_of(depth))
    for j in range(depth):
        a.levels[start + j] = rows[i, j]
    a.entry[entry, :] = 0
    a.entry[entry, HASHED], a.entry[entry, LEVELS], a.entry[entry, SHAPE] = hashed, start, shape
    _list_entry(a.table, hashed, entry)
    if shape & 1:
        a.counts[WILD] += 1
        _hang(a, entry)
    return entry


@njit(cache=True)
def _drop_entry(a, entry):
    if a.entry[entry, SHAPE] & 1:
        a.counts[WILD] -= 1
        _unhang(a, entry)
    _unlist_entry(a, entry)
    _give_block(a.levels, a.level_blocks, a.entry[entry, LEVELS], _class_of(a.entry[entry, SHAPE] >> 1))
    a.entry[entry, SHAPE] = 0
    a.entry[entry, ONLY] = a.counts[ENTRY_FREE]
    a.counts[ENTRY_FREE] = entry
    a.counts[ENTRIES] -= 1


@njit(cache=True)
def insert(a, rows, ids, entries, first):
    """Add filters from the `first` on, until something may have no room: (how far, what). Entries go to `entries`."""
    for i in range(first, ids.size):
        depth = depth_of(rows[i])
        shape, hashed = _shape_of(rows, i, depth), _hash_of(rows, i, depth)
        entry = _entry_of(a.table, a.entry, a.levels, rows, i, shape, hashed)
        if entry < 0:
            lacks = _lacks(a, depth)
            if lacks != DONE:
                return i, lacks
            entry = _new_entry(a, rows, i, shape, hashed)
        if not _add_id(a, entry, ids[i]):
            return i, NO_IDS
        entries[i] = entry
    return ids.size, DONE


@njit(cache=True)
def delete(a, ids, entries, first):
    """Remove ids from the `first` on from the entries that they have, until something may have no room, as `insert`."""
    for i in range(first, ids.size):
        if a.level_blocks[0] + (1 << _class_of(a.counts[DEEPEST])) > a.levels.size:
            return i, NO_LEVELS
        if a.id_blocks[0] + a.entry[entries[i], ROOM] > a.ids.size:
            return i, NO_IDS
        _remove_id(a, entries[i], ids[i])
        if a.entry[entries[i], LIVE] == 0:
            _drop_entry(a, entries[i])
    return ids.size, DONE


# ---- names -------------------------------------------------------------------------------------------


@njit(cache=True)
def match(a, names, mqtt):
    """(ptr, ids): the ids of each name, ascending."""
    a.counts[VISITED] = a.counts[VERIFIED] = 0
    count = names.shape[0]
    block = min(count, _BLOCK)
    ptr, found = np.zeros(count + 1, np.int64), np.empty(2 * count, np.int64)
    depth, total = np.empty(block, np.int64), np.empty(block, np.int64)
    pairs, spare = np.empty((4 * block, 2), np.int32), np.empty(0, np.int64)
    for first in range(0, count, _BLOCK):
        part = names[first : first + _BLOCK]
        for i in range(part.shape[0]):
            depth[i] = depth_of(part[i])
        used = _whole_names(a.table, a.entry, a.levels, part, depth, pairs)
        if a.counts[WILD]:
            pairs, used = _wildcards(a, part, depth, mqtt, pairs, used)
        found = _collect(a.entry, a.ids, pairs, used, ptr, first, part.shape[0], total, found)
        for i in range(first, first + part.shape[0]):
            for at in range(ptr[i] + 1, ptr[i + 1]):
                if found[at] < found[at - 1]:
                    if spare.size < ptr[i + 1] - ptr[i]:
                        spare = np.empty(ptr[i + 1] - ptr[i], np.int64)
                    order(found, ptr[i], ptr[i + 1], spare)
                    break
    return ptr, found[: ptr[count]]


@njit(cache=True)
def _whole_names(table, entries, levels, names, depth, pairs):
    """Pairs of a name and the entry that is this name."""
    hashed = np.empty(names.shape[0], np.int64)
    mask = table.size - 1
    for i in range(names.shape[0]):
        hashed[i] = _hash_of(names, i, depth[i])
        prefetch(table, hashed[i] & mask)  # type: ignore[call-arg]
    for i in range(names.shape[0]):
        likely = table[hashed[i] & mask]
        if likely:
            prefetch(entries, 8 * ((likely & _LOWER) - 1))  # type: ignore[call-arg]
    used = 0
    for i in range(names.shape[0]):
        entry = _entry_of(table, entries, levels, names, i, 2 * depth[i], hashed[i])
        if entry >= 0:
            pairs[used, 0], pairs[used, 1] = i, entry
            used += 1
    return used


@njit(inline="always")
def _wildcards(a, names, depth, mqtt, pairs, used):
    """Pairs of a name and an entry with wildcards that has it, by the tree or by comparing all."""
    size = names.shape[0]
    visits = np.zeros(size, np.int64)
    most = max(a.counts[WILD] // _NODES_MOST, _NODES_FREE)
    if a.counts[PATIENCE] > 0:
        a.counts[PATIENCE] -= 1
        visits[:] = most + 1
    else:
        before = used
        pairs, used = _walk(
            a.entry, a.levels, a.node, a.edge, a.counts, names, depth, mqtt, visits, most, pairs, used
        )
        heavy = 0
        for i in range(size):
            heavy += visits[i] > most
        if heavy == 0:
            return pairs, used
        if 2 * heavy > size:
            a.counts[PATIENCE] = _BLOCKS_COMPARED
        used = _without(pairs, before, used, visits, most)
    return _compare_all(a.entry, a.levels, a.counts, names, depth, mqtt, visits, most, pairs, used)


@njit(inline="always")
def _without(pairs, before, used, visits, most):
    """Take the pairs of names that met too many nodes out of those that the tree gave."""
    kept = before
    for k in range(before, used):
        if visits[pairs[k, 0]] <= most:
            pairs[kept, 0], pairs[kept, 1] = pairs[k, 0], pairs[k, 1]
            kept += 1
    return kept


@njit(inline="always")
def _with_room(rows, used, more):
    """The rows, or a longer array that begins with those that are used."""
    if used + more <= rows.shape[0]:
        return rows
    longer = np.empty((2 * (used + more), rows.shape[1]), np.int32)
    longer[:used] = rows[:used]
    return longer


@njit(inline="always")
def _agrees(levels, start, length, names, name, level):
    """Whether a name has these levels, of which none is `#`, from a level on; it is deep enough."""
    j = 0
    while j + 8 <= length:  # without a branch for each, so that the processor takes them side by side
        differs = False
        for k in range(8):
            word = levels[start + j + k]
            differs |= (word != PLUS) & (word != names[name, level + j + k])
        if differs:
            return False
        j += 8
    while j < length:
        word = levels[start + j]
        if (word != PLUS) & (word != names[name, level + j]):
            return False
        j += 1
    return True


@njit(inline="always")
def _has(entries, levels, entry, level, names, name, depth, mqtt):
    """Whether an entry with wildcards has a name, where the levels before this one agree."""
    start, size = entries[entry, LEVELS], entries[entry, SHAPE] >> 1
    if levels[start + size - 1] == HASH:
        least = size - 1 if mqtt else size
        return depth >= least and _agrees(levels, start + level, size - 1 - level, names, name, level)
    return depth == size and _agrees(levels, start + level, size - level, names, name, level)


@njit(inline="always")
def _follow(entries, nodes, name, ref, level, ahead, reached, alone, left):
    """Go on with a ref in the next turn, or compare the entry that is alone."""
    if ref > 0:
        ahead[reached, 0], ahead[reached, 1], ahead[reached, 2] = name, ref, level
        prefetch(nodes, 8 * ref)  # type: ignore[call-arg]
        return reached + 1, left
    if ref < 0:
        alone[left, 0], alone[left, 1], alone[left, 2] = name, ~ref, level
        prefetch(entries, 8 * ~ref)  # type: ignore[call-arg]
        return reached, left + 1
    return reached, left


@njit(cache=True)
def _walk(entries, levels, nodes, edges, counts, names, depth, mqtt, visits, most, pairs, used):
    """Pairs by the tree, a node further for all names in each turn; names with too many `visits` are left."""
    size = names.shape[0]
    here, ahead = np.empty((2 * size, 3), np.int32), np.empty((2 * size, 3), np.int32)
    alone, asked = np.empty((2 * size, 3), np.int32), np.empty((size, 3), np.int32)
    for i in range(size):
        here[i, 0], here[i, 1], here[i, 2] = i, ROOT, 0
    for _ in range(names.shape[1] + 1):
        if size == 0:
            break
        ahead, alone = _with_room(ahead, 0, 2 * size), _with_room(alone, 0, 2 * size)
        asked, pairs = _with_room(asked, 0, size), _with_room(pairs, used, 4 * size)
        reached = left = questions = 0
        counts[VISITED] += size
        for k in range(size):
            name, node, level = here[k, 0], here[k, 1], here[k, 2]
            visits[name] += 1
            if visits[name] > most:
                continue
            length = nodes[node, LENGTH]
            if length:
                if level + length > depth[name] or not _agrees(
                    levels, np.int64(nodes[node, STEM]), length, names, name, level
                ):
                    continue
                level += length
            ends = level == depth[name]
            barred = mqtt and node == ROOT and (names[name, 0] & DOLLAR) != 0
            if not barred:
                ref = nodes[node, BY_HASH]
                if ref and (mqtt or not ends):
                    pairs[used, 0], pairs[used, 1] = name, ~ref
                    used += 1
            if ends:
                ref = nodes[node, BY_END]
                if ref:
                    pairs[used, 0], pairs[used, 1] = name, ~ref
                    used += 1
                continue
            if not barred:
                ref = nodes[node, BY_PLUS]
                reached, left = _follow(entries, nodes, name, ref, level + 1, ahead, reached, alone, left)
            words = nodes[node, WORDS]
            if words == 1:
                if nodes[node, WORD] == names[name, level]:
                    ref = nodes[node, REF]
                    reached, left = _follow(entries, nodes, name, ref, level + 1, ahead, reached, alone, left)
            elif words:
                asked[questions, 0], asked[questions, 1], asked[questions, 2] = name, node, level
                prefetch(  # type: ignore[call-arg]
                    edges, 2 * _home(_key(node, names[name, level]), edges.shape[0] - 1)
                )
                questions += 1
        for k in range(questions):
            name, level = asked[k, 0], asked[k, 2]
            place = _edge_place(edges, _key(asked[k, 1], names[name, level]))
            if edges[place, 0] != NEVER:
                reached, left = _follow(entries, nodes, name, edges[place, 1], level + 1, ahead, reached, alone, left)
        used = _compare(entries, levels, counts, names, depth, mqtt, alone, left, pairs, used)
        here, ahead, size = ahead, here, reached
    return pairs, used


@njit(inline="always")
def _compare(entries, levels, counts, names, depth, mqtt, alone, left, pairs, used):
    """Pairs of those whose other levels agree as well."""
    for k in range(left):
        prefetch(levels, entries[alone[k, 1], LEVELS] + alone[k, 2])  # type: ignore[call-arg]
    for k in range(left):
        name, entry = alone[k, 0], alone[k, 1]
        if _has(entries, levels, entry, alone[k, 2], names, name, depth[name], mqtt):
            pairs[used, 0], pairs[used, 1] = name, entry
            used += 1
    counts[VERIFIED] += left
    return used


@njit(cache=True)
def _compare_all(entries, levels, counts, names, depth, mqtt, visits, most, pairs, used):
    """Pairs of the names that met too many nodes, each compared with all entries that have wildcards."""
    heavy = np.flatnonzero(visits > most)
    for entry in range(counts[ENTRIES_TOP]):
        if not entries[entry, SHAPE] & 1:
            continue
        pairs = _with_room(pairs, used, heavy.size)
        leading = levels[entries[entry, LEVELS]] < 0
        for k in range(heavy.size):
            name = heavy[k]
            barred = mqtt and leading and (names[name, 0] & DOLLAR) != 0
            if not barred and _has(entries, levels, entry, 0, names, name, depth[name], mqtt):
                pairs[used, 0], pairs[used, 1] = name, entry
                used += 1
    counts[VERIFIED] += counts[WILD] * heavy.size
    return pairs, used


@njit(cache=True)
def _collect(entries, ids, pairs, used, ptr, first, size, total, found):
    """The ids of all pairs behind those found before, name by name; where each name's begin."""
    total[:size] = 0
    for k in range(used):
        total[pairs[k, 0]] += entries[pairs[k, 1], LIVE]
    for i in range(size):
        ptr[first + i + 1] = ptr[first + i] + total[i]
        total[i] = ptr[first + i]
    if ptr[first + size] > found.size:
        longer = np.empty(max(2 * found.size, ptr[first + size]), np.int64)
        longer[: ptr[first]] = found[: ptr[first]]
        found = longer
    for k in range(used):
        entry, at = pairs[k, 1], total[pairs[k, 0]]
        start, used_here = entries[entry, IDS], entries[entry, USED]
        total[pairs[k, 0]] = at + entries[entry, LIVE]
        if entries[entry, ROOM] == 0:
            found[at] = entries[entry, ONLY]
        elif entries[entry, LIVE] == used_here:
            for j in range(used_here):
                found[at + j] = ids[start + j]
        else:
            for cell in range(start, start + used_here):
                if ids[cell] >= 0:
                    found[at] = ids[cell]
                    at += 1
    return found


# ---- for checks --------------------------------------------------------------------------------------


@njit(cache=True)
def look_up(a, rows, i):
    """The entry with the levels of a row; -1 if there is none."""
    depth = depth_of(rows[i])
    return _entry_of(a.table, a.entry, a.levels, rows, i, _shape_of(rows, i, depth), _hash_of(rows, i, depth))


@njit(cache=True)
def lead(a, node, word):
    """Where a node leads by a word, a wildcard or the end."""
    return _lead(a, node, word)
