"""Flink's own watermarks, as a baseline: a bound for each split, the minimum over those that are not idle.

``forBoundedOutOfOrderness(bound)`` with ``withIdleness(idle)`` and a periodic emission, as Flink 2.1 does it. Flink is
an engine of its own, so nothing is decided here: the settings are constant, and ``backtest.flink`` replays them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.duration import format_duration
from tidemark.models.policies.policy import Decision, Observation


@dataclass(frozen=True, slots=True)
class Flink:
    """The settings of one Flink source; times in microseconds.

    Raises:
        ValueError: when a setting is out of range.
    """

    bound_us: int = 0
    """Bound of each split, at least 0."""
    idle_us: int | None = None
    """Silence after which a split no longer holds the watermark, above 0; None for never, as without it in Flink."""
    tick_us: int | None = None
    """Time between two watermarks (``pipeline.auto-watermark-interval``), above 0; None for the trigger."""

    def __post_init__(self) -> None:
        """Reject what Flink does not take."""
        if self.bound_us < 0:
            raise ValueError(f"a bound of Flink must be at least 0, not {format_duration(self.bound_us)}")
        for name, value in (("idle timeout", self.idle_us), ("tick", self.tick_us)):
            if value is not None and value <= 0:
                raise ValueError(f"the {name} of Flink must be above 0, not {format_duration(value)}")

    @property
    def native(self) -> bool:
        """Yes: the engine follows it by itself."""
        return True

    def observe(self, seen: Observation) -> None:
        """Learn nothing."""

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - the policy's signature
        """Return the bound."""
        return Decision(bound_us=self.bound_us)
