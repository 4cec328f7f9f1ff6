"""What follows for a stream from its partitions, against the same said in another way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidemark.controller.base.db.tables import ReportRow
from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.reports.partitions import FutureRows, MisdatedRows, Skew
from tidemark.controller.view.state.partition_rows import (
    PartitionFacts,
    future_rows_among,
    misdated_rows_among,
    present_in,
    skew_among,
)
from tidemark.models.evidence.slots import SLOT_US

NEWEST_US = 100 * SLOT_US
HORIZON = Horizon(1, 10 * SLOT_US // 1_000, ReportRow(seen_us=NEWEST_US))
SEEN = st.integers(80 * SLOT_US, NEWEST_US)


@st.composite
def stored(draw: st.DrawFn) -> list[PartitionFacts]:
    names = sorted(draw(st.sets(st.text("abc", min_size=1, max_size=3), max_size=8)))
    found = []
    for name in names:
        first_us, last_us = sorted((draw(SEEN), draw(SEEN)))
        found.append(
            PartitionFacts(
                partition=name,
                first_seen_us=first_us,
                last_seen_us=last_us,
                batches=draw(st.integers(1, 200)),
                behind_us=draw(st.none() | st.integers(0, 3)),
                last_future_us=draw(st.none() | SEEN),
                last_misdated_us=(misdated_us := draw(st.none() | SEEN)),
                misdated_event_us=None if misdated_us is None else 0,
                skewed=False,
                costs_ms=None,
                without_bound_ms=None,
            )
        )
    return found


@given(stored(), st.none() | st.integers(1, SLOT_US))
def test_the_furthest_behind_that_is_not_silent_is_the_skew(
    partitions: list[PartitionFacts], gap_us: int | None
) -> None:
    known = [each for each in partitions if each.behind_us is not None]
    speaking = [
        (-(each.behind_us or 0), each.partition)
        for each in known
        if each.last_seen_us >= HORIZON.from_us and (gap_us is None or not each.silent_at(NEWEST_US, gap_us))
    ]
    wanted = Skew(min(speaking)[1], -min(speaking)[0]) if speaking else None
    assert skew_among(partitions, HORIZON, gap_us) == wanted


@given(stored())
def test_only_what_came_within_the_horizon_counts(partitions: list[PartitionFacts]) -> None:
    from_us = HORIZON.from_us
    assert present_in(partitions, HORIZON) == [each for each in partitions if each.last_seen_us >= from_us]
    names = tuple(each.partition for each in partitions if (each.last_future_us or 0) >= from_us)
    assert future_rows_among(partitions, HORIZON, 5) == FutureRows(5, names)
    assert future_rows_among(partitions, HORIZON, 0) == FutureRows(0, ())
    misdated = tuple(each.partition for each in partitions if (each.last_misdated_us or 0) >= from_us)
    found = misdated_rows_among(partitions, HORIZON, 5)
    assert (found.rows, found.partitions, bool(found.explained)) == (5, misdated, bool(misdated))
    assert misdated_rows_among(partitions, HORIZON, 0) == MisdatedRows(0, (), ())
