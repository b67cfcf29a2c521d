"""What a notebook shows: small, without scripts, and with names as text."""

from __future__ import annotations

import base64
import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import pyarrow as pa
import pytest

import brokerlab
from analysis.frames.showing import BYTES_MOST, audit_html

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
ALLOWED = {
    "div", "p", "b", "span", "img", "table", "caption", "thead", "tbody", "tr", "th", "td", "ul", "li",
}  # fmt: skip


class Looked(HTMLParser):
    """Tags, attributes and text of HTML."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.attributes, self.text, self.images = [], set(), "", []
        self.feed(html)
        assert len(html.encode()) <= BYTES_MOST
        assert set(self.tags) <= ALLOWED and not any(name.startswith("on") for name in self.attributes)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        self.images += [value for name, value in attrs if name == "src"]

    def handle_data(self, data):
        self.text += data + " "


def drawn(looked):
    """The only picture, which is a whole one without scripts."""
    (image,) = looked.images
    svg = base64.b64decode(image.removeprefix("data:image/svg+xml;base64,")).decode()
    assert "<script" not in svg
    ElementTree.fromstring(svg)
    return svg


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("shown")

    def make(**more):
        overrides = [f"{name}={value}" for name, value in {"duration": "3 s", "topology.nodes": 12, **more}.items()]
        return brokerlab.run("news", engine="inline", overrides=overrides, out=out)

    return make


def test_a_run_shows_verdict_figures_and_its_overlay(made):
    run = made()
    for shown in (run, brokerlab.open(run)):
        looked = Looked(shown._repr_html_())
        assert "not audited" in looked.text and "Services" in looked.text and run.digest in looked.text
        assert drawn(looked).count("<circle") == run.brokers.num_rows
    assert repr(run) == f"<run {run.path.name}: digest {run.digest}, verdict not audited>"


def test_once_audited_it_shows_that(made):
    run = made(seed=8)
    found = brokerlab.audit(run)
    looked = Looked(found._repr_html_())
    assert "valid" in looked.text and "covering" in looked.text
    assert drawn(looked).count("<circle") == run.brokers.num_rows
    assert repr(found).startswith("news (covering): valid")
    assert "not audited" not in Looked(run._repr_html_()).text


def test_a_large_overlay_is_told_instead_of_drawn(made):
    looked = Looked(made(**{"topology.nodes": 300})._repr_html_())
    assert not looked.images and "300 brokers and servers: too many" in looked.text


def test_a_thin_run_shows_what_it_has(made):
    looked = Looked(made(**{"trace.level": "none"})._repr_html_())
    assert "Services" in looked.text and not looked.images


def test_hostile_names_are_text(tmp_path):
    (tmp_path / "net.gml").write_text(
        f'graph [ node [ id 0 label "{HOSTILE.replace("<", "&#60;")}" ] node [ id 1 label "b" ] '
        "edge [ source 0 target 1 ] ]",
        encoding="utf-8",
    )
    run = brokerlab.run(
        "news", engine="inline", out=tmp_path,
        overrides=["duration=500 ms", f"topology={{kind: file, path: {tmp_path / 'net.gml'}}}", f"title={HOSTILE!r}"],
    )  # fmt: skip
    opened = brokerlab.open(run)
    assert HOSTILE in opened.brokers.to_arrow()["name"].to_pylist()
    assert all("</script>" in Looked(table._repr_html_()).text for table in (opened.brokers, opened.brokers.named()))
    looked = Looked(run._repr_html_())
    assert "</script>" in looked.text
    assert "&lt;/script&gt;" in drawn(looked)
    audited = Looked(brokerlab.audit(run)._repr_html_())
    assert "&lt;/script&gt;" in drawn(audited)
    other = brokerlab.run(
        "news", engine="inline", out=tmp_path,
        overrides=["duration=500 ms", f"topology={{kind: file, path: {tmp_path / 'net.gml'}}}", f"title={HOSTILE!r}",
                   "services.news.protocol=flooding"],
    )  # fmt: skip
    comparison = replace(brokerlab.compare([run, other]), labels=(HOSTILE, HOSTILE), notes=(HOSTILE,))
    compared = Looked(comparison._repr_html_())
    assert "</script>" in compared.text and "&lt;/script&gt;" in drawn(compared)


def test_an_audit_by_a_stranger_is_text():
    finding = {"count": 3, "declared": True, "examples": []}
    service = {
        "service": HOSTILE, "protocol": HOSTILE, "verdict": "invalid", "forced": 1, "free": 2, "reason": HOSTILE * 50,
        "findings": dict.fromkeys(("missed", "unwanted", "duplicated", "out_of_order"), finding),
    }  # fmt: skip
    looked = Looked(audit_html({"run": HOSTILE, "verdict": "invalid", "services": [service] * 500}))
    assert looked.text.count("<script>alert(1)") >= 20


SWEEP = """\
scenario: news
repeats: 2
set: {duration: 2 s, topology.nodes: 6}
vary: {services.news.protocol: [flooding, covering]}
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("swept")
    (folder / "protocols.yaml").write_text(SWEEP, encoding="utf-8")
    return brokerlab.sweep(folder / "protocols.yaml", engine="inline", out=folder)


def test_a_sweep_opens_as_a_table_of_points_and_their_runs(swept):
    opened = brokerlab.open(swept)
    points = pa.table(opened)
    assert points.num_rows == len(opened.runs) == 4 and points.equals(opened.points)
    digests = {name: run.digest for name, run in opened.runs.items()}
    assert set(digests.values()) == set(points["digest"].to_pylist())
    for run in opened.runs.values():
        assert 0 < run.deliveries.where(until="1900 ms").num_rows < run.deliveries.num_rows
    assert repr(opened).endswith("4 points>") and repr(swept).endswith("4 of 4 points finished>")


def test_a_sweep_and_a_comparison_show_the_same_and_go_on_as_a_table(swept):
    comparison = brokerlab.open(swept).compare()
    assert swept._repr_html_() == brokerlab.open(swept)._repr_html_() == comparison._repr_html_()
    looked = Looked(comparison._repr_html_())
    assert "protocol=covering" in looked.text and re.search(r"[\d,]+ ± [\d.,]+ \*", looked.text)
    rows = pa.table(comparison).to_pylist()
    told = [(s["section"], m["metric"], v) for s in comparison.as_data()["sections"] for m in s["metrics"]
            for v in comparison.labels]  # fmt: skip
    assert [(row["section"], row["metric"], row["variant"]) for row in rows] == told
    assert [row["difference"] for row in rows[::2]] == [None] * (len(rows) // 2)
    assert "±" in repr(comparison)


def test_a_sweep_shows_the_worst_verdict_of_each_variant_and_an_overlay(tmp_path):
    (tmp_path / "protocols.yaml").write_text(SWEEP.replace("2 s", "1500 ms"), encoding="utf-8")
    swept = brokerlab.sweep(tmp_path / "protocols.yaml", engine="inline", out=tmp_path)
    looked = Looked(swept._repr_html_())
    assert re.search(r"not audited\s+0 of 4 runs were audited", looked.text)
    assert drawn(looked).count("<circle") == 6
    runs = list(brokerlab.open(swept).runs.values())
    brokerlab.audit(runs[0])
    looked = Looked(swept._repr_html_())
    assert re.search(r"valid\s+1 of 4 runs were audited", looked.text)
    assert re.search(r"protocol=flooding\s+1 valid, 1 not audited", looked.text)
    assert re.search(r"protocol=covering\s+2 not audited", looked.text)
    kept = runs[3].path / "analysis" / "audit.json"
    kept.parent.mkdir(exist_ok=True)
    said = json.loads((runs[0].path / "analysis" / "audit.json").read_text("utf-8"))
    said = {**said, "verdict": "invalid", "digest": runs[3].digest}
    kept.write_text(json.dumps(said), encoding="utf-8")
    assert re.search(r"invalid\s+2 of 4 runs were audited", Looked(swept._repr_html_()).text)
    comparison = brokerlab.open(swept).compare()
    for run in runs:
        shutil.rmtree(run.path)
    looked = Looked(comparison._repr_html_())
    assert "2 no longer there" in looked.text and not looked.images


def test_a_comparison_of_many_stays_small(swept):
    one = brokerlab.compare([swept])
    section = one.sections[1]
    many = replace(one, sections=tuple(replace(section, title=f"{HOSTILE}{at}") for at in range(60)))
    looked = Looked(many._repr_html_())
    assert re.search(r"[1-9][\d,]+ metrics and 0 variants are not shown", looked.text)
    labels = tuple(f"{at}{'&' * 90}" for at in range(2))
    sections = (replace(section, title="&" * 90, rows=section.rows[:1]),) * 60
    assert "More of it is not shown here." in Looked(replace(one, labels=labels, sections=sections)._repr_html_()).text


def test_a_sweep_whose_table_is_gone_is_refused(swept, tmp_path):
    from brokers.errors import InvalidInput

    copy = tmp_path / "sweep"
    shutil.copytree(swept.path, copy)
    (copy / "points.parquet").write_bytes(b"PAR1")
    with pytest.raises(InvalidInput, match=r"points.parquet cannot be read .* run the sweep again"):
        brokerlab.open(copy).points  # noqa: B018
