"""What a query reads and writes: as the plan of a running one has it, and as options name it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidemark.models.base.operators import tumbling
from tidemark.models.protocol.datasets import Datasets
from tidemark.spark_jobs import adaptive_watermark
from tidemark.spark_jobs.spark.datasets import _addresses

from support.patience import until
from support.spark_streams import RecordingSink, aggregate

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

BROKERS = {"kafka.bootstrap.servers": "SSL://one:9093,two:9093"}


@pytest.mark.parametrize(
    ("options", "addresses"),
    [
        (BROKERS | {"subscribe": "clicks, taps"}, ["kafka://one:9093/clicks", "kafka://one:9093/taps"]),
        (BROKERS | {"assign": '{"clicks":[0,1]}'}, ["kafka://one:9093/clicks"]),
        (BROKERS | {"topic": "out"}, ["kafka://one:9093/out"]),
        (BROKERS | {"subscribepattern": "clicks.*"}, []),
        (BROKERS | {"topic": "t" * 1_000}, []),
        ({"path": "s3a://key:secret@lake/clicks"}, ["s3a://lake/clicks"]),
        (
            {"path": "abfss://box@account.dfs.core.windows.net/a"},
            ["abfss://box@account.dfs.core.windows.net/a"],
        ),
        ({"rowspersecond": "5"}, []),
    ],
)
def test_topics_are_named_with_the_first_broker_and_folders_without_a_password(
    options: dict[str, str], addresses: list[str]
) -> None:
    assert _addresses(None, (options, None)) == addresses


def acknowledged(rows: DataFrame, folder: Path, write: Callable[[DataFrame], DataStreamWriter]) -> Datasets:
    """Run a query over all rows; return what it acknowledged that it reads and writes."""
    sink = RecordingSink()
    stream = rows.transform(adaptive_watermark("ts", "1 second", tumbling("5 seconds"), sink=sink))
    query = write(aggregate(stream, tumbling("5 seconds")))
    query = query.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True)
    query.start().awaitTermination()
    until(lambda: sink.acknowledgements, "an acknowledgement")
    return sink.acknowledgements[-1].datasets


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """Return a stream of files."""
    folder = str(tmp_path / "in")
    spark.sql("select timestamp'2026-01-01 00:00:01' as ts, 1L as id").write.parquet(folder)
    return spark.readStream.schema("ts timestamp, id long").parquet(folder)


@pytest.mark.spark
@pytest.mark.slow
def test_folders_are_named_with_their_file_system(rows: DataFrame, tmp_path: Path) -> None:
    def to_files(df: DataFrame) -> Any:
        return df.writeStream.format("parquet").option("path", str(tmp_path / "out"))

    assert acknowledged(rows, tmp_path, to_files) == Datasets(
        inputs=(f"file:{tmp_path}/in",), output=f"file:{tmp_path}/out"
    )


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["foreachBatch", "noop"])
def test_what_spark_does_not_know_is_not_named(rows: DataFrame, tmp_path: Path, kind: str) -> None:
    def write(df: DataFrame) -> Any:
        return df.writeStream.format("noop") if kind == "noop" else df.writeStream.foreachBatch(_count)

    assert acknowledged(rows.union(rows), tmp_path, write) == Datasets(inputs=(f"file:{tmp_path}/in",))


def _count(df: DataFrame, _: int) -> None:
    df.count()
