"""Laws of attribute values: uniform, normal, Zipf, Pareto.

Every law turns one uniform share u into one value of the domain, so a common factor can tie the shares of
a message together (correlation) and leave each law as it is:

- uniform   over the domain
- normal    `mean`, `stdev` in units of the domain; what falls outside lies on the edge
- zipf      `values` equally spaced values, the r-th lowest with weight r ** -`exponent`
- pareto    heavy tail up from the low edge, size * `scale` * ((1 - u) ** (-1/`alpha`) - 1), cut at the edge
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from brokers.contract import Floats, Ints
from brokers.workloads.common import Domain, Parameters

_BELONGS_TO = {
    "mean": "normal",
    "stdev": "normal",
    "values": "zipf",
    "exponent": "zipf",
    "alpha": "pareto",
    "scale": "pareto",
}
_LAWS = ("uniform", "normal", "zipf", "pareto")


class Law(Parameters):
    """How values of an attribute are distributed: a name, or a name with its numbers."""

    distribution: Literal["uniform", "normal", "zipf", "pareto"] = "uniform"
    mean: float | None = Field(default=None, description="normal: centre; default the middle of the domain")
    stdev: float | None = Field(default=None, gt=0, description="normal: default a sixth of the domain")
    values: int | None = Field(default=None, ge=1, le=1_000_000, description="zipf: how many; default 100")
    exponent: float | None = Field(default=None, ge=0, le=20, description="zipf: default 1")
    alpha: float | None = Field(default=None, gt=0, le=1000, description="pareto: tail index; default 1.5")
    scale: float | None = Field(default=None, gt=0, description="pareto: share of the domain; default 0.1")

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"distribution": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _own_numbers_only(self) -> Law:
        for name, owner in _BELONGS_TO.items():
            if getattr(self, name) is not None and owner != self.distribution:
                raise ValueError(f"`{name}` belongs to {owner}, and this distribution is {self.distribution}")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [{"enum": list(_LAWS)}, handler(core)]}

    def numbers(self, low: float, high: float) -> tuple[int, float, float]:
        """The law's code for the kernels and its two numbers."""
        code = _LAWS.index(self.distribution)
        if self.distribution == "normal":
            mean = 0.5 * (low + high) if self.mean is None else self.mean
            return code, mean, (high - low) / 6.0 if self.stdev is None else self.stdev
        if self.distribution == "zipf":
            return code, float(self.values or 100), 1.0 if self.exponent is None else self.exponent
        if self.distribution == "pareto":
            return code, self.alpha or 1.5, self.scale or 0.1
        return code, 0.0, 0.0


@dataclass(frozen=True)
class LawTable:
    """The laws of all attributes, as the kernels take them."""

    law: Ints
    numbers: Floats
    table_at: Ints  # [attribute, 2]: where its cumulative Zipf weights lie in `tables`
    tables: Floats
    low: float
    high: float

    @property
    def arguments(self) -> tuple[Ints, Floats, Ints, Floats, float, float]:
        return self.law, self.numbers, self.table_at, self.tables, self.low, self.high


class ValueParameters(Parameters):
    """What sources of attribute values have in common."""

    domain: Domain = Field((0.0, 1.0), description="the values of every attribute lie in [low, high]")
    values: Law = Field(Law.model_validate("uniform"), description="distribution of each attribute")
    attributes: dict[int, Law] = Field({}, description="other distributions for some attributes, by number")

    def misfits(self, service_params: Mapping[str, Any]) -> list[tuple[str, str]]:
        count = service_params.get("attributes")
        if not isinstance(count, int) or count < 1:
            return [("attributes", f"the service must say how many `attributes` it has (got {count!r})")]
        if service_params.get("text"):
            message = "attributes of the service hold text, and this draws numbers; `replay` serves such a service"
            return [("source", message)]
        return [
            (f"attributes.{number}", f"the service has attributes 0 to {count - 1} (got {number})")
            for number in self.attributes
            if not 0 <= number < count
        ]

    def law_table(self, count: int) -> LawTable:
        """The laws of attributes 0 .. count-1."""
        from topology.draws import power_weights

        low, high = self.domain
        law = np.zeros(count, np.int64)
        numbers = np.zeros((count, 2), np.float64)
        table_at = np.zeros((count, 2), np.int64)
        tables: list[NDArray[np.float64]] = []
        places: dict[tuple[float, float], tuple[int, int]] = {}
        filled = 0
        for a in range(count):
            law[a], numbers[a, 0], numbers[a, 1] = self.attributes.get(a, self.values).numbers(low, high)
            if _LAWS[law[a]] != "zipf":
                continue
            shape = (numbers[a, 0], numbers[a, 1])
            if shape not in places:
                tables.append(power_weights(int(shape[0]), shape[1]))
                places[shape] = (filled, filled + tables[-1].size)
                filled += tables[-1].size
            table_at[a] = places[shape]
        joined = np.concatenate(tables) if tables else np.empty(0)
        return LawTable(law, numbers, table_at, joined, low, high)
