"""Which streams a tick decides: those where something has changed, at most every ``PAUSE_SECONDS``.

Sooner come streams that somebody wrote to, that acknowledged something, or that lose more rows than the SLO allows.
Time alone changes only what an open rollout or a mode other than Off waits for; those are checked every
``PAUSE_SECONDS``, all others every ``SWEEP_SECONDS``, in case something was missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ScalarSelect, case, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from tidemark.controller.base.clock import SteadyClock
from tidemark.controller.base.db.tables import (
    AcknowledgementRow,
    PolicyRow,
    ReportRow,
    RolloutRow,
    SloRow,
    StreamRow,
)
from tidemark.controller.control.bounds.publication import newest_generation_query
from tidemark.controller.control.rollout.store import newest_rollout_query
from tidemark.models.base.target import PPM
from tidemark.models.rollout.states import OPEN

PAUSE_SECONDS = 15.0
"""Minimum time between two decisions of a stream that only has new reports, in seconds."""

SWEEP_SECONDS = 600.0
"""Maximum time between two checks of a stream, whatever has changed, in seconds."""


@dataclass(frozen=True, slots=True)
class StreamVersion:
    """What the decision about a stream depends on, as of one tick."""

    stream_id: int
    job: str
    stream: str
    reports: tuple[int, int, int]
    """The newest report's id, 0 without any, the pairs judged so far, and how many of them may have been late."""
    target_ppm: int
    timed: bool
    """Whether time alone may change something."""
    written: tuple[object, ...]
    """What is written beside reports: the SLO, the policy, the bound published, acknowledgements, the rollout."""

    def loses_rows_since(self, before: StreamVersion) -> bool:
        """Return whether more rows were late since then than the SLO allows."""
        pairs, late = self.reports[1] - before.reports[1], self.reports[2] - before.reports[2]
        return late * PPM > (PPM - self.target_ppm) * pairs


def read_versions(session: Session) -> Sequence[StreamVersion]:
    """Return the versions of all streams that have an SLO, in the order of their ids."""
    return [
        StreamVersion(
            stream_id=row.id,
            job=row.job,
            stream=row.stream,
            reports=(row.report_id or 0, row.pairs, row.late_max),
            target_ppm=row.target_ppm,
            timed=bool(row.timed),
            written=tuple(row[-len(_WRITTEN) :]),
        )
        for row in session.connection().execute(_VERSIONS)
    ]


def _newest(table: type[ReportRow | AcknowledgementRow]) -> ScalarSelect[int | None]:
    of: InstrumentedAttribute[int] = table.stream_id
    return select(func.max(table.id)).where(of == StreamRow.id).correlate(StreamRow).scalar_subquery()


_ROLLOUT = aliased(RolloutRow)
_WRITTEN = (
    SloRow.generation,
    PolicyRow.generation,
    newest_generation_query(),
    _newest(AcknowledgementRow),
    _ROLLOUT.id,
    _ROLLOUT.state,
    _ROLLOUT.approved_us,
    _ROLLOUT.vetoed,
)
_VERSIONS = (
    select(
        StreamRow.id,
        StreamRow.job,
        StreamRow.stream,
        _newest(ReportRow).label("report_id"),
        StreamRow.pairs,
        StreamRow.late_max,
        SloRow.target_ppm,
        case(
            (_ROLLOUT.state.in_(sorted(OPEN)), 1), (func.coalesce(PolicyRow.mode, "Off") != "Off", 1), else_=0
        ).label("timed"),
        *_WRITTEN,
    )
    .join(SloRow, SloRow.stream_id == StreamRow.id)
    .outerjoin(PolicyRow, PolicyRow.stream_id == StreamRow.id)
    .outerjoin(_ROLLOUT, _ROLLOUT.id == newest_rollout_query())
    .order_by(StreamRow.id)
)


class Pace:
    """Remembers when each stream was decided, and by which version of it. For one thread."""

    def __init__(self, steady: SteadyClock) -> None:
        self._steady = steady
        self._decided: dict[int, tuple[StreamVersion, float]] = {}

    def is_due(self, version: StreamVersion) -> bool:
        """Return whether a stream is to be decided now."""
        decided = self._decided.get(version.stream_id)
        if decided is None or decided[0].written != version.written:
            return True
        before, at_s = decided
        waited_s = self._steady() - at_s
        if version.reports != before.reports and version.loses_rows_since(before):
            return True
        if version.timed or version.reports != before.reports:
            return waited_s >= PAUSE_SECONDS
        return waited_s >= SWEEP_SECONDS

    def decided(self, version: StreamVersion) -> None:
        """Note that a stream was decided, or that nothing was to be decided about it."""
        self._decided[version.stream_id] = version, self._steady()

    def forget(self, stream_id: int) -> None:
        """Forget a stream that another process decides."""
        self._decided.pop(stream_id, None)
