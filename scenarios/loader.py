"""From a scenario file to a valid `Scenario`, or to everything that is wrong with it.

Stages: YAML to plain data with places (`document`), `--set` overrides, the fixed sections (`schema`), then
what hangs on names (`brokers.names`): topology, kinds, protocols, indexes, workloads. A stage goes as far as it can
on what the stages before it left, so that one look shows all mistakes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any

from pydantic import BaseModel, ValidationError

from brokers import names
from brokers.errors import InvalidInput
from brokers.kinds import KindManifest, kinds_of, kinds_told
from brokers.metrics import Metric
from brokers.names import Found
from brokers.programs import spelling
from scenarios import parameters
from scenarios.document import Document, read
from scenarios.many import expect, metrics
from scenarios.measuring import lacking
from scenarios.problems import Path, ScenarioErrors, did_you_mean, explain, got
from scenarios.schema import (
    MOVEMENTS,
    NAME,
    Attackers,
    FaultEntry,
    Mobility,
    ResolvedAttackers,
    ResolvedFault,
    ResolvedMovement,
    ResolvedService,
    ResolvedSource,
    Scenario,
    ScenarioModel,
    Service,
    TopologyHead,
    Workload,
)

SHIPPED = FilePath(__file__).parent / "shipped"


def shipped() -> dict[str, FilePath]:
    """The scenarios that come with the program, by name."""
    return {path.stem: path for path in sorted(SHIPPED.glob("*.yaml"))}


def locate(name: str | FilePath) -> FilePath:
    """The file that a path, or the name of a shipped scenario, stands for."""
    path = FilePath(name)
    if path.is_file():
        return path
    known = shipped()
    if str(name) in known:
        return known[str(name)]
    if path.is_dir():
        raise InvalidInput(f"{name} is a folder; name the scenario file in it")
    if path.exists():
        raise InvalidInput(f"{name} is no ordinary file; copy what it gives into one")
    if path.suffix or path.parent != FilePath("."):
        raise InvalidInput(f"there is no file {name}; shipped scenarios: {', '.join(known)}")
    raise InvalidInput(f"no file or shipped scenario {str(name)!r}; {did_you_mean(str(name), known)}")


def load(name: str | FilePath, overrides: Sequence[str] = (), *, trust: bool = False) -> Scenario:
    """Read a scenario file (or a shipped scenario by name); ScenarioErrors holds all that is wrong.

    `trust` lets it name code from outside, `package.module:Name`, which is imported then.
    """
    path = locate(name)
    try:
        source = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"cannot read {path}: {error.strerror}") from error
    return _resolve(read(source, str(path), overrides), path.parent.resolve(), path.stem, trust)


def loads(
    text: str | bytes, overrides: Sequence[str] = (), folder: str | FilePath = ".", *, trust: bool = False
) -> Scenario:
    """Read a scenario from text; `trust` as for `load`."""
    source = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return _resolve(read(source, "<text>", overrides), FilePath(folder).resolve(), "scenario", trust)


def from_data(
    data: Mapping[str, Any], folder: str | FilePath = ".", *, trust: bool = False, where: str = "<data>"
) -> Scenario:
    """Check plain data, such as the resolved scenario of a manifest; `trust` as for `load`, `where` is for messages."""
    document = Document(where, lines=False)
    document.data = dict(data)
    return _resolve(document, FilePath(folder).resolve(), "scenario", trust)


def _resolve(document: Document, folder: FilePath, stem: str, trust: bool) -> Scenario:
    data = document.data
    if not isinstance(data, dict):
        if not document.problems:
            document.problem((), f"a scenario is a section of keys such as topology and services {got(data)}")
        raise ScenarioErrors(document.problems)
    if "name" not in data:
        data["name"] = stem if NAME.fullmatch(stem) else "scenario"
    model = _validated(document, data, ScenarioModel)
    parts = _Names(document, data, folder, trust)
    topology, topology_params = parts.topology()
    services = parts.services()
    faults = parts.faults()
    movements = parts.movements()
    if model is not None:
        declared = {service.name: parts.measured.get(service.name, ()) for service in model.services}
        own_tables = {name: table for each in services for name, table in each.own_tables.items()}
        unclear = declared.keys() - parts.measured.keys()
        lacks = lacking(services) if len(services) == len(model.services) else {}
        found = expect.misfits(model.expect, declared, model.trace.level, own_tables, unclear, lacks)
        for i, message in found:
            document.problem(("expect", i), message)
    if document.problems or model is None:
        raise ScenarioErrors(document.problems)
    return Scenario(
        model, topology, topology_params, tuple(services), tuple(faults), tuple(movements), str(folder), trust, document
    )


def _validated(
    document: Document,
    data: Any,
    model: Any,
    at: Path = (),
    extra_keys: Sequence[str] = (),
) -> Any:
    """An instance of the model, or None with the mistakes noted in the document."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        for path, about_key, message in explain(error, data, model, extra_keys):
            document.problem((*at, *path), message, about_key)
    except RecursionError:
        document.problem(at, "nested too deeply")
    except (ArithmeticError, TypeError, LookupError, ValueError) as error:
        # A third party's validator tripped over what it was given.
        document.problem(at, f"cannot be checked: {type(error).__name__}: {error}")
    return None


class _Names:
    """The parts of a scenario whose models hang on names."""

    def __init__(self, document: Document, data: dict[str, Any], folder: FilePath, trust: bool) -> None:
        self.document = document
        self.data = data
        groups = data.get("clients")
        self.groups = list(groups) if isinstance(groups, dict) else []
        servers = data.get("servers")
        self.servers = list(servers) if isinstance(servers, dict) else []
        self.folder = folder
        self.trust = trust
        self.measured: dict[str, tuple[Metric, ...]] = {}  # by service, if its kind and metrics could be found

    def find(self, group: str, section: Mapping[str, Any], key: str, path: Path) -> Found | None:
        """What a name stands for; None if it is missing or wrong, and noted so."""
        name = section.get(key)
        if not isinstance(name, str):
            return None  # the fixed schema has said so
        try:
            return names.find(group, name, trust=self.trust, folder=self.folder)
        except InvalidInput as error:
            self.document.problem((*path, key), str(error))
            return None

    def parameters(
        self,
        model: type[BaseModel],
        section: Mapping[str, Any],
        head: type[BaseModel],
        path: Path,
        service_params: Mapping[str, Any] | None = None,
    ) -> dict[str, Any] | None:
        """The keys of a section that its head does not know, checked against the model they belong to.

        None if they are wrong, which is noted. A workload's model may have `misfits(service_params)`: (path, what
        is wrong) beside its service.
        """
        given = {key: value for key, value in section.items() if key not in head.model_fields}
        checked = _validated(self.document, given, model, path, list(head.model_fields))
        if checked is None:
            return None
        if service_params is not None and hasattr(checked, "misfits"):
            for where, message in checked.misfits(service_params):
                self.document.problem((*path, *where.split(".")), message)
        return dict(checked.model_dump(mode="json"))

    def topology(self) -> tuple[Found, dict[str, Any]]:
        """The topology and its parameters."""
        nothing = Found("", None)  # what is wrong has been noted
        section = self.data.get("topology")
        if not isinstance(section, dict):
            return nothing, {}
        found = self.find("topologies", section, "kind", ("topology",))
        if found is None:
            return nothing, {}
        try:
            model = parameters.topology_model(section["kind"], found.object)
        except InvalidInput as error:
            self.document.problem(("topology", "kind"), str(error))
            return nothing, {}
        return found, self.parameters(model, section, TopologyHead, ("topology",)) or {}

    def faults(self) -> list[ResolvedFault]:
        """What fails, by the entries of the schedule."""
        section = self.data.get("faults")
        schedule = section.get("schedule") if isinstance(section, dict) else None
        resolved = []
        for i, each in enumerate(schedule if isinstance(schedule, list) else []):
            path = ("faults", "schedule", i)
            found = self.find("faults", each, "fault", path) if isinstance(each, dict) else None
            if found is not None:
                params = self.parameters(parameters.params_model(found.object), each, FaultEntry, path)
                resolved.append(ResolvedFault(each["fault"], found, params or {}))
        return resolved

    def movements(self) -> list[ResolvedMovement]:
        """What makes clients come and go, group by group."""
        groups = self.data.get("clients")
        resolved = []
        for group, section in groups.items() if isinstance(groups, dict) else ():
            for sort in MOVEMENTS if isinstance(section, dict) else ():
                each, path = section.get(sort), ("clients", group, sort)
                found = self.find(sort, each, "kind", path) if isinstance(each, dict) else None
                if found is not None:
                    params = self.parameters(parameters.params_model(found.object), each, Mobility, path)
                    resolved.append(ResolvedMovement(str(group), sort, each["kind"], found, params or {}))
        return resolved

    def services(self) -> list[ResolvedService]:
        sections = self.data.get("services")
        if not isinstance(sections, list):
            return []
        first_with: dict[str, int] = {}
        resolved = []
        for i, section in enumerate(sections):
            if not isinstance(section, dict):
                continue
            name = section.get("name")
            if isinstance(name, str) and first_with.setdefault(name, i) != i:
                message = f"services[{first_with[name]}] has this name already {got(name)}"
                self.document.problem(("services", i, "name"), message)
            service = self.service(section, ("services", i))
            if service is not None:
                resolved.append(service)
        return resolved

    def service(self, section: dict[str, Any], path: Path) -> ResolvedService | None:
        before = len(self.document.problems)
        section = _with_programs_by_name(section)
        kind = self.find("kinds", section, "kind", path)
        protocol = self.find("protocols", section, "protocol", path)
        params: dict[str, Any] | None = None  # a workload is not held against what is itself wrong
        index: tuple[Found | None, str | None] = (None, None)
        if kind is not None:
            params = self.parameters(parameters.params_model(kind.object), section, Service, path)
            index = self.index(section, kind.object.manifest, path)
        if kind is not None and protocol is not None:
            self.same_kind(section, kind.object, protocol.object, path)
        options: dict[str, Any] = {}
        given = section.get("options", {})
        if protocol is not None and isinstance(given, dict):
            model = parameters.params_model(protocol.object, "Options")
            checked = _validated(self.document, given, model, (*path, "options"))
            options = checked.model_dump(mode="json") if checked is not None else {}
        attackers = self.attackers(section, protocol, path)
        sources = self.workload(section, kind, params, path)
        server = self.server(section, kind.object, path) if kind is not None else None
        further = self.measured_of(section, kind.object.manifest, path) if kind is not None else ()
        if len(self.document.problems) > before or kind is None or protocol is None:
            return None
        try:
            head = Service.model_validate(section)
        except ValidationError:
            return None  # noted with the fixed sections
        return ResolvedService(
            head, kind, protocol, *index, params or {}, options, tuple(sources), server, further, attackers
        )

    def attackers(
        self, section: Mapping[str, Any], protocol: Found | None, path: Path
    ) -> tuple[ResolvedAttackers, ...]:
        """The brokers of a service that do something else."""
        given = section.get("attackers", [])
        resolved = []
        for i, each in enumerate(given if isinstance(given, list) else []):
            at = (*path, "attackers", i)
            found = self.find("behaviours", each, "behaviour", at) if isinstance(each, dict) else None
            if found is None:
                continue
            if protocol is not None and not _derives(found.object, protocol.object):
                message = f"{each['behaviour']!r} is a behaviour of another protocol, not of {section['protocol']!r}"
                self.document.problem((*at, "behaviour"), message)
            params = self.parameters(found.object.Params, each, Attackers, at)
            try:
                resolved.append(ResolvedAttackers(Attackers.model_validate(each), found, params or {}))
            except ValidationError:
                continue  # noted with the fixed sections
        return tuple(resolved)

    def server(self, section: Mapping[str, Any], kind: Any, path: Path) -> str | None:
        """The name of the service's server, if its kind has one."""
        name, known = section.get("server"), ", ".join(map(str, self.servers))
        if not getattr(kind, "server", False):
            if name is not None:
                self.document.problem((*path, "server"), f"the kind {section['kind']!r} has no server; leave it out")
            return None
        if name is None and len(self.servers) != 1:
            hint = f"one of {known}" if self.servers else "and describe it in a section `servers`"
            self.document.problem(path, f"the kind {section['kind']!r} has a server: say which, {hint}")
            return None
        if name is not None and name not in self.servers:
            hint = did_you_mean(str(name), map(str, self.servers)) if self.servers else "there is no section `servers`"
            self.document.problem((*path, "server"), f"no server named {name!r}; {hint}")
            return None
        return str(name or self.servers[0])

    def same_kind(self, section: Mapping[str, Any], kind: Any, protocol: Any, path: Path) -> None:
        serves, name = kinds_of(protocol), kind.name
        if name in serves:
            if spelling.is_program(section["protocol"]) and kind.server:
                message = f"the kind {name!r} has a server, which programs do not serve"
                self.document.problem((*path, "protocol"), message)
            return
        fitting = [
            each for each, entry in names.table("protocols").items() if name in entry.facts.get("kinds", ())
        ]
        hint = (
            f"protocols for {name!r}: {', '.join(fitting)}" if fitting else "no built-in protocol serves it"
        )
        message = f"{section['protocol']!r} serves {kinds_told(serves)}, not {name!r}; {hint}"
        self.document.problem((*path, "protocol"), message)

    def index(
        self, section: Mapping[str, Any], kind: KindManifest, path: Path
    ) -> tuple[Found | None, str | None]:
        """The index and its name; the kind's default where none is named."""
        name = section.get("index")
        if name is None:
            name = kind.default_index
            if name is None:
                return None, None
        elif not isinstance(name, str):
            return None, None  # the fixed schema has said so
        found = self.find("indexes", {"index": name}, "index", path)
        if found is None:
            return None, None
        answers = getattr(found.object, "question", None)
        if answers != kind.question:
            fitting = [
                each
                for each, entry in names.table("indexes").items()
                if entry.facts.get("question") == kind.question
            ]
            hint = f"indexes that do: {', '.join(fitting)}" if fitting else "leave it out"
            message = f"{name!r} answers {answers!r}, the kind asks {kind.question!r}; {hint}"
            self.document.problem((*path, "index"), message)
        return found, name

    def measured_of(self, section: Mapping[str, Any], kind: KindManifest, path: Path) -> tuple[Metric, ...]:
        """The metrics of a service; if nothing is wrong with these, expectations may name them."""
        before = len(self.document.problems)
        found = self.metrics(section, kind, path)
        if len(self.document.problems) == before and isinstance(section.get("name"), str):
            self.measured[section["name"]] = found
        return found

    def metrics(self, section: Mapping[str, Any], kind: KindManifest, path: Path) -> tuple[Metric, ...]:
        """What is measured beside what every service has: by its kind, and what the service names."""
        found = {metric.name: metric for metric in kind.metrics}
        known = {*metrics.SERVICE, *metrics.AUDIT, *found}
        given = section.get("metrics", [])
        for i, name in enumerate(given if isinstance(given, list) else []):
            each = self.find("metrics", {"metrics": name}, "metrics", path)
            if each is None:
                continue
            metric = each.object
            if metric.name in known:
                self.document.problem((*path, "metrics", i), f"the service has a metric {metric.name!r} already")
                continue
            known.add(metric.name)
            found[metric.name] = metric
        for metric in found.values():
            if metric.name in (*metrics.SERVICE, *metrics.AUDIT):
                message = f"the kind {kind.name!r} has a metric {metric.name!r}, which every service has already"
                self.document.problem((*path, "kind"), message)
            try:
                names.load_as("measures", metric.measure)
            except InvalidInput as error:
                self.document.problem((*path, "metrics"), f"the metric {metric.name!r}: {error}")
        return tuple(found.values())

    def workload(
        self, section: Mapping[str, Any], kind: Found | None, service_params: Mapping[str, Any] | None, path: Path
    ) -> list[ResolvedSource]:
        given = section.get("workload", [])
        if not isinstance(given, list):
            return []
        resolved = []
        for i, each in enumerate(given):
            if not isinstance(each, dict):
                continue
            at = (*path, "workload", i)
            group = self.group(each, at)
            found = self.find("workloads", each, "source", at)
            if found is None:
                continue
            if kind is not None:
                self.fits(each["source"], found, kind.object, at)
            params = self.parameters(parameters.params_model(found.object), each, Workload, at, service_params)
            if group is not None:
                resolved.append(ResolvedSource(each["source"], found, group, params or {}))
        return resolved

    def fits(self, source: str, found: Found, kind: Any, at: Path) -> None:
        entry = names.table("workloads").get(source)
        kinds = (entry.facts if entry else {}).get("kinds", getattr(found.object, "kinds", None))
        if kinds is None or kind.name in kinds:
            return
        message = f"{source!r} is a workload for {', '.join(kinds)}, not for {kind.name!r}"
        self.document.problem((*at, "source"), message)

    def group(self, workload: Mapping[str, Any], at: Path) -> str | None:
        name = workload.get("clients")
        if name is None:
            if len(self.groups) > 1:
                self.document.problem(at, f"say which clients act: one of {', '.join(map(str, self.groups))}")
            return str(self.groups[0]) if len(self.groups) == 1 else None
        if not isinstance(name, str):
            return None
        if name not in self.groups:
            message = f"no group of clients named {name!r}; {did_you_mean(name, map(str, self.groups))}"
            self.document.problem((*at, "clients"), message)
            return None
        return name


def _derives(behaviour: Any, protocol: Any) -> bool:
    """Whether a behaviour is one of a protocol: of its author's form, where it has another beside it."""
    return issubclass(behaviour, getattr(protocol, "plain", None) or protocol)


def _with_programs_by_name(section: dict[str, Any]) -> dict[str, Any]:
    """A service whose protocol is `{exec: [./broker]}`, as `exec:./broker`."""
    try:
        return {**section, "protocol": spelling.from_section(section.get("protocol"))}
    except ValueError:
        return section  # the fixed schema says what is wrong


def title_of(path: FilePath) -> str:
    """The title line of a scenario file, unchecked."""
    data = read(path.read_bytes(), str(path)).data
    return str(data.get("title", "")) if isinstance(data, dict) else ""
