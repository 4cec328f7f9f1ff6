"""The bound in use, and since when."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BoundInUse:
    """The bound in use, and since when."""

    bound_ms: int | None = None
    """It, in milliseconds; None when it is not known, or where no change of it restarts a job."""
    since_us: int | None = None
    """When the first batch with it was triggered, in microseconds; None when it is not known to have changed."""

    def in_batch(self, bound_ms: int | None, at_us: int) -> BoundInUse:
        """Return it as of a later batch, which was triggered at ``at_us`` and runs with ``bound_ms``."""
        changed = self.bound_ms is not None and bound_ms is not None and bound_ms != self.bound_ms
        return BoundInUse(bound_ms, at_us if changed else self.since_us)


UNCHANGED = BoundInUse()
"""No change, as far as is known."""
