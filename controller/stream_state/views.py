"""From what the store holds to what the controller answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict, cast

from sqlalchemy.orm import Session

from tidemark.controller.api import schemas
from tidemark.controller.bounds.acknowledgements import last_acknowledgement
from tidemark.controller.bounds.publication import NO_REPORT, OFF, answer_of, last_published
from tidemark.controller.db.tables import AcknowledgementRow, PublishedRow, RecommendationRow, StreamRow
from tidemark.controller.decide.ceiling import room_in
from tidemark.controller.decide.decider import is_current
from tidemark.controller.decide.situation import progress_in
from tidemark.controller.decide.stored_steps import steps_of
from tidemark.controller.evidence.horizon import Horizon, effective_bound_of, facts, horizon_of, open_keys
from tidemark.controller.partitions.store import FutureRows, future_rows_in
from tidemark.controller.pins.store import StandingPin, pin_in_force
from tidemark.controller.rollout.store import missed_rollout, newest_rollout
from tidemark.controller.rollout.views import rollout_answer
from tidemark.controller.specs.store import DEFAULT_HORIZON_MS, Spec, get_policy, get_slo, paused_why
from tidemark.controller.stream_state.budget import budget_of
from tidemark.controller.stream_state.conditions import Seen, conditions_of
from tidemark.controller.stream_state.live import KeptLive, NewestState, newest_state
from tidemark.controller.stream_state.overview_store import Skewed, skewed_in
from tidemark.models.coverage import Coverage
from tidemark.models.curve import CurvePoint
from tidemark.models.horizon import Facts
from tidemark.models.progress import UNKNOWN_PROGRESS, Progress
from tidemark.models.quantile import min_samples
from tidemark.models.slo import Policy, Slo
from tidemark.models.target import PPM, format_target
from tidemark.models.wire import AppendDelay, BoundAnswer, BoundSource, LatencyUnknown

__all__ = [
    "Known",
    "applied_answer",
    "bound_answer",
    "conditions_now",
    "latency_answer",
    "milliseconds",
    "pin_answer",
    "policy_answer",
    "published_answer",
    "recommended_answer",
    "share_ppm",
    "slo_answer",
    "stream_status",
    "stream_summary",
    "transition_answer",
]

MAX_RANGES = 100
"""How many ranges of missing batches are listed for a query, the newest first to stay."""


def slo_answer(slo: Spec[Slo]) -> schemas.SloAnswer:
    """Return an SLO as it is answered."""
    value = slo.value
    return schemas.SloAnswer(
        target=format_target(value.target_ppm),
        target_ppm=value.target_ppm,
        latency_cap_ms=value.latency_cap_ms,
        on_conflict=value.on_conflict,
        confidence_ppm=value.confidence_ppm,
        horizon_ms=value.horizon_ms,
        objective=value.objective,
        good_windows_ppm=value.good_windows_ppm,
        window_ms=value.window_ms,
        state_cap_rows=value.state_cap_rows,
        worst_window_ppm=value.worst_window_ppm,
        generation=slo.generation,
        updated_us=slo.updated_us,
    )


def policy_answer(policy: Spec[Policy]) -> schemas.PolicyAnswer:
    """Return a policy as it is answered."""
    value = policy.value
    return schemas.PolicyAnswer(
        mode=value.mode,
        min_bound_ms=value.min_bound_ms,
        max_bound_ms=value.max_bound_ms,
        directions=list(value.directions),
        margin_ppm=value.margin_ppm,
        cooldown_ms=value.cooldown_ms,
        max_narrowings_a_day=value.max_narrowings_a_day,
        max_narrowing_ppm=value.max_narrowing_ppm,
        evidence_ms=value.evidence_ms,
        evidence_windows=value.evidence_windows,
        freeze_windows=[
            schemas.Freeze(days=list(window.days), from_minute=window.from_minute, to_minute=window.to_minute)
            for window in value.freeze_windows
        ],
        paused=value.paused,
        on_no_data=value.on_no_data,
        approval=value.approval,
        generation=policy.generation,
        updated_us=policy.updated_us,
    )


def bound_answer(session: Session, job: str, stream: str, row: StreamRow | None) -> BoundAnswer:
    """Return what a job that asks for its bound is told; ``row`` is None for a stream that nothing is known of."""
    published = None if row is None else last_published(session, row.id)
    if published is None:
        known = row is not None and row.registered_us is not None
        pin = pin_in_force(session, job, stream)
        reason = OFF if known else NO_REPORT
        return BoundAnswer(
            job=job,
            stream=stream,
            mode="Off",
            generation=0,
            bound_ms=None,
            reason=reason if pin is None else f"pinned to {pin.to} ({pin.why}): {reason}",
            pin=None if pin is None else pin.to,
        )
    answer = answer_of(published)
    return BoundAnswer(
        job=job,
        stream=stream,
        mode=answer.mode,
        generation=published.generation,
        bound_ms=answer.bound_ms,
        reason=answer.reason,
        envelope=answer.envelope,
        pin=answer.pin,
    )


def stream_summary(session: Session, row: StreamRow) -> schemas.StreamSummary:
    """Return a stream as it is listed."""
    slo, applied = get_slo(session, row.id), last_acknowledgement(session, row.id)
    recommendation = session.get(RecommendationRow, row.id)
    return schemas.StreamSummary(
        job=row.job,
        stream=row.stream,
        mode=get_policy(session, row.id).value.mode,
        registered_us=row.registered_us,
        target=None if slo is None else format_target(slo.value.target_ppm),
        recommended_bound_ms=None if recommendation is None else recommendation.bound_ms,
        applied_bound_ms=None if applied is None else applied.bound_ms,
    )


def stream_status(session: Session, row: StreamRow, now_us: int) -> schemas.StreamStatus:
    """Return all that is known of a stream."""
    slo, policy = get_slo(session, row.id), get_policy(session, row.id).value
    horizon_ms = DEFAULT_HORIZON_MS if slo is None else slo.value.horizon_ms
    horizon = horizon_of(session, row.id, horizon_ms)
    known = None if horizon is None else facts(session, horizon)
    published = last_published(session, row.id)
    recommendation = session.get(RecommendationRow, row.id)
    applied = last_acknowledgement(session, row.id)
    answer = bound_answer(session, row.job, row.stream, row)
    pin = pin_in_force(session, row.job, row.stream)
    progress = UNKNOWN_PROGRESS if horizon is None else progress_in(session, horizon, now_us)
    state = NewestState() if horizon is None else newest_state(session, horizon.newest)
    rollout = newest_rollout(session, row.id)
    return schemas.StreamStatus(
        job=row.job,
        stream=row.stream,
        mode=policy.mode,
        registered_us=row.registered_us,
        slo=None if slo is None else slo_answer(slo),
        recommended=recommended_answer(session, recommendation, published),
        transition=transition_answer(recommendation),
        published=published_answer(answer),
        applied=None if applied is None else applied_answer(applied),
        in_use_bound_ms=None if horizon is None else horizon.newest.bound_ms,
        effective_bound_ms=None if horizon is None else effective_bound_of(session, horizon.newest),
        pin=pin_answer(pin),
        live=_live(state.live),
        append_delay=_append_delay(state.append_delay),
        evidence=_evidence(known, horizon_ms, slo),
        coverage=[] if known is None else [_query(name, query) for name, query in known.coverage.items()],
        completeness=_completeness(session, horizon, known),
        budget=None if slo is None else budget_of(session, row.id, slo.value),
        rollout=None if rollout is None else rollout_answer(rollout, row),
        conditions=conditions_now(session, row, Known(slo, horizon, known, progress, state)),
    )


class Latencies(TypedDict):
    """What is answered of a mean wall latency."""

    latency_wall_ms: int | None
    latency_at_least_ms: int | None
    latency_unknown: LatencyUnknown | None


@dataclass(frozen=True, slots=True)
class Known:
    """What has been read of a stream already."""

    slo: Spec[Slo] | None
    """Its SLO."""
    horizon: Horizon | None
    """Its horizon."""
    facts: Facts | None
    """The sums over it."""
    progress: Progress
    """How it has been getting on."""
    state: NewestState
    """What the newest report said of live control."""


def conditions_now(
    session: Session,
    row: StreamRow,
    known: Known,
    skewed: Sequence[Skewed] | None = None,
) -> list[schemas.Condition]:
    """Return the conditions that hold.

    Args:
        session: the session.
        row: the stream.
        known: what has been read already.
        skewed: the partitions that are skewed; None: those that were when it was looked at last.
    """
    policy, horizon = get_policy(session, row.id).value, known.horizon
    return conditions_of(
        Seen(
            stream=row,
            slo=known.slo,
            mode=policy.mode,
            facts=known.facts,
            progress=known.progress,
            recommendation=session.get(RecommendationRow, row.id),
            published=last_published(session, row.id),
            applied=last_acknowledgement(session, row.id),
            pin=pin_in_force(session, row.job, row.stream),
            rollout=newest_rollout(session, row.id),
            missed=missed_rollout(session, row.id),
            paused=policy.paused,
            paused_why=paused_why(session, row.id),
            contradiction=known.state.contradiction,
            live=known.state.live,
            room=room_in(session, row.id, horizon, known.progress.batch_gap_us),
            future=FutureRows(0, ()) if horizon is None else future_rows_in(session, horizon),
            skewed=skewed_in(session, row.id) if skewed is None else skewed,
        )
    )


def share_ppm(part: int, whole: int) -> int | None:
    """Return ``part / whole`` in parts per million, rounded down so that 1,000,000 means all; None of nothing."""
    return part * PPM // whole if whole else None


def published_answer(answer: BoundAnswer) -> schemas.Published:
    """Return what a job is told as the status has it."""
    return schemas.Published(
        bound_ms=answer.bound_ms,
        generation=answer.generation,
        reason=answer.reason,
        envelope=answer.envelope,
        pin=answer.pin,
    )


def recommended_answer(
    session: Session, row: RecommendationRow | None, published: PublishedRow | None
) -> schemas.Recommended | None:
    """Return a recommendation as it is answered; ``published`` is what is published to the job."""
    if row is None:
        return None
    found = (
        published is not None
        and published.mode != "Off"
        and published.pin is None
        and published.bound_ms == row.bound_ms
    )
    return schemas.Recommended(
        bound_ms=row.bound_ms,
        generation=published.generation
        if found and published is not None and row.bound_ms is not None
        else None,
        decided_us=row.decided_us,
        current=is_current(session, row),
        steps=[
            schemas.Step(name=step.name, bound_ms=step.bound_ms, reason=step.reason) for step in steps_of(row)
        ],
    )


def transition_answer(row: RecommendationRow | None) -> schemas.Transition | None:
    """Return what taking up a recommendation will do."""
    if row is None or row.transition is None:
        return None
    found = json.loads(row.transition)
    if "latency_unknown" not in found:
        # An earlier release told what was measured and what was not as one.
        found |= {"latency_wall_us": None, "latency_at_least_us": None, "latency_unknown": "NoWindows"}
    for name in ("from_bound", "bound", "stands_still", "latency_base", "latency_wall", "latency_at_least"):
        found[f"{name}_ms"] = milliseconds(found.pop(f"{name}_us"))
    return schemas.Transition(**found)


def latency_answer(point: CurvePoint) -> Latencies:
    """Return the mean wall latency of a point of a curve, as far as it is known."""
    wall = point.latency_wall
    return {
        "latency_wall_ms": None if wall is None or wall.censored else round(wall.mean_us / 1_000),
        "latency_at_least_ms": round(wall.mean_us / 1_000) if wall is not None and wall.censored else None,
        "latency_unknown": point.latency_unknown,
    }


def milliseconds(time_us: int | None) -> int | None:
    """Return a time in whole milliseconds, None of the unknown."""
    return None if time_us is None else round(time_us / 1_000)


def applied_answer(row: AcknowledgementRow) -> schemas.Applied:
    """Return an acknowledgement as the status has it."""
    return schemas.Applied(
        bound_ms=row.bound_ms,
        generation=row.generation,
        source=cast("BoundSource", row.source),
        query_id=row.query_id,
        run_id=row.run_id,
        applied_us=row.applied_us,
        ceiling_ms=row.ceiling_ms,
    )


def pin_answer(pin: StandingPin | None) -> schemas.PinInForce | None:
    """Return the pin in force as the status has it; None for none."""
    if pin is None:
        return None
    return schemas.PinInForce(to=pin.to, scope=pin.scope.kind, reason=pin.reason, since_us=pin.since_us)


def _live(live: KeptLive | None) -> schemas.Live | None:
    if live is None:
        return None
    return schemas.Live(
        control_ms=live.control_ms,
        ceiling_ms=live.ceiling_ms,
        ceiling_used_ppm=live.ceiling_used_ppm,
        behind=list(live.behind),
        behind_partitions=live.behind_partitions,
        idle=list(live.idle),
        idle_partitions=live.idle_partitions,
        reason=live.reason,
        last_contact_us=live.last_contact_us,
        pin=live.pin,
    )


def _append_delay(delay: AppendDelay | None) -> schemas.AppendDelaySeen | None:
    if delay is None:
        return None
    return schemas.AppendDelaySeen(
        rows=delay.rows,
        min_ms=delay.min_us // 1_000,
        mean_ms=delay.mean_us // 1_000,
        max_ms=delay.max_us // 1_000,
        by_broker=delay.by_broker,
    )


def _evidence(known: Facts | None, horizon_ms: int, slo: Spec[Slo] | None) -> schemas.Evidence:
    return schemas.Evidence(
        rows=known.need_pairs if known else 0,
        rows_needed=None
        if slo is None
        else min_samples(slo.value.target_ppm / PPM, slo.value.confidence_ppm / PPM),
        unknown_rows=known.unknown_rows if known else 0,
        early_rows=known.early_rows if known else 0,
        batches=known.batches if known else 0,
        missing_batches=known.missing_batches if known else 0,
        partitions=known.partitions if known else 0,
        horizon_ms=horizon_ms,
        from_us=known.from_us if known else None,
        to_us=known.to_us if known else None,
    )


def _query(query_id: str, coverage: Coverage) -> schemas.QueryCoverage:
    return schemas.QueryCoverage(
        query_id=query_id,
        first=coverage.first,
        last=coverage.last,
        missing_batches=coverage.missing_batches,
        missing=[
            schemas.MissingRange(first=first, last=last) for first, last in coverage.missing[-MAX_RANGES:]
        ],
    )


def _completeness(session: Session, horizon: Horizon | None, known: Facts | None) -> schemas.Completeness:
    if horizon is None or known is None:
        return schemas.Completeness(
            rows=0,
            late_min=0,
            late_max=0,
            unjudged_rows=0,
            missing_batches=0,
            min_ppm=None,
            max_ppm=None,
            exact=False,
            provisional=True,
        )
    found = known.completeness
    every = found.rows + found.unjudged_rows
    return schemas.Completeness(
        rows=found.rows,
        late_min=found.late_min,
        late_max=found.late_max,
        unjudged_rows=found.unjudged_rows,
        missing_batches=found.missing_batches,
        min_ppm=share_ppm(found.rows - found.late_max, every),
        max_ppm=share_ppm(every - found.late_min, every),
        exact=found.exact,
        provisional=open_keys(session, horizon.newest),
    )
