"""Advancing rollouts: the state machine in ``tidemark.models.rollout`` decides, this module reads facts and writes."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from sqlalchemy.orm import Session

from tidemark.controller.db.tables import RolloutRow
from tidemark.controller.rollout.facts import count_at_risk, facts_of
from tidemark.controller.rollout.failed_bounds import keep_failure
from tidemark.controller.rollout.publish import publish_previous, publish_rollout
from tidemark.controller.rollout.record import add_rollout_event
from tidemark.controller.rollout.restarts import lost_rows, why_no_restart
from tidemark.controller.rollout.rules import RolloutRules
from tidemark.controller.rollout.store import model_of, newest_rollout, open_rollout, rollout_in_force
from tidemark.models.base.defaults import RESTART_LOOK_MS
from tidemark.models.rollout.machine import advance, restores_previous
from tidemark.models.rollout.restarts import limited, restarts_job
from tidemark.models.rollout.states import CANDIDATE, UNDER_WAY, Move, RolloutFacts, State


def advance_rollout(session: Session, stream_id: int, rules: RolloutRules, now_us: int) -> RolloutRow | None:
    """Take the stream's open rollout as far as it can go now; return it, None without one. The stream is locked.

    A verified rollout is watched further, while its bound is published and the SLO that verified it stays.
    """
    if newest_rollout(session, stream_id) is None:
        return None
    verified = rollout_in_force(session, stream_id)
    if (
        verified is not None
        and verified.cause != "NoData"
        and verified.slo_generation == rules.slo.generation
    ):
        count_at_risk(session, verified)
        facts = facts_of(session, verified, rules, now_us, lock=True)
        missed = _next_move(session, verified, facts, rules, now_us, lock=True)
        if missed is not None:
            apply_move(session, verified, missed, rules, now_us)
            session.flush()
    row = open_rollout(session, stream_id)
    while row is not None:
        if row.state == "Effective":
            count_at_risk(session, row)
        facts = facts_of(session, row, rules, now_us, lock=True)
        row.judged_rows = facts.judged.rows
        row.judged_late_min = facts.judged.late_min
        row.judged_late_max = facts.judged.late_max
        if row.acknowledged_us is None:
            row.acknowledged_us = facts.acknowledged_us
        move = _next_move(session, row, facts, rules, now_us, lock=True)
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


def is_due(session: Session, row: RolloutRow, rules: RolloutRules, now_us: int) -> bool:
    """Return whether a tick would change anything about a rollout; nothing is written."""
    facts = facts_of(session, row, rules, now_us, lock=False)
    move = _next_move(session, row, facts, rules, now_us, lock=False)
    if move is None:
        return False
    if move.gate == "Restarts" and now_us - (row.waits_us or 0) > RESTART_LOOK_MS * 1_000:
        return True
    return (move.state, move.reason, move.gate) != (row.state, row.reason, row.held_by)


def _next_move(
    session: Session, row: RolloutRow, facts: RolloutFacts, rules: RolloutRules, now_us: int, *, lock: bool
) -> Move | None:
    """Return where a rollout goes now; None when it stays as it is.

    Args:
        session: the session.
        row: the rollout.
        facts: the facts about it.
        rules: the rules of its stream.
        now_us: the wall time in microseconds.
        lock: whether this transaction writes what follows.
    """
    rollout = model_of(row)
    move = advance(rollout, facts, now_us)
    # The mode may have changed since it was published.
    if move is None or not restarts_job(replace(rollout, mode=rules.policy.value.mode), move):
        return move
    return limited(rollout, move, why_no_restart(session, row, rules, now_us, lock=lock))


def apply_move(session: Session, row: RolloutRow, move: Move, rules: RolloutRules, now_us: int) -> None:
    """Write a rollout's move and publish what follows from it; the stream is locked."""
    if move.state == row.state:
        if move.gate == "Restarts":
            row.lost_rows, row.waits_us = lost_rows(session, row.stream_id), now_us
            if row.held_by == move.gate:
                row.reason = move.reason
                return
        _stay(session, row, move, now_us)
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
    add_rollout_event(session, row, before, now_us, reason_class=move.failure)
    if move.state == "Published":
        publish_rollout(session, row, rules, now_us)
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
        publish_previous(session, row, rules, now_us)


def _stay(session: Session, row: RolloutRow, move: Move, now_us: int) -> None:
    """Write a move that leaves the state as it is: another gate, or a verified rollout that misses or recovers."""
    held_before, row.held_by, row.reason = row.held_by, move.gate, move.reason
    if move.gate is not None and move.gate != held_before:
        add_rollout_event(session, row, row.state, now_us, kind="RolloutHeld", reason_class=move.gate)
    if row.state == "Verified":
        row.missed_us = None if move.failure is None else now_us
        kind = "RolloutRecovered" if move.failure is None else "RolloutMissed"
        add_rollout_event(session, row, row.state, now_us, kind=kind, reason_class=move.failure)
