"""Which broker each client is attached to.

Rule. Client i of a group draws number i of the stream (seed, group), so adding clients moves none of the
others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from topology.errors import TopologyError
from topology.overlay import Overlay, broker_number, did_you_mean
from topology.placement import (
    PLACEMENTS,
    AnyPlacement,
    DegreePlacement,
    EvenPlacement,
    ExplicitPlacement,
    Placement,
    UniformPlacement,
)
from topology.sections import Section


def place(
    overlay: Overlay,
    count: int,
    how: AnyPlacement | str | Mapping[str, Any],
    seed: int,
    group: str | int = 0,
) -> NDArray[np.int32]:
    """The broker of each of `count` clients.

    Parameters
    ----------
    overlay : the network
    count : number of clients
    how : a placement, its name, or its fields as a mapping
    seed : the scenario's seed
    group : names the stream, so that groups of clients are placed independently

    Raises
    ------
    TopologyError
        If the placement is unknown, or names a broker that does not exist, or its counts do not add up.
    """
    if count < 0:
        raise TopologyError(f"placement: the number of clients is {count}")
    chosen = _placement(how)
    n = overlay.brokers
    if isinstance(chosen, EvenPlacement):
        return (np.arange(count) % n).astype(np.int32)
    if isinstance(chosen, ExplicitPlacement):
        return _explicit(overlay, count, chosen)
    from topology import draws

    u = draws.uniforms(draws.stream(seed, 0, f"topology/placement/{group}"), 0, count)
    if isinstance(chosen, UniformPlacement) or (isinstance(chosen, DegreePlacement) and overlay.links == 0):
        return np.minimum((u * n).astype(np.int64), n - 1).astype(np.int32)
    if isinstance(chosen, DegreePlacement):
        ends = np.cumsum(overlay.degree.astype(np.float64))
        return np.searchsorted(ends / ends[-1], u, side="right").astype(np.int32)
    key = draws.stream(seed, 0, f"topology/placement/{group}/order")
    order = np.argsort(draws.uniforms(key, 0, n), kind="stable")
    rank = np.searchsorted(draws.power_weights(n, chosen.exponent), u, side="right")
    return order[np.minimum(rank, n - 1)].astype(np.int32)


def _placement(how: Any) -> AnyPlacement:
    if isinstance(how, Section):
        return how  # type: ignore[return-value]
    if isinstance(how, str):
        if how not in PLACEMENTS:
            raise TopologyError(f"placement: there is no {how!r}{did_you_mean(how, PLACEMENTS)}")
        how = {"kind": how}
    try:
        return TypeAdapter(Placement).validate_python(how)
    except ValidationError as error:
        said = (f"{'.'.join(str(p) for p in problem['loc'])}: {problem['msg']}" for problem in error.errors())
        raise TopologyError(f"placement: {'; '.join(said)}") from None


def _explicit(overlay: Overlay, count: int, how: ExplicitPlacement) -> NDArray[np.int32]:
    number_of = {name: b for b, name in enumerate(overlay.names)}
    listed = [broker_number(b, number_of, "placement") for b in how.brokers]
    if how.counts is None:
        return np.resize(np.array(listed, np.int32), count)
    total = sum(how.counts)
    if total != count:
        raise TopologyError(f"placement: the brokers' counts add up to {total}, there are {count} clients")
    clients: dict[str | int, list[int]] = {}  # what is said of one broker in several places is said of it at once
    for broker, number, here in zip(how.brokers, listed, how.counts):
        clients.setdefault(broker, []).extend([number] * here)
    return np.array([number for each in clients.values() for number in each], np.int32)
