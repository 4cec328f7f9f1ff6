"""Takes reports, each once: the batch's facts, its ledger rows and its needs, in the caller's transaction.

Reports may come in any order and repeatedly. The ledger is a sum, so their order does not matter to it. Needs are
counted against a base that earlier batches determine. When an earlier batch comes late and raises the base, the needs
counted against the old base are subtracted and counted again (``raise_bases``), so that the result does not depend on
the order.

Many reports of different streams are taken by the same statements. Those of one stream follow one another, since each
changes what is known when the next one comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

from sqlalchemy import Select, Table, bindparam, delete, select, update
from sqlalchemy.orm import Session

from tidemark.controller.base.db.database import NO_LIMITS, Limits
from tidemark.controller.base.db.tables import ReportBodyRow, ReportRow, StreamRow
from tidemark.controller.base.errors import ReportConflictError, ReportTooOldError, TidemarkError
from tidemark.controller.reports.ran_again import in_its_life, is_ran_again
from tidemark.controller.reports.store_reports import (
    NewNeeds,
    NewReport,
    ReportFollower,
    Stored,
    store_reports,
)
from tidemark.controller.reports.stored_bodies import canonical_json, fingerprint, is_stored, stored_report
from tidemark.controller.reports.stored_facts import StoredFacts, stored_facts
from tidemark.controller.specs.streams import add_event, lock_or_make, named_streams, names_given
from tidemark.models.evidence.misdated import MAX_AHEAD_US
from tidemark.models.evidence.slots import DAY_US
from tidemark.models.protocol.messages import Report


@dataclass(frozen=True, slots=True)
class StoredReceipt:
    """Confirms that a report or an acknowledgement is stored."""

    received_us: int
    """When it was first received, in microseconds since the epoch."""
    duplicate: bool
    """Whether it was received before; then nothing was changed."""
    first: bool = False
    """Whether it is the stream's first report, which changes what is published to its job."""
    needs: Mapping[int, NewNeeds] = field(default_factory=dict)
    """Its needs by the id of its row, once it is committed."""


@dataclass(slots=True)
class _Stream:
    """A locked stream."""

    id: int
    registered: bool
    """Whether a report was received before."""
    made: bool = False
    """Whether it was made for one of these reports, and goes again when none is stored."""


_Name = tuple[str, str]
"""Job and stream."""


def take_reports(
    session: Session,
    reports: Sequence[Report],
    now_us: int,
    evidence: ReportFollower,
    limits: Limits = NO_LIMITS,
) -> list[StoredReceipt | TidemarkError]:
    """Store reports and what follows from them, each once.

    It bypasses the session, which may hold no unflushed changes.

    Args:
        now_us: when they were received, in microseconds.
        evidence: is told of them.

    Returns:
        For each report its receipt, or why nothing of it was stored:

        * ReportConflictError: the batch was reported before with other content; the first report stays;
        * ReportTooOldError: later reports of its query are deleted, so that it might be counted twice;
        * LimitReachedError: there is no room now for another stream of its job, or for its partitions;
        * TooManyPairsError: what the stream counts would not be exact.
    """
    streams: dict[_Name, _Stream] = {}
    taken: dict[int, StoredReceipt | TidemarkError] = _lock(session, reports, streams, limits)
    waiting = [number for number in range(len(reports)) if number not in taken]
    for some in _rounds(reports, waiting):
        round_ = [(reports[number], streams[_name(reports[number])]) for number in some]
        taken |= zip(some, _take(session, round_, now_us, evidence, limits), strict=True)
    unused = [stream.id for stream in streams.values() if stream.made and not stream.registered]
    if unused:
        session.execute(delete(StreamRow).where(StreamRow.id.in_(unused)))
    return [taken[number] for number in range(len(reports))]


# Statements are built once: building one takes longer than running it.
_STREAMS = cast("Table", StreamRow.__table__)
_COUNT_DUPLICATE = (
    update(_STREAMS).where(_STREAMS.c.id == bindparam("which")).values(duplicates=_STREAMS.c.duplicates + 1)
)


@cache
def _locked(dialect: str) -> Select[Any]:
    return (
        named_streams(dialect, StreamRow.id, StreamRow.job, StreamRow.stream, StreamRow.registered_us)
        # The same order for all writers, because rows are locked in it.
        .order_by(StreamRow.job, StreamRow.stream)
        .with_for_update(of=StreamRow)
    )


def _lock(
    session: Session, reports: Sequence[Report], streams: dict[_Name, _Stream], limits: Limits
) -> dict[int, StoredReceipt | TidemarkError]:
    """Lock the streams of reports, making new ones; return why some reports have none, by their numbers."""
    names = {_name(report) for report in reports}
    dialect = session.get_bind().dialect.name
    for row in session.connection().execute(_locked(dialect), names_given(dialect, names)):
        streams[row.job, row.stream] = _Stream(row.id, row.registered_us is not None)
    refused: dict[_Name, TidemarkError] = {}
    for name in sorted(names - streams.keys()):
        try:
            stream, made = lock_or_make(session, *name, limits)
        except TidemarkError as error:
            refused[name] = error
        else:
            streams[name] = _Stream(stream.id, stream.registered_us is not None, made)
    return {
        number: refused[_name(report)] for number, report in enumerate(reports) if _name(report) in refused
    }


def _rounds(reports: Sequence[Report], numbers: Sequence[int]) -> Iterator[list[int]]:
    """Yield the numbers of reports in rounds, each with one report of a stream at most; their order stays."""
    by_stream: dict[_Name, list[int]] = {}
    for number in numbers:
        by_stream.setdefault(_name(reports[number]), []).append(number)
    for position in range(max(map(len, by_stream.values()), default=0)):
        yield [queue[position] for queue in by_stream.values() if position < len(queue)]


def _take(
    session: Session,
    reports: Sequence[tuple[Report, _Stream]],
    now_us: int,
    evidence: ReportFollower,
    limits: Limits,
) -> list[StoredReceipt | TidemarkError]:
    """Store reports of different streams."""
    facts = stored_facts(session, {stream.id: report for report, stream in reports})
    taken: list[StoredReceipt | TidemarkError | None] = []
    new: list[NewReport] = []
    for report, stream in reports:
        candidate = _new(stream, report, facts[stream.id], now_us)
        try:
            if _contradicts(session, candidate):
                again = in_its_life(session, stream.id, report)
                if again is None:
                    taken.append(_duplicate(session, candidate))
                    continue
                candidate = _new(stream, again, stored_facts(session, {stream.id: again})[stream.id], now_us)
            taken.append(_receipt_before(session, candidate))
        except TidemarkError as error:
            taken.append(error)
            continue
        if taken[-1] is None:
            new.append(candidate)
            _note_new_life(session, candidate)
    stored = iter(store_reports(session, new, limits, evidence))
    received = iter(new)
    return [
        _receipt(session, stream, next(stored), next(received).received_us) if receipt is None else receipt
        for receipt, (_, stream) in zip(taken, reports, strict=True)
    ]


def _receipt_before(session: Session, new: NewReport) -> StoredReceipt | None:
    """Return the receipt of a report that is stored already; None when it is to be counted.

    Raises:
        ReportConflictError: as ``take_reports`` says.
        ReportTooOldError: as ``take_reports`` says.
    """
    report, stored = new.report, new.stored
    if _contradicts(session, new):
        raise ReportConflictError(
            f"batch {report.batch_id} of query {report.query_id} was reported before with other content; "
            "the first report stays"
        )
    if stored.received_us is not None:
        return _duplicate(session, new)
    # By the number of the batch: clocks may have been wrong.
    if stored.deleted_batch is not None and report.batch_id <= stored.deleted_batch:
        raise ReportTooOldError(
            f"/batch_id: reports of query {report.query_id} up to batch {stored.deleted_batch} are deleted: whether "
            f"batch {report.batch_id} came before is no longer known; drop it (TIDEMARK_RETENTION_REPORTS_DAYS)"
        )
    return None


_STORED = (
    select(ReportBodyRow.body)
    .join(ReportRow, ReportRow.id == ReportBodyRow.report_id)
    .where(
        ReportRow.stream_id == bindparam("which"),
        ReportRow.query_id == bindparam("query"),
        ReportRow.batch_id == bindparam("batch"),
    )
)


def _new(stream: _Stream, report: Report, stored: StoredFacts, now_us: int) -> NewReport:
    content = canonical_json(report)
    received_us = _received_us(report, stored.newest_us, now_us)
    return NewReport(stream.id, report, stored, content, fingerprint(content), received_us)


def _received_us(report: Report, newest_us: int | None, now_us: int) -> int:
    """Return when a report was received; not by this clock where it is behind what the store and the driver say.

    A batch would count for a time that is long past, and be deleted with it.
    """
    sent_us = report.started_us if report.sent_us is None else report.sent_us
    if newest_us is None or now_us >= newest_us - MAX_AHEAD_US or sent_us < newest_us - MAX_AHEAD_US:
        return now_us
    return min(sent_us, newest_us + DAY_US)


def _contradicts(session: Session, new: NewReport) -> bool:
    """Return whether the batch was reported before with other content.

    Of a report and its batch read again, whichever came first stays.
    """
    report, stored = new.report, new.stored
    if stored.received_us is None or report.reread or stored.fingerprint == new.digest:
        return False
    which = {"which": new.stream_id, "query": report.query_id, "batch": report.batch_id}
    body = session.connection().scalar(_STORED, which)
    return body is None or not (stored_report(body).reread or is_stored(body, new.content))


def _duplicate(session: Session, new: NewReport) -> StoredReceipt:
    """Count a report that is stored already; return its receipt."""
    assert new.stored.received_us is not None
    session.connection().execute(_COUNT_DUPLICATE, {"which": new.stream_id})
    return StoredReceipt(new.stored.received_us, duplicate=True)


def _note_new_life(session: Session, new: NewReport) -> None:
    """Add an event when a report begins a new life of its query."""
    report = new.report
    if is_ran_again(report.query_id) and new.stored.last_batch is None:
        reason = (
            f"run {report.run_id} ran batch {report.batch_id} again with other rows, as from a checkpoint that was "
            "restored; its batches are counted beside those that were reported before"
        )
        add_event(session, new.stream_id, new.received_us, kind="BatchesRanAgain", reason=reason)
        session.flush()


def _receipt(
    session: Session, stream: _Stream, stored: Stored | TidemarkError, now_us: int
) -> StoredReceipt | TidemarkError:
    if isinstance(stored, TidemarkError):
        return stored
    first = _register(session, stream, now_us)
    return StoredReceipt(now_us, duplicate=False, first=first, needs=dict([stored]))


def _register(session: Session, stream: _Stream, now_us: int) -> bool:
    """Write down that a stream is registered; return False when it was already."""
    if stream.registered:
        return False
    add_event(session, stream.id, now_us, kind="StreamRegistered", reason="its first report was received")
    session.flush()
    stream.registered = True
    return True


def _name(report: Report) -> _Name:
    return report.job, report.stream
