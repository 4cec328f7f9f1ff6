"""What `make test-fast` leaves out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

__all__ = ["is_fast", "is_slow_throughout", "starts_another_program"]

STARTING = frozenset({"browser", "kafka", "kafka_spark", "postgres_url", "spark"})
"""Fixtures that start another program."""

_SLOW_THROUGHOUT = re.compile(r"^pytestmark = (\[[^\]]*)?pytest\.mark\.slow\b", re.MULTILINE)


def is_fast(config: pytest.Config) -> bool:
    """Return whether no slow test is to run."""
    return bool(config.option.markexpr == "not slow")


def is_slow_throughout(path: Path) -> bool:
    """Return whether a file says of itself that all its tests are slow."""
    return path.suffix == ".py" and bool(_SLOW_THROUGHOUT.search(path.read_text(encoding="utf-8")))


def starts_another_program(item: pytest.Item) -> bool:
    """Return whether a test has a fixture or a parameter that starts one."""
    # What runs on both databases asks for PostgreSQL when it runs, and says so by its parameter.
    parameters: dict[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    texts = (each for each in parameters.values() if isinstance(each, str))
    return not STARTING.isdisjoint(getattr(item, "fixturenames", ())) or "postgresql" in texts
