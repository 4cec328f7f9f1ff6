"""Future-dated rows: to Spark's own watermark one of them ends the stream, to Live it is one wrong row."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tidemark.models.base.granules import Granules, default_granule_us, granule_index
from tidemark.models.base.operators import Closed, Operator, session, tumbling
from tidemark.models.protocol.granule_counts import PartitionCounts
from tidemark.models.protocol.messages import AppendDelay
from tidemark.spark_jobs.core.arguments import Treatment
from tidemark.spark_jobs.core.counting import classes_for
from tidemark.spark_jobs.core.tap import Tap, TapCounts
from tidemark.spark_jobs.live.future_rows import AHEAD, FutureRowRule, future_rows

from support.live_faults import LiveJob, Logged, files
from support.oracles import Ledger
from support.spark_streams import iso

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECOND = 1_000_000
WINDOW_US = 10 * SECOND
DAY_US = 86_400 * SECOND
BATCHES, POISONED = 8, 2
NAMES: dict[str, tuple[int | str, int | str]] = {
    "partition int": (0, 1),
    "partition string": ("eu:west", "us"),
}


@dataclass(frozen=True)
class _Event:
    id: int
    partition: int | str
    event_time_us: int
    arrival_us: int


def _events(names: tuple[int | str, ...]) -> list[list[_Event]]:
    """Return batches of honest rows of the last minutes, and three rows dated a day ahead in the third of them."""
    begin_us = (time.time_ns() // 1_000 - 300 * SECOND) // WINDOW_US * WINDOW_US
    batches = []
    for number in range(BATCHES):
        times = [begin_us + number * WINDOW_US + k * SECOND for k in range(5)]
        batches.append(
            [
                _Event(number * 100 + 10 * k + which, name, time_us, time_us + SECOND)
                for k, time_us in enumerate(times)
                for which, name in enumerate(names)
            ]
        )
    arrived_us = begin_us + POISONED * WINDOW_US + 5 * SECOND
    batches[POISONED] += [
        _Event(9_000 + k, name, arrived_us + DAY_US, arrived_us)
        for k, name in enumerate((names[0], names[1], names[1]))
    ]
    return batches


def _write(folder: Path, batches: Iterable[Iterable[_Event]]) -> None:
    folder.mkdir()
    for number, events in enumerate(batches):
        lines = [
            json.dumps(
                {
                    "id": event.id,
                    "partition": event.partition,
                    "ts": iso(event.event_time_us),
                    "arrival": iso(event.arrival_us),
                }
            )
            for event in events
        ]
        path = folder / f"{number:03d}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (1_000_000_000 + number,) * 2)


def _is_future(identity: int) -> bool:
    return identity >= 9_000


def _cells(job: LiveJob) -> dict[int, tuple[int, ...]]:
    """Return the ids in each window in the end, by its end; in update mode the last word counts."""
    return {end: ids for batch in sorted(job.output) for end, ids in job.output[batch]}


def test_one_row_dated_a_day_ahead_ends_sparks_own_stream(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What Live is measured against: every honest row from the second batch after it on is dropped."""
    batches = _events((0, 1))
    _write(tmp_path / "in", batches)
    source = files(spark, tmp_path / "in", "id long, partition int, ts timestamp, arrival timestamp")
    job = LiveJob(spark, tmp_path, source, ceiling=None, output_mode="update")
    job.run(available_now=True)
    kept = {identity for ids in _cells(job).values() for identity in ids}
    lost = {event.id for events in batches for event in events} - kept
    after = {event.id for events in batches[POISONED + 2 :] for event in events}
    with capsys.disabled():
        print(f"\nfuture rows: Spark lost {len(lost)} rows, all {len(after)} honest ones that came later")

    assert lost == after
    assert len(lost) == (BATCHES - POISONED - 2) * 10


@pytest.mark.parametrize(("column", "treatment"), [("partition int", "clamp"), ("partition string", "aside")])
def test_in_live_rows_dated_a_day_ahead_cost_no_honest_row_and_are_counted(
    spark: SparkSession, tmp_path: Path, column: str, treatment: Treatment
) -> None:
    names = NAMES[column]
    batches = _events(names)
    _write(tmp_path / "in", batches)
    source = files(spark, tmp_path / "in", f"id long, {column}, ts timestamp, arrival timestamp")
    job = LiveJob(
        spark,
        tmp_path,
        source,
        output_mode="update",
        given={"future_rows": treatment, "arrival_time": "arrival"},
    )
    job.run()
    cells = _cells(job)
    kept = {identity for ids in cells.values() for identity in ids}
    honest = {event.id: event for events in batches for event in events if not _is_future(event.id)}
    ledger = Ledger()
    for report in job.reports:
        ledger.add(report)
    body = ledger.completeness()
    counted: Counter[str] = Counter()
    for report in job.reports:
        counted.update(
            {part.partition: part.future_rows for part in report.counts.by_partition() if part.future_rows}
        )
    poisoned = next(report for report in job.reports if any(report.counts.future_rows))

    assert honest.keys() <= kept, "no honest row is lost"
    assert counted == {str(names[0]): 1, str(names[1]): 2}
    assert max(report.max_event_time_us or 0 for report in job.reports) == max(
        event.event_time_us for event in honest.values()
    )
    assert (body.late_min, body.late_max, body.unjudged_rows) == (0, 0, 0)
    assert {end: tally.rows for end, tally in ledger.by_key().items()} == {
        end: len(ids) for end, ids in cells.items()
    }
    assert max(job.watermarks_ms().values()) * 1_000 <= max(e.event_time_us for e in honest.values())
    assert max(job.watermarks_ms().values()) > 0, "it moved"
    if treatment == "clamp":
        clock_us = Logged.read(job.checkpoint, poisoned.batch_id).clock_ms * 1_000
        end_us = clock_us // WINDOW_US * WINDOW_US + WINDOW_US
        assert sorted(identity for identity in cells[end_us] if _is_future(identity)) == [9_000, 9_001, 9_002]
        assert poisoned.rows == 13
        return
    assert not any(_is_future(identity) for identity in kept)
    assert poisoned.rows == 10, "what is taken out is no row of the stream"
    found: list[int] = []
    query = (
        future_rows(source(), "ts", "arrival")
        .writeStream.foreachBatch(lambda df, _: found.extend(row["id"] for row in df.collect()))
        .option("checkpointLocation", str(tmp_path / "aside"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(found) == [9_000, 9_001, 9_002]


@pytest.mark.parametrize("in_stage", [True, False])
def test_a_batch_that_is_run_again_sets_a_row_back_to_the_clock_it_had_the_first_time(
    spark: SparkSession, tmp_path: Path, in_stage: bool
) -> None:
    arrived_us = time.time_ns() // 1_000
    _write(
        tmp_path / "in",
        [[_Event(1, 0, arrived_us, arrived_us), _Event(2, 0, arrived_us + DAY_US, arrived_us)]],
    )
    source = files(spark, tmp_path / "in", "id long, partition int, ts timestamp, arrival timestamp")
    rule = FutureRowRule("ts", 60 * SECOND)
    checkpoint = tmp_path / "checkpoint"
    seen: list[dict[int, int]] = []

    def snapshot(df: DataFrame, _: int) -> None:
        seen.append({row["id"]: row["us"] for row in df.selectExpr("id", "unix_micros(ts) AS us").collect()})

    def run() -> None:
        classes = classes_for(spark) if in_stage else None
        back = rule.set_back(rule.mark(source()), SECOND, "left", classes)
        query = back.writeStream.foreachBatch(snapshot)
        started = query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        started.awaitTermination()

    run()
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    run()

    assert seen == [{1: arrived_us, 2: _clock_us(checkpoint)}] * 2


def _clock_us(checkpoint: Path) -> int:
    """Return the clock of the first batch."""
    body = json.loads((checkpoint / "offsets" / "0").read_text().splitlines()[1])
    return int(body["batchTimestampMs"]) * 1_000


ALLOWANCE_US = 30 * SECOND
STEP_US = 100_000
OPERATORS: dict[Closed, Operator] = {"left": tumbling("10 seconds"), "right": session("10 seconds")}


def _around_the_allowance(folder: Path, closed: Closed) -> dict[int, int]:
    """Write rows a tenth of a second apart, dated around what the clock will allow, and return them by their ids.

    Some stand on the edges of granules, and a microsecond beside them; two are so far away that they have no granule.
    """
    begin_us = time.time_ns() // 1_000_000_000 * SECOND + ALLOWANCE_US
    times = [begin_us + k * STEP_US + (k % 3 - 1) for k in range(1_800)]
    times += [-(1 << 61), (1 << 61)] if closed == "left" else []
    rows = dict(enumerate(times))
    folder.mkdir()
    lines = [json.dumps({"id": number, "us": us}) for number, us in rows.items()]
    (folder / "rows.json").write_text("\n".join(lines))
    return rows


SET_BACK = pytest.mark.parametrize(("kind", "in_stage"), [("int", True), ("string", False)])
"""The kind of the partitions' names, and whether rows are set back by the function in Java."""


def _tap_and_set_back(
    df: DataFrame, rule: FutureRowRule, tap: Tap, closed: Closed, folder: Path, *, in_stage: bool
) -> tuple[dict[int, int], TapCounts, int]:
    """Run one batch; return the event times above the tap by id, what the tap counted, and the batch's clock."""
    after: dict[int, int] = {}

    def snapshot(df: DataFrame, _: int) -> None:
        after.update({row["id"]: row["us"] for row in df.selectExpr("id", "unix_micros(ts) AS us").collect()})

    classes = classes_for(df.sparkSession) if in_stage else None
    query = (
        rule.set_back(tap.observe(rule.mark(df), "seen"), tap.granule_us, tap.cut, classes)
        .writeStream.foreachBatch(snapshot)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.lastProgress
    assert progress is not None
    clock_us = _clock_us(folder / "checkpoint")
    counts = tap.decode(
        progress["observedMetrics"]["seen"]["tap"], Granules(tap.granule_us, closed), clock_us
    )
    return after, counts, clock_us


@SET_BACK
@pytest.mark.parametrize("declared", [True, False], ids=["declared", "not declared"])
@pytest.mark.parametrize("closed", OPERATORS)
def test_the_tap_counts_exactly_the_rows_that_are_set_back(
    spark: SparkSession, tmp_path: Path, closed: Closed, declared: bool, kind: str, in_stage: bool
) -> None:
    """It counts them before they are: both find the same granules by the clock that the checkpoint has."""
    rows = _around_the_allowance(tmp_path / "in", closed)
    read = files(spark, tmp_path / "in", "id long, us long")
    granule_us = default_granule_us(OPERATORS[closed])
    tap = Tap("ts", "partition", granule_us, closed if declared else None, allowance_us=ALLOWANCE_US)
    timed = read().selectExpr("id", f"cast(id % 2 as {kind}) as partition", "timestamp_micros(us) as ts")
    after, counts, clock_us = _tap_and_set_back(
        timed, FutureRowRule("ts", ALLOWANCE_US), tap, closed, tmp_path, in_stage=in_stage
    )

    back = {number for number, us in rows.items() if after[number] != us}
    beyond = {number for number, us in rows.items() if us > clock_us + ALLOWANCE_US}
    kept_of_them = [rows[number] for number in beyond - back]
    assert len(beyond) > 100
    assert back <= beyond
    assert all(us < clock_us + ALLOWANCE_US + tap.granule_us for us in kept_of_them)
    assert {after[number] for number in back} == {clock_us}
    assert {part.partition: part.future_rows for part in counts.by_granule.by_partition()} == {
        str(which): sum(number % 2 == which for number in back) for which in (0, 1)
    }
    # The rest of a report is what is seen above the tap.
    body = {
        (part.partition, granule): count
        for part in counts.by_granule.by_partition()
        for granule, count in zip(part.granules, part.counts, strict=True)
    }
    inside = {number: us for number, us in after.items() if abs(us) < 1 << 60}
    expected = granule_index(np.array(list(inside.values())), tap.granule_us, closed).tolist()
    assert body == Counter(
        (str(number % 2), granule) for number, granule in zip(inside, expected, strict=True)
    )
    newest = max(inside[number] for number in inside.keys() - back)
    assert counts.max_event_time_us is not None
    assert 0 <= newest - counts.max_event_time_us < tap.granule_us


@SET_BACK
def test_by_the_brokers_own_time_a_row_is_set_back_to_that_and_by_a_producers_to_the_clock(
    spark: SparkSession, tmp_path: Path, kind: str, in_stage: bool
) -> None:
    """And none of them says how late the broker had its rows."""
    now_us, hour_us = time.time_ns() // 1_000, 3_600 * SECOND
    appended_us = now_us - 3 * hour_us
    rows = [  # by the broker or not, event time
        (1, appended_us - 5 * SECOND),
        (1, appended_us + hour_us),
        (0, appended_us + hour_us),
        (0, now_us + hour_us),
    ]
    (tmp_path / "in").mkdir()
    lines = [json.dumps({"id": number, "by": by, "us": us}) for number, (by, us) in enumerate(rows)]
    (tmp_path / "in" / "rows.json").write_text("\n".join(lines))
    df = files(spark, tmp_path / "in", "id long, by int, us long")().selectExpr(
        "id",
        f"cast(id as {kind}) as partition",
        "timestamp_micros(us) as ts",
        f"timestamp_micros({appended_us}) as timestamp",
        "by as timestampType",
    )
    rule = FutureRowRule("ts", ALLOWANCE_US, arrival_time="timestamp", arrival_type="timestampType")
    tap = replace(
        Tap("ts", "partition", SECOND, "left", ahead=AHEAD, allowance_us=ALLOWANCE_US),
        arrival_time=rule.arrival_time,
        arrival_type=rule.arrival_type,
    )
    after, counts, clock_us = _tap_and_set_back(df, rule, tap, "left", tmp_path, in_stage=in_stage)

    expected = [rows[0][1], appended_us, rows[2][1], clock_us]
    assert after == dict(enumerate(expected))
    assert counts.by_granule.by_partition() == tuple(
        PartitionCounts(
            partition=str(number), granules=(us // SECOND,), counts=(1,), future_rows=int(number in {1, 3})
        )
        for number, us in enumerate(expected)
    )
    assert counts.max_event_time_us == rows[2][1] // SECOND * SECOND
    assert counts.append_delay == AppendDelay(
        rows=1, min_us=5 * SECOND, mean_us=5 * SECOND, max_us=5 * SECOND, by_broker=False
    )


def test_rows_cannot_be_set_aside_without_the_time_of_their_arrival() -> None:
    """By the clock of a batch they would be other rows each time somebody looks."""
    with pytest.raises(ValueError, match="name arrival_time="):
        FutureRowRule("ts", 60 * SECOND, "aside").beyond_arrival()
