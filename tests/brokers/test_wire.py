"""Frames and bodies: what goes in comes out, and what is malformed is a typed error."""

from __future__ import annotations

import doctest
import enum
import math
import struct
import zlib
from pathlib import Path

import msgpack
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from brokers.errors import InvalidInput, WireError
from brokers.wire import decode_body, decode_frame, encode_body, encode_frame

DTYPES = ["int64", "int32", "int16", "int8", "uint64", "float64", "bool"]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=20),
)
plain = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=15,
)


@st.composite
def arrays(draw):
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(st.one_of(st.tuples(st.integers(0, 6)), st.tuples(st.integers(0, 4), st.integers(0, 4))))
    if dtype.kind == "b":
        items = draw(st.lists(st.booleans(), min_size=math.prod(shape), max_size=math.prod(shape)))
        return np.array(items, bool).reshape(shape)
    size = math.prod(shape) * dtype.itemsize
    return np.frombuffer(draw(st.binary(min_size=size, max_size=size)), dtype).reshape(shape)


payloads = st.dictionaries(st.text(max_size=5), plain | arrays() | st.lists(arrays(), max_size=3), max_size=4)


def same(left, right):
    """Equal to the bit, types included."""
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()
    if isinstance(left, float):
        return struct.pack("d", left) == struct.pack("d", right) or (left != left and right != right)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    return left == right


def framed(content: bytes, **header) -> bytes:
    """A frame around any content, with a header that is right unless told otherwise."""
    fields = {
        "magic": b"BLF\xb1", "version": 1, "zero": 0,
        "length": len(content), "crc": zlib.crc32(content), "zero_too": 0,
    } | header  # fmt: skip
    return struct.pack("<4sHHQII", *fields.values()) + content


def array_bytes(dtype, dimensions, shape, data, padding=b"\0" * 6) -> bytes:
    return bytes([dtype, dimensions]) + padding + struct.pack(f"<{len(shape)}Q", *shape) + data


def array_frame(*args, **options) -> bytes:
    return framed(msgpack.packb(["k", {"a": msgpack.ExtType(1, array_bytes(*args, **options))}]))


# ---- frames


@given(st.text(max_size=10), payloads)
def test_a_frame_comes_back_as_it_was(kind, payload):
    back_kind, back = decode_frame(encode_frame(kind, payload))
    assert back_kind == kind
    assert same(back, payload)


@given(arrays())
def test_a_decoded_array_owns_aligned_writable_memory(array):
    back = decode_frame(encode_frame("k", {"a": array}))[1]["a"]
    assert back.flags.carray and back.flags.owndata


@pytest.mark.parametrize(
    "array",
    [
        np.arange(10)[::3],
        np.arange(12).reshape(3, 4).T,
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(5, dtype=">i4"),
    ],
    ids=["strided", "transposed", "fortran", "big-endian"],
)
def test_any_memory_layout_is_sent_as_the_same_values(array):
    back = decode_frame(encode_frame("k", {"a": array}))[1]["a"]
    assert np.array_equal(back, array)
    assert back.dtype == array.dtype.newbyteorder("=")


@given(st.binary(max_size=200))
def test_random_bytes_are_no_frame(data):
    with pytest.raises(WireError):
        decode_frame(data)


@given(st.binary(max_size=200))
@example(b"\xdd\xff\xff\xff\xff")
@example(b"\x91" * 200)
def test_random_content_with_a_right_header_is_a_frame_or_a_wire_error(content):
    try:
        kind, payload = decode_frame(framed(content))
    except WireError as error:
        assert "frame" in str(error)
    else:
        assert type(kind) is str and type(payload) is dict


@given(payloads, st.data())
def test_every_truncation_is_refused(payload, data):
    frame = encode_frame("k", payload)
    end = data.draw(st.integers(0, len(frame) - 1))
    with pytest.raises(WireError):
        decode_frame(frame[:end])


@given(payloads, st.data())
def test_every_flipped_bit_is_refused(payload, data):
    frame = bytearray(encode_frame("k", payload))
    bit = data.draw(st.integers(0, 8 * len(frame) - 1))
    frame[bit // 8] ^= 1 << bit % 8
    with pytest.raises(WireError):
        decode_frame(bytes(frame))


@given(payloads, st.data())
def test_content_changed_under_a_right_checksum_never_breaks_the_reader(payload, data):
    content = bytearray(encode_frame("k", payload)[24:])
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        kind, back = decode_frame(framed(bytes(content)))
    except WireError:
        return
    assert same(decode_frame(encode_frame(kind, back))[1], back)  # what is accepted can be sent


@given(st.binary(min_size=1, max_size=8))
def test_bytes_after_the_end_are_refused(extra):
    with pytest.raises(WireError, match="announces"):
        decode_frame(encode_frame("k", {}) + extra)


EMPTY = msgpack.packb(["k", {}])
NESTED = b"\x92\xa1k\x81\xa1a" + b"\x91" * 5_000 + b"\x01"


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (b"", "0 bytes, less than a header"),
        (framed(EMPTY, magic=b"JSON"), "offset 0: begins with b'JSON'"),
        (framed(EMPTY, version=2), "offset 4: version 2; this program reads version 1"),
        (framed(EMPTY, zero=1), "offset 6: a reserved field"),
        (framed(EMPTY, zero_too=1), "offset 20: a reserved field"),
        (framed(EMPTY, length=1 << 60), "offset 8: announces 1152921504606846976 bytes"),
        (framed(EMPTY, crc=0), "offset 16: checksum 00000000"),
        (framed(b""), "offset 24: the data ends where a value should begin"),
        (framed(b"\xc1"), "offset 24: 0xc1 begins no value"),
        (framed(b"\x92\xa1k\x81\xa1a\xc1"), "offset 30: 0xc1 begins no value"),
        (framed(b"\x92\xa1k\xdf\xff\xff\xff\xff"), "offset 27: a map of 4294967295 in the 0 bytes"),
        (framed(b"\x92\xa1k\xdd\x00\x00\x00\x09"), "offset 27: a list of 9 in the 0 bytes"),
        (framed(b"\x92\xa1k\xdc\x00"), "offset 27: the data ends within the size of a list"),
        (framed(b"\x92\xdb\xff\xff\xff\xffk"), "offset 25: a string of 4294967295 bytes in the 1"),
        (framed(b"\x92\xa2k\xff\x80"), "offset 27: a string that is not UTF-8"),
        (framed(EMPTY + b"\x01"), "offset 28: 1 bytes after the end"),
        (framed(NESTED), "within each other"),
        (framed(b"\x92\xa1k\x82\xa1a\x01\xa1a\x02"), "names a key twice"),
        (framed(b"\x92\xa1k\x81\x01\x02"), "not allowed for map key"),
        (framed(b"\x92\xa1k\x81\xc4\x01a\x02"), "a key that is no string"),
        (framed(msgpack.packb(["k", {"a": msgpack.Timestamp(1)}])), "extension type that is not part"),
        (framed(msgpack.packb(["k", {"a": [msgpack.Timestamp(1)]}])), "extension type that is not part"),
        (framed(msgpack.packb(msgpack.Timestamp(1))), "extension type that is not part"),
        (framed(msgpack.packb(["k", {"a": msgpack.ExtType(9, b"")}])), "extension type 9"),
        (framed(msgpack.packb({"k": {}})), "not a kind and a payload"),
        (framed(msgpack.packb(["k"])), "not a kind and a payload"),
        (framed(msgpack.packb([1, {}])), "not a kind and a payload"),
        (framed(msgpack.packb(["k", []])), "not a kind and a payload"),
        (array_frame(1, 1, (2,), b"\0" * 8), r"shape \(2,\) in 8 bytes of int64"),
        (array_frame(1, 1, (1 << 61,), b""), "in 0 bytes of int64"),
        (array_frame(1, 2, (1 << 32, 1 << 32), b"\0" * 8), "in 8 bytes of int64"),
        (array_frame(1, 2, (0, (1 << 64) - 1), b""), "in 0 bytes of int64"),
        (array_frame(99, 1, (0,), b""), "element type 99"),
        (array_frame(1, 3, (1, 1, 1), b"\0" * 8), "3 dimensions"),
        (array_frame(1, 0, (), b"\0" * 8), "0 dimensions"),
        (array_frame(1, 2, (1,), b""), "ends within its shape"),
        (array_frame(1, 1, (0,), b"", padding=b"\0\0\0\1\0\0"), "broken head"),
        (array_frame(7, 1, (2,), b"\1\2"), "neither 0 nor 1"),
    ],
)
def test_a_malformed_frame_says_what_is_wrong_and_where(frame, message):
    with pytest.raises(WireError, match=message):
        decode_frame(frame)


@pytest.mark.parametrize("thing", [None, 7, "text", [1, 2], {}])
def test_what_is_no_bytes_is_no_frame_and_no_body(thing):
    with pytest.raises(WireError, match="expected bytes, got"):
        decode_frame(thing)
    with pytest.raises(WireError, match="expected bytes, got"):
        decode_body(thing)


def test_a_frame_may_come_in_any_buffer():
    frame = encode_frame("k", {"a": [1]})
    for buffer in (bytearray(frame), memoryview(frame), np.frombuffer(frame, np.uint8)):
        assert decode_frame(buffer) == ("k", {"a": [1]})


class Colour(enum.IntEnum):
    RED = 1


def nested(depth):
    value: list = []
    for _ in range(depth):
        value = [value]
    return value


UNSENDABLE = [
    ({"a": [1, (2, 3)]}, r"\.a\[1\]: type tuple cannot be sent; use a list"),
    ({"a": {"b": {1, 2}}}, r"\.a\.b: type set"),
    ({"a": np.float64(1)}, r"\.a: type numpy.float64 cannot be sent; call .tolist\(\)"),
    ({"a": Colour.RED}, r"\.a: type .*Colour"),
    ({"a": {"b": 1, 2: 3}}, r"\.a: the key 2 is of type int; use str"),
    ({"a": 1 << 64}, r"\.a: 18446744073709551616 is outside of"),
    ({"a": -(1 << 63) - 1}, r"\.a: -9223372036854775809 is outside of"),
    ({"a": 1 << 9_999}, r"\.a: an integer of 10000 bits is outside of"),
    ({"a": ["\ud800"]}, r"\.a\[0\]: .* no Unicode"),
    ({"\ud800": 1}, "no Unicode"),
    ({"a": nested(100)}, "more than 64"),
    ({"a": nested(5_000)}, "more than 64"),
    ({"a": object()}, r"\.a: type object"),
]


@pytest.mark.parametrize(("value", "message"), UNSENDABLE)
def test_what_cannot_be_sent_is_refused_with_its_path(value, message):
    with pytest.raises(InvalidInput, match="body.*" + message if message.startswith(r"\.") else message):
        encode_body(value)
    with pytest.raises(InvalidInput, match="payload.*" + message if message.startswith(r"\.") else message):
        encode_frame("k", value)


@pytest.mark.parametrize(
    "array",
    [np.array(1), np.zeros((1, 1, 1)), np.zeros(2, np.float32), np.array(["a"]), np.array([None])],
    ids=["0-d", "3-d", "float32", "str", "object"],
)
def test_an_array_of_another_type_or_shape_is_refused_with_its_path(array):
    with pytest.raises(InvalidInput, match=r"payload\.a\[0\]: an array of \d dim.* cannot be sent"):
        encode_frame("k", {"a": [array]})


def test_a_frame_has_a_str_for_kind_and_a_dict_for_payload():
    with pytest.raises(InvalidInput, match="kind of a frame is a str"):
        encode_frame(7, {})
    with pytest.raises(InvalidInput, match="payload of a frame is a dict, not list"):
        encode_frame("k", [])
    with pytest.raises(InvalidInput, match="no Unicode"):
        encode_frame("\ud800", {})


def test_the_bytes_of_version_one_do_not_change():
    frame = encode_frame("k", {"a": np.array([1, -1], np.int16)})
    content = bytes.fromhex("92a16b81a161c71401") + array_bytes(3, 1, (2,), bytes.fromhex("0100ffff"))
    assert frame == framed(content)


# ---- bodies


@given(plain)
def test_a_body_comes_back_as_it_was(body):
    assert same(decode_body(encode_body(body)), body)


def shuffled(value, reverse):
    if isinstance(value, dict):
        items = [(key, shuffled(item, reverse)) for key, item in value.items()]
        return dict(reversed(items) if reverse else items)
    return [shuffled(item, reverse) for item in value] if isinstance(value, list) else value


@given(plain)
def test_equal_bodies_give_equal_bytes_in_whatever_order_they_were_built(body):
    assert encode_body(shuffled(body, True)) == encode_body(body)
    assert encode_body(decode_body(encode_body(body))) == encode_body(body)


@given(plain, plain)
def test_different_bodies_give_different_bytes(left, right):
    assume(not same(left, right))
    assert encode_body(left) != encode_body(right)


def test_every_nan_is_written_alike():
    odd = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]
    assert encode_body([odd]) == encode_body([math.nan])
    assert encode_body([0.0]) != encode_body([-0.0])


@given(st.binary(max_size=100))
def test_random_bytes_are_a_body_or_a_wire_error(data):
    try:
        body = decode_body(data)
    except WireError as error:
        assert "body" in str(error)
    else:
        assert same(decode_body(encode_body(body)), body)


def test_a_body_holds_no_extension():
    with pytest.raises(WireError, match="extension type 1; a body is plain data"):
        decode_body(msgpack.packb(msgpack.ExtType(1, array_bytes(1, 1, (0,), b""))))


def test_the_examples_in_the_page_on_the_wire_format_run():
    page = Path(__file__).parents[2] / "docs" / "wire.md"
    result = doctest.testfile(str(page), module_relative=False, optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    assert result.attempted >= 5 and result.failed == 0
