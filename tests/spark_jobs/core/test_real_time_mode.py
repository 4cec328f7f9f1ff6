"""Real-time mode, where Spark has it for stateful operators: Off is as exact in it as elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.models.base.operators import Operator, row_level, tumbling
from tidemark.spark_jobs import adaptive_watermark, flush
from tidemark.spark_jobs.late.revise import revise
from tidemark.spark_jobs.spark.jvm import is_since

from support.oracles import Ledger
from support.patience import PATIENCE_S, until
from support.spark_streams import RecordingSink, Row, random_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.versions,
    pytest.mark.skipif(
        not is_since(4, 3), reason="no stateful operator runs in real-time mode before Spark 4.3"
    ),
]

GROUPS = 10
_SHORTEST = "spark.sql.streaming.realTimeMode.minBatchDuration"


class _Source:
    """A source in memory that real-time mode reads. PySpark has none."""

    def __init__(self, spark: SparkSession) -> None:
        self.added = 0
        jvm: Any = spark.sparkContext._jvm
        self._to_seq = jvm.PythonUtils.toSeq
        memory = jvm.org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
        strings = jvm.org.apache.spark.sql.Encoders.STRING()
        # A task for the source and one for the operator run side by side: there are two cores.
        self._stream = memory.apply(spark._jsparkSession, 1, strings)
        texts = DataFrame(self._stream.toDF(), spark)
        row = F.from_json("value", "id long, partition int, us long").alias("row")
        self.rows = texts.select(row).select(
            "row.id", "row.partition", F.timestamp_micros("row.us").alias("ts")
        )

    def add(self, rows: Sequence[Row]) -> None:
        texts = [
            json.dumps({"id": row.id, "partition": row.partition, "us": row.event_time_us}) for row in rows
        ]
        self._stream.addData(self._to_seq(texts))
        self.added += len(texts)


def _windows(tapped: DataFrame) -> DataFrame:
    window = F.window("ts", "5 seconds")
    return tapped.groupBy(window).count().select(F.unix_micros("window.end").alias("key"), "count")


def _distinct(tapped: DataFrame) -> DataFrame:
    return tapped.dropDuplicates(["id", "ts"]).select(F.col("id").alias("key"), F.lit(1).alias("count"))


def _run(
    tapped: DataFrame,
    plan: Callable[[DataFrame], DataFrame],
    folder: Path,
    feed: Callable[[StreamingQuery], None],
) -> None:
    """Run a query in real-time mode from the checkpoint in ``folder``; what it puts out is added to a file."""
    out = str(folder / "out")

    def write(row: Any) -> None:
        with open(out, "a", encoding="utf-8") as file:  # noqa: PTH123 - it runs beside Spark
            file.write(f"{row['key']} {row['count']}\n")

    query = (
        plan(tapped)
        .writeStream.foreach(write)
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(realTime="1 second")  # type: ignore[call-overload]  # not in the stubs of 4.2
        .start()
    )
    try:
        feed(query)
    finally:
        query.stop()
    assert flush(PATIENCE_S), "the listener did not report all batches"
    assert query.exception() is None


@pytest.mark.parametrize(
    ("plan", "operator"),
    [
        pytest.param(_windows, tumbling("5 seconds"), id="windows"),
        pytest.param(_distinct, row_level(), id="distinct", marks=pytest.mark.soak),
    ],
)
def test_in_real_time_mode_the_ledger_equals_the_sink_over_a_restart_with_another_bound(
    spark: SparkSession, tmp_path: Path, plan: Callable[[DataFrame], DataFrame], operator: Operator
) -> None:
    """A closing step that a fleet's conf asks for has no effect in it."""
    source, sink = _Source(spark), RecordingSink()
    groups = random_batches(3, GROUPS)
    spark.conf.set(_SHORTEST, "1s")

    def all_reported() -> bool:
        return sum(report.rows for report in sink.reports) == source.added

    def feed(groups: Sequence[Sequence[Row]], query: StreamingQuery) -> None:
        for rows in groups:
            source.add(rows)
            until(lambda: all_reported() or not query.isActive, "the rows")

    try:
        for bound, mine in (("3 seconds", groups[: GROUPS // 2]), ("6 seconds", groups[GROUPS // 2 :])):
            replacement = adaptive_watermark(
                "ts", bound, operator, granule="1 ms", sink=sink, close_at_end=True
            )
            _run(source.rows.transform(replacement), plan, tmp_path, partial(feed, mine))
    finally:
        spark.conf.unset(_SHORTEST)
    ledger = Ledger()
    for report in sink.reports:
        ledger.add(report)
    total = ledger.completeness()
    emitted: dict[int, int] = {}
    for line in (tmp_path / "out").read_text(encoding="utf-8").splitlines():
        key, count = map(int, line.split())
        emitted[key] = max(count, emitted.get(key, 0))

    assert total.rows == source.added
    assert 0 < total.late_min == total.late_max
    assert total.unjudged_rows == total.missing_batches == 0
    assert sum(emitted.values()) == total.rows - total.late_min
    assert sum(report.dropped_by_spark for report in sink.reports) == total.late_min
    if plan is _windows:
        in_time = {key: tally.rows - tally.late_min for key, tally in ledger.by_key().items()}
        assert emitted == {key: rows for key, rows in in_time.items() if rows}
    assert {report.bound_ms for report in sink.reports} == {3_000, 6_000}


@pytest.mark.parametrize(
    ("given", "instead"),
    [
        ({"ceiling": "1 hour", "mode": "Live"}, "use mode Off"),
        ({"mode": "Restart"}, "use mode OnRestart"),
        ({"late": revise(grace="1 hour")}, "take late= out"),
    ],
    ids=["Live", "Restart", "versions"],
)
def test_what_real_time_mode_cannot_have_is_stopped_with_the_reason(
    spark: SparkSession, tmp_path: Path, given: dict[str, Any], instead: str
) -> None:
    replacement = adaptive_watermark("ts", "3 seconds", tumbling("5 seconds"), sink=RecordingSink(), **given)
    query = (
        _windows(_Source(spark).rows.transform(replacement))
        .writeStream.format("console")
        .outputMode("update")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(realTime="5 seconds")  # type: ignore[call-overload]  # not in the stubs of 4.2
        .start()
    )
    with pytest.raises(StreamingQueryException, match=f"{instead}, or use a processing-time trigger"):
        query.awaitTermination()
