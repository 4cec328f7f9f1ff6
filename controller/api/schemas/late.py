"""What becomes of late rows."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.models.protocol.late_policy import LatePolicy, LateRows


class LateStatus(Answer):
    """What becomes of a stream's late rows: by the policy, and in its job."""

    policy: LatePolicy | None
    """What the policy says; null for what the job's call says."""
    in_force: LateRows | None
    """What the job does, as it acknowledged it; null when that is not known."""
    choices: list[LateRows]
    """What the job's call can do; a policy can change it to one of these but revise. Empty when not known."""
    text: str
    """The same in words."""
