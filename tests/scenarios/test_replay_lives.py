"""Numbers of subscriptions over a whole file, against the rule taken one event at a time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.replaying import Op
from scenarios.workloads.replaying.lives import NOT_SAID, Counter, Keys, Lives

NAMES = ("publish", "subscribe", "renew", "unsubscribe", "put", "take")
OPS = (
    Op(0),
    Op(1, "begins", "subscription"),
    Op(2, "changes", "subscription"),
    Op(3, "ends", "subscription"),
    Op(4, "begins", "object"),
    Op(5, "ends", "object"),
)
EVENTS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, len(OPS) - 1), st.sampled_from([NOT_SAID, 0, 1, 2, 1 << 24])),
    max_size=40,
)


def one_by_one(events, again):
    """(numbers, places that are wrong) by the rule."""
    begun, state, numbers, wrong = {}, {}, [], []
    for place, (client, op, number) in enumerate(events):
        each = OPS[op]
        if each.role == "begins":
            number = begun.get(client, 0) if number == NOT_SAID else number
            begun[client] = begun.get(client, 0) + 1
        numbers.append(number)
        if not each.number:
            continue
        if not 0 <= number < 1 << 24:
            wrong.append(place)
            continue
        sort, lives = state.get((client, number), (None, None))
        if each.role == "begins":
            taken = state.get((client, number, "other"), set()) - {each.number}
            if taken or (sort == each.number and not (lives and again)):
                wrong.append(place)
            state.setdefault((client, number, "other"), set()).add(each.number)
            if sort is None or lives or sort != each.number:
                state[client, number] = (each.number, True)
        elif sort == each.number and lives:
            if each.role == "ends":
                state[client, number] = (sort, False)
        else:
            wrong.append(place)
    return numbers, wrong


def checked(events, again, cuts):
    """The same by pieces."""
    counter, lives = Counter(OPS, 3), Lives(NAMES, OPS, [again] * len(OPS))
    numbers, wrong = [], []
    for begin, end in zip([0, *cuts], [*cuts, len(events)]):
        client, op, number = np.array(events[begin:end], np.int64).reshape(-1, 3).T.copy()
        counter.fill(client, op, number)
        lives.check(client, op, number, lambda place, text, begin=begin: wrong.append(begin + place))
        numbers += number.tolist()
    return numbers, sorted(wrong)


@settings(max_examples=300)
@given(EVENTS, st.booleans(), st.data())
def test_pieces_find_the_first_thing_wrong_where_one_event_at_a_time_does(events, again, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(events)), max_size=3)))
    numbers, wrong = one_by_one(events, again)
    found_numbers, found = checked(events, again, cuts)
    assert found_numbers == numbers
    assert found[:1] == wrong[:1]


@given(st.lists(st.lists(st.integers(0, 50), max_size=8), max_size=20))
def test_a_set_of_keys_holds_what_was_added_in_few_runs(batches):
    keys, model = Keys(), set()
    for batch in batches:
        keys.add(np.array(batch, np.int64))
        model |= set(batch)
    asked = np.arange(51)
    assert keys.hold(asked).tolist() == [key in model for key in asked.tolist()]
    sizes = [run.size for run in keys._runs]
    assert all(a > 2 * b for a, b in pairwise(sizes))
