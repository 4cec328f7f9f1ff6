"""Commands that are programs of the Spark side: ``tidemark demo``, ``side``, ``reconcile`` and ``lint``.

They are run, not imported: the controller does not depend on the Spark side.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import NamedTuple

import typer

from tidemark.controller.cli.show import fail_usage


class Program(NamedTuple):
    """A program that takes this process's place."""

    module: str
    """What runs it, as ``python -m`` does."""
    help: str
    """What it does, in one sentence."""
    extra: str = "spark"
    """Extra of the distribution that brings what it needs."""


PROGRAMS = {
    "demo": Program(
        "tidemark.spark_jobs.demo",
        "Run the whole loop on a real Spark stream: guessed bound, recommendation, restart.",
        "demo",
    ),
    "side": Program("tidemark.spark_jobs.late", "Keep the rows that Spark dropped as late."),
    "reconcile": Program(
        "tidemark.spark_jobs.late.reconcile_command",
        "Put late rows into the finished windows that they belong to.",
    ),
    "lint": Program(
        "tidemark.spark_jobs.lint",
        "Check the joins and stateful operators of a job's streams before it starts.",
    ),
}
"""The programs by name of their command."""


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    for name, program in PROGRAMS.items():
        app.command(
            name,
            help=program.help,
            # The program parses all that follows the name, --help and -- included.
            context_settings={
                "allow_extra_args": True,
                "ignore_unknown_options": True,
                "allow_interspersed_args": False,
            },
            add_help_option=False,
        )(_run)


def _run(context: typer.Context) -> None:
    name = context.info_name or ""
    program = PROGRAMS[name]
    if importlib.util.find_spec("pyspark") is None:
        fail_usage(f"`tidemark {name}` needs pyspark: pip install 'tidemark[{program.extra}]'")
    # In place of this process, so that signals and the exit code are the program's own.
    os.execv(sys.executable, [sys.executable, "-m", program.module, *context.args])  # noqa: S606 - no shell is wanted
