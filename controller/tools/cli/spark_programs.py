"""Commands of the Spark side: ``tidemark run``, ``jar``, ``lint``, ``inspect``, ``late``, ``reconcile`` and ``demo``.

The controller does not depend on the Spark side: its modules are imported when a command runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

import click

from tidemark.controller.tools.cli.options import milliseconds_of
from tidemark.controller.tools.cli.run import Format, errors_in_one_line, write
from tidemark.controller.tools.cli.shape import fail_usage


def spark_side(module: str) -> Any:
    """Return a module of the Spark side."""
    return import_module(f"tidemark.spark_jobs.{module}")


def _with_java(module: str) -> Any:
    """Return a module of the Spark side that starts a Spark; without Java the command ends with one line."""
    java = spark_side("spark.java")
    try:
        java.ensure_java()
    except java.JavaNotFound as error:
        fail_usage(str(error))
    return spark_side(module)


def _end(code: int) -> NoReturn:
    raise click.exceptions.Exit(code)


def catch_up(checkpoint: str, *, conf: Sequence[str], **options: Any) -> None:
    """Read the late rows of all committed batches that are not kept yet, from the checkpoint alone."""
    with errors_in_one_line():
        _with_java("late.commands").catch_up(checkpoint, confs=conf, **options)


def reconcile(side: str, *, conf: Sequence[str], **options: Any) -> None:
    """Put late rows into the finished windows that they belong to."""
    with errors_in_one_line():
        _with_java("late.commands").reconcile(side, confs=conf, **options)


def _writer(output: Format) -> Callable[[object], None] | None:
    """Return what prints a document in place of what is for people."""
    return None if output == "table" else partial(write, output=output)


def lint(job: str, arguments: Sequence[str], *, bound: str | None, output: Format) -> None:
    """Check the joins and stateful operators of a job's streams before it starts."""
    with errors_in_one_line():
        bound_ms = None if bound is None else milliseconds_of(bound, "--bound")
    _end(spark_side("plans.lint").check(job, list(arguments), bound_ms, _writer(output)))


def run(job: str | None, arguments: Sequence[str], *, conf: Sequence[str], path: bool) -> None:
    """Run a PySpark program that does not call Tidemark, with the watermarks of its queries watched."""
    program = spark_side("attach.pyspark_run")
    if path:
        click.echo(program.__file__)
        return
    if job is None:
        fail_usage("name the program to run: tidemark run JOB.py")
    with errors_in_one_line():
        program.replace_this_process(job, list(arguments), list(conf))


def inspect(checkpoint: str, *, limit: int, output: Format, conf: Sequence[str]) -> None:
    """Show what a query's checkpoint holds: watermarks, sources, operators, open windows and rows of state."""
    with errors_in_one_line():
        code = _with_java("plans.inspection").inspect(checkpoint, limit, _writer(output), list(conf))
    _end(code)


def demo(**options: Any) -> None:
    """Run the whole loop on a real Spark stream: guessed bound, recommendation, restart."""
    demonstration = spark_side("demo.demonstration")
    _end(demonstration.demonstrate(demonstration.Chosen(**options)))


def jar() -> None:
    """Print the path of Tidemark's jar for the installed Spark."""
    jars = spark_side("spark.jar")
    try:
        click.echo(jars.installed_jar())
    except jars.JarsNotFound as error:
        fail_usage(str(error))
