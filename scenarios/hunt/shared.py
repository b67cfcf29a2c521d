"""What all brokers of a protocol have in common, seen before and after a run."""

from __future__ import annotations

import sys
from typing import Any

from brokers.contract import BrokerProtocol, ShardProtocol

_PLAIN = (dict, list, set, int, float, str, bytes, bytearray)


def shared_state(protocol: Any) -> dict[str, str]:
    """What brokers of a protocol have in common that can change: attributes of classes, variables of their modules."""
    found = {}
    for kind in protocol.__mro__:
        if kind in (BrokerProtocol, ShardProtocol, object) or kind.__module__.split(".")[0] in ("abc", "typing"):
            continue
        places = {f"{kind.__name__}.{name}": value for name, value in vars(kind).items()}
        module = sys.modules.get(kind.__module__)
        places |= {f"{kind.__module__}: {name}": value for name, value in vars(module).items()} if module else {}
        for name, value in places.items():
            if isinstance(value, _PLAIN) and not name.rpartition(".")[2].startswith("__") and "__" not in name[-4:]:
                found[name] = repr(value)[:20_000]
    return found
