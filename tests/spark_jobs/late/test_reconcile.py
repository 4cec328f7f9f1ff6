"""``tidemark reconcile``: finished windows with their late rows are the windows of the whole input."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.models.base.operators import TimeWindow, session, sliding, tumbling
from tidemark.spark_jobs import adaptive_watermark, flush, side
from tidemark.spark_jobs.late.reconcile import reconciled

from support.command_line import exit_code
from support.late_streams import CLOSING_ID, parse_rows
from support.patience import PATIENCE_S
from support.soak import with_soak
from support.spark_streams import EPOCH_US, SCHEMA, RecordingSink, Row, random_batches, write_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FIVE_S = tumbling("5 seconds")
COMBINE = ("--combine", "rows=sum", "--combine", "first=min", "--combine", "last=max")


def windows(rows: DataFrame) -> DataFrame:
    """Return what the job's query emits, as a user's function makes it."""
    counts = rows.groupBy("window", "partition").agg(
        F.count("*").alias("rows"), F.min("id").alias("first"), F.max("id").alias("last")
    )
    return counts.select(F.unix_micros("window.end").alias("end_us"), "partition", "rows", "first", "last")


def _in_windows(rows: DataFrame, operator: TimeWindow) -> DataFrame:
    edges = F.window("ts", f"{operator.size_us} microseconds", f"{operator.slide_us} microseconds")
    return windows(rows.withColumn("window", edges))


@pytest.mark.parametrize(
    "operator", with_soak([sliding("10 seconds", "5 seconds"), FIVE_S], [FIVE_S]), ids=str
)
def test_reconciled_windows_are_those_of_the_whole_input_however_often_it_is_run(
    spark: SparkSession, tmp_path: Path, operator: TimeWindow, capsys: pytest.CaptureFixture[str]
) -> None:
    batches = random_batches(5, 6)
    # A window that the query never emitted: all of its rows are late.
    batches[4].append(Row(10**6, 9, EPOCH_US))
    for number, rows in enumerate([*batches, [Row(CLOSING_ID, 0, EPOCH_US + 7_200_000_000)]]):
        write_batch(tmp_path / "in", number, rows)
    _count(spark, tmp_path, operator)
    given = [
        *(str(tmp_path / "side"), "--windows", str(tmp_path / "out"), "--operator", _text(operator)),
        *("--aggregate", f"{__name__}:windows", *COMBINE, "--into", str(tmp_path / "reconciled")),
    ]
    assert exit_code("reconcile", given=given) == 0
    (folder,) = (tmp_path / "reconciled").glob("to_batch=*")
    finished = _values(spark, tmp_path / "out")
    changed = _values(spark, folder)
    source = spark.read.schema(SCHEMA).json(str(tmp_path / "in"))
    truth = {
        tuple(row)[:2]: tuple(row)[2:]
        for row in _in_windows(source.filter(f"id < {CLOSING_ID}"), operator).collect()
    }

    assert {**finished, **changed} == truth
    assert changed.keys() - finished.keys(), "a window of late rows alone is there too"
    assert all(finished.get(key) != value for key, value in changed.items())
    for name, text in (("_not_kept/0-1", '{"first": 0, "last": 1, "reason": "off"}'), ("_off/9", "")):
        (tmp_path / "side" / name).parent.mkdir()
        (tmp_path / "side" / name).write_text(text)
    assert exit_code("reconcile", given=given) == 0
    printed = capsys.readouterr().out
    assert "nothing is new" in printed
    assert "batches 0 to 1 were not kept" in printed
    assert "late rows are not kept after batch" in printed
    assert _values(spark, folder) == changed


def test_what_cannot_be_reconciled_is_refused_with_the_way_out(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(tmp_path), "--windows", str(tmp_path), "--into", str(tmp_path / "into")]
    given += ["--operator", 'tumbling("5 seconds")', "--aggregate", f"{__name__}:windows"]
    assert exit_code("reconcile", given=[*given, *COMBINE]) == 2
    assert "is it the folder of side(...)?" in capsys.readouterr().err

    rows = spark.createDataFrame([], "id long, partition int, late struct<key: timestamp, reason: string>")
    finished = spark.createDataFrame([], "end_us long, partition int, rows long, first long, last long")
    how = {"rows": "sum", "first": "min", "last": "max"}
    with pytest.raises(ValueError, match="only tumbling and sliding"):
        reconciled(finished, rows, session("5 seconds"), windows, how)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="rows is combined by 'avg'; it must be sum, min, max"):
        reconciled(finished, rows, FIVE_S, windows, {"rows": "avg"})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="the finished windows have no column last"):
        reconciled(finished.drop("last"), rows, FIVE_S, windows, how)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="aggregate makes no column row;"):
        reconciled(finished, rows, FIVE_S, windows, {"row": "sum"})


def _count(spark: SparkSession, folder: Path, operator: TimeWindow) -> None:
    """Count the windows of all batches into a Parquet sink, and keep the late rows."""
    rows = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
    late = side(str(folder / "side"), parse=parse_rows)
    tapped = rows.transform(parse_rows).transform(
        adaptive_watermark("ts", "1 second", operator, stream="test", sink=RecordingSink(), late=late)
    )
    query = (
        _in_windows(tapped, operator)
        .writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    query.awaitTermination()
    assert flush(PATIENCE_S), "the late rows were not all kept"


def _text(operator: TimeWindow) -> str:
    return 'tumbling("5 seconds")' if operator.max_keys == 1 else 'sliding("10 seconds", "5 seconds")'


def _values(spark: SparkSession, folder: Path) -> dict[tuple[int, int], tuple[int, ...]]:
    return {tuple(row)[:2]: tuple(row)[2:] for row in spark.read.parquet(str(folder)).collect()}
