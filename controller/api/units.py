"""Shares and times in the units of the API."""

from __future__ import annotations

from tidemark.models.base.target import PPM


def share_ppm(part: int, whole: int) -> int | None:
    """Return ``part / whole`` in parts per million, rounded down so that 1,000,000 means all; None of nothing."""
    return part * PPM // whole if whole else None


def milliseconds(time_us: int | None) -> int | None:
    """Return a time in whole milliseconds, None of the unknown."""
    return None if time_us is None else round(time_us / 1_000)
