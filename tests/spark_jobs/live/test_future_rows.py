"""Rows dated ahead of the clock: to Spark's own watermark one of them ends the stream, to Live it is one wrong row."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.ledger import Ledger
from tidemark.spark_jobs.live.future_rows import FutureRows, Treatment, future_rows

from support.live_faults import LiveJob, Logged, files
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


def _is_ahead(identity: int) -> bool:
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


@pytest.mark.parametrize("treatment", ["clamp", "aside"])
@pytest.mark.parametrize("column", NAMES)
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
    honest = {event.id: event for events in batches for event in events if not _is_ahead(event.id)}
    ledger = Ledger()
    for report in job.reports:
        ledger.add(report)
    told = ledger.completeness()
    counted: Counter[str] = Counter()
    for report in job.reports:
        counted.update({part.partition: part.future_rows for part in report.partitions if part.future_rows})
    poisoned = next(report for report in job.reports if any(part.future_rows for part in report.partitions))

    assert honest.keys() <= kept, "no honest row is lost"
    assert counted == {str(names[0]): 1, str(names[1]): 2}
    assert max(report.max_event_time_us or 0 for report in job.reports) == max(
        event.event_time_us for event in honest.values()
    )
    assert (told.late_least, told.late_most, told.unjudged_rows) == (0, 0, 0)
    assert {end: tally.rows for end, tally in ledger.by_key().items()} == {
        end: len(ids) for end, ids in cells.items()
    }
    assert max(job.watermarks_ms().values()) * 1_000 <= max(e.event_time_us for e in honest.values())
    assert max(job.watermarks_ms().values()) > 0, "it moved"
    if treatment == "clamp":
        clock_us = Logged.read(job.checkpoint, poisoned.batch_id).clock_ms * 1_000
        end_us = clock_us // WINDOW_US * WINDOW_US + WINDOW_US
        assert sorted(identity for identity in cells[end_us] if _is_ahead(identity)) == [9_000, 9_001, 9_002]
        assert poisoned.rows == 13
        return
    assert not any(_is_ahead(identity) for identity in kept)
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


def test_a_batch_that_is_run_again_sets_a_row_back_to_the_clock_it_had_the_first_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    arrived_us = time.time_ns() // 1_000
    _write(
        tmp_path / "in",
        [[_Event(1, 0, arrived_us, arrived_us), _Event(2, 0, arrived_us + DAY_US, arrived_us)]],
    )
    source = files(spark, tmp_path / "in", "id long, partition int, ts timestamp, arrival timestamp")
    rule = FutureRows("ts", 60 * SECOND)
    checkpoint = tmp_path / "checkpoint"
    seen: list[dict[int, int]] = []

    def look(df: DataFrame, _: int) -> None:
        seen.append({row["id"]: row["us"] for row in df.selectExpr("id", "unix_micros(ts) AS us").collect()})

    def run() -> None:
        query = rule.take_out(rule.mark(source())).writeStream.foreachBatch(look)
        started = query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        started.awaitTermination()

    run()
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    run()
    logged_ms = json.loads((checkpoint / "offsets" / "0").read_text().splitlines()[1])["batchTimestampMs"]

    assert seen == [{1: arrived_us, 2: logged_ms * 1_000}] * 2


def test_rows_cannot_be_set_aside_without_the_time_of_their_arrival() -> None:
    """By the clock of a batch they would be other rows each time somebody looks."""
    with pytest.raises(ValueError, match="name arrival_time="):
        FutureRows("ts", 60 * SECOND, "aside").beyond_arrival()
