"""The tables of the documents against the code: one that drifted is worse than none."""

from __future__ import annotations

import json
import re

import pytest

from support.docs import DOCS, DOCUMENTS, all_text, table_after
from support.reference import FOLDER, reference
from support.reference_cli import command_paths
from support.tree import ROOT


@pytest.fixture(scope="module", name="made")
def _made() -> dict[str, str]:
    return {path.name: text for path, text in reference().items()}


@pytest.mark.slow
def test_the_reference_is_what_the_code_says(made: dict[str, str]) -> None:
    held = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert set(held) == set(made)
    assert {name for name in made if held[name] != made[name]} == set(), (
        "the code has changed: run `make docs`"
    )


def test_every_command_is_explained_outside_of_the_reference() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS if path.parent != FOLDER)
    names = {path[0] for path in command_paths() if path}
    assert {name for name in names if f"tidemark {name}" not in text and f"make {name}" not in text} == set()


def test_every_make_target_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z-]+)", all_text())) | set(
        re.findall(r"^make ([a-z-]+)", all_text(), re.MULTILINE)
    )
    assert named
    assert {target for target in named if f"\n{target}:" not in makefile} == set()


def test_every_condition_is_in_the_table_of_troubleshooting() -> None:
    rows = table_after("## Conditions", (DOCS / "troubleshooting.md").read_text(encoding="utf-8"))
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    document = json.loads((ROOT / "controller" / "openapi.json").read_text(encoding="utf-8"))
    conditions = document["components"]["schemas"]["Condition"]["properties"]["type"]["enum"]
    assert sorted(named) == sorted(conditions)
