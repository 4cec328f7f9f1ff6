"""What a recommendation is made from."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.base.target import PPM
from tidemark.models.evidence.completeness import EvidenceCounts
from tidemark.models.evidence.curve import Curve
from tidemark.models.evidence.progress import UNKNOWN_PROGRESS, Progress
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.recommend.bound_in_use import UNCHANGED, BoundInUse
from tidemark.models.recommend.joint_bounds import JoinSide
from tidemark.models.recommend.transition import Situation
from tidemark.models.specs.slo import DAY_MS, Policy, Slo


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """All that a recommendation is made from."""

    curve: Curve
    slo: Slo
    policy: Policy
    evidence: EvidenceCounts
    in_use_bound_ms: int | None
    """The bound in use, in milliseconds, or in Live the published one; None when it is not known."""
    horizon_ms: int = DAY_MS
    """How far back the evidence counts, in milliseconds."""
    bound_is_published: bool = False
    """Whether it is the published one, because the plan of a job in Live has the ceiling."""
    progress: Progress = UNKNOWN_PROGRESS
    """Pace, lag and silences of the stream: whether its delays are its own. While unknown, nothing is narrowed."""
    recent_bounds_ms: tuple[int, ...] = ()
    """Required bounds (``Recommendation.required_ms``) of earlier decisions under the same SLO, within the last
    ``NARROW_STABILISATION_MS``, in milliseconds."""
    changes: BoundInUse = UNCHANGED
    """The bound in use and since when, where each change takes a restart."""
    situation: Situation | None = None
    """The stream after its newest batch, from which the state under another bound follows; None when not known."""
    windows: Windows | None = None
    """How single windows came out; None when it is not known, or when the SLO sets no goal for them."""
    downstream: Downstream | None = None
    """What the bound decides behind the stream's own operator; None when nothing, or when it is not known."""
    join: JoinSide | None = None
    """The join whose output has an SLO, and which side the stream is; None without one."""

    @property
    def bound_name(self) -> str:
        """What ``in_use_bound_ms`` is called in reasons."""
        return "the published bound" if self.bound_is_published else "the bound in use"


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCounts:
    """Windows (or minutes, for operators without) that the watermark has passed, over some span."""

    closed: int
    """How many there are."""
    good: int
    """How many of them certainly reached the target."""
    maybe_good: int
    """How many reached it if every uncertain row was admitted."""
    worst_ppm: int | None
    """The lowest share of rows that any of them certainly admitted, in parts per million; None without windows."""

    @property
    def good_ppm(self) -> int:
        """Share of them that certainly reached the target, in parts per million; 1,000,000 without windows."""
        return self.good * PPM // self.closed if self.closed else PPM


@dataclass(frozen=True, slots=True)
class Windows:
    """The outcome of single windows."""

    horizon: WindowCounts
    """Over the horizon."""
    since: WindowCounts
    """Those of them that closed since the bound in use was applied."""
