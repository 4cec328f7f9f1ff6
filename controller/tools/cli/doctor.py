"""``tidemark doctor``: what a job still needs until it runs with the recommended bound."""

from __future__ import annotations

from itertools import groupby
from json import dumps
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated

import typer

from tidemark.controller.tools.cli.checkup import Check, Place, checkup
from tidemark.controller.tools.cli.remote import (
    Call,
    JobArgument,
    SomeStreamArgument,
    calls_controller,
    connect,
    streams_by_name,
)
from tidemark.controller.tools.cli.show import fail_usage, say
from tidemark.controller.tools.client.address import TOKEN_VARIABLE, stream_path
from tidemark.controller.tools.client.errors import (
    ControllerUnusableError,
    RequestRejectedError,
    TokenRejectedError,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidemark.controller.tools.client.client import Client

_SOMETHING_MISSING = 1
"""Exit code when the controller answers and something is missing."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("doctor")
    @calls_controller
    def doctor(
        job: JobArgument,
        stream: SomeStreamArgument = None,
        *,
        strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 on warnings too.")] = False,
        call: Call,
    ) -> None:
        """Check a job: what is fine, what is missing, and what to do next.

        The exit code is 1 when something is missing, and 0 when there are only warnings.
        """
        try:
            with connect(call.url, call.token_file) as tidemark:
                found = _examine(tidemark, job, stream)
        except TokenRejectedError as error:
            fail_usage(f"{error}; next: name a token of this controller by --token-file or {TOKEN_VARIABLE}")
        except ControllerUnusableError as error:
            fail_usage(f"{error}; next: {_reach(str(error))}")
        except RequestRejectedError as error:
            fail_usage(str(error))
        if call.json:
            fields = ("job", "stream", "fine", "level", "text", "next")
            rows = [(job, name, one.fine, one.level, one.text, one.step) for name, one in found]
            typer.echo(dumps({"findings": [dict(zip(fields, row, strict=True)) for row in rows]}, indent=2))
        else:
            _show(job, found)
        failing = {"missing", "warning"} if strict else {"missing"}
        if any(check.level in failing for _, check in found):
            raise typer.Exit(_SOMETHING_MISSING)


def _reach(error: str) -> str:
    """Return what to do about a controller that cannot be used."""
    if "timed out" in error:
        # What a network policy keeps out is not refused: it waits.
        return "in a pod of another namespace, let that namespace in by the chart's networkPolicy.from"
    return "`tidemark serve`, or name its address by --url"


def _examine(tidemark: Client, job: str, stream: str | None) -> list[tuple[str | None, Check]]:
    """Return the checks, each with its stream; None for checks of the job."""
    tidemark.ready()
    names = [row.stream for row in streams_by_name(tidemark, job)] if stream is None else [stream]
    found: list[tuple[str | None, Check]] = [(None, Check(f"the controller at {tidemark.url} answers"))]
    if not names:
        start = Place.of(tidemark, job, "").first_start()
        found.append((None, Check(f"nothing is known of job {job}: no report has come", start, needed=True)))
    for name in names:
        found += [(name, check) for check in _check_stream(tidemark, Place.of(tidemark, job, name))]
    return found


def _check_stream(tidemark: Client, place: Place) -> list[Check]:
    try:
        # Unchecked, so that conditions of a newer controller are shown too.
        status = tidemark.request("GET", stream_path(place.job, place.stream))
    except RequestRejectedError as error:
        if not error.kind.endswith(":stream-not-found"):
            raise
        return [Check("nothing is known of it: no report has come", place.first_start(), needed=True)]
    return checkup(status, place)


def _show(job: str, found: Iterable[tuple[str | None, Check]]) -> None:
    for stream, checks in groupby(found, key=itemgetter(0)):
        if stream is not None:
            say(f"{job}/{stream}")
        for _, check in checks:
            say(f"  {check.level:<7}  {check.text}")
            if check.step is not None:
                say(f"           next: {check.step}")
