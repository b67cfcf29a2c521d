"""What a program says of itself, in its answer to the first frame."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from brokers.contract import NEVER, Guarantees
from brokers.errors import InvalidInput

VERSION = 1


class _Said(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Promises(_Said):
    """What it is audited on; the fields of `Guarantees`."""

    exact: bool = True
    no_duplicates: bool = True
    fifo_per_publisher: bool = True
    under_loss: bool = False
    under_faults: Literal["nothing", "recovers", "reliable"] = "nothing"
    recovers_ns: Annotated[int, Field(ge=0, le=NEVER)] = NEVER
    heals_loss: bool = False
    lets_go: bool = False
    only_wanted: bool = False


class Hello(_Said):
    """See the module."""

    hello: Literal[1]
    kind: str
    format: Literal["json", "msgpack"] = "json"  # of every later frame
    promises: Promises = Promises()
    trees_only: bool = False
    timer_min_ns: Annotated[int, Field(ge=1, le=NEVER)] = NEVER  # no timer is ever shorter; without it: none is set
    faults: bool = False  # whether it is told of links that go down and up, and of restarts
    drops_told_ns: Annotated[int, Field(ge=0, lt=NEVER)] = 0  # after what time it is told of what links drop; 0: never
    settled: bool = False  # whether it takes `stand`
    state: bool = False  # whether it takes `state` and `load`
    state_version: Annotated[int, Field(ge=1, lt=2**31)] = 1
    describe: bool = False  # whether it takes `describe`

    @property
    def guarantees(self) -> Guarantees:
        """What it promises, in the words of the contract."""
        return Guarantees(**self.promises.model_dump())

    def as_data(self) -> dict[str, Any]:
        """Plain data from which `read` makes the same."""
        return {"hello": self.hello, **self.model_dump(mode="json", exclude_defaults=True)}


def read(said: Any) -> Hello:
    """What a program said of itself, or InvalidInput that names what is wrong in it."""
    if not isinstance(said, dict):
        raise InvalidInput(f"is no object but {said!r:.60}")
    try:
        return Hello.model_validate(said)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        told = {"extra_forbidden": "is not known", "missing": "is missing"}.get(first["type"], first["msg"].lower())
        raise InvalidInput(f"{where!r} {told}") from None
