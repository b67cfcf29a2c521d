"""The report of one run: what matters, the overlay over time, why, charts, and what was run."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from shlex import quote
from typing import Any

import numpy as np

from analysis.report.analyzed import ROWS_MOST, Shown
from analysis.report.cases import EVENTS_MOST, cases
from analysis.report.charts import charts
from analysis.report.columns import TooLarge
from analysis.report.content import content, window_us
from analysis.report.copies import of_sample, waste
from analysis.report.figures import shades_said
from analysis.report.gather import WANTED, Gathered, gather
from analysis.report.page import (
    COMMAND_MOST,
    badge,
    block,
    dictionary,
    figures,
    listed,
    options,
    page,
    paragraph,
    squeezed,
    table,
    text_block,
)  # fmt: skip
from analysis.report.places import Places, places
from analysis.report.sampling import HOPS_MOST
from analysis.report.summary import NOT_AUDITED, name_of, summary
from analysis.report.typed import plot_of, whence
from analysis.report.wanting import missed
from analysis.report.words import plain, share, time
from brokers.engine.runfolder import RunFolder
from brokers.errors import RunDamaged
from brokers.faults import REASONS

_BUSIEST, _LOSSES_MOST, _NAMED_MOST = 20, 400, 2_000
_SINGLE = {"losses": "losses", "changes": "changes", "faults": "faults", "stays": "stays of clients"}
_HOLDS = {True: "holds", False: "does not hold", None: NOT_AUDITED}


def report_of(run: RunFolder, hops_most: int = HOPS_MOST, *, trust: bool = False) -> str:
    """The page of a run, as text."""
    found = gather(run, hops_most, trust=trust)
    told = summary(found)
    sections: list[tuple[str, str, str]] = []
    data = ""
    drawn = found.network.brokers > 0
    if drawn:
        where = places(run, found.network, trust=trust)
        wanted = missed(found)
        explained, of = cases(found, wanted)
        try:
            wasted = waste(found)
            facts, columns = content(found, where, wanted, wasted)
        except TooLarge as error:
            raise RunDamaged.at(run.path, str(error)) from None
        facts |= {"plot": _plot(found, trust), "typed": [quote(plain(name)) for name in found.names]}
        data = block("facts", facts) + text_block("cases", squeezed(explained))
        data += text_block("columns", columns.packed())
        sections.append(("overlay", "The overlay", _overlay(found, where, facts["plot"], wasted.said)))
        sections.append(("why", "Why", _why(found, explained, of, facts["plot"])))
    pictures = charts(found)
    if pictures:
        sections.append(("charts", "Charts", paragraph(whence([run.path]), "dim") + figures(pictures)))
    sections.append(("run", "What was run", _run(told, found.analyzed.shown())))
    sections.insert(0, ("summary", "What matters", _summary(found, told)))  # notes what all others left out
    head = (
        f"<h1>{escape(told['name'])}</h1>{paragraph(told['title']) if told['title'] else ''}"
        f"<p>Verdict of the audit: {badge(told['verdict'])}</p>"
    )
    return page(f"{told['name']}: report of a run", sections, head, data, scripts=drawn)


# ---- what matters ----------------------------------------------------------------------------------------


def _summary(found: Gathered, told: dict[str, Any]) -> str:
    parts = []
    if told["verdict"] == NOT_AUDITED:
        parts.append(
            paragraph("Whether what was delivered is what had to be, nobody has asked: brokerlab audit RUN.")
        )
    for each in told["verdicts"]:
        parts.append(f"<p>{escape(each['service'])}: {badge(each['verdict'])} {escape(each['reason'])}</p>")
    if told["expected"]:
        rows = [[each["text"], each["measured"], _HOLDS[each["holds"]]] for each in told["expected"]]
        parts.append(table("What the scenario expects", ("expectation", "measured", "verdict"), rows))
    parts.append(f"<h3>What is unusual</h3>{listed(told['unusual'].sentences)}")
    if told["services"]:
        heads = list(told["services"][0])
        rows = [[row.get(head, "–") for head in heads] for row in told["services"]]
        parts.append(table("Services side by side", heads, rows))
    notes = [*found.notes, *found.analyzed.notes, *told["notes"]]
    if not found.sample.whole:
        notes.append(
            f"The run is large: pictures of single messages show {share(found.sample.share)} of all messages, each "
            "whole; counts, charts and tables are of all."
        )
    notes += _cut(found)
    if notes:
        parts.append(f"<h3>What this report leaves out, and what the run noted</h3>{listed(notes)}")
    return "".join(parts)


def _cut(found: Gathered) -> Iterator[str]:
    """Of what the file holds a share, with how many of how many; a share of messages has one of their changes."""
    for name, what in _SINGLE.items():
        kept = found.rows(name)[WANTED[name][0]].size
        there = found.run.rows(name) if found.has(name) else 0
        if kept < there:
            yield f"Of {there:,} {what} {kept:,} are in this file one by one: a share by a hash, from all the time."
        if kept < there and name == "changes":
            yield "So where it finds that a client had asked for nothing, whether it had is not known."
    listed_of = found.run.rows("losses") if found.has("hops") else 0
    if (shown := len(_losses(found))) < listed_of:
        yield f"The list Lost has {shown:,} of {listed_of:,} losses, evenly from all that are in this file."
    yield from shades_said(found)


# ---- the overlay -----------------------------------------------------------------------------------------


def _overlay(found: Gathered, where: Places, plot: str, wasted: str) -> str:
    names = [plain(each) for each in found.names]
    network = found.network
    shows = [("traffic", "traffic: messages and events")] if "on_links" in found.counts else []
    shows += [("tables", "table sizes")] if "entries" in found.counts else []
    shows += [("load", "load: time at work")] if found.has("brokers") else []
    shows += (
        [("waste", "waste: copies that came for nothing")]
        if found.kinds and "on_links" in found.counts
        else []
    )
    shows = shows or [("traffic", "the overlay")]
    known = options([(name_of(network, at), "") for at in range(min(network.brokers, _NAMED_MOST))])
    what = f"Overlay of {network.brokers:,} brokers and servers and {network.links:,} links, coloured by what is chosen"
    return (
        '<p id="waiting">The pictures are being unpacked; they need scripts.</p><div id="live" hidden>'
        '<fieldset><legend class="dim">What is shown</legend>'
        f'<label>Show <select id="show">{options(shows)}</select></label>'
        f'<label>Service <select id="service">{options([(-1, "all"), *enumerate(names)])}</select></label>'
        '<label><input type="checkbox" id="whole" checked> the whole run</label>'
        '<label>Broker <input id="broker" list="brokers" class="short" autocomplete="off"></label>'
        f'<datalist id="brokers">{known}</datalist>'
        '<label>Link <input id="link" list="links" class="short" autocomplete="off"></label>'
        '<datalist id="links"></datalist></fieldset>'
        '<fieldset><legend class="dim">Time</legend><button id="play" type="button" aria-pressed="false">Play</button>'
        f'<label>Speed <select id="speed">{options(_speeds(found))}</select></label>'
        '<input type="range" id="time" min="0" max="1000" step="1" value="0" aria-label="Simulated time">'
        '<output id="clock" for="time"></output></fieldset>'
        f'<canvas id="map" tabindex="0" role="application" aria-label="{escape(what)}" '
        'aria-describedby="keys legend key"></canvas>'
        '<p class="dim screen" id="keys">On the map, arrow keys move time by a thousandth of the run, page up and page '
        "down by a twentieth, home and end to its ends; space plays.</p>"
        '<ul id="key" class="key" aria-label="Signs of the map and of the diagram"></ul>'
        f'<p class="dim" id="legend"></p>{_command("map", plot, "overlay --metric", shows[0][0])}'
        '<p id="said" role="status" aria-live="polite">Press a broker or a link to read about it.</p>'
        '<div id="curve" aria-live="polite"></div>'
        f"{_explained_map(found, where, wasted)}</div>{_busiest(found)}"
    )


def _speeds(found: Gathered) -> list[tuple[float, str]]:
    """Simulated seconds per second: so that the run takes a minute, and slower, so that single messages are seen."""
    minute = found.span_ns / 60e9
    chosen = sorted({0.01, 0.1, 1.0, float(f"{max(minute, 0.001):.1g}")})
    begin = min(chosen, key=lambda speed: abs(np.log(speed / 0.1)))
    ordered = [begin, *(speed for speed in chosen if speed != begin)]
    return [(speed, f"{speed:g} s a second") for speed in ordered]


def _explained_map(found: Gathered, where: Places, wasted: str) -> str:
    said = [
        where.how,
        "Colour and width of links tell messages, colour and size of brokers the events that they handled, the share "
        "of the time that they were at work, or the entries of their tables, in the stretch of time around the slider. "
        "Both directions of a link are one line, as the busier.",
        "Each service has its shape and colour. Shapes on links are messages under way, filled if they carry a "
        "publication; a message is drawn as long as its link's delay. Crosses and dashes are what fails, small crosses "
        "messages that were lost. Where there are too many, some of all of them are drawn, and it is said how many.",
        "A shape that widens and fades around a broker is a delivery. A link that is pressed, or named, is drawn "
        "with what it carried over time.",
        "A message that is chosen below lights up its way, a change its spreading.",
        "A copy of a publication came for nothing if its broker had handled one before, or neither delivered it nor "
        "sent it on.",
    ]  # fmt: skip
    if found.network.has_latent:
        said.append(
            "Links that arise at times are drawn while they carry something, others of them not at all."
        )
    if not found.sample.whole:
        said.append(f"Messages under way are {of_sample(found)}.")
    if found.kinds and "on_links" in found.counts:
        said.append(f"Waste is {wasted or 'of all messages'}.")
    return f"<details><summary>How to read it</summary>{listed(said)}</details>"


def _busiest(found: Gathered) -> str:
    """The picture as tables, for whoever reads rather than looks."""
    if not found.has("brokers"):
        return ""
    network = found.network
    brokers = found.run.read("brokers").sort_by("broker")
    handled, delivered, busy = (brokers[name].to_numpy() for name in ("messages", "deliveries", "busy_ns"))
    rows = [
        [name_of(network, at), f"{handled[at]:,}", f"{delivered[at]:,}", time(int(busy[at]))]
        for at in np.argsort(-handled, kind="stable")[:_BUSIEST].tolist()
    ]
    links = found.run.read("links").sort_by("link")
    messages, lost, delay = (links[name].to_numpy() for name in ("messages", "lost", "delay_ns"))
    over = [
        [name_of(network, int(network.source[at])), name_of(network, int(network.target[at])), f"{messages[at]:,}",
         f"{lost[at]:,}", time(int(delay[at]))]
        for at in np.argsort(-messages, kind="stable")[:_BUSIEST].tolist()
    ]  # fmt: skip
    first = table("The busiest brokers", ("broker", "events", "deliveries", "at work"), rows)
    second = table("The busiest links", ("from", "to", "messages", "lost", "delay"), over)
    return (
        f'<details><summary>The overlay as tables</summary><div class="two">{first}{second}</div></details>'
    )


# ---- why -------------------------------------------------------------------------------------------------


def _why(found: Gathered, explained: list[dict[str, Any]], of: list[tuple[str, int, int]], plot: str) -> str:
    cases_told = [
        (
            at,
            f"{each['service']} {each['message']} → client {each['client']}: {each['verdict']} ({each['about']})",
        )
        for at, each in enumerate(explained)
    ]
    parts = []
    if not found.has("hops"):
        return paragraph("Ways of messages need trace level full.") + _hidden_controls()
    if explained:
        parts.append(
            '<fieldset><legend class="dim">Explained</legend>'
            f'<label>Case <select id="case">{options(cases_told)}</select></label></fieldset><div id="explained"></div>'
        )
        told = "; ".join(f"{name}: {shown:,} of {total:,}" for name, shown, total in of)
        parts.append(
            paragraph(f"{len(explained)} cases are explained here, of each sort some. {told}.", "dim")
        )
    else:
        parts.append('<div hidden><select id="case"></select><div id="explained"></div></div>')
        if found.kinds is None:
            why = "the run names code from outside; --trust imports it"
        elif found.run.rows("hops") > EVENTS_MOST:
            why = f"the run has more than {EVENTS_MOST:,} events"
        else:
            why = "nothing was published"
        parts.append(
            paragraph(
                f"No case is explained in this file: {why}. Ask: brokerlab explain RUN MESSAGE --client N."
            )
        )
    losses = _losses(found)
    hidden = "" if losses else " hidden"
    parts.append(
        '<form id="find"><fieldset><legend class="dim">Any message</legend>'
        '<label>Message <input id="message" class="short" placeholder="0#1" autocomplete="off"></label>'
        '<label>Client <input id="client" class="short" inputmode="numeric" autocomplete="off"></label>'
        '<button type="submit">Show</button><button type="button" id="earlier">Earlier publication</button>'
        '<button type="button" id="later">Later publication</button><button type="button" id="clear">None</button>'
        f'<label{hidden}>Lost ({len(losses):,} of {found.rows("losses")["link"].size:,}) '
        f'<select id="loss">{options([(-1, "choose one"), *losses])}</select></label>'
        '<label id="changes" hidden>Changes <span id="changes-of"></span> <select id="change"></select></label>'
        "</fieldset></form>"
    )
    windows = [(f"{value:g}", time(value * 1000)) for value in _windows(found)]
    parts.append(
        '<h3>Space and time</h3><fieldset class="screen"><label>Without a message, from the slider on for '
        f'<select id="window">{options(windows)}</select></label></fieldset>'
        '<canvas id="diagram" role="img" aria-label="Diagram: a row for each broker, time from left to right, a line '
        'for each message; the table below tells the same of a chosen message."></canvas>'
        f'<p class="dim" id="diagram-said" role="status"></p>{_command("diagram", plot, "space-time")}'
        '<div id="answer" aria-live="polite"></div>'
    )
    return "".join(parts)


def _hidden_controls() -> str:
    """What the scripts look for and a page without ways has no use for."""
    names = {
        "case": "select", "loss": "select", "window": "select", "explained": "div", "answer": "div",
        "diagram": "canvas", "earlier": "button", "later": "button", "clear": "button", "diagram-said": "p",
        "diagram-command": "code", "change": "select", "changes-of": "span", "changes": "p",
    }  # fmt: skip
    tags = "".join(f'<{tag} id="{name}"></{tag}>' for name, tag in names.items())
    return f'<div hidden>{tags}<form id="find"><input id="message"><input id="client"></form></div>'


def _windows(found: Gathered) -> list[float]:
    """Widths of a diagram in µs; the first is a few links long."""
    first = window_us(found)
    rest = [10.0**power for power in range(3, 8) if 10.0**power < found.span_ns / 1000]
    return [float(first), *(each for each in rest if each != first)]


def _losses(found: Gathered) -> list[tuple[int, str]]:
    rows = found.rows("losses")
    if not rows["link"].size:
        return []
    order = np.argsort(rows["time_ns"], kind="stable")
    step = max(1, -(-order.size // _LOSSES_MOST))
    network, told = found.network, []
    for at in order[::step].tolist():
        link = int(rows["link"][at])
        where = "a delivery" if link < 0 else (
            f"{name_of(network, int(network.source[link]))} to {name_of(network, int(network.target[link]))}"
        )  # fmt: skip
        told.append((at, f"{time(int(rows['time_ns'][at]))}, {where} ({REASONS[int(rows['reason'][at])]})"))
    return told


def _plot(found: Gathered, trust: bool) -> str:
    """How the commands begin that draw what scripts draw here."""
    return plot_of([found.run.path]) + (" --trust" if trust else "")


def _command(canvas: str, plot: str, *kind: str) -> str:
    """What draws a picture of the scripts as a file; they change it with the picture."""
    typed = escape(plain(" ".join([plot, "--kind", *kind]), COMMAND_MOST))
    return f'<p class="command"><code id="{canvas}-command">{typed}</code></p>'


# ---- what was run ----------------------------------------------------------------------------------------


def _run(told: dict[str, Any], aggregates: list[Shown]) -> str:
    parts = [dictionary("Scenario", told["scenario"])]
    parts.append(
        dictionary("Network", [[name.replace("_", " "), value] for name, value in told["network"].items()])
    )
    if aggregates:
        parts.append("<h3>Aggregates by brokerlab analyze</h3>")
    for each in aggregates:
        parts.append(table(each.title, each.heads, each.rows))
        if each.total > len(each.rows):
            parts.append(paragraph(f"The first {ROWS_MOST} of {each.total:,} rows; all are in {each.where}.", "dim"))
    return "".join(parts)
