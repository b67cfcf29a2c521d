"""Messages per second through the pipe: brokers that are a program of their own, beside the author's view in Python.

One protocol, subscription forwarding on a tree, in all of them: the examples of docs/exec.md in Python, JavaScript and
C, and `subscription` one message at a time. All give the same digest, or a row is refused.

`Sizes` holds everything that may be scaled down; the tests do.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from analysis.bench.models import SUBSCRIPTION, Setting, model
from analysis.bench.rows import REPEATS, Row, medians, row
from brokers.errors import BrokerlabError, EnvironmentProblem

EXAMPLES = Path(__file__).parents[2] / "docs" / "exec"
LEAST = 20_000  # messages per second
_UNIT = "messages/s"


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    repeats: int = REPEATS
    traffic: Setting = field(
        default=Setting(
            brokers=100, publications_per_s=3000.0, subscriptions=40, constraints=2, width=0.6, settled=False,
            ramp_s=0.2, protocol=SUBSCRIPTION, view="message",
        )
    )  # fmt: skip


def rows() -> Iterator[Row]:
    """Every row, as it is measured."""
    yield from of(Sizes())


def of(sizes: Sizes) -> Iterator[Row]:
    """A row for each language that is here."""
    if not EXAMPLES.is_dir():
        raise EnvironmentProblem(f"the examples are not where they are in a checkout ({EXAMPLES}); measure in one")
    plain = model(sizes.traffic)
    digests: set[str] = set()

    def speed(built: Any) -> Callable[[], float]:
        from brokers.engine.simulate import simulate

        def measured() -> float:
            result = simulate(built)
            digests.add(result.digest)
            return float(result.metrics["run"]["events_per_s"])

        return measured

    with tempfile.TemporaryDirectory(prefix="brokerlab-bench-") as folder:
        for language, command in _commands(Path(folder)):
            ours, baseline = medians([speed(_by(plain, command)), speed(plain)], sizes.repeats)
            if len(digests) > 1:
                raise BrokerlabError(f"the program in {language} does not give the digest of `subscription`")
            yield row(
                f"subscription by a program in {language}", ours, _UNIT, baseline=baseline, least=LEAST,
                against="the author's view",
            )  # fmt: skip


def _commands(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The example in each language that is here."""
    if python := shutil.which("python3"):
        yield "Python", [python, "subscription.py"]
    if node := shutil.which("node"):
        yield "JavaScript (node)", [node, "subscription.js"]
    if compiler := shutil.which("cc"):
        built = folder / "subscription"
        subprocess.run([compiler, "-O2", "-o", built, EXAMPLES / "subscription.c"], check=True)
        yield "C", [str(built)]


def _by(plain: Any, command: list[str]) -> Any:
    """The same model, whose brokers are this program."""
    from brokers import names
    from brokers.programs.spelling import placed, spelled

    target = names.find("protocols", spelled(command), trust=True, folder=EXAMPLES).target
    service = replace(plain.services[0], protocol_target=placed(target, EXAMPLES), view="auto")
    return replace(plain, services=[service])
