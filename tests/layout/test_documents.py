"""The documents against the code and each other: links, commands and names that lead nowhere are worse than none."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click import Context, UsageError

from tidemark.controller.base.settings import Settings
from tidemark.controller.tools.cli import app
from tidemark.spark_jobs.core.settings import SETTINGS

from support.docs import DOCS, DOCUMENTS, all_text, anchors, commands, links
from support.tree import ROOT, tree_files

NAME = re.compile(r"\bTIDEMARK_[A-Z]+(?:_[A-Z]+)*(?!\w|_?\*)")
CONF = re.compile(r"\bspark\.tidemark(?:\.[a-z]+)+")
DEVELOPERS_OWN = ("TIDEMARK_TEST_", "TIDEMARK_BENCH_", "TIDEMARK_TRACES")
"""How variables begin that tests and benches alone read."""


def _id(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", [*DOCUMENTS, ROOT / "CHANGELOG.md"], ids=_id)
def test_every_link_of_a_document_leads_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    wrong = []
    for link in links(text):
        if re.match(r"(https?|mailto):", link):
            continue
        place, _, anchor = link.partition("#")
        target = (path.parent / place).resolve() if place else path
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            wrong.append(link)
    assert wrong == []


def test_the_check_of_links_finds_what_is_wrong() -> None:
    assert anchors("# A `b` c?\n## A b c\n```\n# not this\n```\n") == {"a-b-c", "a-b-c-1"}
    assert list(links("[a](b.md#c) ![d](e.png)\n```\n[f](g)\n```\n")) == ["b.md#c", "e.png"]


def test_every_document_can_be_reached_from_the_readme() -> None:
    reached, ahead = set(), [ROOT / "README.md"]
    while ahead:
        path = ahead.pop()
        reached.add(path)
        for link in links(path.read_text(encoding="utf-8")):
            target = (path.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.is_file() and target not in reached:
                ahead.append(target)
    assert {path for path in DOCUMENTS if path.is_relative_to(DOCS)} <= reached


def _options(command: Any) -> set[str]:
    """Return the options that a command has."""
    return {"--help"}.union(
        *((*each.opts, *each.secondary_opts) for each in command.get_params(Context(command)))
    )


def _resolved(words: list[str]) -> tuple[list[str], Any, list[str]]:
    """Return the path of a command, the command, and its arguments."""
    command: Any = app
    path: list[str] = []
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        name, *words = words
        if name not in command.commands:
            raise LookupError(f"there is no command {' '.join([*path, name])}")
        command = command.commands[name]
        path.append(name)
    return path, command, words


def _faults(line: str, *, whole: bool) -> list[str]:
    """Return what is wrong with a command line."""
    if not whole:
        # `set|get` stands for one and for the other, capitals for what is to be put in.
        first = re.search(r" (\w+(?:\\?\|\w+)+)(?= |$)", line)
        if first:
            return [
                fault
                for one in re.split(r"\\?\|", first[1])
                for fault in _faults(line.replace(first[1], one, 1), whole=False)
            ]
        line = re.sub(r"\[|\]|\.\.\.|'|…", " ", line)
    words = shlex.split(line)[1:]
    try:
        path, command, arguments = _resolved(words)
    except LookupError as error:
        return [f"{line}: {error.args[0]}"]
    options = [word.partition("=")[0] for word in arguments if re.match(r"--?[a-z]", word)]
    known = _options(command)
    faults = [f"{line}: no option {option}" for option in options if option not in known]
    if whole:
        try:
            command.make_context(" ".join(path), list(arguments), resilient_parsing="--help" in options)
        except UsageError as error:
            faults.append(f"{line}: {error}")
    return faults


@pytest.mark.parametrize("path", DOCUMENTS, ids=_id)
def test_every_command_of_a_document_is_one(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert [fault for line, whole in commands(text) for fault in _faults(line, whole=whole)] == []


@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("tidemark sloo set shop clicks", True),
        ("tidemark slo sett shop clicks", False),
        ("tidemark slo set shop clicks --targett 0.9", True),
        ("tidemark slo set shop", True),
        ("tidemark pin --too ceiling", False),
        ("tidemark token create --role king", True),
        ("tidemark backtest t.parquet --windoww 1m", True),
    ],
)
def test_the_check_of_commands_finds_a_planted_fault(line: str, whole: bool) -> None:
    assert _faults(line, whole=whole)


def test_commands_are_found_in_the_documents() -> None:
    found = [
        line for path in DOCUMENTS for line, whole in commands(path.read_text(encoding="utf-8")) if whole
    ]
    assert len(found) > 20
    assert "tidemark token mint --role admin" in found


def _code(*folders: str) -> str:
    files = [path for path in tree_files(*folders) if path.suffix == ".py"]
    return "\n".join((ROOT / path).read_text(encoding="utf-8") for path in files)


@cache
def _names_in_code() -> frozenset[str]:
    read = NAME.findall(
        _code("models", "controller", "spark_jobs", "tests/support", "tests/bench", "tests/conftest.py")
    )
    settings = {f"TIDEMARK_{name.upper()}" for name in Settings.model_fields}
    return frozenset({*settings, *read})


def test_every_environment_variable_in_the_documents_exists() -> None:
    deployed = [
        path
        for path in tree_files("deploy", "docs", "Dockerfile", "README.md", "CHANGELOG.md")
        if path.suffix != ".png"
    ]
    wrong = {
        f"{path}: {name}"
        for path in deployed
        for name in NAME.findall((ROOT / path).read_text(encoding="utf-8"))
        if name not in _names_in_code()
    }
    assert wrong == set()


def test_every_environment_variable_of_the_code_is_documented() -> None:
    body = set(NAME.findall(all_text()))
    assert {name for name in _names_in_code() if not name.startswith(DEVELOPERS_OWN)} - body == set()


def test_every_file_that_is_named_is_there() -> None:
    files = {str(path) for path in tree_files()}
    folders = {str(parent) for path in tree_files() for parent in path.parents}
    named = {
        name.rstrip("/")
        for name in re.findall(
            r"`((?:deploy|docs|controller|spark_jobs|models|tests|\.ci)/[\w./{},*-]*)`", all_text()
        )
    }
    assert len(named) > 10
    assert {name for name in named if not re.search(r"[{*]", name)} - files - folders == set()


def test_the_conf_keys_of_the_documents_are_those_of_the_code() -> None:
    keys = {setting.key for setting in SETTINGS.values()}
    body = set(CONF.findall(all_text())) | set(
        CONF.findall((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    )
    assert {re.sub(r"\.stream(\.\w+){3}(?=\.)", "", key) for key in body} == keys


def test_the_readme_is_short_and_says_first_what_it_is_and_how_to_try_it() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 125
    title, first, picture = text.split("\n\n")[:3]
    assert title == "# Tidemark"
    assert first.count(".") == 1, "one sentence"
    assert picture.startswith("![")
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings[0] == "Try it"
    assert {"Add it to a job", "Modes", "What it guarantees", "What it does not do", "Documents"} <= set(
        headings
    )


def test_the_concepts_are_at_most_thirty_and_each_is_defined_once() -> None:
    terms = re.findall(r"^- \*\*(.+?)\*\*", (DOCS / "concepts.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert 10 < len(terms) <= 30
    assert len(set(terms)) == len(terms)
