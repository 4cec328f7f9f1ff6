"""The horizon: which batches of a stream count, what they add up to, and by which bases they emit.

A horizon ends with the newest batch and not with the clock, so that the same reports always give the same result: a
stream that has fallen silent keeps its evidence. It begins on the edge of a time slot, so that needs and facts are
counted over the same batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TypeVar

import numpy as np

from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s, Operator, TimeWindow
from tidemark.models.evidence.completeness import EvidenceCounts, LedgerCompleteness
from tidemark.models.evidence.coverage import Coverage, Range, coverage_of
from tidemark.models.evidence.curve import Emissions, NeedDistribution
from tidemark.models.evidence.key_counts import KeyCounts
from tidemark.models.evidence.ledger import Judgement
from tidemark.models.evidence.needs import Needs
from tidemark.models.evidence.slots import DAY_US, HOUR_US, SLOT_US, edge_us
from tidemark.models.protocol.messages import Report

T = TypeVar("T")

_KEY_BUCKET_US = 60_000_000
"""Width of the buckets for row-level and session keys, which are all different, in microseconds."""

LONGEST_BY_MINUTE_MS = 2 * 86_400_000
"""Longest horizon that begins on the edge of a minute, in milliseconds; a longer one begins on that of an hour."""

NO_BASE = -(2**62)
"""Base before any row, in microseconds: it emits nothing."""


def horizon_from_us(newest_us: int, horizon_ms: int) -> int:
    """Return where a horizon of ``horizon_ms`` begins when the newest batch was seen at ``newest_us``.

    Needs of the last two days are kept by the minute, older ones by the hour; so this is always the edge of a slot,
    however much has been rolled up already.
    """
    width_us = SLOT_US if horizon_ms <= LONGEST_BY_MINUTE_MS else HOUR_US
    return edge_us(newest_us - horizon_ms * 1_000, width_us)


def event_slot_us(horizon_ms: int) -> int:
    """Return the width of the slots of a horizon over which the overdispersion of late rows is taken."""
    return HOUR_US if horizon_ms <= LONGEST_BY_MINUTE_MS else DAY_US


def shortest_enough(horizons: Iterable[tuple[T, float]], enough: int) -> T:
    """Return what was found over the shortest horizon with enough events; without one, the shortest with most of them.

    Args:
        horizons: what was found over each horizon, with its independent events, the shortest first, at least one; not
            read further than needed.
        enough: how many events are needed.
    """
    best: tuple[T, float] | None = None
    for horizon in horizons:
        if best is None or horizon[1] > best[1]:
            best = horizon
        if best[1] >= enough:
            break
    assert best is not None, "there is at least one horizon"
    return best[0]


def bucket_keys_us(operator: Operator, keys_us: Int64s) -> Int64s:
    """Return the keys to keep: a window's end as it is, any other key as the end of its minute ``(..., end]``."""
    if isinstance(operator, TimeWindow):
        return keys_us
    return -(-keys_us // _KEY_BUCKET_US) * _KEY_BUCKET_US


def key_span_us(operator: Operator) -> int:
    """Return the event time that a kept key stands for: a window's length, else that of its bucket."""
    return operator.size_us if isinstance(operator, TimeWindow) else _KEY_BUCKET_US


@dataclass(frozen=True, slots=True, kw_only=True)
class SummedFacts:
    """What is counted of batches; each field adds up over a horizon."""

    rows: int
    uncounted_rows: int
    pairs: int
    late_min: int
    late_max: int
    corrected_min: int
    """Late pairs that certainly counted in a later version of their window."""
    corrected_max: int
    unjudged_rows: int
    need_pairs: int
    need_unknown_rows: int
    early_rows: int
    """Rows that arrived before the filter had a watermark: admitted under any bound, so without a need."""
    future_rows: int
    misdated_rows: int
    """Rows whose event time no delay explains."""
    misdated_late: int
    """(Row, key) pairs of them that were certainly late, and those that a watermark of wrong clocks dropped."""
    excessive_rows: int = 0
    """Rows of an excessive batch (``set_aside``)."""
    replayed_rows: int = 0
    """Rows of a replayed batch."""


SUMMED = tuple(field.name for field in fields(SummedFacts))
"""What adds up over a horizon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFacts(SummedFacts):
    """What one report adds to a horizon."""

    seen_us: int
    """Trigger time of the batch by the controller's clock, at most the time at which its report was received."""
    keys_per_row: int
    """Maximum number of keys of one row: more than 1 for sliding windows."""
    first_key_us: int | None
    """Lowest key of its judged pairs; None without any."""
    misdated_pairs: int
    """(Row, key) pairs that no bound is judged by, as in ``Needs``."""


def report_facts(
    report: Report, pairs: KeyCounts, judgement: Judgement, needs: Needs, seen_us: int
) -> ReportFacts:
    """Return what ``report`` of a batch that was seen at ``seen_us`` adds, counted, judged and with its needs."""
    total = judgement.total
    return ReportFacts(
        seen_us=seen_us,
        keys_per_row=report.operator.max_keys,
        first_key_us=judgement.first_key_us,
        rows=report.rows,
        uncounted_rows=pairs.uncounted_rows,
        pairs=total.rows,
        late_min=total.late_min,
        late_max=total.late_max,
        corrected_min=judgement.corrected_min,
        corrected_max=judgement.corrected_max,
        unjudged_rows=judgement.unjudged_rows,
        need_pairs=needs.pairs,
        need_unknown_rows=needs.unknown_rows,
        early_rows=needs.early_rows,
        future_rows=sum(report.counts.future_rows),
        misdated_rows=needs.misdated_rows,
        misdated_late=needs.misdated_late,
        misdated_pairs=needs.misdated_pairs,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonFacts(SummedFacts):
    """Sums over a horizon."""

    batches: int
    from_us: int
    """Trigger time of the first batch, in microseconds."""
    to_us: int
    """Trigger time of the newest batch, in microseconds."""
    partitions: int
    completeness: LedgerCompleteness
    """What the ledger counted of the pairs that arrived."""
    coverage: dict[str, Coverage]
    """By query id, which batches were reported."""

    @property
    def missing_batches(self) -> int:
        """Batches that were never reported."""
        return self.completeness.missing_batches

    def evidence(self, needs: NeedDistribution) -> EvidenceCounts:
        """Return the evidence that a recommendation from these facts and ``needs`` rests on."""
        return EvidenceCounts(
            rows=round(needs.weight),
            # A count that cannot be stands for no more than its one batch.
            unknown_rows=self.need_unknown_rows - self.excessive_rows,
            missing_batches=self.missing_batches,
            batches=self.batches,
            partitions=self.partitions,
            from_us=self.from_us,
            to_us=self.to_us,
            replayed_rows=self.replayed_rows,
        )


def facts_of(
    sums: Mapping[str, int],
    *,
    batches: int,
    from_us: int,
    to_us: int,
    keys_per_row: int,
    partitions: int,
    batches_of: Mapping[str, Iterable[Range]],
) -> HorizonFacts:
    """Return the facts of a horizon."""
    coverage = {
        query: covered
        for query, ranges in sorted(batches_of.items())
        if (covered := coverage_of(ranges)) is not None
    }
    return HorizonFacts(
        **sums,
        batches=batches,
        from_us=from_us,
        to_us=to_us,
        partitions=partitions,
        completeness=LedgerCompleteness(
            sums["pairs"],
            sums["late_min"],
            sums["late_max"],
            sums["unjudged_rows"],
            sum(query.missing_batches for query in coverage.values()),
            keys_per_row,
            sums["corrected_min"],
            sums["corrected_max"],
        ),
        coverage=coverage,
    )


STEP_COLUMNS = ("started_us", "duration_ms", "late_base_ms", "max_event_time_us", "first_key_us")
"""The columns of a batch that emission depends on, in this order; the store's rows of reports have them."""

_STARTED, _DURATION, _REPORTED, _MAXIMUM, _FIRST_KEY = range(len(STEP_COLUMNS))

UNKNOWN = -(2**62)
"""Represents an unknown value in a table of integers: further from 0 than any time or base."""


@dataclass(frozen=True, slots=True)
class EmissionSteps:
    """The base by which each batch of a query emits, and when."""

    after_us: int
    """Windows that ended at or before this were emitted before the first batch, under any bound."""
    emit_base_us: Int64s
    """Base by which each batch emits, non-decreasing, shape (batches,)."""
    wall_us: Int64s
    """Wall time at the end of each batch, shape (batches,)."""

    @property
    def until_us(self) -> int:
        """Windows that end later are not emitted by the last batch, under any bound."""
        return int(self.emit_base_us[-1])

    def emissions(self, ends_us: Int64s) -> Emissions:
        """Return when the windows that end at ``ends_us``, ascending and in (after, until], would have been emitted."""
        return Emissions(ends_us, self.emit_base_us, self.wall_us)


def emission_steps(batches: Int64s, before_us: int | None) -> EmissionSteps:
    """Return the steps by which the batches of one query emit.

    Batch n emits by the base of the batches before it, at the end of the batch. Windows that ended before the first
    batch's base were emitted before the horizon, and windows that end after the last one's are not emitted within it,
    under any bound: both are left out, since they do not distinguish bounds.

    Args:
        batches: ``STEP_COLUMNS`` of the batches in the order of their ids, ``UNKNOWN`` where something is not known,
            shape (batches, 5), at least one.
        before_us: the base of the query's batches before the first, in microseconds; None when none is known.
    """
    base_us = step_bases_us(batches, NO_BASE)
    return steps_of(base_us, wall_us_of(batches), before_us, QueryStart.of(batches))


def step_bases_us(batches: Int64s, before_us: int) -> Int64s:
    """Return the base that each batch of a query adds for its own emission, shape (batches,).

    Args:
        batches: as in ``emission_steps``.
        before_us: the maximum event time of the batch before the first, in microseconds; ``NO_BASE`` for none.
    """
    reported_ms = batches[:, _REPORTED]
    reported_us = np.where(reported_ms == UNKNOWN, NO_BASE, reported_ms * SPARK_TICK_US)
    return np.maximum(reported_us, np.r_[before_us, seen_us_of(batches)[:-1]])


def seen_us_of(batches: Int64s) -> Int64s:
    """Return the maximum event time that each batch saw, as Spark knows it; ``NO_BASE`` without rows."""
    max_us = batches[:, _MAXIMUM]
    maximum_us: Int64s = np.where(max_us == UNKNOWN, NO_BASE, max_us // SPARK_TICK_US * SPARK_TICK_US)
    return maximum_us


def wall_us_of(batches: Int64s) -> Int64s:
    """Return when each batch ended."""
    return batches[:, _STARTED] + batches[:, _DURATION] * 1_000


@dataclass(frozen=True, slots=True)
class QueryStart:
    """Where the backlog of a query ends that started with the first of some batches.

    Windows that ended before are a backlog: no bound could have closed them sooner.
    """

    started_us: int
    """Trigger time of the first batch."""
    first_key_us: int
    """Lowest key of all batches; ``NO_BASE`` without any."""

    @classmethod
    def of(cls, batches: Int64s) -> QueryStart:
        """Return it for batches as in ``emission_steps``."""
        keys = batches[:, _FIRST_KEY]
        numbers = keys[keys != UNKNOWN]
        return cls(int(batches[0, _STARTED]), int(numbers.min()) if len(numbers) else NO_BASE)

    def with_more(self, batches: Int64s) -> QueryStart:
        """Return it with more batches after the first ones."""
        keys = [key for key in (self.first_key_us, QueryStart.of(batches).first_key_us) if key != NO_BASE]
        return QueryStart(self.started_us, min(keys, default=NO_BASE))

    @property
    def backlog_us(self) -> int:
        """Windows that end at or before this are a backlog."""
        return max(self.first_key_us - 1, self.started_us)


def steps_of(base_us: Int64s, wall_us: Int64s, before_us: int | None, start: QueryStart) -> EmissionSteps:
    """Return the steps of batches.

    Args:
        base_us: what ``step_bases_us`` returns, shape (batches,).
        wall_us: when each batch ended, shape (batches,).
        before_us: as in ``emission_steps``.
        start: how the query started, which counts while ``before_us`` is None.
    """
    after_us = start.backlog_us if before_us is None else before_us
    emit_base_us = np.maximum.accumulate(base_us)
    if before_us is not None:
        np.maximum(emit_base_us, before_us, out=emit_base_us)  # a day has some 30,000 batches
    return EmissionSteps(after_us, emit_base_us, wall_us)
