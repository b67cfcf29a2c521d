"""Workload sources: what each client does is named by the client, and neither shard nor chunk shows in it."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from pydantic import ValidationError

from brokers import names
from brokers.contract import NEVER, SourceContext
from brokers.errors import InvalidInput
from brokers.registry import load
from brokers.workloads.common import chunk_for
from protocols.content.kind import PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from protocols.content.publish import Publish, PublishParameters
from protocols.content.subscribe import Subscribe, SubscribeParameters
from protocols.context.updates import ContextUpdates

SECOND = 1_000_000_000
BASE = 1000


def context(
    clients, *, attributes=4, settled=False, seconds=10, population=None, seed=7, service=0, source=1
):
    clients = np.asarray(list(clients), np.int64)
    return SourceContext(
        seed, service, source, clients, BASE, population or clients.size, seconds * SECOND, settled,
        {"attributes": attributes},
    )


def drive(source, until_ns=NEVER):
    """All emissions with wakes before until_ns; checks that each lies between its wake and the next."""
    out = []
    while source.next_wake() < until_ns:
        wake = source.next_wake()
        emissions = source.take()
        assert isinstance(wake, int) and emissions
        for each in emissions:
            assert wake <= each.time.min() and each.time.max() < source.next_wake()
        out += emissions
    return out


def history(emissions):
    """Per client, what it did in order: (time, type, word, row)."""
    done = {}
    for each in emissions:
        rows = each.rows if each.rows is not None else np.empty((each.time.size, 0))
        plain = (each.time.tolist(), each.client.tolist(), each.word.tolist())
        for time, client, word, row in zip(*plain, rows):
            done.setdefault(client, []).append((time, each.type, word, row.tobytes()))
    # The engine orders by time, and at one time by emission.
    return {client: sorted(events, key=lambda event: event[0]) for client, events in done.items()}


def columns(emissions, type):
    """Time, client, word and rows of all messages of one type."""
    chosen = [each for each in emissions if each.type == type]
    if not chosen:
        return np.empty(0, int), np.empty(0, int), np.empty(0, int), None
    rows = None if chosen[0].rows is None else np.concatenate([each.rows for each in chosen])
    time, client, word = (
        np.concatenate([getattr(each, name) for each in chosen]) for name in ("time", "client", "word")
    )
    return time, client, word, rows


BURSTS = {"process": "bursts", "on": "50 ms", "off": "200 ms"}
CHURN = {"number": [0, 5], "constraints": [1, 3], "width": [0.05, 0.3], "popularity": 1, "ramp": "2 s"}
LEAVING = {"process": "leave-and-join", "stay": "1 s", "away": "300 ms"}
SOURCES = {
    "constant": (Publish, {"process": "constant", "rate": "20/s", "missing": 0.1}),
    "poisson": (Publish, {"rate": "20/s", "correlation": 0.5, "values": "normal"}),
    "poisson limited": (Publish, {"rate": "20/s", "limit": 7, "start": "1 s", "stop": "3 s"}),
    "bursts": (Publish, {**BURSTS, "rate": "100/s", "attributes": {1: "zipf", 2: "pareto"}}),
    "constant bursts": (Publish, {**BURSTS, "rate": "100/s", "times": "constant"}),
    "steady": (Subscribe, CHURN),
    "replace": (Subscribe, {**CHURN, "churn": {"rate": "3/s"}}),
    "leave and join": (Subscribe, {**CHURN, "churn": LEAVING}),
    "walk": (ContextUpdates, {"rate": "20/s", "contexts": 3}),
    "redraw": (ContextUpdates, {"rate": "20/s", "contexts": 2, "change": "redraw", "values": "zipf"}),
}
every_source = pytest.mark.parametrize("name", SOURCES)


def make(name, clients, **kwargs):
    source, params = SOURCES[name]
    return source(params, context(clients, **kwargs))


# ---- what holds for every source ---------------------------------------------------------------------


@every_source
def test_the_same_seed_gives_the_same_events_and_another_seed_others(name):
    first = history(drive(make(name, range(5))))
    assert first and first == history(drive(make(name, range(5))))
    assert first != history(drive(make(name, range(5), seed=8)))
    assert first != history(drive(make(name, range(5), service=1)))


@every_source
def test_a_client_does_the_same_whatever_other_clients_the_shard_has(name):
    together = history(drive(make(name, range(8), population=8)))
    for client in range(8):
        alone = history(drive(make(name, [client], population=8)))
        assert alone.get(client) == together.get(client)


@every_source
@pytest.mark.parametrize("chunk_ns", [1, 999_999, 7 * SECOND])
def test_how_events_are_cut_into_chunks_does_not_show(name, chunk_ns):
    cut = make(name, range(3))
    cut.chunk_ns = chunk_ns
    assert history(drive(cut)) == history(drive(make(name, range(3))))


@every_source
def test_nothing_happens_before_one_tick_or_after_the_end(name):
    times = np.concatenate([each.time for each in drive(make(name, range(20), seconds=2))])
    assert times.min() >= 1 and times.max() < 2 * SECOND


@every_source
def test_a_shard_without_clients_never_wakes(name):
    source = make(name, [], population=5)
    assert source.next_wake() == NEVER
    assert source.take() == []


@every_source
def test_parameters_survive_being_written_down_as_json(name):
    source, params = SOURCES[name]
    written = json.loads(json.dumps(source.Params.model_validate(params).model_dump(mode="json")))
    assert history(drive(source(written, context(range(3))))) == history(drive(make(name, range(3))))
    assert source.Params.model_json_schema()["type"] == "object"


def test_every_registered_workload_has_a_class_with_parameters_and_kinds():
    for entry in names.table("workloads").values():
        assert load(entry.target).Params.model_config["extra"] == "forbid"
        assert (entry.facts["kinds"] is None or entry.facts["kinds"]) and entry.prose


def test_chunks_hold_some_thousand_events_between_a_millisecond_and_a_minute():
    assert chunk_for(0) == chunk_for(1) == 60 * SECOND
    assert chunk_for(40_960) == SECOND // 10
    assert chunk_for(1e12) == SECOND // 1000


# ---- when clients publish ----------------------------------------------------------------------------


def publish_times(params, clients=50, **kwargs):
    time, client, _, _ = columns(drive(Publish(params, context(range(clients), **kwargs))), PUBLISH)
    return time, client


def test_poisson_publishers_keep_their_rate_with_exponential_gaps():
    time, client = publish_times({"rate": "40/s"})
    expected = 50 * 40 * 10
    assert abs(time.size - expected) < 5 * math.sqrt(expected)
    gaps = np.concatenate([np.diff(np.sort(time[client == c])) for c in range(50)]) / SECOND
    assert gaps.mean() == pytest.approx(1 / 40, rel=0.05)
    assert gaps.std() == pytest.approx(1 / 40, rel=0.05)


def test_constant_publishers_keep_their_period_each_from_a_phase_of_its_own():
    time, client = publish_times({"process": "constant", "rate": "3/s"})
    first = np.array([time[client == c].min() for c in range(50)])
    assert time.size == 50 * 30
    assert np.unique(first).size == 50 and first.max() <= SECOND / 3 + 1
    for c in range(50):
        assert set(np.diff(time[client == c]).tolist()) <= {333_333_333, 333_333_334}


def test_the_total_rate_is_split_over_the_whole_group_and_not_over_the_shard():
    time, _ = publish_times({"process": "constant", "total_rate": "100/s"}, clients=10, population=100)
    assert time.size == 10 * 10  # 1/s each


def test_a_publisher_stops_at_its_limit():
    _, client = publish_times({"rate": "100/s", "limit": 3})
    assert np.bincount(client).tolist() == [3] * 50


@pytest.mark.parametrize("process", ["constant", "poisson", "bursts"])
def test_publishers_stay_between_start_and_stop(process):
    more = {"on": "10 ms", "off": "10 ms"} if process == "bursts" else {}
    time, _ = publish_times({"process": process, "rate": "100/s", "start": "2 s", "stop": "3 s", **more})
    assert time.min() > 2 * SECOND and time.max() < 3 * SECOND
    assert time.min() < 2.02 * SECOND and time.max() > 2.98 * SECOND


@pytest.mark.parametrize("times", ["exponential", "constant"])
def test_bursts_average_to_the_rate_times_the_share_of_time_on(times):
    params = {"process": "bursts", "rate": "200/s", "on": "100 ms", "off": "300 ms", "times": times}
    time, _ = publish_times(params, clients=200)
    expected = 200 * 200 * 10 / 4
    # Arrivals of a burst come together, so the spread is wider than Poisson's: a burst holds about 20.
    assert abs(time.size - expected) < 5 * math.sqrt(expected * 42)
    early = time < 0.1 * SECOND  # stationary from the start: the clients are not in step
    assert early.sum() == pytest.approx(expected / 100, rel=0.35)


def test_constant_bursts_are_silent_between_them():
    params = {"process": "bursts", "rate": "2000/s", "on": "100 ms", "off": "300 ms", "times": "constant"}
    time, _ = publish_times(params, clients=1)
    gaps = np.diff(time)
    silences = gaps[gaps > SECOND // 10]
    assert 23 <= silences.size <= 25
    assert silences.min() >= 0.3 * SECOND and silences.max() < 0.32 * SECOND
    starts = time[1:][gaps > SECOND // 10]
    assert np.diff(starts).min() > 0.39 * SECOND and np.diff(starts).max() < 0.41 * SECOND


def test_a_client_may_publish_every_nanosecond_but_never_twice_in_one():
    source = Publish({"process": "constant", "rate": 1e9, "stop": 2000}, context([0]))
    time, *_ = columns(drive(source), PUBLISH)
    assert np.array_equal(np.diff(time), np.ones(time.size - 1)) and time.size >= 1998


def test_rates_too_small_to_act_within_the_run_do_nothing():
    for process in ("constant", "poisson"):
        assert publish_times({"process": process, "rate": 1e-30})[0].size == 0


def test_a_dense_chunk_that_outgrows_its_buffer_loses_nothing():
    params = {"process": "bursts", "rate": "1e6/s", "on": "1 ms", "off": "1 s", "limit": 2000}
    time, client = publish_times(params, clients=40)
    assert np.bincount(client).max() <= 2000
    for c in range(40):
        assert np.all(np.diff(time[client == c]) >= 1)


# ---- what they publish -------------------------------------------------------------------------------


def published(params, attributes=3, clients=20):
    """Rows of 20,000 publications."""
    params = {"process": "constant", "rate": "100/s", **params}
    return columns(drive(Publish(params, context(range(clients), attributes=attributes))), PUBLISH)[3]


def test_uniform_values_fill_the_domain_evenly():
    rows = published({"domain": [10, 30]})
    assert rows.shape == (20_000, 3)
    assert rows.min() >= 10 and rows.max() < 30
    assert rows.mean() == pytest.approx(20, abs=5 * 20 / math.sqrt(12 * rows.size))
    assert rows.std() == pytest.approx(20 / math.sqrt(12), rel=0.02)


def test_normal_values_have_their_mean_and_deviation_and_stay_in_the_domain():
    rows = published({"values": {"distribution": "normal", "mean": 0.4, "stdev": 0.05}})
    assert rows.mean() == pytest.approx(0.4, abs=5 * 0.05 / math.sqrt(rows.size))
    assert rows.std() == pytest.approx(0.05, rel=0.02)
    wide = published({"values": {"distribution": "normal", "stdev": 10.0}})
    assert wide.min() == 0.0 and wide.max() == 1.0


def test_zipf_values_have_the_frequencies_of_their_ranks():
    rows = published({"values": {"distribution": "zipf", "values": 5, "exponent": 2}})
    values, counts = np.unique(rows, return_counts=True)
    assert values == pytest.approx([0.1, 0.3, 0.5, 0.7, 0.9])
    weights = np.array([1 / r**2 for r in range(1, 6)])
    expected = weights / weights.sum()
    deviation = np.sqrt(expected * (1 - expected) / rows.size)
    assert np.all(np.abs(counts / rows.size - expected) < 5 * deviation)


def test_pareto_values_have_the_tail_of_their_index():
    rows = published({"values": {"distribution": "pareto", "alpha": 2, "scale": 0.1}})
    assert rows.min() >= 0 and rows.max() == 1.0
    for x in (0.05, 0.1, 0.5, 0.9):
        expected = (1 + x / 0.1) ** -2.0
        assert (rows > x).mean() == pytest.approx(expected, abs=5 * math.sqrt(expected / rows.size))


def test_some_attributes_may_follow_another_law():
    rows = published({"values": {"distribution": "zipf", "values": 2}, "attributes": {1: "uniform"}})
    assert [np.unique(rows[:, a]).size for a in range(3)] == [2, rows.shape[0], 2]


@pytest.mark.parametrize("rho", [0.3, 0.8])
def test_correlation_ties_attributes_and_leaves_each_law_as_it_is(rho):
    rows = published({"correlation": rho})
    # Uniform shares of two normals with correlation rho correlate by 6/pi asin(rho/2).
    expected = 6 / math.pi * math.asin(rho / 2)
    found = np.corrcoef(rows.T)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert found[a, b] == pytest.approx(expected, abs=0.03)
    quantiles = np.quantile(rows, [0.01, 0.25, 0.5, 0.75, 0.99])
    assert quantiles == pytest.approx([0.01, 0.25, 0.5, 0.75, 0.99], abs=0.02)


def test_full_correlation_gives_every_attribute_the_same_value():
    rows = published({"correlation": 1.0})
    assert np.array_equal(rows[:, 0], rows[:, 1]) and np.unique(rows[:, 0]).size > 19_000


def test_attributes_without_correlation_are_independent():
    found = np.corrcoef(published({}).T)
    assert np.abs(found - np.eye(3)).max() < 5 / math.sqrt(20_000)


def test_attributes_are_missing_as_often_as_asked_for():
    rows = published({"missing": 0.25})
    absent = np.isnan(rows)
    assert absent.mean() == pytest.approx(0.25, abs=5 * math.sqrt(0.25 * 0.75 / rows.size))
    present = ~absent
    assert np.array_equal(rows[present], published({})[present])  # the other values are what they were
    assert rows[present].mean() == pytest.approx(0.5, abs=5 / math.sqrt(12 * present.sum()))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "either `rate`"),
        ({"rate": 1, "total_rate": 1}, "either `rate`"),
        ({"rate": "2e9/s"}, "at most 1e9/s"),
        ({"rate": 0}, "greater than 0"),
        ({"rate": 1, "process": "bursts", "on": "1 s"}, "needs `off`"),
        ({"rate": 1, "on": "1 s"}, "knows no `on`"),
        ({"rate": 1, "start": "2 s", "stop": "1 s"}, "1 s is not after 2 s"),
        ({"rate": 1, "domain": [1, 1]}, "low < high"),
        ({"rate": 1, "values": {"distribution": "uniform", "alpha": 1}}, "`alpha` belongs to pareto"),
        ({"rate": 1, "values": "gauss"}, "'uniform', 'normal', 'zipf' or 'pareto'"),
        ({"rate": 1, "values": {"distribution": "normal", "mean": math.nan}}, "finite"),
        ({"rate": 1, "missing": 1.5}, "between 0 and 1"),
        ({"rate": 1, "speed": 1}, "Extra inputs"),
    ],
)
def test_wrong_parameters_of_publishers_are_refused_with_the_reason(params, message):
    with pytest.raises(ValidationError, match=message):
        PublishParameters.model_validate(params)


def test_laws_for_attributes_the_service_lacks_are_refused():
    with pytest.raises(InvalidInput, match=r"attributes\.4: the service has attributes 0 to 3 \(got 4\)"):
        Publish({"rate": 1, "attributes": {4: "zipf"}}, context([0]))


# ---- what clients subscribe to -----------------------------------------------------------------------


def subscribed(params, clients=500, attributes=10, **kwargs):
    source = Subscribe(params, context(range(clients), attributes=attributes, **kwargs))
    return columns(drive(source), SUBSCRIBE)


def triples(rows):
    """[subscription, constraint, (attribute, low, high)], NaN where there is none."""
    return rows.reshape(rows.shape[0], -1, 3)


def test_clients_issue_as_many_subscriptions_as_asked_for_over_the_ramp():
    time, client, word, rows = subscribed({"number": 4, "start": "1 s", "ramp": "2 s"})
    assert time.size == 2000 and rows.shape == (2000, 3)
    assert time.min() > SECOND and time.max() <= 3 * SECOND + 1
    assert time.mean() == pytest.approx(2 * SECOND, rel=0.01)
    assert np.array_equal(word >> 32, client + BASE)
    for c in (0, 499):
        numbers = word[client == c] & 0xFFFFFF
        assert numbers.tolist() == [0, 1, 2, 3] and np.all(np.diff(time[client == c]) >= 0)


def test_the_number_of_subscriptions_may_differ_from_client_to_client():
    _, client, _, _ = subscribed({"number": [0, 3]}, clients=4000)
    counts = np.bincount(np.bincount(client, minlength=4000), minlength=4)
    assert counts.size == 4
    assert np.all(np.abs(counts - 1000) < 5 * math.sqrt(1000 * 0.75))


def test_without_a_ramp_all_subscriptions_are_issued_at_the_first_tick():
    assert set(subscribed({"number": 3})[0].tolist()) == {1}


def test_constraints_are_on_different_attributes_in_their_order_and_padded():
    _, _, _, rows = subscribed({"number": 4, "constraints": [1, 5]})
    attribute = triples(rows)[:, :, 0]
    counts = (~np.isnan(attribute)).sum(axis=1)
    assert set(counts.tolist()) == {1, 2, 3, 4, 5}
    for row, count in zip(attribute, counts):
        assert np.all(np.diff(row[:count]) > 0) and np.isnan(row[count:]).all()
    padding = np.isnan(triples(rows))
    assert np.array_equal(padding.all(axis=2), padding.any(axis=2))


@pytest.mark.parametrize("exponent", [0.0, 20.0])
def test_as_many_constraints_as_attributes_constrain_each(exponent):
    rows = subscribed({"constraints": 10, "popularity": exponent}, clients=20)[3]
    assert np.array_equal(triples(rows)[:, :, 0], np.tile(np.arange(10), (20, 1)))


def test_a_fixed_width_is_kept_exactly_within_the_domain():
    rows = triples(subscribed({"number": 10, "width": 0.25, "domain": [-1, 3], "values": "normal"})[3])
    low, high = rows[:, 0, 1], rows[:, 0, 2]
    assert high - low == pytest.approx(np.full(low.size, 0.25), abs=1e-12)
    assert low.min() >= -1 and high.max() <= 3 + 1e-12
    assert (low + high).mean() / 2 == pytest.approx(1, abs=0.1)


def test_widths_are_uniform_up_to_the_largest():
    rows = triples(subscribed({"number": 10, "width": [0, 0.5]})[3])
    width = rows[:, 0, 2] - rows[:, 0, 1]
    assert width.min() >= 0 and width.max() <= 0.5 + 1e-12
    assert width.mean() == pytest.approx(0.25, abs=5 * 0.5 / math.sqrt(12 * width.size))


def test_a_subscription_of_width_w_matches_a_share_w_of_uniform_publications():
    rows = triples(subscribed({"number": 10, "width": 0.3})[3])
    values = published({}, attributes=1)[:1000, 0]
    hits = (rows[:, 0, 1, None] <= values) & (values <= rows[:, 0, 2, None])
    assert hits.mean() == pytest.approx(0.3, abs=0.01)


def test_subscriptions_of_width_zero_ask_for_values_that_publications_have():
    law = {"distribution": "zipf", "values": 7}
    rows = triples(subscribed({"width": 0, "values": law})[3])
    assert np.array_equal(rows[:, 0, 1], rows[:, 0, 2])
    assert set(np.unique(rows[:, 0, 1])) == set(np.unique(published({"values": law})))


def test_popular_attributes_are_constrained_by_their_zipf_weights():
    rows = subscribed({"number": 20, "popularity": 1}, attributes=4)[3]
    counts = np.bincount(rows[:, 0].astype(int), minlength=4)
    weights = 1 / np.arange(1, 5)
    expected = weights / weights.sum()
    deviation = np.sqrt(expected * (1 - expected) / rows.shape[0])
    assert np.all(np.abs(counts / rows.shape[0] - expected) < 5 * deviation)


@pytest.mark.parametrize("exponent", [0.0, 6.0])
def test_the_second_constraint_is_chosen_by_weight_among_the_rest(exponent):
    rows = triples(subscribed({"number": 20, "constraints": 2, "popularity": exponent}, attributes=3)[3])
    weights = np.arange(1.0, 4.0) ** -exponent
    weights /= weights.sum()
    absent = np.zeros(3)  # probability that an attribute is the one left out
    for a in range(3):
        b, c = (x for x in range(3) if x != a)
        absent[a] = weights[b] * weights[c] * (1 / (1 - weights[b]) + 1 / (1 - weights[c]))
    pairs = rows[:, :, 0].astype(int)
    found = np.array([(~(pairs == a).any(axis=1)).mean() for a in range(3)])
    deviation = np.sqrt(absent * (1 - absent) / rows.shape[0])
    assert np.all(np.abs(found - absent) < 5 * deviation + 1e-4)


def test_standing_subscriptions_equal_those_that_would_be_issued():
    params = {"number": [0, 4], "constraints": [1, 3], "width": [0, 0.2], "ramp": "3 s"}
    _, client, word, rows = subscribed(params, clients=50)
    order = np.lexsort((word, client))
    settled = Subscribe(params, context([3], attributes=10, settled=True))
    assert settled.next_wake() == NEVER
    (standing,) = settled.standing(np.arange(50))
    assert standing.type == SUBSCRIBE and not standing.time.any()
    assert np.array_equal(standing.client, client[order])
    assert np.array_equal(standing.word, word[order])
    assert np.array_equal(standing.rows, rows[order], equal_nan=True)
    (few,) = settled.standing(np.array([7, 2]))
    assert few.client.tolist() == [c for c in (7, 2) for _ in range(int((client == c).sum()))]


def test_two_sources_of_one_service_never_share_an_id():
    ids = [subscribed({"number": 3, "ramp": "1 s"}, clients=5, source=source)[2] for source in (0, 1)]
    assert np.unique(np.concatenate(ids)).size == 30
    assert (ids[0] & 0xFFFFFFFF).max() == 2


# ---- churn -------------------------------------------------------------------------------------------

CHURNS = {
    "replace": {"rate": "5/s"},
    "exponential": {"process": "leave-and-join", "stay": "500 ms", "away": "200 ms"},
    "constant": {"process": "leave-and-join", "stay": "500 ms", "away": "200 ms", "times": "constant"},
}


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("name", CHURNS)
def test_churn_only_ends_live_subscriptions_and_never_reuses_an_id(name, settled):
    params = {"number": [0, 4], "ramp": "1 s", "churn": CHURNS[name]}
    source = Subscribe(params, context(range(30), settled=settled))
    live = {client: set() for client in range(30)}
    used = set()
    if settled:
        (standing,) = source.standing(np.arange(30))
        for client, word in zip(standing.client.tolist(), standing.word.tolist()):
            live[client].add(word)
            used.add(word)
    ended = 0
    for client, events in history(drive(source)).items():
        for _, type, word, _ in events:
            assert word >> 32 == client + BASE
            if type == UNSUBSCRIBE:
                live[client].remove(word)
                ended += 1
            else:
                assert word not in used
                used.add(word)
                live[client].add(word)
    assert ended > 100


def test_churn_is_the_same_whether_the_first_subscriptions_were_sent_or_stood():
    params = {"number": 3, "ramp": "1 s", "churn": {"rate": "5/s"}}
    sent = history(drive(Subscribe(params, context(range(5)))))
    stood = history(drive(Subscribe(params, context(range(5), settled=True))))
    for client in range(5):
        assert sent[client][3:] == stood[client]
        assert [event[1] for event in sent[client][:3]] == [SUBSCRIBE] * 3


def test_replacements_come_at_their_rate_after_the_ramp_and_keep_the_number():
    params = {"number": 3, "ramp": "2 s", "churn": {"rate": "10/s"}}
    emissions = drive(Subscribe(params, context(range(50))))
    ends, _, _, _ = columns(emissions, UNSUBSCRIBE)
    begins, _, _, _ = columns(emissions, SUBSCRIBE)
    expected = 50 * 10 * 8
    assert abs(ends.size - expected) < 5 * math.sqrt(expected)
    assert ends.min() > 2 * SECOND
    assert sorted(begins[begins > 2 * SECOND + 1].tolist()) == sorted(ends.tolist())


def test_who_replaces_a_subscription_ends_the_old_one_before_beginning_the_new():
    for events in history(drive(Subscribe({"churn": CHURNS["replace"]}, context(range(5))))).values():
        assert [type for _, type, _, _ in events[1:]] == [UNSUBSCRIBE, SUBSCRIBE] * (len(events) // 2)
        assert [time for time, *_ in events[1::2]] == [time for time, *_ in events[2::2]]


def test_clients_are_present_for_the_share_of_time_they_stay():
    params = {"number": 2, "churn": {"process": "leave-and-join", "stay": "600 ms", "away": "200 ms"}}
    present = absent = 0
    for events in history(drive(Subscribe(params, context(range(200))))).values():
        times = sorted({(time, type) for time, type, _, _ in events})
        for (begin, type), (end, _) in pairwise(times):
            if type == SUBSCRIBE:
                present += end - begin
            else:
                absent += end - begin
    assert present / (present + absent) == pytest.approx(0.75, abs=0.02)


def test_who_joins_again_has_as_many_subscriptions_as_before():
    params = {"number": [1, 4], "churn": CHURNS["constant"]}
    for events in history(drive(Subscribe(params, context(range(20))))).values():
        sizes = {}
        for time, type, _, _ in events:
            sizes[time, type] = sizes.get((time, type), 0) + 1
        assert len(set(sizes.values())) == 1 and len(sizes) > 20


def test_constant_stays_do_not_end_in_step():
    emissions = drive(Subscribe({"churn": CHURNS["constant"]}, context(range(50))))
    time, client, _, _ = columns(emissions, UNSUBSCRIBE)
    first = np.array([time[client == c].min() for c in range(50)])
    assert np.unique(first).size == 50 and first.max() <= SECOND // 2 + 2
    assert set(np.diff(time[client == 0]).tolist()) == {700_000_000}


def test_churn_stays_between_its_start_and_stop():
    params = {"number": 2, "churn": {"rate": "50/s", "start": "4 s", "stop": "5 s"}}
    time, *_ = columns(drive(Subscribe(params, context(range(20)))), UNSUBSCRIBE)
    assert 4 * SECOND < time.min() < 4.01 * SECOND and 4.99 * SECOND < time.max() < 5 * SECOND


def test_a_leave_larger_than_a_buffer_is_written_whole():
    params = {"number": 20_000, "churn": {"process": "leave-and-join", "stay": "1 s", "away": "1 s"}}
    emissions = drive(Subscribe(params, context([0, 1], seconds=5)))
    time, _, word, _ = columns(emissions, UNSUBSCRIBE)
    assert time.size >= 20_000 and time.size % 20_000 == 0
    assert np.unique(word).size == word.size


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"number": [3, 1]}, "3 is above 1"),
        ({"number": -1}, "must not be negative"),
        ({"constraints": 0}, "at least 1"),
        ({"width": 2}, "wider than the domain"),
        ({"number": 2_000_000}, "at most 1,000,000"),
        ({"churn": {}}, "replace needs `rate`"),
        ({"churn": {"process": "leave-and-join", "stay": "1 s"}}, "leave-and-join needs `away`"),
        ({"churn": {"rate": 1, "stay": "1 s"}}, "knows no `stay`"),
        ({"popularity": -1}, "greater than or equal to 0"),
    ],
)
def test_wrong_parameters_of_subscribers_are_refused_with_the_reason(params, message):
    with pytest.raises(ValidationError, match=message):
        SubscribeParameters.model_validate(params)


def test_more_constraints_than_attributes_are_refused():
    with pytest.raises(InvalidInput, match=r"constraints: the service has 4 attributes \(got 5\)"):
        Subscribe({"constraints": [1, 5]}, context([0]))


# ---- contexts ----------------------------------------------------------------------------------------


def updates(params, **kwargs):
    source = ContextUpdates(params, context(range(3), attributes=2, **kwargs))
    return columns(drive(source), 1)


def test_contexts_report_their_first_values_and_then_one_change_at_a_time():
    time, client, _, rows = updates({"rate": "10/s", "contexts": 2})
    assert time[:12].tolist() == [1] * 12 and rows.shape[1] == 3
    assert rows[:12, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert rows[:12, 1].tolist() == [0, 1] * 6
    assert np.array_equal(rows[:, 0] // 2, client)
    assert abs(time.size - 12 - 300) < 5 * math.sqrt(300)


@pytest.mark.parametrize(("change", "largest"), [("walk", 0.2), ("redraw", 1.0)])
def test_a_walk_moves_by_its_step_at_most_and_a_redraw_anywhere(change, largest):
    step = {"step": largest} if change == "walk" else {}
    _, _, _, rows = updates({"rate": "300/s", "change": change, **step})
    moves = []
    for number in range(3):
        for attribute in range(2):
            values = rows[(rows[:, 0] == number) & (rows[:, 1] == attribute), 2]
            assert values.min() >= 0 and values.max() <= 1
            moves.append(np.abs(np.diff(values)))
    moves = np.concatenate(moves)
    assert 0.9 * largest < moves.max() <= largest + 1e-12
    assert moves.mean() == pytest.approx(0.1 if change == "walk" else 1 / 3, abs=0.02)


def test_standing_contexts_are_not_reported_and_change_alike():
    params = {"rate": "10/s", "contexts": 2}
    reported = updates(params)
    settled = ContextUpdates(params, context(range(3), attributes=2, settled=True))
    (standing,) = settled.standing(np.arange(3))
    assert np.array_equal(standing.rows, reported[3][:12])
    changes = columns(drive(settled), 1)
    for before, after in zip(reported, changes):
        assert np.array_equal(before[12:], after)
