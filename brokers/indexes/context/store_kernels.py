"""Kernels of the store: entering and leaving, updates, the scan, the post-filter; `store.py` says how it works.

One family, compiled together. `start` and `count` are the columns of one array, so that to prefetch is to ask for
element 2 * conjunct from the start of either.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from brokers.errors import EndlessWalk
from brokers.indexes.context.table import (
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    UNEQUAL,
    WITHIN,
)
from brokers.indexes.intrinsics import prefetch, trailing_zeros

BLOCK = 512  # conjuncts per block of the scan; a block on one attribute is compared without lookups
UNSET = -2  # of a block without conjuncts
_MIXED = -1  # of a block whose conjuncts have different attributes there
HEAD = 4  # intervals that a candidate is tried on first
_AHEAD = 64  # updates whose memory is asked for together
_GATHER = np.uint64(0x0102040810204080)  # times this, the lowest bits of eight bytes are in the highest byte


@njit(cache=True)
def interval(operator, value, epsilon, constant, on_context_alone):
    """What an atom asks for, given the value on its right, or on its left if it is on the context alone."""
    if value != value:
        return (-np.inf, np.inf) if operator == UNEQUAL and not on_context_alone else (np.inf, -np.inf)
    if on_context_alone:
        low, high = _interval_of(operator, constant, epsilon)
        inside = low <= value and value <= high
        holds = inside != (operator == UNEQUAL)
        return (-np.inf, np.inf) if holds else (np.inf, -np.inf)
    return _interval_of(operator, value, epsilon)


@njit(cache=True)
def _interval_of(operator, value, epsilon):
    if operator == WITHIN:
        return value - epsilon, value + epsilon
    if operator in (EQUAL, UNEQUAL):
        return value, value
    if operator == LESS:
        return -np.inf, np.nextafter(value, -np.inf)
    if operator == LESS_EQUAL:
        return -np.inf, value
    if operator == GREATER_EQUAL:
        return value, np.inf
    if operator == GREATER:
        return np.nextafter(value, np.inf), np.inf
    return -np.inf, np.inf  # KNOWN


@njit(cache=True)
def enter(slots, starts, atoms, attribute, operator, rows, bindings_free, context, context_attribute, constant,
           epsilon, rank, context_attributes, cells, bindings, start, count, bounds, code, binding_of):
    attributes = rank.size
    taken = 0
    for j in range(slots.size):
        conjunct, begin = slots[j], starts[j]
        size = atoms[j + 1] - atoms[j]
        start[conjunct], count[conjunct] = begin, size
        ranks = np.empty(size, np.int64)
        order = np.empty(size, np.int64)
        row_of = np.empty(size, np.int64)
        for k in range(size):
            i = atoms[j] + k
            a = attribute[i]
            r = rank[a] if a >= 0 else attributes
            if operator[i] == UNEQUAL and a >= 0:
                r += attributes + 1
            row_of[k] = -1
            if context[i] >= 0:
                row_of[k] = taken
                taken += 1
            place = k
            while place > 0 and ranks[place - 1] > r:  # insertion sort: few atoms, and stable
                ranks[place], order[place] = ranks[place - 1], order[place - 1]
                place -= 1
            ranks[place], order[place] = r, k
        for place in range(size):
            k = order[place]
            i = atoms[j] + k
            atom = begin + place
            a = np.int64(attribute[i])
            alone = a < 0
            if alone:
                a = attributes
            code[atom] = ~a if operator[i] == UNEQUAL and not alone else a
            binding_of[atom] = -1
            value = constant[i]
            if context[i] >= 0:
                key = rows[row_of[k]] * context_attributes + context_attribute[i]
                number = bindings_free[row_of[k]]
                first = cells[key].first
                b = bindings[number]
                b.epsilon, b.constant, b.key, b.atom, b.conjunct = epsilon[i], constant[i], key, atom, conjunct
                b.next, b.previous, b.operator, b.place = first, -1, operator[i], place
                if first >= 0:
                    bindings[first].previous = number
                cells[key].first = number
                binding_of[atom] = number
                value = cells[key].value
            bounds[atom, 0], bounds[atom, 1] = interval(operator[i], value, epsilon[i], constant[i], alone)


@njit(cache=True)
def leave(slots, start, count, binding_of, bindings, cells):
    """Unbind the atoms of conjuncts; returns the bindings that became free."""
    total = 0
    for conjunct in slots:
        total += count[conjunct]
    freed = np.empty(total, np.int64)
    n = 0
    for conjunct in slots:
        for atom in range(start[conjunct], start[conjunct] + count[conjunct]):
            number = binding_of[atom]
            if number < 0:
                continue
            before, after = bindings[number].previous, bindings[number].next
            if before >= 0:
                bindings[before].next = after
            else:
                cells[bindings[number].key].first = after
            if after >= 0:
                bindings[after].previous = before
            freed[n] = number
            n += 1
    return freed[:n]


@njit(cache=True)
def conjuncts_of(following, firsts):
    total = 0
    for first in firsts:
        for _ in range(following.size + 1):
            if first < 0:
                break
            total += 1
            first = np.int64(following[first])
        else:
            raise EndlessWalk("the conjuncts of a profile form a ring")
    out = np.empty(total, np.int64)
    total = 0
    for first in firsts:
        while first >= 0:  # counted above
            out[total] = first
            total += 1
            first = np.int64(following[first])
    return out


@njit(cache=True)
def fill_columns(slots, attributes, start, count, bounds, code, low, high, second, codes, uniform):
    for conjunct in slots:
        for place in range(2):
            lower, upper, attribute = _at_place(conjunct, place, attributes, start, count, bounds, code)
            codes[conjunct, place] = attribute
            if place == 0:
                low[conjunct], high[conjunct] = lower, upper
                _is_uniform(uniform, 0, conjunct, attribute)
            else:
                second[conjunct, 0], second[conjunct, 1] = lower, upper
                _is_uniform(uniform, 1, conjunct, attribute)


@njit(cache=True)
def fill_heads(slots, attributes, start, count, bounds, code, binding_of, bindings, cells, heads, codes, uniform):
    for conjunct in slots:
        for place in range(HEAD):
            lower, upper, attribute = _at_place(conjunct, place, attributes, start, count, bounds, code)
            codes[conjunct, place] = attribute
            if place < count[conjunct] and _is_hot(start[conjunct] + place, binding_of, bindings, cells):
                lower, upper = -np.inf, np.inf
            heads[conjunct, 2 * place], heads[conjunct, 2 * place + 1] = lower, upper
            _is_uniform(uniform, place, conjunct, attribute)


@njit(cache=True)
def _is_hot(atom, binding_of, bindings, cells):
    number = np.int64(binding_of[atom])
    return number >= 0 and cells[bindings[number].key].stamp < 0


@njit(cache=True)
def indexed_again(conjuncts, attribute, clock, gap, start, count, bounds, code, binding_of, bindings, cells, heads):
    """As `indexed`, and whether each hangs on a value not followed; one at rest for `gap` messages is, again."""
    found, asked = np.empty(conjuncts.size, np.int64), np.empty((conjuncts.size, 2))
    waits = np.empty(conjuncts.size, np.bool_)
    n = 0
    for conjunct in conjuncts:
        first = np.int64(start[conjunct])
        low, high, asks, hot = -np.inf, np.inf, False, False
        for place in range(np.int64(count[conjunct])):
            atom, rests = first + place, False
            number = np.int64(binding_of[atom])
            if number >= 0:
                key = bindings[number].key
                stamp = np.int64(cells[key].stamp)
                rests = bool(stamp < 0 and 0 <= clock - ~stamp < gap)
                if stamp < 0 and not rests:
                    cells[key].stamp = ~stamp
                if not rests and place < HEAD and code[atom] >= 0:
                    heads[conjunct, 2 * place], heads[conjunct, 2 * place + 1] = bounds[atom, 0], bounds[atom, 1]
            if code[atom] == attribute:
                low, high = max(low, bounds[atom, 0]), min(high, bounds[atom, 1])
                asks, hot = True, hot or rests
        if asks:
            found[n], waits[n] = conjunct, hot
            asked[n, 0], asked[n, 1] = (low, high) if low <= high else (np.inf, -np.inf)
            n += 1
    return found[:n], asked[:n], waits[:n]


@njit(cache=True)
def _at_place(conjunct, place, attributes, start, count, bounds, code):
    """An interval of a conjunct and its attribute; everything where there is none, or where it is inverted."""
    atom = start[conjunct] + place
    if place < count[conjunct] and code[atom] >= 0:
        return bounds[atom, 0], bounds[atom, 1], np.int64(code[atom])
    return -np.inf, np.inf, attributes


@njit(cache=True)
def _is_uniform(uniform, place, conjunct, attribute):
    block = conjunct // BLOCK
    if uniform[block, place] == UNSET:
        uniform[block, place] = attribute
    elif uniform[block, place] != attribute:
        uniform[block, place] = _MIXED


@njit(cache=True)
def asked_interval(conjunct, attribute, start, count, bounds, code):
    """What a conjunct asks of an attribute: all its intervals there at once; nothing is [inf, -inf]."""
    low, high = -np.inf, np.inf
    for atom in range(start[conjunct], start[conjunct] + count[conjunct]):
        if code[atom] == attribute:
            low, high = max(low, bounds[atom, 0]), min(high, bounds[atom, 1])
        elif low > -np.inf or high < np.inf:
            break  # they stand side by side
    if low > high:
        low, high = np.inf, -np.inf
    return low, high


@njit(cache=True)
def indexed(conjuncts, attribute, start, count, bounds, code):
    found = np.empty(conjuncts.size, np.int64)
    asked = np.empty((conjuncts.size, 2))
    n = 0
    for conjunct in conjuncts:
        for atom in range(start[conjunct], start[conjunct] + count[conjunct]):
            if code[atom] == attribute:
                found[n] = conjunct
                asked[n, 0], asked[n, 1] = asked_interval(conjunct, attribute, start, count, bounds, code)
                n += 1
                break
    return found[:n], asked[:n]


@njit(cache=True)
def update(keys, values, cells, cell_words, bindings, binding_words, bounds, bounds_flat, code, start, count,
           low, high, second, second_flat, heads, heads_flat, index_of, clock, gap):
    room = keys.size // 8 + 64
    entries, asked = np.empty((room, 2), np.int64), np.empty((room, 2))
    n = 0
    alone = index_of.size - 1
    has_heads, has_columns = heads.shape[0] > 0, low.size > 0
    for begin in range(0, keys.size, _AHEAD):
        end = min(begin + _AHEAD, keys.size)
        for i in range(begin, end):
            prefetch(cell_words, 2 * keys[i])  # type: ignore[call-arg]
        for i in range(begin, end):
            first = cells[keys[i]].first
            if first >= 0:
                prefetch(binding_words, 6 * np.int64(first))  # type: ignore[call-arg]
        for i in range(begin, end):
            first = cells[keys[i]].first
            if first >= 0:
                atom, conjunct = np.int64(bindings[first].atom), np.int64(bindings[first].conjunct)
                prefetch(bounds_flat, 2 * atom)  # type: ignore[call-arg]
                prefetch(code, atom)
                prefetch(start, 2 * conjunct)
                if has_heads and bindings[first].place < HEAD:
                    prefetch(heads_flat, 2 * HEAD * conjunct)
                if has_columns and bindings[first].place == 0:
                    prefetch(low, conjunct)
                    prefetch(high, conjunct)
                elif has_columns and bindings[first].place == 1:
                    prefetch(second_flat, 2 * conjunct)
        for i in range(begin, end):
            key, value = keys[i], values[i]
            cells[key].value = value
            number = np.int64(cells[key].first)
            followed, leaves = True, False  # hot ones are followed no longer; one that becomes hot says so
            if gap > 0 and number >= 0:
                followed, leaves = _heat(cells, key, clock, gap)
            for _ in range(bindings.size + 1):
                if number < 0:
                    break
                b = bindings[number]
                atom, conjunct = np.int64(b.atom), np.int64(b.conjunct)
                attribute = np.int64(code[atom])
                lower, upper = interval(np.int64(b.operator), value, b.epsilon, b.constant, attribute == alone)
                bounds[atom, 0], bounds[atom, 1] = lower, upper
                if attribute >= 0:
                    if has_columns:
                        if b.place == 0:
                            low[conjunct], high[conjunct] = lower, upper
                        elif b.place == 1:
                            second[conjunct, 0], second[conjunct, 1] = lower, upper
                    if followed or leaves:
                        if has_heads and b.place < HEAD:
                            heads[conjunct, 2 * b.place] = -np.inf if leaves else lower
                            heads[conjunct, 2 * b.place + 1] = np.inf if leaves else upper
                        index = np.int64(index_of[attribute])
                        if index >= 0:
                            if n + 1 >= entries.shape[0]:
                                entries, asked = _wider(entries, asked, n)
                            entries[n, 0], entries[n, 1] = ~index if leaves else index, conjunct
                            if not leaves:
                                asked[n] = asked_interval(conjunct, attribute, start, count, bounds, code)
                            n += 1
                number = np.int64(b.next)
            else:
                raise EndlessWalk("the atoms of a context value form a ring")
    return entries[:n], asked[:n]


@njit(cache=True)
def _heat(cells, key, clock, gap):
    """Whether regions follow a value that changes now; and if not, whether they followed it until now."""
    stamp = np.int64(cells[key].stamp)
    followed = stamp >= 0 and not 0 <= clock - stamp < gap
    cells[key].stamp = clock if followed else ~clock
    return followed, not followed and stamp >= 0


@njit(cache=True)
def _wider(entries, asked, n):
    entries_wider, asked_wider = np.empty((2 * n + 64, 2), np.int64), np.empty((2 * n + 64, 2))
    entries_wider[:n], asked_wider[:n] = entries[:n], asked[:n]
    return entries_wider, asked_wider


@njit(cache=True)
def scan(exact_message, used, low, high, second, second_flat, codes, uniform, out):
    message = exact_message.astype(np.float32)
    flags = np.zeros(BLOCK, np.uint8)
    words = flags.view(np.uint64)
    n = 0
    for block in range((used + BLOCK - 1) // BLOCK):
        begin = block * BLOCK
        lows, highs = low[begin : begin + BLOCK], high[begin : begin + BLOCK]
        if uniform[block, 0] >= 0:
            value = message[uniform[block, 0]]
            for i in range(BLOCK):
                flags[i] = np.uint8(lows[i] <= value) & np.uint8(value <= highs[i])
        else:
            for i in range(BLOCK):
                value = message[codes[begin + i, 0]]
                flags[i] = np.uint8(lows[i] <= value) & np.uint8(value <= highs[i])
        first = n
        for w in range(0, words.size, 8):
            # Eight bytes of 0 or 1 become eight bits: few words are 0, and one loop per 64 conjuncts is foreseen.
            word = np.uint64(0)
            for part in range(8):
                word |= ((words[w + part] * _GATHER) >> np.uint64(56)) << np.uint64(8 * part)
            while word != 0:
                conjunct = begin + 8 * w + np.int64(trailing_zeros(word))  # type: ignore[call-arg]
                prefetch(second_flat, 2 * conjunct)
                out[n] = conjunct
                n += 1
                word &= word - np.uint64(1)
        kept, attribute = first, uniform[block, 1]
        for i in range(first, n):
            conjunct = out[i]
            value = message[attribute if attribute >= 0 else codes[conjunct, 1]]
            out[kept] = conjunct
            kept += int(second[conjunct, 0] <= value) & int(value <= second[conjunct, 1])
        n = kept
    return n


@njit(cache=True)
def verify(candidates, message, skip_indexed, start, count, bounds, bounds_flat, code, heads, heads_flat,
           codes, uniform, index_of):
    held = np.empty(16, np.int64)
    failed = np.empty((16 if skip_indexed else candidates.size + 1, 2), np.int64)
    held_count, failed_count, tested_count = 0, 0, 0
    likely = np.empty(candidates.size + 1, np.int32)
    likely_count = candidates.size
    if heads.shape[0] == 0:
        likely[:likely_count] = candidates
    else:
        likely_count, failed_count = _try_heads(
            candidates, message.astype(np.float32), skip_indexed, heads, heads_flat, codes, uniform, index_of,
            likely, failed,
        )
        tested_count = candidates.size - likely_count
    for begin in range(0, likely_count, _AHEAD):
        end = min(begin + _AHEAD, likely_count)
        if begin == 0:
            for i in range(end):
                prefetch(start, 2 * np.int64(likely[i]))  # type: ignore[call-arg]
        for i in range(begin, end):
            first = np.int64(start[likely[i]])
            prefetch(bounds_flat, 2 * first)  # type: ignore[call-arg]
            prefetch(code, first)
        for i in range(end, min(end + _AHEAD, likely_count)):
            prefetch(start, 2 * np.int64(likely[i]))  # type: ignore[call-arg]
        for i in range(begin, end):
            conjunct = np.int64(likely[i])
            holds, tested = True, 0
            for atom in range(start[conjunct], start[conjunct] + count[conjunct]):
                attribute = np.int64(code[atom])
                if attribute >= 0:
                    if skip_indexed and index_of[attribute] >= 0:
                        continue
                    tested = 1
                    value = message[attribute]
                    holds = bounds[atom, 0] <= value and value <= bounds[atom, 1]
                    if not holds:
                        if index_of[attribute] >= 0:
                            failed[failed_count, 0], failed[failed_count, 1] = index_of[attribute], conjunct
                            failed_count += 1
                        break
                else:
                    tested = 1
                    value = message[~attribute]
                    holds = value == value and not (bounds[atom, 0] <= value and value <= bounds[atom, 1])
                    if not holds:
                        break
            tested_count += tested
            if holds:
                if held_count == held.size:
                    more = np.empty(2 * held_count, np.int64)
                    more[:held_count] = held
                    held = more
                held[held_count] = conjunct
                held_count += 1
    return held[:held_count], failed[:failed_count], tested_count


@njit(cache=True)
def _try_heads(candidates, message, skip_indexed, heads, heads_flat, codes, uniform, index_of, likely, failed):
    """Leave in `likely` the candidates that their first intervals, rounded, do not rule out for sure.

    What lies on a rounded border may be inside or outside: then the exact test has to say, and which interval is the
    first to be missed. There is no branch that could not be foretold, so that memory is asked for in time.
    """
    tried = np.empty(index_of.size, np.uint8)
    for code in range(index_of.size):
        tried[code] = not (skip_indexed and index_of[code] >= 0)
    likely_count, failed_count = np.int64(0), np.int64(0)
    for i in range(min(_AHEAD, candidates.size)):
        prefetch(heads_flat, 2 * HEAD * np.int64(candidates[i]))  # type: ignore[call-arg]
    for begin in range(0, candidates.size, _AHEAD):
        end = min(begin + _AHEAD, candidates.size)
        for i in range(end, min(end + _AHEAD, candidates.size)):
            prefetch(heads_flat, 2 * HEAD * np.int64(candidates[i]))  # type: ignore[call-arg]
        for i in range(begin, end):
            conjunct = np.int64(candidates[i])
            block = conjunct // BLOCK
            missed, near = np.int64(0), np.uint8(0)
            for place in range(HEAD):
                attribute = np.int64(uniform[block, place])
                if attribute < 0:
                    attribute = np.int64(codes[conjunct, place])
                value = message[attribute]
                low, high = heads[conjunct, 2 * place], heads[conjunct, 2 * place + 1]
                inside = np.uint8(low <= value) & np.uint8(value <= high)
                missed |= np.int64(tried[attribute] & (np.uint8(1) - inside)) << place
                near |= tried[attribute] & (np.uint8(low == value) | np.uint8(value == high))
            certain = missed != 0 and near == 0
            likely[likely_count] = conjunct
            likely_count += 1 - int(certain)
            if not skip_indexed:
                stop = np.int64(1) << (HEAD - 1)  # for one that missed nothing, and does not count
                at = np.int64(trailing_zeros(np.uint64(missed | stop)))  # type: ignore[call-arg]
                attribute = np.int64(uniform[block, at])
                if attribute < 0:
                    attribute = np.int64(codes[conjunct, at])
                index = np.int64(index_of[attribute])
                failed[failed_count, 0], failed[failed_count, 1] = index, conjunct
                failed_count += int(certain) & int(index >= 0)
    return likely_count, failed_count
