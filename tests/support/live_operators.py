"""Every stateful operator as a plan for ``LiveJob``, with what is known of its sink, and streams made for it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F

from tidemark.models.base.operators import Operator, row_level, session, sliding, tumbling

from support.live_streams import END_US, SECOND_US, Batches, Input, closing_batch
from support.spark_streams import Row

BEYOND = "10 minutes"
"""A ceiling that no row comes near to, so that the watermark falls on the edges of granules only."""

COPY = 1_000_000
"""Ids of one event are congruent modulo this."""

ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

Plan = Callable[[Sequence[DataFrame]], DataFrame]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One operator in one output mode."""

    operator: Operator
    plan: Plan
    output_mode: str = "append"
    ceiling: str = "65 seconds"
    """Near enough to take over now and then while the slow partition holds the control back."""
    closes_us: Callable[[Row], int] | None = None
    """The time at which the operator closes a row, where that is not the ledger's key."""
    at_once: bool = False
    """Whether a row comes out in its own batch, and not when something closes."""
    distinct: bool = False
    """Whether of the rows of one event only the first comes out."""
    conf: tuple[tuple[str, str], ...] = ()
    seed: int = 0


def _collected(windows: GroupedData) -> DataFrame:
    return windows.agg(F.collect_list("id").alias("ids")).select(
        F.unix_micros("window.end").alias("key_us"), "ids"
    )


def windows(size: str, slide: str | None = None, start: str | None = None) -> Plan:
    return lambda inputs: _collected(inputs[0].groupBy(F.window("ts", size, slide, start)))


def _sessions(inputs: Sequence[DataFrame]) -> DataFrame:
    return _collected(inputs[0].groupBy(F.session_window("ts", "3 seconds").alias("window"), "partition"))


def _distinct(inputs: Sequence[DataFrame]) -> DataFrame:
    return inputs[0].withColumn("event", F.expr(f"id % {COPY}")).dropDuplicatesWithinWatermark(["event"])


def _deduplication(inputs: Sequence[DataFrame]) -> DataFrame:
    return _distinct(inputs).select(F.lit(None).cast("long").alias("key_us"), F.array("id").alias("ids"))


def _windows_of_distinct(inputs: Sequence[DataFrame]) -> DataFrame:
    return _collected(_distinct(inputs).groupBy(F.window("ts", "5 seconds")))


def _windows_of_windows(inputs: Sequence[DataFrame]) -> DataFrame:
    inner = (
        inputs[0].groupBy(F.window("ts", "5 seconds"), "partition").agg(F.collect_list("id").alias("some"))
    )
    outer = inner.groupBy(F.window(F.window_time("window"), "20 seconds"))
    ids = F.flatten(F.collect_list("some")).alias("ids")
    return outer.agg(ids).select(F.unix_micros("window.end").alias("key_us"), "ids")


def _timers(inputs: Sequence[DataFrame]) -> DataFrame:
    """Keep rows until a timer at the next whole 5 seconds."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Keep(StatefulProcessor):
        """It stands here so that it travels to the workers by value."""

        def init(self, handle: Any) -> None:
            self.handle = handle
            self.ids = handle.getListState("ids", "id long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: ARG002, N802, N803
            for frame in rows:
                self.ids.appendList([(int(identity),) for identity in frame["id"]])
            self.handle.registerTimer(int(key[1]))
            return iter(())

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: ARG002, N802, N803
            import pandas as pd

            ids = [identity for (identity,) in self.ids.get()]
            self.ids.clear()
            yield pd.DataFrame({"key_us": [int(key[1]) * 1_000], "ids": [ids]})

        def close(self) -> None:
            pass

    due_ms = F.expr("(unix_millis(ts) div 5000 + 1) * 5000").alias("due_ms")
    keyed = inputs[0].select("id", "partition", "ts", due_ms).groupBy("partition", "due_ms")
    return keyed.transformWithStateInPandas(Keep(), "key_us long, ids array<long>", "append", "EventTime")


def end_of(seconds: int) -> Callable[[Row], int]:
    size_us = seconds * SECOND_US
    return lambda row: (row.event_time_us // size_us + 1) * size_us


FIVE = tumbling("5 s")
KINDS: dict[str, Kind] = {
    "tumbling, append": Kind(operator=FIVE, plan=windows("5 seconds")),
    "tumbling, update": Kind(operator=FIVE, plan=windows("5 seconds"), output_mode="update", at_once=True),
    "tumbling, complete": Kind(
        operator=FIVE, plan=windows("5 seconds"), output_mode="complete", at_once=True
    ),
    "sliding": Kind(
        operator=sliding("10 s", "4 s", "1 s"), plan=windows("10 seconds", "4 seconds", "1 second")
    ),
    "session": Kind(operator=session("3 s"), plan=_sessions, ceiling=BEYOND),
    "deduplication": Kind(
        operator=row_level(), plan=_deduplication, ceiling=BEYOND, at_once=True, distinct=True, seed=1
    ),
    "transformWithState, timers": Kind(
        operator=row_level(),
        plan=_timers,
        ceiling=BEYOND,
        closes_us=end_of(5),
        conf=(("spark.sql.streaming.stateStore.providerClass", ROCKS),),
    ),
    "windows of windows": Kind(operator=FIVE, plan=_windows_of_windows, closes_us=end_of(20), seed=1),
    "deduplication, then windows": Kind(
        operator=row_level(), plan=_windows_of_distinct, ceiling=BEYOND, closes_us=end_of(5), distinct=True
    ),
}

FOUR = ("tumbling, append", "sliding", "session", "deduplication")
"""The operators that are tried on every version of Spark."""


# -- joins ----------------------------------------------------------------------------------------------------

BEFORE_US, AFTER_US = 4 * SECOND_US, 6 * SECOND_US
NEAR = (
    "left_key = right_key and right_ts >= left_ts - interval 4 seconds "
    "and right_ts <= left_ts + interval 6 seconds"
)


RETENTION_US = AFTER_US + 1_000
"""How far the watermark must come beyond a left row's time until the join drops it: Spark adds a millisecond."""


@dataclass(frozen=True)
class JoinKind:
    """A join, and what stands before and behind it."""

    how: str
    distinct: bool = False
    """Whether of the left rows of one event only the first is joined."""
    windows: bool = False
    """Whether the pairs are collected in windows of 5 s of the left row's time."""

    def plan(self, inputs: Sequence[DataFrame]) -> DataFrame:
        """Return the join of two inputs on id modulo 4, with the right row 4 s before to 6 s after the left one.

        A row of it has one pair of ids after the other.
        """
        first, second = inputs
        left, right = (
            frame.selectExpr(f"id as {side}_id", f"id % 4 as {side}_key", f"ts as {side}_ts")
            for frame, side in ((_distinct([first]) if self.distinct else first, "left"), (second, "right"))
        )
        pairs = left.join(right, F.expr(NEAR), self.how)
        ids = F.array("left_id", "right_id")
        if not self.windows:
            return pairs.select(F.lit(None).cast("long").alias("key_us"), ids.alias("ids"))
        windows = pairs.groupBy(F.window("left_ts", "5 seconds"))
        collected = windows.agg(F.flatten(F.collect_list(ids)).alias("ids"))
        return collected.select(F.unix_micros("window.end").alias("key_us"), "ids")


WINDOWS = ", then windows"
"""Ends the name of a join whose pairs are collected; it is tested with the rows of the join without."""
JOINS: dict[str, JoinKind] = {
    "inner": JoinKind("inner"),
    "leftOuter": JoinKind("leftOuter"),
    f"inner{WINDOWS}": JoinKind("inner", windows=True),
    f"leftOuter{WINDOWS}": JoinKind("leftOuter", windows=True),
    "deduplication, then inner": JoinKind("inner", distinct=True),
}


JOINED = (
    Input(name="left", operator=row_level(), bound="3 seconds", ceiling=BEYOND),
    Input(name="right", operator=row_level(), bound="5 seconds", ceiling=BEYOND),
)
"""The inputs of a join, each with a bound of its own."""


def join(how: str) -> Plan:
    """Return the plan of a join alone."""
    return JoinKind(how).plan


def match(left: Row, right: Row) -> bool:
    """Return whether two rows make a pair of the join."""
    apart_us = right.event_time_us - left.event_time_us
    return left.id % 4 == right.id % 4 and -BEFORE_US <= apart_us <= AFTER_US


# -- streams --------------------------------------------------------------------------------------------------


def stream_of(kind: Kind, seed: str, batches: Batches) -> tuple[Batches, Batches]:
    """Return the stream that is made of ``batches`` for an operator, and what closes it."""
    closing = [closing_batch()]
    if not kind.distinct:
        return batches, closing
    # Once its horizon is behind the watermark an event is new again.
    again = [Row(batches[number][0].id + 99 * COPY, number, END_US) for number in range(2)]
    return with_copies(seed, batches), [*closing, [], again]


def with_copies(seed: str, batches: Batches) -> Batches:
    """Return the stream with some events coming again, in a later batch and dated up to 25 seconds later."""
    rng = random.Random(f"{seed}, copies")
    result: Batches = []
    for number, rows in enumerate(batches):
        earlier = [row for before in batches[:number] for row in before]
        copies = [
            Row(row.id + number * COPY, row.partition, row.event_time_us + rng.randrange(25 * SECOND_US))
            for row in rng.sample(earlier, min(len(earlier), 4))
        ]
        result.append([*rows, *copies])
    return result
