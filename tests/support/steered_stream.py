"""A stream of a filled store that Tidemark steers: its bound is published, acknowledged, in effect and verified."""

from __future__ import annotations

import json
from dataclasses import replace

from sqlalchemy import select, update

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.tables import (
    AcknowledgementRow,
    PolicyRow,
    PredictionRow,
    PublishedRow,
    ReportRow,
    RolloutRow,
)
from tidemark.controller.specs.store import policy_values
from tidemark.models.protocol.messages import Report
from tidemark.models.recommend.promise import NOTHING_PROMISED
from tidemark.models.rollout.evidence import Judged
from tidemark.models.specs.slo import Policy

from support.recommendations import expected

__all__ = ["GENERATION", "report_under", "steer"]

GENERATION = 11
"""Of the published bound; ``support.full_store`` publishes ten generations before."""

BOUND_MS = 30_000


def report_under(report: Report) -> Report:
    """Return a report as a job sends it that has taken the published bound."""
    return replace(report, generation=GENERATION)


def steer(database: Database, stream_id: int) -> None:
    """Have the published bound in use since the stream's first batch.

    The policy leaves no room for another one, so that every decision confirms it.
    """
    of_stream = {"stream_id": stream_id}
    with database.write() as session:
        of_reports = select(ReportRow).where(ReportRow.stream_id == stream_id).limit(1)
        first = session.scalars(of_reports.order_by(ReportRow.id)).one()
        newest = session.scalars(of_reports.order_by(ReportRow.id.desc())).one()
        began_us = first.seen_us
        policy = Policy(mode="OnRestart", min_bound_ms=BOUND_MS, max_bound_ms=BOUND_MS)
        session.execute(
            update(PolicyRow).where(PolicyRow.stream_id == stream_id).values(policy_values(policy))
        )
        session.execute(
            update(ReportRow).where(ReportRow.stream_id == stream_id).values(generation=GENERATION)
        )
        session.add_all(
            [
                PublishedRow(
                    **of_stream,
                    generation=GENERATION,
                    mode="OnRestart",
                    bound_ms=BOUND_MS,
                    reason="the policy's limits",
                    published_us=began_us - 60_000_000,
                ),
                AcknowledgementRow(
                    **of_stream,
                    query_id=first.query_id,
                    run_id=first.run_id,
                    bound_ms=BOUND_MS,
                    generation=GENERATION,
                    source="controller",
                    mode="OnRestart",
                    applied_us=began_us - 1,
                    received_us=began_us - 1,
                    fingerprint="steered",
                ),
                PredictionRow(
                    **of_stream,
                    generation=GENERATION,
                    expected=expected(BOUND_MS, rows=1_000_000, late=1_000, events=100_000),
                    made_us=began_us - 60_000_000,
                    horizon_ms=86_400_000,
                    counted_report_id=newest.id,
                    restored_ms=json.dumps({first.query_id: first.watermark_ms}),
                    became_effective_us=began_us,
                    judged=Judged(1_000_000, 0, 0),
                ),
                RolloutRow(
                    **of_stream,
                    state="Verified",
                    reason="verified",
                    cause="Decision",
                    direction="Narrow",
                    first=True,
                    mode="OnRestart",
                    to_bound_ms=BOUND_MS,
                    generation=GENERATION,
                    slo_generation=1,
                    policy_generation=1,
                    report_id=first.id,
                    predicted=replace(NOTHING_PROMISED, rows=1_000_000, late=1_000, events=100_000),
                    created_us=began_us - 60_000_000,
                    changed_us=began_us,
                    published_us=began_us - 60_000_000,
                    acknowledged_us=began_us - 1,
                    effective_us=began_us,
                    ended_us=began_us,
                    effective_watermark_ms=first.watermark_ms,
                    at_risk_from_ms=first.watermark_ms + 60_000,
                    counted_report_id=newest.id,
                    at_risk=Judged(1_000_000, 0, 0),
                ),
            ]
        )
