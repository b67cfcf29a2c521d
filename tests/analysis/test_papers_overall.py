"""All reproductions one after the other, and the page over all that lie in a folder."""

from __future__ import annotations

import json
import shutil

import pytest

from analysis.papers import overall, registry
from analysis.papers.claims import HOLDS
from scenarios.cli import main
from tests.analysis.small_papers import PAPERS

CLAIMS = {"merging": 6, "routing": 6}


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(registry, "PAPERS", PAPERS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Both reproductions, and one of them at full scale."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(registry, "PAPERS", PAPERS)
        found = tmp_path_factory.mktemp("all") / "reproductions"
        assert main(["reproduce", "all", "--seeds", "2", "--out", str(found)]) == 0
        full = ["reproduce", "merging", "--full", "--seeds", "1", "--out", str(found / "merging-full")]
        assert main(full) == 0
        return found


def test_all_reproductions_get_a_folder_each(folder):
    assert sorted(each.name for each in folder.iterdir() if each.is_dir()) == ["merging", "merging-full", "routing"]
    seeds = {each: json.loads((folder / each / "claims.json").read_text())["seeds"] for each in ("merging", "routing")}
    assert seeds == {"merging": [1, 2], "routing": [1, 2]}


def test_scales_stand_side_by_side(folder):
    found = overall.gathered(folder)
    assert {name: sorted(scales) for name, scales in found.items()} == {"merging": [False, True], "routing": [False]}
    rows = {row["key"]: row for row in overall.claims(found["merging"])}
    assert len(rows) == CLAIMS["merging"]
    of_usual, of_full = (found["merging"][full].claims["network/link-bytes"] for full in (False, True))
    row = rows["network/link-bytes"]
    assert row["measured, usual"] == of_usual["measured"] != of_full["measured"] == row["measured, full"]
    assert (row["verdict, usual"], row["source"]) == ("reported", "ours: what each mode costs")
    alone = next(overall.claims(found["routing"]))
    assert (alone["verdict, usual"], alone["verdict, full"], alone["measured, full"]) == (HOLDS, "not run", "")


def test_verdicts_are_counted_scale_by_scale(folder):
    found = overall.gathered(folder)
    rows = {(row["reproduction"], row["scale"]): row for row in overall.counts(found)}
    assert list(rows) == [("merging", "usual"), ("routing", "usual"), ("all", "usual"), ("merging", "full")]
    assert [row["claims"] for row in rows.values()] == [6, 6, 12, 6]
    assert rows["routing", "usual"]["holds"] == 6 and rows["merging", "full"]["reported"] == 2
    for verdict in ("holds", "does not hold", "unsure", "reported"):
        assert rows["all", "usual"][verdict] == sum(rows[name, "usual"][verdict] for name in CLAIMS)


def test_what_does_not_hold_says_why(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns("measured"))
    path = tmp_path / "copy" / "routing" / "claims.json"
    document = json.loads(path.read_text())
    document["claims"][0] |= {"verdict": "does not hold", "reason": "1 of 2 seeds | <b>"}
    path.write_text(json.dumps(document))
    overall.write(tmp_path / "copy")
    text = (tmp_path / "copy" / "index.md").read_text()
    assert "does not hold: 1 of 2 seeds \\| <b>" in text
    page = (tmp_path / "copy" / "index.html").read_text()
    assert "does not hold: 1 of 2 seeds | &lt;b&gt;" in page and "| <b>" not in page


def test_pages_have_every_claim_and_lead_to_the_reports(folder):
    page, text = ((folder / name).read_text() for name in ("index.html", "index.md"))
    for claims in (scales[False].claims for scales in overall.gathered(folder).values()):
        assert all(key in page and key in text for key in claims)
    for name in ("merging", "merging-full", "routing"):
        assert f'"{name}/report.html"' in page and f"({name}/report.md)" in text
        assert (folder / name / "report.html").is_file()
    assert "modes of the server \\| in the network" not in page


def test_the_usual_folder_counts_where_two_are_of_the_same_scale(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy", ignore=shutil.ignore_patterns("measured"))
    for other in ("a-copy", "zz-copy"):
        shutil.copytree(tmp_path / "copy" / "merging", tmp_path / "copy" / other)
    assert overall.gathered(tmp_path / "copy")["merging"][False].folder == "merging"


def test_all_over_again_measures_nothing_and_says_the_same(folder, small, capsys):
    before = {each: (folder / each / "claims.json").read_text() for each in CLAIMS}
    stood = {each: each.stat().st_mtime_ns for each in folder.glob("*/measured/*")}
    assert main(["reproduce", "all", "--seeds", "2", "--out", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["reproductions"]
    assert [each["name"] for each in told] == list(PAPERS)
    assert {each: (folder / each / "claims.json").read_text() for each in CLAIMS} == before
    assert {each: each.stat().st_mtime_ns for each in folder.glob("*/measured/*")} == stood


def test_a_full_reproduction_has_a_folder_of_its_own(small, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "routing", "--full"]) == 0
    assert "reproductions/routing-full/report.html" in capsys.readouterr().out
    assert [each.name for each in (tmp_path / "reproductions").iterdir() if each.is_dir()] == ["routing-full"]
    document = json.loads((tmp_path / "reproductions" / "routing-full" / "claims.json").read_text())
    assert document["full"] and document["command"] == "brokerlab reproduce routing --full"
