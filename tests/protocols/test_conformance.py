"""The kit finds what is wrong with a protocol, and passes what is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from brokers.contract import Guarantees
from brokers.engine.simulate import MemoryTraces, simulate
from brokers.errors import InvalidInput
from protocols.conformance import (
    ORACLE,
    REHEARSALS,
    Rehearsal,
    Variant,
    audit,
    audit_run,
    check_digests,
    join,
    main,
    rehearse,
    report,
    target_of,
    variants,
)
from protocols.content.flooding import Flooding, PlainFlooding
from protocols.content.kind import Content

TREE, TIES, STRAINED, LOSSY, SETTLED, RING, CYCLES = REHEARSALS
DECLARED = Guarantees()
KIND = Content({"attributes": 4})


# ---- the audit, on traces written by hand -------------------------------------------------------------


def trace(changes=(), publications=(), deliveries=(), hops=(), losses=(), dependencies=()):
    """Tables of plain tuples; see each keyword's columns."""

    def columns(names, rows):
        return {name: np.array([row[i] for row in rows], np.int64) for i, name in enumerate(names)}

    wide = lambda rows: np.array([*rows, None], object)[:-1]  # noqa: E731
    tables = {
        # change, operation, interest, client, issued, settled, lost
        "changes": columns(
            ("change", "operation", "interest", "client", "issued_ns", "settled_ns", "lost"),
            [c[:7] for c in changes],
        ),
        "publications": columns(("publication", "time_ns"), [p[:2] for p in publications]),
        "deliveries": columns(("publication", "client", "published_ns", "time_ns"), deliveries),
        "hops": columns(("body", "time_ns"), hops),
        "losses": columns(("body", "cause"), [(*row, -1)[:2] for row in losses]),
        "dependencies": columns(("change", "depends_on"), dependencies),
    }
    tables["changes"]["broker"] = np.zeros(len(changes), np.int64)
    tables["changes"]["values"] = wide(np.array([0.0, 0.0, 1.0]) for _ in changes)
    tables["publications"]["values"] = wide(np.array([p[2], 0, 0, 0], float) for p in publications)
    count = len(tables["losses"]["body"])
    tables["losses"] |= {name: np.zeros(count, np.int64) for name in ("reason", "time_ns", "link", "type")}
    tables["losses"]["client"] = np.full(count, -1, np.int64)
    for table in ("changes", "publications", "deliveries", "losses"):
        tables[table]["service"] = np.zeros(len(next(iter(tables[table].values()))), np.int64)
    return tables


SUBSCRIBED = (
    100,
    1,
    7,
    50,
    10,
    20,
    0,
)  # change 100 begins interest 7 of client 50: issued at 10, settled at 20
REVOKED = (101, 2, 7, 50, 80, 90, 0)  # change 101 ends it: issued at 80, settled at 90


def judge(sent=30, last=40, value=0.5, got=(), declared=DECLARED, **tables):
    tables.setdefault("changes", [SUBSCRIBED])
    deliveries = [(1, client, sent, last) for client in got]
    return audit(
        trace(publications=[(1, sent, value)], hops=[(1, sent), (1, last)], deliveries=deliveries, **tables),
        KIND,
        declared,
    )


def test_a_settled_interest_forces_a_delivery():
    assert judge(got=[50]).verdict == "valid"
    missing = judge()
    assert (missing.verdict, missing.missed.count, missing.forced) == ("invalid", 1, 1)
    assert "client 50 got nothing of publication 0#1" in missing.broken[0]


def test_a_delivery_that_nobody_asked_for_is_unwanted():
    assert judge(value=1.5, got=[50]).unwanted.count == 1
    assert judge(got=[50, 51]).unwanted.count == 1
    assert judge(value=1.5).broken == []


@pytest.mark.parametrize("sent", [10, 15, 20])
def test_until_it_has_settled_an_interest_is_free(sent):
    for got in ([], [50]):
        found = judge(sent=sent, last=60, got=got)
        assert (found.free, found.forced, found.broken) == (1, 0, [])
    assert judge(sent=sent, last=60).verdict == "unknown"


def test_an_interest_issued_while_the_publication_is_under_way_is_free_and_one_issued_later_is_not():
    assert judge(sent=5, last=10, got=[50]).broken == []
    assert judge(sent=5, last=9, got=[50]).unwanted.count == 1


@pytest.mark.parametrize(
    ("sent", "last", "expected"), [(70, 79, "yes"), (70, 80, "free"), (85, 95, "free"), (91, 95, "no")]
)
def test_a_revocation_frees_while_it_is_in_flight_and_forbids_once_it_is_gone(sent, last, expected):
    found = judge(sent=sent, last=last, changes=[SUBSCRIBED, REVOKED])
    assert (found.forced, found.free, found.forbidden) == {
        "yes": (1, 0, 0),
        "free": (0, 1, 0),
        "no": (0, 0, 1),
    }[expected]
    assert judge(sent=sent, last=last, changes=[SUBSCRIBED, REVOKED], got=[50]).unwanted.count == (
        expected == "no"
    )


def test_a_change_that_never_settled_forces_nothing():
    assert judge(changes=[(100, 1, 7, 50, 10, -1, 0)]).free == 1


def test_what_stands_from_the_start_is_settled_before_everything():
    assert judge(sent=0, last=5, changes=[(-7, 1, 7, 50, -1, 0, 0)]).forced == 1


def test_a_change_has_settled_only_when_what_it_leans_on_has():
    cover = (200, 1, 8, 60, 5, 35, 0)
    leaning = {"changes": [SUBSCRIBED, cover], "dependencies": [(100, 200)]}
    assert judge(sent=30, got=[60], **leaning).forced == 0
    assert judge(sent=36, last=40, got=[50, 60], **leaning).forced == 2
    through = {
        "changes": [SUBSCRIBED, (150, 1, 9, 61, 1, 2, 0), cover],
        "dependencies": [(100, 150), (150, 200)],
    }
    assert judge(sent=30, got=[61], **through).missed.count == 0


def test_where_what_it_leans_on_was_revoked_a_change_has_settled_once_that_is_gone():
    changes = [SUBSCRIBED, (200, 1, 8, 60, 5, 9, 0), (201, 2, 8, 60, 30, 50, 0)]
    leaning = {"changes": changes, "dependencies": [(100, 200)]}
    assert judge(sent=25, last=29, got=[60], **leaning).missed.count == 1
    assert judge(sent=25, last=30, got=[60], **leaning).missed.count == 0
    assert judge(sent=40, last=60, **leaning).missed.count == 0
    assert judge(sent=51, last=60, **leaning).missed.count == 1


def test_a_loss_excuses_what_it_may_have_caused_unless_the_protocol_holds_under_loss():
    spoilt = {"changes": [(100, 1, 7, 50, 10, 20, 1)], "losses": [(-1, 100)]}
    for tables in ({"losses": [(1,)]}, spoilt):
        excused = judge(**tables)
        assert (excused.missed.count, excused.excused) == (0, 1)
        assert judge(**tables, declared=Guarantees(under_loss=True)).missed.count == 1
    assert judge(losses=[(2,)]).missed.count == 1


def test_a_second_delivery_is_a_duplicate():
    assert judge(got=[50, 50]).duplicated.count == 1
    assert judge(got=[50, 50], declared=Guarantees(no_duplicates=False)).verdict == "valid"


def test_of_a_protocol_that_promises_nothing_what_was_found_is_said_and_nothing_is_called_valid():
    nothing = Guarantees(exact=False, no_duplicates=False, fifo_per_publisher=False)
    missed, clean = judge(declared=nothing), judge(got=[50], declared=nothing)
    assert (missed.verdict, clean.verdict, missed.broken) == ("unknown", "unknown", [])
    assert str(missed).startswith("unknown: nothing is promised")
    assert "found: 1 missed (not promised: exactness)" in str(missed)
    assert "found: nothing missed" in str(clean)


def test_order_is_judged_per_publisher_and_client():
    one, two, other = (5 << 32) | 1, (5 << 32) | 2, (6 << 32) | 1
    published = [(one, 30, 0.5), (two, 31, 0.5), (other, 29, 0.5)]
    hops = [(p, at + 20) for p, at, _ in published]

    def found(*deliveries):
        return audit(trace([SUBSCRIBED], published, deliveries, hops), KIND, DECLARED)

    in_order = [(one, 50, 30, 40), (two, 50, 31, 41), (other, 50, 29, 42)]
    assert found(*in_order).verdict == "valid"
    assert found((one, 50, 30, 41), (two, 50, 31, 40), (other, 50, 29, 42)).out_of_order.count == 1
    assert found((two, 50, 31, 40), (one, 50, 30, 40), (other, 50, 29, 42)).out_of_order.count == 0


# ---- the kit on protocols that are wrong on purpose ----------------------------------------------------

WRONG = {
    "pings:Forgetful": "missed",
    "pings:Stutterer": "duplicated",
    "pings:Gossip": "unwanted",
    "pings:Hesitant": "out of order",
}


@pytest.mark.parametrize("protocol", WRONG)
def test_the_audit_tells_what_a_wrong_protocol_breaks(protocol, outside):
    found = audit_run(rehearse(TREE, protocol))
    assert found.verdict == "invalid"
    assert [told.split(",")[0].split(" ", 1)[1] for told in found.broken] == [WRONG[protocol]]


@pytest.mark.parametrize("rehearsal", REHEARSALS, ids=lambda r: r.name)
@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
def test_the_built_in_protocols_deliver_what_they_declare(protocol, rehearsal):
    found = audit_run(rehearse(rehearsal, protocol, seed=5))
    assert found.verdict == "valid", str(found)
    assert found.forced > 200 and found.forbidden > 200
    assert bool(found.excused) == (rehearsal is LOSSY)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10, 40))
@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
def test_the_built_in_protocols_deliver_what_they_declare_on_many_overlays(protocol, seed):
    for rehearsal in REHEARSALS:
        found = audit_run(rehearse(rehearsal, protocol, seed))
        assert found.verdict == "valid", f"{rehearsal.name}: {found}"


def test_a_protocol_from_outside_the_tree_passes_by_its_name(outside):
    small = replace(TREE, publications=60)
    assert check_digests(rehearse(small, "pings:Plain")) == []
    assert audit_run(rehearse(small, "pings:Plain")).verdict == "valid"


def test_a_class_can_be_checked_where_no_module_holds_it():
    class Mine(Flooding):
        pass

    assert target_of(Flooding) == "protocols.content.flooding:Flooding"
    model = rehearse(replace(TREE, publications=40), Mine)
    assert check_digests(model, [ORACLE, *variants(model)[1:3]]) == []


def test_a_failing_variant_is_told_with_what_it_raised(outside):
    model = rehearse(replace(TREE, publications=40), "pings:Plain")
    shy = replace(variants(model)[1], name="too many", actors=99)
    told = check_digests(model, [ORACLE, shy])
    assert [(d.variant, d.digest) for d in told] == [("too many", "")]
    assert "99 actors for 9 brokers" in told[0].told


def test_the_variants_cover_what_the_design_lists():
    ways = variants(rehearse(TREE, "flooding"))
    assert ways[0] is ORACLE and ORACLE.cutting.mode == "one"
    assert {w.actors for w in ways} == {1, 2, 3, 5, 7, 9}
    assert {(w.tables, w.view) for w in ways} >= {
        (t, v) for t in ("own", "shared") for v in ("run", "message")
    }
    assert len({w.cutting.seed for w in ways if w.cutting.mode == "random"}) >= 5
    for actors in (2, 3, 7):
        assert {w.partition for w in ways if w.actors == actors} >= {"auto", "round-robin"}
    assert len({w.name for w in ways}) == len(ways)


def test_a_rehearsal_has_ties_nesting_revocations_and_missing_values_where_it_should():
    script = rehearse(TIES, "flooding").services[0].sources[0].params["emissions"]
    published, subscribed, revoked = script
    assert all(t % TIES.grid_ns == 0 for part in script for t in part["time"])
    assert len(set(published["time"])) < 0.8 * len(published["time"])
    assert np.isnan(np.array(published["rows"])).any()
    began = dict(zip(subscribed["word"], subscribed["time"]))
    assert revoked["word"] and all(t > began[w] for w, t in zip(revoked["word"], revoked["time"]))


def test_the_report_reads_well_and_fails_where_something_is_wrong(outside, monkeypatch):
    monkeypatch.setattr("protocols.conformance.REHEARSALS", (replace(TREE, publications=60), RING))
    passed, text = report("pings:Plain", seeds=(1,), trees_only=True)
    assert passed and text.endswith("pings:Plain passed")
    assert (
        "a tree of unequal links (9 brokers, seed 1)\n  25 of 25 ways of running it give the same trace"
        in text
    )
    passed, text = report("pings:WrongRuns", seeds=(1,), trees_only=True)
    assert not passed and text.endswith("did not pass")
    assert "on_run for every stretch: the first difference is the message at" in text


class Circling(PlainFlooding):
    """Floods on cycles without asking what came by before."""

    def __init__(self, node):
        super().__init__(node)
        self.cyclic = False


def test_a_protocol_that_never_gets_quiet_does_not_pass_and_does_not_hang(monkeypatch):
    monkeypatch.setattr("protocols.conformance.REHEARSALS", (RING,))
    monkeypatch.setattr("protocols.rehearsing.MESSAGES_MOST", 5_000)
    said = []
    passed, text = report(Circling, seeds=(1,), say=said.append)
    assert not passed and said == text.splitlines()
    assert "failed: verdict invalid: it never gets quiet: " in text


def test_the_command_says_what_it_found_and_refuses_names_that_are_not_there(outside, monkeypatch, capsys):
    monkeypatch.setattr("protocols.conformance.REHEARSALS", (replace(TREE, publications=40),))
    assert main(["flooding", "--seeds", "1", "--for", "0"]) == 0
    assert capsys.readouterr().out.endswith("protocols.content.flooding:Flooding passed\n")
    assert main(["pings:Forgetful", "--seeds", "1", "--for", "0 s"]) == 1
    assert "invalid: " in capsys.readouterr().out
    assert main(["floding"]) == InvalidInput.exit_code
    assert "did you mean 'flooding'?" in capsys.readouterr().err
    assert main(["no.such:Thing"]) == InvalidInput.exit_code
    assert "no module 'no'" in capsys.readouterr().err
    assert main(["flooding", "--seeds", "0"]) == InvalidInput.exit_code
    assert "--seeds: at least 1, or nothing is rehearsed" in capsys.readouterr().err
    assert main(["flooding", "--for", "soon"]) == InvalidInput.exit_code
    assert "--for: " in capsys.readouterr().err


def test_the_command_hunts_after_the_rehearsals_and_says_one_verdict(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("protocols.conformance.REHEARSALS", (replace(TREE, publications=20),))
    monkeypatch.setattr("protocols.conformance.variants", lambda model: [ORACLE, Variant("batches")])
    monkeypatch.chdir(tmp_path)
    asked = ["--seeds", "1", "--trees-only", "--runs", "12", "--seed", "3"]
    assert main(["tests.scenarios.planted:KeepsBodies", *asked]) == 1
    told = capsys.readouterr().out
    assert "\n  valid: " in told and "budget" not in told  # rehearsals have nothing against it
    assert "hunting, with seed 3" in told
    assert "again: brokerlab hunt " in told
    assert told.endswith("tests.scenarios.planted:KeepsBodies did not pass\n")
    assert main(["subscription", *asked]) == 0
    told = capsys.readouterr().out
    assert "12 runs in " in told and told.endswith("protocols.content.subscription:Subscription passed\n")


# ---- join ----------------------------------------------------------------------------------------------


def test_joined_brokers_show_what_went_over_each_link_and_to_each_client():
    net = join("flooding", [(0, 1), (2, 1)], clients=[0, 2])
    net.send(1, "subscribe", [0, 0.0, 1.0], word=net.interest(1))
    publication = net.send(0, "publish", [0.5, 0.0, 0.0, 0.0], at_ns=5_000_000_000)
    assert [(hop.time_ns, hop.body) for hop in net.over(0, 1)] == [(5_001_000_000, publication)]
    assert [(hop.time_ns, hop.body) for hop in net.over(1, 2)] == [(5_002_000_000, publication)]
    assert net.over(1, 0) == net.over(2, 1) == []
    assert net.deliveries() == [(5_002_000_000, 1, publication)]
    assert (net.entries(2), net.entries(1)) == (1, 0)
    assert net.describe(2) == {"subscriptions": {str(net.interest(1)): 1}}
    assert net.audit().verdict == "valid"
    net.send(1, "unsubscribe", word=net.interest(1))
    net.send(0, "publish", [0.5, 0.0, 0.0, 0.0])
    assert len(net.over(0, 1)) == 2
    assert len(net.deliveries(1)) == 1
    assert check_digests(net.model()) == []


def test_a_message_before_the_last_one_is_refused():
    net = join("flooding", [(0, 1)])
    net.send(0, "publish", [0.5], at_ns=10)
    with pytest.raises(InvalidInput, match="9 ns is before 10 ns"):
        net.send(0, "publish", [0.5], at_ns=9)


def test_a_kind_without_a_rehearsal_is_refused():
    class Elsewhere(Flooding):
        kind = "elsewhere"

    with pytest.raises(InvalidInput, match="there is no kind 'elsewhere'"):
        rehearse(TREE, Elsewhere)


def test_a_script_plays_every_client_on_the_shard_that_carries_it():
    model = rehearse(Rehearsal("small", "line", {"nodes": 5}, {}, publications=30), "flooding")
    for actors in (1, 5):
        traces = MemoryTraces("deliveries")
        simulate(model, actors=actors, trace=traces)
        assert traces.tables()["publications"]["publication"].size == 30
