"""What a task finds of publications is what a plain look at one copy after the other finds, in whatever order."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from analysis.spark.spreads import Spread, found_in

BROKERS, PUBLICATIONS = 5, 3
ID = 1 << 32  # publications are far apart, as those of different clients
PAIRS = [(a, b) for a in range(BROKERS) for b in range(BROKERS) if a != b]
SOURCE = np.array([a for a, _ in PAIRS])


@st.composite
def events(draw):
    """Rows as a trace has them: (publication, broker, link, time), over a link or (-1) from a client."""
    over = st.tuples(st.integers(0, PUBLICATIONS), st.integers(0, len(PAIRS) - 1), st.integers(1, 6))
    rows = [(p, PAIRS[link][1], link, time) for p, link, time in draw(st.lists(over, max_size=30))]
    entered = st.tuples(st.integers(0, PUBLICATIONS), st.integers(0, BROKERS - 1), st.integers(0, 6))
    rows += [(p, broker, -1, time) for p, broker, time in draw(st.lists(entered, max_size=4))]
    return draw(st.permutations(rows))


def spread_of(rows, origins, service=0):
    """Publication PUBLICATIONS was published by nobody, or in another service."""
    columns = [np.array([row[i] for row in rows], np.int64) for i in range(4)]
    steps = dict(zip(("publication", "broker", "link", "time_ns"), columns)) | {"service": columns[0] * 0}
    steps["publication"] = steps["publication"] * ID
    ids = range(PUBLICATIONS + (service != 0))
    sent = {
        "publication": np.array([p * ID for p in ids][::-1]), "broker": np.array([origins[p] for p in ids][::-1]),
        "service": np.array([service if p == PUBLICATIONS else 0 for p in ids][::-1]),
    }  # fmt: skip
    return Spread.of(BROKERS, SOURCE, sent, steps)


def by_plain_look(rows, origins):
    """As `protocols.spreading` goes through them: by time, then by who sent."""
    reached = {p: {origins[p]: 0} for p in range(PUBLICATIONS)}
    copies = Counter()
    copied = [(time, PAIRS[link][0], p, broker) for p, broker, link, time in rows if link >= 0 and p < PUBLICATIONS]
    for _, source, p, broker in sorted(copied):
        copies[p] += 1
        if broker not in reached[p] and source in reached[p]:
            reached[p][broker] = reached[p][source] + 1
    return reached, copies


def in_turn(rows):
    """Without what nobody can do: to send something on in the instant in which it came."""
    kept = []
    for row in rows:
        p, broker, link, time = row
        sender = PAIRS[link][0] if link >= 0 else -1
        clash = any(
            p == q and time == then and (sender == at or (over >= 0 and PAIRS[over][0] == broker))
            for q, at, over, then in kept
        )
        kept += [] if clash else [row]
    return kept


ORIGINS = st.lists(st.integers(0, BROKERS - 1), min_size=PUBLICATIONS + 1, max_size=PUBLICATIONS + 1)


@given(events(), ORIGINS, st.sampled_from([0, 1]))
def test_brokers_are_reached_as_by_a_look_at_each_copy(rows, origins, service):
    rows = in_turn(rows)
    found = spread_of(rows, origins, service)
    expected, copies = by_plain_look(rows, origins)
    assert found.counted().tolist() == [copies[p] for p in range(PUBLICATIONS)] + [0] * service
    of, rounds = found.reached()
    assert Counter(zip(of.tolist(), rounds.tolist())) == Counter(
        (p, number) for p, each in expected.items() for broker, number in each.items() if broker != origins[p]
    )


@given(events(), ORIGINS, st.lists(st.tuples(st.integers(0, PUBLICATIONS), st.integers(0, BROKERS - 1)), max_size=4))
def test_what_came_for_nothing_is_what_a_look_at_each_copy_says(rows, origins, got):
    found = spread_of(rows, origins)
    publication, broker = (np.array([pair[i] for pair in got], np.int64) for i in (0, 1))
    useful = found.places(publication * ID, broker)
    sent_on = {(p, PAIRS[link][0]) for p, _, link, _ in rows if link >= 0}
    seen, wasted = set(), Counter()
    ordered = sorted((time, PAIRS[link][0] if link >= 0 else BROKERS, p, b, link) for p, b, link, time in rows)
    for _, _, p, at, link in ordered:
        if link >= 0 and ((p, at) in seen or (p, at) not in sent_on | set(got)):
            wasted[p, link] += 1
        seen.add((p, at))
    there = found.for_nothing(useful)
    published = found.ids[found.place[there] // BROKERS] // ID
    assert wasted == Counter(zip(published.tolist(), found.came["link"][there].tolist()))


def test_a_copy_of_who_had_not_been_reached_reaches_nobody_and_a_later_one_does():
    link = {pair: at for at, pair in enumerate(PAIRS)}
    rows = [
        (0, 2, link[1, 2], 1),  # 1 was told of it in some other way, by nobody yet
        (0, 3, link[2, 3], 2),  # so 2 is not reached, nor is who has it from there
        (0, 1, link[0, 1], 3),
        (0, 2, link[1, 2], 5),
        (0, 3, link[2, 3], 6),
    ]
    of, rounds = spread_of(rows, [0, 0, 0, 0]).reached()
    assert (of.tolist(), sorted(rounds.tolist())) == ([0, 0, 0], [1, 2, 3])
    assert sorted(by_plain_look(rows, [0, 0, 0])[0][0].items()) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_where_there_are_no_links_nobody_is_reached():
    steps = {name: np.array([0]) for name in ("publication", "broker", "time_ns", "service")} | {"link": np.array([-1])}
    sent = {name: np.array([0]) for name in ("publication", "broker", "service")}
    found = Spread.of(1, np.empty(0, np.int64), sent, steps)
    assert found.counted().tolist() == [0] and found.reached()[0].size == 0
    assert not found.for_nothing(np.empty(0, np.int64)).any()
    assert found_in(np.empty(0, np.int64), np.array([1, 2])).tolist() == [-1, -1]
