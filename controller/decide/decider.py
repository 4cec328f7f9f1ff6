"""One stream's decision: from what the store holds over the horizon to a recommendation, and what jobs are told."""

from __future__ import annotations

import json
import threading
from dataclasses import asdict, dataclass

from sqlalchemy.orm import Session

from tidemark.controller.bounds.publication import last_published
from tidemark.controller.db.database import Database
from tidemark.controller.db.tables import RecommendationRow, StreamRow
from tidemark.controller.decide.recent_bounds import keep_bound, recent_bounds_ms
from tidemark.controller.decide.situation import progress_in, share_below, situation_in
from tidemark.controller.decide.stored_steps import steps_json
from tidemark.controller.evidence.horizon import Horizon, emissions, facts, horizon_of, newest_report_id
from tidemark.controller.evidence.needs import SketchCache
from tidemark.controller.evidence.windows import windows_in
from tidemark.controller.predictions.store import keep_prediction, newest_prediction, score_predictions
from tidemark.controller.replicas.lease_keeper import LeaseKeeper
from tidemark.controller.replicas.lease_store import confirm
from tidemark.controller.rollout.facts import Rules
from tidemark.controller.rollout.rolling import (
    Wanted,
    advance_rollout,
    changes_standing,
    is_due,
    propose,
    republish,
    republish_under,
    rules_of,
)
from tidemark.controller.rollout.store import newest_rollout, open_rollout, set_predicted
from tidemark.controller.specs.store import get_policy, get_slo
from tidemark.controller.stream_state.live import newest_state
from tidemark.controller.streams.store import add_event, lock_stream
from tidemark.models.curve import Curve
from tidemark.models.duration import format_about
from tidemark.models.horizon import EvidenceCounts, HorizonFacts
from tidemark.models.recommend.chain import recommend
from tidemark.models.recommend.inputs import Inputs
from tidemark.models.recommend.steps import Recommendation
from tidemark.models.slo import Slo
from tidemark.models.transition import Situation, cut_bucket, transition_to

__all__ = [
    "Basis",
    "Decider",
    "basis_of",
    "evidence_of",
    "in_use_bound_ms",
    "is_current",
    "republish",
    "republish_under",
]


@dataclass(frozen=True, slots=True)
class Basis:
    """What is known of a stream over a horizon."""

    horizon: Horizon
    """The batches that count."""
    facts: HorizonFacts
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
    horizon: Horizon
    slo: Slo
    situation: Situation
    in_use_bound_ms: int | None


def basis_of(session: Session, stream_id: int, horizon_ms: int, cache: SketchCache) -> Basis | None:
    """Return what is known of a stream over ``horizon_ms``; None without reports."""
    horizon = horizon_of(session, stream_id, horizon_ms)
    if horizon is None:
        return None
    needs = cache.merged(session, stream_id, horizon.from_us)
    return Basis(horizon, facts(session, horizon), Curve(needs, emissions(session, horizon)))


def evidence_of(basis: Basis) -> EvidenceCounts:
    """Return the evidence that a recommendation from ``basis`` rests on."""
    return basis.facts.evidence(basis.curve.needs)


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


class Decider:
    """Decides streams, and keeps what it needs to leave unchanged ones alone. Safe to call from several threads.

    Args:
        database: the store.
        leases: which streams this process decides.
        rollout_share_ppm: share of the streams that may be narrowed at once, in parts per million.
    """

    def __init__(self, database: Database, leases: LeaseKeeper, rollout_share_ppm: int = 100_000) -> None:
        self._database = database
        self.rollout_share_ppm = rollout_share_ppm
        """Share of the streams that may be narrowed at once, in parts per million."""
        self.leases = leases
        """Which streams this process decides."""
        self._caches: dict[int, SketchCache] = {}
        self._decided: dict[int, _Version] = {}
        self._lock = threading.Lock()

    def basis(self, session: Session, stream_id: int, horizon_ms: int) -> Basis | None:
        """Return what is known of a stream over ``horizon_ms``; None without reports."""
        with self._lock:
            return basis_of(session, stream_id, horizon_ms, self._caches.setdefault(stream_id, SketchCache()))

    def decide(self, stream_id: int, now_us: int) -> bool:
        """Decide one stream; return False when nothing it depends on has changed, or another process decides it.

        What is open of its rollouts goes on either way.

        Raises:
            LeaseLostError: when another process took the stream over meanwhile; nothing was written.
        """
        lease = self.leases.lease_of(stream_id)
        if lease is None:
            return False
        with self._database.read() as session:
            decided = self._recommend(session, stream_id, now_us)
            waiting = decided is None and self._waits_for_tick(session, stream_id, now_us)
        if decided is None and not waiting:
            return False
        with self._database.write() as session:
            if decided is None:
                self._go_on(session, stream_id, now_us)
                confirm(session, stream_id, lease)
                return False
            stored = _store(session, stream_id, decided, now_us, self.rollout_share_ppm)
            confirm(session, stream_id, lease)
        if stored:
            self._decided[stream_id] = decided.version
        return True

    def decide_within(self, session: Session, stream_id: int, now_us: int) -> None:
        """Decide one stream in a transaction that may not be kept, so that nothing of it is remembered."""
        decided = self._recommend(session, stream_id, now_us)
        if decided is not None:
            _store(session, stream_id, decided, now_us, self.rollout_share_ppm)

    def _waits_for_tick(self, session: Session, stream_id: int, now_us: int) -> bool:
        """Return whether time alone has moved something: a rollout that is open, or what is told without data."""
        rules = rules_of(session, stream_id, self.rollout_share_ppm)
        if rules is None:
            return False
        row = open_rollout(session, stream_id)
        if row is not None and is_due(session, row, rules, now_us):
            return True
        wanted = _wanted_without_data(session, stream_id, rules, now_us)
        return wanted is not None and changes_standing(session, stream_id, rules, wanted, now_us)

    def _go_on(self, session: Session, stream_id: int, now_us: int) -> None:
        stream = session.get_one(StreamRow, stream_id)
        lock_stream(session, stream.job, stream.stream, now_us)
        rules = rules_of(session, stream_id, self.rollout_share_ppm)
        if rules is None:
            return
        advance_rollout(session, stream_id, rules, now_us)
        wanted = _wanted_without_data(session, stream_id, rules, now_us)
        if wanted is not None:
            propose(session, stream_id, rules, wanted, now_us)
            advance_rollout(session, stream_id, rules, now_us)

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
        situation = situation_in(session, basis.horizon, basis.curve, progress, slo.value.confidence_ppm)
        inputs = Inputs(
            curve=basis.curve,
            slo=slo.value,
            policy=policy.value,
            evidence=evidence_of(basis),
            in_use_bound_ms=in_use_bound_ms(session, basis.horizon),
            progress=progress,
            recent_bounds_ms=recent_bounds_ms(
                session, stream_id, slo.generation, basis.horizon.newest.seen_us
            ),
            situation=situation,
            windows=windows_in(session, basis.horizon, slo.value),
        )
        recommendation = recommend(inputs)
        return _Decided(
            version,
            recommendation,
            basis.horizon,
            slo.value,
            situation,
            inputs.in_use_bound_ms,
        )


def in_use_bound_ms(session: Session, horizon: Horizon) -> int:
    """Return the bound in use: of the plan, which in Live holds the ceiling and the bound is what was published."""
    newest = horizon.newest
    live = newest_state(session, newest).live
    if live is None or newest.bound_ms < live.ceiling_ms:
        return newest.bound_ms
    published = last_published(session, horizon.stream_id, pinned=False)
    told_ms = None if published is None else published.bound_ms
    return newest.bound_ms if told_ms is None else told_ms


def _wanted_without_data(session: Session, stream_id: int, rules: Rules, now_us: int) -> Wanted | None:
    """Return what the policy tells a job whose reports stopped; None while they come, or when the bound is held."""
    policy = rules.policy.value
    if policy.on_no_data == "hold" or policy.mode == "Off":
        return None
    horizon = horizon_of(session, stream_id, rules.slo.value.horizon_ms)
    if horizon is None:
        return None
    progress = progress_in(session, horizon, now_us)
    if not progress.fell_silent:
        return None
    silent = f"no report for {format_about(progress.silent_us or 0)}"
    used_ms, report_id = in_use_bound_ms(session, horizon), horizon.newest.id
    if policy.on_no_data == "own":
        reason = f"{silent}: the job keeps its own bound, as the policy says"
        return Wanted(None, "NoData", reason, used_ms, report_id)
    reason = f"{silent}: the greatest bound is reason, as the policy says"
    return Wanted(policy.max_bound_ms, "NoData", reason, used_ms, report_id)


def _store(session: Session, stream_id: int, decided: _Decided, now_us: int, share_ppm: int) -> bool:
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
        message = None if before is None else json.dumps(before.bound_ms)
        after = json.dumps(recommendation.bound_ms)
        add_event(
            session,
            stream_id,
            now_us,
            kind="RecommendationChanged",
            reason=recommendation.reason,
            before=message,
            after=after,
        )
    session.merge(
        RecommendationRow(
            stream_id=stream_id,
            decided_us=now_us,
            bound_ms=recommendation.bound_ms,
            steps=steps_json(recommendation.steps),
            conflict=bool(recommendation.conflicts),
            newest_report_id=version.newest_report_id,
            slo_generation=version.slo_generation,
            policy_generation=version.policy_generation,
            transition=_told_of(decided.situation, recommendation.bound_ms),
        )
    )
    newest = decided.horizon.newest
    if recommendation.required_ms is not None:
        keep_bound(session, stream_id, version.slo_generation, newest.seen_us, recommendation.required_ms)
    session.flush()
    rules = rules_of(session, stream_id, share_ppm)
    assert rules is not None
    republish_under(session, stream_id, policy.value, rules.pin, now_us)
    session.flush()
    _predict(session, decided, now_us)
    score_predictions(session, newest, decided.slo.horizon_ms, now_us)
    session.flush()
    # What has failed by now is undone and remembered before anything takes its place.
    advance_rollout(session, stream_id, rules, now_us)
    wanted = _wanted_without_data(session, stream_id, rules, now_us) or _wanted(decided)
    propose(session, stream_id, rules, wanted, now_us)
    advance_rollout(session, stream_id, rules, now_us)
    session.flush()
    _predict(session, decided, now_us)
    return True


def _wanted(decided: _Decided) -> Wanted | None:
    """Return the bound that a decision asks for; None to keep the one in use."""
    bound_ms = decided.recommendation.bound_ms
    if bound_ms is None:
        return None
    return Wanted(
        bound_ms,
        "Decision",
        decided.recommendation.reason,
        decided.in_use_bound_ms,
        decided.version.newest_report_id,
        transition_to(decided.situation, bound_ms * 1_000),
    )


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
    # One prediction of one bound: this is the one that is scored, whether a recommendation or a person led to it.
    row = newest_rollout(session, stream_id)
    if row is not None and row.generation == published.generation:
        set_predicted(row, predicted)
    session.flush()


def _told_of(situation: Situation, bound_ms: int | None) -> str | None:
    """Return the transition to a recommended bound as JSON, None without a bound."""
    if bound_ms is None:
        return None
    found = transition_to(situation, bound_ms * 1_000)
    return json.dumps({**asdict(found), "completeness_ppm": found.completeness_ppm})
