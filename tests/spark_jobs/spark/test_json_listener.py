"""Progress as Spark's JSON, against what PySpark's own listener makes of the same batches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs.live.backlog import backlog_of
from tidemark.spark_jobs.spark.progress import JsonListener, watermark_ms_of

from support.patience import until
from support.spark_streams import Job, random_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


class _Keeps(StreamingQueryListener):
    def __init__(self) -> None:
        self.progresses: dict[int, StreamingQueryProgress] = {}
        self.ended: list[str] = []

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self.progresses[event.progress.batchId] = event.progress

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self.ended.append(str(event.runId))


class _KeepsJson(_Keeps, JsonListener):
    unwanted = frozenset({2})

    def wants(self, run_id: str, batch_id: int) -> bool:
        assert run_id
        return batch_id not in self.unwanted


def test_it_passes_on_what_pyspark_does_for_each_batch_that_is_wanted(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The report is made of this; PySpark's own way costs some hundred times as much."""
    own, quick = _Keeps(), _KeepsJson()
    for listener in (own, quick):
        spark.streams.addListener(listener)
    try:
        job = Job(spark, tmp_path, tumbling("5 seconds"), "update")
        job.run("1 second", [random_batches(1, 4)])
        until(lambda: own.ended and quick.ended, "the end of the query, as each listener sees it")
    finally:
        for listener in (own, quick):
            spark.streams.removeListener(listener)

    assert quick.ended == own.ended
    assert len(own.progresses) >= 4
    assert quick.progresses.keys() == own.progresses.keys() - quick.unwanted
    for batch, body in quick.progresses.items():
        assert _read(body) == _read(own.progresses[batch])


def _read(progress: StreamingQueryProgress) -> dict[str, Any]:
    """Return all that Tidemark reads of a progress."""
    return {
        "ids": (progress.id, progress.runId, progress.batchId),
        "times": (progress.timestamp, progress.durationMs, progress.batchDuration),
        "watermark": watermark_ms_of(progress),
        "observed": {name: row[0] for name, row in progress.observedMetrics.items()},
        "states": [
            (state.numRowsTotal, state.memoryUsedBytes, state.numRowsDroppedByWatermark)
            for state in progress.stateOperators
        ],
        "backlog": backlog_of(progress),
    }
