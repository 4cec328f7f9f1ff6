"""A Declarative Pipeline that knows nothing of Tidemark: a streaming table of a kind of query of ``plain_job``."""

from __future__ import annotations

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from support.plain_job import result

__all__ = ["counts"]

spark = SparkSession.active()


def _conf(key: str) -> str:
    found = spark.conf.get(key)
    assert found is not None
    return found


@dp.table(name=_conf("spark.plain.table"))
def counts() -> DataFrame:
    """Return the table's rows."""
    return result(spark, _conf("spark.plain.kind"), _conf("spark.plain.rows"))
