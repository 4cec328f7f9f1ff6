"""``tidemark inspect`` on the checkpoints of queries that nobody watches."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tidemark.spark_jobs.plans.checkpoint_contents import Contents, read_contents
from tidemark.spark_jobs.spark.checkpoint import CheckpointError, LogFormatError
from tidemark.spark_jobs.spark.jvm import is_since

from support.command_line import exit_code
from support.spark_streams import EPOCH_US, SCHEMA, Row, write_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not is_since(4, 0), reason="Spark reads state from 4.0 on"),
]

S = 1_000_000
"""A second in microseconds."""
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def source(spark: SparkSession, folder: Path, delay: str = "10 seconds") -> DataFrame:
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))
    return files.withWatermark("ts", delay)


def run(df: DataFrame, checkpoint: Path) -> dict[str, Any]:
    """Run a query over all that there is, and return the progress of its last batch."""
    writer = df.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    progress = query.lastProgress
    assert progress is not None
    return json.loads(progress.json)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two batches: event times 0 to 28 s, then 30 s to 58 s; a row every two seconds, of partitions 0 and 1 in turn."""
    folder = tmp_path_factory.mktemp("rows")
    for number, first in enumerate((0, 30)):
        made = [Row(first + i, i % 2, EPOCH_US + (first + 2 * i) * S) for i in range(15)]
        write_batch(folder, number, made)
    return folder


@pytest.fixture(scope="module")
def tumbling(spark: SparkSession, rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint of a windowed count by partition: its watermark is at 48 s."""
    checkpoint = tmp_path_factory.mktemp("tumbling")
    run(source(spark, rows).groupBy(windowed("20 seconds"), "partition").count(), checkpoint)
    return checkpoint


def windowed(size: str, slide: str | None = None) -> Any:
    from pyspark.sql import functions as F

    return F.window("ts", size, slide)


def files_of(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def shown_windows(contents: Contents) -> list[tuple[float, float, int]]:
    """Return start and end in seconds, and rows."""
    return [
        ((each.start_us - EPOCH_US) / S, (each.end_us - EPOCH_US) / S, each.rows) for each in contents.windows
    ]


def test_open_windows_watermarks_and_sources_are_those_of_the_query_and_nothing_is_written(
    spark: SparkSession, tumbling: Path
) -> None:
    before = files_of(tumbling)
    contents = read_contents(spark, str(tumbling), 20)

    assert files_of(tumbling) == before
    assert shown_windows(contents) == [(40, 60, 2)]
    (part,) = contents.state
    assert (part.name, part.rows, part.windows, part.event_time) == ("stateStoreSave", 2, 1, "window")
    assert part.first_bound_ms == 10_000
    assert contents.watermark_ms == EPOCH_US // 1_000 + 48_000
    assert contents.committed_batch == contents.batches[0].batch
    moves = [(each.watermark_ms, each.moved_ms) for each in reversed(contents.batches)]
    assert moves[0] == (0, None)
    assert sum(moved or 0 for _, moved in moves) == 30_000
    assert [(each.source, each.offset) for each in contents.sources] == [("0", {"logOffset": 1})]


def test_only_so_many_windows_are_listed_and_all_are_counted(
    spark: SparkSession, rows: Path, tmp_path: Path
) -> None:
    progress = run(source(spark, rows).groupBy(windowed("4 seconds", "2 seconds")).count(), tmp_path)
    contents = read_contents(spark, str(tmp_path), 3)

    (part,) = contents.state
    assert part.rows == part.windows == progress["stateOperators"][0]["numRowsTotal"]
    assert shown_windows(contents) == [(46, 50, 1), (48, 52, 1), (50, 54, 1)]
    assert part.newest_us == EPOCH_US + 62 * S


def test_a_session_is_a_window(spark: SparkSession, rows: Path, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    late = source(spark, rows).filter("second(ts) >= 50 or second(ts) % 20 = 0")
    run(late.groupBy(F.session_window("ts", "5 seconds"), "partition").count(), tmp_path)

    assert shown_windows(read_contents(spark, str(tmp_path), 20)) == [(52, 61, 1), (50, 63, 1)]


@pytest.mark.parametrize(
    ("keys", "event_time", "edges"),
    [(["id", "ts"], "ts", (50, 58)), (["id"], None, None)],
    ids=["with the event time", "without"],
)
def test_rows_of_a_deduplication_go_by_their_event_time_if_it_is_a_key(
    spark: SparkSession,
    rows: Path,
    tmp_path: Path,
    keys: list[str],
    event_time: str | None,
    edges: tuple[int, int] | None,
) -> None:
    progress = run(source(spark, rows).dropDuplicates(keys), tmp_path)
    (part,) = read_contents(spark, str(tmp_path), 20).state

    assert (part.event_time, part.windows) == (event_time, None)
    assert part.rows == progress["stateOperators"][0]["numRowsTotal"]
    found = None if part.oldest_us is None else (part.oldest_us, part.newest_us)
    assert found == (None if edges is None else tuple(EPOCH_US + each * S for each in edges))


def test_each_side_of_a_join_has_its_rows_and_its_bound(
    spark: SparkSession, rows: Path, tmp_path: Path
) -> None:
    from pyspark.sql import functions as F

    right = source(spark, rows, "30 seconds").selectExpr("id as rid", "ts as rts")
    near = F.expr("id = rid and rts between ts - interval 5 seconds and ts + interval 5 seconds")
    progress = run(source(spark, rows).join(right, near), tmp_path)
    left, right_side = read_contents(spark, str(tmp_path), 20).state

    assert (left.part, left.event_time, left.first_bound_ms) == ("left", "ts", 10_000)
    assert (right_side.part, right_side.event_time, right_side.first_bound_ms) == ("right", "rts", 30_000)
    assert (left.rows or 0) + (right_side.rows or 0) == progress["stateOperators"][0]["numRowsTotal"]


def test_state_in_rocksdb_is_read_while_the_query_runs(
    spark: SparkSession, rows: Path, tmp_path: Path
) -> None:
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    try:
        writer = source(spark, rows).dropDuplicatesWithinWatermark(["id"]).writeStream.format("noop")
        query = writer.option("checkpointLocation", str(tmp_path)).start()
        try:
            query.processAllAvailable()
            contents = read_contents(spark, str(tmp_path), 20)
            assert query.isActive
        finally:
            query.stop()
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.providerClass")

    (part,) = contents.state
    assert (part.name, part.event_time, part.rows) == ("dedupeWithinWatermark", "expiresAtMicros", 10)
    assert contents.state_store == ROCKSDB


def test_a_table_for_people_says_when_each_window_closes(
    tumbling: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("inspect", given=[str(tumbling)]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert any(
        line.startswith("2026-01-01 00:00:40.000 UTC") and line.split()[-3:] == ["2", "12", "s"]
        for line in lines
    )
    assert "state         2 rows in HDFSBackedStateStoreProvider" in lines


def test_a_session_of_its_own_reads_state_before_it_has_run_a_query(tumbling: Path) -> None:
    command = [sys.executable, "-m", "tidemark.controller", "inspect", str(tumbling), "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
    document = json.loads(ended.stdout)
    assert [each["rows"] for each in document["state"]] == [2]


def test_state_that_is_damaged_is_named_and_the_rest_is_shown(
    tumbling: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(tumbling, broken)
    for path in (broken / "state/0/0").glob("*.delta"):
        path.unlink()

    assert exit_code("inspect", given=[str(broken), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert "broken/state/0/0/1.delta" in document["state"][0]["unread"]
    assert len(document["batches"]) > 1
    assert exit_code("inspect", given=[str(broken)]) == 1
    assert "restore the folder from a backup" in capsys.readouterr().out


def test_a_folder_that_is_no_checkpoint_and_a_damaged_log_are_refused_by_name(
    spark: SparkSession, tumbling: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CheckpointError, match=r"no file named metadata; give the folder that"):
        read_contents(spark, str(tmp_path / "nothing"), 20)
    for number, (name, text, error) in enumerate(
        [
            ("metadata", "{", CheckpointError),
            ("offsets/1", "v1\n{", LogFormatError),
            ("commits/{last}", "v1\nrubbish", LogFormatError),
        ]
    ):
        copy = tmp_path / str(number)
        shutil.copytree(tumbling, copy, ignore=shutil.ignore_patterns("*.crc"))
        last = max(int(path.name) for path in (copy / "commits").iterdir())
        damaged = name.format(last=last)
        (copy / damaged).write_text(text)
        with pytest.raises(error, match=f"{number}/{damaged}"):
            read_contents(spark, str(copy), 20)
    assert exit_code("inspect", given=[str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
