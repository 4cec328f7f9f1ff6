"""The decision about a stream: made from what was loaded alone, then written with all that follows from it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from sqlalchemy import Row, bindparam, select

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.db.statements import upsert_many
from tidemark.controller.base.db.tables import RecommendationRow
from tidemark.controller.control.bounds.publication import SteeredStream
from tidemark.controller.control.bounds.recommendations import keep_bound
from tidemark.controller.control.decide.load import (
    Loaded,
    read_progress,
    read_replaced_bound,
    read_share_below,
)
from tidemark.controller.control.decide.predictions import (
    keep_prediction,
    newest_prediction,
    score_predictions,
)
from tidemark.controller.control.rollout.actions import begin
from tidemark.controller.control.rollout.advance import advance_rollout
from tidemark.controller.control.rollout.propose import propose
from tidemark.controller.control.rollout.publish import republish_under
from tidemark.controller.control.rollout.store import Proposal, RolloutRules
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.reports.store import newest_report_id
from tidemark.controller.specs.joins import keep_choice
from tidemark.controller.specs.store import horizon_ms_of
from tidemark.controller.specs.streams import add_event
from tidemark.models.base.duration import format_about
from tidemark.models.evidence.progress import Progress
from tidemark.models.recommend.promise import Promise, Transition
from tidemark.models.recommend.recommendation import recommend
from tidemark.models.recommend.steps import Recommendation, StepKind, deciding_step
from tidemark.models.recommend.transition import cut_bucket, transition_to
from tidemark.models.specs.slo import Policy

_Before = Row[int | None, int]
"""The bound of the stored recommendation, and the newest report that it rests on."""


@dataclass(frozen=True, slots=True)
class StreamDecision:
    """What was decided about a stream."""

    loaded: Loaded
    recommendation: Recommendation
    predicted: Transition | None
    """What going to the recommended bound will do; None without one."""
    proposal: Proposal | None
    """The bound that should be published; None to keep the published one."""


def decide(loaded: Loaded) -> StreamDecision:
    """Return the decision that follows from what was loaded."""
    inputs, report_id = loaded.inputs, loaded.version.newest_report_id
    recommendation = recommend(inputs)
    bound_ms = recommendation.bound_ms
    predicted = None if bound_ms is None else transition_to(loaded.situation, bound_ms * 1_000)
    proposal = propose_without_data(inputs.policy, inputs.progress, inputs.in_use_bound_ms, report_id)
    if proposal is None and bound_ms is not None:
        is_held = deciding_step(recommendation.steps).kind is StepKind.NO_DATA
        proposal = Proposal(
            bound_ms,
            "Decision",
            recommendation.because,
            inputs.in_use_bound_ms,
            report_id,
            predicted,
            held_from_ms=recommendation.required_ms if is_held else None,
        )
    return StreamDecision(loaded, recommendation, predicted, proposal)


def propose_without_data(
    policy: Policy, progress: Progress, in_use_bound_ms: int | None, report_id: int
) -> Proposal | None:
    """Return what the policy proposes for a job whose reports stopped; None while they come, or to hold the bound."""
    if policy.on_no_data == "hold" or policy.mode == "Off" or not progress.fell_silent:
        return None
    silent = f"no report had come for {format_about(progress.silent_us or 0)}"
    if policy.on_no_data == "own":
        reason = f"{silent}: the job keeps its own bound, as the policy says"
        return Proposal(None, "NoData", reason, in_use_bound_ms, report_id)
    reason = f"{silent}: the maximum bound is published, as the policy says"
    return Proposal(policy.max_bound_ms, "NoData", reason, in_use_bound_ms, report_id)


def propose_for_silence(stream: SteeredStream, rules: RolloutRules, cache: EvidenceCache) -> Proposal | None:
    """Return what ``propose_without_data`` does for a stream that is not decided now, because it has nothing new."""
    policy = rules.policy.value
    if policy.on_no_data == "hold" or policy.mode == "Off" or stream.newest is None:
        return None
    horizon = Horizon(stream.id, horizon_ms_of(stream.session, stream.id), stream.newest)
    progress = read_progress(stream.session, horizon, stream.now_us, cache)
    replaced = read_replaced_bound(stream.session, horizon)
    return propose_without_data(policy, progress, replaced.bound_ms, stream.newest.id)


def write(stream: SteeredStream, rules: RolloutRules, decision: StreamDecision) -> bool:
    """Write a decision and all that follows from it in one transaction; return whether it was written.

    It is not when the SLO or the policy changed since the decision was loaded, somebody has decided with a later report
    by now, or a report ended the silence that it is about: then the next tick decides again. The stream is locked.
    """
    before = stream.session.connection().execute(_BEFORE, {"stream": stream.id}).one_or_none()
    if _is_outdated(stream, rules, decision, before):
        return False
    _store(stream, rules, decision, before)
    if not begin(stream, rules, decision.proposal):
        republish_under(stream, rules.policy.value, rules.slo, rules.pin)
    _predict_published(stream, decision)
    loaded = decision.loaded
    confidence_ppm, newest = rules.slo.value.confidence_ppm, loaded.horizon.newest
    score_predictions(stream.session, newest, loaded.version.newest_report_id, confidence_ppm, stream.now_us)
    stream.session.flush()
    steer(stream, rules, decision.proposal)
    if stream.has_published:
        _predict_published(stream, decision)
    return True


def steer(stream: SteeredStream, rules: RolloutRules, proposal: Proposal | None) -> None:
    """Take the stream's rollouts as far as they go, then open, revise or withdraw the one of a proposal.

    A rollout that has failed by now is rolled back and remembered before another one takes its place.
    """
    advance_rollout(stream, rules)
    if propose(stream, rules, proposal):
        advance_rollout(stream, rules)
    stream.session.flush()


def _is_outdated(
    stream: SteeredStream, rules: RolloutRules, decision: StreamDecision, before: _Before | None
) -> bool:
    version = decision.loaded.version
    if (rules.slo.generation, rules.policy.generation) != (version.slo_generation, version.policy_generation):
        return True
    silent = decision.proposal is not None and decision.proposal.cause == "NoData"
    overtaken = before is not None and before.newest_report_id > version.newest_report_id
    # What was decided with a report that is deleted by now does not count as later.
    return (silent or overtaken) and newest_report_id(stream.session, stream.id) != version.newest_report_id


def _store(
    stream: SteeredStream, rules: RolloutRules, decision: StreamDecision, before: _Before | None
) -> None:
    """Store the recommendation, and what later ones rest on."""
    session, loaded, recommendation = stream.session, decision.loaded, decision.recommendation
    if before is None or before.bound_ms != recommendation.bound_ms:
        add_event(
            session,
            stream.id,
            stream.now_us,
            kind="RecommendationChanged",
            reason=recommendation.reason,
            before=None if before is None else json.dumps(before.bound_ms),
            after=json.dumps(recommendation.bound_ms),
        )
    columns = {
        "decided_us": stream.now_us,
        "bound_ms": recommendation.bound_ms,
        "steps": recommendation.steps,
        "conflict": bool(recommendation.conflicts),
        **asdict(loaded.version),
        "horizon_ms": loaded.horizon.length_ms,
        "in_use": loaded.in_use,
        "transition": decision.predicted,
    }
    upsert_many(
        session,
        RecommendationRow,
        {name: [value] for name, value in columns.items()},
        same={"stream_id": stream.id},
        replaced=tuple(columns),
    )
    keep_choice(session, rules.slo.join_id, loaded.inputs.join)
    required_ms = recommendation.required_ms
    if required_ms is not None:
        at_us = loaded.horizon.newest.seen_us
        keep_bound(session, stream.id, loaded.version.slo_generation, at_us, required_ms)
    session.flush()


# Built once: building it takes longer than running it.
_BEFORE = select(RecommendationRow.bound_ms, RecommendationRow.newest_report_id).where(
    RecommendationRow.stream_id == bindparam("stream")
)


def _predict_published(stream: SteeredStream, decision: StreamDecision) -> None:
    """Keep a prediction for the bound published last, unless it has one."""
    session, loaded, published = stream.session, decision.loaded, stream.published
    session.flush()
    if published is None or published.bound_ms is None:
        return
    newest = newest_prediction(session, stream.id)
    if newest is not None and newest.generation == published.generation:
        return
    bound_us = published.bound_ms * 1_000
    cut = cut_bucket(loaded.situation.curve, bound_us)
    share = None if cut is None else read_share_below(session, loaded.horizon, cut, bound_us)
    predicted = transition_to(loaded.situation, bound_us, share_below=share)
    keep_prediction(session, published, predicted, loaded.horizon.length_ms, stream.now_us)
    # A bound has one prediction, the one that is scored, whether a recommendation or an operator led to the bound.
    row = stream.newest_rollout
    if row is not None and row.state != "Verified" and row.id == published.rollout_id:
        row.predicted = made_of(Promise, predicted)
    session.flush()
