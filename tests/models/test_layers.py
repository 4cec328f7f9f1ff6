"""The layers of the models: policies know nothing of backtests, so that a driver does not need them."""

from __future__ import annotations

import re

import pytest

from support.tree import ROOT

PACKAGE = re.compile(r"^from tidemark\.models\.(\w+)\.\w+ import", re.MULTILINE)
ALLOWED = {
    "recommend": {"recommend"},
    "policies": {"policies", "recommend"},
    "live": {"live", "policies", "recommend"},
    "backtest": {"backtest", "policies", "recommend"},
    "rollout": {"rollout"},
}
"""By package, the packages of the models that it may import. Modules outside packages may import none."""


@pytest.mark.parametrize("package", ALLOWED)
def test_a_package_imports_only_the_packages_below_it(package: str) -> None:
    for path in sorted((ROOT / "models" / package).glob("*.py")):
        found = set(PACKAGE.findall(path.read_text(encoding="utf-8")))
        assert found <= ALLOWED[package], path


def test_modules_outside_packages_import_none() -> None:
    for path in sorted((ROOT / "models").glob("*.py")):
        assert not PACKAGE.findall(path.read_text(encoding="utf-8")), path


def test_every_package_has_its_place() -> None:
    packages = {path.parent.name for path in (ROOT / "models").glob("*/__init__.py")}
    assert packages == set(ALLOWED)
