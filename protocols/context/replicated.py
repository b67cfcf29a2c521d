"""context-replicated: every broker that filters on a context gets its updates, and drops what no profile wants.

A broker filters if publications may come by: a broker with publishers lies behind it, or is it. So an update floods
the tree, but for branches without publishers and without homes of profiles that name the value. It has settled
when all have it; until then brokers may decide on the old value or on the new.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import BaseModel

from brokers.contract import Message
from protocols.context.common import ContextBroker, Options
from protocols.context.known import REPLICATED
from protocols.context.view import ContextView


class PlainReplicated(ContextBroker):
    """See the module; one broker at a time."""

    values_everywhere = True

    def wants(self, key: int, place: int) -> bool:
        return self.publishes[place] or self.leads(key, place)

    def stands(self, key: int, owner: int) -> bool:
        away = int(self.way[owner])
        publishers = self.way[self.node.env.publisher_brokers]
        return bool((publishers != away).any()) or super().stands(key, owner)

    def reset(self, message: Message, key: int) -> None:
        for place in self.onward(key):
            if self.publishes[place]:
                self.tell(message, place, key, known=(-np.inf, np.inf))


class Replicated(ContextView):
    """See the module; all brokers of a shard at once."""

    Options: ClassVar[type[BaseModel] | None] = Options
    plain = PlainReplicated
    rule = REPLICATED
