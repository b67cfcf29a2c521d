"""Which form of a protocol runs, of those that it has: compiled, all brokers of a shard at once, or one by one.

What is told here of a model is what `Services` and `Course` do with it; `of_shard` is what they did.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from brokers.compiled import HANDLERS_MOST, handler_of
from brokers.contract import BrokerProtocol, ShardProtocol
from brokers.engine.adaptor import PlainAdaptor
from brokers.engine.model import Model, ServiceSpec, protocol_class, why_plain

COMPILED, SHARD, AUTHOR = "compiled", "shard's view", "author's view"


class Form(NamedTuple):
    """How the brokers of a service run."""

    name: str
    several: bool  # whether the protocol has another
    why: str = ""  # why not one that is quicker, where there is one

    def __str__(self) -> str:
        return f"{self.name}, since {self.why}" if self.why else self.name


def forms_of(model: Model) -> list[Form]:
    """By service. Rounds are compiled for all services or for none."""
    found = [_by_itself(spec, model) for spec in model.services]
    why = _what_keeps_rounds(found, model)
    return [each._replace(name=SHARD, why=why) if why and each.name == COMPILED else each for each in found]


def _by_itself(spec: ServiceSpec, model: Model) -> Form:
    """The form of a service, whatever there is beside it."""
    declared, taken = spec.protocol_class, protocol_class(spec)
    if issubclass(declared, BrokerProtocol):
        return Form(AUTHOR, False)
    several = declared.plain is not None or handler_of(declared) is not None
    if taken is not declared:
        return Form(AUTHOR, several, _asked_by(spec))
    options: Any = spec.options if declared.Options is None else declared.Options(**spec.options)
    if declared.plain is not None and (why := why_plain(declared, options, model)):
        return Form(AUTHOR, several, why)
    served = spec.server >= 0 and declared.server is not None
    return Form(SHARD if served or handler_of(declared) is None else COMPILED, several)


def _asked_by(spec: ServiceSpec) -> str:
    """What in a service asks for the author's view."""
    if spec.attackers:
        return "some of its brokers attack"
    return f"`view: {spec.view}` asks for it" if spec.view != "auto" else "`tables: own` asks for it"


def _what_keeps_rounds(found: Sequence[Form], model: Model) -> str:
    """What keeps rounds from being compiled where some service could be; empty if nothing does."""
    others = [spec.name for spec, form in zip(model.services, found) if form.name != COMPILED]
    if others:
        return f"{', '.join(others)} beside it cannot be compiled, and rounds are for all services or for none"
    if len(found) > HANDLERS_MOST:
        return f"at most {HANDLERS_MOST} services go into compiled rounds"
    if model.overlay.described is not None:
        return "rows of links between any two brokers are made in Python"
    return ""


def of_shard(protocol: ShardProtocol, in_rounds: bool) -> str:
    """The form of a protocol that was set up; `in_rounds`: whether its shard's rounds are compiled."""
    if isinstance(protocol, PlainAdaptor):
        return AUTHOR
    return COMPILED if in_rounds else SHARD


def told(model: Model, ran: Sequence[str]) -> dict[str, dict[str, str]]:
    """For the manifest, by service, what ran, and why not what is quicker."""
    return {
        spec.name: {"form": name, "why": form.why if form.name == name else ""}
        for spec, form, name in zip(model.services, forms_of(model), ran, strict=True)
    }
