"""Leases: for how long entries stand, what they cost, and that whatever is spoilt heals in time."""

from __future__ import annotations

import copy
from dataclasses import replace
from math import exp, log
from random import Random
from typing import ClassVar

import pytest

from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import LOST
from brokers.verdicts import VALID
from protocols.conformance import audit_run, join
from protocols.content.kind import SUBSCRIBE, UNSUBSCRIBE
from protocols.content.leases import STEP, Leases, Options, varies_ns
from protocols.content.subscription import LOCAL, client_of
from protocols.joining import overlay_of
from scenarios.loader import load
from scenarios.plan import resolve
from scenarios.problems import ScenarioErrors
from tests.protocols.test_recovery import LOSSLESS, struck

MS, SECOND = 1_000_000, 1_000_000_000


def run(model):
    """The tables of a run."""
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    return traces.tables()


# ---- for how long an entry stands --------------------------------------------------------------------


@pytest.mark.parametrize("steps", [2, 5, 50])
@pytest.mark.parametrize("begun_ms", [1_000, 1_013, 1_499])
def test_what_is_not_renewed_stands_for_all_steps_but_one_and_no_longer_than_the_lease(steps, begun_ms):
    options = {"lease": SECOND, "renew": 300 * MS, "steps": steps, "withdraw": False}
    net = join("leases", [(0, 1)], clients=[0, 1], delay_ns=7 * MS, options=options)
    net.send(1, "subscribe", [0, 0.0, 1.0], word=net.interest(1), at_ns=begun_ms * MS)
    net.send(1, "unsubscribe", word=net.interest(1), at_ns=(begun_ms + 1_000) * MS)
    net.send(0, "publish", [2.0, 0, 0, 0], at_ns=6 * SECOND)
    samples = run(replace(net.model(), sample_every_ns=MS))["samples"]
    last = {1: begun_ms + 900, 0: begun_ms + 907}  # the third renewal
    for broker, refreshed in last.items():
        there = samples["time_ns"][(samples["broker"] == broker) & (samples["entries"] > 0)]
        until = int(there.max()) / MS
        assert refreshed + 1_000 - 1_000 // steps - 2 <= until <= refreshed + 1_000


def test_a_withdrawal_is_told_everybody_at_once():
    net = join("leases", [(0, 1), (1, 2)], clients=[2])
    net.send(0, "subscribe", [0, 0.0, 1.0], word=net.interest(0))
    net.send(0, "unsubscribe", word=net.interest(0))
    assert [net.entries(broker) for broker in range(3)] == [0, 0, 0]
    assert net.over(1, 0)[-1].type == UNSUBSCRIBE


@pytest.mark.parametrize("delay_ms", [1, 5_000])
def test_it_is_not_the_delay_that_counts(delay_ms):
    """Renewals that take ten leases to come refresh an entry as often as others."""
    options = {"lease": 500 * MS, "renew": 400 * MS, "steps": 20}
    net = join("leases", [(0, 1)], clients=[0, 1], delay_ns=delay_ms * MS, options=options)
    net.send(1, "subscribe", [0, 0.0, 1.0], word=net.interest(1), at_ns=1)
    for tick in range(100):
        net.send(0, "publish", [0.5, 0, 0, 0], at_ns=6 * SECOND + tick * 50 * MS)
    assert len(net.deliveries(1)) == 100


def test_what_delays_vary_by_counts():
    """Where they vary by more than the lease leaves room for, entries run out; who leaves room keeps them."""
    missed = []
    for lease in (500, 1_100):
        net = join("leases", [(0, 1)], clients=[0, 1], options={"lease": lease * MS, "renew": 400 * MS, "steps": 20})
        net.send(1, "subscribe", [0, 0.0, 1.0], word=net.interest(1), at_ns=1)
        for tick in range(400):
            net.send(0, "publish", [0.5, 0, 0, 0], at_ns=2 * SECOND + tick * 50 * MS)
        overlay = overlay_of([(0, 1)], jitter_ns=600 * MS)
        assert bool(Leases.misfits(Options(**net.model().services[0].options), overlay, {})) == (lease == 500)
        missed.append(400 - len(run(replace(net.model(), overlay=overlay))["deliveries"]["client"]))
    assert missed[0] > 20 and missed[1] == 0


# ---- what is refused ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"lease": "300 ms"}, "has to be longer than `renew`, or entries run out"),
        ({"lease": "310 ms"}, r"make it longer than 315\.789 ms \(got 310 ms\)"),
        ({"tries": 4}, "longer than 4 times `renew`"),
        ({"lease": 15, "renew": 1}, "no 20 `steps` of whole nanoseconds"),
        ({"steps": 1}, "greater than or equal to 2"),
    ],
)
def test_a_lease_that_renewals_cannot_keep_is_refused(options, told):
    with pytest.raises(ValueError, match=told):
        Options(**options)


def test_jitter_is_counted_along_the_longest_way_and_told_with_its_place():
    said = ["links.jitter=60 ms", "services.0.options.lease=500 ms", "services.0.options.renew=300 ms"]
    with pytest.raises(ScenarioErrors) as refused:
        resolve(load("leases", overrides=said))
    (told,) = str(refused.value).splitlines()[:1]
    assert "services[0].options.lease" in told and "by which delays vary on the longest way" in told


def test_by_how_much_delays_vary():
    tree = overlay_of([(0, 1), (1, 2), (1, 3), (3, 4)], jitter_ns=[5, 1, 2, 7])
    assert varies_ns(tree) == 5 + 2 + 7
    assert varies_ns(overlay_of([(0, 1), (1, 2)])) == 0
    ring = overlay_of([(0, 1), (1, 2), (0, 2)], delay_ns=[1, 5, 1], jitter_ns=[3, 100, 4])
    assert varies_ns(ring) == 7  # the slow link is not in the tree


# ---- closed forms ------------------------------------------------------------------------------------


def lives(count, rate, random):
    """Exponential lives, spread evenly over their law."""
    found = [-log(1 - (i + 0.5) / count) / rate for i in range(count)]
    random.shuffle(found)
    return found


@pytest.mark.parametrize("withdraw", [False, True])
@pytest.mark.parametrize(("edges", "seed"), [([(0, 1), (1, 2), (2, 3)], 1), ([(0, 1), (0, 2), (0, 3), (3, 4)], 2)])
def test_entries_and_messages_are_as_the_closed_forms_say(edges, seed, withdraw):
    """2 subscriptions per second that live for 50 s in the mean; renewed every 10 s, leased for 25 s."""
    random, brokers, count = Random(seed), len(edges) + 1, 400
    rate, gone, renew, lease, steps = 2.0, 0.02, 10.0, 25.0, 25
    options = {"lease": 25 * SECOND, "renew": 10 * SECOND, "steps": steps, "withdraw": withdraw}
    net = join("leases", edges, options=options)
    said = []
    for i, life in enumerate(lives(count, gone, random)):
        begun, client = (i + random.random()) / rate, random.randrange(brokers)
        said += [(begun, client, "subscribe", i), (begun + life, client, "unsubscribe", i)]
    for at, client, op, i in sorted(said):
        row = [0, 0.0, 1.0] if op == "subscribe" else None
        net.send(client, op, row, word=net.interest(client, i), at_ns=int(at * SECOND))
    net.send(0, "publish", [2.0, 0, 0, 0], at_ns=net._clock_ns + 60 * SECOND)
    tables = run(replace(net.model(), sample_every_ns=700 * MS))
    seconds = count / rate  # what comes in so long, as if for ever
    entries = tables["samples"]["entries"].sum() * 0.7 / seconds
    stay = 1 / gone if withdraw else lease - lease / steps / 2 + renew / (exp(gone * renew) - 1)
    assert entries == pytest.approx(rate * brokers * stay, rel=0.03)
    hops = tables["hops"]
    over = hops["link"] >= 0
    renewals = (over & (hops["type"] == SUBSCRIBE)).sum() / seconds
    assert renewals == pytest.approx(rate * (brokers - 1) / (1 - exp(-gone * renew)), rel=0.03)
    ends = (over & (hops["type"] == UNSUBSCRIBE)).sum() / seconds
    assert ends == pytest.approx(rate * (brokers - 1) * withdraw, rel=0.03)


# ---- whatever is spoilt heals ------------------------------------------------------------------------

SPOIL, LOOK = 60, 61  # timers
STEPS, LEASE, EVERY = 8, 400 * MS, 100 * MS
DELAY = 5 * MS
NUMBERS = [-(1 << 62), -3, 0, 1, STEPS - 1, STEPS, STEPS + 1, 1_000 * STEPS, 1 << 62]


class Spoilt(Leases):
    """Leases; at an instant everything that a broker knows may become something else."""

    at_ns: ClassVar[int] = SECOND
    look_ns: ClassVar[int] = 2 * SECOND
    seed: ClassVar[int | None] = None
    seen: ClassVar[dict[int, object]] = {}

    def first_timers(self):
        return [*super().first_timers(), (type(self).at_ns, SPOIL, 0), (type(self).look_ns, LOOK, 0)]

    def on_message(self, message):
        if message.type == SPOIL:
            if type(self).seed is not None:
                spoil(self, Random(f"{type(self).seed} {self.node.broker}"))
        elif message.type == LOOK:
            known = {id_: self.node.table.interest(id_)[1].tolist() for id_ in sorted(self.node.table.tags)}
            type(self).seen[self.node.broker] = copy.deepcopy((self.leases, known))
        else:
            super().on_message(message)


def spoil(broker, random):
    """Drop, forge and change entries, what is left of them, the links they came by and what they ask for."""
    table, env, leases = broker.node.table, broker.node.env, broker.leases
    clients = env.client_broker.size

    def some():
        return random.choice(sorted(leases)) if leases else None

    def row():
        low = random.random()
        return [random.randrange(4), low, low + random.random()]

    def forge():
        client = random.randrange(clients)
        return client + env.entity_base << 32 | random.randrange(20)

    def link():
        return random.choice([LOCAL, *broker.ways, random.randrange(env.links.source.size)])

    for _ in range(random.randrange(10)):
        what, id_ = random.randrange(8), some()
        if what == 0:
            leases.clear()
            if random.randrange(2):
                table.clear()
        elif what == 1:
            known = forge()
            leases.setdefault(known, {})[link()] = random.choice(NUMBERS)
            if random.randrange(3):
                table.add(known, client_of(env, known), row(), None)
        elif what == 2:
            known = forge()
            table.add(known, client_of(env, known), row(), None)
        elif id_ is None:
            continue
        elif what == 3:
            del leases[id_]
        elif what == 4:
            table.remove(id_)
        elif what == 5:
            leases[id_] = {link(): random.choice(NUMBERS) for _ in range(random.randrange(3))}
        elif what == 6:
            leases[id_] = {via: random.choice(NUMBERS) for via in leases[id_]}
        else:
            table.remove(id_)
            table.add(id_, client_of(env, id_), row(), None)


def net_of(seed):
    """A small tree, whose clients subscribe, withdraw and publish all along."""
    random = Random(seed)
    brokers = random.randrange(2, 7)
    edges = [(random.randrange(b), b) for b in range(1, brokers)]
    options = {"lease": LEASE, "renew": EVERY, "steps": STEPS, "withdraw": bool(random.randrange(2))}
    net = join(Spoilt, edges, clients=[*range(brokers), 0], delay_ns=DELAY, options=options)
    said = []
    for i in range(random.randrange(3, 12)):
        client, begun = random.randrange(brokers), random.randrange(1, 1_500)
        low = random.random() / 2
        row = [0, low, low + random.random() / 2]
        said.append((begun, 0, client, i, "subscribe", row))
        if random.randrange(2):
            said.append((begun + random.randrange(1, 1_000), 1, client, i, "unsubscribe", None))
    for at in range(900, 2_600, 13):
        said.append((at, 2, brokers, 0, "publish", [random.random(), 0.5, 0.5, 0.5]))
    for at, _, client, i, op, row in sorted(said, key=lambda each: each[:4]):
        net.send(client, op, row, word=0 if op == "publish" else net.interest(client, i), at_ns=at * MS)
    return net.model(), brokers - 1


def heals(seed, monkeypatch):
    """Tables, and deliveries of what is published from then on, are those of a run in which nothing was spoilt."""
    random = Random(seed)
    model, farthest = net_of(random.randrange(12))
    at = random.randrange(900 * MS, 1_700 * MS)
    again = at + max(LEASE, EVERY + farthest * DELAY) + 1
    monkeypatch.setattr(Spoilt, "at_ns", at)
    monkeypatch.setattr(Spoilt, "look_ns", again)
    found = []
    for spoilt_by in (None, seed):
        monkeypatch.setattr(Spoilt, "seed", spoilt_by)
        monkeypatch.setattr(Spoilt, "seen", {})
        deliveries = run(model)["deliveries"]
        late = deliveries["published_ns"] >= again
        rows = zip(*(deliveries[name][late].tolist() for name in ("publication", "client", "time_ns")))
        early = sorted(deliveries["publication"][~late].tolist())
        found.append(((Spoilt.seen, sorted(rows)), early))
    (fresh, before), (spoilt, other) = found
    assert fresh == spoilt, f"seed {seed}"
    assert fresh[1] and len(fresh[0]) == farthest + 1
    return before != other


def test_spoilt_entries_heal_in_time(monkeypatch):
    assert sum([heals(seed, monkeypatch) for seed in range(40)]) > 10  # it shows at first


@pytest.mark.full
def test_a_thousand_times_spoilt_entries_heal_in_time(monkeypatch):
    assert sum([heals(seed, monkeypatch) for seed in range(100, 1_100)]) > 250


class Credulous(Spoilt):
    """Takes what an entry says of itself for true."""

    def _step(self, message):
        for id_, links in list(self.leases.items()):
            self.leases[id_] = {via: has - 1 for via, has in links.items() if has > 1}
            if not self.leases[id_]:
                self.node.table.remove(id_)
                del self.leases[id_]
        self._again(message, self.node.options.step, STEP)


def test_who_believes_what_is_spoilt_does_not_heal(monkeypatch):
    monkeypatch.setattr(f"{__name__}.Spoilt._step", Credulous._step)
    wrong = 0
    for seed in range(8):
        try:
            heals(seed, monkeypatch)
        except AssertionError:
            wrong += 1
    assert wrong > 2


# ---- faults ------------------------------------------------------------------------------------------

QUICK = {"lease": 60 * MS, "renew": 20 * MS, "steps": 12, "recover_within": 100 * MS}


@pytest.mark.parametrize("state", [0, LOST], ids=["kept", "lost"])
@pytest.mark.parametrize("number", [0, 1, 3, 4, 5], ids=lambda number: LOSSLESS[number].name)
def test_it_recovers(number, state):
    found = audit_run(struck(LOSSLESS[number], "leases", 2, QUICK, state))
    assert found.guarantees.under_faults == "recovers" and found.guarantees.heals_loss
    assert found.verdict == VALID, str(found)


def test_where_links_lose_messages_exactness_is_not_promised():
    assert Leases.guarantees_for(overlay_of([(0, 1)])).exact
    assert not Leases.guarantees_for(overlay_of([(0, 1)], loss=0.01)).exact
