"""``late=side(...)``: the rows that Spark drops as late are kept in a folder, by the driver, after each commit."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)
from pyspark.sql.types import StructType

from tidemark.models.operators import Operator
from tidemark.models.wire import OutputMode
from tidemark.spark_jobs.core.arguments import checked
from tidemark.spark_jobs.core.binding import Binding
from tidemark.spark_jobs.core.connections import wait_at_flush
from tidemark.spark_jobs.core.judging import granules_of
from tidemark.spark_jobs.late.catch_up import CatchUp
from tidemark.spark_jobs.late.follower import RETAINED, Follower, LateSwitch
from tidemark.spark_jobs.late.late_rows import LATE_COLUMN, FutureRowTreatment, LateRule
from tidemark.spark_jobs.late.missing_reports import Ledger, MissingReports
from tidemark.spark_jobs.late.origin import Origin, origin_of
from tidemark.spark_jobs.late.reread import DEFAULT_BATCHES, LateStream, Parse
from tidemark.spark_jobs.late.side_folder import ReportedRun
from tidemark.spark_jobs.live.future_rows import FutureRowRule
from tidemark.spark_jobs.spark.event_time import column_of
from tidemark.spark_jobs.spark.progress import JsonListener
from tidemark.spark_jobs.spark.query_plan import Found, NoOperator
from tidemark.spark_jobs.spark.running_query import RunningQuery

_log = logging.getLogger("tidemark.spark")

_CLEAN = "cleanSource"
"""The option with which Spark's file source removes, or moves away, the files of batches that are done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Where late rows are kept, and how they are read again; see ``side``."""

    folder: str
    parse: Parse
    source: str | None
    origin: Origin | None
    batches_per_read: int
    dimension: str | None = None
    keep: bool = True

    def follow(
        self,
        df: DataFrame,
        metric: str,
        binding: Binding,
        *,
        future: FutureRowRule | None,
        ledger: Ledger | None = None,
    ) -> LateSwitch:
        """Let the queries in whose plan the tap ``metric`` stands be followed; return whether late rows are kept.

        Args:
            df: the stream, as it comes from ``parse``.
            metric: name of the tap.
            binding: the tap, and what reports of it say.
            future: how the plan treats future-dated rows; None where it takes them as they are.
            ledger: the controller's ledger of the stream; None without a controller.

        Raises:
            ValueError: when the stream's source cannot be read again, it has a column of the name ``late``, or none of
                the dimension's.
        """
        if LATE_COLUMN in (name.lower() for name in df.columns):
            raise ValueError(
                f"late=side(...) adds a column {LATE_COLUMN!r}, and the stream has one: name it otherwise"
            )
        dimension = None if self.dimension is None else column_of(df, self.dimension)
        spark = df.sparkSession
        origin, columns = self.origin or origin_of(df), tuple(df.columns)
        if (cleaned := (origin.option(_CLEAN) or "off").lower()) != "off":
            _log.warning(
                "stream %s: %s=%s removes files that its late rows are still to be read from; those rows will be "
                "unknown: leave it off",
                binding.stream,
                _CLEAN,
                cleaned,
            )
        tap = binding.tap
        treats = None if future is None else FutureRowTreatment(future, tap.granule_us, tap.cut)

        def make(begun: Begun, operator: Operator) -> tuple[CatchUp, MissingReports | None]:
            late = LateStream(
                parse=self.parse,
                origin=origin,
                rule=LateRule(tap.event_time, operator, tap.partition),
                source=self.source,
                batches_per_read=self.batches_per_read,
                columns=columns,
                dimension=dimension,
            )
            catch_up = CatchUp(spark, begun.checkpoint, self.folder, late)
            if ledger is None or begun.output_mode is None:
                catch_up.begins(treats)
                return catch_up, None
            catch_up.begins(
                treats, ReportedRun(begun.run_id, begun.output_mode, binding.bound_ms, binding.generation)
            )
            missing = MissingReports(
                spark,
                begun.checkpoint,
                self.folder,
                late,
                binding=binding,
                granules=granules_of(binding, operator),
                ledger=ledger,
            )
            return catch_up, missing

        switch = LateSwitch(by_call=self.keep)
        followers_of(spark).add(metric, Followed(binding.stream, binding.operator, make, switch, ledger))
        return switch


@checked()
def side(
    folder: str,
    *,
    parse: Parse,
    source: str | None = None,
    format: str | None = None,  # noqa: A002 - as Spark's readers name it
    options: Mapping[str, str] | None = None,
    schema: StructType | None = None,
    batches_per_read: int = DEFAULT_BATCHES,
    dimension: str | None = None,
    keep: bool = True,
) -> Side:
    """Return what ``adaptive_watermark(late=...)`` needs to keep the rows that Spark drops.

        raw.transform(parse).transform(adaptive_watermark(..., late=side("/data/late/clicks", parse=parse)))

    After each commit the driver reads the batch again, between the offsets that the checkpoint has of it, and writes
    what was late to ``folder`` as Parquet, with a column ``late``. Kafka and files are read by ranges, other sources by
    Spark itself (``late.replay``).

    Args:
        folder: a path or URI; each stream of each checkpoint needs its own.
        parse: makes rows of the source's columns, with deterministic functions only. The stream must be
            ``raw.transform(parse).transform(adaptive_watermark(...))``.
        source: the source in the query's plan, by its place (``"0"``) or name; needed if the query has several.
        format: format of the source, with ``options`` and ``schema``; read from the plan unless given.
        options: options of the source's reader.
        schema: columns of a file source.
        batches_per_read: how many batches are read at once at most.
        dimension: a column such as the region: all rows and those that are lost are counted by its values and
            by partition, for ``tidemark lost``. It takes one more read of each batch.
        keep: whether late rows are kept while the stream's policy does not say.

    Raises:
        ValueError: when an argument is wrong.
    """
    if format is None and (options is not None or schema is not None):
        raise ValueError("options= and schema= go with format=: give all of what reads the source")
    origin = None if format is None else Origin(format, dict(options or {}), schema)
    return Side(
        folder=folder,
        parse=parse,
        source=source,
        origin=origin,
        batches_per_read=batches_per_read,
        dimension=dimension,
        keep=keep,
    )


_lock = threading.Lock()
_followers: dict[SparkSession, Followers] = {}


@dataclass(frozen=True, slots=True)
class Begun:
    """A run of a query that begins."""

    run_id: str
    """Spark's id of it."""
    checkpoint: str
    """Where the query's checkpoint is."""
    output_mode: OutputMode | None
    """Spark's output mode; None when it cannot be read."""


Make = Callable[[Begun, Operator], tuple[CatchUp, MissingReports | None]]
"""Makes what catches up with a stream, of a run and the operator behind the watermark; and what completes its ledger,
None without a controller."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A stream whose late rows are to be kept."""

    name: str
    """Name of the stream, for the log."""
    operator: Operator | None
    """What the call declares; None to read it from the plan."""
    make: Make
    switch: LateSwitch
    """Whether its late rows are kept."""
    ledger: Ledger | None = None
    """None without a controller."""


class Followers(JsonListener):
    """The followers of a session's queries; as a listener it wakes them, and reads no progress.

    Args:
        spark: the session whose queries are followed.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._streams: dict[str, Followed] = {}
        self._runs: dict[str, list[Follower]] = {}
        self._ended: list[Follower] = []

    def add(self, metric: str, stream: Followed) -> None:
        """Let the stream of the tap ``metric`` be followed in every query that has it."""
        self._streams[metric] = stream

    def wait(self, timeout_s: float) -> bool:
        """Wait until the followers of ended runs have ended; return whether they have."""
        deadline = time.monotonic() + timeout_s
        try:
            active = {str(query.runId) for query in self._spark.streams.active}
        except Exception:  # noqa: BLE001 - the session has ended, and with it all queries
            return False
        # A run may have ended before this listener was notified.
        for run_id in [run_id for run_id in list(self._runs) if run_id not in active]:
            self._end(run_id)
        for follower in list(self._ended):
            if follower.join(deadline - time.monotonic()):
                self._ended.remove(follower)
        return not self._ended

    # -- Spark's callbacks ------------------------------------------------------------------------------------

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Follow the query's streams. Synchronous with ``start()``: must be quick."""
        query = RunningQuery(self._spark, str(event.id))
        plan = query.plan()
        checkpoint = query.checkpoint()
        if plan is None or checkpoint is None:
            _log.error(
                "query %s: its late rows are not kept: its plan or checkpoint cannot be read", event.id
            )
            return
        mine = {metric: self._streams[metric] for metric in plan.operators if metric in self._streams}
        begun = Begun(str(event.runId), checkpoint, query.output_mode())
        if mine and begun.output_mode == "complete":
            _log.error("query %s: in complete mode no row is dropped as late, so none is kept", event.id)
            for stream in mine.values():
                stream.switch.cannot_keep()
            return
        retained = int(self._spark.conf.get(RETAINED) or 0)
        followers = self._runs[begun.run_id] = []
        for metric, stream in mine.items():
            found, declared = plan.operators[metric], stream.operator
            operator, changed = _known(found, declared), plan.changes.get(metric)
            if operator is None or declared not in {None, operator} or changed is not None:
                why = found.why if isinstance(found, NoOperator) else f"the query has a {found}"
                why = why if changed is None else f"{changed} behind adaptive_watermark changes the rows"
                _log.error("stream %s: its late rows are not kept: %s", stream.name, why)
                stream.switch.cannot_keep()
                continue
            try:
                catch_up, missing = stream.make(begun, operator)
                followers.append(
                    Follower(
                        stream.name,
                        catch_up,
                        retained,
                        switch=stream.switch,
                        ledger=stream.ledger,
                        missing=missing,
                    )
                )
            except Exception:  # noqa: BLE001 - the query goes on
                _log.exception("stream %s: its late rows are not kept in this run", stream.name)
                stream.switch.cannot_keep()

    def committed(self, run_id: str) -> None:
        """Wake the followers of a run."""
        for follower in self._runs.get(run_id, ()):
            follower.wake()

    def wants(self, run_id: str, batch_id: int) -> bool:  # noqa: ARG002 - that there is one is enough
        """Return False: no progress is read."""
        return False

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Wake the followers, where PySpark's own listener reads each progress."""
        self.committed(str(event.progress.runId))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Ignore: an idle trigger runs no batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Let the followers of a run catch up a last time."""
        self._end(str(event.runId))

    def _end(self, run_id: str) -> None:
        for follower in self._runs.pop(run_id, ()):
            self._ended.append(follower)
            follower.end()


def _known(found: Found, declared: Operator | None) -> Operator | None:
    """Return the operator that drops a stream's rows; None when none does, or it is not known."""
    if not isinstance(found, NoOperator):
        return found
    return None if found.kind in {"NothingLate", "Unsupported", "Uncounted"} else declared


def followers_of(spark: SparkSession) -> Followers:
    """Return the session's followers; they are added to the session with the first call."""
    with _lock:
        if spark not in _followers:
            _followers[spark] = Followers(spark)
            spark.streams.addListener(_followers[spark])
        return _followers[spark]


def wait_for_followers(timeout_s: float) -> bool:
    """Wait until the late rows of all ended runs are kept; return whether they are."""
    deadline = time.monotonic() + timeout_s
    with _lock:
        every = list(_followers.values())
    waited = [each.wait(deadline - time.monotonic()) for each in every]
    return all(waited)


wait_at_flush(wait_for_followers)
