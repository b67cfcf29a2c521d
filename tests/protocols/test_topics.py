"""The kind `topics`: text and numbers, what covers what, who is served, groups, workloads, and what is refused."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.contract import NEVER, SourceContext
from brokers.errors import InvalidInput
from brokers.indexes.topics.syntax import DOLLAR, HASH, NATS, PLUS, SYNTAXES, covers, matches
from brokers.words import PARAMETER
from protocols.conformance import REHEARSALS, audit_run, check_digests, join, rehearse
from protocols.content.covering import covers as ranges_cover
from protocols.topics.forwarding import CHOSEN, Forwarding
from protocols.topics.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE, Topics
from protocols.topics.matching import Filters
from protocols.topics.publish import TopicPublish
from protocols.topics.subscribe import TopicSubscribe
from protocols.topics.words import LEVELS
from scenarios.loader import loads
from scenarios.plan import resolve
from scenarios.problems import ScenarioErrors

PROTOCOLS = ("flooding", "subscription", "covering", "leases", "reliable", "neighbourhood", "topics")
TREE, SETTLED, CYCLES = REHEARSALS[0], REHEARSALS[4], REHEARSALS[6]


def service(*texts, **params):
    """A kind whose words are those of these filters."""
    kind = Topics(Topics.Params(**params).model_dump())
    found = set().union(*(kind.words_read(SUBSCRIBE, text)[LEVELS] for text in texts))
    return Topics({**kind.params, PARAMETER: {LEVELS: sorted(found)}})


# ---- text and numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "texts"),
    [
        ({}, ["site/+/temperature", "#", "/", "a//b", "$SYS/#", "$7/1", "7/12", "007/0", "+/#", "a/$b"]),
        ({"groups": True}, ["$share/g/site/#", "$share/3/#", "site/#", "$share/g//a"]),
        ({"syntax": "nats"}, ["site.*.temperature", ">", "foo*.bar", "$SYS.>", "7.12"]),
        ({"syntax": "nats", "groups": True}, ["site.> workers", "site.>"]),
    ],
)
def test_what_is_written_is_read_and_spelled_back(params, texts):
    kind = service(*texts, **params)
    rows = [kind.read(SUBSCRIBE, text) for text in texts]
    assert [kind.spelled(SUBSCRIBE, row.tolist()) for row in rows] == [[text] for text in texts]
    assert [kind.amiss(SUBSCRIBE, row) for row in rows] == [None] * len(texts)
    assert len({tuple(row.tolist()) for row in rows}) == len(texts)


def test_words_are_marked_as_indexes_want_them():
    kind = service("b", "a", "$SYS", "$9")
    a, b, dollar, nine, empty, number = (int(kind.read(PUBLISH, t)[0]) for t in ("a", "b", "$SYS", "$9", "/", "42"))
    assert (number, empty) == (42, 0) and number < a < b < DOLLAR
    assert dollar & DOLLAR and nine == DOLLAR | 9


@pytest.mark.parametrize(
    ("type", "text", "params", "told"),
    [
        (SUBSCRIBE, "a#", {}, "stands for whole levels"),
        (SUBSCRIBE, "a/#/b", {}, "comes last"),
        (PUBLISH, "a/+", {}, "names have no wildcards"),
        (PUBLISH, "", {}, "is empty"),
        (SUBSCRIBE, "foo..bar", {"syntax": "nats"}, "no empty levels"),
        (SUBSCRIBE, "$share//t", {"groups": True}, "no name of a group"),
        (SUBSCRIBE, "$share/g+/t", {"groups": True}, "name of its group"),
        (SUBSCRIBE, "$share/g/", {"groups": True}, "no filter after its group"),
        (SUBSCRIBE, "t ", {"syntax": "nats", "groups": True}, "no name of a group"),
        (SUBSCRIBE, "$share/g/t", {}, "groups: true"),
        (SUBSCRIBE, "a/b/c", {"levels": 2}, "at most 2"),
        (UNSUBSCRIBE, "a", {}, "no body"),
    ],
)
def test_what_the_syntax_forbids_is_told(type, text, params, told):
    kind = Topics(Topics.Params(**params).model_dump())
    with pytest.raises(InvalidInput, match=told):
        kind.words_read(type, text)


@pytest.mark.parametrize(
    ("type", "row", "told"),
    [
        (SUBSCRIBE, [0, 0, 1, HASH, 2], "comes last"),
        (PUBLISH, [PLUS], "wildcard"),
        (PUBLISH, [1.5], "no word"),
        (SUBSCRIBE, [1, 0, 1], "no_local: true"),
        (SUBSCRIBE, [0], "[flags, group, level, ...]"),
        (SUBSCRIBE, [0, 1, 1], "no groups"),
        (SUBSCRIBE, [0, 0, *[1] * 17], "at most 16"),
        (SUBSCRIBE, [0, 0], "no level"),
        (PUBLISH, None, "it needs a name"),
    ],
)
def test_numbers_that_are_no_body_are_told(type, row, told):
    assert told in Topics({}).amiss(type, None if row is None else np.array(row, np.float64))


# ---- the definition -----------------------------------------------------------------------------------

LEVEL = st.sampled_from([0, 1, 2, DOLLAR | 1])
NAMES = st.lists(LEVEL, min_size=1, max_size=3)
FILTERS = st.builds(
    lambda levels, rest: [*levels, HASH] if rest or not levels else levels,
    st.lists(st.one_of(LEVEL, st.just(PLUS)), max_size=3), st.booleans(),
)  # fmt: skip
EVERY_NAME = [list(name) for depth in (1, 2, 3, 4, 5) for name in product((0, 1, 2, DOLLAR | 1), repeat=depth)]
SYNTAX = st.sampled_from(sorted(SYNTAXES.values(), key=lambda syntax: syntax.name))


def ranges(kind, levels):
    return kind.ranges(np.array([[0.0, 0.0, *levels]]))[0]


@given(FILTERS, NAMES, SYNTAX)
def test_the_ranges_of_a_filter_hold_the_names_that_it_has(filter, name, syntax):
    found = ranges(Topics({"syntax": syntax.name}), filter).reshape(-1, 3)
    value = [*name, *[-1] * 8]
    held = all(low <= value[int(level)] <= high for level, low, high in found.tolist() if level == level)
    assert held == matches(filter, name, syntax)


@given(FILTERS, FILTERS, SYNTAX)
@settings(max_examples=200)
def test_ranges_cover_each_other_exactly_as_filters_do(outer, inner, syntax):
    kind = Topics({"syntax": syntax.name})
    found = ranges_cover(ranges(kind, outer), ranges(kind, inner))
    assert found == all(matches(outer, name, syntax) for name in EVERY_NAME if matches(inner, name, syntax))
    assert found or not covers(outer, inner, syntax)


@given(st.lists(FILTERS, min_size=1, max_size=5), st.lists(NAMES, min_size=1, max_size=5), SYNTAX)
def test_the_matcher_of_the_audit_finds_what_the_definition_does(filters, names, syntax):
    kind = Topics({"syntax": syntax.name})
    asked, sent = padded([[0, 0, *each] for each in filters]), padded(names)
    found = Filters(kind.interests, syntax.dollar_rule).pairs(sent, asked)
    expected = {(i, j) for i, row in enumerate(sent) for j in kind.oracle(dict(enumerate(asked)), row)}
    assert set(zip(*(each.tolist() for each in found))) == expected


def padded(rows):
    out = np.full((len(rows), max(map(len, rows))), np.nan)
    for row, one in zip(out, rows):
        row[: len(one)] = one
    return out


# ---- protocols ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("rehearsal", [
    TREE, pytest.param(SETTLED, marks=pytest.mark.full), pytest.param(CYCLES, marks=pytest.mark.full),
], ids=lambda rehearsal: rehearsal.name)  # fmt: skip
def test_a_protocol_is_right_in_every_way_of_running(protocol, rehearsal):
    model = rehearse(rehearsal, protocol, kind="topics")
    assert check_digests(model) == []
    found = audit_run(model)
    assert found.verdict == "valid" and found.forced > 100, str(found)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_nats_is_served_as_well(protocol):
    params = Topics.Params(syntax="nats", groups=protocol == "topics").model_dump()
    found = audit_run(rehearse(CYCLES, protocol, kind="topics", params=params))
    assert found.verdict == "valid" and found.forced > 100, str(found)


def test_covering_keeps_back_what_a_wider_filter_asks_for():
    line = join("covering", [(0, 1)], clients=[0, 0, 0], kind="topics")
    line.send(0, "subscribe", [0, 0, 1, HASH], word=line.interest(0))
    line.send(1, "subscribe", [0, 0, 1, PLUS], word=line.interest(1))
    line.send(2, "subscribe", [0, 0, PLUS, HASH], word=line.interest(2))
    assert [hop.word for hop in line.over(0, 1)] == [line.interest(0), line.interest(2)]
    line.send(0, "unsubscribe", word=line.interest(0))
    assert [hop.word for hop in line.over(0, 1)][2:] == [line.interest(0)]  # who is left covers the second


def test_a_protocol_without_groups_is_not_given_any():
    with pytest.raises(InvalidInput, match=r"groups: of each group one member gets a publication, which .* cannot do"):
        join("subscription", [(0, 1)], kind="topics", params=Topics.Params(groups=True).model_dump())


# ---- groups -------------------------------------------------------------------------------------------

MEMBER = [0, 5, 1, HASH]


def crowd(protocol=Forwarding, brokers=4, filters=None):
    """A line of brokers, with a client at each, all in one group."""
    line = join(protocol, [(i, i + 1) for i in range(brokers - 1)])
    for client in range(brokers):
        line.send(client, "subscribe", (filters or {}).get(client, MEMBER), word=line.interest(client))
    return line


def test_one_member_of_a_group_gets_a_publication_and_all_do_in_turn():
    line = crowd()
    sent = [line.send(i % 4, "publish", [1, i]) for i in range(200)]
    got = line.deliveries()
    assert [delivery.publication for delivery in got] == sent
    assert {client: sum(each.client == client for each in got) for client in range(4)}.keys() == {0, 1, 2, 3}
    assert min(sum(each.client == client for each in got) for client in range(4)) > 25  # of 50 expected


def test_a_group_is_its_name_and_its_filter():
    line = crowd(filters={1: [0, 5, 1, PLUS], 2: [0, 6, 1, HASH], 3: [0, 5, 1, HASH]})
    line.send(0, "publish", [1, 2])
    assert len(line.deliveries()) == 3
    assert {each.client for each in line.deliveries()} >= {1, 2}


def test_who_is_chosen_and_asked_by_itself_gets_both():
    line = crowd()
    for client in range(4):
        line.send(client, "subscribe", [0, 0, 1, 2], word=line.interest(client, 1))
    line.send(0, "publish", [1, 2])
    got = [each.client for each in line.deliveries()]
    assert len(got) == 5 and {*got} == {0, 1, 2, 3}
    assert line.audit().verdict == "valid"


def test_a_publication_goes_to_a_member_only_by_the_links_that_lead_there():
    line = crowd(filters={client: [0, 0, 9] for client in (0, 1, 3)})
    line.send(0, "publish", [1, 2])
    assert [each.client for each in line.deliveries()] == [2]
    assert [hop.type for a in range(3) for hop in line.over(a, a + 1)].count(CHOSEN) == 2
    assert not [hop for a in range(3) for hop in line.over(a, a + 1) if hop.type == PUBLISH]


def test_a_member_that_left_gets_nothing():
    line = crowd()
    for client in (0, 1, 3):
        line.send(client, "unsubscribe", word=line.interest(client))
    for i in range(8):
        line.send(0, "publish", [1, i])
    assert {each.client for each in line.deliveries()} == {2}


def test_a_broker_tells_of_its_groups_and_forgets_who_left():
    kind = Topics.Params(groups=True, no_local=True).model_dump()
    pair = join("topics", [(0, 1)], params=kind)
    pair.send(0, "subscribe", MEMBER, word=pair.interest(0))
    pair.send(1, "subscribe", [1, 0, 1], word=pair.interest(1))
    told = [pair.describe(broker) for broker in range(2)]
    assert [each["groups"] for each in told] == [{"$share/5/1/#": [str(pair.interest(0))]}] * 2
    assert [each["no_local"] for each in told] == [[str(pair.interest(1))]] * 2
    for client in range(2):
        pair.send(client, "unsubscribe", word=pair.interest(client))
    assert [(each["groups"], each["no_local"]) for each in map(pair.describe, range(2))] == [({}, [])] * 2


class Everybody(Forwarding):
    """Wrong: every member gets it."""

    def _publish(self, message):
        super()._publish(message)
        for id_ in self.node.table.match(message.body) if message.link < 0 else ():
            self._pass(message, id_)


class Nobody(Forwarding):
    """Wrong: a group gets nothing of every third publication."""

    def _choice(self, message, members):
        return members[0] if self.node.key(message) % 3 else 0

    def home(self, id):
        return super().home(id) if id else self.node.broker


class Anybody(Forwarding):
    """Wrong: all of one name are one group, whatever they ask for."""

    def _join(self, id, row):
        super()._join(id, row)
        if id in self.group_of:
            self.group_of[id] = self.group_of[id][:1]


@pytest.mark.parametrize(
    ("wrong", "found"), [(Everybody, "duplicated"), (Nobody, "missed"), (Anybody, "missed")]
)
def test_the_judge_finds_what_is_wrong_with_groups(wrong, found):
    audit = audit_run(rehearse(TREE, wrong))
    assert audit.verdict == "invalid" and getattr(audit, found).count > 0, str(audit)


# ---- no-local -----------------------------------------------------------------------------------------


def selfless(protocol):
    """Three clients leave out what they publish, of whom one does so by one of its subscriptions only."""
    pair = join(protocol, [(0, 1)], clients=[0, 0, 1])
    for client in range(3):
        pair.send(client, "subscribe", [1, 0, 1, HASH], word=pair.interest(client))
    pair.send(0, "publish", [1, 2])
    pair.send(0, "subscribe", [0, 0, PLUS, 2], word=pair.interest(0, 1))
    pair.send(0, "publish", [1, 2])
    return pair


def test_a_subscription_may_leave_out_what_its_client_publishes():
    pair = selfless("topics")
    assert sorted(each.client for each in pair.deliveries()) == [0, 1, 1, 2, 2]  # it asks for it by another one too
    assert pair.audit().verdict == "valid"


class Selfish(Forwarding):
    """Wrong: whoever publishes gets it all the same."""

    def wanting(self, message):
        return [id_ for id_ in self.node.table.match(message.body) if id_ not in self.group_of]


class Shy(Forwarding):
    """Wrong: one subscription that leaves it out keeps its client from getting it by another."""

    def wanting(self, message):
        found = super().wanting(message)
        left_out = {id_ >> 32 for id_ in self.selfless} & {self.node.key(message) >> 32}
        return [id_ for id_ in found if id_ >> 32 not in left_out]


@pytest.mark.parametrize(("wrong", "found"), [(Selfish, "unwanted"), (Shy, "missed")])
def test_the_judge_finds_what_is_wrong_with_no_local(wrong, found):
    audit = selfless(wrong).audit()
    assert audit.verdict == "invalid" and getattr(audit, found).count == 1, str(audit)


def test_flags_stand_beside_a_text():
    kind = Topics({"no_local": True, "groups": True})
    assert kind.read(SUBSCRIBE, "1/#", ["no-local"]).tolist() == [1, 0, 1, HASH]
    assert kind.spelled(SUBSCRIBE, [1, 0, 1, HASH]) == ["1/#", "no-local"]
    for text, flags, told in (("1", ["fast"], "no flag 'fast'"), ("$share/2/1", ["no-local"], "in no group")):
        with pytest.raises(InvalidInput, match=told):
            kind.read(SUBSCRIBE, text, flags)
    with pytest.raises(InvalidInput, match="no_local: true"):
        Topics({}).read(SUBSCRIBE, "1", ["no-local"])


# ---- workloads ----------------------------------------------------------------------------------------


def emitted(source, params, chunk_ns=None, **service_params):
    """All that 50 clients do in ten seconds: (type, time, client, word, levels)."""
    kind = Topics(Topics.Params(**service_params).model_dump())
    context = SourceContext(1, 0, 0, np.arange(50), 8, 50, 10**10, False, kind.params, None, kind)
    made = source(params, context)
    made.chunk_ns = chunk_ns or made.chunk_ns
    found = []
    while made.next_wake() < NEVER:
        for each in made.take():
            rows = [None] * each.time.size if each.rows is None else [tuple(r[r == r]) for r in each.rows]
            types = [each.type] * each.time.size
            found += zip(types, each.time.tolist(), each.client.tolist(), each.word.tolist(), rows)
    return sorted(found, key=lambda event: event[1:4])


def test_topics_are_drawn_by_popularity_and_the_hot_ones_beside():
    plain = emitted(TopicPublish, {"rate": 100.0, "topics": 1000, "depth": [2, 4]})
    rows = [row for *_, row in plain]
    counts = sorted((rows.count(row) for row in set(rows)), reverse=True)
    assert 0.1 < counts[0] / len(rows) < 0.17  # 1 / (1 + 1/2 + ... + 1/1000) is 0.134
    assert set(map(len, rows)) == {2, 3, 4}
    assert len(set(rows)) > 500
    hot = [row for *_, row in emitted(TopicPublish, {"rate": 100.0, "topics": 1000, "hot": 2, "hot_share": 0.5})]
    assert sorted(hot.count(row) for row in set(hot))[-2] / len(hot) > 0.22


def test_wildcards_are_in_as_many_filters_as_asked_and_where_they_may_be():
    asked = {"number": 200, "topics": 1000, "depth": [1, 4], "wildcards": 0.4, "rest": 0.25}
    rows = [row[2:] for *_, row in emitted(TopicSubscribe, asked)]
    assert len(rows) == 10_000
    assert abs(sum(PLUS in row for row in rows) / len(rows) - 0.3) < 0.02
    assert abs(sum(HASH in row for row in rows) / len(rows) - 0.1) < 0.02
    kind = Topics({})
    assert all(kind.amiss(SUBSCRIBE, np.array([0, 0, *row])) is None for row in set(rows))


def test_groups_are_dealt_out_and_one_filter_is_for_all():
    events = emitted(TopicSubscribe, {"number": 3, "filter": "1/#", "groups": 4}, groups=True)
    assert {row[2:] for *_, row in events} == {(1, HASH)}
    group = {client: {row[1] for _, _, at, _, row in events if at == client} for client in range(50)}
    assert all(len(each) == 1 for each in group.values())
    assert set.union(*group.values()) == {1, 2, 3, 4}


@pytest.mark.parametrize("source, params", [
    (TopicPublish, {"rate": 5.0}),
    (TopicSubscribe, {"number": [1, 4], "ramp": 10**9, "churn": {"process": "replace", "rate": 1.0}}),
])  # fmt: skip
def test_how_time_is_cut_changes_nothing(source, params):
    assert emitted(source, params) == emitted(source, params, chunk_ns=7_000_000)


# ---- scenarios ----------------------------------------------------------------------------------------

NAMED = {"at": "1 ms", "client": 0, "op": "subscribe", "text": "site/+/temperature"}
SAID = {"at": "1 s", "client": 1, "op": "publish", "text": "site/7/temperature"}


def scenario(actions, **said):
    return yaml.safe_dump({
        "duration": "2 s", "topology": {"kind": "line", "nodes": 2}, "clients": {"all": {"count": 3}},
        "services": [{"name": "site", "kind": "topics", "protocol": "subscription", **said,
                      "workload": [{"source": "script", "actions": actions}]}],
    })  # fmt: skip


def test_a_script_of_text_is_run(tmp_path):
    from scenarios.running import run

    (tmp_path / "s.yaml").write_text(scenario([NAMED, SAID, {**SAID, "text": "$SYS/7/temperature"}]))
    assert run(tmp_path / "s.yaml", engine="inline", out=tmp_path).metrics["services"]["site"]["deliveries"] == 1


@pytest.mark.parametrize(
    ("action", "said", "path", "told"),
    [
        ({"text": "site/#/x"}, {}, ("workload", 0, "actions", 1, "text"), "comes last"),
        ({"text": "$share//x"}, {"groups": True, "protocol": "topics"}, ("workload", 0, "actions", 1, "text"), "group"),
        ({"text": "$share/g/x"}, {}, ("workload", 0, "actions", 1, "text"), "groups: true"),
        ({"body": [0, 0, 1]}, {}, ("workload", 0, "actions", 1, "text"), "say `text`, `body` or `data`"),
        ({}, {"groups": True}, ("groups",), "'subscription' cannot do; a protocol that can: topics"),
        ({}, {"kind": "content"}, ("workload", 0, "actions", 0, "text"), "reads no text"),
        ({}, {"protocol": "spatial"}, ("protocol",), "for 'topics': flooding, subscription, covering"),
    ],
)
def test_what_is_wrong_with_a_scenario_is_told_at_its_place(action, said, path, told):
    with pytest.raises(ScenarioErrors, match=told) as found:
        resolve(loads(scenario([SAID, {**NAMED, **action}], **said)))
    assert found.value.problems[0].path == ("services", 0, *path)


def test_a_log_of_topics_is_replayed_as_the_script_says_it(tmp_path):
    from brokers.engine.simulate import simulate

    (tmp_path / "log.csv").write_text(
        "time_ns,client,op,topic,filter,subscription\n"
        "1000000,0,subscribe,,site/+/temperature,\n1000000000,1,publish,site/7/temperature,,\n"
    )
    written = yaml.safe_load(scenario([NAMED, SAID]))
    digest = simulate(resolve(loads(yaml.safe_dump(written)))).digest
    written["services"][0]["workload"] = [{"source": "replay", "file": "log.csv"}]
    assert simulate(resolve(loads(yaml.safe_dump(written), folder=tmp_path))).digest == digest
    (tmp_path / "log.csv").write_text("time_ns,client,op,topic,filter\n1,0,subscribe,,a/#/b\n2,0,publish,,\n")
    with pytest.raises(ScenarioErrors) as found:
        resolve(loads(yaml.safe_dump(written), folder=tmp_path))
    assert "log.csv:2" in str(found.value) and "comes last" in str(found.value)
    assert "log.csv:3" in str(found.value) and "the name is empty" in str(found.value)


def test_both_syntaxes_differ_where_the_rest_is_nothing():
    mqtt, nats = (Topics({"syntax": name}) for name in ("mqtt", "nats"))
    asked, sent = {0: [0, 0, 1, HASH]}, [1]
    assert (mqtt.oracle(asked, sent), nats.oracle(asked, sent), NATS.rest) == ({0}, set(), ">")
