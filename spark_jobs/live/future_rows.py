"""Future-dated rows, kept away from the watermark: one of them would make every honest row after it late.

They are found below the watermark's node, by the clock of the batch (the same when the batch is replayed, since Spark
logs it) and, where rows carry the broker's own timestamp, by that. What is found is set back to that clock, or set
aside: then ``future_rows`` returns the same rows to a query of their own.

The batch's clock is another constant in each batch, and Spark writes constants into the code it makes for the rows: a
stage with the clock in it would be compiled, and begin cold, in every batch (140 ms of CPU). So the clock is
wrapped in a function that Spark interprets, of which the code has a reference alone. That would take it out of the
stage: ``BatchClock.java`` makes a text of it, which is no part of the code either. The function in Java
(``SetBack.java``) asks for it once in each task. It is read above the tap, and by whole granules, so that the tap's
counts tell which rows were found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.models.base.duration import parse_duration
from tidemark.models.base.operators import Closed
from tidemark.spark_jobs.core.arguments import Treatment, checked
from tidemark.spark_jobs.core.tap import SET_ASIDE, SET_BACK, TAKEN, Tap
from tidemark.spark_jobs.core.time_numbers import FARTHEST_US
from tidemark.spark_jobs.spark.event_time import column_of, quoted
from tidemark.spark_jobs.spark.java_classes import JavaClasses

AHEAD = "__tidemark_ahead"
"""Column with what became of a row, from the quarantine to the tap: ``TAKEN``, ``SET_BACK`` or ``SET_ASIDE``."""

_LOG_APPEND = 1
"""Kafka's ``timestampType`` where the timestamp is the broker's: LogAppendTime."""


@dataclass(frozen=True, slots=True)
class FutureRowRule:
    """How future-dated rows are found and treated.

    Args:
        event_time: name of the event-time column.
        allowance_us: how far ahead a row may be dated and still be taken as it is, in microseconds; by the batch's
            clock up to a granule more.
        treatment: what becomes of the others.
        arrival_time: name of the column with the source's own timestamp; None when there is none.
        arrival_type: name of the column that says whose it is, as Kafka's source has it; None when there is none.
    """

    event_time: str
    allowance_us: int
    treatment: Treatment = "clamp"
    arrival_time: str | None = None
    arrival_type: str | None = None

    @classmethod
    def of(cls, tap: Tap, allowance_us: int, treatment: Treatment) -> FutureRowRule:
        """Return the rule for the rows of a tap."""
        return cls(tap.event_time, allowance_us, treatment, tap.arrival_time, tap.arrival_type)

    @property
    def marks(self) -> bool:
        """Whether rows are judged by their own arrival too, and carry ``AHEAD`` through the tap."""
        return self.treatment == "aside" or None not in {self.arrival_time, self.arrival_type}

    def counted_by(self, tap: Tap) -> Tap:
        """Return ``tap`` as it counts rows that ``mark`` has seen."""
        return replace(
            tap,
            ahead=AHEAD if self.marks else None,
            takes_out=self.treatment == "aside",
            allowance_us=self.allowance_us,
        )

    def mark(self, df: DataFrame) -> DataFrame:
        """Return ``df``, for the tap, with what is found by a row's own arrival in ``AHEAD``, and set back to that."""
        if not self.marks:
            return df
        if self.treatment == "aside":
            # Judged by the row alone, so that the query of the rows set aside finds exactly these.
            return df.withColumn(AHEAD, F.when(self.beyond_arrival(), SET_ASIDE).otherwise(TAKEN))
        by_broker = F.col(quoted(str(self.arrival_type))) == _LOG_APPEND
        time, arrival = F.col(quoted(self.event_time)), F.col(quoted(str(self.arrival_time)))
        ahead = F.when(by_broker & self.beyond_arrival(), SET_BACK).otherwise(TAKEN)
        set_back = F.when(F.col(AHEAD) == TAKEN, time).otherwise(arrival.cast("timestamp"))
        return self._with_time(df.withColumn(AHEAD, ahead), set_back)

    def set_back(
        self, tapped: DataFrame, granule_us: int, closed: Closed, classes: JavaClasses | None = None
    ) -> DataFrame:
        """Return ``tapped`` without marks and rows set aside, and with what is ahead of the batch's clock set back.

        What is ahead is what ``Tap.first_future_us`` says: whole granules of ``granule_us``, closed on side ``closed``.
        With ``classes`` it is found at a fraction of the cost, and the row counter has taken out what is set aside.
        """
        if self.treatment == "aside" and classes is None:
            tapped = tapped.filter(F.col(AHEAD) != SET_ASIDE)
        if self.marks:
            tapped = tapped.drop(AHEAD)
        clock = _interpreted(F.current_timestamp())
        if classes is None:
            return self._with_time(tapped, self.back_to(clock, granule_us, closed))
        rule = classes.make(
            "SetBack", min(self.allowance_us, FARTHEST_US), granule_us, int(closed == "right")
        )
        call = partial(classes.function, rule, "tidemark_set_back", "LongType")
        time_us, unknown = F.unix_micros(quoted(self.event_time)), F.lit(None).cast("long")
        back_us = F.coalesce(call([time_us, unknown]), call([time_us, F.unix_micros(clock)]))
        return self._with_time(tapped, F.timestamp_micros(back_us))

    def _with_time(self, df: DataFrame, time: Column) -> DataFrame:
        """Return ``df`` with another event time, without nulls where it had none: Spark keeps the state's schema."""
        if not df.schema[self.event_time].nullable:
            time = F.coalesce(time, F.timestamp_micros(F.lit(0)))
        return df.withColumn(self.event_time, time)

    def back_to(self, clock: Column, granule_us: int, closed: Closed) -> Column:
        """Return the event time, or ``clock`` where it is ahead of that, by whole granules."""
        time, after = F.col(quoted(self.event_time)), int(closed == "right")
        time_us = F.unix_micros(time)
        latest = F.unix_micros(clock) + F.lit(min(self.allowance_us, FARTHEST_US) - after)
        # Only SQL divides integers.
        first_future = (
            F.call_function("div", latest, F.lit(granule_us).cast("long")) + 1
        ) * granule_us + after
        # The first test spares nearly all rows the division.
        return F.when(time_us <= latest, time).when(time_us >= first_future, clock).otherwise(time)

    def judging(self, column: str) -> FutureRowRule:
        """Return the same rule for times in another column."""
        return replace(self, event_time=column)

    def beyond_arrival(self) -> Column:
        """Return whether a row is future-dated by its own arrival, null where that is not known.

        Raises:
            ValueError: when no column has the arrival.
        """
        if self.arrival_time is None:
            raise ValueError("rows can be set aside only by the time of their arrival: name arrival_time=")
        time, arrival = F.col(quoted(self.event_time)), F.col(quoted(self.arrival_time))
        # Null where there is no such time any more: an error would end the user's query.
        latest = F.try_add(F.unix_micros(arrival.cast("timestamp")), F.lit(self.allowance_us))
        return F.unix_micros(time) > latest


@checked()
def future_rows(df: DataFrame, event_time: str, arrival_time: str, allowance: str = "1 minute") -> DataFrame:
    """Return the rows of ``df`` that a live query with ``future_rows="aside"`` takes out, for a query of their own.

    The rows are found by ``event_time > arrival_time + allowance``, which does not depend on when a query runs.
    """
    event_time, arrival_time = column_of(df, event_time), column_of(df, arrival_time)
    rule = FutureRowRule(event_time, parse_duration(allowance), "aside", arrival_time)
    return df.filter(rule.beyond_arrival())


def _interpreted(value: Column) -> Column:
    """Return ``value`` as Spark evaluates it without compiling it: as what is made of two arrays of one element.

    ``zip_with`` is interpreted from 4.0 to 4.3, ``aggregate`` before 4.3 alone.
    """
    one = F.array(F.lit(0))
    return F.zip_with(one, one, lambda _left, _right: value)[0]
