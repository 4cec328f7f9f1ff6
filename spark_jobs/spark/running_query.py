"""What Spark has of a running query and does not pass to its listeners: its plan, trigger and logged watermarks.

The offset log of a checkpoint holds the watermark of every batch, also of those before a restart, which the late rule
needs for the first batch of a run (Spark 4.2, ``MicroBatchExecution``, ``OffsetSeqMetadata.batchWatermarkMs``). There
is no public way to it, so this module (and ``between_batches``) reaches into Spark's internals: see ``jvm``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from tidemark.models.base.stateful import WatermarkPolicy
from tidemark.models.protocol.datasets import NO_DATASETS, Datasets
from tidemark.models.protocol.messages import OutputMode, RunEnd
from tidemark.spark_jobs.spark.java_classes import JavaClasses, java_array
from tidemark.spark_jobs.spark.jvm import (
    FAILURE,
    INITIALIZING,
    TERMINATED,
    Py4JError,
    SparkContext,
    constant,
    find,
    member_of,
)
from tidemark.spark_jobs.spark.progress import progress_of
from tidemark.spark_jobs.spark.query_plan import NoOperator, QueryPlan, read_plan

T = TypeVar("T")
_RUN_ENDS: dict[str, RunEnd] = {"OneTimeTrigger": "Once", "AvailableNowTrigger": "AvailableNow"}
_log = logging.getLogger("tidemark.spark")
_POLICY_KEY = "spark.sql.streaming.multipleWatermarkPolicy"
_METRICS_KEY = "spark.sql.streaming.metricsEnabled"
_OUTPUT_MODES: dict[str, OutputMode] = {"Append": "append", "Update": "update", "Complete": "complete"}


class RunningQuery:
    """A handle on one run of a query; it stays valid after the run has ended.

    Args:
        spark: the session the query runs in.
        query_id: the query's persistent id. The query must be active.
    """

    unread_level = logging.ERROR
    """Level of the log for a plan that cannot be read."""
    unread = NoOperator(
        "Uncounted", "the query's plan cannot be read, so it is not known which rows its operator gets"
    )
    """What is known of its operators when its plan cannot be read."""

    def __init__(self, spark: SparkSession, query_id: str) -> None:
        self.spark = spark
        """The session the query runs in."""
        self.query_id = query_id
        """The query's persistent id."""
        self._metadata: str | None = None
        """What the offset log's entries call their metadata; None until one is read."""
        self._policy: WatermarkPolicy | None = None
        self._output_mode: OutputMode | None = None
        self._execution = self._find()

    def _find(self) -> Any:
        """Return Spark's own object of the query; None when it is out of reach."""
        try:
            wrapper = self.spark._jsparkSession.streams().get(self.query_id)  # noqa: SLF001 - see the module's docstring
            return None if wrapper is None else wrapper.streamingQuery()
        except (Py4JError, AttributeError) as error:
            _log.warning("query %s: its execution cannot be read: %s", self.query_id, error)
            return None

    def _session(self) -> Any:
        """Return Spark's session of the query's batches; before 4.0 that it was started in, which has its settings."""
        return getattr(self._execution, member_of(self._execution, "sparkSessionForStream", "sparkSession"))()

    def output_mode(self) -> OutputMode | None:
        """Return the query's output mode; None when it cannot be read."""
        try:
            if self._output_mode is None and self._execution is not None:
                self._output_mode = _OUTPUT_MODES.get(self._execution.outputMode().toString())
        except Py4JError as error:
            _log.warning("the output mode cannot be read: %s", error)
        return self._output_mode

    def checkpoint(self) -> str | None:
        """Return where the query's checkpoint is; None when it cannot be read."""
        try:
            return None if self._execution is None else str(self._execution.resolvedCheckpointRoot())
        except Py4JError as error:
            _log.warning("the place of the checkpoint cannot be read: %s", error)
            return None

    def logged_watermark_ms(self, batch_id: int) -> int | None:
        """Return the watermark in force in ``batch_id`` as the checkpoint logged it; None when it is not there."""
        return self._logged(batch_id, "batchWatermarkMs")

    def logged_clock_ms(self, batch_id: int) -> int | None:
        """Return what ``current_timestamp()`` is in ``batch_id``; None when the checkpoint does not have it."""
        return self._logged(batch_id, "batchTimestampMs")

    def _logged(self, batch_id: int, what: str) -> int | None:
        if self._execution is None or batch_id < 0:
            return None
        try:
            entry = self._execution.offsetLog().get(batch_id)
            if not entry.isDefined():
                return None
            offsets = entry.get()
            if self._metadata is None:
                self._metadata = member_of(offsets, "metadataOpt", "metadata")
            metadata = getattr(offsets, self._metadata)()
            return int(getattr(metadata.get(), what)()) if metadata.isDefined() else None
        except Py4JError as error:
            _log.warning("%s of batch %d cannot be read from the checkpoint: %s", what, batch_id, error)
            return None

    def unread_of(self, tap: str) -> NoOperator:  # noqa: ARG002 - elsewhere it depends on that
        """Return what is known of a tap's operator when the plan cannot be read."""
        return self.unread

    def plan(self) -> QueryPlan | None:
        """Return what the query's plan holds; None when it cannot be read."""
        return self.read(
            "the query's plan",
            lambda session, plan: read_plan(plan, session.sessionState().optimizer(), self.output_mode()),
            None,
        )

    def read(self, what: str, reader: Callable[[Any, Any], T], unread: T) -> T:
        """Return what ``reader`` makes of Spark's session of the query and its analysed plan, both in the JVM.

        Args:
            what: what cannot be read then, for the log.
            reader: reads the plan.
            unread: returned where the plan is out of reach, or cannot be read.
        """
        try:
            return (
                unread if self._execution is None else reader(self._session(), self._execution.analyzedPlan())
            )
        # Py4J says TypeError of a class that this Spark does not have; the table of operators lacks what is new.
        except (Py4JError, PySparkException, TypeError, KeyError) as error:
            _log.warning("%s cannot be read: %s", what, error)
            return unread

    def datasets(self, tap: str) -> Datasets:
        """Return what is read below a tap, and what the query writes to; from its first batch on."""
        from tidemark.spark_jobs.spark.datasets import read_datasets  # noqa: PLC0415 - no call needs it

        return self.read(
            "what the query reads and writes",
            lambda session, plan: read_datasets(session, plan, self._execution.logicalPlan(), tap),
            NO_DATASETS,
        )

    def has_metrics(self) -> bool:
        """Return whether Spark shows metrics of the query, as its session is set when the query starts.

        Raises:
            PySparkException: when the session has ended; over Spark Connect whatever the network brings.
        """
        return str(self.spark.conf.get(_METRICS_KEY, "false")).lower() == "true"

    def metric_registry(self) -> Any:
        """Return the registry of Spark's metrics of the query, in the JVM; None where it is out of reach.

        That is so when the query has ended, too: Spark has dropped its metrics then, and would keep what is added.

        Raises:
            Py4JError, TypeError: when this Spark has none.
        """
        if self._execution is None or not self._execution.isActive():
            return None
        return self._execution.streamMetrics().metricRegistry()

    def trigger_ms(self) -> int | None:
        """Return the interval of the processing-time trigger in milliseconds, 0 for back to back; None for others."""
        try:
            periodic = self._trigger_class() == "ProcessingTimeTrigger"
            return int(self._execution.trigger().intervalMs()) if periodic else None
        except Py4JError as error:
            _log.warning("the trigger's interval cannot be read: %s", error)
            return None

    def is_real_time(self) -> bool:
        """Return whether the query runs in real-time mode."""
        return self._trigger_class() == "RealTimeTrigger"

    def run_end(self) -> RunEnd | None:
        """Return how its trigger ends the run; None where it does not, or when it cannot be read."""
        return _RUN_ENDS.get(self._trigger_class().rstrip("$"))  # Scala's name of an object

    def page_url(self, run_id: str) -> str | None:
        """Return the address of a run's page in Spark's UI, as Spark's own conf says; None without one."""
        if self._execution is None:
            return None
        try:
            context = self.spark.sparkContext
            conf = context.getConf()
            address = context.uiWebUrl
            proxy = conf.get("spark.ui.reverseProxyUrl", "")
            if address and proxy and conf.get("spark.ui.reverseProxy", "false") == "true":
                address = f"{proxy.rstrip('/')}/proxy/{context.applicationId}"
        except (Py4JError, PySparkException) as error:
            _log.warning("the address of Spark's UI cannot be read: %s", error)
            return None
        # The driver's host may be named so that it is no address.
        is_web = (address or "").startswith(("http://", "https://"))
        return f"{address}/StreamingQuery/statistics?id={run_id}" if is_web else None

    def _trigger_class(self) -> str:
        try:
            return (
                "" if self._execution is None else str(self._execution.trigger().getClass().getSimpleName())
            )
        except Py4JError as error:
            _log.warning("the trigger cannot be read: %s", error)
            return ""

    def fail(self, reason: str) -> bool:
        """Let the query end with an error before its first batch; return whether it will.

        To be called while Spark notifies listeners of its start: the query's thread waits for them, goes on to make its
        sources, and ends where it would begin to run. ``awaitTermination`` raises the error.
        """
        try:
            begun, ended, failure = constant(INITIALIZING), constant(TERMINATED), find(FAILURE)
            if begun is None or ended is None or failure is None:
                return False
            getattr(self._execution, "streamDeathCause_$eq")(self._failed_of(failure, reason))
            return bool(self._execution.state().compareAndSet(begun, ended))
        except (Py4JError, AttributeError, TypeError) as problem:
            _log.warning("the query cannot be ended: %s", problem)
            return False

    def _failed_of(self, failure: Any, reason: str) -> Any:
        """Return the exception that Spark makes of a failure, for a query without offsets."""
        jvm: Any = SparkContext._jvm  # noqa: SLF001 - see the module's docstring
        details = {"id": self._execution.id().toString(), "runId": self._execution.runId().toString()}
        return failure(
            "",
            jvm.java.lang.IllegalArgumentException(reason),
            "",
            "",
            "STREAM_FAILED",
            jvm.PythonUtils.toScalaMap({**details, "message": reason}),
        )

    def watermark_policy(self) -> WatermarkPolicy:
        """Return how Spark makes one watermark of those of the query's inputs; from the first batch's planning on."""
        if self._policy is None and self._execution is not None:
            try:
                policy = str(self._session().conf().get(_POLICY_KEY))
                self._policy = "max" if policy.lower() == "max" else "min"
            except Py4JError as error:
                _log.warning("%s cannot be read, min is assumed: %s", _POLICY_KEY, error)
                self._policy = "min"
        return self._policy or "min"

    def steering(self, classes: JavaClasses, others: Sequence[str]) -> Any:
        """Return what moves the query's watermark, in the JVM; None where its execution is out of reach.

        Args:
            classes: the Java classes of the session's context.
            others: ids of the watermark nodes that are not steered.
        """
        if self._execution is None:
            return None
        return classes.make("WatermarkSteering", self._execution, java_array("java.lang.String", others))

    def closing_moment(self, classes: JavaClasses, watermark: Any) -> Any:
        """Return what finds the moment in which all is read, in the JVM.

        Args:
            classes: the Java classes of the session's context.
            watermark: what moves the query's watermark, as ``steering`` returns it.
        """
        return classes.make("ClosingMoment", self._execution, watermark)

    def finds_nothing(self) -> bool:
        """Return whether the query has looked for rows, found none, and runs no batch.

        Raises:
            Py4JError: when that cannot be known.
        """
        return bool(self._execution.noNewData()) and not self._execution.status().isTriggerActive()

    def newer_progress(self, than_batch: int) -> list[StreamingQueryProgress]:
        """Return the progress of the batches after ``than_batch``, in their order, as far back as Spark remembers.

        Spark has it here before the next batch is planned; a listener is notified later, on another thread.
        """
        try:
            last = None if self._execution is None else self._execution.lastProgress()
            if self._execution is None or last is None or last.batchId() <= than_batch:
                return []
            # Usually it is the next one; when nobody has asked for a while there are more.
            some = [last] if last.batchId() == than_batch + 1 else list(self._execution.recentProgress())
            newer = [progress_of(progress.json()) for progress in some if progress.batchId() > than_batch]
        except Py4JError as error:
            _log.warning("the progress cannot be read: %s", error)
            return []
        # While nothing comes Spark reports a batch that has not been run, under the number of the one to come.
        return [batch for batch in newer if "addBatch" in batch.durationMs]
