"""One page over all reproductions that lie in a folder: what each claim came to, at the usual scale and with `--full`.

    index.html      to read in a browser
    index.md        the same

Folders are told apart by what their `claims.json` says of itself. Where several are of the same reproduction and
scale, that counts which has the usual name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from analysis.papers.claims import FAILS, UNSURE, VERDICTS
from analysis.papers.experiment import Table
from analysis.papers.registry import folder_of
from analysis.papers.writing import FORMAT, markdown
from analysis.report import page
from analysis.report.words import plain

FULL = {False: "usual", True: "full"}  # what scales are called
_LONG = 600  # characters of a cell
_NOT_RUN = "not run"
Said = Mapping[str, Any]


class Found(NamedTuple):
    """A reproduction at one scale."""

    folder: str
    document: Said

    @property
    def claims(self) -> dict[str, Said]:
        return {each["key"]: each for each in self.document["claims"]}


Scales = dict[bool, Found]


def write(folder: Path) -> None:
    """Make both pages anew."""
    found = gathered(folder)
    (folder / "index.html").write_text(_page(found), encoding="utf-8")
    (folder / "index.md").write_text(_markdown(found), encoding="utf-8")


def gathered(folder: Path) -> dict[str, Scales]:
    """By name and scale."""
    found: dict[str, Scales] = {}
    for path in sorted(folder.glob("*/claims.json")):
        document = _document(path)
        if document is None:
            continue
        name, full = str(document["name"]), bool(document["full"])
        scales = found.setdefault(name, {})
        if full not in scales or path.parent.name == folder_of(name, full):
            scales[full] = Found(path.parent.name, document)
    return found


def _document(path: Path) -> Said | None:
    """The claims of a reproduction; None if another version wrote them."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and found.get("format") == FORMAT else None


# ---- tables ------------------------------------------------------------------------------------------------


def counts(found: Mapping[str, Scales]) -> Table:
    """How many claims of each reproduction have which verdict, and of all, scale by scale."""
    rows = []
    for full, scale in FULL.items():
        by_name = {name: scales[full] for name, scales in found.items() if full in scales}
        verdicts = {name: [each["verdict"] for each in one.document["claims"]] for name, one in by_name.items()}
        if len(by_name) > 1:
            verdicts["all"] = [each for some in verdicts.values() for each in some]
        for name, some in verdicts.items():
            seeds = len(by_name[name].document["seeds"]) if name in by_name else None
            rows.append({
                "reproduction": name, "scale": scale, "seeds": seeds, "claims": len(some),
                **{each: some.count(each) for each in VERDICTS},
            })  # fmt: skip
    return rows


def claims(scales: Scales) -> Iterator[dict[str, str]]:
    """Each claim of a reproduction, its scales side by side."""
    by_scale = {full: scales[full].claims if full in scales else {} for full in FULL}
    for key in dict.fromkeys(key for some in by_scale.values() for key in some):
        said = {full: some[key] for full, some in by_scale.items() if key in some}
        first = next(iter(said.values()))
        row = {"claim": first["name"], "key": key, "source": f"{first['source']}: {first['where']}"}
        row["expected"] = "; with --full: ".join(dict.fromkeys(each["expected"] for each in said.values()))
        for full, scale in FULL.items():
            row[f"measured, {scale}"] = said[full]["measured"] if full in said else ""
            row[f"verdict, {scale}"] = _verdict(said[full]) if full in said else _NOT_RUN
        yield row


def _verdict(claim: Said) -> str:
    """With its reason, where it is no plain yes."""
    reason = claim["reason"] if claim["verdict"] in (FAILS, UNSURE) else ""
    return f"{claim['verdict']}: {reason}" if reason else str(claim["verdict"])


# ---- pages -------------------------------------------------------------------------------------------------


def _markdown(found: Mapping[str, Scales]) -> str:
    parts = ["# Reproductions", markdown(counts(found))]
    for name, scales in found.items():
        parts.append(f"## {plain(name)}: {_prose(scales)}")
        parts.append(", ".join(f"[{scale}]({quote(folder)}/report.md)" for scale, folder in _folders(scales)))
        parts.append(markdown([_shown(row) for row in claims(scales)]))
    return "\n\n".join(parts) + "\n"


def _page(found: Mapping[str, Scales]) -> str:
    sections = [("verdicts", "Verdicts", _table("", counts(found)))]
    for place, (name, scales) in enumerate(found.items(), 1):
        links = ", ".join(
            f'<a href="{escape(quote(folder))}/report.html">{scale}</a>' for scale, folder in _folders(scales)
        )
        inside = f"<p>Figures and tables: {links}</p>" + _table(_prose(scales), list(claims(scales)))
        sections.append((f"of-{place}", plain(name), inside))
    return page.page("Reproductions", sections, "<h1>Reproductions</h1>")


def _table(title: str, rows: Table) -> str:
    heads: Sequence[str] = list(rows[0]) if rows else ()
    return page.table(title, heads, [list(_shown(row).values()) for row in rows])


def _shown(row: Mapping[str, Any]) -> dict[str, str]:
    return {key: "" if value is None else plain(value, _LONG) for key, value in row.items()}


def _prose(scales: Scales) -> str:
    return plain(next(iter(scales.values())).document["prose"], _LONG)


def _folders(scales: Scales) -> Iterator[tuple[str, str]]:
    for full, scale in FULL.items():
        if full in scales:
            yield scale, scales[full].folder
