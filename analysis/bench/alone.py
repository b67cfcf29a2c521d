"""One setting in a process of its own, for what cannot be told apart in a shared one: peak memory.

    python -m analysis.bench.alone '{"brokers": 1000, "subscriptions": 100000}'

prints one JSON object. A small run goes first, so that compiling is in no figure.
"""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from analysis.bench.models import Setting, model


def measure(setting: Setting) -> dict[str, Any]:
    """Run the setting once; figures as plain data."""
    from brokers.engine.simulate import simulate

    small = replace(
        setting, brokers=min(setting.brokers, 50), subscriptions=min(setting.subscriptions, 200),
        publications_per_s=min(setting.publications_per_s, 100.0),
    )
    simulate(model(small))
    entries = 0

    def count(shards: Any) -> None:
        nonlocal entries
        entries = sum(int(p.entries().sum()) for shard in shards.shards for p in shard.services.protocols)

    result = simulate(model(setting), observe=count)
    run, service = result.metrics["run"], result.metrics["services"]["bench"]
    return {
        "peak_bytes": peak_bytes(), "events": result.metrics["network"]["events"], "entries": entries,
        "loop_s": run["loop_wall_s"], "setup_s": run["wall_s"] - run["loop_wall_s"],
        "hops_per_s": run["events_per_s"],
        "publications": service["publications"], "deliveries": service["deliveries"],
    }


def peak_bytes() -> int:
    """The peak of this process's memory. `ru_maxrss` may hold the parent's, from before `exec`."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    print(json.dumps(measure(Setting(**json.loads(sys.argv[1])))))
