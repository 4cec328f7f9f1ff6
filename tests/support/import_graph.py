"""What modules of ours import, found in their source: nothing is imported for it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

from support.tree import ROOT, parsed


def imported_names(path: Path) -> list[str]:
    """Return the names that a module imports when it is imported itself, as ``package.module.name``."""
    return list(_imported(parsed(path.read_text(encoding="utf-8")).body))


@functools.cache
def every_import(source: str, package: str) -> tuple[tuple[int, str], ...]:
    """Return (line, dotted name) of each import wherever it stands, relative and ``import_module("literal")`` ones too.

    Args:
        source: the text of a module.
        package: the package that it stands in, dotted.
    """
    return tuple(_every_import(source, package))


def _every_import(source: str, package: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(parsed(source)):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, name.name) for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                parents = package.split(".")
                base = (
                    [*parents[: len(parents) - level + 1], *([module] if module else [])]
                    if level
                    else [module or ""]
                )
                yield from ((node.lineno, ".".join([*base, name.name])) for name in names)
            case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]):
                called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
                if called in {"import_module", "__import__"}:
                    yield node.lineno, name
            case _:
                pass


def our_modules(name: str) -> Iterator[Path]:
    """Yield the modules of ours that a dotted name may stand for: a module, or what stands in one."""
    top, *rest = name.split(".")
    base = {"support": ROOT / "tests/support", "bench": ROOT / "tests/bench", "tidemark": ROOT}.get(top)
    for parts in (rest, rest[:-1]):
        if base is not None and parts:
            path = base.joinpath(*parts)
            yield from (each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file())


def all_imported(names: Iterable[str]) -> set[Path]:
    """Return the modules of ours that dotted names stand for, and all those that they import, however indirectly."""
    found: set[Path] = set()
    left = [path for name in names for path in our_modules(name)]
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += (other for name in imported_names(path) for other in our_modules(name))
    return found


def _imported(statements: Iterable[ast.stmt]) -> Iterator[str]:
    for statement in statements:
        match statement:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield from (f"{module}.{name.name}" for name in names)
            case ast.If(test=test, body=body, orelse=orelse):
                yield from _imported(orelse if "TYPE_CHECKING" in ast.unparse(test) else [*body, *orelse])
            case ast.With(body=body) | ast.Try(body=body):
                yield from _imported(body)
            case _:
                pass
