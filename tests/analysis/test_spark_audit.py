"""The audit in Spark: it passes what is right, and names what is wrong."""

from __future__ import annotations

import functools
import hashlib
import json
import random
import re
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from brokers import names
from brokers.engine.runfolder import open_run
from brokers.errors import InvalidInput, RunDamaged
from brokers.naming import message_id
from scenarios import cli
from scenarios.running import Run

pytest.importorskip("pyspark")
pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.usefixtures("spark")]

from analysis.spark.audit import FINDINGS, audit  # noqa: E402
from analysis.spark.audit_text import text  # noqa: E402

TREE = "{kind: random-tree, nodes: 15}"
CYCLES = "{kind: watts-strogatz, nodes: 15, neighbours: 4, rewire: 0.2}"
NAMES = tuple(FINDINGS)
BROKERS = 15  # of `news`; examples name clients by number, the trace by the entity ids behind the brokers'


def one(path, **more):
    """The audit of a run with one service."""
    (service,) = audit(path, **more).services
    return service


@functools.cache
def _looked_at(path):
    return one(path)


def whole(run):
    """The audit of a run as it is, made once for all tests that compare with it."""
    return _looked_at(run.path)


def counts(service):
    return {name: getattr(service, name).count for name in NAMES}


# ---- what is right passes ----------------------------------------------------------------------------


@pytest.mark.parametrize("topology", [TREE, CYCLES], ids=["tree", "cycles"])
@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
def test_a_clean_run_with_churn_is_valid(protocol, topology, news):
    service = whole(news(protocol, topology))
    assert (service.verdict, service.unable) == ("valid", "")
    assert counts(service) == dict.fromkeys(NAMES, 0)
    assert service.forced > 5 * service.free > 0
    assert service.deliveries >= service.forced
    assert service.guarantees["fifo_per_publisher"] == (protocol != "flooding" or topology == TREE)


@pytest.mark.parametrize("protocol", ["flooding", "covering"])
def test_without_hops_more_is_free_and_nothing_is_accused(protocol, news):
    full, less = whole(news(protocol)), one(news(protocol, level="deliveries").path)
    assert less.verdict == "valid"
    assert 0 < less.forced < full.forced
    assert less.forced + less.free >= full.forced + full.free


@pytest.mark.parametrize("protocol", ["flooding", "subscription", "covering"])
@pytest.mark.parametrize("level", ["full", pytest.param("deliveries", marks=pytest.mark.full)])
def test_what_losses_caused_is_excused_and_counted_apart(protocol, level, news):
    service = one(news(protocol, loss="4 %", level=level).path)
    assert service.verdict == "valid", service.reason
    assert service.losses > 0
    assert 0 < service.excused_missed <= service.excused < service.free
    # On a tree, a copy of a flooded publication that was lost reaches nobody beyond.
    assert protocol != "flooding" or service.excused_missed == service.excused
    assert service.forced > service.free / 2


def test_what_was_under_way_at_the_end_of_a_cut_run_is_free(news):
    run = news("flooding", drain="0 s", duration="2 s")
    assert run.manifest["engine"]["metrics"]["network"]["in_flight_at_end"] > 0
    service = one(run.path)
    assert service.verdict == "valid"
    assert service.free > one(news("flooding", duration="2 s").path).free


@pytest.mark.parametrize("topology", [TREE, CYCLES], ids=["tree", "cycles"])
def test_forced_and_free_are_as_brute_force_counts_them(topology, news):
    from analysis.spark.trace import Trace, services_of
    from brokers.engine.simulate import MemoryTraces, simulate
    from protocols.conformance import audit as brute_force
    from scenarios.plan import resolve
    from scenarios.running import scenario_of

    run = news("flooding", topology)
    traces = MemoryTraces("full")
    simulate(resolve(scenario_of(run)), trace=traces)
    (service,) = services_of(run)
    expected = brute_force(traces.tables(), service.kind, service.guarantees(Trace(None, run).network))
    found = whole(run)
    assert (found.forced, found.free) == (expected.forced, expected.free)
    assert (found.publications, found.deliveries) == (expected.publications, expected.deliveries)


def test_a_sample_judges_fewer_publications_and_says_so(news):
    everything = whole(news("flooding"))
    found = audit(news("flooding").path, sample=100)
    (service,) = found.services
    assert 50 < service.audited < 150 < service.publications
    assert service.verdict == "valid"
    assert 0 < service.forced < everything.forced
    assert f"a sample of {service.publications}" in text(found)


def test_a_run_over_the_limit_is_sampled(news, monkeypatch):
    monkeypatch.setattr("analysis.spark.audit.PAIRS_MAX", 5_000)
    service = one(news("flooding").path)
    assert 0 < service.audited < service.publications / 2
    assert service.verdict == "valid"


def test_services_side_by_side_are_audited_each_for_itself(tmp_path):
    from scenarios.running import run

    done = run("three-protocols", engine="inline", out=tmp_path, overrides=["duration=4 s", "topology.nodes=15"])
    found = audit(done.path)
    assert [s.protocol for s in found.services] == ["flooding", "subscription", "covering"]
    assert {s.verdict for s in found.services} == {"valid"}


# ---- what is wrong is named --------------------------------------------------------------------------


def delivered(run):
    """Deliveries as arrays, and a row of a pair that the audit calls forced: delivered once, settled long before."""
    rows = run.read("deliveries")
    changes = run.read("changes").filter(pc.equal(pc.field("operation"), 1))
    alone = {
        client: (settled, revoked)
        for client, settled, revoked, count in zip(
            *(
                changes.group_by("client")
                .aggregate([("settled_ns", "max"), ("revoked_ns", "max"), ("client", "count")])
                .select(["client", "settled_ns_max", "revoked_ns_max", "client_count"])
                .to_pydict()
                .values()
            )
        )
        if count == 1 and revoked < 0 <= settled
    }
    table = rows.to_pydict()
    at = [
        i
        for i, (client, sent) in enumerate(zip(table["client"], table["published_ns"]))
        if client in alone and alone[client][0] < sent
    ]
    return rows, at


def without(rows, index):
    keep = np.ones(rows.num_rows, bool)
    keep[index] = False
    return rows.filter(pa.array(keep))


def test_a_dropped_delivery_is_missed(news, tampered):
    run = news("flooding")
    rows, at = delivered(run)
    gone = at[len(at) // 2]
    service = one(tampered(run, deliveries=lambda table: without(table, gone)))
    assert counts(service) == {"missed": 1, "unwanted": 0, "duplicated": 0, "out_of_order": 0}
    assert service.verdict == "invalid"
    (example,) = service.missed.examples
    assert example["publication"] == rows["publication"][gone].as_py()
    assert example["client"] == rows["client"][gone].as_py() - BROKERS
    assert message_id(example["message"], BROKERS) == example["publication"]


def test_a_delivery_twice_is_duplicated(news, tampered):
    run = news("flooding")
    rows, at = delivered(run)
    again = rows.slice(at[0], 1)
    service = one(tampered(run, deliveries=lambda table: pa.concat_tables([table, again])))
    assert counts(service) == {"missed": 0, "unwanted": 0, "duplicated": 1, "out_of_order": 0}
    assert service.duplicated.examples[0]["client"] == again["client"][0].as_py() - BROKERS
    assert service.verdict == "invalid"


def test_a_delivery_to_a_stranger_is_unwanted(news, tampered):
    run = news("flooding")
    rows, at = delivered(run)
    stranger = run.read("publications")["client"][0]  # publishers subscribe to nothing
    row = rows.slice(at[0], 1)
    row = row.set_column(row.schema.get_field_index("client"), "client", pa.array([stranger.as_py()]))
    path = tampered(run, deliveries=lambda table: pa.concat_tables([table, row.cast(table.schema)]))
    service = one(path)
    assert counts(service) == {"missed": 0, "unwanted": 1, "duplicated": 0, "out_of_order": 0}
    assert service.unwanted.examples[0]["client"] == stranger.as_py() - BROKERS


def test_a_publication_that_nobody_sent_is_unwanted(news, tampered):
    run = news("flooding")
    rows, at = delivered(run)
    row = rows.slice(at[0], 1)
    row = row.set_column(row.schema.get_field_index("publication"), "publication", pa.array([1 << 40]))
    path = tampered(run, deliveries=lambda table: pa.concat_tables([table, row.cast(table.schema)]))
    assert counts(one(path))["unwanted"] == 1


def test_a_delivery_before_the_interest_was_issued_is_unwanted(news, tampered):
    run = news("flooding")
    clients = run.read("changes").filter(pc.greater(pc.field("issued_ns"), 500_000_000))
    first = clients.group_by("client").aggregate([("issued_ns", "min")])
    seen = run.read("changes").group_by("client").aggregate([("issued_ns", "min")])
    late = {c for c, t in zip(first["client"].to_pylist(), first["issued_ns_min"].to_pylist())} & {
        c for c, t in zip(seen["client"].to_pylist(), seen["issued_ns_min"].to_pylist()) if t > 500_000_000
    }
    client = min(late)
    early = run.read("publications").filter(pc.less(pc.field("time_ns"), 300_000_000)).to_pylist()[0]
    broker = run.read("changes").filter(pc.equal(pc.field("client"), client))["broker"][0].as_py()
    row = {
        "service": 0, "publication": early["publication"], "broker": broker, "client": client,
        "published_ns": early["time_ns"], "time_ns": early["time_ns"] + 1_000_000,
    }  # fmt: skip
    path = tampered(
        run, deliveries=lambda table: pa.concat_tables([table, pa.Table.from_pylist([row], schema=table.schema)])
    )
    assert counts(one(path))["unwanted"] == 1


def test_two_deliveries_swapped_in_time_are_out_of_order(news, tampered):
    run = news("flooding")
    rows, at = delivered(run)
    table = rows.to_pydict()
    first = at[0]
    publisher, client = table["publication"][first] >> 32, table["client"][first]
    pair = sorted(
        (table["publication"][i], i)
        for i in range(rows.num_rows)
        if table["client"][i] == client and table["publication"][i] >> 32 == publisher
    )[:2]
    (_, a), (_, b) = pair
    times = list(table["time_ns"])
    times[a], times[b] = times[b], times[a]
    column = rows.schema.get_field_index("time_ns")
    path = tampered(run, deliveries=lambda t: t.set_column(column, t.schema.field(column), pa.array(times)))
    service = one(path)
    assert counts(service) == {"missed": 0, "unwanted": 0, "duplicated": 0, "out_of_order": 1}
    assert service.out_of_order.examples[0]["client"] == client - BROKERS


def test_order_counts_only_where_it_is_declared(news, tampered):
    run = news("flooding", CYCLES)
    rows, _ = delivered(run)
    column = rows.schema.get_field_index("time_ns")
    backwards = pc.subtract(pc.add(rows["published_ns"], 10**12), pc.multiply(rows["published_ns"], 2))
    path = tampered(run, deliveries=lambda t: t.set_column(column, t.schema.field(column), backwards))
    found = audit(path)
    (service,) = found.services
    assert service.out_of_order.count > 100
    assert service.verdict == "valid"
    assert f"{service.out_of_order.count:,} out of order (not promised: order per publisher)" in text(found)
    assert len(service.out_of_order.examples) == 5


def test_a_lost_subscription_shows_as_everything_it_missed(news, tampered):
    run = news("flooding")
    rows, at = delivered(run)
    client = rows["client"][at[0]].as_py()
    mine = int(pc.sum(pc.equal(rows["client"], client)).as_py())
    path = tampered(run, deliveries=lambda table: table.filter(pc.not_equal(pc.field("client"), client)))
    service = one(path)
    assert service.verdict == "invalid"
    assert 0.5 * mine < service.missed.count <= mine
    assert {example["client"] for example in service.missed.examples} == {client - BROKERS}


def test_a_protocol_that_never_settles_does_not_pass(news, tampered):
    run = news("flooding")

    def never(table):
        column = table.schema.get_field_index("settled_ns")
        return table.set_column(column, table.schema.field(column), pa.array([-1] * table.num_rows, pa.int64()))

    found = audit(tampered(run, changes=never))
    (service,) = found.services
    assert (service.forced, found.verdict, found.exit_code) == (0, "unknown", 2)
    assert "too little was forced" in service.reason


def test_a_loss_excuses_nothing_on_this_side_of_the_link(news, tampered):
    run = news("flooding", loss="4 %")
    rows, at = delivered(run)
    home = dict(zip(*(run.read("publications").select(["publication", "broker"]).to_pydict().values())))
    table = rows.to_pydict()
    here = next(i for i in at if home[table["publication"][i]] == table["broker"][i])
    service = one(tampered(run, deliveries=lambda t: without(t, here)))
    assert counts(service) == {"missed": 1, "unwanted": 0, "duplicated": 0, "out_of_order": 0}


def test_what_leans_on_a_change_that_never_settled_is_not_forced(news, tampered):
    run = news("covering")
    leans = run.read("dependencies")
    assert leans.num_rows > 0
    on = leans["depends_on"][0].as_py()

    def unsettled(table):
        column = table.schema.get_field_index("settled_ns")
        values = pc.if_else(pc.equal(table["change"], on), pa.scalar(-1, pa.int64()), table["settled_ns"])
        return table.set_column(column, table.schema.field(column), values)

    before, after = whole(run), one(tampered(run, changes=unsettled))
    leaning = {c for c, d in zip(leans["change"].to_pylist(), leans["depends_on"].to_pylist()) if d == on}
    assert leaning
    assert after.verdict == "valid"
    assert after.forced < before.forced
    assert after.forced + after.free == before.forced + before.free


# ---- what cannot be audited --------------------------------------------------------------------------


def test_a_run_without_deliveries_is_unknown_and_says_which_level_is_needed(news):
    found = audit(news("flooding", level="summary").path)
    assert (found.verdict, found.exit_code) == ("unknown", 2)
    assert "needs trace level 'deliveries', this run has 'summary'" in text(found)


def test_a_truncated_part_is_named(news, tampered):
    path = tampered(news("flooding"))
    part = path / "tables" / "deliveries" / "part-0000.parquet"
    part.write_bytes(part.read_bytes()[:-100])
    with pytest.raises(RunDamaged, match=r"deliveries/part-0000\.parquet has \d+ bytes where"):
        audit(path)


def test_a_missing_part_is_named(news, tampered):
    path = tampered(news("flooding"))
    (path / "tables" / "hops" / "part-0000.parquet").unlink()
    with pytest.raises(RunDamaged, match=r"hops/part-0000\.parquet is missing"):
        audit(path)


def test_a_broken_footer_is_named(news, tampered):
    path = tampered(news("flooding"))
    part = path / "tables" / "deliveries" / "part-0000.parquet"
    part.write_bytes(part.read_bytes()[:-8] + b"\xff" * 8)
    with pytest.raises(RunDamaged, match=r"damaged: tables/deliveries/part-0000\.parquet is not what the run wrote"):
        audit(path)


def test_one_flipped_bit_is_damage_and_no_verdict(news, tampered, capsys):
    path = tampered(news("flooding"))
    part = path / "tables" / "deliveries" / "part-0000.parquet"
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.write_bytes(data)
    assert cli.main(["audit", str(path)]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"brokerlab: {path}: damaged: tables/deliveries/part-0000.parquet is not what")
    assert said.out == "" and not (path / "analysis").exists()


def test_a_page_that_breaks_while_spark_reads_it_is_named_without_a_word_of_java(news, tampered, monkeypatch):
    path = tampered(news("flooding"))
    part = path / "tables" / "deliveries" / "part-0000.parquet"

    def look_and_break(run):
        data = bytearray(part.read_bytes())
        data[100:4000] = bytes(3900)
        part.write_bytes(data)
        return 1

    monkeypatch.setattr("analysis.spark.audit.rows_of", look_and_break)
    with pytest.raises(RunDamaged, match=r"damaged: tables/deliveries/part-0000\.parquet") as told:
        audit(path)
    assert "java" not in str(told.value).lower()


@pytest.mark.parametrize("fill", [bytes, random.Random(1).randbytes], ids=["zeros", "noise"])
def test_a_forged_part_that_spark_cannot_read_is_told_in_a_sentence(news, tampered, capsys, fill):
    """Sealed again, so that the manifest vouches for it: pages that are none, behind a whole footer."""
    path = tampered(news("flooding"))
    manifest = json.loads((path / "manifest.json").read_text("utf-8"))
    (file,) = (each for each in manifest["files"] if each["table"] == "deliveries")
    data = (path / file["path"]).read_bytes()
    data = data[:4] + fill(len(data) // 2) + data[4 + len(data) // 2 :]
    (path / file["path"]).write_bytes(data)
    file["sha256"] = hashlib.sha256(data).hexdigest()
    text = json.dumps(manifest).encode()
    (path / "manifest.json").write_bytes(text)
    (path / "_SUCCESS").write_text(hashlib.sha256(text).hexdigest() + "\n")
    assert cli.main(["audit", str(path)]) == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.startswith("brokerlab: Spark could not compute this: ")
    assert "Traceback" not in told.err and "at org.apache" not in told.err


def test_a_kind_without_a_rule_is_refused_with_what_to_do(news):
    from analysis.spark.rules import rule_of
    from analysis.spark.trace import Service
    from brokers.contract import Kind
    from brokers.kinds import KindManifest

    class Other(Kind):
        manifest = KindManifest("other", "", "x:Other")
        row_bytes = oracle = None

    with pytest.raises(InvalidInput, match="name one as audit_rule"):
        rule_of(Service(0, "s", "x:Other", "x:P", Other({}), None, {}, None))


# ---- the command -------------------------------------------------------------------------------------


def test_the_verdict_is_kept_with_the_run_and_ends_in_an_exit_code(news, tampered, capsys):
    path = tampered(news("flooding"))
    assert Run.load(path).verdict == "not audited"
    assert cli.main(["audit", str(path)]) == 0
    assert capsys.readouterr().out.endswith("verdict: valid\n")
    assert Run.load(path).verdict == "valid"
    assert Run.load(path).as_data()["verdict"] == "valid"


def test_the_command_answers_in_json_and_with_1_for_an_invalid_run(news, tampered, capsys):
    run = news("flooding")
    _, at = delivered(run)
    path = tampered(run, deliveries=lambda table: without(table, at[0]))
    assert cli.main(["audit", str(path), "--json"]) == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer == json.loads((path / "analysis" / "audit.json").read_text("utf-8"))
    assert answer["verdict"] == "invalid"
    assert answer["services"][0]["findings"]["missed"]["count"] == 1
    assert cli.main(["audit", str(path)]) == 1
    assert "\n    missed: message " in capsys.readouterr().out


def test_the_verdict_of_another_run_does_not_count(news, tampered):
    path = tampered(news("flooding"))
    (path / "analysis").mkdir()
    (path / "analysis" / "audit.json").write_text('{"digest": "another", "verdict": "valid"}')
    assert Run.load(path).verdict == "not audited"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--sample", "0"], 3, "--sample: at least one publication"),
        (["--remote", "http://here"], 3, "expected sc://host:port"),
        (["--remote", "sc://127.0.0.1:1"], 4, "no Spark Connect server answers at 127.0.0.1:1"),
    ],
)
def test_what_is_wrong_with_the_arguments_is_said(arguments, code, words, news, capsys):
    assert cli.main(["audit", str(news("flooding").path), *arguments]) == code
    assert words in capsys.readouterr().err


def test_nothing_but_examples_and_totals_goes_through_the_driver(news, spark):
    from analysis.spark.aggregates import analyze

    run = open_run(news("flooding", duration="10 s", rate="60/s").path)
    assert run.rows("deliveries") > 30_000
    rows = spark.read.parquet(str(run.path / "tables" / "deliveries")).repartition(2)
    with pytest.raises(Exception, match="maxResultSize"):
        rows.collect()
    assert audit(run.path).verdict == "valid"
    (found,) = analyze([str(run.path)])
    assert found.shown["services"][0]["deliveries"] == run.rows("deliveries")


# ---- rules of other kinds ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def podium(tmp_path_factory):
    """The run of the kind that docs/analysis.md writes a rule for: three clients get what is published."""
    from scenarios.running import run

    folder = tmp_path_factory.mktemp("podium")
    page = (Path(__file__).parents[2] / "docs" / "analysis.md").read_text("utf-8")
    for language, name in (("python", "podium.py"), ("yaml", "podium.yaml")):
        (block,) = re.findall(rf"```{language} file={name}\n(.*?)```", page, re.DOTALL)
        (folder / name).write_text(block, encoding="utf-8")
    yield run(folder / "podium.yaml", engine="inline", out=folder / "runs", trust=True).folder
    sys.modules.pop("podium", None)
    names.beside.folders.remove(str(folder))


def test_an_answer_is_judged_as_a_whole_where_the_kind_says_so(podium, tampered):
    right = one(podium.path, trust=True)
    assert (right.verdict, counts(right)) == ("valid", dict.fromkeys(NAMES, 0))
    assert right.forced > 5 * right.free > 0
    deliveries = podium.read("deliveries")
    got = {}
    for row, (publication, client) in enumerate(zip(*(deliveries[n].to_pylist() for n in ("publication", "client")))):
        got.setdefault(publication, {})[client] = row
    # By the end all has settled that will. A fourth client wants it too, but may not have it.
    late = max(publication for publication, clients in got.items() if len(clients) == 3)
    last = got[late][max(got[late])]
    lost = one(tampered(podium, deliveries=lambda table: without(table, last)), trust=True)
    assert counts(lost) | {"missed": 0} == dict.fromkeys(NAMES, 0)
    assert lost.missed.count == 1 and lost.missed.examples[0]["publication"] == late


def test_who_comes_after_the_last_place_is_unwanted(podium, tampered):
    deliveries = podium.read("deliveries")
    rows = deliveries.to_pylist()
    last = max(client for client in (row["client"] for row in rows))
    # Client `last` comes after all others: it is right only where fewer than three want a publication.
    by = {}
    for number, row in enumerate(rows):
        by.setdefault(row["publication"], {})[row["client"]] = number
    full = next(clients for clients in by.values() if len(clients) == 3 and last not in clients)
    changed = pa.array([last if n == full[max(full)] else row["client"] for n, row in enumerate(rows)], pa.int64())
    column = deliveries.schema.get_field_index("client")
    changed_run = tampered(podium, deliveries=lambda table: table.set_column(column, "client", changed))
    service = one(changed_run, trust=True)
    assert service.verdict == "invalid"
    number = last - podium.read("brokers").num_rows
    assert service.unwanted.count == 1 and service.unwanted.examples[0]["client"] == number


def test_a_change_counts_until_what_replaces_or_revokes_it_has_settled(spark):
    from analysis.spark.standing import BEHIND, WINDOW, Standing
    from analysis.spark.trace import Service
    from brokers.contract import NEVER, Kind

    class Values(Kind):
        name, interests, revocations, replacements = "values", {1, 3}, {2}, {1}
        row_bytes = oracle = None

    # change, operation, interest, issued, settled, revoked, what lies behind lost messages
    told = [
        (10, 1, 7, 100, 110, 200, []),
        (11, 1, 7, 200, 220, 300, []),  # replaces 10
        (12, 1, 7, 300, 330, 400, [(0, 5, True)]),  # replaces 11, but not everybody heard of it
        (13, 2, 7, 400, 410, NEVER, []),  # revokes what is left
        (14, 1, 8, 100, 130, NEVER, []),  # of another word
        (15, 3, 9, 100, 105, 150, []),
        (16, 2, 9, 150, NEVER, NEVER, []),  # revokes 15, and never settles
    ]
    changes = spark.createDataFrame(
        [(c, o, i, 0, 1, issued, 0, [0.5], settled, revoked) for c, o, i, issued, settled, revoked, _ in told],
        "change long, operation byte, interest long, broker int, client long, issued_ns long, lost int, "
        "values array<double>, settled_ns long, revoked_ns long",
    )
    settled = spark.createDataFrame(
        [(c, settled, [], unheard) for c, _, _, _, settled, _, unheard in told],
        f"change long, settled_ns long, unsettled array<{WINDOW}>, unheard array<{BEHIND}>",
    )
    places = spark.createDataFrame([(0, 42)], "broker int, place long")
    service = Service(0, "values", "values", "x:P", Values({}), None, {}, None)
    rows = {row["change"]: row for row in Standing(None, service, changes, settled, places).versions().collect()}
    assert {change: row["gone_ns"] for change, row in rows.items()} == {
        10: 220, 11: NEVER, 12: 410, 14: NEVER, 15: NEVER,
    }  # fmt: skip
    assert {row["home"] for row in rows.values()} == {42}


DOUBLING = """
duration: 2 s
topology: {{kind: balanced-tree, branching: 2, height: 2}}
links: {{delay: 5 ms}}
clients: {{all: {{count: 20}}}}
services:
  - name: news
    kind: content
    protocol: {protocol}
    attributes: 2
    workload:
      - {{source: subscribe, constraints: 1, width: 0.5}}
      - {{source: publish, rate: 10/s}}
faults:
  schedule: [{{fault: degrade, at: 0 s, lasts: 2 s, twice: 3%}}]
trace: {{level: full}}
"""


@pytest.mark.parametrize("protocol", ["flooding", "covering"])
def test_what_a_link_doubled_may_come_twice_and_nothing_else_may(protocol, filled, tampered):
    run = filled(DOUBLING, protocol=protocol)
    service = one(run.path)
    assert service.verdict == "valid" and service.doubled > 5 and service.duplicated.count == 0
    doubled = set(run.read("doubled")["body"].to_pylist())

    def again(rows):
        at = next(i for i, p in enumerate(rows["publication"].to_pylist()) if p not in doubled)
        return pa.concat_tables([rows, rows.slice(at, 1)])

    found = one(tampered(run, deliveries=again))
    assert found.verdict == "invalid" and found.duplicated.count == 1 and found.doubled == service.doubled
