"""``tidemark reconcile``: put late rows into the finished windows that they belong to.

    to_batch=41/    the windows with late rows, those of all batches up to 41 included

Each run computes all such windows anew from what the query wrote and from the whole side folder. A folder is written
to ``_writing`` and renamed, and only then are those before it deleted: running it twice, or after a crash, changes
nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import cast

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from tidemark.spark_jobs.late.arguments import function_of, operator_of, pairs_of, session_of
from tidemark.spark_jobs.late.late_rows import LATE_COLUMN
from tidemark.spark_jobs.late.reconcile import Combination, reconciled
from tidemark.spark_jobs.late.side_folder import is_off, last_done, not_kept_in, unknown_in
from tidemark.spark_jobs.spark.checkpoint import HadoopFiles

_TO, _WRITING = "to_batch=", "_writing/windows"


def main(arguments: Sequence[str] | None = None) -> int:
    """Reconcile; return 0, or 2 when something that was given is wrong."""
    given = _parser().parse_args(arguments)
    try:
        _reconcile(given)
    except (ValueError, OSError, PySparkException, Py4JJavaError) as error:
        sys.stderr.write(f"tidemark reconcile: {error}\n")
        return 2
    return 0


def _reconcile(given: argparse.Namespace) -> None:
    operator = operator_of(given.operator)
    aggregate = function_of("--aggregate", given.aggregate)
    combine = cast("dict[str, Combination]", pairs_of("--combine", given.combine))
    spark = session_of("tidemark-reconcile", given.conf)
    side, into = HadoopFiles(spark, given.side), HadoopFiles(spark, given.into)
    done = last_done(side)
    if done < 0:
        raise ValueError(
            f"{side.uri} holds no late rows of a batch that is done: is it the folder of side(...)?"
        )
    for gap in unknown_in(side):
        _print(
            f"batches {gap.first} to {gap.last} are unknown, and their late rows are missing: {gap.reason}"
        )
    for gap in not_kept_in(side):
        _print(
            f"batches {gap.first} to {gap.last} were not kept, and their late rows are missing: {gap.reason}"
        )
    if is_off(side):
        _print(f"late rows are not kept after batch {done}: those of later batches are missing")
    if into.exists(f"{_TO}{done}"):
        return _print(f"nothing is new: {into.path(f'{_TO}{done}')} holds all late rows that are kept")
    if not any(name.startswith("from_batch=") for name in side.names()):
        return _print(f"no row was late up to batch {done}")
    late = spark.read.parquet(side.uri).filter(f"{LATE_COLUMN}.batch_id <= {done}")
    finished = spark.read.format(given.format).load(given.windows)
    windows = reconciled(finished, late, operator, aggregate, combine)
    windows.write.mode("overwrite").parquet(into.path(_WRITING))
    into.rename(_WRITING, f"{_TO}{done}")
    for name in into.names():
        if name.startswith(_TO) and name != f"{_TO}{done}":
            into.delete(name)
    found = spark.read.parquet(into.path(f"{_TO}{done}")).count()
    return _print(f"{found} windows with late rows up to batch {done}: {into.path(f'{_TO}{done}')}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidemark reconcile",
        description="Put late rows into the finished windows that they belong to. Neither folder is changed: the "
        "windows that differ are written to another one, with the values they would have had no row been late.",
    )
    add = parser.add_argument
    add("side", help="the folder with the late rows, as side(...) or `tidemark side catch-up` writes it")
    add("--windows", required=True, metavar="FOLDER", help="the finished windows, as the query wrote them")
    add("--format", default="parquet", help="format of the finished windows; parquet unless given")
    add("--operator", required=True, help="as in the job, such as 'tumbling(\"1 minute\")'")
    add(
        "--aggregate",
        required=True,
        metavar="MODULE:FUNCTION",
        help="makes windows of late rows, which have a column `window`; with the finished windows' columns",
    )
    add(
        "--combine",
        required=True,
        action="append",
        metavar="COLUMN=HOW",
        help="how an aggregated column of both parts is combined: sum, min or max; all other columns are keys",
    )
    add("--into", required=True, metavar="FOLDER", help="folder for the windows that late rows belong to")
    add("--conf", action="append", default=[], metavar="KEY=VALUE", help="a conf of Spark")
    return parser


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
