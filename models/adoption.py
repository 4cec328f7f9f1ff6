"""Whether a job applies what is published to it, by what it acknowledged."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.wire import Mode


@dataclass(frozen=True, slots=True)
class AppliedState:
    """What a job last reported that it applies; each field is None when it reported nothing of the kind."""

    generation: int | None = None
    """Generation that it acknowledged last; None also when it applies its own bound."""
    bound_ms: int | None = None
    """The bound that it acknowledged."""
    mode: Mode | None = None
    """The mode in which it did."""
    last_contact_us: int | None = None
    """When its live policy last received an answer of the controller, in microseconds."""


def has_applied(
    applied: AppliedState, *, generation: int, mode: Mode, bound_ms: int | None, published_us: int
) -> bool:
    """Return whether a job applies what is published: ``generation``, with this mode and bound (None: its own)."""
    if mode == "Live":
        # A live run acknowledges once, and applies every later answer as soon as it receives it.
        return (applied.last_contact_us is not None and applied.last_contact_us >= published_us) or (
            applied.generation == generation and applied.mode == "Live"
        )
    # Whatever its generation: who has the bound need not do anything, and a restored store may give a number out again.
    return bound_ms is None or (applied.generation is not None and applied.bound_ms == bound_ms)
