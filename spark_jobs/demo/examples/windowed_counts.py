"""Windowed counts with an adaptive watermark, from JSON files.

    spark-submit --py-files tidemark-pyfiles.zip windowed_counts.py --files clicks \
        --window "10 seconds" --bound "5 seconds" --output counts --checkpoint checkpoint

Two lines differ from a plain job: ``.transform(adaptive_watermark(...))`` in ``counts``, and at the end
``run_and_exit(start)`` in place of ``start().awaitTermination()``, which takes new bounds between two batches where the
stream's mode is ``Restart``. With ``--exit-on-new-bound`` the job ends for a new bound instead, with exit code 75, and
whoever started it starts it again.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.models.base.duration import parse_duration
from tidemark.spark_jobs import adaptive_watermark, run_and_exit, tumbling


def read_files(spark: SparkSession, folder: str) -> DataFrame:
    """Return the stream of JSON files in ``folder``, with ``event_time`` and ``partition``."""
    schema = "event_time timestamp, partition string"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(folder)


def counts(events: DataFrame, window: str, bound: str, stream: str = "events") -> DataFrame:
    """Return the rows of each window: ``end`` and ``rows``."""
    return (
        events.transform(adaptive_watermark("event_time", bound, tumbling(window), stream=stream))
        .groupBy(F.window("event_time", window))
        .agg(F.count("*").alias("rows"))
        .select(F.col("window.end").alias("end"), "rows")
    )


def main(arguments: list[str] | None = None) -> None:
    """Run the job and exit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--files", required=True, help="folder of JSON files with event_time and partition")
    parser.add_argument("--window", default="10 seconds")
    parser.add_argument("--bound", default="10 seconds", help="the job's own bound")
    parser.add_argument("--mode", choices=("append", "update", "complete"), default="append")
    parser.add_argument("--output", help="folder of Parquet files (append only); the console unless given")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--trigger", default="1 second", help="a processing-time trigger, or `available-now`")
    parser.add_argument(
        "--exit-on-new-bound", action="store_true", help="end with code 75 instead of restarting in place"
    )
    parser.add_argument("--cooldown", default="5 minutes", help="minimum time between two restarts")
    chosen = parser.parse_args(arguments)
    if chosen.output and chosen.mode != "append":
        parser.error("Parquet files can only be appended to: --output needs --mode append")

    spark = SparkSession.builder.getOrCreate()

    def start() -> StreamingQuery:
        events = read_files(spark, chosen.files)
        writer = counts(events, chosen.window, chosen.bound).writeStream.outputMode(chosen.mode)
        sink = {"path": chosen.output} if chosen.output else {}
        writer = writer.format("parquet" if chosen.output else "console").options(**sink)
        once = chosen.trigger == "available-now"
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=chosen.trigger)
        return writer.option("checkpointLocation", chosen.checkpoint).start()

    cooldown_s = parse_duration(chosen.cooldown) / 1_000_000
    run_and_exit(start, exit_on_new_bound=chosen.exit_on_new_bound, cooldown_s=cooldown_s)


if __name__ == "__main__":
    main()
