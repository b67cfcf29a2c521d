"""YAML text as plain data that remembers where each piece stood.

Rules: YAML 1.2; one document; keys are texts, and a repeated key is a mistake; dates, tags and merge keys
have no meaning here. Everything wrong is collected as `Problem`s, nothing is raised: whatever the
bytes, the answer is data and a list.

The reader stops at the tree of nodes that ruamel composes, since its constructed objects lose the places of
plain values and stop at the first repeated key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from scenarios.problems import Path, Problem, did_you_mean

# An alias repeats a whole tree, so a few lines can stand for billions of values.
VALUES_MAX = 2_000_000
DEPTH_MAX = 100
_TAG = "tag:yaml.org,2002:"


class Document:
    """Plain data (dict, list, str, int, float, bool, None) with the place of every key and value."""

    def __init__(self, where: str, lines: bool = True) -> None:
        self.where = where
        self._start = 1 if lines else 0  # plain data has no lines
        self.data: Any = None
        self.problems: list[Problem] = []
        self._value_at: dict[Path, tuple[int, int]] = {}
        self._key_at: dict[Path, tuple[int, int]] = {}
        self._set_at: dict[Path, str] = {}  # path -> "--set a.b"

    def problem(self, path: Path, message: str, about_key: bool = False) -> None:
        """Note a mistake at a path; where the path is missing, at the nearest section around it."""
        for length in range(len(path), -1, -1):
            near = path[:length]
            if near in self._set_at:
                self.problems.append(Problem(self._set_at[near], 0, 0, path, message))
                return
            places = self._key_at if (about_key or length < len(path)) else self._value_at
            place = places.get(near) or self._value_at.get(near)
            if place is not None:
                self.problems.append(Problem(self.where, *place, path, message))
                return
        self.problems.append(Problem(self.where, self._start, self._start, path, message))

    def replace(self, assignment: str) -> None:
        """Apply one `a.b=value`; list entries go by number, or by their `name` or `source`."""
        target, equals, text = assignment.partition("=")
        target = target.strip()
        label = f"--set {target}"
        if not equals or not target:
            self._refuse(f"--set {assignment}", (), "expected path=value, as in links.delay='5 ms'")
            return
        path = _parse_path(target)
        if path is None:
            self._refuse(label, (), "not a path such as services.news.workload[0].rate")
            return
        value = read(text.encode("utf-8", "surrogatepass"), label)
        if value.problems:
            self._refuse(label, (), f"the value is no YAML: {value.problems[0].message}")
            return
        if self.data is None:
            self.data = {}
        current: Any = self.data
        walked: list[str | int] = []
        for step, part in enumerate(path):
            last = step == len(path) - 1
            if isinstance(current, dict):
                key: str | int = str(part)
            elif isinstance(current, list):
                found = _entry(current, part)
                if found is None:
                    names = [name for each in current for name in _names(each)]
                    hint = did_you_mean(str(part), names) if names else f"it has {len(current)} entries"
                    self._refuse(label, tuple(walked), f"no entry {part!r} in this list; {hint}")
                    return
                key = found
            else:
                self._refuse(label, tuple(walked), f"is a plain value; it has no {part!r} to set")
                return
            walked.append(key)
            if last:
                current[key] = value.data
            elif isinstance(current, dict) and current.get(str(key)) is None:
                current[key] = {}
            if not last:
                current = current[key]
        replaced = tuple(walked)
        for places in (self._value_at, self._key_at):  # what stood there before has no place any more
            for each in [each for each in places if each[: len(replaced)] == replaced]:
                del places[each]
        self._set_at[replaced] = label

    def _refuse(self, label: str, path: Path, message: str) -> None:
        self.problems.append(Problem(label, 0, 0, path, message))


def _names(entry: Any) -> list[str]:
    return [str(entry[key]) for key in ("name", "source") if key in entry] if isinstance(entry, dict) else []


def _entry(entries: list[Any], part: str) -> int | None:
    if re.fullmatch(r"\d{1,9}", part):
        return int(part) if int(part) < len(entries) else None
    named = [i for i, each in enumerate(entries) if part in _names(each)]
    return named[0] if len(named) == 1 else None


def _parse_path(text: str) -> list[str] | None:
    parts = re.sub(r"\[(\w+)\]", r".\1", text).split(".")
    return parts if all(re.fullmatch(r"[\w-]+", part) for part in parts) else None


def read(source: bytes, where: str, overrides: Sequence[str] = ()) -> Document:
    """Read YAML bytes, then apply `a.b=value` overrides."""
    document = Document(where)
    root = _compose(source, document)
    if root is not None:
        _Builder(document).build_root(root)
    if not document.problems:
        for assignment in overrides:
            document.replace(assignment)
    return document


def _compose(source: bytes, document: Document) -> Any:
    def refuse(line: int, column: int, message: str) -> None:
        document.problems.append(Problem(document.where, line, column, (), message))

    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = source[: error.start].decode("utf-8-sig", "replace")
        wrong = f"byte 0x{source[error.start]:02x} is not UTF-8; save the file as UTF-8"
        refuse(*_place(before, len(before)), wrong)
        return None
    yaml = YAML(typ="safe", pure=True)
    try:
        return yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = " ".join(str(part) for part in (error.context, error.problem) if part)
        refuse(mark.line + 1 if mark else 1, mark.column + 1 if mark else 1, f"not YAML: {message}")
    except ReaderError as error:
        refuse(*_place(text, error.position), f"character {error.character!r} may not stand in YAML")
    except YAMLError as error:
        refuse(1, 1, f"not YAML: {error}")
    except RecursionError:
        refuse(1, 1, f"nested deeper than {DEPTH_MAX} levels")
    except Exception as error:  # the scanner trips over some broken texts in ways of its own
        refuse(1, 1, f"not YAML ({type(error).__name__}: {error})")
    return None


def _place(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


class _Builder:
    def __init__(self, document: Document) -> None:
        self.document = document
        self.values = 0
        self.full = False

    def build_root(self, root: Any) -> None:
        self.document.data = self.build(root, ())

    def build(self, node: Any, path: Path) -> Any:
        place = (node.start_mark.line + 1, node.start_mark.column + 1)
        self.document._value_at[path] = place
        self.values += 1
        if self.full:
            return None
        if self.values > VALUES_MAX or len(path) > DEPTH_MAX:
            self.full = True
            limit = f"{DEPTH_MAX} levels" if len(path) > DEPTH_MAX else f"{VALUES_MAX} values"
            self._refuse(place, path[:3], f"more than {limit} (an alias that contains itself?)")
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            self._check_tag(node, place, path, "seq")
            return [self.build(each, (*path, i)) for i, each in enumerate(node.value)]
        return self._scalar(node, place, path)

    def _mapping(self, node: Any, path: Path) -> dict[str, Any]:
        self._check_tag(node, self.document._value_at[path], path, "map")
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            place = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            if not isinstance(key_node, ScalarNode):
                self._refuse(place, path, "a key must be a plain text")
                continue
            key = str(key_node.value)  # a key such as 1 or true is the text "1" or "true"
            if key in result:
                line, column = self.document._key_at[(*path, key)]
                self._refuse(place, (*path, key), f"repeated key, first at {line}:{column}; keep one of them")
                continue
            self.document._key_at[(*path, key)] = place
            result[key] = None
            result[key] = self.build(value_node, (*path, key))
            if value_node.value == "":  # what is left out starts, for the reader, at whatever comes next
                self.document._value_at[(*path, key)] = place
        return result

    def _scalar(self, node: Any, place: tuple[int, int], path: Path) -> Any:
        text, tag = str(node.value), str(node.tag or "").removeprefix(_TAG)
        if tag == "null":
            return None
        if tag == "bool":
            return text.lower() in ("true", "yes", "on", "y")
        if tag in ("int", "float"):
            number = _number(text, tag)
            if number is None:
                self._refuse(place, path, f"not a number this program can hold: {text[:40]!r}")
            return number
        if tag not in ("str", "timestamp", "", "!", "value", "merge"):
            self._refuse(place, path, f"the tag {node.tag!s} has no meaning here; leave it out")
        return text

    def _check_tag(self, node: Any, place: tuple[int, int], path: Path, expected: str) -> None:
        tag = str(node.tag or "")
        if tag not in ("", "!", _TAG + expected):
            self._refuse(place, path, f"the tag {tag} has no meaning here; leave it out")

    def _refuse(self, place: tuple[int, int], path: Path, message: str) -> None:
        self.document.problems.append(Problem(self.document.where, *place, path, message))


def _number(text: str, tag: str) -> int | float | None:
    plain = text.replace("_", "")
    if len(plain) > 100:
        return None
    try:
        if tag == "int":
            return int(plain, 0) if re.match(r"[+-]?0[xob]", plain) else int(plain, 10)
        special = re.fullmatch(r"([+-]?)\.(inf|nan)", plain, re.IGNORECASE)
        if special:
            return math.nan if special[2].lower() == "nan" else float(f"{special[1]}inf")
        return float(plain)
    except ValueError:
        return None
