"""Protocols that recover: what they promise, and that they keep it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from brokers import names
from brokers.contract import NEVER, Guarantees
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.faults import KEPT as KEPT_STATE
from brokers.faults import LOST, NO_PLACE, Crash, Cut, Schedule, Slow, Worn
from brokers.promises import Faced, excused, promised, unnoticed_ns
from brokers.verdicts import INVALID, VALID
from protocols.conformance import REHEARSALS, audit, audit_run, check_digests, join, rehearse, variants
from protocols.content.kind import SUBSCRIBE
from protocols.content.resync import CHECK, HELLO, KEPT, WAITING_NS, digests
from scenarios.commands.list import names_of

MS = 1_000_000
RECOVERS = {"recover": True, "recover_within": 80 * MS}
LOSSLESS = [each for each in REHEARSALS if not each.links.get("loss")]


def faults_until(model: Any, seed: int, until: int = 150 * MS, detect: int = 8 * MS, shortest: int = 0) -> Schedule:
    """Cuts that are noticed (or of any length from `shortest`), crashes of any length, slow brokers; over by then."""
    draws = np.random.default_rng(seed)
    faults: list[Any] = []

    def span(least: int) -> tuple[int, int]:
        begin = int(draws.integers(0, until // 2))
        return begin, min(until, begin + least + 1 + int(draws.integers(until // 2)))

    for _ in range(4):
        link, (begin, end) = int(draws.integers(2 * model.overlay.links)), span(shortest or detect)
        faults += [Cut(link, begin, end), Cut(link ^ 1, begin, end)]
        faults.append(Crash(int(draws.integers(model.overlay.brokers)), *span(0)))
        faults.append(Slow(int(draws.integers(model.overlay.brokers)), *span(0), float(draws.choice([0.0, 2.0]))))
    return Schedule(tuple(faults), detect)


def struck(
    rehearsal: Any, protocol: str, seed: int, options: dict[str, Any], state: int = KEPT_STATE, lasts: int = 400 * MS
) -> Any:
    """A rehearsal that goes on for a while after its faults."""
    model = rehearse(replace(rehearsal, duration_ns=lasts), protocol, seed, options=options)
    schedule = faults_until(model, seed)
    faults = tuple(each._replace(state=state) if isinstance(each, Crash) else each for each in schedule.faults)
    return replace(model, faults=replace(schedule, faults=faults))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full), pytest.param(3, marks=pytest.mark.full)])
@pytest.mark.parametrize("rehearsal", LOSSLESS, ids=lambda each: each.name)
@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
def test_all_is_exact_again_so_long_after_the_last_fault(protocol, rehearsal, seed):
    found = audit_run(struck(rehearsal, protocol, seed, RECOVERS))
    assert found.guarantees.under_faults == "recovers"
    assert found.verdict == VALID, str(found)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full), pytest.param(3, marks=pytest.mark.full)])
@pytest.mark.parametrize("number", [0, 1, 4, 5], ids=lambda number: LOSSLESS[number].name)
@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
def test_so_it_is_where_brokers_come_back_and_know_nothing(protocol, number, seed):
    model = struck(LOSSLESS[number], protocol, seed, RECOVERS, LOST)
    assert model.faults.forgetful
    found = audit_run(model)
    assert found.guarantees.under_faults == "recovers"
    assert found.verdict == VALID, str(found)


@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
def test_who_promises_nothing_under_faults_is_not_accused_when_brokers_forget(protocol):
    found = audit_run(struck(LOSSLESS[0], protocol, 2, {}, LOST))
    assert found.verdict != INVALID, str(found)


@pytest.mark.parametrize("routing", ["per-publisher", "shared"])
@pytest.mark.parametrize("protocol", ["subscription", "covering"])
def test_the_audit_accuses_who_promises_to_recover_and_does_not(protocol, routing):
    """The same with and without the option, held to the same promise."""
    ring = next(each for each in LOSSLESS if each.topology == "ring")
    verdicts = []
    for options in (RECOVERS, {}):
        model = struck(ring, protocol, 1, {**options, "routing": routing})
        traces = MemoryTraces("full", tables_of(model))
        simulate(model, trace=traces)
        service = model.services[0]
        owed = promised(service.protocol_class, RECOVERS, model.overlay, Faced.of(model.faults, model.overlay))
        verdicts.append(audit(traces.tables(), service.kind_class(service.params), owed).verdict)
    assert verdicts == [VALID, INVALID]


@pytest.mark.parametrize("protocol", ["subscription", "covering"])
def test_recovering_is_the_same_in_every_way_of_running(protocol):
    model = struck(LOSSLESS[1], protocol, 1, RECOVERS)
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    types = set(traces.tables()["hops"]["type"].tolist())
    assert {HELLO, KEPT} <= types
    ways = variants(model)
    some = [ways[0], *(way for way in ways if way.actors in (3, model.overlay.brokers) or "on_run," in way.name)]
    assert len(some) > 4 and check_digests(model, some) == []


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(3, 13))])
@pytest.mark.parametrize("state", [KEPT_STATE, LOST], ids=["kept", "lost"])
@pytest.mark.parametrize("number", [0, 1, 4, 5], ids=lambda number: LOSSLESS[number].name)
@pytest.mark.parametrize("protocol", ["advertising", "advertising-covering"])
def test_advertisements_are_mended_first_and_draw_what_else_is_missing(protocol, number, state, seed):
    """So it takes once across the overlay longer."""
    options = {"recover": True, "recover_within": 150 * MS}
    found = audit_run(struck(LOSSLESS[number], protocol, seed, options, state, 800 * MS))
    assert found.guarantees.under_faults == "recovers"
    assert found.verdict == VALID, str(found)


def test_recovering_with_advertisements_is_promised_once_across_later():
    model = struck(LOSSLESS[0], "advertising", 1, {"recover": True})
    faced = Faced.of(model.faults, model.overlay)
    owed = [
        promised(names.find("protocols", name).object, {"recover": True}, model.overlay, faced).recovers_ns
        for name in ("subscription", "advertising")
    ]
    assert owed[1] - owed[0] == faced.way_ns > 0


def test_the_end_of_an_advertisement_that_a_cut_swallowed_is_told_when_the_link_is_up_again():
    """And goes on from there; what it led is withdrawn. What came while the link was cut follows as well."""
    net = join("advertising", [(0, 1), (1, 2), (2, 3)], options={"recover": True})
    net.send(3, "subscribe", [0, 0.0, 1.0], word=net.interest(3), at_ns=100 * MS)
    net.send(0, "advertise", [0, 0.0, 1.0], word=net.interest(0), at_ns=200 * MS)
    net.send(0, "unadvertise", word=net.interest(0), at_ns=400 * MS)
    net.send(0, "advertise", [0, 0.0, 0.5], word=net.interest(0, 1), at_ns=450 * MS)
    net.send(0, "publish", [0.2, 0.0, 0.0, 0.0], at_ns=900 * MS)
    cut = Schedule((Cut(0, 300 * MS, 500 * MS), Cut(1, 300 * MS, 500 * MS)), 5 * MS)
    traces = MemoryTraces("full")
    described: list[Any] = []
    simulate(
        replace(net.model(), faults=cut), trace=traces,
        observe=lambda shards: described.extend(map(shards.shards[0].services.protocols[0].describe, range(4))),
    )  # fmt: skip
    assert [set(each["adverts"]) for each in described] == [{str(net.interest(0, 1))}] * 4
    assert [list(each["subscriptions"]) for each in described] == [[str(net.interest(3))]] * 4
    assert traces.tables()["deliveries"]["client"].size == 1


# ---- how long it takes -------------------------------------------------------------------------------


@pytest.mark.parametrize(("far", "detect"), [(2, 40), (4, 40), (4, 5), (5, 100)])
def test_the_time_to_recover_is_detection_and_propagation(far, detect):
    """A line, cut beside its first broker while a client there subscribes; the last broker publishes all along.

    Both ends hear that the link is up after `detect`; the digest goes over it and the subscription comes back, and then
    passes the rest of the line.
    """
    delay, up = 7 * MS, 3_000 * MS
    net = join("subscription", [(n, n + 1) for n in range(far)], clients=[0, far], delay_ns=delay, options=RECOVERS)
    net.send(0, "subscribe", [0, 0.0, 1.0], word=net.interest(0), at_ns=2_500 * MS)
    for tick in range(600):
        net.send(1, "publish", [0.5, 0.5, 0.5, 0.5], at_ns=up - 100 * MS + tick * MS)
    model = replace(net.model(), faults=Schedule((Cut(0, 2_000 * MS, up), Cut(1, 2_000 * MS, up)), detect * MS))
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    first = int(traces.tables()["deliveries"]["published_ns"].min())
    known = up + detect * MS + 2 * delay + (far - 1) * delay
    assert known <= first < known + 2 * MS
    faced = Faced.of(model.faults, model.overlay)
    owed = promised(model.services[0].protocol_class, {"recover": True}, model.overlay, faced)
    assert known <= up + owed.recovers_ns - WAITING_NS  # what is promised by default holds without queues


# ---- what is promised --------------------------------------------------------------------------------


def owed(protocol: str, options: dict[str, Any], *faults: Any, detect: int = 10 * MS) -> Guarantees:
    """What a protocol promises on a line of three under these faults."""
    model = replace(rehearse(LOSSLESS[0], protocol), faults=Schedule(faults, detect))
    return promised(model.services[0].protocol_class, options, model.overlay, Faced.of(model.faults, model.overlay))


CUT = (Cut(0, 0, 50 * MS), Cut(1, 0, 50 * MS))
SHORT = (Cut(0, 0, 5 * MS), Cut(1, 0, 5 * MS))


@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
def test_nothing_is_promised_unless_said(protocol):
    assert owed(protocol, {}, *CUT).under_faults == "nothing"
    assert owed(protocol, {"recover": True}).under_faults == "nothing"  # nothing fails
    assert owed(protocol, {"recover": True}, *CUT).under_faults == "recovers"


def test_what_nobody_notices_is_promised_only_where_tables_are_compared_all_along():
    said = {"recover": True}
    assert owed("subscription", said, *CUT, detect=NEVER).under_faults == "nothing"
    assert owed("subscription", said, *SHORT).under_faults == "nothing"
    assert owed("subscription", said, Crash(0, 0, 5 * MS)).under_faults == "recovers"  # it knows by itself
    assert owed("flooding", said, *SHORT).under_faults == "recovers"
    checks = {**said, "check_every": 20 * MS}
    for detect in (10 * MS, NEVER):
        assert owed("subscription", checks, *SHORT, detect=detect).under_faults == "recovers"


@pytest.mark.parametrize("protocol", ["subscription", "covering"])
def test_comparing_all_along_mends_what_nobody_is_told_of(protocol):
    options = {**RECOVERS, "check_every": 15 * MS}
    model = rehearse(replace(LOSSLESS[0], duration_ns=400 * MS), protocol, 4, options=options)
    worn = tuple(Worn(link, 0, 150 * MS, loss=0.3) for link in range(2 * model.overlay.links))
    schedule = faults_until(model, 4, shortest=1)
    model = replace(model, faults=Schedule((*schedule.faults, *worn), NEVER))
    traces = MemoryTraces("full", tables_of(model))
    result = simulate(model, trace=traces)
    assert (traces.tables()["hops"]["type"] == CHECK).any()
    assert result.metrics["network"]["in_flight_at_end"] == 0  # it stops asking when clients stop acting
    found = audit_run(model)
    assert found.verdict == VALID, str(found)


def test_what_a_link_loses_of_its_own_leaves_nothing_to_owe():
    faults = {"begin_ns": np.array([10]), "end_ns": np.array([50]), "state": np.array([0])}
    recovers = Guarantees(under_faults="recovers", recovers_ns=7)

    def again(guarantees: Guarantees, *losses: tuple[int, int, int], link: int = 0) -> int:
        columns = dict(zip(("reason", "type", "time_ns"), np.array(losses, int).reshape(-1, 3).T))
        columns["link"] = np.full(len(losses), link)
        return excused(guarantees, faults, unnoticed_ns(faults, columns, frozenset({0}))).again_ns

    quiet, cut = 0, 1
    assert again(recovers) == again(recovers, (cut, 1, 20)) == again(recovers, (quiet, 0, 60)) == 57
    assert again(recovers, (quiet, 1, 5)) == 57  # before anything failed
    assert again(recovers, (quiet, 1, 20)) == NEVER
    heals = replace(recovers, heals_loss=True)
    assert again(heals, (quiet, 1, 20)) == 57 and again(heals, (quiet, 1, 50)) == NEVER
    assert again(heals, (NO_PLACE, 1, 20)) == 57  # ahead of a link
    assert again(heals, (NO_PLACE, 1, 5), link=-1) == NEVER and again(heals, (NO_PLACE, 0, 5), link=-1) == 57
    assert again(Guarantees()) == NEVER


def test_who_forgot_owes_nothing_until_all_is_exact_again():
    faults = {"begin_ns": np.array([10, 20]), "end_ns": np.array([50, 40]), "state": np.array([0, 2])}
    for guarantees, again in ((Guarantees(), NEVER), (Guarantees(under_faults="recovers", recovers_ns=7), 57)):
        excuse = excused(guarantees, faults, -1)
        assert excuse == (again, 20)
        assert [excuse.anything(sent, sent + 3) for sent in (16, 17, 56, 57)] == [False, True, True, again == NEVER]
    assert excused(Guarantees(under_loss=True), faults, -1) == (NEVER, NEVER)


def test_digests_agree_exactly_where_the_ids_do():
    ids = list(range(0, 4_000, 7))
    for count in (1, 8, 64):
        one, other = digests(ids, count), digests(ids[1:], count)
        assert one == digests(reversed(ids), count)
        assert sum(a != b for a, b in zip(one, other)) == 1


def test_only_what_differs_is_sent_again():
    """Two brokers that know a hundred interests of each other; one more is missed."""
    net = join("subscription", [(0, 1)], clients=[0, 1], options=RECOVERS)
    for number in range(101):
        net.send(0, "subscribe", [0, number / 200, 1.0], word=net.interest(0, number))
    cut = (Cut(0, 100_500 * MS, 101_500 * MS), Cut(1, 100_500 * MS, 101_500 * MS))
    model = replace(net.model(), faults=Schedule(cut, 100 * MS))
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    hops = traces.tables()["hops"]
    again = hops["time_ns"] > 101_500 * MS
    sent = int((again & (hops["type"] == SUBSCRIBE) & (hops["link"] >= 0)).sum())
    assert 1 <= sent < 30
    assert int((again & (hops["type"] == KEPT)).sum()) == 1


@pytest.mark.parametrize("name", sorted(names_of("protocols")))
def test_what_is_listed_of_a_protocol_is_what_it_answers(name):
    """Asked with the option where it has one."""
    protocol = names.find("protocols", name).object
    fields = {} if protocol.Options is None else protocol.Options.model_fields
    options = {"recover": True} if "recover" in fields else {}
    model = replace(rehearse(LOSSLESS[0], "flooding"), faults=Schedule(CUT, 10 * MS))
    found = promised(protocol, options, model.overlay, Faced.of(model.faults, model.overlay)).under_faults
    listed = names_of("protocols")[name]["under_faults"]
    assert listed == ("recovers with the option recover" if options else found)
    assert found == "recovers" or not options
