"""One-line changes of Python source, each of which a test should notice: compared, dropped, negated, off by one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Mutant", "mutants_of"]


@dataclass(frozen=True, slots=True, order=True)
class Mutant:
    """One change of one file."""

    file: str
    """The file's path from the root."""
    line: int
    """Where the change begins."""
    where: str
    """The function or method that is changed, by its qualified name, or the module's name that is assigned."""
    before: str
    """The changed lines as they are, with single spaces."""
    after: str
    """The same lines with the change."""
    source: bytes
    """The whole file with the change."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What tells it from others also when lines have moved."""
        return self.file, self.where, self.before, self.after


def mutants_of(file: str, source: bytes) -> Iterator[Mutant]:
    """Yield every change of a file that this module knows, in the order of its functions.

    Function bodies are changed, and what is assigned at the top of the module, but for numbers with a name: those were
    chosen. Texts, annotations, defaults, assertions, logging and what is raised stay.
    """
    text = _Text(source)
    for where, body in _parts(ast.parse(source)):
        seen = {source}
        for start, end, new in sorted({edit for node in body for edit in _edits(node, text)}):
            changed = source[:start] + new + source[end:]
            before, after = text.lines(start, end), _Text(changed).lines(start, start + len(new))
            if changed not in seen and _compiles(changed):
                seen.add(changed)
                yield Mutant(file, text.line_of(start), where, before, after, changed)


Edit = tuple[int, int, bytes]
"""From, to, and what stands there instead."""


class _Text:
    def __init__(self, source: bytes) -> None:
        self.source = source
        self.starts = [0, *(match.end() for match in re.finditer(rb"\n", source))]

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Return where a node begins and ends."""
        at = {name: getattr(node, name) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset")}
        start = self.starts[at["lineno"] - 1] + at["col_offset"]
        return start, self.starts[at["end_lineno"] - 1] + at["end_col_offset"]

    def of(self, node: ast.AST) -> bytes:
        """Return what a node says, in brackets where it is more than a name or a call."""
        start, end = self.span(node)
        plain = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Constant | ast.Subscript)
        return self.source[start:end] if plain else b"(" + self.source[start:end] + b")"

    def line_of(self, at: int) -> int:
        return self.source.count(b"\n", 0, at) + 1

    def lines(self, start: int, end: int) -> str:
        """Return the whole lines from ``start`` to ``end`` with single spaces."""
        first = self.source.rfind(b"\n", 0, start) + 1
        last = self.source.find(b"\n", end)
        return " ".join(self.source[first : len(self.source) if last < 0 else last].decode().split())


def _parts(tree: ast.Module) -> Iterator[tuple[str, list[ast.stmt] | list[ast.expr]]]:
    """Yield the name and the body of each function, method, and assignment at the top."""
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name, node.body
            case ast.ClassDef():
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                        yield f"{node.name}.{inner.name}", inner.body
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name != "__all__" and not _stays(
                value
            ):
                yield name, [value]


def _stays(node: ast.expr) -> bool:
    """Return whether an expression is a type, a number, or a record, which classes take over as a default."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id[0].isupper():
        return True
    return isinstance(node, ast.Subscript) or all(
        isinstance(
            inner, ast.Constant | ast.BinOp | ast.UnaryOp | ast.operator | ast.unaryop | ast.Name | ast.Load
        )
        for inner in ast.walk(node)
    )


def _compiles(source: bytes) -> bool:
    try:
        compile(source, "mutant", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _edits(node: ast.AST, text: _Text) -> Iterator[Edit]:
    match node:
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.Global() | ast.Import() | ast.ImportFrom():
            return
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="_log")))):
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            inner: Iterator[ast.AST] = iter(node.body)
        case ast.keyword(arg="strict"):
            return
        case ast.AnnAssign():
            inner = iter([] if node.value is None else [node.value])
        case _:
            inner = ast.iter_child_nodes(node)
            yield from _own_edits(node, text)
    for child in inner:
        yield from _edits(child, text)


def _own_edits(node: ast.AST, text: _Text) -> Iterator[Edit]:
    match node:
        case ast.Compare():
            yield from _compared(node, text)
        case ast.BoolOp():
            joint = b" and " if isinstance(node.op, ast.And) else b" or "
            yield from _with_one_less(node, node.values, joint, text)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield *text.span(node), text.of(node.operand)
        case ast.BinOp():
            yield from _between(node.left, node.right, _ARITHMETIC, type(node.op), text)
        case ast.Constant():
            yield from _constant(node, text)
        case ast.Call():
            yield from _called(node, text)
        case ast.stmt():
            yield from _of_statement(node, text)
        case _:
            pass
    for condition, *answers in _conditions(node):
        yield from ((*text.span(condition), answer) for answer in answers)


def _conditions(node: ast.AST) -> Iterator[tuple[ast.expr, *tuple[bytes, ...]]]:
    """Yield each condition of a node, with what it may be taken for."""
    match node:
        case ast.If(test=test) | ast.IfExp(test=test):
            yield test, b"True", b"False"
        case ast.While(test=test):
            yield test, b"False"
        case ast.comprehension(ifs=ifs):
            yield from ((each, b"True") for each in ifs)
        case ast.match_case(guard=ast.expr() as guard):
            yield guard, b"True"
        case _:
            pass


def _of_statement(node: ast.stmt, text: _Text) -> Iterator[Edit]:
    """Yield what drops a statement that nothing after it needs to run."""
    match node:
        case ast.AugAssign():
            yield from _between(node.target, node.value, _ARITHMETIC, type(node.op), text)
            yield *text.span(node), b"pass"
        case ast.Expr(value=ast.Call()):
            yield *text.span(node), b"pass"
        case ast.Assign() if all(map(_is_place, node.targets)):
            yield *text.span(node), b"pass"


def _is_place(target: ast.expr) -> bool:
    """Return whether a target is a field or an item, not a local name that later lines need."""
    if isinstance(target, ast.Tuple):
        return all(map(_is_place, target.elts))
    return isinstance(target, ast.Attribute | ast.Subscript)


_COMPARED: dict[type, tuple[str, bytes]] = {
    ast.Lt: (r"<", b"<="),
    ast.LtE: (r"<=", b"<"),
    ast.Gt: (r">", b">="),
    ast.GtE: (r">=", b">"),
    ast.Eq: (r"==", b"!="),
    ast.NotEq: (r"!=", b"=="),
    ast.Is: (r"\bis\b", b"is not"),
    ast.IsNot: (r"\bis\s+not\b", b"is"),
    ast.In: (r"\bin\b", b"not in"),
    ast.NotIn: (r"\bnot\s+in\b", b"in"),
}
_ARITHMETIC: dict[type, tuple[str, bytes]] = {
    ast.Add: (r"\+", b"-"),
    ast.Sub: (r"-", b"+"),
    ast.Mult: (r"\*", b"//"),
    ast.FloorDiv: (r"//", b"*"),
    ast.Div: (r"/", b"*"),
    ast.Mod: (r"%", b"//"),
    ast.Pow: (r"\*\*", b"*"),
    ast.BitOr: (r"\|", b"&"),
    ast.BitAnd: (r"&", b"|"),
}


def _between(
    left: ast.expr, right: ast.expr, known: dict[type, tuple[str, bytes]], operator: type, text: _Text
) -> Iterator[Edit]:
    """Yield the change of the operator that stands between two operands."""
    start, end = text.span(left)[1], text.span(right)[0]
    if operator in known and (match := re.search(known[operator][0].encode(), text.source[start:end])):
        yield start + match.start(), start + match.end(), known[operator][1]


def _compared(node: ast.Compare, text: _Text) -> Iterator[Edit]:
    for (left, right), operator in zip(pairwise([node.left, *node.comparators]), node.ops, strict=True):
        yield from _between(left, right, _COMPARED, type(operator), text)


def _with_one_less(node: ast.expr, operands: list[ast.expr], joint: bytes, text: _Text) -> Iterator[Edit]:
    """Yield the node without each of its operands."""
    for left_out in operands:
        kept = [text.of(each) for each in operands if each is not left_out]
        yield *text.span(node), kept[0] if len(kept) == 1 else b"(" + joint.join(kept) + b")"


def _constant(node: ast.Constant, text: _Text) -> Iterator[Edit]:
    value = node.value
    if isinstance(value, bool):
        yield *text.span(node), str(not value).encode()
    elif isinstance(value, int):
        yield *text.span(node), str(value + 1 if value < 100 else 2 * value).encode()


_EXTREMES = {"max", "min", "maximum", "minimum", "greater", "lesser"}
_CONDITIONS = {"where", "and_", "or_"}


def _called(node: ast.Call, text: _Text) -> Iterator[Edit]:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            pass
        case _:
            return
    plain = not any(isinstance(each, ast.Starred) for each in node.args)
    if name in _EXTREMES and len(node.args) > 1 and plain:
        yield from ((*text.span(node), text.of(kept)) for kept in node.args)
    elif name in {"any", "all"} and isinstance(node.func, ast.Name):
        yield *text.span(node.func), b"all" if name == "any" else b"any"
    elif name in _CONDITIONS and len(node.args) > 1:
        for left_out in node.args:
            kept = b", ".join(
                text.source[slice(*text.span(each))] for each in node.args if each is not left_out
            )
            yield text.span(node.args[0])[0], text.span(node.args[-1])[1], kept
    elif name in {"where", "desc"} and isinstance(node.func, ast.Attribute):
        yield text.span(node.func.value)[1], text.span(node)[1], b""
