"""How CellBitset answers: nodes, then leaves, then candidates, then their ranges.

An event's values become cells once. A node is 64 leaves, a leaf 64 subscriptions; both are told from the
event by one comparison of 64 cells per column, whose results are ANDed until none is left. What is left of
a leaf are candidates: the rest of their ranges is looked at by cell, and what passes is compared with the
ranges that were inserted. Each step works through what the step before collected and asks for the memory
of the items ahead, since the time goes into waiting for memory.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.indexes.content.cells_blocks import LEAVES, NODES, PROBED, VERIFIED, WORDS, record_shape
from brokers.indexes.content.cells_plan import cell_of
from brokers.indexes.content.cells_vector import prefetch, trailing_zeros, within_64

_ONE = np.uint64(1)
_LOW = np.uint64(255)
_EVERY = np.uint64(0xFFFFFFFFFFFFFFFF)
_LEAVES = 256  # leaves collected before they are looked at
_CANDIDATES = 512  # candidates likewise
_SURVIVORS = 1024  # candidates whose records were asked for
_AHEAD = 10  # leaves asked for ahead
_STRIDE = 24  # ranges verified without a branch on the outcome
_SAMPLED = 8  # leaves that a forecast looks into

# What a forecast charges, in nanoseconds: per leaf, per candidate and pair of ranges by cell, per record.
_LEAF_NS, _PAIR_NS, _RECORD_NS = 30.0, 3.0, 14.0


@njit(cache=True)
def match(heads, nodes, children, leaves, further, records, border_from, borders, state, events, ptr):
    """Fill ptr, add to the work in state; returns ids in the order of their slots."""
    rooms = _rooms(events.shape[1], nodes.shape[1] // 128)
    # Views once per call: each costs two atomic additions, which small tables would feel per event.
    boxes, lanes, tails = nodes.reshape(-1), leaves.reshape(-1), further.reshape(-1)
    words, attributes, floats = records.reshape(-1), records.view(np.int16), records.view(np.float64)
    found, total = np.empty(64, np.int64), np.int64(0)
    for e in range(events.shape[0]):
        found, total = _match_one(heads, boxes, children, lanes, tails, further.shape[1], words, attributes, floats,
                                  border_from, borders, state, events[e], *rooms, found, total)  # type: ignore[call-arg]
        ptr[e + 1] = total
    return found[:total].copy()


@njit(cache=True)
def match_both(one, other, events, ptr):
    """The same for two sides, one after the other for each event; all work is added to the state of the first."""
    heads, nodes, children, leaves, further, records, border_from, borders, state = one
    heads_2, nodes_2, children_2, leaves_2, further_2, records_2, border_from_2, borders_2, state_2 = other
    rooms = _rooms(events.shape[1], nodes.shape[1] // 128)
    boxes, lanes, tails = nodes.reshape(-1), leaves.reshape(-1), further.reshape(-1)
    words, attributes, floats = records.reshape(-1), records.view(np.int16), records.view(np.float64)
    rooms_2 = _rooms(events.shape[1], nodes_2.shape[1] // 128)
    boxes_2, lanes_2, tails_2 = nodes_2.reshape(-1), leaves_2.reshape(-1), further_2.reshape(-1)
    words_2, attributes_2, floats_2 = records_2.reshape(-1), records_2.view(np.int16), records_2.view(np.float64)
    found, total = np.empty(64, np.int64), np.int64(0)
    for e in range(events.shape[0]):
        found, total = _match_one(heads, boxes, children, lanes, tails, further.shape[1], words, attributes, floats,
                                  border_from, borders, state, events[e], *rooms, found, total)  # type: ignore[call-arg]
        found, total = _match_one(heads_2, boxes_2, children_2, lanes_2, tails_2,  # type: ignore[call-arg]
                                  further_2.shape[1], words_2,
                                  attributes_2, floats_2, border_from_2, borders_2, state_2, events[e],
                                  *rooms_2, found, total)
        ptr[e + 1] = total
    for work in range(PROBED, state.size):
        state[work] += state_2[work]
        state_2[work] = 0
    return found[:total].copy()


@njit(cache=True)
def _rooms(attributes, columns):
    """What a match works in."""
    return (np.empty(attributes, np.uint8), np.empty((_LEAVES, columns), np.uint8), np.empty((3, _LEAVES), np.int32),
            np.empty(_CANDIDATES, np.int64), np.empty(_SURVIVORS, np.int64))


@njit(forceinline=True, cache=True)
def _match_one(heads, boxes, children, lanes, tails, pairs, words, attributes, floats, border_from, borders, state,
               event, cells, asked, listed, candidates, survivors, found, total):
    """Append the ids that match one event; (found, total)."""
    for a in range(cells.size):
        cells[a] = cell_of(border_from, borders, a, event[a])
    node, waiting = np.int64(0), np.int64(0)
    while node < state[NODES]:
        node, count = _list_leaves(heads, boxes, children, state, cells, node, asked, listed)
        at = np.int64(0)
        while at < count:
            at, collected = _collect(lanes, tails, pairs, state, asked, listed, at, count, candidates)
            collected = _further_hold(tails, pairs, cells, candidates, collected)
            waiting = _ask_records(words, floats.shape[1], candidates, collected, survivors, waiting)
            if waiting > _SURVIVORS - _CANDIDATES:
                found = _with_room(found, total, waiting)
                total = _verify(words, attributes, floats, event, survivors, waiting, found, total)
                state[VERIFIED] += waiting
                waiting = np.int64(0)
    found = _with_room(found, total, waiting)
    total = _verify(words, attributes, floats, event, survivors, waiting, found, total)
    state[VERIFIED] += waiting
    return found, total


@njit(cache=True)
def _list_leaves(heads, boxes, children, state, cells, node, asked, listed):
    """List the leaves that may match, from this node on until the list is full.

    Row `i` of `asked` has the event's cells in the columns of the i-th node that has any; `listed` has the
    leaves, the numbers of their rows, and per row the columns. Returns the node to go on with and how many.
    """
    node_bytes = 128 * asked.shape[1]
    last = state[NODES]
    count, row, words, probed = 0, 0, 0, 0
    while node < last and count <= _LEAVES - 64:
        columns, boxed = np.int64(heads[node, 0]), 1
        left = _EVERY
        for c in range(columns):
            cell, low, high = cells[heads[node, 2 + 3 * c]], heads[node, 3 + 3 * c], heads[node, 4 + 3 * c]
            asked[row, c] = cell
            if cell < low or cell > high:
                left = np.uint64(0)
                break
            if low > 0 or high < 255:  # else some range is absent: in most leaves, as a rule
                boxed = c + 1
        if left != 0:
            probed += 1
            c = 0
            while c < boxed and left != 0:
                left &= within_64(boxes, node * node_bytes + 128 * c, asked[row, c])
                c += 1
            words += c
            if left != 0:
                listed[2, row] = columns
                while left != 0:
                    listed[0, count] = children[node, trailing_zeros(left)]
                    listed[1, count] = row
                    count += 1
                    left &= left - _ONE
                row += 1
        node += 1
    state[PROBED] += probed + count
    state[WORDS] += words
    return node, count


@njit(cache=True)
def _collect(lanes, tails, pairs, state, asked, listed, at, count, candidates):
    """Collect the slots whose cells all hold, from the listed leaf `at` on, while there is room for a leaf's.

    Returns the leaf to go on with and the number of candidates.
    """
    leaf_bytes = 128 * asked.shape[1]
    if at == 0:
        for i in range(min(_AHEAD, count)):
            _ask(lanes, listed[0, i] * leaf_bytes, listed[2, listed[1, i]])
    collected, words = 0, 0
    while at < count and collected <= _CANDIDATES - 64:
        if at + _AHEAD < count:
            _ask(lanes, listed[0, at + _AHEAD] * leaf_bytes, listed[2, listed[1, at + _AHEAD]])
        leaf, row = np.int64(listed[0, at]), listed[1, at]
        columns = np.int64(listed[2, row])
        left = _EVERY
        c = 0
        while c < columns and left != 0:
            left &= within_64(lanes, leaf * leaf_bytes + 128 * c, asked[row, c])
            c += 1
        words += c
        while left != 0:
            slot = leaf * 64 + trailing_zeros(left)
            candidates[collected] = slot
            prefetch(tails, slot * pairs)
            collected += 1
            left &= left - _ONE
        at += 1
    state[WORDS] += words
    return at, collected


@njit(cache=True)
def _ask(lanes, start, columns):
    for line in range(2 * columns):
        prefetch(lanes, start + 64 * line)


@njit(cache=True)
def _further_hold(tails, pairs, cells, candidates, count):
    """Keep the candidates whose ranges outside the columns hold by cell; returns how many.

    Two ranges at a time, without a branch on the outcome: mispredicted ones would take longer than the test.
    """
    for pair in range(pairs):
        kept = 0
        for i in range(count):
            candidate = candidates[i]
            both = tails[candidate * pairs + pair]
            one = np.uint64(cells[(both >> np.uint64(16)) & np.uint64(0xFFFF)])
            two = np.uint64(cells[both >> np.uint64(48)])
            holds = int((both & _LOW) <= one) & int(one <= ((both >> np.uint64(8)) & _LOW))
            holds &= int(((both >> np.uint64(32)) & _LOW) <= two)
            holds &= int(two <= ((both >> np.uint64(40)) & _LOW))
            candidates[kept] = candidate
            kept += holds
        count = kept
    return count


@njit(cache=True)
def _ask_records(words, length, candidates, count, survivors, waiting):
    """Put the candidates among those to be verified, and ask for their records; returns how many wait then."""
    ends = record_shape(length)[1]
    lines = min(length, ends + 2 * _STRIDE)  # the rest is not read where a range fails before
    if lines == length:
        for i in range(count):
            start = candidates[i] * length
            for line in range(0, length, 8):
                prefetch(words, start + line)
            prefetch(words, start + length - 1)
            survivors[waiting + i] = candidates[i]
        return waiting + count
    for i in range(count):
        start = candidates[i] * length
        prefetch(words, start)
        for line in range(8 if ends <= 8 else ends, lines, 8):
            prefetch(words, start + line)
        prefetch(words, start + lines - 1)
        survivors[waiting + i] = candidates[i]
    return waiting + count


@njit(cache=True)
def _with_room(found, total, more):
    if total + more <= found.size:
        return found
    larger = np.empty(max(total + more, 2 * found.size), np.int64)
    larger[:total] = found[:total]
    return larger


@njit(cache=True)
def _verify(words, attributes, floats, event, candidates, count, found, total):
    """Append the ids of the candidates whose ranges hold; returns the new total. O(count * ranges)."""
    length = floats.shape[1]
    width, ends = record_shape(length)
    for i in range(count):
        slot = candidates[i]
        holds = 1
        if width <= _STRIDE:
            for j in range(width):
                attribute = attributes[slot, 4 + j]
                if attribute < 0:
                    break
                value = event[attribute]
                holds &= int(floats[slot, ends + 2 * j] <= value) & int(value <= floats[slot, ends + 2 * j + 1])
            found[total] = words[slot * length]
            total += holds
            continue
        for start in range(0, width, _STRIDE):
            for j in range(start, min(start + _STRIDE, width)):
                attribute = attributes[slot, 4 + j]
                if attribute < 0:
                    break
                value = event[attribute]
                holds &= int(floats[slot, ends + 2 * j] <= value) & int(value <= floats[slot, ends + 2 * j + 1])
            if holds == 0:
                break
        found[total] = words[slot * length]
        total += holds
    return total


@njit(cache=True)
def forecast(heads, nodes, children, leaves, further, records, border_from, borders, state, events, costs):
    """Add to `costs`, per event, what `match` would take in nanoseconds, by the candidates of some leaves."""
    cells = np.empty(events.shape[1], np.uint8)
    boxes, lanes, tails = nodes.reshape(-1), leaves.reshape(-1), further.reshape(-1)
    pairs, columns_max = further.shape[1], nodes.shape[1] // 128
    step = max(1, state[LEAVES] // _SAMPLED)
    slots = np.empty(64, np.int64)
    for e in range(events.shape[0]):
        for a in range(cells.size):
            cells[a] = cell_of(border_from, borders, a, events[e, a])
        listed, sampled, candidates, records_read = 0, 0, 0, 0
        for node in range(state[NODES]):
            left = _left(boxes, node, columns_max, heads, node, cells)
            while left != 0:
                if listed % step == 0:
                    leaf = np.int64(children[node, trailing_zeros(left)])
                    inside = _left(lanes, leaf, columns_max, heads, node, cells)
                    count = 0
                    while inside != 0:
                        slots[count] = leaf * 64 + trailing_zeros(inside)
                        count += 1
                        inside &= inside - _ONE
                    candidates += count
                    records_read += _further_hold(tails, pairs, cells, slots, count)
                    sampled += 1
                listed += 1
                left &= left - _ONE
        each = listed / max(1, sampled)
        costs[e] += listed * _LEAF_NS + each * (candidates * pairs * _PAIR_NS + records_read * _RECORD_NS)


@njit(cache=True)
def _left(lanes, item, columns_max, heads, node, cells):
    """Which of 64 leaves of a node, or subscriptions of a leaf, may match by the columns of the node."""
    left, c, columns = _EVERY, 0, np.int64(heads[node, 0])
    while c < columns and left != 0:
        left &= within_64(lanes, 128 * (np.int64(item) * columns_max + c), cells[heads[node, 2 + 3 * c]])
        c += 1
    return left
