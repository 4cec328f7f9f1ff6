"""``tidemark side catch-up``: keep the late rows of a query from its checkpoint alone, without the job.

The job must not run with ``late=side(...)`` on the same folder meanwhile.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.types import StructType

from tidemark.models.base.duration import parse_duration
from tidemark.models.base.granules import default_granule_us
from tidemark.spark_jobs.late.arguments import function_of, operator_of, pairs_of, session_of
from tidemark.spark_jobs.late.catch_up import CatchUp
from tidemark.spark_jobs.late.late_rows import FutureRowTreatment, LateRule
from tidemark.spark_jobs.late.origin import KAFKA, Origin
from tidemark.spark_jobs.late.reread import DEFAULT_BATCHES, LateStream
from tidemark.spark_jobs.live.future_rows import FutureRowRule


def main(arguments: Sequence[str] | None = None) -> int:
    """Catch up; return 0, or 2 when something that was given is wrong."""
    given = _parser().parse_args(arguments)
    try:
        rule = LateRule(given.event_time, operator_of(given.operator), given.partition)
        parse = function_of("--parse", given.parse)
        spark = session_of("tidemark-side", given.conf)
        stream = LateStream(
            parse=parse,
            origin=_origin(given),
            rule=rule,
            source=given.source,
            batches_per_read=given.batches,
            dimension=given.dimension,
        )
        catch_up = CatchUp(spark, given.checkpoint, given.into, stream)
        _settle_future_rows(catch_up, given, stream)
        catch_up.switch(kept=True)
        rows = unknown = 0
        while (step := catch_up.step()) is not None:
            rows += step.rows
            unknown += sum(gap.last - gap.first + 1 for gap in (*step.unknown, *step.not_kept))
            _print(f"batches {step.first} to {step.last}: {step.rows} late rows")
            for gap in step.unknown:
                _print(f"batches {gap.first} to {gap.last} are unknown: {gap.reason}")
            for gap in step.not_kept:
                _print(f"batches {gap.first} to {gap.last} were not kept: {gap.reason}")
    except (ValueError, PySparkException, Py4JJavaError) as error:
        sys.stderr.write(f"tidemark side catch-up: {error}\n")
        return 2
    _print(f"{rows} late rows; {unknown} batches are unknown")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidemark side", description="Keep the rows that Spark dropped as late."
    )
    command = parser.add_subparsers(dest="command", required=True).add_parser(
        "catch-up", description="Read the late rows of all committed batches that are not kept yet."
    )
    add = command.add_argument
    add("checkpoint", help="the query's checkpointLocation")
    add("--into", required=True, metavar="FOLDER", help="folder for the late rows")
    add(
        "--parse",
        required=True,
        metavar="MODULE:FUNCTION",
        help="makes rows of the source's columns, as in the job",
    )
    add("--operator", required=True, help="as in the job, such as 'tumbling(\"1 minute\")'")
    add("--event-time", required=True, metavar="COLUMN", help="the event-time column")
    add("--partition", metavar="COLUMN", help="the column that names a row's partition")
    add("--format", required=True, help="format of the source: kafka, json, parquet and so on")
    add(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="an option of the source's reader"
    )
    add("--schema", metavar="DDL", help="columns of a file source, such as 'id long, ts timestamp'")
    add(
        "--source",
        metavar="NAME",
        help="the source by its place in the plan or its name, if there are several",
    )
    add("--batches", type=_positive, default=DEFAULT_BATCHES, metavar="N", help="batches of one read at most")
    add(
        "--dimension",
        metavar="COLUMN",
        help="count rows and losses by the values of this column; the job's next start sends the counts",
    )
    add(
        "--conf",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a conf of Spark, such as spark.jars.packages",
    )
    add(
        "--future-rows",
        choices=("clamp", "aside", "keep"),
        help="how the job treated future-dated rows, if it ran in Live without keeping late rows",
    )
    add("--future-allowance", default="1 minute", help="as in the job")
    add("--arrival-time", metavar="COLUMN", help="as in the job")
    add("--arrival-type", metavar="COLUMN", help="timestampType, if rows have it")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def _origin(given: argparse.Namespace) -> Origin:
    options = pairs_of("--option", given.option)
    origin = Origin(given.format, options)
    if given.schema is None and origin.has_files:
        raise ValueError("a file source needs --schema, the columns that the job's reader has")
    if given.schema is None or given.format == KAFKA:
        return origin
    schema = StructType.fromDDL(given.schema)
    if not isinstance(schema, StructType):
        raise ValueError(f"--schema {given.schema!r} names no columns; write it as 'id long, ts timestamp'")  # noqa: TRY004
    return Origin(given.format, options, schema)


def _settle_future_rows(catch_up: CatchUp, given: argparse.Namespace, stream: LateStream) -> None:
    """Take from the command line how future-dated rows were treated, where only that can tell."""
    if not catch_up.treats_future_rows_unknown():
        return
    if given.future_rows is None:
        raise ValueError(
            "the query has run in Live, and the folder does not say how future-dated rows were treated: say "
            "--future-rows clamp (the job's default), aside, or keep if it never ran in Live with this data"
        )
    if given.future_rows != "keep":
        rule = FutureRowRule(
            given.event_time,
            parse_duration(given.future_allowance),
            given.future_rows,
            given.arrival_time,
            given.arrival_type,
        )
        operator = stream.rule.operator
        catch_up.always(FutureRowTreatment(rule, default_granule_us(operator), operator.closed))


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
