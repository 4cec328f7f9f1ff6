"""A streaming source that replays a trace: true partitions, true event times, true order of arrival.

    register_trace_source(spark)
    spark.readStream.format("tidemark_trace").option("path", "trace.parquet").option("speed", "60").load()

A trace is Parquet with ``seq`` (order of arrival), ``event_time_us``, ``arrival_time_us`` (UTC microseconds) and
``partition``, in order of ``seq``. Rows come out as ``seq long, event_time timestamp, arrival_time timestamp,
partition string``. The offset is a number of rows, so a replay from a checkpoint is exact.

The class travels to Spark's Python workers by value, since the worker that plans a source does not see ``--py-files``
(Spark 4.2.0, measured): they need pyspark and pyarrow, and nothing of ours.
"""

from __future__ import annotations

import bisect
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from tidemark.spark_jobs.demo.plan import TRACE_COLUMNS
from tidemark.spark_jobs.spark.jvm import find, named

_SCHEMA = "seq long, event_time timestamp, arrival_time timestamp, partition string"
_SESSION = named(
    "traces in a second session of one driver",
    "org.apache.spark.sql.classic.SparkSession",
    older="org.apache.spark.sql.SparkSession",
)
_OPTIONS = {"path", "speed", "slot_us", "until", "shards"}


@dataclass
class _Rows(InputPartition):
    """Rows ``first`` to ``last`` (not included), by order of arrival."""

    first: int
    last: int


def register_trace_source(spark: SparkSession) -> None:
    """Make the format ``tidemark_trace`` known to a session. Its class travels by value.

    Spark (4.2, ``DataSourceManager``) looks for a source of that name in the *active* session instead of the one that
    is to have it, and so refuses a second session what the first one has. Therefore this one is active meanwhile.
    """
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    sessions = find(_SESSION)
    if sessions is None:
        spark.dataSource.register(TraceSource)
        return
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        spark.dataSource.register(TraceSource)
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


class TraceSource(DataSource):
    """The data source ``tidemark_trace``.

    Options:
        path: the trace, one Parquet file that driver and executors can read.
        speed: how much faster than it happened: ``1`` (the default) is real time, ``60`` a minute a second.
        slot_us: instead of by the clock, each batch takes the arrivals of the next slot of that many microseconds.
        until: number of rows after which the replay stops; all unless given.
        shards: Spark tasks that read a batch; 1 unless given.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name to give to ``format()``."""
        return "tidemark_trace"

    def schema(self) -> str:
        """Return the columns that come out."""
        return _SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's signature
        """Return the reader."""
        return TraceStreamReader(dict(self.options))


class TraceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches by arrival time and reads their rows.

    Raises:
        ValueError: when an option is unknown or wrong, or the file is no trace.
    """

    def __init__(self, options: dict[str, str]) -> None:
        options = {key.lower(): value for key, value in options.items()}
        unknown = options.keys() - _OPTIONS
        if unknown or "path" not in options:
            raise ValueError(
                "tidemark_trace: the option path is needed, and speed, slot_us, until, shards may be given; "
                f"got {', '.join(sorted(options))}"
            )
        self._path = options["path"]
        self._speed = _positive(options, "speed", 1.0)
        self._slot_us = int(_positive(options, "slot_us", 0.0))
        self._shards = int(_positive(options, "shards", 1.0))
        self._until = int(_positive(options, "until", 0.0)) or None
        self._arrivals: list[int] | None = None
        self._started: tuple[float, int] | None = None
        self._everything_has_arrived = False
        self._latest: dict[str, int] | None = None

    # -- in the driver ------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the offset before the first row."""
        return {"rows": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802 - Spark's
        """Return how far the batch goes that begins at ``start``."""
        self._latest = self._reached(start)
        return self._latest

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802 - Spark's name
        """Return how far the trace has arrived: a batch takes all of it, so there is never a backlog."""
        return self._latest

    def _reached(self, start: dict[str, int]) -> dict[str, int]:
        arrivals = self._load()
        first = start["rows"]
        end = len(arrivals) if self._until is None else min(self._until, len(arrivals))
        if first >= end:
            return start
        if self._slot_us:
            slot = (arrivals[first] - arrivals[0]) // self._slot_us
            reached = arrivals[0] + (slot + 1) * self._slot_us - 1
        else:
            if self._everything_has_arrived:
                return {"rows": end}
            # A restart goes on where the checkpoint stands; the pause is not replayed.
            if self._started is None:
                self._started = time.monotonic(), arrivals[first]
            began, at = self._started
            reached = at + round((time.monotonic() - began) * self._speed * 1_000_000)
        return {"rows": max(first, min(bisect.bisect_right(arrivals, reached), end))}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Let ``trigger(availableNow=True)`` have the whole trace: without slots in one batch, else slot by slot."""
        self._everything_has_arrived = True

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Cut the batch into shards."""
        first, last = start["rows"], end["rows"]
        cuts = [first + (last - first) * shard // self._shards for shard in range(self._shards + 1)]
        return [_Rows(low, high) for low, high in itertools.pairwise(cuts) if low < high]

    def commit(self, end: dict[str, int]) -> None:
        """Do nothing: a trace is not consumed."""

    def _load(self) -> list[int]:
        if self._arrivals is None:
            import pyarrow.parquet as pq

            times = pq.read_table(self._path, columns=["arrival_time_us"])["arrival_time_us"]
            self._arrivals = times.to_pylist()
        return self._arrivals

    # -- in an executor -----------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of one shard as Arrow record batches, reading only the row groups that hold them."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not isinstance(partition, _Rows):
            raise TypeError(f"not a shard of this source: {partition!r}")
        with pq.ParquetFile(self._path) as file:
            group_first = 0
            for group in range(file.num_row_groups):
                group_last = group_first + file.metadata.row_group(group).num_rows
                low, high = max(partition.first, group_first), min(partition.last, group_last)
                if low < high:
                    table = file.read_row_group(group, columns=list(TRACE_COLUMNS)).slice(
                        low - group_first, high - low
                    )
                    instant = pa.timestamp("us", tz="UTC")
                    yield from pa.table(
                        {
                            "seq": table["seq"].cast(pa.int64()),
                            "event_time": table["event_time_us"].cast(instant),
                            "arrival_time": table["arrival_time_us"].cast(instant),
                            "partition": table["partition"].cast(pa.string()),
                        }
                    ).to_batches()
                group_first = group_last


def _positive(options: dict[str, str], name: str, default: float) -> float:
    text = options.get(name)
    if text is None:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise ValueError(f"tidemark_trace: {name} is {text!r}; it must be a number above 0")
    return value
