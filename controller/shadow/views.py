"""Shadows as the API answers them."""

from __future__ import annotations

from sqlalchemy.orm import Session

from tidemark.controller.api.schemas.shadow import ShadowAnswer, ShadowDay, ShadowOutcome
from tidemark.controller.api.views import step_answers
from tidemark.controller.db.tables import ShadowDayRow
from tidemark.controller.decide.stored_steps import steps_of
from tidemark.controller.runtime.answer import share_ppm
from tidemark.controller.shadow.store import StoredShadow, days_of, total_of
from tidemark.controller.specs.store import Spec, get_policy
from tidemark.models.recommend.steps import because
from tidemark.models.rollout.shadow import ShadowTally
from tidemark.models.spec_fields import values_of
from tidemark.models.specs.shadow_slo import why_not_tried
from tidemark.models.specs.slo import Slo


def shadow_answer(
    session: Session, shadow: StoredShadow, slo: Spec[Slo] | None, *, dry_run: bool = False
) -> ShadowAnswer:
    """Return a shadow as it is answered.

    Args:
        session: the session.
        shadow: the shadow.
        slo: the SLO in force.
        dry_run: whether nothing was changed.
    """
    row, days = shadow.row, days_of(session, shadow.row.stream_id)
    total, steps = total_of(days), steps_of(row)
    in_use_bound_ms = days[0].in_use_bound_ms if days else None
    return ShadowAnswer(
        **values_of(shadow.tried),
        dry_run=dry_run,
        since_us=row.since_us,
        reason=row.reason,
        decided_us=row.decided_us,
        because=because(steps) if steps else None,
        steps=step_answers(steps),
        in_use=_in_use(in_use_bound_ms, total),
        shadow=_shadow(row.bound_ms, total),
        days=[_day(day) for day in days],
        notes=_notes(session, shadow, slo, total),
    )


def _day(day: ShadowDayRow) -> ShadowDay:
    counted = total_of([day])
    return ShadowDay(
        from_us=day.day_us,
        in_use=_in_use(day.in_use_bound_ms, counted),
        shadow=_shadow(day.bound_ms, counted),
    )


def _in_use(bound_ms: int | None, found: ShadowTally) -> ShadowOutcome:
    return _outcome(
        bound_ms,
        (found.judged_rows, found.late_min, found.late_max, found.unjudged_rows),
        found.in_use_windows,
        found.in_use_latency_ms,
    )


def _shadow(bound_ms: int | None, found: ShadowTally) -> ShadowOutcome:
    return _outcome(
        bound_ms,
        (found.rows, found.late, found.late, found.unknown_rows),
        found.windows,
        found.latency_ms,
    )


def _outcome(
    bound_ms: int | None, counts: tuple[int, int, int, int], windows: int, latency_ms: int
) -> ShadowOutcome:
    rows, late_min, late_max, unknown = counts
    return ShadowOutcome(
        bound_ms=bound_ms,
        rows=rows,
        late_min=late_min,
        late_max=late_max,
        unknown_rows=unknown,
        completeness_min_ppm=share_ppm(rows - late_max, rows),
        completeness_max_ppm=share_ppm(rows - late_min, rows),
        windows=windows,
        latency_wall_ms=round(latency_ms / windows) if windows else None,
    )


def _notes(session: Session, shadow: StoredShadow, slo: Spec[Slo] | None, found: ShadowTally) -> list[str]:
    notes = []
    why = None if slo is None else why_not_tried(slo.value, joined=slo.join_id is not None)
    if why is not None:
        notes.append(f"it is not decided or counted any more: {why}")
    elif shadow.row.decided_us is None:
        notes.append("it is not decided yet: that takes a report")
    elif shadow.row.bound_ms is None:
        notes.append("it has recommended no bound yet, so the bound in use counts for it")
    if get_policy(session, shadow.row.stream_id).value.mode == "Live":
        notes.append("the job runs in Live, but the shadow counts what one bound for all partitions would do")
    if found.unknown_rows or found.unjudged_rows:
        notes.append("the rows whose fate is unknown are left out of the shares")
    return notes
