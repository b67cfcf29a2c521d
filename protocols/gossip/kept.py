"""What all brokers of `gossipsub` in a shard keep in a checkpoint: by ids of brokers, links, clients and publications.

Topics and publications are listed once in each state, and named by their place in that list. What brokers have seen,
and what they have in their caches, stands in the order of each broker's chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit

from brokers.columns import BadState, Column, check_columns
from brokers.contract import Ints
from protocols.gossip import kernels as K
from protocols.gossip.scores import IGNORED

if TYPE_CHECKING:
    from protocols.gossip.shard import GossipShard

_PUBLICATION = Column("i8", ("n",), low=0, high="publications")
_LINK, _BROKER = Column("i8", ("n",), low=0, high="links"), Column("i8", ("n",), low=0, high="brokers")
_TOPIC, _COUNT, _TIME = Column("i8", ("n",), low=0, high="topics"), Column("i8", ("n",), low=0), Column("i8", ("n",))
_TABLES = {
    "brokers": {
        "broker": _BROKER, "ticks": _COUNT, "shifts": _COUNT, "decayed": _TIME,
        "drawn": Column("i8", ("n", len(K.PURPOSES)), low=0), "windows": Column("i8", ("n", "history"), low=0),
    },
    "links": {
        "link": _LINK, "had": _COUNT, "asked": _COUNT, "refused": _COUNT, "behaviour": Column("f8", ("n",), low=0),
    },
    "topics": {"levels": _COUNT},
    "names": {"level": _TIME},
    "seats": {"broker": _BROKER, "topic": _TOPIC, "flags": _COUNT, "published": _TIME},
    "cells": {
        "link": _LINK, "topic": _TOPIC, "flags": _COUNT, "until": _TIME, "grafted": _TIME,
        "did": Column("f8", ("n", K.DID), low=0),
    },
    "interests": {"id": _COUNT, "client": Column("i8", ("n",), low=0, high="clients"), "topic": _TOPIC},
    "publications": {
        "id": _COUNT, "topic": Column("i8", ("n",), low=-1, high="topics"),
        "verdict": Column("i8", ("n",), low=0, high=IGNORED), "until": _TIME, "body": _TIME,
        "cached": Column("i8", ("n",), low=0, high=1),
    },
    "seen": {"broker": _BROKER, "publication": _PUBLICATION, "came": _TIME, "validated": _TIME, "meta": _COUNT},
    "cached": {"broker": _BROKER, "publication": _PUBLICATION, "came": _TIME},
    "brought": {"link": _LINK, "publication": _PUBLICATION},
    "promises": {"link": _LINK, "publication": _PUBLICATION, "until": _TIME},
    "refusals": {"link": _LINK, "publication": _PUBLICATION, "tick": _COUNT},
    "asking": {"link": _LINK, "publication": _PUBLICATION, "came": _TIME, "count": _COUNT},
}  # fmt: skip


# ---- kept --------------------------------------------------------------------------------------------


def state(shard: GossipShard) -> dict[str, Any]:
    """For `ShardProtocol.state`."""
    a, env, links = shard.arrays, shard.env, shard.env.links
    here, uid = shard.locals, env.bodies.uid
    mine = links.out_link[np.flatnonzero(env.local[links.source[links.out_link]])].astype(np.int64)
    slots = np.flatnonzero(a["slot_id"] >= 0)
    place = np.full(a["slot_id"].size, -1, np.int64)  # of a slot in the list
    place[slots] = np.arange(slots.size)
    cached = a["slot_cached"][slots] > 0
    levels = sorted(shard.topics, key=shard.topics.__getitem__)
    return {
        "brokers": {
            "broker": here, "drawn": np.ascontiguousarray(a["drawn"][:, here].T), "windows": a["window_count"][here],
            **{name: a[name][here] for name in ("ticks", "shifts", "decayed")},
        },
        "links": {"link": mine, **{name: a[name][mine] for name in ("had", "asked", "refused", "behaviour")}},
        "topics": {"levels": np.array([len(each) for each in levels], np.int64)},
        "names": {"level": np.array([level for each in levels for level in each], np.int64)},
        **_seats(shard),
        "interests": _interests(shard),
        "publications": {
            "id": a["slot_id"][slots], "topic": a["slot_topic"][slots].astype(np.int64),
            "verdict": a["slot_verdict"][slots].astype(np.int64), "until": a["slot_until"][slots],
            "body": uid[np.where(cached, a["slot_body"][slots], 0)], "cached": cached.astype(np.int64),
        },
        **_remembered(shard, place),
        "promises": _promises(shard, place),
        "refusals": _pairs(a["refusal"], shard.still_refused(a["refusal"]), place, ("tick",)),
        "asking": _pairs(a["asking"], shard.still_asking(a["asking"]), place, ("came", "count")),
    }  # fmt: skip


def _seats(shard: GossipShard) -> dict[str, Any]:
    a, links, count = shard.arrays, shard.env.links, int(shard.arrays["counts"][K.SEATS])
    broker, topic = a["seat_broker"][:count].astype(np.int64), a["seat_topic"][:count].astype(np.int64)
    degree = shard.degree[broker]
    of_seat = np.repeat(np.arange(count), degree)
    at = np.arange(of_seat.size) - np.repeat(np.cumsum(degree) - degree, degree)  # place among the broker's links
    cell = a["seat_cell"][of_seat] + at
    did = a["did"][cell] if shard.scoring else np.zeros((cell.size, K.DID))
    return {
        "seats": {
            "broker": broker, "topic": topic, "flags": a["seat_flags"][:count].astype(np.int64),
            "published": a["seat_published"][:count],
        },
        "cells": {
            "link": links.out_link[links.out_start[broker[of_seat]] + at].astype(np.int64), "topic": topic[of_seat],
            "flags": a["cell"][cell].astype(np.int64), "until": a["until"][cell], "grafted": a["grafted"][cell],
            "did": did,
        },
    }  # fmt: skip


def _interests(shard: GossipShard) -> dict[str, Ints]:
    a, (ids, numbers) = shard.arrays, shard.interests()
    stand = a["interest_stands"][numbers]
    ids, numbers = ids[stand], numbers[stand]
    topic = a["seat_topic"][a["interest_seat"][numbers]].astype(np.int64)
    return {"id": ids, "client": a["interest_client"][numbers], "topic": topic}


def _remembered(shard: GossipShard, place: Ints) -> dict[str, Any]:
    """What brokers have seen, what is in their caches, and who brought what."""
    a, here, size = shard.arrays, shard.locals, int(shard.arrays["slots"][0])
    room = int(a["slot_uses"].sum())
    seen = _walk(here, a["seen_first"], np.full(here.size, -1), a["held"], size, K.NEXT_SEEN, room)
    cached = _walk(here, a["cache_first"], a["cached"][here], a["held"], size, K.NEXT_CACHED, room)
    rows = a["held"][a["local"][seen[0]] * size + seen[1]]
    brought = np.zeros((2, 0), np.int64)
    if shard.scoring:
        links = shard.env.links
        where = links.out_start, links.out_link
        brought = _bringers(seen[0], seen[1], a["local"], *where, a["brought"], a["brought_from"], size)
    came = a["held"][a["local"][cached[0]] * size + cached[1], K.CAME]
    return {
        "seen": {
            "broker": seen[0], "publication": place[seen[1]], "came": rows[:, K.CAME].copy(),
            "validated": rows[:, K.VALIDATED_AT].copy(), "meta": rows[:, K.META] & ~np.int64(K.CACHED | K.PROMISED),
        },
        "cached": {"broker": cached[0], "publication": place[cached[1]], "came": came},
        "brought": {"link": brought[0].copy(), "publication": place[brought[1]]},
    }  # fmt: skip


def _promises(shard: GossipShard, place: Ints) -> dict[str, Ints]:
    a, found = shard.arrays, []
    for node in a["promise_first"][shard.locals].tolist():
        while node >= 0:
            found.append(node)
            node = int(a["promise_next"][node])
    nodes = np.array(found, np.int64)
    link = a["promise_link"][nodes].astype(np.int64)
    return {"link": link, "publication": place[a["promise_slot"][nodes]], "until": a["promise_until"][nodes]}


def _pairs(table: Ints, still: Any, place: Ints, names: Sequence[str]) -> dict[str, Ints]:
    rows = table[still]
    known = place[rows[:, 0] & 0xFFFFFFFF]
    rows, known = rows[known >= 0], known[known >= 0]
    values = {name: rows[:, 1 + i].copy() for i, name in enumerate(names)}
    return {"link": rows[:, 0] >> 32, "publication": known, **values}


@njit(cache=True)
def _walk(here, first, count, held, size, follows, room):
    """(Broker, slot) along the chains of brokers, so many of each or to its end (-1)."""
    found, at = np.empty((2, room), np.int64), 0
    for k in range(here.size):
        slot, left = first[here[k]], count[k]
        while slot >= 0 and left != 0:
            found[0, at], found[1, at] = here[k], slot
            slot = held[k * size + slot, follows]
            left -= 1
            at += 1
    return found[:, :at].copy()


@njit(cache=True)
def _bringers(broker, slot, local, out_start, out_link, brought, brought_from, size):
    """(Link, slot) of who brought what brokers have seen."""
    found, count = np.empty((2, 64), np.int64), 0
    for k in range(broker.size):
        first, degree = out_start[broker[k]], out_start[broker[k] + 1] - out_start[broker[k]]
        words = (degree + 63) >> 6
        base = brought_from[local[broker[k]]] * size + slot[k] * words
        for p in range(degree):
            if brought[base + (p >> 6)] & (np.uint64(1) << np.uint64(p & 63)):
                if count == found.shape[1]:
                    found = np.concatenate((found, np.empty_like(found)), 1)
                found[0, count], found[1, count] = out_link[first + p], slot[k]
                count += 1
    return found[:, :count].copy()


# ---- taken over --------------------------------------------------------------------------------------


def load(shard: GossipShard, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
    """For `ShardProtocol.load`."""
    env = shard.env
    for each in states:
        check_columns(each, {}, others=frozenset(_TABLES))
        sizes = {
            "brokers": env.brokers, "links": env.links.source.size, "clients": env.client_broker.size,
            "history": shard.said.history,
            **{name: len(next(iter(each[name].values()), ())) for name in ("topics", "publications")},
        }  # fmt: skip
        for name, columns in _TABLES.items():
            check_columns(each[name], columns, {**sizes})
        _load(shard, each, handle_of)


def _load(shard: GossipShard, kept: dict[str, Any], handle_of: Mapping[int, int]) -> None:
    """What belongs here of one state."""
    env = shard.env
    topic_of = _topics(shard, kept)
    brokers = _rows(kept["brokers"], env.local[kept["brokers"]["broker"]])
    for name in ("ticks", "shifts", "decayed"):
        shard.arrays[name][brokers["broker"]] = brokers[name]
    shard.arrays["drawn"][:, brokers["broker"]] = brokers["drawn"].T
    links = _rows(kept["links"], env.local[env.links.source[kept["links"]["link"]]])
    for name in ("had", "asked", "refused", "behaviour"):
        shard.arrays[name][links["link"]] = links[name]
    _load_seats(shard, kept, topic_of)
    slot_of = _load_publications(shard, kept["publications"], topic_of, handle_of)
    _load_remembered(shard, kept, slot_of, brokers)
    _load_pairs(shard, kept, slot_of)


def _topics(shard: GossipShard, kept: dict[str, Any]) -> Ints:
    """The numbers here of the topics of a state."""
    counts, level = kept["topics"]["levels"], kept["names"]["level"]
    if int(counts.sum()) != level.size:
        raise BadState("the levels of topics are not as many as they say")
    ends = np.cumsum(counts)
    names = [tuple(level[end - count : end].tolist()) for end, count in zip(ends.tolist(), counts.tolist())]
    return np.array([shard.topic_number(name) for name in names], np.int64)


def _rows(table: dict[str, Any], chosen: Any) -> dict[str, Any]:
    return {name: column[chosen] for name, column in table.items()}


def _each(table: dict[str, Any], name: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a table, one after the other."""
    return zip(*(table[column].tolist() for column in _TABLES[name]))


def _load_seats(shard: GossipShard, kept: dict[str, Any], topic_of: Ints) -> None:
    env = shard.env
    seats = _rows(kept["seats"], env.local[kept["seats"]["broker"]])
    for broker, topic, flags, published in _each(seats, "seats"):
        seat = shard.seat_number(int(topic_of[topic]), broker)
        shard.arrays["seat_flags"][seat] = flags & (K.JOINED_IT | K.FANS_OUT)
        shard.arrays["seat_published"][seat] = published
    cells = _rows(kept["cells"], env.local[env.links.source[kept["cells"]["link"]]])
    a, link = shard.arrays, cells["link"]
    seat = a["seat_of"][topic_of[cells["topic"]], env.links.source[link]].astype(np.int64)
    if (seat < 0).any():
        raise BadState("a neighbour is told of in a topic that its broker does not know")
    cell = a["seat_cell"][seat] + a["place"][link]
    a["cell"][cell] = cells["flags"] & (K.TOLD | K.IN_MESH | K.IN_FANOUT)
    a["until"][cell], a["grafted"][cell] = cells["until"], cells["grafted"]
    if shard.scoring:
        a["did"][cell] = cells["did"]
    np.add.at(a["seat_told"], seat, (a["cell"][cell] & K.TOLD > 0).astype(np.int32))
    np.add.at(a["seat_mesh"], seat, (a["cell"][cell] & K.IN_MESH > 0).astype(np.int32))
    for id_, client, topic in _each(kept["interests"], "interests"):
        if env.local[env.client_broker[client]]:
            interest = shard.interest_number(id_, client, int(topic_of[topic]))
            shard.arrays["interest_stands"][interest] = True
            shard.arrays["seat_members"][shard.arrays["interest_seat"][interest]] += 1


def _load_publications(
    shard: GossipShard, kept: dict[str, Any], topic_of: Ints, handle_of: Mapping[int, int]
) -> Ints:
    """The slots of the publications of a state."""
    slots = []
    for id_, topic, verdict, until, uid, cached in _each(kept, "publications"):
        slot = shard.slot_number(id_, until)
        slots.append(slot)
        if topic >= 0:
            shard.arrays["slot_topic"][slot] = topic_of[topic]
            shard.arrays["slot_verdict"][slot] = verdict
        if cached:
            if uid not in handle_of:
                raise BadState(f"publication {id_} is body {uid}, which the checkpoint does not have")
            shard.arrays["slot_body"][slot] = handle_of[uid]
    return np.array(slots, np.int64)


def _load_remembered(shard: GossipShard, kept: dict[str, Any], slot_of: Ints, brokers: dict[str, Any]) -> None:
    env, a = shard.env, shard.arrays
    local, size = a["local"], int(a["slots"][0])
    seen = _rows(kept["seen"], env.local[kept["seen"]["broker"]])
    slot = slot_of[seen["publication"]]
    rows = local[seen["broker"]] * size + slot
    a["held"][rows, K.CAME], a["held"][rows, K.VALIDATED_AT] = seen["came"], seen["validated"]
    a["held"][rows, K.META] = (seen["meta"] & ~np.int64(K.CACHED | K.PROMISED)) | K.SEEN
    if (seen["meta"] >> K.FROM_SHIFT > shard.degree[seen["broker"]]).any() or np.unique(rows).size < rows.size:
        raise BadState("what brokers have seen came from nowhere, or twice")
    _chain(seen["broker"], slot, local, a["held"], size, K.NEXT_SEEN, a["seen_first"], a["seen_last"])
    np.add.at(a["slot_uses"], slot, 1)
    cached = _rows(kept["cached"], env.local[kept["cached"]["broker"]])
    slot = slot_of[cached["publication"]]
    rows = local[cached["broker"]] * size + slot
    if np.unique(rows).size < rows.size or (a["slot_body"][slot] < 0).any():
        raise BadState("what is in a cache has no body, or is there twice")
    a["held"][rows, K.CAME] = cached["came"]
    a["held"][rows, K.META] |= K.CACHED
    _chain(cached["broker"], slot, local, a["held"], size, K.NEXT_CACHED, a["cache_first"], a["cache_last"])
    np.add.at(a["slot_uses"], slot, 1)
    np.add.at(a["slot_cached"], slot, 1)
    np.add.at(a["cached"], cached["broker"], 1)
    here = brokers["broker"]
    if (brokers["windows"].sum(axis=1) != a["cached"][here]).any():
        raise BadState("windows hold more or less than caches")
    a["window_count"][here] = brokers["windows"]
    _begin_windows(here, a["shifts"], a["window_count"], a["window_first"], a["cache_first"], a["held"], local, size)
    if shard.scoring:
        brought = _rows(kept["brought"], env.local[env.links.source[kept["brought"]["link"]]])
        broker = env.links.source[brought["link"]]
        words = (shard.degree[broker] + 63) >> 6
        place = a["place"][brought["link"]].astype(np.int64)
        at = a["brought_from"][local[broker]] * size + slot_of[brought["publication"]] * words + (place >> 6)
        np.bitwise_or.at(a["brought"], at, np.uint64(1) << (place & 63).astype(np.uint64))


def _load_pairs(shard: GossipShard, kept: dict[str, Any], slot_of: Ints) -> None:
    """Promises, refusals, and how often neighbours asked."""
    env = shard.env
    for link, publication, until in _each(kept["promises"], "promises"):
        if env.local[env.links.source[link]]:
            shard.promise(int(env.links.source[link]), int(slot_of[publication]), link, until)
    for name, table, counted in (("refusals", "refusal", K.REFUSALS), ("asking", "asking", K.ASKED_FOR)):
        rows = _rows(kept[name], env.local[env.links.source[kept[name]["link"]]])
        key = (rows["link"] << 32) | slot_of[rows["publication"]]
        pairs = np.column_stack([key, *(rows[column] for column in [*_TABLES[name]][2:])])
        if np.unique(key).size < key.size:
            raise BadState(f"one of the {name} stands twice")
        shard.enter_pairs(table, counted, np.ascontiguousarray(pairs))


@njit(cache=True)
def _chain(broker, slot, local, held, size, follows, first, last):
    """Chain the publications of each broker, in their order."""
    begun = np.zeros(first.size, np.bool_)
    for k in range(broker.size):
        b = broker[k]
        held[local[b] * size + slot[k], follows] = -1
        if begun[b]:
            held[local[b] * size + last[b], follows] = slot[k]
        else:
            first[b] = slot[k]
        begun[b], last[b] = True, slot[k]


@njit(cache=True)
def _begin_windows(here, shifts, count, first, cache_first, held, local, size):
    """Find with what each window begins, the oldest first."""
    history = count.shape[1]
    for b in here:
        slot = cache_first[b]
        for back in range(history - 1, -1, -1):
            window = (shifts[b] - back) % history
            if shifts[b] < back:
                continue
            first[b, window] = slot
            for _ in range(count[b, window]):
                slot = held[local[b] * size + slot, K.NEXT_CACHED]
