"""Runs a job's file with the starts of its queries intercepted: what would be started is collected instead.

The file runs as it does in production, up to the place where it would wait for a query or look at one. So nothing of
it is guessed; but all that it does before its queries start is done.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidemark.models.protocol.messages import RunEnd


class JobNotCheckedError(Exception):
    """The job cannot be checked; the text says why."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A query that a job would start."""

    df: DataFrame
    output_mode: str = "append"
    name: str | None = None
    run_end: RunEnd | None = None
    """How its trigger ends it; None when it does not."""


def queries_of(job: str, arguments: Sequence[str] = ()) -> list[Wanted]:
    """Return the queries that a job would start.

    Args:
        job: path of a Python file, which is run as the main program; or ``FILE:FUNCTION``, for a function without
            arguments that returns a streaming DataFrame, or several.
        arguments: what the file finds in ``sys.argv`` behind its own name.

    Raises:
        JobNotCheckedError: when the file or the function is not there, or no query comes out.
        Exception: what the job raises before it has started a query.
    """
    file, _, function = job.partition(":") if not Path(job).exists() else (job, "", "")
    if not Path(file).is_file():
        raise JobNotCheckedError(f"there is no file {file}")
    wanted: list[Wanted] = []
    # What a job prints is no part of the findings.
    with _as_main(file, arguments), _intercepted(wanted.append), redirect_stdout(sys.stderr):
        _run(file, function, wanted)
    if not wanted:
        raise JobNotCheckedError(f"{job} starts no streaming query")
    return wanted


def _run(file: str, function: str, wanted: list[Wanted]) -> None:
    try:
        names = runpy.run_path(file, run_name="tidemark_lint" if function else "__main__")
        if function:
            wanted += _returned(names, function)
    except _Waits:
        pass
    except SystemExit as end:
        if end.code not in {None, 0}:
            raise JobNotCheckedError(
                f"{file} ends with exit code {end.code} before it waits for a query"
            ) from end


def _returned(names: dict[str, Any], function: str) -> list[Wanted]:
    if not callable(names.get(function)):
        raise JobNotCheckedError(f"there is no function {function}")
    returned = names[function]()
    frames = [returned] if isinstance(returned, DataFrame) else list(returned or [])
    if not all(isinstance(frame, DataFrame) and frame.isStreaming for frame in frames):
        raise JobNotCheckedError(f"{function} must return a streaming DataFrame, or several")
    return [Wanted(frame) for frame in frames]


class _Waits(BaseException):
    """The job has come to where it would wait for a query. No ``Exception``, so that it does not handle it."""


class _NotStarted(StreamingQuery):
    """Stands for a query that would run: it has a name and ids, and all else would need it to run."""

    def __init__(self, name: str | None) -> None:
        self.__dict__.update(name=name, id=str(uuid4()), runId=str(uuid4()))

    def __getattribute__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            return super().__getattribute__(attribute)
        if attribute in self.__dict__:
            return self.__dict__[attribute]
        raise _Waits(attribute)


@contextmanager
def _intercepted(collect: Callable[[Wanted], None]) -> Iterator[None]:
    """Let no query start and nothing wait."""

    def output_mode(writer: DataStreamWriter, mode: str) -> DataStreamWriter:
        writer._tidemark_mode = mode  # type: ignore[attr-defined]  # noqa: SLF001 - Spark's own is not to be read
        return originals[DataStreamWriter, "outputMode"](writer, mode)  # type: ignore[no-any-return]

    def trigger(writer: DataStreamWriter, **rule: Any) -> DataStreamWriter:
        writer._tidemark_run_end = _run_end(rule)  # type: ignore[attr-defined]  # noqa: SLF001
        return originals[DataStreamWriter, "trigger"](writer, **rule)  # type: ignore[no-any-return]

    def query_name(writer: DataStreamWriter, name: str) -> DataStreamWriter:
        writer._tidemark_name = name  # type: ignore[attr-defined]  # noqa: SLF001
        return originals[DataStreamWriter, "queryName"](writer, name)  # type: ignore[no-any-return]

    def start(writer: DataStreamWriter, *_: object, **options: Any) -> _NotStarted:
        mode = str(options.get("outputMode") or getattr(writer, "_tidemark_mode", "append"))
        name = options.get("queryName") or getattr(writer, "_tidemark_name", None)
        run_end = getattr(writer, "_tidemark_run_end", None)
        collect(Wanted(writer._df, mode, name, run_end))  # noqa: SLF001 - the writer has no public way to its DataFrame
        return _NotStarted(name)

    def wait(*_: object, **__: object) -> NoReturn:
        raise _Waits

    replaced: dict[tuple[type, str], Callable[..., Any]] = {
        (DataStreamWriter, "outputMode"): output_mode,
        (DataStreamWriter, "queryName"): query_name,
        (DataStreamWriter, "trigger"): trigger,
        (DataStreamWriter, "start"): start,
        (DataStreamWriter, "toTable"): start,
        (StreamingQueryManager, "awaitAnyTermination"): wait,
    }
    originals = {where: getattr(*where) for where in replaced}
    for where, function in replaced.items():
        setattr(*where, function)
    try:
        yield
    finally:
        for where, function in originals.items():
            setattr(*where, function)


def _run_end(trigger: dict[str, Any]) -> RunEnd | None:
    if trigger.get("availableNow"):
        return "AvailableNow"
    return "Once" if trigger.get("once") else None


@contextmanager
def _as_main(file: str, arguments: Sequence[str]) -> Iterator[None]:
    """Let a file find its arguments, and the modules beside it."""
    argv, path = sys.argv, sys.path
    sys.argv, sys.path = [file, *arguments], [str(Path(file).resolve().parent), *path]
    try:
        yield
    finally:
        sys.argv, sys.path = argv, path
