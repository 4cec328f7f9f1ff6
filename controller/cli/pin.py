"""``tidemark pin``, ``unpin`` and ``pins``: the kill switches of a running controller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import typer

from tidemark.controller.cli.fail import fail
from tidemark.controller.cli.remote import (
    DEFAULT_URL,
    CannotAskError,
    RefusedError,
    Remote,
    TokenFileOption,
    UrlOption,
    stream_path,
)

__all__ = ["register"]

_PIN_NAMES = {"ceiling": "Ceiling", "off": "Off"}

JobOption = Annotated[str | None, typer.Option(help="Job; without it the whole fleet.")]
StreamOption = Annotated[str | None, typer.Option(help="Stream of the job; without it all of them.")]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""

    @app.command("pin")
    def pin(
        *,
        to: Annotated[
            Literal["ceiling", "off"],
            typer.Option(
                help="ceiling: live control stands still and the ceiling holds; off: the job's own bound."
            ),
        ],
        reason: Annotated[str, typer.Option(help="Why, for whoever finds it.")],
        job: JobOption = None,
        stream: StreamOption = None,
        url: UrlOption = DEFAULT_URL,
        token_file: TokenFileOption = None,
    ) -> None:
        """Hold a stream, a job or the whole fleet to its ceiling or to its own bound, at once."""
        with one_line_answers():
            body = {"to": _PIN_NAMES[to], "reason": reason}
            told = Remote(url, token_file).ask("PUT", _path(job, stream), body=body)
        typer.echo(f"pinned {scope_text(told)} to {told['to']}: {told['reason']}")
        _show_streams(told)

    @app.command("unpin")
    def unpin(
        *,
        job: JobOption = None,
        stream: StreamOption = None,
        url: UrlOption = DEFAULT_URL,
        token_file: TokenFileOption = None,
    ) -> None:
        """Take a pin away."""
        with one_line_answers():
            told = Remote(url, token_file).ask("DELETE", _path(job, stream))
        typer.echo(f"unpinned {scope_text(told)}, which was pinned to {told['to']}: {told['reason']}")
        _show_streams(told)

    @app.command("pins")
    def pins(*, url: UrlOption = DEFAULT_URL, token_file: TokenFileOption = None) -> None:
        """List the pins there are."""
        with one_line_answers():
            found = list(_every_pin(Remote(url, token_file)))
        for told in found:
            since = datetime.fromtimestamp(told["since_us"] / 1e6, UTC).isoformat(" ", "seconds")
            typer.echo(f"{scope_text(told)}: {told['to']} since {since}: {told['reason']}")
        if not found:
            typer.echo("there are no pins")


@contextmanager
def one_line_answers() -> Iterator[None]:
    """End the command with one line when the controller cannot be asked or refuses."""
    try:
        yield
    except (CannotAskError, RefusedError, ValueError) as error:
        fail(str(error))


def scope_text(told: dict[str, Any]) -> str:
    """Return what a pin is set on, in words."""
    if told["job"] is None:
        return "the whole fleet"
    return f"job {told['job']}" if told["stream"] is None else f"{told['job']}/{told['stream']}"


def _path(job: str | None, stream: str | None) -> str:
    if job is None:
        if stream is not None:
            raise ValueError("--stream goes with --job")
        return "/v1/pin"
    return f"{stream_path(job, stream)}/pin"


def _show_streams(told: dict[str, Any]) -> None:
    for stream in told["streams"]:
        typer.echo(f"  {stream['text']}")
    if told["more_streams"]:
        typer.echo(f"  and {told['more_streams']:,} more streams, whose cost was not worked out")
    if not told["streams"]:
        typer.echo("  no stream of it is known yet")


def _every_pin(remote: Remote) -> Iterator[dict[str, Any]]:
    cursor: str | None = None
    while True:
        page = remote.ask("GET", "/v1/pins", params={} if cursor is None else {"cursor": cursor})
        yield from page["pins"]
        cursor = page["next_cursor"]
        if cursor is None:
            return
