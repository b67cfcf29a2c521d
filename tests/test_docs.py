"""What README and docs say is so: every block is run, every link leads somewhere.

What a fenced block means is in its first line:

    ```console                  lines with `$ ` are run one after the other and have to end with exit code 0; the
                                lines after each are its output, `...` standing for anything, unless there are none
    ```console norun=REASON     shown only; the test is skipped, and says why
    ```console full=REASON      run by `make test-all` only; the blocks after it do without it
    ```python file=NAME         written to a file (also yaml, toml, csv)
    ```python                   run as a script, or as a doctest where it has `>>>`
    ```text, or no name         shown only

Blocks of a page are run in order in one folder. It is empty, or a copy of the checkout where the page has the
comment `<!-- tests: run in a copy of the checkout -->`. `make TARGET` is looked up, not run.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
COPY = "<!-- tests: run in a copy of the checkout -->"
LEFT_OUT = (
    ".venv", ".git", "runs", "build", ".*_cache", ".hypothesis", "*.egg-info", "__pycache__", "tests",
)  # fmt: skip
SHOWN_ONLY = ("", "text")
WRITTEN = ("python", "yaml", "toml", "csv")
DOCTEST = """
import doctest, sys
sys.path += [sys.argv[2], ""]
example = doctest.DocTestParser().get_doctest(sys.stdin.read(), {}, sys.argv[1], None, 0)
runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
sys.exit(runner.run(example).failed > 0)
"""


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    said: str  # what stands behind the language
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    found: list[Block] = []
    inside: tuple[int, str, str] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = re.fullmatch(r"```(\w*) ?(.*)", line)
        if fence is None:
            lines.append(line)
        elif inside is None:
            inside, lines = (number, fence[1], fence[2]), []
        else:
            found.append(Block(page.name, *inside, "\n".join(lines) + "\n"))
            inside = None
    assert inside is None, f"{page.name}:{inside[0] if inside else 0}: the block has no end"
    return found


BLOCKS = {page: blocks_of(page) for page in PAGES}
RUN = [page for page in PAGES if any(b.language not in SHOWN_ONLY for b in BLOCKS[page])]
LONG = [page for page in RUN if any(b.said.startswith("full=") for b in BLOCKS[page])]
NOT_RUN = [b for page in PAGES for b in BLOCKS[page] if b.said.startswith("norun=")]


def environment() -> dict[str, str]:
    """The commands of this Python come first, and a terminal has no width of its own."""
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
    }


def commands_of(block: Block) -> list[tuple[str, list[str]]]:
    """Each command of a console block with the output shown after it."""
    found: list[tuple[str, list[str]]] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            assert found, f"{block.place}: a console block begins with a command"
            found[-1][1].append(line)
    return found


PROGRESS = re.compile(r"^[^\n]* · \d+ s\n", re.M)  # of an audit on a slow machine, a line every few seconds


def looks_like(shown: list[str]) -> re.Pattern[str]:
    """A pattern of the output shown: `...` alone stands for lines, in a line for anything but an end of line."""
    parts = [
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n" for line in shown
    ]
    return re.compile("".join(parts))


def targets() -> set[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):(?!=)", makefile, re.MULTILINE))


def run_console(block: Block, folder: Path) -> None:
    for command, shown in commands_of(block):
        if command.startswith("make "):
            assert set(re.sub(r" [A-Z]+=\S+", "", command).split()[1:]) <= targets(), (
                f"{block.place}: no {command!r}"
            )
            continue
        if command == ". .venv/bin/activate":
            continue  # which is what `environment` does
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL, encoding="utf-8", check=False,
        )  # fmt: skip
        wanted = 0
        if shown and (code := re.fullmatch(r"\[exit code (\d+)\]", shown[-1])):
            shown, wanted = shown[:-1], int(code[1])
        assert done.returncode == wanted, (
            f"{block.place}: {command}: exit code {done.returncode}\n{done.stdout}"
        )
        printed = PROGRESS.sub("", done.stdout)
        if shown:
            assert looks_like(shown).fullmatch(printed), f"{block.place}: {command} printed\n{printed}"


def run_python(block: Block, folder: Path) -> None:
    # The checkout comes before what lies in the folder, so that its compiled kernels are found.
    script = ["-c", DOCTEST, block.place, str(ROOT)] if ">>>" in block.text else ["-"]
    done = subprocess.run(
        [sys.executable, "-P", *script], input=block.text, cwd=folder, env=environment(), stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{block.place}:\n{done.stdout}"


def run_page(page: Path, tmp_path: Path, long: bool) -> None:
    folder = tmp_path / "checkout"
    if COPY in page.read_text(encoding="utf-8"):
        shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
    else:
        folder.mkdir()
    for block in BLOCKS[page]:
        if block.said.startswith("norun=") or block.language in SHOWN_ONLY:
            continue
        if block.said.startswith("full=") and not long:
            continue
        if block.said.startswith("file="):
            file = folder / block.said.removeprefix("file=")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
        elif block.language == "console":
            run_console(block, folder)
        else:
            run_python(block, folder)


@pytest.mark.parametrize("page", RUN, ids=[page.name for page in RUN])
def test_every_block_of_the_page_does_what_it_shows(page: Path, tmp_path: Path):
    run_page(page, tmp_path, long=False)


@pytest.mark.full
@pytest.mark.parametrize("page", LONG, ids=[page.name for page in LONG])
def test_every_long_block_of_the_page_does_what_it_shows(page: Path, tmp_path: Path):
    assert all(len(b.said) > 15 for b in BLOCKS[page] if b.said.startswith("full="))
    run_page(page, tmp_path, long=True)


@pytest.mark.parametrize("block", NOT_RUN, ids=[block.place for block in NOT_RUN])
def test_a_block_that_is_not_run_says_why(block: Block):
    reason = block.said.removeprefix("norun=")
    assert block.language == "console" and len(reason) > 10
    for command, _ in commands_of(block):
        done = subprocess.run(["bash", "-n", "-c", command], check=False)
        assert done.returncode == 0, f"{block.place}: {command!r} is no shell command"
    pytest.skip(reason)


def test_every_block_says_how_it_is_checked():
    for page in PAGES:
        for block in BLOCKS[page]:
            runnable = block.language == "console" and (not block.said or block.said.startswith(("norun=", "full=")))
            written = block.language in WRITTEN and re.fullmatch(r"file=[\w-]+(/[\w-]+)*\.\w+", block.said)
            plain = block.language == "python" and not block.said
            assert block.language in SHOWN_ONLY or runnable or written or plain, (
                f"{block.place} is left out silently"
            )


def test_the_kind_of_the_page_is_the_one_that_is_tested():
    shown = {block.said.removeprefix("file="): block.text for block in BLOCKS[ROOT / "docs" / "kinds.md"]}
    files = sorted((ROOT / "tests" / "outside" / "rooms").glob("*.py"))
    assert files
    for file in files:
        assert shown[f"rooms/{file.name}"] == file.read_text(encoding="utf-8"), f"the page has another {file.name}"


def test_the_demo_in_the_readme_is_what_the_demo_prints(tmp_path: Path):
    (shown,) = (
        lines for b in BLOCKS[ROOT / "README.md"] if b.language == "console"
        for command, lines in commands_of(b) if command == "make demo" and lines
    )  # fmt: skip
    done = subprocess.run(
        ["brokerlab", "demo", "--engine", "inline", "--out", "runs"], cwd=tmp_path, env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8", check=True,
    )  # fmt: skip
    services = "news|offers|alerts|maps|nearby"  # each with what it delivered, and with what the audit says of it
    of_the_model = [line for line in shown if re.match(f"quickstart|run|network|changes|{services}|digest|once", line)]
    assert len(of_the_model) == 16
    for line in of_the_model:
        assert line in done.stdout.splitlines(), f"README shows {line!r}; the demo printed\n{done.stdout}"


# ---- links and names ---------------------------------------------------------------------------------


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    found = set()
    for line in re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S).splitlines():
        if heading := re.fullmatch(r"#+ (.*)", line):
            text = re.sub(r"[^\w\- ]", "", heading[1].lower())
            found.add(text.replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), f"{page.name}: {target} leads nowhere"
        if anchor:
            assert anchor in anchors(file), f"{page.name}: {target}: no such heading"


def test_every_page_is_linked_from_the_index():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in sorted((ROOT / "docs").glob("*.md")):
        assert page.name == "index.md" or f"({page.name}" in index, f"docs/index.md does not name {page.name}"


def test_no_page_names_a_place_on_somebodys_machine():
    for page in PAGES:
        found = re.search(r"(?<![\w.])/(?:tmp|work|home|root|Users)/\S*", page.read_text(encoding="utf-8"))
        assert found is None, f"{page.name} names {found[0] if found else ''}"


def test_the_reference_names_everything_a_protocol_may_call():
    from brokers.contract import Batch, BrokerProtocol, Guarantees, Message, ShardProtocol
    from brokers.node import Node, Run
    from brokers.out import Out

    text = (ROOT / "docs" / "protocols.md").read_text(encoding="utf-8")
    reference = text[text.index("\n## Reference") :]
    for owner in (Node, Run, Out, BrokerProtocol, ShardProtocol):
        for name, member in vars(owner).items():
            if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                if owner is Out and name == "begin":  # the engine's
                    continue
                assert f"`{name}" in reference, f"the reference lacks {owner.__name__}.{name}"
    for name in {*Message._fields, *(slot for slot in Batch.__slots__ if not slot.startswith("_"))}:
        assert f"`{name}`" in reference, f"the reference lacks the field {name}"
    for name in Guarantees.__annotations__:
        assert f"| `{name}` |" in text, f"the page lacks the guarantee {name}"
