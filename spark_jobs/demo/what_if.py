"""What another way to set the bound would have come to, replayed by Spark's late rule over the same rows."""

from __future__ import annotations

import numpy as np

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.catalogue import make_policy
from tidemark.models.backtest.run import run
from tidemark.models.base.operators import TimeWindow
from tidemark.models.live.policy import Setup
from tidemark.spark_jobs.demo.outcome import Outcome
from tidemark.spark_jobs.demo.plan import Plan

LIVE = "tidemark"
"""The policy that steers a job in Live, by the name that the backtest has for it."""


class TraceReplays:
    """Replays of one trace.

    Args:
        plan: the trace and its batches.
        operator: the windows.
        target_ppm: the completeness target in parts per million.
    """

    def __init__(self, plan: Plan, operator: TimeWindow, target_ppm: int) -> None:
        self._setup = Setup(operator=operator, trigger_us=plan.slot_us, target_ppm=target_ppm)
        self._arrivals = _counted(plan, self._setup)

    def outcome(self, policy: str, between_us: tuple[int, int], bound_ms: int | None = None) -> Outcome:
        """Return the outcome under a policy, of the windows that end after the first and up to the second time.

        Args:
            policy: its name, as in the backtest: ``tidemark`` or such as ``fixed:60s``.
            between_us: event times in microseconds.
            bound_ms: the bound to show, in milliseconds; None for one that moves.
        """
        done = run(self._arrivals, self._setup, make_policy(policy, self._setup))
        keys = self._arrivals.keys_us
        chosen = (keys > between_us[0]) & (keys <= between_us[1])
        # Later windows may still have been open when the trace ended.
        timed = chosen & (keys <= self._arrivals.scored_until_us)
        latency = np.maximum(done.emit_wall_us - keys, 0)[timed]
        return Outcome(
            bound_ms=bound_ms,
            windows=int(chosen.sum()),
            rows=int(done.rows_by_key[chosen].sum()),
            lost=int(done.late_by_key[chosen].sum()),
            latency_us=float(latency.mean()) if len(latency) else None,
            state_rows=None,
        )


def _counted(plan: Plan, setup: Setup) -> Arrivals:
    rows = plan.arrivals
    names, partition = np.unique(rows.partition, return_inverse=True)
    builder = ArrivalsBuilder(setup)
    builder.add(rows.event_time_us, rows.arrival_time_us, partition, len(names))
    return builder.build()
