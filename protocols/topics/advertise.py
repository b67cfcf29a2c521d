"""Publishers of the kind `topics` that say under which names they will publish: their advertisements, and how these
change.

As `topic-subscribe`, of filters that have the names of publications to come. Unless it says otherwise a client
advertises once, and all names. Advertisements are messages always: they never stand from the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from brokers.contract import Emission, Floats, Ints, Kind, Rates, SourceContext
from brokers.errors import InvalidInput
from brokers.indexes.topics.syntax import HASH
from brokers.words import PARAMETER
from brokers.workloads.common import Parameters, WholeRange
from protocols.content.subscribe import ChurnParameters, Subscribe, rates_over_time
from protocols.topics.kind import ADVERTISE, FILTER_AT, UNADVERTISE, Topics
from protocols.topics.matching import Filters
from protocols.topics.subscribe import NUMBER_MAX
from protocols.topics.tree import Tree, TreeParameters
from topology.units import Duration

_TRIED_MAX = 20_000_000  # names times filters that `validate` tries


class TopicAdvertiseParameters(TreeParameters):
    """What each client advertises, and when."""

    number: WholeRange = Field((1, 1), description="advertisements of each client")
    start: Duration = Field(0, description="when the first are issued")
    ramp: Duration = Field(0, description="over how long they are issued")
    churn: ChurnParameters | None = None
    beginning: int = Field(
        0, ge=0, le=127,
        description="how many words of a name of the tree an advertisement begins with, before the wildcard for all "
        "that is left; 0: of none, so that it has all names",
    )  # fmt: skip
    filter: str | None = Field(None, description="one filter that all advertise, in place of some over the tree")

    @model_validator(mode="after")
    def _one_of_both(self) -> TopicAdvertiseParameters:
        if self.number[1] > NUMBER_MAX:
            raise ValueError(f"`number` is at most {NUMBER_MAX:,} advertisements per client (got {self.number[1]})")
        if self.filter is not None and self.beginning:
            raise ValueError("`filter` says what all advertise, `beginning` how it is drawn; leave out one of the two")
        return self

    def misfits(self, service_params: Mapping[str, Any]) -> list[tuple[str, str]]:
        if self.filter is None:
            return super().misfits(service_params) if self.beginning else []
        try:
            Topics(service_params).words_read(ADVERTISE, self.filter)
        except InvalidInput as error:
            return [("filter", str(error))]
        return []

    def drawn(self, keys: NDArray[np.uint64], numbers: Ints) -> Floats:
        """Advertisement `numbers[i]` of the client whose stream is `keys[i]`, where no filter is written."""
        if not self.beginning:
            return np.tile([0.0, 0.0, HASH], (keys.size, 1))
        return self.begun(Tree(self).names(keys, numbers))

    def begun(self, names: Floats) -> Floats:
        """Names cut behind their beginnings; a word at least is left to the wildcard."""
        depth = np.count_nonzero(~np.isnan(names), axis=1)
        kept = np.minimum(self.beginning, depth - 1)
        place = np.arange(names.shape[1])
        levels = np.where(place < kept[:, None], names, np.where(place == kept[:, None], HASH, np.nan))
        return np.pad(levels, ((0, 0), (FILTER_AT, 0)))


class TopicAdvertise(Subscribe):
    """Advertisements of names of a tree of topics."""

    Params: ClassVar[type[Parameters]] = TopicAdvertiseParameters
    publishes: ClassVar[bool] = True  # so that there are trees that begin at its clients' brokers
    begins: ClassVar[int] = ADVERTISE
    ends: ClassVar[int] = UNADVERTISE

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        asked = TopicAdvertiseParameters.model_validate(dict(params))
        if misfits := asked.misfits(context.service_params):
            raise InvalidInput("\n".join(f"{path}: {problem}" for path, problem in misfits))
        times = {name: params[name] for name in ("number", "start", "ramp", "churn") if name in params}
        super().__init__(times, replace(context, settled=False, service_params={"attributes": 1}))
        self._asked = asked
        kind = Topics(context.service_params)
        self._written = None if asked.filter is None else kind.read(ADVERTISE, asked.filter)

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        asked = TopicAdvertiseParameters.model_validate(dict(params))
        found = rates_over_time(asked, replace(context, settled=False))
        return Rates(changes=found.changes, more={"adverts": found.interests})

    @classmethod
    def words(cls, params: Mapping[str, Any], kind: Kind) -> Mapping[int, set[str]]:
        """The words of the filter that is written down."""
        return kind.words_read(ADVERTISE, params["filter"]) if params.get("filter") is not None else {}

    def standing(self, clients: Ints) -> list[Emission]:
        return []

    def _rows(self, keys: NDArray[np.uint64], who: Ints, number: Ints) -> Floats:
        if self._written is not None:
            return np.tile(self._written, (who.size, 1))
        return self._asked.drawn(keys[who], number)


def misfits_of_adverts(params: Mapping[str, Any], workload: Sequence[Any]) -> list[tuple[str, str]]:
    """Who advertises where that means nothing, and who publishes what no advertisement of theirs can have."""
    found = []
    for i, source in enumerate(workload):
        if source.name == "topic-advertise" and not params.get("adverts"):
            found.append((f"workload.{i}.source", "the service does not heed advertisements; say `adverts: true`"))
        elif source.name == "topic-publish" and params.get("adverts"):
            wrong = _never_fits(params, source, [each for each in workload if each.group == source.group])
            found += [(f"workload.{i}.source", wrong)] if wrong else []
    return found


def _never_fits(params: Mapping[str, Any], publishes: Any, of_group: Sequence[Any]) -> str | None:
    """Why no name of a source can lie in an advertisement of its clients; None where one may, or trees are large."""
    if any(each.name not in ("topic-publish", "topic-advertise", "topic-subscribe") for each in of_group):
        return None  # scripts and files may advertise too
    sources = [each.params for each in of_group if each.name == "topic-advertise"]
    group = f"clients {publishes.group!r}"
    if not sources:
        return f"{group} never advertise, and the service says `adverts: true`; give them a source `topic-advertise`"
    adverts = [TopicAdvertiseParameters.model_validate(dict(each)) for each in sources]
    if any(each.filter is None and not each.beginning for each in adverts):
        return None  # all names
    if any(each.misfits(params) for each in adverts):
        return None  # told there
    tree = _tree_of(publishes.params)
    if any(tree.topics * (each.topics if each.filter is None else 1) > _TRIED_MAX for each in adverts):
        return None
    names = Tree(tree).topics(np.arange(tree.topics))
    if any(_fits(params, each, names) for each in adverts):
        return None
    told = ", ".join(each["filter"] or "parts of another tree" for each in sources)
    return f"none of the {len(names):,} names under which {group} publish is in what they advertise, {told}"


def _tree_of(params: Mapping[str, Any]) -> TreeParameters:
    return TreeParameters.model_validate({name: params[name] for name in TreeParameters.model_fields if name in params})


def _fits(params: Mapping[str, Any], asked: TopicAdvertiseParameters, names: Floats) -> bool:
    """Whether some name may lie in an advertisement."""
    kind = Topics(params)
    if asked.filter is not None:
        known = {attribute: sorted(found) for attribute, found in kind.words_read(ADVERTISE, asked.filter).items()}
        kind = Topics({**params, PARAMETER: known})
        filters = kind.read(ADVERTISE, asked.filter)[None, :]
    else:
        filters = np.unique(asked.begun(Tree(asked).topics(np.arange(asked.topics))), axis=0)
    row, _ = Filters(kind.wants(), kind.syntax.dollar_rule).pairs(names, filters)
    return bool(row.size)


__all__ = ["TopicAdvertise", "TopicAdvertiseParameters", "misfits_of_adverts"]
