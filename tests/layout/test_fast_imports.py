"""What the tests of `make test-fast` import when they are collected, which each of its processes does."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

import pytest

from support.fast_run import is_slow_throughout
from support.import_graph import imported_names, our_modules
from support.tree import ROOT

HEAVY = frozenset(
    {"axe_playwright_python", "pandas", "playwright", "pyspark.sql.connect", "schemathesis", "scipy.stats"}
)
"""Packages, and parts of them, that few tests need and that take a good part of a second to import: those tests do so
when they run."""


@functools.cache
def ways_to_heavy(path: Path) -> tuple[str, ...]:
    """Return how a module comes to import something heavy: through which others, by their names."""
    found: dict[str, None] = {}
    for name in imported_names(path):
        if not HEAVY.isdisjoint(itertools.accumulate(name.split("."), "{}.{}".format)):
            found[name] = None
        for module in our_modules(name):
            if module != path:
                found |= dict.fromkeys(f"{name}: {way}" for way in ways_to_heavy(module))
    return tuple(found)


def collected() -> list[Path]:
    tests = ROOT / "tests"
    return [
        path
        for pattern in ("conftest.py", "test_*.py")
        for path in sorted(tests.rglob(pattern))
        if not is_slow_throughout(path)
    ]


@pytest.mark.slow
def test_no_test_that_is_fast_imports_something_heavy_before_it_runs() -> None:
    wrong = {str(path.relative_to(ROOT)): ways for path in collected() if (ways := ways_to_heavy(path))}
    assert wrong == {}, "import it in the test, or mark the file as slow: pytestmark = pytest.mark.slow"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import playwright.sync_api", ("playwright.sync_api",)),
        ("from scipy.stats import binom", ("scipy.stats.binom",)),
        ("from scipy.special import bdtr", ()),
        ("try:\n    from pandas import NA\nexcept ImportError:\n    pass", ("pandas.NA",)),
        ("if TYPE_CHECKING:\n    import pandas\nelse:\n    import schemathesis", ("schemathesis",)),
        ("from support.browser import running_browser", ("support.browser.running_browser: playwright",)),
        ("from support import browser", ("support.browser: playwright",)),
        ("def test() -> None:\n    import pandas", ()),
    ],
)
def test_the_check_finds_what_is_imported_at_once_and_nothing_else(
    tmp_path: Path, text: str, found: tuple[str, ...]
) -> None:
    path = tmp_path / "module.py"
    path.write_text(text, encoding="utf-8")
    ways = ways_to_heavy(path)
    assert bool(ways) == bool(found)
    assert all(any(way.startswith(start) for way in ways) for start in found)
