"""What Tidemark assumes of Spark, one fact a test, on plain queries: an upgrade that changes one fails here.

Pinned elsewhere: the late rule of windows, sessions and deduplication (test_operators_over_restarts.py); one row
dated a day ahead, after which every honest row is dropped (live/test_future_rows.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from tidemark.models.base.operators import Operator, TimeWindow, row_level, tumbling

from support.live_operators import KINDS, Plan, join, windows
from support.live_streams import SECOND_US, Input, LiveJob, closing_batch
from support.patience import until
from support.spark_streams import EPOCH_US, SCHEMA, Row, write_batch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# Nothing of this project is run here: what Spark does changes with its version alone.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]

START_S = EPOCH_US // SECOND_US + 3_600
"""Seconds of the tests count from here."""

TICK = 1e-6


def _us(seconds: float) -> int:
    return START_S * SECOND_US + round(seconds * SECOND_US)


def _rows(first_id: int, *seconds: float) -> list[Row]:
    return [Row(first_id + number, 0, _us(second)) for number, second in enumerate(seconds)]


def _job(spark: SparkSession, folder: Path, plan: Plan, *bounds_s: int) -> LiveJob:
    """Return a plain query with an input for each bound; nothing of Tidemark's is in it."""
    inputs = [
        Input(name=f"in-{number}", operator=row_level(), bound=f"{bound_s} seconds", ceiling=None)
        for number, bound_s in enumerate(bounds_s)
    ]
    return LiveJob(spark, folder, inputs, plan, native=True)


def _run_with(job: LiveJob, bound_s: int, *rows: list[Row]) -> None:
    """Run the query once more, with another bound; it idles after each batch."""
    job.inputs = [replace(entry, bound=f"{bound_s} seconds") for entry in job.inputs]
    job.run([[[batch]] for batch in rows])


def _watermark_s(job: LiveJob) -> float:
    """Return the watermark of the last batch; when the query idles, it is the one in force."""
    return job.log()[-1].watermark_ms / 1_000 - START_S


@contextmanager
def _conf(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)


# -- the late rule --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judged:
    """Rows of one batch that lie about the watermarks before it and in it, and which of them came out."""

    keys_us: dict[int, int]
    """What the watermark is compared with, by the row's id."""
    before_us: int
    """W(n-1)."""
    now_us: int
    """W(n)."""
    admitted: set[int]

    def by(self, rule: Callable[[int], bool]) -> set[int]:
        """Return the rows that a rule for what is late admits."""
        return {identity for identity, key_us in self.keys_us.items() if not rule(key_us)}


def _judged(job: LiveJob, operator: Operator, side: int = 0) -> Judged:
    """Run a query in whose third batch rows lie about W(1) = 90 s and W(2) = 190 s, with partners for a join."""
    seconds: tuple[float, ...] = (88, 90 - TICK, 90, 90 + TICK, 150, 190, 190 + TICK)
    if isinstance(operator, TimeWindow):
        seconds = (80, 85, 90 - TICK, 90, 150, 190 - TICK, 190)
    probes = _rows(1_000, *seconds)
    partners = [Row(row.id + 1_000, 0, max(row.event_time_us, _us(91))) for row in probes]
    streams = [
        [_rows(10 + 100 * which, 100), _rows(20 + 100 * which, 200), rows, closing_batch(10**9 + 10 * which)]
        for which, rows in enumerate((partners, probes) if side else (probes, partners))
    ]
    job.publish(streams[: len(job.inputs)])
    job.run([[[] for _ in job.inputs]])
    log = job.log()
    assert [logged.files for logged in log[:4]] == [(n,) * len(job.inputs) for n in (1, 2, 3, 4)]
    _, keys = operator.keys(np.array([row.event_time_us for row in probes], np.int64))
    came = {identity for entries in job.output.values() for _, ids in entries for identity in ids}
    return Judged(
        {row.id: key for row, key in zip(probes, keys.tolist(), strict=True)},
        log[1].watermark_ms * 1_000,
        log[2].watermark_ms * 1_000,
        {row.id for row in probes if row.id in came},
    )


def _is_judged_by_the_watermark_of_the_batch_before(judged: Judged) -> None:
    assert (judged.before_us, judged.now_us) == (_us(90), _us(190))
    assert judged.admitted == judged.by(lambda key_us: key_us <= judged.before_us)
    assert judged.admitted != judged.by(lambda key_us: key_us < judged.before_us)
    assert judged.admitted != judged.by(lambda key_us: key_us <= judged.now_us)


@pytest.mark.parametrize(
    ("how", "side"), [("inner", 0), ("leftOuter", 1)], ids=["inner, left", "leftOuter, right"]
)
def test_a_row_of_a_join_is_late_iff_its_own_time_is_at_or_below_the_watermark_of_the_batch_before(
    spark: SparkSession, tmp_path: Path, how: str, side: int
) -> None:
    job = _job(spark, tmp_path, join(how), 10, 10)

    _is_judged_by_the_watermark_of_the_batch_before(_judged(job, row_level(), side))


@pytest.mark.parametrize("name", ["windows of windows", "deduplication, then windows"])
def test_a_row_of_a_chain_is_late_by_the_key_of_its_first_operator_and_the_watermark_of_the_batch_before(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """What the first operator emits is not late for the second one."""
    kind = KINDS[name]

    _is_judged_by_the_watermark_of_the_batch_before(
        _judged(_job(spark, tmp_path, kind.plan, 10), kind.operator)
    )


def _ids_of(key: Callable[[], Column]) -> Plan:
    def plan(inputs: Sequence[DataFrame]) -> DataFrame:
        grouped = inputs[0].groupBy(key()).agg(F.collect_list("id").alias("ids"))
        return grouped.select(F.lit(None).cast("long").alias("key_us"), "ids")

    return plan


def _first_of_each(*needed: str) -> Plan:
    columns = "cast(null as long) as key_us", "array(id) as ids", *needed
    return lambda inputs: inputs[0].dropDuplicates(["id"]).selectExpr(*columns)


def _pairs(*needed: str) -> Plan:
    """Join two inputs by a key without time."""

    def plan(inputs: Sequence[DataFrame]) -> DataFrame:
        left, right = (
            frame.selectExpr(f"id as {side}_id", f"id % 1000 as {side}_key", f"ts as {side}_ts")
            for frame, side in zip(inputs, ("left", "right"), strict=True)
        )
        pairs = left.join(right, F.expr("left_key = right_key"))
        return pairs.selectExpr("cast(null as long) as key_us", "array(left_id) as ids", *needed)

    return plan


def _all_of_each(timeout: str) -> Plan:
    def ids_of(_: Any, frames: Any, __: Any) -> Any:
        import pandas as pd

        for frame in frames:
            yield pd.DataFrame({"key_us": [None], "ids": [frame["id"].tolist()]})

    return lambda inputs: (
        inputs[0]
        .groupBy("partition")
        .applyInPandasWithState(ids_of, "key_us long, ids array<long>", "count long", "update", timeout)
    )


BY_TIME: dict[str, Plan] = {
    "event time as a key": _ids_of(lambda: F.col("ts")),
    "deduplication without a horizon": _first_of_each("ts"),
    "join without a range": _pairs("left_ts"),
    "state with a timeout by event time": _all_of_each("EventTimeTimeout"),
}
"""What is judged by event time although nothing in its call says so."""

BY_NOTHING: dict[str, Plan] = {
    "a key without time": _ids_of(lambda: F.col("partition")),
    "a key by another function": _ids_of(lambda: F.date_trunc("minute", "ts")),
    "the end of a window": _ids_of(lambda: F.window("ts", "5 seconds")["end"]),
    "state without a timeout": _all_of_each("NoTimeout"),
    "deduplication after which nobody needs the event time": _first_of_each(),
    "join after which nobody needs the event time": _pairs(),
}
"""What admits every row, however late: the event time is no key, or the optimizer has left it out."""


def _updating(spark: SparkSession, folder: Path, name: str, plans: Mapping[str, Plan]) -> LiveJob:
    """Return a query that emits what is not closed; Spark wants joins in append mode."""
    joins = "join" in name
    job = _job(spark, folder, plans[name], *([10, 10] if joins else [10]))
    return replace(job, output_mode="append" if joins else "update")


@pytest.mark.parametrize("name", BY_TIME)
def test_an_operator_that_the_event_time_reaches_judges_a_row_by_it(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    job = _updating(spark, tmp_path, name, BY_TIME)

    _is_judged_by_the_watermark_of_the_batch_before(_judged(job, row_level()))


@pytest.mark.parametrize("name", BY_NOTHING)
def test_an_operator_that_the_event_time_does_not_reach_drops_no_row(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    """A ledger that called some late would be wrong."""
    job = _updating(spark, tmp_path, name, BY_NOTHING)
    judged = _judged(job, row_level())

    assert judged.admitted == judged.keys_us.keys()


def test_where_several_stateful_operators_are_forbidden_a_row_is_judged_by_the_watermark_of_its_own_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Which is why ``adaptive_watermark`` rejects this setting."""
    with _conf(spark, "spark.sql.streaming.statefulOperator.allowMultiple", "false"):
        judged = _judged(_job(spark, tmp_path, windows("5 seconds"), 10), tumbling("5 s"))

    assert judged.admitted == judged.by(lambda key_us: key_us <= judged.now_us)
    assert judged.admitted != judged.by(lambda key_us: key_us <= judged.before_us)


def test_the_rows_that_spark_says_it_dropped_are_no_count_of_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It counts what is left of them when each task has aggregated its own; the last progress mostly says 0."""
    job = _job(spark, tmp_path, windows("5 seconds"), 0)
    query = job.start()
    try:
        for rows in (_rows(0, 100), [*_rows(100, *[50.0] * 100), *_rows(300, 200)]):
            job.publish([[rows]])
            query.processAllAvailable()
        body = {
            progress.batchId: sum(state.numRowsDroppedByWatermark for state in progress.stateOperators)
            for progress in query.recentProgress
            if "addBatch" in progress.durationMs
        }
    finally:
        query.stop()
    came = {identity for entries in job.output.values() for _, ids in entries for identity in ids}

    assert came == {0}, "100 rows were dropped, and one is in an open window"
    assert 0 < sum(body.values()) < 100
    assert body[max(body)] == 0


# -- the watermark over restarts ------------------------------------------------------------------------------


def test_the_newest_event_time_does_not_survive_a_restart_and_the_watermark_does(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = _job(spark, tmp_path, windows("5 seconds"), 5)
    _run_with(job, 5, _rows(0, 100))
    assert _watermark_s(job) == 95

    _run_with(job, 5, _rows(10, 97))
    assert _watermark_s(job) == 95, "not 92"

    _run_with(job, 1, _rows(20, 98))
    assert _watermark_s(job) == 97, "not 99, as with the 100 of the first run"


def test_a_bound_that_is_wider_by_20_s_freezes_the_watermark_for_20_s_of_event_time(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = _job(spark, tmp_path, windows("5 seconds"), 5)
    _run_with(job, 5, _rows(0, 100))
    seen = []
    for number, second in enumerate((105, 110, 120, 121, 130)):
        _run_with(job, 25, _rows(10 * number + 10, second))
        seen.append(_watermark_s(job))

    assert seen == [95, 95, 95, 96, 105]


def test_a_bound_that_is_narrower_closes_many_windows_at_once(spark: SparkSession, tmp_path: Path) -> None:
    job = _job(spark, tmp_path, windows("5 seconds"), 60)
    _run_with(job, 60, _rows(0, *range(100, 150, 5)))
    assert not any(job.output.values())

    _run_with(job, 0, _rows(100, 150))
    assert sorted(len(entries) for entries in job.output.values())[-2:] == [0, 10]


def test_the_policy_of_several_watermarks_is_the_one_that_the_checkpoint_was_begun_with(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The fastest input leads under ``max``, also when the session says ``min`` by now."""
    policy = "spark.sql.streaming.multipleWatermarkPolicy"
    job = _job(spark, tmp_path, lambda inputs: windows("5 seconds")([inputs[0].union(inputs[1])]), 5, 5)
    with _conf(spark, policy, "max"):
        job.run([[[_rows(0, 100)], [_rows(10, 20)]]])
    assert _watermark_s(job) == 95

    with _conf(spark, policy, "min"):
        job.run([[[_rows(20, 200)], [_rows(30, 120)]]])
    assert _watermark_s(job) == 195


# -- batches --------------------------------------------------------------------------------------------------


def test_the_current_time_is_the_same_for_all_rows_of_a_batch_and_when_the_batch_is_run_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What is cut off at the clock is cut off in the same place after a crash."""
    for number in range(8):
        write_batch(tmp_path / "in", number, _rows(number, number))
    seen: list[tuple[int, set[datetime]]] = []

    def batch(df: DataFrame, batch_id: int) -> None:
        seen.append((batch_id, {row["now"] for row in df.collect()}))
        if len(seen) == 1:
            raise RuntimeError("the first try fails")

    def run() -> None:
        source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 4).json(str(tmp_path / "in"))
        query = (
            source.select("id", F.current_timestamp().alias("now"))
            .writeStream.foreachBatch(batch)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    with pytest.raises(StreamingQueryException, match="the first try fails"):
        run()
    run()
    (_, first), (_, again), (_, second) = seen

    assert [batch_id for batch_id, _ in seen] == [0, 0, 1]
    assert len(first) == 1
    assert first == again
    assert first != second


def test_a_progress_without_a_batch_carries_the_number_of_the_batch_to_come(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Only where ``addBatch`` took time a batch was run."""
    job = _job(spark, tmp_path, windows("5 seconds"), 5)
    with _conf(spark, "spark.sql.streaming.noDataProgressEventInterval", "100"):
        query = job.start()
        try:
            job.publish([[_rows(0, 100)]])
            query.processAllAvailable()
            until(lambda: "addBatch" not in query.recentProgress[-1].durationMs, "a progress without a batch")
            idle, run = query.recentProgress[-1], sorted(job.output)
        finally:
            query.stop()

    assert idle.batchId == max(run) + 1 == len(job.log())
    assert [p.batchId for p in query.recentProgress if "addBatch" in p.durationMs] == run


def test_stopping_a_query_interrupts_the_batch_that_runs_and_a_restart_runs_it_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Which is why a restart for a bound waits for the end of the batch first."""
    write_batch(tmp_path / "in", 0, _rows(0, 1, 2, 3))
    checkpoint = tmp_path / "checkpoint"
    seen: list[tuple[int, int]] = []

    def start(column: str) -> StreamingQuery:
        return (
            spark.readStream.schema(SCHEMA)
            .json(str(tmp_path / "in"))
            .selectExpr("id", column)
            .writeStream.foreachBatch(lambda df, batch_id: seen.append((batch_id, len(df.collect()))))
            .option("checkpointLocation", str(checkpoint))
            .start()
        )

    query = start("java_method('java.lang.Thread', 'sleep', 600000L) as slow")
    until(lambda: spark.sparkContext.statusTracker().getActiveJobsIds(), "the batch's first job")
    query.stop()

    assert seen == [], "nobody waited for the batch's end"
    assert (checkpoint / "offsets" / "0").exists()
    assert not (checkpoint / "commits" / "0").exists()
    query = start("null as slow")
    query.processAllAvailable()
    query.stop()
    assert seen == [(0, 3)]
