"""Whether the late rows of a stream are kept: by the policy, by what was in force before, or by the job's call."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.protocol.late_policy import DROPPED, LatePolicy, LateRows, LateTreatment

_CHOICES: tuple[LateRows, ...] = ("drop", "side")


@dataclass(frozen=True, slots=True)
class Said:
    """What the controller answered of late rows."""

    policy: LatePolicy | None
    """What the policy says; None for what the job's call says."""


class LateSwitch:
    """What becomes of a stream's late rows, which its follower settles and its listener acknowledges.

    Args:
        by_call: whether the job's call keeps them.
    """

    def __init__(self, *, by_call: bool) -> None:
        self._by_call = by_call
        self.treatment = LateTreatment(in_force=None, choices=_CHOICES)
        """What is acknowledged; read by another thread than the follower's."""

    def keeps(self, said: Said | None, before: bool | None) -> bool:
        """Return whether late rows are kept.

        Args:
            said: the controller's newest answer; None before its first one.
            before: whether they were kept when it was last settled; None where it never was.
        """
        if said is None and before is not None:
            # An outage changes nothing.
            return before
        policy = None if said is None else said.policy
        return self._by_call if policy is None else policy == "side"

    def settle(self, *, kept: bool) -> None:
        """Acknowledge from now on that late rows are kept, or that they are only counted."""
        self.treatment = LateTreatment(in_force="side" if kept else "drop", choices=_CHOICES)

    def cannot_keep(self) -> None:
        """Acknowledge that they cannot be kept."""
        self.treatment = DROPPED
