"""What becomes of late rows: what a policy says, what a job's call lets it choose from, and what the job does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import MaxLen, MinLen

from tidemark.models.base.ranges import WIRE

LateRows = Literal["drop", "side", "revise"]
"""drop: they are counted and dropped; side: kept in a folder, too; revise: they correct windows that are out."""

LatePolicy = Literal["drop", "side"]
"""What a policy can choose. ``revise`` is part of the plan, and needs a new checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LateTreatment:
    """What a job does with late rows, as it acknowledges it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = WIRE

    in_force: LateRows | None
    """What becomes of them now; null while the run has not settled it."""
    choices: Annotated[tuple[LateRows, ...], MinLen(1), MaxLen(3)]
    """What the job's call can do, from which a policy may choose."""

    def __post_init__(self) -> None:
        """Reject what cannot be in force."""
        if self.in_force is not None and self.in_force not in self.choices:
            raise ValueError(f"in_force {self.in_force} is none of the choices {', '.join(self.choices)}")


DROPPED = LateTreatment(in_force="drop", choices=("drop",))
"""That of a call without ``late=``."""

REVISED = LateTreatment(in_force="revise", choices=("revise",))
"""That of a call with ``late=revise(...)``."""


def why_not_followed(policy: LatePolicy | None, treatment: LateTreatment | None) -> str | None:
    """Return why a job cannot do what its policy says, and what to do; None when it can.

    Args:
        policy: what the policy says; None for what the job's call says.
        treatment: what the job acknowledged; None before it did.
    """
    if policy is None or treatment is None or policy in treatment.choices:
        return None
    if "revise" in treatment.choices:
        why = "the job's call has late=revise(...), which is part of the plan and which no policy can change"
    else:
        why = (
            "the job cannot keep late rows: it needs late=side(...) in its call, or spark.tidemark.late.folder, and "
            "another start; where it has that, the driver's log says why"
        )
    return f"the policy says {policy}, and {why}"


def late_text(policy: LatePolicy | None, treatment: LateTreatment | None) -> str:
    """Return what becomes of late rows, and by whose word; arguments as for ``why_not_followed``."""
    now = None if treatment is None else treatment.in_force
    if policy is None:
        return "not known" if now is None else f"{now}, by the job's call"
    if now == policy:
        return f"{now}, by the policy"
    can = why_not_followed(policy, treatment) is None
    what = "the job has not acknowledged yet" if can else "the job cannot follow"
    return f"{now or 'not known'}; the policy says {policy}, which {what}"
