"""``tidemark doctor``: asks a running controller what is missing until a job runs with the bound it should."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from tidemark.controller.cli.checkup import Finding, Place, checkup
from tidemark.controller.cli.fail import fail
from tidemark.controller.cli.remote import (
    DEFAULT_URL,
    TOKEN_VARIABLE,
    CannotAskError,
    RefusedError,
    Remote,
    TokenFileOption,
    TokenRefusedError,
    UrlOption,
    stream_path,
)

__all__ = ["register"]

SOMETHING_MISSING = 1
"""Exit code when the controller was asked and something is missing."""

PAGE = 1_000
"""Streams asked for at a time."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("doctor")
    def doctor(
        job: Annotated[str, typer.Argument(metavar="JOB", help="Name of the job.")],
        stream: Annotated[
            str | None, typer.Argument(metavar="[STREAM]", help="Stream of the job; else all of them.")
        ] = None,
        *,
        url: UrlOption = DEFAULT_URL,
        token_file: TokenFileOption = None,
    ) -> None:
        """Say what is fine and what is missing, and what to do next; exit code 1 when something is missing."""
        remote = Remote(url, token_file)
        try:
            missing = _examine(remote, job, stream)
        except TokenRefusedError as error:
            fail(f"{error}; next: name a token of this controller by --token-file or {TOKEN_VARIABLE}")
        except CannotAskError as error:
            fail(f"{error}; next: `tidemark serve`, or name its address by --url")
        except RefusedError as error:
            fail(str(error))
        if missing:
            raise typer.Exit(SOMETHING_MISSING)


def _examine(remote: Remote, job: str, stream: str | None) -> int:
    """Print what is found and return how much is missing."""
    remote.ask("GET", "/readyz")
    _show(Finding(f"the controller at {remote.url} answers"))
    names = list(_streams(remote, job)) if stream is None else [stream]
    missing = 0
    for name in names:
        typer.echo(f"{job}/{name}")
        for finding in _look(remote, Place.of(remote, job, name)):
            _show(finding)
            missing += not finding.fine
    if not names:
        _show(Finding(f"nothing is known of job {job}: no report has come", _start(remote, job)))
    return missing + (not names)


def _look(remote: Remote, place: Place) -> list[Finding]:
    try:
        status = remote.ask("GET", stream_path(place.job, place.stream))
    except RefusedError as error:
        if not error.kind.endswith(":stream-not-found"):
            raise
        return [Finding("nothing is known of it: no report has come", place.start())]
    return checkup(status, place)


def _start(remote: Remote, job: str) -> str:
    return Place.of(remote, job, "").start()


def _streams(remote: Remote, job: str) -> Iterator[str]:
    params: dict[str, str | int] = {"job": job, "limit": PAGE}
    while True:
        page = remote.ask("GET", "/v1/streams", params=params)
        yield from (told["stream"] for told in page["streams"])
        if page["next_cursor"] is None:
            return
        params["cursor"] = page["next_cursor"]


def _show(finding: Finding) -> None:
    typer.echo(f"  {'ok     ' if finding.fine else 'missing'}  {finding.text}")
    if finding.step is not None:
        typer.echo(f"           next: {finding.step}")
