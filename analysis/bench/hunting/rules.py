"""Rules that make mutants of a source file: one small mistake each, of the sorts that people make.

A mutant is where it is, by which rule, and what stands there before and after; the text is changed and nothing else,
and has as many lines as before, so that compiled kernels of the file, which go by their line, stay those of the file.

    comparison          a < b becomes a <= b, a == b becomes a != b, a in b becomes a not in b
    and or              a and b becomes a or b
    negated condition   if a becomes if not a; of loops, comprehensions and conditional expressions too
    off by one          a whole number becomes the next
    wrong constant      True becomes False; a name in capitals another one of its function
    swapped links       link ^ 1, the way back, becomes link
    swapped arguments   f(x, a, b) becomes f(x, b, a)
    dropped statement   what is assigned to an attribute or an item, or deleted, is not
    dropped call        a call whose result nobody takes is not made
    break continue      one becomes the other
    returned early      a function leaves before its loop or its condition

What never routes anything is left alone: docstrings, annotations, errors, what is told of a table or estimated of a
run. An id stays what it is while the function stays, wherever that moves in its file.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import NamedTuple


class Mutant(NamedTuple):
    """One mistake in a file."""

    file: str  # from the root of the tree, with /
    function: str  # Class.method
    line: int
    column: int  # in bytes, from 0
    rule: str
    before: str
    after: str
    number: int  # of those alike in the function, from 0
    in_kernel: bool  # in a function that Numba compiles
    start: int  # in bytes of the file
    stop: int

    @property
    def id(self) -> str:
        """What names it, on every machine and as long as its function stays."""
        said = "\0".join((self.file, self.function, self.rule, self.before, self.after, str(self.number)))
        return hashlib.blake2b(said.encode(), digest_size=4).hexdigest()

    def of(self, source: bytes) -> bytes:
        """The source of the file with the mistake in it."""
        return source[: self.start] + self.after.encode() + source[self.stop :]

    def compiles(self, source: bytes) -> bool:
        """Whether the file with the mistake in it is Python."""
        try:
            ast.parse(self.of(source))
        except SyntaxError:
            return False
        return True

    def told(self) -> str:
        """One line for people."""
        before, after = (" ".join(text.split())[:70] for text in (self.before, self.after))
        return f"{self.id} {self.file}:{self.line} {self.function}: {self.rule}: {before} -> {after}"


class _Edit(NamedTuple):
    """What a rule changes: the text between two places."""

    start: tuple[int, int]  # line from 1, column in bytes
    stop: tuple[int, int]
    after: Callable[[str], str]  # of what stands there


_COMPARED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.In: ("in", "not in"), ast.NotIn: (r"not\s+in", "in"),
    ast.Is: ("is", "is not"), ast.IsNot: (r"is\s+not", "is"),
}  # fmt: skip
_COMPILED = ("njit", "jit", "handler", "vectorize", "guvectorize")
_TOLD_ONLY = frozenset({"describe", "expected_events", "memory_bytes", "misfits", "recovery", "check", "told"})
_NUMBER_MOST = 1 << 16  # larger ones are bounds that nothing reaches


def _begin(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset


def _whole(node: ast.expr | ast.stmt, after: str) -> _Edit:
    return _Edit(_begin(node), _end(node), lambda _: after)


def _between(left: ast.expr, right: ast.expr, word: str, other: str) -> _Edit:
    """The operator between two operands."""
    found = rf"\b{word}\b" if word[0].isalpha() else re.escape(word)
    return _Edit(_end(left), _begin(right), lambda text: re.sub(found, other, text, count=1))


# ---- rules ---------------------------------------------------------------------------------------------


def _comparison(node: ast.AST, around: _Around) -> Iterator[_Edit]:
    if isinstance(node, ast.Compare):
        for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators):
            yield _between(left, right, *_COMPARED[type(operator)])


def _and_or(node: ast.AST, around: _Around) -> Iterator[_Edit]:
    if isinstance(node, ast.BoolOp):
        words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:]):
            yield _between(left, right, *words)


def _negated(node: ast.AST, around: _Around) -> Iterator[_Edit]:
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield _Edit(_begin(node.test), _end(node.test), lambda text: f"not ({text})")
    elif isinstance(node, ast.comprehension):
        for test in node.ifs:
            yield _Edit(_begin(test), _end(test), lambda text: f"(not ({text}))")


def _off_by_one(node: ast.AST, around: _Around) -> Iterator[_Edit]:
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value < _NUMBER_MOST:
        yield _whole(node, str(node.value + 1))


def _wrong_constant(node: ast.AST, around: _Around) -> Iterator[_Edit]:
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        yield _whole(node, str(not node.value))
    elif isinstance(node, ast.Name) and node.id in around.constants and isinstance(node.ctx, ast.Load):
        others = around.constants
        yield _whole(node, others[(others.index(node.id) + 1) % len(others)])


def _swapped_links(node: ast.AST, around: _Around) -> Iterator[_Edit]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitXor):
        right = node.right
        if isinstance(right, ast.Constant) and right.value == 1:
            yield _Edit(_end(node.left), _end(right), lambda _: "")


def _swapped_arguments(node: ast.AST, around: _Around) -> Iterator[_Edit]:
    if isinstance(node, ast.Call) and len(node.args) > 1:
        one, other = node.args[-2:]
        if all(isinstance(each, ast.Name | ast.Attribute) for each in (one, other)):
            first, second = ast.unparse(one), ast.unparse(other)
            if first != second:
                yield _Edit(_begin(one), _end(other), lambda _: f"{second}, {first}")


def _dropped_statement(node: ast.AST, around: _Around) -> Iterator[_Edit]:
    targets = (
        node.targets if isinstance(node, ast.Assign | ast.Delete) else [node.target]
        if isinstance(node, ast.AugAssign) else []
    )  # fmt: skip
    if targets and all(isinstance(each, ast.Attribute | ast.Subscript) for each in targets):
        if around.function.endswith("__init__"):  # an attribute that is never there is no mistake that lives
            return
        assert isinstance(node, ast.stmt)
        yield _whole(node, "pass")
    elif isinstance(node, ast.AugAssign):
        yield _whole(node, "pass")


def _dropped_call(node: ast.AST, around: _Around) -> Iterator[_Edit]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield _whole(node, "pass")


def _break_continue(node: ast.AST, around: _Around) -> Iterator[_Edit]:
    if isinstance(node, ast.Break | ast.Continue):
        yield _whole(node, "continue" if isinstance(node, ast.Break) else "break")


def _returned_early(node: ast.AST, around: _Around) -> Iterator[_Edit]:
    if node in around.leavable:
        assert isinstance(node, ast.stmt)
        yield _whole(node, "return")


RULES: dict[str, Callable[[ast.AST, _Around], Iterator[_Edit]]] = {
    "comparison": _comparison, "and or": _and_or, "negated condition": _negated, "off by one": _off_by_one,
    "wrong constant": _wrong_constant, "swapped links": _swapped_links, "swapped arguments": _swapped_arguments,
    "dropped statement": _dropped_statement, "dropped call": _dropped_call, "break continue": _break_continue,
    "returned early": _returned_early,
}  # fmt: skip


# ---- going through a file ------------------------------------------------------------------------------


class _Around:
    """What a rule may know of the function in which it changes something."""

    def __init__(self, function: str, body: ast.FunctionDef) -> None:
        self.function = function
        names = {node.id for node in ast.walk(body) if isinstance(node, ast.Name)}
        capitals = sorted(name for name in names if re.fullmatch(r"_?[A-Z][A-Z0-9_]+", name))
        self.constants = capitals if len(capitals) > 1 else []
        answers = any(isinstance(each, ast.Return | ast.Yield) and each.value for each in ast.walk(body))
        last = [] if answers else body.body[1:]
        self.leavable = [each for each in last if isinstance(each, ast.For | ast.While | ast.If)]


def mutants(file: str, source: bytes) -> list[Mutant]:
    """All mutants of a file, in the order of its text. A few may not compile, which `compiles` tells."""
    found: list[Mutant] = []
    lines = line_begins(source)
    alike: Counter[tuple[str, ...]] = Counter()
    for function, body, in_kernel in functions(ast.parse(source)):
        around = _Around(function, body)
        for node in _routing(body):
            for rule, makes in RULES.items():
                for edit in makes(node, around):
                    start, stop = (lines[line - 1] + column for line, column in (edit.start, edit.stop))
                    before = source[start:stop].decode()
                    after = edit.after(before)
                    after += "\n" * (before.count("\n") - after.count("\n"))
                    key = (function, rule, before, after)
                    made = Mutant(
                        file, function, *edit.start, rule, before, after, alike[key], in_kernel, start, stop
                    )
                    alike[key] += 1
                    if before != after:
                        found.append(made)
    return sorted(found, key=lambda each: (each.start, each.stop, each.rule))


def line_begins(source: bytes) -> list[int]:
    """Where each line of a source begins, in bytes, and where the last one ends."""
    return [0, *accumulate(len(line) for line in source.splitlines(keepends=True))]


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef, bool]]:
    """The functions and methods of a file, by their names."""
    for node in tree.body:
        members = node.body if isinstance(node, ast.ClassDef) else [node]
        for each in members:
            if isinstance(each, ast.FunctionDef) and each.name not in _TOLD_ONLY:
                name = each.name if each is node else f"{node.name}.{each.name}"  # type: ignore[attr-defined]
                yield name, each, any(_compiled(decorator) for decorator in each.decorator_list)


def _compiled(decorator: ast.expr) -> bool:
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")) in _COMPILED


def _routing(body: ast.FunctionDef) -> Iterator[ast.AST]:
    """The nodes of a function that decide on something."""
    ahead: list[ast.AST] = list(reversed(body.body))
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield node
        parts = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.AnnAssign):
            parts = [node.target, *([node.value] if node.value else [])]
        elif isinstance(node, ast.FunctionDef):
            parts = list(node.body)
        ahead += reversed(parts)
