"""The forms of the kinds: what they make of a row of a file, and what they say of one that is none."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from brokers.contract import SourceContext
from brokers.errors import InvalidInput
from brokers.kinds import manifests
from brokers.registry import load
from protocols.channels.kind import Channels
from protocols.content.kind import Content
from protocols.context.kind import Context, value_word
from protocols.spatial.kind import Spatial
from protocols.topics.kind import Topics
from protocols.topk.kind import TopK
from scenarios.workloads.replay import Replay

SERVICES = {
    "content": Content(Content.Params(attributes=2, adverts=True).model_dump()),
    "topk": TopK({"attributes": 2}),
    "context": Context({"attributes": 2}),
    "channels": Channels({}),
    "spatial": Spatial({"keywords": 10}),
    "topics": Topics(Topics.Params(adverts=True).model_dump()),
}


class Bare(Content):
    """A kind of a third party, which says nothing of files."""

    manifest = replace(Content.manifest, replay="")


def rows(folder, kind, *events):
    """What a file with these events (columns by name) makes clients send: (type, word, row)."""
    names = list(dict.fromkeys(name for event in events for name in event))
    lines = [",".join(quoted(event.get(name, "")) for name in names) for event in events]
    path = folder / "events.csv"
    body = "".join(f"{i + 1},0,{line}\n" for i, line in enumerate(lines))
    path.write_text(f"time_ns,client,{','.join(names)}\n{body}")
    context = SourceContext(1, 0, 0, np.arange(2), 0, 2, 10**9, False, kind.params, None, kind)
    found = []
    for each in Replay({"file": str(path)}, context).take():
        bodies = [None] * each.time.size if each.rows is None else each.rows.tolist()
        found += zip(each.time.tolist(), [each.type] * each.time.size, each.word.tolist(), bodies)
    return [(type_, word, row and [v if v == v else None for v in row]) for _, type_, word, row in sorted(found)]


def quoted(cell):
    return '"' + str(cell).replace('"', '""') + '"' if cell != "" else ""


def test_every_kind_has_a_form_whose_ops_are_its_types():
    for manifest in manifests():
        kind = load(manifest.kind)
        form = load(manifest.replay)(SERVICES[manifest.name])
        assert {op.type for op in form.op_table().values()} == set(kind.types.values())
        assert {op for column in form.header for op in column.ops} <= set(form.op_table())


def test_advertisements_are_ranges_counted_together_with_subscriptions(tmp_path):
    found = rows(
        tmp_path, SERVICES["content"],
        {"op": "advertise", "low_0": 0, "high_0": 1, "advert": 5},
        {"op": "subscribe", "is_1": 2},
        {"op": "unadvertise", "advert": 5},
    )  # fmt: skip
    assert [each[0] for each in found] == [3, 1, 4] and found[0][1] == found[2][1]
    assert found[0][2] == [0, 0, 1]


def test_services_without_adverts_know_no_advertisements(tmp_path):
    with pytest.raises(InvalidInput, match="got 'advertise'"):
        rows(tmp_path, Content({"attributes": 2}), {"op": "advertise", "low_0": 0})


def test_points_intervals_and_senders_weights_of_topk(tmp_path):
    found = rows(
        tmp_path, SERVICES["topk"],
        {"op": "publish", "a0": 1, "a1": 2, "to_1": 3, "weight_0": 0.5},
        {"op": "subscribe", "low_1": 0, "weight_1": 2},
        {"op": "reweight", "low_1": 0, "weight_1": -3, "subscription": 0},
    )  # fmt: skip
    assert found == [
        (0, 0, [1, 2, None, 3, 0.5, None]),
        (1, 0, [1, 0, np.inf, 2]),
        (3, 0, [1, 0, np.inf, -3]),
    ]


def test_values_of_contexts_and_profiles_by_conditions_or_as_data(tmp_path):
    profile = [[[["message", "0"], "~", ["context", 3, "0"], 0.5]], [[["context", 3, "1"], "<", ["message", "1"]]]]
    found = rows(
        tmp_path, SERVICES["context"],
        {"op": "update", "context": 3, "attribute": 1, "value": 0.25},
        {"op": "update", "context": 3, "attribute": 1},
        {"op": "subscribe", "near_0": 3, "within_0": 0.5, "low_1": 0.75},
        {"op": "subscribe", "profile": json.dumps(profile)},
    )  # fmt: skip
    near = [0, 0, 6, 3, 0, None, 0.5]
    assert found == [
        (1, value_word(3, 1), [3, 1, 0.25]),
        (1, value_word(3, 1), [3, 1, None]),
        (2, 0, [*near, 0, 1, 4, None, None, 0.75, None]),
        (2, 1, [*near, 1, 1, 5, 3, 1, None, None]),
    ]


def test_queries_that_come_move_and_go(tmp_path):
    box = {"low_x": 1, "high_x": 2, "low_y": 3, "high_y": 4}
    found = rows(
        tmp_path, SERVICES["channels"],
        {"op": "subscribe", **box, "period_s": 1.5},
        {"op": "move", **box, "high_x": 9, "period_ns": 2_000_000, "subscription": 0},
        {"op": "unsubscribe", "subscription": 0},
    )  # fmt: skip
    assert found == [(1, 0, [1_500_000_000, 1, 2, 3, 4]), (1, 0, [2_000_000, 1, 9, 3, 4]), (2, 0, None)]


def test_objects_that_come_and_expire_share_numbers_with_subscriptions(tmp_path):
    found = rows(
        tmp_path, SERVICES["spatial"],
        {"op": "subscribe", "x": 1, "y": 2, "keywords": "3 1"},
        {"op": "publish", "x": 1, "y": 2, "keywords": "[7, 3]", "bytes": 100},
        {"op": "publish", "x": 1, "y": 2, "keywords": 5, "k": 2},
        {"op": "expire", "object": 1},
    )  # fmt: skip
    assert found == [
        (1, 0, [1, 2, 3, 1]),
        (0, 1, [1, 2, 10, 100, 7, 3]),
        (0, 2, [1, 2, 2, 0, 5, None]),
        (3, 1, None),
    ]


def test_a_kind_without_a_form_has_its_bodies_as_they_are(tmp_path):
    found = rows(
        tmp_path, Bare({"attributes": 2}),
        {"op": "publish", "body": "0.5 nan"},
        {"op": "subscribe", "body": "[0, 1, 2]", "word": 77},
    )  # fmt: skip
    assert found == [(0, 0, [0.5, None]), (1, 77, [0, 1, 2])]


def test_a_body_that_a_kind_without_a_form_cannot_read_is_told(tmp_path):
    with pytest.raises(InvalidInput, match=r"events.csv:2: the kind cannot read this body: ValueError"):
        rows(tmp_path, Bare({"attributes": 2}), {"op": "subscribe", "body": "1 2"})


BOX = {"op": "subscribe", "low_x": 0, "high_x": 1, "low_y": 0, "high_y": 1, "period_s": 1}


@pytest.mark.parametrize(
    ("kind", "event", "message"),
    [
        ("content", {"op": "subscribe", "low_0": 1, "is_0": 2}, "attribute 0 is constrained in several ways"),
        ("topk", {"op": "subscribe", "low_0": 1}, "a filter has a weight for each attribute that it constrains"),
        ("topk", {"op": "subscribe", "low_0": 1, "weight_0": 1e301}, r"a weight lies in ±1e\+300"),
        ("topk", {"op": "publish", "a0": 2, "to_0": 1}, "a0 2 is above to_0 1"),
        ("topk", {"op": "publish", "to_0": 1}, "an attribute without a value has no upper end"),
        ("topk", {"op": "reweight", "low_0": 1, "weight_0": 1, "subscription": 3}, "3 of client 0 was never begun"),
        ("context", {"op": "update", "context": 0.5, "attribute": 0}, "context must be a whole number"),
        ("context", {"op": "update", "context": 1, "attribute": 2}, "contexts have attributes 0 to 1"),
        ("context", {"op": "update", "context": 1, "attribute": 1, "value": "inf"}, "a value must be finite"),
        ("context", {"op": "subscribe", "near_0": 1}, "go with within_<i>"),
        ("context", {"op": "subscribe", "near_0": -1, "within_0": 1}, "near_<i> names a context"),
        ("context", {"op": "subscribe", "profile": "[["}, "profile is none"),
        ("context", {"op": "subscribe", "profile": '[[["a", "<", 1]]]'}, "profile is none: conjunct 0, atom 0"),
        ("context", {"op": "subscribe", "profile": "[" * 100_000}, "profile is none"),
        ("context", {"op": "subscribe"}, "a profile needs at least one condition"),
        ("channels", {**BOX, "high_y": -1}, "low_y is above high_y"),
        ("channels", {**BOX, "low_x": ""}, "a box has finite ends low_x and high_x"),
        ("channels", {**BOX, "period_s": 1e-9}, "at least 1 ms"),
        ("channels", {**BOX, "period_s": ""}, "a query has one of period_s and period_ns"),
        ("channels", {**BOX, "op": "move", "subscription": 1}, "subscription 1 of client 0 was never begun"),
        ("spatial", {"op": "publish", "x": 1, "y": 2}, "it has no keywords"),
        ("spatial", {"op": "publish", "x": "", "y": 2, "keywords": 1}, "x, the "),
        ("spatial", {"op": "publish", "x": 1, "y": 2, "keywords": "10"}, "keywords are whole numbers in 0..9"),
        ("spatial", {"op": "publish", "x": 1, "y": 2, "keywords": "tea"}, "keywords must be numbers .*; if it is text"),
        ("spatial", {"op": "publish", "x": 1, "y": 2, "keywords": 1, "k": 11}, "k lies in 1..10"),
        ("spatial", {"op": "publish", "x": 1, "y": 2, "keywords": 1, "bytes": -1}, "bytes lies in 0.."),
        ("spatial", {"op": "expire", "object": 0}, "object 0 of client 0 was never begun"),
    ],
)  # fmt: skip
def test_a_row_that_is_none_is_told_by_its_line(kind, event, message, tmp_path):
    with pytest.raises(InvalidInput, match=rf"events.csv:2: .*{message}"):
        rows(tmp_path, SERVICES[kind], event)


def test_two_clients_do_not_update_one_context(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text("time_ns,client,op,context,attribute,value\n1,0,update,5,0,1\n2,1,update,5,1,1\n")
    kind = SERVICES["context"]
    context = SourceContext(1, 0, 0, np.arange(2), 0, 2, 10**9, False, kind.params, None, kind)
    with pytest.raises(InvalidInput, match=r"events.csv:3: context 5 is updated by client 0 already"):
        Replay({"file": str(path)}, context)


def test_an_object_and_a_subscription_do_not_share_a_number(tmp_path):
    place = {"x": 1, "y": 2, "keywords": 1}
    with pytest.raises(InvalidInput, match=r"events.csv:3: client 0 has used the object number 4 before"):
        rows(
            tmp_path, SERVICES["spatial"],
            {"op": "subscribe", **place, "subscription": 4}, {"op": "publish", **place, "object": 4},
        )  # fmt: skip
