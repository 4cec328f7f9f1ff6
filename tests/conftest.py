"""Fixtures that more than one folder uses."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidemark.spark_jobs.kafka.broker import KafkaBroker


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Return one real Spark session for the whole run, small enough for two cores."""
    from pyspark.sql import SparkSession

    from tidemark.spark_jobs.java import ensure_java
    from tidemark.spark_jobs.local_disk import LOCAL_DISK

    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    folder = tmp_path_factory.mktemp("spark")
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("tidemark-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.memory", "2g")
        .config("spark.tidemark.cache.dir", str(folder / "bounds"))
        .config(map=LOCAL_DISK)
    )
    # A JVM that runs takes no more jars, so they are there from the start when a test of this run will want them.
    if any("kafka_spark" in getattr(item, "fixturenames", ()) for item in request.session.items):
        from tidemark.spark_jobs.kafka.jars import JarsNotFound, with_kafka

        with contextlib.suppress(JarsNotFound):
            builder = with_kafka(builder)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """Return a running Kafka broker. It is skipped where Maven or Java cannot be had, but never in CI."""
    from support.kafka import running_kafka

    with running_kafka() as broker:
        yield broker


@pytest.fixture(scope="session")
def kafka_spark(spark: SparkSession) -> SparkSession:
    """Return the session, with Spark's Kafka connector. It is skipped where Maven cannot be had, but never in CI."""
    from tidemark.spark_jobs.kafka.jars import connector_jars

    from support.kafka import or_skip

    or_skip(connector_jars)
    return spark
