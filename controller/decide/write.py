"""Writing a decision, and everything that follows from it, in one transaction."""

from __future__ import annotations

import json
from dataclasses import asdict

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from tidemark.controller.bounds.publication import has_published, last_published
from tidemark.controller.db.statements import upsert_many
from tidemark.controller.db.tables import RecommendationRow
from tidemark.controller.decide.decision import StreamDecision
from tidemark.controller.decide.load import share_below
from tidemark.controller.decide.recent_bounds import keep_bound
from tidemark.controller.decide.stored_steps import steps_json
from tidemark.controller.evidence.horizon import newest_report_id
from tidemark.controller.predictions.scoring import score_predictions
from tidemark.controller.predictions.store import keep_prediction, newest_prediction
from tidemark.controller.rollout.advance import advance_rollout
from tidemark.controller.rollout.propose import propose
from tidemark.controller.rollout.publish import republish_under
from tidemark.controller.rollout.rules import RolloutRules, rules_of
from tidemark.controller.rollout.store import newest_rollout, set_predicted
from tidemark.controller.specs.joins import keep_choice
from tidemark.controller.streams.store import add_event, lock_by_id
from tidemark.models.recommend.transition import Transition, cut_bucket, transition_to
from tidemark.models.rollout.restarts import FleetLimits


def write(session: Session, decision: StreamDecision, now_us: int, fleet: FleetLimits) -> bool:
    """Write a decision and take the stream's rollout as far as it goes; return whether it was written.

    It is not when the stream was deleted since the decision was loaded. Nor is it when the SLO or the policy changed
    since then, or a report ended the silence that it is about: then the next tick decides again.

    Args:
        session: the session.
        decision: the decision.
        now_us: the wall time in microseconds.
        fleet: what limits how many jobs are changed at once.
    """
    loaded, newest = decision.loaded, decision.loaded.horizon.newest
    # While the row is held here, the session need not read it again.
    stream_id = loaded.horizon.stream_id
    stream = lock_by_id(session, stream_id)
    rules = None if stream is None else rules_of(session, stream_id, fleet)
    if rules is None or _is_outdated(session, rules, decision):
        return False
    _keep_recommendation(session, stream_id, decision, now_us)
    keep_choice(session, rules.slo.join_id, loaded.inputs.join)
    if decision.recommendation.required_ms is not None:
        keep_bound(
            session,
            stream_id,
            loaded.version.slo_generation,
            newest.seen_us,
            decision.recommendation.required_ms,
        )
    session.flush()
    republish_under(session, stream_id, rules.policy.value, rules.slo, rules.pin, now_us=now_us)
    session.flush()
    _predict_published(session, decision, now_us)
    score_predictions(session, newest, loaded.version.newest_report_id, now_us)
    session.flush()
    # A rollout that has failed by now is rolled back and remembered before another one takes its place.
    advance_rollout(session, stream_id, rules, now_us)
    if propose(session, stream_id, rules, decision.proposal, now_us):
        advance_rollout(session, stream_id, rules, now_us)
    session.flush()
    if has_published(session):
        _predict_published(session, decision, now_us)
    return True


def _is_outdated(session: Session, rules: RolloutRules, decision: StreamDecision) -> bool:
    before = decision.loaded.version
    if (rules.slo.generation, rules.policy.generation) != (before.slo_generation, before.policy_generation):
        return True
    silent = decision.proposal is not None and decision.proposal.cause == "NoData"
    stream_id = decision.loaded.horizon.stream_id
    return silent and newest_report_id(session, stream_id) != before.newest_report_id


def _keep_recommendation(session: Session, stream_id: int, decision: StreamDecision, now_us: int) -> None:
    version, recommendation = decision.loaded.version, decision.recommendation
    before = session.connection().execute(_BEFORE, {"stream": stream_id}).one_or_none()
    if before is None or before.bound_ms != recommendation.bound_ms:
        add_event(
            session,
            stream_id,
            now_us,
            kind="RecommendationChanged",
            reason=recommendation.reason,
            before=None if before is None else json.dumps(before.bound_ms),
            after=json.dumps(recommendation.bound_ms),
        )
    columns = {
        "decided_us": now_us,
        "bound_ms": recommendation.bound_ms,
        "steps": steps_json(recommendation.steps),
        "conflict": bool(recommendation.conflicts),
        "newest_report_id": version.newest_report_id,
        "slo_generation": version.slo_generation,
        "policy_generation": version.policy_generation,
        "transition": _as_json(decision.predicted),
    }
    upsert_many(
        session,
        RecommendationRow,
        {name: [value] for name, value in columns.items()},
        same={"stream_id": stream_id},
        replaced=tuple(columns),
    )


# Built once: building it takes longer than running it.
_BEFORE = select(RecommendationRow.bound_ms).where(RecommendationRow.stream_id == bindparam("stream"))


def _predict_published(session: Session, decision: StreamDecision, now_us: int) -> None:
    """Keep a prediction for the bound published last, unless it has one."""
    loaded = decision.loaded
    stream_id, situation = loaded.horizon.stream_id, loaded.situation
    published = last_published(session, stream_id)
    if published is None or published.bound_ms is None:
        return
    newest = newest_prediction(session, stream_id)
    if newest is not None and newest.generation == published.generation:
        return
    bound_us = published.bound_ms * 1_000
    cut = cut_bucket(situation.curve, bound_us)
    share = None if cut is None else share_below(session, loaded.horizon, cut, bound_us)
    predicted = transition_to(situation, bound_us, share_below=share)
    keep_prediction(session, published, predicted, loaded.inputs.slo.horizon_ms, now_us)
    # A bound has one prediction, the one that is scored, whether a recommendation or an operator led to the bound.
    row = newest_rollout(session, stream_id)
    if row is not None and row.state != "Verified" and row.id == published.rollout_id:
        set_predicted(row, predicted)
    session.flush()


def _as_json(predicted: Transition | None) -> str | None:
    if predicted is None:
        return None
    return json.dumps({**asdict(predicted), "completeness_ppm": predicted.completeness_ppm})
