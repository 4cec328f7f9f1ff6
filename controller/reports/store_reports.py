"""Stores new reports of different streams, and what each adds to its stream, with one statement for all of a kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, cast

from sqlalchemy import ColumnElement, Connection, Table, bindparam, func, insert, select, update
from sqlalchemy.orm import Session

from tidemark.controller.base.db.database import Limits
from tidemark.controller.base.db.limits import check_room_for_pairs, make_room_for_partitions
from tidemark.controller.base.db.statements import Excluded, greater, lesser, upsert_many
from tidemark.controller.base.db.tables import OperatorRow, QueryRow, ReportBodyRow, ReportRow, StreamRow
from tidemark.controller.base.errors import TidemarkError
from tidemark.controller.reports.live import keep_live
from tidemark.controller.reports.raise_bases import Corrected, is_replayed, raise_later_bases, sketch_of
from tidemark.controller.reports.store import max_before_us
from tidemark.controller.reports.stored_bodies import packed
from tidemark.controller.reports.stored_facts import StoredFacts
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.evidence.horizon import ReportFacts, report_facts
from tidemark.models.evidence.key_counts import ReportCells, cells_of, key_counts, run_starts
from tidemark.models.evidence.ledger import Judgement, judge
from tidemark.models.evidence.misdated import Clocks, separate_misdated
from tidemark.models.evidence.needs import floor_ms, late_base_ms, needs_against
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.set_aside import LEAST_ROWS, RECENT, is_excessive
from tidemark.models.protocol.messages import Report


@dataclass(frozen=True, slots=True)
class NewReport:
    """A report that is not stored yet."""

    stream_id: int
    report: Report
    stored: StoredFacts
    """What the store knows about its stream, query and batch."""
    content: bytes
    """The report as canonical JSON."""
    digest: str
    """The fingerprint of that."""
    received_us: int
    """When it was received, in microseconds."""


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
    clocks: Clocks
    wrong: ReportCells | None
    """Its misdated rows; None without any."""
    lead_us: int | None
    """How far all batches of its query so far were dated ahead, on purpose."""
    early_us: int | None
    """Maximum event time of its query's rows so far that were dated ahead by a wrong clock; None without any."""
    rows_ahead_us: int | None
    """How far the newest of its rows of wrong clocks is dated ahead; None without any."""


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
    session: Session, reports: Sequence[NewReport], limits: Limits, evidence: ReportFollower
) -> list[Stored | TidemarkError]:
    """Store new reports, each of another stream, which are locked; return each one's id, or why it is rejected."""
    outcomes: list[CountedReport | TidemarkError] = []
    for new in reports:
        counted = _counted(session, new)
        if new.stored.lead_us and not counted.lead_us:
            counted = _counted(session, _without_lead(session, new, counted.clocks.latest_us))
        try:
            _make_room(session, counted, limits, evidence)
        except TidemarkError as error:
            outcomes.append(error)
        else:
            outcomes.append(counted)
    stored = [outcome for outcome in outcomes if isinstance(outcome, CountedReport)]
    ids = iter(_store(session, stored, evidence))
    return [result if isinstance(result, TidemarkError) else (next(ids), result.needs) for result in outcomes]


def _counted(session: Session, new: NewReport) -> CountedReport:
    report, stored = new.report, new.stored
    cells = cells_of(report)
    pairs = key_counts(report, cells)
    clocks, lead_us = Clocks.of(report, new.received_us, stored.lead_us)
    right_ms = _right_base_ms(report, clocks, stored.early_us)
    base_ms = late_base_ms(right_ms, stored.late_max_us)
    if base_ms is not None and base_ms * SPARK_TICK_US > clocks.latest_us:
        base_ms = None  # of a time when all clocks seemed to be ahead
    seen_us = min(max(report.started_us - (clocks.driver_ahead_us or 0), 0), new.received_us)
    aside = _set_aside(session, new, base_ms, seen_us)
    judged = replace(report, contradiction="excessive") if "excessive_rows" in aside else report
    judgement = judge(judged, pairs)
    needs = needs_against(judged, None if aside else base_ms, pairs, clocks)
    facts = report_facts(report, pairs, judgement, needs, seen_us)
    if aside:
        facts = replace(facts, **aside)
    counted = NewNeeds(new.digest, needs.base_ms, PartitionNeeds.counted(needs))
    separated = separate_misdated(report, base_ms, cells, clocks)
    wrong = None if separated is None else separated[1]
    # What follows from its base from here on does so from clocks that can be right.
    right_us = clocks.newest_us(report, wrong)
    if (right_us, right_ms) != (report.max_event_time_us, report.late_base_ms):
        new = replace(new, report=replace(report, max_event_time_us=right_us, late_base_ms=right_ms))
    newest_us, early_us, rows_ahead_us = report.max_event_time_us, stored.early_us, None
    if newest_us is not None and newest_us > clocks.latest_us:
        early_us = max(newest_us, newest_us if early_us is None else early_us)
    if newest_us is not None and (newest_us > clocks.latest_us or (clocks.behind and wrong is not None)):
        rows_ahead_us = newest_us - clocks.read_us
    return CountedReport(
        new,
        cells,
        judgement,
        counted,
        facts,
        base_ms,
        clocks,
        wrong,
        lead_us,
        early_us,
        rows_ahead_us,
    )


def _without_lead(session: Session, new: NewReport, latest_us: int) -> NewReport:
    """Return a report whose query is no longer dated ahead, without the times of its batches that were.

    So it was not on purpose: the clocks that it began with were wrong.
    """
    which = (ReportRow.stream_id == new.stream_id, ReportRow.query_id == new.report.query_id)
    ahead = (*which, ReportRow.max_event_time_us > latest_us)
    early_us = session.scalars(select(func.max(ReportRow.max_event_time_us)).where(*ahead)).one()
    session.execute(update(ReportRow).where(*ahead).values(max_event_time_us=None, late_base_ms=None))
    late_us, before_us = (
        max_before_us(session, new.stream_id, new.report.query_id, new.report.batch_id - back)
        for back in (2, 1)
    )
    stored = replace(new.stored, early_us=early_us, lead_us=0, late_max_us=late_us, before_max_us=before_us)
    return replace(new, stored=stored)


def _right_base_ms(report: Report, clocks: Clocks, early_us: int | None) -> int | None:
    """Return the base that a report names; None where that is, or may be, the time of a clock that was ahead.

    The batches before it, whose rows of wrong clocks are known, tell of the base then.
    """
    if report.late_base_ms is None:
        return None
    base_us = report.late_base_ms * SPARK_TICK_US
    wrong = base_us > clocks.latest_us or (early_us is not None and base_us <= early_us)
    return None if wrong else report.late_base_ms


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
    stream_id, facts, stored = counted.new.stream_id, counted.facts, counted.new.stored
    check_room_for_pairs(
        stored.pairs + stored.unjudged_rows * facts.keys_per_row,
        facts.pairs + facts.unjudged_rows * facts.keys_per_row,
    )
    cells = counted.cells
    make_room_for_partitions(
        session,
        stream_id,
        [cells.partitions[part] for part in cells.parts[run_starts(cells.parts)].tolist()],
        present=stored.partitions,
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
_OPERATORS = cast("Table", OperatorRow.__table__)
_INSERT_OPERATOR = (
    insert(_OPERATORS)
    .values(
        number=select(func.coalesce(func.max(_OPERATORS.c.number), 0) + 1)
        .where(_OPERATORS.c.stream_id == bindparam("which"))
        .scalar_subquery()
    )
    .returning(_OPERATORS.c.number)
)
_INSERT_BODY = insert(cast("Table", ReportBodyRow.__table__))


def _store(session: Session, reports: Sequence[CountedReport], evidence: ReportFollower) -> list[int]:
    """Store counted reports; return their ids."""
    if not reports:
        return []
    connection = session.connection()
    rows = [_row(counted, _operator_number(connection, counted.new)) for counted in reports]
    ids = list(connection.execute(_INSERT_REPORT, rows).scalars())
    connection.execute(
        _INSERT_BODY,
        [
            {
                "report_id": report_id,
                "body": packed(counted.new.content),
                "needs": sketch_of(counted.needs.needs),
            }
            for report_id, counted in zip(ids, reports, strict=True)
        ],
    )
    evidence.add(session, reports)
    upsert_many(
        session,
        QueryRow,
        {
            "stream_id": [counted.new.stream_id for counted in reports],
            "query_id": [counted.new.report.query_id for counted in reports],
            "first_batch": [counted.new.report.batch_id for counted in reports],
            "last_batch": [counted.new.report.batch_id for counted in reports],
            "early_us": [counted.early_us for counted in reports],
            "lead_us": [counted.lead_us for counted in reports],
        },
        same={"reports": 1},
        replaced=("early_us", "lead_us"),
        added=("reports",),
        changes=_batches,
    )
    connection.execute(
        _COUNT,
        [
            {
                "which": counted.new.stream_id,
                "now": counted.new.received_us,
                **{f"more_{name}": getattr(counted.facts, name) for name in _TOTALS},
            }
            for counted in reports
        ],
    )
    for report_id, counted in zip(ids, reports, strict=True):
        _store_rest(session, report_id, counted, evidence)
    return ids


def _store_rest(session: Session, report_id: int, counted: CountedReport, evidence: ReportFollower) -> None:
    """Store what few reports have: a state of Live, a base above that of later ones."""
    new, report, last_batch = counted.new, counted.new.report, counted.new.stored.last_batch
    keep_live(session, new.stream_id, report_id, report, new.received_us)
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


def _operator_number(connection: Connection, new: NewReport) -> int:
    """Return the number of a report's operator, which is stored when its stream never had it before."""
    number = new.stored.operator_number
    if number is None:
        row = {"which": new.stream_id, "stream_id": new.stream_id, "operator": new.report.operator}
        number = connection.execute(_INSERT_OPERATOR, row).scalar_one()
    return number


def _row(counted: CountedReport, operator_number: int) -> dict[str, Any]:
    report, facts, clocks = counted.new.report, counted.facts, counted.clocks
    return {
        **{name: getattr(facts, name) for name in _FACTS},
        "stream_id": counted.new.stream_id,
        "fingerprint": counted.new.digest,
        "query_id": report.query_id,
        "run_id": report.run_id,
        "batch_id": report.batch_id,
        "received_us": counted.new.received_us,
        "started_us": facts.seen_us,
        "duration_ms": report.duration_ms,
        "operator_number": operator_number,
        "output_mode": report.output_mode,
        "bound_ms": report.bound_ms,
        "generation": report.generation,
        "late_watermark_ms": report.late_watermark_ms,
        "watermark_ms": report.watermark_ms,
        "late_base_ms": report.late_base_ms,
        "max_event_time_us": report.max_event_time_us,
        "latest_us": clocks.latest_us,
        "driver_ahead_us": clocks.driver_ahead_us,
        "rows_ahead_us": counted.rows_ahead_us,
        "null_rows": report.null_rows,
        "state_rows": report.state_rows,
        "state_bytes": report.state_bytes,
        "dropped_by_spark": report.dropped_by_spark,
        "dropped_reports": report.dropped_reports,
        "need_base_ms": counted.needs.base_ms,
    }


_FACTS = tuple(fact.name for fact in fields(ReportFacts))
