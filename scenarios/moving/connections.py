"""When clients are connected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from brokers.contract import NEVER
from scenarios.moving.movement import Connections, MovementContext, Parameters
from topology.units import Duration, Fraction, PositiveDuration


class Sessions(Connections):
    """On and off in turn, each client by itself."""

    class Params(Parameters):
        on: Annotated[PositiveDuration, Field(description="mean time connected")]
        off: Annotated[PositiveDuration, Field(description="mean time away")]
        times: Annotated[Literal["exponential", "constant"], Field(description="how both are drawn")] = "exponential"
        start: Annotated[Duration, Field(description="connected until then, and from then on for a drawn time")] = 0

    def __init__(self, params: Any, context: MovementContext) -> None:
        super().__init__(params, context)
        context.check_often(self.params.on + self.params.off, self.params.start, ("on",))

    def spans(self, client: int) -> Iterator[tuple[int, int]]:
        p, drawn = self.params, self.context.draws(client, "sessions")
        begin, end = 0, p.start
        if p.times == "constant":  # or all would come and go together
            end += drawn.below(p.on)
        while True:
            end += drawn.time(p.on, p.times)
            yield begin, end
            begin = end + drawn.time(p.off, p.times)
            if begin >= self.context.duration_ns:
                return
            end = begin


class Timetable(Connections):
    """All at the same times."""

    class Params(Parameters):
        online: Annotated[
            list[tuple[Duration, Duration]], Field(min_length=1, description="[from, to] of each time connected")
        ]

        @model_validator(mode="after")
        def _in_order(self) -> Timetable.Params:
            last = 0
            for i, (begin, end) in enumerate(self.online):
                if not last <= begin < end:
                    raise ValueError(f"`online` lists times in order, each from one to a later one; see number {i}")
                last = end
            return self

    def spans(self, client: int) -> Iterator[tuple[int, int]]:
        yield from self.params.online


class FlashCrowd(Connections):
    """Away, until something happens that everybody wants to see."""

    class Params(Parameters):
        at: Annotated[Duration, Field(description="when they come")]
        within: Annotated[Duration, Field(description="each at a drawn time so long after that")] = 0
        lasts: Annotated[
            PositiveDuration | None, Field(description="mean time that one stays; to the end unless given")
        ] = None
        times: Annotated[Literal["exponential", "constant"], Field(description="how it is drawn")] = "exponential"
        share: Annotated[Fraction, Field(description="how many of the group come; the others are always there")] = 1.0

    def spans(self, client: int) -> Iterator[tuple[int, int]]:
        p, drawn = self.params, self.context.draws(client, "flash crowd")
        if drawn.share() >= p.share:
            yield 0, NEVER
            return
        begin = p.at + drawn.below(p.within + 1)
        yield begin, NEVER if p.lasts is None else begin + drawn.time(p.lasts, p.times)
