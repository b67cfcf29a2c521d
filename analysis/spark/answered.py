"""Queries of a kind whose server answers again and again: which round is asked about, and what is told of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analysis.ways.pair import when
from analysis.ways.round_told import Answer
from analysis.ways.round_told import told_of as round_told
from analysis.ways.rounds import Round
from analysis.ways.told import Row, Told, rows_of
from brokers.errors import InvalidInput
from brokers.naming import message_id, message_name

if TYPE_CHECKING:
    from analysis.spark.trace import Service
    from brokers.engine.runfolder import RunFolder

_DIGITS_MOST, _HOPS_MOST = 10, 200


def key_of(message: str, names: Sequence[str]) -> int:
    """The id of a message: of a client by client#number, of a server by its name, as it is shown, and number."""
    server, sign, number = message.rpartition("#")
    if sign and not server.isdigit() and number.isdigit() and len(number) <= _DIGITS_MOST and server in names:
        return names.index(server) << 32 | int(number)
    return message_id(message, len(names))


def answer_of(run: RunFolder, services: Sequence[Service], key: int) -> Row | None:
    """The row of what a server sent; None where the id is none of that."""
    if key >> 32 == 0 or "answers" not in run.tables():
        return None
    rows = rows_of(run, "answers", {"publication": key})
    return next((row for row in rows if Told.of_run(run, services[row["service"]]).answers), None)


def round_of(run: RunFolder, services: Sequence[Service], key: int, at_ns: int | None, client: int | None) -> Round:
    """The query in a round that is asked about: by its name and a time, or by an answer and a client."""
    nodes = run.rows("brokers")
    answer = answer_of(run, services, key)
    if answer is not None:
        told = Told.of_run(run, services[answer["service"]])
        if at_ns is not None:
            raise InvalidInput(f"{told.message(key)} is an answer, which has its time; --at goes with a query")
        found = Answer(told, answer).round_for(None if client is None else client + nodes)
        if found is None:
            raise InvalidInput(f"client {client} never had a query that was due every {when(answer['period_ns'])}")
        return found
    rows = rows_of(run, "changes", {"interest": key}) or rows_of(run, "changes", {"change": key})
    if not rows:
        raise InvalidInput(f"{run.path}: nobody sent a query {message_name(key, nodes)}; say client#number, as in 37#5")
    service = services[rows[0]["service"]]
    if not Told.of_run(run, service).answers:
        what = f"{message_name(key, nodes)} is of the kind {service.kind_name!r}"
        raise InvalidInput(f"{what}; --at goes with queries that a server answers again and again")
    if client is not None and rows[0]["client"] != client + nodes:
        raise InvalidInput(f"query {message_name(key, nodes)} is of client {rows[0]['client'] - nodes}, not {client}")
    assert at_ns is not None
    if at_ns >= (end := run.manifest["scenario"]["duration"]):
        raise InvalidInput(f"the run went to {when(end)}, and no query was due at {when(at_ns)}; say a time before")
    return Round(Told.of_run(run, service), rows[0]["interest"], at_ns)


def answered(
    run: RunFolder, services: Sequence[Service], key: int, at_ns: int | None, client: int | None
) -> dict[str, Any]:
    """A query in a round, or an answer with a client or without."""
    answer = answer_of(run, services, key)
    if answer is None or client is not None or at_ns is not None:
        round = round_of(run, services, key, at_ns, client)
        found = round_told(round)
        result = {"message": round.name if answer is None else round.told.message(key), "id": key}
        name = services[round.told.service].name
        return {**result, "service": name, "type": "query", "round": found, "to": {"why": found["why"]}}
    told = Told.of_run(run, services[answer["service"]])
    return {
        "message": told.message(key), "id": key, "service": services[answer["service"]].name, "type": "answer",
        **Answer(told, answer).told_of(),
    }  # fmt: skip


# ---- for people ------------------------------------------------------------------------------------------


def told_round(found: dict[str, Any]) -> list[str]:
    """A query in a round, for people."""
    lines = [
        f"{found['query']}: query of client {found['client']} at broker {found['broker']}, {found['asks']}",
        f"round {found['round']}, due at {when(found['at_ns'])}",
    ]
    if found["plan"] is not None:
        lines.append(_told_plan(found["plan"]))
    if found["owed"] is not None:
        ids = ", ".join(map(str, found["owed"]["ids"]))
        more = ", …" if found["owed"]["objects"] > len(found["owed"]["ids"]) else ""
        lines.append(f"owed: {found['owed']['objects']} objects" + (f" ({ids}{more})" if ids else ""))
    received = f"{' and '.join(map(str, found['received']))} objects" if found["received"] else "nothing"
    return [*lines, f"received: {received}", *(_told_sent(each) for each in found["answers"])]


def _told_plan(plan: dict[str, Any]) -> str:
    begun = f"begun at {when(plan['began_ns'])}, in force from {when(plan['in_force_ns'])}"
    because = f", because of {plan['cause']}" if plan["cause"] else ""
    return f"plan {plan['number']}: {begun}{because}"


def _told_sent(each: dict[str, Any]) -> str:
    """A message of a server, on a line."""
    if each["for_it"]:
        mark = "for it: "
    else:
        mark = "" if each["for_it"] is None else "for others: "
    who = "unknown" if each["listeners"] is None else _few(each["listeners"])
    return (
        f"{mark}{each['message']} on channel {each['channel']}, {each['objects']} objects, {each['size_bytes']} bytes; "
        f"listeners {who}; heard by {_few(each['heard'])}"
    )


def told_answer(found: dict[str, Any]) -> list[str]:
    sent = f"sent by {found['broker']} at {when(found['sent_ns'])}"
    lines = [
        f"{found['message']} ({found['id']}): answer of service {found['service']}, {sent}, round {found['round']} of "
        f"every {when(found['period_ns'])}",
        _told_sent({**found["sent"], "for_it": None}),
        *([] if found["plan"] is None else [_told_plan(found["plan"])]),
        "queries in its header: " + ("unknown" if found["sent"]["queries"] is None else _few(found["sent"]["queries"])),
    ]
    if found["sent"]["listeners"] is not None:
        deaf = sorted(set(found["sent"]["listeners"]) - set(found["sent"]["heard"]))
        lines += [f"clients that should have heard it and did not: {_few(deaf)}"] if deaf else []
    lines.append(f"handled {len(found['hops'])} times:")
    for hop in found["hops"][:_HOPS_MOST]:
        lines.append(f"  +{(hop['time_ns'] - found['sent_ns']) / 1e6:.3f} ms  {hop['broker']}  from {hop['from']}")
    return lines + [f"lost from {each['from']} to {each['to']} ({each['reason']})" for each in found["losses"]]


def _few(names: Sequence[Any], most: int = 20) -> str:
    shown = ", ".join(map(str, names[:most]))
    return f"{shown}, …" if len(names) > most else shown or "nobody"
