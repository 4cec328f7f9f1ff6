"""Windows in versions, on the real engine: first as in append mode under the bound, at last as under bound + grace."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from tidemark.models.base.operators import TimeWindow, sliding
from tidemark.models.evidence.ledger import judge
from tidemark.spark_jobs import adaptive_watermark, flush, revise
from tidemark.spark_jobs.core.bound import ChosenBound
from tidemark.spark_jobs.late.revision import Revision, WindowColumns
from tidemark.spark_jobs.late.versions import VersionLog
from tidemark.spark_jobs.spark.checkpoint import HadoopFiles, parse_entry

from support.bound_server import BoundServer
from support.late_streams import uncommit_last
from support.patience import PATIENCE_S
from support.revised_job import BOUND_S, GRACE_S, OPERATOR, PLACES, bound_s_of, publish, start_revised
from support.spark_streams import EPOCH_US, SCHEMA, RecordingSink, Row, random_batches, write_batch
from support.tree import ROOT
from support.versions import Window, WindowVersion, check_versions, early_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def server(spark: SparkSession) -> Iterator[BoundServer]:
    """Return a controller that the session's jobs ask for a newer bound without a pause."""
    spark.conf.set("spark.tidemark.job", "revised")
    spark.conf.set("spark.tidemark.watch.seconds", "1")
    with BoundServer("revised", "in") as running:
        yield running
    spark.conf.unset("spark.tidemark.watch.seconds")
    spark.conf.unset("spark.tidemark.job")


def rows_by_batch(folder: Path, batches: Sequence[Sequence[Row]]) -> tuple[list[Sequence[Row]], list[int]]:
    """Return the rows and W(n) of each batch that a job ran, no-data batches included, by its checkpoint."""
    paths = sorted((folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    entries = [parse_entry(path.read_text()) for path in paths]
    read = [-1, *((entry.offsets["0"] or {})["logOffset"] for entry in entries)]
    rows = [batches[now] if now > before else [] for before, now in itertools.pairwise(read)]
    return rows, [entry.watermark_ms for entry in entries]


def write(folder: Path, batches: Sequence[Sequence[Row]], first: int = 0) -> None:
    for number, rows in enumerate(batches, first):
        write_batch(folder / "in", number, rows)


def test_the_bound_moves_in_each_batch_and_a_batch_run_again_puts_out_the_same_versions(
    spark: SparkSession, server: BoundServer, tmp_path: Path
) -> None:
    batches, sink = random_batches(11, 9), RecordingSink()
    put_out: dict[int, list[WindowVersion]] = {}
    bounds_s: dict[int, int] = {}
    tries: Counter[int] = Counter()

    def before(number: int) -> None:
        bound_s = bound_s_of(number, tries[number])
        publish(server, bound_s)
        bounds_s.setdefault(number, bound_s)
        tries[number] += 1

    def upsert(versions: list[WindowVersion], number: int) -> None:
        assert set(put_out.setdefault(number, versions)) == set(versions)

    jobs = replayed = 0
    for first, some in ((0, batches[:5]), (5, batches[5:])):
        write(tmp_path, some, first)
        query = start_revised(spark, tmp_path, OPERATOR, sink, upsert, before, server.url)
        query.awaitTermination()
        assert flush(PATIENCE_S)
        jobs += len(spark.sparkContext.statusTracker().getJobIdsForGroup(str(query.runId)))
        if not first:
            replayed = uncommit_last(tmp_path)
    rows, watermarks_ms = rows_by_batch(tmp_path, batches)
    early_ms = early_of(rows, [bounds_s[number] * 1_000 for number in range(len(rows))])

    check_versions(put_out, rows, early_ms, watermarks_ms, OPERATOR)
    assert sum(len(versions) for versions in put_out.values()) >= 40
    assert tries[replayed] == 2
    assert put_out[replayed]
    assert jobs == tries.total(), "a batch has one job"
    newest = {report.batch_id: report for report in sink.reports}
    assert [newest[number].watermark_ms for number in sorted(newest)] == early_ms
    assert [newest[number].bound_ms for number in sorted(newest)] == [
        bounds_s[number] * 1_000 for number in range(len(rows))
    ]
    late = [judge(newest[number]).total for number in sorted(newest)]
    assert [(tally.late_min, tally.late_max) for tally in late] == [
        (count, count) for count in late_pairs(rows, early_ms, OPERATOR)
    ]
    corrected = [judge(newest[number]) for number in sorted(newest)]
    assert [(each.corrected_min, each.corrected_max) for each in corrected] == [
        (late - dropped, late - dropped)
        for late, dropped in zip(
            late_pairs(rows, early_ms, OPERATOR), late_pairs(rows, watermarks_ms, OPERATOR), strict=True
        )
    ]
    assert 0 < sum(each.corrected_min for each in corrected) < sum(each.total.late_min for each in corrected)
    applied = [each.bound_ms for each in sink.acknowledgements]
    assert applied == [report.bound_ms for report in sink.reports], (
        "each bound is acknowledged as it comes into force"
    )


def late_pairs(rows: Sequence[Sequence[Row]], early_ms: Sequence[int], operator: TimeWindow) -> list[int]:
    """Return how many (row, window) pairs of each batch came too late, by W(n) or by ``early`` of each."""
    found = []
    for some, before_ms in zip(rows, [0, *early_ms], strict=False):
        _, ends = operator.keys(np.array([row.event_time_us for row in some], np.int64))
        found.append(int((ends <= before_ms * 1_000).sum()))
    return found


def append_run(
    spark: SparkSession, folder: Path, operator: TimeWindow, delay_s: int
) -> dict[Window, tuple[int, ...]]:
    """Return what plain Spark puts out in append mode."""
    found: dict[Window, tuple[int, ...]] = {}

    def collect(df: DataFrame, _: int) -> None:
        for row in df.select("partition", F.unix_micros("window.end").alias("end"), "ids").collect():
            window = row["end"], row["partition"]
            assert window not in found
            found[window] = tuple(sorted(row["ids"]))

    window = F.window("ts", f"{operator.size_us} microseconds", f"{operator.slide_us} microseconds")
    query = (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .json(str(folder / "in"))
        .withWatermark("ts", f"{delay_s} seconds")
        .groupBy(window, "partition")
        .agg(F.collect_list("id").alias("ids"))
        .writeStream.foreachBatch(collect)
        .option("checkpointLocation", str(folder / f"append-{delay_s}"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return found


@pytest.mark.long
def test_with_one_bound_the_first_and_the_last_versions_are_those_of_two_append_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    operator, sink = sliding("10 seconds", "4 seconds"), RecordingSink()
    put_out: dict[int, list[WindowVersion]] = {}
    write(tmp_path, random_batches(15, 7))
    query = start_revised(
        spark, tmp_path, operator, sink, lambda v, n: put_out.update({n: v}), lambda _: None
    )
    query.awaitTermination()
    assert flush(PATIENCE_S)
    versions = [each for number in sorted(put_out) for each in put_out[number]]
    first = {each.window: each.ids for each in versions if each.version == 1}
    early = append_run(spark, tmp_path, operator, BOUND_S)

    assert {window: first[window] for window in early} == early
    assert len(early) >= 20
    assert len(first) > len(early), "some windows have late rows only"
    assert {each.window: each.ids for each in versions if each.is_final} == append_run(
        spark, tmp_path, operator, BOUND_S + GRACE_S
    )
    assert len(put_out) > 1


def test_the_checkpoint_keeps_no_more_than_the_next_driver_needs(spark: SparkSession, tmp_path: Path) -> None:
    """Each batch here is one driver's and has a window, which comes out a batch later and is final after four."""
    files, delay_ms = HadoopFiles(spark, str(tmp_path / "checkpoint" / "tidemark_versions")), 4_000
    put_out = []
    for batch in range(9):
        newest_us = EPOCH_US + batch * 1_000_000
        changed = pa.table({"end": pa.array([newest_us], pa.timestamp("us", "UTC")), "rows": [batch]})
        revision = Revision(VersionLog(files), WindowColumns("end", ()), delay_ms, max_files=3)
        watermark_ms = newest_us // 1_000 - delay_ms if batch else 0
        versions = revision.step(batch, changed, watermark_ms, ChosenBound(bound_ms=1_000))[1].to_pylist()
        put_out += [(row["rows"], row["version"], row["is_final"], batch) for row in versions]

    first = [(window, 1, False, window + 1) for window in range(8)]
    assert sorted(put_out) == sorted(first + [(window, 2, True, window + 4) for window in range(5)])
    assert sorted(int(name) for name in files.names("changed") if name.isdecimal()) == [6, 7, 8]
    assert [name for name in files.names("open") if name.isdecimal()] == ["5"]


def _forgotten(df: DataFrame, _: int) -> None:
    df.collect()


def test_a_query_that_cannot_have_versions_ends_before_its_first_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()

    def why(case: str) -> str:
        revised = revise(grace="1 minute")
        sink = _forgotten if case == "no sink" else revised.into(_forgotten)
        rows = spark.readStream.schema(SCHEMA).json(str(tmp_path / "in"))
        stream = rows.transform(
            adaptive_watermark("ts", "1 second", stream="in", late=revised, sink=RecordingSink())
        )
        if case == "two watermarks":
            stream = stream.union(rows.withWatermark("ts", "1 second"))
        query = (
            stream.dropDuplicatesWithinWatermark(["id"])
            if case == "no window"
            else stream.groupBy(F.window("ts", "5 seconds")).count()
        )
        running = (
            query.writeStream.outputMode("append" if case == "append" else "update")
            .foreachBatch(sink)
            .option("checkpointLocation", str(tmp_path / case))
            .trigger(availableNow=True)
            .start()
        )
        with pytest.raises(StreamingQueryException) as failed:
            running.awaitTermination()
        return str(failed.value)

    assert '.outputMode("update")' in why("append")
    assert "row-level operator; use late=side(...)" in why("no window")
    assert "the query's only watermark" in why("two watermarks")
    assert "revised.into(upsert)" in why("no sink")


@pytest.mark.soak
def test_over_five_kills_no_version_is_missing_or_differs(tmp_path: Path) -> None:
    """Before the versions are on disk, before the output and after it, between two batches, and at the end."""
    batches = random_batches(23, 22)
    for run, place in enumerate((*PLACES, None)):
        if run == 0 or place is None:
            write(tmp_path, batches[:17] if run == 0 else batches[17:], 0 if run == 0 else 17)
        given = {"folder": str(tmp_path), "run": run, "die": place, "die_in": 2 + run % 2}
        ran = subprocess.run(
            [sys.executable, "-m", "support.revised_job", json.dumps(given)],
            env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
            start_new_session=True,
            capture_output=True,
            timeout=5 * PATIENCE_S,
            check=False,
        )
        assert ran.returncode == (0 if place is None else -signal.SIGKILL), ran.stderr.decode()[-3_000:]
    tries: defaultdict[int, list[int]] = defaultdict(list)
    for path in (tmp_path / "bounds").iterdir():
        number, run = map(int, path.name.split("-"))
        tries[number].append(run)
    put_out: dict[int, set[WindowVersion]] = {}
    for path in (tmp_path / "out").iterdir():
        versions = {
            WindowVersion((end, key), version, is_final, tuple(ids))
            for end, key, version, is_final, *ids in json.loads(path.read_text())
        }
        assert put_out.setdefault(int(path.name.split("-")[0]), versions) == versions
    rows, watermarks_ms = rows_by_batch(tmp_path, batches)
    bounds_ms = [bound_s_of(number, min(tries[number])) * 1_000 for number in range(len(rows))]

    check_versions(put_out, rows, early_of(rows, bounds_ms), watermarks_ms, OPERATOR)
    again = sum(len(runs) > 1 for runs in tries.values())
    assert again >= 2
    print(f"{sum(map(len, put_out.values()))} versions in {len(rows)} batches, {again} of them run again")
