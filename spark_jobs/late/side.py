"""``late=side(...)``: the rows that Spark drops as late are kept in a folder, by the driver, after each commit."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tidemark.models.base.operators import Operator
from tidemark.spark_jobs.arguments import checked
from tidemark.spark_jobs.binding import Binding, granules_of
from tidemark.spark_jobs.event_time import column_of
from tidemark.spark_jobs.late.catch_up import CatchUp
from tidemark.spark_jobs.late.followers import Begun, Followed, followers_of
from tidemark.spark_jobs.late.late_rows import LATE_COLUMN, FutureRowTreatment, LateRule
from tidemark.spark_jobs.late.missing_reports import Ledger, MissingReports
from tidemark.spark_jobs.late.origin import Origin, origin_of
from tidemark.spark_jobs.late.reread import DEFAULT_BATCHES, LateStream, Parse
from tidemark.spark_jobs.late.side_folder import ReportedRun
from tidemark.spark_jobs.late.switch import LateSwitch
from tidemark.spark_jobs.live.future_rows import FutureRowRule

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
