"""What people do: act on rollouts (each act is idempotent), or set what is published again or rolled out at once."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import RecommendationRow, RolloutRow, StreamRow
from tidemark.controller.base.errors import RolloutNotFoundError, RolloutStateError
from tidemark.controller.base.principal import current_actor
from tidemark.controller.control.bounds.publication import SteeredStream
from tidemark.controller.control.rollout.advance import advance_rollout, apply_move
from tidemark.controller.control.rollout.propose import propose
from tidemark.controller.control.rollout.publish import current_answer, republish_under
from tidemark.controller.control.rollout.store import Proposal, RolloutRules, find_rollout, read_rules
from tidemark.controller.specs.pins import pin_in_force
from tidemark.controller.specs.store import Spec, get_policy, get_slo
from tidemark.controller.specs.streams import EventBasis, add_event
from tidemark.models.recommend.steps import because
from tidemark.models.rollout.restarts import FleetLimits
from tidemark.models.rollout.states import OPEN, Act, Move, allowed, state_text
from tidemark.models.specs.slo import Policy, Slo

_WORDS: Mapping[Act, tuple[str, str]] = {
    "approve": ("it cannot be approved", "it can be approved"),
    "discard": ("it cannot be discarded", "it can be discarded"),
    "rollback": ("it cannot be rolled back", "it can be rolled back"),
    "lift": ("it has no veto to lift", "its veto can be lifted"),
}
"""What is refused and what is possible, by act."""


def get_rollout(session: Session, stream_id: int, rollout_id: int) -> RolloutRow:
    """Return a rollout of the stream.

    Raises:
        RolloutNotFoundError: when the stream has none with this id.
    """
    row = find_rollout(session, stream_id, rollout_id)
    if row is None:
        raise RolloutNotFoundError(
            f"the stream has no rollout {rollout_id}; GET .../rollouts lists its rollouts"
        )
    return row


def approve(stream: SteeredStream, rollout_id: int, reason: str, fleet: FleetLimits) -> RolloutRow:
    """Approve a rollout and publish it as soon as nothing else holds it; the stream is locked.

    Raises:
        RolloutNotFoundError: when the stream has none with this id.
        RolloutStateError: when it is past approval.
    """
    row = get_rollout(stream.session, stream.id, rollout_id)
    if row.approved_us is not None and row.state in OPEN | {"Verified"}:
        return row
    rules = _checked(stream, row, "approve", fleet)
    row.approved_us, row.approved_by, row.approval_reason = stream.now_us, current_actor(), reason
    return _changed(stream, row, rules, kind="RolloutApproved", reason=reason)


def discard(stream: SteeredStream, rollout_id: int, reason: str, fleet: FleetLimits) -> RolloutRow:
    """Discard a rollout before it is published, and remember that; the stream is locked.

    Raises:
        RolloutNotFoundError: when the stream has none with this id.
        RolloutStateError: when it is published already.
    """
    row = get_rollout(stream.session, stream.id, rollout_id)
    if row.state != "Discarded":
        rules = _checked(stream, row, "discard", fleet)
        apply_move(stream, row, Move("Discarded", f"discarded: {reason}", failure="Discarded"), rules)
    return row


def roll_back(stream: SteeredStream, rollout_id: int, reason: str, fleet: FleetLimits) -> RolloutRow:
    """Publish again what was published before a rollout, and remember that; the stream is locked.

    Raises:
        RolloutNotFoundError: when the stream has none with this id.
        RolloutStateError: when it was never published, has ended otherwise, or is not in force any more.
    """
    row = get_rollout(stream.session, stream.id, rollout_id)
    if row.state == "RolledBack":
        return row
    rules, found = _checked(stream, row, "rollback", fleet), stream.unpinned
    if found is None or found.rollout_id != row.id:
        now = "nothing is published" if found is None else f"generation {found.generation} is published now"
        raise RolloutStateError(
            f"rollout {row.id} cannot be rolled back: {now}, which does not carry it; roll back the rollout "
            "that is in force, or set the policy"
        )
    apply_move(stream, row, Move("RolledBack", f"rolled back: {reason}", failure="ByHand"), rules)
    return row


def lift(stream: SteeredStream, rollout_id: int, reason: str, fleet: FleetLimits) -> RolloutRow:
    """Lift the veto of a person who discarded a rollout or rolled it back; the stream is locked.

    Its bound may be recommended and published again, as the policy allows.

    Raises:
        RolloutNotFoundError: when the stream has none with this id.
        RolloutStateError: when nobody discarded it or rolled it back.
    """
    row = get_rollout(stream.session, stream.id, rollout_id)
    if row.state in {"Discarded", "RolledBack"} and not row.vetoed:
        return row
    rules = _checked(stream, row, "lift", fleet)
    row.vetoed = False
    return _changed(stream, row, rules, kind="VetoLifted", reason=reason)


def _changed(
    stream: SteeredStream, row: RolloutRow, rules: RolloutRules, *, kind: str, reason: str
) -> RolloutRow:
    """Write down what a person changed about a rollout, and take the open one as far as it can go now."""
    basis = EventBasis(rollout_id=row.id)
    add_event(stream.session, stream.id, stream.now_us, kind=kind, reason=reason, evidence=basis)
    stream.session.flush()
    advance_rollout(stream, rules)
    return row


def _checked(stream: SteeredStream, row: RolloutRow, act: Act, fleet: FleetLimits) -> RolloutRules:
    """Return the rules of a stream, having checked that a person may do this with one of its rollouts."""
    state = row.state
    acts = allowed(state, vetoed=row.vetoed)
    if act not in acts:
        raise RolloutStateError(
            f"rollout {row.id} is {state_text(state)}, so {_WORDS[act][0]}; {_instead(stream, row, acts)}"
        )
    rules = read_rules(stream, fleet)
    if rules is None:
        raise RolloutStateError(
            "the stream has no SLO, so no rollout of it can be changed; set its SLO first"
        )
    return rules


def _instead(stream: SteeredStream, row: RolloutRow, acts: tuple[Act, ...]) -> str:
    """Return what a person may do where they asked for something else."""
    if acts:
        return " or ".join(_WORDS[act][1] for act in acts)
    newest = stream.newest_rollout
    if newest is None or newest.id == row.id:
        return "the next one begins when another bound is recommended"
    return f"the newest one is rollout {newest.id}, which is {state_text(newest.state)}"


def republish(session: Session, stream_id: int, policy: Policy, now_us: int) -> int:
    """Publish what follows from ``policy``, the SLO and the pin; return the generation. The stream is locked.

    Where no bound is published, the one recommended already is rolled out, if no gate holds it; not one that was
    recommended under another SLO or policy, for which another bound may be right.
    """
    stream = SteeredStream(session, session.get_one(StreamRow, stream_id), now_us, locked=True)
    pin = pin_in_force(session, stream.row.job, stream.row.stream)
    slo = get_slo(session, stream_id)
    if pin is None and slo is not None and _begin(stream, policy, slo):
        return 0 if stream.published is None else stream.published.generation
    return republish_under(stream, policy, slo, pin)


def begins(stream: SteeredStream, policy: Policy, slo: Spec[Slo] | None) -> bool:
    """Return whether a mode is to be published that no generation has yet, and no bound is published.

    Then the decision about the stream publishes both in one generation.
    """
    published_mode = "Off" if stream.published is None else stream.published.mode
    if policy.mode in {"Off", published_mode}:
        return False
    return current_answer(stream, policy, slo).bound_ms is None


def begin(stream: SteeredStream, rules: RolloutRules, proposal: Proposal | None) -> bool:
    """Roll out a proposed bound together with its mode; return whether it was published. The stream is locked."""
    if proposal is None or proposal.cause != "Decision" or rules.pin is not None:
        return False
    if not begins(stream, rules.policy.value, rules.slo):
        return False
    propose(stream, rules, proposal)
    return _is_published(stream, advance_rollout(stream, rules))


def _is_published(stream: SteeredStream, row: RolloutRow | None) -> bool:
    """Return whether a rollout was published just now."""
    return row is not None and row.published_us == stream.now_us


def _begin(stream: SteeredStream, policy: Policy, slo: Spec[Slo]) -> bool:
    """Roll out the recommended bound of a stream without a published one; return whether it was published."""
    recommended = stream.session.get(RecommendationRow, stream.id)
    if policy.mode == "Off" or recommended is None or recommended.bound_ms is None:
        return False
    # A recommendation under another policy is for other limits, or for a mode in which a change costs something else.
    generations = slo.generation, get_policy(stream.session, stream.id).generation
    if (recommended.slo_generation, recommended.policy_generation) != generations:
        return False
    if current_answer(stream, policy, slo).bound_ms is not None:
        return False
    proposal = Proposal(
        recommended.bound_ms,
        "Decision",
        because(recommended.steps),
        None if stream.newest is None else stream.newest.bound_ms,
        recommended.newest_report_id,
        recommended.transition,
    )
    # A first bound takes no place in the fleet's share of narrowings.
    rules = read_rules(stream, fleet=None)
    assert rules is not None
    propose(stream, rules, proposal)
    if policy.mode == "Restart":
        # It restarts the job, in its turn: the decision loop knows whose that is.
        return False
    return _is_published(stream, advance_rollout(stream, rules))
