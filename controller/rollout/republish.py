"""After a write: publish what follows from it, or begin the first rollout of a stream at once."""

from __future__ import annotations

import json

from sqlalchemy.orm import Session

from tidemark.controller.bounds.publication import last_published
from tidemark.controller.db.tables import RecommendationRow, StreamRow
from tidemark.controller.decide.stored_steps import because_of
from tidemark.controller.evidence.horizon import horizon_of
from tidemark.controller.rollout.advance import advance_rollout
from tidemark.controller.rollout.propose import propose
from tidemark.controller.rollout.publish import current_answer, republish_under
from tidemark.controller.rollout.record import Proposal
from tidemark.controller.rollout.rules import rules_of
from tidemark.controller.specs.pins import StoredPin, pin_in_force
from tidemark.controller.specs.store import Spec, get_slo
from tidemark.models.base.read_json import read_object
from tidemark.models.recommend.transition import Transition
from tidemark.models.specs.slo import Policy, Slo


def republish(session: Session, stream_id: int, policy: Policy, now_us: int) -> int:
    """Publish what follows from ``policy``, the SLO and the pin; return the generation. The stream is locked.

    Where no bound is published, the one recommended already is rolled out, if no gate holds it.
    """
    stream = session.get_one(StreamRow, stream_id)
    pin = pin_in_force(session, stream.job, stream.stream)
    slo = get_slo(session, stream_id)
    if _begin(session, stream_id, policy, slo, pin, now_us=now_us):
        published = last_published(session, stream_id)
        return 0 if published is None else published.generation
    return republish_under(session, stream_id, policy, slo, pin, now_us=now_us)


def _begin(
    session: Session,
    stream_id: int,
    policy: Policy,
    slo: Spec[Slo] | None,
    pin: StoredPin | None,
    *,
    now_us: int,
) -> bool:
    """Roll out the recommended bound of a stream without a published one; return whether it was published."""
    recommended = session.get(RecommendationRow, stream_id)
    if pin is not None or policy.mode == "Off" or slo is None or recommended is None:
        return False
    if recommended.bound_ms is None or recommended.slo_generation != slo.generation:
        return False
    if current_answer(session, stream_id, policy, slo, now_us).bound_ms is not None:
        return False
    horizon = horizon_of(session, stream_id, 0)
    proposal = Proposal(
        recommended.bound_ms,
        "Decision",
        because_of(recommended),
        None if horizon is None else horizon.newest.bound_ms,
        recommended.newest_report_id,
        _predicted(recommended),
    )
    # A first bound takes no place in the fleet's share of narrowings.
    rules = rules_of(session, stream_id, fleet=None)
    assert rules is not None
    propose(session, stream_id, rules, proposal, now_us)
    if policy.mode == "Restart":
        # It restarts the job, in its turn: the decision loop knows whose that is.
        return False
    row = advance_rollout(session, stream_id, rules, now_us)
    return row is not None and row.published_us == now_us


def _predicted(recommended: RecommendationRow) -> Transition | None:
    """Return what a stored recommendation will do; None when an earlier release stored it without."""
    text = recommended.transition
    return None if text is None else read_object(Transition, json.loads(text))
