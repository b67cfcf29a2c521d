"""What the shard's view of `spatial` decides on in compiled code: objects, heads and ends, and summaries that shrink.

`walk` is no handler for the engine, since not all that it sends is what came: `sent_as` marks heads of objects, and
summaries, whose bodies it writes into `said`. Summaries that come are read out of `heard`, where Python lays them.

It stops behind an end that made a neighbour's summary too small: then `notes` says how many subscriptions in `found`
reach farther now, and Python goes on from there.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.compiled import SENDS, fits, forward, handler
from brokers.contract import TIMER
from brokers.indexes.ids import find_one
from brokers.records import reader
from protocols.spatial.kernels import (
    K_MAX,
    WINDOWED,
    find_head,
    forget,
    hand_over,
    has_room,
    key_of,
    leads_on,
    learn,
    matters_to,
    object_of,
    wanted_from,
)
from protocols.spatial.kind import EXPIRE, PUBLISH
from protocols.spatial.shrink_kernels import shrink
from protocols.spatial.summarised import HEAD, STANDING, SUMMARY
from protocols.spatial.summary_kernels import (
    AS_HEAD,
    AS_IT_CAME,
    BOXES_MOST,
    BYTES_WANTED,
    GROWN,
    LEANINGS,
    LEANINGS_WANTED,
    LOSSY,
    OBJECT,
    RECORD,
    RINGS,
    ROWS_FREE,
    ROWS_WANTED,
    SAID,
    count_head,
    goes_whole,
    told_over,
)

_record = reader(RECORD)


@handler(RECORD)
def walk(desk, mine, at, stop):
    """Decides on objects, heads, ends, and on summaries that shrink; leaves all else to Python."""
    state = _record(mine)
    for i in range(at, stop):
        done = False
        type_ = desk.type[i]
        if desk.kind[i] == TIMER:
            done = _look(desk, state, i)
        elif type_ == SUMMARY:
            done = _hear(desk, state, i)
        elif type_ in (PUBLISH, HEAD):
            done = _object(desk, state, i, type_ == PUBLISH)
        elif type_ == EXPIRE:
            done = _expire(desk, state, i)
        if not done:
            return i
        b = desk.broker[i]
        if state.stale[b] and not state.timed[b]:
            state.timed[b] = True
            state.rings[state.notes[RINGS]] = i
            state.notes[RINGS] += 1
    return stop


@njit(cache=True)
def _object(desk, state, i, is_whole):
    """An object or its head came; False where that is left to Python."""
    b, link, id_, body = desk.broker[i], desk.link[i], desk.word[i], desk.body[i]
    object_ = object_of(desk, state, body)
    if object_ < 0 or (link < 0 and state.facts[WINDOWED]):
        return False
    if link >= 0 and not wanted_from(state, link, object_):
        return True
    own = find_head(state, b, id_)
    if (own < 0 and not has_room(state)) or (own >= 0 and link < 0):
        return False
    if own >= 0 and not is_whole:
        return True
    count = 0
    if is_whole and state.subscriptions[b] > 0:
        count = matters_to(state, b, object_, own, state.body_k[body])
    first, last = desk.out_start[b], desk.out_start[b + 1]
    if not fits(desk, last - first, count):
        return False
    if is_whole and state.subscriptions[b] > 0:
        hand_over(desk, state, i, b, object_, count)
    if own < 0:
        learn(state, b, id_, object_, link)
        count_head(state, b, link, object_)
    for j in range(first, last):
        onward = desk.out_link[j]
        if leads_on(state, onward, link, object_):
            whole = is_whole and goes_whole(state, onward, object_)
            state.sent_as[desk.answered[SENDS]] = AS_IT_CAME if whole else AS_HEAD
            forward(desk, i, onward)
    return True


@njit(cache=True)
def _expire(desk, state, i):
    """An object is no more; False where that is left to Python."""
    b, link = desk.broker[i], desk.link[i]
    head = find_head(state, b, desk.word[i])
    if head < 0 or state.head_link[head] != link:
        return link >= 0 or state.facts[WINDOWED] != 0
    first, last = desk.out_start[b], desk.out_start[b + 1]
    if not fits(desk, last - first, 0):
        return False
    object_ = state.head_object[head]
    count = 0
    if state.subscriptions[b] > 0:
        count = matters_to(state, b, object_, head, state.facts[K_MAX])
    leanings = count * state.sub_word.columns * (last - first)
    if state.notes[LEANINGS] + leanings > state.leaning.size:
        state.notes[LEANINGS_WANTED] = leanings
        return False
    forget(state, head)
    if count > 0 and not _covered(desk, state, i, count):
        state.notes[GROWN], state.notes[OBJECT] = count, object_
        return False
    for j in range(first, last):
        if leads_on(state, desk.out_link[j], link, object_):
            state.sent_as[desk.answered[SENDS]] = AS_IT_CAME
            forward(desk, i, desk.out_link[j])
    return True


@njit(cache=True)
def _covered(desk, state, i, count):
    """Whether all neighbours were told enough of the subscriptions in `found`; then notes on what that leans."""
    b, cause = desk.broker[i], state.row_cause[i]
    if state.notes[LOSSY]:
        return False
    before, k = state.notes[LEANINGS], state.facts[K_MAX]
    for j in range(desk.out_start[b], desk.out_start[b + 1]):
        link = desk.out_link[j]
        if not state.in_tree[link]:
            continue
        for n in range(count):
            s = state.found[n]
            squared = state.squared[s, k - 1] if state.held[s] >= k else np.inf
            for c in range(state.sub_word.columns):
                word = state.sub_word[s, c]
                if word < 0:
                    break
                slot = find_one(state.asked_keys, state.asked_slots, key_of(link, word))
                if slot < 0:
                    continue
                if not _holds(state, state.told[slot], s, squared):
                    state.notes[LEANINGS] = before
                    return False
                if not _before(state, n, word) and state.told_grown[slot] not in (STANDING, cause):
                    at = state.notes[LEANINGS]
                    state.leaning[at], state.leans_on[at] = cause, state.told_grown[slot]
                    state.notes[LEANINGS] = at + 1
    return True


@njit(cache=True)
def _before(state, count, word):
    """Whether one of the first so many subscriptions in `found` has a keyword."""
    for n in range(count):
        for c in range(state.sub_word.columns):
            if state.sub_word[state.found[n], c] == word:
                return True
    return False


@njit(cache=True)
def _holds(state, row, s, squared):
    """Whether a subscription lies in a box that reaches as far."""
    if row < 0:
        return True
    axes = state.point.columns
    for i in range(state.boxes[row]):
        inside = state.reach[row, i] >= squared
        for axis in range(axes):
            at = state.sub_point[s, axis]
            inside &= state.box[row, 2 * axes * i + axis] <= at and at <= state.box[row, 2 * axes * i + axes + axis]
        if inside:
            return True
    return False


# ---- summaries that shrink -------------------------------------------------------------------------------

_LIST_HEAD, _ITEM_HEAD = 5, 9  # bytes at most: of a list; of a keyword with its summary, before its numbers
_NUMBER = 4  # bytes


@njit(cache=True)
def _look(desk, state, i):
    """The time has come to tell neighbours of smaller summaries where that pays; False where room is lacking."""
    b = desk.broker[i]
    links = _tree_links(desk, state, b)
    starts = np.zeros(links.size + 1, np.int64)
    slots = np.empty(64, np.int64)
    for j in range(links.size):
        found = told_over(state, links[j], False)
        slots = _with_room(slots, starts[j], found.size)
        slots[starts[j] : starts[j] + found.size] = found
        starts[j + 1] = starts[j] + found.size
    if not _may_tell(desk, state, links.size, starts[-1], 0):
        return False
    state.timed[b] = state.stale[b] = False
    for j in range(links.size):
        _tell(desk, state, i, links, links[j], slots[starts[j] : starts[j + 1]])
    return True


@njit(cache=True)
def _hear(desk, state, i):
    """A neighbour told of smaller summaries, so that others may be told too; False where that is left to Python."""
    link, links = desk.link[i], _tree_links(desk, state, desk.broker[i])
    axes = state.point.columns
    said = read(state.heard, state.heard_start[i], state.heard_end[i], axes, state.notes[BOXES_MOST])
    if state.notes[LOSSY] or said.shape[0] == 0:
        return False
    wanted = np.empty(said.shape[0], np.int64)
    for n in range(wanted.size):
        wanted[n] = find_one(state.want_keys, state.want_slots, key_of(link, said[n, 0]))
    starts = np.zeros(links.size + 1, np.int64)
    slots = np.empty(links.size * wanted.size, np.int64)
    for j in range(links.size):
        count = starts[j]
        for n in range(wanted.size):
            if links[j] == link or wanted[n] < 0:
                continue
            slot = find_one(state.asked_keys, state.asked_slots, key_of(links[j], said[n, 0]))
            if slot >= 0 and state.let_in[slot] > state.looked[slot]:
                slots[count] = slot
                count += 1
        starts[j + 1] = count
    if not _may_tell(desk, state, links.size, starts[-1], wanted.size):
        return False
    for n in range(wanted.size):
        if wanted[n] >= 0:
            boxes, squared = numbers_at(state.heard, said[n, 1], said[n, 2], axes)
            put(state, state.far, wanted[n], boxes, squared)
    for j in range(links.size):
        _tell(desk, state, i, links, links[j], slots[starts[j] : starts[j + 1]])
    return True


@njit(cache=True)
def _tree_links(desk, state, b):
    """The links of the tree that leave a broker."""
    first, last = desk.out_start[b], desk.out_start[b + 1]
    found = np.empty(last - first, np.int64)
    count = 0
    for j in range(first, last):
        if state.in_tree[desk.out_link[j]]:
            found[count] = desk.out_link[j]
            count += 1
    return found[:count]


@njit(cache=True)
def _with_room(slots, count, more):
    """The same with room for more behind the first so many."""
    if count + more <= slots.size:
        return slots
    larger = np.empty(2 * (count + more), np.int64)
    larger[:count] = slots[:count]
    return larger


@njit(cache=True)
def _may_tell(desk, state, links, summaries, heard):
    """Whether there is room to tell over so many links of so many summaries, and to keep those that were heard."""
    notes, numbers = state.notes, 2 * state.point.columns + 1
    if notes[ROWS_FREE] < summaries + heard:
        notes[ROWS_WANTED] = summaries + heard
        return False
    size = _said(state) + _LIST_HEAD * links + (_ITEM_HEAD + _NUMBER * numbers * notes[BOXES_MOST]) * summaries
    if size > state.said.size:
        notes[BYTES_WANTED] = size
        return False
    return fits(desk, links, 0)


@njit(cache=True)
def _said(state):
    """How many bytes of bodies are written."""
    said = state.notes[SAID]
    return state.said_end[said - 1] if said > 0 else np.int64(0)


@njit(cache=True)
def _tell(desk, state, i, links, link, slots):
    """Tell a neighbour of smaller summaries in place of what it was told in these slots, as far as they pay."""
    if slots.size == 0:
        return
    found, boxes, squared = shrink(state, desk.broker[i], links, link, slots, state.notes[BOXES_MOST])
    axes, paying, first = state.point.columns, 0, 0
    pays = np.zeros(found.shape[0], np.bool_)
    for n in range(pays.size):
        slot, count = found[n, 0], found[n, 2]
        let_in = state.let_in[slot]
        state.looked[slot] = let_in
        # About what it adds to a message, as `reach.packed_bytes` has it.
        gain, cost = min(found[n, 1], let_in), 6 + _NUMBER * (2 * axes + 1) * count
        if gain >= cost + max(0, -state.saved[slot]):
            put(state, state.told, slot, boxes[first : first + count], squared[first : first + count])
            state.stake[slot] = gain
            state.saved[slot] -= cost
            state.let_in[slot] = state.looked[slot] = 0
            pays[n] = True
            paying += 1
        first += count
    if paying == 0:
        return
    at, first = write_list(state.said, _said(state), paying), 0
    for n in range(pays.size):
        count = found[n, 2]
        if pays[n]:
            word = state.told_word[found[n, 0]]
            at = write(state.said, at, word, boxes[first : first + count], squared[first : first + count])
        first += count
    state.said_end[state.notes[SAID]] = at
    state.sent_as[desk.answered[SENDS]] = state.notes[SAID]
    state.notes[SAID] += 1
    forward(desk, i, link)


@njit(cache=True)
def put(state, column, slot, boxes, squared):
    """Have a slot hold a summary: `told` or `far`."""
    row = np.int64(column[slot])
    if row < 0:
        state.notes[ROWS_FREE] -= 1
        row = np.int64(state.row_free[state.notes[ROWS_FREE]])
        column[slot] = row
    state.boxes[row] = squared.size
    ends = boxes.shape[1]
    for n in range(squared.size):
        state.reach[row, n] = squared[n]
        for end in range(ends):
            state.box[row, ends * n + end] = boxes[n, end]


# ---- on the wire -----------------------------------------------------------------------------------------
# [[keyword, numbers], ...] in msgpack; of each box the lows, the highs and the squared distance, in float32.


@njit(cache=True)
def _write_number(out, at, number, size):
    """A whole number in so many bytes, the highest first."""
    for byte in range(size):
        out[at + byte] = (number >> (8 * (size - 1 - byte))) & 0xFF
    return at + size


@njit(cache=True)
def write_list(out, at, count):
    """How a list of so many begins."""
    if count < 16:
        out[at] = 0x90 | count
        return at + 1
    size = 2 if count < 1 << 16 else 4
    out[at] = 0xDC if size == 2 else 0xDD
    return _write_number(out, at + 1, count, size)


@njit(cache=True)
def write(out, at, word, boxes, squared):
    """A keyword with its summary."""
    out[at] = 0x92
    at += 1
    if word < 1 << 7:
        at = _write_number(out, at, word, 1)
    else:
        size = 1 if word < 1 << 8 else 2 if word < 1 << 16 else 4
        out[at] = 0xCB + size if size < 4 else 0xCE
        at = _write_number(out, at + 1, word, size)
    ends = boxes.shape[1]
    numbers = np.empty((squared.size, ends + 1), np.float32)
    for n in range(squared.size):
        numbers[n, ends] = squared[n]
        for end in range(ends):
            numbers[n, end] = boxes[n, end]
    size = 1 if _NUMBER * numbers.size < 1 << 8 else 2
    out[at] = 0xC3 + size
    at = _write_number(out, at + 1, _NUMBER * numbers.size, size)
    for byte in numbers.reshape(-1).view(np.uint8):
        out[at] = byte
        at += 1
    return at


@njit(cache=True)
def _read_number(data, at, size):
    """What `_write_number` wrote."""
    number = np.int64(0)
    for byte in range(size):
        number = (number << 8) | np.int64(data[at + byte])
    return number


@njit(cache=True)
def read(data, at, end, axes, boxes_most):
    """(keyword, where its numbers begin, how many boxes) of each summary; nothing where it is other data."""
    nothing = np.empty((0, 3), np.int64)
    box = _NUMBER * (2 * axes + 1)
    if end - at < _LIST_HEAD:
        return nothing
    count = np.int64(data[at]) & 0x0F
    at += 1
    if data[at - 1] in (0xDC, 0xDD):
        size = 2 if data[at - 1] == 0xDC else 4
        count, at = _read_number(data, at, size), at + size
    elif data[at - 1] & 0xF0 != 0x90:
        return nothing
    if count == 0 or 4 * count > end - at:
        return nothing
    found = np.empty((count, 3), np.int64)
    for n in range(count):
        # A keyword takes up to five bytes, and what says how many numbers follow up to three.
        if end - at < 4 or data[at] != 0x92:
            return nothing
        word, at = np.int64(data[at + 1]), at + 2
        if word >= 1 << 7:
            size = 1 if word == 0xCC else 2 if word == 0xCD else 4 if word == 0xCE else 0
            if size == 0 or end - at < size + 2:
                return nothing
            word, at = _read_number(data, at, size), at + size
        size = 1 if data[at] == 0xC4 else 2 if data[at] == 0xC5 else 0
        if size == 0 or end - at < 1 + size:
            return nothing
        length, at = _read_number(data, at + 1, size), at + 1 + size
        if length % box or length > box * boxes_most or end - at < length:
            return nothing
        found[n, 0], found[n, 1], found[n, 2] = word, at, length // box
        at += length
    return found if at == end else nothing


@njit(cache=True)
def numbers_at(data, at, count, axes):
    """The boxes and squared distances that lie there."""
    ends = 2 * axes
    there = np.empty(_NUMBER * (ends + 1) * count, np.uint8)
    for byte in range(there.size):
        there[byte] = data[at + byte]
    rows = there.view(np.float32).reshape(count, ends + 1)
    return rows[:, :ends].astype(np.float64), rows[:, ends].astype(np.float64)
