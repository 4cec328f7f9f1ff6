"""``tidemark pin``, ``unpin`` and ``pins``: the kill switches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tidemark.controller.cli.remote import Call, DryRunOption, ReasonOption, calls_controller
from tidemark.controller.cli.show import as_json, moment, say
from tidemark.models.plural import plural
from tidemark.models.wire import Pin

if TYPE_CHECKING:
    from tidemark.controller.api.schemas import PinAnswer, PinSummary

_PIN_NAMES: dict[str, Pin] = {"ceiling": "Ceiling", "off": "Off"}

_JobOption = Annotated[str | None, typer.Option(help="Name of the job.")]
_StreamOption = Annotated[
    str | None, typer.Option(help="Name of the stream. Default: all streams of the job.")
]
_FleetOption = Annotated[
    bool, typer.Option("--fleet", help="All streams of all jobs, those that come later too.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""

    @app.command("pin")
    @calls_controller
    def pin(
        *,
        to: Annotated[
            Literal["ceiling", "off"],
            typer.Option(
                help="ceiling: live control stops, and the ceiling is the bound; off: the job uses its own bound."
            ),
        ],
        reason: Annotated[str, typer.Option(help="Why, for whoever finds the pin.")],
        job: _JobOption = None,
        stream: _StreamOption = None,
        fleet: _FleetOption = False,
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Hold a stream, a job or the whole fleet to its ceiling or its own bound, at once."""
        with call.open() as tidemark:
            _check_scope(job, stream, fleet=fleet)
            result = tidemark.pin(_PIN_NAMES[to], reason, job, stream, fleet=fleet, dry_run=dry_run)
        if call.json:
            return as_json(result)
        verb = "would pin" if dry_run else "pinned"
        say(f"{verb} {_scope_text(result)} to {result.to}: {result.reason}")
        return _show_streams(result)

    @app.command("unpin")
    @calls_controller
    def unpin(
        *,
        job: _JobOption = None,
        stream: _StreamOption = None,
        fleet: _FleetOption = False,
        reason: ReasonOption = None,
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Remove a pin."""
        with call.open() as tidemark:
            _check_scope(job, stream, fleet=fleet)
            result = tidemark.unpin(job, stream, fleet=fleet, reason=reason, dry_run=dry_run)
        if call.json:
            return as_json(result)
        verb = "would unpin" if dry_run else "unpinned"
        say(f"{verb} {_scope_text(result)}, which was pinned to {result.to}: {result.reason}")
        return _show_streams(result)

    @app.command("pins")
    @calls_controller
    def pins(*, call: Call) -> None:
        """List the pins."""
        with call.open() as tidemark:
            found = list(tidemark.pins())
        if call.json:
            return as_json(found, "pins")
        for result in found:
            say(f"{_scope_text(result)}: {result.to} since {moment(result.since_us)}: {result.reason}")
        if not found:
            say("there are no pins")
        return None


def _check_scope(job: str | None, stream: str | None, *, fleet: bool) -> None:
    """Check that the options name one scope.

    Raises:
        ValueError: when they do not.
    """
    if stream is not None and job is None:
        raise ValueError("--stream needs --job")
    if fleet == (job is not None):
        raise ValueError("give --job, --job and --stream, or --fleet for all streams of all jobs")


def _scope_text(pin_summary: PinSummary) -> str:
    """Return the scope of a pin, in words."""
    if pin_summary.job is None:
        return "the whole fleet"
    return (
        f"job {pin_summary.job}" if pin_summary.stream is None else f"{pin_summary.job}/{pin_summary.stream}"
    )


def _show_streams(pin_answer: PinAnswer) -> None:
    for stream in pin_answer.streams:
        say(f"  {stream.text}")
    if pin_answer.more_streams:
        say(f"  and {plural(pin_answer.more_streams, 'more stream')}, whose cost was not computed")
    if not pin_answer.streams:
        say("  no stream of it is known yet")
