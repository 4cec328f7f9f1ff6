"""The evidence that narrowing waits for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tidemark.models.rollout.evidence import EvidenceSpan, covered_us, evidence_span

from support.rollouts import HOUR_US, NOW_US, policy

SECOND_US = 1_000_000


def watched(*parts: tuple[int, float], every_s: int = 1) -> tuple[Any, Any]:
    """Return when batches ran and their bases: for each part how many seconds it took and how fast event time went."""
    seen_us, base_us = [NOW_US], [NOW_US - HOUR_US]
    for seconds, pace in parts:
        for _ in range(seconds // every_s):
            seen_us.append(seen_us[-1] + every_s * SECOND_US)
            base_us.append(base_us[-1] + round(every_s * pace * SECOND_US))
    return np.array(seen_us, np.int64), np.array(base_us, np.int64)


def test_a_stream_that_keeps_up_covers_the_time_it_was_observed() -> None:
    assert covered_us(*watched((3_600, 1.0))) == HOUR_US
    assert covered_us(*watched((7_200, 1.0), every_s=300)) == 2 * HOUR_US


@pytest.mark.parametrize(
    ("parts", "max_s"),
    [
        (((120, 300.0),), 120),
        (((3_600, 0.1),), 360),
        # Ten hours replayed in two minutes, and then nothing for an hour.
        (((120, 300.0), (3_600, 0.0)), 180),
    ],
)
def test_a_replay_and_a_stall_cover_no_more_than_the_slower_clock(
    parts: tuple[tuple[int, float], ...], max_s: int
) -> None:
    assert covered_us(*watched(*parts)) <= max_s * SECOND_US


def test_two_batches_cover_the_time_between_them() -> None:
    assert covered_us(*watched((1, 1.0))) == SECOND_US


def test_clocks_are_compared_by_the_minute_in_which_fast_and_slow_seconds_even_out() -> None:
    """The last batch of each minute counts, and the very first: that at 10 min is alone in its minute, and slow."""
    assert covered_us(*watched(*[(30, 2.0), (30, 0.0)] * 10)) == 599 * SECOND_US


@pytest.mark.parametrize("pause_us", [180 * SECOND_US, HOUR_US])
def test_neither_a_pause_nor_the_catch_up_after_it_counts(pause_us: int) -> None:
    seen_us, base_us = watched((600, 1.0), (600, 1.0))
    seen_us[601:] += pause_us
    base_us[601:] += pause_us
    assert 1_000 * SECOND_US < covered_us(seen_us, base_us) <= 1_200 * SECOND_US


def test_no_batch_and_one_batch_cover_nothing() -> None:
    seen_us, base_us = watched((0, 1.0))
    assert covered_us(seen_us[:0], base_us[:0]) == covered_us(seen_us, base_us) == 0


@pytest.mark.parametrize(
    ("changes", "span_s", "horizon_h", "needed_s", "why"),
    [
        ({}, 10, 24, 36_000, ""),
        ({}, 600, 24, 60_000, " (100 windows)"),
        ({}, 0, 24, 36_000, ""),
        ({"evidence_ms": 0}, 10, 24, 1_000, " (100 windows)"),
        ({}, 3_600, 24, 69_120, " (most of the horizon of 1 d)"),
    ],
)
def test_the_required_evidence_is_the_longer_of_time_and_windows_within_the_horizon(
    changes: dict[str, int], span_s: int, horizon_h: int, needed_s: int, why: str
) -> None:
    seen_us, base_us = watched((300, 1.0))
    found = evidence_span(policy(**changes), span_s * SECOND_US, horizon_h * 3_600_000, seen_us, base_us)
    assert found == EvidenceSpan(
        covered_us=300 * SECOND_US,
        needed_us=needed_s * SECOND_US,
        reached_us=NOW_US + needed_s * SECOND_US,
        why=why,
    )


def test_a_horizon_that_does_not_hold_the_required_time_never_has_enough() -> None:
    """What it cannot cover is for a person to accept, not for a cap; only windows are too many sooner."""
    found = evidence_span(policy(), 3_600 * SECOND_US, 8 * 3_600_000, *watched((300, 1.0)))
    assert found is not None
    assert (found.needed_us, found.reached_us, found.why) == (10 * HOUR_US, None, "")


def test_evidence_can_be_switched_off() -> None:
    off = policy(evidence_ms=0, evidence_windows=0)
    assert evidence_span(off, SECOND_US, 1, *watched((1, 1.0))) is None
