"""The check of a query's joins at its start, for queries with ``adaptive_watermark`` in them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from tidemark.models.base.operators import row_level
from tidemark.spark_jobs import adaptive_watermark, flush

from support.patience import PATIENCE_S, until
from support.spark_streams import EPOCH_US, SCHEMA, RecordingSink, Row, write_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

NEAR = "lk = rk and rts >= lts - interval 4 seconds and rts <= lts + interval 6 seconds"


def joined(spark: SparkSession, folder: Path, how: str, condition: str = NEAR) -> DataFrame:
    """Return a join in which only the right input has a watermark, an adaptive one."""
    sides = []
    for name in "lr":
        write_batch(folder / name, 0, [Row(1, 0, EPOCH_US)])
        rows = spark.readStream.schema(SCHEMA).json(str(folder / name))
        sides.append(rows.selectExpr(f"id as {name}k", f"ts as {name}ts"))
    adaptive = adaptive_watermark("rts", "10 seconds", row_level(), stream="right", sink=RecordingSink())
    return sides[0].join(sides[1].transform(adaptive), F.expr(condition), how)


def test_a_query_whose_outer_rows_would_never_come_is_stopped_with_what_to_write(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    df = joined(spark, tmp_path, "leftOuter")
    with caplog.at_level(logging.WARNING, "tidemark.spark"):
        query = (
            df.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        )
        until(lambda: not query.isActive, "the end of the query")

    assert "the left rows without a partner never come" in str(query.exception())
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    (error,) = [text for text in errors if text.startswith(f"query {query.id} ")]
    assert error.startswith(
        f"query {query.id} is stopped before its first batch: join 1, left: the left rows without a partner never come"
    )
    assert error.endswith('instead: call withWatermark("<event time>", "<delay>") on the left input')


def test_what_spark_never_forgets_is_said_as_the_query_starts_and_acknowledged(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_batch(tmp_path / "in", 0, [Row(1, 0, EPOCH_US)])
    sink = RecordingSink()
    rows = spark.readStream.schema(SCHEMA).json(str(tmp_path / "in"))
    df = rows.transform(adaptive_watermark("ts", "10 seconds", stream="in", sink=sink)).dropDuplicates(["id"])
    with caplog.at_level(logging.WARNING, "tidemark.spark"):
        query = df.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
    assert flush(PATIENCE_S)

    said = "Spark never forgets a key of dropDuplicates(id)"
    assert f"{said}, none of which is an event time" in caplog.text
    assert "write dropDuplicatesWithinWatermark" in caplog.text
    (downstream,) = {acknowledged.downstream for acknowledged in sink.acknowledgements}
    assert downstream is not None
    assert downstream.state_grows
    assert (downstream.state_unforeseen or "").startswith(said)
    assert downstream.known_ms(10_000) is None, "it is known for ever"


def test_a_query_whose_state_only_grows_is_warned_of_and_runs(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    df = joined(spark, tmp_path, "inner", "lk = rk")
    with caplog.at_level(logging.WARNING, "tidemark.spark"):
        query = (
            df.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        )
        try:
            query.processAllAvailable()
        finally:
            query.stop()
    warnings = [record.getMessage() for record in caplog.records if "never evicted" in record.getMessage()]

    assert query.exception() is None
    assert [text.split(": ")[1] for text in warnings] == ["join 1, left", "join 1, right"]
