"""The shadow of a stream as it is stored: what is tried, what it would have led to, and what was counted by day."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from pydantic import TypeAdapter
from sqlalchemy import bindparam, delete, select
from sqlalchemy.orm import Session

from tidemark.controller.db.epoch import stored_version
from tidemark.controller.db.statements import upsert_many
from tidemark.controller.db.tables import ShadowDayRow, ShadowRow, StreamRow
from tidemark.controller.errors import ShadowNotSetError, ShadowRefusedError
from tidemark.controller.evidence.horizon import newest_report_id
from tidemark.controller.specs.kinds import loaded_specification, stored_specification
from tidemark.controller.specs.store import SLO, Spec, version_of
from tidemark.controller.streams.store import add_event
from tidemark.models.rollout.shadow import ClosedUntil, ShadowTally
from tidemark.models.specs.shadow_slo import ShadowSlo, why_not_tried
from tidemark.models.specs.slo import Slo

_TRIED = TypeAdapter(ShadowSlo)

COUNTED = tuple(field.name for field in fields(ShadowTally))
"""The columns of what is counted."""


@dataclass(frozen=True, slots=True)
class StoredShadow:
    """A shadow."""

    row: ShadowRow
    """How it is stored."""
    tried: ShadowSlo
    """What is tried."""

    def version(self, session: Session, slo: Spec[Slo] | None) -> str:
        """Return what tells it from any other shadow of its stream, and from itself beside another SLO."""
        row = self.row
        beside = (
            None if slo is None else version_of(session, SLO, session.get_one(StreamRow, row.stream_id), slo)
        )
        return stored_version(session, "shadow", row.since_us, row.specification, beside)

    @property
    def closed(self) -> ClosedUntil | None:
        """Up to where windows are closed; None before the first batch."""
        row = self.row
        if row.query_id is None or row.closed_us is None or row.in_use_closed_us is None:
            return None
        return ClosedUntil(row.query_id, row.closed_us, row.in_use_closed_us)


def find_shadow(session: Session, stream_id: int) -> StoredShadow | None:
    """Return the shadow of a stream; None without one."""
    row = session.get(ShadowRow, stream_id)
    return None if row is None else StoredShadow(row, loaded_specification(_TRIED, row.specification))


def get_shadow(session: Session, stream_id: int) -> StoredShadow:
    """Return the shadow of a stream.

    Raises:
        ShadowNotSetError: when it has none.
    """
    found = find_shadow(session, stream_id)
    if found is None:
        raise ShadowNotSetError("nothing is tried beside the stream's SLO; PUT a target at its path /shadow")
    return found


def has_shadow(session: Session, stream_id: int) -> bool:
    """Return whether a stream has a shadow."""
    return session.connection().execute(_HAS, {"stream": stream_id}).one_or_none() is not None


# Built once: building it takes longer than running it.
_HAS = select(ShadowRow.stream_id).where(ShadowRow.stream_id == bindparam("stream"))


def check_tried(tried: ShadowSlo, slo: Spec[Slo]) -> None:
    """Check that something can be tried beside an SLO, and differs from it.

    Raises:
        ShadowRefusedError: when it cannot, or does not.
    """
    why = why_not_tried(slo.value, joined=slo.join_id is not None)
    if why is not None:
        raise ShadowRefusedError(f"nothing can be tried beside this SLO: {why}")
    if tried.beside(slo.value) == slo.value:
        raise ShadowRefusedError("this is the SLO in force; try another target, cap or on_conflict")


def put_shadow(
    session: Session,
    stream_id: int,
    tried: ShadowSlo,
    before: StoredShadow | None,
    now_us: int,
    *,
    reason: str,
) -> StoredShadow:
    """Try something beside the SLO of a locked stream, in place of ``before``; what was counted of that is deleted."""
    _delete(session, stream_id)
    row = ShadowRow(
        stream_id=stream_id,
        specification=stored_specification(tried),
        reason=reason,
        since_us=now_us,
        counted_report_id=newest_report_id(session, stream_id),
    )
    session.add(row)
    add_event(
        session,
        stream_id,
        now_us,
        kind="ShadowSet",
        reason=reason,
        before=None if before is None else json.dumps(asdict(before.tried)),
        after=json.dumps(asdict(tried)),
    )
    session.flush()
    session.refresh(row)
    return StoredShadow(row, tried)


def end_shadow(session: Session, stream_id: int, now_us: int, *, kind: str, reason: str) -> None:
    """End the shadow of a locked stream, if it has one; the event says what was counted.

    Args:
        session: the session.
        stream_id: the stream.
        now_us: the wall time in microseconds.
        kind: the kind of the event.
        reason: why.
    """
    shadow = find_shadow(session, stream_id)
    if shadow is None:
        return
    counted = asdict(total_of(days_of(session, stream_id)))
    before = {**asdict(shadow.tried), "bound_ms": shadow.row.bound_ms, "counted": counted}
    add_event(session, stream_id, now_us, kind=kind, reason=reason, before=json.dumps(before))
    _delete(session, stream_id)


def _delete(session: Session, stream_id: int) -> None:
    session.flush()
    for table in (ShadowDayRow, ShadowRow):
        session.execute(delete(table).where(table.stream_id == stream_id))


def days_of(session: Session, stream_id: int) -> list[ShadowDayRow]:
    """Return what was counted by day, the newest first."""
    wanted = select(ShadowDayRow).where(ShadowDayRow.stream_id == stream_id)
    return list(session.scalars(wanted.order_by(ShadowDayRow.day_us.desc())))


def total_of(days: list[ShadowDayRow]) -> ShadowTally:
    """Return the sum of some days."""
    return ShadowTally(**{name: sum(getattr(day, name) for day in days) for name in COUNTED})


def add_days(
    session: Session,
    stream_id: int,
    days: dict[int, ShadowTally],
    *,
    bound_ms: int | None,
    in_use_bound_ms: int,
) -> None:
    """Add to what was counted by day; the stream is locked."""
    starts = sorted(days)
    upsert_many(
        session,
        ShadowDayRow,
        {
            "day_us": starts,
            **{name: [getattr(days[start], name) for start in starts] for name in COUNTED},
        },
        same={"stream_id": stream_id, "bound_ms": bound_ms, "in_use_bound_ms": in_use_bound_ms},
        replaced=("bound_ms", "in_use_bound_ms"),
        added=COUNTED,
    )
