"""Subscribers of the kind `topics`: the times and the churn of `subscribe`, and filters over a tree of topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from brokers.contract import Floats, Ints, Kind, Rates, SourceContext
from brokers.errors import InvalidInput
from brokers.workloads.common import Parameters, WholeRange
from protocols.content.subscribe import ChurnParameters, Subscribe, rates_over_time
from protocols.topics.kind import (
    AS_PUBLISHED,
    FILTER_AT,
    FLAGS_AT,
    GROUP_AT,
    IF_NEW,
    NEVER_KEPT,
    NO_LOCAL,
    SUBSCRIBE,
    Topics,
)
from protocols.topics.matching import Filters
from protocols.topics.tree import USUALLY_WILD, FilterParameters, Tree
from topology.draws import uniform_each
from topology.units import Duration

NUMBER_MAX = 1_000_000
_GROUP_DRAW = 1 << 40  # of a client's stream: behind all of its subscriptions
_HANDLINGS = {"always": 0, "if-new": IF_NEW, "never": NEVER_KEPT}
_SAMPLE = 512  # names and subscriptions that stand for all


class TopicSubscribeParameters(FilterParameters):
    """What each client asks for, and when."""

    number: WholeRange = Field((1, 1), description="subscriptions of each client")
    start: Duration = Field(0, description="when the first subscriptions are issued")
    ramp: Duration = Field(0, description="over how long they are issued")
    churn: ChurnParameters | None = None
    filter: str | None = Field(None, description="one filter that all ask for, in place of some over the tree")
    groups: int = Field(
        0, ge=0, le=100_000, description="into how many groups clients are dealt out, each into one; 0: into none"
    )
    no_local: bool = Field(False, description="ask for nothing that they publish themselves")
    retained: Literal["always", "if-new", "never"] = Field(
        "always", description="when subscriptions ask for what is retained, of a service that keeps it"
    )
    as_published: bool = Field(False, description="ask that live copies say whether they are retained, too")

    @model_validator(mode="after")
    def _not_too_many(self) -> TopicSubscribeParameters:
        if self.number[1] > NUMBER_MAX:
            raise ValueError(f"`number` is at most {NUMBER_MAX:,} subscriptions per client (got {self.number[1]})")
        return self

    @classmethod
    def of(cls, params: Mapping[str, Any], service_params: Mapping[str, Any]) -> TopicSubscribeParameters:
        """As they are meant in a service: of one that knows no wildcards nobody asks for any."""
        asked = cls.model_validate(dict(params))
        usual = USUALLY_WILD if service_params.get("wildcards", True) else 0.0
        return asked.model_copy(update={"wildcards": usual}) if asked.wildcards is None else asked

    def misfits(self, service_params: Mapping[str, Any]) -> list[tuple[str, str]]:
        found = [] if self.filter is not None else super().misfits(service_params)
        if self.wildcards and not service_params.get("wildcards", True):
            found.append(("wildcards", "the service has names only, by its `wildcards: false`; say 0, or leave it out"))
        if self.groups and not service_params.get("groups"):
            found.append(("groups", "the service has no groups, unless it says `groups: true`"))
        if self.no_local and not service_params.get("no_local"):
            found.append(("no_local", "the service does not know it, unless it says `no_local: true`"))
        if (self.as_published or self.retained != "always") and not service_params.get("retained"):
            key = "as_published" if self.as_published else "retained"
            found.append((key, "the service keeps nothing, unless it says `retained: true`"))
        if self.no_local and self.groups:
            found.append(("no_local", "subscriptions of groups have no no-local; leave out one of the two"))
        try:
            if self.filter is not None:
                Topics(service_params).words_read(SUBSCRIBE, self.filter)
        except InvalidInput as error:
            found.append(("filter", str(error)))
        return found


class TopicSubscribe(Subscribe):
    """Subscriptions to names of a tree of topics, with wildcards in a share of them."""

    Params: ClassVar[type[Parameters]] = TopicSubscribeParameters

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        asked = TopicSubscribeParameters.of(params, context.service_params)
        times = {name: params[name] for name in ("number", "start", "ramp", "churn") if name in params}
        if misfits := asked.misfits(context.service_params):
            raise InvalidInput("\n".join(f"{path}: {problem}" for path, problem in misfits))
        super().__init__(times, replace(context, service_params={"attributes": 1}))
        self._asked = _Asked(asked, Topics(context.service_params))

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        asked = TopicSubscribeParameters.of(params, context.service_params)
        share, covered = _shares(asked, Topics(context.service_params))
        return replace(rates_over_time(asked, context), share=share, covered=covered)

    @classmethod
    def words(cls, params: Mapping[str, Any], kind: Kind) -> Mapping[int, set[str]]:
        """The words of the filter that is written down."""
        return kind.words_read(SUBSCRIBE, params["filter"]) if params.get("filter") is not None else {}

    def _rows(self, keys: NDArray[np.uint64], who: Ints, number: Ints) -> Floats:
        return self._asked.rows(keys[who], number)


class _Asked:
    """Draws subscriptions."""

    def __init__(self, params: TopicSubscribeParameters, kind: Topics) -> None:
        self._tree, self._groups = Tree(params), params.groups
        self._flags = _HANDLINGS[params.retained] + NO_LOCAL * params.no_local + AS_PUBLISHED * params.as_published
        self._written = None if params.filter is None else kind.read(SUBSCRIBE, params.filter)

    def rows(self, keys: NDArray[np.uint64], number: Ints) -> Floats:
        """Subscription `number[i]` of the client whose stream is `keys[i]`."""
        if self._written is not None:
            found = np.tile(self._written, (keys.size, 1))
        else:
            levels = self._tree.filters(keys, number)
            found = np.pad(levels, ((0, 0), (FILTER_AT, 0)))
        found[:, FLAGS_AT] = self._flags
        if self._groups:
            dealt = uniform_each(keys, np.full(keys.size, _GROUP_DRAW))
            found[:, GROUP_AT] = 1.0 + np.floor(dealt * self._groups)
        return found


def _shares(params: TopicSubscribeParameters, kind: Topics) -> tuple[float, float]:
    """(part of the publications that a subscription asks for, part of other subscriptions that cover it), of some.

    Publications are under the names of the same tree, which the one filter that may be written has or has not.
    """
    keys = np.arange(1, _SAMPLE + 1, dtype=np.uint64)
    numbers = np.arange(_SAMPLE)
    names, filters = Tree(params).names(keys, numbers), _Asked(params, kind).rows(keys, numbers + _SAMPLE)
    met, _ = Filters(kind.interests, kind.syntax.dollar_rule).pairs(names, filters)
    asked = kind.ranges(filters).reshape(len(filters), -1, 3)
    nothing = np.isnan(asked[:, :, 0])
    low, high = np.where(nothing, -np.inf, asked[:, :, 1]), np.where(nothing, np.inf, asked[:, :, 2])
    covers = (low[:, None] <= low[None]) & (high[None] <= high[:, None])
    covered = np.count_nonzero(covers.all(axis=2)) - len(filters)  # each covers itself
    return met.size / (len(names) * len(filters)), covered / (len(filters) * (len(filters) - 1))
