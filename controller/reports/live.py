"""What the newest report says about live control, the append delay and the operator."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.db.statements import upsert_many
from tidemark.controller.base.db.tables import LiveRow, ReportRow, StreamRow
from tidemark.controller.reports.store import newest_report_query
from tidemark.controller.specs.streams import add_event
from tidemark.models.live.kept import KeptLive
from tidemark.models.protocol.messages import AppendDelay, LiveState, Report

_NAMES_KEPT = 100
"""How many names of partitions are kept in each list, the first ones by name; all are counted."""

_REASON_CHARACTERS = 1_000
"""How much of the fast policy's reason is kept, and of what keeps it from deciding."""


@dataclass(frozen=True, slots=True)
class NewestState:
    """What the newest report says beside the counts."""

    live: KeptLive | None = None
    """What the fast policy did; None when the job does not run in Live."""
    append_delay: AppendDelay | None = None
    """How late rows were appended; None when the job names no column for it."""
    contradiction: str | None = None
    """Why no row is judged; None when they are."""


def keep_live(session: Session, stream_id: int, report_id: int, report: Report, now_us: int) -> None:
    """Keep what ``report`` says, unless a newer one is stored already; add an event when Live begins to fail."""
    if report.live is None and report.append_delay is None and report.contradiction is None:
        return
    newest = session.connection().execute(_NEWEST, {"stream": stream_id}).scalar_one()
    if newest != report_id:
        return
    live, delay = report.live, report.append_delay
    if live is not None and live.failure is not None:
        before: KeptLive | None = session.connection().scalar(_KEPT, {"stream": stream_id})
        if before is None or before.failure is None:
            add_event(session, stream_id, now_us, kind="LiveFailed", reason=live.failure[:_REASON_CHARACTERS])
            session.flush()
    upsert_many(
        session,
        LiveRow,
        {
            "live": [None if live is None else _kept(live)],
            "append_delay": [delay],
            "contradiction": [report.contradiction],
        },
        same={"stream_id": stream_id, "report_id": report_id},
        replaced=("report_id", "live", "append_delay", "contradiction"),
    )


# Built once: that takes longer than running it.
_NEWEST = select(newest_report_query()).where(StreamRow.id == bindparam("stream"))
_KEPT = select(LiveRow.live).where(LiveRow.stream_id == bindparam("stream"))


def newest_state(session: Session, newest: ReportRow) -> NewestState:
    """Return what the newest report says; what an older one said is past."""
    row = session.get(LiveRow, newest.stream_id)
    return state_in(None if row is None or row.report_id != newest.id else row)


def state_in(row: LiveRow | None) -> NewestState:
    """Return what is kept of the newest report; ``row`` is None when it says none of this."""
    return NewestState() if row is None else made_of(NewestState, row)


def _kept(live: LiveState) -> KeptLive:
    return made_of(
        KeptLive,
        live,
        reason=live.reason[:_REASON_CHARACTERS],
        behind=tuple(sorted(live.behind)[:_NAMES_KEPT]),
        behind_partitions=len(live.behind),
        idle=tuple(sorted(live.idle)[:_NAMES_KEPT]),
        idle_partitions=len(live.idle),
        failure=None if live.failure is None else live.failure[:_REASON_CHARACTERS],
    )
