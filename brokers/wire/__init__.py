"""Frames and message bodies as bytes. Everything that crosses from one shard to another passes here.

A *frame* is what one shard sends another, one per pair and window: a kind and a payload.

    offset  bytes  content
    0       4      magic, b"BLF\\xb1"
    4       2      version, 1
    6       2      zero
    8       8      length of what follows the header, in bytes
    16      4      crc32 of what follows the header
    20      4      zero
    24      ...    msgpack of [kind, payload]

The header is little-endian. Plain data is msgpack: None, bool, int of 64 bits, float64, str, bytes, lists,
and maps from str. A NumPy array is extension type 1: one byte for the type of its elements, one for the
number of its dimensions (1 or 2), six of zero, each dimension as uint64, then the elements, little-endian
in C order. Nothing else is allowed, and nothing is guessed: bytes that differ from this in any way raise
`WireError`, which says what is wrong and at which offset of the frame.

A *body* is the content of one message: the same plain data, and canonical. Maps are written in the order of their keys
and each NaN in one form, so equal objects give equal bytes whoever wrote them. An array in a body is written as the
list of its numbers, and read as one.

The version goes up when a reader of the old one would misread the new. docs/wire.md says the same at length.
"""

from brokers.wire.bodies import Encoded, decode_body, encode_body, encoded_body
from brokers.wire.frames import VERSION, decode_frame, encode_frame

__all__ = ["VERSION", "Encoded", "decode_body", "decode_frame", "encode_body", "encode_frame", "encoded_body"]
