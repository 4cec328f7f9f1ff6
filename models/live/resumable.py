"""The live policy of one stream over its restarts, targets and caps: it begins with what is known already.

What was learned before comes from an earlier run's checkpoint or from the stream's reports. It holds for one operator,
target and trigger; without it the policy begins anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tidemark.models.base.operators import Operator
from tidemark.models.live.defaults import (
    CAUGHT_UP_LAGS,
    CAUGHT_UP_TRIGGERS,
    HISTORY_BATCHES,
    LAG_BATCHES,
    NO_CLOSER_TRIGGERS,
)
from tidemark.models.live.learned import Learned, checked
from tidemark.models.live.policy import Observation, Setup
from tidemark.models.live.reports import PartitionBases, observation_of
from tidemark.models.live.tidemark import Tidemark
from tidemark.models.protocol.messages import Report

_ALIKE = 2
"""Triggers that differ by no more than this factor are counted as one."""
_LAG = "lag_us"
_UNKNOWN_LAG = -1.0


class ResumablePolicy:
    """The live policy of one stream, while there is a target, and what it has learned."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self.policy: Tidemark | None = None
        """The policy for the present problem; None without a target, and while the trigger is not known."""
        self._setup: Setup | None = None
        self._earlier: Learned | None = None
        """What was learned before, while there is no policy that knows it."""
        self._anew = False
        self._resumed = False
        self._bases = PartitionBases()
        self._lag_us: dict[str, float] = {}
        """How far behind the clock the newest row of each partition usually is, in microseconds."""
        self._catch_up: RestartCatchUp | None = None

    @property
    def trigger_us(self) -> int:
        """The trigger that the policy counts by, in microseconds; 0 without a policy."""
        return 0 if self._setup is None else self._setup.trigger_us

    @property
    def partitions(self) -> tuple[str, ...]:
        """The names of the partitions, in order of their numbers."""
        return self._bases.names

    @property
    def catching_up(self) -> tuple[str, ...]:
        """The partitions that still read what came before the policy went on with what was learned."""
        return () if self._catch_up is None else self._catch_up.behind

    @property
    def begun_anew(self) -> Setup | None:
        """The problem of a policy that began without anything learned before, while it knows less than reports show."""
        young = self.policy is not None and self.policy.age_triggers < HISTORY_BATCHES
        return self._setup if self._anew and young else None

    def go_on_anew(self) -> None:
        """Let a policy that has begun anew go on as one that has not: there is nothing to resume."""
        self._anew = False

    def learned(self) -> Learned | None:
        """Return what the policy has learned, for ``resume`` in a later run; None before there was any target."""
        if self.policy is None or self._setup is None:
            return self._earlier
        names, arrays = self._bases.names, self.policy.learned()
        lag_us = np.array([self._lag_us.get(name, _UNKNOWN_LAG) for name in names])
        # A partition that has stopped is not waited for after a restart either.
        expected = arrays["missing.rows"][1 : len(names) + 1]
        lag_us[: len(expected)][expected == 0] = _UNKNOWN_LAG
        return Learned(
            operator=str(self._operator),
            target_ppm=self._setup.target_ppm,
            trigger_us=self._setup.trigger_us,
            partitions=names,
            arrays=arrays | {_LAG: lag_us},
        )

    def resume(self, learned: Learned, now_us: int, bases_us: Mapping[str, int]) -> None:
        """Go on with what was learned before, once what came meanwhile is read.

        It is given before the first batch, or to a policy that has begun anew, in place of what that one has seen.

        Raises:
            ValueError: when it was learned of another operator, target or trigger, or is not of this form. Then nothing
                is changed.
        """
        if learned.operator != str(self._operator):
            raise ValueError(f"it was learned of a {learned.operator}, and the query has a {self._operator}")
        names, arrays = learned.partitions, learned.arrays
        lag_us = checked(arrays, {_LAG: (len(names),), "missing.rows": (None,)})[_LAG]
        if len(arrays["missing.rows"]) > len(names) + 1:
            raise ValueError(f"it holds {len(arrays['missing.rows']) - 1} partitions and names {len(names)}")
        target_ppm, trigger_us = learned.target_ppm, learned.trigger_us
        setup = self._setup or Setup(operator=self._operator, trigger_us=trigger_us, target_ppm=target_ppm)
        if (target_ppm, trigger_us) != (setup.target_ppm, setup.trigger_us):
            raise ValueError("it was learned for another target or trigger")
        policy = Tidemark(setup)
        policy.resume(arrays)
        if self.policy is None:
            self._earlier, self._resumed = learned, True
        else:
            self.policy, self._anew = policy, False
        self._bases = PartitionBases(names=names)
        known = {name: lag for name, lag in zip(names, lag_us.tolist(), strict=True) if lag != _UNKNOWN_LAG}
        self._lag_us |= known
        self._catch_up = RestartCatchUp(self._lag_us, trigger_us)
        if now_us:
            self._see_caught_up(now_us, bases_us)

    def solve(self, target_ppm: int | None, latency_cap_us: int | None, trigger_us: int) -> None:
        """Have a policy for a problem: the one there is, or another one."""
        trigger_us = self._trigger_of(trigger_us)
        if target_ppm is None or not trigger_us:
            self._earlier, self.policy, self._setup, self._anew = self.learned(), None, None, False
            return
        setup = Setup(
            operator=self._operator,
            trigger_us=trigger_us,
            target_ppm=target_ppm,
            latency_cap_us=latency_cap_us,
        )
        if self.policy is None or setup != self._setup:
            earlier, self.policy, self._setup = self.learned(), Tidemark(setup), setup
            same = earlier is not None and (earlier.target_ppm, earlier.trigger_us) == (
                target_ppm,
                trigger_us,
            )
            if earlier is not None and same:
                self.policy.resume(earlier.arrays)
            self._anew = self._anew or not same

    def observe(
        self, report: Report, bases_us: Mapping[str, int], due_us: int, *, representative: bool
    ) -> None:
        """Take a batch; batches come in order, each once."""
        seen: Observation = observation_of(report, self._bases, report.late_base_ms)
        self._see_caught_up(report.started_us, bases_us)
        representative = representative and self._catch_up is None
        if representative:
            for name, base_us in bases_us.items():
                lag_us = report.started_us - base_us
                usual_us = self._lag_us.get(name, lag_us)
                self._lag_us[name] = usual_us + (lag_us - usual_us) / LAG_BATCHES
        if self.policy is not None:
            self.policy.observe(replace(seen, now_us=due_us), representative=representative)

    def _see_caught_up(self, now_us: int, bases_us: Mapping[str, int]) -> None:
        if self._catch_up is not None:
            self._catch_up.observe(now_us, bases_us)
            if not self._catch_up.behind:
                self._catch_up = None

    def _trigger_of(self, trigger_us: int) -> int:
        """Return the trigger that the policy counts by: its first one, since its ages are counted in triggers.

        That of an earlier run counts as its first one, unless this query turns out to have another.
        """
        known = self._setup or self._earlier
        if known is None:
            return trigger_us
        if self._resumed and trigger_us:
            self._resumed = False
            if not known.trigger_us <= _ALIKE * trigger_us <= _ALIKE**2 * known.trigger_us:
                self._earlier = self.policy = self._setup = None
                return trigger_us
        return known.trigger_us


class RestartCatchUp:
    """The partitions that still read what came while the job was down.

    A partition is done when its newest row is about as old as usual, or when it has come no closer for long: it may be
    silent, or slower than before.
    """

    def __init__(self, usual_lag_us: Mapping[str, float], trigger_us: int) -> None:
        self._patience_us = NO_CLOSER_TRIGGERS * trigger_us
        near_us = CAUGHT_UP_TRIGGERS * trigger_us
        self._limit_us = {name: CAUGHT_UP_LAGS * lag_us + near_us for name, lag_us in usual_lag_us.items()}
        self._closest_us: dict[str, int] = {}
        self._since_us: dict[str, int] = {}

    @property
    def behind(self) -> tuple[str, ...]:
        """The partitions that are not done, sorted."""
        return tuple(sorted(self._limit_us))

    def observe(self, now_us: int, bases_us: Mapping[str, int]) -> None:
        """Take the newest event time of each partition in a batch that was triggered at ``now_us``."""
        for name in list(self._limit_us):
            since_us = self._since_us.setdefault(name, now_us)
            lag_us = now_us - bases_us[name] if name in bases_us else None
            if lag_us is not None and lag_us < self._closest_us.get(name, lag_us + 1):
                self._closest_us[name], self._since_us[name] = lag_us, now_us
                since_us = now_us
            near = lag_us is not None and lag_us <= self._limit_us[name]
            if near or now_us - since_us > self._patience_us:
                del self._limit_us[name]
