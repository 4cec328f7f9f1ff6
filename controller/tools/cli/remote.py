"""How commands call a running controller: their common options, and each failure in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.controller.tools.cli.show import fail_request, fail_usage
from tidemark.controller.tools.client.address import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE
from tidemark.controller.tools.client.errors import ClientError, TokenRejectedError, UnreachableError

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.fleet import FleetStream
    from tidemark.controller.tools.client.client import Client

_ATTEMPTS = 2
"""How often a command sends a request: a person at a terminal would rather see the error soon."""

_COMPLETION_SECONDS = 2.0
"""How long a shell waits for names at most."""

_MAX_COMPLETIONS = 200
"""How many names a shell gets at most."""

UrlOption = Annotated[
    str,
    typer.Option("--url", envvar=URL_VARIABLE, help="Address of the controller.", show_default=DEFAULT_URL),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        help=f"File that holds the bearer token. Default: the token in {TOKEN_VARIABLE}, if set.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, with the field names of the API.")]
ReasonOption = Annotated[
    str | None, typer.Option("--reason", help="Why; the event of the change records it.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")]


def complete_job(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of jobs for a shell that completes one."""
    return _completed(context, incomplete, lambda tidemark: (job.job for job in tidemark.jobs()))


def complete_stream(context: typer.Context, incomplete: str) -> list[str]:
    """Return the names of streams of the job that the line names, for a shell that completes one."""
    job = context.params.get("job")
    return _completed(context, incomplete, lambda tidemark: (row.stream for row in tidemark.fleet(job)))


def _completed(
    context: typer.Context, incomplete: str, names: Callable[[Client], Iterable[str]]
) -> list[str]:
    from tidemark.controller.tools.client.client import Client  # noqa: PLC0415 - as in connect

    url, token_file = context.params.get("url"), context.params.get("token_file")
    # A shell that waits is worse than one that completes nothing.
    with (
        suppress(ClientError),
        Client(url, token_file=token_file, attempts=1, timeout_seconds=_COMPLETION_SECONDS) as tidemark,
    ):
        found = (name for name in names(tidemark) if name.startswith(incomplete))
        return list(islice(found, _MAX_COMPLETIONS))
    return []


JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="Name of the job.", autocompletion=complete_job)
]
StreamArgument = Annotated[
    str, typer.Argument(metavar="STREAM", help="Name of the stream.", autocompletion=complete_stream)
]
SomeJobArgument = Annotated[
    str | None,
    typer.Argument(metavar="JOB", help="Name of the job. Default: all jobs.", autocompletion=complete_job),
]
SomeStreamArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="STREAM",
        help="Name of the stream. Default: all streams of the job.",
        autocompletion=complete_stream,
    ),
]


@dataclass(frozen=True, slots=True)
class Call:
    """What the options say that every command takes which calls a controller: which one, and how to print."""

    json: bool
    """Whether to print JSON."""
    url: str
    """Address of the controller."""
    token_file: Path | None
    """File that holds the bearer token."""

    def open(self) -> AbstractContextManager[Client]:
        """Open the client of the controller; a failure ends the command with one line."""
        return open_client(self.url, self.token_file)


_COMMON = [
    Parameter("json", Parameter.KEYWORD_ONLY, default=False, annotation=JsonOption),
    Parameter("url", Parameter.KEYWORD_ONLY, default=DEFAULT_URL, annotation=UrlOption),
    Parameter("token_file", Parameter.KEYWORD_ONLY, default=None, annotation=TokenFileOption),
]
"""The options that make a ``Call``."""


def calls_controller(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a ``Call`` after its own; it takes them as its parameter ``call``."""

    @wraps(command)
    def run(*, json: bool, url: str, token_file: Path | None, **own: Any) -> None:
        command(**own, call=Call(json, url, token_file))

    taken = signature(command, eval_str=True)
    own = [parameter for name, parameter in taken.parameters.items() if name != "call"]
    run.__signature__ = taken.replace(parameters=[*own, *_COMMON])  # type: ignore[attr-defined]
    return run


def connect(url: str, token_file: Path | None) -> Client:
    """Return the client of a controller."""
    from tidemark.controller.tools.client.client import Client  # noqa: PLC0415 - the other commands start fast without it

    return Client(url, token_file=token_file, attempts=_ATTEMPTS)


@contextmanager
def open_client(url: str, token_file: Path | None) -> Iterator[Client]:
    """Open the client of a controller; a failure ends the command as in ``client_errors_in_one_line``."""
    with client_errors_in_one_line(), connect(url, token_file) as client:
        yield client


def streams_by_name(tidemark: Client, job: str | None) -> list[FleetStream]:
    """Return the streams of a job, or of the whole fleet, by job and stream."""
    return sorted(tidemark.fleet(job), key=lambda row: (row.job, row.stream))


@contextmanager
def client_errors_in_one_line() -> Iterator[None]:
    """End the command with one line when a call fails.

    The exit code is 1 when the controller rejects the request or cannot be used, 2 when an argument is not valid.
    """
    try:
        yield
    except TokenRejectedError as error:
        fail_request(f"{error}; name a token of this controller by --token-file or {TOKEN_VARIABLE}")
    except UnreachableError as error:
        fail_request(f"{error}; is `tidemark serve` running there? --url names another address")
    except ClientError as error:
        fail_request(str(error))
    except ValueError as error:
        fail_usage(str(error))
