"""``tidemark doctor``: what a job still needs until it runs with the recommended bound."""

from __future__ import annotations

from itertools import groupby
from json import dumps
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.controller.api.paths import stream_path
from tidemark.controller.cli.checkup import Finding, Place, checkup
from tidemark.controller.cli.fail import fail_usage
from tidemark.controller.cli.remote import (
    DEFAULT_URL,
    TOKEN_VARIABLE,
    JsonOption,
    TokenFileOption,
    UrlOption,
    connect,
)
from tidemark.controller.client.errors import (
    ControllerUnusableError,
    RequestRejectedError,
    TokenRejectedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidemark.controller.client.client import Client

__all__ = ["register"]

SOMETHING_MISSING = 1
"""Exit code when the controller answers and something is missing."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("doctor")
    def doctor(
        job: Annotated[str, typer.Argument(metavar="JOB", help="Name of the job.")],
        stream: Annotated[
            str | None,
            typer.Argument(metavar="STREAM", help="Name of the stream. Default: all streams of the job."),
        ] = None,
        *,
        json: JsonOption = False,
        url: UrlOption = DEFAULT_URL,
        token_file: TokenFileOption = None,
    ) -> None:
        """Check a job: what is fine, what is missing, and what to do next.

        The exit code is 1 when something is missing.
        """
        try:
            with connect(url, token_file) as tidemark:
                found = _examine(tidemark, job, stream)
        except TokenRejectedError as error:
            fail_usage(f"{error}; next: name a token of this controller by --token-file or {TOKEN_VARIABLE}")
        except ControllerUnusableError as error:
            fail_usage(f"{error}; next: `tidemark serve`, or name its address by --url")
        except RequestRejectedError as error:
            fail_usage(str(error))
        if json:
            fields = ("job", "stream", "fine", "text", "next")
            rows = [(job, name, one.fine, one.text, one.step) for name, one in found]
            typer.echo(dumps({"findings": [dict(zip(fields, row, strict=True)) for row in rows]}, indent=2))
        else:
            _show(job, found)
        if not all(finding.fine for _, finding in found):
            raise typer.Exit(SOMETHING_MISSING)


def _examine(tidemark: Client, job: str, stream: str | None) -> list[tuple[str | None, Finding]]:
    """Return the findings, each with its stream; None for findings about the job."""
    tidemark.ready()
    names = [result.stream for result in tidemark.streams(job)] if stream is None else [stream]
    found: list[tuple[str | None, Finding]] = [(None, Finding(f"the controller at {tidemark.url} answers"))]
    if not names:
        start = Place.of(tidemark, job, "").start()
        found.append((None, Finding(f"nothing is known of job {job}: no report has come", start)))
    for name in names:
        found += [(name, finding) for finding in _snapshot(tidemark, Place.of(tidemark, job, name))]
    return found


def _snapshot(tidemark: Client, place: Place) -> list[Finding]:
    try:
        # Unchecked, so that conditions of a newer controller are shown too.
        status = tidemark.request("GET", stream_path(place.job, place.stream))
    except RequestRejectedError as error:
        if not error.kind.endswith(":stream-not-found"):
            raise
        return [Finding("nothing is known of it: no report has come", place.start())]
    return checkup(status, place)


def _show(job: str, found: Iterable[tuple[str | None, Finding]]) -> None:
    for stream, findings in groupby(found, key=itemgetter(0)):
        if stream is not None:
            typer.echo(f"{job}/{stream}")
        for _, finding in findings:
            typer.echo(f"  {'ok     ' if finding.fine else 'missing'}  {finding.text}")
            if finding.step is not None:
                typer.echo(f"           next: {finding.step}")
