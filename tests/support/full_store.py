"""A store as it is after a day of 500 streams of 64 partitions, filled in seconds through the store's own tables.

Some streams are *full*: every batch, minute and partition of a day is there, and the first of them has a month. Of the
others, which only lists touch, the last hour is there. Sketches are drawn from a pool, which no reader can tell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.tables import (
    AcknowledgementRow,
    Base,
    LedgerKeyRow,
    OffsetRow,
    OperatorRow,
    PartitionRollupRow,
    PartitionRow,
    PolicyRow,
    PublishedRow,
    QueryRow,
    ReportBodyRow,
    ReportRow,
    RollupRow,
    SloRow,
    StreamRow,
)
from tidemark.controller.reports.stored_bodies import canonical_json, packed
from tidemark.controller.specs.store import policy_values, slo_values
from tidemark.models.base.operators import tumbling
from tidemark.models.evidence.events import LateBatches
from tidemark.models.evidence.horizon import SUMMED
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import DAY_US, HOUR_US, SLOT_US
from tidemark.models.protocol.granule_counts import GranuleCounts, PartitionCounts
from tidemark.models.protocol.messages import Report
from tidemark.models.specs.slo import Policy, Slo

from support.sketch_pools import ROWS_A_MINUTE, SketchPools

__all__ = ["END_US", "FIRST_ID", "Filling", "fill", "report_of", "stream_name"]

END_US = 1_767_225_600_000_000 + 27 * DAY_US + 10 * HOUR_US
"""Trigger time of the newest batch: ten in the morning."""

AT_A_TIME = 20_000

FIRST_ID = 1_000_000
"""Distance between the ids of the first reports of two streams."""


@dataclass(frozen=True)
class Filling:
    """How much is filled in."""

    streams: int = 500
    full: int = 4
    """How many of them are full."""
    partitions: int = 64
    slow: int = 7
    """Number of the partition that is 20 s late, in every stream."""
    days: int = 27
    """Days before the last ones of which the first stream has hours."""
    full_days: int = 1
    """Days of which a full stream has every batch."""
    trigger_us: int = 10_000_000
    """Time between two batches of a full stream."""


def stream_name(number: int) -> tuple[str, str]:
    """Return job and stream: ten streams a job."""
    return f"job-{number // 10:03}", f"stream-{number:04}"


def fill(database: Database, filling: Filling) -> None:
    """Fill an empty, migrated store."""
    pools = SketchPools(filling.partitions, filling.slow)
    with database.write() as session:
        for number in range(filling.streams):
            _stream(session, number, filling, pools)
        if session.get_bind().dialect.name == "postgresql":
            for table in ("streams", "reports", "acknowledgements"):
                session.execute(
                    text(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), max(id)) FROM {table}")
                )
    if database.dialect != "postgresql":
        return
    with database.connect() as connection:
        # As PostgreSQL does by itself in a day; nobody does it for SQLite.
        connection.execute(text("ANALYZE"))
        connection.commit()


def _stream(session: Session, number: int, filling: Filling, pools: SketchPools) -> None:
    stream_id, full = number + 1, number < filling.full
    job, stream = stream_name(number)
    from_us = END_US - (filling.full_days * DAY_US if full else HOUR_US)
    step_us = filling.trigger_us if full else SLOT_US
    triggers = range(from_us + step_us, END_US + 1, step_us)
    rows = filling.partitions * ROWS_A_MINUTE * step_us // SLOT_US
    late = rows // 500 + number % 7
    counts = {"pairs": rows, "late_min": late, "late_max": late, "unjudged_rows": 0}
    _put(
        session,
        StreamRow,
        [
            {
                "id": stream_id,
                "job": job,
                "stream": stream,
                "registered_us": from_us,
                "reports": len(triggers),
                **{name: value * len(triggers) for name, value in counts.items()},
            }
        ],
    )
    first_id = stream_id * FIRST_ID
    _put(session, OperatorRow, [{"stream_id": stream_id, "number": 1, "operator": tumbling("1 minute")}])
    base = _report_facts(stream_id, rows, counts)
    _put(
        session,
        ReportRow,
        (
            {
                **base,
                "id": first_id + batch,
                "batch_id": batch + 10,
                "received_us": at_us + 400_000,
                "seen_us": at_us,
                "started_us": at_us,
                "watermark_ms": at_us // 1_000 - 31_000,
                "late_watermark_ms": at_us // 1_000 - 41_000,
                "late_base_ms": at_us // 1_000 - 20_000,
                "max_event_time_us": at_us - 1,
                "latest_us": at_us,
                "first_key_us": at_us - 60_000_000,
            }
            for batch, at_us in enumerate(triggers)
        ),
    )
    newest = first_id + len(triggers) - 1
    body = packed(canonical_json(report_of(number, len(triggers) + 9, END_US, filling)))
    _put(session, ReportBodyRow, [{"report_id": newest, "body": body}])
    _put(
        session,
        QueryRow,
        [
            {
                "stream_id": stream_id,
                "query_id": "query",
                "first_batch": 10,
                "last_batch": len(triggers) + 9,
                "reports": len(triggers),
            }
        ],
    )
    _specified(session, stream_id, from_us)
    _partitions(session, stream_id, filling, from_us)
    a_minute = SLOT_US // step_us
    for width_us, needs in pools.of_width.items():
        slots = range(from_us // width_us * width_us, END_US, width_us)
        batches = width_us // SLOT_US * a_minute
        _put_rollups(session, stream_id, width_us, slots, batches, rows, counts, needs)
    minutes = range(from_us, END_US, SLOT_US)
    kept = [at_us for at_us in minutes if full or at_us >= END_US - 10 * SLOT_US]
    of_key = {"rows": ROWS_A_MINUTE, "late_min": 2, "late_max": 2}
    _put(
        session,
        LedgerKeyRow,
        (
            {
                "stream_id": stream_id,
                "key_us": at_us,
                **{name: count * len(pools.names) for name, count in of_key.items()},
            }
            for at_us in kept
        ),
    )
    old = number == 0 and filling.days > 0
    _put(
        session,
        OffsetRow,
        [
            {
                "stream_id": stream_id,
                "last_report_id": newest,
                "aged_us": triggers[-1],
                "hours_until_us": from_us if old else 0,
            }
        ],
    )
    if old:
        for width_us in (HOUR_US, DAY_US):
            first_us, last_us = (
                at_us // width_us * width_us for at_us in (from_us - filling.days * DAY_US, from_us)
            )
            batches, slots = width_us // filling.trigger_us, range(first_us, last_us, width_us)
            needs = pools.of_width[width_us]
            _put_rollups(session, stream_id, width_us, slots, batches, rows, counts, needs)


def _put_rollups(
    session: Session,
    stream_id: int,
    width_us: int,
    slots: range,
    batches: int,
    rows: int,
    counts: Mapping[str, int],
    needs: Sequence[tuple[bytes, bytes]],
) -> None:
    """Put rollups of one width, with needs of the stream and of its partitions drawn from a pool."""
    keys = [{"stream_id": stream_id, "width_us": width_us, "slot_us": slot_us} for slot_us in slots]
    sums = {name: value * batches for name, value in counts.items()}
    none = dict.fromkeys(SUMMED, 0)
    # As if the needs had come in one batch.
    late = [LateBatches.of_batch(*Sketch.from_bytes(whole).counts).to_bytes() for whole, _ in needs]
    _put(
        session,
        RollupRow,
        (
            {
                **key,
                "batches": batches,
                **none,
                "rows": rows * batches,
                "need_pairs": rows * batches,
                **sums,
                "keys_per_row": 1,
                "from_us": key["slot_us"],
                "newest_us": key["slot_us"] + width_us - 1,
                "bound_ms": 30_000,
                "effective_bound_ms": 31_000,
                "state_rows": 5_000,
                "batch_ranges": '{"query": [[10, 10]]}',
                "needs": needs[number % len(needs)][0],
                "late_batches": late[number % len(needs)],
            }
            for number, key in enumerate(keys)
        ),
    )
    _put(
        session,
        PartitionRollupRow,
        ({**key, "needs": needs[number % len(needs)][1]} for number, key in enumerate(keys)),
    )


def _report_facts(stream_id: int, rows: int, counts: Mapping[str, int]) -> dict[str, Any]:
    return {
        "stream_id": stream_id,
        "query_id": "query",
        "run_id": "run",
        "duration_ms": 300,
        "operator_number": 1,
        "keys_per_row": 1,
        "output_mode": "append",
        "bound_ms": 30_000,
        "generation": None,
        "rows": rows,
        "null_rows": 0,
        "uncounted_rows": 0,
        "state_rows": 5_000,
        "state_bytes": 1_000_000,
        "dropped_by_spark": 0,
        "dropped_reports": 0,
        **counts,
        "need_base_ms": 0,
        "need_pairs": rows,
        "need_unknown_rows": 0,
        "early_rows": 0,
        "future_rows": 0,
        "fingerprint": "0" * 64,
    }


def _specified(session: Session, stream_id: int, at_us: int) -> None:
    first = {"stream_id": stream_id, "generation": 1, "updated_us": at_us}
    _put(session, SloRow, [{**first, **slo_values(Slo(target_ppm=990_000))}])
    _put(session, PolicyRow, [{**first, **policy_values(Policy())}])
    _put(
        session,
        PublishedRow,
        [
            {
                "stream_id": stream_id,
                "generation": generation,
                "mode": "Off",
                "bound_ms": None,
                "reason": "the mode is Off",
                "published_us": at_us + generation,
            }
            for generation in range(1, 11)
        ],
    )
    _put(
        session,
        AcknowledgementRow,
        [
            {
                "stream_id": stream_id,
                "query_id": "query",
                "run_id": f"run {run}",
                "bound_ms": 30_000,
                "generation": None,
                "source": "job",
                "mode": "Off",
                "applied_us": at_us + run,
                "received_us": at_us + run,
                "fingerprint": f"{run:064}",
            }
            for run in range(10)
        ],
    )


def _partitions(session: Session, stream_id: int, filling: Filling, from_us: int) -> None:
    _put(
        session,
        PartitionRow,
        (
            {
                "stream_id": stream_id,
                "partition": str(number),
                "rows": 10**6,
                "last_event_time_us": END_US - (20_000_000 if number == filling.slow else 1_000_000),
                "last_seen_us": END_US,
                "first_seen_us": from_us,
                "batches": 1_000,
                "behind_us": 20_000_000 if number == filling.slow else 1_000_000,
                "future_rows": 0,
                "last_future_us": None,
            }
            for number in range(filling.partitions)
        ),
    )


def report_of(number: int, batch_id: int, at_us: int, filling: Filling) -> Report:
    """Return the report of a batch of a stream, by the stream's number, triggered at ``at_us``."""
    job, stream = stream_name(number)
    second = at_us // 1_000_000
    granules = tuple(range(second - 20, second))
    parts = tuple(
        PartitionCounts(partition=str(number), granules=granules, counts=(10,) * len(granules))
        for number in range(filling.partitions)
    )
    return Report(
        schema_version=1,
        job=job,
        stream=stream,
        query_id="query",
        run_id="run",
        batch_id=batch_id,
        started_us=at_us,
        duration_ms=300,
        operator=tumbling("1 minute"),
        output_mode="append",
        bound_ms=30_000,
        generation=None,
        late_watermark_ms=at_us // 1_000 - 41_000,
        watermark_ms=at_us // 1_000 - 31_000,
        late_base_ms=at_us // 1_000 - 20_000,
        granule_us=1_000_000,
        closed="left",
        rows=sum(part.rows for part in parts),
        null_rows=0,
        min_event_time_us=(second - 20) * 1_000_000,
        max_event_time_us=at_us - 1,
        counts=GranuleCounts.of(parts),
        state_rows=5_000,
        state_bytes=1_000_000,
        dropped_by_spark=0,
    )


def _put(session: Session, table: type[Base], rows: Iterable[Mapping[str, Any]]) -> None:
    waiting: list[Mapping[str, Any]] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) == AT_A_TIME:
            session.execute(insert(table), waiting)
            waiting = []
    if waiting:
        session.execute(insert(table), waiting)
