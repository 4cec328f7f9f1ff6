"""Windowed counts with an adaptive watermark, from a Kafka topic of JSON objects into another topic or Parquet files.

    spark-submit --jars "$(python -m tidemark.spark_jobs.demo.kafka_jars)" \
        --py-files tidemark-pyfiles.zip kafka_counts.py \
        --bootstrap-servers localhost:9092 --topic clicks --event-time ts \
        --window "10 seconds" --bound "5 seconds" --ceiling "10 minutes" --output-topic counts --checkpoint checkpoint

Two lines differ from a plain job: ``.transform(adaptive_watermark(...))`` in ``counts``, and at the end
``run_and_exit(start)`` in place of ``start().awaitTermination()``. Rows are counted by Kafka's own partitions, which
the source has as a column. With ``--ceiling`` the stream's mode may be ``Live``: then each partition has a watermark.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from tidemark.spark_jobs import adaptive_watermark, run_and_exit, tumbling

_FROM_NUMBER = {"s": F.timestamp_seconds, "ms": F.timestamp_millis, "us": F.timestamp_micros}


def read_topic(
    spark: SparkSession, options: dict[str, str], event_time: str, unit: str | None = None
) -> DataFrame:
    """Return the stream of a topic, with ``event_time``, ``partition`` and Kafka's ``timestamp``.

    Args:
        spark: the session; it needs Spark's Kafka connector.
        options: those of Spark's Kafka source, such as ``kafka.bootstrap.servers`` and ``subscribe``.
        event_time: field of the JSON object that holds the event time.
        unit: ``s``, ``ms`` or ``us`` for a number since 1970; None for ISO text. What is neither becomes null.
    """
    schema = StructType([StructField(event_time, LongType() if unit else TimestampType())])
    field = F.from_json(F.col("value").cast("string"), schema)[event_time]
    return (
        spark.readStream.format("kafka")
        .options(**options)
        .load()
        .select((_FROM_NUMBER[unit](field) if unit else field).alias("event_time"), "partition", "timestamp")
    )


def counts(
    events: DataFrame, window: str, bound: str, ceiling: str | None = None, stream: str = "events"
) -> DataFrame:
    """Return the rows of each window: ``end`` and ``rows``."""
    adapt = adaptive_watermark("event_time", bound, tumbling(window), ceiling=ceiling, stream=stream)
    return (
        events.transform(adapt)
        .groupBy(F.window("event_time", window))
        .agg(F.count("*").alias("rows"))
        .select(F.col("window.end").alias("end"), "rows")
    )


def main(arguments: list[str] | None = None) -> None:
    """Run the job and exit."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap-servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--starting-offsets", default="earliest", help="where a new checkpoint begins")
    parser.add_argument("--max-offsets", help="rows that a batch takes at most")
    parser.add_argument("--event-time", default="event_time", help="field of the event time")
    parser.add_argument("--unit", choices=tuple(_FROM_NUMBER), help="its unit, if it is a number")
    parser.add_argument("--window", default="10 seconds")
    parser.add_argument("--bound", default="10 seconds", help="the job's own bound")
    parser.add_argument("--ceiling", help="static bound under live control; without it Live is not possible")
    parser.add_argument("--mode", choices=("append", "update"), default="append")
    sink = parser.add_mutually_exclusive_group()
    sink.add_argument("--output-topic", help="topic for the counts, as JSON; the console unless given")
    sink.add_argument("--output", help="folder of Parquet files (append only)")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--trigger", default="1 second", help="a processing-time trigger, or `available-now`")
    chosen = parser.parse_args(arguments)
    if chosen.output and chosen.mode != "append":
        parser.error("Parquet files can only be appended to: --output needs --mode append")

    spark = SparkSession.builder.getOrCreate()
    options = {
        "kafka.bootstrap.servers": chosen.bootstrap_servers,
        "subscribe": chosen.topic,
        "startingOffsets": chosen.starting_offsets,
    }
    if chosen.max_offsets:
        options["maxOffsetsPerTrigger"] = chosen.max_offsets

    def start() -> StreamingQuery:
        events = read_topic(spark, options, chosen.event_time, chosen.unit)
        counted = counts(events, chosen.window, chosen.bound, chosen.ceiling)
        writer = _writer(counted, chosen).outputMode(chosen.mode)
        once = chosen.trigger == "available-now"
        writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=chosen.trigger)
        return writer.option("checkpointLocation", chosen.checkpoint).start()

    run_and_exit(start, exit_on_new_bound=False)


def _writer(counted: DataFrame, chosen: argparse.Namespace) -> DataStreamWriter:
    if chosen.output_topic:
        # The window's end as key: with an update the newest count of a window replaces the older one.
        messages = counted.select(
            F.col("end").cast("string").alias("key"), F.to_json(F.struct("end", "rows")).alias("value")
        )
        return (
            messages.writeStream.format("kafka")
            .option("kafka.bootstrap.servers", chosen.bootstrap_servers)
            .option("topic", chosen.output_topic)
        )
    if chosen.output:
        return counted.writeStream.format("parquet").option("path", chosen.output)
    return counted.writeStream.format("console")


if __name__ == "__main__":
    main()
