"""Scala's collections through Py4J."""

from __future__ import annotations

from typing import Any


def items(sequence: Any) -> list[Any]:
    """Return the items of a Scala sequence."""
    return [sequence.apply(index) for index in range(sequence.length())]
