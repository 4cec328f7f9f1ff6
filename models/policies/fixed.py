"""A constant bound, as every engine has one: the baseline that a person sets once."""

from __future__ import annotations

from tidemark.models.duration import format_duration
from tidemark.models.policies.policy import Decision, Observation


class Fixed:
    """One bound for ever.

    Args:
        bound_us: the bound in microseconds, at least 0 as Spark's ``delayThreshold``.

    Raises:
        ValueError: when the bound is negative.
    """

    __slots__ = ("_decision",)

    def __init__(self, bound_us: int) -> None:
        if bound_us < 0:
            raise ValueError(
                f"a fixed bound must be at least 0, not {format_duration(bound_us)}: no engine takes it"
            )
        self._decision = Decision(bound_us=bound_us)

    @property
    def native(self) -> bool:
        """Yes: it is in the plan, so it is in force without the delay of a control stream."""
        return True

    def observe(self, seen: Observation) -> None:
        """Learn nothing."""

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - the policy's signature
        """Return the bound."""
        return self._decision
