"""Options that several commands take: what their texts mean."""

from __future__ import annotations

import re

from tidemark.models.duration import parse_duration
from tidemark.models.operators import Operator, row_level, session, sliding, tumbling

__all__ = ["duration_of", "operator_of"]


def duration_of(text: str) -> int:
    """Return the microseconds of a duration; a bare number is in seconds."""
    return parse_duration(_with_unit(text))


def operator_of(window: str, slide: str | None, session_gap: str | None = None) -> Operator:
    """Return the operator that the options name.

    Raises:
        ValueError: when a duration is none, or the options do not go together.
    """
    if session_gap is not None:
        return session(_with_unit(session_gap))
    size = _with_unit(window)
    if not parse_duration(size):
        if slide is not None:
            raise ValueError("--slide goes with a --window above 0")
        return row_level()
    return tumbling(size) if slide is None else sliding(size, _with_unit(slide))


def _with_unit(text: str) -> str:
    """Return the duration with seconds as the unit of a bare number."""
    return f"{text}s" if re.fullmatch(r"\s*[+-]?\d+(\.\d+)?\s*", text) else text
