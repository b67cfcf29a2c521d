"""`brokerlab plan FILE`: what a run would take."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from scenarios.commands import add_scenario, overrides_of, parser

if TYPE_CHECKING:
    from scenarios.plan import Plan

_FAULTS_SHOWN = 30


def command(arguments: list[str]) -> int:
    result = parser(
        "plan",
        "Resolve a scenario and say what a run would take: brokers, links, services, which form of a protocol runs "
        "where it has several (compiled, the shard's view, the author's view), actors, the links the "
        "partition cuts, the lookahead, λ, memory. Below λ = 10 several seeds side by side are the faster "
        "way to use several cores.",
        """
        brokerlab plan ten-thousand --actors 4
        brokerlab plan study/scenario.yaml --engine inline --json
        """,
    )
    add_scenario(result)
    result.add_argument("--engine", choices=("ray", "inline"), help="whose λ; default: ray where it is installed")
    result.add_argument("--actors", type=int, metavar="N", help="number of shards")
    result.add_argument("--json", action="store_true", help="one JSON object")
    options = result.parse_args(arguments)

    from scenarios.loader import load
    from scenarios.plan import plan

    overrides = overrides_of(options)
    if options.actors is not None:
        overrides.append(f"engine.actors={options.actors}")
    answer = plan(load(options.scenario, overrides, trust=options.trust), options.engine)
    print(json.dumps(answer.as_data(), indent=2, ensure_ascii=False) if options.json else text(answer))
    return 0


def text(answer: Plan) -> str:
    """The plan for people."""
    from topology.units import format_duration, format_size

    def duration(value_ns: int | None) -> str:
        return "-" if value_ns is None else format_duration(value_ns)

    def events(answer: Plan) -> str:
        rate = answer.events_per_s
        known = f"about {f'{rate:,.0f}' if rate >= 10 else f'{rate:.2g}'} per simulated second"
        if not answer.unknown:
            return known
        unknown = f"not known of {', '.join(answer.unknown)}"
        return unknown if len(answer.unknown) == len(answer.services) else f"{known}; {unknown}"

    def forms(answer: Plan) -> list[tuple[str, str]]:
        by_form: dict[str, list[str]] = {}
        for name, form in answer.forms.items():
            by_form.setdefault(form, []).append(name)
        told = [f"{', '.join(names)}: {form}" for form, names in by_form.items()]
        return list(zip(["forms", *[""] * len(told)], told))

    rows = [
        ("brokers", f"{answer.brokers:,}{' in a tree' if answer.tree else ''}"),
        *([("servers", str(answer.servers))] if answer.servers else []),
        ("links", f"{answer.links:,}, the fastest {duration(answer.delay_ns_min)}"),
        ("clients", f"{answer.clients:,}"),
        ("services", "; ".join(answer.services)),
        *forms(answer),
        ("actors", f"{answer.actors} ({answer.engine})"),
        ("cut links", f"{answer.cut_links:,}"),
        ("imbalance", f"{answer.imbalance:.1%}"),
        ("lookahead", duration(answer.lookahead_ns)),
        ("events", events(answer)),
        ("λ", "-" if answer.lambda_ is None else f"{answer.lambda_:.3g}"),
        ("engine", f"{answer.auto} (unless one is named)"),
        ("memory", f"about {format_size(round(answer.memory_bytes, -6))} in all processes"),
    ]
    lines = [f"{answer.name}: {answer.title}" if answer.title else answer.name]
    lines += [f"  {label:9}  {value}" for label, value in rows]
    lines += [f"  note: {note}" for note in answer.notes]
    if answer.faults:
        lines += ["what fails:", *(f"  {each}" for each in answer.faults[:_FAULTS_SHOWN])]
        if len(answer.faults) > _FAULTS_SHOWN:
            lines.append(f"  … and {len(answer.faults) - _FAULTS_SHOWN:,} more; --json has them all")
    if answer.movements:
        lines += ["who comes and goes:", *(f"  {each}" for each in answer.movements)]
    return "\n".join([*lines, answer.advice])
