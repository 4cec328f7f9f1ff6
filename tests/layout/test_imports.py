"""The layout of the code: which folder imports what, where modules stand, and how they are named and how long."""

from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.import_graph import every_import
from support.tree import FOLDERS, ROOT, parsed

if TYPE_CHECKING:
    from collections.abc import Mapping

# fmt: off
IMPURE = frozenset({
    "asyncio", "concurrent", "ctypes", "datetime", "ftplib", "getpass", "glob", "http", "io", "logging",
    "mmap", "multiprocessing", "os", "pathlib", "random", "secrets", "select", "shutil", "signal",
    "smtplib", "socket", "socketserver", "sqlite3", "ssl", "subprocess", "tempfile", "threading",
    "time", "urllib", "uuid", "webbrowser",
})
# fmt: on
"""Modules of the standard library that a pure module may not use: clocks, chance, threads, and all input and output."""

# Imported under their own name although another requirement brings them: they are its foundation.
FOUNDATIONS = {
    "py4j": "pyspark",
    "starlette": "fastapi",
    "pydantic-core": "pydantic",
}


@dataclass(frozen=True)
class Rule:
    """What one folder may import."""

    ours: frozenset[str]
    extras: tuple[str, ...]
    impure: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    """Packages that no extra brings, since they are there before: a part of the folder runs in them."""


RULES = {
    "models": Rule(ours=frozenset({"models"}), extras=(), impure=IMPURE),
    "controller": Rule(
        ours=frozenset({"models", "controller"}),
        extras=("controller", "postgres", "openlineage", "kafka", "mcp", "trace", "airflow"),
        hosts=frozenset({"airflow", "asgiref"}),
    ),
    "spark_jobs": Rule(
        ours=frozenset({"models", "spark_jobs"}), extras=("spark", "kafka", "trace", "postgres")
    ),
}


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@functools.cache
def distributions() -> Mapping[str, list[str]]:
    """Return the distributions of each top-level name; it reads the records of all that is installed."""
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
    """Return, line by line, what a module of ``folder`` imports against the rule."""
    rule = RULES[folder]
    allowed = requirements(rule.extras)
    found = []
    for line, name in every_import(source, package):
        top, *rest = name.split(".")
        if top == "tidemark":
            if not rest or rest[0] not in rule.ours:
                found.append(f"line {line}: {folder} must not import {name}")
        elif top in FOLDERS or top in {"tests", "support"}:
            found.append(f"line {line}: {name} is imported as tidemark.{name} or not at all")
        elif top in rule.impure:
            found.append(f"line {line}: {folder} is pure and must not import {name}")
        elif top not in sys.stdlib_module_names | rule.hosts:
            owners = {normalised(owner) for owner in distributions().get(top, [top])}
            if not {FOUNDATIONS.get(owner, owner) for owner in owners} & allowed:
                found.append(
                    f"line {line}: {name} is not among what {folder} installs: {', '.join(sorted(allowed))}"
                )
    return found


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_folder_imports_only_what_its_rule_allows(folder: str) -> None:
    found = []
    for path in modules(folder):
        package = ".".join(["tidemark", *path.relative_to(ROOT).parent.parts])
        found += [
            f"{path.relative_to(ROOT)} {violation}"
            for violation in violations(folder, path.read_text(encoding="utf-8"), package)
        ]

    assert modules(folder), f"no module in {folder}: nothing was checked"
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
        ("controller", "from tidemark.spark_jobs.spark.java import ensure_java"),
        ("controller", "from importlib import import_module\nimport_module('tidemark.spark_jobs.core.tap')"),
        ("controller", "import models"),
        ("spark_jobs", "import airflow"),
        ("spark_jobs", "import sqlalchemy.orm"),
        ("spark_jobs", "from pydantic import BaseModel"),
        ("spark_jobs", "import click"),
        ("spark_jobs", "from tidemark.controller.base.settings import Settings"),
        ("spark_jobs", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import fastapi"),
    ],
)
def test_the_checker_finds_a_planted_violation(folder: str, planted: str) -> None:
    assert len(violations(folder, planted, f"tidemark.{folder}")) == 1


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        (
            "models",
            "import numpy as np\nfrom scipy import stats\nfrom tidemark.models.evidence.sketch import Sketch",
        ),
        (
            "controller",
            "import fastapi\nfrom starlette.responses import Response\nimport tidemark.models.protocol.messages",
        ),
        (
            "spark_jobs",
            "from pyspark.sql import functions\nfrom py4j.java_gateway import JavaObject\nimport tidemark.models",
        ),
    ],
)
def test_the_checker_accepts_an_allowed_import(folder: str, allowed: str) -> None:
    assert violations(folder, allowed, f"tidemark.{folder}") == []


# -- names and lengths ---------------------------------------------------------------------------------------------

MAX_LINES = 400

LONG_BY_NATURE = re.compile(r"controller/base/db/(tables|migrations)/")
"""Tables and migrations: lists rather than logic."""


def same_names(sources: Mapping[str, str]) -> set[str]:
    """Return the names of public classes that stand at the top of more than one module.

    Args:
        sources: by path the text of each module.
    """
    counts = Counter(
        node.name
        for source in sources.values()
        for node in parsed(source).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return {name for name, count in counts.items() if count > 1}


@functools.cache
def product() -> Mapping[str, str]:
    """Return the text of each module of the product by its path."""
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for folder in RULES
        for path in modules(folder)
    }


def test_no_two_public_classes_have_one_name() -> None:
    assert same_names(product()) == set()


def test_the_checker_finds_two_classes_of_one_name() -> None:
    found = same_names({"a.py": "class Run: ...\nclass _Own: ...", "b.py": "class Run: ...\nclass _Own: ..."})
    assert found == {"Run"}


def test_no_module_is_longer_than_its_limit() -> None:
    long = {
        path
        for path, source in product().items()
        if len(source.splitlines()) > MAX_LINES and not LONG_BY_NATURE.match(path)
    }
    assert long == set()


@pytest.mark.slow
def test_no_comprehension_has_a_variable_that_its_module_imports_or_defines() -> None:
    """Python 3.12.0 to 3.12.3 (its issue 118513) takes the name for an unbound local in the function's next one."""
    found = []
    for path in [path for folder in FOLDERS for path in modules(folder)]:
        module = parsed(path.read_text(encoding="utf-8"))
        imported = [node for node in module.body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {name.asname or name.name for node in imported for name in node.names}
        names |= {node.name for node in module.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        targets = [node.target for node in ast.walk(module) if isinstance(node, ast.comprehension)]
        variables = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
        found += [f"{path}:{node.lineno} {node.id}" for node in variables if node.id in names]
    assert found == []
