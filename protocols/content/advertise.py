"""Publishers of the kind `content` that say what they will publish: their advertisements, and how these change.

As `subscribe`, of boxes in which publications will lie. Unless it says otherwise, a client advertises once, and its box
is all of the `domain` in one attribute: what `publish` of the same domain says lies in it. Advertisements are messages
always: they never stand from the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import Field, model_validator

from brokers.contract import Emission, Ints, Rates, SourceContext
from brokers.workloads.common import Parameters, RealRange
from protocols.content.kind import ADVERTISE, UNADVERTISE
from protocols.content.subscribe import Subscribe, SubscribeParameters, rates_over_time


class AdvertiseParameters(SubscribeParameters):
    """What each client advertises, and when."""

    width: RealRange = Field(
        (0.0, 0.0), description="width of each constraint, in units of the domain; default: all of the domain"
    )

    @model_validator(mode="before")
    @classmethod
    def _as_wide_as_the_domain(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "width" in given:
            return given
        try:
            low, high = given.get("domain", (0.0, 1.0))
            return {**given, "width": float(high) - float(low)}
        except (TypeError, ValueError):
            return given  # the domain is wrong, and told so


class Advertise(Subscribe):
    """Advertisements, rows of [attribute, low, high] per constraint."""

    Params: ClassVar[type[Parameters]] = AdvertiseParameters
    publishes: ClassVar[bool] = True  # so that there are trees that begin at its clients' brokers
    begins: ClassVar[int] = ADVERTISE
    ends: ClassVar[int] = UNADVERTISE

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        checked = AdvertiseParameters.model_validate(dict(params))
        super().__init__(checked.model_dump(), replace(context, settled=False))

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        found = rates_over_time(AdvertiseParameters.model_validate(dict(params)), replace(context, settled=False))
        return Rates(changes=found.changes, more={"adverts": found.interests})

    def standing(self, clients: Ints) -> list[Emission]:
        return []


def misfits_of_adverts(advertised: bool, workload: Sequence[Any]) -> list[tuple[str, str]]:
    """Who advertises where that means nothing, and who publishes what no advertisement of theirs can hold."""
    found = []
    for i, source in enumerate(workload):
        if source.name == "advertise" and not advertised:
            found.append((f"workload.{i}.source", "the service does not heed advertisements; say `adverts: true`"))
        elif source.name == "publish" and advertised:
            of_group = [each for each in workload if each.group == source.group]
            wrong = _never_fits(source, of_group)
            found += [(f"workload.{i}.source", wrong)] if wrong else []
    return found


def _never_fits(publishes: Any, of_group: Sequence[Any]) -> str | None:
    """Why nothing that a source publishes can lie in an advertisement of its clients; None where it may."""
    if any(each.name not in ("publish", "advertise", "subscribe") for each in of_group):
        return None  # scripts and files may advertise too
    domains = [each.params["domain"] for each in of_group if each.name == "advertise"]
    group = f"clients {publishes.group!r}"
    if not domains:
        return f"{group} never advertise, and the service says `adverts: true`; give them a source `advertise`"
    low, high = publishes.params["domain"]
    if all(high < first or last < low for first, last in domains):
        told = ", ".join(f"{first:g} to {last:g}" for first, last in domains)
        return f"what {group} publish lies in {low:g} to {high:g}, and what they advertise in {told}: nothing will fit"
    return None


__all__ = ["Advertise", "AdvertiseParameters", "misfits_of_adverts"]
