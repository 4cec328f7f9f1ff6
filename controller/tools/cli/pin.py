"""``tidemark pin``, ``unpin`` and ``pins``: the kill switches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from tidemark.controller.tools.cli.ask import NeededReasonOption, confirm
from tidemark.controller.tools.cli.remote import (
    Call,
    DryRunOption,
    ReasonOption,
    calls_controller,
    check_job,
    complete_job,
    complete_stream,
)
from tidemark.controller.tools.cli.show import moment, say
from tidemark.controller.tools.client.errors import RequestRejectedError
from tidemark.models.base.text import plural
from tidemark.models.protocol.messages import Pin

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.pins import PinAnswer, PinSummary
    from tidemark.controller.tools.client.client import Client

_PIN_NAMES: dict[str, Pin] = {"ceiling": "Ceiling", "off": "Off"}

_JobArgument = Annotated[
    str | None,
    typer.Argument(metavar="JOB", help="Name of the job.", autocompletion=complete_job),
]
_StreamArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="STREAM",
        help="Name of the stream. Default: all streams of the job.",
        autocompletion=complete_stream,
    ),
]
_FleetOption = Annotated[
    bool, typer.Option("--fleet", help="All streams of all jobs, those that come later too; asks first.")
]
_YesOption = Annotated[bool, typer.Option("--yes", help="With --fleet: do not ask.")]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""

    @app.command("pin")
    @calls_controller
    def pin(
        job: _JobArgument = None,
        stream: _StreamArgument = None,
        *,
        to: Annotated[
            Literal["ceiling", "off"],
            typer.Option(
                help="ceiling: live control stops, and the ceiling is the bound; off: the job uses its own bound."
            ),
        ],
        fleet: _FleetOption = False,
        yes: _YesOption = False,
        reason: NeededReasonOption = "",
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Hold a stream, a job or the whole fleet to its ceiling or its own bound, at once."""
        with call.open() as tidemark:
            _check_scope(job, fleet=fleet)
            if fleet and not (dry_run or yes):
                tried = tidemark.pin(_PIN_NAMES[to], reason, fleet=True, dry_run=True)
                confirm(f"pin {_all_of(tried)} to {tried.to}", "--fleet")
            result = tidemark.pin(_PIN_NAMES[to], reason, job, stream, fleet=fleet, dry_run=dry_run)
            meant = _meant(tidemark, result)
        if call.structured:
            return call.write(result)
        verb = "would pin" if dry_run else "pinned"
        say(f"{verb} {_scope_text(result)} to {result.to}: {result.reason}")
        return _show_streams(result, meant)

    @app.command("unpin")
    @calls_controller
    def unpin(
        job: _JobArgument = None,
        stream: _StreamArgument = None,
        *,
        fleet: _FleetOption = False,
        yes: _YesOption = False,
        reason: ReasonOption = None,
        dry_run: DryRunOption = False,
        call: Call,
    ) -> None:
        """Remove a pin."""
        with call.open() as tidemark:
            _check_scope(job, fleet=fleet)
            if fleet and not (dry_run or yes):
                tried = tidemark.unpin(fleet=True, dry_run=True)
                confirm(f"unpin {_all_of(tried)} from {tried.to}", "--fleet")
            result = tidemark.unpin(job, stream, fleet=fleet, reason=reason, dry_run=dry_run)
        if call.structured:
            return call.write(result)
        verb = "would unpin" if dry_run else "unpinned"
        say(f"{verb} {_scope_text(result)}, which was pinned to {result.to}: {result.reason}")
        return _show_streams(result)

    @app.command("pins")
    @calls_controller(lists=True)
    def pins(*, call: Call) -> None:
        """List the pins."""
        with call.open() as tidemark:
            found = list(tidemark.pins())
        if call.structured:
            return call.write(found, "pins")
        if call.names(_scope_words(result) for result in found):
            return None
        for result in found:
            say(f"{_scope_text(result)}: {result.to} since {moment(result.since_us)}: {result.reason}")
        if not found:
            say("there are no pins")
        return None


def _check_scope(job: str | None, *, fleet: bool) -> None:
    """Check that the command line names one scope.

    Raises:
        ValueError: when it does not.
    """
    if fleet == (job is not None):
        raise ValueError("give JOB, JOB and STREAM, or --fleet for all streams of all jobs")


def _all_of(tried: PinAnswer) -> str:
    known = len(tried.streams) + tried.more_streams
    return f"the whole fleet, {plural(known, 'stream')} now and all that come later,"


def _scope_words(pin_summary: PinSummary) -> str:
    """Return the scope of a pin as the arguments of ``unpin`` name it."""
    return "/".join(filter(None, (pin_summary.job, pin_summary.stream))) or "--fleet"


def _scope_text(pin_summary: PinSummary) -> str:
    """Return the scope of a pin, in words."""
    if pin_summary.job is None:
        return "the whole fleet"
    return (
        f"job {pin_summary.job}" if pin_summary.stream is None else f"{pin_summary.job}/{pin_summary.stream}"
    )


def _meant(tidemark: Client, pinned: PinAnswer) -> str:
    """Return what else may be meant by a pin that holds no known stream: it waits for one, for ever if misspelt."""
    try:
        if not pinned.streams:
            check_job(tidemark, pinned.job)
    except RequestRejectedError as error:
        return f"; {error}"
    return ""


def _show_streams(pin_answer: PinAnswer, meant: str = "") -> None:
    for stream in pin_answer.streams:
        say(f"  {stream.text}")
    if pin_answer.more_streams:
        say(f"  and {plural(pin_answer.more_streams, 'more stream')}, whose cost was not computed")
    if not pin_answer.streams:
        say(f"  no stream of it is known yet{meant}")
