"""Commands of the Spark side: ``tidemark run``, ``jar``, ``lint``, ``inspect``, ``late``, ``reconcile`` and ``demo``.

The controller does not depend on the Spark side: its modules are imported when a command runs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tidemark.controller.tools.cli.options import milliseconds_of
from tidemark.controller.tools.cli.output import Format, prints_data, write
from tidemark.controller.tools.cli.show import fail_usage, input_errors_in_one_line

_OperatorOption = Annotated[
    str, typer.Option("--operator", help="The operator as in the job, such as 'tumbling(\"1 minute\")'.")
]
_ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A conf of Spark; may be repeated."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    late = typer.Typer(
        help="Keep the rows that Spark dropped as late.", no_args_is_help=True, rich_markup_mode=None
    )
    app.add_typer(late, name="late")
    late.command("catch-up")(_catch_up)
    app.command("reconcile")(_reconcile)
    app.command("lint")(_lint)
    # What follows the program's name is its own, options too.
    app.command("run", context_settings={"allow_interspersed_args": False})(_run)
    app.command("inspect")(_inspect)
    app.command("demo")(_demo)
    app.command("jar")(_jar)


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


def _catch_up(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="The query's checkpointLocation.")],
    *,
    into: Annotated[str, typer.Option(metavar="FOLDER", help="Folder for the late rows.")],
    parse: Annotated[
        str,
        typer.Option(metavar="MODULE:FUNCTION", help="Makes rows of the source's columns, as in the job."),
    ],
    operator: _OperatorOption,
    event_time: Annotated[str, typer.Option(metavar="COLUMN", help="The event-time column.")],
    source_format: Annotated[
        str, typer.Option("--format", help="Format of the source: kafka, json, parquet and so on.")
    ],
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of the source's reader; may be repeated."),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(metavar="DDL", help="Columns of a file source, such as 'id long, ts timestamp'."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The source by its place in the plan or its name, if there are several."
        ),
    ] = None,
    partition: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column that names a row's partition.")
    ] = None,
    dimension: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Count rows and losses by the values of this column; the job's next start sends the counts.",
        ),
    ] = None,
    batches: Annotated[int, typer.Option(min=1, help="Maximum number of batches of one read.")] = 20,
    future_rows: Annotated[
        Literal["clamp", "aside", "keep"] | None,
        typer.Option(
            help="How the job treated future-dated rows, if it ran in Live without keeping late rows."
        ),
    ] = None,
    future_allowance: Annotated[str, typer.Option(help="As in the job.")] = "1 minute",
    arrival_time: Annotated[str | None, typer.Option(metavar="COLUMN", help="As in the job.")] = None,
    arrival_type: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="timestampType, if rows have it.")
    ] = None,
    conf: _ConfOption = None,
) -> None:
    """Read the late rows of all committed batches that are not kept yet, from the checkpoint alone.

    The job must not run with late=side(...) on the same folder meanwhile.
    """
    with input_errors_in_one_line():
        _with_java("late.commands").catch_up(
            checkpoint,
            into=into,
            parse=parse,
            operator=operator,
            event_time=event_time,
            source_format=source_format,
            options=option or [],
            schema=schema,
            source=source,
            partition=partition,
            dimension=dimension,
            batches=batches,
            future_rows=future_rows,
            future_allowance=future_allowance,
            arrival_time=arrival_time,
            arrival_type=arrival_type,
            confs=conf or [],
        )


def _reconcile(
    side: Annotated[
        str,
        typer.Argument(
            metavar="SIDE",
            help="The folder with the late rows, as side(...) or `tidemark late catch-up` writes it.",
        ),
    ],
    *,
    windows: Annotated[
        str, typer.Option(metavar="FOLDER", help="The finished windows, as the query wrote them.")
    ],
    operator: _OperatorOption,
    aggregate: Annotated[
        str,
        typer.Option(
            metavar="MODULE:FUNCTION",
            help="Makes windows of late rows, which have a column `window`; with the finished windows' columns.",
        ),
    ],
    combine: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMN=HOW",
            help="How an aggregated column of both parts is combined: sum, min or max; all other columns are keys. "
            "May be repeated.",
        ),
    ],
    into: Annotated[
        str, typer.Option(metavar="FOLDER", help="Folder for the windows that late rows belong to.")
    ],
    windows_format: Annotated[
        str, typer.Option("--format", help="Format of the finished windows.")
    ] = "parquet",
    conf: _ConfOption = None,
) -> None:
    """Put late rows into the finished windows that they belong to.

    Neither folder is changed: the windows that differ are written to another one, with the values they would have had
    no row been late.
    """
    with input_errors_in_one_line():
        _with_java("late.commands").reconcile(
            side,
            windows=windows,
            windows_format=windows_format,
            operator=operator,
            aggregate=aggregate,
            combine=combine,
            into=into,
            confs=conf or [],
        )


def _writer(output: Format | None) -> Callable[[object], None] | None:
    """Return what prints a document in place of what is for people."""
    return None if output is None else partial(write, output=output)


@prints_data
def _lint(
    job: Annotated[
        str,
        typer.Argument(
            metavar="JOB",
            help="A Python file that starts queries, or FILE:FUNCTION for one that returns streaming DataFrames.",
        ),
    ],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGUMENT", help="The file's own arguments, behind --.", show_default=False),
    ] = None,
    *,
    bound: Annotated[
        str | None,
        typer.Option(
            help="Show what this bound of all inputs, such as '30 s', would decide. Default: those in the plan."
        ),
    ] = None,
    output: Format | None = None,
) -> None:
    """Check the joins and stateful operators of a job's streams before it starts.

    The file is run up to where it would wait for a query, and no query starts: what it does before that is done. Exit
    code: 0 without errors, 1 with one, 2 when the job cannot be checked.
    """
    with input_errors_in_one_line():
        bound_ms = None if bound is None else milliseconds_of(bound, "--bound")
    raise typer.Exit(spark_side("plans.lint").check(job, arguments or [], bound_ms, _writer(output)))


def _run(
    job: Annotated[
        str | None,
        typer.Argument(metavar="JOB.py", help="A PySpark program, as it is.", show_default=False),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="ARGUMENT", help="The program's own arguments.", show_default=False),
    ] = None,
    *,
    conf: _ConfOption = None,
    path: Annotated[
        bool,
        typer.Option(
            "--path",
            help="Print the file that spark-submit takes before JOB.py, and run nothing: "
            "spark-submit ... $(tidemark run --path) JOB.py",
        ),
    ] = False,
) -> None:
    """Run a PySpark program that does not call Tidemark, with the watermarks of its queries watched.

    Where the controller is, and what else is to be done, Spark's conf says: spark.tidemark.controller.url,
    spark.tidemark.job and so on. Queries are never rejected, and if Tidemark fails they run as they are.
    """
    program = spark_side("attach.pyspark_run")
    if path:
        typer.echo(program.__file__)
        return
    if job is None:
        fail_usage("name the program to run: tidemark run JOB.py")
    with input_errors_in_one_line():
        program.replace_this_process(job, arguments or [], conf or [])


@prints_data
def _inspect(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="The query's checkpointLocation.")],
    *,
    limit: Annotated[
        int, typer.Option(min=1, help="Maximum number of batches, and of windows of each operator.")
    ] = 20,
    output: Format | None = None,
    conf: _ConfOption = None,
) -> None:
    """Show what a query's checkpoint holds: watermarks, sources, operators, open windows and rows of state.

    The query may run meanwhile, watched by Tidemark or not: the checkpoint is only read, as of its last committed
    batch. Exit code: 0 when all is read, 1 when some of the state is not, 2 when the folder is no checkpoint.
    """
    with input_errors_in_one_line():
        code = _with_java("plans.inspection").inspect(checkpoint, limit, _writer(output), conf or [])
    raise typer.Exit(code)


def _demo(
    *,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Go on until Ctrl-C: the fleet's job in real time, and the controller."),
    ] = False,
    kafka: Annotated[
        bool,
        typer.Option("--kafka", help="Send the rows through a Kafka broker, which is started too."),
    ] = False,
    trace: Annotated[Path | None, typer.Option(help="Use this trace instead of the generated fleet.")] = None,
    window: Annotated[
        str | None,
        typer.Option(help="Length of the windows. Default: 10s for the fleet, by the trace's span else."),
    ] = None,
    guess: Annotated[
        str | None,
        typer.Option(
            help="The bound that somebody guessed. Default: 2s for the fleet, the window's length else."
        ),
    ] = None,
    safe: Annotated[
        str | None,
        typer.Option(
            help="The bound that somebody thinks is safe. Default: 60s for the fleet, ten times the guess else."
        ),
    ] = None,
    slots: Annotated[int, typer.Option(help="Maximum number of batches to coarsen a trace to.")] = 120,
    target: Annotated[str, typer.Option(help="Completeness to reach, such as 0.995.")] = "0.995",
) -> None:
    """Run the whole loop on a real Spark stream: guessed bound, recommendation, restart."""
    demo = spark_side("demo.demonstration")
    chosen = demo.Chosen(
        keep=keep,
        kafka=kafka,
        trace=trace,
        window=window,
        guess=guess,
        safe=safe,
        slots=slots,
        target=target,
    )
    raise typer.Exit(demo.demonstrate(chosen))


def _jar() -> None:
    """Print the path of Tidemark's jar for the installed Spark.

    It is for `spark-submit --jars "$(tidemark jar)"`: with it a job compiles nothing when it starts.
    """
    jar = spark_side("spark.jar")
    try:
        typer.echo(jar.installed_jar())
    except jar.JarsNotFound as error:
        fail_usage(str(error))
