"""The ledger against real Spark: what it says was admitted and late is what the sink got and missed, row for row."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from tidemark.models.curve import Curve
from tidemark.models.operators import Operator, TimeWindow, row_level, session, sliding, tumbling
from tidemark.spark_jobs import adaptive_watermark, flush

from support.oracles import Ledger, replay_reports
from support.patience import PATIENCE_S
from support.spark_streams import EPOCH_US, SCHEMA, Job, Row, iso, random_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KINDS: dict[str, tuple[Operator, str]] = {
    "tumbling, append": (tumbling("5 seconds"), "append"),
    "tumbling, update": (tumbling("5 seconds"), "update"),
    "tumbling, complete": (tumbling("5 seconds"), "complete"),
    "sliding, append": (sliding("10 seconds", "4 seconds", "1 second"), "append"),
    "session, append": (session("3 seconds"), "append"),
    "deduplication, append": (row_level(), "append"),
}
END_US = EPOCH_US + 48 * 3_600_000_000
"""A row this late in event time closes every window before it."""


@dataclass
class Compared:
    """How much was compared; a comparison of nothing proves nothing."""

    late_rows: int = 0
    windows: int = 0
    no_data_batches: int = 0
    restarts: int = 0
    operator_kinds: int = 0
    idle_gaps: int = 0


def _groups(rng: random.Random, batches: list[list[Row]]) -> list[list[list[Row]]]:
    """Cut a stream into groups that run back to back, with an idle moment after each."""
    groups = []
    while batches:
        size = rng.choice([1, 1, 2, 3])
        groups.append(batches[:size])
        batches = batches[size:]
    return groups


def _cells_of_sink(job: Job, rows: dict[int, Row]) -> Counter[tuple[str, int]]:
    """Return how many rows of each (partition, key) the sink holds in the end."""
    if job.output_mode == "append":
        last = [entry for batch in sorted(job.output) for entry in job.output[batch]]
    elif job.output_mode == "update":
        last = list(
            {key: (key, ids) for batch in sorted(job.output) for key, ids in job.output[batch]}.values()
        )
    else:
        last = job.output[max(job.output)]
    cells: Counter[tuple[str, int]] = Counter()
    for key, ids in last:
        for identity in ids:
            row = rows[identity]
            cells[str(row.partition), key if key is not None else _key(job.operator, row)] += 1
    return cells


def _key(operator: Operator, row: Row) -> int:
    """Return the ledger's key of a row counted at 1 ms: the last microsecond of its granule, plus the session's gap."""
    edge = -(-row.event_time_us // 1_000) * 1_000
    return edge + getattr(operator, "gap_us", 0)


def test_the_ledger_equals_the_sink_for_every_operator_over_restarts_with_other_bounds(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The promise of the whole project: completeness is counted, not estimated."""
    compared, mismatches = Compared(), {}
    for seed in (1, 2):
        for kind, (operator, mode) in KINDS.items():
            rng = random.Random(f"{seed} {kind}")
            batches = random_batches(rng.randrange(10**6), 13)
            job = Job(
                spark,
                tmp_path / f"{seed}" / kind,
                operator,
                mode,
                granule=None if isinstance(operator, TimeWindow) else "1 ms",
            )
            cuts = [0, rng.randrange(3, 6), rng.randrange(7, 10), len(batches)]
            bounds = rng.sample(["0 seconds", "1500 ms", "6 seconds", "20 seconds"], 3)
            for run, bound in enumerate(bounds):
                groups = _groups(rng, batches[cuts[run] : cuts[run + 1]])
                if run == len(bounds) - 1:
                    groups.append([[Row(10**9, 0, END_US)]])
                job.run(bound, groups)
                compared.idle_gaps += len(groups)

            ledger = Ledger()
            for report in job.recorded.reports:
                assert ledger.add(report)
            assert ledger.completeness().exact
            rows = {row.id: row for batch in batches for row in batch}
            rows[10**9] = Row(10**9, 0, END_US)
            expected = {
                cell: tally.rows - tally.late_min
                for cell, tally in ledger.tallies.items()
                if tally.rows > tally.late_min
                and (mode != "append" or cell[1] <= END_US or not _windowed(operator))
            }
            actual = dict(_cells_of_sink(job, rows))
            if mode == "append" and not _windowed(operator):
                # The session of the closing row is still open.
                expected.pop(("0", _key(operator, rows[10**9])), None)
                actual.pop(("0", _key(operator, rows[10**9])), None)
            wrong = {
                cell
                for cell in expected.keys() | actual.keys()
                if expected.get(cell, 0) != actual.get(cell, 0)
            }
            if wrong:
                mismatches[seed, kind] = {
                    cell: (expected.get(cell, 0), actual.get(cell, 0)) for cell in wrong
                }
            compared.late_rows += ledger.completeness().late_min
            compared.windows += len(ledger.by_key()) if _windowed(operator) else 0
            compared.no_data_batches += sum(report.rows == 0 for report in job.recorded.reports)
            compared.restarts += len({report.run_id for report in job.recorded.reports}) - 1
    compared.operator_kinds = len(KINDS)
    with capsys.disabled():
        body = ", ".join(
            f"{getattr(compared, item.name)} {item.name.replace('_', ' ')}" for item in fields(compared)
        )
        print(f"\nexactness: compared {body}; {len(mismatches)} mismatches")
    assert mismatches == {}
    assert all(getattr(compared, item.name) > 0 for item in fields(compared))


def _windowed(operator: Operator) -> bool:
    return isinstance(operator, TimeWindow)


@pytest.mark.parametrize("kind", ["tumbling, append", "sliding, append", "deduplication, append"])
def test_the_curve_predicts_what_spark_does_under_another_bound_on_the_same_batches(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """Row for row: a curve that is only nearly right would be a guess with decimals."""
    operator, mode = KINDS[kind]
    batches = [*random_batches(7, 10), [Row(10**9, 0, END_US)]]
    ledgers, replays = {}, {}
    for seconds in (0, 2, 7, 25):
        job = Job(
            spark, tmp_path / str(seconds), operator, mode, granule=None if _windowed(operator) else "1 ms"
        )
        job.write(batches)
        job.run_available(f"{seconds} seconds")
        ledger = Ledger()
        for report in job.recorded.reports:
            ledger.add(report)
        ledgers[seconds] = ledger.completeness()
        replays[seconds] = replay_reports(job.recorded.reports)
    assert len({ledger.late_min for ledger in ledgers.values()}) >= 3, (
        "the bounds must differ in what they lose"
    )
    for recorded, replay in replays.items():
        curve = Curve.of_replay(replay, operator)
        predicted = {seconds: curve.at(seconds * 1_000_000).late for seconds in ledgers}

        assert {seconds: ledger.late_min for seconds, ledger in ledgers.items()} == predicted, recorded


def test_rows_whose_granule_the_watermark_cuts_are_told_as_an_interval_that_holds_the_truth(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With a granule coarser than a millisecond a row-level ledger cannot be exact, and must say so."""
    operator, mode = KINDS["deduplication, append"]
    job = Job(spark, tmp_path, operator, mode, granule="2 seconds")
    batches = random_batches(5, 10)
    job.write(batches)
    job.run_available("1 second")
    ledger = Ledger()
    for report in job.recorded.reports:
        ledger.add(report)
    kept = {identity for output in job.output.values() for _, ids in output for identity in ids}
    late = sum(row.id not in kept for batch in batches for row in batch)
    body = ledger.completeness()

    assert body.late_min < body.late_max
    assert body.late_min <= late <= body.late_max
    assert not body.exact


def test_when_the_distinct_keys_overflow_the_ledger_says_how_many_rows_it_cannot_judge(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An overflow must cost knowledge, never truth: the gap is the batch's rows, exactly."""
    job = Job(spark, tmp_path, tumbling("5 seconds"), granule="1 ms", max_keys=8)
    start = EPOCH_US + 3_600_000_000
    small = [Row(n, 0, start + n * 1_000) for n in range(6)]
    large = [Row(100 + n, n % 3, start + 20_000_000 + n * 7_000) for n in range(90)]
    job.write([small, large, [Row(500, 1, start + 40_000_000)]])
    job.run_available("10 seconds")
    ledger = Ledger()
    for report in job.recorded.reports:
        ledger.add(report)
    body = ledger.completeness()

    assert (body.rows, body.unjudged_rows) == (7, 90)
    assert not body.exact
    assert [report.rows for report in job.recorded.reports][:3] == [6, 90, 1]
    assert "more than 8 distinct" in caplog.text


def test_rows_without_an_event_time_or_with_an_odd_partition_are_counted_and_told_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A null has no key, and a partition below 0 or without a number fits none: neither may vanish."""
    job = Job(spark, tmp_path, tumbling("5 seconds"))
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "00000.json").write_text(
        '{"id": 1, "partition": 0, "ts": null}\n'
        f'{{"id": 2, "partition": 0, "ts": "{iso(EPOCH_US)}"}}\n'
        f'{{"id": 3, "partition": -7, "ts": "{iso(EPOCH_US)}"}}\n'
        f'{{"id": 4, "partition": null, "ts": "{iso(EPOCH_US)}"}}\n'
    )
    job.run_available("10 seconds")
    report = job.recorded.reports[0]

    assert (report.rows, report.null_rows, report.uncounted_rows) == (4, 1, 0)
    assert {part.partition: part.rows for part in report.partitions} == {"0": 1, "other": 2}


def test_partitions_named_by_text_are_counted_as_exactly_as_numbered_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Not every source numbers its partitions; regions and devices have names, some with colons in them."""
    names = {0: "eu:west", 1: "us", 2: ""}
    batches = random_batches(11, 3)
    folder = tmp_path / "in"
    folder.mkdir()
    job = Job(spark, tmp_path, tumbling("5 seconds"))
    job.write(batches)
    name = "element_at(map(0, 'eu:west', 1, 'us', 2, ''), partition)"
    source = (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .json(str(folder))
        .selectExpr("id", "ts", f"{name} as region")
    )
    tapped = source.transform(
        adaptive_watermark(
            "ts", "5 s", tumbling("5 s"), partition="region", stream="named", sink=job.recorded
        )
    )
    query = (
        tapped.groupBy("region")
        .count()
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "named"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert flush(PATIENCE_S)
    body: Counter[str] = Counter()
    for report in job.recorded.reports:
        for part in report.partitions:
            body[part.partition] += part.rows

    assert Counter(names[row.partition] for batch in batches for row in batch) == body


def test_a_row_dated_after_the_year_9999_does_not_blind_the_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Milliseconds read as seconds: Spark's watermark leaves the calendar, and every later row is lost. Say so."""
    job = Job(spark, tmp_path, tumbling("5 seconds"), "update")
    folder = tmp_path / "in"
    folder.mkdir()
    source_schema = "id long, partition int, seconds long"
    for number, seconds in enumerate([EPOCH_US // 1_000_000, EPOCH_US // 1_000, EPOCH_US // 1_000_000 + 60]):
        (folder / f"{number}.json").write_text(f'{{"id": {number}, "partition": 0, "seconds": {seconds}}}')
        os.utime(folder / f"{number}.json", (1_000_000_000 + number,) * 2)
    events = (
        spark.readStream.schema(source_schema)
        .option("maxFilesPerTrigger", 1)
        .json(str(folder))
        .selectExpr("id", "partition", "timestamp_seconds(seconds) as ts")
        .transform(adaptive_watermark("ts", "5 s", tumbling("5 s"), stream="odd", sink=job.recorded))
    )
    query = (
        events.groupBy(F.window("ts", "5 seconds"))
        .count()
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "odd"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    query.processAllAvailable()
    (folder / "3.json").write_text(f'{{"id": 3, "partition": 0, "seconds": {EPOCH_US // 1_000_000 + 61}}}')
    query.processAllAvailable()
    query.stop()
    assert flush(PATIENCE_S)
    ledger = Ledger()
    for report in job.recorded.reports:
        ledger.add(report)

    assert [report.batch_id for report in job.recorded.reports] == list(range(len(job.recorded.reports)))
    assert ledger.completeness().late_min >= 1
    assert ledger.completeness().missing_batches == 0
