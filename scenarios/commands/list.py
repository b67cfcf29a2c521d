"""`brokerlab list`: every name that a scenario may use, with a line of prose."""

from __future__ import annotations

import json
import sys

from brokers.kinds import unreadable
from scenarios.commands import parser

GROUPS = (
    "kinds", "protocols", "behaviours", "topologies", "workloads", "indexes", "faults", "connections", "mobility",
    "metrics", "scenarios", "judges",
)  # fmt: skip


_NOTHING = "nothing"  # is promised under faults


def command(arguments: list[str]) -> int:
    result = parser(
        "list",
        "Names that a scenario may use, each with a line of prose, and the judges of `brokerlab hunt`. Installed "
        "packages add to them by entry points of the groups brokerlab.kinds, brokerlab.protocols, and so on.",
        """
        brokerlab list
        brokerlab list protocols
        brokerlab list --json
        """,
    )
    result.add_argument("group", nargs="?", choices=GROUPS, help="only this group")
    result.add_argument("--json", action="store_true", help="one JSON object")
    options = result.parse_args(arguments)
    groups = [options.group] if options.group else list(GROUPS)
    names = {group: names_of(group) for group in groups}
    if options.json:
        print(json.dumps(names, indent=2, ensure_ascii=False))
        return 0
    width = max((len(name) for group in names.values() for name in group), default=0)
    for group, members in names.items():
        print(group)
        for name, facts in members.items():
            promised = facts.get("under_faults", _NOTHING)
            print(f"  {name:{width}}  {facts['prose']}{'' if promised == _NOTHING else f'; under faults: {promised}'}")
    for sentence in unreadable():
        print(f"brokerlab: {sentence}", file=sys.stderr)
    return 0


def names_of(group: str) -> dict[str, dict[str, object]]:
    """name -> prose and facts of one group."""
    if group == "scenarios":
        from scenarios.loader import shipped, title_of

        return {name: {"prose": title_of(path)} for name, path in shipped().items()}
    if group == "judges":
        from scenarios.hunt.judges import JUDGES

        return {name: {"prose": judge.prose} for name, judge in JUDGES.items()}
    from brokers.kinds import installed_manifests, manifests
    from brokers.names import table

    found: dict[str, dict[str, object]] = {}
    if group == "metrics":
        from scenarios.many.metrics import OF_AUDITS, OF_SERVICES

        for metric in (*OF_SERVICES, *OF_AUDITS):
            found[metric.name] = {"prose": metric.prose, "kinds": None}
        for kind in (*manifests(), *installed_manifests()):
            found |= {metric.name: {"prose": metric.prose, "kinds": [kind.name]} for metric in kind.metrics}
    return found | {name: {"prose": entry.prose, **entry.facts} for name, entry in table(group).items()}
