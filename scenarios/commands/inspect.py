"""`brokerlab inspect RUN --broker B --at T`: what a broker knew and had to do at a moment of a run.

A run is determined by its scenario and seed, so any state of it is found by running it again that far.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from brokers.errors import InvalidInput
from scenarios.commands import add_trust, parser

if TYPE_CHECKING:
    from scenarios.schema import Scenario

ENTRIES_SHOWN = 20


def command(arguments: list[str]) -> int:
    result = parser(
        "inspect",
        "Show a broker's tables and queue at a moment of a finished run, and what is broken there. The run is repeated "
        "in this process up to that moment: everything before it has happened, nothing at it.",
        """
        brokerlab inspect runs/latest --broker 7 --at '2.5 s'
        brokerlab inspect runs/latest --broker Geneva --at 10s --json
        """,
    )
    result.add_argument("run", metavar="RUN", help="a run folder")
    which = "name or number; name:5 or number:5 where 5 is both"
    result.add_argument("--broker", metavar="B", required=True, help=which)
    result.add_argument("--at", metavar="T", required=True, help="simulated time, as in '2.5 s'")
    add_trust(result)
    result.add_argument("--json", action="store_true", help="one JSON object")
    options = result.parse_args(arguments)

    from brokers.engine.runfolder import open_run
    from scenarios.running import scenario_of
    from topology.units import QuantityError, parse_duration

    try:
        at_ns = parse_duration(options.at)
    except QuantityError as error:
        raise InvalidInput(f"--at: {error}") from None
    state = inspect(scenario_of(open_run(options.run), trust=options.trust), options.broker, at_ns)
    print(json.dumps(state, indent=2, default=str) if options.json else text(state))
    return 0


def inspect(scenario: Scenario, broker: str, at_ns: int) -> dict[str, Any]:
    """A broker's links, clients, faults, queue and tables at a moment, as plain data."""
    from scenarios.faults.telling import now
    from scenarios.plan import resolve
    from scenarios.running import execute
    from topology.overlay import broker_label

    if at_ns < 1:
        raise InvalidInput("--at: nothing has happened before 1 ns")
    model = resolve(scenario)
    number = _number(model.overlay, broker)
    seen: dict[str, Any] = {}

    def look(shards: Any) -> None:
        (shard,) = shards.shards
        seen["queued"] = int(shard.queues.lengths(at_ns)[number])
        seen["backlog_ns"] = int(shard.queues.backlog_ns(at_ns)[number])
        seen["services"] = {
            spec.name: protocol.describe(number) for spec, protocol in zip(model.services, shard.services.protocols)
        }

    execute(scenario, model, "inline", 1, until_ns=at_ns, observe=look)
    overlay = model.overlay
    beside = overlay.adjacency
    neighbours = beside.neighbour[beside.start[number] : beside.start[number + 1]].tolist()
    return {
        "broker": number,
        "name": overlay.names[number],
        "at_ns": at_ns,
        "neighbours": [broker_label(each, overlay.names) for each in sorted(neighbours)],
        "faults": now(model.faults, [each.name for each in scenario.faults], overlay, number, at_ns),
        "clients": int((model.client_broker[: model.clients] == number).sum()),
        **seen,
    }


def text(state: dict[str, Any]) -> str:
    """The state for people."""
    from topology.units import format_duration

    lines = [
        f"broker {state['broker']} ({state['name']}) at {format_duration(state['at_ns'])}",
        f"  neighbours  {', '.join(state['neighbours']) or 'none'}",
        f"  clients     {state['clients']}",
        *(f"  fault       {each}" for each in state["faults"]),
        f"  queue       {state['queued']} messages begun or waiting, {format_duration(state['backlog_ns'])} of work",
    ]
    for name, described in state["services"].items():
        lines.append(f"  service {name}")
        for key, value in described.items():
            if not isinstance(value, dict):
                lines.append(f"    {key}  {value}")
                continue
            lines.append(f"    {key}: {len(value)}")
            lines += [f"      {inner}  {each}" for inner, each in list(value.items())[:ENTRIES_SHOWN]]
            if len(value) > ENTRIES_SHOWN:
                lines.append(f"      … and {len(value) - ENTRIES_SHOWN} more; --json has them all")
    return "\n".join(lines)


def _number(overlay: Any, broker: str) -> int:
    from topology.errors import TopologyError

    try:
        return int(overlay.broker(broker))
    except TopologyError as error:
        raise InvalidInput(f"--broker: {str(error).removeprefix('broker: ')}") from error
