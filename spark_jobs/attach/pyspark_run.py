"""``tidemark run JOB.py``: a PySpark program that does not know Tidemark, with the watermarks of its queries watched.

It needs no jar and no other Python: the program runs in this one, with ``DataStreamWriter`` wrapped. As a query starts,
each watermark in its plan, by ``withWatermark`` or by SQL text, becomes one with tap and bound, so a query that is
started again takes the newest bound. A query is never rejected, and where Tidemark fails it starts as it is written.

    tidemark run JOB.py ARGS
    spark-submit ... $(tidemark run --path) JOB.py ARGS
"""

from __future__ import annotations

import functools
import os
import runpy
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

_RECORDED = (
    *("outputMode", "format", "option", "options", "partitionBy", "clusterBy"),
    *("queryName", "trigger", "foreach", "foreachBatch"),
)
"""Methods of a ``DataStreamWriter`` that say how a query is to be written."""
_STARTS = ("start", "toTable")
_CALLS = "_tidemark_calls"
_CHECKPOINT = "checkpointlocation"
_URL, _ENABLED = "spark.tidemark.controller.url", "spark.tidemark.enabled"
_START_TIMEOUT, _NO_LIMIT = "spark.tidemark.start.timeout", "1 day"
_SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
_SUBMIT_DEFAULT = "pyspark-shell"


def run(job: str, arguments: Sequence[str]) -> None:
    """Run a program as ``python JOB ARGUMENTS`` does, and let its reports go out.

    Args:
        job: path of a Python file.
        arguments: what it finds in ``sys.argv`` behind its own name.

    Raises:
        BaseException: whatever the program raises, ``SystemExit`` too.
    """
    sys.argv = [job, *arguments]
    sys.path[0] = str(Path(job).resolve().parent)
    with ExitStack() as until_the_end:
        try:
            until_the_end.enter_context(watched_queries())
        except Exception as error:  # noqa: BLE001 - the program comes first
            _say(f"the program runs as it is: {error!r}")
        runpy.run_path(job, run_name="__main__")


def replace_this_process(job: str, arguments: Sequence[str], confs: Sequence[str]) -> NoReturn:
    """Let a Python that does nothing else run a program, so that signals, exit code and errors are the program's.

    Args:
        job: path of a Python file.
        arguments: the program's own.
        confs: conf of Spark, each ``KEY=VALUE``.

    Raises:
        ValueError: when there is no such file, or a conf has no value.
    """
    # This file runs without Tidemark, too.
    from tidemark.spark_jobs.spark.java import JavaNotFound, ensure_java  # noqa: PLC0415

    if not Path(job).is_file():
        raise ValueError(f"there is no file {job}")
    if wrong := [conf for conf in confs if "=" not in conf]:
        raise ValueError(f"--conf {wrong[0]}: write it as KEY=VALUE")
    try:
        ensure_java()
    except JavaNotFound as error:  # a client of Spark Connect needs none; others fail with words of PySpark's
        if "SPARK_REMOTE" not in os.environ:
            sys.stderr.write(f"tidemark: {error}\n")
    if confs:
        options = shlex.join(part for conf in confs for part in ("--conf", conf))
        os.environ[_SUBMIT_ARGS] = f"{options} {os.environ.get(_SUBMIT_ARGS, _SUBMIT_DEFAULT)}"
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", __name__, job, *arguments])  # noqa: S606 - as a shell would


@contextmanager
def watched_queries() -> Iterator[None]:
    """Let the watermarks of the queries that start meanwhile be watched; then let the reports go out."""
    from pyspark.sql.streaming.readwriter import DataStreamWriter  # noqa: PLC0415 - a program may have no PySpark

    from tidemark.spark_jobs.core.connections import flush  # noqa: PLC0415 - as above

    names = [name for name in (*_RECORDED, *_STARTS) if hasattr(DataStreamWriter, name)]
    originals = {name: getattr(DataStreamWriter, name) for name in names}
    for name, original in originals.items():
        setattr(DataStreamWriter, name, (_watched if name in _STARTS else _recorded)(original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(DataStreamWriter, name, original)
        if not flush():
            sys.stderr.write(
                "tidemark: the program ends before all reports are sent and all late rows kept; "
                "queries keep the rest of those rows when they start again\n"
            )


def _recorded(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def record(writer: Any, *args: Any, **kwargs: Any) -> Any:
        done = method(writer, *args, **kwargs)
        writer.__dict__.setdefault(_CALLS, []).append((method, args, kwargs))
        return done

    return record


def _watched(start: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(start)
    def begin(writer: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            watched = _with_taps(writer, kwargs)
        except Exception as error:  # noqa: BLE001 - the query comes first
            _say(f"the query runs as it is: {_first_line(error)}")
            watched = None
        if watched is None:
            return start(writer, *args, **kwargs)
        try:
            return start(watched, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - if it is the query's own, it is raised again
            _say(f"the query starts as it is: {_first_line(error)}")
            return start(writer, *args, **kwargs)

    return begin


def _with_taps(writer: Any, options: dict[str, Any]) -> Any:
    """Return a writer that writes the same with tap and bound; None where nothing is to be watched."""
    from tidemark.spark_jobs.attach.rewriting import rewritten  # noqa: PLC0415 - a program may have no PySpark
    from tidemark.spark_jobs.attach.watermark import adapted  # noqa: PLC0415 - as above

    df = writer._df  # noqa: SLF001 - the writer has no public way to its frame
    spark = df.sparkSession
    if spark.conf.get(_URL, None) is None and spark.conf.get(_ENABLED, None) != "true":
        _say(f"{_URL} is not set, so nothing is watched")
        return None
    calls = writer.__dict__.get(_CALLS, [])
    query, taken = _query_of(df, calls, options), _Names()

    def context(key: str, default: str | None) -> str | None:
        return (
            _NO_LIMIT if key == _START_TIMEOUT else spark.conf.get(key, default)
        )  # no other process is waited for

    def replacement(node: Any) -> Any:
        try:
            return adapted(spark, context, query, node, taken)
        except Exception as error:  # noqa: BLE001 - others may be watched
            _say(f"a watermark is left as it is: {_first_line(error)}")
            return None

    watched = rewritten(df, replacement)
    if watched is df:
        return None
    again = watched.writeStream
    for method, args, kwargs in calls:
        method(again, *args, **kwargs)
    return again


class _Names(list[str]):
    """The names of a query's streams so far."""

    add = list.append


@dataclass(frozen=True, slots=True)
class _Query:
    """A query that is about to start, with the methods of Spark's own ``WriteToStream`` that ``adapted`` asks."""

    query: str | None
    checkpoint: str | None
    plan: Any

    def name(self) -> str | None:
        return self.query

    def resolvedCheckpointLocation(self) -> str | None:  # noqa: N802 - Spark's name
        return self.checkpoint

    def deleteCheckpointOnStop(self) -> bool:  # noqa: N802 - Spark's name
        return self.checkpoint is None

    def child(self) -> Any:
        return self.plan


def _query_of(
    df: Any,
    calls: Sequence[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]],
    of_start: dict[str, Any],
) -> _Query:
    """Return a query by what was said of it, as ``DataStreamWriter`` reads that."""
    name, options = None, {}
    for method, args, kwargs in calls:
        values = [*args, *kwargs.values()]
        if method.__name__ == "queryName":
            name = values[0]
        elif method.__name__ == "option":
            options[str(values[0]).lower()] = values[1]
        elif method.__name__ == "options":
            options |= {key.lower(): value for key, value in kwargs.items()}
    options |= {key.lower(): value for key, value in of_start.items()}
    name = of_start.get("queryName") or name
    checkpoint = options.get(_CHECKPOINT)
    folder = df.sparkSession.conf.get("spark.sql.streaming.checkpointLocation", None)
    if checkpoint is None and folder and name:
        checkpoint = f"{folder}/{name}"
    plan = df._jdf.queryExecution().analyzed()  # noqa: SLF001 - the one way to the plan
    return _Query(name, None if checkpoint is None else str(checkpoint), plan)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _say(line: str) -> None:
    """Say it once in the driver's log, also where nobody configured Python's logging."""
    print(f"tidemark: {line}", file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2:])
