"""Damaged topology files, of every format that is read: a network, or a `TopologyError` that names the file."""

from __future__ import annotations

import json
import random
from pathlib import Path

import networkx as nx
import pytest

from topology import files
from topology.errors import TopologyError

TIMES = 400  # of each format

GML = """graph [
  directed 0
  node [ id 0 label "Geneva" Longitude 6.14 Latitude 46.2 graphics [ x 1 y 2.5 ] ]
  node [ id 1 label "Z&#252;rich" Longitude 8.55 Latitude 47.37 ]
  node [ id 2 label "Bern" Longitude 7.45 Latitude 46.95 ]
  edge [ source 0 target 1 LinkLabel "10 Gbit/s" ]
  edge [ source 1 target 2 ]
]
"""
GRAPHML = """<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key id="d0" for="node" attr.name="Longitude" attr.type="double"/>
  <key id="d1" for="node" attr.name="Latitude" attr.type="double"/>
  <graph edgedefault="undirected">
    <node id="a"><data key="d0">6.14</data><data key="d1">46.2</data></node>
    <node id="b"><data key="d0">8.55</data><data key="d1">47.37</data></node>
    <node id="c"/>
    <edge source="a" target="b"/><edge source="b" target="c"><data key="d2">1 &amp; 2</data></edge>
  </graph>
</graphml>
"""
EDGES = '# from to\na b {"weight": 3}\nb c 1.5\nc d\nd a 2\n'
CSV = 'source;target;delay\n"a";b;3\nb;c;1\nc;"d e";0\n'
JSON = json.dumps(
    {
        "directed": False,
        "nodes": [{"id": 0, "pos": [1.5, 2.5]}, {"id": "b", "label": "B"}, {"id": 2.0, "x": 1, "y": 2}, "d"],
        "links": [{"source": 0, "target": "b"}, ["b", 2], {"from": 2, "to": "d"}, {"between": ["d", 0]}],
    }
)
SNDLIB_XML = """<?xml version="1.0" encoding="UTF-8"?>
<network xmlns="http://sndlib.zib.de/network" version="1.0">
 <networkStructure>
  <nodes coordinatesType="geographical">
   <node id="Bonn"><coordinates><x>7.10</x><y>50.73</y></coordinates></node>
   <node id="Ulm"><coordinates><x>9.99</x><y>48.40</y></coordinates></node>
   <node id="Jena"><coordinates><x>11.59</x><y>50.93</y></coordinates></node>
  </nodes>
  <links>
   <link id="L1"><source>Bonn</source><target>Ulm</target></link>
   <link id="L2"><source>Ulm</source><target>Jena</target></link>
  </links>
 </networkStructure>
</network>
"""
SNDLIB = """?SNDlib native format; type: network; version: 1.0
NODES (
  Bonn ( 7.10 50.73 )
  Ulm ( 9.99 48.40 )
  Jena ( 11.59 50.93 )
)
LINKS (
  L1 ( Bonn Ulm ) 0.00 0.00 0.00 0.00 ( 40.00 1.00 155.00 2.00 )
  L2 ( Ulm Jena ) 0.00 0.00 0.00 0.00 ( UNLIMITED 1.00 )
)
"""
REPETITA = """NODES 3
label x y
0_Bonn 7.10 50.73
1_Ulm 9.99 48.40
2_Jena 11.59 50.93

EDGES 4
label src dest weight bw delay
edge_0 0 1 1 10000000 126
edge_1 1 0 1 10000000 126
edge_2 1 2 5 10000000 1600
edge_3 2 1 5 10000000 1600
"""
AS_REL = "# input clique: 701 7018\n701|7018|0\n701|64500|-1|bgp\n7018|64500|-1|mlp\n64500|64501|-1\n"
# name of a file -> a whole one; a new format is one line here
WHOLE = {
    "net.gml": GML, "net.graphml": GRAPHML, "net.edges": EDGES, "net.csv": CSV, "net.json": JSON,
    "net.xml": SNDLIB_XML, "net.txt": SNDLIB, "net.graph": REPETITA, "as-rel.txt": AS_REL,
}  # fmt: skip

# What means something in one of the formats.
_PIECES = [
    b"[", b"]", b"{", b"}", b"<", b">", b"</graph>", b"<!ENTITY a 'b'>", b"<node>", b'"', b"'", b";", b",", b"\t",
    b"\n", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"&#xd800;", b"&#1;", b"&nbsp;", b"1e999", b"-1",
    b"NaN", b"null", b"9" * 5_000, b"[" * 5_000, b"<a>" * 5_000, b"node [ ", b"edge [ source 0 target 0 ]", b"0 0\n",
    b"id 0", b"#", b"\\u0000", b"\\ud800", b"true", b"1" * 400, b"x" * 70_000, b"\x85", b"\xe2\x80\xa8", b"\x1b[31m",
]  # fmt: skip


def damaged(data: bytes, draw: random.Random) -> bytes:
    """Other bytes: bits flipped, parts cut, doubled, moved, and pieces put in that mean something."""
    changed = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 4, 8))):
        at, other = (draw.randrange(len(changed) + 1) for _ in range(2))
        match draw.randrange(7):
            case 0 if at < len(changed):
                changed[at] ^= 1 << draw.randrange(8)
            case 1:
                del changed[at : at + draw.choice((1, 5, 50))]
            case 2:
                del changed[at:]
            case 3:
                changed[other:other] = changed[at : at + draw.choice((1, 20, 200))]
            case 4:
                changed[at : at + 4] = draw.randbytes(4)
            case _:
                changed[at:at] = draw.choice(_PIECES)
    return bytes(changed)


def read(path: Path, strict: bool = False) -> nx.Graph | None:
    """The network of a file; None if it was refused, as it may be, by name."""
    try:
        graph = files.file(path=str(path), strict=strict)
    except TopologyError as error:
        told = str(error)
        assert told.startswith((f"{path}: ", f"{path.name}: ")) and len(told) < 1_000, told
        told.encode()
        return None
    return graph


def test_every_format_that_is_read_is_damaged_here(tmp_path, monkeypatch):
    used = []
    for format, reader in files._READERS.items():
        noted = lambda text, where, format=format, reader=reader: (used.append(format), reader(text, where))[1]  # noqa: E731
        monkeypatch.setitem(files._READERS, format, noted)
    for name, text in WHOLE.items():
        (tmp_path / name).write_text(text, "utf-8")
        read(tmp_path / name)
    assert set(used) == set(files._READERS)


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_file_is_read(tmp_path, name):
    path = tmp_path / name
    path.write_text(WHOLE[name], "utf-8")
    graph = read(path)
    assert graph is not None and len(graph) >= 3


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("strict", [False, True])
def test_a_damaged_file_is_a_network_or_refused_by_name(tmp_path, name, strict):
    draw = random.Random(f"{name} {strict}")
    path = tmp_path / name
    refused = 0
    for _ in range(TIMES // 2):
        path.write_bytes(damaged(WHOLE[name].encode(), draw))
        graph = read(path, strict)
        if graph is None:
            refused += 1
            continue
        assert len(graph) >= 1 and nx.is_connected(graph)
        for label in graph:
            str(label).encode()
    assert 0 < refused < TIMES // 2


def test_a_character_whose_number_has_thousands_of_digits_stays_as_it_is(tmp_path):
    path = tmp_path / "net.gml"
    path.write_text(GML.replace("&#252;", f"&#{'9' * 5_000};"), "utf-8")
    graph = read(path)
    assert graph is not None and len(graph) == 3
