"""What a page says of a publication and a client, for all pairs of small runs, beside what `explain` says."""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict

import pytest

from analysis.report.cases import Cases
from analysis.report.gather import gather
from analysis.ways.deciding import told_of
from analysis.ways.hearing import TOLD, WITHDRAWN
from analysis.ways.missing import FORGOT, LOST_IT, NEVER_TOLD, TOO_LATE, UNDER_WAY, WITHDREW, WITHHELD, missed
from analysis.ways.owed import NOT_WANTED
from analysis.ways.pair import Pair
from brokers.engine.runfolder import open_run
from brokers.faults import REASONS
from protocols.content.subscription import PlainSubscription
from tests.analysis.runs_of_cases import case_of, run_of
from tests.analysis.test_ways import Deaf, Doubles, Withholds
from tests.planted.registry import LINE, PLANTED, crash, failing
from tests.planted.settings import Setting

pytestmark = pytest.mark.xdist_group("browser")

STOPPED = {FORGOT, LOST_IT, NEVER_TOLD, TOO_LATE, UNDER_WAY, WITHDREW, WITHHELD}
ALL = """(() => {
  const { model } = brokerlab, { columns } = model, found = [];
  const name = broker => broker < 0 ? null : model.broker(broker);
  for (const message of MESSAGES.map(each => model.find(each))) for (const client of CLIENTS) {
    const pair = new Pair(model, message, client);
    const way = pair.hop < 0 ? [] : model.chain(pair.hop, pair.hops);
    const time = hop => hop < 0 ? null : columns.hop_time[hop];
    found.push({ message: model.message(message), client, got: pair.got, home: name(pair.home ?? -1),
      decided: pair.decided, asked: pair.asked.map(row => pair.name(row)),
      stop: name(pair.stop), towards: name(pair.towards),
      way: way.map(hop => model.hopBroker[hop]),
      heard: pair.got || pair.stop < 0 ? [] : pair.heard.map(each =>
        [pair.name(each.row), time(each.told), each.over >= 0, name(each.near), time(each.nearest)]),
      said: pair.said.join(' '), command: pair.command });
  }
  return found;
})()"""


def compared(opened, reported, path, chosen=lambda row: True, step=1):
    """Each pair of a run, or of the chosen publications and some clients, as the page has it and as `explain` has."""
    run = open_run(path)
    page = opened(reported(run, trust=True))
    asked = Cases(gather(run, 10**6, trust=True))
    tolds = {each.number: asked.told(each) for each in asked.found.kinds}
    clients = range(sum(group["count"] for group in run.manifest["scenario"]["clients"].values()))[::step]
    rows = {tolds[row["service"]].message(row["publication"]): row
            for row in run.read("publications").to_pylist() if chosen(row)}  # fmt: skip
    found = page(ALL.replace("CLIENTS", json.dumps([*clients])).replace("MESSAGES", json.dumps([*rows])))
    assert len(found) == len(rows) * len(clients) and page.is_quiet()
    for here in found:
        row = rows[here["message"]]
        told = tolds[row["service"]]
        pair = Pair(told, row, here["client"] + told.nodes)
        yield here, pair


def check(here, pair, why):
    """Whatever the page says of a pair is what `explain` says."""
    told = pair.told
    assert here["got"] == len(pair.got)
    assert here["decided"] == (told.decides and not pair.got)
    assert here["command"].endswith(f" {here['message']} --client {here['client']}")
    if here["decided"]:
        assert sorted(here["asked"]) == sorted(told.message(row["change"]) for row in pair.standing)
        assert (not here["asked"]) == (why["verdict"] == NOT_WANTED)
    if pair.got and here["way"] and len(pair.carried.at[pair.home]) == 1:
        chain = pair.carried.chain(pair.carried.at[pair.home][0])
        assert here["way"] == [hop.broker for hop in chain]
    if here["decided"] and why["verdict"] in STOPPED:
        assert (here["stop"], here["towards"]) == (why["broker"], why["towards"])
        assert told.names[pair.home] == here["home"] and here["stop"] in here["said"]
        check_heard(here, pair)


def check_heard(here, pair):
    """What the broker where it stops heard of the client's own interests, before a copy came and at all."""
    told = pair.told
    stop = told.names.index(here["stop"])
    came = pair.carried.at[stop][0] if stop in pair.carried.at else None
    distance, _ = told.nearer(stop)
    for name, first, over, near, nearest in here["heard"]:
        row = next(each for each in pair.standing if told.message(each["change"]) == name)
        events = [each for each in pair.of_mine if each.about["interest"] == row["interest"]]
        mine = [each for each in events if each.hop.broker == stop]
        times = [each.hop.time_ns // 1000 for each in mine if each.says == TOLD]
        assert first == (times[0] if times else None)
        before = [each for each in mine if came is None or each.hop.time_ns // 1000 < came.time_ns // 1000]
        assert over == bool(before and before[-1].says == WITHDRAWN)
        if not times and row["issued_ns"] >= 0:
            knew = [each.hop for each in events if each.says == TOLD and each.hop.broker in distance]
            least = min(knew, key=lambda hop: (distance[hop.broker], hop.broker, hop.time_ns), default=None)
            assert (near, nearest) == (
                (None, None) if least is None else (told.names[least.broker], least.time_ns // 1000)
            )


def checked(opened, reported, path):
    """How many pairs of each verdict were compared."""
    found = Counter()
    for here, pair in compared(opened, reported, path):
        why = told_of(pair)
        check(here, pair, why)
        found[why["verdict"]] += 1
    return found


def test_a_lossy_tree_in_which_clients_come_and_go(made, opened, reported):
    run = made(
        "news", "duration=1 s", "topology.nodes=9", "clients.publishers.count=4", "clients.subscribers.count=16",
        "links.loss=5 %", "services.news.workload.0.ramp=800 ms", "services.news.workload.1.start=100 ms",
        "services.news.workload.0.churn.rate=60/min",
    )  # fmt: skip
    found = checked(opened, reported, run.path)
    assert {"delivered", NOT_WANTED, TOO_LATE, LOST_IT, WITHDREW} <= set(found)


def test_cycles_and_two_services_whose_numbers_are_alike(made, opened, reported):
    run = made(
        "partition-heals", "trace.level=full", "duration=4 s", "clients.publishers.count=3",
        "clients.subscribers.count=20", "topology={kind: ring, nodes: 8}", "faults.schedule=[]",
        "services.forgets.protocol=flooding", "links.loss=10 %", "expect=[]",
    )  # fmt: skip
    found = checked(opened, reported, run.path)
    assert LOST_IT in found and "delivered" in found


def test_topics_in_rings(made, opened, reported):
    run = made("bridges-loop", "duration=2 s", "trace.level=full", "expect=[]")
    assert "delivered" in checked(opened, reported, run.path)


def test_kinds_whose_values_alone_do_not_tell(made, opened, reported):
    """Where it ends for who may have wanted it: the page does not say whether it was owed."""
    run = made("quickstart", "duration=4 s")
    ids = defaultdict(list)
    for row in run.read("publications").sort_by("publication").to_pylist():
        ids[row["service"]].append(row["publication"])
    some = {id_ for service in (1, 2, 4) for id_ in random.Random(5).sample(ids[service], 2)}
    compared_by, stopped = Counter(), Counter()
    for here, pair in compared(opened, reported, run.path, lambda row: row["publication"] in some, 9):
        assert here["got"] == len(pair.got) and not here["decided"]
        compared_by[pair.told.service] += 1
        if pair.standing and not pair.got and pair.told.explaining is not None and not pair.told.kind.server:
            assert here["stop"] == pair.told.names[missed(pair).broker]
            stopped[pair.told.service] += 1
    assert len(compared_by) == 3 and len(stopped) >= 2


PLANTED_HERE = {
    "SnapshotOfClients", "OvertakenWithdrawal", "SnapshotFirst", "RestoredAsOne", "TagLost", "FalseAlarm",
    "ClientsOnly", "ModeOnce", "TakingOver", "EchoingSpokes", "MeshFirst", "Haunted",
}  # fmt: skip
ASKED = Setting(LINE, (2, 0), ((10, 0, "+"), (50, 1, "!")))
FALLS = Setting(LINE, (2, 0), ((10, 0, "+"), (50, 1, "!"), (51.5, 1, "!")), failing(crash(1, 51, 90)))
HUNTED = [
    *((planted.wrong, planted.setting) for planted in PLANTED if planted.wrong.__name__ in PLANTED_HERE),
    (Withholds, ASKED), (Deaf, ASKED), (Doubles, ASKED), (PlainSubscription, FALLS),
]  # fmt: skip


def test_bugs_that_were_planted(opened, reported, tmp_path):
    assert len(HUNTED) == len(PLANTED_HERE) + 4
    found = Counter()
    for at, (wrong, setting) in enumerate(HUNTED):
        found += checked(opened, reported, run_of(case_of(setting, wrong), tmp_path / str(at)))
    assert {"delivered", "delivered twice", LOST_IT, NEVER_TOLD, WITHHELD, WITHDREW, FORGOT} <= set(found)


def test_cases_are_of_every_sort_and_the_page_says_how_many_of_how_many(made, opened, reported):
    run = made("partition-heals", "trace.level=full", "links.loss=2 %", "expect=[]")
    page = opened(reported(run))
    there = page("brokerlab.facts.cases.map(each => [each.service, each.verdict, each.about.split(' ')[0]])")
    assert {(service, about) for service, _, about in there} == {
        (service, about) for service in ("forgets", "recovers") for about in ("lost", "wanted", "the")
    }
    assert {"lost", "delivered"} <= {verdict for _, verdict, _ in there}
    paragraphs = page("Array.from(document.querySelectorAll('#why p.dim'), each => each.textContent)")
    (said,) = [each for each in paragraphs if each.startswith(f"{len(there)} cases are explained here")]
    counted = {name: (int(shown), int(total.replace(",", "")))
               for name, shown, total in re.findall(r"(\w+: [^:;]+): (\d+) of ([\d,]+)", said)}  # fmt: skip
    assert sum(shown for shown, _ in counted.values()) == len(there)
    losses, ids = run.read("losses").to_pylist(), set(run.read("publications")["publication"].to_pylist())
    for number, name in enumerate(("forgets", "recovers")):
        for reason in ("cut", "link"):
            lost = [
                row for row in losses
                if row["service"] == number and REASONS[row["reason"]] == reason and row["body"] in ids
            ]  # fmt: skip
            assert counted[f"{name}: lost copies ({reason})"][1] == len(lost)
