"""The tables of the documents against the code: one that drifted is worse than none."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from tidemark.controller.cli import app
from tidemark.controller.metrics.names import HELP
from tidemark.controller.settings import Settings
from tidemark.spark_jobs.settings import SETTINGS

from support.docs import all_text, document_with
from support.tree import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def _rows(first: str) -> dict[str, list[str]]:
    """Return the rows of the table whose heading starts with ``first``: by their first cell, the others."""
    table = document_with(f"| {first} |").split(f"| {first} |", 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]
    return {cell[0].strip("`"): cell[1:] for cell in cells}


def test_every_setting_of_the_controller_stands_in_its_table_with_its_default_and_meaning() -> None:
    expected = {
        f"TIDEMARK_{name.upper()}": [
            "none" if field.default in {None, ""} else f"`{field.default}`",
            " ".join((field.description or "").split()),
        ]
        for name, field in Settings.model_fields.items()
    }

    assert expected == _rows("environment")


def test_every_conf_key_of_a_job_stands_in_its_table() -> None:
    assert [setting.key for setting in SETTINGS] == list(_rows("conf"))


def test_the_defaults_of_conf_keys_are_told_right() -> None:
    body = _rows("conf")
    for setting in SETTINGS:
        if setting.default is not None:
            assert body[setting.key][0] == f"`{setting.default}`"


def test_every_metric_stands_in_its_table_with_its_help_text() -> None:
    assert {name: [text] for name, text in HELP.items()} == _rows("metric")


@pytest.mark.parametrize("command", sorted(get_command(app).commands))  # type: ignore[attr-defined]  # a click group
def test_every_command_is_told_of(command: str) -> None:
    if command == "openapi":
        pytest.skip("for developers: it prints what controller/openapi.json holds")

    assert f"tidemark {command}" in all_text() or f"make {command}" in README


def test_every_make_target_that_is_named_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z-]+)", all_text())) | set(
        re.findall(r"^make ([a-z-]+)", all_text(), re.MULTILINE)
    )

    assert named
    assert {target for target in named if f"\n{target}:" not in makefile} == set()
