"""How commands run: the client of the controller, how an answer is printed, and each failure in one line."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from time import sleep, time_ns
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from tidemark.controller.base.clock import utc_text
from tidemark.controller.tools.cli.options import duration_of
from tidemark.controller.tools.cli.shape import Row, fail_request, fail_usage
from tidemark.controller.tools.client.address import TOKEN_VARIABLE
from tidemark.controller.tools.client.errors import ClientError, TokenRejectedError, UnreachableError
from tidemark.models.base.text import plain

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.fleet import FleetStream
    from tidemark.controller.tools.client.client import Client

Format = Literal["table", "json", "yaml"]
"""How to print; a table is for people."""

_ATTEMPTS = 2
"""How often a command sends a request: a person at a terminal would rather see the error soon."""
_COMPLETION_SECONDS = 2.0
"""How long a shell waits for names at most."""
_MAX_COMPLETIONS = 200
"""How many names a shell gets at most."""
_LEAST_SECONDS = 0.1
_CLEAR = "\x1b[H\x1b[2J"
"""What makes a terminal empty."""


class CommandAnswer(NamedTuple):
    """What a command answers."""

    document: object
    """What programs get, with the names of the API."""
    show: Callable[[], None]
    """Prints it for people."""
    failure: str | None = None
    """What did not succeed, although the rest did."""
    note: str | None = None
    """What to know beside it, for people, on standard error."""
    code: int = 0
    """Exit code."""


def run_row(row: Row, options: dict[str, Any]) -> None:
    """Run the command of a row with the options that a command line has."""
    module, _, name = row.run.partition(":")
    home = "tidemark.controller" if "." in module else "tidemark.controller.tools.cli"
    function = getattr(import_module(f"{home}.{module}"), name)
    if row.kind == "plain":
        return function(**options)  # type: ignore[no-any-return]
    output: Format = options.pop("output")
    if options.pop("json"):
        output = "json"
    if row.kind == "itself":
        return function(output=output, **options)  # type: ignore[no-any-return]
    watch, interval = options.pop("watch", False), options.pop("interval", "")

    def once() -> None:
        with errors_in_one_line():
            if row.kind == "answer":
                answer: CommandAnswer = function(**options)
            else:
                asked = {name: value for name, value in options.items() if name not in {"url", "token_file"}}
                with connect(options["url"], options["token_file"]) as tidemark:
                    answer = function(tidemark, **asked)
        if output == "table":
            answer.show()
        else:
            write(answer.document, output)
        if answer.note is not None:
            click.echo(plain(answer.note), err=True)
        if answer.failure is not None:
            fail_request(answer.failure)
        if answer.code:
            raise click.exceptions.Exit(answer.code)

    if not watch:
        return once()
    with errors_in_one_line():
        seconds = duration_of(interval, "--interval") / 1e6
        if seconds < _LEAST_SECONDS:
            raise ValueError(f"--interval {interval!r} is shorter than {_LEAST_SECONDS} s")
    return again(once, seconds)


def write(document: object, output: Format) -> None:
    """Print what a command answers as JSON or YAML."""
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - the other commands start fast without it

    value = to_jsonable_python(document)
    if output == "yaml":
        import yaml  # noqa: PLC0415 - as above

        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
        if not text.replace("\n", "").isprintable():
            # What a terminal would obey is escaped, and with it all that is not ASCII.
            text = yaml.safe_dump(value, sort_keys=False)
        return click.echo(text, nl=False)
    text = json.dumps(value, indent=2, ensure_ascii=False)
    # JSON writes only some of what a terminal would obey as an escape.
    escaped = (sign if sign.isprintable() or sign == "\n" else json.dumps(sign)[1:-1] for sign in text)
    return click.echo("".join(escaped))


def again(show: Callable[[], None], seconds: float) -> None:
    """Call ``show`` every so many seconds until Ctrl-C: on a terminal in place, elsewhere when it says something new.

    A failure of the first time ends the command. Later ones do not: a controller that is being restarted comes back.
    """
    terminal, before = sys.stdout.isatty(), ""
    with suppress(KeyboardInterrupt):
        while True:
            screen = _Screen(terminal=terminal)
            with suppress(*([click.exceptions.Exit] if before else [])), redirect_stdout(screen):
                show()
            text = screen.getvalue()
            if text and text != before:
                looked = f"{utc_text(time_ns() // 1_000)}\n"
                click.echo(f"{_CLEAR if terminal else ''}{looked}{text}", nl=False)
                before = text
            sleep(seconds)


class _Screen(io.StringIO):
    """Takes what is printed, as the terminal would that it is for."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        """Return whether a terminal will show it."""
        return self._terminal


def connect(url: str | None, token_file: Path | None, **more: Any) -> Client:
    """Return the client of a controller."""
    from tidemark.controller.tools.client.client import Client  # noqa: PLC0415 - the other commands start fast without it
    from tidemark.controller.tools.client.sign_in import token_for  # noqa: PLC0415 - as above

    return Client(url, token_file=token_file, **{"attempts": _ATTEMPTS, "signed_in": token_for, **more})


@contextmanager
def open_client(url: str, token_file: Path | None) -> Iterator[Client]:
    """Open the client of a controller; a failure ends the command with one line."""
    with errors_in_one_line(), connect(url, token_file) as tidemark:
        yield tidemark


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """End the command with one line when it fails.

    The exit code is 1 when the controller rejects the request or cannot be used, 2 when what the command was given
    cannot be used.
    """
    try:
        yield
    except TokenRejectedError as error:
        fail_request(
            f"{error}; name a token of this controller by --token-file or {TOKEN_VARIABLE}, or run "
            "tidemark login"
        )
    except UnreachableError as error:
        fail_request(f"{error}; is `tidemark serve` running there? --url names another address")
    except ClientError as error:
        fail_request(str(error))
    except (ValueError, OSError) as error:
        fail_usage(" ".join(str(error).split()))


def check_job(tidemark: Client, job: str | None) -> None:
    """Ask for a job, if one is named: of one that there is not a list is empty, and only this names the nearest one.

    Raises:
        RequestRejectedError: when there is no such job.
    """
    if job is not None:
        tidemark.job(job)


def streams_by_name(tidemark: Client, job: str | None) -> list[FleetStream]:
    """Return the streams of a job, or of the whole fleet, by job and stream."""
    return sorted(tidemark.fleet(job), key=lambda row: (row.job, row.stream))


def complete_job(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of jobs for a shell that completes one."""
    return _completed(ctx, incomplete, lambda tidemark: (row.job for row in tidemark.jobs()))


def complete_stream(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of streams of the job that the line names, for a shell that completes one."""
    return _completed(
        ctx, incomplete, lambda client: (row.stream for row in client.fleet(ctx.params.get("job")))
    )


def _completed(ctx: click.Context, incomplete: str, names: Callable[[Client], Iterable[str]]) -> list[str]:
    url, token_file = ctx.params.get("url"), ctx.params.get("token_file")
    # A shell that waits is worse than one that completes nothing.
    with (
        suppress(ClientError),
        connect(url, token_file, attempts=1, timeout_seconds=_COMPLETION_SECONDS) as tidemark,
    ):
        return list(
            islice((name for name in names(tidemark) if name.startswith(incomplete)), _MAX_COMPLETIONS)
        )
    return []
