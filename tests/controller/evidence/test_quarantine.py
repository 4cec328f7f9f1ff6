"""Quarantine in the store: to the microsecond, once for each batch, until batches that agree have come for an hour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import QuarantinedRow, ReportRow, StreamRow
from tidemark.controller.base.errors import ReportConflictError
from tidemark.controller.reports.quarantine import Quarantine, quarantines
from tidemark.controller.reports.take_reports import StoredReceipt
from tidemark.models.base.operators import tumbling
from tidemark.models.evidence.misdated import AGREED_US, MAX_AHEAD_US, QUARANTINE_US

from support.empty_store import open_empty
from support.reports import START_US
from support.streams import SECOND, report_of
from support.taking import take_report

TEN_SECONDS = tumbling("10 seconds")
MINUTE = 60 * SECOND


@pytest.fixture
def session(database_url: str) -> Iterator[Session]:
    database = open_empty(database_url)
    with database.write() as found:
        yield found
    database.close()


def take(session: Session, batch_id: int, now_us: int, ahead_us: int, **changes: Any) -> StoredReceipt:
    """Take a batch whose newest row is ahead of the store's clock."""
    fields: dict[str, Any] = {"late_watermark_ms": 0, "started_us": now_us, "batch_id": batch_id, **changes}
    report = report_of([("p", now_us + ahead_us)], TEN_SECONDS, granule_us=SECOND, **fields)
    return take_report(session, report, now_us)


def counts(session: Session) -> tuple[int, int]:
    """Return how many batches are counted and how many are in quarantine."""
    counted, held = (session.scalars(select(func.count(row.id))).one() for row in (ReportRow, QuarantinedRow))
    return counted, held


def test_a_batch_beyond_the_clock_and_the_streams_own_pace_is_held_to_the_microsecond(
    session: Session,
) -> None:
    take(session, 0, START_US, MAX_AHEAD_US + 1)
    assert counts(session) == (0, 1)
    take(session, 1, START_US, MAX_AHEAD_US)
    assert counts(session) == (1, 1)
    # From now on the limit is that of the batch counted last, which moves on with the clock.
    take(session, 2, START_US + MINUTE, 2 * MAX_AHEAD_US)
    assert counts(session) == (2, 1)
    take(session, 3, START_US + 2 * MINUTE, 3 * MAX_AHEAD_US + 1)
    assert counts(session) == (2, 2)
    assert session.scalars(select(StreamRow.quarantined)).one() == 2


def test_the_stream_of_a_first_batch_in_quarantine_is_registered_then_and_once(session: Session) -> None:
    assert take(session, 0, START_US, 2 * MAX_AHEAD_US).first
    assert not take(session, 1, START_US + 1, 2 * MAX_AHEAD_US).first
    assert session.scalars(select(StreamRow.registered_us)).one() == START_US


def test_a_batch_in_quarantine_that_is_sent_again_changes_nothing(session: Session) -> None:
    first = take(session, 0, START_US, 2 * MAX_AHEAD_US)
    again = take(session, 0, START_US, 2 * MAX_AHEAD_US)
    session.execute(update(QuarantinedRow).values(fingerprint="of an earlier release"))
    upgraded = take(session, 0, START_US, 2 * MAX_AHEAD_US)
    assert (first.duplicate, again.duplicate, upgraded.duplicate) == (False, True, True)
    assert counts(session) == (0, 1)
    assert session.scalars(select(StreamRow.quarantined)).one() == 1
    with pytest.raises(ReportConflictError, match="is in quarantine; the first report stays"):
        take(session, 0, START_US, 2 * MAX_AHEAD_US, state_rows=99)


def test_batches_that_agree_for_an_hour_are_believed(session: Session) -> None:
    take(session, 0, START_US, 0)
    steps = AGREED_US // (10 * MINUTE)
    for batch in range(steps):
        take(session, 1 + batch, START_US + batch * 10 * MINUTE, 9 * MAX_AHEAD_US)
    take(session, 90, START_US + AGREED_US - 1, 9 * MAX_AHEAD_US)
    assert counts(session) == (1, steps + 1)
    take(session, 91, START_US + AGREED_US, 9 * MAX_AHEAD_US)
    assert counts(session) == (2, steps + 1)


@pytest.mark.parametrize("between_us", [0, 20 * MAX_AHEAD_US, 9 * MAX_AHEAD_US])
def test_one_batch_between_that_does_not_agree_begins_the_hour_anew(
    session: Session, between_us: int
) -> None:
    """One that is counted, one elsewhere, and one whose rows contradict its watermark."""
    take(session, 0, START_US, 0)
    take(session, 1, START_US, 9 * MAX_AHEAD_US)
    halfway_us = START_US + AGREED_US // 2
    contradicts = between_us == 9 * MAX_AHEAD_US
    changes = {"watermark_ms": (halfway_us + between_us) // 1_000} if contradicts else {}
    take(session, 2, halfway_us, 0 if contradicts else between_us, **changes)
    before = counts(session)
    take(session, 3, START_US + AGREED_US, 9 * MAX_AHEAD_US)
    assert counts(session) == (before[0], before[1] + 1)


def test_what_is_in_quarantine_is_summed_by_stream_and_forgotten_in_the_end(session: Session) -> None:
    assert quarantines(session) == {}
    take(session, 0, START_US, 2 * MAX_AHEAD_US)
    late_ms = (START_US + 9 * MAX_AHEAD_US) // 1_000
    take(session, 1, START_US + 1, 3 * MAX_AHEAD_US, late_watermark_ms=late_ms)
    stream_id = session.scalars(select(StreamRow.id)).one()
    found = Quarantine(reports=2, late=1, ahead_us=9 * MAX_AHEAD_US - 1, newest_us=START_US + 1)
    assert quarantines(session) == quarantines(session, [stream_id]) == {stream_id: found}
    assert quarantines(session, [stream_id + 1]) == {}
    take(session, 2, START_US + QUARANTINE_US + 1, 2 * MAX_AHEAD_US)
    assert quarantines(session)[stream_id].reports == 2, "one is older than that, one is not"
