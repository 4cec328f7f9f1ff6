"""What the output of a join lost over its SLO's window, by the ledgers of its streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from tidemark.controller.db.tables import ReportRow
from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.evidence.series import series_sums
from tidemark.controller.joins.store import join_of, streams_of
from tidemark.controller.reports.store import newest_report
from tidemark.models.base.duration import format_duration
from tidemark.models.base.target import PPM, format_share
from tidemark.models.recommend.joint_bounds import lost_ppm
from tidemark.models.specs.slo import JoinSlo

Judged = tuple[int, int, int]
"""Rows of a side that were judged, how many of them were late for sure, and how many may have been."""


@dataclass(frozen=True, slots=True)
class JoinMiss:
    """A join whose output misses its target for sure."""

    join: str
    """Its name."""
    slo: JoinSlo
    """The SLO on its output."""
    lost_min_ppm: int
    """Minimum share of the pairs lost over the SLO's window, in parts per million: more than the budget."""

    @property
    def text(self) -> str:
        """The same as a sentence."""
        return (
            f"join {self.join} lost at least {format_share(self.lost_min_ppm)} of its pairs over "
            f"{format_duration(self.slo.window_ms * 1_000)}; its target, {format_share(self.slo.target_ppm)}, allows "
            f"{format_share(PPM - self.slo.target_ppm)}"
        )


def judged_in(session: Session, slo: JoinSlo, newest: Sequence[ReportRow | None]) -> list[Judged]:
    """Return what was judged of each side over the SLO's window, up to the newest report of each."""
    judged = []
    for row in newest:
        sums = None if row is None else series_sums(session, Horizon(row.stream_id, slo.window_ms, row).span)
        judged.append(
            (0, 0, 0) if sums is None else (sums.counted, sums.late_min, sums.late_max + sums.unjudged)
        )
    return judged


def miss_of(session: Session, join_id: int | None) -> JoinMiss | None:
    """Return by what the output of a join misses its target for sure; None without a join, or when it may meet it."""
    if join_id is None:
        return None
    join = join_of(session, join_id)
    newest = [newest_report(session, stream.id) for stream in streams_of(session, join)]
    lost = lost_ppm(judged_in(session, join.slo, newest))
    if lost is None or lost[0] <= PPM - join.slo.target_ppm:
        return None
    return JoinMiss(join.name, join.slo, lost[0])
