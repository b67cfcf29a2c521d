"""Messages as packets, for Wireshark and its like: a capture in the format pcapng.

Each directed link that carried anything is an interface with a name, `a → b`, and one more is `from clients`. A packet
stands for a message when it reached its broker, in nanoseconds of simulated time since 1970. The trace has no bytes of
messages, so what a packet holds (LINKTYPE_USER0, 147) is a header of 56 bytes, big-endian:

    0  magic `bklb`      4  version, 1       5  type of the message    6  service (16 bits)
    8  from (32 bits; of a client 2³² − 1)   12  to (32 bits)          16  sequence of the sender's send
    24 body (-1: none)   32 correlation word  40  cause (-1: none)      48  when the broker was done with it (ns)

Blocks are little-endian. Packets come in the order of time, and in that of the trace's own key where times are equal,
so the same run gives the same bytes whatever engine made it.
"""

from __future__ import annotations

import struct
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from analysis.export.asked import Asked
from analysis.frames.naming import Names
from analysis.report.gather import Rows
from analysis.report.words import plain
from brokers.contract import MESSAGE
from brokers.errors import RunDamaged

LINKTYPE_USER0 = 147
_SECTION, _INTERFACE, _PACKET = 0x0A0D0D0A, 1, 6
_COMMENT, _PROGRAM, _NAME, _RESOLUTION = 1, 4, 2, 9
_NANOSECONDS = bytes([9])  # a negative power of ten
_HOPS = (
    "broker", "time_ns", "kind", "source", "sequence", "link", "service", "type", "body", "word", "cause", "finish_ns"
)  # fmt: skip
_HEADER = np.dtype([
    ("magic", "S4"), ("version", "u1"), ("type", "u1"), ("service", ">u2"), ("from", ">u4"), ("to", ">u4"),
    ("sequence", ">u8"), ("body", ">i8"), ("word", ">i8"), ("cause", ">i8"), ("finish_ns", ">i8"),
])  # fmt: skip
_BLOCK = np.dtype([
    ("block", "<u4"), ("bytes", "<u4"), ("interface", "<u4"), ("high", "<u4"), ("low", "<u4"), ("captured", "<u4"),
    ("original", "<u4"), ("header", _HEADER), ("bytes_again", "<u4"),
])  # fmt: skip


def write_pcapng(asked: Asked, file: BinaryIO) -> str:
    """The capture; a sentence about it."""
    run = asked.run
    links = run.read("links").sort_by("link")
    carried = np.flatnonzero(links["messages"].to_numpy() > 0)
    interface = np.full(links.num_rows + 1, -1, np.int64)  # of a link; the last of what clients send
    interface[carried] = np.arange(carried.size)
    interface[-1] = carried.size
    names = Names(run).links
    told = f"{run.manifest['name']} {run.manifest['id']}, digest {run.digest}; headers: docs/frames.md"
    file.write(_section(plain(told, 500)))
    for name in (*(names[link] for link in carried.tolist()), "from clients"):
        file.write(_interface(plain(name, 200)))
    source, packets = links["from"].to_numpy().astype(np.int64), 0
    for rows in asked.in_time("hops", _HOPS):
        messages = {name: column[rows["kind"] == MESSAGE] for name, column in rows.items()}
        at = interface[messages["link"]]
        if (at < 0).any():
            raise RunDamaged.at(run.path, "table 'hops' has messages over a link that carried none, by table 'links'")
        file.write(_packets(messages, at, source).tobytes())
        packets += at.size
    return f"{packets:,} packets on {carried.size + 1:,} interfaces"


def _packets(rows: Rows, interface: NDArray[np.int64], source: NDArray[np.int64]) -> NDArray[np.void]:
    found = np.zeros(interface.size, _BLOCK)
    found["block"], found["interface"] = _PACKET, interface
    found["bytes"] = found["bytes_again"] = _BLOCK.itemsize
    found["captured"] = found["original"] = _HEADER.itemsize
    found["high"], found["low"] = rows["time_ns"] >> 32, rows["time_ns"] & 0xFFFFFFFF
    header = found["header"]
    header["magic"], header["version"] = b"bklb", 1
    for name in ("type", "service", "sequence", "body", "word", "cause", "finish_ns"):
        header[name] = rows[name]
    header["to"] = rows["broker"]
    header["from"] = np.where(rows["link"] < 0, 0xFFFFFFFF, source[rows["link"]])
    return found


def _section(comment: str) -> bytes:
    """The block that begins a file: byte order, version 1.0, a length that is not told."""
    body = struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)
    return _block(_SECTION, body + _options((_COMMENT, comment.encode()), (_PROGRAM, b"brokerlab")))


def _interface(name: str) -> bytes:
    body = struct.pack("<HHI", LINKTYPE_USER0, 0, 0)
    return _block(_INTERFACE, body + _options((_NAME, name.encode()), (_RESOLUTION, _NANOSECONDS)))


def _options(*options: tuple[int, bytes]) -> bytes:
    told = (struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4) for code, value in options)
    return b"".join(told) + bytes(4)


def _block(kind: int, body: bytes) -> bytes:
    size = struct.pack("<I", len(body) + 12)
    return struct.pack("<I", kind) + size + body + size
