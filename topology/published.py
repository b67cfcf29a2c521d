"""Formats in which collections of networks are published: SNDlib, REPETITA, CAIDA.

    SNDlib XML      <network><networkStructure> with <nodes> and <links>; geographical or pixel coordinates
    SNDlib native   sections `NODES (`, `LINKS (`, each entry on a line of its own
    REPETITA        `NODES n`, a header, a line each; `EDGES m`, a header, a line each, by number of node
    CAIDA as-rel    `provider|customer|-1` and `peer|peer|0`, autonomous systems by number; serial 2 has a column more

Capacities, costs, demands, weights and delays in them are not read: links get theirs from the scenario.
Topohub's files are node-link JSON or GML, which `files` reads.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from topology.errors import TopologyError
from topology.raw import Raw, finite, node_key


def local_name(element: ET.Element) -> str:
    """The tag without its namespace, in small letters."""
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""


# ---- SNDlib ------------------------------------------------------------------------------------------


def sndlib_xml(root: ET.Element, where: str) -> Raw:
    """A `<network>`; demands also have a source and a target, so only what stands in `<links>` is a link."""
    raw = Raw()
    degrees = False
    for section in root.iter():
        if local_name(section) == "nodes":
            degrees = str(section.get("coordinatesType")).lower() == "geographical"
            x, y = ("longitude", "latitude") if degrees else ("x", "y")
            for node in section:
                if local_name(node) == "node":
                    place = {local_name(each): each.text for each in node.iter()}
                    raw.nodes.append((node_key(node.get("id")), {x: place.get("x"), y: place.get("y")}))
        elif local_name(section) == "links":
            for link in section:
                if local_name(link) == "link":
                    ends = {local_name(each): node_key(each.text) for each in link if each.text}
                    raw.links.append((ends.get("source"), ends.get("target")))
    if not raw.nodes:
        raise TopologyError(f"{where}: has no <nodes> with a <node>; is this SNDlib's XML?")
    return raw


_SECTION = re.compile(r"([A-Z_]+)\s*\(\s*(\)?)")
_NATIVE_NODE = re.compile(r"(?P<id>[^\s()]+)(?:\s*\(\s*(?P<x>[^\s()]+)\s+(?P<y>[^\s()]+)\s*\))?")
_NATIVE_LINK = re.compile(r"[^\s()]+\s*\(\s*(?P<source>[^\s()]+)\s+(?P<target>[^\s()]+)\s*\).*")


def sndlib_native(text: str, where: str) -> Raw:
    """Sections in brackets; those but of nodes and links are passed over."""
    raw = Raw()
    section: str | None = None
    for number, line in _lines(text):
        if section is None:
            opened = _SECTION.fullmatch(line)
            if opened:
                section = None if opened[2] else opened[1]
            elif not line.startswith("?"):
                raise TopologyError(
                    f"{where}: line {number}: a section of SNDlib's native format begins like 'NODES (' "
                    f"(got {line[:40]!r})"
                )
        elif line == ")":
            section = None
        elif section == "NODES":
            node = _NATIVE_NODE.fullmatch(line)
            if not node:
                raise TopologyError(
                    f"{where}: line {number}: a node is written like 'Berlin ( 13.4 52.5 )' (got {line[:40]!r})"
                )
            raw.nodes.append((node_key(node["id"]), {"x": node["x"], "y": node["y"]}))
        elif section == "LINKS":
            link = _NATIVE_LINK.fullmatch(line)
            if not link:
                raise TopologyError(
                    f"{where}: line {number}: a link is written like 'L1 ( Berlin Paris ) ...' (got {line[:40]!r})"
                )
            raw.links.append((node_key(link["source"]), node_key(link["target"])))
    if section is not None:
        raw.dropped.append(f"closing bracket of {section} missing at the end")
    if not raw.nodes:
        raise TopologyError(f"{where}: has no section NODES with a node in it; is this SNDlib's native format?")
    return raw


# ---- REPETITA ----------------------------------------------------------------------------------------

_COUNT = re.compile(r"(NODES|EDGES)\s+(\d{1,9})")
_EDGE_FIELDS = 6  # label src dest weight bw delay


def repetita(text: str, where: str) -> Raw:
    """Nodes by label with two coordinates, edges in both directions by the numbers of their nodes."""
    raw = Raw()
    section, due = "", {"NODES": 0, "EDGES": 0}
    for number, line in _lines(text):
        counts = _COUNT.fullmatch(line)
        if counts:
            section = counts[1]
            due[section] = int(counts[2])
            continue
        fields = line.split()
        if fields[0] == "label":
            continue
        if section == "NODES":
            x, y = (finite(field) for field in fields[-2:]) if len(fields) >= 3 else (None, None)
            if x is None or y is None:
                raise TopologyError(
                    f"{where}: line {number}: a node is a label and two coordinates (got {line[:40]!r})"
                )
            label = " ".join(fields[:-2])
            raw.nodes.append((str(len(raw.nodes)), {"label": label, "x": x, "y": y}))
        elif section == "EDGES":
            if len(fields) < _EDGE_FIELDS:
                raise TopologyError(
                    f"{where}: line {number}: an edge is a label, two numbers of nodes, weight, bandwidth and "
                    f"delay (got {line[:40]!r})"
                )
            raw.links.append((node_key(fields[-5]), node_key(fields[-4])))
        else:
            raise TopologyError(f"{where}: line {number}: a REPETITA file begins with 'NODES' and their number")
    if not raw.nodes:
        raise TopologyError(f"{where}: has no nodes; is this a REPETITA topology?")
    for what, found in (("NODES", len(raw.nodes)), ("EDGES", len(raw.links))):
        if found != due[what]:
            raw.dropped.append(f"{what} {due[what]} announced, {found} there")
    # Both directions of a link stand there; one is enough, and only what is repeated beyond that is dirt.
    raw.links = _undirected(raw.links)
    return raw


def _undirected(links: list[tuple[str | None, str | None]]) -> list[tuple[str | None, str | None]]:
    """The links without the ones back: as often as a direction stands there at most."""
    back: dict[tuple[str | None, str | None], int] = {}
    kept = []
    for a, b in links:
        if back.get((a, b)):
            back[a, b] -= 1
        else:
            back[b, a] = back.get((b, a), 0) + 1
            kept.append((a, b))
    return kept


# ---- CAIDA -------------------------------------------------------------------------------------------

AS_REL = re.compile(r"(\d{1,10})\|(\d{1,10})\|(-1|0|1|2)(?:\|[\w,.-]*)?")


def as_rel(text: str, where: str) -> Raw:
    """Relationships between autonomous systems, as links without direction; names are AS and the number."""
    raw = Raw(implicit=True)
    for number, line in _lines(text):
        found = AS_REL.fullmatch(line)
        if not found:
            raise TopologyError(
                f"{where}: line {number}: a relationship is written like '701|7018|0' (got {line[:40]!r})"
            )
        raw.links.append((f"AS{found[1]}", f"AS{found[2]}"))
    if not raw.links:
        raise TopologyError(f"{where}: no line has a relationship like '701|7018|0'")
    return raw


# ---- what they share ---------------------------------------------------------------------------------


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines with something on them that is no remark, and their numbers."""
    for number, line in enumerate(text.splitlines(), 1):
        content = line.strip()
        if content and not content.startswith("#"):
            yield number, content
