"""A job on Kafka that keeps its late rows, run as a program so that it can be killed; its argument is JSON.

With ``die_in`` it kills itself and its JVM in that batch of its run, after the offsets were logged and before the
commit. It writes what it emits below ``folder``, batch by batch, each whole.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from itertools import count
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs import adaptive_watermark, flush, side
from tidemark.spark_jobs.core.bound import write_whole
from tidemark.spark_jobs.demo.kafka_jars import with_kafka

from support.patience import PATIENCE_S
from support.spark_streams import driver_of_its_own, started


def parse(raw: DataFrame) -> DataFrame:
    """Make rows of messages, each with its place."""
    value = F.from_json(F.col("value").cast("string"), "id long, ts long")
    time = F.timestamp_micros(value["ts"]).alias("ts")
    return raw.select(value["id"].alias("id"), time, "topic", "partition", "offset")


def main() -> None:
    """Run until all is read, or until the batch to die in."""
    given = json.loads(sys.argv[1])
    folder, die_in, batches = Path(given["folder"]), given["die_in"], count(1)
    spark = with_kafka(driver_of_its_own()).getOrCreate()
    raw = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", given["servers"])
        .option("subscribe", given["topic"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 40)
        .load()
    )
    rows = raw.transform(parse).transform(
        adaptive_watermark(
            "ts",
            given["bound"],
            tumbling("5 seconds"),
            stream="in",
            ceiling=given["ceiling"],
            mode="Live" if given["ceiling"] else "Off",
            arrival_time=None,
            controller_url=given["controller"],
            late=side(str(folder / "late"), parse=parse),
        )
    )

    def collect(df: DataFrame, batch: int) -> None:
        out = [[row["key"], identity] for row in df.collect() for identity in row["ids"]]
        write_whole(folder / "out" / f"{batch}.json", json.dumps(out))
        if next(batches) == die_in:
            os.killpg(0, signal.SIGKILL)

    writer = (
        rows.groupBy(F.window("ts", "5 seconds"))
        .agg(F.collect_list("id").alias("ids"))
        .select(F.unix_micros("window.end").alias("key"), "ids")
        .writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="100 milliseconds")
    )
    query = started(writer.start)
    query.processAllAvailable()
    if die_in is not None:
        os.killpg(0, signal.SIGKILL)
    query.stop()
    assert flush(PATIENCE_S)


if __name__ == "__main__":
    main()
