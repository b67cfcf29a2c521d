"""From a topology's name and parameters to an overlay.

`parameters(kind)` is the schema: a pydantic model made from the generator's typed keywords. `build`
validates, runs the generator, repairs what it gave and puts the link model on it. A third party's generator
is handed over as a function, since names are resolved elsewhere; it may return any networkx graph.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import networkx as nx
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from topology.errors import TopologyError
from topology.linking import apply
from topology.links import Links
from topology.overlay import Overlay, did_you_mean
from topology.registry import TOPOLOGIES
from topology.repair import normalise

SUPPLIED = ("seed", "base")  # keywords that `build` gives to a generator that takes them


Generator = Callable[..., nx.Graph]


def generator(kind: str) -> Generator:
    """The function behind a built-in name."""
    if kind not in TOPOLOGIES:
        hint = did_you_mean(kind, list(TOPOLOGIES))
        if ":" in kind:
            hint = "; one of your own is handed over as a function: generator=..."
        raise TopologyError(f"there is no topology named {kind!r}{hint}")
    module_name, _, attribute = TOPOLOGIES[kind].target.partition(":")
    function: Generator = getattr(importlib.import_module(module_name), attribute)
    return function


def parameters(kind: str, function: Generator | None = None) -> type[BaseModel]:
    """The schema of a topology's parameters: one field per keyword, without those that `build` supplies."""
    return _parameters(kind, function or generator(kind))


@functools.lru_cache(maxsize=64)
def _parameters(kind: str, function: Generator) -> type[BaseModel]:
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception:  # annotations of third parties may name what is not there at run time
        hints = {}
    fields: dict[str, Any] = {}
    extra: typing.Literal["allow", "forbid"] = "forbid"
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = "allow"
        elif (
            parameter.kind in (parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD)
            and name not in SUPPLIED
        ):
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (hints.get(name, Any), default)
    return create_model(f"Topology_{kind}", __config__=ConfigDict(extra=extra), **fields)


def build(
    kind: str,
    params: Mapping[str, Any],
    links: Links,
    seed: int,
    base: str | None = None,
    generator: Generator | None = None,
) -> Overlay:
    """The overlay that a scenario describes.

    Parameters
    ----------
    kind : a name of `topology.registry`, or what `generator` is called
    params : the generator's parameters, without seed
    links : delays and the rest
    seed : the scenario's seed; names the topology's streams
    base : the folder from which relative paths start
    generator : the function, where `kind` is not a built-in name

    Raises
    ------
    TopologyError
        If anything about it cannot be.

    Examples
    --------
    >>> build("ring", {"nodes": 5}, Links(), seed=1).links
    5
    """
    return apply(graph_of(kind, params, seed, base, generator), links, seed)


def graph_of(
    kind: str, params: Mapping[str, Any], seed: int, base: str | None = None, function: Generator | None = None
) -> nx.Graph:
    """The repaired graph, before links get their delays."""
    where = f"topology {kind}"
    built_in = function is None
    function = function or generator(kind)
    try:
        checked = parameters(kind, function).model_validate(dict(params))
    except ValidationError as error:
        raise TopologyError("; ".join(_said(where, problem) for problem in error.errors())) from None
    given = {name: getattr(checked, name) for name in checked.model_fields_set}
    for name, value in (("seed", seed), ("base", base)):
        if name in inspect.signature(function).parameters:
            given[name] = value
    try:
        graph = function(**given)
    except nx.NetworkXException as error:
        raise TopologyError(f"{where}: {error}") from None
    except Exception as error:
        if built_in or isinstance(error, TopologyError):
            raise
        raise TopologyError(f"{where}: the function failed: {type(error).__name__}: {error}") from error
    if not isinstance(graph, nx.Graph):
        raise TopologyError(f"{where}: returned {type(graph).__name__}, not a networkx graph")
    return normalise(graph, where)


def _said(where: str, problem: Any) -> str:
    # pydantic names the branches of a union in the path; people wrote none of them
    branches = ("int", "str")
    written = (p for p in problem["loc"] if isinstance(p, int) or (p.isidentifier() and p not in branches))
    path = ".".join(str(part) for part in written)
    got = "" if problem["type"] == "missing" else f" (got {problem['input']!r:.80})"
    return f"{where}: {path}: {problem['msg']}{got}"
