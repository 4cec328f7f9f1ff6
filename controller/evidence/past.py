"""A span of the past: needs, sums and emissions of its batches, as far as they are stored."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import ReportRow, RollupRow
from tidemark.controller.evidence.horizon import emissions_in
from tidemark.controller.evidence.hourly_sums import Sums, sums_in
from tidemark.controller.evidence.needs import Span, levels_of, needs_in
from tidemark.controller.reports.store import NEWEST_FIRST
from tidemark.models.evidence.curve import Curve


@dataclass(frozen=True, slots=True)
class Past:
    """What is known about a stream over a span that begins and ends on the edges of slots."""

    span: Span
    """The span; it contains the requested one, as far as that is stored."""
    sums: Sums | None
    """Sums of its reports; None without any."""
    curve: Curve
    """Completeness and latency by bound; without latency where the reports are deleted."""
    bound_ms: int | None
    """The bound in use in its newest batch; None where its reports are deleted."""


def past_of(session: Session, stream_id: int, from_us: int, until_us: int) -> Past:
    """Return what is known about a stream from ``from_us`` to ``until_us``.

    Older needs are stored by the hour or the day, so the span is widened to the edges of such slots.
    """
    rollup = session.get(RollupRow, stream_id)
    levels = levels_of(rollup)
    start_us, end_us = levels.slot_us(from_us), levels.ceiling_us(until_us)
    if rollup is not None:
        start_us = max(start_us, rollup.needs_from_us)
    span = Span(stream_id, start_us, max(start_us, end_us))
    newest = session.scalars(
        select(ReportRow).where(*span.reports).order_by(*NEWEST_FIRST).limit(1)
    ).one_or_none()
    whole = rollup is None or start_us >= rollup.reports_from_us
    emissions = emissions_in(session, span, newest) if newest is not None and whole else None
    return Past(
        span,
        sums_in(session, span),
        Curve(needs_in(session, span), emissions),
        None if newest is None else newest.bound_ms,
    )
