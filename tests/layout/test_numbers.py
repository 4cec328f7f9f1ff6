"""How numbers are written for people: in one place, and never in scientific notation."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from support.tree import ROOT, parsed, tree_files

_PRODUCT = ("models", "controller", "spark_jobs")
_ITSELF = Path("models/base/text.py")


@pytest.mark.parametrize("folder", _PRODUCT)
def test_no_text_formats_a_number_so_that_it_may_be_scientific(folder: str) -> None:
    """``format_number`` of ``models.figures`` writes all digits."""
    found = [
        f"{path}:{node.lineno}"
        for path in tree_files()
        if path.suffix == ".py" and path.parts[0] == folder and path != _ITSELF
        for node in ast.walk(parsed((ROOT / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.FormattedValue) and _may_be_scientific(node.format_spec)
    ]
    assert found == []


def _may_be_scientific(spec: ast.expr | None) -> bool:
    last = spec.values[-1] if isinstance(spec, ast.JoinedStr) and spec.values else None
    return isinstance(last, ast.Constant) and str(last.value)[-1:] in set("gGeEn")
