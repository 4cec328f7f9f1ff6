"""``tidemark lint``: checks of a job before it starts, run by the Spark side of the distribution."""

from __future__ import annotations

import importlib.util
import os
import sys

import typer

from tidemark.controller.cli.fail import fail_usage

MODULE = "tidemark.spark_jobs.lint"
"""Module of the check. It is run, not imported: the controller does not depend on the Spark side."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command(
        "lint",
        # The check parses all that follows its name, --help and -- included.
        context_settings={
            "allow_extra_args": True,
            "ignore_unknown_options": True,
            "allow_interspersed_args": False,
        },
        add_help_option=False,
    )
    def run(context: typer.Context) -> None:
        """Check the joins of a job's streams before it starts."""
        if importlib.util.find_spec("pyspark") is None:
            fail_usage("`tidemark lint` needs pyspark: pip install 'tidemark[spark]'")
        # In place of this process, so that signals and the exit code are the check's own.
        os.execv(sys.executable, [sys.executable, "-m", MODULE, *context.args])  # noqa: S606 - no shell is wanted
