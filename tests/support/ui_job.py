"""A job whose session has Spark's own UI; it prints the address that it reports of itself, and what stands there."""

from __future__ import annotations

import json
import time
from pathlib import Path
from tempfile import mkdtemp
from urllib.request import urlopen

from pyspark.sql import SparkSession

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs import adaptive_watermark

from support.spark_streams import RecordingSink, aggregate

if __name__ == "__main__":
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "true")
        .config("spark.ui.port", "0")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    recorded = RecordingSink()
    rows = spark.readStream.format("rate").load().withColumnRenamed("timestamp", "ts")
    rows = rows.withColumnRenamed("value", "id")
    tapped = rows.transform(
        adaptive_watermark("ts", "1 second", tumbling("5 seconds"), job="job", sink=recorded)
    )
    folder = Path(mkdtemp())
    query = (
        aggregate(tapped, tumbling("5 seconds"))
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    while not recorded.acknowledgements:
        assert query.isActive, query.exception()
        time.sleep(0.1)
    address = recorded.acknowledgements[0].spark_ui
    assert address is not None
    with urlopen(address) as answer:
        page = answer.read().decode()
    print(
        json.dumps({"address": address, "run_id": str(query.runId), "query_id": str(query.id), "page": page})
    )
    query.stop()
    spark.stop()
