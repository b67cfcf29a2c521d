"""What an audit says: promises and findings apart, and the same words from the conformance kit and from Spark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.spark.audit import Audit, Finding, ServiceAudit
from analysis.spark.audit_text import text
from brokers.contract import Guarantees
from brokers.verdicts import EXIT_CODES, FINDINGS, FORCED_SHARE_MIN, VERDICTS, judgement, rules_out
from protocols.judging import Audit as KitAudit
from protocols.judging import Mistakes

NOTHING = Guarantees(exact=False, no_duplicates=False, fifo_per_publisher=False)
CLEAN = dict.fromkeys(FINDINGS, 0)


def in_spark(guarantees, counts, **decisions):
    findings = {
        name: Finding(rules_out(guarantees, name), count, [{"message": "3#1", "client": 4}] if count else [])
        for name, count in counts.items()
    }
    return ServiceAudit("news", "content", "best-effort", vars(guarantees), **decisions, **findings)


def in_kit(guarantees, counts, **decisions):
    findings = {name: Mistakes(count, ["client 4 got nothing"] * min(count, 5)) for name, count in counts.items()}
    return KitAudit(guarantees, **decisions, **findings)


flags, few, many = st.booleans(), st.sampled_from([0, 0, 0, 1, 7]), st.integers(0, 200)


@given(
    st.builds(Guarantees, flags, flags, flags, flags, only_wanted=flags),
    st.fixed_dictionaries(dict.fromkeys(FINDINGS, few)),
    st.fixed_dictionaries({"forced": many, "free": many, "deliveries": many}),
)
def test_the_kit_and_spark_say_the_same_of_the_same_and_a_verdict_follows_from_promises(guarantees, counts, decisions):
    said = in_kit(guarantees, counts, **decisions).judgement
    assert said == in_spark(guarantees, counts, **decisions).judgement
    broken = [name for name in FINDINGS if counts[name] and rules_out(guarantees, name)]
    promises = (
        guarantees.exact or guarantees.only_wanted or guarantees.no_duplicates or guarantees.fifo_per_publisher
    )
    enough = decisions["forced"] >= max(1, FORCED_SHARE_MIN * (decisions["forced"] + decisions["free"]))
    tested = enough if guarantees.exact else decisions["deliveries"] > 0
    assert said.verdict == ("invalid" if broken else "valid" if promises and tested else "unknown")
    assert all((str(count) in said.found) for count in counts.values() if count)


def test_of_a_protocol_that_promises_nothing_nothing_is_said_to_be_right():
    found = in_spark(NOTHING, CLEAN | {"missed": 5184}, forced=115_218, deliveries=9)
    assert found.verdict == "unknown"
    lines = text(Audit("run", "digest", [found])).splitlines()
    assert lines[0] == "news (best-effort): unknown: nothing is promised, so there is nothing to hold it to"
    assert lines[1] == "  found: 5,184 missed (not promised: exactness)"
    assert lines[3:] == ["    missed: message 3#1 and client 4", "verdict: unknown"]


def test_what_is_promised_and_kept_is_named_beside_what_was_found_and_not_promised():
    fifo_not = Guarantees(fifo_per_publisher=False)
    said = judgement(fifo_not, CLEAN | {"out_of_order": 3}, forced=10, free=0, deliveries=10)
    assert said.reason == "kept what is promised: exactness, no duplicates"
    assert said.found == "3 out of order (not promised: order per publisher)"
    said = judgement(fifo_not, CLEAN | {"missed": 2, "unwanted": 1}, forced=10, free=0, deliveries=10)
    assert said.reason == "broke what is promised: exactness (2 missed, 1 unwanted)"


def test_who_promises_nothing_unwanted_may_miss_what_was_forced_and_no_more():
    gossips = Guarantees(exact=False, fifo_per_publisher=False, only_wanted=True)
    said = judgement(gossips, CLEAN | {"missed": 7}, forced=10, free=0, deliveries=3)
    assert said[:2] == ("valid", "kept what is promised: nothing unwanted, no duplicates")
    assert said.found == "7 missed (not promised: exactness)"
    said = judgement(gossips, CLEAN | {"unwanted": 2}, forced=10, free=0, deliveries=3)
    assert (said.verdict, said.reason) == ("invalid", "broke what is promised: nothing unwanted (2 unwanted)")
    assert judgement(gossips, CLEAN, forced=10, free=0, deliveries=0).verdict == "unknown"


@pytest.mark.parametrize(("forced", "verdict"), [(0, "unknown"), (4, "unknown"), (5, "valid")])
def test_one_in_twenty_decisions_has_to_be_forced(forced, verdict):
    assert judgement(Guarantees(), CLEAN, forced=forced, free=100 - forced, deliveries=50).verdict == verdict


def test_what_nothing_was_delivered_of_is_unknown_where_only_deliveries_could_tell():
    only_order = Guarantees(exact=False, no_duplicates=False)
    assert judgement(only_order, CLEAN, forced=9, free=0, deliveries=0).verdict == "unknown"
    assert judgement(only_order, CLEAN, forced=9, free=0, deliveries=1).verdict == "valid"


def test_the_verdict_of_a_run_is_the_worst_of_its_services():
    good, bad = in_spark(Guarantees(), CLEAN, forced=1), in_spark(Guarantees(), CLEAN | {"missed": 1}, forced=1)
    unsure = in_spark(Guarantees(), CLEAN)
    for services, worst in ([good], "valid"), ([good, unsure], "unknown"), ([unsure, bad, good], "invalid"):
        found = Audit("run", "digest", services)
        assert (found.verdict, found.exit_code) == (worst, EXIT_CODES[worst])
    assert list(EXIT_CODES) == list(VERDICTS)
