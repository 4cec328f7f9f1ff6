"""The table of mode changes, cell by cell, each on a checkpoint that a real query wrote."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.models.base.operators import row_level, tumbling
from tidemark.models.protocol.messages import Mode
from tidemark.spark_jobs import adaptive_watermark, flush
from tidemark.spark_jobs.plans.start_check import CEILED, MODE_CHANGES, PLAIN, TAPPED, ModeChange

from support.live_operators import join
from support.live_streams import Input, LiveJob, work_off
from support.patience import PATIENCE_S
from support.spark_streams import EPOCH_US, SCHEMA, RecordingSink, Row, started, write_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECOND = 1_000_000
FORMAT = "spark.sql.streaming.offsetLog.formatVersion"


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


@contextmanager
def conf(spark: SparkSession, **values: str) -> Iterator[None]:
    before = {key: spark.conf.get(key) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.set(key, old or "")


def goes_on(changed: Changed, plans: list[Plan]) -> None:
    """Run one plan after the other over one stream; every row must be in its window, counted once."""
    *files, last = (range(number * 25, (number + 1) * 25) for number in range(len(plans)))
    for plan, seconds in zip(plans, files, strict=False):
        changed.run(plan, seconds)
    changed.run(plans[-1], last, range(600, 601), range(601, 602), range(602, 603))
    expected = dict.fromkeys(range(10, len(plans) * 25 // 10 * 10 + 1, 10), 10)
    seen = {key: count for key, count in changed.counts.items() if key in expected}
    assert seen == expected


WITHOUT_A_CEILING = [
    Plan(PLAIN),
    Plan(TAPPED),
    Plan(TAPPED, "OnRestart", "12 seconds"),
    Plan(PLAIN),
]
WITH_A_CEILING = [
    Plan(CEILED, "Off"),
    Plan(CEILED, "Live"),
    Plan(CEILED, "Restart", "12 seconds"),
    Plan(CEILED, "Live"),
    Plan(CEILED, "OnRestart"),
]
REJECTED = {
    (PLAIN, CEILED): (Plan(PLAIN), Plan(CEILED, "Live")),
    (TAPPED, CEILED): (Plan(TAPPED), Plan(CEILED, "Live")),
    (CEILED, TAPPED): (Plan(CEILED, "Live"), Plan(TAPPED)),
    (CEILED, PLAIN): (Plan(CEILED, "Live"), Plan(PLAIN)),
}


def _cells_of(plans: list[Plan]) -> set[tuple[str, str]]:
    """Return the cells of the table that a sequence of plans goes through."""
    return {(before.kind, after.kind) for before, after in pairwise(plans)}


def _row(cell: tuple[str, str]) -> ModeChange:
    return next(row for row in MODE_CHANGES if (row.before, row.after) == cell)


@pytest.mark.parametrize("plans", [WITHOUT_A_CEILING, WITH_A_CEILING], ids=[TAPPED, CEILED])
def test_a_change_that_the_table_allows_goes_on_with_every_row_counted_once(
    spark: SparkSession, tmp_path: Path, plans: list[Plan]
) -> None:
    goes_on(Changed(spark, tmp_path), plans)


@pytest.mark.parametrize("before", [PLAIN, TAPPED, CEILED])
def test_a_change_that_needs_a_new_checkpoint_is_rejected_with_its_row_of_the_table(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, before: str
) -> None:
    cells = [cell for cell in REJECTED if cell[0] == before]
    (plan,) = {REJECTED[cell][0] for cell in cells}
    changed, end_s = Changed(spark, tmp_path), 25
    changed.run(plan, range(end_s))
    for cell in cells:
        caplog.clear()
        with caplog.at_level(logging.ERROR, "tidemark.spark"), pytest.raises(StreamingQueryException):
            changed.run(REJECTED[cell][1], range(end_s, end_s + 25))
        end_s += 25
        if cell[1] != PLAIN:  # of a plan without Tidemark nobody is there to explain
            assert _row(cell).note in caplog.text
            assert "new checkpoint" in caplog.text
    # Nothing of the checkpoint was harmed. Live moves in the second batch after the one whose rows it was made of.
    changed.run(plan, range(end_s, end_s + 25), range(600, 602), range(602, 604), range(604, 606))
    expected = dict.fromkeys(range(10, end_s + 25, 10), 10)
    assert {key: changed.counts.get(key) for key in expected} == expected


def test_every_row_of_the_table_is_tested() -> None:
    cells = {"works": _cells_of(WITHOUT_A_CEILING) | _cells_of(WITH_A_CEILING), "new checkpoint": {*REJECTED}}

    for verdict, tested in cells.items():
        assert tested == {(row.before, row.after) for row in MODE_CHANGES if row.verdict == verdict}


def test_a_checkpoint_begun_in_the_second_format_takes_a_ceiling_and_gives_it_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Every change that another checkpoint rejects."""
    plans = [Plan(PLAIN), Plan(CEILED, "Live"), Plan(TAPPED), Plan(CEILED, "Off"), Plan(PLAIN)]
    assert _cells_of(plans) == {*REJECTED}
    changed = Changed(spark, tmp_path)
    with conf(spark, **{FORMAT: "2"}):
        changed.run(plans[0], range(0))
    goes_on(changed, plans)


def test_a_checkpoint_of_two_inputs_in_the_second_format_is_rejected_before_an_offset_is_taken_for_another_source_s(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark finds sources by their place in the plan, and between the inputs there is a control stream now."""
    inputs = [
        Input(name=name, operator=row_level(), bound="3 seconds", ceiling="1 hour")
        for name in ("left", "right")
    ]
    row = [[Row(0, 0, EPOCH_US)]]
    plain, live = (LiveJob(spark, tmp_path, inputs, join("inner"), native=native) for native in (True, False))
    with conf(spark, **{FORMAT: "2"}):
        work_off(plain, lambda: [plain.start()], [[row, row]])

    with pytest.raises(StreamingQueryException, match="another source"):
        work_off(live, lambda: [live.start()], [[row, row]])
