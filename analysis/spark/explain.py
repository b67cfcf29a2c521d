"""The way of one message: where it went, what happened to it, and why a client got it or did not.

Reads the rows it needs from the trace with Arrow, so it needs no Spark. Level full, as only that has the hops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from analysis.spark.answered import answer_of, answered, key_of, told_answer, told_round
from analysis.spark.rules import rule_of
from analysis.spark.trace import Service, network_of, services_of
from analysis.ways.beside import beside as parted
from analysis.ways.beside import same_case
from analysis.ways.deciding import told_of
from analysis.ways.pair import Pair
from analysis.ways.told import Told, rows_of
from analysis.ways.way import Way
from brokers.engine.runfolder import open_run
from brokers.errors import InvalidInput
from brokers.faults import AWAY, EXPIRED, REASONS
from brokers.naming import message_name
from protocols.explaining import NOT_OWED
from topology.overlay import broker_label

if TYPE_CHECKING:
    from brokers.engine.runfolder import RunFolder

_SHOWN_HOPS_MAX, _SHOWN_STEPS_MAX = 200, 60
_DOWN = 0  # what the table `faults` calls a broker that is down


def explain(
    path: str | PathLike[str],
    message: str,
    client: int | None = None,
    *,
    beside: str | PathLike[str] | None = None,
    at_ns: int | None = None,
    trust: bool = False,
) -> dict[str, Any]:
    """Everything the trace tells about a message, and about its delivery to a client, given by its number.

    `beside` is another run of the same case: where the ways of a publication differ. Of a query that a server answers
    again and again, `at_ns` says when it was due. `trust` lets runs name code from outside.
    """
    run = opened(path)
    services = services_of(run, trust=trust)
    plain = network_of(run, services).names
    nodes = len(plain)
    names = [broker_label(number, plain) for number in range(nodes)]
    key = key_of(message, names)
    if at_ns is not None or answer_of(run, services, key) is not None:
        if beside is not None:
            raise InvalidInput(f"{message} is answered by a server; `beside` goes with a publication")
        return answered(run, services, key, at_ns, client)
    publications, changes = _rows(run, "publications", "publication", key), _rows(run, "changes", "change", key)
    if not publications and not changes:
        raise InvalidInput(
            f"{run.path}: nobody sent a message {message if '#' in message else message_name(key, nodes)} ({key}); say "
            "client#number, as in 37#5, or an id from the table publications or changes"
        )
    clients = _clients(run, nodes)
    if client is not None and not 0 <= client < clients:
        raise InvalidInput(f"there is no client {client}; they are numbered 0 to {clients - 1}")
    sent = (publications or changes)[0]
    service = services[sent["service"]]
    began = sent["time_ns"] if publications else sent["issued_ns"]
    types = {number: name for name, number in service.kind.types.items()}
    # A change's messages carry it as their cause, whatever body they carry.
    hops = _rows(run, "hops", "body" if publications else "cause", key)
    hops.sort(key=lambda h: (h["time_ns"], h["finish_ns"], h["broker"]))
    links = {row["link"]: row for row in run.read("links").to_pylist()}
    lost = _rows(run, "losses", "body" if publications else "cause", key)
    result: dict[str, Any] = {
        "message": message_name(key, nodes),
        "id": key,
        "service": service.name,
        "type": "publish" if publications else types.get(sent["operation"], str(sent["operation"])),
        "client": sent["client"] - nodes,
        "broker": names[sent["broker"]],
        "sent_ns": began,
        "values": service.kind.spelled(sent["operation"] if not publications else _publish(service), sent["values"]),
        "hops": [_hop(hop, links, names, began) for hop in hops],
        "losses": _losses([each for each in lost if each["link"] >= 0], links, names),
        "fallen": _fallen(run, [each for each in lost if each["link"] < 0], hops, names),
    }
    if not publications:
        result["change"] = {k: sent[k] for k in ("interest", "settled_ns", "revoked_ns", "gone_ns", "lost")}
        if client is not None:
            due = "; a query is due at times: say one, as in --at 500ms" if service.kind.server else ""
            raise InvalidInput(f"{message_name(key, nodes)} is a {result['type']}, which is delivered to nobody{due}")
        if beside is not None:
            raise InvalidInput(f"{message_name(key, nodes)} is a {result['type']}; `beside` goes with a publication")
        return result
    deliveries = sorted(_rows(run, "deliveries", "publication", key), key=lambda d: (d["time_ns"], d["client"]))
    result["deliveries"] = len(deliveries)
    if client is not None:
        told = Told.of_run(run, service)
        result["to"] = _why(run, service, told, publications[0], client, hops, deliveries, result)
        result["to"]["why"] = told_of(Pair(told, publications[0], client + nodes))
        if told.explaining is not None:
            result["to"]["said"] = _said_of(result["to"])
    if beside is not None:
        result["beside"] = _beside(run, service, publications[0], client, beside, trust)
    return result


def opened(path: str | PathLike[str]) -> RunFolder:
    """A run folder with the tables that ways are told from."""
    run = open_run(path)
    for table in ("hops", "publications"):
        if table not in run.tables():
            run.read(table)  # says which level is needed
    return run


def _beside(
    run: RunFolder, service: Service, publication: dict[str, Any], client: int | None, path: str | PathLike[str],
    trust: bool,
) -> dict[str, Any]:  # fmt: skip
    """Where the way of a publication differs from that in another run."""
    other = opened(path)
    services = services_of(other, trust=trust)
    if service.number >= len(services) or services[service.number].kind_name != service.kind_name:
        raise InvalidInput(f"{path}: its service {service.number} is of another kind; it is no run of the same case")
    told = Told.of_run(run, service), Told.of_run(other, services[service.number])
    rows = told[1].rows("publications", publication=publication["publication"])
    ways = Way(told[0], publication), Way(told[1], rows[0]) if rows else None
    same_case(ways[0], ways[1], str(path))
    protocol = services[service.number].protocol_name
    name = other.path.name if protocol == service.protocol_name else f"the run by {protocol}"
    if client is None:
        assert ways[1] is not None
        return parted(ways[0], ways[1], name)
    entity = client + told[0].nodes
    return parted(Pair(told[0], publication, entity), Pair(told[1], rows[0], entity), name)


def _clients(run: RunFolder, nodes: int) -> int:
    """How many numbers of clients there are, with those that their stays go under."""
    placed: int = sum(group["count"] for group in run.manifest["scenario"]["clients"].values())
    stays = run.read("stays", ["stay"])["stay"].to_pylist() if "stays" in run.tables() else []
    return max([placed, *(stay + 1 - nodes for stay in stays)])


def _publish(service: Service) -> int:
    """The type of a publication, which the trace does not tell; no kind has two."""
    return min(service.kind.publications, default=0)


def _rows(run: RunFolder, table: str, column: str, value: int) -> list[dict[str, Any]]:
    return rows_of(run, table, {column: value})


def _hop(hop: dict[str, Any], links: dict[int, dict[str, Any]], names: Sequence[str], began: int) -> dict[str, Any]:
    link = links.get(hop["link"])
    return {
        "broker": names[hop["broker"]],
        "from": names[link["from"]] if link else None,
        "time_ns": hop["time_ns"],
        "after_ns": hop["time_ns"] - began,
        "link_delay_ns": link["delay_ns"] if link else 0,
        "in_broker_ns": hop["finish_ns"] - hop["time_ns"],
        "finish_ns": hop["finish_ns"],
    }


def _losses(
    lost: list[dict[str, Any]], links: dict[int, dict[str, Any]], names: Sequence[str]
) -> list[dict[str, Any]]:
    """What links lost, in the order of time."""
    return [
        {
            "time_ns": each["time_ns"], "link": each["link"],
            "from": names[links[each["link"]]["from"]], "to": names[links[each["link"]]["to"]],
            "reason": REASONS[each["reason"]],
        }
        for each in sorted(lost, key=lambda each: each["time_ns"])
    ]  # fmt: skip


def _fallen(
    run: RunFolder, lost: list[dict[str, Any]], hops: list[dict[str, Any]], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Deliveries that came to nobody.

    Of those that fell with their broker the trace does not name it: it is one that would have been done with the
    message just then, and crashed while it had it.
    """
    if not lost:
        return []
    crashes: dict[int, list[int]] = {}
    for fault in run.read("faults").to_pylist():
        if fault["what"] == _DOWN:
            crashes.setdefault(fault["broker"], []).append(fault["begin_ns"])

    def fell(hop: dict[str, Any]) -> bool:
        return any(hop["time_ns"] <= begin < hop["finish_ns"] for begin in crashes.get(hop["broker"], ()))

    return [
        {
            "time_ns": each["time_ns"], "reason": REASONS[each["reason"]],
            "client": each["client"] - len(names) if each["client"] >= 0 else None,
            "brokers": sorted({names[h["broker"]] for h in hops if h["finish_ns"] == each["time_ns"] and fell(h)}),
        }
        for each in sorted(lost, key=lambda each: each["time_ns"])
    ]  # fmt: skip


def _why(
    run: RunFolder, service: Service, told: Told, publication: dict[str, Any], client: int,
    hops: list[dict[str, Any]], deliveries: list[dict[str, Any]], found: dict[str, Any],
) -> dict[str, Any]:
    """Whether the client got it, which of its interests wanted it, and how far it came."""
    sent = publication["time_ns"]
    names, nodes = told.names, told.nodes
    got = [d["time_ns"] for d in deliveries if d["client"] == client + nodes]
    rule = rule_of(service)
    interests = []
    for change in sorted(_rows(run, "changes", "client", client + nodes), key=lambda c: c["issued_ns"]):
        if change["service"] != service.number or change["operation"] not in service.kind.wants():
            continue
        reason = rule.reason(publication, change)
        interests.append(
            {
                "interest": change["interest"],
                "name": message_name(change["change"], nodes),  # of the message that asked
                "matches": told.wants(publication, change) if told.decides else None,  # None: values alone do not say
                "reason": reason,
                **{k: change[k] for k in ("issued_ns", "settled_ns", "revoked_ns", "gone_ns", "lost")},
                "when": _when(change, sent, max((h["time_ns"] for h in hops), default=sent)),
                "broker": change["broker"],
            }
        )
    home = interests[0]["broker"] if interests else None
    reached = [h["time_ns"] for h in hops if h["broker"] == home]
    losses = found["losses"]
    if losses and home is not None:
        network = network_of(run, [service])
        losses = [each for each in losses if network.is_behind(home, each["link"])]
    fallen = [each for each in found["fallen"] if home is not None and names[home] in each["brokers"]]
    gone = any(each["client"] == client and each["reason"] == REASONS[AWAY] for each in found["fallen"])
    for each in interests:
        del each["broker"]
    return {
        "client": client,
        "delivered_ns": got,
        "broker": names[home] if home is not None else None,
        "reached_broker_ns": min(reached, default=None),
        "interests": interests,
        "more": _more(told, rule, publication, client + nodes, {each["interest"]: each["name"] for each in interests}),
        "said": _said(
            client, got, interests, reached, names[home] if home is not None else "", hops, names, losses, fallen, gone
        ),
    }


def _more(told: Told, rule: Any, publication: dict[str, Any], client: int, names: dict[int, str]) -> list[str]:
    """What the rule of the kind tells besides, of rows of its tables."""
    if not hasattr(rule, "more"):
        return []

    def rows(table: str) -> list[dict[str, Any]]:
        return told.rows(table, publication=publication["publication"], client=client)

    return [f"{told.client(client)} {each}" for each in rule.more(rows, names)]


def _when(change: dict[str, Any], sent: int, end: int) -> str:
    """How the change stood towards a publication, in a word or two."""
    if change["issued_ns"] > end:
        return "issued too late"
    if 0 <= change["gone_ns"] < sent:
        return "gone before"
    if 0 <= change["revoked_ns"] <= end:
        return "being withdrawn"
    standing = change["issued_ns"] < 0
    return "settled before" if standing or 0 <= change["settled_ns"] < sent else "not settled yet"


def _said(
    client: int, got: list[int], interests: list[dict[str, Any]], reached: list[int], home: str,
    hops: list[dict[str, Any]], names: Sequence[str], losses: list[dict[str, Any]], fallen: list[dict[str, Any]],
    gone: bool,
) -> str:  # fmt: skip
    wanted = [i for i in interests if i["matches"] is not False and i["when"] not in ("gone before", "issued too late")]
    spoilt = {True: ", but links lost messages of it", False: ""}
    because = "; ".join(
        f"interest {i['name']} ({i['when']}{spoilt[i['lost'] > 0]}) {i['reason']}" for i in wanted
    )
    if got:
        twice = "" if len(got) == 1 else f", {len(got)} times"
        if wanted:
            return f"client {client} got it{twice}: {because}"
        return f"client {client} got it{twice}, though nothing it asked for wants it"
    if not interests:
        return f"client {client} did not get it: it never asked for anything in this service"
    if not wanted:
        why = "; ".join(
            f"interest {i['name']} {'was ' + i['when'] if i['matches'] is not False else i['reason']}"
            for i in interests[:5]
        )
        return f"client {client} did not get it, rightly: {why}"
    if gone:
        return f"client {client} did not get it: it had left before its broker {home} was done with it; {because}"
    if fallen:
        return f"client {client} did not get it: its broker {home} crashed before it was done with it; {because}"
    if reached:
        return f"client {client} did not get it, though it reached its broker {home}: {because}"
    if losses:
        where = ", ".join(f"{each['from']} to {each['to']}" for each in losses)
        return f"client {client} did not get it: it never reached broker {home}; copies were lost from {where}"
    last = names[hops[-1]["broker"]] if hops else "nowhere"
    return f"client {client} did not get it: it never reached broker {home}, and was handled last at {last}; {because}"


def _said_of(to: dict[str, Any]) -> str:
    """The same of a kind that says itself what the definition gives."""
    rightly = to["why"]["due"] == NOT_OWED
    reasons = "; ".join(f"interest {each['name']} ({each['when']}) {each['reason']}" for each in to["interests"][:5])
    told = f": {reasons}" if reasons else ": it never asked for anything in this service"
    if to["delivered_ns"]:
        count = len(to["delivered_ns"])
        times = f", {count} times" if count > 1 else ""
        return f"client {to['client']} got it{times}{', wrongly' if rightly else ''}{told}"
    return f"client {to['client']} did not get it{', rightly' if rightly else ''}{told}"


def _told_fallen(fallen: list[dict[str, Any]]) -> list[str]:
    """Deliveries that came to nobody, for people."""
    lines = []
    for (where, why), count in Counter((" or ".join(each["brokers"]), each["reason"]) for each in fallen).items():
        deliveries = "1 delivery" if count == 1 else f"{count} deliveries"
        clients = ", ".join(str(each["client"]) for each in fallen if each["reason"] == why)
        if why == REASONS[AWAY]:
            lines.append(f"{deliveries} lost since the client had left: {clients}")
        elif why == REASONS[EXPIRED]:
            lines.append(f"{deliveries} given up, which sessions kept no longer: {clients}")
        else:
            lines.append(f"{deliveries} lost with broker {where} ({why})")
    return lines


def text(found: dict[str, Any]) -> str:
    """The explanation for people."""
    from topology.units import format_duration

    if found["type"] in ("query", "answer"):
        why = _told_why(found["to"]["why"]) if "to" in found else []
        return _clean(told_round(found["round"]) + why if found["type"] == "query" else told_answer(found))
    values = ", ".join("-" if v is None else v if isinstance(v, str) else f"{v:g}" for v in found["values"])
    lines = [
        f"{found['message']} ({found['id']}): {found['type']} of client {found['client']} at broker {found['broker']}, "
        f"service {found['service']}, sent at {format_duration(found['sent_ns'])}",
        f"values: {values}",
    ]
    if "change" in found:
        times = {k: v for k, v in found["change"].items() if k.endswith("_ns")}
        lines.append(", ".join(f"{k[:-3]} {'never' if v < 0 else format_duration(v)}" for k, v in times.items()))
    lines.append(f"handled {len(found['hops'])} times:")
    for hop in found["hops"][:_SHOWN_HOPS_MAX]:
        came = f"from {hop['from']}, {format_duration(hop['link_delay_ns'])} away" if hop["from"] else "from its client"
        after, inside = hop["after_ns"] / 1e6, hop["in_broker_ns"] / 1e6
        lines.append(f"  +{after:.3f} ms  {hop['broker']}  {came}, {inside:.3f} ms in the broker")
    if len(found["hops"]) > _SHOWN_HOPS_MAX:
        lines.append(f"  … and {len(found['hops']) - _SHOWN_HOPS_MAX} more; --json has them all")
    lines += [f"lost from {each['from']} to {each['to']} ({each['reason']})" for each in found["losses"]]
    lines += _told_fallen(found["fallen"])
    if "deliveries" in found:
        lines.append(f"delivered to {found['deliveries']} clients")
    if "to" in found:
        lines += [found["to"]["said"], *found["to"]["more"], *_told_why(found["to"]["why"])]
    if "beside" in found:
        lines += ["beside the other run:", *(f"  {each}" for each in found["beside"]["said"])]
    return _clean(lines)


def _clean(lines: list[str]) -> str:
    """Nothing that a name from a file says moves the cursor."""
    return "\n".join("".join(each if each.isprintable() else "?" for each in line) for line in lines)


def _told_why(why: dict[str, Any]) -> list[str]:
    """Verdict, sentences and steps, for people."""
    from topology.units import format_duration

    sure = "" if why["sure"] else ", as it looks; the trace does not tell all of it"
    lines = [f"verdict: {why['verdict']}{sure}", *(f"  {each}" for each in why["said"])]
    if why["rule"]:
        lines += [f"by the definition: {why['due']}", *(f"  {each}" for each in why["rule"])]
    lines.append("step by step:")
    steps = shown = why["steps"]
    if len(steps) > _SHOWN_STEPS_MAX:
        shown = [*steps[: _SHOWN_STEPS_MAX // 2], None, *steps[-_SHOWN_STEPS_MAX // 2 :]]
    times = [format_duration(step["time_ns"]) if step else "" for step in shown]
    width, broker = max(map(len, times), default=0), max((len(step["broker"]) for step in shown if step), default=0)
    for step, time in zip(shown, times):
        if step is None:
            lines.append(f"  … {len(steps) - _SHOWN_STEPS_MAX} steps are left out; --json has them all")
        else:
            lines.append(f"  {time:>{width}}  {step['broker']:<{broker}}  {step['what']}")
    return lines
