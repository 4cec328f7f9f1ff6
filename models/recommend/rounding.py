"""How bounds are rounded."""

from __future__ import annotations

from tidemark.models.defaults import BOUND_DIGITS


def rounded_up(bound_ms: int) -> int:
    """Return a bound rounded up to ``BOUND_DIGITS`` digits, in milliseconds."""
    grain: int = 10 ** max(len(str(bound_ms)) - BOUND_DIGITS, 0)
    return -(-bound_ms // grain) * grain
