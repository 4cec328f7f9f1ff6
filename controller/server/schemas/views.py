"""What the store holds, as the API answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy.orm import Session

from tidemark.controller.base.answer import made_of, share_ppm
from tidemark.controller.base.db.tables import (
    EventRow,
    PublishedRow,
    RecommendationRow,
    RolloutRow,
    StreamRow,
)
from tidemark.controller.base.operator_file import Destination, destinations_of
from tidemark.controller.control.bounds.publication import (
    NO_REPORT,
    OFF,
    answer_of,
    last_published,
)
from tidemark.controller.control.decide.load import is_current
from tidemark.controller.control.rollout.store import model_of
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.evidence.horizon import open_keys
from tidemark.controller.reports.live import NewestState
from tidemark.controller.server.schemas.bounds import Published, RecommendationAnswer
from tidemark.controller.server.schemas.rollouts import (
    Event,
    EventEvidence,
    RolloutAnswer,
)
from tidemark.controller.server.schemas.specs import SloAnswer
from tidemark.controller.server.schemas.streams import (
    Completeness,
    Evidence,
    LateStatus,
    MissingRange,
    Notified,
    QueryCoverage,
    StreamStatus,
)
from tidemark.controller.specs.pins import pin_in_force
from tidemark.controller.view.state.budget import read_budget
from tidemark.controller.view.state.conditions import conditions_of
from tidemark.controller.view.state.load import load_horizon, load_state
from tidemark.controller.view.state.provisional_bound import read_provisional_bound
from tidemark.controller.view.state.state import HorizonState, StreamState
from tidemark.controller.view.state.summary import summary_of
from tidemark.models.base.target import PPM
from tidemark.models.evidence.completeness import EvidenceCounts, LedgerCompleteness
from tidemark.models.evidence.coverage import Coverage
from tidemark.models.protocol.late_policy import late_text
from tidemark.models.protocol.messages import Applied, BoundAnswer
from tidemark.models.recommend.choice import rows_that_certify
from tidemark.models.recommend.steps import because, deciding_step
from tidemark.models.specs.pin import StoredPin


def bound_answer(session: Session, job: str, stream: str, row: StreamRow | None) -> BoundAnswer:
    """Return what is published to a job; ``row`` is None for an unknown stream."""
    published = None if row is None else last_published(session, row.id)
    # A generation has its pin; before the first one, the pin in force counts.
    pin = pin_in_force(session, job, stream) if published is None else None
    return bound_answer_of(job, stream, row, published, pin)


def bound_answer_of(
    job: str, stream: str, row: StreamRow | None, published: PublishedRow | None, pin: StoredPin | None
) -> BoundAnswer:
    """Return what is published to a job.

    Args:
        row: the stream; None for an unknown one.
        published: the newest generation; None before the first.
        pin: the pin in force; None for none.
    """
    if published is None:
        known = row is not None and row.registered_us is not None
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
    return made_of(BoundAnswer, answer, job=job, stream=stream, generation=published.generation)


def published_answer(row: StreamRow, published: PublishedRow | None, pin: StoredPin | None) -> Published:
    """Return what is published to a job as the status has it; the arguments are those of ``bound_answer_of``."""
    answer = bound_answer_of(row.job, row.stream, row, published, pin)
    return made_of(Published, answer, published_us=None if published is None else published.published_us)


def recommended_answer(
    session: Session, row: RecommendationRow | None, published: PublishedRow | None
) -> RecommendationAnswer | None:
    """Return a recommendation as it is answered; ``published`` is what is published to the job."""
    if row is None:
        return None
    is_published = (
        published is not None
        and published.mode != "Off"
        and published.pin is None
        and published.bound_ms == row.bound_ms
    )
    return RecommendationAnswer(
        bound_ms=row.bound_ms,
        generation=published.generation
        if is_published and published is not None and row.bound_ms is not None
        else None,
        decided_us=row.decided_us,
        current=is_current(session, row),
        because=because(row.steps),
        decided_by=deciding_step(row.steps).kind,
        steps=[*row.steps],
    )


def event_answer(row: EventRow, stream: StreamRow | None) -> Event:
    """Return an event as the API answers it."""
    return Event.of(
        row,
        job=None if stream is None else stream.job,
        stream=None if stream is None else stream.shown_name,
        evidence=EventEvidence(rows=row.rows, newest_report=row.report_id, rollout=row.rollout_id),
    )


def rollout_answer(row: RolloutRow, stream: StreamRow) -> RolloutAnswer:
    """Return a rollout as an API answer."""
    return RolloutAnswer.of(model_of(row), stream.job, stream.stream)


_MAX_RANGES = 100
"""How many ranges of missing batches are listed for a query, the newest ones."""


def stream_status(
    session: Session,
    stream_id: int,
    now_us: int,
    cache: EvidenceCache,
    *,
    destinations: Mapping[str, Destination],
    may_link_to: Callable[[str], bool],
) -> StreamStatus:
    """Return all that is known of a stream.

    Args:
        destinations: those that are notified of alerts.
        may_link_to: whether the page may link to an address that a job named.
    """
    state = load_state(session, stream_id)
    found = load_horizon(session, state, now_us, cache)
    newest, driver = state.newest, NewestState() if state.newest is None else state.newest.driver
    row, slo = state.row, state.slo
    provisional = newest is None or open_keys(session, newest.report)
    budget = None
    if slo is not None and newest is not None:
        budget = read_budget(session, newest.report, slo.value, provisional=provisional)
    conditions = conditions_of(state, found, now_us)
    bound = read_provisional_bound(session, state, cache)
    return StreamStatus(
        job=row.job,
        stream=row.stream,
        summary=summary_of(state, conditions, bound),
        mode=state.mode,
        registered_us=row.registered_us,
        slo=None if slo is None else SloAnswer.of(slo),
        recommended=recommended_answer(session, state.recommendation, state.published),
        provisional_bound=bound,
        transition=None if state.recommendation is None else state.recommendation.transition,
        published=published_answer(row, state.published, state.pin),
        applied=None if state.applied is None else made_of(Applied, state.applied),
        links_to_spark_ui=(
            state.applied is not None
            and state.applied.spark_ui is not None
            and may_link_to(state.applied.spark_ui)
        ),
        in_use_bound_ms=None if newest is None else newest.report.bound_ms,
        effective_bound_ms=None if newest is None else newest.effective_bound_ms,
        windows_per_row=None if newest is None else newest.report.keys_per_row,
        pin=state.pin,
        frozen_until_us=state.frozen_until_us(now_us),
        live=driver.live,
        append_delay=driver.append_delay,
        late=_late(state),
        evidence=_evidence(state, found),
        coverage=[] if found is None else [_query(*each) for each in found.facts.coverage.items()],
        completeness=_completeness(found, provisional=provisional),
        budget=budget,
        rollout=None if state.rollout is None else rollout_answer(state.rollout, row),
        notified=_notified(state, destinations),
        conditions=conditions,
    )


def _notified(state: StreamState, destinations: Mapping[str, Destination]) -> Notified | None:
    if not destinations:
        return None
    labels = state.policy.value.labels
    found, unrouted = destinations_of(
        destinations, {**labels, "spark_job": state.row.job, "stream": state.row.stream}
    )
    return Notified(labels=labels, destinations=found, unrouted=unrouted)


def _late(state: StreamState) -> LateStatus:
    policy, said = state.policy.value.late, state.late
    choices = [] if said is None else list(said.choices)
    return LateStatus.of(said, policy=policy, choices=choices, text=late_text(policy, said))


def _evidence(state: StreamState, found: HorizonState | None) -> Evidence:
    slo, facts = state.slo, None if found is None else found.facts
    needed: int | None = None
    if slo is not None:
        target_ppm, confidence = slo.value.target_ppm, slo.value.confidence_ppm / PPM
        per_event = 1.0 if found is None else found.overdispersion.rows_per_event(target_ppm)
        needed = rows_that_certify(target_ppm, confidence, per_event)
    return made_of(
        Evidence,
        _NO_EVIDENCE if facts is None else facts,
        rows=0 if facts is None else facts.need_pairs,
        unknown_rows=0 if facts is None else facts.need_unknown_rows,
        rows_needed=needed,
        early_rows=0 if facts is None else facts.early_rows,
        horizon_ms=state.horizon_ms,
    )


_NO_EVIDENCE = EvidenceCounts(
    rows=0, unknown_rows=0, missing_batches=0, batches=0, partitions=0, from_us=None, to_us=None
)


def _query(query_id: str, coverage: Coverage) -> QueryCoverage:
    ranges = [MissingRange(first=first, last=last) for first, last in coverage.missing[-_MAX_RANGES:]]
    return QueryCoverage.of(coverage, query_id=query_id, missing=ranges)


_NOTHING_JUDGED = LedgerCompleteness(0, 0, 0, 0, 0)


def _completeness(horizon: HorizonState | None, *, provisional: bool) -> Completeness:
    found = _NOTHING_JUDGED if horizon is None else horizon.facts.completeness
    every = found.rows + found.unjudged_rows
    return made_of(
        Completeness,
        found,
        min_ppm=share_ppm(found.rows - found.late_max, every),
        max_ppm=share_ppm(every - found.late_min, every),
        exact=horizon is not None and found.exact,
        provisional=provisional,
    )
