"""The inner loops of the workload sources: arrivals, values, interests, churn, walks.

Every loop runs client by client, and every draw is named by (stream of the client, counter). So neither
the other clients of a shard nor the length of a chunk can change what one client does. Loops that fill a
buffer stop before it overflows and say where to go on: nothing is counted twice, nothing is dropped.

One module, since Numba does not notice when a kernel in another file changes below a cached caller.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from topology.draws import exp, log, normal, pick, power, stream_of, uniform

NEVER = 1 << 62
_LONG_NS = 1 << 60  # the longest gap drawn (36 years), so that sums of a few stay within int64

# Arrival processes, and the columns of an arrival state.
CONSTANT, POISSON, BURSTS = 0, 1, 2
NEXT, ON_UNTIL, DRAWS, SENT = 0, 1, 2, 3
ARRIVAL_COLUMNS = 4

# Value laws, and the columns of a law's parameters.
UNIFORM, NORMAL, ZIPF, PARETO = 0, 1, 2, 3

# Churn processes; what a client does next; the columns of a subscriber's state.
REPLACE, LEAVE_AND_JOIN, STEADY = 0, 1, 2
ISSUE, CHURN, ABSENT = 0, 1, 2
DUE, STAGE, ISSUED, LIVE, TOSSES = 0, 1, 2, 3, 4
SUBSCRIBER_COLUMNS = 5


# ---- times -------------------------------------------------------------------------------------------


@njit(cache=True)
def _span(mean_ns, constant, key, counter):
    """A positive whole number of ns: the mean itself, or exponential around it."""
    span = mean_ns if constant else -log(1.0 - uniform(key, counter)) * mean_ns
    if span >= _LONG_NS:
        return _LONG_NS
    return max(1, int(np.floor(span + 0.5)))


@njit(cache=True)
def _at_regular(start_ns, gap_ns, key, sent):
    """The time of event `sent` of a client that acts every gap_ns, from a phase of its own."""
    offset = (uniform(key, 0) + sent) * gap_ns
    return NEVER if offset >= NEVER else start_ns + 1 + int(np.floor(offset))


@njit(cache=True)
def _next_in_bursts(now, stop_ns, gap_ns, on_ns, off_ns, constant, key, row):
    """The first arrival after `now`. A gap cut off by a silence is drawn anew: Poisson has no memory."""
    while now < stop_ns:
        arrival = now + _span(gap_ns, False, key, row[DRAWS])
        if arrival < row[ON_UNTIL]:
            row[DRAWS] += 1
            return arrival
        now = row[ON_UNTIL] + _span(off_ns, constant, key, row[DRAWS] + 1)
        row[ON_UNTIL] = now + _span(on_ns, constant, key, row[DRAWS] + 2)
        row[DRAWS] += 3
    return NEVER


@njit(cache=True)
def begin_arrivals(process, start_ns, stop_ns, gap_ns, on_ns, off_ns, constant, keys, state):
    """Set every client to its first arrival."""
    for c in range(keys.size):
        row, key = state[c], keys[c]
        row[SENT] = 0
        row[DRAWS] = 1  # draw 0 is the phase
        if process == CONSTANT:
            row[NEXT] = _at_regular(start_ns, gap_ns, key, 0)
        elif process == POISSON:
            row[NEXT] = start_ns + _span(gap_ns, False, key, 1)
            row[DRAWS] = 2
        else:
            # Somewhere in its cycle, so that the clients do not burst together.
            phase = uniform(key, 0) * (on_ns + off_ns)
            begin = start_ns
            if phase < on_ns:
                left = on_ns - phase if constant else on_ns
            else:
                silent = on_ns + off_ns - phase if constant else off_ns
                begin += _span(silent, constant, key, 1)
                left = on_ns
            row[ON_UNTIL] = begin + _span(left, constant, key, 2)
            row[DRAWS] = 3
            row[NEXT] = _next_in_bursts(begin, stop_ns, gap_ns, on_ns, off_ns, constant, key, row)
        if row[NEXT] >= stop_ns:
            row[NEXT] = NEVER


@njit(cache=True)
def arrivals(
    process,
    until_ns,
    start_ns,
    stop_ns,
    gap_ns,
    on_ns,
    off_ns,
    constant,
    limit,
    keys,
    state,
    first,
    who,
    when,
    number,
):
    """Write the arrivals before until_ns; returns (how many, the client to go on with)."""
    filled = 0
    for c in range(first, keys.size):
        row = state[c]
        while row[NEXT] < until_ns:
            if filled == who.size:
                return filled, c
            now = row[NEXT]
            who[filled], when[filled], number[filled] = c, now, row[SENT]
            filled += 1
            row[SENT] += 1
            if row[SENT] >= limit:
                row[NEXT] = NEVER
            elif process == CONSTANT:
                row[NEXT] = _at_regular(start_ns, gap_ns, keys[c], row[SENT])
            elif process == POISSON:
                row[NEXT] = now + _span(gap_ns, False, keys[c], row[DRAWS])
                row[DRAWS] += 1
            else:
                row[NEXT] = _next_in_bursts(now, stop_ns, gap_ns, on_ns, off_ns, constant, keys[c], row)
            if row[NEXT] >= stop_ns:
                row[NEXT] = NEVER
    return filled, keys.size


# ---- values ------------------------------------------------------------------------------------------


@njit(cache=True)
def normal_share(z):
    """The share of the standard normal below z, to 8e-8 (Abramowitz and Stegun 26.2.17)."""
    t = 1.0 / (1.0 + 0.2316419 * abs(z))
    series = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    tail = 0.3989422804014327 * exp(-0.5 * z * z) * series
    return 1.0 - tail if z > 0.0 else tail


@njit(cache=True)
def _value(law, first, second, table, low, high, u):
    """The value at share u of a law, within [low, high]."""
    if law == UNIFORM:
        return low + (high - low) * u
    if law == NORMAL:
        return min(high, max(low, first + second * normal(u)))
    if law == ZIPF:
        return low + (high - low) * ((pick(table, u) + 0.5) / table.size)
    return min(high, low + (high - low) * second * (power(1.0 - u, -1.0 / first) - 1.0))


@njit(cache=True)
def publications(keys, who, number, law, numbers, table_at, tables, low, high, correlation, missing, rows):
    """The attribute values of each message; a function of (client, number of the message) alone."""
    attributes = law.size
    shared = np.sqrt(correlation)
    own = np.sqrt(1.0 - correlation)
    for i in range(who.size):
        key = keys[who[i]]
        # Fixed places for the draws: common factor, then (absent, value) per attribute.
        base = number[i] * (1 + 2 * attributes)
        factor = shared * normal(uniform(key, base) + 1e-17) if correlation > 0.0 else 0.0
        for a in range(attributes):
            if missing > 0.0 and uniform(key, base + 1 + 2 * a) < missing:
                rows[i, a] = np.nan
                continue
            u = uniform(key, base + 2 + 2 * a)
            if correlation > 0.0:
                u = min(normal_share(factor + own * normal(u + 1e-17)), 1.0 - 2.0**-53)
            table = tables[table_at[a, 0] : table_at[a, 1]]
            rows[i, a] = _value(law[a], numbers[a, 0], numbers[a, 1], table, low, high, u)


# ---- interests ---------------------------------------------------------------------------------------


@njit(cache=True)
def _choose_attribute(key, counter, popularity, taken):
    """An attribute not taken yet, by popularity; returns it and the next counter.

    Tries a few times, then walks over what is left: the same law either way, and no endless loop where
    almost all of the weight is taken.
    """
    for _ in range(16):
        attribute = pick(popularity, uniform(key, counter))
        counter += 1
        if not taken[attribute]:
            return attribute, counter
    left = 0.0
    last = -1
    for a in range(popularity.size):
        if not taken[a]:
            left += popularity[a] - (popularity[a - 1] if a else 0.0)
            last = a
    target = uniform(key, counter) * left
    for a in range(popularity.size):
        if not taken[a]:
            target -= popularity[a] - (popularity[a - 1] if a else 0.0)
            if target < 0.0:
                return a, counter + 1
    return last, counter + 1


@njit(cache=True)
def interests(
    keys,
    who,
    number,
    popularity,
    constraints_min,
    constraints_max,
    width_min,
    width_max,
    law,
    numbers,
    table_at,
    tables,
    low,
    high,
    rows,
):
    """Rows [attribute, low, high] * k of each subscription; a function of (client, its number) alone."""
    attributes = law.size
    taken = np.zeros(attributes, np.bool_)
    rows[:, :] = np.nan
    for i in range(who.size):
        key = stream_of(keys[who[i]], number[i])
        count = constraints_min + int(uniform(key, 0) * (constraints_max - constraints_min + 1))
        counter = 1 + 2 * attributes  # the first places belong to centres and widths
        taken[:] = False
        for _ in range(count):
            attribute, counter = _choose_attribute(key, counter, popularity, taken)
            taken[attribute] = True
        column = 0
        for a in range(attributes):
            if not taken[a]:
                continue
            table = tables[table_at[a, 0] : table_at[a, 1]]
            centre = _value(law[a], numbers[a, 0], numbers[a, 1], table, low, high, uniform(key, 1 + 2 * a))
            width = width_min + (width_max - width_min) * uniform(key, 2 + 2 * a)
            # Moved inward at the edges, never cut: the width stays what was asked for.
            begin = min(max(centre - 0.5 * width, low), high - width) if width > 0.0 else centre
            rows[i, column], rows[i, column + 1], rows[i, column + 2] = a, begin, begin + width
            column += 3


@njit(cache=True)
def whole_numbers(keys, minimum, maximum):
    """One whole number in [minimum, maximum] per stream."""
    out = np.empty(keys.size, np.int64)
    for c in range(keys.size):
        out[c] = minimum + int(uniform(keys[c], 0) * (maximum - minimum + 1))
    return out


# ---- subscribers -------------------------------------------------------------------------------------


@njit(cache=True)
def _issue_time(start_ns, ramp_ns, key, j, count):
    """Initial subscription j of count: somewhere in the j-th part of the ramp, so numbers follow time."""
    return start_ns + 1 + int(np.floor(ramp_ns * ((j + uniform(key, j)) / count)))


@njit(cache=True)
def _first_churn(process, start_ns, gap_ns, stay_ns, constant, key, row):
    """When a client whose initial subscriptions are out first changes something."""
    counter = row[TOSSES]
    row[TOSSES] += 1
    if process == REPLACE:
        return start_ns + _span(gap_ns, False, key, counter)
    if process == LEAVE_AND_JOIN:
        # A constant stay begins somewhere in its course, so that the clients do not leave together.
        if constant:
            return start_ns + 1 + int(np.floor(uniform(key, counter) * stay_ns))
        return start_ns + _span(stay_ns, False, key, counter)
    return NEVER


@njit(cache=True)
def begin_subscribers(
    process,
    settled,
    start_ns,
    ramp_ns,
    churn_start_ns,
    stop_ns,
    churn_stop_ns,
    gap_ns,
    stay_ns,
    constant,
    keys,
    initial,
    live_at,
    live,
    state,
):
    """Set every client to its first act; settled ones have their initial subscriptions already."""
    for c in range(keys.size):
        row, key = state[c], keys[c]
        row[:] = 0
        row[TOSSES] = initial[c]  # the tosses before belong to the initial subscriptions
        row[DUE] = NEVER
        if initial[c] == 0:
            continue
        if settled:
            for j in range(initial[c]):
                live[live_at[c] + j] = j
            row[ISSUED] = row[LIVE] = initial[c]
            row[STAGE] = CHURN
            row[DUE] = _first_churn(process, churn_start_ns, gap_ns, stay_ns, constant, key, row)
            if row[DUE] >= churn_stop_ns:
                row[DUE] = NEVER
        else:
            row[STAGE] = ISSUE
            row[DUE] = _issue_time(start_ns, ramp_ns, key, 0, initial[c])
            if row[DUE] >= stop_ns:
                row[DUE] = NEVER


@njit(cache=True)
def subscriber_acts(
    process,
    until_ns,
    start_ns,
    ramp_ns,
    churn_start_ns,
    stop_ns,
    churn_stop_ns,
    gap_ns,
    stay_ns,
    away_ns,
    constant,
    keys,
    initial,
    live_at,
    live,
    state,
    first,
    begins,
    who,
    when,
    number,
):
    """Write what subscribers do before until_ns; returns (how many rows, the client to go on with)."""
    filled = 0
    for c in range(first, keys.size):
        row, key = state[c], keys[c]
        slots = live[live_at[c] : live_at[c + 1]]
        while row[DUE] < until_ns:
            now = row[DUE]
            ending = row[LIVE] if row[STAGE] == CHURN and process == LEAVE_AND_JOIN else 0
            needed = max(ending, initial[c] if row[STAGE] == ABSENT else 2)
            if filled + needed > who.size:
                return filled, c
            if row[STAGE] == ISSUE:
                filled = _write(begins, who, when, number, filled, True, c, now, row[ISSUED])
                slots[row[LIVE]] = row[ISSUED]
                row[ISSUED] += 1
                row[LIVE] += 1
                if row[LIVE] < initial[c]:
                    row[DUE] = _issue_time(start_ns, ramp_ns, key, row[LIVE], initial[c])
                    if row[DUE] >= stop_ns:
                        row[DUE] = NEVER
                else:
                    row[STAGE] = CHURN
                    row[DUE] = _first_churn(process, churn_start_ns, gap_ns, stay_ns, constant, key, row)
            elif process == REPLACE:
                slot = int(uniform(key, row[TOSSES]) * row[LIVE])
                filled = _write(begins, who, when, number, filled, False, c, now, slots[slot])
                slots[slot] = row[ISSUED]
                filled = _write(begins, who, when, number, filled, True, c, now, row[ISSUED])
                row[ISSUED] += 1
                row[DUE] = now + _span(gap_ns, False, key, row[TOSSES] + 1)
                row[TOSSES] += 2
            elif row[STAGE] == CHURN:
                for slot in range(row[LIVE]):
                    filled = _write(begins, who, when, number, filled, False, c, now, slots[slot])
                row[LIVE] = 0
                row[STAGE] = ABSENT
                row[DUE] = now + _span(away_ns, constant, key, row[TOSSES])
                row[TOSSES] += 1
            else:
                for slot in range(initial[c]):
                    slots[slot] = row[ISSUED]
                    filled = _write(begins, who, when, number, filled, True, c, now, row[ISSUED])
                    row[ISSUED] += 1
                row[LIVE] = initial[c]
                row[STAGE] = CHURN
                row[DUE] = now + _span(stay_ns, constant, key, row[TOSSES])
                row[TOSSES] += 1
            if row[STAGE] != ISSUE and row[DUE] >= churn_stop_ns:
                row[DUE] = NEVER
    return filled, keys.size


@njit(inline="always", cache=True)
def _write(begins, who, when, number, at, begin, client, time, subscription):
    begins[at], who[at], when[at], number[at] = begin, client, time, subscription
    return at + 1


# ---- context values ----------------------------------------------------------------------------------


@njit(cache=True)
def first_values(keys, law, numbers, table_at, tables, low, high, values):
    """The value that each (client, context, attribute) begins with."""
    contexts, attributes = values.shape[1], values.shape[2]
    for c in range(keys.size):
        for x in range(contexts):
            for a in range(attributes):
                table = tables[table_at[a, 0] : table_at[a, 1]]
                u = uniform(keys[c], x * attributes + a)
                values[c, x, a] = _value(law[a], numbers[a, 0], numbers[a, 1], table, low, high, u)


@njit(cache=True)
def context_updates(keys, who, number, step, law, numbers, table_at, tables, low, high, values, rows):
    """Change one value per event, in order; rows [context of the client, attribute, value].

    A positive step is a random walk by at most that much, clamped; otherwise the value is drawn anew.
    """
    contexts, attributes = values.shape[1], values.shape[2]
    for i in range(who.size):
        c = who[i]
        base = 3 * number[i]
        context = int(uniform(keys[c], base) * contexts)
        attribute = int(uniform(keys[c], base + 1) * attributes)
        u = uniform(keys[c], base + 2)
        if step > 0.0:
            value = min(high, max(low, values[c, context, attribute] + step * (2.0 * u - 1.0)))
        else:
            table = tables[table_at[attribute, 0] : table_at[attribute, 1]]
            value = _value(law[attribute], numbers[attribute, 0], numbers[attribute, 1], table, low, high, u)
        values[c, context, attribute] = value
        rows[i, 0], rows[i, 1], rows[i, 2] = context, attribute, value
