"""Main + side = input, row for row, on real queries over files; and what can no longer be known is said so."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.operators import Operator, TimeWindow, row_level, session, sliding, tumbling
from tidemark.spark_jobs import adaptive_watermark, side

from support.late_streams import (
    CLOSING_ID,
    done,
    input_pairs,
    late_by_batch,
    late_in_ledger,
    main_pairs,
    parse_rows,
    side_pairs,
    uncommit_last,
    write_without_time,
)
from support.soak import with_soak
from support.spark_streams import EPOCH_US, SCHEMA, Job, Row, random_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TIMELESS = 900_000
END_US = EPOCH_US + 48 * 3_600_000_000
OPERATORS: dict[str, Operator] = {
    "tumbling": tumbling("5 seconds"),
    "sliding": sliding("10 seconds", "4 seconds", "1 second"),
    "session": session("3 seconds"),
    "row-level": row_level(),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", with_soak(OPERATORS, {"tumbling", "sliding", "row-level"}))
def test_main_and_side_add_up_to_the_input_over_restarts_with_other_bounds_and_a_replayed_batch(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    operator, folder = OPERATORS[kind], tmp_path / "late"
    batches = random_batches(sum(map(ord, kind)), 8)
    job = Job(
        spark,
        tmp_path,
        operator,
        granule=None if isinstance(operator, TimeWindow) else "1 ms",
        parse=parse_rows,
        late=side(str(folder), parse=parse_rows),
        declared=kind != "session",
    )
    job.write(batches[:4])
    write_without_time(job, TIMELESS)
    job.run_available("1 second")
    before = done(folder)
    replayed = uncommit_last(tmp_path)
    job.write(batches[4:])
    job.run("4 seconds", [[], []])
    job.write([[Row(CLOSING_ID, 0, END_US)], [Row(CLOSING_ID + 1, 0, END_US)]])
    job.run_available("2 seconds")

    late = side_pairs(spark, folder, operator)
    assert before == replayed, "the first driver had caught up"
    assert late.total() >= 10
    # A window drops a row without a time, deduplication emits it: it is in one of the two.
    whole = input_pairs(batches, operator) + Counter({(None, TIMELESS): 1})
    assert main_pairs(job.output.values()) + late == whole
    assert late_by_batch(spark, folder) == late_in_ledger(job.recorded.reports)
    assert not (folder / "_unknown").exists()


def test_batches_that_spark_purged_before_anybody_kept_their_rows_are_unknown_and_the_others_are_exact(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, offsets = tmp_path / "late", tmp_path / "checkpoint" / "offsets"
    job = Job(spark, tmp_path, OPERATORS["tumbling"], parse=parse_rows)
    batches = random_batches(sum(map(ord, "tumbling")), 10)
    job.write(batches[:6])
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "2")
    try:
        job.run_available("1 second")
    finally:
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")
    oldest = min(int(path.name) for path in offsets.glob("[0-9]*"))
    job.late = side(str(folder), parse=parse_rows)
    job.write(batches[6:])
    job.run_available("1 second")

    late = late_in_ledger(job.recorded.reports)
    assert oldest > 0
    assert any(batch <= oldest for batch in late)
    assert late_by_batch(spark, folder) == {batch: rows for batch, rows in late.items() if batch > oldest}
    assert [path.name for path in (folder / "_unknown").glob("[0-9]*")] == [f"0-{oldest}"], "W(n-1) is gone"
    assert f"the late rows of batches 0 to {oldest} are unknown: Spark has purged" in caplog.text
    assert "raise spark.sql.streaming.minBatchesToRetain" in caplog.text


def test_the_conf_keeps_the_late_rows_of_a_call_that_does_not_say_what_becomes_of_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    said, by_call = tmp_path / "said", tmp_path / "by call"
    spark.conf.set("spark.tidemark.late.folder", str(said))
    try:
        job = Job(spark, tmp_path, OPERATORS["tumbling"], parse=parse_rows)
        job.write(random_batches(7, 4))
        job.run_available("1 second")
        late = late_by_batch(spark, said / job.stream)
        assert late == late_in_ledger(job.recorded.reports)
        assert late
        job.late = side(str(by_call), parse=parse_rows)
        job.write(random_batches(8, 2))
        job.run_available("1 second")
    finally:
        spark.conf.unset("spark.tidemark.late.folder")
    assert late_by_batch(spark, said / job.stream) == late, "the call wins"
    assert late_by_batch(spark, by_call) == late_in_ledger(job.recorded.reports)


def test_a_stream_that_cannot_be_read_again_is_refused_with_the_way_out(
    spark: SparkSession, tmp_path: Path
) -> None:
    keep = adaptive_watermark(
        "ts", "5 seconds", tumbling("5 seconds"), late=side(str(tmp_path), parse=parse_rows)
    )
    files = spark.readStream.schema(SCHEMA).json(str(tmp_path))
    lines = (
        spark.readStream.format("socket").options(host="127.0.0.1", port="1", includeTimestamp="true").load()
    )
    with pytest.raises(ValueError, match="leave late= out, or name what"):
        lines.withColumnRenamed("timestamp", "ts").transform(keep)
    with pytest.raises(ValueError, match="on each input"):
        files.union(files).transform(keep)
    with pytest.raises(ValueError, match="name it otherwise"):
        files.withColumnRenamed("id", "Late").transform(keep)


def test_a_source_that_removes_its_files_is_warned_of_beforehand(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keep = adaptive_watermark(
        "ts", "5 seconds", tumbling("5 seconds"), late=side(str(tmp_path), parse=parse_rows)
    )
    files = spark.readStream.schema(SCHEMA).option("CLEANSOURCE", "delete").json(str(tmp_path))
    with caplog.at_level("WARNING", "tidemark.spark"):
        files.transform(keep)
    assert "cleanSource=delete removes files" in caplog.text
