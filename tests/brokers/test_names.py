"""What a name may stand for: the contract of each group, and what comes from outside."""

from __future__ import annotations

import sys
import types

import pytest

from brokers import names
from brokers.errors import InvalidInput

GROUPS = [group for group, each in names.GROUPS.items() if each.built_in is not None]
# Things that run what they are called with.
DANGEROUS = ["os:system", "subprocess:run", "builtins:eval", "pickle:loads", "shutil:rmtree", "subprocess:Popen"]


@pytest.fixture
def mean(tmp_path):
    """A folder with a module that says so when it is imported: (its name, the folder, the file it makes)."""
    name = "mean_" + "".join(c for c in tmp_path.name if c.isalnum())
    (tmp_path / f"{name}.py").write_text(
        "from pathlib import Path\n\nPath(__file__).with_name('imported').touch()\n\nclass Thing: pass\n",
        encoding="utf-8",
    )
    yield name, tmp_path, tmp_path / "imported"
    sys.modules.pop(name, None)
    if str(tmp_path) in names.beside.folders:
        names.beside.folders.remove(str(tmp_path))


@pytest.mark.parametrize("group", GROUPS)
def test_code_from_outside_is_refused_before_it_is_imported(group, mean):
    name, folder, imported = mean
    before = [*sys.path, *names.beside.folders]
    with pytest.raises(names.Untrusted, match=f"'{name}:Thing' is code from outside brokerlab.*--trust"):
        names.find(group, f"{name}:Thing", folder=folder)
    assert not imported.exists()
    assert name not in sys.modules
    assert [*sys.path, *names.beside.folders] == before


@pytest.mark.parametrize("group", GROUPS)
def test_trusted_code_is_imported_from_beside_the_scenario_and_held_against_the_contract(group, mean):
    name, folder, imported = mean
    with pytest.raises(InvalidInput, match=f"'{name}:Thing' is no {names.GROUPS[group].one}: it .*; expected"):
        names.find(group, f"{name}:Thing", trust=True, folder=folder)
    assert imported.exists()
    assert names.beside.folders[-1] == str(folder) and str(folder) not in sys.path


@pytest.mark.parametrize("target", DANGEROUS)
@pytest.mark.parametrize("group", names.GROUPS)
def test_what_runs_commands_fits_no_group(group, target):
    with pytest.raises(InvalidInput, match=f"{target!r} is no {names.GROUPS[group].one}: it "):
        names.load_as(group, target)


@pytest.mark.parametrize("target", DANGEROUS)
@pytest.mark.parametrize("group", GROUPS)
def test_what_runs_commands_is_refused_without_trust_as_code_from_outside(group, target):
    with pytest.raises(names.Untrusted):
        names.find(group, target)


@pytest.mark.parametrize("group", GROUPS)
def test_the_target_of_a_registered_name_is_as_good_as_the_name(group):
    for name, entry in names.table(group).items():
        assert names.find(group, entry.target) == names.find(group, name)


def test_a_target_is_only_known_in_its_own_group():
    with pytest.raises(names.Untrusted):
        names.find("kinds", names.table("protocols")["flooding"].target)


def test_a_name_that_is_not_there_is_told_with_the_nearest():
    with pytest.raises(InvalidInput, match="no protocol named 'floding'; did you mean 'flooding'"):
        names.find("protocols", "floding")
    with pytest.raises(InvalidInput, match="no registry 'judges'; known: behaviours, connections, faults, indexes"):
        names.table("judges")


@pytest.mark.parametrize("name", ["Visitors", "Guide", "Book", "Arrive", "corridor", "Rule", "judge", "play"])
def test_each_part_of_a_third_party_fits_its_group_and_no_other(name, outside):
    fitting = []
    for group in names.GROUPS:
        try:
            names.load_as(group, f"visitors:{name}")
        except InvalidInput:
            continue
        fitting.append(group)
    assert fitting == {
        "Visitors": ["kinds"], "Guide": ["protocols"], "Book": ["indexes"], "Arrive": ["workloads"],
        "corridor": ["topologies"], "Rule": ["audit rules"], "judge": ["judges"], "play": ["rehearsals"],
    }[name]  # fmt: skip


ODD = {
    "def f(nodes) -> nx.Graph: ...": ("topologies", "has a parameter 'nodes' without a type"),
    "def f(nodes: int): ...": ("topologies", "does not say that it returns a graph"),
    "def f(*nodes: int) -> nx.Graph: ...": ("topologies", "takes 'nodes' by position"),
    "f = 'text'": ("topologies", "is a str, not a function written in Python"),
    "class f(BrokerProtocol): ...": ("protocols", "does not define on_message"),
    "class f(Kind):\n  row_bytes = oracle = None": ("kinds", "has no manifest, a brokers.kinds.KindManifest"),
    "class f(Kind):\n  row_bytes = oracle = None\n  manifest = KindManifest('a', '', 'x:f')\n\nf.name = 'b'": (
        "kinds", "has the name 'b', and its manifest 'a'"
    ),
    "class f(Index): question = 'content-match'": ("indexes", "does not derive from ContentIndex"),
    "class f:\n  next_wake = take = len\n  Params = dict": ("workloads", "has Params that are no pydantic model"),
    "class f:\n  next_wake = len": ("workloads", "has no method take"),
    "class f: ...": ("audit rules", "has neither decisions() nor judge()"),
    "class f:\n  due = len": ("explanations", "has no method may_want"),
    "def f(tables): ...": ("judges", "does not take 4 arguments"),
    "def f(*anything): ...": ("rehearsals", "takes any number of arguments"),
}


@pytest.mark.parametrize("code", ODD)
def test_what_does_not_keep_to_a_contract_is_told_what_it_lacks(code, monkeypatch):
    group, told = ODD[code]
    module = types.ModuleType("odd")
    exec(
        "import networkx as nx\nfrom brokers.contract import *\nfrom brokers.kinds import KindManifest\n"
        "from brokers.indexes.contract import Index\n" + code,
        vars(module),
    )
    monkeypatch.setitem(sys.modules, "odd", module)
    with pytest.raises(InvalidInput) as caught:
        names.load_as(group, "odd:f")
    assert f"'odd:f' is no {names.GROUPS[group].one}: it {told}; expected {names.GROUPS[group].contract}" == str(
        caught.value
    )


# ---- installed packages ------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path, outside, monkeypatch):
    """A package that registers what is in `visitors`, and something that it should not."""
    info = tmp_path / "site" / "visitors-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: visitors\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        "[brokerlab.kinds]\nguests = visitors:Visitors\n"
        "[brokerlab.protocols]\nguide = visitors:Guide\nflooding = visitors:Guide\nshell = os:system\n"
        "[brokerlab.indexes]\nbook = visitors:Book [extra]\n"
        "[brokerlab.workloads]\narrive = visitors:Arrive\n"
        "[brokerlab.topologies]\ncorridor = visitors:corridor\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(info.parent)


def test_an_installed_package_adds_names_to_every_group(installed):
    import visitors

    for group, name, expected in (
        ("kinds", "guests", visitors.Visitors),
        ("protocols", "guide", visitors.Guide),
        ("indexes", "book", visitors.Book),
        ("workloads", "arrive", visitors.Arrive),
        ("topologies", "corridor", visitors.corridor),
    ):
        assert names.table(group)[name].prose == "from visitors"
        assert names.find(group, name) == (f"visitors:{expected.__name__}", expected)
        assert names.find(group, f"visitors:{expected.__name__}")[1] is expected  # installed is trusted


def test_an_installed_package_takes_the_place_of_nothing_built_in(installed):
    assert names.find("protocols", "flooding")[0] == "protocols.content.flooding:Flooding"


def test_what_an_installed_package_registers_is_held_against_the_contract_too(installed):
    with pytest.raises(InvalidInput, match="'os:system' is no protocol: it is a builtin_function_or_method, not a"):
        names.find("protocols", "shell")


def test_listing_imports_nothing_that_a_package_registers(mean, monkeypatch):
    name, folder, imported = mean
    info = folder / "mean-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mean\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[brokerlab.kinds]\nmean = {name}:Thing\n", encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    assert "mean" in names.table("kinds")
    assert not imported.exists()
