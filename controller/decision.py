"""One stream's decision: from what the store holds over the horizon to a recommendation, and what jobs are told."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass

from sqlalchemy.orm import Session

from tidemark.controller.store.acknowledgements import last_acknowledgement
from tidemark.controller.store.database import Database
from tidemark.controller.store.horizon import Horizon, emissions, facts, horizon_of, newest_report_id
from tidemark.controller.store.needs import SketchCache
from tidemark.controller.store.pins import StandingPin, pin_in_force
from tidemark.controller.store.predictions import keep_prediction, newest_prediction, score_predictions
from tidemark.controller.store.publication import Hold, answer_for, answer_of, last_published, publish
from tidemark.controller.store.recent_bounds import keep_bound, recent_bounds_ms
from tidemark.controller.store.situation import progress_in, share_below, situation_in
from tidemark.controller.store.specs import get_policy, get_slo
from tidemark.controller.store.streams import add_event, lock_stream
from tidemark.controller.store.tables import RecommendationRow, StreamRow
from tidemark.models.curve import Curve
from tidemark.models.horizon import Facts
from tidemark.models.recommendation import Evidence, Inputs, Recommendation, recommend
from tidemark.models.slo import Policy, Slo
from tidemark.models.transition import Situation, cut_bucket, transition_to

__all__ = [
    "Basis",
    "Decider",
    "basis_of",
    "conflict_in",
    "evidence_of",
    "is_current",
    "republish",
    "republish_under",
    "steps_of",
]

NO_SLO = "no SLO is set"
"""Why there is nothing to recommend for a stream without an SLO."""


NOT_DECIDED = "no report has been weighed against the SLO"
"""Why there is nothing to recommend for a stream whose SLO is newer than its evidence."""


@dataclass(frozen=True, slots=True)
class Basis:
    """What is known of a stream over a horizon."""

    horizon: Horizon
    """The batches that count."""
    facts: Facts
    """Their sums."""
    curve: Curve
    """Their completeness and latency by bound."""


@dataclass(frozen=True, slots=True)
class _Version:
    """What a decision depends on: while it stays the same, so does the decision."""

    newest_report_id: int
    slo_generation: int
    policy_generation: int


@dataclass(frozen=True, slots=True)
class _Decided:
    version: _Version
    recommendation: Recommendation
    conflict: bool
    horizon: Horizon
    slo: Slo
    situation: Situation


def basis_of(session: Session, stream_id: int, horizon_ms: int, cache: SketchCache) -> Basis | None:
    """Return what is known of a stream over ``horizon_ms``; None without reports."""
    horizon = horizon_of(session, stream_id, horizon_ms)
    if horizon is None:
        return None
    needs = cache.merged(session, stream_id, horizon.from_us)
    return Basis(horizon, facts(session, horizon), Curve(needs, emissions(session, horizon)))


def evidence_of(basis: Basis) -> Evidence:
    """Return the evidence that a recommendation from ``basis`` rests on."""
    return basis.facts.evidence(basis.curve.needs)


def conflict_in(recommendation: Recommendation, slo: Slo, curve: Curve) -> bool:
    """Return whether the bound that completeness asks for is above the SLO's latency cap."""
    before_cap = [step for step in recommendation.steps if step.name != "latency cap"]
    asked_ms = next((step.bound_ms for step in reversed(before_cap[:2]) if step.bound_ms is not None), None)
    if asked_ms is None or slo.latency_cap_ms is None:
        return False
    wall_us = curve.at(asked_ms * 1_000).latency_wall_us
    return wall_us is not None and wall_us > slo.latency_cap_ms * 1_000


def is_current(session: Session, row: RecommendationRow) -> bool:
    """Return whether a stored recommendation rests on all that the store holds now."""
    return _Version(row.newest_report_id, row.slo_generation, row.policy_generation) == _version(
        session, row.stream_id
    )


def _version(session: Session, stream_id: int) -> _Version:
    slo, policy = get_slo(session, stream_id), get_policy(session, stream_id)
    return _Version(
        newest_report_id(session, stream_id), 0 if slo is None else slo.generation, policy.generation
    )


def steps_of(row: RecommendationRow) -> list[tuple[str, int | None, str]]:
    """Return the stored reasons chain: (name, bound in milliseconds, reason), first to last."""
    return [(name, bound_ms, reason) for name, bound_ms, reason in json.loads(row.steps)]


def republish(session: Session, stream_id: int, policy: Policy, now_us: int) -> int:
    """Tell jobs what the newest recommendation says under ``policy``, or what a pin does; return the generation.

    The stream is locked.
    """
    stream = session.get_one(StreamRow, stream_id)
    pin = pin_in_force(session, stream.job, stream.stream)
    return republish_under(session, stream_id, policy, pin, now_us)


def republish_under(
    session: Session, stream_id: int, policy: Policy, pin: StandingPin | None, now_us: int
) -> int:
    """Do as ``republish`` where the pin in force is known already."""
    slo = get_slo(session, stream_id)
    row = session.get(RecommendationRow, stream_id)
    if row is None:
        bound_ms, reason = None, NO_SLO if slo is None else NOT_DECIDED
    else:
        bound_ms, reason = row.bound_ms, "; ".join(reason for _, _, reason in steps_of(row))
    before = last_published(session, stream_id, pinned=False)
    answer = answer_for(
        policy,
        bound_ms,
        reason,
        None if before is None else answer_of(before),
        slo=None if slo is None else slo.value,
        hold=_hold(session, stream_id, pin),
    )
    return publish(session, stream_id, answer, now_us)


def _hold(session: Session, stream_id: int, pin: StandingPin | None) -> Hold | None:
    if pin is None:
        return None
    applied = last_acknowledgement(session, stream_id)
    return Hold(pin.to, pin.why, None if applied is None else applied.ceiling_ms)


class Decider:
    """Decides streams, and keeps what it needs to leave unchanged ones alone. Safe to call from several threads.

    Args:
        database: the store.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._caches: dict[int, SketchCache] = {}
        self._decided: dict[int, _Version] = {}
        self._lock = threading.Lock()

    def basis(self, session: Session, stream_id: int, horizon_ms: int) -> Basis | None:
        """Return what is known of a stream over ``horizon_ms``; None without reports."""
        with self._lock:
            return basis_of(session, stream_id, horizon_ms, self._caches.setdefault(stream_id, SketchCache()))

    def decide(self, stream_id: int, now_us: int) -> bool:
        """Decide one stream; return False when nothing it depends on has changed since the last time."""
        with self._database.read() as session:
            decided = self._recommend(session, stream_id, now_us)
        if decided is None:
            return False
        with self._database.write() as session:
            if _store(session, stream_id, decided, now_us):
                self._decided[stream_id] = decided.version
        return True

    def _recommend(self, session: Session, stream_id: int, now_us: int) -> _Decided | None:
        slo, policy = get_slo(session, stream_id), get_policy(session, stream_id)
        if slo is None:
            return None
        version = _version(session, stream_id)
        if self._decided.get(stream_id) == version:
            return None
        basis = self.basis(session, stream_id, slo.value.horizon_ms)
        if basis is None:
            return None
        progress = progress_in(session, basis.horizon, now_us)
        inputs = Inputs(
            curve=basis.curve,
            slo=slo.value,
            policy=policy.value,
            evidence=evidence_of(basis),
            in_use_ms=basis.horizon.newest.bound_ms,
            progress=progress,
            recent_bounds_ms=recent_bounds_ms(
                session, stream_id, slo.generation, basis.horizon.newest.seen_us
            ),
        )
        recommendation = recommend(inputs)
        return _Decided(
            version,
            recommendation,
            conflict_in(recommendation, slo.value, basis.curve),
            basis.horizon,
            slo.value,
            situation_in(session, basis.horizon, basis.curve, progress, slo.value.confidence_ppm),
        )


def _store(session: Session, stream_id: int, decided: _Decided, now_us: int) -> bool:
    """Write a decision down unless the SLO or the policy changed meanwhile; then the next turn decides again."""
    stream = session.get_one(StreamRow, stream_id)
    lock_stream(session, stream.job, stream.stream, now_us)
    slo, policy = get_slo(session, stream_id), get_policy(session, stream_id)
    version, recommendation = decided.version, decided.recommendation
    if slo is None or (slo.generation, policy.generation) != (
        version.slo_generation,
        version.policy_generation,
    ):
        return False
    before = session.get(RecommendationRow, stream_id)
    if before is None or before.bound_ms != recommendation.bound_ms:
        told = None if before is None else json.dumps(before.bound_ms)
        after = json.dumps(recommendation.bound_ms)
        add_event(
            session,
            stream_id,
            now_us,
            kind="RecommendationChanged",
            reason=recommendation.reason,
            before=told,
            after=after,
        )
    session.merge(
        RecommendationRow(
            stream_id=stream_id,
            decided_us=now_us,
            bound_ms=recommendation.bound_ms,
            steps=json.dumps([[step.name, step.bound_ms, step.reason] for step in recommendation.steps]),
            conflict=decided.conflict,
            newest_report_id=version.newest_report_id,
            slo_generation=version.slo_generation,
            policy_generation=version.policy_generation,
            transition=_told_of(decided.situation, recommendation.bound_ms),
        )
    )
    newest = decided.horizon.newest
    if recommendation.asked_ms is not None:
        keep_bound(session, stream_id, version.slo_generation, newest.seen_us, recommendation.asked_ms)
    session.flush()
    republish(session, stream_id, policy.value, now_us)
    session.flush()
    _predict(session, decided, now_us)
    score_predictions(session, newest, decided.slo.horizon_ms, now_us)
    return True


def _predict(session: Session, decided: _Decided, now_us: int) -> None:
    """Keep what is predicted of the bound published last, the first time it is decided on."""
    stream_id = decided.horizon.stream_id
    published = last_published(session, stream_id)
    if published is None or published.bound_ms is None:
        return
    newest = newest_prediction(session, stream_id)
    if newest is not None and newest.generation == published.generation:
        return
    situation, bound_us = decided.situation, published.bound_ms * 1_000
    cut = cut_bucket(situation.curve, bound_us)
    share = None if cut is None else share_below(session, decided.horizon, cut, bound_us)
    predicted = transition_to(situation, bound_us, share_below=share)
    keep_prediction(session, stream_id, published, predicted, now_us)
    session.flush()


def _told_of(situation: Situation, bound_ms: int | None) -> str | None:
    """Return the transition to a recommended bound as JSON, None without a bound."""
    if bound_ms is None:
        return None
    told = transition_to(situation, bound_ms * 1_000)
    return json.dumps({**asdict(told), "completeness_ppm": told.completeness_ppm})
