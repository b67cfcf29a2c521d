"""Profiles of the kind `context`.

What each client asks for is drawn as `subscribe` does: a client has `number` profiles, issued over
the `ramp` or standing at time 0, and `churn` changes them. A range [low, high] that `subscribe` would draw becomes
an atom on the same attribute: with probability `bound` "within half the width of a context's value", else "within
half the width of the middle". The contexts are those that `context-updates` gives its clients; with `alternatives`
the atoms of a profile are dealt out to so many conjuncts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numba import njit
from pydantic import Field, model_validator

from brokers.contract import Emission, Floats, Ints, Rates, SourceContext
from brokers.indexes.context.contract import OPERATORS
from brokers.workloads.common import Parameters
from protocols.content.subscribe import Subscribe, SubscribeParameters
from protocols.context.kind import ATOM, CONTEXTS_MAX
from topology.draws import stream_of, uniform
from topology.units import Fraction

_WITHIN = OPERATORS.index("~")


class ContextProfilesParameters(SubscribeParameters):
    """As of `subscribe`, and which contexts profiles name."""

    contexts: tuple[int, int] = Field(description="profiles name contexts numbered first to last; as their owners have")
    bound: Fraction = Field(1.0, description="probability that an atom is bound to a context's value")
    alternatives: int = Field(1, ge=1, le=100, description="conjuncts among which the atoms of a profile are dealt")

    @model_validator(mode="after")
    def _contexts_in_order(self) -> ContextProfilesParameters:
        first, last = self.contexts
        if not 0 <= first <= last:
            raise ValueError(f"`contexts` runs from first to last, both at least 0 (got {first} to {last})")
        if last >= CONTEXTS_MAX:
            raise ValueError(f"contexts have numbers below 2**45 (got {last})")
        return self


class ContextProfiles(Subscribe):
    """Profiles, rows of seven numbers per atom."""

    Params: ClassVar[type[Parameters]] = ContextProfilesParameters

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        self._bound = ContextProfilesParameters.model_validate(dict(params))
        base = {name: value for name, value in dict(params).items() if name in SubscribeParameters.model_fields}
        super().__init__(base, context)

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        p = ContextProfilesParameters.model_validate(dict(params))
        found = super().rates(params, context)
        assert found is not None
        atoms = np.arange(p.constraints[0], p.constraints[1] + 1)
        width = 0.5 * sum(p.width) / (p.domain[1] - p.domain[0])
        # What is asked for as far as somebody knows who is told no values.
        static = float(np.mean((p.bound + (1.0 - p.bound) * width) ** atoms))
        named = float(atoms.mean()) * p.bound * found.interests
        return replace(found, more={"profiles": found.changes, "static": static * found.interests, "names": named})

    def standing(self, clients: Ints) -> list[Emission]:
        return self._as_profiles(super().standing(clients))

    def _emit(self, until_ns: int) -> list[Emission]:
        return self._as_profiles(super()._emit(until_ns))

    def _as_profiles(self, emissions: list[Emission]) -> list[Emission]:
        from protocols.content import kind as content
        from protocols.context.kind import SUBSCRIBE, UNSUBSCRIBE

        for part in emissions:
            if part.rows is not None:
                part.rows = self._profiles(part.client, part.word, part.rows)
            part.type = {content.SUBSCRIBE: SUBSCRIBE, content.UNSUBSCRIBE: UNSUBSCRIBE}[part.type]
        return emissions

    def _profiles(self, client: Ints, ids: Ints, rows: Floats) -> Floats:
        p = self._bound
        triples = rows.reshape(len(rows), -1, 3)
        atoms = np.full((*triples.shape[:2], ATOM), np.nan)
        _bind(self._keys("contexts", client), ids & 0xFFFFFF, triples, p.contexts, p.bound, p.alternatives, atoms)
        order = np.argsort(np.nan_to_num(atoms[:, :, 0], nan=np.inf), axis=1, kind="stable")
        return np.take_along_axis(atoms, order[:, :, None], axis=1).reshape(len(rows), -1)


@njit(cache=True)
def _bind(keys, number, triples, contexts, bound, alternatives, out):
    """Atom j of profile i; what it is bound to is a function of (client, number of the profile, j)."""
    first, last = contexts
    for i in range(triples.shape[0]):
        key = stream_of(keys[i], number[i])
        dealt = 0
        for j in range(triples.shape[1]):
            attribute, low, high = triples[i, j, 0], triples[i, j, 1], triples[i, j, 2]
            if attribute != attribute:
                continue
            out[i, j, 0] = dealt % alternatives
            out[i, j, 1] = attribute
            out[i, j, 2] = _WITHIN
            if uniform(key, 2 * j) < bound:
                out[i, j, 3] = first + int(uniform(key, 2 * j + 1) * (last - first + 1))
                out[i, j, 4] = attribute
            else:
                out[i, j, 5] = 0.5 * (low + high)
            out[i, j, 6] = 0.5 * (high - low)
            dealt += 1
