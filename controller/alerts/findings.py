"""Which alerts hold for one stream, now: the rules of Prometheus once more, on what the store says.

Pure. Each rule is named after its alert and says what it holds against which threshold; how long that must last is
``lifecycle``'s business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tidemark.controller.alerts.table import (
    BURN_PAGE,
    BURN_TICKET,
    CONFLICT,
    FUTURE_ROWS,
    MIN_LATE_ROWS,
    NOT_ADOPTED,
    OVERFLOW,
    PARTITION_IDLE,
    PARTITION_SKEWED,
    REPORTS_ABSENT,
    SATURATED,
    SPENT,
    STANDS_STILL,
    Alert,
    Burn,
)
from tidemark.controller.stream_state.partition_standing import PartitionStanding
from tidemark.controller.stream_state.recent_rows import Lately
from tidemark.controller.stream_state.standing import Standing
from tidemark.models.duration import format_about
from tidemark.models.target import PPM

__all__ = ["Finding", "findings"]

DAY_S = 86_400

ABSENT_GAPS = 10
"""Usual gaps between batches without a report, after which reports count as absent."""

MIN_ABSENT_US = 300_000_000
"""Least time without a report for that."""

ADOPTED_WITHIN_US: Mapping[str, int] = {
    "Restart": 1_800_000_000,
    "Live": 1_800_000_000,
    "OnRestart": 604_800_000_000,
}
"""By mode, how long a job has to take a bound up: half as long as a rollout waits for it."""

STANDSTILL_TOLERANCE_MS = 1_000
"""How much less than the bound in use a watermark may trail before a wider bound explains that it stands still."""


@dataclass(frozen=True, slots=True)
class Finding:
    """An alert that holds."""

    alert: Alert
    """Which one."""
    labels: tuple[tuple[str, str], ...]
    """All its labels, by name."""
    value: str
    """What it is about, for people."""

    @property
    def summary(self) -> str:
        """What is the case."""
        return self.alert.summary.format(**self._named)

    @property
    def description(self) -> str:
        """More of it."""
        return self.alert.description.format(**self._named, value=self.value)

    @property
    def _named(self) -> dict[str, str]:
        return dict(self.labels)


def findings(
    stream: Standing, partitions: Sequence[PartitionStanding], lately: Lately, now_us: int
) -> Iterator[Finding]:
    """Return the alerts that hold for a stream.

    Args:
        stream: how it stands.
        partitions: how its partitions stand.
        lately: what its newest reports add up to.
        now_us: the wall time, in microseconds.
    """
    for alert in (BURN_PAGE, BURN_TICKET):
        share = _burns(alert, stream, lately)
        if share is not None:
            yield _found(alert, stream, f"{100 * share:.4g}%")
    if stream.remaining_ppm is not None and stream.remaining_ppm < 0 and stream.late_max >= MIN_LATE_ROWS:
        yield _found(SPENT, stream, f"{stream.remaining_ppm / 10_000:g}%")
    yield from _of_partitions(stream, partitions)
    yield from _of_the_job(stream, now_us)
    if stream.saturated:
        yield _found(SATURATED, stream, "")
    if stream.wish is not None and stream.wish.conflict:
        yield _found(CONFLICT, stream, "")
    yield from _of_the_rows(stream, lately)


def _of_partitions(stream: Standing, partitions: Sequence[PartitionStanding]) -> Iterator[Finding]:
    for each in partitions:
        if each.skewed and each.costs_ms is not None:
            yield _found(PARTITION_SKEWED, stream, format_about(each.costs_ms * 1_000), each.partition)
        if each.state == "Idle":
            yield _found(PARTITION_IDLE, stream, "", each.partition)


def _of_the_job(stream: Standing, now_us: int) -> Iterator[Finding]:
    # A person who pauses a stream has said that what its job does is no surprise.
    if stream.paused:
        return
    newest, found = stream.newest, stream.told
    if newest is not None and newest.gap_us is not None:
        silent_us = now_us - newest.received_us
        if silent_us > max(ABSENT_GAPS * newest.gap_us, MIN_ABSENT_US):
            yield _found(REPORTS_ABSENT, stream, format_about(silent_us))
    if found is not None and stream.adopted is False:
        waited_us = now_us - found.published_us
        if waited_us > ADOPTED_WITHIN_US.get(stream.mode, waited_us):
            yield _found(NOT_ADOPTED, stream, format_about(waited_us))


def _of_the_rows(stream: Standing, lately: Lately) -> Iterator[Finding]:
    newest = stream.newest
    if newest is not None and newest.watermark_ms is not None and lately.judged:
        stood = newest.watermark_ms == lately.watermark_then_ms
        explained = (
            stream.mode != "Live"
            and newest.effective_bound_ms is not None
            and newest.effective_bound_ms < newest.bound_ms - STANDSTILL_TOLERANCE_MS
        )
        if stood and not explained:
            at = datetime.fromtimestamp(newest.watermark_ms / 1_000, UTC)
            yield _found(STANDS_STILL, stream, f"{at:%Y-%m-%d %H:%M:%S} UTC")
    if lately.future_rows:
        yield _found(FUTURE_ROWS, stream, f"{lately.future_rows:,}")
    if lately.uncounted_rows:
        yield _found(OVERFLOW, stream, f"{lately.uncounted_rows:,}")


def _burns(alert: Alert, stream: Standing, lately: Lately) -> float | None:
    """Return the share of late rows over the window whose budget burns too fast; None when none does."""
    if stream.objective != "occurrences" or stream.target_ppm is None or stream.window_ms is None:
        return None
    for burn in alert.burns:
        share = _burns_at(burn, stream.target_ppm, stream.window_ms, lately)
        if share is not None:
            return share
    return None


def _burns_at(burn: Burn, target_ppm: int, window_ms: int, lately: Lately) -> float | None:
    long, short = lately.by_window_s.get(burn.long_s), lately.by_window_s.get(burn.short_s)
    if long is None or short is None or not long.judged or not short.judged or long.late < MIN_LATE_ROWS:
        return None
    # Below 1 the target itself would burn too fast, where the SLO's own window is short.
    factor = max(burn.budget_ppm / PPM * (window_ms / 1_000) / burn.long_s, 1.0)
    threshold = factor * (PPM - target_ppm) / PPM
    shares = long.late / long.judged, short.late / short.judged
    return shares[0] if min(shares) > threshold else None


def _found(alert: Alert, stream: Standing, value: str, partition: str | None = None) -> Finding:
    every = {
        "spark_job": stream.job,
        "stream": stream.stream,
        "partition": partition or "",
        "sloth_id": f"{stream.job}-{stream.stream}",
        "sloth_service": stream.job,
        "sloth_slo": stream.stream,
        "sloth_severity": alert.severity,
    }
    labels = {
        "alertname": alert.name,
        "severity": alert.severity,
        **{name: every[name] for name in alert.labels},
    }
    return Finding(alert, tuple(sorted(labels.items())), value)
