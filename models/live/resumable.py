"""The live policy of one stream over its restarts, targets and caps: it begins with what is known already.

What was learned before comes from an earlier run's checkpoint or from the stream's reports. It holds for one operator,
target and trigger; without it the policy begins anew.

A job must not depend on its policy. Whatever that raises, also for what it learned earlier, it is replaced by one that
begins anew; what it had learned is put aside, and until the new one knows enough the bound decides (``fast``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np

from tidemark.models.base.operators import Operator
from tidemark.models.live.defaults import HISTORY_BATCHES
from tidemark.models.live.learned import Learned, checked
from tidemark.models.live.policy import Observation, Setup
from tidemark.models.live.reports import PartitionBases, observation_of
from tidemark.models.live.tidemark import Tidemark
from tidemark.models.protocol.messages import Report

_ALIKE = 2
"""Triggers that differ by no more than this factor are counted as one."""


def in_words(error: Exception) -> str:
    """Return an error as a part of a sentence."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


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
        self.error: Exception | None = None
        """What a policy raised, until the one after it knows enough to decide; None while the policy decides."""
        self.unusable: Learned | None = None
        """What it had learned, for whoever looks for the reason; None once that was taken."""

    @property
    def failure(self) -> str | None:
        """The error as a sentence, with what holds instead."""
        if self.error is None:
            return None
        return f"the live policy failed and learns anew, so the bound decides: {in_words(self.error)}"

    def take_unusable(self) -> Learned | None:
        """Return what a policy that raised had learned, once."""
        unusable, self.unusable = self.unusable, None
        return unusable

    @contextmanager
    def failing_open(self) -> Iterator[None]:
        """Begin anew if the policy raises in this context, or meets numbers with which it cannot count."""
        try:
            with np.errstate(divide="raise", over="raise", invalid="raise"):
                yield
        except Exception as error:  # noqa: BLE001 - whatever it is, the bound decides
            if self.error is None:
                # Of one that fails again and again only the first has learned much.
                with suppress(Exception):
                    self.unusable = self.learned()
            self.error, self.policy, self._setup, self._earlier = error, None, None, None
            self._anew, self._bases = False, PartitionBases()

    @property
    def trigger_us(self) -> int:
        """The trigger that the policy counts by, in microseconds; 0 without a policy."""
        return 0 if self._setup is None else self._setup.trigger_us

    @property
    def partitions(self) -> tuple[str, ...]:
        """The names of the partitions, in order of their numbers."""
        return self._bases.names

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
        return Learned(
            operator=str(self._operator),
            target_ppm=self._setup.target_ppm,
            trigger_us=self._setup.trigger_us,
            partitions=self._bases.names,
            arrays=self.policy.learned(),
        )

    def resume(self, learned: Learned) -> None:
        """Go on with what was learned before.

        It is given before the first batch, or to a policy that has begun anew, in place of what that one has seen.

        Raises:
            ValueError: when it was learned of another operator, target or trigger, or is not of this form. Then nothing
                is changed. What is broken on purpose may raise anything else.
        """
        if learned.operator != str(self._operator):
            raise ValueError(f"it was learned of a {learned.operator}, and the query has a {self._operator}")
        names, arrays = learned.partitions, learned.arrays
        count = len(checked(arrays, {"missing.rows": (None,)})["missing.rows"]) - 1
        if count > len(names):
            raise ValueError(f"it holds {count} partitions and names {len(names)}")
        target_ppm, trigger_us = learned.target_ppm, learned.trigger_us
        setup = self._setup or Setup(operator=self._operator, trigger_us=trigger_us, target_ppm=target_ppm)
        if (target_ppm, trigger_us) != (setup.target_ppm, setup.trigger_us):
            raise ValueError("it was learned for another target or trigger")
        policy = Tidemark(setup)
        with np.errstate(over="raise", invalid="raise"):
            policy.resume(arrays)
        if self.policy is None:
            self._earlier, self._resumed = learned, True
        else:
            self.policy, self._anew = policy, False
        self._bases = PartitionBases(names=names)

    def solve(self, target_ppm: int | None, latency_cap_us: int | None, trigger_us: int) -> None:
        """Have a policy for a problem: the one there is, or another one."""
        trigger_us = self._trigger_of(trigger_us)
        if target_ppm is None:
            self.error = None  # the bound decides anyway
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
            # After an error nothing that was learned before is trusted, and so reports are not read either.
            self._anew = (self._anew or not same) and self.error is None

    def observe(self, report: Report, due_us: int, *, representative: bool) -> None:
        """Take a batch; batches come in order, each once."""
        seen: Observation = observation_of(report, self._bases, report.late_base_ms)
        if self.policy is not None:
            self.policy.observe(replace(seen, now_us=due_us), representative=representative)

    def _trigger_of(self, trigger_us: int) -> int:
        """Return the trigger that the policy counts by: its first one, since its ages are counted in triggers.

        That of an earlier run counts as its first one, unless this query turns out to have another.
        """
        first = self._setup or self._earlier
        if first is None:
            return trigger_us
        if self._resumed and trigger_us:
            self._resumed = False
            if not first.trigger_us <= _ALIKE * trigger_us <= _ALIKE**2 * first.trigger_us:
                self._earlier = self.policy = self._setup = None
                return trigger_us
        return first.trigger_us
