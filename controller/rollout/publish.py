"""Publishing: what the policy, the SLO, the pin and the rollouts of a stream make of its published bound.

What people set (mode, limits, and in Live the SLO) is published at once. A recommended bound is published by a rollout.
A pin overrides both.
"""

from __future__ import annotations

from sqlalchemy.orm import Session

from tidemark.controller.bounds.acknowledgements import downstream_of, last_acknowledgement
from tidemark.controller.bounds.chains import policy_in_force
from tidemark.controller.bounds.publication import (
    Carried,
    PublishedAnswer,
    answer_for,
    answer_of,
    carried_before,
    envelope_for,
    last_published,
    pinned_answer,
    publish,
)
from tidemark.controller.db.tables import PublishedRow, RecommendationRow, RolloutRow
from tidemark.controller.decide.stored_steps import because_of
from tidemark.controller.evidence.horizon import horizon_of
from tidemark.controller.rollout.failed_bounds import envelope_failed
from tidemark.controller.rollout.record import (
    Proposal,
    RolloutChange,
    end_rollout,
    new_rollout,
    open_rollout_row,
)
from tidemark.controller.rollout.rules import RolloutRules
from tidemark.controller.rollout.store import envelope_json, envelope_of, open_rollout
from tidemark.controller.specs.pins import StoredPin
from tidemark.controller.specs.store import Spec, get_policy
from tidemark.models.protocol.downstream import UNSAFE
from tidemark.models.protocol.messages import Envelope
from tidemark.models.rollout.machine import envelope_direction
from tidemark.models.rollout.states import UNDER_WAY
from tidemark.models.specs.slo import Policy, Slo

NO_BOUND = "no bound is published yet"
"""Reason of the answer before the first bound; what it waits for changes, so that only the status says it."""

_ENDED_BY_WRITE = "the published bound was changed by request"
"""Why a rollout is superseded by a write."""


def republish_under(
    session: Session,
    stream_id: int,
    policy: Policy,
    slo: Spec[Slo] | None,
    pin: StoredPin | None,
    *,
    now_us: int,
) -> int:
    """Publish the current bound under ``policy`` and ``slo``, or a pin; return the generation. No rollout is begun.

    The stream is locked.
    """
    row = open_rollout(session, stream_id)
    policy = policy_in_force(session, stream_id, policy)
    before = _live_before(session, stream_id, policy)
    answer = current_answer(session, stream_id, policy, slo, now_us)
    if row is not None and policy.mode == "Off":
        end_rollout(session, row, "Superseded", "the mode is Off", now_us)
        row = None
    if pin is not None:
        applied = last_acknowledgement(session, stream_id)
        ceiling_ms = None if applied is None else applied.ceiling_ms
        return publish(session, stream_id, pinned_answer(policy, pin, ceiling_ms, answer.envelope), now_us)
    carried = carried_before(session, stream_id, answer)
    if row is not None and row.state in UNDER_WAY and carried.rollout_id != row.id:
        end_rollout(session, row, "Superseded", _ENDED_BY_WRITE, now_us)
        row = None
    published_before = last_published(session, stream_id) if row is not None else None
    generation = publish(session, stream_id, answer, now_us, carried=carried)
    renewed = published_before is not None and published_before.generation != generation
    if row is not None and row.state in UNDER_WAY and renewed:
        # The same bound again, under another mode or after a pin: from now on it waits for the job.
        row.published_us, row.mode = now_us, policy.mode
    if row is None and before is not None and slo is not None:
        session.flush()
        published = last_published(session, stream_id)
        assert published is not None
        _open_envelope_rollout(session, published, before, slo, now_us)
    return generation


def current_answer(
    session: Session, stream_id: int, policy: Policy, slo: Spec[Slo] | None, now_us: int
) -> PublishedAnswer:
    """Return what is to be published without a pin and without a new rollout."""
    if policy.mode == "Off":
        return answer_for(policy, None, "")
    found = last_published(session, stream_id, pinned=False)
    held = None if found is None else answer_of(found)
    envelope = _envelope(session, stream_id, policy, slo, held=held, now_us=now_us)
    if held is not None and held.mode != "Off" and held.bound_ms is not None:
        return answer_for(policy, held.bound_ms, held.reason, envelope)
    return answer_for(policy, None, NO_BOUND, envelope)


def publish_rollout(session: Session, row: RolloutRow, rules: RolloutRules, now_us: int) -> None:
    """Publish the bound of a rollout."""
    policy = rules.policy.value
    envelope = current_answer(session, row.stream_id, policy, rules.slo, now_us).envelope
    answer = answer_for(policy, row.to_bound_ms, _reason_to_publish(session, row), envelope)
    # The policy's limits may have changed since the proposal.
    row.to_bound_ms, row.to_envelope, row.mode = answer.bound_ms, envelope_json(envelope), policy.mode
    row.generation = publish(session, row.stream_id, answer, now_us, carried=Carried(row.id))
    row.published_us = now_us


def publish_previous(session: Session, row: RolloutRow, rules: RolloutRules, now_us: int) -> None:
    """Publish again what was published before a rollout; under a pin, that takes effect when the pin is removed."""
    policy = rules.policy.value
    following = open_rollout(session, row.stream_id)
    if following is not None:
        reason = f"rollout {row.id}, which it followed, is rolled back"
        end_rollout(session, following, "Superseded", reason, now_us)
    envelope = envelope_of(row.from_envelope) if policy.mode == "Live" else None
    downstream = downstream_of(session, row.stream_id)
    bound_ms, reason = row.from_bound_ms, f"rollback: {row.reason}"
    if downstream is not None and downstream.unsafe and (bound_ms is None or bound_ms < policy.min_bound_ms):
        # The bound in use; the job's own may be narrower.
        bound_ms, reason = policy.min_bound_ms, f"{reason}; the bound in use is not narrowed: {UNSAFE}"
    answer = answer_for(policy, bound_ms, reason, envelope)
    # What was in force before is in force again, and is watched again.
    again = carried_before(session, row.stream_id, answer, row.generation or 0)
    publish(session, row.stream_id, answer, now_us, carried=Carried(again.rollout_id, row.id))
    if rules.pin is not None:
        session.flush()
        republish_under(session, row.stream_id, policy, rules.slo, rules.pin, now_us=now_us)


def _reason_to_publish(session: Session, row: RolloutRow) -> str:
    recommended = session.get(RecommendationRow, row.stream_id)
    if row.cause == "Decision" and recommended is not None:
        return because_of(recommended)
    return row.reason


def _envelope(
    session: Session,
    stream_id: int,
    policy: Policy,
    slo: Spec[Slo] | None,
    *,
    held: PublishedAnswer | None,
    now_us: int,
) -> Envelope | None:
    """Return the envelope that follows from the policy and the SLO, or the published one where that failed before."""
    required = envelope_for(policy, None if slo is None else slo.value, downstream_of(session, stream_id))
    text = envelope_json(required)
    if text is None or slo is None or held is None or held.envelope is None or held.envelope == required:
        return required
    generation = get_policy(session, stream_id).generation
    failed = envelope_failed(
        session, stream_id, text, now_us, slo_generation=slo.generation, policy_generation=generation
    )
    return held.envelope if failed else required


def _live_before(session: Session, stream_id: int, policy: Policy) -> PublishedAnswer | None:
    """Return what is published with an envelope, which another one under ``policy`` would replace; None without any."""
    if policy.mode != "Live":
        return None
    held = last_published(session, stream_id, pinned=False)
    return None if held is None or held.envelope is None else answer_of(held)


def _open_envelope_rollout(
    session: Session, published: PublishedRow, before: PublishedAnswer, slo: Spec[Slo], now_us: int
) -> None:
    """Open a rollout for an envelope that a write has just published: it is verified or rolled back like any other."""
    after, stream_id = answer_of(published), published.stream_id
    if before.envelope is None or after.envelope is None or before.envelope == after.envelope:
        return
    horizon = horizon_of(session, stream_id, 0)
    newest = None if horizon is None else horizon.newest
    proposal = Proposal(
        after.bound_ms,
        "Operator",
        "published by request at once",
        None if newest is None else newest.bound_ms,
        0 if newest is None else newest.id,
    )
    change = RolloutChange(
        direction=envelope_direction(before.envelope, after.envelope),
        from_bound_ms=before.bound_ms,
        to_bound_ms=after.bound_ms,
        from_envelope=before.envelope,
        to_envelope=after.envelope,
    )
    # No pin is in force here, and an envelope takes no place in the fleet's share.
    rules = RolloutRules(slo, get_policy(session, stream_id), pin=None, fleet=None)
    row = new_rollout(session, stream_id, rules, proposal, change=change, now_us=now_us)
    row.state, row.generation, row.published_us = "Published", published.generation, now_us
    open_rollout_row(session, row, now_us)
    published.rollout_id, published.rolled_back_id = row.id, None
