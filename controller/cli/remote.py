"""A running controller, as commands ask it: its options, and what goes wrong in one line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.controller.cli.fail import fail, refused
from tidemark.controller.client.errors import ClientError, TokenRefusedError, UnreachableError

if TYPE_CHECKING:
    from tidemark.controller.api.schemas import FleetStream
    from tidemark.controller.client.client import Client

__all__ = [
    "DEFAULT_URL",
    "TOKEN_VARIABLE",
    "DryRunOption",
    "JobArgument",
    "JsonOption",
    "ReasonOption",
    "SomeJobArgument",
    "SomeStreamArgument",
    "StreamArgument",
    "TokenFileOption",
    "UrlOption",
    "asking",
    "connect",
    "one_line_answers",
    "streams_by_name",
]

DEFAULT_URL = "http://127.0.0.1:8642"
"""Where ``tidemark serve`` listens unless told otherwise."""

TOKEN_VARIABLE = "TIDEMARK_TOKEN"  # noqa: S105 - the name of a variable
"""Environment variable that holds the bearer token where no file is named."""

ATTEMPTS = 2
"""How often a command sends a request: who sits before a terminal would rather be told."""

UrlOption = Annotated[
    str,
    typer.Option("--url", envvar="TIDEMARK_URL", help="Address of the controller.", show_default=DEFAULT_URL),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file", help=f"File that holds the bearer token; else {TOKEN_VARIABLE}, if it is set."
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print JSON with the API's field names instead of tables.")
]
ReasonOption = Annotated[
    str | None, typer.Option("--reason", help="Why, for the event that the change leaves.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would follow, and change nothing.")]
JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Name of the job.")]
StreamArgument = Annotated[str, typer.Argument(metavar="STREAM", help="Stream of the job.")]
SomeJobArgument = Annotated[str | None, typer.Argument(metavar="[JOB]", help="Name of the job; else all.")]
SomeStreamArgument = Annotated[
    str | None, typer.Argument(metavar="[STREAM]", help="Stream of the job; else all of them.")
]


def connect(url: str, token_file: Path | None) -> Client:
    """Return the client of a controller."""
    from tidemark.controller.client.client import Client  # noqa: PLC0415 - the other commands start fast without it

    return Client(url, token_file=token_file, attempts=ATTEMPTS)


@contextmanager
def asking(url: str, token_file: Path | None) -> Iterator[Client]:
    """Open the client of a controller; whatever goes wrong ends the command as ``one_line_answers`` says."""
    with one_line_answers(), connect(url, token_file) as client:
        yield client


def streams_by_name(tidemark: Client, job: str | None) -> list[FleetStream]:
    """Return the streams of a job, or of the whole fleet, by job and stream."""
    return sorted(tidemark.fleet(job), key=lambda row: (row.job, row.stream))


@contextmanager
def one_line_answers() -> Iterator[None]:
    """End the command with one line when something goes wrong.

    The exit code is 1 when the controller refuses or cannot be asked, 2 when an argument makes no sense.
    """
    try:
        yield
    except TokenRefusedError as error:
        refused(f"{error}; name a token of this controller by --token-file or {TOKEN_VARIABLE}")
    except UnreachableError as error:
        refused(f"{error}; is `tidemark serve` running there? --url names another address")
    except ClientError as error:
        refused(str(error))
    except ValueError as error:
        fail(str(error))
