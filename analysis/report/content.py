"""What the scripts of a page get: facts as plain data, and columns."""

from __future__ import annotations

from shlex import quote
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from analysis.report.columns import Columns
from analysis.report.copies import Waste, index, wasted_by_place
from analysis.report.gather import Array, Gathered, Rows
from analysis.report.places import Places, drawn_links
from analysis.report.typed import named
from analysis.report.wanting import Missed
from analysis.report.words import plain, share
from analysis.report.working import available_us, work_us
from analysis.spark.trace import Service
from brokers.contract import MESSAGE
from brokers.errors import RunDamaged
from brokers.faults import REASONS
from brokers.names import load_as
from topology.overlay import broker_label

_PLACES = 65_535
_TIMER = -2  # in place of an interest: what is no message tells nobody of any


def content(found: Gathered, where: Places, missed: Missed, wasted: Waste) -> tuple[dict[str, Any], Columns]:
    """Facts and columns of a run."""
    ids = _messages(found)
    links = Links.of(found)
    columns = Columns()
    _overlay(found, where, links, columns)
    _counts(found, links, columns)
    _hops(found, ids, links, columns)
    _clients(found, ids, links, columns)
    _asked(found, ids, missed, columns)
    columns.add("message_entity", np.abs(ids) >> 32)
    columns.add("message_number", np.abs(ids) & 0xFFFFFFFF)
    on_links, at_brokers = wasted_by_place(found, wasted)
    columns.add("waste_links", on_links[:, links.drawn].ravel())
    columns.add("waste_brokers", at_brokers.ravel())
    network, span_us, scenario = found.network, found.span_ns / 1000, found.run.manifest["scenario"]
    facts = {
        "run": plain(quote(named([found.run.path])[0]), 400),
        "brokers": [plain(broker_label(at, network.names)) for at in range(network.brokers)],
        "nodes": network.brokers,
        "services": [
            {"name": plain(name), **_kind(found, at), "decided": missed.decided[at]}
            for at, name in enumerate(found.names)
        ],
        "reasons": list(REASONS),
        "messages": int(ids.size),
        "span_us": span_us,
        "lasts_us": available_us(found, None),
        "ends_us": (scenario["duration"] + scenario["drain"]) / 1000,
        "window_us": window_us(found),
        "stretches": found.stretches,
        "geographic": where.how.startswith("Brokers lie"),
        "share": found.sample.share,
        "share_text": share(found.sample.share),
        "columns": columns.directory,
    }
    return facts, columns


def window_us(found: Gathered) -> int:
    """For a diagram of space and time: a few links long, in µs."""
    delays = found.network.delay_ns
    return int(np.clip(delays.max() * 4 if delays.size else 1e8, 1e5, max(found.span_ns, 1e5)) // 1000)


def _kind(found: Gathered, service: int) -> dict[str, Any]:
    """What types of messages mean: names, those that begin and end interests, those that bring publications."""
    if found.kinds is None:
        return {"types": {}, "begins": [], "wants": [], "ends": [], "carries": None}
    kind = found.kinds[service].kind
    return {
        "types": {str(number): plain(name) for name, number in kind.types.items()},
        "begins": sorted(kind.interests),
        "wants": sorted(kind.wants()),
        "ends": sorted(kind.revocations),
        "carries": _carries(found.kinds[service]),
    }


def _carries(service: Service) -> list[int] | None:
    """The types of messages that bring a publication to who gets it; None for all that are about it."""
    target = service.kind.manifest.explains
    return sorted(load_as("explanations", target)(service.kind).carries) if target else None


def _messages(found: Gathered) -> Array:
    """The ids of all messages that anything in the page is about, in order; −1 is none."""
    hops, lost = found.rows("hops"), found.rows("losses")
    told = [hops["body"], hops["cause"], lost["body"], lost["cause"], found.rows("publications")["publication"],
            found.rows("deliveries")["publication"], found.rows("changes")["change"]]  # fmt: skip
    ids = np.unique(np.concatenate([np.unique(each) for each in told]))
    return ids[ids != -1]


class Links(NamedTuple):
    """Directed links in a page: those that there were, under numbers of its own."""

    drawn: Array  # numbers in the trace
    place: Array  # and back: in the page, -1 for those that are not in it, and for none, which is the last

    @classmethod
    def of(cls, found: Gathered) -> Links:
        drawn = np.flatnonzero(drawn_links(found.run, found.network))
        place = np.full(found.network.source.size + 1, -1, np.int64)
        place[drawn] = np.arange(drawn.size)
        return cls(drawn, place)


def _overlay(found: Gathered, where: Places, links: Links, columns: Columns) -> None:
    network, drawn = found.network, links.drawn
    columns.add("link_from", network.source[drawn])
    columns.add("link_to", network.target[drawn])
    columns.add("link_delay_ns", network.delay_ns[drawn])
    columns.add("link_latent", np.zeros(drawn.size) if network.latent is None else network.latent[drawn])
    for axis, name in enumerate(("place_x", "place_y")):
        columns.add(name, np.rint(np.clip(where.at[:, axis], 0, 1) * _PLACES).astype(np.int64))
    columns.add("place_order", where.order)
    rows = found.rows("faults")
    shown = (rows["link"] < 0) | (links.place[rows["link"]] >= 0)
    faults = {name: column[shown] for name, column in rows.items()}
    columns.add("fault_what", faults["what"])
    columns.add("fault_broker", faults["broker"])
    columns.add("fault_link", links.place[faults["link"]])
    columns.add("fault_begin", _us(faults["begin_ns"]))
    columns.add("fault_end", _us(faults["end_ns"]))


def _us(time_ns: Array) -> Array:
    """Microseconds; what is none or before the beginning stays −1."""
    return np.where(time_ns < 0, -1, time_ns // 1000)


def _counts(found: Gathered, links: Links, columns: Columns) -> None:
    for name in ("on_links", "at_brokers", "entries"):
        counted = found.counts.get(name, np.empty((0, links.place.size - 1, 0), np.int64))
        columns.add(name, (counted[:, links.drawn] if name == "on_links" else counted).ravel())
    columns.add("work", work_us(found).ravel())


def _hops(found: Gathered, ids: Array, links: Links, columns: Columns) -> None:
    """Events, message by message: what belongs together lies together, and takes less room."""
    rows = found.rows("hops")
    order = hop_order(rows)
    time, over = rows["time_ns"] // 1000, links.place[rows["link"]]
    if ((rows["link"] >= 0) & (over < 0)).any():
        raise RunDamaged.at(found.run.path, "table 'hops' has a link that carried nothing, by table 'links'")
    columns.add("hop_time", time[order])
    columns.add("hop_wait", ((rows["finish_ns"] + 999) // 1000 - time)[order])
    columns.add("hop_at", np.where(over >= 0, over, links.drawn.size + rows["broker"])[order])
    columns.add("hop_service", rows["service"][order])
    columns.add("hop_type", rows["type"][order])
    columns.add("hop_payload", found.carries(rows["body"])[order])
    columns.add("hop_cause", index(ids, rows["cause"])[order])
    columns.add("hop_body", index(ids, rows["body"])[order])


def hop_order(rows: Rows) -> Array:
    """Message by message, in the order of time."""
    about = np.where(rows["cause"] != -1, rows["cause"], rows["body"])
    return np.lexsort((rows["time_ns"], about))


def _clients(found: Gathered, ids: Array, links: Links, columns: Columns) -> None:
    nodes = found.network.brokers
    sent, got, changes, lost = (found.rows(name) for name in ("publications", "deliveries", "changes", "losses"))
    columns.add("sent_message", index(ids, sent["publication"]))
    columns.add("sent_time", sent["time_ns"] // 1000)
    columns.add("sent_client", sent["client"] - nodes)
    columns.add("sent_broker", sent["broker"])
    columns.add("sent_service", sent["service"])
    order = np.lexsort((got["client"], got["publication"]))
    columns.add("got_message", index(ids, got["publication"])[order])
    columns.add("got_client", (got["client"] - nodes)[order])
    columns.add("change_message", index(ids, changes["change"]))
    columns.add("change_client", changes["client"] - nodes)
    columns.add("change_service", changes["service"])
    columns.add("change_operation", changes["operation"])
    columns.add("change_lost", changes["lost"])
    for name in ("issued", "settled", "revoked", "gone"):
        columns.add(f"change_{name}", _us(changes[f"{name}_ns"]))
    columns.add("lost_time", lost["time_ns"] // 1000)
    columns.add("lost_link", links.place[lost["link"]])
    columns.add("lost_service", lost["service"])
    columns.add("lost_type", lost["type"])
    columns.add("lost_reason", lost["reason"])
    columns.add("lost_message", index(ids, np.where(lost["body"] >= 0, lost["body"], lost["cause"])))
    columns.add("lost_client", np.where(lost["client"] >= 0, lost["client"] - nodes, -1))
    stays = found.rows("stays")
    clients = np.concatenate([sent["client"], got["client"], changes["client"], stays["stay"]])
    brokers = np.concatenate([sent["broker"], got["broker"], changes["broker"], stays["broker"]])
    client, first = np.unique(clients, return_index=True)
    columns.add("client", client - nodes)
    columns.add("client_broker", brokers[first])


def _asked(found: Gathered, ids: Array, missed: Missed, columns: Columns) -> None:
    """What changes are about, which events tell of another interest than their cause does, and what wanted in vain."""
    changes, hops = found.rows("changes"), found.rows("hops")
    interests, number = np.unique(changes["interest"], return_inverse=True)
    columns.add("change_interest", number)
    named = np.where(_tells(found, hops), index(interests, hops["word"]), -1)
    by_change = np.argsort(changes["change"], kind="stable")
    cause = index(changes["change"][by_change], hops["cause"])
    caused = np.where(cause >= 0, number[by_change[cause]] if by_change.size else -1, -1)
    told = np.where(hops["kind"] == MESSAGE, np.where(named != caused, named, -1), _TIMER)
    columns.add("hop_interest", told[hop_order(hops)])
    order = np.lexsort((missed.change, missed.publication))
    columns.add("missed_message", index(ids, missed.publication[order]))
    row = index(changes["change"][by_change], missed.change[order])
    columns.add("missed_change", by_change[row] if by_change.size else row)


def _tells(found: Gathered, hops: Rows) -> NDArray[np.bool_]:
    """Whether the word of an event names an interest."""
    tells = np.zeros(hops["type"].size, np.bool_)
    for each in found.kinds or ():
        types = sorted(each.kind.interests | each.kind.revocations)
        tells |= (hops["service"] == each.number) & np.isin(hops["type"], types)
    return tells
