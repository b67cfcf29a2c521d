"""Networks from files: GML, GraphML, edge lists, JSON, and the formats of `published`. Real files are dirty, so the
readers forgive.

Theory. A reader turns text into a `Raw` graph: nodes and links with their attributes and lines, nothing
judged yet. `_settle` judges: it finds names and places, drops links whose ends do not exist, and hands over
to `repair`, which handles loops, repetitions and separate parts. What was dropped or changed is counted in
the notes, or refused under `strict`. The readers are our own, since the usual ones stop at the first repeated
label, edge or unknown key.

Whatever the bytes, the only error is `TopologyError`, naming the file and, where there is one, the line.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import html
import io
import json
import lzma
import re
import xml.etree.ElementTree as ET
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Literal

import networkx as nx
import numpy as np
from pydantic import Field

from topology.errors import TopologyError
from topology.geography import great_circle_m
from topology.overlay import did_you_mean
from topology.published import AS_REL, as_rel, local_name, repetita, sndlib_native, sndlib_xml
from topology.raw import Raw, finite, node_key
from topology.repair import Position, as_position, clean_name, counted, simple_graph

DATA = Path(__file__).parent / "data"
BYTES_MAX = 256 * 1024 * 1024

Format = Literal["auto", "gml", "graphml", "edgelist", "json", "sndlib", "repetita", "as-rel"]
Coordinates = Literal["auto", "degrees", "plane"]

# Where the suffix says it all. Files that end in .xml, .txt or .graph are looked into.
_SUFFIXES: dict[str, Format] = {
    ".gml": "gml",
    ".graphml": "graphml",
    ".json": "json",
    ".edges": "edgelist",
    ".edgelist": "edgelist",
    ".el": "edgelist",
    ".csv": "edgelist",
    ".tsv": "edgelist",
}
_PACKED: dict[str, tuple[bytes, Callable[[Any], Any]]] = {
    ".gz": (b"\x1f\x8b", gzip.open),
    ".bz2": (b"BZh", bz2.open),
    ".xz": (b"\xfd7zXZ\0", lzma.open),
}
_FILE_SUFFIXES = {*_SUFFIXES, *_PACKED, ".xml", ".txt", ".graph"}


def file(
    *,
    path: Annotated[str, Field(min_length=1, description="a file, or the name of a shipped network")],
    format: Annotated[
        Format, Field(description="how to read it; auto goes by the suffix, then by the content")
    ] = "auto",
    coordinates: Annotated[
        Coordinates, Field(description="what x and y mean, if the file has no longitude")
    ] = "auto",
    strict: Annotated[
        bool, Field(description="refuse what would otherwise be dropped, several parts included")
    ] = False,
    base: str | None = None,
) -> nx.Graph:
    """A network read from a file.

    Parameters
    ----------
    path : a path, or the bare name of a shipped network such as `Geant2012`
    format : auto goes by the suffix, then by the content; sndlib is its XML or its native form, as-rel is CAIDA's
    coordinates : what positions given as x and y mean; longitude and latitude are always degrees
    strict : repeated links, self-loops, links to nowhere and several components are errors instead of notes
    base : the folder a relative path starts from; supplied by `build`

    Raises
    ------
    TopologyError
        If there is no such file, it cannot be understood, or as `strict` says.

    References
    ----------
    S. Knight et al., "The Internet Topology Zoo", IEEE JSAC 29(9), 2011, for the shipped networks.

    Examples
    --------
    >>> len(file(path="Geant2012"))
    40
    """
    found = locate(path, base)
    try:
        if found.stat().st_size > BYTES_MAX:
            raise TopologyError(f"{path}: larger than {BYTES_MAX} bytes")
        data = found.read_bytes()
    except OSError as error:
        raise TopologyError(f"{path}: cannot be read: {error.strerror or error}") from None
    if format == "auto":
        name = found.with_suffix("") if found.suffix.lower() in _PACKED else found
        format = _SUFFIXES.get(name.suffix.lower(), "auto")
    return parse(data, path, format=format, coordinates=coordinates, strict=strict)


def shipped() -> list[str]:
    """Names of the networks that come with the package."""
    return sorted(found.stem for found in DATA.glob("*.gml"))


def locate(path: str, base: str | None = None) -> Path:
    """The file that a path or the name of a shipped network means."""
    try:
        given = Path(base, path) if base else Path(path)
        if given.is_file():
            return given
        is_folder, is_there = given.is_dir(), given.exists()
    except (OSError, ValueError):
        raise TopologyError(f"{path!r}: is not a path") from None
    if path in shipped():
        return DATA / f"{path}.gml"
    if is_folder:
        raise TopologyError(f"{path}: is a folder, not a file")
    if is_there:
        raise TopologyError(f"{path}: is no ordinary file")
    if "/" in path or "\\" in path or Path(path).suffix.lower() in _FILE_SUFFIXES:
        raise TopologyError(f"{path}: there is no such file")
    raise TopologyError(
        f"{path}: there is no such file, and no shipped network of that name{did_you_mean(path, shipped())}"
    )


def parse(
    data: bytes,
    where: str,
    *,
    format: Format = "auto",
    coordinates: Coordinates = "auto",
    strict: bool = False,
) -> nx.Graph:
    """A repaired graph from the bytes of a file; `where` is the name that errors use."""
    text, encoding_note = _decode(_unpacked(data, where), where)
    if format == "auto":
        format = _sniff(text)
        if format == "edgelist":
            _refuse_foreign(text, where)
    raw = _READERS[format](text, where)
    if encoding_note:
        raw.notes.insert(0, encoding_note)
    return _settle(raw, where, coordinates, strict)


# ---- bytes to text -----------------------------------------------------------------------------------


def _unpacked(data: bytes, where: str) -> bytes:
    """What is packed as collections pack it, up to the size that a file may have."""
    for suffix, (magic, opened) in _PACKED.items():
        if data.startswith(magic):
            try:
                with opened(io.BytesIO(data)) as file:
                    content: bytes = file.read(BYTES_MAX + 1)
            except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
                raise TopologyError(f"{where}: cannot be unpacked as {suffix}: {error}") from None
            if len(content) > BYTES_MAX:
                raise TopologyError(f"{where}: larger than {BYTES_MAX} bytes once unpacked")
            return content
    return data


def _decode(data: bytes, where: str) -> tuple[str, str | None]:
    for mark, encoding in ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if data.startswith(mark):
            text = data.decode(encoding, "replace").removeprefix("\ufeff")
            return text, "bytes that are no text replaced" if "\ufffd" in text else None
    if not data.strip():
        raise TopologyError(f"{where}: is empty")
    strange = sum(data.count(byte) for byte in _CONTROL)
    if strange * 20 > len(data):
        raise TopologyError(f"{where}: is not text; formats that can be read: {', '.join(_READERS)}")
    declared = re.match(rb"""\s*<\?xml[^>]*encoding=["']([\w.-]+)["']""", data)
    for encoding in ("utf-8", declared[1].decode("ascii") if declared else "cp1252", "cp1252"):
        try:
            text = data.decode(encoding)
        except (UnicodeError, LookupError):
            continue
        said = declared is not None and encoding == declared[1].decode("ascii")
        return text, None if said or encoding == "utf-8" else f"read as {encoding}, since it is not UTF-8"
    return data.decode("latin-1"), "read as latin-1, since it is not UTF-8"


_CONTROL = [bytes([code]) for code in range(32) if code not in b"\t\n\r\f\v"]


_OUTERMOST = re.compile(r"<(?:[A-Za-z_][\w.-]*:)?([A-Za-z_][\w.-]*)")


def _sniff(text: str) -> Format:
    head = text[:65536]
    start = head.lstrip()
    if start.startswith("<"):
        outermost = _OUTERMOST.search(start)
        return "sndlib" if outermost and outermost[1].lower() == "network" else "graphml"
    if start.startswith("{") or re.match(r"\[\s*[\[{\]]", start):
        return "json"
    line = next((each for each in head.splitlines() if each.strip() and not each.lstrip().startswith("#")), "")
    if line.startswith("?SNDlib") or re.fullmatch(r"\s*(NODES|LINKS|META)\s*\(\s*", line):
        return "sndlib"
    if re.fullmatch(r"\s*NODES\s+\d+\s*", line):
        return "repetita"
    if AS_REL.fullmatch(line.strip()):
        return "as-rel"
    is_gml = re.search(r"^\s*(graph|node)\s*\[", head, re.MULTILINE | re.IGNORECASE)
    return "gml" if is_gml else "edgelist"


# Formats of others that nearly pass for edge lists: what their files have near their beginning.
_FOREIGN = {
    "DOT of Graphviz": r"\A(?:\s|//.*|\#.*|/\*(?s:.*?)\*/)*(?:strict\s+)?(?:di)?graph\b[^\[\]{}]{0,200}\{",
    "DIMACS": r"^p\s+[a-z]+\s+\d+\s+\d+\s*$",
    "Pajek": r"^\*(?:vertices|arcs|edges|network|matrix)",
    "Matrix Market": r"\A\s*%%MatrixMarket",
    "BRITE": r"^Topology:\s*\(\s*\d+\s+Nodes",
    "GDF": r"^nodedef\s*>",
    "LEDA": r"\A\s*LEDA\.GRAPH",
    "UCINET DL": r"\A\s*dl\s+n\s*=",
    "graph6": r"\A(?:>>graph6<<|>>sparse6<<)",
}


def _refuse_foreign(text: str, where: str) -> None:
    head = text[:65536]
    for name, beginning in _FOREIGN.items():
        if re.search(beginning, head, re.MULTILINE | re.IGNORECASE):
            raise TopologyError(
                f"{where}: looks like {name}, which is not read; networkx and igraph can write it as GraphML or GML. "
                "If it is a list of links all the same, say format: edgelist"
            )


# ---- GML ---------------------------------------------------------------------------------------------

_GML_TOKEN = re.compile(
    r"""
    (?P<skip>[\s,;]+ | \#[^\n]*)
    | (?P<text>"[^"]*")
    | (?P<open>\[) | (?P<close>\])
    | (?P<word>[^\s\[\]",;]+)
    | (?P<stray>.)
    """,
    re.VERBOSE | re.DOTALL,
)


def _read_gml(text: str, where: str) -> Raw:
    """GML by its bare grammar: keys with a number, a text, or a list in brackets; depth costs no stack."""
    raw = Raw()
    root: list[tuple[str, Any, int]] = []
    stack = [root]
    key: str | None = None
    key_line = line = 1
    unreadable = 0
    for token in _GML_TOKEN.finditer(text):
        kind, content = token.lastgroup, token[0]
        here = line
        line += content.count("\n")
        if kind == "skip":
            continue
        if kind == "open":
            inner: list[tuple[str, Any, int]] = []
            unreadable += key is None
            stack[-1].append(((key or "").lower(), inner, key_line))
            stack.append(inner)
        elif kind == "close":
            unreadable += key is not None
            if len(stack) > 1:
                stack.pop()
            else:
                unreadable += 1
        elif kind == "stray":
            unreadable += 1
            continue
        elif key is None:
            if kind == "word":
                key, key_line = content, here
                continue
            unreadable += 1
        else:
            value = _unescaped(content[1:-1]) if kind == "text" else content
            stack[-1].append((key.lower(), value, key_line))
        key = None
    if len(stack) > 1:
        raw.dropped.append(f"{counted(len(stack) - 1, 'closing bracket')} missing at the end")
    if unreadable:
        raw.dropped.append(f"{counted(unreadable, 'piece')} of text that are no GML skipped")
    nameless_ends = 0
    pending = [root]
    while pending:
        for key, value, _ in pending.pop():
            if not isinstance(value, list):
                if key == "directed":
                    raw.directed = value not in ("0", "false")
                continue
            data = _flat(value)
            if key == "node":
                raw.nodes.append((node_key(data.get("id")), data))
            elif key == "edge":
                ends = node_key(data.get("source")), node_key(data.get("target"))
                nameless_ends += None in ends
                raw.links.append(ends)
                raw.lengths.append(data.get("dist"))
            if key in ("graph", "", "node"):
                pending.append([entry for entry in value if entry[0] != "graphics"])
    if not raw.nodes and raw.links and nameless_ends == 0:
        raw.implicit = True
        raw.notes.append("no nodes listed, those of the links taken")
    if not raw.nodes and not raw.links:
        raise TopologyError(f"{where}: line {line}: reached the end without any 'node [ ... ]'; is this GML?")
    return raw


def _unescaped(text: str) -> str:
    try:
        return html.unescape(text)
    except ValueError:  # the number of a character has thousands of digits
        return text


def _flat(entries: list[tuple[str, Any, int]]) -> dict[str, Any]:
    """One level of a GML list, the first of repeated keys; `graphics [ x 1 y 2 ]` gives its x and y."""
    data: dict[str, Any] = {}
    for key, value, _ in entries:
        if not isinstance(value, list):
            data.setdefault(key, value)
    for key, value, _ in entries:
        if key == "graphics" and isinstance(value, list):
            for inner_key, inner, _ in value:
                if inner_key in ("x", "y") and not isinstance(inner, list):
                    data.setdefault(inner_key, inner)
    return data


# ---- GraphML -----------------------------------------------------------------------------------------

_XML_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
_XML_BARE_AMPERSAND = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\d+|#x[0-9a-fA-F]+);)")
_XML_DEPTH_MAX = 1000


def _read_graphml(text: str, where: str) -> Raw:
    root, notes = _xml_root(text, where)
    raw = Raw(notes=notes)
    names = {
        str(element.get("id")): str(element.get("attr.name") or element.get("id")).lower()
        for element in root.iter()
        if local_name(element) == "key"
    }
    for element in root.iter():
        kind = local_name(element)
        if kind == "graph" and element.get("edgedefault") == "directed":
            raw.directed = True
        elif kind == "node":
            raw.nodes.append((node_key(element.get("id")), _graphml_data(element, names)))
        elif kind == "edge":
            raw.links.append((node_key(element.get("source")), node_key(element.get("target"))))
        elif kind == "hyperedge":
            raw.dropped.append("a hyperedge dropped")
    if not raw.nodes:
        raise TopologyError(
            f"{where}: has no <node>; is this GraphML? (the outermost element is <{local_name(root)}>)"
        )
    return raw


def _read_sndlib(text: str, where: str) -> Raw:
    """SNDlib's XML, or its native format."""
    if not text.lstrip().startswith("<"):
        return sndlib_native(text, where)
    root, notes = _xml_root(text, where)
    raw = sndlib_xml(root, where)
    raw.notes[:0] = notes
    return raw


def _xml_root(text: str, where: str) -> tuple[ET.Element, list[str]]:
    """The outermost element of XML that need not be quite well-formed, and what was done about that."""
    notes: list[str] = []
    if "<!ENTITY" in text:
        raise TopologyError(f"{where}: declares XML entities, which are not read; replace them by their text")
    body = re.sub(r"^\s*<\?xml.*?\?>", "", text, count=1, flags=re.DOTALL)
    skipped_lines = text[: len(text) - len(body)].count("\n")
    try:
        root = _xml(body)
    except ET.ParseError as error:
        cleaned = _XML_BARE_AMPERSAND.sub("&amp;", _html_entities_only(_XML_FORBIDDEN.sub(" ", body)))
        try:
            root = _xml(cleaned)
        except (ET.ParseError, ValueError, UnicodeError):
            line, column = getattr(error, "position", (1, 0))
            raise TopologyError(
                f"{where}: line {line + skipped_lines}, column {column + 1}: is not well-formed XML: "
                f"{str(error).split(':')[0]}"
            ) from None
        notes.append("characters that XML does not allow replaced")
    except (ValueError, UnicodeError) as error:
        raise TopologyError(f"{where}: is not well-formed XML: {error}") from None
    return root, notes


def _html_entities_only(text: str) -> str:
    """Named entities of HTML, which XML does not know, as characters; those of XML stay."""

    def replace(match: re.Match[str]) -> str:
        return match[0] if match[1] in ("amp", "lt", "gt", "quot", "apos") else html.unescape(match[0])

    return re.sub(r"&([A-Za-z]\w{1,31});", replace, text)


def _xml(text: str) -> ET.Element:
    """The root element; a tree too deep to walk safely is refused while it is read."""
    parser = ET.XMLParser(target=_BoundedBuilder())
    parser.feed(text)
    return parser.close()


class _BoundedBuilder(ET.TreeBuilder):
    depth = 0

    def start(self, tag: str, attrs: dict[Any, Any], /) -> ET.Element:
        self.depth += 1
        if self.depth > _XML_DEPTH_MAX:
            raise ValueError(f"nested deeper than {_XML_DEPTH_MAX} elements")
        return super().start(tag, attrs)

    def end(self, tag: str, /) -> ET.Element:
        self.depth -= 1
        return super().end(tag)


def _graphml_data(node: ET.Element, names: Mapping[str, str]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for child in node:
        if local_name(child) != "data":
            continue
        key = str(child.get("key"))
        if child.text and child.text.strip():
            data.setdefault(names.get(key, key.lower()), child.text.strip())
        for drawn in child.iter():  # yEd keeps places and labels in elements of its own
            if local_name(drawn) == "geometry":
                data.setdefault("x", drawn.get("x"))
                data.setdefault("y", drawn.get("y"))
            elif local_name(drawn) == "nodelabel" and drawn.text and drawn.text.strip():
                data.setdefault("label", drawn.text.strip())
    return data


# ---- edge lists --------------------------------------------------------------------------------------

_HEADER = {"source", "target", "from", "to", "node1", "node2", "a", "b", "src", "dst", "u", "v"}


def _read_edgelist(text: str, where: str) -> Raw:
    """Two names a line, apart by a tab, a semicolon, a comma or blanks.

    What follows them is not read, but has to look like an edge list: numbers, or `{...}`, after blanks; else as many
    columns in every line. Nearly any text has lines of two words.
    """
    raw = Raw(implicit=True)
    form: tuple[str, int] | None = None  # delimiter and number of columns of the first line
    for number, line in enumerate(text.splitlines(), 1):
        content = line.strip(" ")  # a tab at the end is an empty column
        if not content.strip() or content.startswith(("#", "%", "//")):
            continue
        delimiter, fields = _fields(content)
        here = (delimiter, len(fields))
        header = form is None and len(fields) >= 2 and {f.lower() for f in fields[:2]} <= _HEADER
        form = form or here
        if header and fields[0].lower() not in ("a", "b", "u", "v"):
            continue
        wrong = None
        if len(fields) < 2 or not clean_name(fields[0]) or not clean_name(fields[1]):
            wrong = "has no two names"
        elif delimiter == " " and not all(map(_is_number, fields[2:])):
            wrong = "goes on with words after two names"
        elif delimiter != " " and here != form:
            wrong = f"has {counted(here[1], 'column')} apart by {here[0]!r}, the first {form[1]} apart by {form[0]!r}"
        if wrong:
            raise TopologyError(
                f"{where}: line {number}: {wrong}; an edge list has two names a line (got {content[:40]!r})"
            )
        raw.links.append((node_key(fields[0]), node_key(fields[1])))
    if not raw.links:
        raise TopologyError(f"{where}: no line has two names; an edge list has two names a line")
    return raw


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _fields(line: str) -> tuple[str, list[str]]:
    """The delimiter of a line, and its fields without the data that networkx writes behind them."""
    line, brace, _ = line.partition("{")
    if brace:
        line = line.rstrip(" \t;,")
    delimiter = next((mark for mark in ("\t", ";", ",") if mark in line), " ")
    try:
        row = next(csv.reader([line.replace("\0", " ")], delimiter=delimiter, skipinitialspace=True), [])
    except csv.Error:
        row = line.split(delimiter)
    return delimiter, [part.strip() for part in row if delimiter != " " or part.strip()]


# ---- JSON --------------------------------------------------------------------------------------------


def _read_json(text: str, where: str) -> Raw:
    """Node-link data, `{"nodes": [...], "links": [...]}`, Cytoscape's elements, or a bare list of pairs."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise TopologyError(
            f"{where}: line {error.lineno}, column {error.colno}: is not JSON: {error.msg}"
        ) from None
    except RecursionError:
        raise TopologyError(f"{where}: is nested too deeply") from None
    except ValueError as error:
        raise TopologyError(f"{where}: is not JSON that can be read: {error}") from None
    if (
        isinstance(document, dict)
        and isinstance(document.get("graph"), dict)
        and "nodes" in document["graph"]
    ):
        document = document["graph"]
    if isinstance(document, dict) and isinstance(document.get("elements"), dict):
        document = document["elements"]
    raw = Raw()
    if isinstance(document, list):
        nodes, links = None, document
    elif isinstance(document, dict):
        nodes = document.get("nodes")
        links = next((document[key] for key in ("links", "edges") if key in document), [])
        raw.directed = document.get("directed") is True
    else:
        raise TopologyError(f"{where}: holds {_kind(document)}, not a graph; it should hold nodes and links")
    for name, part in (("nodes", nodes), ("links", links)):
        if part is not None and not isinstance(part, list):
            raise TopologyError(f"{where}: {name} should be a list (got {_kind(part)})")
    unreadable = 0
    for entry in nodes or []:
        entry = _unwrapped(entry)
        if isinstance(entry, dict):
            data = {str(key).lower(): value for key, value in entry.items()}
            raw.nodes.append(
                (next((k for k in map(node_key, map(data.get, ("id", "key", "name", "label"))) if k), None), data)
            )
        elif node_key(entry) is not None:
            raw.nodes.append((node_key(entry), {"label": entry}))
        else:
            unreadable += 1
    for entry in links or []:
        entry = _unwrapped(entry)
        length = None
        if isinstance(entry, dict):
            length = entry.get("dist")
            data = {str(key).lower(): value for key, value in entry.items()}
            pair = tuple(
                next((k for k in map(node_key, map(data.get, names)) if k is not None), None)
                for names in (("source", "from", "a"), ("target", "to", "b"))
            )
            if "between" in data and isinstance(data["between"], list) and len(data["between"]) == 2:
                pair = (node_key(data["between"][0]), node_key(data["between"][1]))
        elif isinstance(entry, list) and len(entry) >= 2:
            pair = (node_key(entry[0]), node_key(entry[1]))
        else:
            unreadable += 1
            continue
        raw.links.append((pair[0], pair[1]))
        raw.lengths.append(length)
    if unreadable:
        raw.dropped.append(f"{counted(unreadable, 'entry')} that are neither node nor link dropped")
    raw.implicit = not raw.nodes
    if raw.implicit and not raw.links:
        raise TopologyError(f'{where}: has no nodes; it should look like {{"nodes": [...], "links": [...]}}')
    return raw


def _unwrapped(entry: Any) -> Any:
    return entry["data"] if isinstance(entry, dict) and isinstance(entry.get("data"), dict) else entry


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


_READERS: dict[str, Callable[[str, str], Raw]] = {
    "gml": _read_gml,
    "graphml": _read_graphml,
    "edgelist": _read_edgelist,
    "json": _read_json,
    "sndlib": _read_sndlib,
    "repetita": repetita,
    "as-rel": as_rel,
}


# ---- from what was read to a graph -------------------------------------------------------------------


def _settle(raw: Raw, where: str, coordinates: Coordinates, strict: bool) -> nx.Graph:
    number: dict[str, int] = {}
    kept: list[tuple[str, dict[str, Any]]] = []
    dropped = list(raw.dropped)
    nameless = repeated = 0
    for key, data in raw.nodes:
        if key is None:
            nameless += 1
            key = f"\0{len(kept)}"  # no link can mean it
        if key in number:
            repeated += 1
            continue
        number[key] = len(kept)
        kept.append((key, data))
    if raw.implicit:
        for key in _in_order(raw.links):
            if key not in number:
                number[key] = len(kept)
                kept.append((key, {}))
    notes = list(raw.notes)
    if nameless:
        notes.append(f"{counted(nameless, 'node')} without an id kept")
    if repeated:
        dropped.append(f"{counted(repeated, 'node')} with an id already taken dropped")
    by_place = bool(kept) and all(
        key.startswith("\0") for key, _ in kept
    )  # JSON nodes without id: links give places
    ends, lengths, dangling = [], [], 0
    for pair, length in zip_longest(raw.links, raw.lengths):
        found = [_place(key, number, len(kept), by_place) for key in pair]
        if found[0] is None or found[1] is None:
            dangling += 1
        else:
            ends.append((found[0], found[1]))
            lengths.append(finite(length))
    if len(kept) > 1 and all(a == b for a, b in ends):
        raise TopologyError(
            f"{where}: names {counted(len(kept), 'node')} and no link between two of them; a file in another format "
            f"than it was taken for reads like this: say which it is (format: {', '.join(_READERS)})"
        )
    if dangling:
        dropped.append(f"{counted(dangling, 'link')} to nodes that do not exist dropped")
    if raw.directed:
        notes.append("directions dropped")
    names = [_name(key, data, i) for i, (key, data) in enumerate(kept)]
    positions, meaning, impossible = _positions([data for _, data in kept], coordinates, ends, lengths)
    if impossible:
        notes.append(f"{counted(impossible, 'position')} off the globe ignored")
    return simple_graph(
        names, positions, ends, where=where, coordinates=meaning, strict=strict, dropped=dropped, notes=notes
    )


def _place(key: str | None, number: Mapping[str, int], size: int, by_place: bool) -> int | None:
    if key is None:
        return None
    if by_place and re.fullmatch(r"\d{1,9}", key) and int(key) < size:
        return int(key)
    return number.get(key)


def _in_order(links: Iterable[tuple[str | None, str | None]]) -> Iterator[str]:
    for pair in links:
        yield from (key for key in pair if key is not None)


def _name(key: str, data: Mapping[str, Any], place: int) -> str:
    for candidate in (data.get("label"), data.get("name"), key.replace("\0", "")):
        if isinstance(candidate, (str, int, float)) and node_key(candidate) is not None:
            name = clean_name(node_key(candidate))
            if name and name.lower() not in ("none", "null", "nan"):
                return name
    return f"b{place}"


_DEGREE_KEYS = (("longitude", "latitude"), ("lon", "lat"), ("long", "lat"), ("lng", "lat"))
_PLANE_KEYS = (("x", "y"), ("xcoord", "ycoord"), ("pos_x", "pos_y"))
_PAIR_KEYS = ("position", "pos", "coordinates", "coords")


def _positions(
    nodes: list[dict[str, Any]],
    coordinates: Coordinates,
    ends: list[tuple[int, int]],
    lengths: list[float | None],
) -> tuple[list[Position | None], str, int]:
    """Places, what they mean, and how many were no place on a globe.

    Longitudes anywhere win over x and y. Where nobody said what numbers mean, the lengths of links may tell.
    """
    on_globe = [_pair(data, _DEGREE_KEYS) for data in nodes]
    named = any(on_globe)
    chosen = on_globe if named else [_pair(data, _PLANE_KEYS) or _listed_pair(data) for data in nodes]
    meaning = "degrees" if named or coordinates == "degrees" else "plane"
    if coordinates == "auto":
        meaning = _measured(chosen, ends, lengths) or meaning
    if meaning == "plane":
        return chosen, meaning, 0
    valid: list[Position | None] = [
        place if place and -180 <= place[0] <= 360 and -90 <= place[1] <= 90 else None for place in chosen
    ]
    return valid, meaning, sum(1 for place, kept in zip(chosen, valid) if place and not kept)


_LENGTH_OFF_MAX = 0.05  # by which distances may differ from a file's, for the middle one of its links


def _measured(
    places: list[Position | None], ends: list[tuple[int, int]], lengths: list[float | None]
) -> str | None:
    """What positions mean, by the kilometres that links are said to have (as topohub's are): `degrees` or `plane`."""
    known = [
        (*places[a], *places[b], length)  # type: ignore[misc]
        for (a, b), length in zip(ends, lengths)
        if length and places[a] and places[b]
    ]
    if not known:
        return None
    x_a, y_a, x_b, y_b, length = np.array(known, np.float64).T
    with np.errstate(all="ignore"):  # a wild file's numbers fit nothing, which is all that is asked
        apart = {"plane": np.hypot(x_a - x_b, y_a - y_b)}
        if np.abs([x_a, x_b]).max() <= 360 and np.abs([y_a, y_b]).max() <= 90:
            apart["degrees"] = great_circle_m(x_a, y_a, x_b, y_b) / 1000.0
        off = {meaning: float(np.median(np.abs(km / length - 1.0))) for meaning, km in apart.items()}
    best = min(off, key=lambda meaning: off[meaning])
    return best if off[best] <= _LENGTH_OFF_MAX else None


def _pair(data: Mapping[str, Any], keys: Iterable[tuple[str, str]]) -> Position | None:
    for x_key, y_key in keys:
        x, y = finite(data.get(x_key)), finite(data.get(y_key))
        if x is not None and y is not None:
            return x, y
    return None


def _listed_pair(data: Mapping[str, Any]) -> Position | None:
    for key in _PAIR_KEYS:
        value = data.get(key)
        if isinstance(value, str):
            value = re.split(r"[,;\s]+", value.strip(" \t()[]"))[:2]
        if isinstance(value, dict):
            value = [value.get("x"), value.get("y")]
        if isinstance(value, list) and len(value) in (2, 3):
            place = as_position([finite(part) for part in value[:2]])
            if place:
                return place
    return None
