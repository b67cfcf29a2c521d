"""Networks in the formats of SNDlib, REPETITA, topohub and CAIDA, packed or not. The fixtures are made here."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.build import build
from topology.errors import TopologyError
from topology.files import BYTES_MAX, _unpacked, file, parse
from topology.links import GeographyDelay, Links

SNDLIB_XML = """<?xml version="1.0" encoding="ISO-8859-1"?>
<!-- three towns -->
<network xmlns="http://sndlib.zib.de/network" version="1.0">
 <meta><granularity>none</granularity></meta>
 <networkStructure>
  <nodes coordinatesType="{kind}">
   <node id="Köln"><coordinates><x>6.96</x><y>50.94</y></coordinates></node>
   <node id="Bonn"><coordinates><x>7.10</x><y>50.73</y></coordinates></node>
   <node id="Ulm"><coordinates><x>9.99</x><y>48.40</y></coordinates></node>
  </nodes>
  <links>
   <link id="L1"><source>Köln</source><target>Bonn</target>
    <additionalModules><addModule><capacity>40.0</capacity><cost>1.0</cost></addModule></additionalModules></link>
   <link id="L2"><source>Bonn</source><target>Ulm</target></link>
  </links>
 </networkStructure>
 <demands>
  <demand id="D1"><source>Köln</source><target>Ulm</target><demandValue>5.0</demandValue>
   <admissiblePaths><admissiblePath id="P0"><linkId>L1</linkId></admissiblePath></admissiblePaths></demand>
 </demands>
</network>
"""

SNDLIB_NATIVE = """?SNDlib native format; type: network; version: 1.0
# network towns

# META SECTION
META (
  granularity = 5min
  unit = MBITPERSEC
)
NODES (
  Koeln ( 6.96 50.94 )
  Bonn (7.10 50.73)
  Ulm ( 9.99 48.40 )
)
LINKS (
  L1 ( Koeln Bonn ) 0.00 0.00 0.00 0.00 ( 40.00 1.00 155.00 2.00 )
  L2 ( Bonn Ulm ) 0.00 0.00 0.00 0.00 ( UNLIMITED 1.00 )
)
DEMANDS (
  D1 ( Koeln Ulm ) 1 5.00 UNLIMITED
)
ADMISSIBLE_PATHS ( )
"""

REPETITA = """NODES 3
label x y
0_Koeln 6.96 50.94
1_Bonn 7.10 50.73
2_New Ulm 9.99 48.40

EDGES 4
label src dest weight bw delay
edge_0 0 1 1 10000000 126
edge_1 1 0 1 10000000 126
edge_2 1 2 5 10000000 1600
edge_3 2 1 5 10000000 1600
"""

AS_REL = """# source:topology|BGP|20260101|made up
# input clique: 701 7018
701|7018|0
701|64500|-1|bgp
7018|64500|-1|mlp
64500|64501|-1
"""


def topohub(positions, lengths, links="links"):
    """A file of topohub's: node-link JSON with `pos` and, per link, `dist` in kilometres."""
    return json.dumps(
        {
            "directed": False,
            "multigraph": False,
            "graph": {"name": "towns", "demands": {"R0": {"R1": 5.0}}, "stats": {"nodes": 3, "links": 2}},
            "nodes": [{"name": f"R{i}", "pos": place, "id": i} for i, place in enumerate(positions)],
            links: [
                {"dist": length, "ecmp_fwd": {"uni": 100.0}, "source": i, "target": i + 1}
                for i, length in enumerate(lengths)
            ],
        }
    ).encode()


TOWNS = [[6.96, 50.94], [7.10, 50.73], [9.99, 48.40]]
FILES = {
    "sndlib.xml": SNDLIB_XML.format(kind="geographical").encode("latin-1"),
    "sndlib.txt": SNDLIB_NATIVE.encode(),
    "repetita.graph": REPETITA.encode(),
    "topohub.json": topohub(TOWNS, [25.3, 334.6]),
    "as-rel.txt": AS_REL.encode(),
}


def names_of(graph):
    return [graph.nodes[v]["name"] for v in graph]


@pytest.mark.parametrize("name", [name for name in FILES if name != "as-rel.txt"])
def test_three_towns_are_read_in_each_format_from_a_file_of_its_usual_name(name, tmp_path):
    (tmp_path / name).write_bytes(FILES[name])
    graph = file(path=name, base=str(tmp_path))
    assert len(graph) == 3
    assert sorted(graph.edges()) == [(0, 1), (1, 2)]
    assert [graph.nodes[v]["position"] for v in graph] == [tuple(place) for place in TOWNS]
    assert graph.graph["notes"] == []


def test_names_are_those_of_the_file():
    assert names_of(parse(FILES["sndlib.xml"], "net")) == ["Köln", "Bonn", "Ulm"]
    assert names_of(parse(FILES["sndlib.txt"], "net")) == ["Koeln", "Bonn", "Ulm"]
    assert names_of(parse(FILES["repetita.graph"], "net")) == ["0_Koeln", "1_Bonn", "2_New Ulm"]
    assert names_of(parse(FILES["topohub.json"], "net")) == ["R0", "R1", "R2"]


def test_autonomous_systems_get_names_that_no_broker_number_can_be_taken_for():
    graph = parse(FILES["as-rel.txt"], "net")
    assert names_of(graph) == ["AS701", "AS7018", "AS64500", "AS64501"]
    assert sorted(graph.edges()) == [(0, 1), (0, 2), (1, 2), (2, 3)]


def test_sndlib_says_itself_whether_its_coordinates_are_geographical():
    assert parse(FILES["sndlib.xml"], "net").graph["coordinates"] == "degrees"
    drawn = SNDLIB_XML.format(kind="pixel").encode("latin-1")
    assert parse(drawn, "net").graph["coordinates"] == "plane"
    assert parse(drawn, "net", coordinates="degrees").graph["coordinates"] == "degrees"


def test_what_positions_mean_is_told_by_the_lengths_of_links():
    flat = [[180.69, 135.63], [164.65, 103.65], [120.67, 89.69]]  # kilometres, off any globe
    assert parse(FILES["topohub.json"], "net").graph["coordinates"] == "degrees"
    assert parse(topohub(flat, [35.78, 46.14], "edges"), "net").graph["coordinates"] == "plane"
    # Small numbers could be either, but for the lengths.
    assert parse(topohub(TOWNS, [0.252, 3.712]), "net").graph["coordinates"] == "plane"
    assert parse(topohub(TOWNS, [1.0, 1.0]), "net").graph["coordinates"] == "plane"
    # In GML topohub calls kilometres longitude and latitude.
    nodes = "".join(f"node [ id {i} lon {x} lat {y} ]" for i, (x, y) in enumerate(flat))
    edges = "edge [ source 0 target 1 dist 35.78 ] edge [ source 1 target 2 dist 46.14 ]"
    graph = parse(f"graph [ {nodes} {edges} ]".encode(), "net")
    assert graph.graph["coordinates"] == "plane"
    assert graph.nodes[0]["position"] == (180.69, 135.63)


def test_delays_by_geography_follow_from_a_published_file(tmp_path):
    for name in ("sndlib.xml", "topohub.json"):
        (tmp_path / name).write_bytes(FILES[name])
        overlay = build("file", {"path": name}, Links(delay=GeographyDelay()), seed=1, base=str(tmp_path))
        assert overlay.delay_ns.tolist() == pytest.approx([126_500, 1_673_000], rel=0.01)


@pytest.mark.parametrize(("suffix", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress)])
def test_a_packed_file_is_read_like_the_file_in_it(suffix, pack, tmp_path):
    (tmp_path / f"20260101.as-rel.txt.{suffix}").write_bytes(pack(FILES["as-rel.txt"]))
    packed = file(path=f"20260101.as-rel.txt.{suffix}", base=str(tmp_path))
    assert names_of(packed) == names_of(parse(FILES["as-rel.txt"], "net"))
    with pytest.raises(TopologyError, match=rf"net: cannot be unpacked as \.{suffix}"):
        parse(pack(FILES["as-rel.txt"])[:-12], "net")


def test_a_packed_file_that_grows_beyond_all_bounds_is_refused(monkeypatch):
    monkeypatch.setattr("topology.files.BYTES_MAX", 1000)
    assert BYTES_MAX > 1000
    assert len(_unpacked(gzip.compress(b"x" * 1000), "net")) == 1000
    with pytest.raises(TopologyError, match="net: larger than 1000 bytes once unpacked"):
        _unpacked(gzip.compress(b"x" * 1001), "net")


@pytest.mark.parametrize(
    ("data", "format"),
    [
        (b'{"nodes": ["a", "b"], "links": []}', "json"),
        (b'{"nodes": ["a", "b"], "connections": [["a", "b"]]}', "json"),
        (b"graph [ node [ id 1 ] node [ id 2 ] edge [ source 1 target 9 ] ]", "gml"),
        (b"a a\nb b\n", "edgelist"),
        (FILES["sndlib.xml"], "graphml"),
        (SNDLIB_NATIVE.partition("LINKS")[0].encode(), "sndlib"),
    ],
)
def test_a_file_that_names_nodes_and_no_link_between_two_is_refused(data, format):
    with pytest.raises(TopologyError, match=r"net: names \d nodes and no link.*format: gml.*as-rel"):
        parse(data, "net", format=format)


def test_a_network_of_one_broker_needs_no_link():
    assert len(parse(b'{"nodes": ["alone"], "links": []}', "net")) == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (SNDLIB_NATIVE.replace("Bonn (7.10 50.73)", "Bonn (7.10)"), "net: line 11: a node is written like"),
        (SNDLIB_NATIVE.replace("L2 ( Bonn Ulm )", "L2 Bonn Ulm"), "net: line 16: a link is written like"),
        ("?SNDlib native format\nhello\n", "net: line 2: a section .* begins like 'NODES .'"),
        ("NODES (\n)\n", "has no section NODES with a node"),
        (REPETITA.replace("7.10 50.73", "7.10 north"), "net: line 4: a node is a label and two"),
        (REPETITA.replace("edge_2 1 2 5", "edge_2 1"), "net: line 11: an edge is a label"),
        ("NODES 0\nlabel x y\n", "has no nodes"),
        (AS_REL + "1|2|7\n", "net: line 7: a relationship is written like"),
        ("<network><nodes/></network>", "has no <nodes> with a <node>"),
    ],
)
def test_what_does_not_fit_its_format_is_refused_with_the_line(text, said):
    with pytest.raises(TopologyError, match=said):
        parse(text.encode(), "net")


def test_counts_that_do_not_fit_and_sections_left_open_are_noted():
    assert "EDGES 9 announced, 4 there" in parse(REPETITA.replace("EDGES 4", "EDGES 9").encode(), "net").graph["notes"]
    cut = SNDLIB_NATIVE.partition("DEMANDS")[0].rstrip().removesuffix(")")
    assert "closing bracket of LINKS missing at the end" in parse(cut.encode(), "net").graph["notes"]


def test_a_link_that_repetita_lists_three_times_is_one_and_noted():
    again = REPETITA.replace("EDGES 4", "EDGES 5") + "edge_4 0 1 1 1 1\n"
    graph = parse(again.encode(), "net")
    assert sorted(graph.edges()) == [(0, 1), (1, 2)]
    assert graph.graph["notes"] == ["1 repeated link merged"]


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(sorted(FILES)),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), st.binary(max_size=4)), max_size=6),
)
def test_a_damaged_published_file_loads_or_is_refused(name, damages):
    data = FILES[name]
    for where, length, instead in damages:
        at = int(where * len(data))
        data = data[:at] + instead + data[at + length :]
    try:
        graph = parse(data, "net")
    except TopologyError as error:
        assert str(error).startswith("net: ")
    else:
        assert len(graph) >= 1
