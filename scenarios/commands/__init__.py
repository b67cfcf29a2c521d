"""One module per command: `command(arguments) -> exit code`, importing what it needs when called."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path

from brokers.errors import InvalidInput


def parser(name: str, prose: str, examples: str) -> argparse.ArgumentParser:
    """An argument parser whose help ends in examples."""
    return argparse.ArgumentParser(
        prog=f"brokerlab {name}",
        description=prose,
        epilog="examples:\n" + textwrap.indent(textwrap.dedent(examples).strip("\n"), "  "),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_scenario(arguments: argparse.ArgumentParser, optional: bool = False, also: str = "") -> None:
    """The scenario and the overrides that several commands take; `also`: what a command takes in place of one."""
    arguments.add_argument(
        "scenario",
        metavar="FILE",
        nargs="?" if optional else None,
        help=f"a scenario file, or the name of a shipped scenario{also}",
    )
    arguments.add_argument(
        "--set",
        metavar="a.b=c",
        action="append",
        default=[],
        dest="overrides",
        help="override a value; list entries by number or name, as in services.news.workload[0].rate=200/s",
    )
    arguments.add_argument("--seed", type=int, help="override the seed")
    add_trust(arguments)


def add_trust(arguments: argparse.ArgumentParser, imports: bool = True) -> None:
    """Whether code named `module:Name` may run, for every command that takes a stranger's file.

    `imports`: whether this command imports any; one that does not takes the word all the same.
    """
    sentence = (
        "import code from outside that is named module:Name; it may do whatever you may, so say it only if you trust "
        "whoever wrote it"
    )
    nothing = "accepted as by other commands; this one imports no code that a run names"
    arguments.add_argument("--trust", action="store_true", help=sentence if imports else nothing)


def overrides_of(options: argparse.Namespace) -> list[str]:
    """`--set` and `--seed` as one list of overrides."""
    seed = [] if options.seed is None else [f"seed={options.seed}"]
    return [*options.overrides, *seed]


def shown(path: str | Path) -> str:
    """A path as a person at this folder would write it."""
    try:
        return str(Path(path).resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def time_of(option: str, text: str | None) -> int | None:
    """A simulated time that an option gives, in nanoseconds; none where it is not given."""
    from topology.units import QuantityError, parse_duration

    if text is None:
        return None
    try:
        return parse_duration(text)
    except QuantityError as error:
        raise InvalidInput(f"{option}: {error}") from None
