"""Faults of a part of the map: of a region of the topology, or of all that lies around a place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from brokers.faults import Crash, Fault, WrongFault
from scenarios.faults.entry import Broker, Entry, Forgetting, OrForGood, all_between, cut_both
from topology.geography import great_circle_m

Coordinate = Annotated[float, Field(ge=-1e9, le=1e9)]


class OutageOf(Entry):
    """All brokers of a part of the map crash, or all links that begin or end there are cut."""

    class Params(OrForGood, Forgetting):
        region: Annotated[
            int | None, Field(ge=0, description="of this region, by number; for a topology that has regions")
        ] = None
        around: Annotated[Broker | None, Field(description="around this broker, by name or number")] = None
        place: Annotated[
            tuple[Coordinate, Coordinate] | None,
            Field(description="around this place: [longitude, latitude], or [x, y] where brokers lie on a plane"),
        ] = None
        radius: Annotated[
            float | None, Field(gt=0, le=1e9, description="how far around it, in kilometres, or in units of the plane")
        ] = None
        what: Annotated[Literal["crash", "cut"], Field(description="brokers crash, or their links are cut")] = "crash"

        @model_validator(mode="after")
        def _one_part(self) -> Any:
            given = [name for name in ("region", "around", "place") if getattr(self, name) is not None]
            if len(given) != 1:
                raise ValueError("say where in one way: `region`, `around` a broker, or around a `place`")
            if (self.radius is None) == (given != ["region"]):
                raise ValueError("`radius` goes with `around` and with `place`, and they need it")
            return self

    def schedule(self) -> Iterator[Fault]:
        begin, end = self.params.span
        inside = set(self._inside())
        if self.params.what == "crash":
            for broker in sorted(inside):
                yield Crash(broker, begin, end, self.params.left)
            return
        for link, a, b in all_between(self.context.overlay):
            if a in inside or b in inside:
                yield from cut_both(link, begin, end)

    def _inside(self) -> list[int]:
        overlay, p = self.context.overlay, self.params
        if p.region is not None:
            if overlay.region is None:
                raise WrongFault("the topology has no regions; `hierarchical` has", ("region",))
            count = int(overlay.region.max()) + 1
            if p.region >= count:
                raise WrongFault(f"there is no region {p.region}; there are 0 to {count - 1}", ("region",))
            return [int(b) for b in np.flatnonzero(overlay.region == p.region)]
        away = self._distances()
        found = [int(b) for b in np.flatnonzero(away <= p.radius)]
        if not found:
            near = int(np.nanargmin(away))
            told = f"no broker lies so near; the nearest, {overlay.names[near]}, is {away[near]:.4g} away"
            raise WrongFault(told, ("radius",))
        return found

    def _distances(self) -> Any:
        """How far each broker is from the place meant; NaN where nobody knows."""
        overlay, p = self.context.overlay, self.params
        position = overlay.position[: overlay.brokers]
        if np.isnan(position).any(axis=1).all():
            raise WrongFault("the brokers of this topology lie nowhere", ("around" if p.place is None else "place",))
        x, y = p.place if p.place is not None else position[self.context.broker(p.around, ("around",))]
        if np.isnan(x):
            raise WrongFault(f"broker {p.around!r} has no position", ("around",))
        if overlay.on_globe:
            here = np.full(len(position), x), np.full(len(position), y)
            return great_circle_m(*here, position[:, 0], position[:, 1]) / 1000.0
        return np.sqrt((position[:, 0] - x) ** 2 + (position[:, 1] - y) ** 2)
