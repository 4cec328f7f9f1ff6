"""Deletes a stream: at once for everybody who asks, then its rows in bounded steps, beside the upkeep.

The stream's row keeps its id, takes a name that no stream can have, and carries the event. So the next report of its
name begins a new stream, whose id was never another one's, however much of the old one is still to be deleted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlalchemy import Table, delete, func, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.epoch import stored_version
from tidemark.controller.base.db.tables import (
    AcknowledgementRow,
    Base,
    EventRow,
    LedgerKeyRow,
    PartitionRow,
    PolicyRow,
    PublishedRow,
    QueryRow,
    RecommendationRow,
    ReportBodyRow,
    ReportRow,
    RolloutRow,
    SloRow,
    StreamRow,
)
from tidemark.controller.base.errors import StreamReportsError
from tidemark.controller.control.bounds.acknowledgements import last_acknowledgement
from tidemark.controller.control.decide.load import read_progress
from tidemark.controller.control.retention.history import delete_some
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.evidence.horizon import horizon_of
from tidemark.controller.specs.pins import delete_pin, get_pin
from tidemark.controller.specs.store import POLICY, SLO, get_policy, get_slo, horizon_ms_of
from tidemark.controller.specs.store import version_of as spec_version
from tidemark.controller.specs.streams import add_event
from tidemark.models.base.duration import format_about
from tidemark.models.specs.pin import PinScope

QUIET_US = 900_000_000
"""A job last seen within these microseconds, a quarter of an hour, still reports."""

_MAX_BODIES = 200
"""How many bodies of reports one step deletes; each may have megabytes."""

_EVENT = "StreamDeleted"

_TABLES: tuple[Table, ...] = tuple(
    table for table in reversed(Base.metadata.sorted_tables) if "stream_id" in table.columns
)
"""All tables with rows of a stream, in an order in which they can be emptied."""

_AT_ONCE: tuple[type[SloRow | PolicyRow | RecommendationRow | RolloutRow], ...] = (
    SloRow,
    PolicyRow,
    RecommendationRow,
    RolloutRow,
)
"""What the fleet counts or decides by: few rows, deleted together with the stream's name."""


_COUNTED: Mapping[str, type[Base]] = {
    "reports": ReportRow,
    "queries": QueryRow,
    "partitions": PartitionRow,
    "ledger_keys": LedgerKeyRow,
    "published_bounds": PublishedRow,
    "rollouts": RolloutRow,
    "acknowledgements": AcknowledgementRow,
    "events": EventRow,
    "slos": SloRow,
    "policies": PolicyRow,
}
"""What is counted of a stream, by the names of ``StreamDeleted``; its pin is counted beside them."""


def held_of(session: Session, stream: StreamRow) -> dict[str, int]:
    """Return how many rows are stored of a stream, by the names of ``StreamDeleted``."""
    counts = {
        name: session.scalars(
            select(func.count()).select_from(table).where(table.__table__.c.stream_id == stream.id)
        ).one()
        for name, table in _COUNTED.items()
    }
    return {**counts, "pins": int(get_pin(session, _scope(stream)) is not None)}


def version_of(session: Session, stream: StreamRow) -> str:
    """Return what tells a stream from another one of its name, and from itself under another SLO or policy."""
    slo = get_slo(session, stream.id)
    beside = None if slo is None else spec_version(session, SLO, stream, slo)
    policy = spec_version(session, POLICY, stream, get_policy(session, stream.id))
    return stored_version(session, "stream", stream.id, beside, policy)


def check_quiet(session: Session, stream: StreamRow, now_us: int, cache: EvidenceCache) -> None:
    """Check that the job of a stream reports no more.

    Raises:
        StreamReportsError: when it does, or has not been silent for longer than usual.
    """
    horizon = horizon_of(session, stream.id, horizon_ms_of(session, stream.id))
    acknowledged = last_acknowledgement(session, stream.id)
    seen_us = [
        None if horizon is None else horizon.newest.received_us,
        None if acknowledged is None else acknowledged.received_us,
    ]
    silent_us = now_us - max((at_us for at_us in seen_us if at_us is not None), default=0)
    progress = None if horizon is None else read_progress(session, horizon, now_us, cache)
    reports = progress is not None and progress.batch_gap_us is not None and not progress.fell_silent
    if silent_us < QUIET_US or reports:
        raise StreamReportsError(
            f"the job of stream {stream.stream!r} of job {stream.job!r} still reports: it was last seen "
            f"{format_about(max(silent_us, 0))} ago. Stop it first, or say whileReporting=true (--while-reporting): "
            "then the stream begins anew with its next report"
        )


def delete_stream(session: Session, stream: StreamRow, reason: str, now_us: int) -> dict[str, int]:
    """Delete a locked stream for everybody who asks, with an event, and return what it held.

    ``empty_deleted`` deletes its rows.
    """
    contents = held_of(session, stream)
    delete_pin(session, _scope(stream))
    for table in _AT_ONCE:
        session.execute(delete(table).where(table.stream_id == stream.id))
    stream.deleted_us, stream.deleted_name = now_us, stream.stream
    # No name has a slash.
    stream.stream, stream.reports, stream.registered_us = f"/{stream.id}", 0, None
    add_event(session, stream.id, now_us, kind=_EVENT, reason=reason, before=json.dumps(contents))
    session.flush()
    return contents


def empty_deleted(session: Session, stream_id: int, events_from_us: int) -> bool:
    """Delete the next rows of a deleted stream; return False without any.

    Its event stays until ``events_from_us``, and then goes with the row of the stream itself.
    """
    stream = session.scalars(
        select(StreamRow).where(StreamRow.id == stream_id).with_for_update()
    ).one_or_none()
    if stream is None or stream.deleted_us is None:
        return False
    reports, bodies = select(ReportRow.id).where(ReportRow.stream_id == stream_id), ReportBodyRow
    if delete_some(session, bodies, bodies.report_id.in_(reports), limit=_MAX_BODIES):
        return True
    for table in _TABLES:
        which = [table.c.stream_id == stream_id]
        if table is EventRow.__table__:
            which.append((EventRow.kind != _EVENT) | (EventRow.at_us < events_from_us))
        if delete_some(session, table, *which):
            return True
    if stream.deleted_us < events_from_us and _is_not_last(session, stream_id):
        session.delete(stream)
        return True
    return False


def _is_not_last(session: Session, stream_id: int) -> bool:
    # SQLite gives the highest id again once its row is gone.
    return session.scalars(select(func.max(StreamRow.id))).one() > stream_id


def _scope(stream: StreamRow) -> PinScope:
    return PinScope(stream.job, stream.stream)
