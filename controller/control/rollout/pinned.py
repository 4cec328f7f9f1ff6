"""Publishes to the streams that a pin holds, or no longer holds."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.tables import KNOWN, PublishedRow, StreamRow
from tidemark.controller.control.bounds.publication import SteeredStream
from tidemark.controller.control.rollout.actions import republish
from tidemark.controller.control.rollout.publish import republish_under
from tidemark.controller.specs.pins import pins_in_force
from tidemark.controller.specs.store import get_policy, get_specs
from tidemark.controller.specs.streams import lock_by_id


def publish_pinned(session: Session, streams: Sequence[StreamRow], now_us: int) -> None:
    """Publish to locked streams what the pin in force for each makes of its bound."""
    pins = pins_in_force(session, [(row.job, row.stream) for row in streams])
    for row in streams:
        slo, policy = get_specs(session, row.id)
        pin = pins.get((row.job, row.stream))
        stream = SteeredStream(session, row, now_us, locked=True)
        republish_under(stream, policy.value, slo, pin)


def publish_missing_pins(database: Database, now_us: int) -> int:
    """Publish to streams whose pin differs from what was published; return how many.

    Such a stream appeared under a pin of its job or of the fleet, perhaps at the moment when that was set.
    """
    with database.read() as session:
        missing = _not_published(session)
    for stream_id in missing:
        with database.write() as session:
            if lock_by_id(session, stream_id) is None:
                continue  # it was deleted meanwhile
            republish(session, stream_id, get_policy(session, stream_id).value, now_us)
        database.answers_changed()
    return len(missing)


def _not_published(session: Session) -> list[int]:
    any_row = aliased(PublishedRow)
    newest = select(func.max(any_row.generation)).where(any_row.stream_id == StreamRow.id)
    found = session.execute(
        select(StreamRow.id, StreamRow.job, StreamRow.stream, PublishedRow.pin)
        .outerjoin(
            PublishedRow,
            and_(
                PublishedRow.stream_id == StreamRow.id,
                PublishedRow.generation == newest.correlate(StreamRow).scalar_subquery(),
            ),
        )
        .where(KNOWN)
        .order_by(StreamRow.job, StreamRow.stream)
    ).all()
    pins = pins_in_force(session, [(row.job, row.stream) for row in found])
    wanted = {name: pin.to for name, pin in pins.items()}
    return [row.id for row in found if row.pin != wanted.get((row.job, row.stream))]
