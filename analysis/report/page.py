"""One HTML file: text, pictures, scripts and styles, under a policy that lets in these scripts and styles only.

Whatever comes from a run is text: escaped here and in `svg.py`, or JSON in which no `<` stands.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from analysis.report.charts import Chart
from analysis.report.columns import lettered
from analysis.report.svg import tag
from analysis.report.words import plain
from brokers.verdicts import VERDICTS

SCRIPTS = ("columns.js", "model.js", "map.js", "diagram.js", "pair.js", "why.js", "curve.js", "start.js")
STYLES = ("drawing.css", "page.css")
COMMAND_MOST = 4_000
_FOLDER = files("analysis.report") / "page"


def asset(name: str) -> str:
    """A file of `page/`."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def _said(name: str) -> str:
    """A script without what only its readers need: comments on lines of their own, and margins."""
    lines = (line.strip() for line in asset(name).splitlines())
    return "".join(f"{line}\n" for line in lines if line and not line.startswith("//") and line != '"use strict";')


def page(
    title: str, sections: Sequence[tuple[str, str, str]], head: str, data: str = "", scripts: bool = False
) -> str:
    """A whole page: sections are (id, name, HTML); `data` are blocks for the scripts."""
    style = "".join(map(asset, STYLES))
    script = f'"use strict";\n{"".join(map(_said, SCRIPTS))}' if scripts else ""
    policy = f"default-src 'none'; style-src '{_hash(style)}'; img-src data:; base-uri 'none'; form-action 'none'"
    policy += f"; script-src '{_hash(script)}'" if script else "; script-src 'none'"
    links = "".join(f'<a href="#{name}">{escape(shown)}</a>' for name, shown, _ in sections)
    body = "".join(
        f'<section id="{name}" aria-labelledby="{name}-head"><h2 id="{name}-head">{escape(shown)}</h2>'
        f"{inside}</section>\n"
        for name, shown, inside in sections
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="generator" content="brokerlab">\n'  # by which files.py knows it again
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f'<link rel="icon" href="data:,">\n<title>{escape(title)}</title>\n'
        f"<style>{style}</style>\n</head>\n<body>\n"
        '<a class="skip" href="#main">To the report</a>\n'
        f'<header>{head}<nav aria-label="Parts">{links}</nav></header>\n'
        f'<main id="main">\n{body}</main>\n{data}{f"<script>{script}</script>" if script else ""}\n</body>\n</html>\n'
    )


def alone(svg: str) -> str:
    """A picture with its colours, as a file."""
    style = re.sub(r"/\*.*?\*/", "", asset("drawing.css"), flags=re.S).replace("svg ", "").replace("\n", " ")
    return svg.replace(">", f">{tag('style', style)}", 1) + "\n"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def block(name: str, data: Any) -> str:
    """Plain data for the scripts. No text in it can end the block or begin a comment."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return f'<script type="application/json" id="{name}">{safe}</script>\n'


def text_block(name: str, text: str) -> str:
    """Packed bytes for the scripts."""
    return f'<script type="text/plain" id="{name}">{text}</script>\n'


def squeezed(data: Any) -> str:
    """Plain data for the scripts, which they unpack: for what is long and alike."""
    return lettered(zlib.compress(json.dumps(data, allow_nan=False).encode(), 9))


# ---- parts of pages --------------------------------------------------------------------------------------


def paragraph(text: str, class_: str = "") -> str:
    return f"<p{f' class={escape(class_)!r}' if class_ else ''}>{escape(text)}</p>"


def badge(verdict: str) -> str:
    """A verdict, which says what it is in a word as well as in a colour."""
    css = verdict if verdict in VERDICTS else "not-audited"
    return f'<span class="verdict {css}">{escape(verdict)}</span>'


def listed(texts: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(each)}</li>" for each in texts) + "</ul>"


def table(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of texts; columns of figures stand at the right."""
    right = [bool(rows) and all(_is_figure(row[at]) for row in rows) for at in range(len(heads))]
    css = [' class="number"' if each else "" for each in right]
    head = "".join(f'<th scope="col"{mark}>{escape(each)}</th>' for each, mark in zip(heads, css))
    body = "".join(
        "<tr>" + "".join(f"<td{mark}>{escape(cell)}</td>" for cell, mark in zip(row, css)) + "</tr>" for row in rows
    )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f'<div class="scroll"><table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _is_figure(text: str) -> bool:
    return text[:1].isdigit() or text[:1] in "–-+" or text == ""


def dictionary(caption: str, rows: Sequence[Sequence[str]]) -> str:
    body = "".join(f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in rows)
    return f'<div class="scroll"><table><caption>{escape(caption)}</caption><tbody>{body}</tbody></table></div>'


def figures(charts: Sequence[Chart], small: bool = False) -> str:
    """Pictures with their words, and figures for whoever would rather read."""
    return f'<div class="charts{" small" if small else ""}">{"".join(map(_figure, charts))}</div>'


def _figure(chart: Chart) -> str:
    more = ""
    if chart.rows:
        more = f"<details><summary>Figures</summary>{table('', chart.heads, chart.rows)}</details>"
    typed = ""
    if chart.command:
        typed = f'<p class="command"><code>{escape(plain(chart.command, COMMAND_MOST))}</code></p>'
    return f"<figure>{chart.svg}<figcaption>{escape(chart.said)}</figcaption>{typed}{more}</figure>"


def options(choices: Sequence[tuple[Any, str]]) -> str:
    return "".join(f'<option value="{escape(str(value))}">{escape(shown)}</option>' for value, shown in choices)
