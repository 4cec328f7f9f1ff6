"""The tables of the documents against the code: one that drifted is worse than none."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tidemark.controller.runtime.counters import HELP

from support.docs import DOCS, DOCUMENTS, all_text, table_after
from support.reference import FOLDER, command_paths, interface, reference
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
    names = {path[0] for path in command_paths() if path} - {"openapi"}  # for developers
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


# -- upgrading ------------------------------------------------------------------------------------------------------


def _names(found: Any) -> set[str]:
    """Return the names of all properties in an OpenAPI document."""
    if isinstance(found, dict):
        own = set(found["properties"]) if isinstance(found.get("properties"), dict) else set()
        return own.union(*map(_names, found.values()))
    return set().union(*map(_names, found)) if isinstance(found, list) else set()


@pytest.mark.slow
def test_the_names_to_upgrade_to_exist_and_the_old_ones_do_not(made: dict[str, str]) -> None:
    known = {
        "### API fields": _names(interface()),
        "### Command line": set(re.findall(r"--[a-z-]+", made["cli.md"])),
        "### Metrics": set(HELP),
    }
    for heading, names in known.items():
        rows = table_after(heading, (DOCS / "upgrading.md").read_text(encoding="utf-8"))
        old, new = (
            {name for row in rows for name in re.findall(r"`([^`]+)`", row[column])} for column in (0, 1)
        )
        assert new, heading
        assert new - names == set(), heading
        assert old & names == set(), heading
