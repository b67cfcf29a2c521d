"""The metrics that kinds and scenarios add, measured once when a run has ended, from the tables it wrote.

What cannot be measured is nothing and told: the run is whole without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokers.metrics import Metric, padding_of
from brokers.names import load_as

if TYPE_CHECKING:
    from brokers.contract import Kind
    from brokers.engine.model import Model
    from brokers.schema import Table
    from scenarios.schema import ResolvedService, Scenario


def measured(scenario: Scenario, model: Model, folder: Path) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """(service -> metric -> number or None, what could not be measured and why)."""
    from brokers import attackers
    from brokers.engine.simulate import tables_of
    from brokers.engine.trace_schema import tables_at

    # Where nobody attacks the table of who does is not written, and is empty.
    there = tables_at(model.trace_level, {**tables_of(model), **attackers.TABLES})
    found: dict[str, dict[str, Any]] = {}
    notes: list[str] = []
    for number, (service, spec) in enumerate(zip(scenario.services, model.services, strict=True)):
        kind = spec.kind_class(spec.params)
        kind.announced = spec.protocol_class.announces
        kind.padding = padding_of(spec.protocol_class, spec.options)
        tables: dict[str, dict[str, Any]] = {}  # what metrics of this service have asked for so far
        for metric in service.metrics:
            value = None
            if metric.reads.keys() <= there.keys():
                try:
                    _read(tables, folder, metric, number, there)
                    reads = metric.reads.items()
                    asked = {table: {name: tables[table][name] for name in names} for table, names in reads}
                    value = _number(metric, kind, asked)
                except Exception as error:  # whatever a third party's function does with what it is given
                    notes.append(
                        f"service {spec.name!r}: the metric {metric.name!r} could not be measured: "
                        f"{type(error).__name__}: {error}"
                    )
            found.setdefault(spec.name, {})[metric.name] = value
    return found, notes


def lacking(services: Sequence[ResolvedService]) -> dict[str, str]:
    """Of metrics by their flat names, what they lack in a scenario of these services to be measured at all."""
    from brokers import attackers
    from brokers.engine.trace_schema import TABLES

    own = {name: table for each in services for name, table in each.own_tables.items()}
    known = {**TABLES, **attackers.TABLES, **own}
    found = {}
    for service in services:
        for metric in service.metrics:
            if why := _lacks(metric, service.options, known, len(services)):
                found[f"{service.section.name}.{metric.name}"] = why
    return found


def _lacks(metric: Metric, options: Mapping[str, Any], known: Mapping[str, Table], services: int) -> str:
    if metric.alone and services > 1:
        return f"it is measured of a service alone (there are {services})"
    for name in metric.reads:
        if name not in known:
            return f"no service writes the table `{name}`"
        asked_by = known[name].asked_by
        if asked_by and not options.get(asked_by):
            return f"the table `{name}` has rows where the option `{asked_by}` asks for them"
    return ""


def _number(metric: Metric, kind: Kind, tables: Mapping[str, Mapping[str, Any]]) -> float | int | None:
    import numpy as np

    value = load_as("measures", metric.measure)(tables, kind)
    if value is None:
        return None
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or not np.isfinite(number):
        raise TypeError(f"{metric.measure} gave {value!r}, which is no finite number")
    return number


def _read(
    tables: dict[str, dict[str, Any]], folder: Path, metric: Metric, service: int, there: Mapping[str, Any]
) -> None:
    """Add the columns that a metric reads, of the rows of one service, as far as they are not there yet."""
    import numpy as np
    import pyarrow.parquet as pq

    for table, asked in metric.reads.items():
        known = tables.setdefault(table, {})
        columns = [name for name in asked if name not in known]
        if not columns:
            continue
        own = "service" in {column.name for column in there[table].columns}
        wanted = [*columns, *(["service"] if own and "service" not in columns else [])]
        parts = [
            pq.read_table(path, columns=wanted, partitioning=None)
            for path in sorted((folder / "tables" / table).glob("part-*.parquet"))
        ]
        rows = {name: [part[name].to_numpy(zero_copy_only=False) for part in parts] for name in wanted}
        arrays = {name: np.concatenate(each) if each else np.empty(0) for name, each in rows.items()}
        mine = arrays["service"] == service if own and parts else slice(None)
        for name in columns:
            known[name] = arrays[name][mine]
            known[name].flags.writeable = False  # others read it too
