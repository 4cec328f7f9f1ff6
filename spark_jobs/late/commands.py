"""What ``tidemark late catch-up`` and ``tidemark reconcile`` do: keep late rows without the job, and use them.

Catching up reads the late rows of a query from its checkpoint alone. Reconciling writes

    to_batch=41/    the windows with late rows, those of all batches up to 41 included

Each run computes all such windows anew from what the query wrote and from the whole side folder. A folder is written
to ``_writing`` and renamed, and only then are those before it deleted: running it twice, or after a crash, changes
nothing.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidemark.models.base.duration import parse_duration
from tidemark.models.base.granules import default_granule_us
from tidemark.models.base.operators import Operator, row_level, session, sliding, tumbling
from tidemark.spark_jobs.late.catch_up import CatchUp
from tidemark.spark_jobs.late.late_rows import LATE_COLUMN, FutureRowTreatment, LateRule
from tidemark.spark_jobs.late.origin import KAFKA, Origin
from tidemark.spark_jobs.late.reconcile import Combination, reconciled
from tidemark.spark_jobs.late.reread import LateStream
from tidemark.spark_jobs.late.side_folder import is_off, last_done, not_kept_in, unknown_in
from tidemark.spark_jobs.live.future_rows import FutureRowRule
from tidemark.spark_jobs.spark.checkpoint import HadoopFiles
from tidemark.spark_jobs.spark.command import pairs_of, session_of, spark_errors

_TO, _WRITING = "to_batch=", "_writing/windows"


def catch_up(
    checkpoint: str,
    *,
    into: str,
    parse: str,
    operator: str,
    event_time: str,
    source_format: str,
    options: Sequence[str],
    schema: str | None,
    source: str | None,
    partition: str | None,
    dimension: str | None,
    batches: int,
    future_rows: Literal["clamp", "aside", "keep"] | None,
    future_allowance: str,
    arrival_time: str | None,
    arrival_type: str | None,
    confs: Sequence[str],
) -> None:
    """Keep the late rows of all committed batches of a query that are not kept yet; the options are texts as given.

    Raises:
        ValueError: when something that was given is wrong, or Spark cannot read it.
    """
    with spark_errors():
        rule = LateRule(event_time, operator_of(operator), partition)
        stream = LateStream(
            parse=_function_of("--parse", parse),
            origin=_origin(source_format, pairs_of("--option", options), schema),
            rule=rule,
            source=source,
            batches_per_read=batches,
            dimension=dimension,
        )
        catching_up = CatchUp(session_of("tidemark-late", confs), checkpoint, into, stream)
        if catching_up.treats_future_rows_unknown():
            if future_rows is None:
                raise ValueError(
                    "the query has run in Live, and the folder does not say how future-dated rows were treated: say "
                    "--future-rows clamp (the job's default), aside, or keep if it never ran in Live with this data"
                )
            if future_rows != "keep":
                allowance_us = parse_duration(future_allowance)
                future = FutureRowRule(event_time, allowance_us, future_rows, arrival_time, arrival_type)
                granule_us = default_granule_us(rule.operator)
                catching_up.always(FutureRowTreatment(future, granule_us, rule.operator.closed))
        catching_up.switch(kept=True)
        rows = unknown = 0
        while (step := catching_up.step()) is not None:
            rows += step.rows
            unknown += sum(gap.last - gap.first + 1 for gap in (*step.unknown, *step.not_kept))
            _print(f"batches {step.first} to {step.last}: {step.rows} late rows")
            for gap in step.unknown:
                _print(f"batches {gap.first} to {gap.last} are unknown: {gap.reason}")
            for gap in step.not_kept:
                _print(f"batches {gap.first} to {gap.last} were not kept: {gap.reason}")
    _print(f"{rows} late rows; {unknown} batches are unknown")


def _origin(source_format: str, options: dict[str, str], schema: str | None) -> Origin:
    origin = Origin(source_format, options)
    if schema is None and origin.has_files:
        raise ValueError("a file source needs --schema, the columns that the job's reader has")
    if schema is None or source_format == KAFKA:
        return origin
    columns = StructType.fromDDL(schema)
    if not isinstance(columns, StructType):
        raise ValueError(f"--schema {schema!r} names no columns; write it as 'id long, ts timestamp'")  # noqa: TRY004
    return Origin(source_format, options, columns)


def reconcile(
    side: str,
    *,
    windows: str,
    windows_format: str,
    operator: str,
    aggregate: str,
    combine: Sequence[str],
    into: str,
    confs: Sequence[str],
) -> None:
    """Write the finished windows that late rows belong to, with them; the options are texts as given.

    Raises:
        ValueError: when something that was given is wrong, or Spark cannot read it.
        OSError: when a folder cannot be read or written.
    """
    with spark_errors():
        _reconcile(
            side,
            windows=(windows_format, windows),
            operator=operator_of(operator),
            aggregate=_function_of("--aggregate", aggregate),
            combine=cast("dict[str, Combination]", pairs_of("--combine", combine)),
            into=into,
            spark=session_of("tidemark-reconcile", confs),
        )


def _reconcile(
    side_folder: str,
    *,
    windows: tuple[str, str],
    operator: Operator,
    aggregate: Callable[[DataFrame], DataFrame],
    combine: dict[str, Combination],
    into: str,
    spark: SparkSession,
) -> None:
    side, target = HadoopFiles(spark, side_folder), HadoopFiles(spark, into)
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
    if target.exists(f"{_TO}{done}"):
        return _print(f"nothing is new: {target.path(f'{_TO}{done}')} holds all late rows that are kept")
    if not any(name.startswith("from_batch=") for name in side.names()):
        return _print(f"no row was late up to batch {done}")
    late = spark.read.parquet(side.uri).filter(f"{LATE_COLUMN}.batch_id <= {done}")
    finished = spark.read.format(windows[0]).load(windows[1])
    changed = reconciled(finished, late, operator, aggregate, combine)
    changed.write.mode("overwrite").parquet(target.path(_WRITING))
    target.rename(_WRITING, f"{_TO}{done}")
    for name in target.names():
        if name.startswith(_TO) and name != f"{_TO}{done}":
            target.delete(name)
    count = spark.read.parquet(target.path(f"{_TO}{done}")).count()
    return _print(f"{count} windows with late rows up to batch {done}: {target.path(f'{_TO}{done}')}")


_OPERATORS = {"tumbling": tumbling, "sliding": sliding, "session": session, "row_level": row_level}


def operator_of(text: str) -> Operator:
    """Return the operator in ``text``, a call as it stands in a job.

    Raises:
        ValueError: when it is none of the four, or its arguments are not plain texts.
    """
    try:
        call = ast.parse(text.strip(), mode="eval").body
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
            raise TypeError("it is not a call of one of them")  # noqa: TRY301 - explained below as what else is wrong
        if call.func.id not in _OPERATORS:
            raise ValueError(f"there is no {call.func.id}")  # noqa: TRY301 - as above
        make: Any = _OPERATORS[call.func.id]
        named = {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
        return make(*map(ast.literal_eval, call.args), **named)  # type: ignore[no-any-return]
    except (SyntaxError, TypeError, ValueError) as error:
        why = (
            error.msg if isinstance(error, SyntaxError) else error
        )  # without the place in a file that there is not
        raise ValueError(
            f"--operator {text!r} is not understood ({why}); write it as in the job: "
            'tumbling("1 minute"), sliding("1 hour", "5 minutes"), session("30 s") or row_level()'
        ) from error


def _function_of(option: str, name: str) -> Callable[[DataFrame], DataFrame]:
    """Return the function that ``name`` names as ``module:function``.

    Raises:
        ValueError: when it cannot be imported.
    """
    module, _, function = name.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        imported: Callable[[DataFrame], DataFrame] = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"{option} {name!r} cannot be imported ({error}); write module:function, and set PYTHONPATH if needed"
        ) from error
    return imported


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
