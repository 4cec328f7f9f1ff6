"""Proposals: a stream's proposed bound opens a rollout, revises the open one, or withdraws it."""

from __future__ import annotations

from dataclasses import replace

from tidemark.controller.base.db.tables import RolloutRow
from tidemark.controller.control.bounds.acknowledgements import own_bound_ms
from tidemark.controller.control.bounds.publication import SteeredStream
from tidemark.controller.control.rollout.facts import read_facts
from tidemark.controller.control.rollout.publish import current_answer, within_limits
from tidemark.controller.control.rollout.store import (
    Proposal,
    RolloutRules,
    end_rollout,
    model_of,
    new_rollout,
    open_rollout_row,
)
from tidemark.models.protocol.messages import PublishedAnswer
from tidemark.models.rollout.gate import at_gate, at_outside_gate, needs_approval
from tidemark.models.rollout.machine import direction_of, revise
from tidemark.models.rollout.states import CANDIDATE
from tidemark.models.specs.slo import Policy


def propose(stream: SteeredStream, rules: RolloutRules, proposal: Proposal | None) -> bool:
    """Open, revise or withdraw the rollout of a proposed bound; return whether one changed. The stream is locked.

    Args:
        proposal: the bound proposed; None to keep what is published.
    """
    policy, row = rules.policy.value, stream.open_rollout
    if policy.mode == "Off":
        return False
    current = current_answer(stream, policy, rules.slo)
    # Just after a rollback to its own bound, the job still runs with the one that failed.
    own_ms = own_bound_ms(stream.session, stream.id)
    if proposal is not None and own_ms is None:
        own_ms = proposal.in_use_bound_ms
    if proposal is None or _limited(policy, proposal) in _unchanged(current, proposal, own_ms):
        if row is None or row.state not in CANDIDATE:
            return False
        what = "nothing" if proposal is None else "no change"
        reason = f"{what} is recommended any more"
        end_rollout(stream.session, row, "Superseded", reason, stream.now_us)
        return True
    candidate = _candidate(stream, rules, proposal, current, own_ms)
    if row is None:
        open_rollout_row(stream, candidate)
        return True
    if row.state in CANDIDATE:
        return _revise(stream, row, candidate)
    overtakes = not _only_held(row, proposal) and _overtakes(stream, row, candidate, rules)
    if overtakes:
        _replace(stream, row, candidate, "a newer recommendation took its place")
    return overtakes


def changes_published(stream: SteeredStream, rules: RolloutRules, proposal: Proposal) -> bool:
    """Return whether a proposal is neither published nor what an open rollout leads to."""
    row, policy = stream.open_rollout, rules.policy.value
    to_ms = _limited(policy, proposal)
    if row is not None and row.cause == proposal.cause and row.to_bound_ms == to_ms:
        return False
    return current_answer(stream, policy, rules.slo).bound_ms != to_ms


def _unchanged(current: PublishedAnswer, proposal: Proposal, own_ms: int | None) -> set[int | None]:
    """Return the bounds that change nothing: the published one, or the job's own where none is published."""
    if current.bound_ms is None and proposal.cause == "Decision":
        return {None, own_ms}
    return {current.bound_ms}


def _candidate(
    stream: SteeredStream,
    rules: RolloutRules,
    proposal: Proposal,
    current: PublishedAnswer,
    own_ms: int | None,
) -> RolloutRow:
    """Return the rollout from what is published to what is proposed."""
    to_ms, before = _limited(rules.policy.value, proposal), stream.open_rollout
    # A bound that nobody has taken up is neither the start of a change nor what a rollback returns to.
    untaken = before if before is not None and before.state == "Published" else None
    from_ms = current.bound_ms if untaken is None else untaken.from_bound_ms
    direction = direction_of(own_ms if from_ms is None else from_ms, to_ms)
    return new_rollout(
        stream,
        rules,
        proposal,
        replace(current, bound_ms=from_ms),
        replace(current, bound_ms=to_ms),
        direction="Widen" if proposal.cause == "NoData" else direction,
        first=from_ms is None,
    )


def _limited(policy: Policy, proposal: Proposal) -> int | None:
    return None if proposal.bound_ms is None else within_limits(policy, proposal.bound_ms)


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
    "predicted",
    "needed_rows",
)
"""What a rollout that nobody was asked to approve takes over from the newest recommendation."""


def _revise(stream: SteeredStream, row: RolloutRow, candidate: RolloutRow) -> bool:
    match revise(model_of(row), candidate.to_bound_ms, model_of(candidate).direction):
        case "update":
            for name in _REVISED:
                setattr(row, name, getattr(candidate, name))
            return True
        case "replace":
            _replace(stream, row, candidate, "another bound is recommended now")
            return True
        case "keep":
            return False


def _replace(stream: SteeredStream, row: RolloutRow, candidate: RolloutRow, reason: str) -> None:
    end_rollout(stream.session, row, "Superseded", reason, stream.now_us)
    open_rollout_row(stream, candidate)


def _only_held(row: RolloutRow, proposal: Proposal) -> bool:
    """Return whether a proposal says nothing against a bound that waits for its job to start.

    While the job is stopped, the bound in use is held for want of reports. What was published before, perhaps after
    somebody had approved it, still admits all that the rows require.
    """
    held_ms, to_ms = proposal.held_from_ms, row.to_bound_ms
    return row.state == "Published" and held_ms is not None and to_ms is not None and held_ms <= to_ms


def _overtakes(stream: SteeredStream, row: RolloutRow, candidate: RolloutRow, rules: RolloutRules) -> bool:
    """Return whether a candidate takes the place of a rollout under way.

    It does before any job took that one up, and when it widens further at once. While a narrowing is being verified,
    a widening to at most the bound before it waits for the verdict: when too many rows are lost, the narrowing is
    rolled back anyway.
    """
    if row.cause == "Operator":
        return False
    if row.state != "Published" and row.cause != "NoData":
        before_ms = row.in_use_bound_ms if row.from_bound_ms is None else row.from_bound_ms
        waits = row.direction == "Narrow" and direction_of(candidate.to_bound_ms, before_ms) == "Widen"
        if candidate.direction == "Narrow" or (waits and candidate.cause != "NoData"):
            return False
    facts, model = read_facts(stream, candidate, rules), model_of(candidate)
    if at_gate(model, facts, stream.now_us) is not None or needs_approval(model, facts):
        return False
    # No gate has been asked about it yet: while one is to be, the rollout under way goes on.
    return at_outside_gate(model, facts, stream.now_us) is None
