"""From names to what they stand for, and to the models of their parameters.

Built-in names live in the registries of each package; `package.module:Name` may stand wherever a name
may. Only what a scenario names is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model

from brokers.errors import InvalidInput
from brokers.registry import Entry, entries, load
from scenarios.problems import did_you_mean

GROUPS = ("kinds", "protocols", "indexes", "topologies", "workloads")


def registry(group: str) -> dict[str, Entry]:
    """The names of one group, with what installed packages add."""
    table: Mapping[str, Any]
    if group in ("kinds", "protocols"):
        from protocols.registry import KINDS, PROTOCOLS

        table = KINDS if group == "kinds" else PROTOCOLS
    elif group == "indexes":
        from brokers.indexes.registry import INDEXES

        table = INDEXES
    elif group == "topologies":
        from topology.registry import TOPOLOGIES

        table = {name: Entry(each.target, each.prose) for name, each in TOPOLOGIES.items()}
    elif group == "workloads":
        from scenarios.workloads.registry import WORKLOADS

        table = WORKLOADS
    else:
        raise InvalidInput(f"no registry {group!r}; {did_you_mean(group, GROUPS)}")
    return entries(table, group)


def find(group: str, name: str, what: str) -> tuple[str, Any]:
    """(target, object) of a name; InvalidInput says what is wrong with it."""
    table = registry(group)
    if ":" not in name and name not in table:
        raise InvalidInput(f"no {what} named {name!r}; {did_you_mean(name, table)}")
    target = name if ":" in name else table[name].target
    try:
        return target, load(target)
    except InvalidInput:
        raise
    except (Exception, SystemExit) as error:  # whatever a third party's module does while it is imported
        raise InvalidInput(f"{target!r} cannot be imported: {type(error).__name__}: {error}") from error


def fact(group: str, name: str, key: str, loaded: Any, attribute: str) -> Any:
    """A fact from the registry, or for a third party's class its attribute."""
    entry = registry(group).get(name)
    if entry is not None and key in entry.facts:
        return entry.facts[key]
    return getattr(loaded, attribute, None)


def params_model(loaded: Any, attribute: str = "Params") -> type[BaseModel]:
    """The model of the parameters a class takes; one without parameters if it declares none."""
    model = getattr(loaded, attribute, None)
    if isinstance(model, type) and issubclass(model, BaseModel):
        return model
    return create_model("Nothing", __config__=ConfigDict(extra="forbid"))


def topology_model(kind: str) -> type[BaseModel]:
    """The parameters of a topology, from its generator's typed signature."""
    from topology.build import parameters

    try:
        return parameters(kind)
    except Exception as error:  # a third party's module or signature
        raise InvalidInput(f"{kind!r} is no topology generator: {error}") from error
