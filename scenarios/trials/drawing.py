"""What is tried: a rehearsal, a protocol and what befalls it, drawn by seed and number.

That is a schedule of any faults that are registered, and in one trial of some each: links that may arise, queues and
links with limits, clients that come and go, with a session or without; and protocols that can are to recover.

Faults are drawn from the `Params` of their classes, field by field: choices as they are declared, everything else by
the name of the field (`_BY_NAME`). So a fault that somebody adds takes part, if its fields are called as those of the
others are; one that cannot be drawn is an error, not left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, get_args, get_origin

import numpy as np
from pydantic import ValidationError

from brokers import names
from brokers.contract import NEVER
from brokers.engine.model import Model
from brokers.faults import Fault, FaultContext, Open, Schedule, WrongFault
from brokers.kinds import manifests
from brokers.limits import WAYS, Limits
from brokers.stays import Stay, numbered
from protocols.conformance import REHEARSALS, Dice, rehearse
from protocols.rehearsing import options_of
from scenarios.faults.given import amiss
from topology.latent import with_latent
from topology.links import Latent

_ENTRIES_MOST = 4
_TRIES = 30  # to draw an entry that goes with the network
_PUBLICATIONS = 50
_CLIENTS = 8
_REGIONS = 3
_SOME = 4  # one trial in so many has latent links, limits, or clients that come and go
_CALM = 8  # a service that is to recover has so many times as long after its faults
_SCALE = 1 << 30
_MS = 1_000_000


@dataclass(frozen=True)
class Trial:
    """What is run."""

    seed: int
    number: int
    protocol: str
    model: Model
    entries: tuple[tuple[str, dict[str, Any]], ...]  # names of faults and their parameters
    ways: Dice  # draws that choose how it is run

    def __str__(self) -> str:
        faults = ", ".join(name for name, _ in self.entries) or "nothing"
        return f"trial {self.number} of seed {self.seed}: {self.protocol}, {self.model.name}, {faults}"


def draw(seed: int, number: int) -> Trial:
    """The trial of this number."""
    dice = Dice(seed, number, "trials")
    protocol = _one_of(dice, protocols())
    rehearsal = replace(_one_of(dice, REHEARSALS), publications=_PUBLICATIONS)
    options = _options(protocol, dice)
    until = rehearsal.duration_ns  # of the faults, unless they never end
    if options:
        rehearsal = replace(rehearsal, duration_ns=_CALM * until)
    model = rehearse(rehearsal, protocol, seed=1 + dice.below(_SCALE), clients=_CLIENTS, options=options)
    overlay = _fitting(model, _mapped(model.overlay, dice))
    if dice.below(_SOME) == 0 and not overlay.has_latent:
        overlay = with_latent(overlay, Latent(hops=2))
    model = replace(model, overlay=overlay)
    entries, faults = _schedule(replace(model, duration_ns=until), dice)
    detect = _one_of(dice, (NEVER, NEVER, 1 + dice.below(until // 10)))
    model = replace(model, faults=Schedule.made_of(faults, detect))
    if dice.below(_SOME) == 0:
        model = replace(model, limits=_limits(overlay, dice))
    if dice.below(_SOME) == 0:
        model = _wandering(model, dice)
    return Trial(seed, number, protocol, model, tuple(entries), dice)


def _options(protocol: str, dice: Dice) -> dict[str, Any]:
    """Of protocols that can recover, every other does."""
    made = getattr(names.find("protocols", protocol).object, "Options", None)
    if made is None or "recover" not in made.model_fields or dice.below(2):
        return {}
    asks = "check_every" in made.model_fields and dice.below(2)
    return {"recover": True, **({"check_every": (5 + dice.below(40)) * _MS} if asks else {})}


def _limits(overlay: Any, dice: Dice) -> Limits:
    """So many places at some of the brokers, or so much in front of links."""
    if dice.below(3) == 0:
        return Limits(messages=1 + dice.below(20))
    places = [1 + dice.below(20) if dice.below(2) else 0 for _ in range(overlay.brokers)]
    return Limits((*places, *[0] * (overlay.nodes - overlay.brokers)), dice.below(len(WAYS)))


def _wandering(model: Model, dice: Dice) -> Model:
    """Every other client goes from broker to broker, or comes back to the same."""
    hands_over = model.services[0].protocol_class.hands_over
    keep = _one_of(dice, (0, 1 + dice.below(model.duration_ns), NEVER // 2)) if hands_over else 0
    brief, stays = model.duration_ns // 4, []
    for client in range(_CLIENTS):
        at, begin = int(model.client_broker[client]), dice.below(brief) if dice.below(2) else 0
        while begin < model.duration_ns and client % 2 == 0:
            end = begin + 1 + dice.below(brief)
            stays.append(Stay(client, at, begin, end, keep, 1 + dice.below(30) if keep else NEVER))
            begin = end + dice.below(brief) if dice.below(4) else end
            at = dice.below(model.overlay.brokers) if dice.below(3) else at
    found, client_broker = numbered(stays, model.client_broker, model.duration_ns)
    return replace(model, stays=found, client_broker=client_broker)


@cache
def protocols() -> tuple[str, ...]:
    """All that are built in, kind by kind."""
    return tuple(name for kind in manifests() for name in kind.protocols)


def _one_of(dice: Dice, things: Sequence[Any]) -> Any:
    return things[dice.below(len(things))]


def _mapped(overlay: Any, dice: Dice) -> Any:
    """With brokers at drawn places of a unit square, in drawn regions."""
    position = overlay.position.copy()
    position[: overlay.brokers] = [[_share(dice), _share(dice)] for _ in range(overlay.brokers)]
    region = np.array([b if b < _REGIONS else dice.below(_REGIONS) for b in range(overlay.brokers)], np.int64)
    return replace(overlay, position=position, region=region)


def _fitting(model: Model, mapped: Any) -> Any:
    """The overlay with drawn regions, or with those that it had where the protocol takes none but these."""
    spec = model.services[0]
    fits = not spec.protocol_class.misfits(options_of(spec), mapped, spec.params)
    return mapped if fits else replace(mapped, region=model.overlay.region)


def _schedule(model: Model, dice: Dice) -> tuple[list[tuple[str, dict[str, Any]]], list[Fault | Open]]:
    entries: list[tuple[str, dict[str, Any]]] = []
    faults: list[Fault | Open] = []
    for number in range(1 + dice.below(_ENTRIES_MOST)):
        name = _one_of(dice, sorted(names.table("faults")))
        params, made = _entry(name, model, number, dice)
        if made is not None:
            entries.append((name, params))
            faults += [fault._replace(entry=number) for fault in made]
    return entries, faults


def _entry(name: str, model: Model, number: int, dice: Dice) -> tuple[dict[str, Any], list[Fault | Open] | None]:
    """Parameters of a fault and what they make; None where no draw went with this network."""
    made = names.find("faults", name).object
    context = FaultContext(model.seed, number, model.overlay, model.duration_ns)
    for _ in range(_TRIES):
        params = {
            field: _value(f"{name}.{field}", info.annotation, model, dice)
            for field, info in made.Params.model_fields.items()
            if info.is_required() or dice.below(2)
        }
        try:
            faults = list(made(params, context).schedule())
        except (ValidationError, WrongFault):
            continue
        if wrong := next(filter(None, (amiss(fault, model.overlay) for fault in faults)), None):
            raise ValueError(f"{name} with {params} {wrong}")
        return params, faults
    return {}, None


# ---- field by field ----------------------------------------------------------------------------------


def _value(where: str, annotation: Any, model: Model, dice: Dice) -> Any:
    if get_origin(annotation) is Literal:
        return _one_of(dice, get_args(annotation))
    if annotation is bool:
        return bool(dice.below(2))
    drawn = _BY_NAME.get(where.partition(".")[2])
    if drawn is None:
        raise ValueError(f"nobody knows how to draw {where}: give it a line in _BY_NAME of {__name__}")
    return drawn(model, dice)


def _share(dice: Dice) -> float:
    return dice.below(_SCALE) / _SCALE


def _time(model: Model, dice: Dice) -> int:
    return dice.below(model.duration_ns)


def _brief(model: Model, dice: Dice) -> int:
    """A duration: long, or as short as messages take."""
    return 1 + dice.below(model.duration_ns // _one_of(dice, (3, 10, 100)))


def _brokers(model: Model, dice: Dice) -> list[int]:
    return [dice.below(model.overlay.brokers) for _ in range(1 + dice.below(3))]


def _sets(model: Model, dice: Dice) -> list[list[int]]:
    side = [dice.below(3) for _ in range(model.overlay.brokers)]
    found = [[b for b, s in enumerate(side) if s == number] for number in (1, 2)]
    return [each for each in found if each]


def _link(model: Model, dice: Dice) -> tuple[int, int]:
    link = dice.below(model.overlay.links)
    ends = int(model.overlay.link_a[link]), int(model.overlay.link_b[link])
    return ends if dice.below(2) else ends[::-1]


def _loss(model: Model, dice: Dice) -> Any:
    if dice.below(2):
        return _share(dice) / 2
    return {"begins": 0.01 + _share(dice) / 4, "ends": 0.05 + _share(dice) / 2, "bad": 0.5 + _share(dice) / 2}


def _few(model: Model, dice: Dice) -> int:
    return 1 + dice.below(3)


_BY_NAME: dict[str, Callable[[Model, Dice], Any]] = {
    "at": _time, "begins": _time, "until": _time, "heal_by": _time,
    "among": lambda model, dice: sorted({0, *_brokers(model, dice), *_brokers(model, dice)}),
    "lasts": _brief, "down": _brief, "up": _brief, "every": _brief, "after": _brief, "delay": _brief,
    "region": lambda model, dice: dice.below(_REGIONS), "around": lambda model, dice: dice.below(model.overlay.brokers),
    "place": lambda model, dice: (_share(dice), _share(dice)), "radius": lambda model, dice: _share(dice) / 2,
    "brokers": _brokers, "sets": _sets, "link": _link, "at_once": _few, "most": _few, "loss": _loss,
    "twice": lambda model, dice: _share(dice) / 3,
    "share": lambda model, dice: _share(dice), "chance": lambda model, dice: _share(dice),
    "rate": lambda model, dice: 1 + 40 * _share(dice),
    "factor": lambda model, dice: 1 + 9 * _share(dice), "slower": lambda model, dice: 1 + 9 * _share(dice),
}  # fmt: skip
