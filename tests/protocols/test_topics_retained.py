"""Retained publications and overlapping subscriptions of the kind `topics`: the cases, the definition, who is wrong."""

from __future__ import annotations

import doctest
from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.errors import InvalidInput
from brokers.faults import KEPT, LOST, Crash, Cut, Schedule
from brokers.indexes.topics.syntax import HASH, PLUS
from protocols.conformance import REHEARSALS, audit_run, check_digests, join, rehearse
from protocols.topics import definition, measures
from protocols.topics.definition import Copy, Definition
from protocols.topics.forwarding import HAVE, KEEP, LACKING, Forwarding
from protocols.topics.kind import (
    AS_PUBLISHED,
    EMPTY,
    IF_NEW,
    NEVER_KEPT,
    NO_LOCAL,
    PUBLISH,
    RETAIN,
    SUBSCRIBE,
    Topics,
    flags_of,
    levels_of,
)
from scenarios.loader import loads
from scenarios.plan import resolve
from scenarios.problems import ScenarioErrors

MS = 1_000_000
LINE = [(0, 1), (1, 2)]
KEPT_ONE, GONE = -float(RETAIN), -float(RETAIN + EMPTY)


def params(**said):
    return Topics.Params(**{"groups": True, "no_local": True, "retained": True, **said}).model_dump()


def network(protocol="topics", links=LINE, clients=None, **said):
    return join(protocol, links, clients=clients, params=params(**said))


def subscribe(net, client, *filter, number=0, flags=0, group=0, at_ns=None):
    id_ = net.interest(client, number)
    net.send(client, "subscribe", [flags, group, *filter], word=id_, at_ns=at_ns)
    return id_


def publish(net, client, *name, at_ns=None):
    return net.send(client, "publish", name, at_ns=at_ns)


def copies(net):
    """What clients got, by entity id."""
    nodes = net.interest(0) >> 32
    told = net.table("retained")
    live = Counter((row["client"], row["publication"]) for row in told if row["live"])
    found = [Copy(row["client"], row["publication"], True) for row in told if not row["live"]]
    for each in net.deliveries():
        if each.publication >= 0:
            pair = each.client + nodes, each.publication
            found.append(Copy(*pair, live[pair] > 0))
            live[pair] -= 1
    assert len(found) == len(net.deliveries())
    return found


def got(net, client, retained=None):
    """The publications that a client got, all or those that say so or not, in the order of their sending."""
    entity = net.interest(client) >> 32
    mine = [each for each in copies(net) if each.client == entity and retained in (None, each.retained)]
    assert net.audit().verdict in ("valid", "unknown") and not net.audit().broken, str(net.audit())
    return sorted(each.publication for each in mine)


# ---- the cases: what is kept --------------------------------------------------------------------------


def test_who_subscribes_gets_the_last_retained_publication_of_each_name_that_it_asks_for():
    net = network()
    publish(net, 0, 1, 2, KEPT_ONE)
    last = publish(net, 0, 1, 2, KEPT_ONE)
    other = publish(net, 0, 1, 3, KEPT_ONE)
    publish(net, 0, 2, KEPT_ONE)
    subscribe(net, 2, 1, HASH)
    assert got(net, 2, retained=True) == [last, other] and got(net, 2, retained=False) == []


def test_a_name_is_all_of_its_levels():
    net = network()
    sent = [publish(net, 0, *name, KEPT_ONE) for name in ([1], [1, 0], [0, 1], [1, 0, 0])]
    for number, filter in enumerate(([1], [1, 0], [0, 1], [1, PLUS, PLUS])):
        subscribe(net, 2, *filter, number=number)
    assert got(net, 2) == sent


def test_what_is_not_retained_is_not_kept_and_takes_nothing_back():
    net = network()
    kept = publish(net, 0, 1, KEPT_ONE)
    publish(net, 0, 1)
    subscribe(net, 2, 1)
    assert got(net, 2) == [kept]


def test_an_empty_one_takes_back_what_is_retained_and_is_delivered_all_the_same():
    net = network()
    subscribe(net, 1, 1)
    kept, gone = publish(net, 0, 1, KEPT_ONE), publish(net, 0, 1, GONE)
    subscribe(net, 2, 1)
    assert got(net, 1) == [kept, gone] and got(net, 2) == []
    again = publish(net, 0, 1, KEPT_ONE)
    subscribe(net, 2, 1, number=1)
    assert got(net, 2) == [again, again]  # as it was published, and then as it is kept
    assert [net.describe(broker)["retained"] for broker in range(3)] == [{"1": str(again)}] * 3


def test_by_retain_handling_0_it_comes_always_also_to_who_subscribes_again():
    net = network()
    kept = publish(net, 0, 1, KEPT_ONE)
    for number in range(3):
        subscribe(net, 2, 1, number=number)
    assert got(net, 2, retained=True) == [kept] * 3


def test_by_retain_handling_1_it_comes_to_a_new_subscription_only():
    net = network()
    kept = publish(net, 0, 1, 5, KEPT_ONE)
    subscribe(net, 2, 1, PLUS, flags=IF_NEW)
    assert got(net, 2) == [kept]
    subscribe(net, 2, 1, PLUS, number=1, flags=IF_NEW)  # with the filter of the first
    assert got(net, 2) == [kept]
    subscribe(net, 2, 1, HASH, number=2, flags=IF_NEW)  # another filter
    subscribe(net, 1, 1, PLUS, flags=IF_NEW)  # another client
    assert got(net, 2) == [kept] * 2 and got(net, 1) == [kept]
    for number in range(2):
        net.send(2, "unsubscribe", word=net.interest(2, number))
    subscribe(net, 2, 1, PLUS, number=3, flags=IF_NEW)
    assert got(net, 2) == [kept] * 3


def test_by_retain_handling_2_it_never_comes():
    net = network()
    publish(net, 0, 1, KEPT_ONE)
    subscribe(net, 2, 1, flags=NEVER_KEPT)
    live = publish(net, 0, 1, KEPT_ONE)
    assert got(net, 2) == [live]


def test_live_copies_do_not_say_that_they_are_retained_unless_asked_to():
    net = network()
    subscribe(net, 1, 1)
    subscribe(net, 2, 1, flags=AS_PUBLISHED)
    plain, kept = publish(net, 0, 1), publish(net, 0, 1, KEPT_ONE)
    assert (got(net, 1, retained=True), got(net, 1, retained=False)) == ([], [plain, kept])
    assert (got(net, 2, retained=True), got(net, 2, retained=False)) == ([kept], [plain])


def test_what_is_kept_says_that_it_is_whatever_the_subscription_says():
    net = network()
    kept = publish(net, 0, 1, KEPT_ONE)
    for client, flags in enumerate((0, AS_PUBLISHED)):
        subscribe(net, client, 1, flags=flags)
    assert [got(net, client, retained=True) for client in range(2)] == [[kept], [kept]]


def test_what_is_retained_is_never_sent_to_groups_which_get_what_is_live():
    net = network()
    publish(net, 0, 1, KEPT_ONE)
    subscribe(net, 1, 1, group=5)
    subscribe(net, 2, 1, group=5, flags=AS_PUBLISHED)
    assert copies(net) == []
    sent = [publish(net, 0, 1, KEPT_ONE) for _ in range(20)]
    assert sorted(got(net, 1, retained=False) + got(net, 2, retained=True)) == sent
    assert got(net, 1) and got(net, 2)


def test_no_local_leaves_out_what_its_client_retained_but_nothing_of_others():
    net = network()
    mine, theirs = publish(net, 2, 1, 1, KEPT_ONE), publish(net, 0, 1, 2, KEPT_ONE)
    subscribe(net, 2, 1, HASH, flags=NO_LOCAL)
    assert got(net, 2) == [theirs]
    subscribe(net, 2, 1, HASH, number=1)
    assert got(net, 2) == sorted([theirs, theirs, mine])


def test_nats_keeps_nothing():
    with pytest.raises(ValueError, match="NATS keeps no last value"):
        Topics.Params(syntax="nats", retained=True)


@pytest.mark.parametrize("syntax, name", [("mqtt", "a/+"), ("nats", "a.*"), ("nats", "a.>")])
def test_nobody_publishes_under_a_wildcard(syntax, name):
    with pytest.raises(InvalidInput, match="names have no wildcards"):
        Topics({"syntax": syntax}).read(PUBLISH, name)


# ---- the cases: overlap -------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap, times", [("one", 1), ("each", 3)])
def test_a_client_gets_one_copy_or_one_for_each_of_its_subscriptions_that_overlap(overlap, times):
    net = network(overlap=overlap)
    for number, filter in enumerate(([1, HASH], [PLUS, 2], [1, 2], [3])):
        subscribe(net, 2, *filter, number=number)
    sent = publish(net, 0, 1, 2)
    assert got(net, 2) == [sent] * times
    net.send(2, "unsubscribe", word=net.interest(2, 1))
    again = publish(net, 0, 1, 2)
    assert got(net, 2) == [sent] * times + [again] * max(1, times - 1)


@pytest.mark.parametrize("overlap", ["one", "each"])
def test_who_is_in_groups_and_subscribed_as_well_gets_a_copy_for_each_of_them(overlap):
    net = network(overlap=overlap)
    subscribe(net, 2, 1)
    subscribe(net, 2, 1, number=1, group=5)
    subscribe(net, 2, PLUS, number=2, group=6)
    sent = publish(net, 0, 1)
    assert got(net, 2) == [sent] * 3


@pytest.mark.parametrize("overlap, told", [("one", [True]), ("each", [False, True])])
def test_of_overlapping_subscriptions_one_that_says_so_has_its_copy_told_as_retained(overlap, told):
    net = network(overlap=overlap)
    subscribe(net, 2, HASH)
    subscribe(net, 2, 1, number=1, flags=AS_PUBLISHED)
    publish(net, 0, 1, KEPT_ONE)
    assert sorted(each.retained for each in copies(net)) == told
    assert net.audit().verdict == "valid"


def test_each_subscription_that_overlaps_is_answered_with_what_is_retained():
    net = network()
    kept = publish(net, 0, 1, KEPT_ONE)
    subscribe(net, 2, HASH)
    subscribe(net, 2, 1, number=1)
    assert got(net, 2) == [kept, kept]


# ---- in a network -------------------------------------------------------------------------------------


@pytest.mark.parametrize("apart_ns", [0, 1, 500_000, 5_000_000])
@pytest.mark.parametrize("order", [(0, 2), (2, 0)])
def test_of_two_publishers_at_two_brokers_all_agree_who_was_the_last(order, apart_ns):
    net = network(clients=[0, 1, 2, 1])
    sent = [publish(net, client, 1, KEPT_ONE, at_ns=10**9 + at * apart_ns) for at, client in enumerate(order)]
    for client in range(3):
        subscribe(net, client, 1)
    last = sent[1] if apart_ns else max(sent)
    assert [got(net, client) for client in range(3)] == [[last]] * 3


def test_what_was_taken_back_stays_so_though_an_older_one_comes_after():
    net = network(clients=[0, 1, 2])
    publish(net, 0, 1, KEPT_ONE, at_ns=10**9)
    publish(net, 2, 1, GONE, at_ns=10**9 + 1)
    subscribe(net, 2, 1, at_ns=10**9 + 2)  # the older one is still on its way
    assert [net.describe(broker)["retained"] for broker in range(3)] == [{}] * 3
    subscribe(net, 0, 1)
    assert got(net, 0) == [] and len(got(net, 2)) == 1


@pytest.mark.parametrize("after_us", range(0, 3_001, 250))
def test_a_retained_publication_comes_live_or_as_it_is_kept_and_never_neither(after_us):
    net = network()
    sent = publish(net, 0, 1, KEPT_ONE, at_ns=10**9)
    subscribe(net, 2, 1, at_ns=10**9 + after_us * 1000)
    assert got(net, 2) == [sent]
    assert got(net, 2, retained=True) == ([sent] if after_us > 2_000 else []) or after_us == 2_000


def test_it_goes_to_every_broker_once_and_what_is_not_retained_only_where_it_is_wanted():
    net = network(links=[(0, 1), (1, 2), (1, 3)])
    subscribe(net, 2, 1)
    publish(net, 0, 1, KEPT_ONE)
    publish(net, 0, 1)
    types = {pair: [hop.type for hop in net.over(*pair) if hop.type != SUBSCRIBE] for pair in ((0, 1), (1, 2), (1, 3))}
    assert types == {(0, 1): [PUBLISH, PUBLISH], (1, 2): [PUBLISH, PUBLISH], (1, 3): [KEEP]}
    assert net.audit().verdict == "valid"


# ---- the definition, in sequence ----------------------------------------------------------------------

WORD = st.sampled_from([1, 2])
NAME = st.lists(WORD, min_size=1, max_size=2)
FILTER = st.one_of(NAME, st.sampled_from([[HASH], [PLUS], [1, HASH], [PLUS, 2], [1, PLUS]]))
CLIENT = st.integers(0, 3)
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), CLIENT, NAME, st.sampled_from([0, RETAIN, RETAIN, RETAIN | EMPTY])),
        st.tuples(
            st.just("subscribe"), CLIENT, FILTER,
            st.builds(
                lambda group, *flags: (group, sum(flags) - (NO_LOCAL if group and NO_LOCAL in flags else 0)),
                st.sampled_from([0, 0, 0, 5, 6]), st.sampled_from([0, 0, IF_NEW, NEVER_KEPT]),
                st.sampled_from([0, AS_PUBLISHED]), st.sampled_from([0, 0, NO_LOCAL]),
            ),
        ),
        st.tuples(st.just("unsubscribe"), st.integers(0, 20), st.none(), st.none()),
    ),
    min_size=3, max_size=16,
)  # fmt: skip


@given(ACTS, st.sampled_from(["one", "each"]), st.sampled_from([LINE, [(0, 1), (1, 2), (0, 2)]]))
@settings(max_examples=120, deadline=None)
def test_one_thing_after_the_other_is_served_as_the_definition_says(acts, overlap, links):
    net = network(links=links, clients=[0, 1, 2, 2], overlap=overlap)
    defined = Definition(Topics(params(overlap=overlap)))
    expected, choices, stand = Counter(), [], []
    for number, (op, who, what, more) in enumerate(acts):
        entity = net.interest(who) >> 32 if op != "unsubscribe" else None
        if op == "publish":
            row = [*what, *([-more] if more else [])]
            answer = defined.publish(publish(net, who, *row), row)
            expected.update(answer.copies)
            choices += answer.choices
        elif op == "subscribe":
            group, flags = more
            id_ = subscribe(net, who, *what, number=number, flags=flags, group=group)
            stand.append((who, id_))
            expected.update(defined.subscribe(entity, id_, [flags, group, *what]))
        elif stand:
            client, id_ = stand.pop(who % len(stand))
            net.send(client, "unsubscribe", word=id_)
            defined.unsubscribe(id_)
    assume(expected or stand or any(op == "publish" for op, *_ in acts))
    found = Counter(copies(net))
    assert not expected - found
    chosen = found - expected
    assert sum(chosen.values()) == len(choices) and _one_of_each(list(chosen.elements()), choices)
    judged = net.audit()
    assert not judged.broken and judged.free == 0, str(judged)


def test_the_definition_does_what_it_says():
    assert doctest.testmod(definition).failed == 0 and doctest.testmod(definition).attempted > 4


def _one_of_each(chosen, choices):
    """Whether one copy can be of each choice. Choices of one publication are few."""
    if not choices:
        return not chosen
    ways = (i for i, one in enumerate(chosen) if one in choices[0])
    return any(_one_of_each(chosen[:i] + chosen[i + 1 :], choices[1:]) for i in ways)


# ---- the kit ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("overlap", ["one", "each"])
@pytest.mark.parametrize("rehearsal", REHEARSALS, ids=lambda each: each.name)
def test_rehearsals_are_right(rehearsal, overlap):
    found = audit_run(rehearse(rehearsal, "topics", params=params(overlap=overlap)))
    assert found.verdict == "valid" and found.forced > 150, str(found)


@pytest.mark.full
@pytest.mark.parametrize("rehearsal", REHEARSALS, ids=lambda each: each.name)
def test_every_way_of_running_is_the_same(rehearsal):
    assert check_digests(rehearse(rehearsal, "topics", params=params(overlap="each"))) == []


class Local(Forwarding):
    """Wrong: only brokers where somebody wants it keep it."""

    def unwanted_behind(self, message, link):
        pass


class Stale(Forwarding):
    """Wrong: the first of a name stays."""

    def _retain(self, message):
        if tuple(levels_of(PUBLISH, self.node.row(message.body))) not in self.kept:
            super()._retain(message)


class Latecomer(Forwarding):
    """Wrong: what comes last is the last, whenever it was sent."""

    def _retain(self, message):
        self.kept.pop(tuple(levels_of(PUBLISH, self.node.row(message.body))), None)
        super()._retain(message)


class Undying(Forwarding):
    """Wrong: an empty one takes nothing back."""

    def _retain(self, message):
        if not flags_of(PUBLISH, self.node.row(message.body)) & EMPTY:
            super()._retain(message)


class Eager(Forwarding):
    """Wrong: whoever subscribes is answered, whatever it says."""

    def _wants_kept(self, id, row):
        return True


class Loud(Forwarding):
    """Wrong: every live copy says that it is retained."""

    def _join(self, id, row):
        super()._join(id, row)
        self.as_published.add(id)


class Quiet(Forwarding):
    """Wrong: no live copy does."""

    def _join(self, id, row):
        super()._join(id, row)
        self.as_published.discard(id)


class Stutters(Forwarding):
    """Wrong: what is kept comes twice."""

    def _recall(self, message, row):
        super()._recall(message, row)
        super()._recall(message, row)


class Pretends(Forwarding):
    """Wrong: it says that something was kept, and delivers nothing."""

    def _recall(self, message, row):
        deliver, self.node = self.node, _Mute(self.node)
        super()._recall(message, row)
        self.node = deliver


class _Mute:
    def __init__(self, node):
        self._node = node

    def __getattr__(self, name):
        return (lambda *_: None) if name == "deliver" else getattr(self._node, name)


class Frugal(Forwarding):
    """Wrong: one copy, however many are asked for."""

    def give(self, message, client, matched):
        self._hand(message, client, min(i for i in matched if i >> 32 == client + self.node.env.entity_base))


class Lavish(Forwarding):
    """Wrong: a copy for the group goes to every one of its subscriptions."""

    def _serve(self, message, id):
        super()._serve(message, id)
        self.node.deliver(message, (id >> 32) - self.node.env.entity_base)


@pytest.mark.parametrize(
    ("wrong", "found"),
    [
        (Local, "missed"), (Stale, "unwanted"), (Undying, "unwanted"), (Eager, "unwanted"), (Loud, "unwanted"),
        (Quiet, "missed"), (Stutters, "duplicated"), (Pretends, "missed"), (Frugal, "missed"), (Lavish, "duplicated"),
    ],
)  # fmt: skip
def test_the_judge_finds_what_is_wrong_with_what_is_retained(wrong, found):
    audit = audit_run(rehearse(REHEARSALS[0], wrong, params=params(overlap="each")))
    assert audit.verdict == "invalid" and getattr(audit, found).count > 0, str(audit)


def test_the_judge_finds_brokers_that_do_not_agree_who_was_the_last():
    for client, wrong in product((0, 2), (Latecomer, Forwarding)):
        net = network(wrong)
        publish(net, 0, 1, KEPT_ONE, at_ns=10**9)
        publish(net, 2, 1, KEPT_ONE, at_ns=10**9 + 1)
        subscribe(net, client, 1)
        assert net.audit().unwanted.count == (wrong is Latecomer and client == 2)


# ---- faults -------------------------------------------------------------------------------------------

RECOVERS = {"recover": True, "recover_within": 300 * MS}


def struck(net, *faults, detect_ns=10 * MS):
    """A network's model with faults, and its audit and its tables."""
    model = replace(net.model(), faults=Schedule(faults, detect_ns))
    service = replace(model.services[0], options=RECOVERS)
    model = replace(model, services=[service])
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    return audit_run(model), traces.tables()


def answers(tables):
    rows = zip(*(tables["retained"][name].tolist() for name in ("interest", "publication", "live")))
    return {interest: publication for interest, publication, live in rows if not live}


def test_what_a_cut_kept_from_brokers_comes_to_all_of_them_when_it_is_over():
    net = network(clients=[0, 2, 0, 2])
    old = publish(net, 1, 1, KEPT_ONE, at_ns=500 * MS)
    new, other = publish(net, 0, 1, KEPT_ONE, at_ns=1000 * MS), publish(net, 1, 2, KEPT_ONE, at_ns=1000 * MS)
    early = subscribe(net, 1, HASH, at_ns=1400 * MS)
    late = [subscribe(net, client, 1, number=1, at_ns=2500 * MS) for client in (2, 3)]
    others = [subscribe(net, client, 2, number=2, at_ns=2500 * MS) for client in (2, 3)]
    found, tables = struck(net, Cut(0, 900 * MS, 1500 * MS), Cut(1, 900 * MS, 1500 * MS))
    assert {HAVE, LACKING} <= set(tables["hops"]["type"].tolist())
    told = answers(tables)
    assert told[early] in (old, other) and [told[each] for each in late] == [new] * 2
    assert [told[each] for each in others] == [other] * 2
    assert found.verdict == "valid" and found.guarantees.under_faults == "recovers", str(found)


@pytest.mark.parametrize("state", [KEPT, LOST])
def test_a_broker_that_was_down_asks_its_neighbours_what_they_keep(state):
    net = network(clients=[0, 1, 2, 1])
    before, after = publish(net, 0, 1, KEPT_ONE, at_ns=500 * MS), publish(net, 0, 2, KEPT_ONE, at_ns=1000 * MS)
    late = [subscribe(net, 3, word, number=word, at_ns=2500 * MS) for word in (1, 2)]
    found, tables = struck(net, Crash(1, 900 * MS, 1500 * MS, state))
    assert [answers(tables).get(each) for each in late] == [before, after]
    assert not found.broken, str(found)


class Forgetful(Forwarding):
    """Wrong: nobody is told what it lacks."""

    def _send_lacking(self, message):
        pass


@pytest.mark.parametrize("protocol", [Forwarding, Forgetful])
def test_the_judge_finds_who_does_not_recover_what_is_retained(protocol):
    net = network(protocol, clients=[0, 2])
    for at in range(5):
        publish(net, 0, 1 + at, KEPT_ONE, at_ns=(1000 + at) * MS)
    subscribe(net, 1, HASH, at_ns=2500 * MS)
    found, _ = struck(net, Cut(0, 900 * MS, 1500 * MS), Cut(1, 900 * MS, 1500 * MS))
    assert found.missed.count == (0 if protocol is Forwarding else 5)


# ---- metrics, explanations ----------------------------------------------------------------------------


def columns(rows):
    return {name: np.array([row[name] for row in rows], object if name == "values" else None) for name in rows[0]}


def test_metrics_count_answers_their_age_and_how_evenly_members_are_chosen():
    net = network()
    publish(net, 0, 1, KEPT_ONE, at_ns=1000 * MS)
    for at, client in ((1500, 1), (2500, 2)):
        subscribe(net, client, 1, at_ns=at * MS)
    for client in range(3):
        subscribe(net, client, 2, number=1, group=5)
    for _ in range(30):
        publish(net, 0, 2)
    tables = {name: columns(net.table(name)) for name in ("retained", "publications", "chosen", "changes")}
    assert measures.answers(tables, net.kind) == 2
    assert measures.age_mean(tables, net.kind) == pytest.approx(1000)
    times = Counter(tables["chosen"]["interest"].tolist())
    assert measures.imbalance(tables, net.kind) == pytest.approx(max(times.values()) / 10) and len(times) == 3


def test_explain_tells_what_came_as_retained(tmp_path):
    from analysis.spark.explain import explain, text
    from scenarios.running import run

    (tmp_path / "s.yaml").write_text(scenario(SCRIPT) + "trace: {level: full}\n")
    done = run(tmp_path / "s.yaml", engine="inline", out=tmp_path)
    kept, gone = (text(explain(done.folder.path, message, 3)) for message in ("0#0", "0#1"))
    assert "values: site/7, retain\n" in kept
    assert "client 3 got it at 2 s as what is retained, for its interest 3#0\n" in kept
    assert "values: site/7, retain, empty\n" in gone
    assert "that it is retained, for its interest 3#0\n" in gone


# ---- bodies, scripts and workloads --------------------------------------------------------------------


def test_flags_of_publications_stand_behind_their_levels_and_are_read_and_spelled():
    kind = Topics({"retained": True})
    for flags, row in (([], [1, 2]), (["retain"], [1, 2, -1]), (["retain", "empty"], [1, 2, -3])):
        assert kind.read(PUBLISH, "1/2", flags).tolist() == row
        assert kind.spelled(PUBLISH, row) == ["1/2", *flags]
        assert kind.spelled(PUBLISH, [*row, np.nan]) == ["1/2", *flags]
        assert kind.amiss(PUBLISH, np.array([*row, np.nan])) is None
        assert kind.row_bytes(PUBLISH, np.array([row], np.float64)) == kind.row_bytes(PUBLISH, np.array([[1.0, 2.0]]))
    flags = ["retain-as-published", "retained-if-new"]
    assert kind.spelled(SUBSCRIBE, kind.read(SUBSCRIBE, "1/#", flags).tolist()) == ["1/#", *flags]


@pytest.mark.parametrize(
    ("type", "flags", "said", "told"),
    [
        (PUBLISH, ["retain"], {}, "retained: true"),
        (PUBLISH, ["empty"], {"retained": True}, "stands beside `retain`"),
        (PUBLISH, ["no-local"], {"no_local": True}, "no flag 'no-local' of this message; publications have retain"),
        (SUBSCRIBE, ["retain"], {"retained": True}, "no flag 'retain'"),
        (SUBSCRIBE, ["retained-never"], {}, "retained: true"),
        (SUBSCRIBE, ["retained-never", "retained-if-new"], {"retained": True}, "leave out one of the two"),
    ],
)
def test_flags_that_do_not_go_together_are_told(type, flags, said, told):
    with pytest.raises(InvalidInput, match=told):
        Topics(said).read(type, "1", flags)


@pytest.mark.parametrize(
    ("type", "row", "told"),
    [
        (PUBLISH, [1, -1], "retained: true"),
        (PUBLISH, [-1], "wildcard"),
        (PUBLISH, [1, -4], "-1 times a sum of 1 (retain), 2 (empty)"),
        (PUBLISH, [1, -2], "stands beside `retain`"),
        (PUBLISH, [-1, 1], "wildcard"),
        (SUBSCRIBE, [16, 0, 1], "a sum of 1 (no-local), 2 (retain-as-published)"),
        (SUBSCRIBE, [12, 0, 1], "leave out one of the two"),
        (SUBSCRIBE, [2, 0, 1], "retained: true"),
    ],
)
def test_numbers_of_flags_that_are_none_are_told(type, row, told):
    kind = Topics({"retained": "retained: true" not in told and "wildcard" not in told})
    assert told in kind.amiss(type, np.array(row, np.float64))


SCENARIO = """\
duration: 4 s
topology: {kind: line, nodes: 3}
links: {delay: 5 ms}
clients: {all: {count: 4, placement: even}}
services:
  - name: site
    kind: topics
    protocol: PROTOCOL
    SAID
    workload: WORKLOAD
"""
SCRIPT = """
      - source: script
        actions:
          - {at: 1 s, client: 0, op: publish, text: site/7, flags: [retain]}
          - {at: 2 s, client: 3, op: subscribe, text: site/+, flags: [retain-as-published]}
          - {at: 3 s, client: 0, op: publish, text: site/7, flags: [retain, empty]}
"""


def scenario(workload, said="retained: true", protocol="topics"):
    return SCENARIO.replace("PROTOCOL", protocol).replace("SAID", said).replace("WORKLOAD", workload)


def test_a_log_with_flags_is_replayed_as_the_script_says_it(tmp_path):
    (tmp_path / "log.csv").write_text(
        "time_s,client,op,topic,filter,flags\n1,0,publish,site/7,,retain\n2,3,subscribe,,site/+,retain-as-published\n"
        "3,0,publish,site/7,,retain empty\n"
    )
    made = [
        simulate(resolve(loads(scenario(workload), folder=tmp_path)))
        for workload in (SCRIPT, "[{source: replay, file: log.csv}]")
    ]
    assert made[0].digest == made[1].digest


@pytest.mark.parametrize(
    ("workload", "said", "protocol", "told"),
    [
        (SCRIPT, "retained: true", "subscription", "'subscription' cannot do; a protocol that can: topics"),
        (SCRIPT, "overlap: each", "flooding", "'flooding' cannot do; a protocol that can: topics"),
        (SCRIPT, "groups: true", "topics", "does not know what is retained, unless it says `retained: true`"),
        (SCRIPT, "{syntax: nats, retained: true}", "topics", "NATS keeps no last value of a name"),
        ("[{source: topic-publish, rate: 1/s, retain: 0.5}]", "levels: 5", "topics", "the service keeps nothing"),
        ("[{source: topic-publish, rate: 1/s, empty: 0.5}]", "retained: true", "topics", "say `retain` too"),
        ("[{source: topic-subscribe, retained: never}]", "levels: 5", "topics", "the service keeps nothing"),
        ("[{source: topic-subscribe, as_published: true}]", "levels: 5", "topics", "the service keeps nothing"),
    ],
)
def test_what_a_service_cannot_do_is_told_before_it_runs(workload, said, protocol, told):
    said = said.strip("{}").replace(", ", "\n    ")
    with pytest.raises(ScenarioErrors) as found:
        resolve(loads(scenario(workload, said, protocol)))
    assert told in str(found.value)


def test_a_share_of_what_is_published_is_retained_and_a_share_of_that_is_empty():
    from protocols.topics.publish import TopicPublish
    from protocols.topics.subscribe import TopicSubscribe
    from tests.protocols.test_topics import emitted

    asked = {"rate": 100.0, "topics": 100, "depth": [1, 3], "retain": 0.4, "empty": 0.25}
    rows = [row for *_, row in emitted(TopicPublish, asked, retained=True)]
    assert len(rows) > 40_000 and {row[-1] for row in rows if row[-1] < 0} == {-1, -3}
    assert abs(sum(row[-1] == -1 for row in rows) / len(rows) - 0.3) < 0.02
    assert abs(sum(row[-1] == -3 for row in rows) / len(rows) - 0.1) < 0.02
    plain = [row for *_, row in emitted(TopicPublish, {key: asked[key] for key in ("rate", "topics", "depth")})]
    assert [tuple(level for level in row if level >= 0) for row in rows] == plain
    assert emitted(TopicPublish, asked, retained=True) == emitted(TopicPublish, asked, 7_000_000, retained=True)
    subscribed = {"retained": "if-new", "as_published": True, "no_local": True}
    events = emitted(TopicSubscribe, subscribed, retained=True, no_local=True)
    assert {row[0] for *_, row in events} == {IF_NEW + AS_PUBLISHED + NO_LOCAL}
