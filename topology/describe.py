"""A few facts about an overlay, for the plan."""

from __future__ import annotations

from typing import Any

import numpy as np

from topology.overlay import Overlay, hops_from


def describe(overlay: Overlay) -> dict[str, Any]:
    """Facts as plain data.

    The diameter in hops is found by two sweeps, each from the broker farthest from the last: exact on trees,
    a lower bound elsewhere. O(n + E).
    """
    first = int(np.argmax(hops_from(overlay.adjacency, 0)))
    delay = np.sort(overlay.delay_ns)
    facts: dict[str, Any] = {
        "brokers": overlay.brokers,
        "links": overlay.links,
        "tree": overlay.is_tree,
        "diameter_hops_min": int(hops_from(overlay.adjacency, first).max()),
        "degree_max": int(overlay.degree.max()),
    }
    if overlay.links:
        facts |= {
            "delay_ns_min": int(delay[0]),
            "delay_ns_median": int(delay[(len(delay) - 1) // 2]),
            "delay_ns_max": int(delay[-1]),
        }
    return facts
