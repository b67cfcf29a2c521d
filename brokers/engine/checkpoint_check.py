"""What a checkpoint may say. Anybody may have written it, and kernels index by its numbers without looking.

`check_facts` is for what the driver keeps, `check_states` for the states of all shards. What a protocol keeps is
its own: `load` checks that (`brokers.columns`). Everything else that may be wrong is named here, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from brokers.columns import BadState, Column, check_columns
from brokers.contract import NEVER
from brokers.engine import layout as L
from brokers.engine.crowding import check_crowding
from brokers.engine.latency import BUCKETS
from brokers.engine.model import Model
from brokers.engine.reminders import check_reminders
from topology.numbers import Numbers

_TYPES = 1 << 15  # a message's type is kept in 16 bits
_UIDS = 1 << 47  # of a shard

_SHARD = {
    "brokers": Column("i8", ("own brokers",), 0, "brokers"),
    "broker_state": Column("i8", ("own brokers", L.BROKER_STATE)),
    "links": Column("i8", ("own links",), 0, "links"),
    "link_state": Column("i8", ("own links", L.LINK_STATE), 0),
    "arisen": Column("i8", ("arisen",), 0, "described"),
    "arisen_state": Column("i8", ("arisen", L.LINK_STATE), 0),
    "lane": Column("i8", ("rows",), 0, "lanes"),
    "under_way": Column("i8", ("rows", L.ROW)),
    "under_way_uid": Column("i8", ("rows",)),
    "under_way_cause": Column("i8", ("rows",)),
    "clients": Column("i8", ("own clients",), 0, "clients"),
    "client_sequence": Column("i8", ("own clients",), 0, (1 << 32) - 1),
    "cause_key": Column("i8", ("causes",)),
    "cause_counts": Column("i8", ("causes", L.CAUSE), 0),
    "dependencies": Column("i8", (None, 2)),
    "leanings": Column("i8", (None, 3)),
    "publications": Column("i8", ("services",), 0),
    "refused": Column("i8", ("services",), 0),
    "histogram": Column("i8", ("services", BUCKETS), 0),
    "totals": Column("i8", ("services", L.TOTALS), 0),
    "seconds": Column("i8", ("seconds",)),
    "unfinished_broker": Column("i4", ("unfinished",), 0, "brokers"),
    "unfinished_finish": Column("i8", ("unfinished",), 0),
}
_SHARD_MORE = frozenset({"now", "bodies", "bodies_made", "changes", "protocols", "reminders", "crowding", "waiting"})
_WAITING = {
    "broker": Column("i8", ("waiting",), 0, "brokers"),
    "rows": Column("i8", ("waiting", L.INPUT)),
    "uid": Column("i8", ("waiting",)),
    "cause": Column("i8", ("waiting",)),
}
_GROUP = {
    "rows": Column("f8", ("bodies", None)),
    "uid": Column("i8", ("bodies",)),
    "time": Column("i8", ("bodies",), -1),
    "key": Column("i8", ("bodies",)),
    "broker": Column("i4", ("bodies",), -1, "brokers"),
}
_CHANGE = {
    "change": Column("i8", ("changes",)),
    "interest": Column("i8", ("changes",)),
    "broker": Column("i4", ("changes",), 0, "brokers"),
    "client": Column("i8", ("changes",)),
    "issued_ns": Column("i8", ("changes",), -1),
}
_CHANGE_MORE = frozenset({"service", "operation", "standing"})


def seconds_of(model: Model) -> int:
    """For how many simulated seconds digests are kept."""
    return int(min((model.duration_ns + model.drain_ns) // 1_000_000_000 + 2, 1_000_000))


def check_facts(facts: dict[str, Any], model: Model) -> None:
    """What the driver kept: when, and where the sequence of windows was."""
    end = model.duration_ns + model.drain_ns
    now = _int(facts, "now", 0, end)
    _int(facts, "shards", 1, model.overlay.nodes)
    _int(facts, "events", 0, min(model.messages_max, NEVER))
    _int(facts, "reached", 0, model.duration_ns)
    every = model.sample_every_ns
    sampled = _int(facts, "sample_at", every, now + every)
    if sampled % every or sampled <= min(now, model.duration_ns):
        raise BadState(f"'sample_at' is {sampled} at {now} ns; samples are taken every {every} ns")


def check_states(states: Sequence[dict[str, Any]], facts: dict[str, Any], model: Model) -> None:
    """The states of all shards, each by itself and all together."""
    interests: set[tuple[int, int]] = set()
    for number, state in enumerate(states):
        try:
            _check_shard(state, facts["now"], model)
            interests |= _interests(state, model)
        except BadState as error:
            raise BadState(f"shard {number}: {error}") from None
    overlay = model.overlay
    everything = (("brokers", overlay.nodes), ("links", 2 * overlay.link_a.size), ("clients", model.client_broker.size))
    for name, count in everything:
        found = np.sort(np.concatenate([state[name] for state in states]))
        if not np.array_equal(found, np.arange(count)):
            raise BadState(f"the shards together do not have each of {count} {name} once")
    leanings = np.unique(np.concatenate([state["leanings"] for state in states]), axis=0)
    for service, one, other in leanings.tolist():
        if (service, one) not in interests or (service, other) not in interests:
            raise BadState(f"'leanings' names interests {one} and {other} of service {service}, never issued")


def _check_shard(state: Any, now: int, model: Model) -> None:
    overlay, services = model.overlay, len(model.services)
    links, described = 2 * overlay.link_a.size, overlay.described is not None
    numbers = overlay.numbers
    sizes = {
        "brokers": overlay.nodes, "links": links, "lanes": links + overlay.nodes * (1 + described),
        "services": services, "described": numbers.end if described else 0,
        "clients": model.client_broker.size, "seconds": seconds_of(model),
    }  # fmt: skip
    check_columns(state, _SHARD, sizes, _SHARD_MORE)
    if _int(state, "now", 0, NEVER) != now:
        raise BadState(f"it is of {state['now']} ns, and the checkpoint of {now} ns")
    if _int(state, "bodies_made", 0, (1 << 63) - 1) & ((1 << 48) - 1) >= _UIDS:
        raise BadState("'bodies_made' leaves no numbers for more")
    service_of = _check_bodies(state["bodies"], services, overlay.nodes)
    _check_under_way(state, service_of, 0 if model.limits else now, services)
    _check_described(state, numbers)
    keys = state["cause_key"]
    if len(np.unique(keys)) < keys.size or (keys == -1).any():
        raise BadState("'cause_key' names a change twice, or none")
    _check_changes(state["changes"], services, overlay.nodes)
    check_reminders(state["reminders"], services, model.client_broker.size)
    check_crowding(state["crowding"], overlay.nodes, links)
    _check_waiting(state["waiting"], service_of, model)
    if type(state["protocols"]) is not list or len(state["protocols"]) != services:
        raise BadState(f"'protocols' is no list of {services}")
    if any(type(each) is not dict for each in state["protocols"]):
        raise BadState("what a protocol keeps is no dict")


def _check_bodies(bodies: Any, services: int, brokers: int) -> dict[int, int]:
    """The service of each body, by uid."""
    found: dict[int, int] = {}
    if type(bodies) is not dict or bodies.keys() != {"groups", "objects"}:
        raise BadState("'bodies' are not groups and objects")
    if type(bodies["groups"]) is not list or type(bodies["objects"]) is not list:
        raise BadState("'bodies' are no lists")
    count = 0
    for group in bodies["groups"]:
        check_columns(group, _GROUP, {"brokers": brokers}, frozenset({"service", "type"}))
        service, _ = _int(group, "service", 0, services - 1), _int(group, "type", 0, _TYPES - 1)
        found.update(dict.fromkeys(group["uid"].tolist(), service))
        count += group["uid"].size
    names = ("service", "type", "data", "time", "key", "broker", "uid")
    for each in bodies["objects"]:
        if type(each) is not list or len(each) != len(names):
            raise BadState(f"an object among the bodies is not {', '.join(names)}")
        said = dict(zip(names, each))
        if type(said["data"]) is not bytes:
            raise BadState("an object among the bodies has no bytes")
        _int(said, "type", 0, _TYPES - 1)
        _int(said, "time", -1, NEVER)
        _int(said, "key", -(1 << 63), (1 << 63) - 1)
        _int(said, "broker", -1, brokers - 1)
        found[_int(said, "uid", -(1 << 63), (1 << 63) - 1)] = _int(said, "service", 0, services - 1)
        count += 1
    if len(found) < count or -1 in found:
        raise BadState("'bodies' names one twice, or by -1")
    return found


def _check_under_way(state: dict[str, Any], service_of: dict[int, int], now: int, services: int) -> None:
    rows, lane, uid = state["under_way"], state["lane"], state["under_way_uid"]
    if not len(rows):
        return
    time, sequence, packed = rows[:, L.M_TIME], rows[:, L.M_SEQUENCE], rows[:, L.M_PACKED]
    if time.min() < now or time.max() > NEVER or sequence.min() < 0:
        raise BadState(f"'under_way' has a time or number out of range; times are {now} to {NEVER} ns")
    service = packed & 0xFF
    if service.max() >= services:
        raise BadState(f"'under_way' has a message of service {service.max()}; there are {services}")
    order = np.argsort(lane, kind="stable")
    if (np.diff(time[order])[np.diff(lane[order]) == 0] < 0).any():
        raise BadState("'under_way' has messages of one link out of order")
    for body, its in zip(uid.tolist(), service.tolist()):
        if body != -1 and service_of.get(body) != its:
            raise BadState(f"'under_way' has a message of service {its} with body {body}, which is none of its")


def _check_described(state: dict[str, Any], numbers: Numbers) -> None:
    """Links that are described lead from one node to another, and so does what is under way on them."""
    arisen = state["arisen"]
    if len(np.unique(arisen)) < arisen.size or (arisen < numbers.first).any():
        raise BadState("'arisen' has a link twice, or one that is listed")
    if (numbers.source(arisen) == numbers.target(arisen)).any():
        raise BadState("'arisen' has a link from a broker to itself")
    post = state["lane"] - numbers.first - numbers.nodes
    source = state["under_way"][post >= 0, L.M_SEQUENCE] >> L.POST_SOURCE
    if (source >= numbers.nodes).any() or (source == post[post >= 0]).any():
        raise BadState("'under_way' has a message over a link from nobody, or from a broker to itself")


def _check_waiting(waiting: Any, service_of: dict[int, int], model: Model) -> None:
    """What clients have sent, and brokers with a limited queue have not begun with."""
    sizes = {"brokers": model.overlay.nodes}
    check_columns(waiting, _WAITING, sizes)
    service, source = waiting["rows"][:, L.M_PACKED] & 0xFF, waiting["rows"][:, L.I_SOURCE]
    if len(service) and (service.max() >= len(model.services) or source.min() < L.FAULT_SOURCE):
        raise BadState("'waiting' has a message of a service or of somebody that there is not")
    if (np.diff(waiting["rows"][:, L.M_TIME])[np.diff(waiting["broker"]) == 0] < 0).any():
        raise BadState("'waiting' has messages out of order")
    for body, its in zip(waiting["uid"].tolist(), service.tolist()):
        if body != -1 and service_of.get(body) != its:
            raise BadState(f"'waiting' has a message of service {its} with body {body}, which is none of its")


def _check_changes(changes: Any, services: int, brokers: int) -> None:
    if type(changes) is not list:
        raise BadState("'changes' is no list")
    for part in changes:
        values = {"values": Column("f8", ("changes", None))} if type(part) is dict and "values" in part else {}
        check_columns(part, {**_CHANGE, **values}, {"brokers": brokers}, _CHANGE_MORE)
        _int(part, "service", 0, services - 1)
        _int(part, "operation", 0, 127)
        if type(part["standing"]) is not bool:
            raise BadState("'standing' is neither true nor false")


def _interests(state: dict[str, Any], model: Model) -> set[tuple[int, int]]:
    """(service, interest) of what was issued."""
    kinds = [service.kind_class for service in model.services]
    return {
        (part["service"], interest)
        for part in state["changes"]
        if part["operation"] in kinds[part["service"]].interests
        for interest in part["interest"].tolist()
    }


def _int(said: dict[str, Any], name: str, low: int, high: int) -> int:
    value = said.get(name)
    if type(value) is not int or not low <= value <= high:
        shown = f"{value!r:.40}" if type(value) in (int, float, str, bool) else f"a {type(value).__name__}"
        raise BadState(f"{name!r} is {shown}; it is a whole number from {low} to {high}")
    return value
