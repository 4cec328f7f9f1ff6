"""What real Spark does at each row of the table of stateful operators: small plain queries, and what came of them.

All have the bound 10 s. Old rows come at 100 s, so that their windows of 5 s and their sessions end at 105 s; then rows
move the watermark to 106 s, past their keys, and the late rows come; to 140 s, past the keys by more than the bound and
the range of a join; and far ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
from pyspark.sql import Column, DataFrame
from pyspark.sql import Row as SqlRow
from pyspark.sql import functions as F

from support.patience import until
from support.spark_streams import EPOCH_US, SCHEMA, Row, write_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["RUNS", "Observed", "OperatorRun", "observe"]

BOUND = "10 seconds"
OLD, LATE, BETWEEN = range(100, 160), range(200, 205), range(300, 305)
"""Ids: rows whose state is watched; rows below W(n-1); rows between W(n-1) and W(n)."""
_NEWEST_S = (100, 116, 117, 130, 131, 150, 151, 10_000, 10_001)
"""By batch the newest event time: W is 0, 90, 106, 107, 120, 121, 140, 141 and 9,991 s."""
_LATE_IN = 4
_LOOKED_AT = (0, 2, 6, 8)
"""Batches after which the state is counted: as the old rows came, with a watermark past their keys, by the bound and a
range later, and for good."""
_WHEN = ("at the key", "later", "far later")
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"


class Observed(NamedTuple):
    """What Spark did."""

    late_missing: int
    """Of the late rows, those that the sink did not get."""
    between_missing: int
    """The same of those at or below the watermark of their own batch alone."""
    kept: tuple[bool, ...]
    """Whether the old rows were in the state, at each of the four looks."""

    @property
    def text(self) -> str:
        """The same in words."""
        late = "drops late rows" if self.late_missing else "drops none"
        if not self.kept[0]:
            return f"{late}, keeps no row each"
        ends = (when for kept, when in zip(self.kept[1:], _WHEN, strict=True) if not kept)
        return f"{late}, forgets {next(ends, 'nothing')}"


@dataclass(frozen=True)
class OperatorRun:
    """A query at one row of the table."""

    operator: str
    case: str
    name: str
    query: Callable[[Sequence[DataFrame]], DataFrame]
    mode: str = "append"
    inputs: int = 1
    rocks: bool = False
    forgets: bool | None = None
    """Whether the user's function, or what it sets, lets the old rows go; None where that is not up to it."""
    watched: bool = True
    """Whether the state is this operator's alone."""
    needs: str | None = None
    """The method of ``GroupedData`` that it calls, which not every Spark has."""


_Inputs = Sequence[DataFrame]
_Query = Callable[[_Inputs], DataFrame]


def _ids(*keys: Callable[[], Column] | str) -> _Query:
    def query(inputs: _Inputs) -> DataFrame:
        grouped = inputs[0].groupBy(*[key if isinstance(key, str) else key() for key in keys])
        return grouped.agg(F.collect_list("id").alias("ids"))

    return query


def _window() -> Column:
    return F.window("ts", "5 seconds")


def _of_windows(inputs: _Inputs) -> DataFrame:
    first = inputs[0].groupBy(_window(), "id").agg(F.collect_list("id").alias("some"))
    both = first.groupBy(F.window(F.window_time("window"), "20 seconds"), "id")
    return both.agg(F.flatten(F.collect_list("some")).alias("ids"))


_NEAR = "lid = rid and rts between lts - interval 12 seconds and lts + interval 12 seconds"


def _joined(how: str, on: str = _NEAR, *, needed: bool = True) -> _Query:
    def query(inputs: _Inputs) -> DataFrame:
        left, right = (
            df.select(F.col("id").alias(f"{name}id"), time().alias(f"{name}{short}"))
            for df, name in zip(inputs, "lr", strict=True)
        )
        return left.join(right, F.expr(on), how).select(
            F.array("lid").alias("ids"), *([f"l{short}"] if needed else [])
        )

    short, time = ("w", _window) if "lw" in on else ("ts", lambda: F.col("ts"))
    return query


_NO_TIME = "cast(id as long) as id", "array(id) as ids"


def _transformed(mode: str, clear: str | None, *, rows: bool = False) -> _Query:
    """Return a ``transformWithState`` that keeps a row of state for each key, and lets it go as ``clear`` says."""

    def query(inputs: _Inputs) -> DataFrame:
        from pyspark.sql.streaming.stateful_processor import StatefulProcessor

        # Within the function: Spark's workers cannot import this module.
        class Processor(StatefulProcessor):
            def init(self, handle: Any) -> None:
                self._handle = handle
                options = {"ttlDurationMs": 1} if clear == "ttl" else {}
                self._state = handle.getValueState("n", "n long", **options)

            def handleInputRows(self, key: Any, rows_of_key: Any, timers: Any) -> Iterator[Any]:  # noqa: N802, ARG002
                self._state.update((1,))
                if clear == "event time":
                    self._handle.registerTimer(max(timers.getCurrentWatermarkInMs(), 0) + 1)
                elif clear == "clock":
                    self._handle.registerTimer(timers.getCurrentProcessingTimeInMs() + 1)
                if rows:
                    yield SqlRow(ids=[row.id for row in rows_of_key])
                else:
                    yield pd.DataFrame({"ids": [[i for frame in rows_of_key for i in frame["id"].tolist()]]})

            def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:  # noqa: N802, N803, ARG002
                self._state.clear()
                return iter(())

            def close(self) -> None: ...

        grouped = inputs[0].groupBy("id")
        transform = getattr(grouped, "transformWithState" if rows else "transformWithStateInPandas")
        made: DataFrame = transform(Processor(), "ids array<long>", "append", mode)
        return made

    return query


def _mapped(timeout: str, *, forgets: bool) -> _Query:
    def each(_: Any, frames: Any, state: Any) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            state.remove()
            return
        ids = [identity for frame in frames for identity in frame["id"].tolist()]
        state.update((1,))
        if forgets and timeout == "NoTimeout":
            state.remove()
        elif forgets and timeout == "EventTimeTimeout":
            state.setTimeoutTimestamp(max(state.getCurrentWatermarkMs(), 0) + 1)
        elif forgets:
            state.setTimeoutDuration(1)
        yield pd.DataFrame({"ids": [ids]})

    return lambda inputs: (
        inputs[0].groupBy("id").applyInPandasWithState(each, "ids array<long>", "n long", "append", timeout)
    )


def _deduplicated(*keys: str, within: bool = False, needed: bool = True) -> _Query:
    def query(inputs: _Inputs) -> DataFrame:
        df = inputs[0].dropDuplicatesWithinWatermark([*keys]) if within else inputs[0].dropDuplicates([*keys])
        return df.selectExpr(*_NO_TIME, *(["ts"] if needed else []))

    return query


def _counted_again(inputs: _Inputs) -> DataFrame:
    return _ids("id")([inputs[0].dropDuplicates(["id", "ts"])])


def _session() -> Column:
    return F.session_window("ts", "5 seconds")


def _distinct(inputs: _Inputs) -> DataFrame:
    return inputs[0].select("id", "ts").distinct().select(F.array("id").alias("ids"))


def _before_a_count(inputs: _Inputs) -> DataFrame:
    return _ids("id")([inputs[0].dropDuplicates(["id", "ts"])])


_SAME_WINDOW = "lid = rid and lw = rw"
_RANGE = "range of event times"
_UNREADABLE = "lid = rid and date_trunc('hour', lts) = date_trunc('hour', rts)"
_TWS, _MAPPED = "transformWithState", "flatMapGroupsWithState"


def _all_runs() -> Iterator[OperatorRun]:
    run = OperatorRun
    window, session, time = (f"{what} among its keys" for what in ("window", "session", "event time"))
    for mode in ("append", "update"):
        yield run("aggregate", window, mode, _ids(_window, "id"), mode)
        yield run("aggregate", time, mode, _ids("ts", "id"), mode)
    yield run("aggregate", window, "windows of windows", _of_windows, watched=False)
    yield run("aggregate", session, "append", _ids(_session, "id"))
    yield run("aggregate", time, "distinct", _distinct)
    yield run("aggregate", "keys without event time", "update", _ids("id"), "update")
    yield run(
        "aggregate",
        "keys without event time",
        "the window's end",
        _ids(lambda: _window()["end"], "id"),
        "update",
    )
    yield run("aggregate", "no keys", "update", _ids(), "update")
    yield run("aggregate", f"{window}, complete mode", "counts", _ids(_window, "id"), "complete")
    yield run("aggregate", f"{time}, complete mode", "counts", _ids("ts", "id"), "complete")
    yield run("aggregate", f"{session}, complete mode", "counts", _ids(_session, "id"), "complete")
    once = "dropDuplicates"
    yield run(once, time, "append", _deduplicated("id", "ts"))
    yield run(once, time, "update", _deduplicated("id", "ts"), "update")
    yield run(once, time, "before a count in complete mode", _before_a_count, "complete", watched=False)
    yield run(once, "keys without event time", "append", _deduplicated("id"))
    yield run(once, "no event time reaches it", "append", _deduplicated("id", needed=False))
    yield run(f"{once}WithinWatermark", "", "append", _deduplicated("id", within=True))
    for how in ("inner", "leftOuter", "rightOuter", "fullOuter", "leftSemi"):
        yield run("join", _RANGE, how, _joined(how), inputs=2)
    yield run("join", "windows among its keys", "inner", _joined("inner", _SAME_WINDOW), inputs=2)
    yield run("join", "windows among its keys", "leftOuter", _joined("leftOuter", _SAME_WINDOW), inputs=2)
    yield run("join", "no range that Spark reads", "no range", _joined("inner", "lid = rid"), inputs=2)
    yield run("join", "no range that Spark reads", "date_trunc", _joined("inner", _UNREADABLE), inputs=2)
    yield run(
        "join", "no event time reaches it", "inner", _joined("inner", "lid = rid", needed=False), inputs=2
    )
    for mode, clears in (("None", ()), ("ProcessingTime", ("clock", "ttl")), ("EventTime", ("event time",))):
        for clear in (None, *clears):
            name = "keeps all" if clear is None else f"by {clear}"
            yield run(
                _TWS,
                mode,
                f"{name}",
                _transformed(mode, clear),
                rocks=True,
                forgets=clear is not None,
                needs=f"{_TWS}InPandas",
            )
        yield run(
            _TWS, mode, "rows", _transformed(mode, None, rows=True), rocks=True, forgets=False, needs=_TWS
        )
    for timeout in ("NoTimeout", "ProcessingTimeTimeout", "EventTimeTimeout"):
        for forgets in (False, True):
            name = "forgets" if forgets else "keeps all"
            yield run(_MAPPED, timeout, name, _mapped(timeout, forgets=forgets), forgets=forgets)
    yield run(
        "limit", "", "append", lambda inputs: inputs[0].limit(10**6).select(F.array("id").alias("ids"), "ts")
    )


RUNS = {f"{run.operator} ({run.case}): {run.name}": run for run in _all_runs()}
"""By name."""


def _plain(df: DataFrame, side: int) -> DataFrame:
    return df.withWatermark("ts", BOUND)


def observe(
    spark: SparkSession,
    folder: Path,
    run: OperatorRun,
    watermark: Callable[[DataFrame, int], DataFrame] = _plain,
) -> Observed:
    """Run a query and return what Spark did.

    Args:
        watermark: gives an input, by its number, its watermark.
    """
    for number, newest_s in enumerate(_NEWEST_S):
        for side in range(run.inputs):
            write_batch(folder / f"in-{side}", number, _batch(number, newest_s, side))
    read = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    inputs = [watermark(read.json(str(folder / f"in-{side}")), side) for side in range(run.inputs)]
    came: set[int] = set()

    def take(df: DataFrame, _: int) -> None:
        came.update(
            identity
            for row in df.select("ids").collect()
            for identity in row.ids or ()
            if identity is not None
        )

    before = str(spark.conf.get(_PROVIDER))
    if run.rocks:
        spark.conf.set(_PROVIDER, _ROCKS)
    try:
        query = (
            run.query(inputs)
            .writeStream.foreachBatch(take)
            .outputMode(run.mode)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        # With timeouts by the clock Spark runs batches without rows for ever.
        until(lambda: not query.isActive or _LOOKED_AT[-1] in _state_rows(query), "the last batch with rows")
        query.stop()
    finally:
        spark.conf.set(_PROVIDER, before)
    rows = _state_rows(query)
    if not rows.keys() >= {*_LOOKED_AT}:
        raise RuntimeError(str(query.exception()))
    return Observed(
        len({*LATE} - came),
        len({*BETWEEN} - came),
        tuple(rows[batch] >= len(OLD) for batch in _LOOKED_AT),
    )


def _state_rows(query: StreamingQuery) -> dict[int, int]:
    """Return by batch how many rows are in the state after it."""
    run = (progress for progress in query.recentProgress if "addBatch" in progress["durationMs"])
    return {each["batchId"]: sum(state["numRowsTotal"] for state in each["stateOperators"]) for each in run}


def _batch(number: int, newest_s: int, side: int) -> Iterator[Row]:
    """Return the rows of a batch of one input; the second has the partners of the first's rows in time."""
    yield Row(number, 0, _us(newest_s))
    if number == 0:
        yield from (Row(identity, 0, _us(100)) for identity in OLD)
    if number == (0 if side else _LATE_IN):
        yield from (Row(identity, 0, _us(100)) for identity in LATE)
        yield from (Row(identity, 0, _us(110)) for identity in BETWEEN)


def _us(second: int) -> int:
    return EPOCH_US + second * 1_000_000
