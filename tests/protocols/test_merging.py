"""Merging: boxes, what is sent over a link, and the protocol beside covering."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations, product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import LOST
from brokers.verdicts import INVALID, VALID
from protocols.conformance import REHEARSALS, audit, audit_run, join, judge_run, rehearse
from protocols.content.boxes import around, box_of, common, holds, is_perfect, row_of, volume
from protocols.content.kind import PUBLISH
from protocols.content.merging import REPLACED, Merging, Options
from protocols.content.packing import Packing, Rule, is_merger
from protocols.content.subscription import LOCAL
from protocols.joining import overlay_of
from tests.protocols.test_recovery import LOSSLESS, RECOVERS, struck

MS = 1_000_000
TREE = REHEARSALS[0]
HERE = [each / 2 for each in range(-1, 10)]  # between and on the ends of drawn ranges, and beyond


@st.composite
def boxes(draw, attributes=2):
    """A box with whole ends from 0 to 4."""
    row = []
    for attribute in range(attributes):
        if draw(st.booleans()):
            low = draw(st.integers(0, 4))
            row += [attribute, low, draw(st.integers(low, 4))]
    return box_of(row)


def inside(box, point):
    return all(point[attribute] is not None and low <= point[attribute] <= high for attribute, low, high in box)


POINTS = list(product([None, *HERE], repeat=2))


# ---- boxes -------------------------------------------------------------------------------------------


@given(boxes(), boxes())
@settings(max_examples=300, deadline=None)
def test_boxes_are_the_sets_that_they_stand_for(one, other):
    mine, theirs = ({point for point in POINTS if inside(box, point)} for box in (one, other))
    both = {point for point in POINTS if inside(around(one, other), point)}
    assert holds(one, other) == (theirs <= mine)
    assert mine | theirs <= both
    assert is_perfect(one, other) == (both == mine | theirs)
    assert box_of(row_of(one)) == one


@given(boxes(), boxes())
@settings(max_examples=100, deadline=None)
def test_volumes_are_shares_of_the_domain(one, other):
    grid = list(product(np.arange(0.05, 4, 0.1), repeat=2))

    def share(*several):
        return sum(all(inside(box, point) for box in several) for point in grid) / len(grid)

    assert volume(one, 0, 4) == pytest.approx(share(one))
    assert common(one, other, 0, 4) == pytest.approx(share(one, other))


@pytest.mark.parametrize(
    ("one", "other", "perfect"),
    [
        ([0, 1, 2], [0, 2, 3], True),  # ends that meet
        ([0, 1, 2], [0, 2.000001, 3], False),
        ([0, 1, 3], [0, 2, 4], True),
        ([0, 1, 2], [], True),  # everything holds it
        ([0, 1, 2, 1, 0, 1], [0, 2, 3, 1, 0, 1], True),
        ([0, 1, 2, 1, 0, 1], [0, 2, 3, 1, 0, 0.9], False),
        ([0, 1, 2, 1, 0, 1], [0, 2, 3], False),  # who lacks attribute 1 answers the one only
        ([0, 1, 2], [1, 1, 2], False),
    ],
)
def test_perfect_unions(one, other, perfect):
    assert is_perfect(box_of(one), box_of(other)) == perfect == is_perfect(box_of(other), box_of(one))


def test_boxes_that_reach_beyond_the_domain_are_cut_to_it():
    assert volume(box_of([0, -np.inf, 0.5]), 0, 1) == 0.5 == volume(box_of([0, 0.5, np.inf]), 0, 1)
    assert volume(box_of([0, 2, 3]), 0, 1) == 0


def test_ranges_of_one_attribute_that_are_disjoint_leave_nothing():
    assert box_of([0, 0, 1, 0, 2, 3]) is None
    assert box_of([0, 0, 2, 0, 1, 3]) == ((0, 1.0, 2.0),)
    assert Packing(Rule(), [0, 2]).learn(1, None, LOCAL, -1) == []


# ---- what is sent over a link ------------------------------------------------------------------------


def check(packing, rule, gap_free):
    """Every invariant of `Packing`, by brute force."""
    for link, sent in packing.sent.items():
        wanted = {i: box for i, box in packing.boxes.items() if packing.came_by[i] - {link}}
        assert all(any(holds(each.box, box) for each in sent.values()) for box in wanted.values())
        parts = [part for each in sent.values() for part in each.parts]
        assert len(set(parts)) == len(parts) and set(parts) <= wanted.keys()
        for name, each in sent.items():
            assert all(holds(each.box, wanted[part]) for part in each.parts)
            assert each.parts == (name,) or (is_merger(name) and len(each.parts) > 1)
            if gap_free:
                held = [wanted[part] for part in each.parts]
                assert all(any(inside(box, point) for box in held) for point in POINTS if inside(each.box, point))
            else:
                assert each.idle <= rule.waste * volume(each.box, rule.low, rule.high)
            others = {other: box for other, box in sent.items() if other != name}
            alone = [box for box in wanted.values() if holds(each.box, box)]
            assert not all(any(holds(other.box, box) for other in others.values()) for box in alone)
        for one, other in combinations(sent.values(), 2):
            assert not holds(one.box, other.box) and not holds(other.box, one.box)
            assert packing._merged(one, other) is None


def hear(known, changes, wanted):
    """Have neighbours take over what is said, message by message: nothing that stays wanted is ever not held."""
    for link, told, withdrawn, _ in changes:
        there = known[link]
        for name, box in told:
            assert name not in there
            there[name] = box
        for name, holders in withdrawn:
            assert set(holders) <= there.keys() and name not in holders
            del there[name]
            assert all(any(holds(box, each) for box in there.values()) for each in wanted(link))


@given(
    st.lists(st.tuples(boxes(), st.sampled_from([LOCAL, 0, 2, 4]), st.integers(0, 30)), max_size=14),
    st.sampled_from([0.0, 0.0, 0.2, 0.6]),
    st.randoms(use_true_random=False),
)
@settings(max_examples=120, deadline=None)
def test_what_is_sent_over_each_link_is_merged_whatever_comes_and_goes(drawn, waste, random):
    rule = Rule(waste, 0.0, 4.0)
    packing, known = Packing(rule, [0, 2, 4]), {0: {}, 2: {}, 4: {}}
    stands = {}

    def wanted(link):
        return [packing.boxes[i] for i, via in stands.items() if via != link]

    for number, (box, via, until) in enumerate(drawn):
        hear(known, packing.learn(number, box, via, number), wanted)
        stands[number] = via
        check(packing, rule, waste == 0)
        if stands and until % 3 == 0:
            gone = random.choice(sorted(stands))
            hear(known, packing.forget(gone, via := stands.pop(gone), 100 + number), wanted)
            assert packing.forget(gone, via, 0) == []
            check(packing, rule, waste == 0)
        assert known == {link: {name: each.box for name, each in sent.items()} for link, sent in packing.sent.items()}
    for number in sorted(stands):
        hear(known, packing.forget(number, stands.pop(number), -1), wanted)
    assert known == {0: {}, 2: {}, 4: {}} and not packing.came_by and not packing.boxes


@pytest.mark.parametrize("seed", range(5))
def test_adjacent_intervals_are_one_entry_whatever_their_order_and_holes_make_more(seed):
    random = Random(seed)
    n = random.randrange(5, 40)
    packing = Packing(Rule(), [0])
    for i in random.sample(range(n), n):
        packing.learn(i, box_of([0, i, i + 1]), LOCAL, i)
    assert [each.box for each in packing.sent[0].values()] == [((0, 0.0, float(n)),)]
    holes = random.sample(range(1, n - 1, 2), random.randrange(1, n // 2 - 1) if n > 5 else 1)
    for i in holes:
        packing.forget(i, LOCAL, i)
    assert len(packing.sent[0]) == len(holes) + 1


def test_what_came_over_a_link_does_not_go_back_in_a_merger():
    packing = Packing(Rule(), [0, 2])
    packing.learn(1, box_of([0, 0, 1]), 0, 1)
    packing.learn(2, box_of([0, 1, 2]), LOCAL, 2)
    assert set(packing.sent[0]) == {2}
    (merger,) = packing.sent[2]
    assert is_merger(merger) and packing.sent[2][merger].parts == (1, 2)


def test_equal_boxes_of_two_clients_are_sent_once_and_the_second_takes_over():
    packing = Packing(Rule(), [0])
    packing.learn(1, box_of([0, 0, 1]), LOCAL, 1)
    ((_, told, withdrawn, behind),) = packing.learn(2, box_of([0, 0, 1]), LOCAL, 2)
    assert (told, withdrawn, behind) == ([], [], [1])  # settled only once the first is
    ((_, told, withdrawn, behind),) = packing.forget(1, LOCAL, 3)
    assert (told, withdrawn) == ([(2, box_of([0, 0, 1]))], [(1, (2,))])


def test_a_merger_that_loses_a_part_and_stays_what_it_was_is_not_sent_again():
    packing = Packing(Rule(), [0])
    for i, (low, high) in enumerate([(0, 2), (1, 3), (2, 4)]):
        packing.learn(i, box_of([0, low, high]), LOCAL, i)
    (merger,) = packing.sent[0]
    ((_, told, withdrawn, _),) = packing.forget(1, LOCAL, 9)
    assert (told, withdrawn, set(packing.sent[0])) == ([], [], {merger})
    assert packing.sent[0][merger].parts == (0, 2)


def test_boxes_without_volume_are_not_merged_by_volume():
    packing = Packing(Rule(0.9), [0])
    packing.learn(1, box_of([0, 0.5, 0.5, 1, 0.0, 0.1]), LOCAL, 1)
    packing.learn(2, box_of([0, 0.5, 0.5, 1, 0.9, 1.0]), LOCAL, 2)
    assert set(packing.sent[0]) == {1, 2}
    packing.learn(3, box_of([0, 0.5, 0.5, 1, 0.1, 0.9]), LOCAL, 3)  # the union is perfect
    assert len(packing.sent[0]) == 1


# ---- the protocol ------------------------------------------------------------------------------------


def run(model):
    """The tables of a run, and its brokers."""
    traces, found = MemoryTraces("full", tables_of(model)), {}
    simulate(model, trace=traces, observe=lambda shards: found.update(entries=_entries(shards)))
    return traces.tables(), found["entries"]


def _entries(shards):
    return shards.shards[0].services.protocols[0].entries().tolist()


def crossings(tables):
    """How often each publication went over each link."""
    hops = tables["hops"]
    mine = (hops["type"] == PUBLISH) & (hops["link"] >= 0)
    return Counter(zip(hops["body"][mine].tolist(), hops["link"][mine].tolist()))


@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("rehearsal", [REHEARSALS[0], REHEARSALS[1], REHEARSALS[4]], ids=lambda each: each.name)
def test_without_waste_publications_go_exactly_where_covering_sends_them(rehearsal, seed):
    merging, covering = (run(rehearse(rehearsal, protocol, seed))[0] for protocol in ("merging", "covering"))
    assert crossings(merging) == crossings(covering) and crossings(merging)


def wide(protocol, seed, attributes, brokers=12, number=150, **options):
    """A random tree whose clients subscribe to boxes one after the other, and take back a third of them."""
    random = Random(seed)
    edges = [(random.randrange(b), b) for b in range(1, brokers)]
    net = join(protocol, edges, params={"attributes": attributes}, options=options)
    begun = []
    for i in range(number):
        client = random.randrange(brokers)
        row = []
        for attribute in range(attributes):
            low = random.randrange(16)
            row += [attribute, low / 16, (low + random.randrange(1, 17 - low)) / 16]
        net.send(client, "subscribe", row, word=net.interest(client, i), at_ns=(i + 1) * 50 * MS)
        begun.append((client, i))
    for at, (client, i) in enumerate(random.sample(begun, number // 3)):
        net.send(client, "unsubscribe", word=net.interest(client, i), at_ns=(number + at + 1) * 50 * MS)
    return net


@pytest.mark.parametrize("seed", range(5))
def test_in_one_dimension_no_broker_knows_more_than_under_covering(seed):
    merging, covering = (wide(protocol, seed, 1) for protocol in ("merging", "covering"))
    pairs = [(merging.entries(broker), covering.entries(broker)) for broker in range(12)]
    assert all(mine <= theirs for mine, theirs in pairs) and sum(mine for mine, _ in pairs) < sum(t for _, t in pairs)


@pytest.mark.parametrize("attributes", [2, 3])
def test_in_more_dimensions_tables_are_smaller_as_a_rule(attributes):
    totals = []
    for seed in range(5):
        nets = [wide(protocol, seed, attributes, number=70) for protocol in ("merging", "covering")]
        totals.append([sum(net.entries(broker) for broker in range(12)) for net in nets])
    assert all(mine <= theirs for mine, theirs in totals), totals


def test_a_merger_may_hide_what_others_cover_and_tables_grow():
    """Of two boxes that are merged broker 1 has one that covers the first, broker 2 the second, none the merger."""
    edges = [(0, 3), (1, 3), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)]
    known = {}
    for protocol in ("covering", "merging"):
        net = join(protocol, edges)
        net.send(1, "subscribe", [0, -1, 1, 1, 0, 2], word=net.interest(1))
        net.send(2, "subscribe", [0, 1, 3, 1, -1, 1], word=net.interest(2))
        net.send(0, "subscribe", [0, 0, 1, 1, 0, 1], word=net.interest(0))
        net.send(0, "subscribe", [0, 1, 2, 1, 0, 1], word=net.interest(0, 1))
        known[protocol] = [net.entries(broker) for broker in (3, 4, 5, 6, 7)]
    assert known == {"covering": [4, 2, 2, 2, 2], "merging": [3, 3, 3, 3, 3]}


@pytest.mark.parametrize("waste", [0.1, 0.4])
def test_waste_on_a_link_stays_under_its_bound(waste):
    """Pairs of boxes that are merged, and uniform publications: the share that answers no subscription, by seed."""
    found = []
    for seed in range(8):
        random = Random(seed)
        widths = random.uniform(0.1, 0.2), random.uniform(0.1, 0.2)
        share = random.uniform(0.97, 1.0) * waste
        gap = sum(widths) * share / (1 - share)
        low = random.uniform(0.0, 0.3)
        rows = [[0, low, low + widths[0]], [0, low + widths[0] + gap, low + sum(widths) + gap]]
        net = join("merging", [(0, 1)], options={"waste": waste})
        for number, row in enumerate(rows):
            net.send(1, "subscribe", row, word=net.interest(1, number))
        begin = net._clock_ns + 1_000 * MS
        for i in range(400):
            net.send(0, "publish", [random.random(), 0, 0, 0], at_ns=begin + i * MS)
        assert net.entries(0) == 1
        sent = sum(hop.type == PUBLISH for hop in net.over(0, 1))
        found.append(1 - len(net.deliveries(1)) / sent)
    spread = np.std(found, ddof=1) / np.sqrt(len(found))
    assert np.mean(found) <= waste + 2 * spread, (found, spread)
    assert np.mean(found) > 0.7 * waste  # the bound is used


@pytest.mark.parametrize("waste", [0.0, 0.3])
@pytest.mark.parametrize("attributes", [1, 2])
def test_mergers_keep_to_the_bound_however_many_parts_they_have(waste, attributes):
    random = Random(3)
    rule, packing = Rule(waste), Packing(Rule(waste), [0])
    for i in range(60):
        row = []
        for attribute in range(attributes):
            low = random.random() * 0.9
            row += [attribute, low, low + 0.1 * random.random()]
        packing.learn(i, box_of(row), LOCAL, i)
    merged = [each for each in packing.sent[0].values() if len(each.parts) > 2]
    assert merged or attributes > 1
    for each in packing.sent[0].values():
        (points,) = np.random.default_rng(1).random((1, 4_000, attributes))
        points = [[low + p * (high - low) for (_, low, high), p in zip(each.box, point)] for point in points]
        held = [box for box in packing.boxes.values() if holds(each.box, box)]
        idle = np.mean([not any(inside(box, point) for box in held) for point in points])
        assert idle <= rule.waste + 0.02


class Frugal(Merging):
    """Merging that says publications go only where somebody may get them."""

    frugal = True


def test_without_waste_publications_go_only_where_somebody_may_get_them():
    assert judge_run(rehearse(TREE, Frugal, 2))[1] == []
    (told,) = judge_run(rehearse(TREE, Frugal, 2, options={"waste": 0.8}))[1]
    assert told.endswith("behind which nobody may get it")


@pytest.mark.parametrize("waste", [0.3, 0.9])
@pytest.mark.parametrize("rehearsal", REHEARSALS, ids=lambda each: each.name)
def test_waste_never_shows_in_what_is_delivered(rehearsal, waste):
    found = audit_run(rehearse(rehearsal, "merging", 3, options={"waste": waste}))
    assert not found.broken and (found.verdict == VALID or rehearsal.links.get("loss")), str(found)


def test_a_lost_merger_takes_nothing_from_who_had_something():
    """A link loses every second message: what settled before is delivered all the same, unless it is lost itself."""
    kept = 0
    for seed in range(6):
        net = join("merging", [(0, 1)], clients=[0, 1])
        for i in range(6):
            net.send(1, "subscribe", [0, i / 10, (i + 1) / 10], word=net.interest(1, i))
            net.send(0, "publish", [0.05, 0, 0, 0])
        model = replace(net.model(), overlay=overlay_of([(0, 1)], loss=0.4), seed=seed)
        traces = MemoryTraces("full", tables_of(model))
        simulate(model, trace=traces)
        spec = model.services[0]
        found = audit(traces.tables(), spec.kind_class(spec.params), spec.protocol_class.guarantees_for(model.overlay))
        assert found.verdict != INVALID, str(found)
        kept += found.forced
        hops = traces.tables()["hops"]
        assert seed or (hops["type"] == REPLACED).any()
    assert kept


class Impatient(Merging):
    """Says that what it holds back has settled, although what covers it is under way."""

    def _say(self, message, changes):
        super()._say(message, [each._replace(behind=()) for each in changes])


class Trusting(Merging):
    """Takes back what a neighbour says it replaced, whether the new one came or not."""

    def on_message(self, message):
        if message.type == REPLACED:
            self.withdraw(message, message.word, message.link)
        else:
            super().on_message(message)


@pytest.mark.parametrize(("careless", "number", "seed"), [(Impatient, 2, 3), (Trusting, 3, 1)])
def test_who_keeps_less_than_the_rules_is_accused(careless, number, seed):
    assert audit_run(rehearse(REHEARSALS[number], careless, seed)).missed.count
    assert not audit_run(rehearse(REHEARSALS[number], Merging, seed)).broken


@pytest.mark.parametrize("number", [0, 1, 4])
def test_it_recovers_where_brokers_come_back_and_know_nothing(number):
    found = audit_run(struck(LOSSLESS[number], "merging", 1, {**RECOVERS, "waste": 0.2}, LOST))
    assert found.guarantees.under_faults == "recovers"
    assert found.verdict == VALID, str(found)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"waste": 1.0}, "less than 1"),
        ({"waste": -0.1}, "greater than or equal to 0"),
        ({"domain": [1.0, 0.0]}, "a domain needs low < high"),
        ({"routing": "shared"}, "Extra inputs"),
    ],
)
def test_options_that_say_nothing_are_refused(options, told):
    with pytest.raises(ValueError, match=told):
        Options(**options)
