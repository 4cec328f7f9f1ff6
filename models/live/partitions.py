"""Which partitions hold the watermark back: active ones do, idle ones do not, and slow is not idle.

A partition leaves the minimum when it has been silent for longer than its own gaps explain *and* the source has no
unread rows of it. One with a backlog stays, however long it is silent. When all have left, the stream's base moves on
with the clock from its last row, so that the last windows close as if rows had kept coming.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidemark.models.live.defaults import (
    IDLE_AFTER_GAPS,
    IDLE_MIN_GAPS,
    IDLE_REMEMBERED_GAPS,
    IDLE_UNLEARNED_TRIGGERS,
)
from tidemark.models.live.policy import NEVER_US, NO_BASE_US


@dataclass(frozen=True, slots=True)
class Activity:
    """Which partitions hold the watermark back at one moment. Names are sorted."""

    base_us: int
    """Lowest base of the active partitions; for an idle stream, its base moved on with the clock. Microseconds.

    ``NO_BASE_US`` while no partition has been seen, or while one with a backlog has never been seen.
    """
    holder: str | None
    """The partition that holds it; None when none is active."""
    behind: tuple[str, ...]
    behind_us: int | None
    """Lowest base of those with a backlog; None without one, ``NO_BASE_US`` when one has never been seen."""
    idle: tuple[str, ...]


@dataclass(slots=True)
class _Partition:
    base_us: int
    last_us: int
    gaps_us: deque[int] = field(default_factory=lambda: deque(maxlen=IDLE_REMEMBERED_GAPS))


class Partitions:
    """The partitions of one stream.

    Args:
        idle_timeout_us: silence after which a partition is idle, instead of what is learned from its gaps, in
            microseconds. It also applies where the source does not report its backlog; without it no partition of such
            a source is ever idle.
    """

    def __init__(self, idle_timeout_us: int | None = None) -> None:
        self._given_us = idle_timeout_us
        self._partitions: dict[str, _Partition] = {}
        self._backlog: Mapping[str, int] | None = None
        self._trigger_us = 0
        self.stream_base_us = NO_BASE_US
        """Maximum event time of the stream, ``NO_BASE_US`` before the first."""
        self.last_us = 0
        """Wall time of the last batch with rows, in microseconds."""

    @property
    def bases_us(self) -> dict[str, int]:
        """How far each partition has come, in microseconds."""
        return {name: partition.base_us for name, partition in self._partitions.items()}

    def restore(self, bases_us: Mapping[str, int], now_us: int) -> None:
        """Restore the partitions of an earlier run; none is idle before it has been silent in this one."""
        for name, base_us in bases_us.items():
            # A batch that runs again was observed before and may hold only older rows.
            partition = self._partitions.setdefault(name, _Partition(base_us, now_us))
            partition.base_us = max(partition.base_us, base_us)
            self.stream_base_us = max(self.stream_base_us, base_us)
        self.last_us = max(self.last_us, now_us)

    def observe(
        self, now_us: int, trigger_us: int, bases_us: Mapping[str, int], backlog: Mapping[str, int] | None
    ) -> None:
        """Take a batch.

        Args:
            now_us: wall time of its trigger, in microseconds.
            trigger_us: time between two triggers, in microseconds.
            bases_us: maximum event time of the batch's rows by partition, or a time before it.
            backlog: rows by partition that the source has and the query has not read; None when the source does
                not report it.
        """
        self._trigger_us = trigger_us
        self._backlog = backlog
        # A timeout may depend on what others have learned, so all are taken before any of them learns more.
        timeouts_us = {name: self.timeout_us(name) for name in bases_us if name in self._partitions}
        for name, base_us in bases_us.items():
            partition = self._partitions.get(name)
            if partition is None:
                self._partitions[name] = _Partition(base_us, now_us)
                continue
            gap_us = now_us - partition.last_us
            # The gap of an idle partition does not show how often an active one has rows.
            if 0 < gap_us <= max(timeouts_us[name], IDLE_UNLEARNED_TRIGGERS * trigger_us):
                partition.gaps_us.append(gap_us)
            partition.base_us = max(partition.base_us, base_us)
            partition.last_us = max(partition.last_us, now_us)
        if bases_us:
            self.stream_base_us = max(self.stream_base_us, *bases_us.values())
            self.last_us = max(self.last_us, now_us)

    def observe_uncounted(self, now_us: int) -> None:
        """Take a batch whose rows could not be counted by partition: any of them may have been in it."""
        self.last_us = max(self.last_us, now_us)
        for partition in self._partitions.values():
            partition.last_us = max(partition.last_us, now_us)

    def timeout_us(self, name: str) -> int:
        """Return the silence after which a partition without a backlog is idle, in microseconds."""
        if self._given_us is not None:
            return self._given_us
        learned = self._learned_us(self._partitions[name])
        if learned is not None:
            return IDLE_AFTER_GAPS * learned
        if not self._trigger_us:
            return NEVER_US
        every = (self._learned_us(other) for other in self._partitions.values())
        longest = max((gap for gap in every if gap is not None), default=0)
        return max(IDLE_AFTER_GAPS * longest, IDLE_UNLEARNED_TRIGGERS * self._trigger_us)

    def activity(self, checked_us: int) -> Activity:
        """Return which partitions hold the watermark back.

        Args:
            checked_us: wall time at which the source was last asked for rows that have been observed since, in
                microseconds. The time that a batch runs is no silence: the source is not read meanwhile.
        """
        behind = self._behind()
        unseen = [name for name in behind if name not in self._partitions]
        idle = [name for name in self._partitions if name not in behind and self._is_idle(name, checked_us)]
        active = {name: partition.base_us for name, partition in self._partitions.items() if name not in idle}
        behind_us = min((active.get(name, NO_BASE_US) for name in behind), default=None)
        names = tuple(sorted(behind)), tuple(sorted(idle))
        if unseen:
            return Activity(NO_BASE_US, min(unseen), names[0], NO_BASE_US, names[1])
        if active:
            holder = min(active, key=lambda name: (active[name], name))
            return Activity(active[holder], holder, names[0], behind_us, names[1])
        base_us = self.stream_base_us + max(checked_us - self.last_us, 0) if self._partitions else NO_BASE_US
        return Activity(base_us, None, names[0], behind_us, names[1])

    def _learned_us(self, partition: _Partition) -> int | None:
        if len(partition.gaps_us) < IDLE_MIN_GAPS:
            return None
        return max(*partition.gaps_us, self._trigger_us)

    def _behind(self) -> set[str]:
        return {name for name, rows in (self._backlog or {}).items() if rows > 0}

    def _is_idle(self, name: str, now_us: int) -> bool:
        if self._backlog is None and self._given_us is None:
            return False
        return now_us - self._partitions[name].last_us > self.timeout_us(name)
