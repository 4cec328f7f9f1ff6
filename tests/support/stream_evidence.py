"""The evidence of one stream from its reports alone: what a recommendation rests on, without a store.

It is what the controller reads from its tables, made by the same functions, so that recorded reports can be decided
anywhere as the controller decided them.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace

import numpy as np

from tidemark.models.backtest.recommended import RecentBounds
from tidemark.models.base.defaults import PACE_BATCHES
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import TimeWindow
from tidemark.models.evidence.coverage import Range
from tidemark.models.evidence.curve import Curve, Emissions
from tidemark.models.evidence.events import NO_BATCHES, LateBatches, Overdispersion
from tidemark.models.evidence.horizon import (
    STEP_COLUMNS,
    SUMMED,
    UNKNOWN,
    HorizonFacts,
    ReportFacts,
    bucket_keys_us,
    emission_steps,
    event_slot_us,
    facts_of,
    horizon_from_us,
    report_facts,
)
from tidemark.models.evidence.key_counts import key_counts
from tidemark.models.evidence.ledger import BaseTracker, judge
from tidemark.models.evidence.needs import Needs, late_base_ms, needs_against
from tidemark.models.evidence.progress import PartitionTimes, Progress
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import edge_us, merge_all, slot_of_us
from tidemark.models.protocol.messages import Report
from tidemark.models.recommend.bound_in_use import BoundInUse
from tidemark.models.recommend.inputs import Inputs
from tidemark.models.recommend.recommendation import recommend
from tidemark.models.recommend.steps import Recommendation
from tidemark.models.specs.slo import Policy, Slo

from support.progress import progress_of


@dataclass(frozen=True, slots=True)
class _Batch:
    """One batch of the horizon: its report without the counts, and what it adds."""

    query_id: str
    batch_id: int
    started_us: int
    received_us: int | None
    duration_ms: int
    windowed: bool
    bound_ms: int
    late_base_ms: int | None
    max_event_time_us: int | None
    facts: ReportFacts

    @property
    def seen_us(self) -> int:
        return self.facts.seen_us

    @property
    def first_key_us(self) -> int | None:
        return self.facts.first_key_us

    @property
    def order(self) -> tuple[int, int, str]:
        """The newest batch is the last in this order."""
        return self.seen_us, self.batch_id, self.query_id


@dataclass(slots=True)
class _SlotNeeds:
    """The needs of one slot."""

    whole: Sketch = field(default_factory=Sketch)
    """Those of all partitions."""
    by_partition: dict[str, Sketch] = field(default_factory=dict)
    """Those of each."""

    def add(self, needs: Needs) -> None:
        """Count one report's needs."""
        for partition, (need_us, count) in sorted(needs.by_partition.items()):
            self.by_partition.setdefault(partition, Sketch()).add(need_us, count)
            self.whole.add(need_us, count)


@dataclass(slots=True)
class _Query:
    """What is known of one query since its first report."""

    batch_ids: set[int] = field(default_factory=set)
    bases: BaseTracker = field(default_factory=BaseTracker)
    forgotten_max_us: int | None = None
    """Greatest event time of its batches that have left the horizon."""


class StreamEvidence:
    """Takes a stream's reports in the order in which they were received and gives the inputs of a recommendation.

    Its memory grows with the horizon, and with the windows, partitions and batches ever seen by some tens of bytes
    each. Batches of a query must come in order of their ids and triggers: unlike in the store, nothing is kept by which
    needs could be counted again.

    Args:
        slo: what is asked for; its horizon says how long a batch counts, the shortest one where it leaves that open.
        policy: what is allowed.
    """

    def __init__(self, slo: Slo, policy: Policy) -> None:
        self._slo = slo
        self._policy = policy
        self._queries: dict[str, _Query] = defaultdict(_Query)
        self._batches: list[_Batch] = []
        self._slots: dict[int, _SlotNeeds] = defaultdict(_SlotNeeds)
        self._late: dict[int, LateBatches] = {}
        """By the start of a slot of a minute."""
        self._partitions: dict[str, PartitionTimes] = {}
        self._keys_us: set[int] = set()
        self._recent = RecentBounds()
        self._in_use = BoundInUse()

    def add(self, report: Report, received_us: int | None = None) -> bool:
        """Count ``report``; return False, and change nothing, when its (query id, batch id) was counted before.

        Args:
            report: the report.
            received_us: when it was received, in microseconds; after its batch was triggered unless given.
        """
        query = self._queries[report.query_id]
        if report.batch_id in query.batch_ids:
            return False
        query.batch_ids.add(report.batch_id)
        query.bases.add(report.batch_id, report.max_event_time_us)
        earlier_ms = query.bases.late_base_ms(report.batch_id)
        earlier_us = None if earlier_ms is None else earlier_ms * SPARK_TICK_US
        pairs = key_counts(report)
        judgement = judge(report, pairs)
        needs = needs_against(report, late_base_ms(report.late_base_ms, earlier_us), pairs)
        facts = report_facts(
            report, pairs, judgement, needs, report.started_us if received_us is None else received_us
        )
        self._keys_us.update(bucket_keys_us(report.operator, judgement.keys_us).tolist())
        self._slots[slot_of_us(facts.seen_us)].add(needs)
        late = LateBatches.of_batch(Sketch().buckets_of(needs.need_us), needs.counts)
        slot_us = slot_of_us(facts.seen_us)
        self._late[slot_us] = self._late.get(slot_us, NO_BATCHES) + late
        for part in report.counts.by_partition():
            if part.granules:
                before = self._partitions.get(part.partition)
                self._partitions[part.partition] = (
                    PartitionTimes(facts.seen_us, facts.seen_us, 1)
                    if before is None
                    else before.seen_at(facts.seen_us)
                )
        self._batches.append(
            _Batch(
                query_id=report.query_id,
                batch_id=report.batch_id,
                started_us=report.started_us,
                received_us=received_us,
                duration_ms=report.duration_ms,
                windowed=isinstance(report.operator, TimeWindow),
                bound_ms=report.bound_ms,
                late_base_ms=report.late_base_ms,
                max_event_time_us=report.max_event_time_us,
                facts=facts,
            )
        )
        self._forget()
        return True

    def inputs(self, now_us: int | None = None, recent_bounds_ms: tuple[int, ...] = ()) -> Inputs | None:
        """Return what a recommendation is made from now; None without reports.

        Args:
            now_us: the wall time, by which the newest report may be old; None: it is not.
            recent_bounds_ms: what was asked for at earlier decisions, see ``Inputs``.
        """
        if not self._batches:
            return None
        newest = max(self._batches, key=lambda batch: batch.order)
        needs = self.needs()
        return Inputs(
            curve=Curve(needs, self._emissions(newest), self._overdispersion()),
            slo=self._slo,
            policy=self._policy,
            evidence=self.facts().evidence(needs),
            horizon_ms=self._slo.horizons_ms[0],
            in_use_bound_ms=newest.bound_ms,
            progress=self._progress(newest, now_us),
            recent_bounds_ms=recent_bounds_ms,
        )

    def decide(self, now_us: int | None = None) -> Recommendation | None:
        """Return the recommendation at ``now_us`` and remember what was asked for; None without reports."""
        at_us = max((batch.seen_us for batch in self._batches), default=0)
        inputs = self.inputs(now_us, self._recent.before(at_us))
        if inputs is None:
            return None
        self._in_use = self._in_use.in_batch(inputs.in_use_bound_ms, at_us)
        recommendation = recommend(replace(inputs, changes=self._in_use))
        self._recent.keep(at_us, recommendation)
        return recommendation

    def needs(self, partition: str | None = None) -> Sketch:
        """Return the needs over the horizon, of the whole stream or of one partition."""
        slots = [slot for _, slot in sorted(self._slots.items())]
        if partition is None:
            return merge_all(slot.whole for slot in slots)
        return merge_all(slot.by_partition[partition] for slot in slots if partition in slot.by_partition)

    def _overdispersion(self) -> Overdispersion:
        width_us = event_slot_us(self._slo.horizons_ms[0])
        wide: dict[int, LateBatches] = {}
        for slot_us, late in self._late.items():
            at_us = edge_us(slot_us, width_us)
            wide[at_us] = wide.get(at_us, NO_BATCHES) + late
        return Overdispersion.of(wide.values())

    def facts(self) -> HorizonFacts:
        """Return the sums over the horizon.

        Raises:
            ValueError: when there is no report.
        """
        known = [batch.facts for batch in self._batches]
        batches_of: dict[str, list[Range]] = {}
        for batch in self._batches:
            batches_of.setdefault(batch.query_id, []).append((batch.batch_id, batch.batch_id))
        return facts_of(
            {name: sum(getattr(facts, name) for facts in known) for name in SUMMED},
            batches=len(known),
            from_us=min(facts.seen_us for facts in known),
            to_us=max(facts.seen_us for facts in known),
            keys_per_row=max(facts.keys_per_row for facts in known),
            partitions=len(self._heard_of()),
            batches_of=batches_of,
        )

    def _heard_of(self) -> list[PartitionTimes]:
        """Return the partitions that had a row in the horizon."""
        from_us = self._from_us()
        return [times for times in self._partitions.values() if times.last_seen_us >= from_us]

    def _from_us(self) -> int:
        return horizon_from_us(max(batch.seen_us for batch in self._batches), self._slo.horizons_ms[0])

    def _progress(self, newest: _Batch, now_us: int | None) -> Progress:
        batches = sorted(
            (batch for batch in self._batches if batch.query_id == newest.query_id),
            key=lambda batch: batch.batch_id,
        )
        known = now_us is not None and newest.received_us is not None
        return progress_of(
            batches[-PACE_BATCHES:],
            self._heard_of(),
            silent_us=(now_us or 0) - (newest.received_us or 0) if known else None,
        )

    def _emissions(self, newest: _Batch) -> Emissions | None:
        if not newest.windowed:
            return None
        batches = sorted(
            (batch for batch in self._batches if batch.query_id == newest.query_id),
            key=lambda batch: batch.batch_id,
        )
        before_ms = late_base_ms(batches[0].late_base_ms, self._queries[newest.query_id].forgotten_max_us)
        columns = [[getattr(batch, name) for name in STEP_COLUMNS] for batch in batches]
        table = np.array(
            [[UNKNOWN if value is None else value for value in row] for row in columns], np.int64
        )
        steps = emission_steps(table, None if before_ms is None else before_ms * SPARK_TICK_US)
        keys_us = sorted(key for key in self._keys_us if steps.after_us < key <= steps.until_us)
        return steps.emissions(np.array(keys_us, np.int64))

    def _forget(self) -> None:
        """Let go of what lies before the horizon, which never goes back."""
        from_us = self._from_us()
        for batch in self._batches:
            if batch.seen_us < from_us and batch.max_event_time_us is not None:
                query = self._queries[batch.query_id]
                before = query.forgotten_max_us
                query.forgotten_max_us = max(
                    batch.max_event_time_us, batch.max_event_time_us if before is None else before
                )
        self._batches = [batch for batch in self._batches if batch.seen_us >= from_us]
        self._late = {slot_us: late for slot_us, late in self._late.items() if slot_us >= from_us}
        self._slots = defaultdict(
            _SlotNeeds, {slot: needs for slot, needs in self._slots.items() if slot >= from_us}
        )
