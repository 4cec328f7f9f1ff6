"""Publishing: what the policy, the SLO, the pin and the rollouts of a stream make of its published bound.

What people set (mode, limits, and in Live the SLO) is published at once. A recommended bound is published by a rollout.
A pin overrides both.
"""

from __future__ import annotations

from tidemark.controller.base.db.tables import RecommendationRow, RolloutRow
from tidemark.controller.control.bounds.acknowledgements import last_acknowledgement
from tidemark.controller.control.bounds.publication import (
    OFF,
    Carried,
    SteeredStream,
    answer_of,
    publish,
    read_carried,
)
from tidemark.controller.control.rollout.failed_bounds import envelope_failed
from tidemark.controller.control.rollout.store import (
    Proposal,
    RolloutRules,
    end_rollout,
    new_rollout,
    open_rollout_row,
)
from tidemark.controller.specs.store import Spec, get_policy
from tidemark.models.base.duration import format_duration
from tidemark.models.protocol.downstream import UNSAFE, Downstream
from tidemark.models.protocol.messages import Envelope, Mode, Pin, PublishedAnswer
from tidemark.models.recommend.steps import because
from tidemark.models.rollout.machine import envelope_direction
from tidemark.models.rollout.states import UNDER_WAY
from tidemark.models.specs.pin import StoredPin
from tidemark.models.specs.slo import Policy, Slo

NO_BOUND = "no bound is published yet"
"""Reason of the answer before the first bound; what it waits for changes, so that only the status says it."""

_ENDED_BY_WRITE = "the published bound was changed by request"
"""Why a rollout is superseded by a write."""


def republish_under(
    stream: SteeredStream, policy: Policy, slo: Spec[Slo] | None, pin: StoredPin | None
) -> int:
    """Publish the current bound under ``policy`` and ``slo``, or a pin; return the generation. No rollout is begun.

    The stream is locked.
    """
    session, row, now_us = stream.session, stream.open_rollout, stream.now_us
    policy = stream.policy_in_force(policy)
    before = stream.unpinned if policy.mode == "Live" else None
    answer = current_answer(stream, policy, slo)
    if row is not None and policy.mode == "Off":
        end_rollout(session, row, "Superseded", "the mode is Off", now_us)
        row = None
    if pin is not None:
        applied = last_acknowledgement(session, stream.id)
        ceiling_ms = None if applied is None else applied.ceiling_ms
        return publish(stream, pinned_answer(policy, pin, ceiling_ms, answer.envelope))
    carried = read_carried(stream, answer)
    if row is not None and row.state in UNDER_WAY and carried.rollout_id != row.id:
        end_rollout(session, row, "Superseded", _ENDED_BY_WRITE, now_us)
        row = None
    published_before = stream.published
    generation = publish(stream, answer, carried=carried)
    if row is not None and row.state in UNDER_WAY and stream.published is not published_before:
        # The same bound again, under another mode or after a pin: from now on it waits for the job.
        row.published_us, row.mode = now_us, policy.mode
    if row is None and before is not None and slo is not None:
        _open_envelope_rollout(stream, answer_of(before), slo)
    return generation


def current_answer(stream: SteeredStream, policy: Policy, slo: Spec[Slo] | None) -> PublishedAnswer:
    """Return what is to be published without a pin and without a new rollout."""
    if policy.mode == "Off":
        return answer_for(policy, None, "")
    held = None if stream.unpinned is None else answer_of(stream.unpinned)
    envelope = _read_envelope(stream, policy, slo, held)
    if held is not None and held.mode != "Off" and held.bound_ms is not None:
        return answer_for(policy, held.bound_ms, held.reason, envelope)
    return answer_for(policy, None, NO_BOUND, envelope)


def publish_rollout(stream: SteeredStream, row: RolloutRow, rules: RolloutRules) -> None:
    """Publish the bound of a rollout."""
    policy = rules.policy.value
    envelope = current_answer(stream, policy, rules.slo).envelope
    recommended = stream.session.get(RecommendationRow, stream.id) if row.cause == "Decision" else None
    reason = row.reason if recommended is None else because(recommended.steps)
    answer = answer_for(policy, row.to_bound_ms, reason, envelope)
    # The policy's limits may have changed since the proposal.
    row.to_bound_ms, row.to_envelope, row.mode = answer.bound_ms, envelope, policy.mode
    row.generation = publish(stream, answer, carried=Carried(row.id))
    row.published_us = stream.now_us


def publish_previous(stream: SteeredStream, row: RolloutRow, rules: RolloutRules) -> None:
    """Publish again what was published before a rollout; under a pin, that takes effect when the pin is removed."""
    policy, downstream, following = rules.policy.value, stream.downstream, stream.open_rollout
    if following is not None:
        reason = f"rollout {row.id}, which it followed, is rolled back"
        end_rollout(stream.session, following, "Superseded", reason, stream.now_us)
    envelope = row.from_envelope if policy.mode == "Live" else None
    bound_ms, reason = row.from_bound_ms, f"rollback: {row.reason}"
    if downstream is not None and downstream.unsafe and (bound_ms is None or bound_ms < policy.min_bound_ms):
        # The bound in use; the job's own may be narrower.
        bound_ms, reason = policy.min_bound_ms, f"{reason}; the bound in use is not narrowed: {UNSAFE}"
    answer = answer_for(policy, bound_ms, reason, envelope)
    # What was in force before is in force again, and is watched again.
    again = read_carried(stream, answer, row.generation or 0)
    publish(stream, answer, carried=Carried(again.rollout_id, row.id))
    if rules.pin is not None:
        republish_under(stream, policy, rules.slo, rules.pin)


def _read_envelope(
    stream: SteeredStream, policy: Policy, slo: Spec[Slo] | None, held: PublishedAnswer | None
) -> Envelope | None:
    """Return the envelope that follows from the policy and the SLO, or the published one where that failed before."""
    required = envelope_for(policy, None if slo is None else slo.value, stream.downstream)
    if required is None or slo is None or held is None or held.envelope is None or held.envelope == required:
        return required
    failed = envelope_failed(
        stream.session,
        stream.id,
        required,
        stream.now_us,
        slo_generation=slo.generation,
        policy_generation=get_policy(stream.session, stream.id).generation,
    )
    return held.envelope if failed else required


def _open_envelope_rollout(stream: SteeredStream, before: PublishedAnswer, slo: Spec[Slo]) -> None:
    """Open a rollout for an envelope that a write has just published: it is verified or rolled back like any other."""
    published, newest = stream.published, stream.newest
    assert published is not None, "something has just been published"
    after = answer_of(published)
    if before.envelope is None or after.envelope is None or before.envelope == after.envelope:
        return
    proposal = Proposal(
        after.bound_ms,
        "Operator",
        "published by request at once",
        None if newest is None else newest.bound_ms,
        0 if newest is None else newest.id,
    )
    direction = envelope_direction(before.envelope, after.envelope)
    # No pin is in force here, and an envelope takes no place in the fleet's share.
    rules = RolloutRules(slo, get_policy(stream.session, stream.id), pin=None, fleet=None)
    row = new_rollout(stream, rules, proposal, before, after, direction=direction, first=False)
    row.state, row.generation, row.published_us = "Published", published.generation, stream.now_us
    open_rollout_row(stream, row)
    published.rollout_id, published.rolled_back_id = row.id, None


def answer_for(
    policy: Policy, bound_ms: int | None, reason: str, envelope: Envelope | None = None
) -> PublishedAnswer:
    """Return what is published to a job without a pin.

    Args:
        policy: the stream's policy; the bound is moved into its limits.
        bound_ms: the bound in milliseconds; None when there is none, and the job keeps its own.
        envelope: in Live, what the fast policy has to do; None in every other mode.
    """
    if policy.mode == "Off":
        return PublishedAnswer("Off", None, OFF)
    if bound_ms is None:
        return PublishedAnswer(policy.mode, None, reason, envelope)
    limited_ms = within_limits(policy, bound_ms)
    if limited_ms != bound_ms:
        reason = f"limited to {format_duration(limited_ms * 1_000)} by the policy: {reason}"
    return PublishedAnswer(policy.mode, limited_ms, reason, envelope)


def envelope_for(policy: Policy, slo: Slo | None, downstream: Downstream | None = None) -> Envelope | None:
    """Return what the policy and the SLO ask of a live job's fast policy; None in every other mode.

    Args:
        downstream: what its bound decides behind its own operator; None when nothing.
    """
    if policy.mode != "Live":
        return None
    # The fast policy treats its cap as a hard limit, so a cap that may be exceeded is not passed on.
    capped = slo is not None and slo.on_conflict != "exceed_latency_cap"
    cap_ms = slo.latency_cap_ms if slo is not None and capped else None
    if cap_ms is not None and downstream is not None:
        # Behind a join windows wait for its retention as well.
        cap_ms = max(cap_ms - (downstream.retention_ms or 0), 0)
    return Envelope(
        target_ppm=None if slo is None else slo.target_ppm,
        latency_cap_ms=cap_ms,
        # 0 is the default and no limit: a live watermark may run ahead of the maximum event time.
        min_bound_ms=policy.min_bound_ms or None,
        max_bound_ms=policy.max_bound_ms,
    )


def pinned_answer(
    policy: Policy, pin: StoredPin, ceiling_ms: int | None, envelope: Envelope | None = None
) -> PublishedAnswer:
    """Return what is published to a job under a pin, which overrides everything else.

    Args:
        ceiling_ms: the ceiling that the job last acknowledged, in milliseconds; None when it has none.
        envelope: in Live, what the fast policy has to do; None in every other mode.
    """
    bound_ms, effect = _pinned_bound(policy.mode, pin.to, ceiling_ms)
    return PublishedAnswer(
        policy.mode, bound_ms, f"pinned to {pin.to} ({pin.why}): {effect}", envelope, pin.to
    )


def _pinned_bound(mode: Mode, to: Pin, ceiling_ms: int | None) -> tuple[int | None, str]:
    """Return the bound under a pin, and what the job does with it."""
    if mode == "Off":
        return None, "the stream's mode is Off and the job keeps its own bound"
    if to == "Off":
        return None, "the job keeps its own bound"
    if ceiling_ms is None:
        return None, "the job has acknowledged no ceiling and keeps its own bound"
    ceiling = format_duration(ceiling_ms * 1_000)
    if mode == "Live":
        return ceiling_ms, f"live control stops and only the ceiling, {ceiling}, applies"
    return ceiling_ms, f"the bound is the job's ceiling, {ceiling}"


def within_limits(policy: Policy, bound_ms: int) -> int:
    """Return the bound, in milliseconds, within the policy's limits."""
    limited = max(bound_ms, policy.min_bound_ms)
    return limited if policy.max_bound_ms is None else min(limited, policy.max_bound_ms)
