"""Which alerts hold for one stream now, and when somebody is notified of them. Pure.

The rules are those of Prometheus once more, as functions of the stream's state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tidemark.controller.base.alert_table import (
    APPROVAL_PENDING,
    BURN_PAGE,
    BURN_TICKET,
    CONFLICT,
    FUTURE_ROWS,
    LOSS_BIASED,
    MIN_FUTURE_ROWS,
    MIN_LATE_ROWS,
    MIN_MISDATED_ROWS,
    MIN_SKEW_MS,
    MISDATED_ROWS,
    NOT_ADOPTED,
    OVERFLOW,
    PARTITION_IDLE,
    PARTITION_SKEWED,
    PREDICTION_WRONG,
    REPORTS_ABSENT,
    ROLLED_BACK,
    ROLLED_BACK_US,
    SATURATED,
    SPENT,
    STANDS_STILL,
    WINDOW_MISSED,
    Alert,
    Burn,
)
from tidemark.controller.base.clock import utc_text
from tidemark.controller.view.state.partition_rows import PartitionFacts
from tidemark.controller.view.state.recent_reports import JudgedRows, RecentRows
from tidemark.controller.view.state.state import StreamState
from tidemark.models.base.duration import format_about
from tidemark.models.base.target import PPM
from tidemark.models.base.text import format_number

_ABSENT_GAPS = 10
"""Mean gaps between batches without a report, after which reports count as absent."""

_MIN_ABSENT_US = 300_000_000
"""Minimum time without a report for that."""

_ADOPTED_WITHIN_US: Mapping[str, int] = {
    "Restart": 1_800_000_000,
    "Live": 1_800_000_000,
    "OnRestart": 604_800_000_000,
}
"""By mode, how long a job may take to apply a bound: half as long as a rollout waits for it."""

_STANDSTILL_TOLERANCE_MS = 1_000
"""How much less than the bound in use the watermark may trail before a wider bound explains that it stands still."""


@dataclass(frozen=True, slots=True)
class ActiveAlert:
    """An alert that holds."""

    alert: Alert
    """Which one."""
    labels: tuple[tuple[str, str], ...]
    """All its labels, by name."""
    value: str
    """What it is about, for people."""
    lasts: str = ""
    """For a budget: how long what is left of it lasts at this pace."""

    @property
    def summary(self) -> str:
        """What is the case."""
        return self.alert.summary.format(**self._named)

    @property
    def description(self) -> str:
        """More of it."""
        return self.alert.description.format(**{**self._named, "value": self.value, "lasts": self.lasts})

    @property
    def _named(self) -> dict[str, str]:
        return dict(self.labels)


def active_alerts(
    state: StreamState, partitions: Sequence[PartitionFacts], recent: RecentRows, now_us: int
) -> Iterator[ActiveAlert]:
    """Return the alerts that hold for a stream.

    Args:
        recent: what its newest reports add up to.
        now_us: the wall time, in microseconds.
    """
    for alert in (BURN_PAGE, BURN_TICKET):
        factor = _burns(alert, state, recent)
        if factor is not None:
            active = _active(alert, state, f"{format_number(factor, 4)}")
            yield replace(active, lasts=_lasts(alert, state, recent))
    remaining_ppm = None if state.overview is None else state.overview.remaining_ppm
    lost = max(state.row.late_max, state.row.unjudged_rows)
    if remaining_ppm is not None and remaining_ppm < 0 and lost >= MIN_LATE_ROWS:
        yield _active(SPENT, state, f"{format_number(remaining_ppm / 10_000)}%")
    if state.missed_window_us is not None:
        yield _active(WINDOW_MISSED, state, utc_text(state.missed_window_us))
    yield from _of_partitions(state, partitions)
    yield from _of_the_job(state, now_us)
    yield from _of_the_rollout(state, now_us)
    if state.saturated:
        yield _active(SATURATED, state, "")
    if state.recommendation is not None and state.recommendation.conflict:
        yield _active(CONFLICT, state, "")
    yield from _of_the_rows(state, recent)
    if state.lost is not None and state.lost.bias is not None:
        yield _active(LOSS_BIASED, state, state.lost.bias)


def _of_partitions(state: StreamState, partitions: Sequence[PartitionFacts]) -> Iterator[ActiveAlert]:
    for part in partitions:
        if part.skewed and part.costs_ms is not None and part.costs_ms >= MIN_SKEW_MS:
            yield _active(PARTITION_SKEWED, state, format_about(part.costs_ms * 1_000), part.partition)
        if part.state == "Idle":
            yield _active(PARTITION_IDLE, state, "", part.partition)


def _of_the_job(state: StreamState, now_us: int) -> Iterator[ActiveAlert]:
    # A person who pauses a stream expects its job to be silent, or to keep its bound.
    if state.paused:
        return
    newest, published = state.newest, state.published
    if newest is not None and newest.gap_us is not None:
        silent_us = now_us - newest.report.received_us
        if silent_us > max(_ABSENT_GAPS * newest.gap_us, _MIN_ABSENT_US):
            yield _active(REPORTS_ABSENT, state, format_about(silent_us))
    if published is not None and state.adopted is False:
        waited_us = now_us - published.published_us
        if waited_us > _ADOPTED_WITHIN_US.get(state.mode, waited_us):
            yield _active(NOT_ADOPTED, state, format_about(waited_us))


def _of_the_rollout(state: StreamState, now_us: int) -> Iterator[ActiveAlert]:
    rollout, prediction = state.rollout, state.prediction
    if rollout is not None:
        since_us = now_us - rollout.changed_us
        if rollout.state == "AwaitingApproval" and not state.paused:
            yield _active(APPROVAL_PENDING, state, format_about(since_us))
        if rollout.state == "RolledBack" and not rollout.vetoed and since_us < ROLLED_BACK_US:
            yield _active(ROLLED_BACK, state, format_about(since_us))
    if (
        prediction is not None
        and prediction.realised_ppm is not None
        and prediction.realised_max_ppm is not None
        and prediction.expected.min_ppm is not None
        and prediction.realised_max_ppm < prediction.expected.min_ppm
    ):
        yield _active(PREDICTION_WRONG, state, f"{format_number(prediction.realised_ppm / 10_000, 4)}%")


def _of_the_rows(state: StreamState, recent: RecentRows) -> Iterator[ActiveAlert]:
    newest = state.newest
    if newest is not None and newest.watermark_ms is not None and recent.judged:
        stood = newest.watermark_ms == recent.watermark_then_ms
        effective_ms = newest.effective_bound_ms
        explained = (
            state.mode != "Live"
            and effective_ms is not None
            and 0 <= effective_ms < newest.report.bound_ms - _STANDSTILL_TOLERANCE_MS
        )
        if stood and not explained:
            yield _active(STANDS_STILL, state, utc_text(newest.watermark_ms * 1_000))
    if recent.future_rows >= MIN_FUTURE_ROWS:
        yield _active(FUTURE_ROWS, state, f"{recent.future_rows:,}")
    if recent.misdated_rows >= MIN_MISDATED_ROWS:
        yield _active(MISDATED_ROWS, state, f"{recent.misdated_rows:,}")
    if recent.uncounted_rows:
        yield _active(OVERFLOW, state, f"{recent.uncounted_rows:,}")


def _burns(alert: Alert, state: StreamState, recent: RecentRows) -> float | None:
    """Return how many times too fast the budget burns over the window of a pair that burns; None when none does."""
    if state.slo is None or state.slo.value.objective != "occurrences":
        return None
    slo = state.slo.value
    for burn in alert.burns:
        factor = _burns_at(burn, slo.target_ppm, slo.window_ms, recent)
        if factor is not None:
            return factor
    return None


def _burns_at(burn: Burn, target_ppm: int, window_ms: int, recent: RecentRows) -> float | None:
    long, short = recent.by_window_s.get(burn.long_s), recent.by_window_s.get(burn.short_s)
    if long is None or short is None or not long.judged or not short.judged or long.late < MIN_LATE_ROWS:
        return None
    # Below 1 the target itself would burn too fast, where the SLO's own window is short.
    threshold = max(burn.budget_ppm / PPM * (window_ms / 1_000) / burn.long_s, 1.0)
    factors = _pace(long, target_ppm), _pace(short, target_ppm)
    return factors[0] if min(factors) > threshold else None


def _pace(rows: JudgedRows, target_ppm: int) -> float:
    """Return how many times as fast as the target allows rows were lost."""
    return rows.late * PPM / (rows.judged * (PPM - target_ppm))


def _lasts(alert: Alert, state: StreamState, recent: RecentRows) -> str:
    """Return how long the rest of the budget lasts at the pace of the alert's first window."""
    rows = recent.by_window_s.get(alert.burns[0].long_s)
    remaining_ppm = None if state.overview is None else state.overview.remaining_ppm
    if state.slo is None or remaining_ppm is None or rows is None or not rows.late:
        return "an unknown time"
    slo = state.slo.value
    return format_about(
        round(max(remaining_ppm, 0) / PPM * slo.window_ms * 1_000 / _pace(rows, slo.target_ppm))
    )


def _active(alert: Alert, state: StreamState, value: str, partition: str | None = None) -> ActiveAlert:
    job, stream = state.row.job, state.row.stream
    every = {
        "spark_job": job,
        "stream": stream,
        "partition": partition or "",
        "sloth_id": f"{job}-{stream}",
        "sloth_service": job,
        "sloth_slo": stream,
        "sloth_severity": alert.severity,
    }
    labels = {
        **state.policy.value.labels,
        "alertname": alert.name,
        "severity": alert.severity,
        **{name: every[name] for name in alert.labels},
    }
    return ActiveAlert(alert, tuple(sorted(labels.items())), value)


Key = tuple[tuple[str, str], ...]
"""All labels of an alert, by name: they identify it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """An alert that holds, or whose end somebody is still to be notified of."""

    active: ActiveAlert
    """What holds, as of the newest check."""
    since_us: int
    """Since when it holds."""
    starts_us: int | None = None
    """When it had held for long enough; None before that."""
    notified_us: int | None = None
    """When a notification that it fires was last delivered; None for never."""
    ended_us: int | None = None
    """When it ended; None while it holds."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification that is due."""

    key: Key
    """Of which alert."""
    status: Literal["firing", "resolved"]
    """What the alert is now."""
    alarm: Alarm
    """All of it."""


def advance(
    alarms: Mapping[Key, Alarm], alerts: Iterable[ActiveAlert], now_us: int, repeat_us: int
) -> tuple[dict[Key, Alarm], list[Notification]]:
    """Return the alarms as of now, and the notifications that are due.

    Args:
        alerts: the alerts that hold now.
        now_us: the time, in microseconds; it should not go back.
        repeat_us: after how long a notification of what still fires is repeated, in microseconds.
    """
    holds = {active.labels: active for active in alerts}
    after: dict[Key, Alarm] = {}
    for key, active in holds.items():
        before = alarms.get(key)
        if before is None:
            before = Alarm(active=active, since_us=now_us)
        alarm = replace(before, active=active, ended_us=None)
        if alarm.starts_us is None and now_us - alarm.since_us >= active.alert.hold_us:
            alarm = replace(alarm, starts_us=now_us)
        after[key] = alarm
    for key, alarm in alarms.items():
        # The end of what was never notified is not notified either.
        if key not in holds and alarm.notified_us is not None:
            after[key] = alarm if alarm.ended_us is not None else replace(alarm, ended_us=now_us)
    return after, [one for key, alarm in sorted(after.items()) for one in _due(key, alarm, now_us, repeat_us)]


def _due(key: Key, alarm: Alarm, now_us: int, repeat_us: int) -> list[Notification]:
    if alarm.ended_us is not None:
        return [Notification(key, "resolved", alarm)]
    notify = alarm.notified_us is None or now_us - alarm.notified_us >= repeat_us
    return [Notification(key, "firing", alarm)] if alarm.starts_us is not None and notify else []


def delivered(
    alarms: Mapping[Key, Alarm], notifications: Iterable[Notification], now_us: int
) -> dict[Key, Alarm]:
    """Return the alarms once ``notifications`` were delivered, at ``now_us``."""
    after = dict(alarms)
    for notification in notifications:
        if notification.status == "resolved":
            after.pop(notification.key, None)
        elif notification.key in after:
            after[notification.key] = replace(after[notification.key], notified_us=now_us)
    return after
