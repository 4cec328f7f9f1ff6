"""A job that knows nothing of Tidemark; it does what a file says, a line each, and says when that is done.

``PLAIN_JOB_INPUT`` names the file: ``spark-submit`` gives a job in Python no stdin.

``PlainJob.java`` and ``plain_job.scala`` do the same. With ``SPARK_REMOTE`` it is a client of Spark Connect.
``--with-the-line`` is the job after somebody edited it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

__all__ = ["result"]


class PlainJob:
    """The job's session and the queries that it has started."""

    def __init__(self, *, edited: bool) -> None:
        self.spark = SparkSession.builder.getOrCreate()
        self.queries: list[Any] = []
        self._edited = edited

    def act(self, word: str, *words: str) -> None:
        """Do what a line says."""
        if word == "conf":
            self.spark.conf.set(*words)
        elif word == "session":
            self.spark = self.spark.newSession()
        elif word == "run":
            self._written(words).trigger(availableNow=True).start().awaitTermination()
        elif word == "start":
            self.queries.append(self._written(words).start())
        elif word == "process":
            for query in self.queries:
                query.processAllAvailable()
        elif word == "stop":
            while self.queries:
                self.queries.pop().stop()
        else:
            raise ValueError(word)

    def _written(self, words: Sequence[str]) -> Any:
        name, kind, folder, out, checkpoint = words
        with_watermark = edited if self._edited else plain
        writer = (
            result(self.spark, kind, folder, with_watermark).writeStream.format("json").outputMode("append")
        )
        writer = writer.option("path", out).option("checkpointLocation", checkpoint)
        return writer if name == "-" else writer.queryName(name)


def plain(rows: DataFrame, column: str) -> DataFrame:
    """Return the rows with a watermark, as the job was written."""
    return rows.withWatermark(column, "10 seconds")


def edited(rows: DataFrame, column: str) -> DataFrame:
    """Return the same after somebody edited the job."""
    from tidemark.spark_jobs import adaptive_watermark

    conf = rows.sparkSession.conf.get
    mode: Any = conf("spark.tidemark.mode", "Off")
    ceiling = conf("spark.tidemark.ceiling", None)
    return rows.transform(adaptive_watermark(column, "10 seconds", stream=column, mode=mode, ceiling=ceiling))


def result(
    spark: SparkSession,
    kind: str,
    folder: str,
    with_watermark: Callable[[DataFrame, str], DataFrame] = plain,
) -> DataFrame:
    """Return what a kind of query puts out."""

    def rows(name: str) -> DataFrame:
        reader = spark.readStream.schema("ts timestamp, user string, id long")
        return reader.option("maxFilesPerTrigger", 1).json(f"{folder}/{name}")

    if kind == "sql":
        rows("clicks").createOrReplaceTempView("clicks")
        return spark.sql(
            "SELECT window.start, count(*) AS count FROM STREAM clicks WATERMARK ts DELAY OF INTERVAL 10 SECONDS "
            "GROUP BY window(ts, '10 seconds')"
        )
    clicks = with_watermark(rows("clicks"), "ts")
    if kind == "tumbling":
        return clicks.groupBy(F.window("ts", "10 seconds")).count().select("window.start", "count")
    if kind == "session":
        counts = clicks.groupBy(F.session_window("ts", "5 seconds"), "user").count()
        return counts.select("session_window.start", "user", "count")
    if kind == "deduplication":
        return clicks.dropDuplicates(["id", "ts"]).select("id")
    views = with_watermark(rows("views").toDF("seen", "who", "view"), "seen")
    near = "id = view AND ts BETWEEN seen - INTERVAL 1 HOUR AND seen + INTERVAL 1 HOUR"
    return clicks.join(views, F.expr(near)).select("id")


def main() -> None:
    """Do what the file says."""
    job = PlainJob(edited="--with-the-line" in sys.argv)
    with Path(os.environ["PLAIN_JOB_INPUT"]).open(encoding="utf-8") as orders:
        for line in orders:
            began = time.monotonic()
            try:
                job.act(*line.split())
                said = "ok"
            except Exception as error:  # noqa: BLE001 - whoever asked is told
                said = "failed " + str(error).replace("\n", " ")
            print(f"> {said} {time.monotonic() - began}", flush=True)
    if "--with-the-line" in sys.argv:
        from tidemark.spark_jobs import flush

        flush()


if __name__ == "__main__":
    main()
