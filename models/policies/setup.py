"""The problem that a policy solves: the operator, the engine, the target and how a decision reaches the job."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from tidemark.models.duration import format_duration
from tidemark.models.granules import SPARK_TICK_US
from tidemark.models.operators import Operator, TimeWindow
from tidemark.models.replay import Engine
from tidemark.models.slo import Objective

Scope = Literal["global", "partition"]
BacktestMode = Literal["live", "restart"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """One problem, the same for every policy."""

    operator: Operator
    """The stateful operator."""
    trigger_us: int
    """Spark's processing-time trigger; for per-row engines the tick at which a policy decides. Microseconds."""
    target_ppm: int
    """The completeness target in parts per million."""
    objective: Objective = "occurrences"
    """What the target is a share of: all rows, or the rows of each window, in a share of the windows."""
    good_windows_ppm: int = 990_000
    """With ``timeslices``: the share of windows that must reach the target, in parts per million."""
    engine: Engine = "spark"
    """How the engine moves its watermark."""
    scope: Scope = "global"
    """One base for the stream, or one per partition and the minimum of their watermarks."""
    mode: BacktestMode = "live"
    """How a decision reaches the job: through the control stream, or by a restart."""
    latency_cap_us: int | None = None
    """Maximum time that a window may wait for its rows, in microseconds; it takes precedence over the target."""
    restart_cost_us: int = 30_000_000
    """With ``restart``: time without batches that a change of the bound costs, in microseconds."""

    @property
    def granule_us(self) -> int:
        """Width of the cohorts that policies observe, in microseconds.

        For windows a tenth of the slide where that is whole milliseconds, as the tap's, else coarser; for row-level
        and session keys a tenth of the trigger, so that scaling all times scales the cohorts too.
        """
        if isinstance(self.operator, TimeWindow):
            grid = math.gcd(self.operator.size_us, self.operator.slide_us, self.operator.start_us)
            parts = (count for count in range(10, 1, -1) if grid % (count * SPARK_TICK_US) == 0)
            return grid // next(parts, 1)
        return max(self.trigger_us // 10 // SPARK_TICK_US, 1) * SPARK_TICK_US

    @property
    def key_spacing_us(self) -> int:
        """Time from one key to the next in the live policy: the slide, or the trigger without windows. Microseconds."""
        return self.operator.slide_us if isinstance(self.operator, TimeWindow) else self.trigger_us

    @property
    def span_triggers(self) -> float:
        """The live policy's unit of time, in triggers: from one key to the next, at least ten triggers."""
        return max(self.key_spacing_us / self.trigger_us, 10.0)

    def __post_init__(self) -> None:
        """Reject what cannot be replayed."""
        if self.trigger_us <= 0:
            raise ValueError(f"the trigger must be above 0, not {format_duration(self.trigger_us)}")
        if not 0 < self.target_ppm < 1_000_000 or not 0 < self.good_windows_ppm < 1_000_000:
            raise ValueError(
                f"target {self.target_ppm} ppm and good windows {self.good_windows_ppm} ppm must be in (0, 1,000,000)"
            )
        if self.latency_cap_us is not None and self.latency_cap_us < 0:
            raise ValueError(
                f"the latency cap must be at least 0, not {format_duration(self.latency_cap_us)}"
            )
        if self.restart_cost_us < 0:
            raise ValueError(
                f"the cost of a restart must be at least 0, not {format_duration(self.restart_cost_us)}"
            )
