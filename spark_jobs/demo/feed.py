"""Where the demonstration's job gets its rows from, and how far it has read."""

from __future__ import annotations

import json
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from tidemark.spark_jobs.demo.plan import Plan
from tidemark.spark_jobs.trace_source import register_trace_source


class Feed(Protocol):
    """The way from the trace to the job."""

    @property
    def interval(self) -> str:
        """The job's processing-time trigger."""
        ...

    def events(self, spark: SparkSession, until_rows: int) -> DataFrame:
        """Return the stream of ``event_time`` and ``partition``, which ends at row ``until_rows`` of the trace."""
        ...

    def send(self, until_rows: int) -> None:
        """Bring the rows up to ``until_rows`` to where the job reads them; return when they are there, or stopped."""
        ...

    def stop(self) -> None:
        """End ``send`` early."""
        ...

    def rows_read(self, end_offset: str) -> int:
        """Return how many rows of the trace had been read at an offset, as Spark's progress has it."""
        ...


class TraceFeed:
    """The job reads the trace itself: each slot is one batch, exactly.

    Args:
        plan: the trace and its slots.
    """

    interval = "0 seconds"

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def events(self, spark: SparkSession, until_rows: int) -> DataFrame:
        """Return the stream of the trace's rows."""
        register_trace_source(spark)
        options = {
            "path": str(self._plan.path),
            "slot_us": str(self._plan.slot_us),
            "until": str(until_rows),
        }
        return spark.readStream.format("tidemark_trace").options(**options).load()

    def send(self, until_rows: int) -> None:
        """Do nothing: the rows are in the file."""

    def stop(self) -> None:
        """Do nothing."""

    def rows_read(self, end_offset: str) -> int:
        """Return the source's own count."""
        return int(json.loads(end_offset)["rows"])
