"""``late=side(...)``: the rows that Spark drops as late are kept in a folder, by the driver, after each commit."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.types import StructType

from tidemark.models.base.operators import Operator
from tidemark.models.protocol.messages import Acknowledgement
from tidemark.spark_jobs.core.arguments import WrongValueError, checked
from tidemark.spark_jobs.core.binding import Binding, Extension, Judging, QueryRun
from tidemark.spark_jobs.core.connections import LateOption, Start, wait_at_flush
from tidemark.spark_jobs.core.judging import granules_of
from tidemark.spark_jobs.core.settings import JobSettings
from tidemark.spark_jobs.late.catch_up import CatchUp
from tidemark.spark_jobs.late.follower import RETAINED, Follower, LateSwitch
from tidemark.spark_jobs.late.late_rows import (
    LATE_COLUMN,
    LATE_IN_REAL_TIME,
    FutureRowTreatment,
    LateRule,
)
from tidemark.spark_jobs.late.missing_reports import Ledger, MissingReports
from tidemark.spark_jobs.late.origin import Origin, origin_of
from tidemark.spark_jobs.late.reread import DEFAULT_BATCHES, LateStream, Parse
from tidemark.spark_jobs.late.side_folder import ReportedRun
from tidemark.spark_jobs.live.future_rows import FutureRowRule
from tidemark.spark_jobs.spark.event_time import column_of
from tidemark.spark_jobs.spark.query_plan import Found, NoOperator
from tidemark.spark_jobs.spark.running_query import RunningQuery

_log = logging.getLogger("tidemark.spark")

_CLEAN = "cleanSource"
"""The option with which Spark's file source removes, or moves away, the files of batches that are done."""

_lock = threading.Lock()
_ended: list[Follower] = []
"""Followers of runs that have ended, which may still be catching up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side(LateOption):
    """Where late rows are kept, and how they are read again; see ``side``."""

    folder: str
    parse: Parse
    source: str | Callable[[RunningQuery], str | None] | None
    """The source, as the offset log names it; a function that finds it where the conf alone says that rows are kept."""
    origin: Origin | None
    batches_per_read: int
    dimension: str | None = None
    keep: bool = True

    @property
    def is_wish(self) -> bool:
        """Whether the conf alone says so, for which no query is ended."""
        return callable(self.source)

    def read_in(self, df: DataFrame, settings: JobSettings) -> Side:
        """Return the same with its origin and dimension as a stream has them, that comes from ``parse``.

        Raises:
            WrongValueError: when the stream's source cannot be read again, it has a column of the name ``late``, or
                none of the dimension's.
        """
        if LATE_COLUMN in (name.lower() for name in df.columns):
            why = (
                f"rows that are late get a column {LATE_COLUMN!r}, and the stream has one: name it otherwise"
            )
            raise WrongValueError("late_folder", why)
        try:
            wanted = self.dimension or settings.late_dimension
            dimension = None if wanted is None else column_of(df, wanted)
        except ValueError as error:
            raise WrongValueError("late_dimension", str(error)) from None
        return replace(self, origin=self.origin or origin_of(df), dimension=dimension)

    def extension(self, df: DataFrame, metric: str, binding: Binding, start: Start) -> SideStream:
        """Return what follows the queries in whose plan a tap stands."""
        connection, tap, settings = start.connection, binding.tap, binding.settings
        future = FutureRowRule.of(tap, settings.future_allowance, settings.future_rows)
        treats_future = binding.chosen.mode == "Live" and binding.ceiling_ms is not None
        assert self.origin is not None
        if (cleaned := (self.origin.option(_CLEAN) or "off").lower()) != "off":
            _log.warning(
                "stream %s: %s=%s removes files that its late rows are still to be read from; those rows will be "
                "unknown: leave it off",
                binding.settings.stream,
                _CLEAN,
                cleaned,
            )
        return SideStream(
            self,
            metric,
            binding,
            columns=tuple(df.columns),
            treats=FutureRowTreatment(future, tap.granule_us, tap.cut) if treats_future else None,
            ledger=None if connection is None else Ledger(connection.client, connection.sender, *binding.key),
        )


class SideStream(Extension):
    """A stream whose late rows are kept, as one plan has it: each run of a query is followed.

    Args:
        side: where they are kept; it knows the origin.
        metric: name of the tap.
        binding: the tap, and what reports of it say.
        columns: those of the stream.
        treats: how future-dated rows are treated; None where they are taken as they are.
        ledger: the controller's ledger of the stream; None without a controller.
    """

    def __init__(
        self,
        side: Side,
        metric: str,
        binding: Binding,
        *,
        columns: tuple[str, ...],
        treats: FutureRowTreatment | None,
        ledger: Ledger | None,
    ) -> None:
        self._side, self._metric, self._binding = side, metric, binding
        self._columns, self._treats, self._ledger = columns, treats, ledger
        self._switch = LateSwitch(by_call=side.keep)
        self._followers: dict[str, Follower] = {}

    def why_not(self, run: QueryRun, metric: str, judging: Judging) -> str | None:  # noqa: ARG002 - whatever judges them
        """Return why a query must not run: rows would be kept that Spark did not drop as late."""
        if self._side.is_wish:  # then none is kept
            return None
        if run.is_real_time:
            return LATE_IN_REAL_TIME
        changed = None if run.plan is None else run.plan.changes.get(metric)
        if changed is None:
            return None
        return (
            f"late=side(...) keeps rows as parse makes them, and {changed} behind adaptive_watermark drops or "
            "multiplies some before Spark judges them; put it into parse"
        )

    def started(self, run: QueryRun) -> None:
        """Follow a run, if that is possible. Synchronous with ``start()``: must be quick."""
        try:
            self._followers[run.run_id] = self._follower(run, self._operator_in(run))
        except _NotKept as why:
            _log.warning("stream %s: its late rows are not kept: %s", self._binding.settings.stream, why)
            self._switch.cannot_keep()
        except Exception:  # noqa: BLE001 - the query goes on
            _log.exception("stream %s: its late rows are not kept in this run", self._binding.settings.stream)
            self._switch.cannot_keep()

    def batch(self, run: QueryRun, progress: StreamingQueryProgress) -> None:  # noqa: ARG002 - that there is one is enough
        """Wake the follower of a run whose batch has been committed."""
        if run.run_id in self._followers:
            self._followers[run.run_id].wake()

    def acknowledged(
        self,
        run: QueryRun,  # noqa: ARG002 - the same in all
        metric: str,  # noqa: ARG002
        acknowledgement: Acknowledgement,
        batch_id: int,  # noqa: ARG002
    ) -> Acknowledgement:
        """Return ``acknowledgement`` with what becomes of late rows."""
        return replace(acknowledgement, late=self._switch.treatment)

    def ended(self, run: QueryRun, error: str) -> None:  # noqa: ARG002 - whatever it is
        """Let the follower of a run catch up a last time."""
        follower = self._followers.pop(run.run_id, None)
        if follower is not None:
            with _lock:
                _ended.append(follower)
            follower.end()

    def _operator_in(self, run: QueryRun) -> Operator:
        """Return the operator that drops the stream's rows.

        Raises:
            _NotKept: when none does, or it is not known.
        """
        plan, declared = run.plan, self._binding.operator
        if plan is None or not run.is_met_at_start:
            raise _NotKept("the query's plan could not be read as it began")
        if self._metric in plan.undropped:
            raise _NotKept("in complete mode its operator drops no row as late")
        if run.is_real_time:
            raise _NotKept("it has not been tried in real-time mode")
        in_plan, changed = plan.operators[self._metric], plan.changes.get(self._metric)
        operator = _known(in_plan, declared)
        if operator is None or declared not in {None, operator} or changed is not None:
            why = in_plan.why if isinstance(in_plan, NoOperator) else f"the query has a {in_plan}"
            raise _NotKept(why if changed is None else f"{changed} behind the watermark changes the rows")
        return operator

    def _follower(self, run: QueryRun, operator: Operator) -> Follower:
        side, binding, spark = self._side, self._binding, run.query.spark
        checkpoint = run.query.checkpoint()
        if checkpoint is None:
            raise _NotKept("the place of its checkpoint cannot be read")
        assert side.origin is not None
        late = LateStream(
            parse=side.parse,
            origin=side.origin,
            rule=LateRule(binding.tap.event_time, operator, binding.tap.partition),
            source=side.source(run.query) if callable(side.source) else side.source,
            batches_per_read=side.batches_per_read,
            columns=self._columns,
            dimension=side.dimension,
        )
        catch_up, missing = CatchUp(spark, checkpoint, side.folder, late), None
        output_mode = run.query.output_mode()
        if self._ledger is None or output_mode is None:
            catch_up.begins(self._treats)
        else:
            reported = ReportedRun(run.run_id, output_mode, binding.chosen)
            catch_up.begins(self._treats, reported)
            missing = MissingReports(
                spark,
                checkpoint,
                side.folder,
                late,
                binding=binding,
                granules=granules_of(binding, operator),
                ledger=self._ledger,
            )
        return Follower(
            binding.settings.stream,
            catch_up,
            int(spark.conf.get(RETAINED) or 0),
            switch=self._switch,
            ledger=self._ledger,
            missing=missing,
        )


class _NotKept(Exception):
    """Late rows cannot be kept in a run; the message says why."""


def _known(in_plan: Found, declared: Operator | None) -> Operator | None:
    """Return the operator that drops a stream's rows; None when none does, or it is not known."""
    if not isinstance(in_plan, NoOperator):
        return in_plan
    return None if in_plan.kind in {"NothingLate", "Unsupported", "Uncounted"} else declared


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
    Spark itself (``late.reread``).

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


def wait_for_followers(timeout_s: float) -> bool:
    """Wait until the late rows of all ended runs are kept; return whether they are."""
    deadline = time.monotonic() + timeout_s
    with _lock:
        every = list(_ended)
    done = [follower for follower in every if follower.join(deadline - time.monotonic())]
    with _lock:
        _ended[:] = [follower for follower in _ended if follower not in done]
    return len(done) == len(every)


wait_at_flush(wait_for_followers)
