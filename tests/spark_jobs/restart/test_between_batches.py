"""Ending a query between two batches: no batch is ever cut off, not even where there is no gap."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import MagicMock, call

import pytest

from tidemark.spark_jobs.restart.between_batches import Gate, end_between_batches, gate_of

from support.patience import PATIENCE_S, until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WAITING = {"isTriggerActive": False, "message": "Waiting for next trigger"}
WORKING = {"isTriggerActive": True, "message": "Processing new data"}
PLANNING = {"isTriggerActive": True, "message": "Getting offsets from FileStreamSource"}


class FakeQuery:
    """A query whose status changes poll by poll; the last one stays."""

    def __init__(self, *statuses: dict[str, Any]) -> None:
        self.statuses = list(statuses)
        self.stopped = 0
        self.isActive = True

    @property
    def status(self) -> dict[str, Any]:
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]

    def stop(self) -> None:
        self.stopped += 1
        self.isActive = False

    def awaitTermination(self) -> None:  # noqa: N802 - Spark's name
        assert not self.isActive


class FakeGate:
    """The gate of a query that is between two batches after some checks, and ends some polls after it was closed."""

    def __init__(self, query: FakeQuery, *, between_after: int = 0, ends_after: int | None = None) -> None:
        self.query, self.between_after, self.ends_after = query, between_after, ends_after
        self.closed = False

    def close(self) -> bool:
        self.between_after -= 1
        self.closed = self.between_after < 0
        return self.closed

    def has_ended(self) -> bool:
        if self.closed and self.ends_after is not None:
            self.ends_after -= 1
            if self.ends_after < 0:
                self.query.isActive = False
        return not self.query.isActive


def _end(query: FakeQuery, gate: FakeGate | None, patience_s: float = 10.0) -> tuple[bool, float]:
    """End ``query`` on a clock of its own; return whether it has ended, and when."""
    now_s = [0.0]

    def sleep(seconds: float) -> None:
        now_s[0] += seconds

    ended = end_between_batches(
        cast("StreamingQuery", query),
        patience_s,
        gate=lambda _: cast("Gate | None", gate),
        sleep=sleep,
        monotonic=lambda: now_s[0],
    )
    return ended, now_s[0]


def test_the_gate_is_closed_when_the_query_is_between_two_batches_and_nothing_is_stopped() -> None:
    """A batch takes as long as it takes; patience is for where there is no gate."""
    query = FakeQuery(WORKING)
    gate = FakeGate(query, between_after=1_000, ends_after=1)

    assert _end(query, gate)[0]
    assert gate.closed
    assert query.stopped == 0


def test_a_query_that_sleeps_until_its_next_trigger_is_woken() -> None:
    query = FakeQuery(WAITING)
    ended, took_s = _end(query, FakeGate(query))

    assert ended
    assert took_s < 1
    assert query.stopped == 1


def test_a_query_that_has_ended_by_itself_is_not_waited_for() -> None:
    query = FakeQuery(WAITING)
    query.stop()

    assert _end(query, FakeGate(query, between_after=10**9))[0]


def _spark_gate(
    active: list[bool], queued: list[bool] | None = None, *, runs: bool = True
) -> tuple[Gate, MagicMock]:
    """Return the gate of a query in Java whose trigger is active check by check, and that query."""
    execution = MagicMock()
    execution.status.return_value.isTriggerActive.side_effect = active
    execution.awaitProgressLock.return_value.hasQueuedThreads.side_effect = queued or []
    execution.state.return_value.compareAndSet.return_value = runs
    return Gate(execution, (MagicMock(), MagicMock()), MagicMock(), lambda _: None), execution


def test_the_gate_closes_while_no_trigger_is_active_and_its_lock_is_held() -> None:
    gate, query = _spark_gate([True, True, False, False], [False, False])

    assert gate.close()
    query.state().compareAndSet.assert_called_once_with(gate._on, gate._off)
    query.awaitProgressLock().unlock.assert_called_once()


def test_the_lock_is_given_back_as_soon_as_the_query_wants_it() -> None:
    """It has a batch to commit, or to plan."""
    gate, query = _spark_gate([True, True], [False, True])

    assert not gate.close()
    query.state().compareAndSet.assert_not_called()
    query.awaitProgressLock().unlock.assert_called_once()


def test_a_query_that_was_about_to_plan_a_batch_goes_on() -> None:
    """It had checked whether to go on a moment before; it would interrupt itself in the batch."""
    gate, query = _spark_gate([False, True])

    assert not gate.close()
    assert query.state().compareAndSet.call_args_list == [
        call(gate._on, gate._off),
        call(gate._off, gate._on),
    ]


def test_the_gate_of_a_query_that_does_not_run_yet_stays_open() -> None:
    assert not _spark_gate([False], runs=False)[0].close()


def test_a_lock_that_is_not_to_be_had_in_time_is_not_given_back() -> None:
    gate, query = _spark_gate([])
    query.awaitProgressLock().tryLock.return_value = False

    assert not gate.close()
    query.awaitProgressLock().unlock.assert_not_called()


@pytest.mark.parametrize("gap", [WAITING, PLANNING])
def test_without_a_gate_the_query_is_stopped_in_the_gap_after_a_batch(gap: dict[str, Any]) -> None:
    query = FakeQuery(WORKING, WORKING, gap, WORKING)

    assert _end(query, None)[0]
    assert query.stopped == 1


def test_without_a_gate_and_without_a_gap_the_query_runs_on() -> None:
    """A bound is never worth a batch."""
    query = FakeQuery(WORKING)
    ended, took_s = _end(query, None)

    assert not ended
    assert took_s == pytest.approx(10.0, abs=0.1)
    assert query.stopped == 0


# -- on Spark ---------------------------------------------------------------------------------------------------


def _start(
    spark: SparkSession, folder: Path, batch: Callable[[DataFrame, int], None], interval: str = "0 seconds"
) -> StreamingQuery:
    rows = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    return (
        rows.writeStream.foreachBatch(batch)
        .option("checkpointLocation", str(folder))
        .trigger(processingTime=interval)
        .start()
    )


def _wait_for(begun: list[int], batches: int) -> None:
    until(lambda: len(begun) >= batches, f"{batches} batches", seen=lambda: begun)


@pytest.mark.spark
@pytest.mark.slow
def test_with_batches_back_to_back_each_is_run_once_and_to_its_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The names in Spark that this rests on; at every moment of a batch, planning it included."""
    begun: list[int] = []
    done: list[int] = []

    def batch(df: DataFrame, batch_id: int) -> None:
        begun.append(batch_id)
        df.count()  # fails when the query's thread was interrupted
        time.sleep(0.05)
        done.append(batch_id)

    for batches in (2, 5, 7, 10):
        query = _start(spark, tmp_path, batch)
        _wait_for(begun, batches)
        time.sleep(random.Random(batches).uniform(0, 0.3))
        assert gate_of(query) is not None
        assert end_between_batches(query, 10.0)
        assert not query.isActive
        assert query.exception() is None

    assert begun == done == list(range(len(done)))


def test_without_threads_of_its_own_in_java_no_lock_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread could not give it back, and the query would stand still for ever."""
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")

    assert gate_of(cast("StreamingQuery", FakeQuery(WORKING))) is None


@pytest.mark.spark
@pytest.mark.slow
def test_a_query_between_two_triggers_of_an_hour_ends_at_once(spark: SparkSession, tmp_path: Path) -> None:
    done = threading.Event()
    query = _start(spark, tmp_path, lambda _, __: done.set(), "1 hour")
    assert done.wait(PATIENCE_S)
    until(lambda: not query.status["isTriggerActive"], "the end of the trigger")

    assert end_between_batches(query, 10.0)
    assert not query.isActive


@pytest.mark.spark
@pytest.mark.slow
def test_a_batch_that_fails_while_it_is_waited_for_is_the_querys_failure(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    begun, fail = threading.Event(), threading.Event()

    def batch(_: DataFrame, __: int) -> None:
        begun.set()
        assert not fail.wait(PATIENCE_S), "a failing batch"

    query = _start(spark, tmp_path, batch)
    assert begun.wait(PATIENCE_S)
    timer = threading.Timer(0.3, fail.set)
    timer.start()
    with pytest.raises(StreamingQueryException, match="a failing batch"):
        end_between_batches(query, 10.0)
    timer.join()
