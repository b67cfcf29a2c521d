"""What a workload draws, written to a file and replayed, is the same run: for every kind, to the digest.

The oracle is the shipped scenario. Its sources' emissions are written in the columns of their kind, one file per
source, and each source is replaced by `replay` of its file.
"""

from __future__ import annotations

import numpy as np
import pyarrow as arrow
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest

from brokers.contract import NEVER, SourceContext
from brokers.engine.simulate import simulate
from brokers.registry import load as load_target
from protocols.context.kind import ATOM
from protocols.topics.kind import Topics
from scenarios.loader import from_data, load
from scenarios.plan import resolve

NUMBER = (1 << 24) - 1


def digest_of(scenario, **how):
    return simulate(resolve(scenario), **{"engine": "inline", "actors": 1, **how}).digest


def emitted(model, service, number):
    """What one source of a model emits, in the order of its events: (time, client, type, word, row)."""
    spec = model.services[service]
    first, count = model.groups[spec.sources[number].group]
    kind = spec.kind_class(spec.params)
    context = SourceContext(
        model.seed, service, number, np.arange(first, first + count), model.overlay.nodes, count, model.duration_ns,
        spec.settled, spec.params, model.client_broker, kind,
    )  # fmt: skip
    source = load_target(spec.sources[number].target)(spec.sources[number].params, context)
    events = []
    while source.next_wake() < NEVER:
        for each in source.take():
            rows = [None] * each.time.size if each.rows is None else each.rows
            types = [each.type] * each.time.size
            events += zip(each.time.tolist(), (each.client - first).tolist(), types, each.word.tolist(), rows)
    return sorted((e for e in events if e[0] < model.duration_ns), key=lambda event: event[0])


# ---- rows as cells -----------------------------------------------------------------------------------


def values(row):
    return {f"a{a}": v for a, v in enumerate(row) if v == v}


def content(op, row):
    if op == "publish":
        return values(row)
    names = ("low", "high")
    return {f"{name}_{int(a)}": v for a, *ends in row.reshape(-1, 3) if a == a for name, v in zip(names, ends)}


def topk(op, row):
    if op != "publish":
        names = ("low", "high", "weight")
        return {f"{name}_{int(a)}": v for a, *rest in row.reshape(-1, 4) if a == a for name, v in zip(names, rest)}
    blocks = zip(("a", "to_", "weight_"), np.split(row, row.size // 8))
    return {f"{name}{a}": v for name, block in blocks for a, v in enumerate(block) if v == v}


def context(op, row):
    if op == "publish":
        return values(row)
    if op == "update":
        return {"context": int(row[0]), "attribute": int(row[1]), "value": row[2]}
    cells = {}
    for _, a, _, near, _, at, within in row.reshape(-1, ATOM):
        if a == a:
            cells |= {f"near_{int(a)}": near} if near == near else {f"at_{int(a)}": at}
            cells[f"within_{int(a)}"] = within
    return cells


def channels(op, row):
    ends = zip(("low_x", "high_x", "low_y", "high_y"), row[1:])
    return {"period_ns": int(row[0]), **dict(ends)}


def spatial(op, row):
    start = 4 if op == "publish" else 2
    more = {"k": int(row[2]), "bytes": int(row[3])} if op == "publish" else {}
    return {"x": row[0], "y": row[1], **more, "keywords": row[start:].tolist()}


def topics(op, row):
    return {"topic" if op == "publish" else "filter": Topics({}).spelled(TOPICS[op], row.tolist())[0]}


TOPICS = Topics.types
CELLS = {
    "content": content, "topk": topk, "context": context, "channels": channels, "spatial": spatial, "topics": topics,
}  # fmt: skip


def table_of(events, kind_name, kind):
    names = {number: name for name, number in kind.types.items()}
    rows = []
    for time, client, type_, word, row in events:
        op = names[type_]
        cells = {"time_ns": time, "client": client, "op": op}
        if op not in ("publish", "update") or kind_name == "spatial":
            cells["object" if op in ("publish", "expire") else "subscription"] = word & NUMBER
        rows.append(cells | ({} if row is None else CELLS[kind_name](op, np.asarray(row))))
    columns = dict.fromkeys(key for row in rows for key in row)
    return arrow.table({name: [row.get(name) for row in rows] for name in columns})


def with_replays(scenario, folder, suffix):
    """The scenario with each source replaced by a replay of what it emits."""
    model, data = resolve(scenario), scenario.resolved()
    for i, service in enumerate(data["services"]):
        kind = model.services[i].kind_class
        for j, source in enumerate(service["workload"]):
            table = table_of(emitted(model, i, j), service["kind"], kind)
            file = folder / f"{i}-{j}{suffix}"
            if suffix == ".parquet":
                parquet.write_table(table, file, row_group_size=100)
            else:
                arrow_csv.write_csv(as_text(table), file)
            service["workload"][j] = {"source": "replay", "clients": source["clients"], "file": str(file)}
    return from_data(data, folder)


def as_text(table):
    """Keywords with blanks between, as CSV has no lists."""
    if "keywords" not in table.column_names:
        return table
    cells = table["keywords"].to_pylist()
    joined = [cell and " ".join("nan" if word != word else str(int(word)) for word in cell) for cell in cells]
    return table.set_column(table.column_names.index("keywords"), "keywords", arrow.array(joined))


def plain(events):
    """Events that compare: NaN is as nothing, behind a row and in it."""
    rows = ((), *(() if row is None else enumerate(np.asarray(row).tolist()) for *_, row in events))
    return [
        (time, client, type_, word, tuple((i, v) for i, v in row if v == v))
        for (time, client, type_, word, _), row in zip(events, rows[1:])
    ]


SHIPPED = {
    "content": ("news", "3 s"),
    "topk": ("best-matches", "2 s"),
    "context": ("near-me", "2 s"),
    "channels": ("maps", "2 s"),
    "spatial": ("nearest", "3 s"),
    "topics": ("sites", "3 s"),
}
CHANGED = {
    "topk": ["services.ingress.workload.rank-publish.weights=[0, 1]"],
    "channels": ["clients.people.count=20"],  # planning for many takes long
}


def shipped(kind):
    name, duration = SHIPPED[kind]
    return load(name, [f"duration={duration}", *CHANGED.get(kind, [])])


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("kind", SHIPPED)
def test_a_replay_emits_what_the_workload_did_whose_events_are_in_its_file(kind, suffix, tmp_path):
    scenario = shipped(kind)
    replayed = with_replays(scenario, tmp_path, suffix)
    assert {source.name for service in replayed.services for source in service.sources} == {"replay"}
    before, after = resolve(scenario), resolve(replayed)
    for i, service in enumerate(before.services):
        for j in range(len(service.sources)):
            expected = plain(emitted(before, i, j))
            found = plain(emitted(after, i, j))
            assert expected and len(expected) == len(found)
            for client in {event[1] for event in expected}:  # clients are not merged by a source
                assert [e for e in found if e[1] == client] == [e for e in expected if e[1] == client]


@pytest.mark.parametrize("kind", SHIPPED)
def test_a_replay_of_what_a_workload_emits_has_the_digest_of_the_workload(kind, tmp_path):
    scenario = one_service(shipped(kind))
    replayed = with_replays(scenario, tmp_path, ".parquet")
    assert digest_of(replayed) == digest_of(scenario)


@pytest.mark.full
@pytest.mark.parametrize("actors", [1, 3])
@pytest.mark.parametrize("kind", SHIPPED)
def test_replays_of_a_whole_shipped_scenario_have_its_digest_on_several_shards(kind, actors, tmp_path):
    scenario = load(SHIPPED[kind][0])
    replayed = with_replays(scenario, tmp_path, ".csv")
    assert digest_of(replayed, actors=actors) == digest_of(scenario)


def one_service(scenario):
    data = scenario.resolved()
    data["services"], data["expect"] = data["services"][:1], []
    return from_data(data, scenario.folder)
