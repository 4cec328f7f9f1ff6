"""Which of a test's parameters are left to the long tests."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

__all__ = ["with_soak"]


def with_soak(values: Iterable[object], soak: Collection[object]) -> list[Any]:
    """Return ``values`` as parameters, of which those in ``soak`` run in `make soak` alone."""
    return [pytest.param(value, marks=[pytest.mark.soak] if value in soak else []) for value in values]
