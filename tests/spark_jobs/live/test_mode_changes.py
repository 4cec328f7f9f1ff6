"""One checkpoint goes on in every mode, with and without Tidemark, each on a checkpoint that a real query wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.models.base.operators import tumbling
from tidemark.models.protocol.messages import Mode
from tidemark.spark_jobs import adaptive_watermark, flush

from support.patience import PATIENCE_S
from support.spark_streams import EPOCH_US, SCHEMA, RecordingSink, Row, started, write_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

SECOND = 1_000_000
PLAIN, TAPPED, CEILED = "plain withWatermark", "without a ceiling", "with a ceiling"


@dataclass(frozen=True)
class Plan:
    """What stands in the job."""

    kind: str
    mode: Mode = "Off"
    bound: str = "10 seconds"

    def of(self, df: DataFrame) -> DataFrame:
        if self.kind == PLAIN:
            return df.withWatermark("ts", self.bound)
        ceiling = "1 hour" if self.kind == CEILED else None
        return df.transform(
            adaptive_watermark(
                "ts",
                self.bound,
                tumbling("10 seconds"),
                ceiling=ceiling,
                mode=self.mode,
                sink=RecordingSink(),
            )
        )


class Changed:
    """A query over files that goes on from one checkpoint under one plan after the other."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder
        self.counts: dict[int, int] = {}
        self._written = 0
        (folder / "in").mkdir()

    def run(self, plan: Plan, *files: range) -> None:
        """Start the query; let it read one file after the other, each with a row for each of its seconds."""
        self._write(files[0])
        source = self.spark.readStream.schema(SCHEMA).json(str(self.folder / "in"))
        counted = plan.of(source).groupBy(F.window("ts", "10 seconds")).count()
        writer = (
            counted.select(F.unix_seconds("window.end").alias("end"), "count")
            .writeStream.foreachBatch(self._keep)
            .option("checkpointLocation", str(self.folder / "checkpoint"))
        )
        query = started(writer.start)
        try:
            query.processAllAvailable()
            for seconds in files[1:]:
                self._write(seconds)
                query.processAllAvailable()
        finally:
            query.stop()
            flush(PATIENCE_S)

    def _write(self, seconds: range) -> None:
        rows = [Row(second, second % 2, EPOCH_US + second * SECOND) for second in seconds]
        write_batch(self.folder / "in", self._written, rows)
        self._written += 1

    def _keep(self, df: DataFrame, batch: int) -> None:
        for end, count in df.collect():
            key = end - EPOCH_US // SECOND
            assert key not in self.counts, f"window {key} came again in batch {batch}"
            self.counts[key] = count


PLANS = [
    Plan(PLAIN),
    Plan(TAPPED),
    Plan(TAPPED, "Live"),
    Plan(CEILED, "Live", "12 seconds"),
    Plan(CEILED, "OnRestart"),
    Plan(CEILED, "Live"),
    Plan(PLAIN),
    Plan(CEILED, "Live"),
    Plan(TAPPED, "Restart"),
    Plan(PLAIN),
]
"""The last one without Live: it waits for the bound alone."""


def test_a_checkpoint_goes_on_in_every_mode_with_every_row_counted_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    changed = Changed(spark, tmp_path)
    *files, last = (range(number * 25, (number + 1) * 25) for number in range(len(PLANS)))
    for plan, seconds in zip(PLANS, files, strict=False):
        changed.run(plan, seconds)
    changed.run(PLANS[-1], last, range(600, 601), range(601, 602), range(602, 603))
    expected = dict.fromkeys(range(10, len(PLANS) * 25 // 10 * 10 + 1, 10), 10)

    assert {key: count for key, count in changed.counts.items() if key in expected} == expected
