"""A protocol whose brokers live in a program: one process per shard, which is asked about a batch at a time.

Rules:
- The engine waits for each answer, so that a program is as deterministic as any protocol, or is found not to be.
- A class is made of a target (`spelling.py`) and starts nothing. The program is started when a shard is set up, asked
  again what it is, and ended by `close`, or when nobody holds the protocol any more.
- Whatever a program does wrong ends the run with a ProtocolFault that names it, the service, what it was asked about
  and what it said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, NoReturn

import msgpack
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_serializer

from brokers.columns import BadState, check_columns
from brokers.contract import FAULT, NEVER, Batch, Guarantees, Interests, Ints, ShardEnv, ShardProtocol
from brokers.errors import InvalidInput, ProtocolFault
from brokers.out import TYPE_MAX, Out
from brokers.programs import spelling
from brokers.programs.actions import Actions, Refused
from brokers.programs.events import Writer
from brokers.programs.hello import VERSION, Hello, read
from brokers.programs.process import Process, Trouble, readable
from topology.units import PositiveDuration, Size, format_duration

WITHIN_NS = 60_000_000_000
ANSWER_MAX = 64_000_000
_SHOWN, _ERROR = 200, 1000  # letters of an answer that are shown


class Options(BaseModel):
    """What a scenario may say under `options`: two for us, and whatever the program knows."""

    model_config = ConfigDict(extra="allow")

    answer_within: Annotated[PositiveDuration, Field(description="wall time a program has for an answer")] = WITHIN_NS
    answer_max: Annotated[Size, Field(ge=1, description="the largest answer of a program")] = ANSWER_MAX

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, dump: Any) -> dict[str, Any]:
        """Limits are told only where they are others."""
        usual = {"answer_within": WITHIN_NS, "answer_max": ANSWER_MAX}
        return {key: value for key, value in dump(self).items() if usual.get(key) != value}


class Program(ShardProtocol):
    """See the module. A class for each program derives from it."""

    Options: ClassVar[type[BaseModel] | None] = Options
    name: ClassVar[str]  # `exec:` and the command
    command: ClassVar[Sequence[str]]
    folder: ClassVar[str | None]  # where it is started
    hello: ClassVar[Hello]

    def __init__(self, env: ShardEnv) -> None:
        super().__init__(env)
        if env.server >= 0:
            raise InvalidInput(f"{self.name}: the kind {env.kind.name!r} has a server, which programs do not serve")
        self._within_s = env.options.answer_within / 1e9
        self._writer = Writer(env, packs=False)
        self._process: Process | None = None
        with self._blaming("when it was started"):
            self._process = Process(self.command, self.folder)
            self._greet(self._process)
        self._writer = Writer(env, self.hello.format == "msgpack", self.drops_told_ns > 0)
        self._actions = Actions(env, self.hello.timer_min_ns)
        self._timers = self._begin()

    # ---- what it is ----------------------------------------------------------------------------------

    @classmethod
    def misfits(cls, options: Any, overlay: Any, params: Mapping[str, Any]) -> list[tuple[str, str]]:
        if cls.hello.trees_only and not overlay.is_tree:
            return [("protocol", f"{cls.name} says that it is for trees only, and this network has cycles")]
        return []

    @property
    def timer_min_ns(self) -> int:
        return self.hello.timer_min_ns

    def first_timers(self) -> list[tuple[int, int, int, int]]:
        return self._timers

    def entries(self) -> Ints:
        return self._actions.entries.copy()

    def describe(self, broker: int) -> dict[str, Any]:
        known = super().describe(broker)
        if not self.hello.describe or not self.env.local[broker]:
            return known
        told = self._object(self._asked({"describe": broker}, "when it was asked to describe a broker"), "describe")
        return {**known, **told}

    # ---- a batch -------------------------------------------------------------------------------------

    def handle(self, batch: Batch, out: Out) -> None:
        answer = self._asked_bytes(self._writer.events(batch), lambda: self._about(batch))
        try:
            self._actions.carry_out(batch, out, answer.pop("actions", None))
            if answer:
                raise Refused(f"an answer to events has `actions` and nothing else, not {next(iter(answer))!r:.40}")
        except Refused as refused:
            self._fail(f"answered what cannot be: {refused}", self._about(batch, refused.event))

    def _about(self, batch: Batch, event: int = -1) -> str:
        """Which events of a batch something is about, in words."""
        if event < 0 and batch.size > 1:
            first, last = (self._place(batch, at) for at in (0, batch.size - 1))
            return f"when it was asked about {batch.size:,} events, from {first} to {last}"
        event = max(event, 0)
        return f"when it was asked about event {event}, {self._place(batch, event)}"

    def _place(self, batch: Batch, event: int) -> str:
        broker = int(batch.broker[event])
        what = "a fault" if batch.kind[event] == FAULT else f"type {batch.type[event]}"
        when = format_duration(int(batch.time[event]))
        return f"{what} at broker {self.env.overlay.names[broker]} ({broker}) at {when}"

    # ---- asking --------------------------------------------------------------------------------------

    def _greet(self, process: Process) -> None:
        """Ask it what it is, which has to be what it said when the scenario was loaded."""
        said = greeted(process, self._within_s)
        if said != self.hello:
            was, now = self.hello.as_data(), said.as_data()
            other = sorted(key for key in was.keys() | now.keys() if was.get(key) != now.get(key))
            raise Trouble(f"says other things of itself than when the scenario was loaded ({', '.join(other)})")
        process.prefixed = said.format == "msgpack"

    def _begin(self) -> list[tuple[int, int, int, int]]:
        """Tell it its brokers; returns the timers that it sets at the start."""
        env, links = self.env, self.env.links
        mine = {
            str(b): links.out_link[links.out_start[b] : links.out_start[b + 1]].tolist()
            for b in self._mine()
        }
        about = {
            "seed": env.seed, "service": env.service, "duration_ns": env.duration_ns, "options": self._options(),
            "params": env.kind.params, "types": dict(env.kind.types), "brokers": mine,
            "links": np.stack([links.source, links.target, links.delay_ns], axis=1).tolist(),
            "publishers": env.publisher_brokers.tolist(),
        }  # fmt: skip
        when = "when it was told its brokers"
        told = self._asked({"begin": about}, when).get("timers", [])
        try:
            return [self._first_timer(*timer) for timer in told]
        except (TypeError, Refused) as error:
            self._fail(f"answered with `timers` that are none: {error}", when)

    def _first_timer(self, broker: Any, delay_ns: Any, type_: Any, word: Any = 0) -> tuple[int, int, int, int]:
        whole = all(type(each) is int for each in (broker, delay_ns, type_, word))
        if not whole or not 0 <= broker < self.env.brokers or not self.env.local[broker]:
            raise Refused("each is a broker of its own, the delay in ns, a type, and perhaps a word")
        if not self.timer_min_ns <= delay_ns < NEVER or not 0 <= type_ <= TYPE_MAX or not abs(word) < 1 << 63:
            raise Refused(f"a delay of {delay_ns} ns, type {type_}, word {word}: the least delay is `timer_min_ns`")
        return broker, delay_ns, type_, word

    def _options(self) -> dict[str, Any]:
        return dict(self.env.options.model_extra or {})

    def _mine(self) -> list[int]:
        """The brokers of this shard."""
        mine: list[int] = np.flatnonzero(self.env.local[: self.env.overlay.brokers]).tolist()
        return mine

    def _asked(self, question: Mapping[str, Any], when: str) -> dict[str, Any]:
        return self._asked_bytes(self._writer.frame(question), lambda: when)

    def _asked_bytes(self, frame: bytes, when: Any) -> dict[str, Any]:
        """The answer to a frame, as an object."""
        process = self._process
        if process is None:
            raise ProtocolFault(f"{self.name} has been ended")
        try:
            answer = self._read(process.ask(frame, self._within_s, self.env.options.answer_max))
        except Trouble as trouble:
            self._fail(str(trouble), when())
        if "error" in answer:
            self._fail(f"says: {readable(str(answer['error'])[:_ERROR])}", when())
        return answer

    def _read(self, data: bytes) -> dict[str, Any]:
        answer: Any
        try:
            answer = msgpack.unpackb(data) if self.hello.format == "msgpack" else parsed(data)
        except Exception as error:  # msgpack raises ten kinds of them
            raise Trouble(f"answered with what is no {self.hello.format}: {_shown(data)} ({error})") from None
        if type(answer) is not dict:
            raise Trouble(f"answered with what is no object: {_shown(data)}")
        return answer

    def _object(self, answer: dict[str, Any], key: str) -> dict[str, Any]:
        found = answer.get(key)
        if type(found) is not dict:
            self._fail(f"answered without an object {key!r}: {answer!r:.200}", f"when it was asked for {key!r}")
        return found

    @contextmanager
    def _blaming(self, when: str) -> Any:
        try:
            yield
        except Trouble as trouble:
            self._fail(str(trouble), when)

    def _fail(self, what: str, when: str) -> NoReturn:
        """End the run: it did `what`."""
        words = "" if self._process is None else self._process.last_words()
        self.close()
        raise ProtocolFault(f"the program {self.name} {what}, {when}{words}")

    def close(self) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None


class _Standing(Program):
    """A program that takes interests which stand from the start."""

    def stand(self, interests: Interests) -> None:
        assert interests.rows is not None
        ids, clients = interests.id.tolist(), interests.client.tolist()
        homes = self.env.client_broker[interests.client].tolist()
        frame = self._writer.standing(ids, clients, homes, interests.rows)
        self._asked_bytes(frame, lambda: "when it was told which interests stand")


class _Kept(Program):
    """A program whose brokers can be kept, and taken up again by another."""

    def state(self) -> dict[str, Any]:
        when = "when it was asked for its state"
        told = self._object(self._asked({"state": True}, when), "state")
        local = {str(b): b for b in self._mine()}
        if told.keys() != local.keys():
            wrong = min(map(str, told.keys() ^ local.keys()))
            self._fail(f"gave the state of other brokers than its own: {wrong!r:.40}", when)
        entries = self._actions.entries
        try:
            return {"brokers": [[b, int(entries[b]), bytes(msgpack.packb(told[name]))] for name, b in local.items()]}
        except (OverflowError, ValueError) as error:
            self._fail(f"gave a state that cannot be kept: {error}", when)

    def load(self, states: Sequence[dict[str, Any]], handle_of: Mapping[int, int]) -> None:
        kept: dict[str, Any] = {}
        for state in states:
            check_columns(state, {}, others=frozenset({"brokers"}))
            if type(state["brokers"]) is not list:
                raise BadState("'brokers' is no list")
            for each in state["brokers"]:
                if type(each) is not list or [type(part) for part in each] != [int, int, bytes]:
                    raise BadState("'brokers' are not a broker, its entries and its state each")
                broker, entries, told = each
                if not 0 <= broker < self.env.brokers or str(broker) in kept or not 0 <= entries < NEVER:
                    raise BadState(f"broker {broker} is none, or is there twice")
                if self.env.local[broker]:
                    try:
                        kept[str(broker)] = msgpack.unpackb(told)
                    except Exception:  # msgpack raises ten kinds of them
                        raise BadState(f"the state of broker {broker} cannot be read") from None
                    self._actions.entries[broker] = entries
        if lacking := [b for b in self._mine() if str(b) not in kept]:
            raise BadState(f"broker {lacking[0]} is missing")
        self._asked({"load": kept}, "when it was given its state")


# ---- from names to classes ---------------------------------------------------------------------------


def greeted(process: Process, within_s: float) -> Hello:
    """What a program says of itself. Trouble if it says nothing that makes sense."""
    answer = process.ask(json.dumps({"hello": VERSION}).encode() + b"\n", within_s, 1 << 16)
    try:
        return read(parsed(answer))
    except (ValueError, RecursionError) as error:
        raise Trouble(f"answered hello with what is no JSON: {_shown(answer)} ({error})") from None
    except InvalidInput as error:
        raise Trouble(f"answered hello, but its answer {error}: {_shown(answer)}") from None


def parsed(data: bytes) -> Any:
    """JSON, without what Python takes beside."""

    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is no number in JSON")

    return json.loads(data, parse_constant=refuse)


def _shown(data: bytes) -> str:
    text = data[:_SHOWN].decode("utf-8", "replace")
    return f"{text!r}{'...' if len(data) > _SHOWN else ''}"


def find(name: str, folder: str | Path | None) -> tuple[str, type[Program]]:
    """Target and class of a command, whose program is started to be asked what it is. InvalidInput if it will not say.

    The caller trusts it.
    """
    command = spelling.command_of(name)
    process = None
    try:
        process = Process(command, None if folder is None else str(folder))
        said = greeted(process, WITHIN_NS / 1e9)
    except Trouble as trouble:
        raise InvalidInput(f"the program {name} {trouble}{'' if process is None else process.last_words()}") from None
    finally:
        if process is not None:
            process.end()
    target = spelling.target_of(command, said.as_data())
    return target, class_of(target)


@lru_cache(maxsize=256)
def class_of(target: str) -> type[Program]:
    """The class of a target. Starts nothing."""
    command, data, folder = spelling.parts_of(target)
    hello = read(data)
    name = spelling.spelled(command)
    bases: list[type] = [base for base, offered in ((_Standing, hello.settled), (_Kept, hello.state)) if offered]
    guarantees: Guarantees = hello.guarantees
    attributes = {
        "kind": hello.kind, "guarantees": guarantees, "hears_faults": hello.faults, "forgets": hello.faults,
        "drops_told_ns": hello.drops_told_ns,
        "state_version": hello.state_version, "name": name, "command": tuple(command), "folder": folder,
        "hello": hello, "__module__": "program", "__qualname__": name, "__doc__": f"The program {name}.",
    }  # fmt: skip
    return type(name, tuple(bases) or (Program,), attributes)
