"""The command line: a table of names to functions, each imported when it is called.

`brokerlab --help` has to answer at once, so nothing heavier than argparse is imported here. A command is a
function that gets its arguments as a list and returns its exit code. Exit codes: 0 fine, 1 an expectation
or check failed, 2 verdict unknown, or run incomplete or damaged, 3 scenario or arguments invalid, 4 environment,
70 a mistake in the program, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from typing import NamedTuple

from brokers.errors import BrokerlabError, EnvironmentProblem, InvalidInput
from brokers.interrupting import ignore_all, interrupted_once


class Command(NamedTuple):
    """One word after `brokerlab`."""

    target: str  # "module:function"
    prose: str


COMMANDS: dict[str, Command] = {
    "demo": Command("scenarios.commands.demo:command", "run the quickstart scenario and say what it shows"),
    "init": Command("scenarios.commands.init:command", "write a commented scenario to start from"),
    "validate": Command("scenarios.commands.validate:command", "check a scenario; everything wrong at once"),
    "schema": Command("scenarios.commands.schema:command", "JSON Schema of scenario files, for editors"),
    "plan": Command(
        "scenarios.commands.plan:command", "what a run would take: actors, cut, lookahead, memory"
    ),
    "run": Command("scenarios.commands.run:command", "run a scenario into a run folder"),
    "watch": Command("scenarios.commands.watch:command", "a run under way, on the terminal"),
    "repeat": Command("scenarios.commands.repeat:command", "run a scenario with several independent seeds"),
    "sweep": Command("scenarios.commands.sweep:command", "run a scenario at every point of what varies"),
    "compare": Command(
        "scenarios.commands.compare:command", "metrics of runs side by side, with intervals over seeds"
    ),
    "diff": Command("scenarios.commands.diff:command", "where two runs part, down to the first event"),
    "inspect": Command(
        "scenarios.commands.inspect:command", "a broker's tables and queue at a moment of a run"
    ),
    "analyze": Command(
        "scenarios.commands.analyze:command", "aggregates of runs: latency, hops, load, balance, time series"
    ),
    "audit": Command(
        "scenarios.commands.audit:command",
        "whether what was delivered is what had to be, recomputed",
    ),
    "explain": Command(
        "scenarios.commands.explain:command", "the way of a message, and why a client got it or did not"
    ),
    "report": Command("scenarios.commands.report:command", "what happened, as one HTML file that opens offline"),
    "export": Command(
        "scenarios.commands.export:command", "a run for other programs: csv, perfetto, pcapng, graphml"
    ),
    "plot": Command("scenarios.commands.plot:command", "figures of runs and sweeps, for papers and screens"),
    "hunt": Command("scenarios.commands.hunt:command", "look for what is wrong with a protocol, and show it small"),
    "list": Command("scenarios.commands.list:command", "kinds, protocols, topologies, workloads, indexes, …"),
    "calibrate": Command(
        "scenarios.commands.calibrate:command", "what an index costs here, as the cost section of a service"
    ),
    "bench": Command("scenarios.commands.bench:command", "measure, each figure beside its baseline"),
    "reproduce": Command("scenarios.commands.reproduce:command", "repeat a paper's experiments"),
    "warm": Command("scenarios.commands.warm:command", "compile every kernel, so that no run has to"),
    "doctor": Command(
        "scenarios.commands.doctor:command", "what is installed, what is missing, how to get it"
    ),
}

INTERRUPTED = 130  # 128 and the number of SIGINT, as shells have it
SOFTWARE_FAULT = 70  # EX_SOFTWARE of sysexits.h
# The folder that somebody happens to be in may be a stranger's. It gives no modules to the processes that we start, as
# `python -c` would have it, and its `.numba_config.yaml` does not say where Numba finds compiled code.
_DEAF = {"PYTHONSAFEPATH": "1", "NUMBA_CACHE_DIR": "", "NUMBA_CACHE_LOCATOR_CLASSES": ""}
_HELP = ("-h", "--help", "help")


def entry() -> None:
    """The console script."""
    for name, value in _DEAF.items():
        os.environ.setdefault(name, value)
    code = main(sys.argv[1:])
    if code == INTERRUPTED:
        ignore_all()  # whoever presses Ctrl-C again shall not see how Python ends
    sys.exit(code)


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; says on stderr what went wrong."""
    try:
        with interrupted_once():
            code = _dispatch(list(arguments))
            sys.stdout.flush()
            return code
    except BrokerlabError as error:
        print(f"brokerlab: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("brokerlab: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`); a second failure while Python exits would be noise.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit as stop:
        return _exit_code(stop)
    except MemoryError as error:
        said = f" ({error})" if str(error) else ""
        print(
            f"brokerlab: there is not enough memory for this{said}; brokerlab plan estimates what a scenario takes",
            file=sys.stderr,
        )
        return EnvironmentProblem.exit_code
    except Exception as error:
        if os.environ.get("BROKERLAB_DEBUG") == "1":
            traceback.print_exc()
        print(
            f"brokerlab: a mistake in brokerlab itself: {type(error).__name__}: {error}. "
            "Please report it with the command you gave; BROKERLAB_DEBUG=1 shows where it happened.",
            file=sys.stderr,
        )
        return SOFTWARE_FAULT


def _exit_code(stop: SystemExit) -> int:
    """argparse leaves with 0 after --help and with 2 after a wrong argument, which is 3 here."""
    if stop.code is None:
        return 0
    if isinstance(stop.code, int):
        return 3 if stop.code == 2 else stop.code
    print(stop.code, file=sys.stderr)
    return 1


def _dispatch(arguments: list[str]) -> int:
    if not arguments or arguments[0] in _HELP:
        if len(arguments) == 2 and arguments[0] == "help":
            return _dispatch([arguments[1], "--help"])
        print(usage())
        return 0 if arguments else 3
    if arguments[0] == "--version":
        from importlib.metadata import version

        print(f"brokerlab {version('brokerlab')}")
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        close = get_close_matches(name, COMMANDS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"commands: {', '.join(COMMANDS)}"
        raise InvalidInput(f"no command {name!r}; {hint}")
    import importlib

    module, _, function = COMMANDS[name].target.partition(":")
    return int(getattr(importlib.import_module(module), function)(rest))


def usage() -> str:
    """The page of `brokerlab --help`."""
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {command.prose}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: brokerlab COMMAND [ARGUMENTS]",
            "",
            "A laboratory for broker networks: simulate publish/subscribe overlays, with the same trace",
            "on one core and on a Ray cluster.",
            "",
            "commands:",
            *lines,
            "",
            "`brokerlab COMMAND --help` explains a command. Where a scenario is asked for, give a file or",
            "the name of a shipped one. To begin: brokerlab demo",
        ]
    )
