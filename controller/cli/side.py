"""``tidemark side``: the rows that Spark dropped as late, kept by the Spark side of the distribution."""

from __future__ import annotations

import importlib.util
import os
import sys

import typer

from tidemark.controller.cli.fail import fail_usage

MODULE = "tidemark.spark_jobs.late"
"""Run, not imported: the controller does not depend on the Spark side."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command(
        "side",
        # The Spark side parses all that follows the name, --help included.
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        add_help_option=False,
    )
    def run(context: typer.Context) -> None:
        """Keep the rows that Spark dropped as late."""
        if importlib.util.find_spec("pyspark") is None:
            fail_usage("`tidemark side` needs pyspark: pip install 'tidemark[spark]'")
        # In place of this process, so that signals and the exit code are the command's own.
        os.execv(sys.executable, [sys.executable, "-m", MODULE, *context.args])  # noqa: S606 - no shell is wanted
