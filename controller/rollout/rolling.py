"""What jobs are told, and how a recommendation becomes it: one rollout at a time through the gate, and back if worse.

Writes of a person (mode, limits, and in Live what the SLO asks for) are told at once; a recommended bound is told by a
rollout; a pin goes before all. ``tidemark.models.rollout`` decides, this module asks the store and writes down.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy.orm import Session

from tidemark.controller.bounds.acknowledgements import last_acknowledgement, own_bound_ms
from tidemark.controller.bounds.publication import (
    Answer,
    Hold,
    answer_for,
    answer_of,
    envelope_for,
    last_published,
    publish,
    within_limits,
)
from tidemark.controller.db.tables import PublishedRow, RecommendationRow, RolloutRow, StreamRow
from tidemark.controller.decide.stored_steps import reason_of
from tidemark.controller.evidence.horizon import horizon_of
from tidemark.controller.pins.store import StoredPin, pin_in_force
from tidemark.controller.rollout.facts import Rules, count_at_risk, facts_of
from tidemark.controller.rollout.failed_bounds import envelope_failed, keep_failure
from tidemark.controller.rollout.store import (
    envelope_json,
    envelope_of,
    model_of,
    open_rollout,
    set_predicted,
    standing_rollout,
)
from tidemark.controller.specs.store import Spec, get_policy, get_slo
from tidemark.controller.streams.store import EventBasis, add_event
from tidemark.models.rollout.facts import Cause, Move
from tidemark.models.rollout.gate import at_gate, needs_approval
from tidemark.models.rollout.machine import advance, restores_previous
from tidemark.models.rollout.proposal import direction_of, envelope_direction, revise
from tidemark.models.rollout.states import CANDIDATE, UNDER_WAY, State
from tidemark.models.rollout.verification import needed_rows
from tidemark.models.slo import Policy, Slo
from tidemark.models.transition import Transition
from tidemark.models.wire import Envelope

__all__ = [
    "NOT_DECIDED",
    "NO_SLO",
    "Wanted",
    "advance_rollout",
    "apply_move",
    "changes_standing",
    "is_due",
    "propose",
    "republish",
    "republish_under",
    "rules_of",
]

NO_SLO = "no SLO is set"
"""Why there is nothing to recommend for a stream without an SLO."""

NOT_DECIDED = "no report has been weighed against the SLO"
"""Why there is nothing to recommend for a stream whose SLO is newer than its evidence."""

ENDED_BY_WRITE = "what the job is told was changed by request"
"""Why a rollout is superseded by a write."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A bound that a job should be told."""

    bound_ms: int | None
    """The bound in milliseconds; None: the job keeps its own."""
    cause: Cause
    """What wants it."""
    reason: str
    """Why."""
    in_use_bound_ms: int | None
    """The bound in the plan of the newest batch, in milliseconds; None when it is not known."""
    report_id: int = 0
    """The newest report that it rests on; 0 for none."""
    predicted: Transition | None = None
    """What it will do; None when that is not known."""


def rules_of(session: Session, stream_id: int, share_ppm: int) -> Rules | None:
    """Return what holds for a stream; None without an SLO, when nothing is rolled."""
    slo = get_slo(session, stream_id)
    if slo is None:
        return None
    stream = session.get_one(StreamRow, stream_id)
    return Rules(
        slo, get_policy(session, stream_id), pin_in_force(session, stream.job, stream.stream), share_ppm
    )


def republish(session: Session, stream_id: int, policy: Policy, now_us: int) -> int:
    """Tell jobs what follows from ``policy``, the SLO and the pin as they stand now; return the generation.

    The stream is locked. A job without a bound is told the one that is recommended already, if nothing holds it.
    """
    stream = session.get_one(StreamRow, stream_id)
    pin = pin_in_force(session, stream.job, stream.stream)
    if _begin_with(session, stream_id, policy, pin, now_us):
        published = last_published(session, stream_id)
        return 0 if published is None else published.generation
    return republish_under(session, stream_id, policy, pin, now_us)


def republish_under(
    session: Session, stream_id: int, policy: Policy, pin: StoredPin | None, now_us: int
) -> int:
    """Tell jobs what stands under ``policy``, or what a pin does; return the generation. No rollout is begun."""
    slo = get_slo(session, stream_id)
    row = open_rollout(session, stream_id)
    held = last_published(session, stream_id, pinned=False)
    before = answer_of(held) if held is not None and held.envelope is not None else None
    answer = _standing(session, stream_id, policy, slo, now_us)
    if row is not None and policy.mode == "Off":
        _end(session, row, "Superseded", "the mode is Off", now_us)
        row = None
    if pin is not None:
        applied = last_acknowledgement(session, stream_id)
        hold = Hold(pin.to, pin.why, None if applied is None else applied.ceiling_ms)
        pinned = answer_for(policy, answer.bound_ms, answer.reason, answer.envelope, hold=hold)
        return publish(session, stream_id, pinned, now_us)
    if row is not None and row.state in UNDER_WAY and not _tells(row, answer):
        _end(session, row, "Superseded", ENDED_BY_WRITE, now_us)
        row = None
    generation = publish(session, stream_id, answer, now_us)
    if row is not None and row.state in UNDER_WAY and row.generation != generation:
        # The same told again, under another mode or after a pin: from now on it is acknowledged by this generation.
        row.generation, row.published_us, row.mode = generation, now_us, policy.mode
    if row is None and before is not None and slo is not None:
        session.flush()
        published = last_published(session, stream_id)
        assert published is not None
        _follow_envelope(session, published, before, slo, now_us)
    return generation


def _standing(session: Session, stream_id: int, policy: Policy, slo: Spec[Slo] | None, now_us: int) -> Answer:
    """Return what jobs are to be told without a pin and without a new rollout."""
    found = last_published(session, stream_id, pinned=False)
    held = None if found is None else answer_of(found)
    envelope = _envelope(session, stream_id, policy, slo, held=held, now_us=now_us)
    if held is not None and held.mode != "Off" and held.bound_ms is not None:
        return answer_for(policy, held.bound_ms, held.reason, envelope)
    return answer_for(
        policy, None, f"there is no bound to give yet: {_why_none(session, stream_id, slo)}", envelope
    )


def _why_none(session: Session, stream_id: int, slo: Spec[Slo] | None) -> str:
    row = open_rollout(session, stream_id)
    if row is not None:
        return row.reason
    recommended = session.get(RecommendationRow, stream_id)
    if recommended is None:
        return NO_SLO if slo is None else NOT_DECIDED
    return reason_of(recommended)


def _envelope(
    session: Session,
    stream_id: int,
    policy: Policy,
    slo: Spec[Slo] | None,
    *,
    held: Answer | None,
    now_us: int,
) -> Envelope | None:
    """Return what the policy and the SLO ask of a live job, or what stood before where that failed."""
    wanted = envelope_for(policy, None if slo is None else slo.value)
    text = envelope_json(wanted)
    if text is None or slo is None or held is None or held.envelope is None or held.envelope == wanted:
        return wanted
    generation = get_policy(session, stream_id).generation
    failed = envelope_failed(
        session, stream_id, text, now_us, slo_generation=slo.generation, policy_generation=generation
    )
    return held.envelope if failed else wanted


def _tells(row: RolloutRow, answer: Answer) -> bool:
    """Return whether ``answer`` is what a rollout under way tells."""
    return row.to_bound_ms == answer.bound_ms and row.to_envelope == envelope_json(answer.envelope)


def _follow_envelope(
    session: Session, published: PublishedRow, before: Answer, slo: Spec[Slo], now_us: int
) -> None:
    """Follow what a write asks of a live job like any other rollout: it is published, to be verified or undone."""
    after, stream_id = answer_of(published), published.stream_id
    if before.envelope is None or after.envelope is None or before.envelope == after.envelope:
        return
    horizon = horizon_of(session, stream_id, 0)
    row = RolloutRow(
        stream_id=stream_id,
        state="Published",
        reason="published by request: the job is told at once",
        cause="Operator",
        direction=envelope_direction(before.envelope, after.envelope),
        first=False,
        mode="Live",
        from_bound_ms=before.bound_ms,
        to_bound_ms=after.bound_ms,
        from_envelope=envelope_json(before.envelope),
        to_envelope=envelope_json(after.envelope),
        in_use_bound_ms=None if horizon is None else horizon.newest.bound_ms,
        generation=published.generation,
        slo_generation=slo.generation,
        policy_generation=get_policy(session, stream_id).generation,
        report_id=0 if horizon is None else horizon.newest.id,
        rows=0,
        late=0,
        created_us=now_us,
        changed_us=now_us,
        published_us=now_us,
        needed_rows=_needed_rows(session, stream_id, slo.value),
    )
    session.add(row)
    session.flush()
    _event(session, row, None, now_us)


def _begin_with(session: Session, stream_id: int, policy: Policy, pin: StoredPin | None, now_us: int) -> bool:
    """Tell a job that has no bound the one that is recommended already; return whether anything was published."""
    slo, recommended = get_slo(session, stream_id), session.get(RecommendationRow, stream_id)
    if pin is not None or policy.mode == "Off" or slo is None or recommended is None:
        return False
    if recommended.bound_ms is None or recommended.slo_generation != slo.generation:
        return False
    if _standing(session, stream_id, policy, slo, now_us).bound_ms is not None:
        return False
    horizon = horizon_of(session, stream_id, 0)
    wanted = Wanted(
        recommended.bound_ms,
        "Decision",
        reason_of(recommended),
        None if horizon is None else horizon.newest.bound_ms,
        recommended.newest_report_id,
        _predicted(recommended),
    )
    # A first bound takes no place in the fleet's share.
    rules = Rules(slo, get_policy(session, stream_id), pin, share_ppm=0)
    propose(session, stream_id, rules, wanted, now_us)
    row = advance_rollout(session, stream_id, rules, now_us)
    return row is not None and row.published_us == now_us


def _predicted(recommended: RecommendationRow) -> Transition | None:
    """Return what a stored recommendation will do; None when an earlier release stored it without."""
    if recommended.transition is None:
        return None
    fields = json.loads(recommended.transition)
    del fields["completeness_ppm"]
    return Transition(**fields)


def propose(session: Session, stream_id: int, rules: Rules, wanted: Wanted | None, now_us: int) -> None:
    """Open, revise or withdraw the rollout that leads to what is wanted; the stream is locked.

    Args:
        session: the session.
        stream_id: the stream.
        rules: what holds for it.
        wanted: what it should be reason; None to keep what it is reason.
        now_us: the wall time in microseconds.
    """
    policy = rules.policy.value
    row = open_rollout(session, stream_id)
    standing = _standing(session, stream_id, policy, rules.slo, now_us)
    if policy.mode == "Off":
        return
    # Just after going back to its own bound, the job still runs with the one that failed.
    own_ms = own_bound_ms(session, stream_id)
    if wanted is not None and own_ms is None:
        own_ms = wanted.in_use_bound_ms
    if wanted is None or _limited(policy, wanted) in _same_as(standing, wanted, own_ms):
        if row is not None and row.state in CANDIDATE:
            reason = (
                "no change is recommended any more"
                if wanted is not None
                else "nothing is recommended any more"
            )
            _end(session, row, "Superseded", reason, now_us)
        return
    candidate = _candidate(rules, wanted, standing, row, now_us, own_ms=own_ms)
    candidate.stream_id = stream_id
    candidate.needed_rows = _needed_rows(session, stream_id, rules.slo.value)
    if row is None:
        _open(session, candidate, now_us)
    elif row.state in CANDIDATE:
        _revise(session, row, candidate, now_us)
    elif _passes_by(session, row, candidate, rules, now_us):
        _end(session, row, "Superseded", "a newer recommendation took its place", now_us)
        _open(session, candidate, now_us)


def _same_as(standing: Answer, wanted: Wanted, own_ms: int | None) -> set[int | None]:
    """Return the bounds that are no change: the one told, and the job's own where it is told none."""
    if standing.bound_ms is None and wanted.cause == "Decision":
        return {None, own_ms}
    return {standing.bound_ms}


def _candidate(
    rules: Rules,
    wanted: Wanted,
    standing: Answer,
    before: RolloutRow | None,
    now_us: int,
    *,
    own_ms: int | None,
) -> RolloutRow:
    """Return the rollout that would lead from what stands to what is wanted."""
    to_ms = _limited(rules.policy.value, wanted)
    # What nobody has taken up is not what a change starts from, nor what one goes back to.
    untaken = before if before is not None and before.state == "Published" else None
    from_ms = standing.bound_ms if untaken is None else untaken.from_bound_ms
    direction = direction_of(own_ms if from_ms is None else from_ms, to_ms)
    row = RolloutRow(
        state="Recommended",
        reason=wanted.reason,
        cause=wanted.cause,
        direction="Widen" if wanted.cause == "NoData" else direction,
        first=from_ms is None,
        mode=rules.policy.value.mode,
        from_bound_ms=from_ms,
        to_bound_ms=to_ms,
        from_envelope=envelope_json(standing.envelope),
        to_envelope=envelope_json(standing.envelope),
        in_use_bound_ms=wanted.in_use_bound_ms,
        slo_generation=rules.slo.generation,
        policy_generation=rules.policy.generation,
        report_id=wanted.report_id,
        rows=0,
        late=0,
        needed_event_ms=0,
        created_us=now_us,
        changed_us=now_us,
    )
    if wanted.predicted is not None:
        set_predicted(row, wanted.predicted)
    return row


def _needed_rows(session: Session, stream_id: int, slo: Slo) -> int:
    stream = session.get_one(StreamRow, stream_id)
    return needed_rows(slo.target_ppm, stream.pairs // max(stream.reports, 1))


def _limited(policy: Policy, wanted: Wanted) -> int | None:
    return None if wanted.bound_ms is None else within_limits(policy, wanted.bound_ms)


_REVISED = (
    "cause",
    "direction",
    "first",
    "mode",
    "from_bound_ms",
    "to_bound_ms",
    "from_envelope",
    "to_envelope",
    "in_use_bound_ms",
    "slo_generation",
    "policy_generation",
    "report_id",
    "rows",
    "late",
    "min_ppm",
    "max_ppm",
    "latency_wall_us",
    "state_rows",
    "needed_rows",
)
"""What a rollout that nobody was asked about takes over from the newest recommendation."""


def _open(session: Session, candidate: RolloutRow, now_us: int) -> None:
    session.add(candidate)
    session.flush()
    _event(session, candidate, None, now_us)


def _revise(session: Session, row: RolloutRow, candidate: RolloutRow, now_us: int) -> None:
    model = model_of(row)
    match revise(model, candidate.to_bound_ms, model_of(candidate).direction):
        case "update":
            for name in _REVISED:
                setattr(row, name, getattr(candidate, name))
        case "replace":
            _end(session, row, "Superseded", "another bound is recommended now", now_us)
            _open(session, candidate, now_us)
        case "keep":
            pass


def _passes_by(session: Session, row: RolloutRow, candidate: RolloutRow, rules: Rules, now_us: int) -> bool:
    """Return whether a candidate goes before a rollout under way: at once and to more, or before anybody took it up.

    While a narrowing is being verified, a widening to no more than what stood before it waits for the verdict: that
    goes back at once, and further, when too many rows are lost.
    """
    if row.cause == "Operator":
        return False
    if row.state != "Published" and row.cause != "NoData":
        before_ms = row.in_use_bound_ms if row.from_bound_ms is None else row.from_bound_ms
        waits = row.direction == "Narrow" and direction_of(candidate.to_bound_ms, before_ms) == "Widen"
        if candidate.direction == "Narrow" or (waits and candidate.cause != "NoData"):
            return False
    facts = facts_of(session, candidate, rules, now_us, lock=True)
    model = model_of(candidate)
    return at_gate(model, facts, now_us) is None and not needs_approval(model, facts)


def advance_rollout(session: Session, stream_id: int, rules: Rules, now_us: int) -> RolloutRow | None:
    """Take the stream's open rollout as far as it goes now and return it; None without one. The stream is locked.

    What is verified is judged on, as long as it stands, under the SLO that it was verified by.
    """
    verified = standing_rollout(session, stream_id)
    if (
        verified is not None
        and verified.cause != "NoData"
        and verified.slo_generation == rules.slo.generation
    ):
        count_at_risk(session, verified, rules)
        missed = advance(model_of(verified), facts_of(session, verified, rules, now_us, lock=True), now_us)
        if missed is not None:
            apply_move(session, verified, missed, rules, now_us)
            session.flush()
    row = open_rollout(session, stream_id)
    while row is not None:
        if row.state == "Effective":
            count_at_risk(session, row, rules)
        facts = facts_of(session, row, rules, now_us, lock=True)
        row.judged_rows = facts.judged.rows
        row.judged_late_min = facts.judged.late_min
        row.judged_late_max = facts.judged.late_max
        if row.acknowledged_us is None:
            row.acknowledged_us = facts.acknowledged_us
        move = advance(model_of(row), facts, now_us)
        if move is None:
            break
        before = row.state
        apply_move(session, row, move, rules, now_us)
        if row.state == before:
            break
        if row.state == "Effective":
            row.effective_us = facts.effective_us
        session.flush()
    return row


def is_due(session: Session, row: RolloutRow, rules: Rules, now_us: int) -> bool:
    """Return whether a turn would change anything about a rollout; nothing is written."""
    facts = facts_of(session, row, rules, now_us, lock=False)
    move = advance(model_of(row), facts, now_us)
    return move is not None and (move.state, move.reason, move.gate) != (row.state, row.reason, row.held_by)


def changes_standing(session: Session, stream_id: int, rules: Rules, wanted: Wanted, now_us: int) -> bool:
    """Return whether what is wanted is not what the job is told, nor what an open rollout leads to."""
    row = open_rollout(session, stream_id)
    policy = rules.policy.value
    to_ms = _limited(policy, wanted)
    if row is not None and row.cause == wanted.cause and row.to_bound_ms == to_ms:
        return False
    return _standing(session, stream_id, policy, rules.slo, now_us).bound_ms != to_ms


def apply_move(session: Session, row: RolloutRow, move: Move, rules: Rules, now_us: int) -> None:
    """Write down what becomes of a rollout, and tell jobs of it; the stream is locked."""
    if move.state == row.state:
        held_before, row.held_by, row.reason = row.held_by, move.gate, move.reason
        if move.gate is not None and move.gate != held_before:
            _event(session, row, row.state, now_us, kind="RolloutHeld", reason_class=move.gate)
        if row.state == "Verified":
            row.missed_us = None if move.failure is None else now_us
            kind = "RolloutRecovered" if move.failure is None else "RolloutMissed"
            _event(session, row, row.state, now_us, kind=kind, reason_class=move.failure)
        return
    before = cast("State", row.state)
    back = restores_previous(before, move, model_of(row))
    row.state, row.reason, row.held_by, row.changed_us = move.state, move.reason, move.gate, now_us
    if move.state not in CANDIDATE | UNDER_WAY:
        row.ended_us = now_us
    if move.state == "Verified":
        row.slo_generation = rules.slo.generation
    if before == "Verified" and move.failure == "Completeness":
        row.missed_us = now_us
    _event(session, row, before, now_us, reason_class=move.failure)
    if move.state == "Published":
        _publish(session, row, rules, now_us)
    if move.failure is not None:
        keep_failure(
            session,
            row,
            move.failure,
            move.reason,
            now_us,
            slo_generation=rules.slo.generation,
            policy_generation=rules.policy.generation,
        )
        session.flush()
    if back:
        _go_back(session, row, rules, now_us)


def _publish(session: Session, row: RolloutRow, rules: Rules, now_us: int) -> None:
    policy = rules.policy.value
    envelope = _standing(session, row.stream_id, policy, rules.slo, now_us).envelope
    why = _why_told(session, row)
    answer = answer_for(policy, row.to_bound_ms, why, envelope)
    # The policy's limits may have come after the proposal.
    row.to_bound_ms, row.to_envelope, row.mode = answer.bound_ms, envelope_json(envelope), policy.mode
    row.generation = publish(session, row.stream_id, answer, now_us, cause="Rollout", rollout_id=row.id)
    row.published_us = now_us


def _why_told(session: Session, row: RolloutRow) -> str:
    recommended = session.get(RecommendationRow, row.stream_id)
    if row.cause == "Decision" and recommended is not None:
        return reason_of(recommended)
    return row.reason


def _go_back(session: Session, row: RolloutRow, rules: Rules, now_us: int) -> None:
    """Tell jobs what they were told before a rollout; under a pin, they are told when it is gone."""
    policy = rules.policy.value
    following = open_rollout(session, row.stream_id)
    if following is not None:
        _end(session, following, "Superseded", f"rollout {row.id}, which it followed on, is undone", now_us)
    envelope = envelope_of(row.from_envelope) if policy.mode == "Live" else None
    answer = answer_for(policy, row.from_bound_ms, f"gone back: {row.reason}", envelope)
    publish(session, row.stream_id, answer, now_us, cause="Rollback", rollout_id=row.id)
    if rules.pin is not None:
        session.flush()
        republish_under(session, row.stream_id, policy, rules.pin, now_us)


def _end(session: Session, row: RolloutRow, state: State, reason: str, now_us: int) -> None:
    before = row.state
    row.state, row.reason, row.held_by = state, reason, None
    row.changed_us = row.ended_us = now_us
    _event(session, row, before, now_us)
    session.flush()


def _event(
    session: Session,
    row: RolloutRow,
    before: str | None,
    now_us: int,
    *,
    kind: str | None = None,
    reason_class: str | None = None,
) -> None:
    add_event(
        session,
        row.stream_id,
        now_us,
        kind=kind or f"Rollout{row.state}",
        reason=row.reason,
        before=None if before is None else json.dumps(_told(row, before)),
        after=json.dumps(_told(row, row.state)),
        reason_class=reason_class,
        evidence=EventBasis(
            rollout_id=row.id, rows=row.judged_rows or row.rows, report_id=row.report_id or None
        ),
    )


def _told(row: RolloutRow, state: str) -> dict[str, Any]:
    return {
        "rollout": row.id,
        "state": state,
        "from_bound_ms": row.from_bound_ms,
        "to_bound_ms": row.to_bound_ms,
    }
