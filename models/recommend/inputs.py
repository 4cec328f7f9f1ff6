"""What a recommendation is made from."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.coupling import Chain
from tidemark.models.curve import Curve
from tidemark.models.horizon import EvidenceCounts
from tidemark.models.join_side import JoinSide
from tidemark.models.progress import UNKNOWN_PROGRESS, Progress
from tidemark.models.slo import Policy, Slo
from tidemark.models.transition import Situation
from tidemark.models.windows import Windows


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """All that a recommendation is made from."""

    curve: Curve
    """Needs and latencies over the horizon."""
    slo: Slo
    """The SLO of the stream."""
    policy: Policy
    """What the controller may do."""
    evidence: EvidenceCounts
    """How much evidence the curve rests on."""
    in_use_bound_ms: int | None
    """The bound in use, in milliseconds, or in Live the published one; None when it is not known."""
    bound_is_published: bool = False
    """Whether it is the published one, because the plan of a job in Live has the ceiling."""
    progress: Progress = UNKNOWN_PROGRESS
    """Pace, lag and silences of the stream: whether its delays are its own. While unknown, nothing is narrowed."""
    recent_bounds_ms: tuple[int, ...] = ()
    """Required bounds (``Recommendation.required_ms``) of earlier decisions under the same SLO, within the last
    ``NARROW_STABILISATION_MS``, in milliseconds."""
    situation: Situation | None = None
    """The stream after its newest batch, from which the state under another bound follows; None when not known."""
    windows: Windows | None = None
    """How single windows came out; None when it is not known, or when the SLO sets no goal for them."""
    chain: Chain | None = None
    """What the bound decides behind the stream's own operator; None when nothing, or when it is not known."""
    join: JoinSide | None = None
    """The join whose output has an SLO, and which side the stream is; None without one."""

    @property
    def bound_name(self) -> str:
        """What ``in_use_bound_ms`` is called in reasons."""
        return "the published bound" if self.bound_is_published else "the bound in use"
