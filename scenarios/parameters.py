"""The models of the parameters that what has a name takes."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

from brokers.errors import InvalidInput
from brokers.names import find

_NOTHING = create_model("Nothing", __config__=ConfigDict(extra="forbid"))


def params_model(loaded: Any, attribute: str = "Params") -> type[BaseModel]:
    """The model of the parameters a class takes; one without parameters if it declares none."""
    model = getattr(loaded, attribute, None)
    if isinstance(model, type) and issubclass(model, BaseModel):
        return model
    return _NOTHING


def topology_model(name: str, generator: Any = None) -> type[BaseModel]:
    """The parameters of a topology, from the typed signature of its generator; by default that of a registered name."""
    from topology.build import parameters

    if generator is None:
        generator = find("topologies", name).object
    try:
        return parameters(name, generator)
    except Exception as error:  # a third party's signature
        raise InvalidInput(f"{name!r} is no topology generator: {error}") from error
