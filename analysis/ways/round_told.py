"""A query in a round as plain data: what it was owed, what was sent, why it came or did not, and step by step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from analysis.ways.answering import decided
from analysis.ways.pair import Decision, plain
from analysis.ways.rounds import Part, Round
from analysis.ways.told import Hop, Row, Told, why_lost
from analysis.ways.way import Way

_OBJECTS_MOST = 20


def told_of(round: Round) -> dict[str, Any]:
    """A query in a round: what it was owed, what was sent, and why it came or did not."""
    told, version = round.told, round.version
    decision = decided(round)
    objects = told.explaining.objects(version)
    return {
        "query": round.name, "client": version["client"] - told.nodes, "broker": told.names[version["broker"]],
        "asks": told.explaining.in_words(version), "at_ns": round.at_ns, "period_ns": round.period_ns,
        "round": round.number, "plan": _plan_of(round),
        "owed": {"objects": len(objects), "ids": objects[:_OBJECTS_MOST]} if round.due.right else None,
        "received": [count for count, _ in round.due.received],
        "answers": [_answer(round, row) for row in round.answers],
        "why": {**plain(decision, told), "steps": _steps(round, decision)},
    }  # fmt: skip


class Answer:
    """A message that a server sent in a round."""

    def __init__(self, told: Told, row: Row) -> None:
        self.told, self.row = told, row

    @property
    def any_round(self) -> Round | None:
        """A query in its round, whosever it is."""
        return next(self._rounds(None), None)

    def round_for(self, client: int | None) -> Round | None:
        """The query of a client that it has something for; else one of the client's with that period."""
        rounds = list(self._rounds(client))
        mine = [
            each for each in rounds
            for message in each.messages or ()
            if message.publication == self.row["publication"] and each.query in message.lines
        ]  # fmt: skip
        return next(iter(mine or rounds), None)

    def _rounds(self, client: int | None) -> Iterator[Round]:
        told = self.told
        of = {} if client is None else {"client": client}
        seen: set[int] = set()
        for row in told.rows("changes", service=told.service, **of):
            if row["interest"] in seen or row["operation"] not in told.kind.interests:
                continue
            if told.explaining.period_of(row) == self.row["period_ns"]:
                seen.add(row["interest"])
                yield Round(told, row["interest"], self.row["time_ns"])

    def told_of(self) -> dict[str, Any]:
        """It as plain data."""
        told, row, round = self.told, self.row, self.any_round
        way = Way(told, {"publication": row["publication"]})
        link = told.links
        return {
            "broker": told.names[row["broker"]], "sent_ns": row["time_ns"], "round": row["round"],
            "period_ns": row["period_ns"], "plan": None if round is None else _plan_of(round),
            "sent": _sent(told, row, None if round is None else round.messages),
            "hops": [
                {
                    "broker": told.names[hop.broker], "time_ns": hop.time_ns, "finish_ns": hop.finish_ns,
                    "from": told.names[link[hop.link]["from"]] if hop.link >= 0 else None,
                }
                for hop in way.hops
            ],
            "losses": [
                {"time_ns": lost["time_ns"], "from": told.names[link[lost["link"]]["from"]],
                 "to": told.names[link[lost["link"]]["to"]], "reason": why_lost(lost)}
                for lost in way.losses if lost["link"] >= 0
            ],
        }  # fmt: skip


def _plan_of(round: Round) -> dict[str, Any] | None:
    if not round.plans:
        return None
    row = round.plans[-1]
    cause = None if row["cause"] < 0 else round.told.message(row["cause"])
    return {"number": row["plan"], "began_ns": row["began_ns"], "in_force_ns": row["time_ns"], "cause": cause}


def _answer(round: Round, row: Row) -> dict[str, Any]:
    """A message of the round, and whether it has something for the query."""
    known = next((each for each in round.messages or () if each.publication == row["publication"]), None)
    return {
        **_sent(round.told, row, round.messages), "for_it": None if known is None else round.query in known.lines,
    }  # fmt: skip


def _sent(told: Told, row: Row, messages: list[Any] | None) -> dict[str, Any]:
    """What the server sent, and who heard it."""
    heard = sorted({each["client"] - told.nodes for each in told.rows("deliveries", publication=row["publication"])})
    known = next((each for each in messages or () if each.publication == row["publication"]), None)
    return {
        "message": told.message(row["publication"]), "channel": row["channel"], "objects": row["objects"],
        "size_bytes": row["size_bytes"], "heard": heard,
        "listeners": None if known is None else sorted(known.listeners),
        "queries": None if known is None else [told.message(query) for query in sorted(known.lines)],
    }  # fmt: skip


def _steps(round: Round, decision: Decision) -> list[dict[str, Any]]:
    """What happened to the query, to the word on who listens, and to the answers, in the order of time."""
    told, found = round.told, list[tuple[int, int, str, str]]()
    client = told.client(round.version["client"])
    change, home = round.version["change"], told.names[round.home]
    if round.version["issued_ns"] >= 0:
        found.append((round.version["issued_ns"], 0, home, f"{client} asks with {told.message(change)}"))
    else:
        found.append((0, 0, "", f"{told.message(abs(change))} of {client} stands from the beginning"))
    if (came := round.arrived(change)) is not None:
        found.append((came.time_ns, 1, told.names[round.server], f"handles {told.message(change)}"))
    if round.plans:
        plan = round.plans[-1]
        found.append((plan["began_ns"], 2, told.names[round.server], f"begins plan {plan['plan']}"))
        found.append((plan["time_ns"], 2, told.names[round.server], f"answers by plan {plan['plan']} from now on"))
        for hop in _word(round, plan):
            source = told.names[told.links[hop.link]["from"]] if hop.link >= 0 else ""
            found.append((hop.time_ns, 3, told.names[hop.broker], f"is told by {source} who listens"))
    for part in round.parts or [Part(told, row, round.version) for row in round.answers[:1]]:
        queries = next(row["queries"] for row in round.answers if row["publication"] == part.way.id)
        many = "query" if queries == 1 else "queries"
        sent = f"sends {part.name} on channel {round.channel(part)}, for {queries} {many}"
        found.append((round.at_ns, 4, told.names[round.server], sent))
        found += _way(part)
    for row in told.rows("received", service=told.service, query=round.query, round=round.number):
        if row["period_ns"] == round.period_ns:
            took = f"takes {row['objects']} objects for {round.name}"
            found.append((row["time_ns"], 8, told.names[row["broker"]], took))
    return [{"time_ns": at, "broker": where, "what": what} for at, _, where, what in sorted(found)]


def _word(round: Round, plan: Row) -> list[Hop]:
    """How the word of a plan on who listens came to the brokers on the way to the client."""
    _, following = round.told.nearer(round.home)
    near, at = {round.home}, round.server
    while at in following and at != round.home:
        near.add(at)
        at = following[at]
    hops = round.told.hops(cause=plan["cause"], type=round.told.explaining.listens)
    return [hop for hop in hops if hop.broker in near and hop.time_ns >= plan["time_ns"]]


def _way(part: Part) -> list[tuple[int, int, str, str]]:
    told, found = part.told, []
    near = part.near(None) | {part.home}
    for hop in (each for each in part.carried.hops if each.broker in near):
        to = [each.broker for each in part.carried.sent(hop) if each.broker != hop.broker]
        onward = f", sends it to {part.several(to)}" if to else ""
        source = told.names[told.links[hop.link]["from"]] if hop.link >= 0 else "itself"
        found.append((hop.time_ns, 5, part.at(hop.broker), f"handles {part.name} from {source}{onward}"))
    for row in part.carried.losses:
        if row["link"] >= 0:
            found.append((row["time_ns"], 6, "", f"a copy is lost {told.over(row['link'])}"))
    for row in part.got:
        found.append((row["time_ns"], 7, part.at(row["broker"]), f"hands {part.name} to {told.client(part.client)}"))
    return found


def ways_of(round: Round) -> tuple[list[Way], set[int]]:
    """What a diagram of it shows: the ways of the messages, and the changes that matter."""
    parts = round.parts or [Part(round.told, row, round.version) for row in round.answers[:1]]
    changes = {round.version["change"], *(row["cause"] for row in round.plans[-1:])}
    return [part.carried for part in parts], {each for each in changes if each >= 0}
