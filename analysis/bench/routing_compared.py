"""Every routing protocol beside the others: the shipped scenario `routers` under all of them, whole and under faults.

A sweep of protocol and *adversity*: with the same seed all have the same overlay, clients, publications and changes
(`scenarios.many.sweep`), but for those that need an overlay of their own, which says so. What a protocol costs is
measured where nothing fails; there it has no options. What it survives is measured with its option `recover`, if it
has one: the share that came of what came where nothing failed, both by this protocol and by flooding. Changes are over
before anything fails, so that nothing of that is free. Pairs of publication and client are found again by who
published, when, and who got it; what was published while its broker was down was refused, and does not count.

`python -m analysis.bench.routing_compared` prints the table of docs/routing.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from analysis.bench.rows import Row, row
from brokers.contract import Guarantees
from brokers.engine.model import Model
from brokers.engine.simulate import MemoryTraces, simulate, tables_of
from brokers.names import load_as
from brokers.promises import NOTHING_PROMISED, RELIABLE, Faced, promised
from brokers.verdicts import promises
from protocols.content.manifest import CONTENT
from protocols.topics.manifest import TOPICS
from scenarios.loader import from_data, load
from scenarios.many.sweep import Point, points_of
from scenarios.plan import resolve

SCENARIO = "routers"
SERVICES = {"ranges": CONTENT, "names": TOPICS}  # of the scenario, and of what kind they are
_NAMES_ALONE = ("gossipsub",)  # to which filters with wildcards are unknown
PROTOCOLS = {
    service: [each for each in kind.protocols if each not in _NAMES_ALONE] for service, kind in SERVICES.items()
}
QUIET = "quiet"
WHILE, AFTER = "while", "after"
SETTLED_S = 3.0  # how long after the last fault what is published counts as coming after it
_S = 1_000_000_000


@dataclass(frozen=True)
class Adversity:
    """What is not as it should be, and when."""

    overrides: Mapping[str, Any]
    begins_s: float = 0.0
    ends_s: float | None = None  # None: never

    def when(self, time_ns: int) -> str:
        """Whether it was then, or over for long; nothing before and between."""
        if self.ends_s is not None and time_ns >= (self.ends_s + SETTLED_S) * _S:
            return AFTER
        return WHILE if self.begins_s * _S <= time_ns and (self.ends_s is None or time_ns < self.ends_s * _S) else ""


def _faults(*schedule: Mapping[str, Any]) -> dict[str, Any]:
    return {"faults": {"detect": "50 ms", "schedule": list(schedule)}}


# Brokers of the first two regions of four; what lies between is cut in both directions.
_NORTH = [0, 1, *range(4, 14)]
ADVERSITIES = {
    QUIET: Adversity({}),
    "loss": Adversity({"links": {"loss": "1 %"}}, 6),
    "cut": Adversity(_faults({"fault": "partition", "sets": [_NORTH], "at": "5 s", "lasts": "2 s"}), 5, 7),
    "restarts": Adversity(
        _faults({"fault": "rolling-restart", "at": "5 s", "lasts": "200 ms", "every": "250 ms", "state": "stored"}),
        5, 11,
    ),
}  # fmt: skip

# Those that cannot have the overlay of the scenario as it is: what it is then, and what they have instead, of as many
# brokers.
OVERLAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "neighbourhood": ("rings, more links may arise", {"links": {"latent": {"hops": 2}}}),
    "hyparview-flooding": (
        "a contact, links may arise", {"topology": {"kind": "star", "nodes": 24}, "links": {"latent": {"hops": 2}}},
    ),
    "cluster": ("every two linked", {"topology": {"kind": "clusters", "size": 24}}),
    "leaf": ("hub and leaves", {"topology": {"kind": "clusters", "clusters": 4, "size": 6, "between": "first"}}),
    "gateway": ("four clusters", {"topology": {"kind": "clusters", "clusters": 4, "size": 6, "between": "all"}}),
    "bridges": ("a tree", {"topology": {"kind": "random-tree", "nodes": 24}}),
}  # fmt: skip
OVERLAY = "rings"  # that of the scenario


@dataclass(frozen=True)
class Sizes:
    """How much is run; the tests leave out most of it."""

    seeds: int = 5
    protocols: tuple[str, ...] = ()  # none named: all
    adversities: tuple[str, ...] = tuple(ADVERSITIES)


@dataclass
class Compared:
    """What was measured of one protocol, over the seeds."""

    service: str
    protocol: str
    promised: Guarantees  # wherever something failed
    recovers: bool  # by an option, which it had there
    costs: dict[str, list[float]] = field(default_factory=dict)  # metric -> by seed
    came: dict[tuple[str, str], list[float]] = field(default_factory=dict)  # (adversity, WHILE or AFTER) -> by seed

    def cost(self, metric: str) -> float:
        """A metric where nothing fails."""
        return fmean(self.costs[metric])

    @property
    def misses_nothing(self) -> bool:
        """Whether that is promised under faults."""
        return self.promised.under_faults == RELIABLE

    @property
    def heals(self) -> bool:
        """Whether all of it is promised again some time after the last fault."""
        return self.promised.under_faults != NOTHING_PROMISED

    @property
    def promise(self) -> str:
        """What is promised, for people."""
        words = ", ".join(promises(self.promised).values())
        return f"{words or 'nothing'}; under faults {self.promised.under_faults}{' (`recover`)' * self.recovers}"

    def share(self, adversity: str, when: str) -> float:
        """What came of what should have, of what was published then."""
        return fmean(self.came[adversity, when])


def compared(sizes: Sizes | None = None) -> Iterator[Compared]:
    """What was measured, of one protocol after the other."""
    sizes = sizes or Sizes()
    for service, protocols in PROTOCOLS.items():
        flooded = {p.repeat: _run(p) for p in _points(service, _REFERENCE, replace(sizes, adversities=(QUIET,)))}
        for protocol in sizes.protocols or protocols:
            if protocol not in protocols:
                continue
            points = _points(service, protocol, sizes)
            found = Compared(service, protocol, *_promised(points[-1]))
            for repeat in range(sizes.seeds):
                runs = {str(p.values["adversity"]): _run(p) for p in points if p.repeat == repeat}
                _note(found, runs, flooded[repeat].pairs)
            yield found


_REFERENCE = "flooding"  # it delivers by what a client wants when a publication arrives, and knows nothing before


def _points(service: str, protocol: str, sizes: Sizes) -> list[Point]:
    """One protocol under every adversity, with every seed."""
    base = load(SCENARIO).resolved()
    alone = next(each for each in base["services"] if each["name"] == service)
    variants = []
    for name in sizes.adversities:
        options = {} if name == QUIET else _options(service, protocol)
        said = base, ADVERSITIES[name].overrides, OVERLAYS.get(protocol, ("", {}))[1]
        data: dict[str, Any] = {key: value for each in said for key, value in each.items()} | {"expect": []}
        data["links"] = {key: value for each in said for key, value in each.get("links", {}).items()}
        data["services"] = [{**alone, "protocol": protocol, "options": options}]
        variants.append(({"adversity": name}, from_data(data)))
    return list(points_of(protocol, variants, sizes.seeds, base["seed"]))


def _options(service: str, protocol: str) -> dict[str, Any]:
    """Those that a protocol has where something fails."""
    options = load_as("protocols", SERVICES[service].protocols[protocol].target).Options
    return {"recover": True} if options is not None and "recover" in options.model_fields else {}


@dataclass
class _Run:
    """What was seen of one run."""

    metrics: dict[str, float]
    pairs: set[tuple[int, int, int]]  # who published, when, and who got it
    published: set[tuple[int, int]]


def _run(point: Point) -> _Run:
    model = _model(point)
    traces = MemoryTraces("full", tables_of(model))
    simulate(model, trace=traces, engine="inline")
    tables, spec = traces.tables(), model.services[0]
    kind = spec.kind_class(spec.params)
    metrics = {
        metric.name: load_as("measures", metric.measure)(tables, kind) for metric in point.scenario.services[0].metrics
    }
    names = ("publication", "client", "time_ns")
    sent = {id_: (client, time) for id_, client, time in zip(*(tables["publications"][n].tolist() for n in names))}
    got = zip(*(tables["deliveries"][name].tolist() for name in ("publication", "client")))
    return _Run(metrics, {(*sent[id_], client) for id_, client in got}, set(sent.values()))


def _model(point: Point) -> Model:
    return resolve(from_data(point.data()))


def _promised(point: Point) -> tuple[Guarantees, bool]:
    """What a protocol promises, and whether it recovers by an option."""
    model = _model(point)
    spec = model.services[0]
    faced = Faced.of(model.faults, model.overlay)
    return promised(spec.protocol_class, spec.options, model.overlay, faced), bool(spec.options.get("recover"))


def _note(found: Compared, runs: Mapping[str, _Run], flooded: set[tuple[int, int, int]]) -> None:
    """What one seed says of a protocol."""
    for name, value in runs[QUIET].metrics.items():
        found.costs.setdefault(name, []).append(value)
    wanted = runs[QUIET].pairs & flooded
    for name, run in runs.items():
        there = {pair for pair in wanted if pair[:2] in run.published}
        for when in (WHILE, AFTER):
            pairs = {pair for pair in there if ADVERSITIES[name].when(pair[1]) == when}
            if pairs:
                found.came.setdefault((name, when), []).append(len(pairs & run.pairs) / len(pairs))


# ---- what is shown ---------------------------------------------------------------------------------------

COSTS = {
    "tables.mean": "entries of a table, mean", "tables.largest": "largest", "control.per_change": "control per change",
    "links.carried": "publications over links", "waste": "waste", "stretch": "stretch",
}  # fmt: skip


def rows(sizes: Sizes | None = None) -> Iterator[Row]:
    """For the bench group: what each costs, and of what was promised, the share that came."""
    for each in compared(sizes):
        said = f"{each.service}, {each.protocol}"
        for metric, told in COSTS.items():
            yield row(f"{said}: {told}", each.cost(metric), "")
        for told, asked, owed in (
            ("came where nothing fails", {(QUIET, WHILE)}, each.promised.exact),
            ("came once all is whole again", each.came.keys() & {(name, AFTER) for name in ADVERSITIES}, each.heals),
            ("came, whatever failed", each.came.keys() - {(QUIET, WHILE)}, each.misses_nothing),
        ):
            if asked:
                share = min(each.share(*one) for one in asked)
                yield row(f"{said}: {told}", share, "share", least=1.0 if owed else None)


def markdown(found: Iterable[Compared]) -> str:
    """The tables of docs/routing.md: one for ranges, one for names."""
    lines: list[str] = []
    service = ""
    for each in found:
        if each.service != service:
            service = each.service
            heads = [service, "overlay", *COSTS.values(), *(told for told, _, _ in SURVIVED), "promise"]
            lines += ["", "| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        overlay = OVERLAYS.get(each.protocol, (OVERLAY, {}))[0]
        shares = [f"{100 * each.share(adversity, when):.1f}" for _, adversity, when in SURVIVED]
        costs = [_figure(each.cost(metric)) for metric in COSTS]
        cells = [f"`{each.protocol}`", overlay, *costs, *shares, each.promise]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines[1:])


SURVIVED = (
    ("1 % lost", "loss", WHILE), ("cut in two", "cut", WHILE), ("and after", "cut", AFTER),
    ("restarts", "restarts", WHILE), ("and after", "restarts", AFTER),
)  # fmt: skip


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    print(markdown(compared(Sizes(protocols=tuple(sys.argv[1:])))))
