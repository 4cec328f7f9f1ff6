"""The replayed trace: every row once, in order, in the batches that the options ask for, over restarts too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.trace_source import TraceStreamReader, register_trace_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL = None  # the reader ignores Spark's limit: slots and speed decide


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a trace of 100 rows, one every second, in small row groups."""
    path = tmp_path / "trace.parquet"
    seq = np.arange(100, dtype=np.int64)
    table = {
        "seq": seq,
        "event_time_us": seq * 1_000_000 - 500,
        "arrival_time_us": seq * 1_000_000,
        "partition": [str(number % 3) for number in seq],
    }
    pq.write_table(pa.table(table), path, row_group_size=7)
    return path


def _reader(trace: Path, **options: str) -> TraceStreamReader:
    return TraceStreamReader({"path": str(trace), **options})


def _ids(reader: TraceStreamReader, start: int, end: int) -> list[int]:
    shards = reader.partitions({"rows": start}, {"rows": end})
    return [number for shard in shards for batch in reader.read(shard) for number in batch["seq"].to_pylist()]


@pytest.mark.parametrize("shards", ["1", "3", "40"])
def test_shards_hold_each_row_of_a_batch_once(trace: Path, shards: str) -> None:
    """Row groups and shards cut the trace at different places."""
    reader = _reader(trace, shards=shards)

    assert list(range(5, 62)) == _ids(reader, 5, 62)
    assert _ids(reader, 5, 5) == []


def test_a_batch_takes_the_arrivals_of_the_next_slot_that_has_any(trace: Path) -> None:
    """Slots follow the trace's clock, whatever the real one says."""
    reader = _reader(trace, slot_us="30000000", until="95")
    offsets = [0]
    while (offset := reader.latestOffset({"rows": offsets[-1]}, ALL)["rows"]) != offsets[-1]:  # type: ignore[arg-type]
        offsets.append(offset)

    assert offsets == [0, 30, 60, 90, 95]


def test_a_new_reader_goes_on_where_the_checkpoint_stands(trace: Path) -> None:
    """A restart of the driver makes a new reader; the slots must stay the same."""
    assert _reader(trace, slot_us="30000000").latestOffset({"rows": 30}, ALL) == {"rows": 60}  # type: ignore[arg-type]


def test_at_speed_the_clock_decides_how_far_a_batch_goes(
    trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 10 times the speed two seconds hold twenty of the trace's."""
    clock = [1_000.0]
    monkeypatch.setattr("support.trace_source.time.monotonic", lambda: clock[0])
    reader = _reader(trace, speed="10")
    first = reader.latestOffset({"rows": 0}, ALL)["rows"]  # type: ignore[arg-type]
    clock[0] += 2.0
    second = reader.latestOffset({"rows": first}, ALL)["rows"]  # type: ignore[arg-type]

    assert (first, second) == (1, 21)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pace": "3"}, "may be given; got"),
        ({"speed": "fast"}, "speed is 'fast'"),
        ({"speed": "0"}, "must be a number above 0"),
        ({"shards": "-1"}, "must be a number above 0"),
    ],
)
def test_a_wrong_option_is_named(trace: Path, options: dict[str, str], message: str) -> None:
    """An option that is misspelt must not be ignored."""
    with pytest.raises(ValueError, match=message):
        _reader(trace, **options)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.slow
def test_spark_replays_a_trace_over_a_restart_row_for_row(
    spark: SparkSession, trace: Path, tmp_path: Path
) -> None:
    """The source in the engine it is for."""
    register_trace_source(spark)
    batches: dict[int, list[tuple[int, float, str]]] = {}

    def take(df, batch_id: int) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        batches[batch_id] = [
            (row.seq, round(row.event_time.timestamp(), 6), row.partition) for row in df.collect()
        ]

    for until in ("45", "100"):
        query = (
            spark.readStream.format("tidemark_trace")
            .options(path=str(trace), slot_us="20000000", until=until, shards="2")
            .load()
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(processingTime="0 seconds")
            .start()
        )
        query.processAllAvailable()
        query.stop()
    rows = [row for batch in sorted(batches) for row in batches[batch]]

    assert [(number, round(number - 0.0005, 6), str(number % 3)) for number in range(100)] == rows
    assert [len(batches[batch]) for batch in sorted(batches)] == [20, 20, 5, 15, 20, 20]


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "sizes"), [({"slot_us": "40000000"}, [40, 40, 20]), ({"speed": "1"}, [100])]
)
def test_available_now_takes_the_whole_trace(
    spark: SparkSession, trace: Path, tmp_path: Path, options: dict[str, str], sizes: list[int]
) -> None:
    """A source that does not say it supports the trigger is read for one batch only."""
    register_trace_source(spark)
    query = (
        spark.readStream.format("tidemark_trace")
        .options(path=str(trace), **options)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    assert sizes == [progress.numInputRows for progress in query.recentProgress]
