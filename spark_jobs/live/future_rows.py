"""Rows dated ahead of the clock, kept from the watermark: one of them would make every honest row after it late.

They are found below the watermark's node, by the clock of the batch (the same when the batch is replayed, since Spark
logs it) and, where rows carry the broker's own timestamp, by that. What is found is set back to that clock, or set
aside: then ``future_rows`` returns the same rows to a query of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.models.duration import parse_duration
from tidemark.spark_jobs.tap import SET_ASIDE, SET_BACK, TAKEN, quoted

__all__ = ["AHEAD", "FutureRows", "Treatment", "future_rows"]

Treatment = Literal["clamp", "aside"]
"""What becomes of a row dated ahead: its event time is set back to the clock, or it is taken out of the stream."""

AHEAD = "__tidemark_ahead"
"""Column with what became of a row, from the quarantine to the tap: ``TAKEN``, ``SET_BACK`` or ``SET_ASIDE``."""

LOG_APPEND = 1
"""Kafka's ``timestampType`` where the timestamp is the broker's: LogAppendTime."""


@dataclass(frozen=True, slots=True)
class FutureRows:
    """How rows dated ahead are found and treated.

    Args:
        event_time: name of the event-time column.
        allowance_us: how far ahead a row may be dated and still be taken as it is, in microseconds.
        treatment: what becomes of the others.
        arrival_time: name of the column with the source's own timestamp; None when there is none.
        arrival_type: name of the column that says whose it is, as Kafka's source has it; None when there is none.
    """

    event_time: str
    allowance_us: int
    treatment: Treatment = "clamp"
    arrival_time: str | None = None
    arrival_type: str | None = None

    def mark(self, df: DataFrame) -> DataFrame:
        """Return ``df`` with the column ``AHEAD``, and the event times of the rows found set back."""
        time, clock = F.col(quoted(self.event_time)), self._clock()
        # In whole microseconds: Spark fills the batch's clock in when it no longer computes constants beforehand, so an
        # interval would be added to it for each row anew, by the calendar.
        found = F.when(F.unix_micros(time) > self._latest_us(clock), SET_BACK).otherwise(TAKEN)
        if self.treatment == "aside":
            # Judged by the row alone, so that the query of the rows set aside finds exactly these.
            found = F.when(self.beyond_arrival(), SET_ASIDE).otherwise(found)
        set_back = F.when(F.col(AHEAD) == TAKEN, time).otherwise(clock)
        return df.withColumn(AHEAD, found).withColumn(self.event_time, set_back)

    def take_out(self, df: DataFrame) -> DataFrame:
        """Return ``df`` without the mark and without the rows that are set aside."""
        kept = df.filter(F.col(AHEAD) != SET_ASIDE) if self.treatment == "aside" else df
        return kept.drop(AHEAD)

    def beyond_arrival(self) -> Column:
        """Return whether a row is dated ahead of its own arrival, null where that is not known.

        Raises:
            ValueError: when no column has the arrival.
        """
        if self.arrival_time is None:
            raise ValueError("rows can be set aside only by the time of their arrival: name arrival_time=")
        time, arrival = F.col(quoted(self.event_time)), F.col(quoted(self.arrival_time))
        return F.unix_micros(time) > self._latest_us(arrival)

    def _latest_us(self, clock: Column) -> Column:
        # Null where there is no such time any more: an error would end the user's query.
        return F.try_add(F.unix_micros(clock.cast("timestamp")), F.lit(self.allowance_us))

    def _clock(self) -> Column:
        batch = F.current_timestamp()
        if self.arrival_time is None or self.arrival_type is None:
            return batch
        by_broker = F.col(quoted(self.arrival_type)) == LOG_APPEND
        return F.when(by_broker, F.col(quoted(self.arrival_time))).otherwise(batch)


def future_rows(df: DataFrame, event_time: str, arrival_time: str, allowance: str = "1 minute") -> DataFrame:
    """Return the rows of ``df`` that a live query with ``future_rows="aside"`` takes out, for a query of their own.

    The rows are found by ``event_time > arrival_time + allowance``, which does not depend on when a query runs.
    """
    rule = FutureRows(event_time, parse_duration(allowance), "aside", arrival_time)
    return df.filter(rule.beyond_arrival())
