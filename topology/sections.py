"""What topologies, links and placements are described with: sections of a scenario, and counts in them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema


class Section(BaseModel):
    """A part of a scenario: nothing unknown in it, unchangeable once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _whole_number(value: object) -> object:
    """Accept 1e3 and "1e3" for a count, refuse true and 1.5."""
    if isinstance(value, bool):
        raise ValueError("must be a whole number")
    if isinstance(value, str) and re.fullmatch(r"\d{1,9}(\.\d{1,9})?[eE]\+?\d", value.strip()):
        value = float(value)
    if isinstance(value, float) and value == value and abs(value) < 2**53 and value == int(value):
        return int(value)
    return value


Count = Annotated[int, BeforeValidator(_whole_number), WithJsonSchema({"type": "number"})]
