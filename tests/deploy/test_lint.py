"""What is deployed, as linters see it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from yamllint import linter
from yamllint.config import YamlLintConfig

from support.tree import ROOT, tree_files

YAML = YamlLintConfig(
    """
extends: default
rules:
  line-length: disable
  document-start: disable
  comments: {min-spaces-from-content: 1}
  comments-indentation: disable
  indentation: {indent-sequences: whatever}
  truthy: {allowed-values: ["true", "false", "on"]}
"""
)
FILES = [
    path
    for path in tree_files("deploy", "Dockerfile", ".ci")
    if path.parts[:3] != ("deploy", "helm", "tidemark")
]


def linted(command: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run a linter that came with the development tools."""
    return subprocess.run(
        [Path(sys.executable).parent / command, path], capture_output=True, text=True, check=False, cwd=ROOT
    )


def dockerfiles() -> list[Path]:
    return [path for path in FILES if path.name == "Dockerfile" or path.suffix == ".Dockerfile"]


def scripts() -> list[Path]:
    return [
        path
        for path in FILES
        if (ROOT / path).read_bytes().startswith((b"#!/bin/sh", b"#!/usr/bin/env bash"))
    ]


def yamls() -> list[Path]:
    charts = [path for path in tree_files("deploy/helm") if path.name in {"Chart.yaml", "values.yaml"}]
    return [*charts, *(path for path in FILES if path.suffix in {".yaml", ".yml"})]


@pytest.mark.parametrize("path", dockerfiles(), ids=str)
def test_hadolint_finds_nothing(path: Path) -> None:
    done = linted("hadolint", path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", scripts(), ids=str)
def test_shellcheck_finds_nothing(path: Path) -> None:
    done = linted("shellcheck", path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", yamls(), ids=str)
def test_yamllint_finds_nothing(path: Path) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    assert [str(problem) for problem in linter.run(text, YAML)] == []


def test_the_linters_find_planted_faults(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python\nRUN cd /tmp\n", encoding="utf-8")
    assert linted("hadolint", tmp_path / "Dockerfile").returncode != 0
    (tmp_path / "x.sh").write_text("#!/bin/sh\nrm $1/*\n", encoding="utf-8")
    assert linted("shellcheck", tmp_path / "x.sh").returncode != 0
    assert list(linter.run("a: 1\na: 2\n", YAML))


def test_something_is_linted() -> None:
    assert len(dockerfiles()) == 2
    assert scripts()
    assert len(yamls()) > 5
