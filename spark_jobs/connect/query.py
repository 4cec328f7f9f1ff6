"""A running query as a Spark Connect client has it: its progress, its explanation and its checkpoint, but no plan.

The watermark in force is that of the progress. Where a progress is not there, which is so of the batch before the first
one of a run, the client reads the offset log as text, through Spark, which has the rights to the checkpoint that a
client seldom has. Without those rights the watermark is not known, and neither is what became of that batch's rows.

More is asked of the server than PySpark has public names for (4.0 to 4.3). ``StreamingQuery.explain`` prints its text
on the standard output of the whole process. ``removeListener`` waits, with its lock held, for a thread that needs the
lock for each event that is still to come, so that the two may wait for each other for ever.
"""

from __future__ import annotations

import logging
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql.connect import proto
from pyspark.sql.streaming.listener import StreamingQueryListener, StreamingQueryProgress

from tidemark.models.protocol.messages import OutputMode
from tidemark.spark_jobs.connect.explained import Explained, read_explained
from tidemark.spark_jobs.spark.checkpoint import parse_entry
from tidemark.spark_jobs.spark.placement import uncounted_because
from tidemark.spark_jobs.spark.query_plan import NoOperator
from tidemark.spark_jobs.spark.running_query import RunningQuery

_log = logging.getLogger("tidemark.spark")


class ConnectQuery(RunningQuery):
    """A handle on one run of a query; it stays valid for as long as the server remembers the run (an hour)."""

    unread = NoOperator("Unreadable", "Spark Connect shows its client no plan")
    unread_level = logging.DEBUG

    def _find(self) -> None:
        """Leave the JVM alone, and get the client's handle."""
        self._explained: Explained | None = None
        self._query: Any = None
        self._said: set[str] = set()
        try:
            self._query = self.spark.streams.get(self.query_id)
        except Exception as error:  # noqa: BLE001 - whatever the network brings
            _log.warning("query %s: it cannot be reached: %s", self.query_id, _first_line(error))

    def output_mode(self) -> OutputMode | None:
        """Return the query's output mode; None before its first batch, and when it cannot be read."""
        explained = self._explain()
        return None if explained is None else explained.output_mode

    def checkpoint(self) -> str | None:
        """Return where the query's checkpoint is; None before its first batch, and when it cannot be read."""
        explained = self._explain()
        return None if explained is None else explained.checkpoint

    def logged_watermark_ms(self, batch_id: int) -> int | None:
        """Return the watermark in force in ``batch_id`` as the checkpoint logged it; None when it cannot be read."""
        checkpoint = self.checkpoint()
        if checkpoint is None or batch_id < 0:
            return None
        try:
            row = self.spark.read.text(f"{checkpoint}/offsets/{batch_id}", wholetext=True).first()
            return None if row is None else parse_entry(row[0]).watermark_ms
        except Exception as error:  # noqa: BLE001 - as above, or the user may not read the checkpoint
            _log.warning(
                "query %s: the watermark of batch %d is not known, so no row of batch %d is judged: %s",
                self.query_id,
                batch_id,
                batch_id + 1,
                _first_line(error),
            )
            return None

    def unread_of(self, tap: str) -> NoOperator:
        """Return that no plan is shown, or what the explanation shows of the way from a tap to its operator."""
        explained = self._explain()
        if explained is None:
            return NoOperator("Uncounted", "it cannot be seen which rows reach the query's operator")
        changed = explained.changed.get(tap)
        return self.unread if changed is None else NoOperator("Uncounted", uncounted_because(changed))

    def newer_progress(self, than_batch: int) -> list[StreamingQueryProgress]:
        """Return the progress of the batches after ``than_batch``, in their order, as far back as Spark remembers."""
        try:
            last = None if self._query is None else self._query.lastProgress
            if last is None or last.batchId <= than_batch:
                return []
            recent = self._query.recentProgress
        except Exception as error:  # noqa: BLE001 - as above
            _log.warning("query %s: its progress cannot be read: %s", self.query_id, _first_line(error))
            return []
        return [
            _with_rows(batch)
            for batch in recent
            if batch.batchId > than_batch and "addBatch" in batch.durationMs
        ]

    def _explain(self) -> Explained | None:
        """Return what the query's explanation says, which is read until there is one."""
        if self._explained is None and self._query is not None:
            try:
                self._explained = read_explained(explanation(self._query))
                why = "its explanation shows no stateful operator"
            except Exception as error:  # noqa: BLE001 - as above
                why = f"it cannot be explained: {_first_line(error)}"
            if self._explained is None and why not in self._said:
                self._said.add(why)
                _log.warning("query %s: no row of it is judged for now: %s", self.query_id, why)
        return self._explained


def _with_rows(progress: StreamingQueryProgress) -> StreamingQueryProgress:
    """Return a progress with its metrics as an event has them: remembered ones come as values beside a schema."""
    metrics = progress.observedMetrics
    for name, row in metrics.items():
        if set(row.__fields__) == {"values", "schema"}:
            columns = [column["name"] for column in row["schema"]["fields"]]
            metrics[name] = Row(*columns)(*row["values"])
    return progress


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def explanation(query: Any) -> str:
    """Return what ``query.explain()`` prints."""
    command = proto.StreamingQueryCommand()
    command.explain.extended = False
    return str(query._execute_streaming_query_cmd(command).explain.result)  # noqa: SLF001 - see the module


def is_listening(spark: SparkSession, listener: StreamingQueryListener) -> bool:
    """Return whether a listener is notified: a broken connection takes all listeners away."""
    bus = _bus(spark)
    thread = bus._execution_thread  # noqa: SLF001 - as above
    return listener in bus._listener_bus and thread is not None and thread.is_alive()  # noqa: SLF001 - as above


def listen_again(spark: SparkSession, listener: StreamingQueryListener) -> None:
    """Add a listener that is not notified any more, with the others that are not."""
    end_events(spark)  # the server may believe that it still sends them
    bus = _bus(spark)
    with bus._lock:  # noqa: SLF001 - as above
        listeners = dict.fromkeys([*bus._listener_bus, listener])  # noqa: SLF001 - as above
        bus._listener_bus.clear()  # noqa: SLF001 - as above
        bus._execution_thread = None  # noqa: SLF001 - as above
    for silent in listeners:
        spark.streams.addListener(silent)


def end_events(spark: SparkSession) -> None:
    """Let the server send the session's listeners no more events, so that the thread that takes them ends."""
    command = proto.Command()
    command.streaming_query_listener_bus_command.remove_listener_bus_listener = True
    spark.client.execute_command(command)


def _bus(spark: SparkSession) -> Any:
    return spark.streams._sqlb  # type: ignore[attr-defined]  # noqa: SLF001 - as above
