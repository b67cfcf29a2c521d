"""Arrays in bodies: the bytes of the lists of their numbers, there and back, and nothing else."""

from __future__ import annotations

import contextlib
import math
import struct

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokers.bodies import Bodies
from brokers.errors import InvalidInput, WireError
from brokers.wire import Encoded, decode_body, encode_body, encoded_body
from brokers.wire.numbers import pack_numbers, read_floats, read_ints

# On both sides of every width of a whole number in msgpack, and of a list's head.
WIDTHS = (0, 5, 7, 8, 15, 16, 31, 32, 63)
BORDERS = sorted({sign * (1 << bits) + by for bits in WIDTHS for sign in (1, -1) for by in (-1, 0, 1)})
INTS = [value for value in BORDERS if -(1 << 63) <= value < 1 << 63]
FLOATS = [0.0, -0.0, 1.0, -1.5, math.inf, -math.inf, math.nan, 5e-324, 1.7976931348623157e308]
QUIETER = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_1234))[0]

ints = st.sampled_from(INTS) | st.integers(-(1 << 63), (1 << 63) - 1)
floats = st.sampled_from(FLOATS) | st.floats()


def shaped(numbers, dtype):
    flat = st.lists(numbers, max_size=20).map(lambda items: np.array(items, dtype))
    table = st.tuples(st.integers(0, 18), st.integers(0, 18)).flatmap(
        lambda shape: st.lists(numbers, min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]).map(
            lambda items: np.array(items, dtype).reshape(shape)
        )
    )
    return flat | table


@settings(deadline=None)
@given(shaped(ints, np.int64) | shaped(floats, np.float64))
def test_an_array_has_the_bytes_of_its_list(array):
    assert pack_numbers(array) == encode_body(array.tolist()) == encode_body(array)
    body = {"b": [array, {"x": array}], "a": 1, "c": Encoded(encode_body(array))}
    lists = {"a": 1, "b": [array.tolist(), {"x": array.tolist()}], "c": array.tolist()}
    assert encoded_body(body) == (encode_body(lists), False)
    assert encoded_body(lists)[1]
    assert encode_body(decode_body(encode_body(body))) == encode_body(body)


@settings(deadline=None)
@given(shaped(ints, np.int64))
def test_whole_numbers_come_back_as_they_went(array):
    back = read_ints(pack_numbers(array))
    assert back.dtype == np.int64 and back.ravel().tolist() == array.ravel().tolist()
    if len(array):  # of no rows nobody can know the width
        assert back.shape == array.shape


@settings(deadline=None)
@given(st.lists(floats, max_size=40))
def test_floats_come_back_to_the_bit(items):
    array = np.array(items, np.float64)
    back, once = read_floats(encode_body(items)), np.array(decode_body(encode_body(items)), np.float64)
    assert back.view(np.int64).tolist() == once.view(np.int64).tolist()
    assert np.array_equal(np.signbit(back[~np.isnan(back)]), np.signbit(array[~np.isnan(array)]))


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 65_535, 65_536])
def test_heads_of_lists_have_the_shortest_form(count):
    for array in (np.arange(count), np.arange(count) + 0.5, np.zeros((count, 1), np.int64), np.zeros((1, count))):
        assert pack_numbers(array) == msgpack.packb(array.tolist())


def test_every_width_of_a_whole_number_is_the_shortest():
    for value in INTS:
        assert pack_numbers(np.array([value])) == msgpack.packb([value])
        assert read_ints(msgpack.packb([value])).tolist() == [value]


def test_every_nan_is_one():
    assert pack_numbers(np.array([QUIETER])) == encode_body([math.nan]) == encode_body([QUIETER])
    assert pack_numbers(np.array([[math.nan, -0.0]])) != pack_numbers(np.array([[math.nan, 0.0]]))


def test_any_memory_layout_gives_the_same_bytes():
    array = np.arange(-9, 15).reshape(4, 6)
    frozen = array.copy()
    frozen.flags.writeable = False
    for same in (np.asfortranarray(array), np.repeat(array, 2, axis=0)[::2], frozen, array[::-1][::-1]):
        assert pack_numbers(same) == encode_body(array.tolist())


@pytest.mark.parametrize(
    "array",
    [
        np.array([True]), np.array([1], np.int32), np.array([1.0], np.float32), np.array([1], np.uint64), np.array(1),
        np.zeros((1, 1, 1)), np.array(["a"]), np.array([1], ">i8"),
    ],
)  # fmt: skip
def test_other_arrays_are_refused_with_their_path(array):
    with pytest.raises(InvalidInput, match=r"body\.a\[0\]: an array of \d dimensions of .* cannot be sent"):
        encode_body({"a": [array]})


def test_what_cannot_be_sent_beside_an_array_is_still_named():
    with pytest.raises(InvalidInput, match=r"body\.b: type tuple cannot be sent"):
        encode_body({"a": np.zeros(2), "b": (1,)})
    deep = np.zeros((1, 1))
    for _ in range(62):
        deep = [deep]
    assert encode_body(deep) and decode_body(encode_body(deep))
    with pytest.raises(InvalidInput, match="more than 64 lists"):
        encode_body([deep])


@pytest.mark.parametrize(
    "body",
    [1, None, [True], [1.0], [None], [1, [2]], [[1], 2], [[1], [2, 3]], [[[1]]], ["a"], {"a": 1}, [1 << 63], [b"1"]],
)
def test_what_is_no_list_of_whole_numbers_is_not_read_as_one(body):
    with pytest.raises(WireError):
        read_ints(encode_body(body))


@pytest.mark.parametrize("body", [1.0, [1], [True], [1.0, 1], [[1.0]], None, [None], {}])
def test_what_is_no_list_of_floats_is_not_read_as_one(body):
    with pytest.raises(WireError):
        read_floats(encode_body(body))


@given(st.binary(max_size=40))
@settings(deadline=None)
def test_any_bytes_are_read_or_refused(data):
    for reader in (read_ints, read_floats):
        with contextlib.suppress(WireError):
            reader(data)
    for cut in range(len(data)):
        with pytest.raises(WireError):
            read_ints(pack_numbers(np.arange(40))[:cut])


# ---- the bodies of a shard -----------------------------------------------------------------------------


def test_readers_are_asked_once_for_all_and_again_for_the_next_body_under_a_handle():
    bodies, asked = Bodies([]), []

    def reader(data):
        asked.append(data)
        return read_ints(data)

    array = np.arange(1000)
    handle = bodies.add_object(0, 20, array)
    assert bodies.read(handle, reader) is bodies.read(handle, reader)
    assert len(asked) == 1 and bodies.read(handle, reader).tolist() == array.tolist()
    bodies.sweep([])
    again = bodies.add_object(0, 20, np.arange(5))
    assert again == handle and bodies.read(again, reader).tolist() == [0, 1, 2, 3, 4]


def test_who_asks_for_the_body_gets_lists_whoever_sent_an_array():
    one, other = Bodies([]), Bodies([], 1)
    handle = one.add_object(0, 20, {"rows": np.array([[1, 2]]), "n": 3})
    known = one.add_object(0, 20, {"rows": [[1, 2]], "n": 3})
    assert one.object(handle) == {"rows": [[1, 2]], "n": 3} and type(one.object(handle)["rows"]) is list
    assert (one.hash[handle], one.size[handle]) == (one.hash[known], one.size[known])
    (there,) = other.unpack(one.pack(np.array([handle], np.int32))).values()
    assert other.object(there) == one.object(handle) and other.hash[there] == one.hash[handle]
    many = one.add_encoded(0, 20, [encode_body([1]), encode_body({"rows": [[1, 2]], "n": 3})])
    assert [one.object(int(each)) for each in many] == [[1], one.object(handle)]
    assert one.hash[many[1]] == one.hash[handle]
