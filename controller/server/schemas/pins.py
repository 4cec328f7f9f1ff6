"""Pins: kill switches."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.controller.base.answer import Answer, Page
from tidemark.models.specs.pin import StoredPin


class PinnedStream(Answer):
    """What a pin does to one stream."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""
    bound_ms: int | None
    """The bound that the pin puts in force, in milliseconds; null when it is not known or the pin changes nothing."""
    from_bound_ms: int | None
    """The bound that it replaces, in milliseconds: the one in use, in Live the effective one; null without reports."""
    text: str
    """What it costs against the bound that it replaces, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinAnswer(StoredPin):
    """A pin and what it does."""

    streams: list[PinnedStream]
    """What it does to the known streams, by job and stream; after a removal, what the removal does."""
    more_streams: int
    """Streams left out because computing the figures would have taken too long."""
    dry_run: bool
    """Whether it was a dry run: then nothing was changed, and this is what the write would do."""


class PinPage(Page):
    """A page of pins: the fleet's, then by job and stream."""

    pins: list[StoredPin]
    """The pins."""
