"""The controller's own recommendation as a policy: ``recommend`` over the needs of a horizon, at each batch.

It is for jobs that take a new bound by a restart. The sketches of needs, their time slots, the inputs and the steps
are those of the controller, so that the backtest of this policy is a backtest of the controller.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from tidemark.models.backtest.bounds import KNOWN_ABOVE_US
from tidemark.models.base.defaults import NARROW_STABILISATION_MS, PACE_BATCHES
from tidemark.models.evidence.completeness import EvidenceCounts
from tidemark.models.evidence.curve import Curve
from tidemark.models.evidence.events import NO_BATCHES, LateBatches, Overdispersion
from tidemark.models.evidence.horizon import (
    UNKNOWN,
    event_slot_us,
    horizon_from_us,
    shortest_enough,
)
from tidemark.models.evidence.progress import PartitionTimes, progress_of_table
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import SlidingNeeds, edge_us, slot_of_us
from tidemark.models.live.policy import Decision, Observation, Setup
from tidemark.models.recommend.bound_in_use import BoundInUse
from tidemark.models.recommend.inputs import Inputs
from tidemark.models.recommend.recommendation import recommend
from tidemark.models.recommend.steps import DecisionStep, Recommendation
from tidemark.models.specs.slo import Policy, Slo


@dataclass(slots=True)
class _Slot:
    """The batches of one time slot."""

    start_us: int
    first_us: int
    batches: int = 0
    late: LateBatches = NO_BATCHES
    needs: Sketch = field(default_factory=Sketch)


class _Reach:
    """The batches within one horizon."""

    def __init__(self, horizon_ms: int) -> None:
        self.horizon_ms = horizon_ms
        self.slots: deque[_Slot] = deque()
        self._late: dict[int, LateBatches] = {}
        """By the start of an hour or a day."""

    def add(self, slot: _Slot, late: LateBatches) -> None:
        """Count a batch of ``slot``, the newest one."""
        if not self.slots or self.slots[-1] is not slot:
            self.slots.append(slot)
        self._count(slot.start_us, late)

    def forget_before(self, from_us: int) -> None:
        """Drop the slots before ``from_us``."""
        while self.slots[0].start_us < from_us:
            gone = self.slots.popleft()
            self._count(gone.start_us, NO_BATCHES - gone.late)

    def _count(self, at_us: int, late: LateBatches) -> None:
        wide_us = edge_us(at_us, event_slot_us(self.horizon_ms))
        self._late[wide_us] = self._late.get(wide_us, NO_BATCHES) + late
        if not self._late[wide_us].late[0]:
            del self._late[wide_us]

    def overdispersion(self) -> Overdispersion:
        """Return how unevenly late rows came."""
        return Overdispersion.of(self._late.values())


class RecommendedPolicy:
    """Decides what the controller would recommend to a job that runs with what was decided before.

    Its memory grows with the longest horizon only: some sketches for each minute of it with a batch.

    Args:
        setup: gives the target and the scope.
        slo: the SLO; by default the setup's target and horizon with the defaults of an SLO.
        policy: the policy of the stream; by default the default one.
        own_bound_us: the job's own bound, which is the decision while there is no evidence.
    """

    native = False

    def __init__(
        self,
        setup: Setup,
        slo: Slo | None = None,
        policy: Policy | None = None,
        own_bound_us: int | None = None,
    ) -> None:
        self._slo = slo or Slo(target_ppm=setup.target_ppm, horizon_ms=setup.horizon_ms)
        self._policy = Policy() if policy is None else policy
        self._own_bound_ms = None if own_bound_us is None else -(-own_bound_us // 1_000)
        self._in_use_ms: int | None = None
        self._events_needed = self._slo.events_needed
        self._reaches = [_Reach(horizon_ms) for horizon_ms in self._slo.horizons_ms]
        self._reach = self._reaches[0]
        """That of the horizon which is decided over."""
        self._needs = SlidingNeeds()
        """Its needs."""
        self._batches: deque[tuple[int, int, int, int]] = deque(maxlen=PACE_BATCHES)
        """``PACE_COLUMNS`` of the newest batches."""
        self._partitions: dict[int, PartitionTimes] = {}
        self._recent = RecentBounds()
        self._in_use = BoundInUse()
        self._recommendation: Recommendation | None = None

    @property
    def recommendation(self) -> Recommendation | None:
        """The newest recommendation with its reasons; None before the first."""
        return self._recommendation

    def explain(self) -> tuple[DecisionStep, ...]:
        """Return the steps of the newest recommendation."""
        return () if self._recommendation is None else self._recommendation.steps

    def observe(self, seen: Observation) -> None:
        """Observe a batch."""
        slot = self._slot_at(seen.now_us)
        slot.batches += 1
        late = NO_BATCHES
        newest_us = int(seen.base_us.max()) if len(seen.partition) else UNKNOWN
        self._batches.append((seen.now_us, 0, UNKNOWN, newest_us))
        has_need = seen.need_us > KNOWN_ABOVE_US
        if has_need.any():
            need_us, count = seen.need_us[has_need], seen.count[has_need]
            late = LateBatches.of_batch(Sketch().buckets_of(need_us), count)
            slot.late += late
            self._needs.add(need_us, count)
        for partition in np.unique(seen.partition).tolist():
            before = self._partitions.get(partition, PartitionTimes(seen.now_us, seen.now_us, batches=0))
            self._partitions[partition] = before.seen_at(seen.now_us)
        for reach in self._reaches:
            reach.add(slot, late)
            reach.forget_before(horizon_from_us(seen.now_us, reach.horizon_ms))

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - the policy's signature
        """Return the recommended bound, or the bound in use without one."""
        recommended_bound_ms = self._recommend(now_us)
        if recommended_bound_ms is not None:
            self._in_use_ms = recommended_bound_ms
        elif self._in_use_ms is None:
            self._in_use_ms = self._own_bound_ms
        return Decision(bound_us=None if self._in_use_ms is None else self._in_use_ms * 1_000)

    def _recommend(self, now_us: int) -> int | None:
        if not self._batches:
            return None
        newest_us = self._batches[-1][0]
        overdispersion = self._choose_horizon()
        from_us = horizon_from_us(newest_us, self._reach.horizon_ms)
        self._needs.forget_before(from_us)
        needs = self._needs.merged()
        slots = self._reach.slots
        self._in_use = self._in_use.in_batch(self._in_use_ms, newest_us)
        present = [times for times in self._partitions.values() if times.last_seen_us >= from_us]
        batches = [batch for batch in self._batches if batch[0] >= from_us]
        self._recommendation = recommend(
            Inputs(
                curve=Curve(needs, None, overdispersion),
                slo=self._slo,
                policy=self._policy,
                evidence=EvidenceCounts(
                    rows=round(needs.weight),
                    unknown_rows=0,
                    missing_batches=0,
                    batches=sum(slot.batches for slot in slots),
                    partitions=len(present),
                    from_us=slots[0].first_us,
                    to_us=newest_us,
                ),
                horizon_ms=self._reach.horizon_ms,
                in_use_bound_ms=self._in_use_ms,
                progress=progress_of_table(
                    np.array(batches, np.int64), present, silent_us=now_us - newest_us
                ),
                recent_bounds_ms=self._recent.before(newest_us),
                changes=self._in_use,
            )
        )
        self._recent.keep(newest_us, self._recommendation)
        return self._recommendation.bound_ms

    def _slot_at(self, now_us: int) -> _Slot:
        """Return the slot of a batch, which is the newest one."""
        slots, slot_us = self._reach.slots, slot_of_us(now_us)
        if slots and slots[-1].start_us >= slot_us:
            return slots[-1]
        slot = _Slot(slot_us, now_us)
        self._needs.append(slot_us, slot.needs)
        return slot

    def _choose_horizon(self) -> Overdispersion:
        """Choose the horizon by its independent events; return how unevenly late rows came over it."""
        measured = ((reach, reach.overdispersion()) for reach in self._reaches)
        reach, overdispersion = shortest_enough(
            ((pair, pair[1].events(self._slo.target_ppm)) for pair in measured), self._events_needed
        )
        if reach is not self._reach:
            self._reach, self._needs = reach, SlidingNeeds()
            for slot in reach.slots:
                self._needs.append(slot.start_us, slot.needs)
        return overdispersion


_SPAN_US = NARROW_STABILISATION_MS * 1_000


class RecentBounds:
    """The bounds required under one SLO, in the time of the stream's own batches.

    A decision on the same newest batch is not an earlier one, so that deciding again gives the same result.
    """

    def __init__(self) -> None:
        self._required: dict[int, int] = {}

    def before(self, at_us: int) -> tuple[int, ...]:
        """Return the bounds required before the batch of ``at_us``, as far back as they count, in milliseconds."""
        return tuple(
            bound_ms
            for when_us, bound_ms in sorted(self._required.items())
            if at_us - _SPAN_US <= when_us < at_us
        )

    def keep(self, at_us: int, recommendation: Recommendation) -> None:
        """Remember the bound required by the batches up to ``at_us``, and forget those that no longer count."""
        if recommendation.required_ms is not None:
            self._required = {
                when: bound for when, bound in self._required.items() if when >= at_us - _SPAN_US
            }
            self._required[at_us] = recommendation.required_ms
