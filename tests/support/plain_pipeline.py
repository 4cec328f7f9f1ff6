"""A Declarative Pipeline that knows nothing of Tidemark: a streaming table for each kind of query of plain_job.py."""

from __future__ import annotations

from typing import Any

from plain_job import result
from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark: Any = SparkSession.active()
folder, name = spark.conf.get("spark.plain.rows"), spark.conf.get("spark.plain.table")


@dp.table(name=name, format="json")
def counts() -> DataFrame:
    return result(spark, spark.conf.get("spark.plain.kind"), folder)
