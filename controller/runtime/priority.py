"""Giving way: work that can wait asks, between its pieces, whether there is work that cannot."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["GiveWay", "at_once"]

GiveWay = Callable[[], None]
"""Waits a little while there is work that cannot wait; it always returns."""


def at_once() -> None:
    """Wait for nobody."""
