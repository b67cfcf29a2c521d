"""The kind channels: every client gets its answers, however it is run, whatever is merged, and no link carries more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from brokers.engine.model import Model, SourceSpec
from brokers.engine.runfolder import create_run, same_rows
from brokers.engine.simulate import FileTraces, MemoryTraces, simulate, tables_of
from brokers.errors import InvalidInput
from brokers.planning import planner
from brokers.planning.answers import answer, extract
from brokers.planning.model import BadQuery, Costs, Queries
from brokers.planning.problem import BoxProblem
from brokers.planning.sizes import Database
from protocols.channels.answers import body_of, received
from protocols.channels.database import database_of, marks
from protocols.channels.kind import SUBSCRIBE, UNSUBSCRIBE, Channels, Params
from protocols.channels.plans import Options
from protocols.channels.server import ANSWER, LISTEN
from protocols.conformance import (
    REHEARSALS,
    Variant,
    audit,
    audit_run,
    check_digests,
    overlay_of,
    rehearse,
    service_of,
    variants,
)
from scenarios.commands.run import service_line
from scenarios.loader import from_data
from scenarios.plan import resolve
from scenarios.problems import ScenarioErrors
from topology.servers import Server, with_servers

TREE, TIES, STRAINED, LOSSY, SETTLED, RING, CYCLES = REHEARSALS
MS = 1_000_000
MENDED_CHANNELS = {"mode": "channels", "channels": 3, "replan": "mended"}
FORMS = (
    {"mode": "unicast"},
    {"mode": "identical"},
    {"mode": "channels", "channels": 2},
    {"mode": "channels", "channels": 3, "allocator": "stronger", "sizes": "area"},
    {"procedure": "exact", "sizes": "histogram"},
    {"procedure": "polygon", "algorithm": "local-search"},
    {"replan": "mended"},
    {"replan_every_ms": 15},
    MENDED_CHANNELS,
    {**MENDED_CHANNELS, "drift": 0.5, "anew_every": 7},
    {"mode": "channels", "channels": 2, "weights": [1, 3], "allocator": "channel-merging"},
    {"procedure": "exact", "extractor": "tags"},
    {"mode": "channels", "channels": 2, "extractor": "tags"},
)


def options(**said):
    return Options(**said).model_dump()


# ---- however it is run -------------------------------------------------------------------------------


@pytest.mark.parametrize("rehearsal", [TREE, STRAINED, CYCLES], ids=lambda r: r.name)
def test_every_way_of_running_gives_one_trace_and_a_right_one(rehearsal):
    model = rehearse(rehearsal, "channels")
    assert check_digests(model, variants(model)[::6]) == []
    found = audit_run(model)
    assert found.broken == [] and found.forced > 20


@pytest.mark.parametrize("said", FORMS, ids=lambda said: "-".join(map(str, said.values())))
@pytest.mark.parametrize("rehearsal", [TIES, LOSSY, SETTLED], ids=lambda r: r.name)
def test_every_form_of_planning_answers_every_query(rehearsal, said):
    found = audit_run(rehearse(rehearsal, "channels", options=options(**said)))
    assert found.verdict == "valid", str(found)


@pytest.mark.full
@pytest.mark.parametrize("said", FORMS, ids=lambda said: "-".join(map(str, said.values())))
@pytest.mark.parametrize("rehearsal", REHEARSALS, ids=lambda r: r.name)
@pytest.mark.parametrize("seed", range(2, 5))
def test_random_overlays_and_churn(rehearsal, said, seed):
    model = rehearse(rehearsal, "channels", seed, options=options(**said))
    assert check_digests(model, variants(model)[::3]) == []
    assert audit_run(model).broken == []


@pytest.mark.ray
@pytest.mark.parametrize("said", [{}, pytest.param(MENDED_CHANNELS, marks=pytest.mark.full)], ids=["merged", "mended"])
def test_on_ray_the_server_plans_on_an_actor_of_its_own(said):
    pytest.importorskip("ray")
    model = rehearse(TREE, "channels", options=options(**said))
    assert check_digests(model, [Variant("here"), Variant("Ray", actors=2, engine="ray")]) == []


class Stopped(Exception):
    """Stands for whatever ends a process."""


@pytest.mark.parametrize(
    ("said", "on"),
    [
        pytest.param({}, {"actors": 3}, id="fresh"),
        pytest.param({"replan": "mended"}, {"actors": 3}, id="mended"),
        pytest.param({**MENDED_CHANNELS, "extractor": "tags"}, {"actors": 1}, id="channels", marks=pytest.mark.full),
        pytest.param(MENDED_CHANNELS, {"engine": "ray", "actors": 2}, id="on Ray",
                     marks=[pytest.mark.full, pytest.mark.ray]),
    ],
)  # fmt: skip
def test_a_run_goes_on_from_a_checkpoint_with_plans_under_way(tmp_path, said, on):
    if "engine" in on:
        pytest.importorskip("ray")
    model = rehearse(TREE, "channels", options=options(**said))

    def folder(name):
        return create_run(tmp_path / name, model.name, {}, scenario={}, seed=1, level="full", extra_tables=tables)

    tables = tables_of(model)
    whole, halves = folder("whole"), folder("halves")
    expected = simulate(model, trace=FileTraces(str(whole.path), "full", tables))

    def stop(now_ns, events, under_way):
        if now_ns >= 120 * MS:
            raise Stopped

    with pytest.raises(Stopped):
        simulate(model, actors=2, trace=FileTraces(str(halves.path), "full", tables), progress=stop,
                checkpoint_every_s=0.0, max_window_ns=MS)  # fmt: skip
    resumed = simulate(model, **on, trace=FileTraces(str(halves.path), "full", tables), resume=True)
    assert resumed.digest == expected.digest
    one, other = whole.finish(expected.digest), halves.finish(resumed.digest)
    assert [t for t in one.model_tables() if not same_rows(one.read(t), other.read(t))] == []


# ---- the audit of the kit is no rubber stamp ---------------------------------------------------------


def tables_of_run(model):
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces)
    return {name: dict(columns) for name, columns in traces.tables().items()}


@pytest.mark.parametrize(
    ("column", "change", "wrong"),
    [
        ("objects", lambda n: n + 1, ("unwanted",)),
        ("marks", lambda n: n + 1, ("unwanted",)),
        ("round", lambda n: n + 10_000, ("missed", "unwanted")),
        ("query", lambda n: n + 1_000, ("missed", "unwanted")),
    ],
)
def test_a_wrong_answer_is_named(column, change, wrong):
    model = rehearse(TIES, "channels")
    tables = tables_of_run(model)
    kind, guarantees = Channels(model.services[0].params), service_guarantees()
    assert audit(tables, kind, guarantees).broken == []
    values = tables["received"][column].copy()
    values[len(values) // 2] = change(values[len(values) // 2])
    tables["received"][column] = values
    found = audit(tables, kind, guarantees)
    assert tuple(name for name in ("missed", "unwanted", "duplicated") if getattr(found, name).count) == wrong


def service_guarantees():
    from protocols.channels.channels import Channels as Protocol

    return Protocol.guarantees


# ---- what goes over which link -----------------------------------------------------------------------

LINE = [(0, 1), (1, 2), (1, 3)]
HOT = {"objects": 400, "side": 100.0, "hot_spots": 0}


def model_of(queries, ends=(), clients=(0, 2, 2, 3), duration_ms=2000, params=None, **said):
    """Queries (ms, client, number, period ms, box) to a server at broker 0; ends (ms, client, number)."""
    overlay = with_servers(overlay_of(LINE), [Server("atlas", 0, MS)])
    base = overlay.nodes
    begun = [(at * MS, c, ((base + c) << 32) | n, [period * MS, *box]) for at, c, n, period, box in sorted(queries)]
    over = [(at * MS, c, ((base + c) << 32) | n) for at, c, n in sorted(ends)]
    emissions = [{"type": SUBSCRIBE, **columns(begun)}]
    if over:
        emissions.append({"type": UNSUBSCRIBE, **columns(over)})
    spec = service_of(
        "channels", params={**Params().model_dump(), **HOT, **(params or {})}, options=options(**said), server=base - 1
    )
    source = SourceSpec("protocols.conformance:Script", {"emissions": emissions}, "all")
    spec = replace(spec, sources=[source])
    return Model("maps", 1, duration_ms * MS, overlay, np.array(clients, np.int32), {"all": (0, len(clients))}, [spec])


def columns(messages):
    names = ("time", "client", "word", "rows")
    return {name: [m[i] for m in messages] for i, name in enumerate(names) if i < len(messages[0])}


BOX, NEAR, FAR = [10, 40, 10, 40], [12, 42, 10, 40], [60, 90, 60, 90]


def over(tables, model, a, b, type_=ANSWER):
    """Messages of a type that went from broker a to broker b."""
    links = zip(model.overlay.link_a.tolist(), model.overlay.link_b.tolist())
    number = {**{(x, y): 2 * e for e, (x, y) in enumerate(links)}}
    hops = tables["hops"]
    return int(((hops["link"] == number[a, b]) & (hops["type"] == type_)).sum())


@pytest.mark.parametrize(
    ("said", "sent", "over_links"),
    [
        # Two clients at broker 2 ask for the same, one at 3 for nearly that; one at 0 for something else. Ten rounds.
        ({"mode": "unicast"}, 40, (30, 20, 10)),
        ({"mode": "identical"}, 30, (20, 10, 10)),
        ({"mode": "merged"}, 20, (10, 10, 10)),
        ({"mode": "channels", "channels": 1}, 20, (20, 20, 20)),
    ],
)
def test_answers_go_only_where_somebody_listens(said, sent, over_links):
    asked = [(5, 0, 0, 100, FAR), (5, 1, 0, 100, BOX), (5, 2, 0, 100, BOX), (5, 3, 0, 100, NEAR)]
    model = model_of(asked, duration_ms=1001, costs={"message": 10, "share": 0}, **said)
    tables = tables_of_run(model)
    assert len(tables["answers"]["round"]) == sent
    assert tuple(over(tables, model, *link) for link in ((0, 1), (1, 2), (1, 3))) == over_links
    assert len(tables["received"]["round"]) == 40


def test_objects_with_tags_are_found_as_by_the_query_and_the_header_is_shorter():
    asked = [(5, 0, 0, 100, FAR), (5, 1, 0, 100, BOX), (5, 2, 0, 100, BOX), (5, 3, 0, 100, NEAR), (5, 3, 1, 100, FAR)]
    by_query, by_tags = (
        tables_of_run(model_of(asked, duration_ms=501, costs={"message": 1e6}, extractor=extractor))
        for extractor in ("query", "tags")
    )
    for name in ("received", "heard"):
        one, other = by_query[name], by_tags[name]
        assert all(np.array_equal(one[column], other[column]) for column in one)
    # All are merged into one: of five lines the boxes, four numbers each, are gone; four bytes per object and tag came.
    objects, tags = int(by_tags["answers"]["objects"][0]), int(by_tags["received"]["objects"][:5].sum())
    shorter = by_query["answers"]["size_bytes"][0] - by_tags["answers"]["size_bytes"][0]
    assert shorter == 5 * 4 * 8 - 4 * objects - 4 * tags


def test_tags_cross_the_wire():
    random = np.random.default_rng(1)
    database = Database(random.uniform(0, 50, (200, 2)))
    low = random.uniform(0, 30, (6, 2))
    queries = Queries.of(low, low + 15, clients=[7, 7, 8, 8, 9, 9], ids=[30, 21, 12, 53, 44, 5])
    found = planner.plan(BoxProblem(queries, Costs(1000, 1, 0.1)))
    (sent,) = answer(found, database, tagged=True)
    came = received(body_of(sent, 100, 3, dict.fromkeys(queries.ids.tolist(), 1)))
    assert (came.period_ns, came.round) == (100, 3)
    for row, id_ in enumerate(queries.ids.tolist()):
        inside = database.inside(queries.low[row : row + 1], queries.high[row : row + 1])
        assert extract(came.answer, id_).tolist() == np.sort(database.ids[inside]).tolist()
    assert [came.answer.irrelevant_to(client) for client in (7, 8, 9)] == [sent.irrelevant_to(c) for c in (7, 8, 9)]
    nothing = answer(planner.plan(BoxProblem(Queries.of([[60, 60]], [[61, 61]]), Costs(1, 1, 1))), database, True)[0]
    assert len(received(body_of(nothing, 100, 3, {0: 1})).answer.objects) == 0


def test_what_is_printed_of_a_run_leaves_out_publications_where_only_a_server_sends():
    model = model_of([(5, 1, 0, 100, BOX)], duration_ms=301)
    metrics = simulate(model).metrics["services"][model.services[0].name]
    assert service_line(metrics).startswith("3 deliveries, latency")
    assert service_line({**metrics, "publications": 2}).startswith("2 publications, 3 deliveries, latency")
    assert service_line({**metrics, "deliveries": 0}).startswith("0 publications, 0 deliveries")


def test_a_channel_that_costs_more_is_used_less():
    asked = [(5, c, 0, 100, box) for c, box in enumerate((BOX, BOX, NEAR, FAR))]
    said = {"mode": "channels", "channels": 2, "allocator": "channel-merging", "costs": {"message": 1, "share": 3}}

    def cost(weights):
        plans = tables_of_run(model_of(asked, duration_ms=301, replan_every_ms=50, weights=weights, **said))["plans"]
        assert len(plans["plan"]) == 1
        return int(plans["channels"][0]), float(plans["cost"][0])

    assert cost(None) == cost([1, 1])
    (two, alike), (one, heavy) = cost(None), cost([1, 1000])
    assert (two, one) == (2, 1) and heavy > alike


def test_a_mended_allocation_leaves_the_others_where_they_are():
    asked = [(5, 0, 0, 100, BOX), (5, 1, 0, 100, BOX), (5, 2, 0, 100, FAR), (505, 3, 0, 100, FAR)]
    said = {"mode": "channels", "channels": 2, "replan": "mended", "allocator": "channel-merging"}
    model = model_of(asked, duration_ms=1001, replan_every_ms=50, costs={"message": 1, "share": 3}, **said)
    tables = tables_of_run(model)
    assert tables["plans"]["queries"].tolist() == [3, 4]
    heard = tables["heard"]
    by_round = {tuple(heard["irrelevant"][heard["client"] == client].tolist()) for client in set(heard["client"])}
    assert by_round == {(0,) * 10, (0,) * 5}  # nobody overhears what lies elsewhere, before or after
    received = tables["received"]
    assert [int((received["query"] >> 32 == c + model.overlay.nodes).sum()) for c in range(4)] == [10, 10, 10, 5]


def test_what_clients_receive_is_what_the_database_holds():
    model = model_of([(5, 1, 0, 100, BOX), (5, 3, 0, 250, NEAR)], duration_ms=1001)
    received = tables_of_run(model)["received"]
    kind = Channels(model.services[0].params)
    points = kind.database().points
    for period, box in ((100, BOX), (250, NEAR)):
        inside = ((points >= box[::2]) & (points <= box[1::2])).all(axis=1)
        ids = kind.database().ids[inside]
        mine = received["period_ns"] == period * MS
        assert set(received["objects"][mine]) == {len(ids)} and set(received["marks"][mine]) == {int(marks(ids).sum())}
        assert sorted(received["round"][mine]) == list(range(1, 1000 // period + 1))


def test_a_query_that_moves_and_ends_is_answered_as_it_stands():
    model = model_of([(5, 1, 0, 100, BOX), (450, 1, 0, 100, FAR)], ends=[(850, 1, 0)], duration_ms=1500)
    tables = tables_of_run(model)
    received, kind = tables["received"], Channels(model.services[0].params)
    at = np.argsort(received["round"])
    boxes = [kind.answer(kind.asked(np.array([100 * MS, *box]))) for box in (BOX, FAR)]
    assert received["round"][at].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert received["objects"][at].tolist() == [len(boxes[0])] * 4 + [len(boxes[1])] * 4
    assert tables["changes"]["settled_ns"].min() > 0


def test_brokers_are_told_only_what_has_changed_below_them():
    asked = [(5, 1, 0, 100, BOX), (505, 3, 0, 100, FAR)]
    model = model_of(asked, mode="unicast")
    tables = tables_of_run(model)
    assert [over(tables, model, *link, type_=LISTEN) for link in ((0, 1), (1, 2), (1, 3))] == [2, 1, 1]


def test_planning_takes_the_time_its_cost_model_says_and_changes_meanwhile_wait_for_the_next():
    asked = [(5, c, 0, 100, BOX) for c in (0, 1, 3)] + [(20, 2, 0, 100, BOX)]
    model = model_of(asked, planning_base_us=30_000, planning_per_pair_ns=1_000_000)
    tables = tables_of_run(model)
    plans, changes = tables["plans"], tables["changes"]
    assert plans["queries"].tolist() == [1, 4]  # the first that came, and those that came while it was planned
    took = plans["time_ns"] - plans["began_ns"]
    assert took.tolist() == [30 * MS, (30 + 6) * MS]
    in_force = dict(zip(changes["change"].tolist(), (changes["settled_ns"] >= plans["time_ns"][1]).tolist()))
    leader = int(plans["cause"][1])
    waited = [change for change in in_force if change not in plans["cause"]]
    assert in_force[leader] and sorted(tables["dependencies"]["change"].tolist()) == sorted(waited)
    assert set(tables["dependencies"]["depends_on"].tolist()) == {leader}


def test_changes_are_gathered_until_the_next_time_to_plan():
    asked = [(5 + 40 * i, i % 4, i, 200, BOX) for i in range(20)]
    plans = tables_of_run(model_of(asked, replan_every_ms=250))["plans"]
    assert set((plans["began_ns"] % (250 * MS)).tolist()) == {0}
    assert len(plans["plan"]) < 6


def test_an_ended_period_has_no_more_rounds():
    model = model_of([(5, 1, 0, 100, BOX)], ends=[(350, 1, 0)])
    tables = tables_of_run(model)
    assert tables["answers"]["time_ns"].max() < 500 * MS
    assert tables["plans"]["queries"].tolist() == [1, 0]


# ---- the cost model and the network ------------------------------------------------------------------


@pytest.mark.parametrize("queries", [150, pytest.param(1000, marks=pytest.mark.full)])
@pytest.mark.parametrize("mode", ["unicast", "identical", "merged", "channels"])
def test_the_network_sends_what_the_cost_model_says(queries, mode):
    from analysis.papers.merging_network import Setting, measure

    found = measure(Setting(queries=queries, brokers=100, mode=mode))
    assert found.merged == found.merged_model
    assert found.sent == pytest.approx(found.sent_model, rel=0.1)
    assert found.irrelevant == pytest.approx(found.irrelevant_model, rel=0.1)


# ---- databases and bad input -------------------------------------------------------------------------


def test_objects_gather_at_hot_spots_and_are_the_same_for_the_same_parameters():
    said = Params(objects=2000, side=1000.0, hot_spots=2, spread=10.0, hot_share=0.9).model_dump()
    one, other = database_of(said), database_of({**said, "database_seed": 2})
    assert one is database_of(dict(said)) and not np.array_equal(one.points, other.points)
    from protocols.channels.database import hot_spots

    away = np.linalg.norm(one.points[:, None] - hot_spots(1, 2, 1000.0)[None], axis=2).min(axis=1)
    assert 0.8 < (away < 50).mean() < 1.0
    assert (one.points >= 0).all() and (one.points <= 1000).all()


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_file_of_objects_is_a_database(tmp_path, suffix):
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    table = pa.table({"name": ["a", "b", "c"], "lon": [1.0, 2.0, 50.0], "lat": [1, 2, 3]})
    path = tmp_path / f"shops{suffix}"
    (pa.csv.write_csv if suffix == ".csv" else pa.parquet.write_table)(table, path)
    kind = Channels({"file": str(path), "axes": ["lon", "lat"]})
    assert kind.answer(kind.asked(np.array([100 * MS, 0, 10, 0, 10]))).tolist() == [0, 1]
    with pytest.raises(InvalidInput, match=r"no column 'x'; it has name, lon, lat: set `axes`"):
        Channels({"file": str(path)}).database()
    with pytest.raises(InvalidInput, match="column 'name' is no column of numbers"):
        Channels({"file": str(path), "axes": ["name", "lat"]}).database()
    with pytest.raises(InvalidInput, match="cannot read the database"):
        Channels({"file": str(tmp_path / "none.csv")}).database()


def test_a_scenario_names_its_file_from_where_it_lies(tmp_path):
    places = "".join(f"{i % 10},{i // 10}\n" for i in range(100))
    (tmp_path / "shops.csv").write_text(f"x,y\n{places}", encoding="utf-8")
    service = {
        "name": "maps", "kind": "channels", "protocol": "channels", "file": "shops.csv", "subscriptions": "settled",
        "workload": [{"source": "map-queries", "width": [2, 4], "clusters": 2, "spread": 3, "period": ["200 ms"]}],
    }  # fmt: skip
    data = {
        "duration": "1 s", "topology": {"kind": "line", "nodes": 4}, "servers": {"atlas": {"broker": 3}},
        "clients": {"all": {"count": 6}}, "services": [service],
    }  # fmt: skip
    tables = tables_of_run(resolve(from_data(data, tmp_path)))
    assert len(tables["objects"]["object"]) == 100
    assert len(tables["received"]["query"]) == 6 * 4
    service["file"] = "none.csv"
    with pytest.raises(ScenarioErrors, match=r"cannot read none\.csv"):
        resolve(from_data(data, tmp_path))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ([100 * MS, 5, 1, 0, 1], "low above high"),
        ([100 * MS, 1, 1, 0, 1], "is empty"),
        ([100 * MS, float("nan"), 1, 0, 1], "not finite"),
        ([100 * MS, 0, 1], "has 3 numbers"),
        ([100, 0, 1, 0, 1], "a period of 100 ns"),
        ([1.5 * MS + 0.5, 0, 1, 0, 1], "whole nanoseconds"),
    ],
)
def test_a_bad_query_is_named(row, said):
    with pytest.raises(BadQuery, match=rf"query 7#3.*{said}"):
        Channels({}).asked(np.array(row), (7 << 32) | 3)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"replan": "mended", "mode": "unicast"}, "are mended"),
        ({"replan": "mended", "mode": "channels", "procedure": "exact"}, "are mended"),
        ({"weights": [1.0, 2.0]}, "in mode `merged` there are none"),
        ({"mode": "channels", "weights": [1.0, 2.0]}, "2 weights for 10 channels"),
        ({"mode": "channels", "channels": 1, "weights": [0.0]}, "greater than 0"),
        ({"mode": "channels", "channels": 1, "weights": [float("nan")]}, "greater than 0|finite"),
        ({"extractor": "magic"}, "'query' or 'tags'"),
        ({"algorithm": "magic"}, "no algorithm 'magic'"),
        ({"channels": 0}, "greater than or equal to 1"),
        ({"costs": {"message": 0, "transmit": 0, "irrelevant": 0, "share": 0}}, "all constants are 0"),
        ({"costs": {"message": -1}}, "greater than or equal to 0"),
        ({"costs": {"message": float("inf")}}, "finite"),
    ],
)
def test_options_that_do_not_fit_are_refused(said, why):
    with pytest.raises(ValueError, match=why):
        Options(**said)
