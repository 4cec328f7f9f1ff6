"""Whether a stream that starts again has read what came while its job was down.

A source need not say what it has not read yet. Rows of a backlog come later than rows usually do, so a policy that
expects them as usual would close windows without them. How late rows usually are when they are read is part of what a
stream learns; after a restart the policy waits until each partition is back at that.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidemark.models.live_defaults import CAUGHT_UP_LAGS, CAUGHT_UP_TRIGGERS, LAG_BATCHES, NO_CLOSER_TRIGGERS


class UsualLag:
    """How far behind the clock the newest row of each partition usually is, by partition in microseconds."""

    def __init__(self, lag_us: Mapping[str, float] | None = None) -> None:
        self.lag_us = dict(lag_us or {})

    def observe(self, now_us: int, bases_us: Mapping[str, int]) -> None:
        """Take a batch.

        Args:
            now_us: wall time of its trigger, in microseconds.
            bases_us: maximum event time of the batch's rows by partition.
        """
        for name, base_us in bases_us.items():
            lag_us = now_us - base_us
            usual_us = self.lag_us.get(name, lag_us)
            self.lag_us[name] = usual_us + (lag_us - usual_us) / LAG_BATCHES


class RestartCatchUp:
    """The partitions that still read what came while the job was down.

    A partition is done when its newest row is about as old as usual, or when it has come no closer for long: it may be
    silent, or slower than before.

    Args:
        usual: how far behind the clock each partition usually is.
        trigger_us: time between two triggers, in microseconds.
    """

    def __init__(self, usual: UsualLag, trigger_us: int) -> None:
        self._patience_us = NO_CLOSER_TRIGGERS * trigger_us
        near_us = CAUGHT_UP_TRIGGERS * trigger_us
        self._limit_us = {name: CAUGHT_UP_LAGS * lag_us + near_us for name, lag_us in usual.lag_us.items()}
        self._closest_us: dict[str, int] = {}
        self._since_us: dict[str, int] = {}

    @property
    def behind(self) -> tuple[str, ...]:
        """The partitions that are not done, sorted."""
        return tuple(sorted(self._limit_us))

    def observe(self, now_us: int, bases_us: Mapping[str, int]) -> None:
        """Take a batch; arguments as of ``UsualLag.observe``."""
        for name in list(self._limit_us):
            since_us = self._since_us.setdefault(name, now_us)
            lag_us = now_us - bases_us[name] if name in bases_us else None
            if lag_us is not None and lag_us < self._closest_us.get(name, lag_us + 1):
                self._closest_us[name], self._since_us[name] = lag_us, now_us
                since_us = now_us
            near = lag_us is not None and lag_us <= self._limit_us[name]
            if near or now_us - since_us > self._patience_us:
                del self._limit_us[name]
