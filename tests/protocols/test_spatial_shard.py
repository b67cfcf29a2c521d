"""The spatial protocols in the shard's view: what is shared, that kernels decide, and lists beside brute force."""

from __future__ import annotations

import numpy as np
import pytest

from brokers.engine.simulate import simulate
from brokers.indexes.spatial.geometry import squared_distances
from brokers.indexes.spatial.summary import Summary
from brokers.wire import encode_body
from protocols.conformance import REHEARSALS, join, rehearse
from protocols.spatial import asking, walk_kernels
from protocols.spatial.kernels import HEADS, TOPICS
from protocols.spatial.kind import Spatial
from protocols.spatial.known import Object
from protocols.spatial.reach import packed, unpacked
from protocols.spatial.shard import RankingShard
from protocols.spatial.summarised import SHRINK, SUMMARY
from protocols.spatial.summarised_shard import SummarisedShard

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


def test_summaries_shrink_and_are_heard_without_python(monkeypatch):
    left, handled, said = [], [], []
    one, handle, bodies_said = RankingShard._one, SummarisedShard.handle, SummarisedShard.bodies_said

    def counted(self, row):
        left.append(int(self.batch.type[row]))
        one(self, row)

    def seen(self, batch, out):
        handled.extend(batch.type.tolist())
        handle(self, batch, out)

    def written(self, about):
        said.append(len(about))
        return bodies_said(self, about)

    monkeypatch.setattr(RankingShard, "_one", counted)
    monkeypatch.setattr(SummarisedShard, "handle", seen)
    monkeypatch.setattr(SummarisedShard, "bodies_said", written)
    simulate(rehearse(SETTLED, "spatial", params=params()))
    assert {SUMMARY, SHRINK} <= set(handled) and sum(said) >= handled.count(SUMMARY)
    assert left and not {SUMMARY, SHRINK} & set(left)


@pytest.mark.parametrize("axes", [2, 3])
def test_compiled_code_writes_and_reads_summaries_as_bodies_have_them(axes):
    rng = np.random.default_rng(5)
    most = 40
    for count in (1, 15, 16, 300):
        words = rng.choice([0, 127, 128, 255, 256, 65_535, 65_536, (1 << 20) - 1], count).tolist()
        sizes = rng.integers(0, most + 1, count).tolist()
        told = [
            Summary(rng.normal(size=(n, 2 * axes)).astype("f4").astype(float), rng.random(n).astype("f4").astype(float))
            for n in sizes
        ]
        out = np.zeros(16 + sum(9 + 4 * (2 * axes + 1) * n for n in sizes), np.uint8)
        end = walk_kernels.write_list(out, 0, count)
        for word, summary in zip(words, told):
            end = walk_kernels.write(out, end, word, summary.boxes, summary.squared)
        assert out[:end].tobytes() == encode_body([[word, packed(one)] for word, one in zip(words, told)])
        found = walk_kernels.read(out, 0, end, axes, most)
        assert found[:, 0].tolist() == words and found[:, 2].tolist() == sizes
        for (_, at, n), summary in zip(found.tolist(), told):
            boxes, squared = walk_kernels.numbers_at(out, at, n, axes)
            expected = unpacked(packed(summary), axes)
            assert np.array_equal(boxes, expected.boxes) and np.array_equal(squared, expected.squared)


def test_bytes_that_are_no_summaries_are_left_alone():
    told = Summary(np.ones((3, 4)), np.ones(3))
    good = encode_body([[300, packed(told)], [7, packed(told)]])
    wrong = [good[:end] for end in range(len(good))] + [
        good + b"\0", encode_body([]), encode_body({"number": 1}), encode_body([[7, None]]), encode_body([[-1, b""]]),
        encode_body([["a", b""]]), encode_body([[7, b"123"]]), encode_body([[7, packed(told), 1]]), encode_body([7, 8]),
        encode_body([[7, packed(Summary(np.ones((9, 4)), np.ones(9)))]]),
    ]  # fmt: skip
    assert len(walk_kernels.read(np.frombuffer(good, np.uint8).copy(), 0, len(good), 2, 8)) == 2
    for data in wrong:
        assert len(walk_kernels.read(np.frombuffer(data, np.uint8).copy(), 0, len(data), 2, 8)) == 0


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
