"""What a policy sees of reports, against what the backtest shows it of the same batches."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tidemark.models.backtest.run import BacktestRun, run
from tidemark.models.base.operators import Int64s, Operator, RowLevel, SessionWindow, TimeWindow
from tidemark.models.live.policy import NO_BASE_US, BacktestMode, Decision, Observation, Setup
from tidemark.models.live.reports import PartitionBases, observation_of
from tidemark.models.protocol.messages import Report

from support.backtests import Row, arrivals_of, random_rows
from support.streams import report_of

MS = 1_000
SLOT = 20 * MS
OPERATORS: tuple[Operator, ...] = (
    TimeWindow(SLOT, SLOT),
    TimeWindow(2 * SLOT, 2 * SLOT, 4 * MS),
    TimeWindow(3 * SLOT, 2 * SLOT),
    SessionWindow(7 * MS),
    RowLevel(),
)
Shown = Counter[tuple[int, ...]]


class Watcher:
    """Keeps what it is shown; wants one bound."""

    native = False

    def __init__(self) -> None:
        self.shown: list[Observation] = []

    def observe(self, seen: Observation) -> None:
        self.shown.append(seen)

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - the policy's signature
        return Decision(bound_us=30 * MS)


def _cells(seen: Observation) -> Shown:
    """Return the pairs by key, event time and need; the engine may tell one cell in several counts."""
    cells: Shown = Counter()
    columns = (seen.key_us, seen.event_us, seen.need_us, seen.count)
    for *cell, count in zip(*(column.tolist() for column in columns), strict=True):
        cells[tuple(cell)] += count
    return cells


def _by_name(base_us: Int64s, names: tuple[str, ...]) -> dict[int, int]:
    return {int(name): base for name, base in zip(names, base_us.tolist(), strict=True)}


def _base_ms(report: Report) -> int | None:
    return None if report.max_event_time_us is None else report.max_event_time_us // MS


def _reports(rows: list[Row], setup: Setup, found: BacktestRun) -> list[Report]:
    """Return the run's batches as a driver would report them; a batch takes the rows of its slot."""
    by_slot: dict[int, list[Row]] = {}
    for row in rows:
        by_slot.setdefault((row[1] - rows[0][1]) // setup.trigger_us, []).append(row)
    return [
        report_of(
            [(f"{part}", event) for event, _, part in by_slot.get(slot, [])],
            setup.operator,
            late_watermark_ms=0,
            granule_us=setup.granule_us,
            batch_id=batch,
            started_us=wall_us,
        )
        for batch, (slot, wall_us) in enumerate(zip(found.slot.tolist(), found.wall_us.tolist(), strict=True))
    ]


@pytest.mark.parametrize("mode", ["restart", "live"])
def test_a_policy_is_shown_the_same_of_reports_as_in_the_backtest(mode: BacktestMode) -> None:
    """The driver's policy and the backtest's are the same code only if they look at the same numbers."""
    batches = counts = needs = 0
    for seed in range(100):
        dice = np.random.default_rng([11, seed])
        rows = random_rows(dice, int(dice.integers(1, 40)), int(dice.integers(1, 30)) * SLOT, 3 * SLOT, 3)
        setup = Setup(
            operator=OPERATORS[seed % len(OPERATORS)],
            trigger_us=SLOT,
            target_ppm=900_000,
            mode=mode,
            restart_cost_us=0,
        )
        watcher = Watcher()
        found = run(arrivals_of(rows, setup, 3), setup, watcher)
        bases = PartitionBases()
        known: list[int | None] = [None, None]
        for report, shown in zip(_reports(rows, setup, found), watcher.shown, strict=True):
            seen = observation_of(report, bases, known[-2])
            assert seen.now_us == shown.now_us
            assert _cells(seen) == _cells(shown)
            assert seen.need_us.dtype == shown.need_us.dtype
            if len(shown.base_us):
                # A partition's base is known to the granule, and never too low.
                body = _by_name(seen.base_us, bases.names)
                assert set(body) == {
                    part for part, base_us in enumerate(shown.base_us.tolist()) if base_us > NO_BASE_US
                }
                assert all(0 <= body[part] - shown.base_us[part] < setup.granule_us for part in body)
            known.append(
                max((base for base in (known[-1], _base_ms(report)) if base is not None), default=None)
            )
            batches += 1
            counts += len(seen.count)
            needs += int((seen.need_us > NO_BASE_US // 2).sum())
    assert min(batches, counts, needs) > 500, (batches, counts, needs)
