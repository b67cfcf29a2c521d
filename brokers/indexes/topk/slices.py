"""The kernels of `sliced`: one family, compiled together."""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.indexes.intrinsics import prefetch, trailing_zeros
from brokers.indexes.topk.bounds import INFLATED
from brokers.indexes.topk.kernels import arrange, offer, score_of

BLOCK_WORDS = 64
BLOCK_SLOTS = 64 * BLOCK_WORDS
GROUP = 7  # rows added at a time: their sum has three binary digits

_ONE, _ALL = np.uint64(1), np.uint64(0xFFFFFFFFFFFFFFFF)
_GROUP_WORDS = GROUP * BLOCK_WORDS
_W1, _W2, _W3, _W4, _W5, _W6 = (BLOCK_WORDS * i for i in range(1, 7))


@njit(inline="always", cache=True)
def _cell(borders, value):
    """The number of borders at or below the value: monotone, and never outside."""
    low, high = 0, borders.size
    while low < high:
        middle = (low + high) >> 1
        if borders[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def learn(attribute, ends, attributes, cells):
    """Borders at the quantiles of each attribute's finite range ends; 0 where there are none."""
    starts = np.zeros(attributes + 1, np.int64)
    for i in range(attribute.shape[0]):
        for j in range(attribute.shape[1]):
            if attribute[i, j] >= 0:
                for end in (ends[i, 2 * j], ends[i, 2 * j + 1]):
                    starts[attribute[i, j] + 1] += np.isfinite(end)
    starts = np.cumsum(starts)
    values, cursor = np.empty(starts[-1]), starts[:-1].copy()
    for i in range(attribute.shape[0]):
        for j in range(attribute.shape[1]):
            if attribute[i, j] >= 0:
                for end in (ends[i, 2 * j], ends[i, 2 * j + 1]):
                    if np.isfinite(end):
                        values[cursor[attribute[i, j]]] = end
                        cursor[attribute[i, j]] += 1
    borders = np.zeros((attributes, cells - 1))
    for a in range(attributes):
        mine = np.sort(values[starts[a] : starts[a + 1]])
        if mine.size:
            for c in range(1, cells):
                borders[a, c - 1] = mine[c * mine.size // cells]
    return borders


@njit(cache=True)
def mark(cover, begun, borders, segment_slots, attribute, ends, slots, setting):
    """Set or clear the bits of filters."""
    cells = borders.shape[2] + 1
    for slot in slots:
        segment = slot // segment_slots
        word = (slot - segment * segment_slots) >> 6
        bit = _ONE << np.uint64(slot & 63)
        flip = np.uint64(0) if setting else bit
        for j in range(attribute.shape[1]):
            a = attribute[slot, j]
            if a < 0:
                break
            base = a * cells
            first = _cell(borders[segment, a], ends[slot, 2 * j])
            last = _cell(borders[segment, a], ends[slot, 2 * j + 1])
            for row in range(base + first, base + last + 1):
                cover[segment, row, word] = (cover[segment, row, word] | bit) ^ flip
            for row in range(base + first, base + cells):
                begun[segment, row, word] = (begun[segment, row, word] | bit) ^ flip


@njit(cache=True)
def count(constrained, attribute, slots, by):
    """Add `by` for each constraint of filters."""
    for slot in slots:
        for j in range(attribute.shape[1]):
            if attribute[slot, j] < 0:
                break
            constrained[attribute[slot, j]] += by


@njit(cache=True)
def lift(best, attribute, weight, slots, blocks_per_segment, segment_slots):
    """Raise the bounds of blocks to what filters can score; whether a bound on all constraints rose."""
    rose = False
    most = best.shape[1] - 1
    heaviest = np.empty(most)
    for slot in slots:
        segment = slot // segment_slots
        block = segment * blocks_per_segment + (slot - segment * segment_slots) // BLOCK_SLOTS
        held = 0
        for j in range(attribute.shape[1]):
            if attribute[slot, j] < 0:
                break
            if weight[slot, j] > 0.0:
                at = held
                while at > 0 and heaviest[at - 1] < weight[slot, j]:
                    heaviest[at] = heaviest[at - 1]
                    at -= 1
                heaviest[at] = weight[slot, j]
                held += 1
        total = 0.0
        for c in range(1, most + 1):
            if c <= held:
                total += heaviest[c - 1]
            if total * INFLATED > best[block, c]:
                best[block, c] = total * INFLATED
                rose |= c == most
    return rose


@njit(cache=True)
def pick(borders, present, low, high):
    """Per segment and attribute present: the rows of the message's first and last cell."""
    cells = borders.shape[2] + 1
    picks = np.empty((borders.shape[0], present.size, 2), np.int64)
    for segment in range(borders.shape[0]):
        for r in range(present.size):
            a = present[r]
            picks[segment, r, 0] = a * cells + _cell(borders[segment, a], low[a])
            picks[segment, r, 1] = picks[segment, r, 0]
            if high[a] != low[a]:
                picks[segment, r, 1] = a * cells + _cell(borders[segment, a], high[a])
    return picks


@njit(cache=True)
def _gather(cover, begun, picks, first, words, rows):
    """Copy a block's part of the picked rows, one row after the other."""
    for r in range(picks.shape[0]):
        row = rows[r * BLOCK_WORDS : r * BLOCK_WORDS + words]
        here, there = picks[r, 0], picks[r, 1]
        at = cover[here, first : first + words]
        if here == there:
            row[:] = at
        else:
            after, before = begun[there, first : first + words], begun[here, first : first + words]
            for w in range(words):
                row[w] = at[w] | (after[w] & ~before[w])


@njit(cache=True)
def _add_up(rows, planes, digits, carry):
    """Bit-sliced sums of all rows: planes[d] has binary digit d of every slot's count."""
    planes[:] = 0
    for group in range(rows.size // _GROUP_WORDS):
        part = rows[group * _GROUP_WORDS : (group + 1) * _GROUP_WORDS]
        for w in range(BLOCK_WORDS):
            a, b, c = part[w], part[w + _W1], part[w + _W2]
            d, e, f, g = part[w + _W3], part[w + _W4], part[w + _W5], part[w + _W6]
            x = a ^ b
            one_1, two_1 = x ^ c, (a & b) | (x & c)
            x = d ^ e
            one_2, two_2 = x ^ f, (d & e) | (x & f)
            x = one_1 ^ one_2
            one, two_3 = x ^ g, (one_1 & one_2) | (x & g)
            x = two_1 ^ two_2
            two, four = x ^ two_3, (two_1 & two_2) | (x & two_3)
            p = planes[w]
            over = p & one
            planes[w] = p ^ one
            p = planes[w + _W1]
            x = p ^ two
            planes[w + _W1] = x ^ over
            over = (p & two) | (x & over)
            p = planes[w + _W2]
            x = p ^ four
            planes[w + _W2] = x ^ over
            carry[w] = (p & four) | (x & over)
        for digit in range(3, digits):
            plane = planes[digit * BLOCK_WORDS : (digit + 1) * BLOCK_WORDS]
            for w in range(BLOCK_WORDS):
                p, over = plane[w], carry[w]
                plane[w] = p ^ over
                carry[w] = p & over


@njit(cache=True)
def _reach(planes, digits, need, mask):
    """Which slots have a count of at least `need`."""
    mask[:] = _ALL
    for digit in range(digits):
        plane = planes[digit * BLOCK_WORDS : (digit + 1) * BLOCK_WORDS]
        if (need >> digit) & 1:
            for w in range(BLOCK_WORDS):
                mask[w] &= plane[w]
        else:
            for w in range(BLOCK_WORDS):
                mask[w] |= plane[w]


@njit(inline="always", cache=True)
def _room(hints):
    """The constraints that a hint has room for: a weight of 32 bits and an attribute of 16 each."""
    return 2 * hints.shape[1] // 3


@njit(cache=True)
def hint(hints, hint_attributes, attribute, weight, slots):
    """Copy filters' attributes, and their weights rounded up to 32 bits, to where one cache line has all."""
    room = _room(hints)
    for slot in slots:
        for j in range(room):
            if j >= attribute.shape[1]:
                hint_attributes[slot, 2 * room + j] = -1
                continue
            hint_attributes[slot, 2 * room + j] = attribute[slot, j]
            positive = max(weight[slot, j], 0.0)
            hints[slot, j] = np.float32(positive)
            if hints[slot, j] < positive:
                hints[slot, j] = np.nextafter(np.float32(positive), np.float32(np.inf))


@njit(cache=True)
def _fetch(cover, picks, first, words):
    """Prefetch a block's part of the rows that `_gather` starts with."""
    stride = cover.shape[1]
    for r in range(picks.shape[0]):
        at = picks[r, 0] * stride + first
        for w in range(0, words, 8):
            prefetch(cover, at + w)  # type: ignore[call-arg]


@njit(cache=True)
def _list_by_weights(mask, words, first, rows, place, hints, hint_attributes, width, floor, candidates):
    """Slots of the mask whose weights, summed over the attributes whose bits are set, reach the floor."""
    columns, attributes_from = hints.shape[1], 2 * _room(hints)
    count = 0
    for w in range(words):
        word = mask[w]
        while word != 0:
            slot = first + (w << 6) + np.int64(trailing_zeros(word))  # type: ignore[call-arg]
            candidates[count] = slot
            prefetch(hints, slot * columns)
            count += 1
            word &= word - _ONE
    kept = 0
    for i in range(count):
        slot = candidates[i]
        w, shift = (slot - first) >> 6, np.uint64(slot & 63)
        own = 0.0
        for j in range(width):
            a = hint_attributes[slot, attributes_from + j]
            if a < 0:
                break
            if (rows[place[a] * BLOCK_WORDS + w] >> shift) & _ONE:
                own += np.float64(hints[slot, j])
        if own >= floor:
            candidates[kept] = slot
            kept += 1
    return count, kept


@njit(cache=True)
def _list_by_sent(mask, words, first, rows, present, sent, floor, candidates):
    """Slots of the mask whose set bits, weighted by the message, reach the floor. Reads no record."""
    count = kept = 0
    for w in range(words):
        word = mask[w]
        while word != 0:
            shift = np.uint64(trailing_zeros(word))  # type: ignore[call-arg]
            own = 0.0
            for r in range(present.size):
                bit = (rows[r * BLOCK_WORDS + w] >> shift) & _ONE
                own += np.float64(bit) * max(sent[present[r]], 0.0)
            count += 1
            if own >= floor:
                candidates[kept] = first + (w << 6) + np.int64(shift)
                kept += 1
            word &= word - _ONE
    return count, kept


@njit(cache=True)
def search(
    cover, begun, words, picks, present, order, best, most, hints, hint_attributes,
    held_ids, held_receivers, attribute, ends, weight, low, high, sent,
    prorate, threshold, floor, excluding, excluded, by_receiver, scores, ids, receivers, work, limit,
):
    """Fill the heap with the best filters, or without a heap return all that score at least `floor`.

    Returns (size of the heap, slots, scores); adds to work (blocks, words, candidates, filters scored). Size -1 says
    that it gave up, with nothing found: two for each candidate and twelve for each scored came to more than `limit`.
    """
    blocks = max(1, words // BLOCK_WORDS)
    block_words = min(words, BLOCK_WORDS)
    width = attribute.shape[1]
    digits = 3
    while (1 << digits) <= most:
        digits += 1
    groups = (present.size + GROUP) // GROUP  # at least one row of zeros, for attributes that are not present
    rows = np.zeros(groups * _GROUP_WORDS, np.uint64)
    place = np.full(low.size, groups * GROUP - 1, np.int64)
    for r in range(present.size):
        place[present[r]] = r
    planes, carry = np.empty(digits * BLOCK_WORDS, np.uint64), np.empty(BLOCK_WORDS, np.uint64)
    mask, seen = np.empty(BLOCK_WORDS, np.uint64), np.empty(BLOCK_WORDS, np.uint64)
    candidates = np.empty(BLOCK_SLOTS, np.int64)
    heaped = scores.size > 0
    size = 0
    found = np.empty(0 if heaped else 256, np.int64)
    found_scores = np.empty(found.size)
    total = 0
    floor = max(floor, threshold)
    for turn in range(order.size):
        block = order[turn]
        sums = best[block if best.shape[0] > 1 else 0]
        if most == 0 or sums[sums.size - 1] < floor:
            break
        if sums[most] < floor:  # in order are the sums of all weights, not of as many as can match here
            continue
        segment, part = block // blocks, block % blocks
        _gather(cover[segment], begun[segment], picks[segment], part * block_words, block_words, rows)
        if turn + 1 < order.size:
            following = order[turn + 1]
            _fetch(cover[following // blocks], picks[following // blocks],
                   (following % blocks) * block_words, block_words)
        _add_up(rows, planes, digits, carry)
        work[0] += 1
        work[1] += present.size * block_words
        first = 64 * (segment * words + part * block_words)
        # Until the heap is full, those that match most come first: they tell how little is worth a look.
        reach = most if heaped and size < scores.size else 1
        seen[:] = 0
        while reach > 0:
            need = 1
            while need <= most and sums[need] < floor:
                need += 1
            reach = max(reach, need)
            if reach > most:
                break
            _reach(planes, digits, reach, mask)
            for w in range(BLOCK_WORDS):
                fresh = mask[w] & ~seen[w]
                seen[w] |= mask[w]
                mask[w] = fresh
            reach = reach - 1 if reach > need else 0
            if sent.size:
                count, kept = _list_by_sent(mask, block_words, first, rows, present, sent, floor, candidates)
            else:
                count, kept = _list_by_weights(
                    mask, block_words, first, rows, place, hints, hint_attributes, width, floor, candidates
                )
            work[2] += count
            work[3] += kept
            if 2 * work[2] + 12 * work[3] > limit:
                return np.int64(-1), found[:0], found_scores[:0]
            for i in range(kept):
                slot = candidates[i]
                prefetch(ends, slot * 2 * width)  # type: ignore[call-arg]
                prefetch(ends, (slot + 1) * 2 * width - 1)
                prefetch(attribute, slot * width)
                if not sent.size:
                    prefetch(weight, slot * width)
            for i in range(kept):
                slot = candidates[i]
                score = score_of(attribute, ends, weight, slot, low, high, sent, prorate)
                if score < floor or score <= threshold:
                    continue
                if not heaped:
                    if total == found.size:
                        found, found_scores = _doubled(found), _doubled(found_scores)
                    found[total], found_scores[total] = slot, score
                    total += 1
                elif not (excluding and held_receivers[slot] == excluded):
                    size = offer(
                        scores, ids, receivers, size, score, held_ids[slot], held_receivers[slot], by_receiver
                    )
                    if size == scores.size:
                        floor = max(floor, scores[0])
    arrange(scores, ids, receivers, size)
    return np.int64(size), found[:total], found_scores[:total]


@njit(cache=True)
def _doubled(column):
    longer = np.empty(2 * column.size, column.dtype)
    longer[: column.size] = column
    return longer
