"""What a kind is made of, each part by its name: the manifest of a kind.

A manifest is strings and plain data, so that what a kind brings can be listed without importing any of it. It lies in
a module of its own, and one line in `protocols.registry`, or one entry point of the group `brokerlab.kinds`, names it.
The class of the kind names it too, in its attribute `manifest`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from brokers.errors import InvalidInput
from brokers.metrics import Metric
from brokers.registry import Entry, imported, installed, load

UNDRAWN = "not drawn"  # beside the type of a parameter: hunts leave it as it is, unless a protocol needs it
_UNDER_FAULTS = {"under_faults": "nothing"}  # what a protocol promises then, unless its entry says so


@dataclass(frozen=True)
class KindManifest:
    """All parts of a kind. Targets are "module:Name"."""

    name: str
    prose: str  # one line for `brokerlab list`
    kind: str  # the class, whose method `oracle` is the definition of right
    question: str | None = None  # what an index must answer, e.g. "content-match"; None: the kind uses none
    default_index: str | None = None
    audit_rule: str = ""  # in Spark; see `brokers.auditing`
    judge: str = ""  # in the conformance kit; empty: pair by pair, by the oracle
    explains: str = ""  # what it says of one decision, where values alone do not; see `protocols.explaining`
    rehearsal: str = ""  # what clients do in the kit's rehearsals
    replay: str = ""  # the form of files of events, see `brokers.replaying`; empty: numeric bodies as they are
    protocols: Mapping[str, Entry] = field(default_factory=dict)  # those that serve other kinds too among them
    workloads: Mapping[str, Entry] = field(default_factory=dict)  # those that other kinds have too among them
    metrics: tuple[Metric, ...] = ()
    warm: str = ""  # a function that has every kernel compiled of the library that its networks are made of


def kinds_of(protocol: Any) -> tuple[str, ...]:
    """The names of the kinds that a protocol serves, the usual one first."""
    usual = str(getattr(protocol, "kind", ""))
    every: tuple[str, ...] = getattr(protocol, "kinds", ())
    return (usual, *(each for each in every if each != usual)) if usual in every else (usual,)


def kinds_told(names: Sequence[str]) -> str:
    """The names of kinds in a sentence."""
    return f"the kind{'s' * (len(names) > 1)} {' and '.join(map(repr, names))}"


def own_tables(kind: Any, protocol: Any) -> dict[str, Any]:
    """The trace tables that a kind adds, and a protocol that serves it."""
    return {**kind.tables, **getattr(protocol, "own_tables", {})}


def all_that(protocol: Any, kind: Any) -> dict[str, Any]:
    """The parameters of a service of a kind that asks for all that a protocol needs to be said, and can do.

    Of what it can do the parameters that are yes or no: which of several is asked is for others to say, and to draw.
    """
    asked = {key for key, field in kind.Params.model_fields.items() if field.annotation is bool}
    can = {key: True for key in sorted(getattr(protocol, "meets", ())) if key in asked}
    return {**can, **getattr(protocol, "requires", {})}


def unmet(kind: Any, protocol: Any, params: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a service asks that its protocol cannot do, as (parameter of the kind, what is wrong)."""
    meets: frozenset[str] = getattr(protocol, "meets", frozenset())
    return [(key, told) for key, told in kind.demands(params).items() if key not in meets]


# ---- which there are -----------------------------------------------------------------------------------

BROUGHT = ("protocols", "workloads")  # the groups of names that kinds add to


def manifest_targets() -> list[str]:
    """Where the manifests lie of the kinds that come with brokerlab."""
    found: dict[str, str] = load("protocols.registry:KINDS")
    return list(found.values())


def manifests() -> list[KindManifest]:
    """Of the kinds that come with brokerlab."""
    return [load(target) for target in manifest_targets()]


def installed_manifests() -> list[KindManifest]:
    """Of the kinds of installed packages, as far as they can be read."""
    return [manifest for _, manifest, _ in _read_installed() if manifest is not None]


def unreadable() -> list[str]:
    """Which kinds of installed packages cannot be read, and why; a sentence for each."""
    return [told for _, _, told in _read_installed() if told]


def built_in() -> dict[str, Entry]:
    """The kinds that come with brokerlab, by name."""
    return {
        each.name: Entry(each.kind, each.prose, {"question": each.question, "default_index": each.default_index})
        for each in manifests()
    }


def metrics() -> dict[str, Entry]:
    """The metrics that come with brokerlab beside those of kinds, for services that name them."""
    found: dict[str, Entry] = load("protocols.registry:METRICS")
    return found


def behaviours() -> dict[str, Entry]:
    """What brokers may do instead of what their protocol says, of those that come with brokerlab."""
    found: dict[str, Entry] = load("protocols.registry:BEHAVIOURS")
    return found


def brought(group: str) -> dict[str, Entry]:
    """The protocols or workloads of the kinds that come with brokerlab."""
    return _brought(group, manifests())


def brought_by_installed(group: str) -> dict[str, Entry]:
    """The same of kinds of installed packages, with the package they are from."""
    found: dict[str, Entry] = {}
    for package, manifest, _ in _read_installed():
        for name, entry in _brought(group, [manifest] if manifest else []).items():
            found.setdefault(name, Entry(entry.target, f"{entry.prose} ({package})", entry.facts))
    return found


def _brought(group: str, kinds: list[KindManifest]) -> dict[str, Entry]:
    """Entries with the fact for which kind, or kinds, they are."""
    found: dict[str, Entry] = {}
    for kind in kinds:
        for name, entry in getattr(kind, group).items():
            before = found.get(name)
            if before is not None and before.target == entry.target:
                before.facts["kinds"].append(kind.name)
                continue
            facts: dict[str, Any] = {"kinds": [kind.name]}
            if group == "protocols":
                facts |= {**_UNDER_FAULTS, **entry.facts}
            found[name] = Entry(entry.target, entry.prose, facts)
    return found


def _read_installed() -> Iterator[tuple[str, KindManifest | None, str]]:
    """Of each entry point for a kind: from which package, its manifest, or why that cannot be read."""
    for name, entry in installed("kinds"):
        try:
            loaded = imported(entry.target)
            manifest = getattr(loaded, "manifest", loaded)  # it may name the class
            if not isinstance(manifest, KindManifest):
                raise InvalidInput(f"{entry.target!r} is no kind, nor the manifest of one")
        except InvalidInput as error:
            yield entry.prose, None, f"the kind {name!r} {entry.prose} cannot be read: {error}"
        else:
            yield entry.prose, manifest, ""
