"""Whether a job has taken up what it is told, as far as it said."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.wire import Mode

__all__ = ["AppliedState", "has_applied"]


@dataclass(frozen=True, slots=True)
class AppliedState:
    """What a job said of what it does; each is None when it said nothing of the kind."""

    generation: int | None = None
    """Generation that it acknowledged last; None for its own bound too."""
    bound_ms: int | None = None
    """The bound that it acknowledged."""
    mode: Mode | None = None
    """The mode in which it did."""
    last_contact_us: int | None = None
    """When its live policy heard from the controller last, in microseconds."""


def has_applied(
    said: AppliedState, *, generation: int, mode: Mode, bound_ms: int | None, published_us: int
) -> bool:
    """Return whether a job applies what is published: ``generation``, with this mode and bound (None: its own)."""
    found = said.generation is not None and said.generation == generation
    if mode == "Live":
        # A live run acknowledges once, and takes up whatever comes later as soon as it hears it.
        return (said.last_contact_us is not None and said.last_contact_us >= published_us) or (
            found and said.mode == "Live"
        )
    # A new generation of the same bound asks nothing of a job that has it.
    return bound_ms is None or found or (said.generation is not None and said.bound_ms == bound_ms)
