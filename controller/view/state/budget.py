"""The budget of a stream: how much may be lost over the SLO's window, and how much is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import ReportRow
from tidemark.controller.evidence.horizon import Horizon, facts_from
from tidemark.controller.evidence.rollups import Sums, rollups_in, sums_of
from tidemark.controller.evidence.windows import closed_windows, passed_us
from tidemark.controller.view.state.answers import Budget
from tidemark.models.base.target import PPM
from tidemark.models.specs.slo import Slo


@dataclass(frozen=True, slots=True)
class Spent:
    """What counts for a budget, and how much of it was bad."""

    counted: int
    """(Row, key) pairs that arrived, or windows that the watermark has passed."""
    bad_min: int
    """How many were bad for sure."""
    bad_max: int
    """How many may have been."""
    share_ppm: int
    """Share of them that must be good, in parts per million."""

    @property
    def min_ppm(self) -> int | None:
        """Minimum share that was good, rounded down; None when nothing counts."""
        return (self.counted - self.bad_max) * PPM // self.counted if self.counted else None

    @property
    def max_ppm(self) -> int | None:
        """Maximum share that was good; None when nothing counts."""
        return (self.counted - self.bad_min) * PPM // self.counted if self.counted else None

    @property
    def allowed(self) -> int:
        """How many may be bad."""
        return self.counted * (PPM - self.share_ppm) // PPM

    @property
    def remaining_ppm(self) -> int | None:
        """Minimum share of that which is left; negative when overdrawn, None when nothing may be bad."""
        return (self.allowed - self.bad_max) * PPM // self.allowed if self.allowed else None


def read_spent(session: Session, horizon: Horizon, slo: Slo) -> Spent:
    """Return what counts for the budget over the SLO's window, which ``horizon`` is."""
    if slo.objective == "timeslices":
        until_us = passed_us(horizon.newest)
        windows = closed_windows(
            session, horizon.stream_id, slo.target_ppm, until_us - slo.window_ms * 1_000, until_us
        )
        good_min, good_max = windows.good, windows.maybe_good
        return Spent(
            windows.closed, windows.closed - good_max, windows.closed - good_min, slo.good_windows_ppm
        )
    return _spent_rows(sums_of(rollups_in(session, horizon.span)), slo)


def _spent_rows(sums: Sums | None, slo: Slo) -> Spent:
    if sums is None:
        return Spent(0, 0, 0, slo.target_ppm)
    return Spent(sums.counted, sums.sums["late_min"], sums.sums["late_max"] + sums.unjudged, slo.target_ppm)


def read_budget(session: Session, newest: ReportRow, slo: Slo, *, provisional: bool) -> Budget:
    """Return the budget of a stream.

    Args:
        provisional: whether rows of its windows can still come.
    """
    horizon = Horizon(newest.stream_id, slo.window_ms, newest)
    sums = sums_of(rollups_in(session, horizon.span))
    assert sums is not None, "it has a newest batch"
    facts = facts_from(session, horizon, sums)
    spent = read_spent(session, horizon, slo) if slo.objective == "timeslices" else _spent_rows(sums, slo)
    return Budget.of(
        spent,
        objective=slo.objective,
        window_ms=slo.window_ms,
        from_us=facts.from_us,
        missing_batches=facts.missing_batches,
        provisional=provisional,
    )


PARTS: Final = 24
"""Parts of the window that are kept."""


@dataclass(frozen=True, slots=True)
class BudgetCourse:
    """What was left of the budget in each part of the window. Nulls are parts without a snapshot that knew it.

    Each snapshot adds what it finds to what the one before kept, so that a list of many streams reads no history.
    """

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
        left_ppm: what is left of the budget; None when unknown.
    """
    part = now_us * PARTS // (window_ms * 1_000)
    if before is None or before.generation != generation or before.part > part:
        return BudgetCourse(generation, part, (left_ppm,))
    passed = min(part - before.part, PARTS)
    kept = before.left_ppm if passed else before.left_ppm[:-1]
    unseen = (None,) * (passed - 1)
    return BudgetCourse(generation, part, (*kept, *unseen, left_ppm)[-PARTS:])
