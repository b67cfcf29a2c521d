"""Sessions: what came for a client while it was away reaches it where it is next: after, in order and once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from brokers.contract import NEVER
from brokers.engine.simulate import simulate
from brokers.faults import EXPIRED
from brokers.verdicts import FINDINGS
from protocols.conformance import REHEARSALS, Dice, audit_run, check_digests, rehearse
from protocols.content.handing import END, FETCH, REPLAY, HandOver
from protocols.content.subscription import PlainSubscription
from tests.brokers.test_engine_checkpoint import (
    continued,
    differing_tables,
    folder_for,
    stopped_at,
    undisturbed,
)
from tests.brokers.test_stays import MS, Stay, traced, with_stays

SUBSCRIBERS, PUBLISHERS = 6, 3
DURATION = 1200 * MS
QUIET = 900 * MS  # from then on nobody moves


def script(seed, messages, unsubscribe=()):
    """Ranges that stand all the time, and publications of fixed publishers on a grid."""
    dice = Dice(seed, 0, "test/sessions")
    lows = [dice.below(60) / 100 for _ in range(2 * SUBSCRIBERS)]
    rows = [[0, low, low + 0.4] for low in lows]
    clients = [n // 2 for n in range(2 * SUBSCRIBERS)]
    times = [100 * MS + n * 7 * MS for n in range(messages)]
    who = [SUBSCRIBERS + n % PUBLISHERS for n in range(messages)]
    values = [[dice.below(100) / 100, 0.0, 0.0, 0.0] for _ in range(messages)]
    return lows, values, times, who, [
        {"type": 1, "time": [1 + n for n in range(len(rows))], "client": clients, "rows": rows,
         "word": list(range(len(rows)))},
        *unsubscribe,
        {"type": 0, "time": times, "client": who, "rows": values},
    ]  # fmt: skip


def wandering(rehearsal, protocol, seed, keep=NEVER // 2, most=NEVER, messages=110, gap=60 * MS):
    """Subscribers that go from broker to broker with a session, and publishers that stay."""
    model = rehearse(rehearsal, protocol, seed, clients=SUBSCRIBERS + PUBLISHERS)
    service = model.services[0]
    lows, values, times, who, emissions = script(seed, messages)
    entity = model.overlay.nodes
    emissions[0]["word"] = [(entity + n // 2) << 32 | n % 2 for n in emissions[0]["word"]]
    service.sources[0].params = {**service.sources[0].params, "standing": [], "emissions": emissions}
    model = replace(model, duration_ns=DURATION)
    stays = []
    for client in range(SUBSCRIBERS):
        dice, begin = Dice(seed, client, "test/sessions/moves"), 0
        at = int(model.client_broker[client])
        while True:
            end = begin + 5 * MS + dice.below(150 * MS)
            if end >= QUIET:
                stays.append(Stay(client, at, begin, NEVER, keep, most))
                break
            stays.append(Stay(client, at, begin, end, keep, most))
            begin = end + (dice.below(gap) if dice.below(4) else 0)
            if dice.below(4):
                at = dice.below(model.overlay.brokers)
    wanted = {
        (client, n)
        for client in range(SUBSCRIBERS)
        for n in range(messages)
        if any(low <= values[n][0] <= low + 0.4 for low in lows[2 * client : 2 * client + 2])
    }
    return with_stays(model, stays), wanted, (times, who)


def got(model, tables, times, who):
    """(client, number of the publication) of each delivery, in order of time."""
    whose = dict(zip(tables["stays"]["stay"].tolist(), tables["stays"]["client"].tolist()))
    nodes, rows = model.overlay.nodes, tables["deliveries"]
    number = {(time, client): n for n, (time, client) in enumerate(zip(times, who))}
    order = np.lexsort((rows["published_ns"], rows["time_ns"]))  # of one instant the trace keeps no order
    found = []
    for row in order.tolist():
        stay, publication = int(rows["client"][row]), int(rows["publication"][row])
        published = int(rows["published_ns"][row]), (publication >> 32) - nodes
        found.append((whose.get(stay, stay) - nodes, number[published]))
    return found


@pytest.mark.parametrize("protocol", ["subscription", "covering"])
@pytest.mark.parametrize("rehearsal", [REHEARSALS[0], REHEARSALS[1], REHEARSALS[2]], ids=["unequal", "ties", "slow"])
def test_everything_comes_once_and_in_order_wherever_a_client_is(protocol, rehearsal):
    fetched = replayed = 0
    for seed in (1, 2):
        model, wanted, sent = wandering(rehearsal, protocol, seed)
        model.services[0].cost = {}  # what is done with after a client has left is lost to it
        _, tables = traced(model)
        found = got(model, tables, *sent)
        assert Counter(found) == Counter(dict.fromkeys(wanted, 1))
        for client in range(SUBSCRIBERS):
            for publisher in range(SUBSCRIBERS, SUBSCRIBERS + PUBLISHERS):
                mine = [n for c, n in found if c == client and sent[1][n] == publisher]
                assert mine == sorted(mine)
        types = tables["hops"]["type"].tolist()
        fetched, replayed = fetched + types.count(FETCH), replayed + types.count(REPLAY)
        assert types.count(END) >= types.count(FETCH) > 0
    assert replayed > 20


@pytest.mark.parametrize("protocol", ["subscription", "covering"])
def test_the_audit_finds_nothing_wrong_and_no_way_of_running_shows(protocol):
    for rehearsal in REHEARSALS[:3]:
        model, wanted, _ = wandering(rehearsal, protocol, 3)
        found = audit_run(model)
        assert found.verdict == "valid", str(found)
        assert found.handed.owed > len(wanted) // 20 and found.handed.kept > 10
    check_digests(wandering(REHEARSALS[1], protocol, 3, messages=50)[0])


def test_less_is_owed_where_less_is_kept_and_what_links_lost_is_not():
    owed = []
    for number, keep, most in ((0, NEVER // 2, NEVER), (0, 100 * MS, 5), (0, 5 * MS, 1), (3, NEVER // 2, NEVER)):
        found = [audit_run(wandering(REHEARSALS[number], "subscription", seed, keep, most)[0]) for seed in (1, 2, 3)]
        assert {each.verdict for each in found} <= {"valid", "unknown" if number == 3 else "valid"}, found
        owed.append(sum(each.handed.owed for each in found))
    everything, some, little, lossy = owed
    assert everything > 2 * some > 0 == little < lossy < everything / 2


class Careless(PlainSubscription):
    """Hands over, with a flaw."""

    def __init__(self, node):
        super().__init__(node)
        self.handing = self.Handing(self)


class Forgetting(Careless):
    class Handing(HandOver):
        def _keep(self, message, client, one):
            if len(self.kept[client]) < 2:
                super()._keep(message, client, one)


class Repeating(Careless):
    class Handing(HandOver):
        def _drop_early(self, one, last):
            return False


class Impatient(Careless):
    class Handing(HandOver):
        def hand(self, message, client, ids):
            if client in self.awaited and client not in self.kept:
                self.broker.node.deliver(message, client)
            else:
                super().hand(message, client, ids)


@pytest.mark.parametrize(
    ("flawed", "finding"),
    [(Careless, None), (Forgetting, "missed"), (Repeating, "duplicated"), (Impatient, "out_of_order")],
)
def test_the_audit_accuses_who_does_not_hand_over_all_of_it_once_and_in_order(flawed, finding):
    if flawed is Careless:
        flawed.Handing = HandOver
    counts = Counter()
    for seed in (1, 2, 3):
        found = audit_run(wandering(REHEARSALS[0], flawed, seed, gap=250 * MS)[0])
        counts.update({name: getattr(found, name).count for name in FINDINGS})
    assert {name for name, count in counts.items() if count} >= ({finding} if finding else set())
    assert bool(counts.total()) == (finding is not None), counts


def test_what_is_kept_is_kept_by_a_checkpoint(tmp_path):
    model, _, _ = wandering(REHEARSALS[0], "covering", 2)
    model.services[0].cost = {}
    whole, result = undisturbed(tmp_path / "whole", model)
    for share in (0.2, 0.45):
        halves = folder_for(tmp_path / str(share), model)
        stopped_at(share, model, halves.path, 2)
        resumed = continued(model, halves.path, 3)
        assert resumed.digest == result.digest
        assert differing_tables(whole, halves.finish(resumed.digest)) == []


def test_what_is_kept_has_a_bound_and_a_time_and_what_is_not_is_lost_with_a_reason():
    counts = []
    for keep, most in ((NEVER // 2, NEVER), (NEVER // 2, 1), (1 * MS, NEVER)):
        model, tables, *sent = _run(keep, most)
        gone = tables["losses"]["reason"] == EXPIRED
        assert (tables["losses"]["client"][gone] >= model.overlay.nodes).all()
        counts.append((len(got(model, tables, *sent)), int(gone.sum())))
    (all_of_it, none), (some, most), (nothing, few) = counts
    assert nothing < some < all_of_it
    assert none == 0 < few < most and some + most == all_of_it


def _run(keep, most):
    model, _, sent = wandering(REHEARSALS[0], "subscription", 1, keep, most)
    return model, traced(model)[1], *sent


def test_nothing_is_left_behind_once_sessions_are_over():
    """Each subscription is withdrawn everywhere but where its client is at last."""
    model, _, _ = wandering(REHEARSALS[0], "subscription", 1, keep=50 * MS)
    result = simulate(model)
    assert result.metrics["network"]["in_flight_at_end"] == 0
