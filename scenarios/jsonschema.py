"""JSON Schema (2020-12) of scenario files, put together from the same models that check them.

The fixed sections come from `schema`; what hangs on a name becomes `if the name is …, then these keys`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from brokers import names
from brokers.kinds import kinds_of
from scenarios import parameters
from scenarios.schema import ScenarioModel

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TARGET = {"type": "string", "pattern": "^[^:]+:[^:]+$"}
_COMMAND = {"type": "array", "minItems": 1, "items": {"type": "string", "minLength": 1}}
_PROGRAM = [
    {"type": "string", "pattern": "^exec:."},
    {"type": "object", "properties": {"exec": _COMMAND}, "required": ["exec"], "additionalProperties": False},
]


def json_schema() -> dict[str, Any]:
    """The schema as plain data."""
    schema = ScenarioModel.model_json_schema(mode="validation")
    schema = {"$schema": DIALECT, **schema, "title": "brokerlab scenario"}
    definitions = schema["$defs"]
    _branch(definitions, "TopologyHead", "kind", "topologies", parameters.topology_model)
    _branch(definitions, "Workload", "source", "workloads", lambda name: _params("workloads", name))
    _branch(definitions, "Attackers", "behaviour", "behaviours", lambda name: _params("behaviours", name))
    _branch(definitions, "FaultEntry", "fault", "faults", lambda name: _params("faults", name))
    _branch(definitions, "Connections", "kind", "connections", lambda name: _params("connections", name))
    _branch(definitions, "Mobility", "kind", "mobility", lambda name: _params("mobility", name))
    service = definitions["Service"]
    _branch(definitions, "Service", "kind", "kinds", lambda name: _params("kinds", name))
    rules = service["allOf"]
    for name in names.table("protocols"):
        protocol = names.find("protocols", name).object
        options = _inlined(parameters.params_model(protocol, "Options"), definitions)
        then = {"properties": {"kind": {"enum": list(kinds_of(protocol))}, "options": options}}
        rules.append({"if": _is("protocol", name), "then": then})
    questions = {name: entry.facts.get("question") for name, entry in names.table("indexes").items()}
    for name in names.table("kinds"):
        asked = names.find("kinds", name).object.manifest.question
        fitting = [index for index, question in questions.items() if question == asked]
        then = {"properties": {"index": {"anyOf": [{"enum": fitting}, _TARGET, {"type": "null"}]}}}
        rules.append({"if": _is("kind", name), "then": then})
    for key, group in (("protocol", "protocols"), ("index", "indexes")):
        service["properties"][key] |= {"examples": list(names.table(group))}
    protocol = service["properties"]["protocol"]
    del protocol["type"]
    protocol["anyOf"] = [{"enum": list(names.table("protocols"))}, _TARGET, *_PROGRAM]
    return schema


def _branch(
    definitions: dict[str, Any],
    section: str,
    key: str,
    group: str,
    model_of: Callable[[str], type[BaseModel]],
) -> None:
    """Give a section the keys of whatever its name stands for; a third party's may have any."""
    schema = definitions[section]
    known = names.table(group)
    schema["properties"][key]["anyOf"] = [{"enum": list(known)}, _TARGET]
    schema["allOf"] = schema.get("allOf", [])
    for name in known:
        inlined = _inlined(model_of(name), definitions)
        then = {
            "properties": inlined.get("properties", {}),
            "required": inlined.get("required", []),
            "propertyNames": {"enum": [*schema["properties"], *inlined.get("properties", {})]},
        }
        schema["allOf"].append({"if": _is(key, name), "then": then})


def _params(group: str, name: str) -> type[BaseModel]:
    return parameters.params_model(names.find(group, name).object)


def _is(key: str, name: str) -> dict[str, Any]:
    return {"properties": {key: {"const": name}}, "required": [key]}


def _inlined(model: type[BaseModel], definitions: dict[str, Any]) -> dict[str, Any]:
    """A model's schema, its own definitions moved to the common ones under names that cannot clash."""
    prefix = f"{model.__module__}.{model.__qualname__}."
    schema = model.model_json_schema(mode="validation", ref_template=f"#/$defs/{prefix}{{model}}")
    for name, definition in schema.pop("$defs", {}).items():
        definitions[prefix + name] = definition
    return schema
