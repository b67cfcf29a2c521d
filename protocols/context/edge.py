"""context-edge: publications are routed on the static part of profiles; homes know the values, and decide.

An update travels from its owner to the homes of the profiles that name the value, and nowhere else. Elsewhere
nothing is known of values: an atom that names one may hold.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import BaseModel

from brokers.contract import Floats
from protocols.context.common import ContextBroker, Options
from protocols.context.known import EDGE
from protocols.context.sieve import everything
from protocols.context.view import ContextView


class PlainEdge(ContextBroker):
    """See the module; one broker at a time."""

    remade: ClassVar[tuple[str, ...]] = ("nothing_known",)
    values_known = False

    def __init__(self, node: Any) -> None:
        super().__init__(node)
        self.nothing_known = everything(len(self.newest))

    def load(self, state: dict[str, Any]) -> None:
        super().load(state)
        self.nothing_known = everything(len(self.newest))

    def wants(self, key: int, place: int) -> bool:
        return self.leads(key, place)

    def known(self) -> Floats:
        return self.nothing_known

    def _grow(self) -> None:
        super()._grow()
        self.nothing_known = np.concatenate([self.nothing_known, self.nothing_known])


class Edge(ContextView):
    """See the module; all brokers of a shard at once."""

    Options: ClassVar[type[BaseModel] | None] = Options
    plain = PlainEdge
    rule = EDGE
