"""The spatial protocols in the shard's view: what is shared, that kernels decide, and lists beside brute force."""

from __future__ import annotations

import numpy as np
import pytest

from brokers.engine.simulate import simulate
from brokers.indexes.spatial.geometry import squared_distances
from protocols.conformance import REHEARSALS, join, rehearse
from protocols.spatial import asking
from protocols.spatial.kernels import HEADS, TOPICS
from protocols.spatial.kind import Spatial
from protocols.spatial.known import Object
from protocols.spatial.shard import RankingShard

TREE, SETTLED = REHEARSALS[0], REHEARSALS[4]
PROTOCOLS = ("spatial-flooding", "spatial-keyword", "spatial")
LINE = [(0, 1), (1, 2), (2, 3)]


def params(**said):
    return Spatial.Params(**{"keywords": 4, "k_max": 3, **said}).model_dump()


def shard_after(model):
    """The protocol of the only shard, when all is done."""
    found = []
    simulate(model, observe=lambda shards: found.append(shards.shards[0].services.protocols[0]))
    return found[0]


def nearest_by_brute_force(known, slot):
    """The distances of all heads at a subscription's broker that share a keyword with it."""
    arrays = known.arrays
    broker = arrays["sub_broker"][slot]
    heads = [
        head for head in arrays["head_place"][arrays["head_place"] >= 0].tolist()
        if arrays["head_broker"][head] == broker
        and set(known.objects[arrays["head_object"][head]].words) & set(known.sub_words[slot])
    ]  # fmt: skip
    points = arrays["point"][arrays["head_object"][heads]]
    return np.sort(squared_distances(points, arrays["sub_point"][slot]))


@pytest.mark.parametrize("said", [{}, {"geometry": "sphere", "last": 5}], ids=str)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_subscription_has_its_nearest_objects_of_those_that_its_broker_knows(protocol, said):
    found = shard_after(rehearse(TREE, protocol, params=params(**said)))
    known, capacity = found.known, 2 * (3 + 1)
    several = 0
    for slot in known.slot_of.values():
        held, expected = int(known.arrays["held"][slot]), nearest_by_brute_force(known, slot)
        assert min(len(expected), 3 + 1) <= held <= min(len(expected), capacity)
        assert np.array_equal(known.arrays["squared"][slot, :held], expected[:held])
        several += held > 3
    assert several > 3 or protocol == "spatial"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_comes_and_goes_leaves_nothing(protocol):
    joined = join(protocol, LINE, params=params())
    for client in range(4):
        joined.send(client, "subscribe", [client, 0, 1, 2], word=joined.interest(client))
    for client in range(4):
        for number in range(100, 120):
            joined.send(client, "publish", [number, 0, 1, 0, 1 + number % 2], word=joined.interest(client, number))
            joined.send(client, "expire", word=joined.interest(client, number))
    for client in range(4):
        joined.send(client, "unsubscribe", word=joined.interest(client))
    known = shard_after(joined.model()).known
    assert known.spare[HEADS] == len(known.arrays["head_id"])
    assert known.spare[TOPICS] == len(known.arrays["topic_word"])
    assert not known.slot_of and not len(known.wants) and not len(known.asked)
    assert (known.arrays["head_place"] < 0).all() and (known.arrays["topic_place"] < 0).all()
    assert not known.arrays["uses"].any()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_object_is_kept_once_for_all_brokers(protocol):
    joined = join(protocol, LINE, params=params())
    joined.send(3, "subscribe", [0, 0, 1], word=joined.interest(3))
    joined.send(0, "publish", [1, 0, 1, 0, 1], word=joined.interest(0, 100))
    known = shard_after(joined.model()).known
    assert sum(thing is not None for thing in known.objects) == 1
    assert known.arrays["uses"].sum() == known.arrays["heads"].sum() == 4


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_objects_and_their_ends_pass_without_python(protocol, monkeypatch):
    """All but what clients subscribe to, and what brokers ask each other."""
    left = []
    one = RankingShard._one

    def counted(self, row):
        left.append(int(self.batch.type[row]))
        one(self, row)

    monkeypatch.setattr(RankingShard, "_one", counted)
    joined = join(protocol, LINE, params=params())
    joined.send(3, "subscribe", [0, 0, 1], word=joined.interest(3))
    for number in range(100, 110):
        joined.send(0, "publish", [1, 0, 1, 0, 1], word=joined.interest(0, number))
    joined.send(0, "expire", word=joined.interest(0, 100))
    assert len([d for d in joined.deliveries() if d.client == 3]) == 10
    types = Spatial.types
    assert types["subscribe"] in left and not {types["publish"], types["expire"]} & set(left)


def test_a_subscription_that_comes_later_finds_what_its_broker_knows_already():
    """An object is matched at one broker before another broker of the shard hears of a subscription."""
    joined = join("spatial-flooding", LINE, params=params(k_max=1))
    joined.send(3, "subscribe", [9, 0, 1], word=joined.interest(3))
    joined.send(0, "publish", [1, 0, 1, 0, 1], word=joined.interest(0, 100))
    joined.send(2, "subscribe", [0, 0, 1], word=joined.interest(2))
    joined.send(0, "publish", [2, 0, 1, 0, 1], word=joined.interest(0, 101))  # farther from client 2, nearer to 3
    told = [(d.client, d.publication & 0xFFFFFFFF) for d in joined.deliveries()]
    assert sorted(told) == [(3, 0), (3, 1)]


def test_wider_objects_and_more_of_everything_leave_the_lists_as_they_were():
    known = shard_after(rehearse(SETTLED, "spatial-flooding", params=params(keywords=9))).known
    words = tuple(range(7))
    number = known.number(Object((1.0, 2.0), words, 0))
    known.make_room(5000)
    for id_ in range(5000):
        assert asking.take_in(known.record, id_ % 3, (1 << 40) + id_, number, -1)
        assert not asking.take_in(known.record, id_ % 3, (1 << 40) + id_, number, -1)
    for slot in known.slot_of.values():
        held, expected = int(known.arrays["held"][slot]), nearest_by_brute_force(known, slot)
        assert np.array_equal(known.arrays["squared"][slot, :held], expected[:held]) and held >= min(4, len(expected))
    for broker in range(3):
        heads = asking.heads_with(known.record, broker, np.array([6, 2], np.int64))
        since = known.arrays["head_since"][heads]
        assert len(heads) >= 1666 and (np.diff(since[known.arrays["head_object"][heads] == number]) > 0).all()
    assert known.memory_bytes() > 5000 * 4 * 7
