"""Subscribers of the kind `topics`: the times and the churn of `subscribe`, and filters over a tree of topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from brokers.contract import Floats, Ints, Rates, SourceContext
from brokers.errors import InvalidInput
from brokers.workloads.common import Parameters, WholeRange
from protocols.content.subscribe import ChurnParameters, Subscribe, rates_over_time
from protocols.topics.kind import FILTER_AT, NAME_AT, Topics
from protocols.topics.matching import Filters
from protocols.topics.tree import FilterParameters, Tree, drawn
from topology.units import Duration

_NUMBER_MAX = 1_000_000


class TopicSubscribeParameters(FilterParameters):
    """What each client asks for, and when."""

    number: WholeRange = Field((1, 1), description="subscriptions of each client")
    start: Duration = Field(0, description="when the first subscriptions are issued")
    ramp: Duration = Field(0, description="over how long they are issued")
    churn: ChurnParameters | None = None

    @model_validator(mode="after")
    def _not_too_many(self) -> TopicSubscribeParameters:
        if self.number[1] > _NUMBER_MAX:
            raise ValueError(f"`number` is at most {_NUMBER_MAX:,} subscriptions per client (got {self.number[1]})")
        return self


class TopicSubscribe(Subscribe):
    """Subscriptions to names of a tree of topics, with wildcards in a share of them."""

    Params: ClassVar[type[Parameters]] = TopicSubscribeParameters

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        asked = TopicSubscribeParameters.model_validate(dict(params))
        times = {name: params[name] for name in ("number", "start", "ramp", "churn") if name in params}
        if misfits := asked.misfits(context.service_params):
            raise InvalidInput("\n".join(f"{path}: {problem}" for path, problem in misfits))
        super().__init__(times, replace(context, service_params={"attributes": 1}))
        self._tree = Tree(asked)

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        asked = TopicSubscribeParameters.model_validate(dict(params))
        share, covered = _asked(asked, Topics(context.service_params))
        return replace(rates_over_time(asked, context), share=share, covered=covered)

    def _rows(self, keys: NDArray[np.uint64], who: Ints, number: Ints) -> Floats:
        return _subscriptions(self._tree.filters(keys[who], number))


def _subscriptions(levels: Floats) -> Floats:
    rows = np.zeros((len(levels), FILTER_AT + levels.shape[1]))
    rows[:, FILTER_AT:] = levels
    return rows


def _asked(params: FilterParameters, kind: Topics) -> tuple[float, float]:
    """(part of the publications that a subscription asks for, part of other subscriptions that cover it), of some."""
    names, levels = drawn(Tree(params))
    filters = _subscriptions(levels)
    named = np.pad(names, ((0, 0), (NAME_AT, 0)))
    met, _ = Filters(kind.interests, kind.syntax.dollar_rule).pairs(named, filters)
    asked = kind.ranges(filters).reshape(len(filters), -1, 3)
    nothing = np.isnan(asked[:, :, 0])
    low, high = np.where(nothing, -np.inf, asked[:, :, 1]), np.where(nothing, np.inf, asked[:, :, 2])
    covers = (low[:, None] <= low[None]) & (high[None] <= high[:, None])
    covered = np.count_nonzero(covers.all(axis=2)) - len(filters)  # each covers itself
    return met.size / (len(names) * len(filters)), covered / (len(filters) * (len(filters) - 1))
