"""The layers of the product: imports go down, nothing imports in a circle, and every module has a place."""

from __future__ import annotations

import re

import pytest

from support.architecture import DOCUMENT, architecture
from support.import_graph import every_import
from support.layers import (
    LAYERS,
    LOOSE,
    Import,
    between_folders,
    cycles,
    imports,
    into_the_laboratory,
    layer_of,
    modules,
    upwards,
    without_place,
)
from support.tree import FOLDERS, ROOT

LAYERED = [tree for tree in FOLDERS if LAYERS[tree]]
MAX_SIDE_BY_SIDE = 9
"""Folders that a reader has to see at once."""


@pytest.mark.parametrize("tree", LAYERED)
def test_no_import_goes_upwards(tree: str) -> None:
    assert upwards(imports(tree)) == []


@pytest.mark.parametrize("tree", LAYERED)
def test_neither_modules_nor_folders_import_in_a_circle(tree: str) -> None:
    found = imports(tree)
    assert cycles(found) == []
    assert cycles(between_folders(found)) == []


@pytest.mark.parametrize("tree", LAYERED)
def test_every_module_stands_in_a_folder_that_has_its_layer(tree: str) -> None:
    assert without_place(tree) == []
    assert {name for name in LAYERS[tree] if f"{tree}.{name}" not in modules(tree)} == set()
    assert len(set(LAYERS[tree]) - LOOSE.get(tree, set())) <= MAX_SIDE_BY_SIDE


@pytest.mark.parametrize(
    "planted",
    [
        "def f():\n    from tidemark.models.base import text",
        "if TYPE_CHECKING:\n    from tidemark.models.base.text import plural",
        "import tidemark.models.base.text",
        "from ..base import text",
        "from importlib import import_module\nimport_module('tidemark.models.base.text')",
    ],
)
def test_an_import_counts_wherever_it_stands_and_in_every_form(planted: str) -> None:
    names = [name for _, name in every_import(planted, "tidemark.models.evidence")]
    assert any(name.startswith("tidemark.models.base.text") for name in names)


def test_the_check_finds_a_planted_import_upwards() -> None:
    planted = Import("models.base.text", "models.evidence.sketch")
    down = Import("models.evidence.sketch", "models.base.text")
    assert upwards([planted, down, Import("models.live.fast", "models.live.control")]) == [planted]
    assert layer_of("models.base.text") < layer_of("models.backtest.run")


def test_nothing_that_runs_in_production_imports_the_laboratory() -> None:
    assert into_the_laboratory(imports(*FOLDERS)) == []
    planted = Import("controller.control.decide.load", "models.backtest.run")
    among = Import("controller.lab.backtest.trial", "models.backtest.run")
    assert into_the_laboratory([planted, among]) == [planted]


def test_the_check_finds_all_planted_circles_and_nothing_that_only_leads_to_one() -> None:
    planted = ["ab", "bc", "ca", "de", "ed", "xa", "cy", "ad", "yz"]
    assert cycles(Import(each[0], each[1]) for each in planted) == [["a", "b", "c"], ["d", "e"]]
    assert cycles([Import("a", "b"), Import("b", "c"), Import("a", "c")]) == []


def test_the_document_shows_the_layers_of_the_code() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert architecture(text) == text, "the code has changed: run `make docs`"


def _steps() -> list[list[tuple[str, str]]]:
    """Return (path, name) of each step of the ways through the code, part by part."""
    ways = DOCUMENT.read_text(encoding="utf-8").split("## Three ways through the code")[1]
    return [
        re.findall(r"`(\w+/[\w/]+\.py)`: `([\w.]+)`", part)
        for part in re.split(r"^\d\. ", ways, flags=re.MULTILINE)[1:]
    ]


def test_every_step_of_the_ways_through_the_code_is_there() -> None:
    missing = []
    for path, name in (step for part in _steps() for step in part):
        text = (ROOT / path).read_text(encoding="utf-8")
        words = name.split(".")
        missing += [f"{path}: {name}" for word in words if not re.search(rf"(def|class) {word}\b", text)]
    assert missing == []


def test_no_step_within_a_part_of_a_way_goes_up_a_layer() -> None:
    """A step back to the module that made the step before it is a return, and no step up."""
    high = []
    for part in _steps():
        came: dict[str, list[str]] = {}
        for path, name in part:
            tree, *_ = path.split("/")
            module = path.removesuffix(".py").replace("/", ".")
            before = came.setdefault(tree, [])
            if before and module not in before and layer_of(module) > layer_of(before[-1]):
                high.append(f"{before[-1]} -> {path}: {name}")
            before.append(module)
    assert high == []
