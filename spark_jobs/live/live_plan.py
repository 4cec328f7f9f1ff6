"""A stream with a ceiling: its tap and its control stream, and in Live what its policy needs to know."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame

from tidemark.spark_jobs.core.binding import Binding
from tidemark.spark_jobs.core.connections import answers_of
from tidemark.spark_jobs.core.counting import with_tap
from tidemark.spark_jobs.core.listener import TidemarkListener
from tidemark.spark_jobs.core.watch import Orders
from tidemark.spark_jobs.live.future_rows import FutureRowRule
from tidemark.spark_jobs.live.history import StreamHistory
from tidemark.spark_jobs.live.queries import LiveStream
from tidemark.spark_jobs.live.sources import steered
from tidemark.spark_jobs.spark.java_classes import JavaClasses
from tidemark.spark_jobs.spark.jvm import items


@dataclass(frozen=True, slots=True)
class LivePlan:
    """The plan with a control stream: it moves in Live, and is silent in every other mode."""

    ceiling_ms: int
    idle_timeout_us: int | None
    future: FutureRowRule
    orders: Orders
    classes: JavaClasses
    """What makes the control stream."""
    tap_classes: JavaClasses | None
    """The functions that Spark compiles into a stage; None where rows are observed."""
    history: StreamHistory | None
    """The stream's earlier reports; None for a job without a controller."""

    def plan(self, df: DataFrame, metric: str, listener: TidemarkListener, binding: Binding) -> DataFrame:
        """Return ``df`` with tap, ceiling and control stream."""
        steer = partial(steered, classes=self.classes, answers=answers_of(df.sparkSession))
        if binding.mode != "Live":
            tapped, counts = with_tap(df, binding.tap, metric, self.tap_classes)
            listener.bind(metric, replace(binding, stage_counts=counts))
            return steer(tapped, binding.tap.event_time, binding.bound_ms, metric)
        future = self.future
        tap = future.counted_by(binding.tap)
        tapped, counts = with_tap(future.mark(df), tap, metric, self.tap_classes)
        listener.bind(metric, replace(binding, tap=tap, orders=self.orders, stage_counts=counts))
        listener.live.add(
            metric,
            LiveStream(
                name=binding.stream,
                ceiling_us=self.ceiling_ms * 1_000,
                idle_timeout_us=self.idle_timeout_us,
                orders=self.orders,
                history=self.history,
            ),
        )
        live = steer(
            tapped,
            tap.event_time,
            self.ceiling_ms,
            metric,
            set_back=lambda marked: future.set_back(marked, tap.granule_us, tap.cut, self.tap_classes),
        )
        alias = _alias_of(df)
        return live if alias is None else live.alias(alias)


def _alias_of(df: DataFrame) -> str | None:
    """Return the alias of all columns of a frame. An event time that is set back is a new column, without it."""
    columns = items(df._jdf.queryExecution().analyzed().output())  # noqa: SLF001 - aliases are not public
    names = {tuple(items(column.qualifier())) for column in columns}
    return str(names.pop()[-1]) if len(names) == 1 and () not in names else None
