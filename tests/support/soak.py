"""Which of a test's parameters are left to the long tests, and which run on every version of Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

__all__ = ["with_soak"]


def with_soak(
    values: Iterable[object], soak: Collection[object], versions: Collection[object] = ()
) -> list[Any]:
    """Return ``values`` as parameters.

    Args:
        values: the parameters.
        soak: those that `make soak` alone runs.
        versions: those that `make test-spark` runs, too.
    """
    marks = (pytest.mark.soak, soak), (pytest.mark.versions, versions)
    return [
        pytest.param(value, marks=[mark for mark, chosen in marks if value in chosen]) for value in values
    ]
