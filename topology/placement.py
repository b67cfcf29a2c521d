"""What a scenario says of where clients are. `topology.placing` attaches them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, StrictInt, StrictStr, model_validator

from topology.sections import Count, Section


class UniformPlacement(Section):
    """Every broker equally likely."""

    kind: Literal["uniform"] = "uniform"


class EvenPlacement(Section):
    """One after the other over the brokers."""

    kind: Literal["even"] = "even"


class DegreePlacement(Section):
    """In proportion to the broker's number of links."""

    kind: Literal["degree"] = "degree"


class ZipfPlacement(Section):
    """A few brokers have most clients, in an order drawn from the seed."""

    kind: Literal["zipf"] = "zipf"
    exponent: Annotated[float, Field(ge=0, le=20)] = 1.0


class ExplicitPlacement(Section):
    """Named brokers: in turn, or as many on each as `counts` says."""

    kind: Literal["explicit"] = "explicit"
    brokers: Annotated[list[StrictStr | StrictInt], Field(min_length=1)]
    counts: list[Annotated[Count, Field(ge=0)]] | None = None

    @model_validator(mode="after")
    def _one_count_each(self) -> ExplicitPlacement:
        if self.counts is not None and len(self.counts) != len(self.brokers):
            raise ValueError(f"{len(self.brokers)} brokers need as many counts (got {len(self.counts)})")
        return self


def _placement_form(value: object) -> object:
    return {"kind": value} if isinstance(value, str) else value


AnyPlacement = UniformPlacement | EvenPlacement | DegreePlacement | ZipfPlacement | ExplicitPlacement
Placement = Annotated[
    Annotated[AnyPlacement, Field(discriminator="kind")],
    BeforeValidator(_placement_form, json_schema_input_type=Any),
]


PLACEMENTS = ("uniform", "degree", "zipf", "even", "explicit")
