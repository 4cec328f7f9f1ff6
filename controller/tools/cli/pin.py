"""``tidemark pin``, ``unpin`` and ``pins``: the kill switches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidemark.controller.tools.cli.ask import confirm
from tidemark.controller.tools.cli.run import CommandAnswer, check_job
from tidemark.controller.tools.cli.show import done, moment, say
from tidemark.controller.tools.client.errors import RequestRejectedError
from tidemark.models.base.text import plural
from tidemark.models.protocol.messages import Pin

if TYPE_CHECKING:
    from tidemark.controller.server.schemas.pins import PinAnswer
    from tidemark.controller.tools.client.client import Client
    from tidemark.models.specs.pin import StoredPin

_PIN_NAMES: dict[str, Pin] = {"ceiling": "Ceiling", "off": "Off"}


def pin(
    tidemark: Client,
    job: str | None,
    stream: str | None,
    *,
    to: str,
    fleet: bool,
    yes: bool,
    reason: str,
    dry_run: bool,
) -> CommandAnswer:
    """Hold a stream, a job or the whole fleet to its ceiling or its own bound, at once."""
    _check_scope(job, fleet=fleet)
    if fleet and not (dry_run or yes):
        tried = tidemark.pin(_PIN_NAMES[to], reason, fleet=True, dry_run=True)
        confirm(f"pin {_all_of(tried)} to {tried.to}", "--fleet")
    pinned = tidemark.pin(_PIN_NAMES[to], reason, job, stream, fleet=fleet, dry_run=dry_run)
    meant = _meant(tidemark, pinned)
    verb = done("pin", "pinned", dry_run=dry_run)
    text = f"{verb} {_scope(pinned)} to {pinned.to}: {pinned.reason}"
    return CommandAnswer(pinned, lambda: _show(text, pinned, meant))


def unpin(
    tidemark: Client,
    job: str | None,
    stream: str | None,
    *,
    fleet: bool,
    yes: bool,
    reason: str | None,
    dry_run: bool,
) -> CommandAnswer:
    """Remove a pin."""
    _check_scope(job, fleet=fleet)
    if fleet and not (dry_run or yes):
        tried = tidemark.unpin(fleet=True, dry_run=True)
        confirm(f"unpin {_all_of(tried)} from {tried.to}", "--fleet")
    removed = tidemark.unpin(job, stream, fleet=fleet, reason=reason, dry_run=dry_run)
    verb = done("unpin", "unpinned", dry_run=dry_run)
    text = f"{verb} {_scope(removed)}, which was pinned to {removed.to}: {removed.reason}"
    return CommandAnswer(removed, lambda: _show(text, removed))


def pins(tidemark: Client) -> CommandAnswer:
    """List the pins."""
    listed = list(tidemark.pins())

    def show() -> None:
        for row in listed:
            say(f"{_scope(row)}: {row.to} since {moment(row.since_us)}: {row.reason}")
        if not listed:
            say("there are no pins")

    return CommandAnswer({"pins": listed}, show)


def _check_scope(job: str | None, *, fleet: bool) -> None:
    if fleet == (job is not None):
        raise ValueError("give JOB, JOB and STREAM, or --fleet for all streams of all jobs")


def _all_of(tried: PinAnswer) -> str:
    streams = plural(len(tried.streams) + tried.more_streams, "stream")
    return f"the whole fleet, {streams} now and all that come later,"


def _scope(row: StoredPin) -> str:
    if row.job is None:
        return "the whole fleet"
    return f"job {row.job}" if row.stream is None else f"{row.job}/{row.stream}"


def _meant(tidemark: Client, pinned: PinAnswer) -> str:
    """Return what else may be meant by a pin that holds no stream yet: it waits for one, for ever if misspelt."""
    try:
        if not pinned.streams:
            check_job(tidemark, pinned.job)
    except RequestRejectedError as error:
        return f"; {error}"
    return ""


def _show(text: str, answer: PinAnswer, meant: str = "") -> None:
    say(text)
    for stream in answer.streams:
        say(f"  {stream.text}")
    if answer.more_streams:
        say(f"  and {plural(answer.more_streams, 'more stream')}, whose cost was not computed")
    if not answer.streams:
        say(f"  no stream of it is known yet{meant}")
