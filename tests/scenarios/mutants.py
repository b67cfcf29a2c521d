"""Shipped scenarios made small, with some of their values exchanged for others."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from brokers import names
from scenarios import document, parameters
from scenarios.loader import shipped
from scenarios.schema import Service

# All five kinds, all of their sources, trees and cycles, lossy links.
NAMES = ("quickstart", "best-matches", "near-me", "nearest", "maps", "lossy", "side-by-side", "regions")
SMALLER = {"count": 6, "nodes": 9, "objects": 60, "region_size": 3, "regions": 4, "height": 2}
AT_ONCE = {"duration": "40 ms", "ramp": "5 ms", "start": "0 s", "drain": "20 ms"}

NUMBERS = (0, 1, -1, 2, 3, 7, 0.5, 1.5, -0.5, 1e-9, 90, 181, 1e200, 2**53, 2**63)
WORDS = (
    "", "1 s", "0 s", "1 ns", "3 ms", "-1 s", "200 d", "10/s", "0/s", "50 %", "settled", "messages", "sphere", "plane",
    "uniform", "zipf", "normal", "pareto", "bursts", "constant", "replace", "leave-and-join", "own", "shared", "run",
    "unicast", "channels", "identical", "receiver", "all", "none", "walk", "redraw", "per-publisher", "geography",
)  # fmt: skip
SHAPES = ([0, 1], [1, 0], [0.2, 0.2], [-180, 180], [[-90, 90], [-180, 180]], [1, 1e200], [], [0], {}, None, True)
EXTRA = {
    "services": {
        "index": ("part", "b-part", "materialised", "spatial-brute", "scan", "tama", "rein", "counting", "htree",
                  "topk-scan", "topk-trees", "topk-fagin", "context-brute", "context-agile", "context-eager"),
        "geometry": ("sphere", "plane"),
        "delta": (1, 1.5, 2, 0),
        "subscriptions": ("settled",),
        "tables": ("own",),
        "view": ("run", "message"),
    },
    "workload": {
        "domain": SHAPES,
        "values": ("zipf", "pareto", {"distribution": "zipf", "values": 3}, {"distribution": "normal", "mean": 1e200}),
        "attributes": ({0: "zipf"}, {99: "zipf"}),
        "limit": (0, 1, 2),
        "region": (0.1, 1e200, 0),
        "process": ("constant", "bursts"),
        "churn": (
            {"process": "replace", "rate": "10/s"},
            {"process": "leave-and-join", "stay": "3 ms", "away": "2 ms"},
        ),
        "lifetime": ("1 ms", "1 ns"),
    },
}  # fmt: skip


def small(name: str) -> dict[str, Any]:
    """A shipped scenario, cut down so that a run of it takes a moment."""
    path = shipped()[name]
    return _smaller(document.read(path.read_bytes(), name).data)


def _smaller(value: Any) -> Any:
    if isinstance(value, list):
        return [_smaller(each) for each in value]
    if not isinstance(value, dict):
        return value
    cut = {key: _smaller(each) for key, each in value.items()}
    for key in cut.keys() & SMALLER.keys():
        cut[key] = min(cut[key], SMALLER[key]) if isinstance(cut[key], int) else cut[key]
    cut |= {key: AT_ONCE[key] for key in cut.keys() & AT_ONCE.keys()}
    if cut.get("kind") == "explicit":
        return {"kind": "even"}
    return cut


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values that are no section and no list, and of all lists."""
    if isinstance(value, dict):
        return [found for key, each in value.items() for found in leaves(each, (*path, key))]
    if isinstance(value, list):
        inside = [found for i, each in enumerate(value) for found in leaves(each, (*path, i))]
        return [path, *inside] if path else inside
    return [path]


def _at(data: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        data = data[part]
    return data


def _alike(value: Any) -> tuple[Any, ...]:
    """Values that may stand for this one: mostly of its type."""
    if isinstance(value, list):
        return SHAPES
    return NUMBERS if isinstance(value, int | float) else WORDS


KEPT = ("source", "kind", "protocol", "name", "services", "workload", "clients", "nodes", "count", "title", "duration")


@st.composite
def mutants(draw: st.DrawFn) -> dict[str, Any]:
    """A small scenario with one to three changes."""
    data = small(draw(st.sampled_from(NAMES)))
    data |= {"duration": AT_ONCE["duration"], "drain": AT_ONCE["drain"]}
    for _ in range(draw(st.integers(1, 2))):
        if draw(st.booleans()):
            paths = [path for path in leaves(data) if path[-1] not in KEPT]
            path = draw(st.sampled_from(paths))
            value = draw(st.sampled_from(_alike(_at(data, path))))
        else:
            service = draw(st.integers(0, len(data["services"]) - 1))
            section = data["services"][service]
            path, extra, model, at = ("services", service), EXTRA["services"], "kinds", section
            if draw(st.booleans()):
                number = draw(st.integers(0, len(section["workload"]) - 1))
                path, extra, model = (*path, "workload", number), EXTRA["workload"], "workloads"
                at = section["workload"][number]
            known = parameters.params_model(names.find(model, at["source" if "source" in at else "kind"]).object)
            fields = {*known.model_fields, *(Service.model_fields if model == "kinds" else ())}
            fitting = sorted(fields & extra.keys())
            if not fitting:
                continue
            key = draw(st.sampled_from(fitting))
            path, value = (*path, key), draw(st.sampled_from(extra[key]))
        _at(data, path[:-1])[path[-1]] = value
    return data
