"""`brokerlab init [DIR]`: a commented scenario to start from."""

from __future__ import annotations

import argparse
from pathlib import Path

from brokers.errors import EnvironmentProblem, InvalidInput
from scenarios.commands import parser
from scenarios.loader import SHIPPED

FILE_NAME = "scenario.yaml"


def command(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    folder = Path(options.folder)
    target = folder / FILE_NAME
    text = (SHIPPED / "quickstart.yaml").read_text(encoding="utf-8")
    text = text.replace("name: quickstart\n", "name: scenario\n")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise InvalidInput(f"{error.filename} is there already; name another folder or remove it") from None
    except OSError as error:
        raise EnvironmentProblem(f"cannot write {target}: {error.strerror}") from error
    print(f"wrote {target}\n  brokerlab validate {target}\n  brokerlab run {target}")
    return 0


def _parser() -> argparse.ArgumentParser:
    prose = f"Write a commented {FILE_NAME} into a folder."
    result = parser("init", prose, "brokerlab init\nbrokerlab init study")
    result.add_argument(
        "folder", metavar="DIR", nargs="?", default=".", help="made if missing; default: here"
    )
    return result
