"""What a finding of a hunt looks like from inside: its explanation and its picture, written beside its scenario.

explanation.txt    what `brokerlab explain` says of the message and client that the finding is about
diagram.txt, .svg  the message diagram
beside/            the run of the same case by flooding, where the kind has that, and it takes the case
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis.spark.explain import explain, opened, text
from analysis.spark.trace import services_of
from analysis.ways.leaving import staying
from analysis.ways.picturing import as_text, picture, write_svg
from analysis.ways.stopping import stopping
from analysis.ways.told import Told
from brokers.errors import BrokerlabError
from brokers.names import table
from scenarios.hunt.stopped import Stopped
from scenarios.loader import from_data
from scenarios.running import run

_PUBLICATION, _CLIENT = re.compile(r"publication (\d+#\d+)"), re.compile(r"client (\d+)")
_FILTER, _RANKED = re.compile(r"filter (\d+)#\d+"), re.compile(r"\(rank, filter, score, tie\) \(-?\d+, (\d+),")
_QUERY, _ROUND = re.compile(r"query (\d+#\d+)"), re.compile(r" at (\d+) ns|in round (\d+) of (\d+) ns")


def explained(judge: str, told: str, kept: Path, folder: Path, scenario: Mapping[str, Any]) -> list[str]:
    """Write explanation and diagram of a finding into its folder; gives what to print of it, a few lines.

    Parameters
    ----------
    judge, told : who found it, and what, a sentence that names the message and the client that it is about
    kept : the run folder of its case
    folder : the finding's
    scenario : its case
    """
    about, number, at_ns = named(told, run_nodes(kept))
    drawn = picture(kept, about, number, begin_ns=None if about else 0, at_ns=at_ns, trust=True)
    (folder / "diagram.txt").write_text(as_text(drawn) + "\n", "utf-8")
    write_svg(drawn, folder / "diagram.svg")
    if about is None:
        run_told = opened(kept)
        asked = judge in ("leaks", "heals")
        left = staying(Told.of_run(run_told, services_of(run_told, trust=True)[0])) if asked else []
        if left:
            (folder / "explanation.txt").write_text("\n".join(left) + "\n", "utf-8")
        return left
    other, refused = _flooded(folder, scenario) if number is not None else (None, "")
    found = explain(kept, about, number, beside=other, at_ns=at_ns, trust=True)
    (folder / "explanation.txt").write_text(text(found) + "\n" + refused, "utf-8")
    if "to" not in found:
        return []
    why = found["to"]["why"]
    said = [f"{why['verdict']}: {why['said'][0]}" if why["said"] else why["verdict"], *why["said"][1:]]
    return said + (found["beside"]["said"][:1] if "beside" in found else [])


def cut_short(found: Stopped, folder: Path) -> list[str]:
    """The same of a case that does not come to its end, from its trace up to there."""
    why = stopping(found)
    (folder / "explanation.txt").write_text("\n".join(why.lines) + "\n", "utf-8")
    (folder / "diagram.txt").write_text(as_text(why.picture) + "\n", "utf-8")
    write_svg(why.picture, folder / "diagram.svg")
    return why.decision.said[1:]


def named(told: str, nodes: int) -> tuple[str | None, int | None, int | None]:
    """What a sentence of a judge is about: message, number of the client, and of a query when it was due."""
    if (query := _QUERY.search(told)) and (due := _ROUND.search(told)):
        return query[1], None, int(due[1] or int(due[2] or 0) * int(due[3] or 0))
    publication = _PUBLICATION.search(told)
    if publication is None:
        return None, None, None
    client, ranked = _CLIENT.search(told) or _FILTER.search(told), _RANKED.search(told)
    if client is None and ranked is not None:
        return publication[1], (int(ranked[1]) >> 32) - nodes, None
    return publication[1], int(client[1]) if client else None, None


def run_nodes(kept: Path) -> int:
    """How many brokers and servers a run has."""
    return opened(kept).rows("brokers")


def flooding_of(kind: str) -> str | None:
    """The registered protocol that floods publications of a kind, if there is one."""
    for name, entry in sorted(table("protocols").items()):
        if kind in entry.facts.get("kinds", ()) and (name == "flooding" or name.endswith("-flooding")):
            return name
    return None


def _flooded(folder: Path, scenario: Mapping[str, Any]) -> tuple[Path | None, str]:
    """A run of the same case by flooding; None where there is none, with a line where it does not take the case."""
    data = json.loads(json.dumps(scenario))
    (service,) = data["services"]
    name = flooding_of(service["kind"])
    if name is None or service["protocol"] == name:
        return None, ""
    for key in ("options", "view", "tables"):
        service.pop(key, None)
    service["protocol"], data["name"] = name, name
    try:
        return run(from_data(data, trust=True), engine="inline", out=folder / "beside", overwrite=True).path, ""
    except BrokerlabError as error:
        return None, f"not beside {name}: {error}\n"
