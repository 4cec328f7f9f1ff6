"""The commands of the Spark side: each is a row."""

from __future__ import annotations

import click

from tidemark.controller.tools.cli.shape import PATH, Whole, arg, opt, row, several

_OPERATOR = opt("--operator", "The operator as in the job, such as 'tumbling(\"1 minute\")'.", required=True)
_CONF = several("--conf", "A conf of Spark; may be repeated.", metavar="KEY=VALUE")
_CHECKPOINT = arg("checkpoint", "The query's checkpointLocation.")


def _arguments(text: str) -> click.Argument:
    return arg("arguments", text, "ARGUMENT", nargs=-1, required=False)


PROGRAMS = (
    row(
        "lint",
        "spark_programs:lint",
        """Check the joins and stateful operators of a job's streams before it starts.

        The file is run up to where it would wait for a query, and no query starts: what it does before that is done.
        Exit code: 0 without errors, 1 with one, 2 when the job cannot be checked.
        """,
        arg(
            "job",
            "A Python file that starts queries, or FILE:FUNCTION for one that returns streaming DataFrames.",
        ),
        _arguments("The file's own arguments, behind --."),
        opt(
            "--bound",
            "Show what this bound of all inputs, such as '30 s', would decide. Default: those in the plan.",
        ),
        kind="itself",
        extra="spark",
    ),
    row(
        "run",
        "spark_programs:run",
        """Run a PySpark program that does not call Tidemark, with the watermarks of its queries watched.

        Where the controller is, and what else is to be done, Spark's conf says: spark.tidemark.controller.url,
        spark.tidemark.job and so on. Queries are never rejected, and if Tidemark fails they run as they are.
        """,
        arg("job", "A PySpark program, as it is.", "JOB.py", required=False),
        _arguments("The program's own arguments."),
        _CONF,
        opt(
            "--path",
            "Print the file that spark-submit takes before JOB.py, and run nothing: "
            "spark-submit ... $(tidemark run --path) JOB.py",
            bool,
        ),
        kind="plain",
        extra="spark",
        whole=True,
    ),
    row(
        "inspect",
        "spark_programs:inspect",
        """Show what a query's checkpoint holds: watermarks, sources, operators, open windows and rows of state.

        The query may run meanwhile, watched by Tidemark or not: the checkpoint is only read, as of its last committed
        batch. Exit code: 0 when all is read, 1 when some of the state is not, 2 when the folder is no checkpoint.
        """,
        _CHECKPOINT,
        opt(
            "--limit",
            "Maximum number of batches, and of windows of each operator.",
            Whole(min=1),
            default=20,
        ),
        _CONF,
        kind="itself",
        extra="spark",
    ),
    row(
        "demo",
        "spark_programs:demo",
        "Run the whole loop on a real Spark stream: guessed bound, recommendation, restart.",
        opt("--keep", "Go on until Ctrl-C: the fleet's job in real time, and the controller.", bool),
        opt("--kafka", "Send the rows through a Kafka broker, which is started too.", bool),
        opt("--trace", "Use this trace instead of the generated fleet.", PATH),
        opt("--window", "Length of the windows. Default: 10s for the fleet, by the trace's span else."),
        opt(
            "--guess",
            "The bound that somebody guessed. Default: 2s for the fleet, the window's length else.",
        ),
        opt(
            "--safe",
            "The bound that somebody thinks is safe. Default: 60s for the fleet, ten times the guess else.",
        ),
        opt("--slots", "Maximum number of batches to coarsen a trace to.", int, default=120),
        opt("--target", "Completeness to reach, such as 0.995.", default="0.995"),
        kind="plain",
        extra="demo",
    ),
)

JARS = (
    row(
        "jar",
        "spark_programs:jar",
        """Print the path of Tidemark's jar for the installed Spark.

        It is for `spark-submit --jars "$(tidemark jar)"`: with it a job compiles nothing when it starts.
        """,
        kind="plain",
    ),
)

LATE = (
    row(
        "late catch-up",
        "spark_programs:catch_up",
        """Read the late rows of all committed batches that are not kept yet, from the checkpoint alone.

        The job must not run with late=side(...) on the same folder meanwhile.
        """,
        _CHECKPOINT,
        opt("--into", "Folder for the late rows.", metavar="FOLDER", required=True),
        opt(
            "--parse",
            "Makes rows of the source's columns, as in the job.",
            metavar="MODULE:FUNCTION",
            required=True,
        ),
        _OPERATOR,
        opt("--event-time", "The event-time column.", metavar="COLUMN", required=True),
        opt(
            "--format source_format",
            "Format of the source: kafka, json, parquet and so on.",
            required=True,
        ),
        several(
            "--option options", "An option of the source's reader; may be repeated.", metavar="NAME=VALUE"
        ),
        opt("--schema", "Columns of a file source, such as 'id long, ts timestamp'.", metavar="DDL"),
        opt(
            "--source",
            "The source by its place in the plan or its name, if there are several.",
            metavar="NAME",
        ),
        opt("--partition", "The column that names a row's partition.", metavar="COLUMN"),
        opt(
            "--dimension",
            "Count rows and losses by the values of this column; the job's next start sends the counts.",
            metavar="COLUMN",
        ),
        opt("--batches", "Maximum number of batches of one read.", Whole(min=1), default=20),
        opt(
            "--future-rows",
            "How the job treated future-dated rows, if it ran in Live without keeping late rows.",
            ("clamp", "aside", "keep"),
        ),
        opt("--future-allowance", "As in the job.", default="1 minute"),
        opt("--arrival-time", "As in the job.", metavar="COLUMN"),
        opt("--arrival-type", "timestampType, if rows have it.", metavar="COLUMN"),
        _CONF,
        kind="plain",
        extra="spark",
    ),
    row(
        "reconcile",
        "spark_programs:reconcile",
        """Put late rows into the finished windows that they belong to.

        Neither folder is changed: the windows that differ are written to another one, with the values they would have
        had no row been late.
        """,
        arg("side", "The folder with the late rows, as side(...) or `tidemark late catch-up` writes it."),
        opt("--windows", "The finished windows, as the query wrote them.", metavar="FOLDER", required=True),
        _OPERATOR,
        opt(
            "--aggregate",
            "Makes windows of late rows, which have a column `window`; with the finished windows' columns.",
            metavar="MODULE:FUNCTION",
            required=True,
        ),
        several(
            "--combine",
            "How an aggregated column of both parts is combined: sum, min or max; all other columns are keys. "
            "May be repeated.",
            metavar="COLUMN=HOW",
            required=True,
        ),
        opt("--into", "Folder for the windows that late rows belong to.", metavar="FOLDER", required=True),
        opt("--format windows_format", "Format of the finished windows.", default="parquet"),
        _CONF,
        kind="plain",
        extra="spark",
    ),
)
