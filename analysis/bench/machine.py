"""What figures were measured on."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_LIBRARIES = ("numpy", "numba", "simpy", "networkx", "pyarrow", "ray")


def machine() -> str:
    """CPU, cores, memory, system."""
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = re.findall(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE)
        cpu = names[0] if names else cpu
    cores = os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return f"{cpu}, {cores} CPUs, {memory:.0f} GB, {platform.system()}"


def versions() -> list[str]:
    """Python and the libraries that the figures depend on."""
    found = [f"Python {platform.python_version()}"]
    for name in _LIBRARIES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return found
