"""The backtest's engine against real Spark: the same rows in the same triggers, compared batch for batch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.run import BacktestRun, run, run_native
from tidemark.models.base.operators import Operator, TimeWindow, row_level, sliding, tumbling
from tidemark.models.evidence.ledger import judge
from tidemark.models.live.policy import NO_BASE_US, Decision, Observation, Setup
from tidemark.models.protocol.messages import Report

from support.soak import with_soak
from support.spark_streams import EPOCH_US, Job, Row, random_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

OPERATORS: dict[str, Operator] = {
    "tumbling": tumbling("5 seconds"),
    "sliding": sliding("10 seconds", "4 seconds", "1 second"),
    "deduplication": row_level(),
}
SHORT, ALL = ("sliding", "deduplication"), tuple(OPERATORS)
"""Operators of `make test`, of which windows that do not overlap are a special case, and of `make soak`."""
TRIGGER_US = 1_000_000
FREE_SLOTS = 2
"""Slots without arrivals after each group: one for the no-data batch, and one that must hold none."""
LAST = Row(10**9, 0, EPOCH_US + 48 * 3_600_000_000)
"""A row so late in event time that it closes every window before it."""


@dataclass
class Compared:
    """How much was compared; a comparison of nothing proves nothing."""

    data_batches: int = 0
    no_data_batches: int = 0
    slots_without_a_batch: int = 0
    watermarks: int = 0
    moves_of_the_watermark: int = 0
    late_pairs: int = 0
    batches_with_late_pairs: int = 0
    emitted_windows: int = 0
    operators: int = 0


@dataclass
class ComparedRestarts(Compared):
    """The same, and what only restarts show."""

    restarts: int = 0
    moves_kept_over_a_restart: int = 0
    frozen_watermarks: int = 0


@dataclass(frozen=True)
class Planned:
    """Wants the bounds that the recorded query ran with: the first from the start, others after certain slots."""

    first_us: int
    changes_us: dict[int, int]
    native: bool = False

    def observe(self, seen: Observation) -> None:
        """Nothing is learned: it is all planned."""

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - the policy's signature
        slot = (now_us - EPOCH_US) // TRIGGER_US - 1
        return Decision(bound_us=self.first_us if slot < 0 else self.changes_us.get(slot))


def _groups(rng: random.Random, batches: list[list[Row]]) -> list[list[list[Row]]]:
    """Cut a stream into groups that run back to back, with an idle moment after each."""
    groups = []
    while batches:
        size = rng.choice([1, 1, 2, 3])
        groups.append(batches[:size])
        batches = batches[size:]
    return groups


def _setup(operator: Operator) -> Setup:
    return Setup(
        operator=operator, trigger_us=TRIGGER_US, target_ppm=990_000, mode="restart", restart_cost_us=0
    )


def _arrivals(setup: Setup, slots: Sequence[int], batches: Sequence[Sequence[Row]]) -> Arrivals:
    """Let the rows of each batch arrive in the slot in which Spark took them."""
    builder = ArrivalsBuilder(setup)
    for slot, rows in zip(slots, batches, strict=True):
        builder.add(
            np.array([row.event_time_us for row in rows], np.int64),
            np.full(len(rows), EPOCH_US + slot * TRIGGER_US, np.int64),
            np.array([row.partition for row in rows], np.int64),
            3,
        )
    return builder.build()


def _slots_of_reports(reports: Sequence[Report], data_slots: Sequence[int]) -> list[int]:
    """Return each batch's slot: rows in theirs, a no-data batch in the slot right after the batch before it."""
    remaining, slots = list(data_slots), list[int]()
    for report in reports:
        slots.append(remaining.pop(0) if report.rows else slots[-1] + 1)
    assert remaining == []
    return slots


def _compare(
    job: Job, found: BacktestRun, data_slots: list[int], batches: list[list[Row]], compared: Compared
) -> None:
    """Hold the backtest's batches against the query's; both ran over ``batches``, which are all of its rows."""
    reports = job.recorded.reports
    assert [report.batch_id for report in reports] == list(range(len(reports)))
    slots = _slots_of_reports(reports, data_slots)

    assert found.slot.tolist() == slots
    assert found.rows.tolist() == [report.rows for report in reports]
    assert found.bound_us.tolist() == [report.bound_ms * 1_000 for report in reports]
    assert _as_spark_has_them(found.watermark_us.tolist()) == [report.watermark_ms for report in reports]
    assert _as_spark_has_them(found.late_watermark_us.tolist()) == [
        report.late_watermark_ms for report in reports
    ]
    _compare_late(job, found, slots, batches, compared)
    if isinstance(job.operator, TimeWindow):
        _compare_emissions(job, found, batches, compared)
    compared.data_batches += sum(report.rows > 0 for report in reports)
    compared.no_data_batches += sum(report.rows == 0 for report in reports)
    compared.slots_without_a_batch += slots[-1] + 1 - len(slots)
    compared.watermarks += len(reports)
    compared.moves_of_the_watermark += len({report.watermark_ms for report in reports}) - 1


def _as_spark_has_them(marks_us: list[int]) -> list[int]:
    """Return watermarks as Spark has them: 0 before any row."""
    return [0 if mark_us == NO_BASE_US else mark_us // 1_000 for mark_us in marks_us]


def _pairs(operator: Operator, rows: Sequence[Row]) -> list[tuple[Row, int]]:
    row, key = operator.keys(np.array([each.event_time_us for each in rows], np.int64))
    return [(rows[index], end) for index, end in zip(row.tolist(), key.tolist(), strict=True)]


def _compare_late(
    job: Job, found: BacktestRun, slots: list[int], batches: list[list[Row]], compared: Compared
) -> None:
    """Late pairs of each batch: by the backtest's watermark, by the ledger, and those that the sink never got."""
    kept = {(key, identity) for output in job.output.values() for key, ids in output for identity in ids}
    last_mark_us = job.recorded.reports[-1].watermark_ms * 1_000
    remaining = list(batches)
    late_by_key: Counter[int] = Counter()
    for report, late_mark_us in zip(job.recorded.reports, found.late_watermark_us.tolist(), strict=True):
        pairs = _pairs(job.operator, remaining.pop(0)) if report.rows else []
        late = Counter(key for _, key in pairs if key <= late_mark_us)
        lost = Counter(
            key
            for row, key in pairs
            if (key if isinstance(job.operator, TimeWindow) else None, row.id) not in kept
            # What is still open has not been lost.
            and (key <= last_mark_us or not isinstance(job.operator, TimeWindow))
        )
        judged = judge(report)
        assert late == lost, f"batch {report.batch_id}"
        assert late.total() == sum(tally.late_min for tally in judged.tallies.values())
        assert late.total() == sum(tally.late_max for tally in judged.tallies.values())
        late_by_key += late
        compared.late_pairs += late.total()
        compared.batches_with_late_pairs += late.total() > 0
    assert found.late == late_by_key.total()
    every_key = sorted({key for rows in batches for _, key in _pairs(job.operator, rows)})
    assert found.late_by_key.tolist() == [late_by_key[key] for key in every_key]
    assert found.slot.tolist() == slots


def _compare_emissions(job: Job, found: BacktestRun, batches: list[list[Row]], compared: Compared) -> None:
    """The batch in which each window came out of the sink, against the batch in which the backtest closes it."""
    emitted = {key: batch for batch, output in job.output.items() for key, _ in output if key is not None}
    assert len(emitted) == sum(len(output) for output in job.output.values()), "a window is emitted once"
    every_key = sorted({key for rows in batches for _, key in _pairs(job.operator, rows)})
    batch_at = {wall_us: batch for batch, wall_us in enumerate(found.wall_us.tolist())}
    closed = {}
    for position, key in enumerate(every_key):
        somebody_was_in_time = found.rows_by_key[position] > found.late_by_key[position]
        if somebody_was_in_time and key <= found.watermark_us[-1]:
            closed[key] = batch_at[int(found.emit_wall_us[position])]
    assert closed == emitted
    compared.emitted_windows += len(closed)


def _print(capsys: pytest.CaptureFixture[str], compared: Compared) -> None:
    body = ", ".join(
        f"{getattr(compared, item.name)} {item.name.replace('_', ' ')}" for item in fields(compared)
    )
    with capsys.disabled():
        print(f"\nbacktest is Spark: compared {body}; 0 mismatches")
    assert all(getattr(compared, item.name) > 0 for item in fields(compared))


@pytest.mark.soak
def test_the_replay_equals_real_spark_on_a_recorded_run_batch_for_batch(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a backtest says of a bound is worth something only if Spark would have done just that."""
    compared = Compared()
    for number, ((kind, operator), bound_ms) in enumerate(
        zip(OPERATORS.items(), (1_500, 9_000, 4_000), strict=True)
    ):
        rng = random.Random(f"{kind} {bound_ms}")
        groups = [*_groups(rng, random_batches(number * 10 + bound_ms, 10)), [[LAST]]]
        job = _job(spark, tmp_path / kind, operator)
        job.run(f"{bound_ms} ms", groups)
        batches = [batch for group in groups for batch in group]
        data_slots, slot = list[int](), 0
        for group in groups:
            data_slots += range(slot, slot + len(group))
            slot += len(group) + FREE_SLOTS
        setup = _setup(operator)

        found = run_native(_arrivals(setup, data_slots, batches), setup, bound_ms * 1_000)

        _compare(job, found, data_slots, batches, compared)
        compared.operators += 1
    _print(capsys, compared)


@pytest.mark.long
@pytest.mark.parametrize("kinds", with_soak([SHORT, ALL], [ALL]), ids="-".join)
def test_a_replay_with_restarts_equals_a_real_query_started_again_with_other_bounds(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], kinds: tuple[str, ...]
) -> None:
    """The watermark survives a restart and the base does not.

    A move that no batch has run by yet is not lost: the commit of the batch that made it holds it. But the no-data
    batch that would have followed never comes.
    """
    compared = ComparedRestarts()
    for number, kind in enumerate(kinds):
        operator, rng = OPERATORS[kind], random.Random(f"restarts {kind}")
        batches = [*random_batches(100 + number, 11), [LAST]]
        # Narrow, much wider (the watermark stands still), narrow again.
        bounds_ms = [2_000, 3_000, 25_000, 500]
        runs = [batches[:1], batches[1:4], batches[4:8], batches[8:]]
        job = _job(spark, tmp_path / kind, operator)
        data_slots, changes, slot = list[int](), dict[int, int](), 0
        for position, (bound_ms, of_run) in enumerate(zip(bounds_ms, runs, strict=True)):
            if position == 0:
                # Stopped right after its batch, before the one that would have run by the moved watermark.
                job.run_one(f"{bound_ms} ms", of_run[0])
                groups = [of_run]
            else:
                groups = _groups(rng, of_run)
                job.run(f"{bound_ms} ms", groups)
            for group in groups:
                data_slots += range(slot, slot + len(group))
                slot += len(group) + FREE_SLOTS
            if position < len(runs) - 1:
                body = _slots_of_reports(job.recorded.reports, data_slots)
                changes[body[-1]] = bounds_ms[position + 1] * 1_000
        setup = _setup(operator)

        found = run(_arrivals(setup, data_slots, batches), setup, Planned(bounds_ms[0] * 1_000, changes))

        _compare(job, found, data_slots, batches, compared)
        assert found.bound_changes == len(runs) - 1
        reports = job.recorded.reports
        assert len({report.run_id for report in reports}) == len(runs)
        compared.operators += 1
        compared.restarts += len(runs) - 1
        compared.moves_kept_over_a_restart += (
            min(reports[0].rows, reports[1].rows) > 0 and reports[0].watermark_ms < reports[1].watermark_ms
        )
        widened = [report for report in reports if report.bound_ms == 25_000]
        compared.frozen_watermarks += sum(
            after.watermark_ms == before.watermark_ms and before.rows > 0
            for before, after in pairwise(widened)
        )
    _print(capsys, compared)


def _job(spark: SparkSession, folder: Path, operator: Operator) -> Job:
    return Job(spark, folder, operator, granule=None if isinstance(operator, TimeWindow) else "1 ms")
