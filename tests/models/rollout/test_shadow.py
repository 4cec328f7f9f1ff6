"""What a shadow's bounds would have done: pairs dropped, windows closed and how long they waited."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.evidence.needs import Needs
from tidemark.models.evidence.slots import DAY_US
from tidemark.models.rollout.evidence import Judged
from tidemark.models.rollout.shadow import ClosedUntil, ShadowTally, TriedBatch, tally
from tidemark.models.specs.shadow_slo import ShadowSlo, why_not_tried
from tidemark.models.specs.slo import Slo

ENDS_US = np.arange(0, 60_000, 3_000, dtype=np.int64)


def batch(
    query_id: str, seen_us: int, base_ms: int | None, need_ms: Sequence[int], **changes: int
) -> TriedBatch:
    """A batch that ran with a bound of 5 ms, two pairs for each need."""
    watermark_ms = changes.pop("watermark_ms", 0 if base_ms is None else max(base_ms - 5, 0))
    return TriedBatch(
        query_id=query_id,
        seen_us=seen_us,
        wall_us=seen_us + 1_000,
        watermark_us=watermark_ms * 1_000,
        base_us=None if base_ms is None else base_ms * 1_000,
        backlog_us=changes.pop("backlog_us", 0),
        in_use_bound_ms=5,
        needs=Needs(
            0,
            np.array(need_ms, np.int64) * 1_000,
            np.full(len(need_ms), 2, np.int64),
            unknown_rows=changes.pop("unknown_rows", 0),
        ),
        judged=Judged(2 * len(need_ms), 1, 2),
        unjudged=3,
    )


@st.composite
def streams(draw: st.DrawFn) -> list[TriedBatch]:
    """Batches of one query after another, over midnight; a base may be unknown, and one falls when a query is new."""
    found, seen_us = [], DAY_US - draw(st.integers(0, 60_000))
    for query_id in draw(st.sampled_from(["a", "ab", "aba"])):
        base_ms = draw(st.integers(0, 20))
        for _ in range(draw(st.integers(1, 8))):
            seen_us += draw(st.integers(1, 10_000))
            base_ms += draw(st.integers(0, 6))
            known = draw(st.integers(0, 5)) > 0
            needs = draw(st.lists(st.integers(-5, 15), max_size=4))
            found.append(batch(query_id, seen_us, base_ms if known else None, needs))
    return found


def total(days: Sequence[dict[int, ShadowTally]]) -> dict[int, ShadowTally]:
    found: dict[int, ShadowTally] = {}
    for some in days:
        for start_us, added in some.items():
            found.setdefault(start_us, ShadowTally()).add(added)
    return found


@given(streams(), st.one_of(st.none(), st.integers(0, 12)), st.integers(0, 24))
def test_batches_counted_in_two_portions_add_up_to_those_counted_at_once(
    batches: list[TriedBatch], bound_ms: int | None, cut: int
) -> None:
    whole, closed = tally(batches, ENDS_US, None, bound_ms)
    first, between = tally(batches[:cut], ENDS_US, None, bound_ms)
    second, end = tally(batches[cut:], ENDS_US, between, bound_ms)
    assert total([first, second]) == whole
    assert end == closed


@given(streams(), st.integers(0, 12))
def test_each_batch_is_counted_on_its_day_and_by_the_need_of_each_pair(
    batches: list[TriedBatch], bound_ms: int
) -> None:
    days, _ = tally(batches, ENDS_US, None, bound_ms)
    for start_us, found in days.items():
        of_day = [each for each in batches if start_us <= each.seen_us < start_us + DAY_US]
        needs_us = [need for each in of_day for need in each.needs.need_us.tolist() for _ in range(2)]
        assert found.rows == found.judged_rows == len(needs_us)
        assert found.late == sum(need > bound_ms * 1_000 for need in needs_us)
        assert (found.late_min, found.late_max) == (len(of_day), 2 * len(of_day))
        assert found.unjudged_rows == 3 * len(of_day)
    assert sum(found.judged_rows for found in days.values()) == sum(each.needs.pairs for each in batches)


@given(streams(), st.integers(0, 12))
def test_each_window_is_closed_once_by_the_first_batch_whose_watermark_has_reached_its_end(
    batches: list[TriedBatch], bound_ms: int
) -> None:
    one = list(takewhile(lambda each: each.query_id == batches[0].query_id, batches))
    days, _ = tally(one, ENDS_US, None, bound_ms)
    waits = []
    for end_us in ENDS_US.tolist():
        if end_us <= one[0].watermark_us:
            continue
        closing = next(
            (each for each in one if each.base_us is not None and each.base_us - bound_ms * 1_000 >= end_us),
            None,
        )
        if closing is not None:
            waits.append(max(closing.wall_us - end_us, 0))
    assert sum(found.windows for found in days.values()) == len(waits)
    # Each batch's sum is kept in whole milliseconds.
    kept_ms = sum(found.latency_ms for found in days.values())
    assert sum(waits) // 1_000 - len(one) <= kept_ms <= sum(waits) // 1_000


@given(streams())
def test_while_nothing_is_recommended_a_shadow_closes_what_the_bound_in_use_closes(
    batches: list[TriedBatch],
) -> None:
    known = [each for each in batches if each.base_us is not None and each.base_us > 5_000]
    days, _ = tally(known, ENDS_US, None, None)
    for found in days.values():
        assert (found.windows, found.latency_ms) == (found.in_use_windows, found.in_use_latency_ms)


def test_the_backlog_of_a_new_query_is_not_counted() -> None:
    first = batch("new", 50_000, 40, [], watermark_ms=0, backlog_us=30_000)
    days, closed = tally([first], ENDS_US, ClosedUntil("old", 1_000, 1_000), 0)
    assert days[0].windows == sum(30_000 < end <= 40_000 for end in ENDS_US.tolist())
    assert closed == ClosedUntil("new", 40_000, 30_000)


def test_a_shadow_changes_the_target_and_the_caps_and_nothing_else_of_the_slo() -> None:
    slo = Slo(target_ppm=990_000, latency_cap_ms=5_000, horizon_ms=60_000, confidence_ppm=900_000)
    found = ShadowSlo(target_ppm=999_000, state_cap_rows=10).beside(slo)
    assert found == Slo(target_ppm=999_000, state_cap_rows=10, horizon_ms=60_000, confidence_ppm=900_000)


def test_nothing_is_tried_beside_a_join_or_a_goal_for_single_windows() -> None:
    slo = Slo(target_ppm=990_000)
    assert why_not_tried(slo, joined=False) is None
    assert why_not_tried(slo, joined=True) is not None
    assert why_not_tried(Slo(target_ppm=990_000, objective="timeslices"), joined=False) is not None
    assert why_not_tried(Slo(target_ppm=990_000, worst_window_ppm=0), joined=False) is not None
