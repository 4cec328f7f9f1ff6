"""Main + side = input where Spark itself reads the batches of a source again: any source that has offsets."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.models.base.operators import row_level
from tidemark.spark_jobs import adaptive_watermark, flush, side
from tidemark.spark_jobs.late.late_rows import due_batches
from tidemark.spark_jobs.late.origin import Origin
from tidemark.spark_jobs.late.reread import reader_of
from tidemark.spark_jobs.spark.checkpoint import Checkpoint, HadoopFiles

from support.late_streams import done
from support.patience import PATIENCE_S, until
from support.soak import with_soak
from support.spark_streams import EPOCH_US
from support.trace_source import register_trace_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BATCHES, ROWS = 4, 60


@dataclass(frozen=True)
class Source:
    """A source of ROWS rows a second."""

    format: str
    counts: str
    """What in its offset says how many rows came."""
    options: dict[str, str]
    parse: Callable[[DataFrame], DataFrame]


def rate(_: SparkSession, __: Path) -> Source:
    """Return a source of Spark's newer interface, which writes down nothing."""
    options = {
        "rowsPerBatch": str(ROWS),
        "startTimestamp": str(EPOCH_US // 1_000),
        "advanceMillisPerBatch": "1000",
    }
    return Source(
        "rate-micro-batch", "offset", options, lambda raw: raw.transform(behind("value", "timestamp"))
    )


def trace(spark: SparkSession, folder: Path) -> Source:
    """Return a source in Python, which is registered in the session."""
    register_trace_source(spark)
    number = list(range(2 * BATCHES * ROWS))
    times = [EPOCH_US + each // ROWS * 1_000_000 for each in number]
    columns = {
        "seq": number,
        "event_time_us": times,
        "arrival_time_us": times,
        "partition": ["0"] * len(number),
    }
    pq.write_table(pa.table(columns), folder / "trace.parquet")
    options = {"path": str(folder / "trace.parquet"), "slot_us": "1000000"}
    return Source("tidemark_trace", "rows", options, lambda raw: raw.transform(behind("seq", "event_time")))


def behind(number: str, time: str) -> Callable[[DataFrame], DataFrame]:
    """Return what makes rows whose event times are up to 12 seconds behind."""
    back_us = F.col(number) * 7_919 % 13 * 1_000_000
    ts = F.timestamp_micros(F.unix_micros(time) - back_us)
    return lambda raw: raw.select(F.col(number).alias("id"), ts.alias("ts"))


@pytest.mark.parametrize("make", with_soak([rate, trace], {trace}))
def test_main_and_side_add_up_to_what_the_source_had_up_to_the_last_batch(
    spark: SparkSession, tmp_path: Path, make: Callable[[SparkSession, Path], Source]
) -> None:
    source, folder, checkpoint = make(spark, tmp_path), tmp_path / "late", tmp_path / "checkpoint"
    main: dict[int, list[int]] = {}

    def run(batches: int) -> None:
        keep = side(str(folder), parse=source.parse)
        query = (
            spark.readStream.format(source.format)
            .options(**source.options)
            .load()
            .transform(source.parse)
            .transform(adaptive_watermark("ts", "5 seconds", row_level(), stream="any", late=keep))
            .dropDuplicatesWithinWatermark(["id"])
            .writeStream.foreachBatch(
                lambda rows, batch: main.update({batch: [row["id"] for row in rows.collect()]})
            )
            .option("checkpointLocation", str(checkpoint))
            .start()
        )
        until((checkpoint / "commits" / str(batches)).exists, "the batches to be committed")
        assert [each.id for each in spark.streams.active] == [query.id], (
            "the user's program sees its own query only"
        )
        query.stop()
        assert flush(PATIENCE_S)

    run(BATCHES // 2)
    run(BATCHES)
    last = done(folder)
    offset = json.loads((checkpoint / "offsets" / str(last)).read_text().splitlines()[2])
    rows = offset[source.counts]
    late = Counter(row["id"] for row in spark.read.parquet(str(folder)).select("id").collect())
    assert late.total() >= ROWS
    assert late + Counter(each for batch, ids in main.items() if batch <= last for each in ids) == Counter(
        range(rows)
    )
    assert not list((folder / "_replayed").glob("*"))
    assert not (folder / "_unknown").exists()

    kept = Checkpoint(HadoopFiles(spark, str(checkpoint)))
    (batch,) = due_batches(kept.offset_log(), last, last - 1, "0", at_most=1).batches
    origin = Origin(source.format, source.options)

    abandoned = folder / "_replayed" / "of-a-driver-that-is-gone"
    abandoned.mkdir(parents=True)
    place = spark, origin, kept.files, "0", HadoopFiles(spark, str(folder))
    with reader_of(*place) as one:
        mine = one.read(batch)
        with reader_of(*place) as other:
            assert other.read(batch).count() == ROWS
        assert mine.count() == ROWS, "the other one left it where it was"
    assert not list((folder / "_replayed").glob("[!.]*"))
