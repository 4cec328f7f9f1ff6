"""The import rule: models <- nothing of ours, controller <- models, spark_jobs <- models."""

from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.tree import FOLDERS, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# fmt: off
IMPURE = frozenset({
    "asyncio", "concurrent", "ctypes", "datetime", "ftplib", "getpass", "glob", "http", "io", "logging",
    "mmap", "multiprocessing", "os", "pathlib", "random", "secrets", "select", "shutil", "signal",
    "smtplib", "socket", "socketserver", "sqlite3", "ssl", "subprocess", "tempfile", "threading",
    "time", "urllib", "uuid", "webbrowser",
})
# fmt: on
"""What of the standard library a pure module has no use for: clocks, dice, threads, and every way in or out."""

# Imported under their own name though another requirement brings them: they are that requirement's own foundation.
FOUNDATIONS = {"py4j": "pyspark", "starlette": "fastapi", "pydantic-core": "pydantic"}


@dataclass(frozen=True)
class Rule:
    """What one folder may import."""

    ours: frozenset[str]
    extras: tuple[str, ...]
    impure: frozenset[str] = frozenset()


RULES = {
    "models": Rule(ours=frozenset({"models"}), extras=(), impure=IMPURE),
    "controller": Rule(
        ours=frozenset({"models", "controller"}), extras=("controller", "kafka", "trace", "plot")
    ),
    "spark_jobs": Rule(ours=frozenset({"models", "spark_jobs"}), extras=("spark", "kafka", "trace")),
}


def imported_names(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) for each import, relative and ``import_module("literal")`` ones too."""
    for node in ast.walk(ast.parse(source)):
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


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@functools.cache
def distributions() -> Mapping[str, list[str]]:
    """Which distributions a top-level name comes from. It reads the records of all that is installed."""
    return packages_distributions()


@functools.cache
def requirements(extras: tuple[str, ...]) -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [
        *project["dependencies"],
        *(line for extra in extras for line in project["optional-dependencies"][extra]),
    ]
    return {normalised(re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]) for line in lines}


def violations(folder: str, source: str, package: str) -> list[str]:
    """Say, line by line, what a module of ``folder`` imports against the rule."""
    rule = RULES[folder]
    allowed = requirements(rule.extras)
    found = []
    for line, name in imported_names(source, package):
        top, *rest = name.split(".")
        if top == "tidemark":
            if not rest or rest[0] not in rule.ours:
                found.append(f"line {line}: {folder} must not import {name}")
        elif top in FOLDERS or top in {"tests", "support"}:
            found.append(f"line {line}: {name} is imported as tidemark.{name} or not at all")
        elif top in rule.impure:
            found.append(f"line {line}: {folder} is pure and must not import {name}")
        elif top not in sys.stdlib_module_names:
            owners = {normalised(owner) for owner in distributions().get(top, [top])}
            if not {FOUNDATIONS.get(owner, owner) for owner in owners} & allowed:
                found.append(
                    f"line {line}: {name} is not among what {folder} installs: {', '.join(sorted(allowed))}"
                )
    return found


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_imports_only_what_its_place_in_the_house_allows(folder: str) -> None:
    found = []
    for path in modules(folder):
        package = ".".join(["tidemark", *path.relative_to(ROOT).parent.parts])
        found += [
            f"{path.relative_to(ROOT)} {said}"
            for said in violations(folder, path.read_text(encoding="utf-8"), package)
        ]

    assert modules(folder), f"no module in {folder}: the rule was held over nothing"
    assert found == []


@pytest.mark.parametrize(
    ("folder", "planted"),
    [
        ("models", "import socket"),
        ("models", "from time import monotonic"),
        ("models", "import pyspark.sql"),
        ("models", "from fastapi import FastAPI"),
        ("models", "import tidemark.controller"),
        ("models", "from tidemark import spark_jobs"),
        ("models", "from ..controller import cli"),
        ("models", "def late():\n    if True:\n        import httpx"),
        ("controller", "import pyspark"),
        ("controller", "from tidemark.spark_jobs.java import ensure_java"),
        ("controller", "from importlib import import_module\nimport_module('tidemark.spark_jobs.tap')"),
        ("controller", "import models"),
        ("spark_jobs", "import sqlalchemy.orm"),
        ("spark_jobs", "from pydantic import BaseModel"),
        ("spark_jobs", "import typer"),
        ("spark_jobs", "from tidemark.controller.settings import Settings"),
        ("spark_jobs", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import fastapi"),
    ],
)
def test_the_checker_finds_a_planted_violation(folder: str, planted: str) -> None:
    assert len(violations(folder, planted, f"tidemark.{folder}")) == 1


@pytest.mark.parametrize(
    ("folder", "honest"),
    [
        ("models", "import numpy as np\nfrom scipy import stats\nfrom tidemark.models.sketch import Sketch"),
        (
            "controller",
            "import fastapi\nfrom starlette.responses import Response\nimport tidemark.models.wire",
        ),
        (
            "spark_jobs",
            "from pyspark.sql import functions\nfrom py4j.java_gateway import JavaObject\nimport tidemark.models",
        ),
    ],
)
def test_the_checker_lets_an_honest_import_pass(folder: str, honest: str) -> None:
    assert violations(folder, honest, f"tidemark.{folder}") == []
