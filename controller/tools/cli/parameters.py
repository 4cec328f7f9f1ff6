"""What several commands take: arguments and options by the names that the tables of commands have for them."""

from __future__ import annotations

from typing import Any

import click

from tidemark.controller.tools.cli.ask import ask_reason
from tidemark.controller.tools.cli.shape import PATH, Param, Params, Row, Whole, arg, opt, several
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


def _fields(command: str) -> Params:
    """Return the options of a command that sets something: they are made from its fields."""
    from tidemark.controller.tools.cli.spec_options import parameters_of  # noqa: PLC0415 - when they are asked for

    return parameters_of(command.partition(" ")[0])


SHARED: dict[str, Param] = {
    "URL": URL,
    "TOKEN_FILE": TOKEN_FILE,
    "JOB": _named("job", "Name of the job."),
    "STREAM": _named("stream", "Name of the stream."),
    "SOME_JOB": _named("job", "Name of the job. Default: all jobs.", some=True),
    "SOME_STREAM": _named("stream", "Name of the stream. Default: all streams of the job.", some=True),
    "PIN_JOB": _named("job", "Name of the job.", some=True),
    "JOIN": arg("name", "Name of the join, which you choose.", "JOIN"),
    "SPEC_STREAM": arg("name", "Name of the stream.", "STREAM", shell_complete=_complete("stream")),
    "FIELDS": _fields,
    "ROLLOUT": arg("rollout", "Number of the rollout; `tidemark rollouts` shows it.", type=Whole(min=1)),
    "REASON": opt("--reason", "Why; the event of the change records it."),
    "NEEDED_REASON": opt(
        "--reason",
        "Why; the event records it. Asked for at a terminal where it is missing.",
        default="",
        show_default=False,
        callback=ask_reason,
    ),
    "DRY_RUN": opt("--dry-run", "Show what would change, and change nothing.", bool),
    "FLEET": opt("--fleet", "All streams of all jobs, those that come later too; asks first.", bool),
    "YES": opt("--yes", "With --fleet: do not ask.", bool),
    "DATABASE": opt("--database-url", "URL of the store (TIDEMARK_DATABASE_URL)."),
    "CONFIG": opt(
        "--config",
        "File of settings, TOML (TIDEMARK_CONFIG). Environment variables take precedence over it.",
        PATH,
    ),
    "ROLE": opt("--role", "What the holder may do.", ("viewer", "job", "operator", "admin"), required=True),
    "HOLDER": arg("name", "Name of the holder of the token."),
    "CONF": several("--conf", "A conf of Spark; may be repeated.", metavar="KEY=VALUE"),
    "CHECKPOINT": arg("checkpoint", "The query's checkpointLocation."),
    "OPERATOR": opt(
        "--operator", "The operator as in the job, such as 'tumbling(\"1 minute\")'.", required=True
    ),
    "SLIDE": opt("--slide", "Slide of the windows. Default: they tumble, the slide is the size."),
}
"""What several commands take, by the names that their table has for it."""


def common(of: Row) -> Params:
    """Return what a command takes because of its kind."""
    if of.kind == "plain":
        return ()
    place = (URL, TOKEN_FILE) if of.kind == "call" else ()
    return (*(WATCH if of.watched else ()), *OUTPUT, *place)
