"""What is tried: a rehearsal, a protocol and a schedule of any faults that are registered, drawn by seed and number.

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
from brokers.faults import Fault, FaultContext, Schedule, WrongFault
from brokers.kinds import manifests
from protocols.conformance import REHEARSALS, Dice, rehearse
from scenarios.faults.entry import amiss
from topology.latent import with_latent
from topology.links import Latent

_ENTRIES_MOST = 4
_TRIES = 30  # to draw an entry that goes with the network
_PUBLICATIONS = 50
_CLIENTS = 8
_REGIONS = 3
_LATENT_IN = 4  # one network in so many has latent links, which a fault may open
_SCALE = 1 << 30


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
    model = rehearse(rehearsal, protocol, seed=1 + dice.below(_SCALE), clients=_CLIENTS)
    overlay = _mapped(model.overlay, dice)
    if dice.below(_LATENT_IN) == 0:
        overlay = with_latent(overlay, Latent(hops=2))
    model = replace(model, overlay=overlay)
    entries, faults = _schedule(model, dice)
    detect = _one_of(dice, (NEVER, NEVER, 1 + dice.below(model.duration_ns // 10)))
    model = replace(model, faults=Schedule(tuple(faults), detect))
    return Trial(seed, number, protocol, model, tuple(entries), dice)


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


def _schedule(model: Model, dice: Dice) -> tuple[list[tuple[str, dict[str, Any]]], list[Fault]]:
    entries: list[tuple[str, dict[str, Any]]] = []
    faults: list[Fault] = []
    for number in range(1 + dice.below(_ENTRIES_MOST)):
        name = _one_of(dice, sorted(names.table("faults")))
        params, made = _entry(name, model, number, dice)
        if made is not None:
            entries.append((name, params))
            faults += [fault._replace(entry=number) for fault in made]
    return entries, faults


def _entry(name: str, model: Model, number: int, dice: Dice) -> tuple[dict[str, Any], list[Fault] | None]:
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
    "lasts": _brief, "down": _brief, "up": _brief, "every": _brief, "after": _brief, "delay": _brief,
    "region": lambda model, dice: dice.below(_REGIONS), "around": lambda model, dice: dice.below(model.overlay.brokers),
    "place": lambda model, dice: (_share(dice), _share(dice)), "radius": lambda model, dice: _share(dice) / 2,
    "brokers": _brokers, "sets": _sets, "link": _link, "at_once": _few, "most": _few, "loss": _loss,
    "twice": lambda model, dice: _share(dice) / 3,
    "share": lambda model, dice: _share(dice), "chance": lambda model, dice: _share(dice),
    "rate": lambda model, dice: 1 + 40 * _share(dice),
    "factor": lambda model, dice: 1 + 9 * _share(dice), "slower": lambda model, dice: 1 + 9 * _share(dice),
}  # fmt: skip
