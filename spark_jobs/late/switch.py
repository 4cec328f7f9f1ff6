"""Whether the late rows of a stream are kept: by the policy, by what was in force before, or by the job's call."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidemark.models.late_policy import DROPPED, LatePolicy, LateRows, LateTreatment
from tidemark.models.wire import Acknowledgement
from tidemark.spark_jobs.core.binding import Extension, Judging, QueryRun
from tidemark.spark_jobs.late.late_rows import LATE_IN_REAL_TIME

_CHOICES: tuple[LateRows, ...] = ("drop", "side")


@dataclass(frozen=True, slots=True)
class Said:
    """What the controller answered of late rows."""

    policy: LatePolicy | None
    """What the policy says; None for what the job's call says."""


class LateSwitch(Extension):
    """What becomes of a stream's late rows, which its follower settles and its listener acknowledges.

    Args:
        by_call: whether the job's call keeps them.
    """

    def __init__(self, *, by_call: bool) -> None:
        self._by_call = by_call
        self.treatment = LateTreatment(in_force=None, choices=_CHOICES)
        """What is acknowledged; read by another thread than the follower's."""

    def why_not(self, run: QueryRun, metric: str, judging: Judging) -> str | None:  # noqa: ARG002 - whatever judges them
        """Return why a query must not run: rows would be kept that Spark did not drop as late."""
        if run.is_real_time:
            return LATE_IN_REAL_TIME
        changed = None if run.plan is None else run.plan.changes.get(metric)
        if changed is None:
            return None
        return (
            f"late=side(...) keeps rows as parse makes them, and {changed} behind adaptive_watermark drops or "
            "multiplies some before Spark judges them; put it into parse"
        )

    def acknowledged(
        self,
        run: QueryRun,  # noqa: ARG002 - the same in all
        metric: str,  # noqa: ARG002
        found: Acknowledgement,
        batch_id: int,  # noqa: ARG002
    ) -> Acknowledgement:
        """Return ``found`` with what becomes of late rows."""
        return replace(found, late=self.treatment)

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
