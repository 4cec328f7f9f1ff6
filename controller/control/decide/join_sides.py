"""What the SLO on the output of a join asks of its sides now, and what the output lost by their ledgers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import ReportRow, StreamRow
from tidemark.controller.control.bounds.acknowledgements import own_bound_ms
from tidemark.controller.control.bounds.publication import last_published
from tidemark.controller.control.rollout.store import open_rollout
from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.evidence.join_cache import JoinCache, JointEvidence
from tidemark.controller.evidence.rollups import rollups_in, sums_of
from tidemark.controller.reports.store import newest_report
from tidemark.controller.specs.joins import StoredJoin, join_of, streams_of
from tidemark.models.base.duration import format_duration
from tidemark.models.base.target import PPM, format_share
from tidemark.models.evidence.joint_needs import JointNeeds
from tidemark.models.recommend.joint_bounds import JoinSide, lost_ppm
from tidemark.models.specs.slo import JoinSlo


@dataclass(frozen=True, slots=True)
class JoinState:
    """A join as of now."""

    streams: Sequence[StreamRow]
    """Its streams, in their order."""
    newest: Sequence[ReportRow | None]
    """The newest report of each."""
    evidence: JointEvidence
    """What is known of them together."""
    sides: Sequence[JoinSide]
    """What the SLO asks of each."""


def state_of(session: Session, join: StoredJoin, cache: JoinCache) -> JoinState:
    """Return the state of a join."""
    streams = streams_of(session, join)
    newest = [newest_report(session, stream.id) for stream in streams]
    evidence = _evidence(session, join, streams, newest, cache)
    least_ms = tuple(_least_ms(session, *one) for one in zip(streams, newest, strict=True))
    sides = [
        JoinSide(
            join=join.name,
            slo=join.slo,
            side=number,
            needs=evidence.needs,
            choice=None if evidence.unknown is not None else evidence.choice,
            unknown=evidence.unknown,
            missing_batches=evidence.missing_batches,
            least_ms=least_ms,
        )
        for number in range(len(streams))
    ]
    return JoinState(streams, newest, evidence, sides)


def side_of(session: Session, join_id: int | None, stream_id: int, cache: JoinCache) -> JoinSide | None:
    """Return what a join asks of a stream; None without a join."""
    if join_id is None:
        return None
    state = state_of(session, join_of(session, join_id), cache)
    return next(side for side in state.sides if state.streams[side.side].id == stream_id)


def _evidence(
    session: Session,
    join: StoredJoin,
    streams: Sequence[StreamRow],
    newest: Sequence[ReportRow | None],
    cache: JoinCache,
) -> JointEvidence:
    reported = [row for row in newest if row is not None]
    if len(reported) == len(streams) and len({row.query_id for row in reported}) == 1:
        return cache.evidence(session, streams, reported, join.slo, join.choice)
    unknown = " and ".join(
        f"{stream.stream} has not reported"
        if row is None
        else f"{stream.stream} reports from query {row.query_id}"
        for stream, row in zip(streams, newest, strict=True)
    )
    return JointEvidence(needs=JointNeeds.nothing(join.slo.streams), unknown=unknown)


def _least_ms(session: Session, stream: StreamRow, newest: ReportRow | None) -> int | None:
    """Return the least bound that a stream has, or takes up without another decision; None when it is not known."""
    published, rollout = last_published(session, stream.id), open_rollout(session, stream.id)
    published_ms = None if published is None else published.bound_ms
    bounds_ms = [
        None if newest is None else newest.bound_ms,
        own_bound_ms(session, stream.id) if published_ms is None else published_ms,
        None if rollout is None else rollout.to_bound_ms,
    ]
    return min((bound_ms for bound_ms in bounds_ms if bound_ms is not None), default=None)


# -- what was lost ---------------------------------------------------------------------------------------------------

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
        sums = None
        if row is not None:
            sums = sums_of(rollups_in(session, Horizon(row.stream_id, slo.window_ms, row).span))
        judged.append(
            (0, 0, 0)
            if sums is None
            else (sums.counted, sums.sums["late_min"], sums.sums["late_max"] + sums.unjudged)
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
