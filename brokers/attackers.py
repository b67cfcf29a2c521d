"""Brokers that do something else than their protocol says: which they are, and what their class is given.

A *behaviour* is a class derived from the author's form of a protocol. It overrides what it does otherwise, and takes,
beside its node, its parameters, which its pydantic model `Params` checks. All else an attacker does as others do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokers import names
from brokers.schema import Column, Table

TABLES = {
    "attackers": Table(
        "Brokers that do something else than the protocol of a service says.",
        "summary",
        (
            Column("service", "int16", "number of the service in the scenario"),
            Column("broker", "int32", "the broker"),
            Column("entry", "int16", "number of the entry in `attackers` of the service, from 1"),
            Column("behaviour", "string", "what it does, by the name of that"),
        ),
    )
}


@dataclass(frozen=True)
class AttackSpec:
    """An entry of `attackers` of a service."""

    name: str
    target: str  # "module:Class"
    params: dict[str, Any] = field(default_factory=dict)
    brokers: tuple[int, ...] = ()

    def made(self) -> Any:
        """What makes such a broker of its node."""
        behaviour = names.load_as("behaviours", self.target)
        return partial(behaviour, attack=behaviour.Params(**self.params))


def classes(attackers: Sequence[AttackSpec], brokers: int) -> NDArray[np.int16]:
    """By broker the number of its entry, from 1; 0 of those that do what their protocol says."""
    found = np.zeros(brokers, np.int16)
    for entry, each in enumerate(attackers, 1):
        found[list(each.brokers)] = entry
    return found


def columns(services: Sequence[Sequence[AttackSpec]]) -> dict[str, Any]:
    """The rows of the table `attackers`, of the entries of each service."""
    rows = [
        (service, broker, entry, each.name)
        for service, attackers in enumerate(services)
        for entry, each in enumerate(attackers, 1)
        for broker in each.brokers
    ]
    service, broker, entry, name = zip(*rows) if rows else ((), (), (), ())
    return {
        "service": np.array(service, np.int16), "broker": np.array(broker, np.int32),
        "entry": np.array(entry, np.int16), "behaviour": np.array(name, object),
    }  # fmt: skip
