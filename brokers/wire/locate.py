"""Where msgpack bytes go wrong. Slow, and read only after the fast decoder has failed."""

from __future__ import annotations

from typing import Any

_CONTAINERS_MAX = 1024  # the decoder's own limit on depth

# First byte -> (bytes of the size field, what it is), for everything whose size follows the first byte.
_SIZED = {
    0xC4: (1, "bytes"), 0xC5: (2, "bytes"), 0xC6: (4, "bytes"),
    0xC7: (1, "extension"), 0xC8: (2, "extension"), 0xC9: (4, "extension"),
    0xD9: (1, "string"), 0xDA: (2, "string"), 0xDB: (4, "string"),
    0xDC: (2, "list"), 0xDD: (4, "list"),
    0xDE: (2, "map"), 0xDF: (4, "map"),
}  # fmt: skip
_FIXED = {0xC0: 0, 0xC2: 0, 0xC3: 0, 0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8,
          0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}  # fmt: skip
_FIXED_EXTENSION = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


def first_fault(data: Any) -> tuple[int, str] | None:
    """(offset, what is wrong there) of the first structural fault, None if the structure is sound."""
    bytes_ = bytes(data)
    end = len(bytes_)
    at = 0
    pending = [1]  # values still to come, per open container
    while pending:
        if pending[-1] == 0:
            pending.pop()
            continue
        pending[-1] -= 1
        start = at
        if at >= end:
            return at, "the data ends where a value should begin"
        first = bytes_[at]
        at += 1
        size, kind = 0, "value"
        if first <= 0x7F or first >= 0xE0:
            continue
        if first <= 0x8F:
            size, kind = first & 0x0F, "map"
        elif first <= 0x9F:
            size, kind = first & 0x0F, "list"
        elif first <= 0xBF:
            size, kind = first & 0x1F, "string"
        elif first in _FIXED:
            size = _FIXED[first]
        elif first in _FIXED_EXTENSION:
            size, kind = _FIXED_EXTENSION[first], "extension"
        elif first in _SIZED:
            field, kind = _SIZED[first]
            if at + field > end:
                return start, f"the data ends within the size of a {kind}"
            size = int.from_bytes(bytes_[at : at + field], "big")
            at += field
        else:
            return start, f"0x{first:02x} begins no value"
        if kind in ("list", "map"):
            count = 2 * size if kind == "map" else size
            if count > end - at:
                return start, f"a {kind} of {size} in the {end - at} bytes that are left"
            pending.append(count)
            if len(pending) > _CONTAINERS_MAX:
                return start, f"more than {_CONTAINERS_MAX} lists and maps within each other"
            continue
        if kind == "extension":
            at += 1
        if at + size > end:
            return start, f"a {kind} of {size} bytes in the {max(end - at, 0)} that are left"
        if kind == "string":
            try:
                bytes_[at : at + size].decode("utf-8")
            except UnicodeDecodeError as error:
                return at + error.start, "a string that is not UTF-8"
        at += size
    return (at, f"{end - at} bytes after the end") if at < end else None
