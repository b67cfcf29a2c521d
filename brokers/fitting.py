"""What keeps an object from being what its name says: a function for each sort of names gives the words, or None."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from brokers.kinds import KindManifest
from brokers.metrics import Metric
from brokers.registry import load


def kind(loaded: Any) -> str | None:
    from brokers.contract import Kind

    misfit = _derives(loaded, Kind)
    if misfit is None and not isinstance(getattr(loaded, "manifest", None), KindManifest):
        return "has no manifest, a brokers.kinds.KindManifest"
    if misfit is None and loaded.name != loaded.manifest.name:
        return f"has the name {loaded.name!r}, and its manifest {loaded.manifest.name!r}"
    return misfit


def protocol(loaded: Any) -> str | None:
    from brokers.contract import BrokerProtocol, ShardProtocol

    return _derives(loaded, BrokerProtocol, ShardProtocol)


def behaviour(loaded: Any) -> str | None:
    from pydantic import BaseModel

    from brokers.contract import BrokerProtocol

    misfit = _derives(loaded, BrokerProtocol)
    params = getattr(loaded, "Params", None)
    if misfit is None and not (isinstance(params, type) and issubclass(params, BaseModel)):
        return "has no Params, a pydantic model"
    return misfit


def index(loaded: Any) -> str | None:
    question = str(getattr(loaded, "question", None))
    return _derives(loaded, load(_QUESTIONS.get(question, "brokers.indexes.contract:Index")))


_QUESTIONS = {  # each with its contract
    "content-match": "brokers.indexes.content.contract:ContentIndex",
    "ranked-match": "brokers.indexes.topk.contract:RankedIndex",
    "context-filter": "brokers.indexes.context.contract:ContextFilter",
    "reverse-topk": "brokers.indexes.spatial.contract:ReverseTopK",
    "topic-match": "brokers.indexes.topics.contract:TopicIndex",
}


def workload(loaded: Any) -> str | None:
    from pydantic import BaseModel

    params = getattr(loaded, "Params", None)
    if params is not None and not (isinstance(params, type) and issubclass(params, BaseModel)):
        return "has Params that are no pydantic model"
    return _has(loaded, "next_wake", "take")


def topology(loaded: Any) -> str | None:
    import networkx as nx

    if not inspect.isfunction(loaded):
        return f"is {_called(loaded)}, not a function written in Python"
    for parameter in inspect.signature(loaded).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            return f"takes {parameter.name!r} by position"
        supplied = parameter.kind is parameter.VAR_KEYWORD or parameter.name in ("seed", "base")
        if parameter.annotation is parameter.empty and not supplied:
            return f"has a parameter {parameter.name!r} without a type"
    returned = loaded.__annotations__.get("return")
    try:
        returned = typing.get_type_hints(loaded).get("return")
    except Exception:  # annotations of third parties may name what is not there at run time
        if isinstance(returned, str) and returned.endswith("Graph"):
            return None
    graph = isinstance(returned, type) and issubclass(returned, nx.Graph)
    return None if graph else "does not say that it returns a graph"


def fault(loaded: Any) -> str | None:
    return _has(loaded, "schedule")


def connections(loaded: Any) -> str | None:
    return _has(loaded, "spans")


def mobility(loaded: Any) -> str | None:
    return _has(loaded, "path")


def rule(loaded: Any) -> str | None:
    if _has(loaded, "decisions") is None or _has(loaded, "judge") is None:
        return None
    return "has neither decisions() nor judge()" if isinstance(loaded, type) else _has(loaded)


def explanation(loaded: Any) -> str | None:
    return _has(loaded, "answered") and _has(loaded, "due", "may_want")


def metric(loaded: Any) -> str | None:
    if not isinstance(loaded, Metric):
        return f"is {_called(loaded)}, not one"
    return None if loaded.measure else "names nothing that measures it"


def form(loaded: Any) -> str | None:
    from brokers.replaying import Form

    return _derives(loaded, Form)


def takes(count: int) -> Callable[[Any], str | None]:
    """What keeps an object from being a function of so many arguments."""

    def misfit(loaded: Any) -> str | None:
        if not inspect.isfunction(loaded):
            return f"is {_called(loaded)}, not a function written in Python"
        signature = inspect.signature(loaded)
        try:
            signature.bind(*range(count))
        except TypeError:
            return f"does not take {count} arguments"
        any_number = any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
        return "takes any number of arguments" if any_number else None

    return misfit


def measure(loaded: Any) -> str | None:
    misfit = takes(2)(loaded)
    if misfit is None and len(inspect.signature(loaded).parameters) != 2:
        return "takes more than tables and kind"
    return misfit


def _derives(loaded: Any, *bases: type) -> str | None:
    if not isinstance(loaded, type):
        return f"is {_called(loaded)}, not a class"
    if not issubclass(loaded, bases):
        return f"does not derive from {' or '.join(base.__name__ for base in bases)}"
    missing = sorted(getattr(loaded, "__abstractmethods__", ()))
    return f"does not define {', '.join(missing)}" if missing else None


def _has(loaded: Any, *methods: str) -> str | None:
    if not isinstance(loaded, type):
        return f"is {_called(loaded)}, not a class"
    missing = [name for name in methods if not callable(getattr(loaded, name, None))]
    return f"has no method {missing[0]}" if missing else None


def _called(loaded: Any) -> str:
    return f"the class {loaded.__name__}" if isinstance(loaded, type) else f"a {type(loaded).__name__}"
