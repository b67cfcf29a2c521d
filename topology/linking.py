"""What a link costs: from the section `links` of a scenario to figures for each link.

Rules. A link's delay is drawn once, from the stream named after its two ends, so that it does not depend on
any other link. It is an integer of at least one nanosecond. Jitter comes on top of it per message, so the
delay stays the lower bound.
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from topology.errors import TopologyError
from topology.geography import LIGHT_IN_FIBRE_M_PER_S, great_circle_m, travel_ns
from topology.links import (
    DELAY_NS_MAX,
    Bursts,
    ConstantDelay,
    GeographyDelay,
    Links,
    NormalDelay,
    RegionDelay,
    UniformDelay,
)
from topology.overlay import BURSTS, Overlay, broker_number
from topology.repair import counted


def apply(graph: nx.Graph, model: Links, seed: int) -> Overlay:
    """The overlay of a repaired graph (nodes 0..n-1) under a link model.

    Raises
    ------
    TopologyError
        If positions on a plane have no scale, or an override names a broker or link that does not exist.
    """
    n = len(graph)
    names = tuple(str(graph.nodes[b].get("name", f"b{b}")) for b in range(n))
    position = np.full((n, 2), np.nan)
    for b in range(n):
        if "position" in graph.nodes[b]:
            position[b] = graph.nodes[b]["position"]
    ends = np.array(sorted((min(a, b), max(a, b)) for a, b in graph.edges()), np.int64).reshape(-1, 2)
    link_a, link_b = ends[:, 0], ends[:, 1]
    notes = list(graph.graph.get("notes", ()))
    on_globe = graph.graph.get("coordinates") == "degrees"
    delay = delays_between(model.delay, link_a, link_b, position, on_globe, seed, notes)
    if model.regions:
        region = np.array([graph.nodes[b].get("region", -1) for b in range(n)], np.int64)
        for i, rule in enumerate(model.regions):
            mine = _links_of(rule, region, link_a, link_b, f"links: regions[{i}]")
            ends_of = link_a[mine], link_b[mine]
            delay[mine] = delays_between(rule.delay, *ends_of, position, on_globe, seed, notes)
    size = len(ends)
    jitter = np.full(size, model.jitter, np.int64)
    bandwidth = np.full(size, model.bandwidth, np.int64)
    loss, bursts = np.zeros(size), np.zeros((size, BURSTS))
    _set_loss(loss, bursts, slice(None), model.loss)
    number_of = {name: b for b, name in enumerate(names)}
    link_of = {(int(a), int(b)): e for e, (a, b) in enumerate(ends)} if model.overrides else {}
    for i, override in enumerate(model.overrides):
        where = f"links: overrides[{i}]: between"
        a, b = sorted(broker_number(end, number_of, where) for end in override.between)
        if (a, b) not in link_of:
            raise TopologyError(f"{where}: there is no link between {names[a]!r} and {names[b]!r}")
        e = link_of[a, b]
        for column, value in (
            (delay, override.delay),
            (jitter, override.jitter),
            (bandwidth, override.bandwidth),
        ):
            if value is not None:
                column[e] = value
        if override.loss is not None:
            _set_loss(loss, bursts, e, override.loss)
    return Overlay(
        names=names,
        position=position,
        link_a=link_a.astype(np.int32),
        link_b=link_b.astype(np.int32),
        delay_ns=delay,
        jitter_ns=jitter,
        bandwidth_bps=bandwidth,
        loss=loss,
        bursts=bursts if bursts.any() else None,
        region=_regions(graph),
        on_globe=on_globe,
        notes=tuple(notes),
    )


def _set_loss(loss: NDArray[np.float64], bursts: NDArray[np.float64], links: Any, said: float | Bursts) -> None:
    """What links lose in the long run, and in what bursts."""
    if isinstance(said, Bursts):
        loss[links], bursts[links] = said.mean, (said.begins, said.ends, said.good, said.bad)
    else:
        loss[links], bursts[links] = said, 0.0


def _regions(graph: nx.Graph) -> NDArray[np.int64] | None:
    """The region of each broker, where all have one."""
    found = [graph.nodes[b].get("region", -1) for b in range(len(graph))]
    return np.array(found, np.int64) if min(found) >= 0 else None


def _links_of(
    rule: RegionDelay, region: NDArray[np.int64], link_a: NDArray[np.int64], link_b: NDArray[np.int64], where: str
) -> NDArray[np.bool_]:
    """The links that a rule is about."""
    if (region < 0).any():
        raise TopologyError(f"{where}: the topology has no regions; `hierarchical` has")
    one, other = region[link_a], region[link_b]
    count = int(region.max()) + 1
    named = [rule.inside] if rule.between is None else list(rule.between)
    unknown = [number for number in named if isinstance(number, int) and number >= count]
    if unknown:
        raise TopologyError(f"{where}: there is no region {unknown[0]}; there are 0 to {count - 1}")
    if rule.between is None:
        return np.asarray((one == other) & (True if rule.inside == "all" else one == rule.inside), np.bool_)
    if rule.between == "all":
        return np.asarray(one != other, np.bool_)
    first, second = rule.between
    mine = (one == first) & (other == second) | (one == second) & (other == first)
    if first == second or not mine.any():
        raise TopologyError(f"{where}: no link runs between the regions {first} and {second}")
    return np.asarray(mine, np.bool_)


def delays_between(
    model: ConstantDelay | UniformDelay | NormalDelay | GeographyDelay,
    link_a: NDArray[np.int64],
    link_b: NDArray[np.int64],
    position: NDArray[np.float64],
    on_globe: bool,
    seed: int,
    notes: list[str],
) -> NDArray[np.int64]:
    """The delay of each link, by its ends."""
    if isinstance(model, ConstantDelay):
        return np.full(len(link_a), model.delay, np.int64)
    if isinstance(model, GeographyDelay):
        return _by_geography(model, position[link_a], position[link_b], on_globe, notes)
    from topology import draws

    keys = draws.streams(draws.purpose_key(seed, "topology/link-delay"), link_a << 32 | link_b)
    u = draws.uniform_each(keys, np.zeros(len(keys), np.int64))
    if isinstance(model, UniformDelay):
        span = model.high - model.low + 1
        return np.minimum(model.low + np.floor(u * span).astype(np.int64), model.high)
    return truncated_normal_ns(u, model)


def truncated_normal_ns(u: NDArray[np.float64], model: NormalDelay) -> NDArray[np.int64]:
    """The quantiles `u` of the truncated distribution, each within low..high whatever the mean."""
    from topology import draws

    if model.stdev == 0:
        return np.full(len(u), min(max(model.mean, model.low), model.high), np.int64)
    low = (model.low - model.mean) / model.stdev
    high = (model.high - model.mean) / model.stdev
    sign = 1.0
    if low > 0.0:  # the lower tail has the finer probabilities
        low, high, sign = -high, -low, -1.0
    bottom, top = _probability_below(low), _probability_below(high)
    along = u if sign > 0.0 else 1.0 - u
    drawn = np.array([draws.normal(p) for p in (bottom + along * (top - bottom)).tolist()], np.float64)
    z = sign * np.minimum(np.maximum(drawn, low), high)
    value = np.floor(model.mean + z * model.stdev + 0.5).astype(np.int64)
    return np.minimum(np.maximum(value, model.low), model.high)


def _probability_below(z: float) -> float:
    """The inverse of `draws.normal`, by halving: exact to its own precision, and the same everywhere."""
    from topology import draws

    if z > 8.2:  # beyond what a float below one can say
        return 1.0
    low, high = 0.0, 1.0
    if z < -8.0:  # halving from one would take too long to reach small probabilities
        high = 1e-15
        while high > 1e-300 and draws.normal(high) > z:
            high *= 0.0009765625
        high *= 1024.0
    for _ in range(200):
        middle = (low + high) / 2.0
        if draws.normal(middle) < z:
            low = middle
        else:
            high = middle
    return high


def _by_geography(
    model: GeographyDelay,
    place_a: NDArray[np.float64],
    place_b: NDArray[np.float64],
    on_globe: bool,
    notes: list[str],
) -> NDArray[np.int64]:
    unknown = np.isnan(place_a[:, 0]) | np.isnan(place_b[:, 0])
    a = np.where(unknown[:, None], 0.0, place_a)
    b = np.where(unknown[:, None], 0.0, place_b)
    if on_globe:
        metres = great_circle_m(a[:, 0], a[:, 1], b[:, 0], b[:, 1])
    elif unknown.all():
        metres = np.zeros(len(a))
    elif model.scale_km_per_unit is None:
        raise TopologyError(
            "links: delay: positions lie on a plane, so geography needs scale_km_per_unit "
            "(or, for a file whose x and y are longitude and latitude, coordinates: degrees)"
        )
    else:
        with np.errstate(over="ignore"):  # infinite is too far, which is refused below
            dx, dy = a[:, 0] - b[:, 0], a[:, 1] - b[:, 1]
            metres = np.sqrt(dx * dx + dy * dy) * (model.scale_km_per_unit * 1000.0)
    # compared before the conversion, so that a wild file's distances stay inside int64
    too_far = ~(metres <= DELAY_NS_MAX * 1e-9 * LIGHT_IN_FIBRE_M_PER_S)
    if too_far.any():
        raise TopologyError(
            f"links: delay: {counted(int(too_far.sum()), 'link')} would take longer than {DELAY_NS_MAX} ns; "
            "lower scale_km_per_unit"
        )
    together = ~unknown & (metres == 0.0)
    travel = travel_ns(metres)
    floored = ~unknown & ~together & (travel < model.delay_min)
    for mask, why in (
        (unknown, "with an end without a position"),
        (together, "between brokers at one place"),
        (floored, "shorter than it"),
    ):
        if mask.any():
            notes.append(f"{counted(int(mask.sum()), 'link')} {why} given delay_min, {model.delay_min} ns")
    return np.maximum(travel, model.delay_min)
