"""Which broker each client is attached to.

Rule. Client i of a group draws number i of the stream (seed, group), so adding clients moves none of the
others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from topology.errors import TopologyError
from topology.overlay import Overlay, broker_number, did_you_mean


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Uniform(_Model):
    """Every broker is equally likely."""

    kind: Literal["uniform"] = "uniform"


class ByDegree(_Model):
    """A broker is the likelier the more links it has."""

    kind: Literal["degree"] = "degree"


class Zipf(_Model):
    """Brokers in a random order; the one of rank r is likely in proportion to r ** -exponent."""

    kind: Literal["zipf"] = "zipf"
    exponent: Annotated[float, Field(ge=0, le=20)] = 1.0


class Even(_Model):
    """Client i at broker i modulo the number of brokers."""

    kind: Literal["even"] = "even"


class Explicit(_Model):
    """Brokers by name or number: a list, taken in turn and repeated, or a mapping to numbers of clients."""

    kind: Literal["explicit"] = "explicit"
    brokers: list[str | int] | dict[str | int, Annotated[int, Field(ge=0)]]


Placement = Annotated[Uniform | ByDegree | Zipf | Even | Explicit, Field(discriminator="kind")]
PLACEMENTS = ("uniform", "degree", "zipf", "even", "explicit")


def place(
    overlay: Overlay,
    count: int,
    how: Uniform | ByDegree | Zipf | Even | Explicit | str | Mapping[str, Any],
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
    if isinstance(chosen, Even):
        return (np.arange(count) % n).astype(np.int32)
    if isinstance(chosen, Explicit):
        return _explicit(overlay, count, chosen.brokers)
    from topology import draws

    u = draws.uniforms(draws.stream(seed, 0, f"topology/placement/{group}"), 0, count)
    if isinstance(chosen, Uniform) or (isinstance(chosen, ByDegree) and overlay.links == 0):
        return np.minimum((u * n).astype(np.int64), n - 1).astype(np.int32)
    if isinstance(chosen, ByDegree):
        ends = np.cumsum(overlay.degree.astype(np.float64))
        return np.searchsorted(ends / ends[-1], u, side="right").astype(np.int32)
    key = draws.stream(seed, 0, f"topology/placement/{group}/order")
    order = np.argsort(draws.uniforms(key, 0, n), kind="stable")
    rank = np.searchsorted(draws.power_weights(n, chosen.exponent), u, side="right")
    return order[np.minimum(rank, n - 1)].astype(np.int32)


def _placement(how: Any) -> Uniform | ByDegree | Zipf | Even | Explicit:
    if isinstance(how, _Model):
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


def _explicit(
    overlay: Overlay, count: int, brokers: list[str | int] | dict[str | int, int]
) -> NDArray[np.int32]:
    number_of = {name: b for b, name in enumerate(overlay.names)}
    listed = [broker_number(b, number_of, "placement") for b in brokers]
    if isinstance(brokers, dict):
        total = sum(brokers.values())
        if total != count:
            raise TopologyError(
                f"placement: the brokers' counts add up to {total}, there are {count} clients"
            )
        return np.repeat(np.array(listed, np.int32), list(brokers.values()))
    if not listed and count:
        raise TopologyError("placement: the list of brokers is empty")
    return np.resize(np.array(listed, np.int32), count)
