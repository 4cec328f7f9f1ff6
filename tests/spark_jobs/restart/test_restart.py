"""Restarts on real Spark: between two batches, with no row lost or doubled, whatever fails meanwhile."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs import flush
from tidemark.spark_jobs.core.bound import starting
from tidemark.spark_jobs.restart.between_batches import end_between_batches
from tidemark.spark_jobs.restart.runner import AdaptiveQuery, Parts

from support.bound_server import BoundServer
from support.oracles import Ledger
from support.patience import PATIENCE_S, until
from support.spark_streams import EPOCH_US, Job, Row, random_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow]

END_US = EPOCH_US + 48 * 3_600_000_000
"""A row this late in event time closes every window before it."""


@dataclass
class CountedJob(Job):
    """A job that counts how often each batch is begun and done, and fails with a given bound."""

    begun: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    started_with: list[int] = field(default_factory=list)
    poison_ms: int | None = None
    known: threading.Event = field(default_factory=threading.Event)

    def build(self) -> StreamingQuery:
        """Start the query, as a user's function would."""
        self.known.clear()
        with starting() as choices:
            query = self.start("60 seconds")
        self.started_with.append(choices[0].chosen.bound_ms)
        self.known.set()
        return query

    def _collect(self, df: DataFrame, batch_id: int) -> None:
        self.begun.append(batch_id)
        assert self.known.wait(PATIENCE_S)
        if self.started_with[-1] == self.poison_ms:
            raise RuntimeError("this bound is poison")
        super()._collect(df, batch_id)
        time.sleep(0.1)  # so that a change comes in the midst of a batch more often than not
        self.done.append(batch_id)


@dataclass
class Running:
    """A job under a runner, fed batch by batch so that its batches run back to back."""

    job: CountedJob
    server: BoundServer
    runner: AdaptiveQuery
    rows: dict[int, Row] = field(default_factory=dict)
    ended: list[int | BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.feeding = threading.Event()
        self.feeder = threading.Thread(target=self._feed, daemon=True)

    def start(self) -> None:
        """Start the job and begin to feed it."""
        self.thread.start()
        self.feeder.start()

    def wait_for_batches(self, more: int) -> None:
        """Wait until so many more batches are done."""
        before = len(self.job.done)
        until(
            lambda: len(self.job.done) >= before + more or self.ended,
            f"{more} more batches",
            seen=lambda: self.job.done,
        )
        assert not self.ended, self.ended

    def finish(self) -> None:
        """Close every window, work off what there is, and end the runner."""
        self.feeding.set()
        self.feeder.join()
        self._write([Row(10**9, 0, END_US)])
        query = self.runner.query
        assert query is not None
        query.processAllAvailable()
        self.runner.stop()
        self.thread.join(PATIENCE_S)
        assert self.ended == [0]
        assert flush(PATIENCE_S), "the listener did not report all batches"

    def _run(self) -> None:
        try:
            self.ended.append(self.runner.run())
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.ended.append(error)

    def _feed(self) -> None:
        for batch in random_batches(6, 400):
            if self.feeding.wait(0.15):
                return
            # Never far ahead of the query, so that it ends soon after the last one.
            until(
                lambda: self.job.written - len(self.job.done) < 3 or self.feeding.is_set(),
                "the job to catch up with what was written",
            )
            self._write(batch)

    def _write(self, rows: list[Row]) -> None:
        self.rows.update({row.id: row for row in rows})
        self.job.write([rows])


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Return a function that starts a job with 5 s of a controller in mode Restart."""
    spark.conf.set("spark.tidemark.watch.seconds", "2")
    servers: list[BoundServer] = []

    def begin(end: Callable[[StreamingQuery, float], bool] = end_between_batches) -> Running:
        server = BoundServer("tidemark-tests", "restart")
        servers.append(server)
        server.__enter__()
        server.publish(5_000)
        job = CountedJob(
            spark,
            tmp_path,
            tumbling("5 seconds"),
            "append",
            stream="restart",
            controller_url=server.url,
            recording=True,
        )
        runner = AdaptiveQuery(job.build, cooldown_s=0.0, parts=Parts(end=end, poll_s=0.05))
        running = Running(job, server, runner)
        running.start()
        running.wait_for_batches(4)
        return running

    yield begin
    spark.conf.unset("spark.tidemark.watch.seconds")
    for server in servers:
        server.__exit__()
    for query in spark.streams.active:
        query.stop()


def _wait_for_start(running: Running, bound_ms: int) -> None:
    until(
        lambda: running.job.started_with[-1] == bound_ms or running.ended,
        f"a start with {bound_ms} ms",
        seen=lambda: running.job.started_with,
    )
    running.wait_for_batches(4)


def _mismatches(running: Running) -> tuple[Counter[tuple[str, int]], int]:
    """Return by how much the sink differs from the ledger in each (partition, window), and how many rows were late."""
    ledger = Ledger()
    for report in running.job.recorded.reports:
        assert ledger.add(report), "no batch is reported twice"
    body = ledger.completeness()
    assert body.exact
    differs: Counter[tuple[str, int]] = Counter(
        {cell: tally.rows - tally.late_min for cell, tally in ledger.tallies.items() if cell[1] <= END_US}
    )
    for output in running.job.output.values():
        for key_us, ids in output:
            for identity in ids:
                assert key_us is not None
                differs[str(running.rows[identity].partition), key_us] -= 1
    return Counter({cell: count for cell, count in differs.items() if count}), body.late_min


def _expected_watermarks(running: Running) -> dict[int, int]:
    """Return W of each batch: what came back with the checkpoint, or what this run's batches before it allow."""
    expected: dict[int, int] = {}
    watermark_ms, base_ms, run_id = 0, None, None
    for report in running.job.recorded.reports:
        if report.run_id != run_id:
            run_id, base_ms = report.run_id, None
        expected[report.batch_id] = watermark_ms
        if report.max_event_time_us is not None:
            newest_ms = report.max_event_time_us // 1_000
            base_ms = newest_ms if base_ms is None else max(base_ms, newest_ms)
            watermark_ms = max(watermark_ms, base_ms - report.bound_ms)
    return expected


@pytest.mark.long
def test_bounds_change_between_batches_and_no_row_is_lost_or_doubled_even_when_the_controller_goes_away(
    start: Callable[..., Running], capsys: pytest.CaptureFixture[str]
) -> None:
    """DESIGN 2.2 and 2.7, and the promise of mode Restart; the last start finds nobody to ask."""
    leave: list[BoundServer] = []

    def end(query: StreamingQuery, patience_s: float) -> bool:
        for server in leave:
            server.leave()
        return end_between_batches(query, patience_s)

    running = start(end)
    server, job = running.server, running.job
    server.publish(12_000)
    _wait_for_start(running, 12_000)
    server.leave()
    running.wait_for_batches(4)
    server.come_back()
    leave.append(server)
    server.publish(2_000)
    _wait_for_start(running, 2_000)
    running.finish()

    reports, runs = job.recorded.reports, list(dict.fromkeys(r.run_id for r in job.recorded.reports))
    differs, late = _mismatches(running)
    with capsys.disabled():
        print(
            f"\nrestart: {len(job.done)} batches, {len(reports)} reports, {len(runs)} runs, {len(running.rows)} rows, "
            f"{late} late; {len(differs)} mismatches"
        )
    assert job.begun == job.done, "no batch was cut off"
    assert job.done == [report.batch_id for report in reports] == list(range(len(reports)))
    assert job.started_with == [5_000, 12_000, 2_000]
    assert [ack.bound_ms for ack in job.recorded.acknowledgements] == [5_000, 12_000, 2_000]
    assert [ack.source for ack in job.recorded.acknowledgements] == ["controller"] * 3
    assert [ack.generation for ack in job.recorded.acknowledgements] == [1, 2, 3]
    assert len({report.query_id for report in reports}) == 1, "it is the same checkpoint"
    assert {r.batch_id: r.watermark_ms for r in reports} == _expected_watermarks(running)
    assert late > 0
    assert differs == {}


@pytest.mark.long
def test_a_bound_that_fails_is_put_back_and_the_next_generation_is_taken(
    start: Callable[..., Running], caplog: pytest.LogCaptureFixture
) -> None:
    """A bad bound must cost a job a few seconds, not its life."""
    running = start()
    job = running.job
    job.poison_ms = 9_000
    running.server.publish(9_000)
    until(
        lambda: job.started_with == [5_000, 9_000, 5_000] or running.ended,
        "the old bound, put back",
        seen=lambda: job.started_with,
    )
    running.wait_for_batches(8)
    assert job.started_with == [5_000, 9_000, 5_000], "it is not tried again"
    running.server.publish(7_000)
    _wait_for_start(running, 7_000)
    running.finish()

    differs, late = _mismatches(running)
    assert job.started_with == [5_000, 9_000, 5_000, 7_000]
    assert [ack.generation for ack in job.recorded.acknowledgements] == [1, 1, 3]
    assert job.done == sorted(set(job.done)), "each batch is done once"
    assert len(job.begun) == len(job.done) + 1, "only the one that failed was begun twice"
    assert "this bound is poison" in caplog.text
    assert "generation 2, 9 s, failed and is not tried again; 5 s is put back" in caplog.text
    assert late > 0
    assert differs == {}


def test_a_job_that_runs_what_is_available_reads_the_bound_at_each_start(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Such jobs need no runner: they restart anyway."""
    with BoundServer("tidemark-tests", "restart") as server:
        job = Job(
            spark,
            tmp_path,
            tumbling("5 seconds"),
            stream="restart",
            controller_url=server.url,
            recording=True,
        )
        for bound_ms in (5_000, 9_000):
            server.publish(bound_ms)
            job.write(random_batches(bound_ms, 2))
            job.run_available("60 seconds")

    assert [ack.bound_ms for ack in job.recorded.acknowledgements] == [5_000, 9_000]
    assert {(report.bound_ms, report.generation) for report in job.recorded.reports} == {
        (5_000, 1),
        (9_000, 2),
    }
