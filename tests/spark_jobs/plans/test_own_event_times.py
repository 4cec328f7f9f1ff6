"""Chains behind a ``transformWithState`` that gives its rows their own event time, which the watermark may end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tidemark.models.base.operators import row_level
from tidemark.models.base.stateful import CONFIRMED_KEY
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.protocol.messages import Mode
from tidemark.spark_jobs.core.bound import ChosenBound, starting
from tidemark.spark_jobs.restart.runner import AdaptiveQuery, Parts

from support.bound_server import BoundServer
from support.live_operators import ROCKS
from support.live_streams import SECOND_US, Batches, Input, LiveJob
from support.patience import PATIENCE_S, until
from support.spark_streams import EPOCH_US, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FUNCTION = "transformWithState (EventTime) keeps what its function says"
REFUSED = r"transformWithState gives its rows an event time of their own \(ts\)"


@pytest.fixture(autouse=True)
def rocks(spark: SparkSession) -> Iterator[None]:
    """Let ``transformWithState`` have the store that it needs, and no test confirm anything for the next one."""
    key = "spark.sql.streaming.stateStore.providerClass"
    spark.conf.set(key, ROCKS)
    yield
    spark.conf.unset(key)
    spark.conf.unset(CONFIRMED_KEY)


def emits_the_row_before(ago: int) -> Callable[[Sequence[DataFrame]], DataFrame]:
    """Return windows of 5 s over the times that a processor emits: of the row so many rows before each."""

    def plan(inputs: Sequence[DataFrame]) -> DataFrame:
        from pyspark.sql.streaming.stateful_processor import StatefulProcessor

        class Earlier(StatefulProcessor):
            """It stands here so that it travels to the workers by value."""

            def init(self, handle: Any) -> None:
                self.times = handle.getListState("times", "ms long")

            def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: ARG002, N802, N803
                import pandas as pd

                times = [time for (time,) in self.times.get()]
                for frame in rows:
                    times += [round(time.timestamp() * 1_000) for time in frame["ts"]]
                self.times.put([(time,) for time in times])
                if len(times) > ago:
                    yield pd.DataFrame({"ts": [pd.Timestamp(times[-1 - ago], unit="ms", tz="UTC")]})

            def close(self) -> None:
                pass

        (rows,) = inputs
        emitted = rows.groupBy("partition").transformWithStateInPandas(
            Earlier(), "ts timestamp", "append", "EventTime", eventTimeColumnName="ts"
        )
        windows = emitted.groupBy(F.window("ts", "5 seconds")).agg(F.count(F.lit(1)).alias("n"))
        return windows.select(F.unix_micros("window.end").alias("key_us"), F.array("n").alias("ids"))

    return plan


def job_of(spark: SparkSession, folder: Path, ago: int, bound: str, ceiling: str | None = None) -> LiveJob:
    entry = Input(name="in", operator=row_level(), bound=bound, ceiling=ceiling)
    mode: Mode = "Off" if ceiling is None else "Live"
    return LiveJob(spark, folder, [entry], emits_the_row_before(ago), mode=mode)


def said_of(job: LiveJob) -> Downstream | None:
    """Return what was acknowledged of what is behind its operator."""
    return job.recorded["in"].acknowledgements[-1].downstream


def rows_at(*seconds: int) -> Batches:
    """Return batches of one row each."""
    return [[Row(at, 0, EPOCH_US + at * SECOND_US)] for at in seconds]


@pytest.mark.long
def test_a_bound_narrower_than_the_checkpoints_last_is_refused_and_once_confirmed_the_query_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Confirmed wrongly, Spark ends it as it would have ended it at once."""
    before_it = job_of(spark, tmp_path, 3, "10 seconds")
    before_it.run([[rows_at(100)]])
    narrower = job_of(spark, tmp_path, 3, "2 seconds")
    before = len(narrower.log())
    narrower.publish([rows_at(116, 120, 200)])
    with pytest.raises(StreamingQueryException, match=REFUSED) as refused:
        narrower.start().awaitTermination()

    assert said_of(before_it) == Downstream(retention_ms=0, unsafe=True, state_unforeseen=FUNCTION)
    assert "is to run with 2 s, and the checkpoint last ran with 10 s" in str(refused.value)
    assert f"{CONFIRMED_KEY}=true" in str(refused.value)
    assert len(narrower.log()) == before, "it has planned no batch"

    spark.conf.set(CONFIRMED_KEY, "true")
    with pytest.raises(StreamingQueryException, match="EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED"):
        narrower.start().awaitTermination()
    assert len(narrower.log()) > before


@pytest.mark.long
def test_a_confirmed_chain_whose_rows_are_as_new_as_its_input_runs_narrower_and_is_not_asked_about_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    job_of(spark, tmp_path, 0, "10 seconds").run([[rows_at(100)]])
    spark.conf.set(CONFIRMED_KEY, "true")
    confirmed = job_of(spark, tmp_path, 0, "2 seconds")
    confirmed.run([[rows_at(108)]])
    spark.conf.unset(CONFIRMED_KEY)
    again = job_of(spark, tmp_path, 0, "2 seconds")
    again.run([[rows_at(116, 200)]])

    assert said_of(confirmed) == Downstream(retention_ms=0, state_unforeseen=FUNCTION)
    closed = [key_us for entries in again.output.values() for key_us, _ in entries]
    assert max(filter(None, closed)) == EPOCH_US + 120 * SECOND_US


@pytest.mark.parametrize(
    ("ceiling", "why"),
    [
        (None, "is to run with 2 s, and the job's own bound is 10 s"),
        ("1 minute", "is to run in Live, where the watermark follows its rows"),
    ],
    ids=["a narrower bound from the controller", "Live"],
)
def test_a_new_checkpoint_is_held_to_the_jobs_own_bound(
    spark: SparkSession, tmp_path: Path, ceiling: str | None, why: str
) -> None:
    job = job_of(spark, tmp_path, 3, "10 seconds", ceiling)
    job.publish([rows_at(100)])
    given = ChosenBound(2_000, "controller", 7, "Live" if ceiling else "OnRestart", "a test says so")
    with starting({("tidemark-tests", "in"): given}):
        frame = job.frame()
    with pytest.raises(StreamingQueryException, match=why):
        job.start(frame).awaitTermination()

    assert job.log() == []


def test_under_the_runner_a_refused_bound_is_put_back_and_the_query_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    started: list[int] = []
    with BoundServer("tidemark-tests", "in") as server:
        server.publish(10_000)
        job = job_of(spark, tmp_path, 3, "10 seconds")
        job.controllers = {"in": server.url}

        def build() -> StreamingQuery:
            with starting() as choices:
                query = job.start()
            started.append(choices[0].chosen.bound_ms)
            return query

        def come(*seconds: int) -> None:
            """Wait until the query has read a batch more."""
            before = len(job.log())
            job.publish([rows_at(*seconds)])
            until(lambda: len(job.log()) > before, "a batch", seen=lambda: started)

        runner = AdaptiveQuery(build, cooldown_s=0.0, parts=Parts(poll_s=0.05))
        thread = threading.Thread(target=runner.run, daemon=True)
        thread.start()
        come(100)
        server.publish(2_000)
        until(lambda: started == [10_000, 2_000, 10_000], "the old bound, put back", seen=lambda: started)
        come(104)
        runner.stop()
        thread.join(PATIENCE_S)

    assert not thread.is_alive()
