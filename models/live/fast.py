"""The fast policy: the watermark of a live stream, decided in the driver at every batch.

With an SLO the live policy decides it (``policies/tidemark``); without one it is the minimum of the partitions' bases
less the bound. Either stays inside the envelope that the controller allows, behind the unread rows of partitions with a
backlog, and behind the clock at the time when it is in force: a watermark that is too high is in the checkpoint and
cannot be undone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.granules import SPARK_TICK_US, granule_first_us, granule_last_us
from tidemark.models.base.operators import Operator, SessionWindow, TimeWindow
from tidemark.models.base.text import plural
from tidemark.models.evidence.key_counts import cells_of
from tidemark.models.evidence.misdated import misdated
from tidemark.models.live.control import OpenKeys
from tidemark.models.live.learned import Learned
from tidemark.models.live.partitions import Activity, Partitions
from tidemark.models.live.policy import NO_BASE_US, Setup
from tidemark.models.live.resumable import ResumablePolicy
from tidemark.models.protocol.messages import Pin, Report
from tidemark.models.recommend.steps import explained

_RESTORED_STEP_US = 1_000_000
_MAX_RESTORED = 10_000

Follow = Literal["partitions", "stream", "ceiling"]
"""What the watermark follows: the partitions, as described above; the stream's maximum event time, as without Tidemark;
or only the ceiling in the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The settings of the fast policy: the controller's envelope, or the job's own."""

    follow: Follow = "partitions"
    bound_us: int
    """The bound, in microseconds: of each partition where no SLO decides, or of the stream."""
    target_ppm: int | None = None
    """The completeness target in parts per million; None: each partition follows the bound."""
    latency_cap_us: int | None = None
    """Maximum time that a window may wait, in microseconds; None for no cap."""
    min_bound_us: int | None = None
    """Minimum distance from every active partition, in microseconds; None for no limit."""
    max_bound_us: int | None = None
    """Maximum distance from the slowest active partition, in microseconds; None for no limit but the ceiling."""
    pin: Pin | None = None
    """What a pin holds the job to, for the report; its effect is in ``follow``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkTarget:
    """The watermark that the fast policy requires, and why."""

    watermark_us: int | None
    """The watermark in microseconds, whole milliseconds; None: do not move it."""
    reason: str
    activity: Activity
    details: str = ""
    """The figures that lead to it, for the log; empty where the sentence has them all."""


class FastPolicy:
    """The fast policy of one stream.

    Args:
        operator: the stateful operator.
        ceiling_us: the static bound that the plan holds, in microseconds.
        idle_timeout_us: silence after which a partition is idle, see ``Partitions``.
    """

    def __init__(self, operator: Operator, ceiling_us: int, idle_timeout_us: int | None = None) -> None:
        self._operator = operator
        self._ceiling_us = ceiling_us
        self.partitions = Partitions(idle_timeout_us)
        """The stream's partitions."""
        self.keys = OpenKeys()
        """The keys that have arrived and are not closed yet."""
        self.own = ResumablePolicy(operator)
        """The live policy, over its restarts and targets."""
        self._granule_us = SPARK_TICK_US
        self._last_us = 0
        self._read_up = False
        """Whether all that waited in the source when the run began has been read."""

    def restore(self, bases_us: Mapping[str, int], offered_us: int | None, now_us: int) -> None:
        """Restore the partitions of an earlier run; any key up to their bases may be open."""
        bases_us = {name: min(max(base_us, NO_BASE_US), now_us) for name, base_us in bases_us.items()}
        self.partitions.restore(bases_us, now_us)
        if not bases_us:
            return
        newest_us = max(bases_us.values())
        oldest_us = newest_us - self._ceiling_us if offered_us is None else offered_us
        step_us = self._operator.slide_us if isinstance(self._operator, TimeWindow) else _RESTORED_STEP_US
        step_us = max(step_us, (newest_us - oldest_us) // _MAX_RESTORED)
        # A window that was open may hold rows from before the watermark; the grid of steps is that of the windows.
        first_us = oldest_us - (self._operator.size_us if isinstance(self._operator, TimeWindow) else 0)
        offset_us = self._operator.start_us if isinstance(self._operator, TimeWindow) else 0
        first_us -= (first_us - offset_us) % step_us
        if oldest_us <= newest_us:
            _, keys = self._operator.keys(np.arange(first_us, newest_us + step_us, step_us, dtype=np.int64))
            self.keys.add(keys[keys <= self._max_key_us(newest_us)], oldest_us)

    def learned(self) -> Learned | None:
        """Return what the policy has learned, for ``resume`` in a later run; None before there was any target."""
        return self.own.learned()

    def resume(self, learned: Learned) -> None:
        """Go on with what was learned before: see ``ResumablePolicy.resume``.

        Raises:
            ValueError: when it does not fit. Then nothing is changed.
        """
        self.own.resume(learned)

    @property
    def begun_anew(self) -> Setup | None:
        """The problem of a policy that began without anything learned before, while it knows less than reports show."""
        return self.own.begun_anew

    def go_on_anew(self) -> None:
        """Let a policy that has begun anew go on as one that has not: there is nothing to resume."""
        self.own.go_on_anew()

    def _max_key_us(self, event_us: int) -> int:
        return int(self._operator.keys(np.array([event_us], np.int64))[1].max())

    def observe(
        self,
        report: Report,
        newest_granules: Mapping[str, int],
        backlog: Mapping[str, int] | None,
        trigger_us: int,
        order: Order,
        *,
        due_us: int | None = None,
        representative: bool = True,
    ) -> None:
        """Take a batch; batches come in order, each once.

        Args:
            report: the batch's report.
            newest_granules: index of the newest granule of each partition's rows that are not future-dated.
            backlog: rows by partition that the source has and the query has not read; None when it does not say.
            trigger_us: time between two triggers, in microseconds; 0 while it is not known.
            order: the settings.
            due_us: wall time at which the batch was due, in microseconds; when it started unless given. The policy
                counts ages in whole triggers: a millisecond by which some batches start late would shift every age.
            representative: whether the rows show how late rows usually come; what waited in the source when the run
            began does not, until all of it is read.
        """
        self._granule_us = report.granule_us
        self._last_us = report.started_us if due_us is None else due_us
        bases_us = self._passed_misdated(self._bases_us(report, newest_granules), report.started_us)
        self.partitions.observe(report.started_us, trigger_us, bases_us, backlog)
        if report.uncounted_rows:
            self.partitions.observe_uncounted(report.started_us)
        if report.max_event_time_us is not None:
            base_us = min(report.max_event_time_us, report.started_us)
            self.partitions.stream_base_us = max(self.partitions.stream_base_us, base_us)
        self.keys.add(_keys_of(report), report.watermark_ms * SPARK_TICK_US)
        self.keys.close(report.watermark_ms * SPARK_TICK_US)
        self._read_up = self._read_up or not any((backlog or {}).values())
        with self.own.failing_open():
            self.own.solve(order.target_ppm, order.latency_cap_us, trigger_us)
            self.own.observe(report, self._last_us, representative=representative and self._read_up)

    def decide(
        self, now_us: int, order: Order, checked_us: int | None = None, in_force_us: int | None = None
    ) -> WatermarkTarget:
        """Return the watermark that the stream requires.

        Args:
            now_us: wall time at which the next batch is planned, in microseconds.
            order: the settings.
            checked_us: wall time at which the newest batch observed was planned, or the source was found empty later;
                ``now_us`` unless given.
            in_force_us: wall time at which the answer is in force, in microseconds, that of the next trigger; None
                where batches run back to back.
        """
        activity = self.partitions.activity(now_us if checked_us is None else checked_us)

        def answer(watermark_us: int | None, reason: str) -> WatermarkTarget:
            details = ""
            with self.own.failing_open():
                details = "" if self.own.policy is None else explained(self.own.policy.explain())
            return WatermarkTarget(
                watermark_us=watermark_us, reason=reason, activity=activity, details=details
            )

        stream_us = self.partitions.stream_base_us
        if order.follow == "ceiling":
            return answer(None, "nothing is required: the ceiling holds")
        if stream_us == NO_BASE_US:
            return answer(None, "no row has been seen yet")
        if order.follow == "stream":
            bound = format_duration(order.bound_us)
            return answer(
                self._clamped(stream_us - order.bound_us, now_us),
                f"{bound} behind the stream's maximum event time, as without Tidemark",
            )
        if activity.base_us == NO_BASE_US:
            return answer(None, f"partition {activity.holder} has unread rows, and none was read yet")
        watermark_us, reason, wait_us = self._unlimited(now_us, order, activity, in_force_us)
        watermark_us, reason = self._limited(watermark_us, reason, order, activity, wait_us)
        # Only the policy decides for the time when the watermark is in force.
        latest_us = now_us if self.own.policy is None or in_force_us is None else in_force_us
        return answer(self._clamped(watermark_us, latest_us), reason)

    @staticmethod
    def _bases_us(report: Report, newest_granules: Mapping[str, int]) -> dict[str, int]:
        """Return the base of each partition of the batch, or a time before it, and at most the clock.

        A row that is future-dated within the allowance is admitted as it is, but does not show where its partition is.
        """
        newest = np.array(list(newest_granules.values()), np.int64)
        first_us = granule_first_us(newest, report.granule_us, report.closed).tolist()
        bases_us = dict(zip(newest_granules, first_us, strict=True))
        if len(bases_us) == 1 and report.max_event_time_us is not None:
            bases_us = dict.fromkeys(bases_us, report.max_event_time_us)
        return {name: min(base_us, report.started_us) for name, base_us in bases_us.items()}

    def _passed_misdated(self, bases_us: Mapping[str, int], started_us: int) -> dict[str, int]:
        """Return the bases of a batch, with the stream's in place of those that a misdated row shows.

        A partition with such rows alone would hold the watermark where they are dated, and no bound is meant for them.
        """
        names, found_us = list(bases_us), np.array(list(bases_us.values()), np.int64)
        known_us = max(self.partitions.stream_base_us, int(found_us.max(initial=NO_BASE_US)))
        wrong = misdated(found_us, known_us, started_us)
        stream_us = max(self.partitions.stream_base_us, int(found_us[~wrong].max(initial=NO_BASE_US)))
        passed = zip(names, np.where(wrong, stream_us, found_us).tolist(), strict=True)
        return {name: base_us for name, base_us in passed if base_us != NO_BASE_US}

    def _unlimited(
        self, now_us: int, order: Order, activity: Activity, in_force_us: int | None
    ) -> tuple[int, str, int]:
        """Return the watermark, why, and how long after its time a row is waited for once it could have been read."""
        by_bound_us = activity.base_us - order.bound_us
        bound = format_duration(order.bound_us)
        slowest = f"partition {activity.holder}"
        if activity.holder is None:
            slowest = "the stream, which is idle and moves with the clock"
        by_bound = by_bound_us, f"{bound} behind {slowest}", order.bound_us
        own, policy, trigger_us = self.own, self.own.policy, self.own.trigger_us
        if order.target_ppm is None or (policy is None and own.error is None):
            return by_bound
        lag_us = self.partitions.last_us - self.partitions.stream_base_us
        if lag_us > self._ceiling_us:
            reason = f"{by_bound[1]}: rows come {format_about(lag_us)} after their time, so this is a replay"
            return by_bound_us, reason, order.bound_us
        decided_us = max(self._last_us, now_us - trigger_us)
        with own.failing_open():
            if policy is not None:
                if activity.holder is None:
                    policy.rest()
                # Back to back the next batch is planned before the answer is there.
                decision = policy.decide(decided_us, in_force_us or decided_us + 2 * trigger_us)
                watermark_us = NO_BASE_US if decision.watermark_us is None else decision.watermark_us
                summary = policy.summary(own.partitions) or "the policy has seen no row yet"
                if own.error is None or policy.knows_enough:
                    own.error = None
                    return watermark_us, summary, policy.wait_us
        return by_bound_us, f"{own.failure}; {by_bound[1]}", order.bound_us

    @staticmethod
    def _limited(
        watermark_us: int, reason: str, order: Order, activity: Activity, wait_us: int
    ) -> tuple[int, str]:
        if order.max_bound_us is not None:
            floor_us = activity.base_us - order.max_bound_us
            if watermark_us < floor_us:
                message = f"at most {format_duration(order.max_bound_us)} behind, the maximum bound allowed"
                watermark_us, reason = floor_us, f"{message} ({reason})"
        if order.min_bound_us is not None:
            limit_us = activity.base_us - order.min_bound_us
            if watermark_us > limit_us:
                message = f"at least {format_duration(order.min_bound_us)} behind, the minimum bound allowed"
                watermark_us, reason = limit_us, f"{message} ({reason})"
        if activity.behind_us is not None:
            limit_us = activity.behind_us - wait_us
            if watermark_us > limit_us:
                verb = "has" if len(activity.behind) == 1 else "have"
                message = f"{plural(len(activity.behind), 'partition')} {verb} unread rows"
                watermark_us, reason = (
                    limit_us,
                    f"{message}: {format_about(wait_us)} behind them ({reason})",
                )
        return watermark_us, reason

    def _clamped(self, watermark_us: int, latest_us: int) -> int | None:
        """Return the watermark, at most ``latest_us`` and on an edge at which the ledger is exact."""
        if watermark_us <= 0:
            return None
        watermark_us = min(watermark_us, latest_us)
        if isinstance(self._operator, TimeWindow):
            return watermark_us // SPARK_TICK_US * SPARK_TICK_US
        reach_us = self._operator.gap_us if isinstance(self._operator, SessionWindow) else 0
        edge_us = (watermark_us - reach_us) // self._granule_us * self._granule_us + reach_us
        return edge_us // SPARK_TICK_US * SPARK_TICK_US


def _keys_of(report: Report) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the highest key of each cohort of a batch, distinct."""
    last = granule_last_us(np.unique(cells_of(report).granules), report.granule_us, report.closed)
    _, key = report.operator.keys(last)
    return np.unique(key)
