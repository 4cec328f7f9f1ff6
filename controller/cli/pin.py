"""``tidemark pin``, ``unpin`` and ``pins``: the kill switches of a running controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tidemark.controller.cli.remote import (
    DEFAULT_URL,
    DryRunOption,
    JsonOption,
    ReasonOption,
    TokenFileOption,
    UrlOption,
    asking,
)
from tidemark.controller.cli.show import as_json, moment
from tidemark.models.plural import plural
from tidemark.models.wire import Pin

if TYPE_CHECKING:
    from tidemark.controller.api.schemas import PinAnswer, PinSummary

__all__ = ["register"]

_PIN_NAMES: dict[str, Pin] = {"ceiling": "Ceiling", "off": "Off"}

JobOption = Annotated[str | None, typer.Option(help="The job.")]
StreamOption = Annotated[str | None, typer.Option(help="Stream of the job; without it all of them.")]
FleetOption = Annotated[bool, typer.Option("--fleet", help="All streams of all jobs, later ones too.")]


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
        fleet: FleetOption = False,
        dry_run: DryRunOption = False,
        json: JsonOption = False,
        url: UrlOption = DEFAULT_URL,
        token_file: TokenFileOption = None,
    ) -> None:
        """Hold a stream, a job or the whole fleet to its ceiling or to its own bound, at once."""
        with asking(url, token_file) as tidemark:
            _check_scope(job, stream, fleet=fleet)
            result = tidemark.pin(_PIN_NAMES[to], reason, job, stream, fleet=fleet, dry_run=dry_run)
        if json:
            return as_json(result)
        verb = "would pin" if dry_run else "pinned"
        typer.echo(f"{verb} {scope_text(result)} to {result.to}: {result.reason}")
        return _show_streams(result)

    @app.command("unpin")
    def unpin(
        *,
        job: JobOption = None,
        stream: StreamOption = None,
        fleet: FleetOption = False,
        reason: ReasonOption = None,
        dry_run: DryRunOption = False,
        json: JsonOption = False,
        url: UrlOption = DEFAULT_URL,
        token_file: TokenFileOption = None,
    ) -> None:
        """Take a pin away."""
        with asking(url, token_file) as tidemark:
            _check_scope(job, stream, fleet=fleet)
            result = tidemark.unpin(job, stream, fleet=fleet, reason=reason, dry_run=dry_run)
        if json:
            return as_json(result)
        verb = "would unpin" if dry_run else "unpinned"
        typer.echo(f"{verb} {scope_text(result)}, which was pinned to {result.to}: {result.reason}")
        return _show_streams(result)

    @app.command("pins")
    def pins(
        *, json: JsonOption = False, url: UrlOption = DEFAULT_URL, token_file: TokenFileOption = None
    ) -> None:
        """List the pins there are."""
        with asking(url, token_file) as tidemark:
            found = list(tidemark.pins())
        if json:
            return as_json(found, "pins")
        for result in found:
            typer.echo(f"{scope_text(result)}: {result.to} since {moment(result.since_us)}: {result.reason}")
        if not found:
            typer.echo("there are no pins")
        return None


def _check_scope(job: str | None, stream: str | None, *, fleet: bool) -> None:
    """Refuse what does not say how far it reaches, by the names of the options.

    Raises:
        ValueError: when it does not.
    """
    if stream is not None and job is None:
        raise ValueError("--stream goes with --job")
    if fleet == (job is not None):
        raise ValueError("give --job, --job and --stream, or --fleet for all streams of all jobs")


def scope_text(pin_summary: PinSummary) -> str:
    """Return what a pin is set on, in words."""
    if pin_summary.job is None:
        return "the whole fleet"
    return (
        f"job {pin_summary.job}" if pin_summary.stream is None else f"{pin_summary.job}/{pin_summary.stream}"
    )


def _show_streams(pin_answer: PinAnswer) -> None:
    for stream in pin_answer.streams:
        typer.echo(f"  {stream.text}")
    if pin_answer.more_streams:
        typer.echo(f"  and {plural(pin_answer.more_streams, 'more stream')}, whose cost was not worked out")
    if not pin_answer.streams:
        typer.echo("  no stream of it is known yet")
