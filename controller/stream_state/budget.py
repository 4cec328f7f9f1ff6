"""The budget of a stream: how much may be lost over the SLO's window, and how much is."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session

from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.evidence.series import series_sums
from tidemark.controller.evidence.windows import closed_windows
from tidemark.models.base.granules import SPARK_TICK_US
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


def spent_in(session: Session, horizon: Horizon, slo: Slo) -> Spent:
    """Return what counts for the budget over the SLO's window, which ``horizon`` is."""
    if slo.objective == "timeslices":
        until_us = horizon.newest.watermark_ms * SPARK_TICK_US
        windows = closed_windows(
            session, horizon.stream_id, slo.target_ppm, until_us - slo.window_ms * 1_000, until_us
        )
        good_min, good_max = windows.good, windows.maybe_good
        return Spent(
            windows.closed, windows.closed - good_max, windows.closed - good_min, slo.good_windows_ppm
        )
    sums = series_sums(session, horizon.span)
    if sums is None:
        return Spent(0, 0, 0, slo.target_ppm)
    return Spent(sums.counted, sums.late_min, sums.late_max + sums.unjudged, slo.target_ppm)
