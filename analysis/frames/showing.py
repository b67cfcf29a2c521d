"""What a notebook shows of a run, a sweep, a comparison, an audit and a table: HTML without scripts, at most 50 kB.

A notebook's page has styles and scripts of its own, so nothing here may leak into it: the picture is an image, in which
nothing runs and whose styles stay inside, and all that comes from a run is text.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.report.page import badge, listed, paragraph, table
from analysis.report.picture import small_picture
from analysis.report.summary import NOT_AUDITED, expected, service_figures
from analysis.report.words import number, plain, time
from brokers.engine.runfolder import RunFolder, open_run
from brokers.errors import BrokerlabError
from brokers.verdicts import FINDINGS, VERDICTS, words
from scenarios.many.compare import Comparison, compare
from scenarios.many.metrics import kept_audit

if TYPE_CHECKING:
    from analysis.frames.table import Table

BYTES_MOST = 50_000
_PICTURE_PX, _DRAWN_MOST = 380.0, 250  # brokers; more of them are specks
_SERVICES_MOST, _EXPECTED_MOST, _ROWS_MOST, _CELL_MOST = 20, 20, 120, 60
_TEXT_MOST = 16_000  # bytes of tables beside a picture
_FRAME_BYTES = 100
_WORDS_OF_A_PICTURE = 1_000  # bytes
_GONE = "no longer there"
_HOLDS = {True: "holds", False: "does not hold", None: NOT_AUDITED}


def run_html(run: RunFolder) -> str:
    """Verdict, expectations, figures of the services, and the overlay where it is small."""
    audit, manifest = kept_audit(run), run.manifest
    sections = manifest["scenario"]["services"]
    rows = [service_figures(run, at, audit) for at in range(len(sections[:_SERVICES_MOST]))]
    network = manifest["engine"]["metrics"]["network"]
    parts = [
        f"<p><b>{escape(plain(run.path.name))}</b>: {badge(NOT_AUDITED if audit is None else audit['verdict'])}</p>",
        paragraph(plain(manifest["scenario"].get("title", ""), 200)),
        paragraph(
            f"{time(manifest['scenario']['duration'])} simulated, {number(network['events'])} events, "
            f"{number(network['messages'])} messages, {number(network['lost'])} lost; digest {run.digest}"
        ),
    ]
    told = expected(run, audit)[:_EXPECTED_MOST]
    if told:
        holds = [[each["text"], each["measured"], _HOLDS[each["holds"]]] for each in told]
        parts.append(table("Expectations", ("expectation", "measured", "verdict"), holds))
    parts.append(table("Services", list(rows[0]), [list(row.values()) for row in rows]) if rows else "")
    if len(sections) > _SERVICES_MOST:
        parts.append(paragraph(f"{len(sections) - _SERVICES_MOST:,} more services."))
    return _framed([*parts, _picture(run)])


def _picture(run: RunFolder, of: str = "", room: int = BYTES_MOST - _TEXT_MOST) -> str:
    """The overlay as an image; a word where it is too large for one, nothing where the trace has none."""
    if not {"brokers", "links"} <= set(run.tables()):
        return ""
    brokers = run.rows("brokers")
    whose = f" of {plain(of, _CELL_MOST)}" if of else ""
    if brokers <= _DRAWN_MOST:
        svg = base64.b64encode(small_picture(run, _PICTURE_PX).encode()).decode()
        if len(svg) <= room:
            told = escape(f"overlay{whose}: {brokers:,} brokers and servers, by its traffic")
            image = f'<img alt="{told}" width="{_PICTURE_PX:.0f}" src="data:image/svg+xml;base64,{svg}">'
            return f"<p>{image}</p>" + (paragraph(f"The overlay{whose}, by its traffic.") if of else "")
    return paragraph(f"{brokers:,} brokers and servers: too many for a picture here; brokerlab report draws them.")


def sweep_html(path: str | PathLike[str]) -> str:
    """A sweep, as its comparison."""
    return comparison_html(compare([path]))


def comparison_html(found: Comparison) -> str:
    """Verdicts, a table for each section (metrics down, variants across), and the overlay of the first run."""
    labels = [plain(label, _CELL_MOST) for label in found.labels]
    shown = max(1, min(len(labels), 8))
    rows_left = max(10, _ROWS_MOST // shown)
    parts = [_verdicts(found, labels[:shown]), paragraph(
        f"{len(labels):,} variants, {sum(map(len, found.seeds)):,} runs; mean ± half the width of the "
        f"{found.confidence * 100:.4g} % interval; * where the difference from the first is clear of zero."
    )]  # fmt: skip
    left_out = 0
    for section in found.sections:
        rows = []
        for row in section.rows:
            if rows_left:
                rows_left -= 1
                pairs = zip(row.estimates[:shown], row.differences[:shown])
                rows.append([plain(row.metric, _CELL_MOST), *(_estimate(each, change) for each, change in pairs)])
            else:
                left_out += 1
        if rows:
            parts.append(table(plain(section.title, _CELL_MOST), ("metric", *labels[:shown]), rows))
    if left_out or len(labels) > shown:
        parts.append(paragraph(f"{left_out:,} metrics and {len(labels) - shown:,} variants are not shown here."))
    parts.append(listed([plain(note, 200) for note in found.notes[:5]]))
    first = _there(found.runs[0][0])
    room = BYTES_MOST - 2 * _FRAME_BYTES - len("".join(parts).encode()) - _WORDS_OF_A_PICTURE
    return _framed([*parts, "" if first is None else _picture(first, first.path.name, room)])


def _verdicts(found: Comparison, labels: Sequence[str]) -> str:
    """The worst that an audit said of any run, and what audits said of each variant's."""
    told = [[_verdict(run) for run in runs] for runs in found.runs]
    audited = [each for verdicts in told for each in verdicts if each in VERDICTS]
    every = sum(map(len, told))
    worst = max(audited, key=VERDICTS.index, default=NOT_AUDITED)
    said = f"{len(audited):,} of {every:,} runs were audited" if len(audited) < every else f"all {every:,} runs audited"
    rows = [
        [label, ", ".join(f"{verdicts.count(each):,} {each}" for each in dict.fromkeys(verdicts))]
        for label, verdicts in zip(labels, told)
    ]
    return f"<p>{badge(worst)} {said}</p>" + table("Verdicts of runs", ("variant", "runs"), rows)


def _verdict(path: str) -> str:
    run = _there(path)
    if run is None:
        return _GONE
    audit = kept_audit(run)
    return NOT_AUDITED if audit is None else str(audit["verdict"])


def _there(path: str) -> RunFolder | None:
    """A run of a comparison; None where its folder went away since."""
    try:
        return open_run(path)
    except BrokerlabError:
        return None


def _estimate(each: Any, change: Any) -> str:
    if each is None:
        return "–"
    half = "" if each.half_width is None else f" ± {number(each.half_width)}"
    return f"{number(each.mean)}{half}{' *' if change is not None and change.estimate.clear_of_zero else ''}"


def audit_html(audit: dict[str, Any], path: Path | None = None) -> str:
    """The verdict of each service, with what was found, and the overlay of the run."""
    parts = [f"<p><b>Audit of {escape(plain(audit['run']))}</b>: {badge(audit['verdict'])}</p>"]
    services = audit["services"]
    heads = ("service", "protocol", "verdict", "forced", "free", *(words(name) for name in FINDINGS))
    rows = [
        [plain(each["service"]), plain(each["protocol"]), each["verdict"], number(each["forced"]), number(each["free"]),
         *(number(each["findings"][name]["count"]) for name in FINDINGS)]
        for each in services[:_SERVICES_MOST]
    ]  # fmt: skip
    parts.append(table("Decisions", heads, rows))
    parts.append(listed([plain(f"{each['service']}: {each['reason']}", 300) for each in services[:_SERVICES_MOST]]))
    run = None if path is None else _there(str(path))
    return _framed([*parts, "" if run is None else _picture(run)])


def table_html(rows: Table) -> str:
    """The first rows of a table."""
    first = rows.head()
    cells = [[plain(value, _CELL_MOST) for value in row.values()] for row in first.to_pylist()]
    caption = f"{rows.name}: the first {first.num_rows:,} of {rows.num_rows:,} rows"
    return _framed([table(caption, first.column_names, cells)])


def _framed(parts: Sequence[str]) -> str:
    """All parts, up to the first that would be too much."""
    shown, more = "", paragraph("More of it is not shown here.")
    for part in parts:
        if len(f"{shown}{part}{more}".encode()) > BYTES_MOST - _FRAME_BYTES:
            shown += more
            break
        shown += part
    return f'<div class="brokerlab">{shown}</div>'
