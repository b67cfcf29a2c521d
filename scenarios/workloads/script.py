"""A script: what each client does when, written down in the scenario, for every kind.

    workload:
      - source: script
        actions:
          - {at: 1 ms, client: 0, op: subscribe, body: [0, 0.2, 0.4]}
          - {at: 2 s, client: 1, op: publish, body: [0.3, null, null, null]}

`op` is a message of the kind (`docs/contract.md`), `body` its numbers, `data` a body of plain data instead, `text` one
that the kind reads: a filter of topics. What begins, changes or ends something with an id of its client's own names it
by `number`; nothing begins under one that was used before. Actions of one client at one time happen in the order of the
list. At time 0 stands what was there from the start, of services with `subscriptions: settled`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field, model_serializer

from brokers.contract import NEVER, Emission, Floats, Ints, Kind, Rates, SourceContext
from brokers.errors import InvalidInput
from brokers.registry import did_you_mean
from brokers.workloads.common import SUBSCRIPTIONS_PER_SOURCE, Parameters, subscription_ids
from scenarios.workloads.replay import ranks
from topology.units import Duration


class Action(Parameters):
    """One thing that a client does."""

    at: Duration = Field(description="when; at 0, what stands from the start")
    client: int = Field(ge=0, description="who, counted from 0 in the group")
    op: str = Field(description="what: a message of the kind")
    number: Annotated[int, Field(ge=0, lt=SUBSCRIPTIONS_PER_SOURCE)] | None = Field(
        None, description="the client's own number of what this begins, changes or ends; 0 unless given"
    )
    word: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = Field(
        None, description="the word of the message itself, in place of a number"
    )
    body: list[float | None] | None = Field(
        None, description="the numbers of its body; null where one is missing"
    )
    data: Any = Field(None, description="or a body of plain data")
    text: str | None = Field(None, description="or its body as text, of kinds that read some: a name, a filter")
    flags: list[str] = Field([], description="words that the kind knows beside a text, as no-local")

    @model_serializer(mode="wrap")
    def _without_what_is_not_said(self, dump: Any) -> dict[str, Any]:
        return {key: value for key, value in dump(self).items() if value is not None and value != []}


class ScriptParameters(Parameters):
    """What clients do."""

    actions: list[Action] = Field(description="what each client does when")
    first_client: int = Field(
        0, ge=0, description="the client of the run that is client 0 of the group; a run fills it in"
    )


class WrongAction(InvalidInput):
    """An action that does not go with its service; `path` leads to it."""

    def __init__(self, number: int, key: str, message: str) -> None:
        super().__init__(message)
        self.path = ("actions", number, key) if key else ("actions", number)


class _Said(NamedTuple):
    """An action as a message."""

    time: int
    client: int
    type: int
    word: int
    row: Floats | None
    data: Any


class Script:
    """What clients do, as the scenario lists it."""

    Params: ClassVar[type[Parameters]] = ScriptParameters
    publishes: ClassVar[bool] = True

    @classmethod
    def rates(cls, params: Mapping[str, Any], context: SourceContext) -> Rates | None:
        """Counted in the list."""
        kind = context.kind
        if kind is None:
            return None
        types = [kind.types[action["op"]] for action in params["actions"]]
        per_s = 1e9 / context.duration_ns
        return Rates(
            publications=per_s * sum(each in kind.publications for each in types),
            changes=per_s * sum(each in kind.changes for each in types),
            interests=sum(each in kind.interests for each in types),
            share=1.0,  # nobody has compared them
        )

    def __init__(self, params: Mapping[str, Any], context: SourceContext) -> None:
        said = _messages(params, context)
        mine = set(np.asarray(context.clients).tolist())
        self._standing = _emissions(each for each in said if each.time == 0)
        self._acts = _emissions(each for each in said if each.time and each.client in mine)
        self._wake = min((int(each.time.min()) for each in self._acts), default=NEVER)

    def next_wake(self) -> int:
        return self._wake

    def take(self) -> list[Emission]:
        self._wake = NEVER
        return self._acts

    def standing(self, clients: Ints) -> list[Emission]:
        """What is there at time 0, of all clients."""
        return self._standing


    @classmethod
    def words(cls, params: Mapping[str, Any], kind: Kind) -> dict[int, set[str]]:
        """The words of all texts, by attribute."""
        found: dict[int, set[str]] = {}
        for number, action in enumerate(ScriptParameters.model_validate(dict(params)).actions):
            if action.text is not None and action.op in kind.types:
                with _about(number, "text"):
                    read = kind.words_read(kind.types[action.op], action.text)
                for attribute, words in read.items():
                    found.setdefault(attribute, set()).update(words)
        return found


@contextmanager
def _about(number: int, key: str) -> Iterator[None]:
    """What is wrong with the input is wrong with this action."""
    try:
        yield
    except InvalidInput as error:
        raise WrongAction(number, key, str(error)) from error


_made: list[tuple[Mapping[str, Any], Any, tuple[Any, ...], list[_Said]]] = []  # the last, if there is one


def _messages(params: Mapping[str, Any], context: SourceContext) -> list[_Said]:
    """All actions as messages. Shards of a run, and runs of a model, ask with the very same parameters."""
    facts = (
        type(context.kind), context.seed, context.service, context.source, context.entity_base, context.population,
        context.duration_ns, context.settled, tuple(context.service_params),
    )  # fmt: skip
    for before, service_params, known, said in _made:
        if before is params and service_params is context.service_params and known == facts:
            return said
    checked = ScriptParameters.model_validate(dict(params))
    said = [_message(i, each, checked, context) for i, each in enumerate(checked.actions)]
    _each_once(said, checked.actions, context)
    _made[:] = [(params, context.service_params, facts, said)]
    return said


def _message(number: int, action: Action, params: ScriptParameters, context: SourceContext) -> _Said:
    """An action as a message, if it can be one."""
    kind = context.kind
    assert kind is not None
    if action.op not in kind.types:
        raise WrongAction(
            number, "op", f"no {action.op!r} in the kind {kind.name!r}; {did_you_mean(action.op, kind.types)}"
        )
    if action.client >= context.population:
        last = context.population - 1
        raise WrongAction(number, "client", f"the group has clients 0 to {last} (got {action.client})")
    if action.at == 0 and not context.settled:
        raise WrongAction(
            number, "at", "nothing happens before 1 ns; of a service with `subscriptions: settled`, what is said for 0 "
            "stands from the start",
        )  # fmt: skip
    if action.at == 0 and kind.types[action.op] in kind.offers:
        raise WrongAction(number, "at", f"{action.op!r} cannot stand from the start; say a time from 1 ns on")
    if action.at >= context.duration_ns:
        raise WrongAction(number, "at", "the run is over by then; raise `duration`")
    client, type_ = params.first_client + action.client, kind.types[action.op]
    row = _row(number, action, kind, type_)
    return _Said(action.at, client, type_, _word(number, action, context, client, row), row, action.data)


def _each_once(said: list[_Said], actions: list[Action], context: SourceContext) -> None:
    """Refuse what begins under an id that something had before: nobody could tell the two apart."""
    kind = context.kind
    assert kind is not None
    begun: dict[int, int] = {}
    for number in sorted(range(len(said)), key=lambda each: said[each].time):
        if said[number].type in kind.interests - kind.replacements:
            before = begun.setdefault(said[number].word, number)
            if before != number:
                action = actions[number]
                raise WrongAction(
                    number, "word" if action.word is not None else "number",
                    f"client {action.client} has used it before, in actions[{before}]; what begins has one of its own",
                )  # fmt: skip


def _row(number: int, action: Action, kind: Kind, type: int) -> Floats | None:
    """The numbers of its body, if these are such as the kind has."""
    if action.text is not None:
        if action.body is not None or action.data is not None:
            raise WrongAction(number, "text", "a body is text, numbers or plain data; say `text`, `body` or `data`")
        with _about(number, "text"):
            return kind.read(type, action.text, action.flags)
    if action.body is None or action.data is not None:
        if action.body is not None:
            raise WrongAction(number, "data", "a body is numbers or plain data; say `body` or `data`")
        wrong = kind.amiss(type, None) if action.data is None else None
        row = None
    else:
        row = np.array([np.nan if value is None else value for value in action.body], np.float64)
        wrong = kind.amiss(type, row)
    if wrong is not None:
        raise WrongAction(number, "body" if action.body is not None else "", wrong)
    return row


def _word(number: int, action: Action, context: SourceContext, client: int, row: Floats | None) -> int:
    kind = context.kind
    assert kind is not None
    if action.word is not None:
        if action.number is not None:
            raise WrongAction(number, "word", "say the `number` or the `word`, which is made of it")
        return action.word
    type_ = kind.types[action.op]
    if action.number is None:
        word = None if row is None else kind.word_of(type_, row)
        if word is not None:
            return word
        if type_ not in kind.interests | kind.revocations | kind.replacements:
            return 0
    return int(subscription_ids(context, np.array([client]), np.array([action.number or 0]))[0])


def _emissions(said: Iterable[_Said]) -> list[Emission]:
    """Messages as arrays: those of one client at one time in the order in which they come."""
    every = sorted(said, key=lambda each: each.time)
    if not every:
        return []
    form = np.array([each.type * 4 + 2 * (each.row is not None) + (each.data is not None) for each in every])
    client, time = (
        np.array([getattr(each, name) for each in every], np.int64) for name in ("client", "time")
    )
    key = ranks(client, time, form) * (int(form.max()) + 1) + form
    out = []
    for one in np.unique(key).tolist():
        group = [each for each, k in zip(every, key.tolist()) if k == one]
        rows = None
        if group[0].row is not None:
            rows = np.full((len(group), max(1, *(each.row.size for each in group))), np.nan)  # type: ignore[union-attr]
            for row, each in zip(rows, group):
                row[: each.row.size] = each.row  # type: ignore[union-attr]
        out.append(
            Emission(
                group[0].type,
                np.array([each.time for each in group], np.int64),
                np.array([each.client for each in group], np.int64),
                np.array([each.word for each in group], np.int64),
                rows,
                None if group[0].data is None else [each.data for each in group],
            )
        )
    return out  # rank after rank: those of a client at one time stay in order


__all__ = ["Action", "Script", "ScriptParameters", "WrongAction"]
