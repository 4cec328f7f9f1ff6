"""What is said of a window in words, and how right that was: what answers and commands read without the estimate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

WindowState = Literal["Open", "Closed"]
"""Open: rows can still be counted; Closed: the watermark has passed the window, and what the result has of it stays."""
WindowOutcome = Literal["Reached", "NotYet", "Unreachable", "NotKnown"]
"""Whether a share has come and counted. Unreachable: too many rows were late; NotKnown: there is no estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What would have been said of past windows at the same age, by those before them alone."""

    windows: int
    """Past windows that were bounded."""
    within: int
    """Those whose final rows lay within the interval."""
    settled: int
    """Those that would have been said to be settled."""
    rightly: int
    """Those of them that were."""
