"""What lists of streams and of jobs show: a verdict of now, the newest snapshots, and a part of a stream's state."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import Row, Select, and_, bindparam, func, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.base.db.tables import (
    KNOWN,
    AcknowledgementRow,
    OverviewRow,
    PolicyRow,
    PublishedRow,
    RecommendationRow,
    ReportRow,
    RolloutRow,
    SloRow,
    StreamRow,
)
from tidemark.controller.control.bounds.acknowledgements import newest_acknowledgement_query
from tidemark.controller.control.bounds.publication import newest_generation_query
from tidemark.controller.control.rollout.store import newest_rollout_query
from tidemark.controller.reports.store import newest_report_query
from tidemark.controller.specs.pins import pins_in_force
from tidemark.controller.view.state.answers import ConditionSummary, summary_of
from tidemark.controller.view.state.condition_types import CONDITION_TYPES, ConditionType
from tidemark.controller.view.state.overviews import QUIET_US, SOON_US
from tidemark.models.base.defaults import MIN_BATCHES_OF_A_PACE, NO_DATA_GAPS
from tidemark.models.protocol.messages import Mode
from tidemark.models.specs.pin import StoredPin


def load_fleet(session: Session, stream_ids: Collection[int]) -> list[tuple[Row[Any], StoredPin | None]]:
    """Return streams as the list of the fleet shows them, each with the pin that holds it, in the given order."""
    by_id = {row.id: row for row in session.execute(_FLEET, {"ids": [*stream_ids]})}
    states = [by_id[stream_id] for stream_id in stream_ids]
    pins = pins_in_force(session, [(state.job, state.stream) for state in states])
    return [(state, pins.get((state.job, state.stream))) for state in states]


# Built once: building it takes longer than running it for a few streams.
_FLEET: Select[*tuple[Any, ...]] = (
    select(
        StreamRow.id,
        StreamRow.job,
        StreamRow.stream,
        StreamRow.registered_us,
        SloRow.generation.label("slo_generation"),
        SloRow.target_ppm,
        func.coalesce(PolicyRow.mode, "Off").label("mode"),
        PolicyRow.paused,
        RecommendationRow.bound_ms.label("recommended_bound_ms"),
        PublishedRow.bound_ms.label("published_bound_ms"),
        AcknowledgementRow.bound_ms.label("applied_bound_ms"),
        ReportRow.started_us.label("last_batch_us"),
        ReportRow.bound_ms.label("in_use_bound_ms"),
        OverviewRow,
        RolloutRow,
    )
    .outerjoin(SloRow, SloRow.stream_id == StreamRow.id)
    .outerjoin(PolicyRow, PolicyRow.stream_id == StreamRow.id)
    .outerjoin(RecommendationRow, RecommendationRow.stream_id == StreamRow.id)
    .outerjoin(OverviewRow, OverviewRow.stream_id == StreamRow.id)
    .outerjoin(
        PublishedRow,
        and_(PublishedRow.stream_id == StreamRow.id, PublishedRow.generation == newest_generation_query()),
    )
    .outerjoin(AcknowledgementRow, AcknowledgementRow.id == newest_acknowledgement_query())
    .outerjoin(RolloutRow, RolloutRow.id == newest_rollout_query())
    .outerjoin(ReportRow, ReportRow.id == newest_report_query())
    .where(StreamRow.id.in_(bindparam("ids", expanding=True)))
)


SNAPSHOT_OLD_US = 2 * QUIET_US
"""A snapshot that is older says nothing of the present: each stream gets one within half of that, in microseconds.
The first one is due ``SOON_US`` after the first report."""

_UNKNOWN_NOW: frozenset[ConditionType] = frozenset({"NoRecentReport", "VerdictOld"})
"""Conditions under which what is stored of a stream may not hold any more."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of a stream as of now: nothing that time alone ends, or brings, is taken from a snapshot."""

    id: int
    job: str
    stream: str
    mode: Mode
    remaining_ppm: int | None
    """What is left of its budget; None when unknown."""
    conditions: Sequence[ConditionType]
    """Its conditions, the worst first."""

    @property
    def place(self) -> tuple[int | str, ...]:
        """Where it stands in the fleet: silent ones first, then the smallest budget, unknown ones last."""
        is_current = _UNKNOWN_NOW.isdisjoint(self.conditions)
        left = self.remaining_ppm
        return int(is_current), int(left is None), left or 0, self.job, self.stream

    @property
    def worst(self) -> ConditionSummary | None:
        """The worst of its conditions; None without any."""
        return summary_of(self.conditions[0]) if self.conditions else None


def read_verdicts(session: Session, now_us: int, jobs: Collection[str] | None = None) -> list[Verdict]:
    """Return the verdicts of now on the streams of some jobs, by default of all, the first in the fleet first."""
    wanted, parameters = (_VERDICTS, {}) if jobs is None else (_OF_JOBS, {"jobs": [*jobs]})
    verdicts = [_verdict(row, now_us) for row in session.connection().execute(wanted, parameters)]
    return sorted(verdicts, key=lambda verdict: verdict.place)


def _verdict(row: Row[Any], now_us: int) -> Verdict:
    kinds = {*json.loads(row.conditions or "[]")} - {"NoRecentReport", "NoSlo"}
    if row.slo is None:
        kinds |= {"NoSlo"}
    if row.received_us is None:
        kinds |= {"NoReportYet"}
    elif now_us > (row.registered_us + SOON_US if row.seen_us is None else row.seen_us + SNAPSHOT_OLD_US):
        kinds |= {"VerdictOld"}
    if not row.paused and (gap_us := _gap_us(row)) and now_us - row.received_us > NO_DATA_GAPS * gap_us:
        kinds |= {"NoRecentReport"}
    conditions = sorted(kinds, key=[*CONDITION_TYPES].index)
    remaining_ppm = None if "VerdictOld" in kinds else row.remaining_ppm
    return Verdict(row.id, row.job, row.stream, row.mode, remaining_ppm, conditions)


def _gap_us(row: Row[Any]) -> int | None:
    """Return the typical time between two batches; before a snapshot knows it, their mean since the first report."""
    if row.gap_us is not None or row.received_us is None or row.reports < MIN_BATCHES_OF_A_PACE:
        return cast("int | None", row.gap_us)
    mean_us: int = (row.received_us - row.registered_us) // (row.reports - 1)
    return mean_us


_NEWEST = aliased(ReportRow)
_VERDICTS: Select[*tuple[Any, ...]] = (
    select(
        StreamRow.id,
        StreamRow.job,
        StreamRow.stream,
        StreamRow.registered_us,
        StreamRow.reports,
        func.coalesce(PolicyRow.mode, "Off").label("mode"),
        PolicyRow.paused,
        SloRow.generation.label("slo"),
        OverviewRow.seen_us,
        OverviewRow.conditions,
        OverviewRow.batch_gap_us.label("gap_us"),
        OverviewRow.remaining_ppm,
        _NEWEST.received_us,
    )
    .outerjoin(SloRow, SloRow.stream_id == StreamRow.id)
    .outerjoin(PolicyRow, PolicyRow.stream_id == StreamRow.id)
    .outerjoin(OverviewRow, OverviewRow.stream_id == StreamRow.id)
    .outerjoin(_NEWEST, _NEWEST.id == newest_report_query())
    .where(KNOWN)
)
_OF_JOBS = _VERDICTS.where(StreamRow.job.in_(bindparam("jobs", expanding=True)))


def list_savings(session: Session, job: str | None = None) -> Sequence[Row[Any]]:
    """Return of each known stream, of a job or of all, when it had its newest snapshot, and what it would save then."""
    wanted: Select[*tuple[Any, ...]] = (
        select(StreamRow.job, StreamRow.stream, OverviewRow.seen_us, OverviewRow.savings)
        .outerjoin(OverviewRow, OverviewRow.stream_id == StreamRow.id)
        .where(KNOWN)
    )
    return session.execute(wanted if job is None else wanted.where(StreamRow.job == job)).all()
