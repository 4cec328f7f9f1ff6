"""Windows of a stream as they are shown: what has come of each, what the result has of it, and what it will become."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from sqlalchemy.orm import Session

from tidemark.controller.base.answer import share_ppm
from tidemark.controller.base.db.tables import ReportRow
from tidemark.controller.control.decide.load import read_progress
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.evidence.horizon import horizon_of
from tidemark.controller.evidence.window_ages import StoredWindows, windows_of
from tidemark.controller.evidence.windows import passed_us
from tidemark.controller.specs.store import horizon_ms_of
from tidemark.models.completeness.estimate import NotKnown, estimate
from tidemark.models.completeness.outcome import (
    NewestWindows,
    Window,
    WindowEstimate,
    WindowOutcome,
    WindowState,
)
from tidemark.models.completeness.ranges import range_of
from tidemark.models.evidence.ledger import Tally


def read_windows(session: Session, stream_id: int, now_us: int, cache: EvidenceCache) -> StoredWindows | None:
    """Return what is stored of a stream's windows; None without reports."""
    horizon = horizon_of(session, stream_id, horizon_ms_of(session, stream_id))
    if horizon is None:
        return None
    return windows_of(session, horizon.newest, read_progress(session, horizon, now_us, cache).batch_gap_us)


def state_of(newest: ReportRow, end_us: int) -> WindowState:
    """Return whether rows of a window can still be counted."""
    return "Closed" if end_us <= passed_us(newest) else "Open"


def window_of(
    stored: StoredWindows | None,
    end_us: int,
    asked_ppm: int,
    span_us: int = 0,
    tally: Tally | None = None,
    *,
    unknown: str | None = None,
) -> Window:
    """Return the window that ends at a time, in microseconds; of a stream without reports where ``stored`` is None.

    Or as one window those of a span, with the sum of what the ledger says of them, or why that is not known.
    """
    found: WindowEstimate | NotKnown = NotKnown("no report of the stream has come yet")
    state: WindowState = "Open"
    tally = tally or Tally()
    if stored is not None:
        newest, arrivals = stored.newest, stored.arrivals
        if span_us > arrivals.step_us and unknown is None:
            arrivals = range_of(arrivals, end_us, span_us // arrivals.step_us, tally.rows)
        elif unknown is None:
            tally = stored.ledger.get(end_us, tally)
        state = state_of(newest, end_us)
        found = NotKnown(unknown or "rows of the newest batch could not be counted by window")
        if not newest.unjudged_rows and unknown is None:
            found = estimate(arrivals, end_us, stored.partitions, seen_us=newest.seen_us, share_ppm=asked_ppm)
    least_ppm, most_ppm = (
        share_ppm(tally.rows - late, tally.rows) for late in (tally.late_max, tally.late_min)
    )
    outcome: WindowOutcome = "NotYet"
    if state == "Closed" and most_ppm is not None and most_ppm < asked_ppm:
        outcome = "Unreachable"
    elif isinstance(found, NotKnown):
        outcome = "NotKnown"
    elif found.settled and least_ppm is not None and least_ppm >= asked_ppm:
        outcome = "Reached"
    return Window(
        end_us=end_us,
        state=state,
        asked_ppm=asked_ppm,
        rows=tally.rows,
        late_min=tally.late_min,
        late_max=tally.late_max,
        counted_min_ppm=least_ppm,
        counted_max_ppm=most_ppm,
        estimate=None if isinstance(found, NotKnown) else found,
        unknown=found.reason if isinstance(found, NotKnown) else None,
        outcome=outcome,
    )


def newest_windows(stored: StoredWindows, asked_ppm: int, before_us: int | None) -> NewestWindows:
    """Return the newest settled window and the newest closed one.

    Rows that come late come after their window was closed. So the newest closed one that is settled is taken, and the
    newest of all only where none is settled.

    Args:
        before_us: the newest settled window when that was last found out, near which it is looked for.
    """
    ends_us = list(stored.ledger)
    settled_us = _newest_settled(stored, ends_us, asked_ppm, before_us)
    until_us = passed_us(stored.newest) if settled_us is None else min(settled_us, passed_us(stored.newest))
    closed = bisect_right(ends_us, until_us)
    closed_us = ends_us[closed - 1] if closed else None
    tally = Tally() if closed_us is None else stored.ledger[closed_us]
    return NewestWindows(
        report_id=stored.newest.id,
        asked_ppm=asked_ppm,
        settled_us=settled_us,
        closed_us=closed_us,
        rows=tally.rows,
        late_min=tally.late_min,
        late_max=tally.late_max,
    )


def _newest_settled(
    stored: StoredWindows, ends_us: list[int], asked_ppm: int, before_us: int | None
) -> int | None:
    """Return the end of the newest settled one of some windows, by few estimates: each takes milliseconds."""

    def settled(place: int) -> bool:
        found = window_of(stored, ends_us[place], asked_ppm).estimate
        return found is not None and found.settled

    # By ever longer steps: back to one that is, and on to one that is not.
    before = 0 if before_us is None else bisect_right(ends_us, before_us)
    place, step = (before or len(ends_us)) - 1, 1
    while place >= 0 and not settled(place):
        place, step = place - step, 2 * step
    if place < 0:
        return None
    step = 1
    while place + step < len(ends_us) and settled(place + step):
        place, step = place + step, 2 * step
    between = range(place + 1, min(place + step, len(ends_us)))
    return ends_us[place + bisect_left(between, True, key=lambda later: not settled(later))]
