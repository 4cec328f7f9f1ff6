"""What `make test-fast` leaves out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

__all__ = ["is_fast", "is_slow_throughout"]

_SLOW_THROUGHOUT = re.compile(r"^pytestmark = (\[[^\]]*)?pytest\.mark\.slow\b", re.MULTILINE)


def is_fast(config: pytest.Config) -> bool:
    """Return whether no slow test is to run."""
    return bool(config.option.markexpr == "not slow")


def is_slow_throughout(path: Path) -> bool:
    """Return whether a file says of itself that all its tests are slow."""
    return path.suffix == ".py" and bool(_SLOW_THROUGHOUT.search(path.read_text(encoding="utf-8")))
