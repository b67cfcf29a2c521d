"""The kernels of the trie: filters held once each, a table of whole filters, a tree of those with wildcards.

**Entries.** However many ids have a filter, it has one entry, a row of 64 bytes: where its levels and its ids lie. `table`
finds an entry by the hash of all its levels. A name is looked up there like a filter: if the entry without wildcards is
there, the name is answered as far as these go.

**Ids** of an entry lie ascending in a block, so that a hot filter is answered by a copy. An id that is removed stays as
its complement, below 0, until these are more than half: both changes cost O(log ids), and seldom O(ids). An only id
lies in the entry itself.

**Nodes** are the beginnings that two or more filters with wildcards share. What a node leads to is a *ref*: above 0 a node,
below 0 the complement of an entry that is alone from there on and has the rest of its levels compared, 0 nothing. A
node has a place for the filter that ends with `#` here, for one that ends here, for the child by `+`. Of its children
by words it knows how many they are, and the exclusive or of their words and refs: an only child is in the node
itself. Where there are more, `edge` finds each by node and word. So when an entry goes, its node knows without a
search what is left; if that is one entry, the node goes too.

**Names** are asked in blocks, all of a block one level deeper at a time: the memory that one name waits for is asked
for while others are looked at. Nothing here grows: `insert` stops where an array may have no room, says which, and is
called again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokers.errors import EndlessWalk
from brokers.indexes.intrinsics import prefetch
from brokers.indexes.topics.level_kernels import depth_of, has_rest, order
from brokers.indexes.topics.syntax import DOLLAR, HASH, PLUS

HASHED, LEVELS, DEPTH, IDS, ROOM, USED, LIVE, ONLY = range(8)  # columns of an entry
REST, END, ONE, WORDS, WORD, REF = range(6)  # columns of a node: refs for `#`, the end, `+`; words: how many, xors
ENTRIES, ENTRIES_TOP, ENTRY_FREE, NODES, NODES_TOP, NODE_FREE, EDGES, VISITED, VERIFIED = range(9)  # counts
DONE, NO_ENTRY, NO_LEVELS, NO_IDS, NO_NODE, NO_EDGE, NO_PLACE = range(7)  # what `insert` stopped for

ROOT, NOTHING, NEVER = 0, 0, -1
CLASSES = 40  # sizes of blocks: powers of two

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_SHIFT, _HALF = np.uint64(29), np.uint64(32)
_LOWER = (1 << 32) - 1
_BLOCK = 256  # names asked together


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
    count: NDArray[np.int64]


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
        # Where there is no room for a smaller block now, a later removal tries again.
        _move_ids(a, entry, _room_for(row[LIVE]))


# ---- the table of whole filters ----------------------------------------------------------------------


@njit(inline="always")
def _hash_of(levels, start, depth):
    hashed = np.uint64(depth)
    for j in range(start, start + depth):
        hashed = (hashed ^ np.uint64(np.int64(levels[j]) + 4)) * _GOLDEN
        hashed ^= hashed >> _SHIFT
    return np.int64(hashed ^ (hashed >> _HALF))


@njit(inline="always")
def _is(a, entry, row, depth):
    """Whether these levels are the entry's."""
    if a.entry[entry, DEPTH] != depth:
        return False
    start = a.entry[entry, LEVELS]
    for j in range(depth):
        if a.levels[start + j] != row[j]:
            return False
    return True


@njit(inline="always")
def _entry_of(a, row, depth, hashed):
    """The entry with these levels; -1 if there is none."""
    mask = a.table.size - 1
    place = hashed & mask
    for _ in range(a.table.size):
        found = a.table[place]
        if found == 0:
            return np.int64(-1)
        if found >> 32 == hashed >> 32 and _is(a, (found & _LOWER) - 1, row, depth):
            return (found & _LOWER) - 1
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
    for entry in range(a.count[ENTRIES_TOP]):
        if a.entry[entry, DEPTH]:
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
        a.count[EDGES] += 1
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
    a.count[EDGES] -= 1
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


@njit(inline="always")
def _child(a, node, word):
    """The ref by a word."""
    row = a.node[node]
    if row[WORDS] < 2:
        return np.int64(row[REF]) if row[WORDS] and row[WORD] == word else np.int64(NOTHING)
    place = _edge_place(a.edge, _key(node, word))
    return a.edge[place, 1] if a.edge[place, 0] != NEVER else np.int64(NOTHING)


@njit(cache=True)
def _set_child(a, node, word, ref):
    """Lead to something by a word, or to nothing."""
    row, before = a.node[node], _child(a, node, word)
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
def _place_of(a, entry, level):
    """By which column an entry goes on from a node at this level; `WORDS` stands for its word."""
    if level == a.entry[entry, DEPTH]:
        return END
    word = a.levels[a.entry[entry, LEVELS] + level]
    return REST if word == HASH else ONE if word == PLUS else WORDS


@njit(inline="always")
def _ref(a, node, entry, level):
    """Where a node at this level leads to, the way an entry goes."""
    by = _place_of(a, entry, level)
    if by == WORDS:
        return _child(a, node, a.levels[a.entry[entry, LEVELS] + level])
    return np.int64(a.node[node, by])


@njit(inline="always")
def _set_ref(a, node, entry, level, ref):
    by = _place_of(a, entry, level)
    if by == WORDS:
        _set_child(a, node, a.levels[a.entry[entry, LEVELS] + level], ref)
    else:
        a.node[node, by] = ref


@njit(cache=True)
def _new_node(a):
    node = a.count[NODE_FREE]
    if node >= 0:
        a.count[NODE_FREE] = a.node[node, REF]
    else:
        node = a.count[NODES_TOP]
        a.count[NODES_TOP] += 1
    a.node[node, :] = 0
    a.count[NODES] += 1
    return node


@njit(cache=True)
def _hang(a, entry):
    """Have the tree lead to a new entry. O(depth)."""
    node = np.int64(ROOT)
    for level in range(a.entry[entry, DEPTH] + 1):
        ref = _ref(a, node, entry, level)
        if ref == NOTHING:
            _set_ref(a, node, entry, level, ~entry)
            return
        if ref < 0:
            fresh = _new_node(a)
            _set_ref(a, fresh, ~ref, level + 1, ref)
            _set_ref(a, node, entry, level, fresh)
            ref = fresh
        node = ref


@njit(inline="always")
def _only_entry(row):
    """The ref of the entry that a node alone leads to; `NOTHING` if it leads to more."""
    ways = (row[REST] != 0) + (row[END] != 0) + (row[ONE] != 0) + row[WORDS]
    if ways != 1:
        return np.int32(NOTHING)
    return min(row[REST] | row[END] | row[ONE] | (row[REF] if row[WORDS] else np.int32(0)), np.int32(0))


@njit(cache=True)
def _unhang(a, entry):
    """Have the tree lead to an entry no more, and let go of nodes with one entry left. O(depth)."""
    path = np.empty(a.entry[entry, DEPTH] + 1, np.int64)
    node, level = np.int64(ROOT), 0
    for _ in range(path.size):
        path[level] = node
        ref = _ref(a, node, entry, level)
        if ref < 0:
            break
        node = ref
        level += 1
    _set_ref(a, node, entry, level, NOTHING)
    for above in range(level - 1, -1, -1):
        left = _only_entry(a.node[path[above + 1]])
        if left == NOTHING:
            return
        _set_ref(a, path[above], entry, above, left)
        a.node[path[above + 1], REF] = a.count[NODE_FREE]
        a.count[NODE_FREE] = path[above + 1]
        a.count[NODES] -= 1


# ---- changes -----------------------------------------------------------------------------------------


@njit(inline="always")
def _lacks(a, depth):
    """What may have no room for one filter more."""
    if a.count[ENTRY_FREE] < 0 and a.count[ENTRIES_TOP] >= a.entry.shape[0]:
        return NO_ENTRY
    if 5 * (a.count[ENTRIES] + 1) > 3 * a.table.size:
        return NO_PLACE
    if a.level_blocks[0] + (1 << _class_of(depth)) > a.levels.size:
        return NO_LEVELS
    if a.count[NODES_TOP] + depth + 1 > a.node.shape[0]:
        return NO_NODE
    if 5 * (a.count[EDGES] + depth + 4) > 3 * a.edge.shape[0]:
        return NO_EDGE
    return DONE


@njit(cache=True)
def _new_entry(a, row, depth, hashed):
    entry = a.count[ENTRY_FREE]
    if entry >= 0:
        a.count[ENTRY_FREE] = a.entry[entry, ONLY]
    else:
        entry = a.count[ENTRIES_TOP]
        a.count[ENTRIES_TOP] += 1
    a.count[ENTRIES] += 1
    start = _take_block(a.levels, a.level_blocks, _class_of(depth))
    wild = False
    for j in range(depth):
        a.levels[start + j] = row[j]
        wild |= row[j] < 0
    a.entry[entry, :] = 0
    a.entry[entry, HASHED], a.entry[entry, LEVELS], a.entry[entry, DEPTH] = hashed, start, depth
    _list_entry(a.table, hashed, entry)
    if wild:
        _hang(a, entry)
    return entry


@njit(cache=True)
def _drop_entry(a, entry):
    start, depth = a.entry[entry, LEVELS], a.entry[entry, DEPTH]
    for j in range(start, start + depth):
        if a.levels[j] < 0:
            _unhang(a, entry)
            break
    _unlist_entry(a, entry)
    _give_block(a.levels, a.level_blocks, start, _class_of(depth))
    a.entry[entry, DEPTH] = 0
    a.entry[entry, ONLY] = a.count[ENTRY_FREE]
    a.count[ENTRY_FREE] = entry
    a.count[ENTRIES] -= 1


@njit(cache=True)
def insert(a, rows, ids, entries, first):
    """Add filters from the `first` on, until something may have no room: (how far, what). Entries go to `entries`."""
    for i in range(first, ids.size):
        depth = depth_of(rows[i])
        hashed = _hash_of(rows[i], 0, depth)
        entry = _entry_of(a, rows[i], depth, hashed)
        if entry < 0:
            lacks = _lacks(a, depth)
            if lacks != DONE:
                return i, lacks
            entry = _new_entry(a, rows[i], depth, hashed)
        if not _add_id(a, entry, ids[i]):
            return i, NO_IDS
        entries[i] = entry
    return ids.size, DONE


@njit(cache=True)
def delete(a, ids, entries):
    """Remove ids from the entries that they have."""
    for i in range(ids.size):
        _remove_id(a, entries[i], ids[i])
        if a.entry[entries[i], LIVE] == 0:
            _drop_entry(a, entries[i])


# ---- names -------------------------------------------------------------------------------------------


@njit(cache=True)
def match(a, names, mqtt):
    """(ptr, ids): the ids of each name, ascending."""
    count = names.shape[0]
    ptr, found = np.zeros(count + 1, np.int64), np.empty(count, np.int64)
    depth, total = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    pairs, spare = np.empty((4 * _BLOCK, 2), np.int32), np.empty(0, np.int64)
    for first in range(0, count, _BLOCK):
        block = names[first : first + _BLOCK]
        for i in range(block.shape[0]):
            depth[i] = depth_of(block[i])
        used = _whole_names(a, block, depth, pairs)
        pairs, used = _walk(a, block, depth, mqtt, pairs, used)
        found = _collect(a, pairs, used, ptr, first, block.shape[0], total, found)
        for i in range(first, first + block.shape[0]):
            for at in range(ptr[i] + 1, ptr[i + 1]):
                if found[at] < found[at - 1]:
                    if spare.size < ptr[i + 1] - ptr[i]:
                        spare = np.empty(ptr[i + 1] - ptr[i], np.int64)
                    order(found, ptr[i], ptr[i + 1], spare)
                    break
    return ptr, found[: ptr[count]].copy()


@njit(inline="always")
def _whole_names(a, names, depth, pairs):
    """Pairs of a name and the entry that is this name."""
    hashed = np.empty(names.shape[0], np.int64)
    mask = a.table.size - 1
    for i in range(names.shape[0]):
        hashed[i] = _hash_of(names[i], 0, depth[i])
        prefetch(a.table, hashed[i] & mask)
    for i in range(names.shape[0]):
        likely = a.table[hashed[i] & mask]
        if likely:
            prefetch(a.entry, 8 * ((likely & _LOWER) - 1))
    used = 0
    for i in range(names.shape[0]):
        entry = _entry_of(a, names[i], depth[i], hashed[i])
        if entry >= 0:
            pairs[used, 0], pairs[used, 1] = i, entry
            used += 1
    return used


@njit(inline="always")
def _with_room(rows, used, more):
    """The rows, or a longer array that begins with those that are used."""
    if used + more <= rows.shape[0]:
        return rows
    longer = np.empty((2 * (used + more), 2), np.int32)
    longer[:used] = rows[:used]
    return longer


@njit(inline="always")
def _follow(a, name, ref, ahead, reached, alone, left):
    """Go on with a ref on the next level, or compare the entry that is alone."""
    if ref > 0:
        ahead[reached, 0], ahead[reached, 1] = name, ref
        prefetch(a.node, 8 * ref)
        return reached + 1, left
    if ref < 0:
        alone[left, 0], alone[left, 1] = name, ~ref
        prefetch(a.entry, 8 * ~ref)
        return reached, left + 1
    return reached, left


@njit(cache=True)
def _walk(a, names, depth, mqtt, pairs, used):
    """Pairs of a name and an entry with wildcards that has it, all names level by level."""
    size = names.shape[0]
    here, ahead = np.empty((2 * size, 2), np.int32), np.empty((4 * size, 2), np.int32)
    alone, asked = np.empty((4 * size, 2), np.int32), np.empty((2 * size, 2), np.int32)
    for i in range(size):
        here[i, 0], here[i, 1] = i, ROOT
    for level in range(names.shape[1] + 1):
        if size == 0:
            break
        ahead, alone = _with_room(ahead, 0, 2 * size), _with_room(alone, 0, 2 * size)
        asked, pairs = _with_room(asked, 0, size), _with_room(pairs, used, 4 * size)
        reached = left = questions = 0
        a.count[VISITED] += size
        for k in range(size):
            name, row = here[k, 0], a.node[here[k, 1]]
            open_ = not (mqtt and level == 0 and names[name, 0] & DOLLAR)
            ends = level == depth[name]
            if row[REST] and open_ and (mqtt or not ends):
                pairs[used, 0], pairs[used, 1] = name, ~row[REST]
                used += 1
            if ends:
                if row[END]:
                    pairs[used, 0], pairs[used, 1] = name, ~row[END]
                    used += 1
                continue
            if row[ONE] and open_:
                reached, left = _follow(a, name, row[ONE], ahead, reached, alone, left)
            if row[WORDS] == 1:
                if row[WORD] == names[name, level]:
                    reached, left = _follow(a, name, row[REF], ahead, reached, alone, left)
            elif row[WORDS]:
                asked[questions, 0], asked[questions, 1] = name, here[k, 1]
                prefetch(a.edge, 2 * _home(_key(here[k, 1], names[name, level]), a.edge.shape[0] - 1))
                questions += 1
        for k in range(questions):
            name = asked[k, 0]
            place = _edge_place(a.edge, _key(asked[k, 1], names[name, level]))
            if a.edge[place, 0] != NEVER:
                reached, left = _follow(a, name, a.edge[place, 1], ahead, reached, alone, left)
        used = _compare(a, names, depth, mqtt, level + 1, alone, left, pairs, used)
        here, ahead, size = ahead, here, reached
    return pairs, used


@njit(inline="always")
def _compare(a, names, depth, mqtt, level, alone, left, pairs, used):
    """Pairs of those whose other levels agree as well."""
    for k in range(left):
        prefetch(a.levels, a.entry[alone[k, 1], LEVELS])
    for k in range(left):
        name, row = alone[k, 0], a.entry[alone[k, 1]]
        if has_rest(a.levels, row[LEVELS], level, row[DEPTH], names[name], depth[name], mqtt):
            pairs[used, 0], pairs[used, 1] = name, alone[k, 1]
            used += 1
    a.count[VERIFIED] += left
    return used


@njit(inline="always")
def _collect(a, pairs, used, ptr, first, size, total, found):
    """The ids of all pairs behind those found before, name by name; where each name's begin."""
    total[:size] = 0
    for k in range(used):
        total[pairs[k, 0]] += a.entry[pairs[k, 1], LIVE]
    for i in range(size):
        ptr[first + i + 1] = ptr[first + i] + total[i]
        total[i] = ptr[first + i]
    if ptr[first + size] > found.size:
        longer = np.empty(max(2 * found.size, ptr[first + size]), np.int64)
        longer[: ptr[first]] = found[: ptr[first]]
        found = longer
    for k in range(used):
        row = a.entry[pairs[k, 1]]
        at = total[pairs[k, 0]]
        if row[ROOM] == 0:
            found[at] = row[ONLY]
            at += 1
        elif row[LIVE] == row[USED]:
            for cell in range(row[IDS], row[IDS] + row[USED]):
                found[at] = a.ids[cell]
                at += 1
        else:
            for cell in range(row[IDS], row[IDS] + row[USED]):
                if a.ids[cell] >= 0:
                    found[at] = a.ids[cell]
                    at += 1
        total[pairs[k, 0]] = at
    return found


# ---- for checks --------------------------------------------------------------------------------------


@njit(cache=True)
def look_up(a, row):
    """The entry with these levels; -1 if there is none."""
    return _entry_of(a, row, row.size, _hash_of(row, 0, row.size))


@njit(cache=True)
def follow_word(a, node, word):
    """Where a node leads by a word."""
    return _child(a, node, word)
