"""What the shard's view of `spatial` adds to the kernels: summaries by link and keyword, and what is told of them.

A summary is a row of boxes, or -1: anything may matter. `walk` is no handler for the engine, since a head goes on under
another type than its object did: `as_head` marks such sends. It stops behind an end that made a neighbour's
summary too small: then `notes` says how many subscriptions in `found` reach farther now, and Python goes on from there.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.compiled import SENDS, digest, fits, forward, handler
from brokers.contract import TIMER
from brokers.errors import EndlessWalk
from brokers.indexes.ids import find_one
from brokers.records import Record, reader
from brokers.views import FLAGS, INTS, NARROW, REALS_TABLE
from protocols.spatial.kernels import (
    FIELDS,
    K_MAX,
    MADE_OF,
    WINDOWED,
    find_head,
    find_topic,
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
from protocols.spatial.summarised import HEAD, STANDING

RINGS, LEANINGS, LEANINGS_WANTED, GROWN, OBJECT, LOSSY = range(6)  # notes

RECORD = Record(f"summaries {MADE_OF} {digest(__file__, 'summary_kernels.py')}", {
    **FIELDS,
    "far": NARROW,  # by slot of `want_keys`: the row of what a neighbour told
    # By slot of `asked_keys`: the row of what a neighbour was told, and what came of it.
    "told": NARROW, "told_grown": INTS, "saved": INTS, "stake": INTS, "let_in": INTS, "looked": INTS,
    "told_word": NARROW, "told_next": NARROW, "told_prev": NARROW,  # by slot: as they were asked for, link by link
    "told_first": NARROW, "told_last": NARROW,  # by link
    "boxes": NARROW, "box": REALS_TABLE, "reach": REALS_TABLE,  # by row: how many, lows and highs, squared distances
    "stale": FLAGS, "timed": FLAGS,  # by broker
    "as_head": FLAGS,  # by send
    "rings": INTS, "row_cause": INTS,  # rows that set a timer; by row the id of its cause
    "leaning": INTS, "leans_on": INTS,  # changes
    "notes": INTS,
})  # fmt: skip
_record = reader(RECORD)


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


# ---- the walk ----------------------------------------------------------------------------------------


@handler(RECORD)
def walk(desk, mine, at, stop):
    """Decides on objects, heads and ends, and leaves all else to Python."""
    state = _record(mine)
    for i in range(at, stop):
        done = False
        type_ = desk.type[i]
        if desk.kind[i] == TIMER:
            return i
        if type_ in (PUBLISH, HEAD):
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
            state.as_head[desk.answered[SENDS]] = not (is_whole and goes_whole(state, onward, object_))
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
            state.as_head[desk.answered[SENDS]] = False
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
