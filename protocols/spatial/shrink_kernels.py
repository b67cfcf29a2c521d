"""Whether smaller summaries pay, link by link: what `protocols.spatial.reach` says in NumPy, for all keywords at once.

The same numbers come of the same operations in the same order; the tests hold the two together.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from brokers.indexes.ids import find_one
from protocols.spatial.kernels import K_MAX, key_of
from protocols.spatial.summarised import ROOM, SMALLER
from protocols.spatial.summary_kernels import heads_from, lets_through, subscriptions_with

_STEPS = 16.0  # of a fraction in 0.5..1, as `reach.rounded` has it


@njit(cache=True)
def outwards(value, upwards):
    """The next float32 value, up or down."""
    near = np.float32(value)
    if upwards:
        return np.float64(np.nextafter(near, np.float32(np.inf)) if near < value else near)
    return np.float64(np.nextafter(near, np.float32(-np.inf)) if near > value else near)


@njit(cache=True)
def rounded_up(squared):
    """A squared distance with room, in round numbers."""
    fraction, exponent = math.frexp(squared * ROOM)
    return outwards(math.ldexp(math.ceil(fraction * _STEPS) / _STEPS, exponent), True)


@njit(cache=True)
def behind(state, broker, links, link, word):
    """The boxes of all that is on this side of a link, side by side; no rows where anything may matter."""
    axes, k = state.point.columns, state.facts[K_MAX]
    nothing = np.empty((0, 2 * axes)), np.empty(0)
    here = subscriptions_with(state, broker, word)
    total = here.size
    for other in links:
        slot = find_one(state.want_keys, state.want_slots, key_of(other, word))
        if other != link and slot >= 0:
            if state.far[slot] < 0:
                return nothing
            total += state.boxes[state.far[slot]]
    boxes, squared = np.empty((total, 2 * axes)), np.empty(total)
    ids = np.empty(here.size, np.int64)
    for i in range(here.size):
        ids[i] = state.sub_id[here[i]]
    at = 0
    for i in np.argsort(ids):
        s = here[i]
        if state.held[s] < k:
            return nothing
        squared[at] = rounded_up(state.squared[s, k - 1])
        for axis in range(axes):
            boxes[at, axis] = outwards(state.sub_point[s, axis], False)
            boxes[at, axes + axis] = outwards(state.sub_point[s, axis], True)
        at += 1
    for i in range(at):
        if not (np.isfinite(squared[i]) and np.isfinite(boxes[i]).all()):
            return nothing
    for other in links:
        slot = find_one(state.want_keys, state.want_slots, key_of(other, word))
        if other != link and slot >= 0:
            row = state.far[slot]
            for i in range(state.boxes[row]):
                for end in range(2 * axes):
                    boxes[at, end] = state.box[row, 2 * axes * i + end]
                squared[at] = state.reach[row, i]
                at += 1
    return boxes, squared


@njit(cache=True)
def within(boxes, squared, told_boxes, told_squared):
    """(boxes, squared, owner): of the boxes what lies in those that were told, by the box that it lies in."""
    axes, count, told = boxes.shape[1] // 2, squared.size, told_squared.size
    cut = np.zeros((told, count), np.bool_)
    pieces = 0
    for i in range(count):
        whole = -1
        for j in range(told):
            inside = told_squared[j] >= squared[i]
            for axis in range(axes):
                inside &= told_boxes[j, axis] <= boxes[i, axis] and told_boxes[j, axes + axis] >= boxes[i, axes + axis]
            if inside:
                whole = j
                break
        for j in range(told):
            if whole >= 0:
                cut[j, i] = j == whole
            else:
                meets = True
                for axis in range(axes):
                    low = max(boxes[i, axis], told_boxes[j, axis])
                    meets &= low <= min(boxes[i, axes + axis], told_boxes[j, axes + axis])
                cut[j, i] = meets
            pieces += cut[j, i]
    out, out_squared, owner = np.empty((pieces, 2 * axes)), np.empty(pieces), np.empty(pieces, np.int64)
    at = 0
    for j in range(told):
        for i in range(count):
            if cut[j, i]:
                for axis in range(axes):
                    out[at, axis] = max(boxes[i, axis], told_boxes[j, axis])
                    out[at, axes + axis] = min(boxes[i, axes + axis], told_boxes[j, axes + axis])
                out_squared[at] = min(squared[i], told_squared[j])
                owner[at] = j
                at += 1
    return out, out_squared, owner


@njit(cache=True)
def coarser(boxes, squared, owner, boxes_max):
    """The same in at most so many boxes: the widest part is halved until there are enough. `owner` ascends."""
    count, axes = squared.size, boxes.shape[1] // 2
    if count <= boxes_max:
        return boxes, squared
    starts = np.empty(boxes_max + 1, np.int64)  # part p is order[starts[p]:starts[p + 1]]
    parts = 0
    for i in range(count):
        if i == 0 or owner[i] != owner[i - 1]:
            starts[parts] = i
            parts += 1
    starts[parts] = count
    order = np.arange(count)
    centres = (boxes[:, :axes] + boxes[:, axes:]) / 2
    for _ in range(boxes_max):
        if parts >= boxes_max:
            break
        widest, along, most = -1, 0, 0.0
        for p in range(parts):
            for axis in range(axes):
                low = high = centres[order[starts[p]], axis]
                for i in range(starts[p], starts[p + 1]):
                    low, high = min(low, centres[order[i], axis]), max(high, centres[order[i], axis])
                if high - low > most:
                    widest, along, most = p, axis, high - low
        if widest < 0:
            break
        first, last = starts[widest], starts[widest + 1]
        part = order[first:last].copy()
        order[first:last] = part[np.argsort(centres[part, along], kind="mergesort")]
        for p in range(parts, widest, -1):
            starts[p + 1] = starts[p]
        starts[widest + 1] = first + (last - first) // 2
        parts += 1
    out, out_squared = np.empty((parts, 2 * axes)), np.empty(parts)
    for p in range(parts):
        out[p], out_squared[p] = boxes[order[starts[p]]], squared[order[starts[p]]]
        for i in range(starts[p] + 1, starts[p + 1]):
            out_squared[p] = max(out_squared[p], squared[order[i]])
            for axis in range(axes):
                out[p, axis] = min(out[p, axis], boxes[order[i], axis])
                out[p, axes + axis] = max(out[p, axes + axis], boxes[order[i], axes + axis])
    return out, out_squared


@njit(cache=True)
def extent(boxes, squared):
    """How large the boxes are with all that they reach, added up."""
    total, axes = 0.0, boxes.shape[1] // 2
    for i in range(squared.size):
        reach, size = 2 * np.sqrt(squared[i]), 1.0
        for axis in range(axes):
            size = size * (boxes[i, axes + axis] - boxes[i, axis] + reach)
        total += size
    return total


@njit(cache=True)
def _lets_through(boxes, squared, point, object_):
    axes = boxes.shape[1] // 2
    for i in range(squared.size):
        total = 0.0
        for axis in range(axes):
            at = point[object_, axis]
            gap = max(0.0, max(boxes[i, axis] - at, at - boxes[i, axes + axis]))
            total += gap * gap
        if total <= squared[i]:
            return True
    return False


@njit(cache=True)
def shrink(state, broker, links, link, slots, boxes_max):
    """What it pays to tell over a link of these slots: (slot, gain, boxes) of each, and all boxes and distances."""
    axes = state.point.columns
    boxes, squared = np.empty((slots.size * boxes_max, 2 * axes)), np.empty(slots.size * boxes_max)
    starts = np.zeros(slots.size + 1, np.int64)
    fresh = 0
    which, words = np.empty(slots.size, np.int64), np.empty(slots.size, np.int64)
    for slot in slots:
        parts, reach = behind(state, broker, links, link, state.told_word[slot])
        if reach.size == 0:
            continue
        row, before = state.told[slot], np.inf
        owner = np.zeros(reach.size, np.int64)
        if row >= 0:
            count = state.boxes[row]
            told, told_squared = np.empty((count, 2 * axes)), np.empty(count)
            for i in range(count):
                told_squared[i] = state.reach[row, i]
                for end in range(2 * axes):
                    told[i, end] = state.box[row, 2 * axes * i + end]
            before = extent(told, told_squared)
            parts, reach, owner = within(parts, reach, told, told_squared)
        parts, reach = coarser(parts, reach, owner, boxes_max)
        if extent(parts, reach) <= SMALLER * before:
            first = starts[fresh]
            boxes[first : first + reach.size], squared[first : first + reach.size] = parts, reach
            starts[fresh + 1] = first + reach.size
            which[fresh], words[fresh] = slot, state.told_word[slot]
            fresh += 1
    gains = _gains(state, broker, link, words[:fresh], boxes, squared, starts)
    said = np.empty((fresh, 3), np.int64)
    for n in range(fresh):
        said[n, 0], said[n, 1], said[n, 2] = which[n], gains[n], starts[n + 1] - starts[n]
    return said, boxes, squared


@njit(cache=True)
def _gains(state, broker, link, words, boxes, squared, starts):
    """The payload of known objects that came by a link and would not have, had this been told; see `reach`."""
    gains = np.zeros(words.size, np.int64)
    if words.size == 0:
        return gains
    changing = np.empty(state.word.columns, np.int64)
    for object_ in heads_from(state, broker, link, words):
        needed, through = 0, False
        for c in range(state.word.columns):
            word = state.word[object_, c]
            if word < 0:
                break
            slot = find_one(state.asked_keys, state.asked_slots, key_of(link, word))
            if slot < 0 or not lets_through(state, state.told[slot], object_):
                continue
            still = True
            for n in range(words.size):
                if words[n] == word:
                    part = slice(starts[n], starts[n + 1])
                    still = _lets_through(boxes[part], squared[part], state.point, object_)
                    if not still:
                        changing[needed] = n
                        needed += 1
            through |= still
        if not through:
            for i in range(needed):
                gains[changing[i]] += state.bytes[object_] // needed
    return gains
