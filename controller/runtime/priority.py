"""Priority: background work pauses between its steps while more urgent work waits."""

from __future__ import annotations

from collections.abc import Callable

Pause = Callable[[], None]
"""Waits a short time while more urgent work waits, then returns."""


def no_pause() -> None:
    """Do not wait."""
