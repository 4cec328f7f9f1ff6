"""What follows from a write of a specification: the bound that is published from then on, and what it will do."""

from __future__ import annotations

import logging

from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import RecommendationRow, StreamRow
from tidemark.controller.base.errors import LeaseLostError
from tidemark.controller.control.bounds.publication import last_published
from tidemark.controller.control.rollout.store import open_rollout
from tidemark.controller.server.process.service import Service
from tidemark.controller.server.schemas.specs import Consequences
from tidemark.controller.server.schemas.views import published_answer, recommended_answer, transition_answer
from tidemark.controller.specs.pins import pin_in_force
from tidemark.models.rollout.states import CANDIDATE

_log = logging.getLogger(__name__)


def consequences(session: Session, stream_id: int, *, dry_run: bool) -> Consequences:
    """Return what follows for a stream, as its status has it after the write."""
    row = session.get_one(StreamRow, stream_id)
    recommendation = session.get(RecommendationRow, stream_id)
    published, rollout = last_published(session, stream_id), open_rollout(session, stream_id)
    return Consequences(
        dry_run=dry_run,
        recommended=recommended_answer(session, recommendation, published),
        transition=transition_answer(recommendation),
        published=published_answer(row, published, pin_in_force(session, row.job, row.stream)),
        held=None if rollout is None or rollout.state not in CANDIDATE else rollout.reason,
    )


def decide_now(service: Service, stream_id: int) -> None:
    """Decide without waiting for the next tick, so that the next read agrees with the write."""
    try:
        service.decider.decide(stream_id, service.clock())
    except LeaseLostError as error:
        _log.warning("%s", error.detail)
        service.loop.refused.inc()
    except Exception:  # noqa: BLE001 - the write is stored; the loop tries again
        _log.exception("stream %d could not be decided after its change", stream_id)
        service.loop.failures.inc()
