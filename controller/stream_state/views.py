"""The status of a stream as the API answers it."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy.orm import Session

from tidemark.controller.alerts.destinations import Destination, destinations_of
from tidemark.controller.api import schemas
from tidemark.controller.api.units import share_ppm
from tidemark.controller.bounds.views import applied_answer, published_answer
from tidemark.controller.decide.views import recommended_answer, transition_answer
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.evidence.horizon import open_keys
from tidemark.controller.rollout.views import rollout_answer
from tidemark.controller.stream_state.budget import budget_of
from tidemark.controller.stream_state.conditions import conditions_of
from tidemark.controller.stream_state.live import NewestState
from tidemark.controller.stream_state.load import load_horizon, load_state
from tidemark.controller.stream_state.state import HorizonState, StreamState
from tidemark.controller.stream_state.summary import summary_of
from tidemark.models.base.quantile import min_samples
from tidemark.models.base.target import PPM
from tidemark.models.evidence.coverage import Coverage
from tidemark.models.protocol.late_policy import late_text
from tidemark.models.protocol.messages import AppendDelay

_MAX_RANGES = 100
"""How many ranges of missing batches are listed for a query, the newest ones."""


def stream_status(
    session: Session,
    stream_id: int,
    now_us: int,
    kept: EvidenceCache,
    destinations: Mapping[str, Destination],
) -> schemas.StreamStatus:
    """Return all that is known of a stream; ``destinations`` are those that are notified of alerts."""
    state = load_state(session, stream_id)
    found = load_horizon(session, state, now_us, kept)
    newest, driver = state.newest, NewestState() if state.newest is None else state.newest.driver
    row, slo = state.row, state.slo
    provisional = newest is None or open_keys(session, newest.report)
    budget = None
    if slo is not None and newest is not None:
        budget = budget_of(session, newest.report, slo.value, kept, provisional=provisional)
    conditions = conditions_of(state, found, now_us)
    return schemas.StreamStatus(
        job=row.job,
        stream=row.stream,
        summary=summary_of(state, conditions),
        mode=state.mode,
        registered_us=row.registered_us,
        slo=None if slo is None else schemas.SloAnswer.of(slo),
        recommended=recommended_answer(session, state.recommendation, state.published),
        transition=transition_answer(state.recommendation),
        published=published_answer(row, state.published, state.pin),
        applied=None if state.applied is None else applied_answer(state.applied),
        in_use_bound_ms=None if newest is None else newest.report.bound_ms,
        effective_bound_ms=None if newest is None else newest.effective_bound_ms,
        windows_per_row=None if newest is None else newest.report.keys_per_row,
        pin=schemas.PinInForce.of_pin(state.pin),
        frozen_until_us=state.frozen_until_us(now_us),
        live=None if driver.live is None else schemas.Live.of(driver.live),
        append_delay=_append_delay(driver.append_delay),
        late=_late(state),
        evidence=_evidence(state, found),
        coverage=[] if found is None else [_query(*each) for each in found.facts.coverage.items()],
        completeness=_completeness(found, provisional=provisional),
        budget=budget,
        rollout=None if state.rollout is None else rollout_answer(state.rollout, row),
        notified=_notified(state, destinations),
        shadow_since_us=state.shadow_since_us,
        conditions=conditions,
    )


def _notified(state: StreamState, destinations: Mapping[str, Destination]) -> schemas.Notified | None:
    if not destinations:
        return None
    labels = state.policy.value.labels
    found, unrouted = destinations_of(
        destinations, {**labels, "spark_job": state.row.job, "stream": state.row.stream}
    )
    return schemas.Notified(labels=labels, destinations=found, unrouted=unrouted)


def _append_delay(delay: AppendDelay | None) -> schemas.AppendDelaySeen | None:
    if delay is None:
        return None
    return schemas.AppendDelaySeen.of(
        delay, min_ms=delay.min_us // 1_000, mean_ms=delay.mean_us // 1_000, max_ms=delay.max_us // 1_000
    )


def _late(state: StreamState) -> schemas.LateStatus:
    policy, said = state.policy.value.late, state.late
    return schemas.LateStatus(
        policy=policy,
        in_force=None if said is None else said.in_force,
        choices=[] if said is None else list(said.choices),
        text=late_text(policy, said),
    )


def _evidence(state: StreamState, found: HorizonState | None) -> schemas.Evidence:
    slo, known = state.slo, None if found is None else found.facts
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
        horizon_ms=state.horizon_ms,
        from_us=known.from_us if known else None,
        to_us=known.to_us if known else None,
    )


def _query(query_id: str, coverage: Coverage) -> schemas.QueryCoverage:
    ranges = [schemas.MissingRange(first=first, last=last) for first, last in coverage.missing[-_MAX_RANGES:]]
    return schemas.QueryCoverage.of(coverage, query_id=query_id, missing=ranges)


def _completeness(horizon: HorizonState | None, *, provisional: bool) -> schemas.Completeness:
    if horizon is None:
        return schemas.Completeness(
            rows=0,
            late_min=0,
            late_max=0,
            corrected_min=0,
            corrected_max=0,
            unjudged_rows=0,
            missing_batches=0,
            min_ppm=None,
            max_ppm=None,
            exact=False,
            provisional=provisional,
        )
    found = horizon.facts.completeness
    every = found.rows + found.unjudged_rows
    return schemas.Completeness.of(
        found,
        min_ppm=share_ppm(found.rows - found.late_max, every),
        max_ppm=share_ppm(every - found.late_min, every),
        provisional=provisional,
    )
