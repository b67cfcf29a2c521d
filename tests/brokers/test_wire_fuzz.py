"""100,000 damaged frames and bodies: each is a `WireError`, or a value that encodes to the very same bytes."""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable

import msgpack
import numpy as np
import pytest

from brokers.errors import WireError
from brokers.wire import decode_body, decode_frame, encode_body, encode_frame
from brokers.wire.plain import DEPTH_MAX

TIMES = 25_000  # of each of the four tests below
_HEADER = 24


def nested(depth: int) -> list:
    value: list = []
    for _ in range(depth - 1):
        value = [value]
    return value


BODIES = [
    None, True, 7, -1, 2**63, -(2**63), 0.5, float("nan"), float("inf"), -0.0, "", "text", "ü" * 20, b"", b"\0\1", [],
    [1, 2.5, "three", None], {}, {"a": 1, "b": [0.5, {"c": b"x"}]}, {f"key {i}": i for i in range(20)},
    [list(range(i)) for i in range(8)], "x" * 300, list(range(-40, 300, 9)), nested(DEPTH_MAX),
]  # fmt: skip
FRAMES = [
    {},
    {"end_ns": 5_000_000, "ok": True},
    {"times": np.arange(5), "links": np.array([[1, 2], [3, 4]], np.int32)},
    {"rows": np.array([0.5, np.nan]), "flags": np.array([True, False]), "none": np.empty(0, np.int8)},
    {"bodies": {"groups": [], "objects": [[1, 2, encode_body(body)] for body in BODIES[:12]]}},
    {"deep": nested(DEPTH_MAX - 1), "uid": np.array([2**64 - 1], np.uint64), "small": np.array([[1]], np.int16)},
]
# What begins a value, so that a mutation often makes another form of it instead of nothing at all.
_MARKS = bytes([*range(0x80, 0xA4), *range(0xC0, 0xE0), 0, 1, 0x7F, 0xE0, 0xFF])


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Other bytes: some flipped, set, cut, doubled, put in or taken from elsewhere."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        at = draw.randrange(len(changed) + 1)
        match draw.randrange(7):
            case 0 if at < len(changed):
                changed[at] ^= 1 << draw.randrange(8)
            case 1 if at < len(changed):
                changed[at] = draw.choice(_MARKS)
            case 2:
                del changed[at : at + draw.randrange(1, 9)]
            case 3:
                changed[at:at] = draw.randbytes(draw.randrange(1, 9))
            case 4:
                changed[at:at] = changed[at : at + draw.randrange(1, 20)]
            case 5:
                changed[at:at] = bytes([draw.choice(_MARKS)])
            case _:
                value = draw.choice((draw.randrange(300), float(draw.randrange(9)), "k", b"k", [], {"b": 1, "a": 2}))
                changed[at:at] = msgpack.packb(value, use_single_float=True)
    return bytes(changed)


def framed(content: bytes) -> bytes:
    """A frame with a right header around any content."""
    return struct.pack("<4sHHQII", b"BLF\xb1", 1, 0, len(content), zlib.crc32(content), 0) + content


def accepted(many: list[bytes], decode: Callable, encode: Callable) -> int:
    """How many of these are read; each of them has to come back as the same bytes, all others be a WireError."""
    count = 0
    for data in many:
        try:
            value = decode(data)
        except WireError as error:
            assert str(error).startswith(("body: ", "frame: "))
            continue
        assert encode(value) == data
        count += 1
    return count


def encode_pair(pair: tuple[str, dict]) -> bytes:
    return encode_frame(*pair)


def test_what_is_read_of_mutated_bodies_encodes_to_the_same_bytes():
    draw = random.Random(1)
    valid = [encode_body(body) for body in BODIES]
    read = accepted([mutated(draw.choice(valid), draw) for _ in range(TIMES)], decode_body, encode_body)
    assert TIMES / 50 < read < TIMES  # both happen, or the mutations are the wrong ones


def test_what_is_read_of_random_bytes_encodes_to_the_same_bytes():
    draw = random.Random(2)
    many = [
        draw.randbytes(draw.randrange(12)) if i % 2 else bytes(draw.choices(_MARKS, k=draw.randrange(12)))
        for i in range(TIMES)
    ]
    assert 0 < accepted(many, decode_body, encode_body) < TIMES


def test_what_is_read_of_mutated_content_in_a_right_frame_encodes_to_the_same_bytes():
    draw = random.Random(3)
    valid = [encode_frame("window", payload)[_HEADER:] for payload in FRAMES]
    many = [framed(mutated(draw.choice(valid), draw)) for _ in range(TIMES)]
    assert TIMES / 100 < accepted(many, decode_frame, encode_pair) < TIMES


def test_no_mutated_frame_is_read_unless_it_is_the_frame_itself():
    draw = random.Random(4)
    valid = [encode_frame("window", payload) for payload in FRAMES]
    many = [mutated(draw.choice(valid), draw) for _ in range(TIMES)]
    assert accepted(many, decode_frame, encode_pair) == sum(each in valid for each in many)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xcc\x07", "offset 0: not in the one form"),  # 7 in two bytes
        (b"\xd3" + bytes(7) + b"\x07", "offset 0: not in the one form"),
        (b"\xca" + struct.pack(">f", 0.5), "not in the one form"),  # a float of 32 bits
        (b"\xdc\x00\x01\x07", "not in the one form"),  # a list of one with a long head
        (b"\x92\x07\xd9\x01k", "offset 2: not in the one form"),
        (b"\x82\xa1b\x01\xa1a\x02", "keys of a map are not in order"),
        (b"\x81\xa1a\x82\xa1b\x01\xa1a\x02", "keys of a map are not in order"),
        (b"\xcb\x7f\xf8" + bytes(5) + b"\x01", "a NaN in another form"),
        (b"\x91\xcb\xff\xf8" + bytes(6), "a NaN in another form"),
        (msgpack.packb(nested(DEPTH_MAX + 1)), "more than 64 lists and maps"),
        (b"\x81\xa1a" * DEPTH_MAX + b"\x90", "more than 64 lists and maps"),
        (encode_body([1, 2]) + b"\xc0", "1 bytes after the end"),
    ],
)
def test_a_body_that_is_not_in_its_one_form_or_too_deep_is_refused(data, said):
    with pytest.raises(WireError, match=f"body: .*{said}"):
        decode_body(data)


def test_a_body_as_deep_as_may_be_is_read_whatever_stands_beside():
    for body in (nested(DEPTH_MAX), [nested(DEPTH_MAX - 1)] * 100, [[[]] * 500] * 3):
        assert decode_body(encode_body(body)) == body
    broad_and_deep = msgpack.packb([[[]] * 500, nested(DEPTH_MAX)])
    with pytest.raises(WireError, match="more than 64"):
        decode_body(broad_and_deep)


def test_a_frame_is_as_deep_as_a_body_and_not_deeper():
    assert decode_frame(encode_frame("k", {"a": nested(DEPTH_MAX - 1)}))[1] == {"a": nested(DEPTH_MAX - 1)}
    with pytest.raises(WireError, match="frame: more than 64"):
        decode_frame(framed(msgpack.packb(["k", {"a": nested(DEPTH_MAX)}])))


def test_a_frame_that_says_a_value_in_another_form_is_refused_with_its_offset():
    with pytest.raises(WireError, match="frame: at offset 30: not in the one form"):
        decode_frame(framed(b"\x92\xa1k\x81\xa1a\xcc\x07"))
