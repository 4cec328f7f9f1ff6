"""Stores new reports of different streams, and what each adds to its stream, with one statement for all of a kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, cast

from sqlalchemy import ColumnElement, Table, bindparam, func, insert, select, update
from sqlalchemy.orm import Session

from tidemark.controller.base.db.database import Limits
from tidemark.controller.base.db.limits import check_room_for_pairs, make_room_for_partitions
from tidemark.controller.base.db.statements import Excluded, greater, lesser, upsert_many
from tidemark.controller.base.db.tables import QueryRow, ReportBodyRow, ReportRow, StreamRow
from tidemark.controller.base.errors import TidemarkError
from tidemark.controller.reports.live import keep_live
from tidemark.controller.reports.raise_bases import Corrected, is_replayed, raise_later_bases, sketch_of
from tidemark.controller.reports.stored_bodies import packed
from tidemark.controller.reports.stored_facts import StoredFacts
from tidemark.models.evidence.horizon import ReportFacts, report_facts
from tidemark.models.evidence.key_counts import ReportCells, cells_of, key_counts, run_starts
from tidemark.models.evidence.ledger import Judgement, judge
from tidemark.models.evidence.needs import floor_ms, late_base_ms, needs_against
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.set_aside import LEAST_ROWS, RECENT, is_excessive
from tidemark.models.protocol.messages import Report


@dataclass(frozen=True, slots=True)
class NewReport:
    """A report that is not stored yet."""

    stream_id: int
    report: Report
    known: StoredFacts
    """What the store knows about its stream, query and batch."""
    content: bytes
    """The report as canonical JSON."""
    digest: str
    """The fingerprint of that."""


@dataclass(frozen=True, slots=True)
class NewNeeds:
    """The needs of a new report by partition."""

    fingerprint: str
    """That of the report."""
    base_ms: int | None
    """The base that they are counted against, in milliseconds; None when none is known."""
    needs: PartitionNeeds


@dataclass(frozen=True, slots=True)
class CountedReport:
    """A new report, judged and with its needs."""

    new: NewReport
    cells: ReportCells
    judgement: Judgement
    needs: NewNeeds
    facts: ReportFacts
    base_ms: int | None
    """The base of its late filter, in milliseconds; None when it is not known."""


class ReportFollower(Protocol):
    """What is told of reports in the transaction that stores them; their streams are locked."""

    def forget_partitions(self, session: Session, stream_id: int, seen_us: int) -> int:
        """Delete partitions without a row over the horizon of a batch; return how many."""

    def add(self, session: Session, reports: Sequence[CountedReport]) -> None:
        """Add reports of different streams, which are stored."""

    def correct(self, session: Session, stream_id: int, corrected: Sequence[Corrected]) -> None:
        """Replace the needs of stored reports of a stream."""


Stored = tuple[int, NewNeeds]
"""Id of a stored report, and its needs."""


def store_reports(
    session: Session, reports: Sequence[NewReport], now_us: int, limits: Limits, evidence: ReportFollower
) -> list[Stored | TidemarkError]:
    """Store new reports, each of another stream, which are locked; return each one's id, or why it is rejected."""
    outcomes: list[CountedReport | TidemarkError] = []
    for new in reports:
        counted = _counted(session, new, now_us)
        try:
            _make_room(session, counted, limits, evidence)
        except TidemarkError as error:
            outcomes.append(error)
        else:
            outcomes.append(counted)
    stored = [each for each in outcomes if isinstance(each, CountedReport)]
    ids = iter(_store(session, stored, now_us, evidence))
    return [each if isinstance(each, TidemarkError) else (next(ids), each.needs) for each in outcomes]


def _counted(session: Session, new: NewReport, now_us: int) -> CountedReport:
    report = new.report
    cells = cells_of(report)
    pairs = key_counts(report, cells)
    base_ms = late_base_ms(report.late_base_ms, new.known.late_max_us)
    aside = _set_aside(session, new, base_ms, min(report.started_us, now_us))
    judged = replace(report, contradiction="excessive") if "excessive_rows" in aside else report
    judgement = judge(judged, pairs)
    needs = needs_against(judged, None if aside else base_ms, pairs)
    facts = replace(report_facts(report, pairs, judgement, needs, now_us), **aside)
    counted = NewNeeds(new.digest, needs.base_ms, PartitionNeeds.counted(needs))
    return CountedReport(new, cells, judgement, counted, facts, base_ms)


def _set_aside(session: Session, new: NewReport, base_ms: int | None, seen_us: int) -> dict[str, int]:
    """Return how many rows are set aside, by their field of ``ReportFacts``; empty for nearly every batch."""
    report = new.report
    rows = report.rows - report.null_rows
    if report.rows >= LEAST_ROWS:
        recent = session.connection().execute(_RECENT, {"stream": new.stream_id})
        if is_excessive(report.rows, seen_us, [(row.rows, row.seen_us) for row in recent]):
            return {"excessive_rows": rows}
    replayed = is_replayed(session, new.stream_id, report, base_ms, seen_us)
    return {"replayed_rows": rows} if replayed else {}


# Built once: building it takes longer than running it.
_RECENT = (
    select(ReportRow.rows, ReportRow.seen_us)
    .where(ReportRow.stream_id == bindparam("stream"), ReportRow.rows > 0)
    .order_by(ReportRow.id.desc())
    .limit(RECENT)
)


def _make_room(session: Session, counted: CountedReport, limits: Limits, evidence: ReportFollower) -> None:
    stream_id, facts, known = counted.new.stream_id, counted.facts, counted.new.known
    check_room_for_pairs(
        known.pairs + known.unjudged_rows * facts.keys_per_row,
        facts.pairs + facts.unjudged_rows * facts.keys_per_row,
    )
    cells = counted.cells
    make_room_for_partitions(
        session,
        stream_id,
        [cells.partitions[part] for part in cells.parts[run_starts(cells.parts)].tolist()],
        known=known.partitions,
        limits=limits,
        forget=lambda: evidence.forget_partitions(session, stream_id, facts.seen_us),
    )


# Statements are built once: building one takes longer than running it.
_STREAMS = cast("Table", StreamRow.__table__)
_REPORTS = cast("Table", ReportRow.__table__)
_TOTALS = ("pairs", "late_min", "late_max", "corrected_min", "corrected_max", "unjudged_rows")
_COUNT = (
    update(_STREAMS)
    .where(_STREAMS.c.id == bindparam("which"))
    .values(
        registered_us=func.coalesce(_STREAMS.c.registered_us, bindparam("now")),
        reports=_STREAMS.c.reports + 1,
        **{name: _STREAMS.c[name] + bindparam(f"more_{name}") for name in _TOTALS},
    )
)
_INSERT_REPORT = insert(_REPORTS).returning(_REPORTS.c.id, sort_by_parameter_order=True)
_INSERT_BODY = insert(cast("Table", ReportBodyRow.__table__))


def _store(
    session: Session, reports: Sequence[CountedReport], now_us: int, evidence: ReportFollower
) -> list[int]:
    """Store counted reports; return their ids."""
    if not reports:
        return []
    connection = session.connection()
    rows = [_row(each, now_us) for each in reports]
    ids = list(connection.execute(_INSERT_REPORT, rows).scalars())
    connection.execute(
        _INSERT_BODY,
        [
            {
                "report_id": report_id,
                "body": packed(each.new.content),
                "needs": sketch_of(each.needs.needs),
            }
            for report_id, each in zip(ids, reports, strict=True)
        ],
    )
    evidence.add(session, reports)
    upsert_many(
        session,
        QueryRow,
        {
            "stream_id": [each.new.stream_id for each in reports],
            "query_id": [each.new.report.query_id for each in reports],
            "first_batch": [each.new.report.batch_id for each in reports],
            "last_batch": [each.new.report.batch_id for each in reports],
        },
        same={"reports": 1},
        added=("reports",),
        changes=_batches,
    )
    connection.execute(
        _COUNT,
        [
            {
                "which": each.new.stream_id,
                "now": now_us,
                **{f"more_{name}": getattr(each.facts, name) for name in _TOTALS},
            }
            for each in reports
        ],
    )
    for report_id, each in zip(ids, reports, strict=True):
        _store_rest(session, report_id, each, evidence)
    return ids


def _store_rest(session: Session, report_id: int, counted: CountedReport, evidence: ReportFollower) -> None:
    """Store what few reports have: a state of Live, a base above that of later ones."""
    new, report, last_batch = counted.new, counted.new.report, counted.new.known.last_batch
    keep_live(session, new.stream_id, report_id, report)
    # Only batches that are stored already can have been counted against too low a base.
    later = last_batch is not None and last_batch >= report.batch_id + 2
    if later and report.max_event_time_us is not None:
        # The session may hold rows as they were before one of these statements.
        session.expire_all()
        corrected = raise_later_bases(session, new.stream_id, report, floor_ms(report.max_event_time_us))
        session.flush()
        if corrected:
            evidence.correct(session, new.stream_id, corrected)


def _batches(new: Excluded) -> dict[str, ColumnElement[Any]]:
    return {
        "first_batch": lesser(QueryRow.first_batch, new.first_batch),
        "last_batch": greater(QueryRow.last_batch, new.last_batch),
    }


def _row(counted: CountedReport, now_us: int) -> dict[str, Any]:
    report, facts = counted.new.report, counted.facts
    return {
        **{name: getattr(facts, name) for name in _FACTS},
        "stream_id": counted.new.stream_id,
        "fingerprint": counted.new.digest,
        "query_id": report.query_id,
        "run_id": report.run_id,
        "batch_id": report.batch_id,
        "received_us": now_us,
        "started_us": facts.seen_us,
        "duration_ms": report.duration_ms,
        "operator": report.operator.kind,
        "output_mode": report.output_mode,
        "bound_ms": report.bound_ms,
        "generation": report.generation,
        "late_watermark_ms": report.late_watermark_ms,
        "watermark_ms": report.watermark_ms,
        "late_base_ms": report.late_base_ms,
        "max_event_time_us": report.max_event_time_us,
        "null_rows": report.null_rows,
        "state_rows": report.state_rows,
        "state_bytes": report.state_bytes,
        "dropped_by_spark": report.dropped_by_spark,
        "dropped_reports": report.dropped_reports,
        "need_base_ms": counted.needs.base_ms,
    }


_FACTS = tuple(each.name for each in fields(ReportFacts))
