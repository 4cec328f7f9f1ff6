"""``tidemark demo``: the whole loop on a real Spark stream, run by the Spark side of the distribution."""

from __future__ import annotations

import importlib.util
import os
import sys

import typer

from tidemark.controller.cli.fail import fail_usage

MODULE = "tidemark.spark_jobs.demo"
"""Module of the demo. It is run, not imported: the controller does not depend on the Spark side."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command(
        "demo",
        # The demo parses all that follows its name, --help included.
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        add_help_option=False,
    )
    def run(context: typer.Context) -> None:
        """Run the whole loop on a real Spark stream: guessed bound, recommendation, restart."""
        if importlib.util.find_spec("pyspark") is None:
            fail_usage("`tidemark demo` needs pyspark: pip install 'tidemark[demo]'")
        # In place of this process, so that signals and the exit code are the demo's own.
        os.execv(sys.executable, [sys.executable, "-m", MODULE, *context.args])  # noqa: S606 - no shell is wanted
