"""How commands call a running controller: their common options, and each failure in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial, wraps
from inspect import signature
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidemark.controller.tools.cli.output import (
    Format,
    names,
    option,
    prints_data,
    write,
)
from tidemark.controller.tools.cli.show import fail_request, fail_usage
from tidemark.controller.tools.cli.watch import (
    DEFAULT_INTERVAL,
    IntervalOption,
    WatchOption,
    again,
    seconds_of,
)
from tidemark.controller.tools.client.address import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE
from tidemark.controller.tools.client.errors import (
    ClientError,
    TokenRejectedError,
    UnreachableError,
)

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
        help=f"File that holds the token. Default: the token in {TOKEN_VARIABLE}, if set.",
    ),
]
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

    output: Format | None
    """How to print; None: for people."""
    url: str
    """Address of the controller."""
    token_file: Path | None
    """File that holds the token."""
    job: str | None = None
    """The job that the command names; None for none."""

    @property
    def structured(self) -> bool:
        """Whether to print JSON or YAML."""
        return self.output in {"json", "yaml"}

    @property
    def wide(self) -> bool:
        """Whether to print a table with more columns."""
        return self.output == "wide"

    def write(self, answer: object, name: str = "") -> None:
        """Print an answer as JSON or YAML, or a list under its ``name`` in the API."""
        write(answer, name, output=self.output)

    def names(self, found: Iterable[Any]) -> bool:
        """Print names, where the options ask for names alone, and return whether they do."""
        if self.output == "name":
            names(found)
        return self.output == "name"

    @contextmanager
    def open(self) -> Iterator[Client]:
        """Open the client of the controller; a failure ends the command with one line."""
        with open_client(self.url, self.token_file) as tidemark:
            yield tidemark

    def check_job(self, tidemark: Client) -> None:
        """Check the job that the command names, as ``check_job`` does."""
        check_job(tidemark, self.job)


def check_job(tidemark: Client, job: str | None) -> None:
    """Ask for a job, if one is named: of one that is not known a list is empty, and only this names the nearest one.

    Raises:
        RequestRejectedError: when it is not known.
    """
    if job is not None:
        tidemark.job(job)


def calls_controller(
    command: Callable[..., None] | None = None, *, lists: bool = False, watch: bool = False
) -> Callable[..., Any]:
    """Give a command the options of a ``Call`` after its own; it takes them as its parameter ``call``.

    Args:
        command: the command; None where the decorator has arguments.
        lists: whether it can print a wider table, and names alone.
        watch: whether it can be watched.
    """
    if command is None:
        return partial(calls_controller, lists=lists, watch=watch)
    chosen = command

    @wraps(chosen)
    def run(
        *,
        output: Format | None,
        url: str,
        token_file: Path | None,
        watch: bool = False,
        interval: str = DEFAULT_INTERVAL,
        **own: Any,
    ) -> None:
        call = Call(output, url, token_file, own.get("job"))
        show = partial(chosen, **own, call=call)
        if not watch:
            return show()
        with client_errors_in_one_line():
            seconds = seconds_of(interval)
        return again(show, seconds)

    taken = signature(command, eval_str=True)
    own = [parameter for name, parameter in taken.parameters.items() if name != "call"]
    common = [
        option("output", Format | None, None),
        option("url", UrlOption, DEFAULT_URL),
        option("token_file", TokenFileOption, None),
    ]
    watching = [
        option("watch", WatchOption, default=False),
        option("interval", IntervalOption, DEFAULT_INTERVAL),
    ]
    found = taken.replace(parameters=[*own, *(watching if watch else []), *common])
    run.__signature__ = found  # type: ignore[attr-defined]
    return prints_data(run, lists=lists)


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
