"""Networks from files: the real ones, and every kind of dirt."""

from __future__ import annotations

import json
import re
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology.build import build
from topology.errors import TopologyError
from topology.files import DATA, file, locate, parse, shipped
from topology.links import GeographyDelay, LinkModel

BY_PLACE = LinkModel(delay=GeographyDelay(scale_km_per_unit=1.0))
REPOSITORY = Path(__file__).parents[2]
FORMATS = ("auto", "gml", "graphml", "edgelist", "json")


def facts_of(name):
    """Nodes, distinct links and largest component of a shipped file, found without the reader under test."""
    text = (DATA / f"{name}.gml").read_text()
    nodes = re.findall(r"node \[\s+id (\d+)", text)
    links = {tuple(sorted(pair)) for pair in re.findall(r"source (\d+)\s+target (\d+)", text)}
    graph = nx.Graph([(a, b) for a, b in links if a != b])
    graph.add_nodes_from(nodes)
    largest = max(nx.connected_components(graph), key=len)
    return len(nodes), len(largest), graph.subgraph(largest).number_of_edges()


def names_of(graph):
    return [graph.nodes[v]["name"] for v in graph]


# ---- the shipped networks ----------------------------------------------------------------------------


def test_eight_networks_are_shipped_with_their_licence():
    assert shipped() == [
        "Abilene",
        "Airtel",
        "AttMpls",
        "Bellcanada",
        "Cogentco",
        "DialtelecomCz",
        "Geant2012",
        "Uninett2010",
    ]
    licence = (DATA / "LICENSE-topology-zoo.md").read_text()
    assert "CC BY 4.0" in licence
    assert all(f"`{name}.gml`" in licence for name in shipped())


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_network_loads_with_all_of_its_largest_component(name):
    nodes, largest, links = facts_of(name)
    overlay = build("file", {"path": name}, BY_PLACE, seed=1)
    assert (overlay.brokers, overlay.links) == (largest, links)
    assert len(set(overlay.names)) == largest
    assert any("components" in note for note in overlay.notes) == (largest < nodes)
    assert (overlay.delay_ns >= 100_000).all()
    assert overlay.delay_ns.max() < 110_000_000  # half the globe


def test_what_the_shipped_networks_are_known_for_is_said_in_the_notes():
    notes = {name: " | ".join(file(path=name).graph["notes"]) for name in shipped()}
    assert notes["Abilene"] == ""
    assert notes["Uninett2010"] == "2 repeated names made unique"
    assert "56 components: the largest kept, 138 of 193 nodes" in notes["DialtelecomCz"]
    assert "7 nodes without a position" in notes["Airtel"]
    assert "1 repeated link merged" in notes["Bellcanada"]


def test_strict_refuses_a_network_in_several_parts_and_says_all_that_it_would_drop():
    with pytest.raises(TopologyError, match="DialtelecomCz: refused, as strict: 56 components"):
        file(path="DialtelecomCz", strict=True)
    with pytest.raises(TopologyError, match="11 repeated links merged"):
        file(path="Airtel", strict=True)
    assert len(file(path="Abilene", strict=True)) == 11


def test_a_file_that_is_not_there_is_named_and_a_near_name_offered(tmp_path):
    with pytest.raises(TopologyError, match="did you mean 'Geant2012'"):
        file(path="Geant2021")
    with pytest.raises(TopologyError, match=r"no/such\.gml: there is no such file"):
        file(path="no/such.gml")
    with pytest.raises(TopologyError, match="is a folder"):
        file(path=str(tmp_path))
    with pytest.raises(TopologyError):
        file(path="\0")


def test_a_relative_path_starts_from_the_base(tmp_path):
    (tmp_path / "two.edges").write_text("a b\n")
    assert locate("two.edges", str(tmp_path)) == tmp_path / "two.edges"
    assert build("file", {"path": "two.edges"}, LinkModel(), seed=1, base=str(tmp_path)).names == ("a", "b")
    assert locate("Abilene", str(tmp_path)).parent == DATA


# ---- formats -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", shipped())
def test_a_network_written_as_graphml_json_and_edge_list_reads_back_the_same(name, tmp_path):
    graph = file(path=name)
    expected = {frozenset((graph.nodes[a]["name"], graph.nodes[b]["name"])) for a, b in graph.edges()}
    plain = nx.Graph()
    for v in graph:
        place = graph.nodes[v].get("position")
        data = {"Longitude": place[0], "Latitude": place[1]} if place else {}
        plain.add_node(f"n{v}", label=graph.nodes[v]["name"], **data)
    plain.add_edges_from((f"n{a}", f"n{b}") for a, b in graph.edges())
    nx.write_graphml(plain, tmp_path / "net.graphml")
    (tmp_path / "net.json").write_text(json.dumps(nx.node_link_data(plain, edges="links")))
    nx.write_gml(nx.relabel_nodes(plain, dict(plain.nodes(data="label"))), tmp_path / "net.gml")
    for suffix in ("graphml", "json", "gml"):
        back = file(path=str(tmp_path / f"net.{suffix}"))
        assert names_of(back) == names_of(graph)
        assert {
            frozenset((back.nodes[a]["name"], back.nodes[b]["name"])) for a, b in back.edges()
        } == expected
        assert [back.nodes[v].get("position") for v in back] == [
            graph.nodes[v].get("position") for v in graph
        ]
        assert back.graph["coordinates"] == "degrees"
    nx.write_edgelist(plain, tmp_path / "net.edges")
    assert file(path=str(tmp_path / "net.edges")).number_of_edges() == graph.number_of_edges()


@pytest.mark.parametrize(
    "text",
    [
        "a b\nb c\n",
        "# comment\na,b\nb,c\n",
        "source;target;weight\na;b;3\nb;c;4\n",
        "a\tb\t{'weight': 1}\nb\tc\n",
        "% x\n\na  b {'w': 1, 'v': 2}\r\nb  c\r\n",
        '"a","b"\n"b","c"\n',
        '{"nodes": ["a", "b", "c"], "links": [["a", "b"], ["b", "c"]]}',
        '{"nodes": [{"name": "a"}, {"name": "b"}, {"name": "c"}],'
        ' "edges": [{"from": "a", "to": "b"}, {"between": ["b", "c"]}]}',
        '[["a", "b"], ["b", "c"]]',
        '{"elements": {"nodes": [{"data": {"id": "a"}}, {"data": {"id": "b"}}, {"data": {"id": "c"}}],'
        ' "edges": [{"data": {"source": "a", "target": "b"}}, {"data": {"source": "b", "target": "c"}}]}}',
        '{"nodes": [{"id": 1, "label": "a"}, {"id": 2.0, "label": "b"}, {"id": "3", "label": "c"}],'
        ' "links": [{"source": 1.0, "target": "2"}, {"source": 2, "target": 3}]}',
        'graph [ node [ id 1 label "a" ] node [ id 2 label "b" ] node [ id 3 label "c" ]\n'
        "edge [ source 1 target 2 ] edge [ source 2 target 3 ] ]",
        'Creator "x"\ngraph\n[\n  # remark\n  node\n [\n id 0\n label "a" ]\n node [ id 1 label "b" ]\n'
        ' node [ id 2 label "c" ]\n edge [ source 0 target 1 ]\n edge [ source 1 target 2 ]\n',
        "<graphml><key id='d' for='node' attr.name='label'/><graph><node id='0'><data key='d'>a</data></node>"
        "<node id='1'><data key='d'>b</data></node><node id='2'><data key='d'>c</data></node>"
        "<edge source='0' target='1'/><edge source='1' target='2'/></graph></graphml>",
    ],
)
def test_a_line_of_three_reads_the_same_in_every_way_of_writing_it(text):
    graph = parse(text.encode(), "net")
    assert names_of(graph) == ["a", "b", "c"]
    assert sorted(graph.edges()) == [(0, 1), (1, 2)]


@pytest.mark.parametrize(
    ("node", "place", "meaning"),
    [
        ({"Longitude": 8.5, "Latitude": 47.4}, (8.5, 47.4), "degrees"),
        ({"lon": "8.5", "lat": "47,4"}, (8.5, 47.4), "degrees"),
        ({"lng": 8.5, "lat": 47.4, "x": 1, "y": 2}, (8.5, 47.4), "degrees"),
        ({"lon": 8.5, "lat": 147.4}, None, "degrees"),
        ({"x": 1, "y": "2"}, (1.0, 2.0), "plane"),
        ({"pos": "1.5,-2.5"}, (1.5, -2.5), "plane"),
        ({"pos": [1, 2, 3]}, (1.0, 2.0), "plane"),
        ({"position": {"x": 1, "y": 2}}, (1.0, 2.0), "plane"),
        ({"x": float("nan"), "y": 2}, None, "plane"),
        ({"x": "left", "y": 2}, None, "plane"),
    ],
)
def test_a_place_is_found_under_any_of_its_usual_names(node, place, meaning):
    text = json.dumps({"nodes": [{"id": "a", **node}], "links": []})
    graph = parse(text.encode(), "net")
    assert graph.nodes[0].get("position") == place
    assert graph.graph["coordinates"] == meaning


def test_x_and_y_are_degrees_where_the_scenario_says_so():
    text = b"graph [ node [ id 1 graphics [ x 8.5 y 47.4 ] ] ]"
    assert parse(text, "net").graph["coordinates"] == "plane"
    graph = parse(text, "net", coordinates="degrees")
    assert graph.graph["coordinates"] == "degrees"
    assert graph.nodes[0]["position"] == (8.5, 47.4)


# ---- dirt --------------------------------------------------------------------------------------------

DIRTY = """graph [ directed 1 multigraph 1
  node [ id 0 label "K\xf6ln" ] node [ id 1 label "K\xf6ln" ]
  node [ id 2 label "None" ] node [ id 2 label "again" ]
  node [ label "no id" ] node [ id 3 label "" ]
  edge [ source 0 target 1 ] edge [ source 1 target 0 ] edge [ source 1 target 1 ]
  edge [ source 1 target 2 ] edge [ source 1 target 99 ] edge [ source 1 ] edge [ source 3 target 0 ]
] ] stray
"""


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-8-sig", "utf-16"])
def test_dirt_is_repaired_and_counted_in_any_encoding(encoding):
    graph = parse(DIRTY.encode(encoding), "net")
    assert names_of(graph) == ["Köln", "Köln #2", "2", "3"]
    assert sorted(graph.edges()) == [(0, 1), (0, 3), (1, 2)]
    said = " | ".join(graph.graph["notes"])
    for part in (
        "directions dropped",
        "1 node without an id kept",
        "1 node with an id already taken dropped",
        "2 links to nodes that do not exist dropped",
        "1 self-loop dropped",
        "1 repeated link merged",
        "2 components: the largest kept, 4 of 5 nodes",
        "1 repeated name made unique",
    ):
        assert part in said
    assert ("not UTF-8" in said) == (encoding == "latin-1")


def test_strict_names_all_dirt_at_once():
    with pytest.raises(TopologyError) as caught:
        parse(DIRTY.encode(), "net.gml", strict=True)
    assert str(caught.value).startswith("net.gml: refused, as strict: ")
    assert all(
        part in str(caught.value) for part in ("self-loop", "repeated link", "components", "do not exist")
    )


def test_json_nodes_without_ids_are_meant_by_their_place():
    graph = parse(b'{"nodes": [{"x": 1, "y": 1}, {"x": 2, "y": 2}], "links": [[0, 1]]}', "net")
    assert sorted(graph.edges()) == [(0, 1)]
    assert names_of(graph) == ["0", "1"]


def test_graphml_that_is_not_quite_xml_is_read_with_a_note():
    nodes = "<node id='a&b'/><node id='&eacute;\x01'/>"
    text = f"<graphml><graph>{nodes}<edge source='a&b' target='&eacute;\x01'/></graph></graphml>"
    graph = parse(text.encode(), "net", format="graphml")
    assert names_of(graph) == ["a&b", "é"]
    assert "characters that XML does not allow replaced" in graph.graph["notes"]


def test_graphml_in_a_declared_encoding_is_read_in_it():
    text = "<?xml version='1.0' encoding='iso-8859-2'?>\n<graphml><graph><node id='Łódź'/></graph></graphml>"
    assert names_of(parse(text.encode("iso-8859-2"), "net")) == ["Łódź"]


FOREIGN = {
    "DOT": ["graph G { a -- b; b -- c; }\n", "// drawn\n/* twice\n*/\nstrict digraph\n{\n a -> b\n}\n",
            "graph {\na--b\n}"],
    "DIMACS": ["c a comment\np sp 3 2\na 1 2 5\na 2 3 4\n", "p edge 3 2\ne 1 2\ne 2 3\n"],
    "Pajek": ["*Vertices 2\n1 \"a\"\n2 \"b\"\n*Arcs\n1 2\n"],
    "Matrix Market": ["%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n"],
    "BRITE": ["Topology: ( 2 Nodes, 1 Edges )\nModel ( 1 ): 2 100 10\n"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in FOREIGN.items() for text in texts])
def test_formats_that_are_not_read_are_refused_by_name_and_not_taken_for_edge_lists(name, text, tmp_path):
    path = tmp_path / "network.txt"
    path.write_text(text)
    with pytest.raises(TopologyError, match=f"network.txt: looks like {name}.*say format: edgelist"):
        file(path=str(path))


@pytest.mark.parametrize("text", ["graph a\na b\n", "p q\nq r\n", "strict graph\ngraph b\n"])
def test_names_that_such_formats_use_may_be_names_of_brokers(text, tmp_path):
    path = tmp_path / "network.txt"
    path.write_text(text)
    assert file(path=str(path)).number_of_edges() == 2


@pytest.mark.parametrize(
    "text",
    [
        "a b\nb c 3.5\nc d {'weight': 2, 'name': 'x y'}\n",
        "# made by hand\na\tb\t10 Gbit/s\n\nb\tc\tunknown\nc\td\t\n",
        "source,target,label\na,b,the first\nb,c,\nc,d,\"x, y\"\n",
        "a , b\nb , c\n% a remark\nc , d",
        "a b\nb c nan\nc d 1 2 3\n",
    ],
)
def test_an_edge_list_may_go_on_behind_the_two_names(text):
    graph = parse(text.encode(), "net")
    assert names_of(graph) == ["a", "b", "c", "d"]
    assert sorted(graph.edges()) == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize(
    ("data", "format", "said"),
    [
        (b"", "auto", "net: is empty"),
        (b" \n ", "gml", "net: is empty"),
        (bytes(range(256)) * 4, "auto", "net: is not text"),
        (b"graph [\n]\n", "gml", "net: line 3: .* without any 'node"),
        (b"\xff\xfe\x00", "gml", "net: line 1"),
        (b"<graphml>\n<graph>\n</graphml>", "auto", "net: line 3, column 3: .*mismatched tag"),
        (b"<?xml version='1.0'?>\n\n<graphml>\n<graph", "auto", "net: line 4"),
        (b"<html><body/></html>", "auto", "has no <node>.*<html>"),
        (b"<!DOCTYPE x [<!ENTITY a 'b'>]><graphml/>", "auto", "declares XML entities"),
        (b"<a>" * 5000, "auto", "nested deeper"),
        (b'{"nodes": [\n}', "auto", "net: line 2, column 1: is not JSON"),
        (b"[" * 100_000, "json", "nested too deeply"),
        (b"[" + b"9" * 5000 + b"]", "json", "is not JSON that can be read"),
        (b"3", "json", "holds a number"),
        (b"{}", "json", "has no nodes"),
        (b'{"nodes": {"a": 1}}', "json", "nodes should be a list .got an object"),
        (b"one\ntwo\n", "edgelist", "net: line 1: has no two names.*got 'one'"),
        (b"a b\nb c\n\nlone\n", "edgelist", "net: line 4: has no two names"),
        (b"a b 1\nThe quick brown fox\n", "auto", "net: line 2: goes on with words after two names.*'The quick"),
        (b"a,b,1\nc,d,1\ne,f\n", "auto", "net: line 3: has 2 columns apart by ',', the first 3 apart by ','"),
        (b"a,b\nc;d\n", "auto", "net: line 2: has 2 columns apart by ';'"),
        ((REPOSITORY / "Makefile").read_bytes(), "auto", "net: line 2: goes on with words"),
        ((REPOSITORY / "scenarios/shipped/churn.yaml").read_bytes(), "auto", r"net: line \d+: "),
        ((REPOSITORY / "README.md").read_bytes(), "auto", r"net: line \d+: "),
        (b"# nothing\n", "edgelist", "no line has two names"),
    ],
)
def test_what_is_no_graph_is_refused_with_the_file_and_the_line(data, format, said):
    with pytest.raises(TopologyError, match=f"(?s){said}"):
        parse(data, "net", format=format)


GML_PIECES = st.sampled_from(
    [
        "graph [",
        "node [",
        "edge [",
        "]",
        "id 1",
        "id 2",
        "id",
        "source 1",
        "target 2",
        "target 1",
        "label",
        '"',
        "#x",
        'label "None"',
        'label "A"',
        "Longitude 1e999",
        "Latitude -3",
        "graphics [ x 1 y 2 ]",
        "x NaN",
        "[",
        "\n",
        "é",
        "directed 1",
        '"a"',
        "id -1.0",
        'label "&#233;&bogus;"',
        "source [ ]",
        "id [ id 1 ]",
    ]
)
XML_PIECES = st.sampled_from(
    [
        "<graphml>",
        "</graphml>",
        "<graph edgedefault='directed'>",
        "</graph>",
        "<node id='1'/>",
        "<node id='1'>",
        "<node/>",
        "</node>",
        "<edge source='1' target='2'/>",
        "<edge/>",
        "<data key='x'>1</data>",
        "<data>",
        "</data>",
        "&",
        "&nbsp;",
        "<key id='x' attr.name='Longitude'/>",
        "<hyperedge/>",
        "<!-- ",
        "-->",
        "<![CDATA[",
        "]]>",
        "text",
        "<node id='2'/>",
        "<?xml version='1.0' encoding='bogus'?>",
        "\x00",
        "�",
        "<y:NodeLabel>",
        "<node xmlns:y='u' y:id='1'/>",
    ]
)
LINE_PIECES = st.sampled_from(
    ["a", "b", " ", ",", "\t", ";", "\n", '"', "#", "{", "}", "1", "\x00", "é", "source", "//", "\r"]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(),
    st.sampled_from(["a", "b", "", "1", "None", "\ud800"]),
)
DOCUMENTS = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(
                [
                    "nodes",
                    "links",
                    "edges",
                    "id",
                    "name",
                    "label",
                    "source",
                    "target",
                    "x",
                    "y",
                    "pos",
                    "graph",
                    "data",
                    "between",
                    "elements",
                    "directed",
                    "lon",
                    "lat",
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=20,
)


def loads_or_is_refused(data, format, strict=False):
    """Either way is fine; anything but a `TopologyError` is not."""
    try:
        graph = parse(data, "net", format=format, strict=strict)
    except TopologyError as error:
        assert str(error).startswith("net: ")
        assert "\n" not in str(error)
        return None
    assert nx.is_connected(graph)
    assert nx.number_of_selfloops(graph) == 0
    names = names_of(graph)
    assert len(set(names)) == len(names) == len(graph)
    assert all(name and name.isprintable() and name.encode() for name in names)
    return graph


@settings(max_examples=150, deadline=None)
@given(st.lists(GML_PIECES, max_size=40), st.booleans())
def test_dirty_gml_loads_or_is_refused(pieces, strict):
    loads_or_is_refused(" ".join(pieces).encode("latin-1"), "gml", strict)


@settings(max_examples=150, deadline=None)
@given(st.lists(XML_PIECES, max_size=25), st.booleans())
def test_dirty_graphml_loads_or_is_refused(pieces, strict):
    loads_or_is_refused("".join(pieces).encode("utf-8", "surrogatepass"), "graphml", strict)


@settings(max_examples=150, deadline=None)
@given(st.lists(LINE_PIECES, max_size=40), st.booleans())
def test_dirty_edge_lists_load_or_are_refused(pieces, strict):
    loads_or_is_refused("".join(pieces).encode(), "edgelist", strict)


@settings(max_examples=200, deadline=None)
@given(st.fixed_dictionaries({"nodes": DOCUMENTS, "links": DOCUMENTS}) | DOCUMENTS, st.booleans())
def test_dirty_json_loads_or_is_refused(document, strict):
    loads_or_is_refused(json.dumps(document).encode(), "json", strict)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(FORMATS))
def test_any_bytes_load_or_are_refused(data, format):
    loads_or_is_refused(data, format)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(["Abilene", "Airtel"]),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), st.binary(max_size=4)), max_size=6),
)
def test_a_damaged_real_file_loads_or_is_refused(name, damages):
    data = (DATA / f"{name}.gml").read_bytes()
    for where, length, instead in damages:
        at = int(where * len(data))
        data = data[:at] + instead + data[at + length :]
    loads_or_is_refused(data, "auto")


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_repeated_and_looped_links_do_not_change_what_is_read(data):
    ends = st.tuples(st.integers(0, 7), st.integers(0, 7))
    links = data.draw(
        st.lists(ends, min_size=1, max_size=15).filter(lambda some: any(a != b for a, b in some))
    )
    again = data.draw(st.lists(st.sampled_from(links), max_size=10))
    lines = [f"{a} {b}" for a, b in links]
    noisy = lines + [f"{b} {a}" for a, b in again]
    clean, dirty = (loads_or_is_refused("\n".join(some).encode(), "edgelist") for some in (lines, noisy))
    assert names_of(clean) == names_of(dirty)
    assert sorted(clean.edges()) == sorted(dirty.edges())


def test_no_file_of_the_package_is_needed_to_be_writable():
    assert all(Path(found).suffix in (".gml", ".md") for found in DATA.iterdir())
