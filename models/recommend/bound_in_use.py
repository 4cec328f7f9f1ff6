"""The bound in use, and when it changed within the last day."""

from __future__ import annotations

from dataclasses import dataclass

_DAY_US = 86_400_000_000

_MOST = 10
"""Changes that are remembered: after so many within a day nothing is narrowed."""


@dataclass(frozen=True, slots=True)
class BoundInUse:
    """The bound in use, and when it changed within the last day."""

    bound_ms: int | None = None
    """It, in milliseconds; None when it is not known."""
    changed_us: tuple[int, ...] = ()
    """When the first batches with another bound were triggered, ascending, in microseconds."""
    widened_us: int | None = None
    """The last of them with a wider one; None without any."""

    def in_batch(self, bound_ms: int | None, at_us: int) -> BoundInUse:
        """Return it as of a later batch, which was triggered at ``at_us`` and runs with ``bound_ms``."""
        changed_us = tuple(when for when in self.changed_us if when > at_us - _DAY_US)
        widened_us = self.widened_us if self.widened_us in changed_us else None
        if self.bound_ms is not None and bound_ms is not None and bound_ms != self.bound_ms:
            changed_us = (*changed_us, at_us)[-_MOST:]
            widened_us = at_us if bound_ms > self.bound_ms else widened_us
        return BoundInUse(bound_ms, changed_us, widened_us)


UNCHANGED = BoundInUse()
"""No change within a day, as far as is known."""
