"""The layers of ``spark_jobs``: a folder imports from those below it only, also within functions and for types."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from support.tree import ROOT

LAYERS = ("spark", "core", "plans", "restart", "live", "late", "connect", "adaptive", "demo")
"""From the lowest up. What stands between ``core`` and ``adaptive`` takes part in core's work by its ``Extension``."""


def rooms(source: str) -> Iterator[str]:
    """Yield the layers that a module imports from."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "tidemark.spark_jobs":
            yield from (name.name if name.name in LAYERS else "adaptive" for name in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidemark.spark_jobs."):
            yield str(node.module).split(".")[2]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_from_those_below_it_only(layer: str) -> None:
    place = ROOT / "spark_jobs" / layer
    files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
    allowed = LAYERS[: LAYERS.index(layer) + 1]
    upwards = {
        f"{path.name} imports {room}"
        for path in files
        for room in rooms(path.read_text(encoding="utf-8"))
        if room not in allowed
    }
    assert files
    assert upwards == set()


def test_nothing_stands_outside_the_layers_but_what_users_import() -> None:
    folder = ROOT / "spark_jobs"
    found = {
        path.name for path in folder.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert found == {"__init__.py", "adaptive.py", *LAYERS} - {"adaptive"}
