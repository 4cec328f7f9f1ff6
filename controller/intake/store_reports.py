"""Stores new reports of different streams, and what each adds to its stream, with one statement for all of a kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

from sqlalchemy import ColumnElement, Table, bindparam, func, insert, update
from sqlalchemy.orm import Session

from tidemark.controller.db.database import Limits
from tidemark.controller.db.statements import Excluded, greater, lesser, upsert_many
from tidemark.controller.db.tables import QueryRow, ReportBodyRow, ReportRow, StreamRow
from tidemark.controller.errors import TidemarkError
from tidemark.controller.evidence.hourly_sums import add_to_hours
from tidemark.controller.evidence.ledger import NewKeys, add_to_ledger
from tidemark.controller.evidence.live import keep_live
from tidemark.controller.evidence.needs import BatchSlot, add_needs
from tidemark.controller.intake.limits import check_room_for_pairs, make_room_for_partitions
from tidemark.controller.intake.raise_bases import raise_later_bases
from tidemark.controller.intake.report_counts import ReportCounts
from tidemark.controller.intake.stored_bodies import packed
from tidemark.controller.intake.stored_facts import StoredFacts
from tidemark.controller.partitions.store import (
    Arrived,
    add_partitions,
    arrived_in,
    base_after_us,
    forget_partitions,
)
from tidemark.controller.specs.store import horizon_ms_of
from tidemark.models.evidence.horizon import ReportFacts, horizon_from_us, report_facts
from tidemark.models.evidence.key_counts import cells_of, key_counts
from tidemark.models.evidence.ledger import Judgement, judge
from tidemark.models.evidence.needs import floor_ms, late_base_ms, needs_against
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.protocol.messages import Report

_MAX_FORGOTTEN = 20_000
"""How many partitions that are gone may make room for those of one report."""


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
class _Counted:
    """What a new report adds."""

    new: NewReport
    judgement: Judgement
    counts: ReportCounts
    facts: ReportFacts
    arrived: Arrived
    base_us: int
    """The stream's maximum event time after it, in microseconds."""


Stored = tuple[int, str, ReportCounts]
"""Id and fingerprint of a stored report, and what it adds by partition."""


def store_reports(
    session: Session, reports: Sequence[NewReport], now_us: int, limits: Limits
) -> list[Stored | TidemarkError]:
    """Store new reports, each of another stream, which are locked; return each one's id, or why it is rejected."""
    outcomes: list[_Counted | TidemarkError] = []
    for new in reports:
        counted = _counted(new, now_us)
        try:
            _make_room(session, counted, limits)
        except TidemarkError as error:
            outcomes.append(error)
        else:
            outcomes.append(counted)
    ids = iter(_store(session, [each for each in outcomes if isinstance(each, _Counted)], now_us))
    return [
        each if isinstance(each, TidemarkError) else (next(ids), each.new.digest, each.counts)
        for each in outcomes
    ]


def _counted(new: NewReport, now_us: int) -> _Counted:
    report, known = new.report, new.known
    cells = cells_of(report)
    pairs = key_counts(report, cells)
    judgement = judge(report, pairs)
    base_ms = late_base_ms(report.late_base_ms, known.late_max_us)
    needs = needs_against(report, base_ms, pairs)
    facts = report_facts(report, pairs, judgement, needs, now_us)
    return _Counted(
        new,
        judgement,
        ReportCounts(needs.base_ms, PartitionNeeds.counted(needs)),
        facts,
        arrived_in(report, cells, base_ms),
        base_after_us(report, late_base_ms(report.late_base_ms, known.before_max_us), facts.seen_us),
    )


def _make_room(session: Session, counted: _Counted, limits: Limits) -> None:
    stream_id, seen_us = counted.new.stream_id, counted.facts.seen_us
    facts, known = counted.facts, counted.new.known
    check_room_for_pairs(
        known.pairs + known.unjudged_rows * facts.keys_per_row,
        facts.pairs + facts.unjudged_rows * facts.keys_per_row,
    )

    def forget_gone() -> int:
        """Forget the partitions without a row over the horizon of the batch."""
        from_us = horizon_from_us(seen_us, horizon_ms_of(session, stream_id))
        return forget_partitions(session, stream_id, from_us, _MAX_FORGOTTEN)

    make_room_for_partitions(
        session,
        stream_id,
        counted.arrived.names,
        known=known.partitions,
        limits=limits,
        forget=forget_gone,
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


def _store(session: Session, reports: Sequence[_Counted], now_us: int) -> list[int]:
    """Store counted reports; return their ids."""
    if not reports:
        return []
    connection = session.connection()
    rows = [_row(each, now_us) for each in reports]
    ids = list(connection.execute(_INSERT_REPORT, rows).scalars())
    connection.execute(
        _INSERT_BODY,
        [
            {"report_id": report_id, "body": packed(each.new.content)}
            for report_id, each in zip(ids, reports, strict=True)
        ],
    )
    add_to_ledger(
        session,
        [
            NewKeys(
                each.new.stream_id, each.new.report.operator, each.judgement, each.new.known.ledger_from_us
            )
            for each in reports
        ],
    )
    add_needs(
        session,
        [
            (
                BatchSlot(each.new.stream_id, each.new.known.levels, each.facts.seen_us),
                each.counts.needs.whole,
            )
            for each in reports
            if each.counts.needs.names
        ],
    )
    add_partitions(
        session, [(each.new.stream_id, each.facts.seen_us, each.base_us, each.arrived) for each in reports]
    )
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
    for report_id, each, row in zip(ids, reports, rows, strict=True):
        _store_rest(session, report_id, each, row)
    return ids


def _store_rest(session: Session, report_id: int, counted: _Counted, row: dict[str, Any]) -> None:
    """Store what few reports have: a state of Live, a place in what is rolled up, a base above that of later ones."""
    new, report, known = counted.new, counted.new.report, counted.new.known
    keep_live(session, new.stream_id, report_id, report)
    if counted.facts.seen_us < known.levels.hours_until_us:
        add_to_hours(session, [ReportRow(id=report_id, **row)])
        session.flush()
    # Only batches that are stored already can have been counted against too low a base.
    later = known.last_batch is not None and known.last_batch >= report.batch_id + 2
    if later and report.max_event_time_us is not None:
        # The session may hold rows as they were before one of these statements.
        session.expire_all()
        raise_later_bases(session, new.stream_id, report, floor_ms(report.max_event_time_us), known)
        session.flush()


def _batches(new: Excluded) -> dict[str, ColumnElement[Any]]:
    return {
        "first_batch": lesser(QueryRow.first_batch, new.first_batch),
        "last_batch": greater(QueryRow.last_batch, new.last_batch),
    }


def _row(counted: _Counted, now_us: int) -> dict[str, Any]:
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
        "need_base_ms": counted.counts.base_ms,
    }


_FACTS = tuple(each.name for each in fields(ReportFacts))
