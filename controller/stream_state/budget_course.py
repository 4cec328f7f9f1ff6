"""How the budget of a stream went over the SLO's window, as its snapshots found it: one figure for each part of it.

Each snapshot adds what it finds to what the one before kept, so that a list of many streams reads no history.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

PARTS: Final = 24
"""Parts of the window that are kept."""


@dataclass(frozen=True, slots=True)
class BudgetCourse:
    """What was left of the budget in each part of the window. Nulls are parts without a snapshot that knew it."""

    generation: int
    """Generation of the SLO that the figures are of."""
    part: int
    """The newest part, counted from the epoch in parts of this window."""
    left_ppm: tuple[int | None, ...]
    """The newest figure of each part, in parts per million, the oldest first: at most ``PARTS``."""

    def to_json(self) -> str:
        """Return it as it is stored."""
        return json.dumps([self.generation, self.part, self.left_ppm], separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> BudgetCourse:
        """Return what ``to_json`` was called on."""
        generation, part, left_ppm = json.loads(text)
        return cls(generation, part, tuple(left_ppm))


def next_course(
    before: BudgetCourse | None, generation: int, window_ms: int, now_us: int, left_ppm: int | None
) -> BudgetCourse:
    """Return the course after a snapshot.

    Args:
        before: the course so far; None before the first snapshot. One of another SLO is dropped.
        generation: generation of the SLO.
        window_ms: its window, in milliseconds.
        now_us: when the snapshot was taken, in microseconds.
        left_ppm: what is left of the budget; None when unknown.
    """
    part = now_us * PARTS // (window_ms * 1_000)
    if before is None or before.generation != generation or before.part > part:
        return BudgetCourse(generation, part, (left_ppm,))
    passed = min(part - before.part, PARTS)
    kept = before.left_ppm if passed else before.left_ppm[:-1]
    unseen = (None,) * (passed - 1)
    return BudgetCourse(generation, part, (*kept, *unseen, left_ppm)[-PARTS:])
