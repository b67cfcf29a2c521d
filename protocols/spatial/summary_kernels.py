"""What the shard's view of `spatial` adds to the kernels: summaries by link and keyword, and what is told of them.

A summary is a row of boxes, or -1: anything may matter. Free rows are listed in `row_free`, and `notes` says how many
there are. `walk_kernels` decides with what is here.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from brokers.compiled import digest
from brokers.errors import EndlessWalk
from brokers.indexes.ids import find_one
from brokers.records import Record
from brokers.views import FLAGS, INTS, NARROW, REALS_TABLE, View
from protocols.spatial.kernels import FIELDS, K_MAX, MADE_OF, find_topic, key_of, matters_to

RINGS, LEANINGS, LEANINGS_WANTED, GROWN, OBJECT, SAID, ROWS_WANTED, BYTES_WANTED = range(8)  # notes of a walk
ROWS_FREE, BOXES_MOST, LOSSY, NOTES = range(8, 12)  # and what stays
AS_IT_CAME, AS_HEAD = -1, -2  # `sent_as`, where it is no number of what is said

_BYTES = View(types.uint8, 1)
_MADE_OF = digest(__file__, "summary_kernels.py", "shrink_kernels.py", "walk_kernels.py")

RECORD = Record(f"summaries {MADE_OF} {_MADE_OF}", {
    **FIELDS,
    "far": NARROW,  # by slot of `want_keys`: the row of what a neighbour told
    # By slot of `asked_keys`: the row of what a neighbour was told, and what came of it.
    "told": NARROW, "told_grown": INTS, "saved": INTS, "stake": INTS, "let_in": INTS, "looked": INTS,
    "told_word": NARROW, "told_next": NARROW, "told_prev": NARROW,  # by slot: as they were asked for, link by link
    "told_first": NARROW, "told_last": NARROW,  # by link
    "boxes": NARROW, "box": REALS_TABLE, "reach": REALS_TABLE,  # by row: how many, lows and highs, squared distances
    "row_free": NARROW,
    "stale": FLAGS, "timed": FLAGS,  # by broker
    "sent_as": NARROW,  # by send
    "said": _BYTES, "said_end": INTS,  # bodies to be sent, one behind the other, and where each ends
    "heard": _BYTES, "heard_start": INTS, "heard_end": INTS,  # bodies that came, and where they are, by row
    "rings": INTS, "row_cause": INTS,  # rows that set a timer; by row the id of its cause
    "leaning": INTS, "leans_on": INTS,  # changes
    "notes": INTS,
})  # fmt: skip


@njit(cache=True)
def lets_through(state, row, object_):
    """Whether a summary says that an object may matter."""
    if row < 0:
        return True
    axes = state.point.columns
    for i in range(state.boxes[row]):
        total = 0.0
        for axis in range(axes):
            low, high = state.box[row, 2 * axes * i + axis], state.box[row, 2 * axes * i + axes + axis]
            gap = max(0.0, max(low - state.point[object_, axis], state.point[object_, axis] - high))
            total += gap * gap
        if total <= state.reach[row, i]:
            return True
    return False


@njit(cache=True)
def goes_whole(state, link, object_):
    """Whether an object goes over a link whole: one of its keywords is wanted there and may matter."""
    for c in range(state.word.columns):
        word = state.word[object_, c]
        if word < 0:
            break
        slot = find_one(state.want_keys, state.want_slots, key_of(link, word))
        if slot >= 0 and lets_through(state, state.far[slot], object_):
            return True
    return False


@njit(cache=True)
def count_head(state, broker, link, object_):
    """Count for what a neighbour was told which payloads it let through, and which it held back."""
    size = state.bytes[object_]
    if link < 0 or size <= 0:
        return
    known, through = 0, False
    for turn in range(2):
        for c in range(state.word.columns):
            word = state.word[object_, c]
            if word < 0:
                break
            slot = find_one(state.asked_keys, state.asked_slots, key_of(link, word))
            if slot < 0:
                continue
            if turn == 1:
                if not through:
                    state.saved[slot] += size // known
            else:
                known += 1
                if lets_through(state, state.told[slot], object_):
                    state.let_in[slot] += size
                    state.stale[broker] = through = True


@njit(cache=True)
def count_heads(state, broker, link, objects):
    """The same of several."""
    for object_ in objects:
        count_head(state, broker, link, object_)


@njit(cache=True)
def concerned(state, broker, head):
    """The subscriptions of a broker that lose one of their nearest when a head goes, by slot."""
    object_ = state.head_object[head]
    count = matters_to(state, broker, object_, head, state.facts[K_MAX])
    found = np.empty(count, np.int64)
    for i in range(count):
        found[i] = state.found[i]
    return found


# ---- what was told over a link ---------------------------------------------------------------------------


@njit(cache=True)
def list_told(state, links, words, slots):
    """Enter keywords into the lists of their links, behind those that are there."""
    for i in range(slots.size):
        slot, before = slots[i], state.told_last[links[i]]
        state.told_word[slot] = words[i]
        state.told_next[slot], state.told_prev[slot] = -1, before
        if before < 0:
            state.told_first[links[i]] = slot
        else:
            state.told_next[before] = slot
        state.told_last[links[i]] = slot


@njit(cache=True)
def unlist_told(state, link, slots):
    """Take keywords out of the list of a link."""
    for slot in slots:
        after, before = state.told_next[slot], state.told_prev[slot]
        if before < 0:
            state.told_first[link] = after
        else:
            state.told_next[before] = after
        if after < 0:
            state.told_last[link] = before
        else:
            state.told_prev[after] = before


@njit(cache=True)
def told_over(state, link, all_):
    """The slots of what was told over a link: all, or those that let payloads in since the last look."""
    found = np.empty(16, np.int64)
    count = 0
    slot = state.told_first[link]
    for _ in range(state.told_next.size + 1):
        if slot < 0:
            break
        if all_ or state.let_in[slot] > state.looked[slot]:
            if count == found.size:
                larger = np.empty(2 * count, np.int64)
                larger[:count] = found
                found = larger
            found[count] = slot
            count += 1
        slot = state.told_next[slot]
    else:
        raise EndlessWalk("a list of keywords has a ring")
    return found[:count]


@njit(cache=True)
def subscriptions_with(state, broker, word):
    """The slots of the subscriptions at a broker that have a keyword."""
    topic, width = find_topic(state, broker, word), state.sub_next.columns
    if topic < 0:
        return np.empty(0, np.int64)
    found = np.empty(state.here[topic], np.int64)
    node = np.int64(state.first_sub[topic])
    for i in range(found.size):
        found[i] = node // width
        node = np.int64(state.sub_next[found[i], node % width])
    return found


# ---- heads of a link -------------------------------------------------------------------------------------


@njit(cache=True)
def heads_from(state, broker, link, words):
    """The objects that came by a link and have one of these keywords, each once."""
    columns = state.head_next.columns
    found = np.empty(64, np.int64)
    count = 0
    for w in range(words.size):
        topic = find_topic(state, broker, words[w])
        node = np.int64(-1) if topic < 0 else np.int64(state.first_head[topic])
        for _ in range(state.head_next.size + 1):
            if node < 0:
                break
            head = node // columns
            node = np.int64(state.head_next[head, node % columns])
            object_, again = state.head_object[head], state.head_link[head] != link
            for before in range(w):
                for c in range(state.word.columns):
                    again |= state.word[object_, c] == words[before]
            if not again:
                if count == found.size:
                    larger = np.empty(2 * count, np.int64)
                    larger[:count] = found
                    found = larger
                found[count] = object_
                count += 1
        else:
            raise EndlessWalk("a list of heads has a ring")
    return found[:count]
