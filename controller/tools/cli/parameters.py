"""What several commands take: arguments and options by name."""

from __future__ import annotations

from typing import Any

import click

from tidemark.controller.tools.cli.ask import ask_reason
from tidemark.controller.tools.cli.shape import PATH, Params, Row, Whole, arg, opt
from tidemark.controller.tools.client.address import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE

URL = opt("--url", "Address of the controller.", default=DEFAULT_URL, envvar=URL_VARIABLE, show_envvar=True)
TOKEN_FILE = opt(
    "--token-file", f"File that holds the token. Default: the token in {TOKEN_VARIABLE}, if set.", PATH
)
OUTPUT = (
    opt(
        "--output -o",
        "How to print: a table for people; or JSON or YAML, with the field names of the API.",
        ("table", "json", "yaml"),
        default="table",
    ),
    opt("--json", "Print JSON: the same as -o json.", bool),
)
WATCH = (
    opt("--watch -w", "Show it again and again, until Ctrl-C.", bool),
    opt("--interval", "With --watch: time between two looks.", default="2 s"),
)


def _complete(kind: str) -> Any:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        from tidemark.controller.tools.cli import run  # noqa: PLC0415 - help needs no client

        names: list[str] = getattr(run, f"complete_{kind}")(ctx, param, incomplete)
        return names

    return complete


def _named(name: str, text: str, *, some: bool = False) -> click.Argument:
    return arg(name, text, required=not some, shell_complete=_complete(name))


JOB, STREAM = _named("job", "Name of the job."), _named("stream", "Name of the stream.")
SOME_JOB = _named("job", "Name of the job. Default: all jobs.", some=True)
SOME_STREAM = _named("stream", "Name of the stream. Default: all streams of the job.", some=True)
PIN_JOB = _named("job", "Name of the job.", some=True)
JOIN = arg("name", "Name of the join, which you choose.", "JOIN")
SPEC_STREAM = arg("name", "Name of the stream.", "STREAM", shell_complete=_complete("stream"))
ROLLOUT = arg("rollout", "Number of the rollout; `tidemark rollouts` shows it.", type=Whole(min=1))
REASON = opt("--reason", "Why; the event of the change records it.")
NEEDED_REASON = opt(
    "--reason",
    "Why; the event records it. Asked for at a terminal where it is missing.",
    default="",
    show_default=False,
    callback=ask_reason,
)
DRY_RUN = opt("--dry-run", "Show what would change, and change nothing.", bool)
ACT = (JOB, STREAM, NEEDED_REASON, DRY_RUN)
DATABASE = opt("--database-url", "URL of the store (TIDEMARK_DATABASE_URL).")
CONFIG = opt(
    "--config",
    "File of settings, TOML (TIDEMARK_CONFIG). Environment variables take precedence over it.",
    PATH,
)
FLEET = opt("--fleet", "All streams of all jobs, those that come later too; asks first.", bool)
YES = opt("--yes", "With --fleet: do not ask.", bool)


def common(of: Row) -> Params:
    """Return what a command takes because of its kind."""
    if of.kind == "plain":
        return ()
    place = (URL, TOKEN_FILE) if of.kind == "call" else ()
    return (*(WATCH if of.watched else ()), *OUTPUT, *place)
